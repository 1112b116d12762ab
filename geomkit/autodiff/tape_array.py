"""An array on a tape, and its place in what was recorded."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.arrays import Recorded, frozen
from geomkit.autodiff.recording import innermost
from geomkit.autodiff.tape_functions import PASSED_THROUGH, RULES, UFUNCS, Rule, astype, take
from geomkit.errors import message

__all__ = ["Node", "TapeArray"]

_number = itertools.count(1)


class Node:
    """What was computed at one step of a recording, or an array that was there before.

    Attributes:
        name: the function.
        inputs: arrays it was computed from.
        arguments: the name of each input.
        backward: from the cotangents of its outputs, None for zero, to those of its inputs.
        left: how one of its outputs left the tape, or "".
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[TapeArray, ...] = (),
        arguments: tuple[str, ...] = (),
        backward: Callable[[list[Any]], Any] | None = None,
        n_outputs: int = 1,
    ):
        self.name, self.inputs, self.arguments, self.backward = name, inputs, arguments, backward
        self.n_outputs, self.left = n_outputs, ""
        self.number = next(_number)
        self._watched: tuple[Any, int] | None = None

    def watch(self, array: Any) -> None:
        """Remember what the array is now, if anybody can write into it."""
        if not isinstance(array, np.ndarray) or array.flags.writeable or array.base is not None:
            self._watched = array, _digest(array)

    def check(self, op: str, argument: str) -> None:
        """Raise a ValueError, in the name of an op that reads it, if the array has been written to since."""
        if self._watched is not None and _digest(self._watched[0]) != self._watched[1]:
            raise ValueError(message(op, argument, "the values recorded", "an array written to since"))


