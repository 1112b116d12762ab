"""The array functions that a tape records, each with its derivative.

A rule takes the arrays' namespace (NumPy or CuPy) and the arguments, as arrays and numbers, in NumPy's order. It
returns the value, and the function from the value's cotangent and the number of an argument to that argument's
cotangent; for a list of arrays, to theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.errors import message

__all__ = ["PASSED_THROUGH", "RULES", "UFUNCS", "USE_VALUES", "Back", "Rule", "astype", "take"]

Back = Callable[[Any, int], Any]
Rule = Callable[..., tuple[Any, Back]]

UNARY: dict[np.ufunc, Callable[..., Any]] = {
    np.negative: lambda xp, g, y, x: -g,
    np.positive: lambda xp, g, y, x: g,
    np.absolute: lambda xp, g, y, x: g * xp.sign(x),
    np.square: lambda xp, g, y, x: 2 * g * x,
    # (At 0 the slope is infinite, and what is constant there would get 0 times infinity.)
    np.sqrt: lambda xp, g, y, x: xp.where(g == 0, 0, g / xp.where(g == 0, 1, 2 * y)),
    np.exp: lambda xp, g, y, x: g * y,
    np.log: lambda xp, g, y, x: g / x,
    np.sin: lambda xp, g, y, x: g * xp.cos(x),
    np.cos: lambda xp, g, y, x: -g * xp.sin(x),
    np.tanh: lambda xp, g, y, x: g * (1 - y * y),
}


def _slope_of_base(xp: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    if isinstance(b, (int, float)):
        return 0 * g if b == 0 else g * (b * a ** (b - 1))
    return g * xp.where(b == 0, 0, b * a ** xp.where(b == 0, 1, b - 1))


def _slope_of_exponent(xp: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    if isinstance(a, (int, float)):
        return g * y * (math.log(a) if a > 0 else 0)
    return g * y * xp.log(xp.where(a > 0, a, 1))


# Of equal arguments the first is the one that max and min take.
BINARY: dict[np.ufunc, tuple[Callable[..., Any], Callable[..., Any]]] = {
    np.add: (lambda xp, g, y, a, b: g, lambda xp, g, y, a, b: g),
    np.subtract: (lambda xp, g, y, a, b: g, lambda xp, g, y, a, b: -g),
    np.multiply: (lambda xp, g, y, a, b: g * b, lambda xp, g, y, a, b: g * a),
    np.true_divide: (lambda xp, g, y, a, b: g / b, lambda xp, g, y, a, b: -g * y / b),
    np.power: (_slope_of_base, _slope_of_exponent),
    np.maximum: (lambda xp, g, y, a, b: xp.where(a < b, 0, g), lambda xp, g, y, a, b: xp.where(a < b, g, 0)),
    np.minimum: (lambda xp, g, y, a, b: xp.where(a > b, 0, g), lambda xp, g, y, a, b: xp.where(a > b, g, 0)),
}


def _summed(g: Any, like: Any) -> Any:
    """A cotangent of what was broadcast, summed to the shape that it had."""
    shape = np.shape(like)
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra))) if extra else g
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and g.shape[k] != 1)
    return g.sum(axis=axes, keepdims=True) if axes else g


def _unary(ufunc: np.ufunc, slope: Callable[..., Any]) -> Rule:
    def rule(xp: Any, x: Any) -> tuple[Any, Back]:
        y = getattr(xp, ufunc.__name__)(x)
        return y, lambda g, k: slope(xp, g, y, x)

    return rule


def _binary(ufunc: np.ufunc, slopes: tuple[Callable[..., Any], Callable[..., Any]]) -> Rule:
    def rule(xp: Any, a: Any, b: Any) -> tuple[Any, Back]:
        a, b = _operand(xp, a), _operand(xp, b)
        y = getattr(xp, ufunc.__name__)(a, b)
        return y, lambda g, k: _summed(slopes[k](xp, g, y, a, b), (a, b)[k])

    return rule


def _operand(xp: Any, x: Any) -> Any:
    return xp.asarray(x) if isinstance(x, (list, tuple)) else x


def _matmul(xp: Any, a: Any, b: Any) -> tuple[Any, Back]:
    a, b = _operand(xp, a), _operand(xp, b)

    def back(g: Any, k: int) -> Any:
        # A vector is a row to the left and a column to the right.
        left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
        g = xp.expand_dims(g, -1) if b.ndim == 1 else g
        g = xp.expand_dims(g, -2) if a.ndim == 1 else g
        if k == 0:
            return _summed(g @ xp.swapaxes(right, -1, -2), left).reshape(a.shape)
        return _summed(xp.swapaxes(left, -1, -2) @ g, right).reshape(b.shape)

    return xp.matmul(a, b), back


def _dot(xp: Any, a: Any, b: Any) -> tuple[Any, Back]:
    if np.ndim(a) > 2 or np.ndim(b) > 2:
        got = f"{np.ndim(a)} and {np.ndim(b)} (use matmul)"
        raise TypeError(message("dot", "a, b", "at most two dimensions on a tape", got))
    return (RULES[np.multiply] if 0 in (np.ndim(a), np.ndim(b)) else _matmul)(xp, a, b)


def _sum(xp: Any, x: Any, axis: Any = None, *, keepdims: bool = False) -> tuple[Any, Back]:
    y = xp.sum(x, axis=axis, keepdims=keepdims)
    return y, lambda g, k: xp.broadcast_to(_spread(g, x, axis), x.shape)


def _mean(xp: Any, x: Any, axis: Any = None, *, keepdims: bool = False) -> tuple[Any, Back]:
    y = xp.mean(x, axis=axis, keepdims=keepdims)
    share = max(y.size, 1) / max(x.size, 1)
    return y, lambda g, k: xp.broadcast_to(_spread(g * share, x, axis), x.shape)


def _extreme(name: str) -> Rule:
    """The one of lowest index among equals."""

    def rule(xp: Any, x: Any, axis: int | None = None, *, keepdims: bool = False) -> tuple[Any, Back]:
        if isinstance(axis, tuple):
            raise TypeError(message(name, "axis", "one axis or None on a tape", str(axis)))
        y = getattr(xp, name)(x, axis=axis, keepdims=keepdims)

        def back(g: Any, _: int) -> Any:
            flat, k = (x.reshape(-1), 0) if axis is None or x.ndim == 0 else (x, axis % x.ndim)
            at = xp.expand_dims(getattr(xp, f"arg{name}")(flat, axis=k), k)
            place = xp.arange(flat.shape[k]).reshape([-1 if j == k else 1 for j in range(flat.ndim)])
            return xp.where(place == at, _spread(g, flat, k), 0).reshape(x.shape)

        return y, back

    return rule


def _spread(g: Any, x: Any, axis: Any) -> Any:
    """The cotangent of a reduction, with the reduced axes of length one again."""
    if axis is None:
        return g.reshape((1,) * x.ndim)
    axes = {k % max(x.ndim, 1) for k in (axis if isinstance(axis, tuple) else (axis,))}
    return g.reshape([1 if k in axes else n for k, n in enumerate(x.shape)])


def _norm(xp: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> tuple[Any, Back]:
    n_axes = len(axis) if isinstance(axis, tuple) else x.ndim if axis is None else 1
    if not (ord is None or (ord == 2 and n_axes == 1) or (ord == "fro" and n_axes == 2)):
        raise TypeError(message("linalg.norm", "ord", "the Euclidean norm on a tape", f"{ord!r} over {n_axes} axes"))
    y = xp.linalg.norm(x, ord, axis, keepdims)

    def back(g: Any, k: int) -> Any:
        # A zero vector has no direction and sends 0.
        scale = xp.where(y > 0, g / xp.where(y > 0, y, 1), 0)
        return x * _spread(scale, x, axis)

    return y, back


def _where(xp: Any, condition: Any, x: Any, y: Any) -> tuple[Any, Back]:
    condition, x, y = (_operand(xp, value) for value in (condition, x, y))

    def back(g: Any, k: int) -> Any:
        if k == 0:
            return None
        return _summed(xp.where(condition, g, 0), x) if k == 1 else _summed(xp.where(condition, 0, g), y)

    return xp.where(condition, x, y), back


def _clip(xp: Any, x: Any, a_min: Any = None, a_max: Any = None) -> tuple[Any, Back]:
    """On a bound, the derivative is that of x; where the bounds are crossed, a_max rules."""
    x, a_min, a_max = (_operand(xp, value) for value in (x, a_min, a_max))
    y = xp.clip(x, a_min, a_max)

    def back(g: Any, k: int) -> Any:
        high = False if a_max is None else (x if a_min is None else xp.maximum(x, a_min)) > a_max
        low = False if a_min is None else (x < a_min) & ~xp.asarray(high)
        free = ~(xp.asarray(low) | high)
        return _summed(xp.where((free, low, high)[k], g, 0), (x, a_min, a_max)[k])

    return y, back


def _reshape(xp: Any, x: Any, shape: Any) -> tuple[Any, Back]:
    return xp.reshape(x, shape), lambda g, k: g.reshape(x.shape)


def _ravel(xp: Any, x: Any) -> tuple[Any, Back]:
    return xp.ravel(x), lambda g, k: g.reshape(x.shape)


def _squeeze(xp: Any, x: Any, axis: Any = None) -> tuple[Any, Back]:
    return xp.squeeze(x, axis), lambda g, k: g.reshape(x.shape)


def _expand_dims(xp: Any, x: Any, axis: Any) -> tuple[Any, Back]:
    return xp.expand_dims(x, axis), lambda g, k: g.reshape(x.shape)


def _transpose(xp: Any, x: Any, axes: Any = None) -> tuple[Any, Back]:
    back = None if axes is None else np.argsort([k % x.ndim for k in axes]).tolist()
    return xp.transpose(x, axes), lambda g, k: xp.transpose(g, back)


def _broadcast_to(xp: Any, x: Any, shape: Any) -> tuple[Any, Back]:
    return xp.broadcast_to(x, shape), lambda g, k: _summed(g, x)


def _concatenate(xp: Any, arrays: Any, axis: int | None = 0) -> tuple[Any, Back]:
    if axis is None:
        raise TypeError(message("concatenate", "axis", "a number on a tape (ravel the arrays first)", "None"))
    arrays = [xp.asarray(x) for x in arrays]
    ends = np.cumsum([x.shape[axis] for x in arrays])[:-1].tolist()
    return xp.concatenate(arrays, axis=axis), lambda g, k: xp.split(g, ends, axis=axis)


def _stack(xp: Any, arrays: Any, axis: int = 0) -> tuple[Any, Back]:
    arrays = [xp.asarray(x) for x in arrays]
    return xp.stack(arrays, axis=axis), lambda g, k: [xp.take(g, j, axis=axis) for j in range(len(arrays))]


def astype(xp: Any, x: Any, dtype: Any) -> tuple[Any, Back]:
    """To another precision."""
    return x.astype(dtype), lambda g, k: g.astype(x.dtype)


def take(xp: Any, x: Any, key: Any) -> tuple[Any, Back]:
    """Indexing of any kind; cotangents of an element that is taken twice add up."""

    keys = key if isinstance(key, tuple) else (key,)

    def back(g: Any, k: int) -> Any:
        if not any(map(_may_repeat, keys)):
            out = xp.zeros(x.shape, x.dtype)
            out[key] = g
            return out
        # Summed in order, on the host: a GPU's float atomics would give other bits each time.
        at = tuple(k.get() if hasattr(k, "get") else k for k in keys)
        place = np.arange(x.size).reshape(x.shape)[at].reshape(-1)
        total = np.bincount(place, weights=to_host(g).reshape(-1), minlength=x.size)
        return xp.asarray(total.reshape(x.shape), dtype=x.dtype)

    return x[key], back


def _may_repeat(key: Any) -> bool:
    """Whether an index may take an element twice."""
    return isinstance(key, list) or getattr(key, "ndim", 0) > 0 and key.dtype.kind != "b"


UFUNCS: dict[Any, Rule] = {
    **{f: _unary(f, slope) for f, slope in UNARY.items()},
    **{f: _binary(f, slopes) for f, slopes in BINARY.items()},
    np.matmul: _matmul,
}
RULES: dict[Any, Rule] = {
    **UFUNCS,
    np.dot: _dot,
    np.sum: _sum,
    np.mean: _mean,
    np.max: _extreme("max"),
    np.min: _extreme("min"),
    np.linalg.norm: _norm,
    np.where: _where,
    np.clip: _clip,
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.squeeze: _squeeze,
    np.expand_dims: _expand_dims,
    np.transpose: _transpose,
    np.broadcast_to: _broadcast_to,
    np.concatenate: _concatenate,
    np.stack: _stack,
}

# Rules whose derivative uses the values of plain arrays among the arguments.
USE_VALUES = frozenset(
    {RULES[f] for f in (np.multiply, np.true_divide, np.power, np.maximum, np.minimum, np.matmul, np.dot, np.where)}
    | {RULES[np.clip], take}
)

# Functions whose answers are discrete: they work on the values, and lose nothing.
PASSED_THROUGH = frozenset(
    {
        np.shape, np.ndim, np.size, np.argmax, np.argmin, np.argsort, np.argwhere, np.nonzero, np.flatnonzero,
        np.count_nonzero, np.isclose, np.allclose, np.array_equal, np.all, np.any, np.searchsorted, np.zeros_like,
        np.ones_like, np.empty_like, np.full_like, np.array_repr, np.array_str, np.array2string, np.result_type,
    }
)  # fmt: skip
