"""A sampled field between its samples: value and gradient, forward and adjoint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, as_array, library_of, precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.implicit.field import one_of, triple
from geomkit.implicit.grid import SdfGrid
from geomkit.runtime.device import empty, namespace, sort_order, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["TAPS", "GridGradients", "GridSamples", "Interpolated", "add_to_samples", "interpolate_grid"]

_PLACE = "int nx, int ny, int nz, double sx, double sy, double sz, double ox, double oy, double oz, int taps"
_SOURCE = "implicit/interpolate_grid.cu"

interpolate_grid_fwd = Kernel(
    _SOURCE, "interpolate_grid_fwd", f"const real* values, {_PLACE}, const double* points, real* value, real* gradient"
)
interpolate_grid_points_adj = Kernel(
    _SOURCE,
    "interpolate_grid_points_adj",
    f"const real* values, {_PLACE}, const double* points, const real* adj_value, const real* adj_gradient, "
    "real* adj_points",
)
interpolation_cells = Kernel(_SOURCE, "interpolation_cells", f"{_PLACE}, const double* points, uint64* keys")
interpolate_grid_values_adj = Kernel(
    _SOURCE,
    "interpolate_grid_values_adj",
    f"int first, {_PLACE}, const double* points, const int* order, const int* start, const real* adj_value, "
    "const real* adj_gradient, real* adj_values",
    grain=64,
)

TAPS = {"linear": 2, "cubic": 4}  # samples along each axis
CHUNK = 1 << 20  # points whose contributions are sorted at a time


class Interpolated(NamedTuple):
    """What `interpolate_grid` finds for each of N points."""

    value: Any  # (N,)
    gradient: Any  # (N, 3) of the interpolant, per world unit; 0 along an axis on which the point is outside


class GridGradients(NamedTuple):
    """Gradients of an interpolation."""

    grid: Any  # (X, Y, Z) of the samples
    points: Any  # (N, 3) of the points


class GridSamples(NamedTuple):
    """A grid whose samples get cotangents."""

    device: str
    dtype: Any
    shape: tuple[int, ...]
    place: tuple[float, ...]  # spacing and origin


class _Query:
    def __init__(self, grid: Any, points: Any, spacing: Any, origin: Any, method: str):
        op = "interpolate_grid"
        one_of(op, "method", method, tuple(TAPS))
        values = grid
        if isinstance(grid, SdfGrid):
            if spacing is not None or origin is not None:
                raise ValueError(
                    message(op, "spacing, origin", "none, as the SdfGrid has them", f"{spacing}, {origin}")
                )
            values, spacing, origin = grid.values, grid.spacing, grid.origin
        self.library: Library = library_of(points, values)
        self.device, self.dtype = library_of(values, points).device, precision_of(values)
        if self.library.device != self.device:
            raise ValueError(message(op, "points", f"an array on {self.device}, as the grid", self.library.device))

        def array(name: str, value: Any, shape: tuple, dtype: Any) -> Any:
            return as_array(value, op=op, name=name, shape=shape, dtype=dtype, device=self.device)

        # (Points relative to the grid's origin keep their digits far from the world's.)
        self.values = array("grid", values, ("X", "Y", "Z"), self.dtype)
        self.points = array("points", points, ("N", 3), np.float64)
        if not self.values.size:
            raise ValueError(message(op, "grid", "at least one sample", str(self.values.shape)))
        xp = namespace(self.device)
        if not xp.isfinite(self.points).all():
            bad = ~xp.isfinite(self.points).all(axis=1)
            first = int(bad.argmax())
            got = f"{int(bad.sum())} that are not, the first is point {first}: {self.points[first].tolist()}"
            raise ValueError(message(op, "points", "finite numbers", got))
        step = triple(op, "spacing", 1.0 if spacing is None else spacing)
        if not min(step) > 0:
            raise ValueError(message(op, "spacing", "positive numbers", repr(spacing)))
        if not 1 / min(step) <= float(np.finfo(self.dtype).max):
            expected = f"numbers whose inverse is in the range of {self.dtype}"
            raise ValueError(message(op, "spacing", expected, repr(spacing)))
        self.taps = TAPS[method]
        start = triple(op, "origin", 0.0 if origin is None else origin)
        self.samples = GridSamples(self.device, self.dtype, self.values.shape, (*step, *start))
        self.place = (*self.values.shape, *step, *start, self.taps)

    def cotangent(self, name: str, value: Any, shape: tuple) -> Any:
        if value is None:
            return zeros(self.device, shape, self.dtype)
        return as_array(
            value, op="interpolate_grid.adjoint", name=name, shape=shape, dtype=self.dtype, device=self.device
        )


@primitive(differentiable=("grid", "points"), outputs={"value": "real N", "gradient": "real N 3"})
def interpolate_grid(
    grid: Any, points: Any, *, spacing: Any = None, origin: Any = None, method: str = "linear"
) -> Interpolated:
    """Value and gradient of a sampled field at points of your own choice.

    Outside the grid the nearest point of its box counts.

    Args:
        grid: what `sdf_grid` returned, or (X, Y, Z) samples of any array library.
        points: (N, 3) numbers, in world units.
        spacing: between samples: a number, or three; 1 if None. A grid of `sdf_grid` has its own.
        origin: where sample (0, 0, 0) is: a number, or three; 0 if None.
        method: "linear" (trilinear: 8 samples; the gradient jumps between cells) or "cubic" (tricubic convolution: 64
            samples; the gradient is continuous, and quadratic fields come out exact but in the outermost cells).

    Returns:
        A record in the library of the points, of the grid's precision: `.value` (N,), `.gradient` (N, 3). Where one of
        the point's 8 or 64 samples is not finite, even one of weight 0, both may be NaN.

    Gradients:
        grid and points, through both outputs. On the border between two cells those of the upper one.

    Raises:
        ValueError: wrong shape or method, an empty grid, points that are not finite.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.

    Cost: O(N).   Source: Keys (1981), with a = -1/2 and a linear continuation at the border.

    Example:
        >>> import geomkit as gk
        >>> grid = gk.sdf_grid(gk.shapes.box(), resolution=9, padding=0.5)
        >>> there = gk.interpolate_grid(grid, [[0.7, 0.0, 0.1]])
        >>> [round(x, 4) for x in (there.value.tolist() + there.gradient[0].tolist())]
        [0.2, 1.0, 0.0, 0.0]
    """
    q = _Query(grid, points, spacing, origin, method)
    n = len(q.points)
    value, gradient = empty(q.device, n, q.dtype), empty(q.device, (n, 3), q.dtype)
    interpolate_grid_fwd(n, q.values, *q.place, q.points, value, gradient)
    return Interpolated(q.library.wrap(value), q.library.wrap(gradient))


@interpolate_grid.define_adjoint
def interpolate_grid_adjoint(
    grid: Any,
    points: Any,
    *,
    spacing: Any = None,
    origin: Any = None,
    method: str = "linear",
    adj_value: Any = None,
    adj_gradient: Any = None,
) -> GridGradients:
    """Gradients of `interpolate_grid`: cotangents of value and gradient to the samples and the points.

    Args:
        grid, points, spacing, origin, method: as given to `interpolate_grid`.
        adj_value: (N,) cotangent of the values; None is zero.
        adj_gradient: (N, 3) cotangent of the gradients; None is zero.

    Returns:
        A record of `.grid` (X, Y, Z) and `.points` (N, 3), in the library of the points.

    Raises:
        ValueError, TypeError: as `interpolate_grid`; a cotangent of the wrong shape; neither cotangent given.

    Cost: O(N log N + samples), as contributions are sorted by cell. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> g = gk.interpolate_grid.adjoint(np.zeros((2, 2, 2)), [[0.25, 0, 0]], adj_value=[1.0])
        >>> g.grid[:, 0, 0].tolist()
        [0.75, 0.25]
    """
    if adj_value is None and adj_gradient is None:
        raise ValueError(message("interpolate_grid.adjoint", "adj_value, adj_gradient", "at least one", "None"))
    q = _Query(grid, points, spacing, origin, method)
    n = len(q.points)
    value, gradient = q.cotangent("adj_value", adj_value, (n,)), q.cotangent("adj_gradient", adj_gradient, (n, 3))
    adj_points, adj_values = empty(q.device, (n, 3), q.dtype), zeros(q.device, q.values.shape, q.dtype)
    interpolate_grid_points_adj(n, q.values, *q.place, q.points, value, gradient, adj_points)
    add_to_samples(q.samples, q.taps, q.points, value, gradient, adj_values)
    return GridGradients(q.library.wrap(adj_values), q.library.wrap(adj_points))


def add_to_samples(grid: GridSamples, taps: int, points: Any, value: Any, gradient: Any, adj_values: Any) -> None:
    """Add what cotangents of the interpolant send to the samples, in an order that does not depend on threads.

    Args:
        grid: the grid.
        taps: samples along each axis.
        points: (N, 3) float64, in world units.
        value: (N,) cotangents of the value there.
        gradient: (N, 3) cotangents of the gradient there.
        adj_values: of the samples, which is added to.
    """
    for begin in range(0, len(points), CHUNK):
        part = slice(begin, begin + CHUNK)
        _add_part(grid, taps, points[part], value[part], gradient[part], adj_values)


def _add_part(grid: GridSamples, taps: int, points: Any, value: Any, gradient: Any, adj_values: Any) -> None:
    """Sum what points send to samples: by cell, and cells that share samples one after the other."""
    xp, n = namespace(grid.device), len(points)
    place = (*grid.shape, *grid.place, taps)
    keys = empty(grid.device, n, np.uint64)
    interpolation_cells(n, *place, points, keys)
    cells, kinds = int(np.prod(grid.shape)), taps**3
    order = sort_order(keys, (cells * kinds).bit_length())
    keys = keys[order]
    begins = xp.empty(n, bool)
    begins[0] = True
    begins[1:] = keys[1:] != keys[:-1]
    start = xp.flatnonzero(begins)
    kind = (keys[start] // np.uint64(cells)).astype(np.int64)
    first = xp.searchsorted(kind, xp.arange(kinds + 1)).tolist()
    start = xp.append(start, n).astype(np.int32)
    for k in range(kinds):
        interpolate_grid_values_adj(
            first[k + 1] - first[k], first[k], *place, points, order, start, value, gradient, adj_values
        )
