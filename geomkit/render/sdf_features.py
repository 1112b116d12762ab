"""What rays see of the surface of a sampled field, with silhouettes in its gradients: forward and adjoint."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.implicit.field import one_of
from geomkit.implicit.interpolate_grid import interpolate_grid
from geomkit.implicit.sphere_trace import Traced, TracedGradients, TraceQuery
from geomkit.render.scene import GREY, ConstantLight, DirectionalLight
from geomkit.runtime.device import namespace, zeros

__all__ = ["CHANNELS", "SdfFeatures", "lights_of", "sdf_features"]

CHANNELS = {"color": 3, "mask": 1, "depth": 1, "position": 3, "normal": 3}
BOUNDARIES = ("thin_band", "none")


class SdfFeatures(NamedTuple):
    """What N rays see; 0 where there is nothing, but for the colour of a constant light."""

    color: Any  # (N, 3) linear RGB
    mask: Any  # (N, 1) 1 for a hit
    depth: Any  # (N, 1) t of the hit
    position: Any  # (N, 3)
    normal: Any  # (N, 3)


def lights_of(op: str, light: Any) -> tuple[Any, ...]:
    """One light or several, checked: those that shade without shadows.

    Raises:
        TypeError: another kind of light.
    """
    lights = tuple(light) if isinstance(light, Iterable) else (light,)
    for each in lights:
        if not isinstance(each, ConstantLight | DirectionalLight):
            expected = "ConstantLight or DirectionalLight, one or several"
            raise TypeError(message(op, "light", expected, type(each).__name__))
    return lights


class _Query:
    """The arguments, and what the rays see."""

    def __init__(self, trace: TraceQuery, boundary: str, light: Any, albedo: Any):
        op = trace.op
        one_of(op, "boundary", boundary, BOUNDARIES)
        self.trace, self.boundary = trace, boundary
        self.xp = namespace(trace.device)
        albedo = self._numbers("albedo", albedo)
        self.ambient, self.background = np.zeros(3), np.zeros(3)
        self.beams: list[tuple[Any, Any]] = []  # towards the light, and what a surface across it reflects
        for each in lights_of(op, light):
            if isinstance(each, ConstantLight):
                radiance = self._numbers("light.radiance", each.radiance)
                self.ambient = self.ambient + albedo * radiance
                self.background = self.background + radiance * each.visible
                continue
            direction = self._numbers("light.direction", each.direction)
            length = math.hypot(*direction)
            if not 0 < length < math.inf:
                raise ValueError(message(op, "light.direction", "a direction", str(direction.tolist())))
            power = albedo * self._numbers("light.irradiance", each.irradiance) / math.pi
            self.beams.append(tuple(self._constant(x) for x in (-direction / length, power)))
        self.found: Traced = trace.trace()
        self.hit = self.xp.isfinite(self.found.t)

    def _numbers(self, name: str, value: Any) -> np.ndarray:
        value = np.broadcast_to(value, (3,)) if np.ndim(value) == 0 else value
        return as_array(value, op=self.trace.op, name=name, shape=(3,), dtype=np.float64)

    def _constant(self, value: np.ndarray) -> Any:
        return self.xp.asarray(value, dtype=self.trace.dtype)

    def seen(self, t: Any, position: Any, normal: Any, side: Any) -> SdfFeatures:
        """The channels of points of the surface; side is (M, 1), -1 where it is seen from below."""
        mask = self.xp.ones((len(t), 1), t.dtype)
        return SdfFeatures(self.color(normal, side), mask, t[:, None], position, normal)

    def color(self, normal: Any, side: Any) -> Any:
        """(M, 3) for normals."""
        out = self.xp.zeros_like(normal) + self._constant(self.ambient)
        for to, power in self.beams:
            out += self.xp.maximum(side * (normal @ to)[:, None], 0) * power
        return out

    def adj_normal(self, adj_color: Any, normal: Any, directions: Any) -> Any:
        """The cotangent of the normals for that of their colours."""
        out = self.xp.zeros_like(normal)
        side = self._side(normal, directions)
        for to, power in self.beams:
            lit = side * (normal @ to)[:, None] > 0
            out += lit * side * (adj_color @ power)[:, None] * to
        return out

    def _side(self, normal: Any, directions: Any) -> Any:
        return self.xp.where((normal * directions).sum(axis=1) > 0, -1, 1)[:, None].astype(normal.dtype)

    def features(self) -> SdfFeatures:
        """Those of all rays."""
        q, at = self.trace, self.xp.flatnonzero(self.hit)
        out = SdfFeatures(*(zeros(q.device, (q.n, count), q.dtype) for count in CHANNELS.values()))
        out.color[:] = self._constant(self.background)
        normal = self.found.normal[at]
        known = self.seen(self.found.t[at], self.found.position[at], normal, self._side(normal, q.directions[at]))
        for all_rays, part in zip(out, known, strict=True):
            all_rays[at] = part
        return out

    def near(self) -> tuple[Any, SdfFeatures]:
        """The rays that pass near the surface, and what they would see there."""
        q, found = self.trace, self.found
        at = self.xp.flatnonzero(self.xp.isfinite(found.distance))
        t = found.nearest[at]
        position = q.origins[at] + t[:, None] * q.directions[at]
        step, origin = q.samples.place[:3], q.samples.place[3:]
        method = "cubic" if q.cubic else "linear"
        options = {"spacing": step, "origin": origin, "method": method}
        normal = interpolate_grid.forward(q.values, position, **options).gradient
        length = self.xp.linalg.norm(normal, axis=1, keepdims=True)
        side = self.xp.sign(found.distance[at])[:, None]  # (The rays are at right angles to the normals.)
        return at, self.seen(t, position, normal / self.xp.where(length > 0, length, 1), side)

    def adjoint(self, adj: SdfFeatures) -> tuple[Any, Any, Any]:
        """Cotangents of samples, origins and directions."""
        xp, q, found = self.xp, self.trace, self.found
        hit = self.hit[:, None]
        normal = xp.where(hit, adj.normal + self.adj_normal(adj.color, found.normal, q.directions), 0)
        distance = zeros(q.device, q.n, q.dtype)
        if self.boundary == "thin_band" and q.band > 0:
            at, front = self.near()
            behind = self.features()
            gain = zeros(q.device, len(at), q.dtype)
            for g, near, far in zip(adj, front, behind, strict=True):
                gain += (g[at] * (near - far[at])).sum(axis=1)
            distance[at] = -gain * xp.sign(found.distance[at]) / q.dtype.type(q.band)
        position = xp.where(hit, adj.position, 0)
        t = xp.where(self.hit, adj.depth[:, 0], 0)
        return q.adjoint(t, xp.ascontiguousarray(position), xp.ascontiguousarray(normal), distance)


@primitive(
    differentiable=("grid", "origins", "directions"),
    outputs={name: f"real N {count}" for name, count in CHANNELS.items()},
)
def sdf_features(
    grid: Any,
    origins: Any,
    directions: Any,
    *,
    spacing: Any = None,
    origin: Any = None,
    boundary: str = "thin_band",
    band: float | None = None,
    normals: str = "cubic",
    lipschitz: float | None = None,
    light: Any = None,
    albedo: Any = GREY,
) -> SdfFeatures:
    """What rays see of the surface where a sampled field is zero: mask, depth, position, normal and shaded colour.

    For pictures call `render_sdf`, which asks this for the rays of a camera; this is for rays of your own.

    Args:
        grid: what `sdf_grid` returned, or (X, Y, Z) samples of any array library.
        origins, directions: (N, 3) numbers, in world units, as in `sphere_trace`.
        spacing, origin: of the samples, as in `sphere_trace`.
        boundary: what gradients know of silhouettes: "thin_band" has rays that pass the surface within the band stand
            for those on its silhouette; "none" takes what is seen as fixed.
        band: how near that is, in the field's unit; half the longest spacing if None. A narrow one is nearer to the
            truth, but needs more rays to a spacing.
        normals: "cubic" or "linear", as in `sphere_trace`.
        lipschitz: a bound of the field's slope, as in `sphere_trace`.
        light: a ConstantLight or DirectionalLight, or several of them; there are no shadows. None is a ConstantLight.
        albedo: (3,) linear RGB of the surface, which is diffuse and shows its front on both sides.

    Returns:
        A record in the library of the origins, of the grid's precision: `.color` (N, 3), `.mask` (N, 1), `.depth`
        (N, 1), the t of the hit, `.position` (N, 3) and `.normal` (N, 3).

    Gradients:
        grid, origins and directions, through all channels; the silhouette's part is that of a mask which falls from 1
        on the surface to 0 at the band's edge: too large by about half the band over the radius of curvature.

    Raises:
        ValueError: wrong shape or option.
        TypeError: wrong dtype, another kind of light, or gradients are followed through an argument that sends none.

    Cost: that of `sphere_trace`; gradients about three times as much.
    Source: Wang et al. (2024) for the thin band.

    Example:
        >>> import geomkit as gk
        >>> grid = gk.sdf_grid(gk.shapes.icosphere(3), resolution=17)
        >>> seen = gk.sdf_features(grid, [[0.0, 0.0, 3.0], [0.0, 3.0, 3.0]], [[0.0, 0.0, -1.0]] * 2)
        >>> seen.mask.tolist(), seen.normal[0].round(2).tolist()
        ([[1.0], [0.0]], [0.0, 0.0, 1.0])
    """
    q = _query(grid, origins, directions, spacing, origin, boundary, band, normals, lipschitz, light, albedo)
    return SdfFeatures(*map(q.trace.library.wrap, q.features()))


def _query(
    grid: Any, origins: Any, directions: Any, spacing: Any, origin: Any, boundary: str, band: Any, normals: str,
    lipschitz: Any, light: Any, albedo: Any,
) -> _Query:  # fmt: skip
    given = grid, origins, directions, spacing, origin, 0.0, np.inf, lipschitz, band, normals
    trace = TraceQuery("sdf_features", *given, share=0.5)
    return _Query(trace, boundary, ConstantLight() if light is None else light, albedo)


@sdf_features.define_adjoint
def sdf_features_adjoint(
    grid: Any,
    origins: Any,
    directions: Any,
    *,
    spacing: Any = None,
    origin: Any = None,
    boundary: str = "thin_band",
    band: float | None = None,
    normals: str = "cubic",
    lipschitz: float | None = None,
    light: Any = None,
    albedo: Any = GREY,
    adj_color: Any = None,
    adj_mask: Any = None,
    adj_depth: Any = None,
    adj_position: Any = None,
    adj_normal: Any = None,
) -> TracedGradients:
    """Gradients of `sdf_features`: cotangents of its channels to the samples and the rays.

    Args:
        grid, origins, directions, spacing, origin, boundary, band, normals, lipschitz, light, albedo: as given to
            `sdf_features`.
        adj_color, adj_mask, adj_depth, adj_position, adj_normal: (N, C) cotangents; None is zero.

    Returns:
        A record of `.grid` (X, Y, Z), `.origins` (N, 3) and `.directions` (N, 3), in the library of the origins.

    Raises:
        ValueError, TypeError: as `sdf_features`; a cotangent of the wrong shape; no cotangent given.

    Cost: two traces, and the sums of `sphere_trace.adjoint`. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> grid = gk.sdf_grid(gk.shapes.icosphere(3), resolution=17)
        >>> rays = [[0.0, 1.02, 3.0]], [[0.0, 0.0, -1.0]]
        >>> g = gk.sdf_features.adjoint(grid, *rays, adj_mask=[[1.0]])
        >>> round(float(g.grid.sum()), 2), bool(g.origins[0, 1] < 0)  # minus one over the band
        (-13.33, True)
    """
    given = (adj_color, adj_mask, adj_depth, adj_position, adj_normal)
    if all(x is None for x in given):
        names = ", ".join(f"adj_{name}" for name in CHANNELS)
        raise ValueError(message("sdf_features.adjoint", names, "at least one", "None"))
    q = _query(grid, origins, directions, spacing, origin, boundary, band, normals, lipschitz, light, albedo)
    adj = SdfFeatures(
        *(
            q.trace.cotangent(f"adj_{name}", x, (q.trace.n, count))
            for (name, count), x in zip(CHANNELS.items(), given, strict=True)
        )
    )
    return TracedGradients(*map(q.trace.library.wrap, q.adjoint(adj)))