class TapeArray(Recorded):
    """An array on a tape: what geomkit's functions return within `with gk.Tape()`.

    Operators, methods and NumPy's functions on it are recorded; see `gk.Tape` for which. It is not written to.

    Attributes:
        value: the array itself, NumPy's or CuPy's; reading it leaves the tape.
    """

    __slots__ = ("index", "node", "value")
    __hash__ = object.__hash__

    def __init__(self, value: Any, node: Node, index: int = 0):
        self.value, self.node, self.index = value, node, index

    @classmethod
    def leaf(cls, array: Any) -> TapeArray:
        """An array that was there before the tape."""
        node = Node(f"an array {array.shape} {array.dtype}")
        node.watch(array)
        return cls(array, node)

    @property
    def live(self) -> bool:
        """Whether a tape is recording what is computed from it."""
        return innermost() is not None

    @property
    def namespace(self) -> Any:
        """numpy or cupy."""
        return _namespace(self.value)

    shape = property(lambda self: self.value.shape, doc="Lengths of the axes.")
    dtype = property(lambda self: self.value.dtype, doc="Of the value.")
    ndim = property(lambda self: self.value.ndim, doc="Number of axes.")
    size = property(lambda self: self.value.size, doc="Number of elements.")
    T = property(lambda self: self.transpose(), doc="Axes in the opposite order.")

    def detach(self) -> Any:
        """The value, to be used as a constant."""
        self.node.left = "detach()"
        return self.value

    def item(self) -> float:
        """The value of an array of one element."""
        return self.value.item()

    def tolist(self) -> Any:
        """The value as lists of numbers."""
        return self.value.tolist()

    def astype(self, dtype: Any) -> Any:
        """In another precision; as integers or booleans, off the tape."""
        if np.dtype(dtype).kind != "f":
            self.node.left = f"astype({np.dtype(dtype)})"
            return self.value.astype(dtype)
        return _record("astype", astype, (self, dtype), {})

    def __getitem__(self, key: Any) -> Any:
        key = tuple(k.value if isinstance(k, Recorded) else k for k in key) if isinstance(key, tuple) else key
        return _record("indexing", take, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(message("TapeArray", "[...] =", "no writing: what was recorded would change", "an assignment"))

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """See numpy.sum."""
        return _apply(np.sum, (self, axis), {"keepdims": keepdims})

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """See numpy.mean."""
        return _apply(np.mean, (self, axis), {"keepdims": keepdims})

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """See numpy.max."""
        return _apply(np.max, (self, axis), {"keepdims": keepdims})

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """See numpy.min."""
        return _apply(np.min, (self, axis), {"keepdims": keepdims})

    def dot(self, other: Any) -> Any:
        """See numpy.dot."""
        return _apply(np.dot, (self, other), {})

    def reshape(self, *shape: Any) -> Any:
        """See numpy.reshape."""
        return _apply(np.reshape, (self, shape[0] if len(shape) == 1 else shape), {})

    def ravel(self) -> Any:
        """See numpy.ravel."""
        return _apply(np.ravel, (self,), {})

    def transpose(self, *axes: Any) -> Any:
        """See numpy.transpose."""
        return _apply(np.transpose, (self, (axes[0] if len(axes) == 1 else axes) or None), {})

    def squeeze(self, axis: Any = None) -> Any:
        """See numpy.squeeze."""
        return _apply(np.squeeze, (self, axis), {})

    def clip(self, a_min: Any = None, a_max: Any = None) -> Any:
        """See numpy.clip."""
        return _apply(np.clip, (self, a_min, a_max), {})

    # ---- operators

    def __neg__(self) -> Any:
        return _apply(np.negative, (self,), {})

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return _apply(np.absolute, (self,), {})

    def __add__(self, other: Any) -> Any:
        return _apply(np.add, (self, other), {})

    def __radd__(self, other: Any) -> Any:
        return _apply(np.add, (other, self), {})

    def __sub__(self, other: Any) -> Any:
        return _apply(np.subtract, (self, other), {})

    def __rsub__(self, other: Any) -> Any:
        return _apply(np.subtract, (other, self), {})

    def __mul__(self, other: Any) -> Any:
        return _apply(np.multiply, (self, other), {})

    def __rmul__(self, other: Any) -> Any:
        return _apply(np.multiply, (other, self), {})

    def __truediv__(self, other: Any) -> Any:
        return _apply(np.true_divide, (self, other), {})

    def __rtruediv__(self, other: Any) -> Any:
        return _apply(np.true_divide, (other, self), {})

    def __pow__(self, other: Any) -> Any:
        return _apply(np.power, (self, other), {})

    def __rpow__(self, other: Any) -> Any:
        return _apply(np.power, (other, self), {})

    def __matmul__(self, other: Any) -> Any:
        return _apply(np.matmul, (self, other), {})

    def __rmatmul__(self, other: Any) -> Any:
        return _apply(np.matmul, (other, self), {})

    def __lt__(self, other: Any) -> Any:
        return self.value < _value(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= _value(other)

    def __gt__(self, other: Any) -> Any:
        return self.value > _value(other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= _value(other)

    def __eq__(self, other: object) -> Any:
        return self.value == _value(other)

    def __ne__(self, other: object) -> Any:
        return self.value != _value(other)

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value[()] if self.ndim == 0 else self.value, spec)

    def __repr__(self) -> str:
        return f"TapeArray({self.value!r}, made by {self.node.name})"

    # ---- NumPy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.node.left = "a function that takes plain arrays, such as numpy.asarray"
        return np.array(self.value, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not self.live or ufunc.nout == 1 and ufunc.types and all(t.endswith("?") for t in ufunc.types):
            return getattr(ufunc, method)(*map(_value, inputs), **kwargs)
        if method != "__call__" or kwargs or ufunc not in UFUNCS:
            raise _unknown(ufunc.__name__ + ("" if method == "__call__" else f".{method}"), kwargs)
        return _apply(ufunc, inputs, {})

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not self.live or function in PASSED_THROUGH:
            return function(*_values(args), **{name: _value(x) for name, x in kwargs.items()})
        return _apply(function, args, kwargs)


def _apply(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if function not in RULES:
        raise _unknown(function.__name__, {})
    return _record(function.__name__, RULES[function], tuple(args), kwargs)


def _record(name: str, rule: Rule, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a rule; what it gives is a TapeArray while a tape records."""
    flat = [x for arg in args for x in (arg if isinstance(arg, (list, tuple)) else (arg,))]
    arrays = [x for x in flat if isinstance(x, TapeArray)]
    xp = arrays[0].namespace
    plain = _values(args)
    try:
        value, back = rule(xp, *plain, **{name: _value(x) for name, x in kwargs.items()})
    except TypeError as error:
        if "unexpected keyword" in str(error) or "positional argument" in str(error):
            raise _unknown(name, kwargs) from error
        raise
    value = xp.asarray(value)
    if innermost() is None:
        return value
    if value.dtype.kind != "f":
        raise TypeError(message(name, "x", "floats on a tape", f"a result of {value.dtype}"))

    def backward(cotangents: list[Any]) -> list[Any]:
        gradients = back(cotangents[0])
        one_each = [
            g for x, g in zip(args, gradients, strict=False) for g in (g if isinstance(x, (list, tuple)) else (g,))
        ]
        return [g for x, g in zip(flat, one_each, strict=False) if isinstance(x, TapeArray)]

    names = tuple(f"argument {k}" for k, x in enumerate(flat) if isinstance(x, TapeArray))
    return TapeArray(frozen(value.view()), Node(name, tuple(arrays), names, backward))


def _unknown(name: str, options: dict[str, Any]) -> TypeError:
    known = ", ".join(sorted(f.__name__ for f in RULES))
    called = name + (f"({', '.join(options)}=)" if options else "")
    expected = f"a function that is recorded ({known}), or plain arrays: x.detach()"
    return TypeError(message("Tape", called, expected, "an array on a tape"))


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Recorded) else x


def _values(args: Any) -> list[Any]:
    return [type(x)(map(_value, x)) if isinstance(x, (list, tuple)) else _value(x) for x in args]


def _namespace(array: Any) -> Any:
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    import cupy

    return cupy


def _digest(array: Any) -> int:
    """A number that changes when the array does."""
    if isinstance(array, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    import cupy

    words = array.ravel().view(f"u{array.dtype.itemsize}").astype("u8")
    return int((words * (2 * cupy.arange(words.size, dtype="u8") + 1)).sum()) if words.size else 0
