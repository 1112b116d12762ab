"""Rays to the zero of a sampled field: forward and adjoint."""

from __future__ import annotations

import math
import reprlib
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, library_of, precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.implicit.field import one_of, triple
from geomkit.implicit.grid import SdfGrid
from geomkit.implicit.interpolate_grid import TAPS, GridSamples, add_to_samples
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["TraceQuery", "Traced", "TracedGradients", "sphere_trace"]

_SOURCE = "implicit/sphere_trace.cu"
_RAYS = (
    "const real* values, int nx, int ny, int nz, double sx, double sy, double sz, double ox, double oy, double oz, "
    "const real* origins, const real* directions, double t_min, double t_max, double slope, double band, int cubic"
)
steepest_slopes = Kernel(
    _SOURCE,
    "steepest_slopes",
    "const real* values, int ny, int nz, double sx, double sy, double sz, double* out",
    grain=64,
)
sphere_trace_fwd = Kernel(
    _SOURCE,
    "sphere_trace_fwd",
    f"{_RAYS}, real* t, real* position, real* normal, real* distance, real* nearest",
    grain=128,
)
sphere_trace_adj = Kernel(
    _SOURCE,
    "sphere_trace_adj",
    f"{_RAYS}, const real* adj_t, const real* adj_position, const real* adj_normal, const real* adj_distance, "
    "real* adj_origins, real* adj_directions, double* points, real* adj_value, real* adj_gradient",
    grain=128,
)


class Traced(NamedTuple):
    """What `sphere_trace` finds for each of N rays."""

    t: Any  # (N,), inf for a miss
    position: Any  # (N, 3), inf for a miss
    normal: Any  # (N, 3) unit, 0 for a miss
    distance: Any  # (N,) the field where it is nearest to the surface and then farther again; inf where it never is
    nearest: Any  # (N,) the t of that point; inf likewise


class TracedGradients(NamedTuple):
    """Gradients of traced rays."""

    grid: Any  # (X, Y, Z) of the samples
    origins: Any  # (N, 3)
    directions: Any  # (N, 3)


