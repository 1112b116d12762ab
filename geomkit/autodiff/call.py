"""One call of a primitive that something follows gradients through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, Recorded, imported, library_of, precision_of, tracker_of
from geomkit.autodiff.recording import paused
from geomkit.errors import message

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["Call", "Leaf", "is_holder"]


class Leaf(NamedTuple):
    """An array that gradients reach."""

    name: str  # of the gradient, such as vertices; "" where none is sent
    parameter: str  # of the argument, such as mesh
    array: Any  # the caller's


def is_holder(x: Any) -> bool:
    """Whether x is a record with an array inside that gradients reach, such as a Mesh."""
    return hasattr(type(x), "tracked_array")


class Call:
    """The arguments of one call, taken apart.

    Args:
        op: the primitive.
        arguments: by name, those left out not included; meshes as `Mesh`.
        tracker: who follows gradients: "torch", "jax" or "tape".

    Attributes:
        leaves: the arrays that gradients are to reach.
        library: that of the results.
        result: what the forward function gave on NumPy or CuPy arrays, once `run`.
    """

    def __init__(self, op: Primitive, arguments: dict[str, Any], tracker: str):
        self.op, self.arguments, self.tracker = op, arguments, tracker
        self.leaves = tuple(self._leaves())
        self.library = self._library()
        self.result: Any = None

    def _leaves(self) -> list[Leaf]:
        leaves: list[Leaf] = []
        if not self.tracker:
            return leaves
        sends = self.op.sends
        for parameter, value in self.arguments.items():
            array = value.tracked_array if is_holder(value) else value
            who = tracker_of(array)
            if not who:
                continue
            # jax traces all arguments, whether it wants a gradient or not.
            if parameter not in sends and self.tracker != "jax":
                expected = "values that do not track gradients, as none are sent back here"
                raise TypeError(message(self.op.__name__, parameter, expected, f"an array that {who} follows"))
            if who != self.tracker:
                text = f"arrays that {self.tracker} follows, as in another argument"
                raise TypeError(message(self.op.__name__, parameter, text, f"one that {who} follows"))
            leaves.append(Leaf(sends.get(parameter, ""), parameter, array))
        return leaves

    def _library(self) -> Library:
        own = [value for value in self.arguments.values() if not is_holder(value)]
        library = library_of(*own)
        if library.name == "numpy":
            library = library_of(*(value.tracked_array for value in self.arguments.values() if is_holder(value)))
        return library

    def run(self, values: tuple[Any, ...]) -> Any:
        """The forward function on the values of the leaves; the result is kept."""
        with paused():
            self.result = self.op.forward(**self._plain(values))
        return self.result

    def adjoint(self, values: tuple[Any, ...], cotangents: Any, *, with_result: bool = True) -> list[Any]:
        """The gradients of the leaves, for cotangents of the outputs (None is zero), as NumPy or CuPy arrays."""
        op = self.op
        arguments = self._plain(values)
        for name, cotangent in zip(op.outputs, cotangents, strict=True):
            if cotangent is not None:
                arguments[f"adj_{name}"] = imported(cotangent)
        if op.takes_result and with_result and self.result is not None:
            arguments["result"] = self.result
        with paused():
            record = op.adjoint(**arguments)
        return [getattr(record, leaf.name) if leaf.name else None for leaf in self.leaves]

    def _plain(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The arguments on NumPy and CuPy arrays."""
        given = {leaf.parameter: value for leaf, value in zip(self.leaves, values, strict=True)}
        return {name: plain(value, given.get(name)) for name, value in self.arguments.items()}

    def outputs(self) -> list[Any]:
        """The outputs that carry gradients, as arrays."""
        with paused():
            fields = self.op.fields_of(self.result)[: len(self.op.outputs)]
        return [np.asarray(x, self.precision) if isinstance(x, float) else x for x in fields]

    @property
    def precision(self) -> np.dtype:
        """The precision of the results: that of the mesh, else that of the first argument."""
        holders = [value for value in self.arguments.values() if is_holder(value)]
        return precision_of(holders[0].tracked_array if holders else next(iter(self.arguments.values())))

    def length(self, letter: str) -> int:
        """The number that a letter stands for in the shapes of `Primitive.outputs`."""
        arguments = self.arguments
        if letter == "N":
            rows = next((arguments[name] for name in ("points", "origins") if name in arguments), None)
            return len(rows) if rows is not None else int(arguments["n"])
        mesh = arguments["mesh"]
        return mesh.n_vertices if letter == "V" else mesh.n_faces

    def rebuilt(self, outputs: Any) -> Any:
        """The result for the caller: these outputs, and all else in the caller's library."""
        return self.op.rebuilt(self.result, dict(zip(self.op.outputs, outputs, strict=True)), self.library)


def plain(value: Any, given: Any = None) -> Any:
    """An argument on NumPy or CuPy arrays; `given` are the values for its array, where they are known already."""
    if is_holder(value):
        return value.plain_with(None if given is None else imported(given))
    if given is not None:
        return imported(given)
    if isinstance(value, Recorded) or (hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray)):
        return imported(value)
    return value
