"""L-BFGS through SciPy, over named arrays of any library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import describe, imported, library_of, precision_of, to_host
from geomkit.errors import message

__all__ = ["Minimum", "lbfgs"]


class Minimum(NamedTuple):
    """What `lbfgs` found."""

    parameters: dict[str, Any]  # arrays by name
    loss: float
    losses: np.ndarray  # of every iteration
    message: str  # why it ended, in SciPy's words


def lbfgs(
    function: Callable[[dict[str, Any]], tuple[Any, Mapping[str, Any]]],
    parameters: Mapping[str, Any],
    *,
    iterations: int = 100,
    tolerance: float = 1e-9,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
) -> Minimum:
    """Minimise a smooth function of a few arrays, as of cameras or lights, with gradients and no learning rate.

    It wants a function that is the same each time: render with one seed.

    Args:
        function: takes the parameters by name, and returns the loss and its gradients by name.
        parameters: where to start: arrays of floats by name.
        iterations: at most.
        tolerance: relative decrease of the loss below which it ends.
        bounds: least and greatest value by name, None for none.

    Returns:
        A record of `.parameters`, `.loss`, `.losses` and `.message`.

    Raises:
        ValueError: a loss or gradient that is not finite: names it; a gradient of the wrong shape or missing.
        TypeError: a parameter that is no array of floats.

    Cost: a call of the function for each point tried, about one an iteration.   Source: scipy.optimize, L-BFGS-B.

    Example:
        >>> import numpy as np
        >>> found = lbfgs(lambda p: (((p["x"] - 3) ** 2).sum(), {"x": 2 * (p["x"] - 3)}), {"x": np.zeros(2)})
        >>> found.parameters["x"].round(6).tolist()
        [3.0, 3.0]
    """
    from scipy.optimize import minimize

    op = "lbfgs"
    if not (isinstance(iterations, int) and iterations >= 1):
        raise ValueError(message(op, "iterations", "an integer of at least 1", repr(iterations)))
    for name, x in parameters.items():
        if "float" not in str(getattr(x, "dtype", "")):
            raise TypeError(message(op, f"parameters[{name!r}]", "an array of floats", describe(x)))
    start = {name: np.array(to_host(imported(x)), np.float64) for name, x in parameters.items()}
    ends = np.cumsum([x.size for x in start.values()])[:-1]

    def unpacked(flat: np.ndarray) -> dict[str, Any]:
        parts = {}
        for (name, x), part in zip(parameters.items(), np.split(flat, ends), strict=True):
            parts[name] = library_of(x).wrap(part.reshape(start[name].shape).astype(precision_of(x)))
        return parts

    def evaluated(flat: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradients = function(unpacked(flat))
        value = float(loss)
        if not np.isfinite(value):
            raise ValueError(message(op, "function", "a finite loss", str(value)))
        flats = []
        for name, x in start.items():
            if name not in gradients or tuple(gradients[name].shape) != x.shape:
                got = describe(gradients[name]) if name in gradients else "none"
                raise ValueError(message(op, f"gradients[{name!r}]", str(x.shape), got))
            g = np.asarray(to_host(imported(gradients[name])), np.float64).reshape(-1)
            if not np.isfinite(g).all():
                got = f"{int((~np.isfinite(g)).sum())} that are not"
                raise ValueError(message(op, f"gradients[{name!r}]", "finite numbers", got))
            flats.append(g)
        return value, np.concatenate(flats) if flats else np.zeros(0)

    losses: list[float] = []

    def note(intermediate_result: Any) -> None:
        losses.append(float(intermediate_result.fun))

    limits = None
    if bounds is not None:
        limits = [(bounds or {}).get(name, (None, None)) for name, x in start.items() for _ in range(x.size)]
    flat = np.concatenate([x.reshape(-1) for x in start.values()])
    options = {"maxiter": iterations, "ftol": tolerance}
    found = minimize(evaluated, flat, jac=True, method="L-BFGS-B", bounds=limits, callback=note, options=options)
    return Minimum(unpacked(found.x), float(found.fun), np.array(losses), str(found.message))