class TraceQuery:
    """The arguments of a trace, checked.

    Args:
        op: the public function, for messages; the others are as given to it.
        share: of the longest spacing, what the band is if it is None.

    Attributes:
        rays: the first arguments of the kernels.
        samples: the grid, for `add_to_samples`.
    """

    def __init__(
        self,
        op: str,
        grid: Any,
        origins: Any,
        directions: Any,
        spacing: Any,
        origin: Any,
        t_min: Any,
        t_max: Any,
        lipschitz: Any,
        band: Any,
        normals: str,
        share: float = 1.0,
    ):
        one_of(op, "normals", normals, tuple(TAPS))
        values = grid
        if isinstance(grid, SdfGrid):
            if spacing is not None or origin is not None:
                expected = "none, as the SdfGrid has them"
                raise ValueError(message(op, "spacing, origin", expected, f"{spacing}, {origin}"))
            values, spacing, origin = grid.values, grid.spacing, grid.origin
        self.op, self.library = op, library_of(origins, values)
        self.device, self.dtype = library_of(values, origins).device, precision_of(values)
        if self.library.device != self.device:
            raise ValueError(message(op, "origins", f"an array on {self.device}, as the grid", self.library.device))
        self.values = self._array("grid", values, ("X", "Y", "Z"))
        step = triple(op, "spacing", 1.0 if spacing is None else spacing)
        if not min(step) > 0:
            raise ValueError(message(op, "spacing", "positive numbers", repr(spacing)))
        start = triple(op, "origin", 0.0 if origin is None else origin)
        self.origins = self._array("origins", origins, ("N", 3))
        self.n = len(self.origins)
        self.directions = self._array("directions", directions, (self.n, 3))
        first, last = _number(op, "t_min", t_min), _number(op, "t_max", t_max)
        self.samples = GridSamples(self.device, self.dtype, self.values.shape, (*step, *start))
        self.cubic = int(TAPS[normals] == 4)
        self.step = step
        self.band = share * max(step) if band is None else _number(op, "band", band, least=0.0)
        slope = self._slope() if lipschitz is None else _number(op, "lipschitz", lipschitz, least=0.0)
        self.rays = (
            self.values, *self.values.shape, *step, *start, self.origins, self.directions, first, last, slope,
            self.band, self.cubic,
        )  # fmt: skip

    def _array(self, name: str, value: Any, shape: tuple) -> Any:
        return as_array(value, op=self.op, name=name, shape=shape, dtype=self.dtype, device=self.device)

    def _slope(self) -> float:
        """A bound of the interpolant's: its derivative along an axis lies between differences of samples."""
        nx, ny, nz = self.values.shape
        if min(nx, ny, nz) < 2 or self.n == 0:
            return math.inf
        rows = (nx - 1) * (ny - 1)
        squares = empty(self.device, rows, np.float64)
        steepest_slopes(rows, self.values, ny, nz, *self.step, squares)
        return math.sqrt(float(squares.max()))

    def cotangent(self, name: str, value: Any, shape: tuple) -> Any:
        """A cotangent as an array of this device and precision; None is zero."""
        if value is None:
            return zeros(self.device, shape, self.dtype)
        return as_array(
            value, op=f"{self.op}.adjoint", name=name, shape=shape, dtype=self.dtype, device=self.device
        )

    def trace(self) -> Traced:
        """The record on NumPy's or CuPy's arrays."""
        n, device, dtype = self.n, self.device, self.dtype
        out = Traced(
            empty(device, n, dtype), empty(device, (n, 3), dtype), empty(device, (n, 3), dtype),
            empty(device, n, dtype), empty(device, n, dtype),
        )  # fmt: skip
        sphere_trace_fwd(n, *self.rays, *out)
        return out

    def adjoint(self, adj_t: Any, adj_position: Any, adj_normal: Any, adj_distance: Any) -> tuple[Any, Any, Any]:
        """Cotangents of the samples, origins and directions, for those of the record, which are arrays."""
        xp, n = namespace(self.device), self.n
        adj_origins, adj_directions, gradient = (empty(self.device, (n, 3), self.dtype) for _ in range(3))
        points, value = empty(self.device, (n, 2, 3), np.float64), empty(self.device, (n, 2), self.dtype)
        sphere_trace_adj(
            n, *self.rays, adj_t, adj_position, adj_normal, adj_distance, adj_origins, adj_directions, points, value,
            gradient,
        )  # fmt: skip
        adj_values = zeros(self.device, self.values.shape, self.dtype)
        bends = xp.flatnonzero((gradient != 0).any(axis=1))
        none = zeros(self.device, len(bends), self.dtype)
        add_to_samples(self.samples, 4 if self.cubic else 2, points[bends, 0], none, gradient[bends], adj_values)
        sent = xp.flatnonzero(value.reshape(-1) != 0)
        flat = zeros(self.device, (len(sent), 3), self.dtype)
        add_to_samples(self.samples, 2, points.reshape(-1, 3)[sent], value.reshape(-1)[sent], flat, adj_values)
        return adj_values, adj_origins, adj_directions


def _number(op: str, name: str, value: Any, least: float = -math.inf) -> float:
    expected = "a number" if least == -math.inf else f"a number of at least {least:g}"
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(message(op, name, expected, reprlib.repr(value))) from error
    if not number >= least:
        raise ValueError(message(op, name, expected, reprlib.repr(value)))
    return number


