"""The light along rays: paths through a scene, and the way back along them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.render.direct_light import AREA, MATERIAL, Surfaces, bounce, bounce_adj, light_sample, light_sample_adj
from geomkit.render.interpolate import interpolated, interpolated_adj
from geomkit.render.tables import SceneTables, add
from geomkit.spatial.cast_rays import Hits, cast_rays
from geomkit.spatial.hits import occluded
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["Radiance"]

# Rays leave a surface a little above it, and end a little before a light: shares of the scene's size, and of the way.
LIFT = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-10}
SHORT = 1e-4


@dataclass
class _Step:
    """One bounce of the paths that are still going.

    Attributes:
        rays: (M,) which of the rays it belongs to.
        origins, directions: of the M rays.
        hits: of them.
        at: (K,) which of them hit something.
        surfaces: K rows.
        seen: for each light (K, 3), what arrives from there.
        factor: (K, 3) of what comes by the next bounce, or None.
        throughput: (K, 3) of this bounce.
    """

    rays: Any
    origins: Any
    directions: Any
    hits: Hits
    at: Any
    surfaces: Surfaces | None = None
    seen: Any = None
    factor: Any = None
    throughput: Any = None


class Radiance:
    """The light that comes along N rays, and what it depends on.

    Args:
        tables: the scene.
        origins, directions: (N, 3) of the scene's dtype.
        stream, index: (N,) uint32 and int32, whence random numbers come: of the pixel, and of the sample within it.
        depth: number of surfaces that light may meet between the first and its source, from 0.

    Attributes:
        value: (N, 3) linear RGB.
        hits: the first hits.
    """

    def __init__(self, tables: SceneTables, origins: Any, directions: Any, stream: Any, index: Any, depth: int):
        self.tables, self.xp = tables, tables.xp
        self.steps: list[_Step] = []
        self.lit: dict[tuple[int, int], Any] = {}  # by bounce and light, what arrives of tinted lights without the tint
        xp, n = self.xp, len(origins)
        self.value = xp.zeros((n, 3), tables.dtype)
        rays, throughput = xp.arange(n), None
        for k in range(depth + 1):
            hits = cast_rays(tables.mesh, origins, directions)
            at = xp.flatnonzero(hits.face >= 0)
            step = _Step(rays, origins, directions, hits, at, throughput=throughput)
            self.steps.append(step)
            if k == 0:
                self._add_emission(step)
            if k == depth or not len(at):
                break
            rays = rays[at]
            step.surfaces = s = self._surfaces(step, stream[rays], index[rays])
            step.throughput = throughput = xp.ones((len(at), 3), tables.dtype) if throughput is None else throughput[at]
            step.seen = [self._arriving(s, j, k) for j in range(len(tables.lights))]
            if step.seen:
                self.value[rays] += throughput * sum(step.seen[1:], step.seen[0])
            if k + 1 == depth:
                break
            directions, step.factor = bounce(tables.mesh, s, _dimension(k, -1))
            throughput = throughput * step.factor
            origins = self.lifted(s, directions)
        self.hits = self.steps[0].hits

    def _add_emission(self, step: _Step) -> None:
        """What the rays see that come from a camera."""
        t, xp = self.tables, self.xp
        missed = step.hits.face < 0
        if t.background.any():
            self.value[missed] = xp.asarray(t.background, dtype=t.dtype)
        for around in t.surroundings:
            self.value[missed] += around.at(step.directions[missed])
        if t.emits.any():
            at, h = step.at, step.hits
            width = t.widths(h, step.directions, at)
            self.value[at] = t.emission_at(h.face[at], h.barycentric[at], width) * self._front(step)[:, None]

    def _front(self, step: _Step) -> Any:
        """(K,) 1 where the side that is seen emits."""
        t = self.tables
        both = t.material[t.object_of_face[step.hits.face[step.at]], 6] != 0
        facing = (step.hits.normal[step.at] * step.directions[step.at]).sum(axis=1) < 0
        return (both | facing).astype(t.dtype)

    def _surfaces(self, step: _Step, stream: Any, index: Any) -> Surfaces:
        t, h, at = self.tables, step.hits, step.at
        face, barycentric = h.face[at], h.barycentric[at]
        flat = h.normal[at]
        normal = flat
        if t.vertex_normals is not None:
            normal = _unit(self.xp, interpolated(t.mesh, t.vertex_normals, face, barycentric), flat)
            if not all(t.smooth):
                smooth = self.xp.asarray(t.smooth)[t.object_of_face[face]]
                normal = self.xp.where(smooth[:, None], normal, flat)
        material = t.materials_at(face, barycentric, t.widths(h, step.directions, at))
        return Surfaces(material, h.position[at], normal, flat, step.directions[at], stream, index)

    def first_surfaces(self) -> tuple[Surfaces, Any]:
        """What is hit first, and by which rays."""
        step = self.steps[0]
        stream = self.xp.zeros(len(step.at), np.uint32)
        return self._surfaces(step, stream, stream.astype(np.int32)), step.at

    def lifted(self, s: Surfaces, directions: Any) -> Any:
        """Points a little off the surface, on the side that the directions go to."""
        t = self.tables
        side = self.xp.sign((s.face_normal * directions).sum(axis=1, keepdims=True))
        size = max(t.mesh.diagonal, float(abs(t.mesh.bounds).max()))
        return s.position + t.dtype.type(LIFT[t.dtype] * size) * side * s.face_normal

    def _arriving(self, s: Surfaces, j: int, k: int) -> Any:
        """What is seen of light j, shadows included."""
        t, light, tint = self.tables, self.tables.lights[j].light, self.tables.lights[j].tint
        to_light, color = light_sample(t.mesh, light, s, _dimension(k, j))
        lit = self.xp.flatnonzero(color.any(axis=1))
        far = light.position_at_infinity
        way, origins = to_light[lit], self.lifted(s, to_light)[lit]
        dark = occluded(t.mesh, origins, way, t_max=np.inf if far else 1 - SHORT)
        color[lit[dark]] = 0
        if tint is not None:
            self.lit[k, j] = color
            color = color * tint.at(s, to_light, _dimension(k, j))
        return color

    # ---- the way back

    def adjoint(
        self, adj: Any, *, adj_t: Any = None, adj_position: Any = None, adj_normal: Any = None, adj_albedo: Any = None
    ) -> tuple[dict[str, Any], Any, Any]:
        """Gradients for the cotangent (N, 3) of the value, within what is seen: no silhouette or shadow moves.

        Args:
            adj: of the value.
            adj_t, adj_position, adj_normal, adj_albedo: of the first hits, (N, 1) and (N, 3), or None.

        Returns:
            gradients by path; those of `vertices` under "vertices", of all objects; and of origins and directions.
        """
        t, xp = self.tables, self.xp
        out: dict[str, Any] = {}
        adj_origins = adj_throughput = None
        first = {"adj_position": adj_position, "adj_normal": adj_normal, "adj_albedo": adj_albedo}
        for k in range(len(self.steps) - 1, -1, -1):
            step = self.steps[k]
            m = len(step.rays)
            adj_position, adj_normal = xp.zeros((m, 3), t.dtype), xp.zeros((m, 3), t.dtype)
            adj_bary, adj_depth = xp.zeros((m, 2), t.dtype), None
            adj_directions = xp.zeros((m, 3), t.dtype)
            if step.surfaces is not None:
                at = step.at
                adj_s, adj_throughput = self._step_adj(step, k, adj[step.rays[at]], adj_origins, adj_throughput, out)
                adj_position[at], adj_directions[at] = adj_s.position, adj_s.direction
                adj_normal[at], adj_bary[at] = self._surfaces_adj(step, adj_s, out)
            else:
                adj_throughput = None
            if k == 0:
                self._emission_adj(step, adj, adj_bary, adj_directions, out)
                self._first_adj(step, first, adj_position, adj_normal, adj_bary, out)
                adj_depth = None if adj_t is None else xp.ascontiguousarray(adj_t[:, 0])
            g = cast_rays.adjoint(
                t.mesh, step.origins, step.directions, result=step.hits, adj_position=adj_position,
                adj_normal=adj_normal, adj_barycentric=adj_bary, adj_t=adj_depth,
            )  # fmt: skip
            add(out, "vertices", g.vertices.astype(np.float64))
            adj_origins = g.origins
            adj_directions += g.directions
            if step.throughput is not None and adj_throughput is not None and k > 0:
                # To all rays of this step, of which those that miss have a throughput without effect.
                whole = xp.zeros((m, 3), t.dtype)
                whole[step.at] = adj_throughput
                adj_throughput = whole
        return out, adj_origins, adj_directions

    def _step_adj(
        self, step: _Step, k: int, adj: Any, adj_origins: Any, adj_throughput: Any, out: dict[str, Any]
    ) -> tuple[Surfaces, Any]:
        """Gradients of a bounce: of its surfaces, and of its throughput."""
        t, xp, s = self.tables, self.xp, step.surfaces
        assert s is not None
        zero = [xp.zeros((len(s), 3), t.dtype) for _ in range(4)]
        adj_s = Surfaces(xp.zeros((len(s), MATERIAL), t.dtype), zero[0], zero[1], zero[2], zero[3], s.stream, s.index)
        weighted = step.throughput * adj
        adj_through = xp.zeros((len(s), 3), t.dtype)
        for j, entry in enumerate(t.lights):
            adj_through += adj * step.seen[j]
            lit = self.lit.get((k, j), step.seen[j])
            adj_color = weighted * lit.any(axis=1, keepdims=True)
            if entry.tint is not None:
                to_light, _ = light_sample(t.mesh, entry.light, s, _dimension(k, j))
                entry.tint.adjoint(s, to_light, _dimension(k, j), adj_color * lit, out)
                adj_color = adj_color * entry.tint.at(s, to_light, _dimension(k, j))
            sums, face, corners = light_sample_adj(t.mesh, entry.light, s, _dimension(k, j), adj_color, adj_s)
            entry.add_gradients(to_host(sums), out)
            if entry.light.kind == AREA:
                add(out, "vertices", corners_to_vertices(t.mesh, face, corners).astype(np.float64))
        if step.factor is not None and adj_throughput is not None:
            bounce_adj(s, _dimension(k, -1), step.throughput * adj_throughput, adj_s)
            adj_through += step.factor * adj_throughput
        if step.factor is not None and adj_origins is not None:
            adj_s.position += adj_origins
        return adj_s, adj_through

    def _surfaces_adj(self, step: _Step, adj_s: Surfaces, out: dict[str, Any]) -> tuple[Any, Any]:
        """Gradients of face normals and barycentrics, from those of the surfaces."""
        t, xp, h, at = self.tables, self.xp, step.hits, step.at
        face, barycentric = h.face[at], h.barycentric[at]
        adj_bary = xp.zeros(barycentric.shape, t.dtype)
        t.materials_adj(face, barycentric, adj_s.material, adj_bary, out, t.widths(h, step.directions, at))
        adj_normal = adj_s.normal
        if t.vertex_normals is not None:
            raw = interpolated(t.mesh, t.vertex_normals, face, barycentric)
            length = xp.linalg.norm(raw, axis=1, keepdims=True)
            smooth = (length > 0) & xp.asarray(t.smooth)[t.object_of_face[face]][:, None]
            n = raw / xp.where(length > 0, length, 1)
            to_raw = xp.where(smooth, adj_normal - n * (n * adj_normal).sum(axis=1, keepdims=True), 0)
            to_raw = (to_raw / xp.where(length > 0, length, 1)).astype(t.dtype)
            g = interpolated_adj(t.mesh, t.vertex_normals, face, barycentric, to_raw, adj_bary)
            add(out, "normals", g.astype(np.float64))
            adj_normal = xp.where(smooth, 0, adj_normal)
        return adj_normal, adj_bary

    def _first_adj(
        self, step: _Step, given: dict[str, Any], position: Any, normal: Any, barycentric: Any, out: dict[str, Any]
    ) -> None:
        """Add cotangents of what is hit first."""
        if given["adj_position"] is not None:
            position += given["adj_position"]
        if given["adj_normal"] is not None:
            normal += given["adj_normal"]
        if given["adj_albedo"] is not None:
            at, t = step.at, self.tables
            rows = self.xp.zeros((len(at), MATERIAL), t.dtype)
            rows[:, :3] = given["adj_albedo"][at]
            adj_bary = self.xp.zeros((len(at), 2), t.dtype)
            width = t.widths(step.hits, step.directions, at)
            t.materials_adj(step.hits.face[at], step.hits.barycentric[at], rows, adj_bary, out, width)
            barycentric[at] += adj_bary

    def _emission_adj(
        self, step: _Step, adj: Any, barycentric: Any, directions: Any, out: dict[str, Any]
    ) -> None:
        t, h = self.tables, step.hits
        missed = self.xp.flatnonzero(h.face < 0)
        for path in t.background_paths:
            add(out, path, adj[missed].sum(axis=0, dtype=np.float64))
        for around in t.surroundings:
            directions[missed] += around.adjoint(step.directions[missed], adj[missed], out)
        if t.emits.any():
            at = step.at
            adj_bary = self.xp.zeros((len(at), 2), t.dtype)
            seen = adj[step.rays[at]] * self._front(step)[:, None]
            width = t.widths(h, step.directions, at)
            t.emission_adj(h.face[at], h.barycentric[at], seen, adj_bary, out, width)
            barycentric[at] += adj_bary


def _dimension(k: int, j: int) -> int:
    """The random numbers of light j, or of the next direction (-1), at bounce k."""
    return 64 * k + j + 2


def _unit(xp: Any, v: Any, otherwise: Any) -> Any:
    length = xp.linalg.norm(v, axis=1, keepdims=True)
    return xp.where(length > 0, v / xp.where(length > 0, length, 1), otherwise)
