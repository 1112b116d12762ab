"""Adjoints against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["gradcheck"]


def gradcheck(
    forward: Callable[..., Any],
    adjoint: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    *,
    step: float = 1e-6,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    directions: int = 8,
    seed: int = 0,
) -> float:
    """Compare an adjoint with central differences of the forward function, in float64.

    For random directions v of the inputs and random weights w of the output, <w, J v> is measured by a fourth-order
    central difference and <J' w, v> is what the adjoint says. Every input is also checked by itself.

    Args:
        forward: takes the inputs, returns one float array.
        adjoint: takes the inputs and the cotangent of the output, returns one gradient for each input.
        inputs: float64 arrays of any shape.
        step: length of the step, in the inputs' units. No kink may lie within two steps of the inputs.
        rtol, atol: what the two may differ by, relative to the larger of the sums of absolute products, and absolutely.
        directions: number of random directions for each input.
        seed: of the directions and weights.

    Returns:
        The largest relative difference found.

    Raises:
        TypeError: an input is not float64.
        AssertionError: a difference beyond the tolerance, a NaN, or a gradient of the wrong shape.

    Gradients:
        None; it checks them.

    Example:
        >>> import numpy as np
        >>> x = np.array([1.0, 2.0])
        >>> error = gradcheck(np.square, lambda x, adj: [2 * x * adj], [x])
        >>> bool(error < 1e-7)
        True
    """
    inputs = [np.asarray(x) for x in inputs]
    for i, x in enumerate(inputs):
        if x.dtype != np.float64:
            raise TypeError(f"gradcheck: inputs[{i}]: expected float64, got {x.dtype}")
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal(np.shape(forward(*inputs)))
    gradients = [np.asarray(g) for g in adjoint(*inputs, weight)]
    worst = 0.0
    for i, (x, g) in enumerate(zip(inputs, gradients, strict=True)):
        if g.shape != x.shape:
            raise AssertionError(f"gradcheck: inputs[{i}]: gradient of shape {g.shape} for an input of shape {x.shape}")
        for k in range(directions):
            v = rng.standard_normal(x.shape)

            def along(t: float, i: int = i, x: np.ndarray = x, v: np.ndarray = v) -> np.ndarray:
                return np.asarray(forward(*inputs[:i], x + t * v, *inputs[i + 1 :]))

            slope = (8 * (along(step) - along(-step)) - (along(2 * step) - along(-2 * step))) / (12 * step)
            measured, claimed = float((weight * slope).sum()), float((g * v).sum())
            scale = max(np.abs(weight * slope).sum(), np.abs(g * v).sum())
            error = abs(measured - claimed)
            if not error <= rtol * scale + atol:
                raise AssertionError(
                    f"gradcheck: inputs[{i}], direction {k}: the adjoint gives {claimed:.12g}, "
                    f"finite differences give {measured:.12g}, apart by {error:.3g} (allowed {rtol * scale + atol:.3g})"
                )
            worst = max(worst, error / scale if scale > 0 else 0.0)
    return worst
