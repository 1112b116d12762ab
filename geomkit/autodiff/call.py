"""One call of a primitive that something follows gradients through."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, Recorded, imported, library_of, precision_of, refuse_tracked, tracker_of
from geomkit.autodiff.recording import paused, tapes
from geomkit.errors import message

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["Call", "Leaf", "is_holder"]

_CONSTANT = frozenset({float, int, str, bool, type(None)})


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
        arrays: the arguments that are neither numbers, strings nor lists, by name; of records the array inside.
        leaves: those that gradients are to reach.
        library: that of the results.
        result: what the forward function gave on NumPy or CuPy arrays, once `run`.
    """

    def __init__(self, op: Primitive, arguments: dict[str, Any], tracker: str):
        self.op, self.arguments, self.tracker = op, arguments, tracker
        self.result: Any = None
        own, held, leaves = {}, {}, []
        for parameter, value in arguments.items():
            if type(value) in _CONSTANT:
                continue
            if type(value) in (list, tuple):
                refuse_tracked(value, op=op.__name__, name=parameter)
                # (Its owner may write into it before the adjoint is asked for.)
                arguments[parameter] = copy.deepcopy(value)
                continue
            if is_holder(value):
                array = held[parameter] = value.tracked_array
            else:
                array = own[parameter] = value
            who = tracker_of(array) if tracker else ""
            if who:
                leaves.append(self._leaf(parameter, array, who))
        self.arrays = own | held
        self.leaves: tuple[Leaf, ...] = tuple(leaves)
        self.library: Library = library_of(*self.arrays.values())
        if self.library.name != tracker and tracker in ("torch", "jax") and leaves:
            # Only in their own library do the results have gradients.
            self.library = library_of(*(leaf.array for leaf in leaves))

    def _leaf(self, parameter: str, array: Any, who: str) -> Leaf:
        sends = self.op.sends
        # jax traces all arguments, whether it wants a gradient or not.
        if parameter not in sends and self.tracker != "jax":
            expected = "values that do not track gradients, as none are sent back here"
            raise TypeError(message(self.op.__name__, parameter, expected, f"an array that {who} follows"))
        if who != self.tracker:
            text = f"arrays that {self.tracker} follows, as in another argument"
            raise TypeError(message(self.op.__name__, parameter, text, f"one that {who} follows"))
        return Leaf(sends.get(parameter, ""), parameter, array)

    def run(self, values: tuple[Any, ...]) -> Any:
        """The forward function on the values of the leaves; the result is kept."""
        self.result = self._unrecorded(self.op.forward, self._plain(values))
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
        record = self._unrecorded(op.adjoint, arguments)
        return [getattr(record, leaf.name) if leaf.name else None for leaf in self.leaves]

    @staticmethod
    def _unrecorded(function: Callable, arguments: dict[str, Any]) -> Any:
        if not tapes():
            return function(**arguments)
        with paused():
            return function(**arguments)

    def _plain(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The arguments on NumPy and CuPy arrays."""
        arguments = self.arguments.copy()
        for leaf, value in zip(self.leaves, values, strict=True):
            arguments[leaf.parameter] = plain(arguments[leaf.parameter], value)
        if len(self.arrays) > len(self.leaves):
            followed = [leaf.parameter for leaf in self.leaves]
            for name in self.arrays:
                if name not in followed:
                    arguments[name] = plain(arguments[name])
        return arguments

    def outputs(self, names: tuple[str, ...] | None = None) -> list[Any]:
        """The outputs that carry gradients, or some of them, as arrays."""
        names = tuple(self.op.outputs) if names is None else names
        fields = self._unrecorded(self.op.fields_of, {"result": self.result, "names": names})
        return [np.asarray(x, self.precision) if isinstance(x, float) else x for x in fields]

    @property
    def precision(self) -> np.dtype:
        """The precision of the results: that of the first parameter."""
        first = self.arguments[self.op.parameters[0]]
        return precision_of(first.tracked_array if is_holder(first) else first)

    def length(self, letter: str) -> int:
        """The number that a letter stands for in the shapes of `Primitive.outputs`."""
        arguments = self.arguments
        if letter != "N":
            return arguments["mesh"].n_vertices if letter == "V" else arguments["mesh"].n_faces
        if "n" in arguments:
            n = arguments["n"]
            if tracker_of(n):
                expected = "an int of Python, as shapes depend on it"
                raise TypeError(message(self.op.__name__, "n", expected, f"one that {tracker_of(n)} traces"))
            return int(n) if isinstance(n, int | np.integer) else 0
        try:
            names = ("points", "origins", "pixels", "barycentric")
            return len(next(arguments[name] for name in names if name in arguments))
        except TypeError:
            return 0  # the forward function refuses what has no length

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
