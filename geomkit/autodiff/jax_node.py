"""Primitives under jax's transformations.

A call is a `jax.custom_vjp`. Its two halves are Python functions of arrays on the host: where jax has the numbers
(`jax.grad`, `jax.vjp` outside of `jit`) they run at once; where it only traces, `jax.pure_callback` runs them when the
compiled program does. A foreign function (jax.ffi) would save the callback's half millisecond, but it would have to
hold in C++ all that Python does here: trees that are kept, checks, sums in a fixed order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.arrays import tracker_of
from geomkit.autodiff.call import Call
from geomkit.errors import message

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["call_jax"]


def call_jax(op: Primitive, arguments: dict[str, Any]) -> Any:
    """Run a primitive some of whose arguments jax traces."""
    import jax

    call = _JaxCall(op, arguments, "jax")

    @jax.custom_vjp
    def run(*arrays: Any) -> Any:
        return call.forward(arrays)

    def forward(*arrays: Any) -> tuple[Any, Any]:
        for leaf, x in zip(call.leaves, arrays, strict=True):
            if x.perturbed and not leaf.name and jax.numpy.issubdtype(x.value.dtype, jax.numpy.floating):
                got = "one that jax differentiates by"
                raise TypeError(message(op.__name__, leaf.parameter, "an argument that no gradients are sent to", got))
        values = tuple(x.value for x in arrays)
        return call.forward(values), values

    run.defvjp(forward, call.backward, symbolic_zeros=True)
    try:
        outputs = run(*(leaf.array for leaf in call.leaves))
    except TypeError as error:
        if "forward-mode" not in str(error):
            raise
        text = message(op.__name__, "jax.jvp", "reverse mode (jax.grad, jax.vjp)", "forward mode")
        raise TypeError(text) from error
    if call.result is not None:
        return call.rebuilt(outputs)
    return op.assembled(dict(zip((*op.outputs, *op.discrete), outputs, strict=True)))


class _JaxCall(Call):
    """A call whose leaves are all arguments that jax traces; `result` stays None where it has no numbers."""

    def forward(self, arrays: tuple[Any, ...]) -> Any:
        """The outputs that carry gradients; while tracing those that carry none, too."""
        import jax

        if not any(tracker_of(x) for x in arrays):
            self.run(arrays)
            return tuple(self._to_jax(x) for x in self.outputs())
        self.result = None
        shapes = tuple(jax.ShapeDtypeStruct(*self._shape(text)) for text in self._specifications())
        return jax.pure_callback(self._answer, shapes, *arrays, vmap_method="sequential")

    def backward(self, arrays: tuple[Any, ...], cotangents: Any) -> tuple[Any, ...]:
        """The cotangents of the leaves."""
        import jax

        n = len(self.op.outputs)
        zero = jax.custom_derivatives.SymbolicZero
        given = [None if isinstance(x, zero) else x for x in cotangents[:n]]
        present = [x for x in given if x is not None]
        if not present:
            return (None,) * len(self.leaves)
        if not any(tracker_of(x) for x in (*arrays, *present)):
            gradients = self.adjoint(arrays, given)
            return tuple(None if g is None else self._to_jax(g, x) for g, x in zip(gradients, arrays, strict=True))
        places = [k for k, x in enumerate(given) if x is not None]
        named = [k for k, leaf in enumerate(self.leaves) if leaf.name]

        def answer(*numbers: Any) -> tuple[Any, ...]:
            values, rest = numbers[: len(arrays)], dict(zip(places, numbers[len(arrays) :], strict=True))
            gradients = self.adjoint(values, [rest.get(k) for k in range(n)], with_result=False)
            return tuple(np.asarray(gradients[k], dtype=arrays[k].dtype) for k in named)

        shapes = tuple(jax.ShapeDtypeStruct(arrays[k].shape, arrays[k].dtype) for k in named)
        found = jax.pure_callback(answer, shapes, *arrays, *present, vmap_method="sequential")
        out: list[Any] = [None] * len(self.leaves)
        for k, gradient in zip(named, found, strict=True):
            out[k] = gradient
        return tuple(out)

    def _specifications(self) -> list[str]:
        return [*self.op.outputs.values(), *self.op.discrete.values()]

    def _answer(self, *values: Any) -> tuple[Any, ...]:
        """The results on the host, when the compiled program runs."""
        result = Call(self.op, self.arguments, self.tracker).run(values)
        fields = self.op.fields_of(result)
        return tuple(
            np.asarray(x, dtype=self._shape(text)[1]) for x, text in zip(fields, self._specifications(), strict=True)
        )

    def _shape(self, specification: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype of an output, from those of the arguments."""
        kind, *letters = specification.split()
        if "?" in letters:
            expected = "shapes known before the call (do not jit, or hide the call behind jax.pure_callback)"
            raise TypeError(message(self.op.__name__, "jax.jit", expected, "one that depends on the numbers"))
        dtype = self.precision if kind == "real" else np.dtype(kind)
        return tuple(int(x) if x.isdigit() else self.length(x) for x in letters), dtype

    def _to_jax(self, array: Any, like: Any = None) -> Any:
        import jax

        dtype = array.dtype if like is None else like.dtype
        return jax.numpy.asarray(self.library.wrap(np.ascontiguousarray(array)), dtype=dtype).reshape(array.shape)
