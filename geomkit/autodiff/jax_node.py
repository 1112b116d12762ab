"""Primitives under jax's transformations.

A call is a `jax.custom_vjp`. Its two halves are functions of arrays on the host: where jax has the numbers (`jax.grad`,
`jax.vjp` outside of `jit`) they run at once; where it only traces, the compiled program calls back into Python. That
costs 10 to 20 microseconds, against 150 to 300 of `jax.pure_callback`, which moreover never returns where all of jax's
threads wait in callbacks: it copies large arguments with jax, in those threads. A foreign function (jax.ffi) would save
these microseconds, but it would have to hold in C++ all that Python does here: trees that are kept, checks, sums in a
fixed order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.arrays import Library, refuse_double, tracker_of
from geomkit.autodiff.call import Call, is_holder, plain
from geomkit.autodiff.host_call import host_call
from geomkit.errors import message
from geomkit.tensors import is_tensor

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["call_jax"]


def call_jax(op: Primitive, arguments: dict[str, Any]) -> Any:
    """Run a primitive some of whose arguments jax traces."""
    import jax

    call = _JaxCall(op, arguments)
    arrays = call.release()
    if op.reason:
        # All that comes out is discrete.
        outputs = call.forward(tuple(map(jax.lax.stop_gradient, arrays)))
    else:
        outputs = _differentiable(call)(arrays)
    if call.result is not None:
        return call.rebuilt(outputs[: len(op.outputs)])
    return op.assembled(dict(zip((*op.outputs, *op.discrete), outputs, strict=True)))


def _differentiable(call: _JaxCall) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    import jax

    name = call.op.__name__

    @jax.custom_vjp
    def run(*arrays: Any) -> tuple[Any, ...]:
        return call.forward(arrays)

    def forward(*arrays: Any) -> tuple[Any, Any]:
        for leaf, x in zip(call.leaves, arrays, strict=True):
            if x.perturbed and not leaf.name and _is_floating(x.value):
                got = "one that jax differentiates by"
                raise TypeError(message(name, leaf.parameter, "an argument that no gradients are sent to", got))
        values = tuple(x.value for x in arrays)
        outputs = call.forward(values)
        return outputs, (values, outputs if call.op.takes_result else ())

    def backward(kept: Any, cotangents: Any) -> tuple[Any, ...]:
        values, made = kept
        return call.backward(values, made, cotangents)

    run.defvjp(forward, backward, symbolic_zeros=True)

    def guarded(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            return run(*arrays)
        except TypeError as error:
            if "forward-mode" not in str(error):
                raise
            text = message(name, "jax.jvp", "reverse mode (jax.grad, jax.vjp)", "forward mode")
            raise TypeError(text) from error

    return guarded


class _JaxCall(Call):
    """A call whose leaves are all arguments that jax traces.

    Attributes:
        shapes: shape and dtype of each output, those that carry gradients first; None if they depend on the numbers.
        values: the leaves that `result` is of; both stay None where there are no numbers.
    """

    values: tuple[Any, ...] | None = None

    def __init__(self, op: Primitive, arguments: dict[str, Any]):
        super().__init__(op, arguments, "jax")
        self._precision = super().precision
        specifications = [*op.outputs.values(), *op.discrete.values()]
        self.shapes: list[tuple[tuple[int, ...], np.dtype]] | None = None
        if "?" not in " ".join(specifications):
            self.shapes = [self._shape(*text.split()) for text in specifications]

    @property
    def precision(self) -> np.dtype:
        """The precision of the results."""
        return self._precision

    def release(self) -> tuple[Any, ...]:
        """Hand over the arrays of the leaves: jax keeps the call for longer than the trace they belong to, so all that
        it does not trace stays as it is now."""
        arrays = tuple(leaf.array for leaf in self.leaves)
        self.leaves = tuple(leaf._replace(array=None) for leaf in self.leaves)
        for leaf in self.leaves:
            holder = self.arguments[leaf.parameter]
            self.arguments[leaf.parameter] = holder.without_trace if is_holder(holder) else None
            self.arrays[leaf.parameter] = None
        if tracker_of(self.library.like):
            self.library = Library(self.library.name, self.library.device)
        followed = {leaf.parameter for leaf in self.leaves}
        self.arguments = {
            name: value if name in followed else _constant(value) for name, value in self.arguments.items()
        }
        return arrays

    def forward(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The outputs that carry gradients, then those that carry none."""
        if any(tracker_of(x) for x in arrays):
            if self.shapes is None:
                expected = "shapes known before the call (do not jit, or hide the call behind jax.pure_callback)"
                raise TypeError(message(self.op.__name__, "jax.jit", expected, "one that depends on the numbers"))
            for _, dtype in self.shapes:
                refuse_double(dtype)
            return tuple(host_call(self.op.__name__, _HostCall(self).answer, self.shapes, arrays))
        self.run(arrays)
        self.values = arrays
        discrete = self.op.fields_of(self.result)[len(self.op.outputs) :]
        return tuple(self._to_jax(x) for x in (*self.outputs(), *discrete))

    def backward(self, arrays: tuple[Any, ...], made: tuple[Any, ...], cotangents: Any) -> tuple[Any, ...]:
        """The cotangents of the leaves, `made` being what `forward` returned, if it is of use."""
        import jax

        zero = jax.custom_derivatives.SymbolicZero
        given = [None if isinstance(x, zero) else x for x in cotangents[: len(self.op.outputs)]]
        present = tuple(x for x in given if x is not None)
        wanted = [k for k, leaf in enumerate(self.leaves) if leaf.name and _is_floating(arrays[k])]
        out: list[Any] = [None] * len(self.leaves)
        if not present or not wanted:
            return tuple(out)
        own = self.values is not None and all(x is y for x, y in zip(arrays, self.values, strict=True))
        if any(tracker_of(x) for x in (*arrays, *made, *present)):
            host = _HostCall(self)
            host.result = self.result if own else None
            host.places = [k for k, x in enumerate(given) if x is not None]
            host.wanted = [(k, arrays[k].dtype) for k in wanted]
            shapes = [(arrays[k].shape, arrays[k].dtype) for k in wanted]
            found = host_call(self.op.__name__, host.gradients, shapes, (*arrays, *present, *(() if own else made)))
        else:
            gradients = self.adjoint(arrays, given, with_result=own)
            found = [self._to_jax(gradients[k], arrays[k]) for k in wanted]
        for k, gradient in zip(wanted, found, strict=True):
            out[k] = gradient
        return tuple(out)

    def _shape(self, kind: str, *letters: str) -> tuple[tuple[int, ...], np.dtype]:
        dtype = self.precision if kind == "real" else np.dtype(kind)
        if letters and letters[0].startswith("="):
            return tuple(np.shape(self.arguments[letters[0].removeprefix("=")])), dtype
        out: list[int] = []
        for x in letters:
            if x.startswith("..."):
                out += np.shape(self.arguments[x.removeprefix("...")])[1:]
            else:
                out.append(int(x) if x.isdigit() else self.length(x))
        return tuple(out), dtype

    def _to_jax(self, array: Any, like: Any = None) -> Any:
        out = self.library.wrap(np.asarray(array, order="C"))
        return out if like is None or out.dtype == like.dtype else out.astype(like.dtype)


