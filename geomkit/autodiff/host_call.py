"""An operation of jax that runs a function of NumPy arrays on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from geomkit.errors import message

__all__ = ["host_call"]


def host_call(name: str, host: Callable[..., Sequence], shapes: Sequence[tuple], arrays: Sequence[Any]) -> list[Any]:
    """Call the function: now where jax has the numbers, else when the compiled program runs.

    Args:
        name: of the primitive, for messages.
        host: takes NumPy arrays, which it must neither write to nor keep, and returns NumPy arrays. It must call
            nothing of jax: that may wait for the thread it runs in.
        shapes: shape and dtype of each array it returns.
        arrays: jax's, traced or not.
    """
    import jax

    def packed(*numbers: np.ndarray) -> list[np.ndarray]:
        return [
            np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint32) if x.dtype.itemsize == 8 else x
            for x in host(*numbers)
        ]

    # Eight bytes go as two words: the mode that lets jax have them may be on in another thread than the callback's.
    wide = [np.dtype(dtype).itemsize == 8 for _, dtype in shapes]
    sent = tuple(
        ((*shape, 2), np.dtype(np.uint32)) if two else (shape, dtype)
        for (shape, dtype), two in zip(shapes, wide, strict=True)
    )
    found = _operation().bind(*arrays, name=name, host=packed, shapes=sent)
    return [
        jax.lax.bitcast_convert_type(x, dtype) if two else x
        for x, (_, dtype), two in zip(found, shapes, wide, strict=True)
    ]


@cache
def _operation() -> Any:
    """The operation, made when jax is there."""
    import jax
    from jax.core import ShapedArray
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    operation = Primitive("geomkit_host_call")
    operation.multiple_results = True

    @operation.def_impl
    def run(*arrays: Any, name: str, host: Callable, shapes: tuple) -> list[Any]:
        return [jax.numpy.asarray(x) for x in host(*map(np.asarray, arrays))]

    @operation.def_abstract_eval
    def abstract(*arrays: Any, name: str, host: Callable, shapes: tuple) -> list[Any]:
        return [ShapedArray(shape, dtype) for shape, dtype in shapes]

    def refuse(primals: Any, tangents: Any, *, name: str, host: Callable, shapes: tuple) -> Any:
        raise NotImplementedError(message(name, "jax.grad", "first derivatives only", "a second derivative"))

    def batch(arrays: Any, axes: Any, *, name: str, host: Callable, shapes: tuple) -> tuple[Any, Any]:
        size = next(x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None)

        def each(*numbers: np.ndarray) -> list[np.ndarray]:
            out = [np.empty((size, *shape), dtype) for shape, dtype in shapes]
            for i in range(size):
                one = (
                    x if axis is None else np.moveaxis(x, axis, 0)[i]
                    for x, axis in zip(numbers, axes, strict=True)
                )
                for all_of_it, part in zip(out, host(*one), strict=True):
                    all_of_it[i] = part
            return out

        whole = tuple(((size, *shape), dtype) for shape, dtype in shapes)
        return operation.bind(*arrays, name=name, host=each, shapes=whole), (0,) * len(shapes)

    def lower(context: Any, *operands: Any, name: str, host: Callable, shapes: tuple) -> Any:
        def named(*numbers: np.ndarray) -> Sequence[np.ndarray]:
            try:
                return tuple(host(*numbers))
            except Exception as error:
                # (Of an exception in a compiled program jax keeps the text only.)
                raise RuntimeError(f"{name} in a program compiled by jax: {error}") from error

        return mlir.emit_python_callback(
            context, named, None, list(operands), context.avals_in, context.avals_out, has_side_effect=False
        )[0]

    ad.primitive_jvps[operation] = refuse
    batching.primitive_batchers[operation] = batch
    mlir.register_lowering(operation, lower)
    return operation
