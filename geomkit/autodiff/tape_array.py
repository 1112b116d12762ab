"""An array on a tape, and its place in what was recorded."""

from __future__ import annotations

import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from geomkit.arrays import Recorded, frozen
from geomkit.autodiff.recording import innermost, recordings, tapes
from geomkit.autodiff.tape_functions import PASSED_THROUGH, RULES, UFUNCS, USE_VALUES, Rule, astype, take
from geomkit.errors import message

__all__ = ["Node", "TapeArray", "Watched", "on_tape"]

LOOKED_AT = 1000  # nodes, to tell what an array was made of that leaves the tape

_number = itertools.count(1)


class Watched:
    """An array that somebody may write into, and what it was."""

    def __init__(self, array: Any):
        self.array, self.digest = array, _digest(array)

    @staticmethod
    def needed(array: Any) -> bool:
        """Whether anybody can write into the array."""
        return not isinstance(array, np.ndarray) or array.flags.writeable or array.base is not None

    def check(self, op: str, argument: str) -> None:
        """Raise a ValueError, in the name of an op that reads it, if the array has been written to since."""
        if _digest(self.array) != self.digest:
            raise ValueError(message(op, argument, "the values that were recorded", "an array written to since"))


class Node:
    """What was computed at one step of a recording, or an array that was there before.

    Attributes:
        name: the function.
        inputs: arrays it was computed from.
        arguments: the name of each input.
        backward: from the cotangents of its outputs, None for zero, to those of its inputs.
        constants: what else its derivative is made of, by the name of the argument.
        recordings: what it belongs to; an array that was there before belongs to none.
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[TapeArray, ...] = (),
        arguments: tuple[str, ...] = (),
        backward: Callable[[list[Any]], Any] | None = None,
        n_outputs: int = 1,
        constants: tuple[tuple[str, Watched], ...] = (),
    ):
        self.name, self.inputs, self.arguments, self.backward = name, inputs, arguments, backward
        self.n_outputs, self.constants = n_outputs, constants
        self.number = next(_number)
        self.recordings = recordings() if backward is not None else frozenset()
        self.watched: Watched | None = None

    def left(self, how: str) -> None:
        """Remember how an output left the tape, for the error that may follow; arrays are not kept for it."""
        if not tapes():
            return
        made_of, pending = set(), [self]
        while pending and len(made_of) < LOOKED_AT:
            node = pending.pop()
            if node.number not in made_of:
                made_of.add(node.number)
                pending += [x.node for x in node.inputs]
        for tape in tapes():
            tape.departures.append((self.name, how, made_of))


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
    def leaf(cls, array: Any, private: bool = False) -> TapeArray:
        """An array that was there before the recording."""
        node = Node("watch")
        if isinstance(array, Recorded):
            array = array.value
        elif Watched.needed(array) and not (private and isinstance(array, np.ndarray)):
            node.watched = Watched(array)
        return cls(array, node)

    @property
    def live(self) -> bool:
        """Whether a tape is recording what is computed from it."""
        return innermost() is not None

    @property
    def private(self) -> bool:
        """Whether nobody can write into the value."""
        return self.node.watched is None

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
        self.node.left("detach()")
        return self.value

    def item(self) -> float:
        """The value of an array of one element."""
        self.node.left("item()")
        return self.value.item()

    def tolist(self) -> Any:
        """The value as lists of numbers."""
        self.node.left("tolist()")
        return self.value.tolist()

    def astype(self, dtype: Any) -> Any:
        """In another precision; as integers or booleans, off the tape."""
        if np.dtype(dtype).kind != "f":
            self.node.left(f"astype({np.dtype(dtype)})")
            return self.value.astype(dtype)
        return _record("astype", astype, (self, dtype), {})

    def __getitem__(self, key: Any) -> Any:
        key = tuple(map(_value, key)) if isinstance(key, tuple) else _value(key)
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

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __float__(self) -> float:
        self.node.left("float()")
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value[()] if self.ndim == 0 else self.value, spec)

    def __repr__(self) -> str:
        return f"TapeArray({self.value!r}, made by {self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'TapeArray' object has no attribute {name!r}")
        raise AttributeError(str(_unknown(f"ndarray.{name}", {})))

    # ---- NumPy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.node.left("numpy.asarray, or what else takes plain arrays")
        return np.array(self.value, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            raise TypeError(message(ufunc.__name__, "out", "no writing where a TapeArray takes part", "an array"))
        if not self.live or ufunc.nout == 1 and ufunc.types and all(t.endswith("?") for t in ufunc.types):
            return getattr(ufunc, method)(*map(_value, inputs), **{name: _value(x) for name, x in kwargs.items()})
        if method != "__call__" or kwargs or ufunc not in UFUNCS:
            raise _unknown(ufunc.__name__ + ("" if method == "__call__" else f".{method}"), kwargs)
        return _apply(ufunc, inputs, {})

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not self.live or function in PASSED_THROUGH:
            return function(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
        return _apply(function, args, kwargs)


def on_tape(x: TapeArray) -> TapeArray:
    """x as what is recorded now knows it: an array of another recording has no history in this one."""
    tape = innermost()
    known, now = x.node.recordings, recordings()
    if tape is None or known is now or not known or known & now:
        return x
    return tape.watch(x)


def _apply(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if function not in RULES:
        raise _unknown(function.__name__, {})
    return _record(function.__name__, RULES[function], args, kwargs)


def _record(name: str, rule: Rule, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a rule; what it gives is a TapeArray while a tape records."""
    args, options = _bound(name, rule, args, kwargs)
    # Of each array on the tape: which argument it is, or is in, and where.
    places: list[tuple[int, int | None, TapeArray]] = []
    for k, x in enumerate(args):
        if isinstance(x, TapeArray):
            places.append((k, None, on_tape(x)))
        elif isinstance(x, (list, tuple)):
            places += [(k, j, on_tape(element)) for j, element in enumerate(x) if isinstance(element, TapeArray)]
    plain = [_plain(x) for x in args]
    xp = _namespace(places[0][2].value)
    value, back = rule(xp, *plain, **options)
    value = xp.asarray(value)
    if innermost() is None:
        return value
    if value.dtype.kind != "f":
        raise TypeError(message(name, "x", "floats on a tape", f"a result of {value.dtype}"))
    # A view of an array that others may write into would change with it.
    if any(not x.private and xp.may_share_memory(value, x.value) for _, _, x in places):
        value = value.copy()

    def backward(cotangents: list[Any]) -> list[Any]:
        gradients = {k: back(cotangents[0], k) for k in {k for k, _, _ in places}}
        return [gradients[k] if j is None else gradients[k][j] for k, j, _ in places]

    names = list(_parameters(rule)[0])
    arguments = tuple(names[k] if j is None else f"{names[k]}[{j}]" for k, j, _ in places)
    constants = tuple(_constants(names, plain, args)) if rule in USE_VALUES else ()
    node = Node(name, tuple(x for _, _, x in places), arguments, backward, 1, constants)
    return TapeArray(frozen(value.view()), node)


