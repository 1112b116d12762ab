"""The pure operations on scalars: how each is written in C++ and computed with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from geomkit.lang.types import Scalar

__all__ = ["OPERATIONS", "Operation", "is_pure"]


class Operation(NamedTuple):
    """A pure operation.

    Attributes:
        c: C++ text with {0}, {1}, ... for the arguments and {t} for the type of the result.
        numpy: the same on NumPy's arrays; the last argument is the dtype of the result.
        header: of cuda/lang, that it needs; "" for none.
        commutes: whether the two arguments may be exchanged.
    """

    c: str
    numpy: Callable
    header: str = ""
    commutes: bool = False


def _floor_divide(a: Any, b: Any, t: np.dtype) -> Any:
    if t.kind == "f":
        return np.floor(a / b)
    return np.where(np.asarray(b) == 0, 0, np.floor_divide(a, np.where(np.asarray(b) == 0, 1, b)))


def _modulo(a: Any, b: Any, t: np.dtype) -> Any:
    if t.kind == "f":
        return a - np.floor(a / b) * b
    return np.where(np.asarray(b) == 0, 0, np.remainder(a, np.where(np.asarray(b) == 0, 1, b)))


def _sign(a: Any, t: np.dtype) -> Any:
    return (np.asarray(a) > 0).astype(t) - (np.asarray(a) < 0).astype(t)


def _convert(a: Any, t: np.dtype) -> Any:
    a = np.asarray(a)
    if a.dtype.kind == "f" and t.kind in "iu":
        return np.trunc(np.where(np.isfinite(a), a, 0)).astype(np.int64).astype(t)
    return a.astype(t)


def _trips(lower: Any, upper: Any, step: Any, t: np.dtype) -> Any:
    lower, upper, step = (np.asarray(x, np.int64) for x in (lower, upper, step))
    safe = np.where(step == 0, 1, step)
    return np.maximum(0, np.where(step > 0, -((lower - upper) // safe), -((upper - lower) // -safe))).astype(t)


def _random_bits(seed: Any, counter: Any, t: np.dtype) -> Any:
    """SplitMix64's output function (Steele, Lea and Flood, 2014) of the seed and the counter, its upper half."""
    with np.errstate(over="ignore"):
        x = np.asarray(seed, np.uint64) << np.uint64(32) | np.asarray(counter, np.uint64)
        x = x * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return (x ^ x >> np.uint64(31)) >> np.uint64(32)


def _plain(function: Callable) -> Callable:
    return lambda *a: function(*a[:-1])


def _shift(function: Callable) -> Callable:
    return lambda a, b, t: function(a, np.asarray(b) & (8 * t.itemsize - 1))


OPERATIONS: dict[str, Operation] = {
    "add": Operation("{0} + {1}", _plain(np.add), commutes=True),
    "sub": Operation("{0} - {1}", _plain(np.subtract)),
    "mul": Operation("{0} * {1}", _plain(np.multiply), commutes=True),
    "div": Operation("{0} / {1}", _plain(np.divide)),
    "neg": Operation("-{0}", _plain(np.negative)),
    "floordiv": Operation("gkl::floordiv({0}, {1})", _floor_divide, "scalar.h"),
    "mod": Operation("gkl::mod({0}, {1})", _modulo, "scalar.h"),
    "bitand": Operation("{0} & {1}", _plain(np.bitwise_and), commutes=True),
    "bitor": Operation("{0} | {1}", _plain(np.bitwise_or), commutes=True),
    "bitxor": Operation("{0} ^ {1}", _plain(np.bitwise_xor), commutes=True),
    "invert": Operation("~{0}", _plain(np.invert)),
    "shl": Operation("gk::shift_left({0}, {1})", _shift(np.left_shift)),
    "shr": Operation("gk::shift_right({0}, {1})", _shift(np.right_shift)),
    "and": Operation("{0} & {1}", _plain(np.logical_and), commutes=True),
    "or": Operation("{0} | {1}", _plain(np.logical_or), commutes=True),
    "not": Operation("!{0}", _plain(np.logical_not)),
    "lt": Operation("{0} < {1}", _plain(np.less)),
    "le": Operation("{0} <= {1}", _plain(np.less_equal)),
    "gt": Operation("{0} > {1}", _plain(np.greater)),
    "ge": Operation("{0} >= {1}", _plain(np.greater_equal)),
    "eq": Operation("{0} == {1}", _plain(np.equal), commutes=True),
    "ne": Operation("{0} != {1}", _plain(np.not_equal), commutes=True),
    "select": Operation("{0} ? {1} : {2}", _plain(np.where)),
    "stop": Operation("{0}", _plain(np.asarray)),
    "convert": Operation("({t})({0})", _convert),
    "trips": Operation("gk::trips({0}, {1}, {2})", _trips),
    # A comparison with NaN is false, so that NaN in the first argument is lost and one in the second stays, as in C.
    "min": Operation("{0} < {1} ? {0} : {1}", _plain(lambda a, b: np.where(np.less(a, b), a, b))),
    "max": Operation("{0} > {1} ? {0} : {1}", _plain(lambda a, b: np.where(np.greater(a, b), a, b))),
    "abs": Operation("gkl::abs({0})", _plain(np.abs), "scalar.h"),
    "sign": Operation("({t})(({0} > 0) - ({0} < 0))", _sign),
    "random_bits": Operation("gkl::random_bits({0}, {1})", _random_bits, "random.h"),
    "isnan": Operation("{0} != {0}", _plain(np.isnan)),
    "isfinite": Operation("{0} - {0} == 0", _plain(np.isfinite)),
    "atan2": Operation("gkl::atan2({0}, {1})", _plain(np.arctan2), "scalar.h"),
    "pow": Operation("gkl::pow({0}, {1})", _plain(np.power), "scalar.h"),
    "fmod": Operation("gkl::fmod({0}, {1})", _plain(np.fmod), "scalar.h"),
    "rsqrt": Operation("gkl::rsqrt({0})", lambda a, t: (1 / np.sqrt(a)).astype(t), "scalar.h"),
    "round": Operation("gkl::round({0})", _plain(np.rint), "scalar.h"),
}
for _name, _function in {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
}.items():  # fmt: skip
    OPERATIONS[_name] = Operation(f"gkl::{_name}({{0}})", _plain(_function), "scalar.h")

# Pure, but no functions of their arguments alone.
_PURE = frozenset({"const", "tid", "extent"})


def is_pure(kind: str) -> bool:
    """Whether an operation can be removed, moved and shared."""
    return kind in OPERATIONS or kind in _PURE


def evaluate(kind: str, values: list[Any], args: list[Scalar], result: Scalar) -> Any:
    """The constant that an operation makes of constants, as Python's number; None if there is no finite one."""
    typed = [s.dtype.type(v) for s, v in zip(args, values, strict=True)]
    with np.errstate(all="ignore"):
        made = np.asarray(OPERATIONS[kind].numpy(*typed, result.dtype)).astype(result.dtype)
    if result.is_float and not np.isfinite(made):
        return None
    return made.item()
