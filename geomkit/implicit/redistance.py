"""A field made a distance to its own zero set."""

from __future__ import annotations

import math
import reprlib
from typing import Any

import numpy as np

from geomkit.arrays import as_array, library_of, precision_of
from geomkit.autodiff.primitive import nondifferentiable
from geomkit.errors import message
from geomkit.implicit.field import triple
from geomkit.implicit.grid import SdfGrid
from geomkit.implicit.interpolate_grid import interpolate_grid
from geomkit.implicit.marching_cubes import marching_cubes
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import namespace
from geomkit.spatial.closest_point import closest
from geomkit.spatial.query import Points

__all__ = ["redistance"]

BLOCK = {"cpu": 1 << 18, "cuda": 1 << 21}  # samples at a time
NEAR = 3.0  # of the longest spacings from the surface within which distances are refined
STEPS = 6  # of Newton's, whose rest is then below 1e-4 spacings for radii of five spacings
TRUST = 0.1  # of the shortest spacing: what a refined distance may differ by from that to the mesh
TINY = 1e-6  # of the shortest spacing: the least that keeps a sign


class _Surface:
    """The zero set: as a mesh, and as that of the tricubic interpolant, which has no chords that cut its curves.

    Args:
        values: (X, Y, Z) finite.
        step: the spacing.
    """

    def __init__(self, values: Any, step: list[float]):
        self.values, self.step = values, step
        self.xp = namespace("cpu" if isinstance(values, np.ndarray) else "cuda")
        self.inside = values < 0
        mesh: Mesh = marching_cubes.forward(values, spacing=step, topology="trilinear")
        self.n_faces = mesh.n_faces
        if self.n_faces:
            at = mesh.vertices_array.astype(np.float64)
            self.mesh = mesh.with_vertices(self._refined(at, at, along=False)[0].astype(values.dtype))

    def _refined(self, x: Any, y: Any, *, along: bool) -> tuple[Any, Any]:
        """Points of the cubic zero set from y on, towards the nearest to x if `along`; and whether each is one.

        Newton's steps along the gradient, each followed by one in the tangent plane (Chopp 2001).
        """
        xp, start = self.xp, y
        size = xp.asarray(self.step)
        for _ in range(STEPS):
            at = interpolate_grid.forward(self.values, y, spacing=self.step, method="cubic")
            g = at.gradient.astype(np.float64)
            square = (g * g).sum(axis=1, keepdims=True)
            g = g / xp.where(square > 0, square, 1)
            y = y - at.value[:, None] * g
            if along:
                off = x - y
                y = y + off - (off * g).sum(axis=1, keepdims=True) * g * square
            y = xp.clip(y, start - 0.5 * size, start + 0.5 * size)
        kept = (square[:, 0] > 0) & (abs(y - start) < 0.49 * size).all(axis=1)
        return xp.where(kept[:, None], y, start), kept

    def value(self, at: Any) -> Any:
        """The distances of samples by number; each keeps its sign."""
        xp, (_, ny, nz) = self.xp, self.values.shape
        points = xp.stack([at // (ny * nz), at // nz % ny, at % nz], axis=1) * xp.asarray(self.step)
        found = closest(Points("redistance", self.mesh, points.astype(self.values.dtype)))
        distance = found.distance.astype(np.float64)
        near = xp.flatnonzero(distance < NEAR * max(self.step))
        x = points[near]
        y, kept = self._refined(x, found.point[near].astype(np.float64), along=True)
        fine = xp.linalg.norm(x - y, axis=1)
        kept = kept & (abs(fine - distance[near]) < TRUST * min(self.step))
        distance[near] = xp.where(kept, fine, distance[near])
        flat = self.values.reshape(-1)[at]
        distance = xp.maximum(distance, xp.where(flat == 0, 0, TINY * min(self.step)))
        return xp.where(flat < 0, -distance, distance).astype(self.values.dtype)

    def band(self, width: float) -> Any:
        """(X, Y, Z) whether samples may be nearer to the surface than a width."""
        xp, near = self.xp, self.xp.zeros(self.inside.shape, bool)
        for axis in range(3):
            side, mark = xp.moveaxis(self.inside, axis, 0), xp.moveaxis(near, axis, 0)
            crossed = side[1:] != side[:-1]
            mark[1:] |= crossed
            mark[:-1] |= crossed
        for axis, step in enumerate(self.step):
            for _ in range(min(math.ceil(width / step) + 1, near.shape[axis] - 1)):
                before = xp.moveaxis(near, axis, 0)
                grown = before.copy()
                grown[1:] |= before[:-1]
                grown[:-1] |= before[1:]
                near = xp.moveaxis(grown, 0, axis)
        return near


@nondifferentiable("for gradients call marching_cubes and signed_distance")
def redistance(
    grid: Any, *, spacing: Any = None, level: float = 0.0, narrow_band: float | None = None
) -> Any:
    """A field with the same surface whose values are distances to it: what keeps an SDF one while it is optimised.

    Steps of an optimiser leave a field that is steep here and flat there, which makes rays take short steps, bands thin
    and learning rates uneven. The signs of all samples stay; the surface stays to a small part
    of a spacing, but for sharp edges, which become rounder by some tenths of one in ten turns.

    Args:
        grid: what `sdf_grid` returned, or (X, Y, Z) finite samples of any array library.
        spacing: between samples: a number, or three; 1 if None. A grid of `sdf_grid` has its own.
        level: the value of the surface, which becomes 0.
        narrow_band: None, or a number of the longest spacings, at least 2, at which distances are cut: only samples
            near the surface are then computed.

    Returns:
        (X, Y, Z) in the library and precision of the samples, negative where they are below the level; a SdfGrid for a
        SdfGrid. Near the surface distances are to the zero set of the tricubic interpolant, where that is smooth, else
        to the mesh of `marching_cubes`. Where the surface meets the border of the grid it ends there.

    Gradients:
        None.

    Raises:
        ValueError: wrong shape, samples that are not finite, no surface, or an option out of range.
        TypeError: wrong dtype, or samples that track gradients.

    Cost: that of `marching_cubes` and a `closest_point` for each sample, or for those in the band; near the surface as
        much again.
    Source: Chopp (2001) for the steps to the smooth zero set.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> x, y, z = np.meshgrid(*[np.linspace(-1, 1, 21)] * 3, indexing="ij")
        >>> values = gk.redistance((x**2 + y**2 + z**2) ** 2 - 0.6**4, spacing=0.1)
        >>> bool(abs(values - (np.sqrt(x**2 + y**2 + z**2) - 0.6)).max() < 0.01)
        True
    """
    op = "redistance"
    values, is_grid = grid, isinstance(grid, SdfGrid)
    if is_grid:
        if spacing is not None:
            raise ValueError(message(op, "spacing", "none, as the SdfGrid has one", reprlib.repr(spacing)))
        values, spacing = grid.values, grid.spacing
    library, dtype = library_of(values), precision_of(values)
    samples = as_array(values, op=op, name="grid", shape=("X", "Y", "Z"), dtype=dtype, device=library.device)
    step = triple(op, "spacing", 1.0 if spacing is None else spacing)
    if not min(step) > 0:
        raise ValueError(message(op, "spacing", "positive numbers", reprlib.repr(spacing)))
    xp = namespace(library.device)
    if not xp.isfinite(samples).all():
        got = f"{int((~xp.isfinite(samples)).sum())} that are not"
        raise ValueError(message(op, "grid", "finite numbers", got))
    height = float(as_array(level, op=op, name="level", shape=(), dtype=np.float64))
    width = _width(op, narrow_band, step)
    surface = _Surface(samples - dtype.type(height), step)
    if not surface.n_faces:
        raise ValueError(message(op, "grid", f"a field that passes the level {height:g}", "one without a surface"))
    out = xp.where(surface.inside, -1, 1).astype(dtype) * dtype.type(0 if width is None else width)
    where = None if width is None else xp.flatnonzero(xp.ascontiguousarray(surface.band(width)))
    total = out.size if where is None else len(where)
    for start in range(0, total, BLOCK[library.device]):
        end = min(start + BLOCK[library.device], total)
        at = xp.arange(start, end) if where is None else where[start:end]
        value = surface.value(at)
        out.reshape(-1)[at] = value if width is None else xp.clip(value, -width, width)
    result = library.wrap(out)
    return SdfGrid(result, grid.origin, grid.spacing) if is_grid else result


def _width(op: str, narrow_band: Any, step: list[float]) -> float | None:
    """Half the width of the band in world units."""
    if narrow_band is None:
        return None
    expected = "None, or a finite number of at least 2"
    try:
        number = float(narrow_band)
    except (TypeError, ValueError) as error:
        raise TypeError(message(op, "narrow_band", expected, reprlib.repr(narrow_band))) from error
    if not 2 <= number < math.inf:
        raise ValueError(message(op, "narrow_band", expected, reprlib.repr(narrow_band)))
    return number * max(step)
