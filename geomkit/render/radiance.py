"""The light along rays: paths through a scene, and the way back along them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.render.direct_light import (
    AREA,
    CONSTANT,
    MATERIAL,
    Arriving,
    Met,
    Surfaces,
    bounce,
    bounce_adj,
    found_light,
    light_rays,
    light_rays_adj,
    unshadowed,
)
from geomkit.render.first_hits import FirstHits, hit_rays
from geomkit.render.surface import add_materials, emitted, emitted_adj, surfaces_adj, surfaces_at
from geomkit.render.tables import SceneTables, add
from geomkit.spatial.cast_rays import Hits, cast_rays
from geomkit.spatial.scatter import FaceSums, corners_to_vertices

__all__ = ["Radiance"]

# Rays leave a surface a little above it, and end a little before a light: shares of the scene's size, and of the way.
LIFT = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-10}
SHORT = 1e-4


@dataclass
class _Step:
    """One bounce of the paths that are still going.

    Attributes:
        directions: (M, 3) of their rays.
        hits: of them.
        surfaces: (K) rows of those that hit something.
        seen: for each light what arrives from there, tints aside, its color None where nobody asks; or None where
            nothing is lit at this bounce.
        found: what the surfaces' own rays meet, and by light what arrives from there; of area lights alone.
        factor: (K, 3) of what comes by the next bounce, or None.
        throughput: (K, 3) of this bounce.
    """

    directions: Any
    hits: Hits
    surfaces: Surfaces
    seen: Any = None
    found: dict[int, tuple[Met, Arriving]] = field(default_factory=dict)
    factor: Any = None
    throughput: Any = None


class Radiance:
    """The light that comes along N rays, and what it depends on.

    Args:
        tables: the scene.
        origins, directions: (N, 3) of the scene's dtype.
        stream, index: (N,) uint32 and int32, whence random numbers come: of the pixel, and of the sample within it.
        depth: number of surfaces that light may meet between the first and its source, from 0.
        first: the first hits, where they are known; origins are not looked at then.
        again: whether this has been asked before, and only the adjoint is wanted.

    Attributes:
        value: (N, 3) linear RGB, unless `again`.
        hits: the first hits.
        moved: (K,) int32 which rays the adjoint has found gradients of.
    """

    def __init__(
        self,
        tables: SceneTables,
        origins: Any,
        directions: Any,
        stream: Any,
        index: Any,
        depth: int,
        first: FirstHits | None = None,
        again: bool = False,
    ):
        self.tables, self.xp = tables, tables.xp
        self.steps: list[_Step] = []
        self.moved: Any = None
        xp, dtype = self.xp, tables.dtype
        rays, throughput = _first_numbers(xp, len(directions)), None
        self._blind, origins, directions = self._with_rays(origins, directions)
        met: Hits = cast_rays.forward(tables.mesh, origins, directions) if first is None else first.hits
        at = hit_rays(met.face, tables.device) if first is None else first.at
        self.hits = met
        if not again:
            self.value = emitted(tables, met, directions)
        else:
            # Nobody reads it.
            self.value = xp.zeros((len(directions), 3), dtype)
        for k in range(max(depth, 1)):
            s = surfaces_at(tables, at, rays, met, directions, stream, index)
            step = _Step(directions, met, s)
            self.steps.append(step)
            if k == depth or not len(s):
                break
            rays = s.ray
            throughput = _ones(xp, len(s), dtype) if throughput is None else throughput[s.at]
            step.throughput = throughput
            known = {} if first is None or k > 0 else first.shadows
            step.seen = [self._arriving(s, j, k, throughput, known, again) for j in range(len(tables.lights))]
            if k + 1 == depth and not tables.has_emitters:
                break
            directions, factor = bounce(tables.mesh, s, _dimension(k, -1))
            origins = self.lifted(s, directions)
            met = cast_rays.forward(tables.mesh, origins, directions)
            at = hit_rays(met.face, tables.device)
            self._find_emitters(step, k, met)
            if k + 1 == depth:
                break
            step.factor, throughput = factor, throughput * factor
        if self._blind is not None:
            self.value[self._blind] = 0

    def _with_rays(self, origins: Any, directions: Any) -> tuple[Any, Any, Any]:
        """Which pixels of a lens have no ray, or None, and rays that for those pass by everything."""
        xp, mesh = self.xp, self.tables.mesh
        if not self.tables.has_lens:
            return None, origins, directions
        blind = xp.flatnonzero(xp.isnan(directions).any(axis=1))
        if not len(blind):
            return None, origins, directions
        directions = directions.copy()
        directions[blind] = 1
        if origins is not None:
            origins = origins.copy()
            origins[blind] = xp.asarray(mesh.bounds[1] + mesh.diagonal + 1 if mesh.n_faces else np.zeros(3))
        return blind, origins, directions

    @property
    def first(self) -> Surfaces:
        """What is hit first."""
        return self.steps[0].surfaces

    def lifted(self, s: Surfaces, directions: Any) -> Any:
        """Points a little off the surface, on the side that the directions go to."""
        side = self.xp.sign((s.face_normal * directions).sum(axis=1, keepdims=True))
        return s.position + self.tables.dtype.type(self._lift) * side * s.face_normal

    @property
    def _lift(self) -> float:
        t = self.tables
        return LIFT[t.dtype] * max(t.mesh.diagonal, float(abs(t.mesh.bounds).max()))

    def _arriving(
        self, s: Surfaces, j: int, k: int, throughput: Any, known: dict[Any, Any], again: bool
    ) -> Arriving:
        """What is seen of light j, shadows included; it adds to the value."""
        mesh, entry, dimension = self.tables.mesh, self.tables.lights[j], _dimension(k, j)
        key = self._shadow_key(j)
        if again and key in known:
            return Arriving(None, known[key])
        if entry.tint is not None:
            directions = light_rays(mesh, entry.light, s, dimension).directions
            throughput = throughput * entry.tint.at(s, directions, dimension)
        seen = unshadowed(mesh, entry.light, s, dimension, throughput, self.value, lift=self._lift, short=SHORT)
        if key is not None and not again:
            known[key] = seen.dark
        return seen

    def _shadow_key(self, j: int) -> Any:
        """All that the rays from known hits to light j depend on; None where that is too much to tell."""
        t, entry = self.tables, self.tables.lights[j]
        varies = any(own["roughness"].constant is None for own in t.attributes)
        if entry.tint is not None or (varies and entry.light.kind == CONSTANT):
            return None
        # Of a material, whether and how a surface scatters: its roughness, model and sides.
        scatters = to_host(t.material)[:, 4:].tobytes()
        return j, entry.name, entry.light.kind, entry.light.fields[2:], scatters, tuple(t.smooth), self._lift

    def _find_emitters(self, step: _Step, k: int, hits: Hits) -> None:
        """Add what the rays that the surfaces have drawn see of area lights, which share it with the points drawn."""
        t, s = self.tables, step.surfaces
        for j, entry in enumerate(t.lights):
            if not entry.light.followed:
                continue
            met = Met(self.xp.where(t.on_object(entry.name, hits.face), hits.face, np.int32(-1)), hits.barycentric)
            rays, throughput = light_rays(t.mesh, entry.light, s, _dimension(k, j), met=met), step.throughput
            if entry.tint is not None:
                throughput = throughput * entry.tint.at(s, rays.directions, _dimension(k, j), met)
            step.found[j] = met, found_light(rays, s, throughput, self.value, t.device)

    # ---- the way back

    def adjoint(
        self,
        adj: Any,
        *,
        adj_t: Any = None,
        adj_position: Any = None,
        adj_normal: Any = None,
        adj_albedo: Any = None,
        faces: dict[str, FaceSums] | None = None,
    ) -> tuple[dict[str, Any], Any, Any]:
        """Gradients for the cotangent (N, 3) of the value, within what is seen: no silhouette or shadow moves.

        Args:
            adj: of the value.
            adj_t, adj_position, adj_normal, adj_albedo: of the first hits, (N, 1) and (N, 3), or None.
            faces: where gradients of corners add up, by the same names as those of vertices, which then
                are left to the caller: `vertex_sums`.

        Returns:
            gradients by path; those of `vertices` under "vertices", of all objects, and of their "normals"; and those
            of origins and directions (K, 3), of the rays `moved`.
        """
        t, xp = self.tables, self.xp
        if self._blind is not None:
            adj = adj.copy()
            adj[self._blind] = 0
        out: dict[str, Any] = {}
        sums = {} if faces is None else faces
        adj_origins = adj_directions = adj_throughput = None
        emitted = emitted_adj(t, self.hits, self.steps[0].directions, adj, out)
        for k in range(len(self.steps) - 1, -1, -1):
            step = self.steps[k]
            s = step.surfaces
            lit = bool(step.seen)
            adj_s = _adj_surfaces(xp, s, t.dtype, empty=lit)
            by_ray: dict[str, Any] = {}
            if step.seen is not None:
                adj_throughput = self._step_adj(step, k, adj, adj_s, adj_origins, adj_throughput, out)
            if k == 0:
                by_ray = dict(adj_t=adj_t, adj_flat=adj_normal, adj_place=adj_position)
                if adj_albedo is not None:
                    adj_s.material[:, :3] += adj_albedo[s.at]
                if emitted[0] is not None:
                    adj_s.barycentric = emitted[0][s.at]
            add_materials(t, s, step.hits.t, adj_s, out)
            adj_origins, adj_directions = surfaces_adj(t, s, adj_s, step.hits.t, sums, **by_ray)
            m = len(step.directions)
            if k > 0:
                adj_origins, adj_directions = (_whole(xp, s.at, x, m) for x in (adj_origins, adj_directions))
            if adj_throughput is not None and k > 0:
                # To all rays of this step, of which those that miss have a throughput without effect.
                adj_throughput = _whole(xp, s.at, adj_throughput, m)
        at = self.first.at
        if emitted[1] is not None:
            m = len(self.steps[0].directions)
            adj_origins, adj_directions = (_whole(xp, at, x, m) for x in (adj_origins, adj_directions))
            adj_directions += emitted[1]
            at = xp.arange(m, dtype=np.int32)
        if faces is None:
            for name, total in sums.items():
                add(out, name, total.at_vertices().astype(np.float64))
        self.moved = at
        return out, adj_origins, adj_directions

    def _step_adj(
        self, step: _Step, k: int, adj: Any, adj_s: Surfaces, adj_origins: Any, adj_throughput: Any, out: dict[str, Any]
    ) -> Any:
        """Gradients of a bounce: those of its surfaces add up in adj_s, that of its throughput is returned."""
        t, s = self.tables, step.surfaces
        samples = [(j, None, seen) for j, seen in enumerate(step.seen)]
        samples += [(j, met, seen) for j, (met, seen) in step.found.items()]
        adj_through = (self.xp.empty if samples else self.xp.zeros)((len(s), 3), t.dtype)
        for n, (j, met, seen) in enumerate(samples):
            entry, dimension, tint = t.lights[j], _dimension(k, j), None
            through, to_through = step.throughput, adj_through
            if entry.tint is not None:
                to_light = light_rays(t.mesh, entry.light, s, dimension, met=met).directions
                tint = entry.tint.at(s, to_light, dimension, met)
                entry.tint.adjoint(s, to_light, dimension, adj[s.ray] * through * seen.color, out, met)
                through, to_through = through * tint, self.xp.zeros_like(adj_through)
                if n == 0:
                    adj_through[:] = 0
            sums, face, corners = light_rays_adj(
                t.mesh, entry.light, s, dimension, adj_value=adj, throughput=through, dark=seen.dark, fresh=n == 0,
                adj_throughput=to_through, adj=adj_s, met=met,
            )  # fmt: skip
            if tint is not None:
                adj_through += to_through * tint
            entry.add_gradients(to_host(sums), out)
            if entry.light.kind == AREA:
                add(out, "vertices", corners_to_vertices(t.mesh, face, corners).astype(np.float64))
        if step.factor is not None and adj_throughput is not None:
            bounce_adj(s, _dimension(k, -1), step.throughput * adj_throughput, adj_s)
            adj_through += step.factor * adj_throughput
        if step.factor is not None and adj_origins is not None:
            adj_s.position += adj_origins
        return adj_through


def _adj_surfaces(xp: Any, s: Surfaces, dtype: np.dtype, *, empty: bool) -> Surfaces:
    """Where gradients of surfaces add up, from zero unless `empty`; their discrete parts are those of the surfaces."""
    new = xp.empty if empty else xp.zeros
    position, normal, direction = (new((len(s), 3), dtype) for _ in range(3))
    return replace(
        s, material=new((len(s), MATERIAL), dtype), position=position, normal=normal, direction=direction,
        barycentric=None,
    )  # fmt: skip


def _first_numbers(xp: Any, n: int) -> Any:
    """(n,) int32, 0 to n - 1, to read only."""
    return _kept("numbers", xp, n, np.dtype(np.int32))


def _ones(xp: Any, n: int, dtype: np.dtype) -> Any:
    """(n, 3) to read only."""
    return _kept("ones", xp, 3 * n, dtype).reshape(n, 3)


_constants: dict[tuple[str, str, np.dtype], Any] = {}
_MOST = 1 << 19  # numbers of a constant that are kept


def _kept(name: str, xp: Any, n: int, dtype: np.dtype) -> Any:
    """The first n numbers of a constant, which every part of an image needs again."""
    key = name, xp.__name__, dtype
    known = _constants.get(key)
    if known is None or len(known) < n:
        known = xp.arange(n, dtype=dtype) if name == "numbers" else xp.ones(n, dtype)
        if xp is np:
            known.flags.writeable = False
        if n <= _MOST:
            _constants[key] = known
    return known[:n]


def _whole(xp: Any, at: Any, rows: Any, m: int) -> Any:
    """Rows of M, of which those not at `at` are zero."""
    out = xp.zeros((m, rows.shape[1]), rows.dtype)
    out[at] = rows
    return out


def _dimension(k: int, j: int) -> int:
    """The random numbers of light j, or of the next direction (-1), at bounce k."""
    return 64 * k + j + 2