class _HostCall(Call):
    """What is left of a call for when the compiled program runs, in whatever thread.

    Attributes:
        shapes: shape and dtype of each output.
        places: the outputs whose cotangents are given.
        wanted: the leaves that gradients are wanted for, and their dtypes.
    """

    places: list[int]
    wanted: list[tuple[int, Any]]

    def __init__(self, call: _JaxCall):
        self.op, self.tracker, self.leaves, self.arguments = call.op, call.tracker, call.leaves, call.arguments
        self.shapes, self.result = call.shapes or [], None
        self.arrays = dict.fromkeys(call.arrays)  # (The names are all that is asked for.)

    def answer(self, *values: Any) -> list[np.ndarray]:
        """All outputs, of the values of the leaves."""
        fields = self.op.fields_of(copy.copy(self).run(values))
        return [np.asarray(x, dtype=dtype) for x, (_, dtype) in zip(fields, self.shapes, strict=True)]

    def gradients(self, *numbers: Any) -> list[np.ndarray]:
        """Gradients, of the values of the leaves, the cotangents and, if they are of use, all outputs."""
        n = len(self.leaves)
        values, cotangents, made = numbers[:n], numbers[n : n + len(self.places)], numbers[n + len(self.places) :]
        given = dict(zip(self.places, cotangents, strict=True))
        call = copy.copy(self)
        if made:
            call.result = self.op.assembled(dict(zip((*self.op.outputs, *self.op.discrete), made, strict=True)))
        found = call.adjoint(values, [given.get(k) for k in range(len(self.op.outputs))])
        return [np.asarray(found[k], dtype=dtype) for k, dtype in self.wanted]


def _constant(value: Any) -> Any:
    """An argument as it is now, whatever happens to it later; a mesh sees to that itself."""
    if is_holder(value):
        return copy.deepcopy(value.plain_with(None)) if hasattr(value, "_fields") else value
    return plain(value).copy() if isinstance(value, np.ndarray) or is_tensor(value) else plain(value)


def _is_floating(array: Any) -> bool:
    import jax

    return jax.numpy.issubdtype(array.dtype, jax.numpy.floating)