@primitive(
    differentiable=("grid", "origins", "directions"),
    outputs={"t": "real N", "position": "real N 3", "normal": "real N 3", "distance": "real N"},
    discrete={"nearest": "real N"},
)
def sphere_trace(
    grid: Any,
    origins: Any,
    directions: Any,
    *,
    spacing: Any = None,
    origin: Any = None,
    t_min: float = 0.0,
    t_max: float = np.inf,
    lipschitz: float | None = None,
    band: float | None = None,
    normals: str = "linear",
) -> Traced:
    """The first point of each ray on the surface where a sampled field is zero.

    The surface is that of the trilinear interpolant, without a mesh of it. No ray steps over it, whatever the field: a
    cell is skipped only where a bound of the field's slope says that it holds no zero, and the others are solved. For a
    picture with silhouettes in its gradients use `render_sdf`.

    Args:
        grid: what `sdf_grid` returned, or (X, Y, Z) samples of any array library, less the level that is wanted.
        origins: (N, 3) numbers, in world units.
        directions: (N, 3), of any length. A ray with one that is zero or not finite is a miss.
        spacing: between samples: a number, or three; 1 if None. A grid of `sdf_grid` has its own.
        origin: where sample (0, 0, 0) is: a number, or three; 0 if None.
        t_min, t_max: only hits between these count: point o + t d is at parameter t.
        lipschitz: a bound of the field's slope, which says how far a ray may jump: 1 for distances. None finds the
            interpolant's own, which costs a pass over the grid. With one that is too small a thin sheet may be missed;
            a change of sign that a jump reveals is still found. math.inf for no jumps.
        band: how near a ray has to pass the surface for `.distance`, in the field's unit; the longest spacing if None.
        normals: from the gradient of the interpolant, "linear", which jumps between cells; or "cubic", which is
            continuous and smooth in the picture, as in `interpolate_grid`.

    Returns:
        A record in the library of the origins, of the grid's precision: `.t` (N,), inf for a miss; `.position` (N, 3),
        inf for a miss; `.normal` (N, 3) of length one, to greater values, 0 for a miss; `.distance` (N,), the field
        where the ray came closest to the surface before `t` and went away again, inf if it never came within the band;
        `.nearest` (N,), the t of that point. A ray may start on either side, and hits where the sign changes; zero
        counts as outside. The box of the grid is no surface. Beside samples that are not finite there is none either.

    Gradients:
        grid, origins and directions, through t, position, normal and distance. A miss sends 0 but through distance.
        Below a cosine of 1e-4 between ray and normal the derivative is bounded as if there. That a hit becomes a miss
        is not part of it.

    Raises:
        ValueError: wrong shape or option.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.

    Cost: O(N) rays of some ten jumps and a few cells each, and a pass over the grid unless `lipschitz` is given.
    Source: Hart (1996) for the jumps; Marmitt et al. (2004) for the cubics.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> x, y, z = np.meshgrid(*[np.linspace(-1, 1, 33)] * 3, indexing="ij")
        >>> ball = np.sqrt(x**2 + y**2 + z**2) - 0.5
        >>> rays = [[0.0, 0.0, 3.0], [0.0, 0.52, 3.0]], [[0.0, 0.0, -1.0]] * 2
        >>> found = gk.sphere_trace(ball, *rays, spacing=1 / 16, origin=-1)
        >>> found.t.round(3).tolist(), found.distance.round(3).tolist()
        ([2.5, inf], [inf, 0.02])
    """
    q = TraceQuery(
        "sphere_trace", grid, origins, directions, spacing, origin, t_min, t_max, lipschitz, band, normals
    )
    return Traced(*map(q.library.wrap, q.trace()))


@sphere_trace.define_adjoint
def sphere_trace_adjoint(
    grid: Any,
    origins: Any,
    directions: Any,
    *,
    spacing: Any = None,
    origin: Any = None,
    t_min: float = 0.0,
    t_max: float = np.inf,
    lipschitz: float | None = None,
    band: float | None = None,
    normals: str = "linear",
    adj_t: Any = None,
    adj_position: Any = None,
    adj_normal: Any = None,
    adj_distance: Any = None,
) -> TracedGradients:
    """Gradients of `sphere_trace`: cotangents of what it returns to the samples and the rays.

    Args:
        grid, origins, directions, spacing, origin, t_min, t_max, lipschitz, band, normals: as given to `sphere_trace`.
        adj_t: (N,) cotangent of t; None is zero. What misses have is not read, here and below.
        adj_position: (N, 3) cotangent of position; None is zero.
        adj_normal: (N, 3) cotangent of normal; None is zero.
        adj_distance: (N,) cotangent of distance; None is zero.

    Returns:
        A record of `.grid` (X, Y, Z), `.origins` (N, 3) and `.directions` (N, 3), in the library of the origins.

    Raises:
        ValueError, TypeError: as `sphere_trace`; a cotangent of the wrong shape; no cotangent given.

    Cost: the rays that have a cotangent are traced again; then O(N log N), as contributions are sorted by cell. The
    same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> plane = np.arange(3.0) * np.ones((3, 3, 1)) - 1.25
        >>> g = gk.sphere_trace.adjoint(plane, [[1.0, 1.0, 5.0]], [[0.0, 0.0, -1.0]], adj_t=[1.0])
        >>> g.grid[1, 1].tolist(), np.abs(g.origins).tolist()
        ([0.0, 0.75, 0.25], [[0.0, 0.0, 1.0]])
    """
    if adj_t is None and adj_position is None and adj_normal is None and adj_distance is None:
        names = "adj_t, adj_position, adj_normal, adj_distance"
        raise ValueError(message("sphere_trace.adjoint", names, "at least one", "None"))
    q = TraceQuery(
        "sphere_trace", grid, origins, directions, spacing, origin, t_min, t_max, lipschitz, band, normals
    )
    n = q.n
    return TracedGradients(
        *map(
            q.library.wrap,
            q.adjoint(
                q.cotangent("adj_t", adj_t, (n,)),
                q.cotangent("adj_position", adj_position, (n, 3)),
                q.cotangent("adj_normal", adj_normal, (n, 3)),
                q.cotangent("adj_distance", adj_distance, (n,)),
            ),
        )
    )
