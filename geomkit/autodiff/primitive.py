"""A primitive: a forward function, the adjoint that belongs to it, and what is differentiable about the two."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["Primitive", "primitive"]


class Primitive:
    """A public function together with its adjoint.

    Calling it runs the forward function. `adjoint(...)` takes the same inputs, then cotangents by name (`adj_` and the
    output's name), and returns a record of gradients named after the differentiable inputs.

    Attributes:
        differentiable: inputs that gradients reach.
        outputs: outputs that carry gradients.
        discrete: outputs that carry none, because they are integers or signs.
    """

    registry: dict[str, Primitive] = {}
    __name__: str

    def __init__(
        self, forward: Callable, differentiable: tuple[str, ...], outputs: tuple[str, ...], discrete: tuple[str, ...]
    ):
        functools.update_wrapper(self, forward)
        self.forward = forward
        self.differentiable, self.outputs, self.discrete = differentiable, outputs, discrete
        self._adjoint: Callable | None = None
        Primitive.registry[forward.__name__] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    @property
    def adjoint(self) -> Callable:
        """The adjoint function; its docstring says what it takes."""
        if self._adjoint is None:
            raise AttributeError(f"{self.__name__}: declared without an adjoint")
        return self._adjoint

    def define_adjoint(self, adjoint: Callable) -> Callable:
        """Declare the adjoint; used as a decorator directly under the forward function."""
        adjoint.__qualname__ = f"{self.__name__}.adjoint"
        self._adjoint = adjoint
        return adjoint

    def __repr__(self) -> str:
        return f"<primitive {self.__name__}: {', '.join(self.outputs)} to {', '.join(self.differentiable)}>"


def primitive(
    *, differentiable: tuple[str, ...], outputs: tuple[str, ...], discrete: tuple[str, ...] = ()
) -> Callable[[Callable], Primitive]:
    """Declare a forward function as a primitive."""
    return lambda forward: Primitive(forward, differentiable, outputs, discrete)
