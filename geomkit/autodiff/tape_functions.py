"""The array functions that a tape records, each with its derivative.

A rule takes the arrays' namespace (NumPy or CuPy), the arguments as arrays and numbers, and returns the value and the
function from its cotangent to those of the arguments, in their order; a list of arrays has a list of cotangents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["PASSED_THROUGH", "RULES", "UFUNCS"]

Rule = Callable[..., tuple[Any, Callable[[Any], tuple[Any, ...]]]]

UNARY: dict[np.ufunc, tuple[str, Callable[..., Any]]] = {
    np.negative: ("negative", lambda xp, g, y, x: -g),
    np.positive: ("positive", lambda xp, g, y, x: g),
    np.absolute: ("absolute", lambda xp, g, y, x: g * xp.sign(x)),
    np.square: ("square", lambda xp, g, y, x: 2 * g * x),
    # (At 0 the slope is infinite, and what is constant there would get 0 times infinity.)
    np.sqrt: ("sqrt", lambda xp, g, y, x: xp.where(g == 0, 0, g / xp.where(g == 0, 1, 2 * y))),
    np.exp: ("exp", lambda xp, g, y, x: g * y),
    np.log: ("log", lambda xp, g, y, x: g / x),
    np.sin: ("sin", lambda xp, g, y, x: g * xp.cos(x)),
    np.cos: ("cos", lambda xp, g, y, x: -g * xp.sin(x)),
    np.tanh: ("tanh", lambda xp, g, y, x: g * (1 - y * y)),
}

# Of equal arguments the first is the one that max and min take.
BINARY: dict[np.ufunc, tuple[str, Callable[..., Any]]] = {
    np.add: ("add", lambda xp, g, y, a, b: (g, g)),
    np.subtract: ("subtract", lambda xp, g, y, a, b: (g, -g)),
    np.multiply: ("multiply", lambda xp, g, y, a, b: (g * b, g * a)),
    np.true_divide: ("true_divide", lambda xp, g, y, a, b: (g / b, -g * y / b)),
    np.power: ("power", lambda xp, g, y, a, b: (_slope_of_base(xp, g, a, b), _slope_of_exponent(xp, g, y, a))),
    np.maximum: ("maximum", lambda xp, g, y, a, b: (g * (a >= b), g * (a < b))),
    np.minimum: ("minimum", lambda xp, g, y, a, b: (g * (a <= b), g * (a > b))),
}


def _slope_of_base(xp: Any, g: Any, a: Any, b: Any) -> Any:
    return g * xp.where(xp.equal(b, 0), 0, b * a ** xp.where(xp.equal(b, 0), 1, b - 1))


def _slope_of_exponent(xp: Any, g: Any, y: Any, a: Any) -> Any:
    return g * y * xp.log(xp.where(xp.greater(a, 0), a, 1))


def _summed(g: Any, like: Any) -> Any:
    """A cotangent of what was broadcast, summed to the shape that it had."""
    shape = np.shape(like)
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra))) if extra else g
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and g.shape[k] != 1)
    return g.sum(axis=axes, keepdims=True) if axes else g


def _unary(entry: tuple[str, Callable[..., Any]]) -> Rule:
    name, slope = entry

    def rule(xp: Any, x: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        y = getattr(xp, name)(x)
        return y, lambda g: (slope(xp, g, y, x),)

    return rule


def _binary(entry: tuple[str, Callable[..., Any]]) -> Rule:
    name, slopes = entry

    def rule(xp: Any, a: Any, b: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        y = getattr(xp, name)(a, b)

        def back(g: Any) -> tuple[Any, ...]:
            to_a, to_b = slopes(xp, g, y, a, b)
            return _summed(to_a, a), _summed(to_b, b)

        return y, back

    return rule


def _matmul(xp: Any, a: Any, b: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    def back(g: Any) -> tuple[Any, ...]:
        # A vector is a row to the left and a column to the right.
        left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
        g = xp.expand_dims(g, -2) if a.ndim == 1 else g
        g = xp.expand_dims(g, -1) if b.ndim == 1 else g
        to_a, to_b = g @ xp.swapaxes(right, -1, -2), xp.swapaxes(left, -1, -2) @ g
        return _summed(to_a, left).reshape(a.shape), _summed(to_b, right).reshape(b.shape)

    return xp.matmul(a, b), back


def _dot(xp: Any, a: Any, b: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    if np.ndim(a) > 2 or np.ndim(b) > 2:
        raise TypeError("dot: expected at most two dimensions on a tape (use matmul)")
    return (RULES[np.multiply] if 0 in (np.ndim(a), np.ndim(b)) else _matmul)(xp, a, b)


def _sum(xp: Any, x: Any, axis: Any = None, *, keepdims: bool = False) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    y = xp.sum(x, axis=axis, keepdims=keepdims)
    return y, lambda g: (xp.broadcast_to(_spread(xp, g, x, axis, keepdims), x.shape),)


def _mean(xp: Any, x: Any, axis: Any = None, *, keepdims: bool = False) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    y = xp.mean(x, axis=axis, keepdims=keepdims)
    share = max(y.size, 1) / max(x.size, 1)
    return y, lambda g: (xp.broadcast_to(_spread(xp, g * share, x, axis, keepdims), x.shape),)


def _extreme(name: str, first: str) -> Rule:
    """The one of lowest index among equals."""

    def rule(
        xp: Any, x: Any, axis: int | None = None, *, keepdims: bool = False
    ) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        if isinstance(axis, tuple):
            raise TypeError(f"{name}: expected one axis or None on a tape, got {axis}")
        y = getattr(xp, name)(x, axis=axis, keepdims=keepdims)

        def back(g: Any) -> tuple[Any, ...]:
            flat, k = (x.reshape(-1), 0) if axis is None else (x, axis)
            at = xp.expand_dims(getattr(xp, first)(flat, axis=k), k)
            out = xp.zeros(flat.shape, x.dtype)
            # (CuPy's put_along_axis is young; a comparison does.)
            place = xp.arange(flat.shape[k]).reshape([-1 if j == k % flat.ndim else 1 for j in range(flat.ndim)])
            spread = _spread(xp, g, flat, k, keepdims and axis is not None)
            return (xp.where(place == at, spread, out).reshape(x.shape),)

        return y, back

    return rule


def _spread(xp: Any, g: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """The cotangent of a reduction, with the reduced axes of length one again."""
    if axis is None:
        return g.reshape((1,) * x.ndim)
    if keepdims:
        return g
    axes = {k % x.ndim for k in (axis if isinstance(axis, tuple) else (axis,))}
    return g.reshape([1 if k in axes else n for k, n in enumerate(x.shape)])


def _norm(
    xp: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    if ord not in (None, 2, "fro") or (ord == 2 and axis is None and x.ndim != 1):
        raise TypeError(f"linalg.norm: expected the Euclidean norm on a tape, got ord={ord!r}")
    y = xp.sqrt(xp.sum(x * x, axis=axis, keepdims=keepdims))

    def back(g: Any) -> tuple[Any, ...]:
        # A zero vector has no direction and sends 0.
        scale = xp.where(y > 0, g / xp.where(y > 0, y, 1), 0)
        return (x * _spread(xp, scale, x, axis, keepdims),)

    return y, back


def _where(xp: Any, condition: Any, a: Any, b: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    def back(g: Any) -> tuple[Any, ...]:
        return None, _summed(xp.where(condition, g, 0), a), _summed(xp.where(condition, 0, g), b)

    return xp.where(condition, a, b), back


def _clip(xp: Any, x: Any, a_min: Any = None, a_max: Any = None) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    y = xp.clip(x, a_min, a_max)
    return y, lambda g: (g * (y == x),)


def _shape(name: str) -> Rule:
    """A function that moves elements about one to one and knows no more than their shape."""

    def rule(xp: Any, x: Any, *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        return getattr(xp, name)(x, *args, **kwargs), lambda g: (g.reshape(x.shape),)

    return rule


def _transpose(xp: Any, x: Any, axes: Any = None) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    back = None if axes is None else np.argsort([k % x.ndim for k in axes]).tolist()
    return xp.transpose(x, axes), lambda g: (xp.transpose(g, back),)


def _broadcast_to(xp: Any, x: Any, shape: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    return xp.broadcast_to(x, shape), lambda g: (_summed(g, x),)


def _concatenate(xp: Any, arrays: Any, axis: int = 0) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    ends = np.cumsum([x.shape[axis] for x in arrays])[:-1].tolist()
    return xp.concatenate(arrays, axis=axis), lambda g: (xp.split(g, ends, axis=axis),)


def _stack(xp: Any, arrays: Any, axis: int = 0) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    def back(g: Any) -> tuple[Any, ...]:
        return ([xp.take(g, k, axis=axis) for k in range(len(arrays))],)

    return xp.stack(arrays, axis=axis), back


def astype(xp: Any, x: Any, dtype: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """To another precision."""
    return x.astype(dtype), lambda g: (g.astype(x.dtype),)


def take(xp: Any, x: Any, key: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Indexing of any kind; cotangents of an element that is taken twice add up."""

    def back(g: Any) -> tuple[Any, ...]:
        # Summed in order: float atomics would give other bits each time.
        place = xp.arange(x.size).reshape(x.shape)[key].reshape(-1)
        total = xp.bincount(place, weights=g.reshape(-1).astype(np.float64), minlength=x.size)
        return (total.reshape(x.shape).astype(x.dtype),)

    return x[key], back