def _bound(name: str, rule: Rule, args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """A rule's arguments in their order, and those that must be named."""
    known, named = _parameters(rule)
    if not kwargs and len(args) == len(known):
        return list(args), kwargs
    missing = list(known)[len(args) :]
    if len(args) > len(known) or not kwargs.keys() <= {*missing, *named}:
        raise _unknown(name, kwargs)
    bound = [*args, *(kwargs.get(parameter, known[parameter]) for parameter in missing)]
    if any(x is inspect.Parameter.empty for x in bound):
        raise _unknown(name, kwargs)
    return bound, {parameter: x for parameter, x in kwargs.items() if parameter in named}


def _constants(names: list[str], plain: list[Any], args: list[Any]) -> Iterator[tuple[str, Watched]]:
    for name, x, given in zip(names, plain, args, strict=True):
        for element in x if isinstance(x, tuple) else (x,):
            is_array = hasattr(element, "flags") and not isinstance(element, np.generic)
            if is_array and not isinstance(given, TapeArray) and Watched.needed(element):
                yield name, Watched(element)


@functools.cache
def _parameters(rule: Rule) -> tuple[dict[str, Any], frozenset[str]]:
    """A rule's arguments with their defaults, and those that must be named."""
    parameters = list(inspect.signature(rule).parameters.values())[1:]
    named = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    return {p.name: p.default for p in parameters if p.name not in named}, named


def _unknown(name: str, options: dict[str, Any]) -> TypeError:
    known = ", ".join(sorted(f.__name__ for f in RULES))
    called = name + (f"({', '.join(options)}=)" if options else "")
    expected = f"one of {known}, or plain arrays (x.detach())"
    return TypeError(message("Tape", called, expected, "a call that is not recorded"))


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Recorded) else x


def _plain(x: Any) -> Any:
    return type(x)([_value(element) for element in x]) if type(x) in (list, tuple) else _value(x)


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
