"""A primitive: a forward function, the adjoint that belongs to it, and what is differentiable about the two."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from geomkit.arrays import Library, tracker_of
from geomkit.autodiff.call import Call, is_holder
from geomkit.autodiff.recording import innermost
from geomkit.errors import message
from geomkit.tensors import is_followed, is_tensor, untraced

__all__ = ["Primitive", "node_for", "nondifferentiable", "primitive", "primitives"]

# What never has a gradient attached, and need not be asked.
_SIMPLE = frozenset({np.ndarray, float, int, str, bool, type(None), np.float32, np.float64})


class Primitive:
    """A public function together with its adjoint.

    Calling it runs the forward function. `adjoint(...)` takes the same inputs, then cotangents by name (`adj_` and the
    output's name), and returns a record of gradients named after the differentiable inputs. Where torch, jax or a
    `gk.Tape` follows gradients through an input, the call is recorded there, with the adjoint as its derivative.

    Attributes:
        differentiable: inputs that gradients reach; `vertices` are those of the argument `mesh`.
        outputs: outputs that carry gradients, with dtype and shape: "real N 3". Letters are N, the number of queries;
            V and F, the vertices and faces of the mesh; X Y Z, the samples of the grid; =x is the shape of argument x,
            ...x all of it but the first; ? is known after the call only.
        discrete: outputs that carry none, likewise.
        early: outputs that are there after the call; the others are made when they are asked for.
        reason: why there are no gradients at all, or "".
    """

    registry: dict[str, Primitive] = {}
    as_mesh: Callable[[Any], Any]  # geomkit.mesh sets it
    __name__: str

    def __init__(
        self,
        forward: Callable,
        differentiable: tuple[str, ...],
        outputs: Mapping[str, str],
        discrete: Mapping[str, str],
        reason: str = "",
        late: tuple[str, ...] = (),
    ):
        functools.update_wrapper(self, forward)
        self.forward = forward
        self.differentiable, self.outputs, self.discrete = differentiable, dict(outputs), dict(discrete)
        self.reason = reason
        self.early = tuple(name for name in outputs if name not in late)
        parameters = inspect.signature(forward).parameters
        self.parameters = tuple(parameters)
        self._required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
        # From the argument to the gradient.
        self.sends = {name if name in self.parameters else "mesh": name for name in differentiable}
        self.takes_result = False
        self._adjoint: Callable | None = None
        primitives()
        Primitive.registry[forward.__name__] = self

    @untraced
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracker = "tape" if innermost() is not None else ""
        for value in args:
            if type(value) not in _SIMPLE:
                tracker = _tracker(value) or tracker
        for value in kwargs.values():
            if type(value) not in _SIMPLE:
                tracker = _tracker(value) or tracker
        if not tracker:
            return self.forward(*args, **kwargs)
        return self._tracked(tracker, args, kwargs)

    def _tracked(self, tracker: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        names = self.parameters[: len(args)]
        arguments = dict(zip(names, args, strict=False)) | kwargs
        is_once = len(args) <= len(names) and len(arguments) == len(args) + len(kwargs)
        if not (is_once and self._required <= set(arguments) <= set(self.parameters)):
            return self.forward(*args, **kwargs)  # Python's own error
        for name, value in arguments.items():
            if type(value) in _SIMPLE or is_tensor(value) or is_holder(value):
                continue
            if hasattr(value, "vertices") and hasattr(value, "faces"):
                arguments[name] = Primitive.as_mesh(value)
        if self.reason:
            return self._untracked(tracker, arguments)
        return node_for(tracker)(self, arguments)

    def _untracked(self, tracker: str, arguments: dict[str, Any]) -> Any:
        """A call that has no gradients: for discrete answers that is no loss."""
        for name, value in arguments.items():
            if _tracker(value) and not self.discrete:
                tracker = _tracker(value)
                # jax traces with and without gradients, and either way there are no numbers here.
                got = f"one that {tracker} {'traces' if tracker == 'jax' else 'follows'} ({self.reason})"
                raise TypeError(message(self.__name__, name, "values that do not track gradients", got))
        if tracker == "jax":
            return node_for("jax")(self, arguments)
        call = Call(self, arguments, "")
        call.run(())
        return call.rebuilt(())

    @property
    def adjoint(self) -> Callable:
        """The adjoint function; its docstring says what it takes."""
        if self._adjoint is None:
            raise AttributeError(f"{self.__name__}: {self.reason or 'declared without an adjoint'}")
        return self._adjoint

    def define_adjoint(self, adjoint: Callable) -> Callable:
        """Declare the adjoint; used as a decorator directly under the forward function."""
        adjoint.__qualname__ = f"{self.__name__}.adjoint"
        self._adjoint = adjoint
        self.takes_result = "result" in inspect.signature(adjoint).parameters
        return adjoint

    @property
    def is_complete(self) -> bool:
        """Whether there is an adjoint, or a reason for having none."""
        return self._adjoint is not None or bool(self.reason)

    def fields_of(self, result: Any, names: tuple[str, ...] | None = None) -> list[Any]:
        """Outputs by name out of what the forward function returned; else all, those that carry gradients first."""
        if _is_bare(result):
            return [result]
        return [getattr(result, name) for name in ((*self.outputs, *self.discrete) if names is None else names)]

    def rebuilt(self, result: Any, outputs: Mapping[str, Any], library: Library) -> Any:
        """The same result with other outputs, and all else in another library."""
        if _is_bare(result):
            return next(iter(outputs.values())) if outputs else library.wrap(np.asarray(result))
        if hasattr(result, "rebuilt"):
            return result.rebuilt(outputs, library)
        rest = {name: library.wrap(getattr(result, name)) for name in self.discrete}
        return result._replace(**rest, **outputs)

    def assembled(self, fields: dict[str, Any]) -> Any:
        """A result of nothing but its fields: there are no numbers yet."""
        record: Any = self.forward.__globals__.get(self.forward.__annotations__["return"])
        if hasattr(record, "assembled"):
            return record.assembled(fields)
        return record(**fields) if hasattr(record, "_fields") else next(iter(fields.values()))

    def __repr__(self) -> str:
        if self.reason:
            return f"<primitive {self.__name__}: no gradients, {self.reason}>"
        return f"<primitive {self.__name__}: {', '.join(self.outputs)} to {', '.join(self.differentiable)}>"


def primitive(
    *,
    differentiable: tuple[str, ...],
    outputs: Mapping[str, str],
    discrete: Mapping[str, str] | None = None,
    late: tuple[str, ...] = (),
) -> Callable[[Callable], Primitive]:
    """Declare a forward function as a primitive; `define_adjoint` has to follow.

    Args:
        differentiable, outputs, discrete: as in `Primitive`.
        late: outputs that the result makes when they are asked for.
    """
    return lambda forward: Primitive(forward, differentiable, outputs, discrete or {}, late=late)


def nondifferentiable(reason: str, *, discrete: Mapping[str, str] | None = None) -> Callable[[Callable], Primitive]:
    """Declare a function without an adjoint.

    Args:
        reason: why it has none, for the error.
        discrete: its outputs, if all are discrete: then inputs that track gradients are taken, as nothing is lost.
    """
    return lambda forward: Primitive(forward, (), {}, discrete or {}, reason)


def primitives() -> dict[str, Primitive]:
    """All primitives, by name.

    Raises:
        TypeError: one was declared with neither an adjoint nor a reason for having none.
    """
    for op in Primitive.registry.values():
        if not op.is_complete:
            raise TypeError(f"{op.__name__}: declared with neither an adjoint nor `nondifferentiable`")
    return Primitive.registry


@functools.cache
def node_for(tracker: str) -> Callable[[Primitive, dict[str, Any]], Any]:
    """What runs a primitive that something follows gradients through."""
    if tracker == "tape":
        from geomkit.autodiff.tape import call_tape as call
    elif tracker == "torch":
        from geomkit.autodiff.torch_node import call_torch as call
    else:
        from geomkit.autodiff.jax_node import call_jax as call
    return call


def _tracker(value: Any) -> str:
    if type(value) in _SIMPLE:
        return ""
    if is_tensor(value):
        return "torch" if is_followed(value) else ""
    if is_holder(value):
        return value.tracker
    if hasattr(value, "vertices") and hasattr(value, "faces"):
        return tracker_of(value.vertices)
    return tracker_of(value)


def _is_bare(result: Any) -> bool:
    return isinstance(result, (float, np.generic)) or hasattr(result, "dtype") and not is_holder(result)