UFUNCS: dict[Any, Rule] = {
    **{f: _unary(entry) for f, entry in UNARY.items()},
    **{f: _binary(entry) for f, entry in BINARY.items()},
    np.matmul: _matmul,
}
RULES: dict[Any, Rule] = {
    **UFUNCS,
    np.dot: _dot,
    np.sum: _sum,
    np.mean: _mean,
    np.max: _extreme("max", "argmax"),
    np.min: _extreme("min", "argmin"),
    np.linalg.norm: _norm,
    np.where: _where,
    np.clip: _clip,
    np.reshape: _shape("reshape"),
    np.ravel: _shape("ravel"),
    np.squeeze: _shape("squeeze"),
    np.expand_dims: _shape("expand_dims"),
    np.transpose: _transpose,
    np.broadcast_to: _broadcast_to,
    np.concatenate: _concatenate,
    np.stack: _stack,
}

# Functions whose answers are discrete: they work on the values, and lose nothing.
PASSED_THROUGH = frozenset(
    {
        np.shape, np.ndim, np.size, np.argmax, np.argmin, np.argsort, np.argwhere, np.nonzero, np.flatnonzero,
        np.count_nonzero, np.isclose, np.allclose, np.array_equal, np.all, np.any, np.searchsorted, np.zeros_like,
        np.ones_like, np.empty_like, np.full_like, np.array_repr, np.array_str, np.array2string, np.result_type,
    }
)  # fmt: skip
