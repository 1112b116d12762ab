"""A call's arguments: checked, and packed as the compiled text takes them."""

from __future__ import annotations

import operator
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from geomkit.arrays import describe, imported
from geomkit.errors import message
from geomkit.lang.handles import BoundHandle, Handle
from geomkit.lang.ir import leaves_of
from geomkit.lang.struct import Struct
from geomkit.lang.types import Array, Composite, Scalar, Type, boolean, scalar_of

__all__ = ["Packing", "array_argument", "device_of", "dimensions", "element_of", "is_strided"]

LIMIT = 1 << 31


def dimensions(name: str, dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions of a launch, three of them.

    Raises:
        TypeError: dim is no integer, nor as many integers as the kernel's gk.tid() gives.
        ValueError: one is negative, or there are too many threads.
    """
    given = tuple(dim) if isinstance(dim, tuple | list) else (dim,)
    try:
        given = tuple(operator.index(d) for d in given)
    except TypeError:
        raise TypeError(message(name, "dim", "an integer, or a tuple of up to three", repr(dim))) from None
    if len(given) != rank:
        unpacked = ", ".join("ijk"[:rank])
        expected = f"{rank} dimension{'s' if rank > 1 else ''}, as the kernel has {unpacked} = gk.tid()"
        raise TypeError(message(name, "dim", expected, repr(dim)))
    if any(d < 0 for d in given):
        raise ValueError(message(name, "dim", "no negative dimension", repr(dim)))
    total = 1
    for d in given:
        total *= d
    if total >= LIMIT or max(given) >= LIMIT:
        raise ValueError(message(name, "dim", f"fewer than {LIMIT} threads", repr(dim)))
    return (*given, 1, 1)[:3]


def array_argument(name: str, parameter: str, t: Array, x: Any, *, write: bool) -> Any:
    """An argument as an array of NumPy's or CuPy's whose elements are those of a type; memory is shared.

    Raises:
        TypeError: it is no array, has other numbers, or is read-only and would be written to.
        ValueError: it has another number of dimensions.
    """
    a = x if isinstance(x, np.ndarray) else None if isinstance(x, list | tuple | int | float) else imported(x)
    element = t.element
    what = f"a {t.ndim}-dimensional array of {element or 'numbers'}"
    shown = _shown(element, t.ndim)
    if a is None or not hasattr(a, "strides"):
        hint = " (np.array(..., np.float32) makes one)" if isinstance(x, list | tuple) else ""
        raise TypeError(message(name, parameter, f"{what}{shown}", f"{type(x).__name__}{hint}"))
    if isinstance(element, Scalar | None):
        inner: tuple[int, ...] = ()
        dtype = element.dtype if element is not None else a.dtype
    elif isinstance(element, Struct):
        inner, dtype = (), element.dtype
    else:
        inner, dtype = element.shape, element.leaves[0][0].dtype
    if a.dtype != dtype:
        good = f" (write x.astype(np.{dtype}))" if dtype.names is None else ""
        raise TypeError(message(name, parameter, f"{what}{shown}", f"{describe(a)}{good}"))
    if a.ndim != t.ndim + len(inner) or a.shape[t.ndim :] != inner:
        raise ValueError(message(name, parameter, f"{what}{shown}", describe(a)))
    if write and isinstance(a, np.ndarray) and not a.flags.writeable:
        raise TypeError(message(name, parameter, "an array that can be written to", "one that is read-only"))
    if inner and a.size and not a[(0,) * t.ndim].flags.c_contiguous:
        got = "strides within an element: write np.ascontiguousarray(...)"
        raise ValueError(message(name, parameter, f"elements of {element} without gaps", got))
    if any(n >= LIMIT for n in a.shape):
        raise ValueError(message(name, parameter, f"axes shorter than {LIMIT}", describe(a)))
    return a


def _shown(element: Type | None, ndim: int) -> str:
    """The shape that an array of compounds has as NumPy sees it."""
    if not isinstance(element, Composite) or isinstance(element, Struct):
        return ""
    axes = [f"N{k}" if ndim > 1 else "N" for k in range(ndim)]
    return f", ({', '.join([*axes, *map(str, element.shape)])}) {element.leaves[0][0].dtype}"


def is_strided(a: Any) -> bool:
    """Whether an array has other strides than C's."""
    return not a.flags.c_contiguous


def element_of(name: str, parameter: str, x: Any) -> Scalar:
    """The type of a generic array's elements.

    Raises:
        TypeError: it is no array, or of numbers that kernels do not know.
    """
    a = x if isinstance(x, np.ndarray) else imported(x) if not isinstance(x, list | tuple) else None
    if a is None or not hasattr(a, "dtype"):
        raise TypeError(message(name, parameter, "an array", type(x).__name__))
    try:
        return scalar_of(a.dtype)
    except TypeError:
        raise TypeError(message(name, parameter, "an array of numbers", describe(x))) from None


class Packing:
    """How a call's arguments become one block of memory.

    Args:
        name: of the kernel, for messages.
        types: of its parameters, in order.
        slots: whether the block ends with the place for gradients of scalars.
        functions: for each handle the functions that are called with it.
    """

    def __init__(
        self,
        name: str,
        types: dict[str, Type],
        *,
        slots: bool = False,
        functions: Mapping[str, frozenset[str]] | None = None,
    ):
        self.name, self.types, self.functions = name, types, functions or {}
        codes = ["@3iiP"]
        for t in types.values():
            if isinstance(t, Array):
                codes.append("PP4q4q")
            elif isinstance(t, Handle):
                codes.append(f"0P{t.size}s")
            elif isinstance(t, Scalar):
                codes.append("e" if t.code == "f2" else t.dtype.char if t is not boolean else "?")
            else:
                largest = max((s for s, _ in leaves_of(t)), key=lambda s: s.size)
                codes.append(f"0{largest.dtype.char}{t.size}s")  # pyright: ignore[reportAttributeAccessIssue]
        if slots:
            codes.append("P")
        self.pack = struct.Struct("".join(codes)).pack

    def value(self, parameter: str, t: Type, x: Any) -> Any:
        """What is packed for an argument that is no array.

        Raises:
            TypeError: it does not fit the type.
            ValueError: it does not fit the shape, or is too large an integer.
        """
        if isinstance(t, Scalar):
            return self._scalar(parameter, t, x)
        if isinstance(t, Handle):
            return t.bound(self.name, parameter, x, self.functions.get(parameter, frozenset()))
        assert isinstance(t, Composite)
        if isinstance(t, Struct):
            if not (isinstance(x, np.void | np.ndarray) and x.dtype == t.dtype and x.shape == ()):
                raise TypeError(message(self.name, parameter, f"a {t}, made by {t}(...)", describe(x)))
            return x.tobytes()
        try:
            a = np.asarray(x, t.leaves[0][0].dtype)
        except (TypeError, ValueError):
            raise TypeError(message(self.name, parameter, f"a {t}", describe(x))) from None
        if a.shape != t.shape:
            raise ValueError(message(self.name, parameter, f"a {t}, of shape {t.shape}", describe(a)))
        return a.tobytes()

    def _scalar(self, parameter: str, t: Scalar, x: Any) -> Any:
        if getattr(x, "shape", None) == () and not isinstance(x, np.generic):
            x = np.asarray(imported(x))[()]
        expected = f"a number ({t})"
        if t is boolean:
            if not isinstance(x, bool | np.bool_):
                raise TypeError(message(self.name, parameter, "True or False", repr(x)))
            return bool(x)
        if isinstance(x, bool | np.bool_) or not isinstance(x, int | float | np.integer | np.floating):
            raise TypeError(message(self.name, parameter, expected, describe(x)))
        if t.is_float:
            return float(x)
        if not isinstance(x, int | np.integer):
            raise TypeError(message(self.name, parameter, f"an integer ({t})", repr(x)))
        bounds = np.iinfo(t.dtype)
        if not bounds.min <= x <= bounds.max:
            raise ValueError(message(self.name, parameter, f"an integer in the range of {t}", repr(x)))
        return int(x)

    def block(
        self,
        dims: Sequence[int],
        grain: int,
        values: Sequence[Any],
        *,
        errors: int = 0,
        grads: Any = None,
        slots: int = 0,
    ) -> bytes:
        """The block: values as `value` gives them, arrays of NumPy's or CuPy's; gradients by the arrays' names."""
        parts: list[Any] = [*dims, grain, errors]
        for (name, t), x in zip(self.types.items(), values, strict=True):
            if isinstance(t, Array):
                grad = None if grads is None else grads.get(name)
                shape, strides = x.shape[: t.ndim], x.strides[: t.ndim]
                rest = 4 - t.ndim
                parts += (address(x), 0 if grad is None else address(grad))
                parts += (*shape, *(1,) * rest, *strides, *(0,) * rest)
            elif isinstance(x, BoundHandle):
                grad = None if grads is None else grads.get(name)
                parts.append(x.pack(None if grads is None else 0 if grad is None else address(grad)))
            else:
                parts.append(x)
        return self.pack(*parts) if not slots else self.pack(*parts, slots)


def address(a: Any) -> int:
    """Where an array's numbers lie."""
    return a.ctypes.data if isinstance(a, np.ndarray) else a.data.ptr


def device_of(values: Sequence[Any]) -> str:
    """Where a launch runs: where its arrays are, or without arrays its handles."""
    arrays = [a for a in values if not isinstance(a, BoundHandle)]
    if any(not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__") for a in arrays):
        return "cuda"
    if any(isinstance(a, np.ndarray) for a in arrays):
        return "cpu"
    return next((a.device for a in values if isinstance(a, BoundHandle)), "cpu")


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays may share memory."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    (low, high), (low2, high2) = _extent(a), _extent(b)
    return low < high2 and low2 < high


def _extent(a: Any) -> tuple[int, int]:
    start = address(a)
    return start, start + sum((n - 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True)) + a.itemsize
