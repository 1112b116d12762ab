"""A kernel's launch as a primitive: recorded on tapes, a node of torch's autograd, differentiable by JAX."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.arrays import Library, Recorded, tracker_of
from geomkit.autodiff import recording
from geomkit.autodiff.call import is_holder
from geomkit.autodiff.primitive import Primitive, node_for
from geomkit.autodiff.tape_array import TapeArray
from geomkit.errors import message
from geomkit.lang.arguments import overlap
from geomkit.lang.handles import Handle
from geomkit.lang.ir import leaves_of
from geomkit.lang.specialization import Specialization
from geomkit.lang.struct import Struct
from geomkit.lang.types import Array, Type
from geomkit.tensors import is_tensor

if TYPE_CHECKING:
    from geomkit.lang.kernel import Kernel

__all__ = ["LaunchOp", "differentiable", "launch_tracked", "tracker"]

_PLAIN = frozenset({np.ndarray, float, int, bool, np.float32, np.float64, np.int32, np.int64, type(None)})


def tracker(args: Any) -> str:
    """Who follows gradients through a launch: "torch", "jax", "tape" or nobody."""
    found = "tape" if recording.innermost() is not None else ""
    for a in args:
        if type(a) not in _PLAIN:
            found = followed_by(a) or found
    return found


def followed_by(x: Any) -> str:
    """Who follows gradients through an argument."""
    return x.tracker if is_holder(x) else tracker_of(x)


def differentiable(types: Mapping[str, Type]) -> list[str]:
    """The parameters that have gradients."""
    names = []
    for name, t in types.items():
        if isinstance(t, Handle):
            if t.differentiable:
                names.append(name)
            continue
        element = t.element if isinstance(t, Array) else t
        if not isinstance(element, Struct) and all(s.is_float for s, _ in leaves_of(element)):
            names.append(name)
    return names


class LaunchOp(Primitive):
    """One launch: a function from its arguments to the arrays that it writes, which are new ones.

    Args:
        kernel: the kernel.
        found: it for these arguments' types.
        dims: the launch's dimensions.
        args: the arguments by name.
        wanted: the parameters whose gradients are asked for.
    """

    def __init__(  # pyright: ignore[reportMissingSuperCall]
        self,
        kernel: Kernel,
        found: Specialization,
        dims: tuple[int, int, int],
        args: Mapping[str, Any],
        wanted: set[str],
    ):
        self.kernel, self.found, self.dims = kernel, found, dims
        self.__name__ = self.__qualname__ = kernel.__name__
        self.parameters = tuple(args)
        floats = [n for n in differentiable(found.types) if n in args]
        written = [n for n in self.parameters if n in found.written]
        for n in written:
            if isinstance(found.types[n].element, Struct):  # pyright: ignore[reportAttributeAccessIssue]
                expected = "arrays of numbers or vectors as outputs, where gradients are followed"
                raise TypeError(message(self.__name__, n, expected, "an array of structures"))
        self.outputs = {n: _specification(args[n]) for n in written if n in floats}
        self.discrete = {n: _specification(args[n]) for n in written if n not in floats}
        self.differentiable = tuple(floats)
        self.sends = {n: n for n in floats}
        self.early, self.reason, self.takes_result = tuple(self.outputs), "", False
        self.forward, self._adjoint = self._forward, self._backward
        self.record = namedtuple(f"{kernel.__name__}_outputs", [*self.outputs, *self.discrete])  # noqa: PYI024
        arrays = {n for n in floats if isinstance(found.types[n], Array | Handle)}
        self.wrt = frozenset(n for n in arrays if n in wanted or n in self.outputs)

    def _forward(self, **args: Any) -> Any:
        """The arrays that the launch writes."""
        made = {n: args[n].copy(order="C") for n in (*self.outputs, *self.discrete)}
        self.kernel.run(self.dims, [{**args, **made}[n] for n in self.parameters])
        return self.record(**made)

    def _backward(self, **args: Any) -> Any:
        """The gradients of the parameters."""
        adjoints = {n: args.pop(f"adj_{n}", None) for n in self.outputs}
        gradients = self.kernel.run_adjoint(self.dims, [args[n] for n in self.parameters], adjoints, self.wrt)
        return namedtuple("gradients", gradients)(**gradients)  # noqa: PYI024

    def rebuilt(self, result: Any, outputs: Mapping[str, Any], library: Library) -> Any:
        """The result in the caller's library."""
        return result._replace(**{n: library.wrap(getattr(result, n)) for n in self.discrete}, **outputs)

    def assembled(self, fields: dict[str, Any]) -> Any:
        """A result of its fields."""
        return self.record(**fields)


def _specification(x: Any) -> str:
    dtype = str(x.dtype).removeprefix("torch.")
    return " ".join([dtype, *map(str, x.shape)])


def launch_tracked(kernel: Kernel, who: str, dim: Any, given: tuple[Any, ...]) -> Any:
    """A launch that something follows gradients through.

    Returns:
        the arrays that it writes, new ones; what was given for them is written to as well where it can be.
    """
    found, dims = kernel.resolved(dim, given)
    args = dict(zip(kernel.names, given, strict=True))
    tape = recording.innermost() if who == "tape" else None
    floats = differentiable(found.types)
    wanted = {n for n in floats if tape is not None or followed_by(args[n])}
    op = LaunchOp(kernel, found, dims, args, wanted)
    if not op.outputs:
        return kernel.run(dims, [_value(a) for a in given]) and None
    backward = found.adjoint(op.wrt)
    for n in op.outputs:
        for m in backward.read:
            a, b = (_value(args[k]) for k in (n, m))
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and overlap(a, b):
                expected = f"memory of its own, as '{m}' is read again by the backward pass"
                raise ValueError(message(kernel.__name__, n, expected, f"memory that it shares with '{m}'"))
    originals = {n: args[n] for n in (*op.outputs, *op.discrete)}
    for n, original in originals.items():
        if tape is not None and n in op.outputs and isinstance(original, np.ndarray):
            # Its old values are not read again.
            args[n] = tape.watched(original, kernel.__name__, n, private=True)
        elif isinstance(original, np.ndarray):
            args[n] = original.copy()
        elif is_tensor(original) and not original.requires_grad:
            args[n] = original.clone()
    result = node_for(who)(op, args)
    for n, original in originals.items():
        _write_back(tape, original, getattr(result, n))
    return result[0] if len(result) == 1 else result


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Recorded) else x


def _write_back(tape: Any, original: Any, made: Any) -> None:
    """Let the caller's own array have the new values; a tape then knows it for what was recorded."""
    if isinstance(original, np.ndarray):
        if tracker_of(made) == "jax":
            return  # there are no numbers while jax traces
        original[...] = np.asarray(_value(made))
        if tape is not None and isinstance(made, TapeArray):
            for each in recording.tapes():
                each.wrote(original, made)
    elif is_tensor(original) and not original.requires_grad:
        original.copy_(made.detach())
