"""What moving shadows do to an image: the gradient of light's visibility, as an integral along the edges of shadows.

As `silhouette`, with an edge seen from a point of a light instead of the camera, and thrown on what lies behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.render.camera import Camera
from geomkit.render.direct_light import AREA, CONSTANT, DIRECTIONAL, PATCH, LightStruct, light_rays
from geomkit.render.pixel_rays import pixel_rays
from geomkit.render.project_points import project_points
from geomkit.render.radiance import Radiance
from geomkit.render.silhouette import ASIDE, BEFORE, EdgeTable, spread
from geomkit.render.tables import LightEntry, SceneTables, add
from geomkit.spatial.cast_rays import cast_rays
from geomkit.spatial.hits import occluded
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["ShadowSamples", "shadows_of"]

BEHIND = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-5}  # of the scene's size: what is nearer is the edge
MOST = 64  # points on an edge
GOLDEN = 0.7548776662466927, 0.5698402909980532  # Roberts (2018): steps that fill the square evenly


class _Points:
    """Points of a light, each with the light that it gives alone.

    Attributes:
        place: (J, 3) the points, or the directions to them; face, weights: of the faces of an area light.
        far: whether they are directions.
    """

    def __init__(self, tables: SceneTables, entry: LightEntry, count: int, seed: int):
        light = entry.light
        kind, (x, y, z), power = light.kind, light.fields[2:5], np.array(light.fields[8:11])
        self.far = light.position_at_infinity
        self.face, self.weights = None, None
        u = (np.arange(count)[:, None] * np.array(GOLDEN) + np.random.default_rng(seed).random(2)) % 1

        def struct(kind: int, **numbers: Any) -> LightStruct:
            return LightStruct(kind, tables.dtype, tables.device, **numbers)

        if kind == CONSTANT:
            z, phi = 1 - 2 * u[:, 0], 2 * np.pi * u[:, 1]
            r = np.sqrt(np.maximum(0, 1 - z * z))
            self.place = np.stack([r * np.cos(phi), r * np.sin(phi), z], axis=1)
            share = 4 * np.pi / count * power
            self.structs = [struct(DIRECTIONAL, power=share, position=-to) for to in self.place]
        elif kind == AREA:
            faces, vertices = to_host(tables.mesh.faces_array), to_host(tables.mesh.vertices_array).astype(np.float64)
            own, distribution = (to_host(x) for x in light.table)
            at = np.minimum(np.searchsorted(distribution, u[:, 0], side="right"), len(own) - 1)
            before = np.where(at > 0, distribution[at - 1], 0)
            root = np.sqrt((u[:, 0] - before) / (distribution[at] - before))
            self.face = own[at]
            self.weights = np.stack([1 - root, root * (1 - u[:, 1]), root * u[:, 1]], axis=1)
            corners = vertices[faces[self.face]]
            self.place = (self.weights[:, :, None] * corners).sum(axis=1)
            normal = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            # (The light's whole area over J, by what it is drawn with.)
            normal /= ((distribution[at] - before) * count)[:, None]
            both = light.fields[-1] == 2
            self.structs = [
                struct(PATCH, power=power, position=p, axis=n, two_sided=both)
                for p, n in zip(self.place, normal, strict=True)
            ]
        else:
            self.place = np.array([[-x, -y, -z] if self.far else [x, y, z]])
            self.structs = [light]

    def add_gradient(self, tables: SceneTables, entry: LightEntry, which: Any, rows: Any, out: dict[str, Any]) -> None:
        """Add the gradients (N, 3) of the points `which` to those of the light."""
        xp = tables.xp
        total = xp.stack(
            [xp.bincount(which, weights=rows[:, k].astype(np.float64), minlength=len(self.place)) for k in range(3)],
            axis=1,
        )
        if self.face is not None:
            corners = xp.ascontiguousarray((xp.asarray(self.weights)[:, :, None] * total[:, None]).astype(tables.dtype))
            add(out, "vertices", corners_to_vertices(tables.mesh, xp.asarray(self.face), corners).astype(np.float64))
        elif entry.light.kind != CONSTANT:
            sums = np.zeros(9)
            sums[:3] = to_host(total)[0] * (-1 if self.far else 1)
            entry.add_gradients(sums, out)


class ShadowSamples:
    """Points where edges of shadows of one light are seen, and the jump of the image there.

    Args:
        tables: the scene.
        camera: the camera, its fields plain.
        entry: the light.
        count: number of points of the light, where it has more than one.
        seed: of their random numbers.
    """

    def __init__(self, tables: SceneTables, camera: Camera, entry: LightEntry, *, count: int, seed: int):
        self.tables, self.camera, self.entry = tables, camera, entry
        self.arguments = camera.world_to_camera, camera.K, camera.distortion
        self.points = _Points(tables, entry, count, seed)
        mesh, xp = tables.mesh, tables.xp
        table, normals = EdgeTable(mesh), xp.asarray(mesh.face_normals)
        edges = [
            xp.flatnonzero(table.silhouettes(mesh, normals, place, parallel=self.points.far))
            for place in self.points.place
        ]
        owner = xp.asarray(np.repeat(np.arange(len(edges)), [len(e) for e in edges]))
        ends = table.ends[xp.concatenate(edges)]
        count_of = self._pieces(ends, owner)
        which = xp.repeat(xp.arange(len(ends)), count_of if xp is np else count_of.tolist())
        k = xp.arange(len(which)) - (xp.cumsum(count_of) - count_of)[which]
        t = (k + 0.5) / count_of[which]
        self._throw(ends[which], owner[which], t, 1 / count_of[which])
        self._cut(xp.flatnonzero(self._seen()))
        self._measure()

    # ---- the points

    def _ray(self, ends: Any, owner: Any, t: Any) -> tuple[Any, Any]:
        """Rays from points of the light through points of edges, which are at parameter 1; for far lights at 0."""
        xp, v, dtype = self.tables.xp, self.tables.mesh.vertices_array, self.tables.dtype
        a, b = v[ends[:, 0]], v[ends[:, 1]]
        x = (a + t[:, None] * (b - a)).astype(dtype)
        place = xp.asarray(self.points.place, dtype=dtype)[owner]
        return (x, -place) if self.points.far else (place, x - place)

    def _throw(self, ends: Any, owner: Any, t: Any, share: Any) -> None:
        """Find where edges throw their shadows; keep those that are lit."""
        xp, mesh = self.tables.xp, self.tables.mesh
        origins, directions = self._ray(ends, owner, t)
        length = xp.linalg.norm(directions, axis=1)
        beyond = BEHIND[self.tables.dtype] * mesh.diagonal / xp.where(length > 0, length, 1)
        at = 0.0 if self.points.far else 1.0
        if self.points.far:
            dark = occluded.forward(mesh, origins, -directions, t_min=beyond.astype(self.tables.dtype))
        else:
            dark = occluded.forward(mesh, origins, directions, t_min=BEFORE, t_max=1 - BEFORE)
        hits = cast_rays.forward(mesh, origins, directions, t_min=(at + beyond).astype(self.tables.dtype))
        self.ends, self.owner, self.t, self.share = ends, owner, t, share
        self.origins, self.directions, self.hits = origins, directions, hits
        self.lit = ~dark & (hits.face >= 0)
        self.q = hits.position
        self.pixel = self._project(self.q)

    def _project(self, points: Any) -> Any:
        safe = self.tables.xp.where(self.tables.xp.isfinite(points), points, 0).astype(self.tables.dtype)
        return project_points.forward(safe, *self.arguments, model=self.camera.model).pixel

    def _pieces(self, ends: Any, owner: Any) -> Any:
        """How many points an edge gets: one for each pixel of its shadow's length."""
        xp, seen = self.tables.xp, []
        for t in (0.25, 0.75):
            self._throw(ends, owner, xp.full(len(ends), t), xp.ones(len(ends)))
            seen.append(xp.where(self.lit[:, None], self.pixel, np.nan))
        length = 2 * xp.linalg.norm(seen[0] - seen[1], axis=1)
        return xp.where(xp.isfinite(length), xp.clip(xp.ceil(length), 1, MOST), 4).astype(np.int64)

    def _seen(self) -> Any:
        """Whether the camera sees the points where shadows end."""
        xp, camera, mesh = self.tables.xp, self.camera, self.tables.mesh
        inside = (self.pixel >= 0).all(axis=1) & (self.pixel[:, 0] < camera.width) & (self.pixel[:, 1] < camera.height)
        seen = self.lit & inside
        at = xp.flatnonzero(seen)
        rays = pixel_rays.forward(self.pixel[at].astype(self.tables.dtype), *self.arguments, model=camera.model)
        depth = ((self.q[at] - rays.origins) * rays.directions).sum(axis=1) / (rays.directions**2).sum(axis=1)
        seen[at[occluded.forward(mesh, *rays, t_max=(depth * (1 - BEFORE)).astype(self.tables.dtype))]] = False
        return seen

    def _cut(self, keep: Any) -> None:
        for name in ("ends", "owner", "t", "share", "origins", "directions", "q", "pixel"):
            setattr(self, name, getattr(self, name)[keep])
        self.hits = self.hits.part(keep)

    def _measure(self) -> None:
        """The jump of the image across each point: the light of one point of the light, where it is not in shadow."""
        xp, tables, camera = self.tables.xp, self.tables, self.camera
        v, dtype = tables.mesh.vertices_array, tables.dtype
        step = v[self.ends[:, 1]] - v[self.ends[:, 0]]
        along = self._derivative(self._thrown(step))
        self.across = xp.stack([along[:, 1], -along[:, 0]], axis=1)
        length = xp.linalg.norm(self.across, axis=1, keepdims=True)
        aside = dtype.type(ASIDE[dtype]) * self.across / xp.where(length > 0, length, 1)
        self.column, self.line = self.pixel[:, 0].astype(np.int64), self.pixel[:, 1].astype(np.int64)
        stream = xp.zeros(len(self.t), np.uint32)
        sides, same = [], xp.ones(len(self.t), bool)
        for sign in (-1, 1):
            rays = pixel_rays.forward((self.pixel + sign * aside).astype(dtype), *self.arguments, model=camera.model)
            side = Radiance(tables, rays.origins, rays.directions, stream, stream.astype(np.int32), 0)
            same &= side.hits.face == self.hits.face
            sides.append(self._arriving(side))
        self.jump = xp.where(same[:, None], sides[0] - sides[1], 0)

    def _arriving(self, side: Radiance) -> Any:
        xp, mesh = self.tables.xp, self.tables.mesh
        out = xp.zeros((len(self.t), 3), self.tables.dtype)
        surfaces = side.first
        at, owner = surfaces.at, self.owner[surfaces.at]
        for j in range(len(self.points.structs)):
            mine = xp.flatnonzero(owner == j)
            if not len(mine):
                continue
            part = surfaces.part(mine)
            _, to_light, _, color = light_rays(mesh, self.points.structs[j], part, 0)
            # From the point itself: a step off the surface would move the shadow by as much as the two sides are apart.
            t_min = BEHIND[self.tables.dtype] * mesh.diagonal / xp.linalg.norm(to_light, axis=1)
            t_max = np.inf if self.points.far else 1 - BEFORE
            dark = occluded.forward(mesh, part.position, to_light, t_min=t_min.astype(self.tables.dtype), t_max=t_max)
            color[dark] = 0
            out[at[mine]] = color
        return out

    # ---- derivatives

    def _thrown(self, step: Any) -> Any:
        """(N, 3) how the shadows move when the points of the edges move by (N, 3) steps."""
        n, d = self.hits.normal, self.directions
        facing = (n * d).sum(axis=1, keepdims=True)
        slide = (n * step).sum(axis=1, keepdims=True) / self.tables.xp.where(facing == 0, 1, facing)
        factor = 1 if self.points.far else self.hits.t[:, None]
        return factor * (step - d * slide)

    def _derivative(self, step: Any) -> Any:
        xp, rows = self.tables.xp, []
        for unit in ((1, 0), (0, 1)):
            adj = xp.broadcast_to(xp.asarray(unit, dtype=self.tables.dtype), self.pixel.shape).copy()
            rows.append(project_points.adjoint(self.q, *self.arguments, model=self.camera.model, adj_pixel=adj).points)
        return xp.stack([(row * step).sum(axis=1) for row in rows], axis=1)

    def adjoint(self, adj_image: Any, out: dict[str, Any]) -> None:
        """Add gradients for the cotangent (H, W, 3) of the image."""
        xp, tables, mesh = self.tables.xp, self.tables, self.tables.mesh
        weight = (adj_image[self.line, self.column] * self.jump).sum(axis=1) * self.share
        adj_pixel = (weight[:, None] * self.across).astype(tables.dtype)
        g = project_points.adjoint(self.q, *self.arguments, model=self.camera.model, adj_pixel=adj_pixel)
        for name in ("world_to_camera", "K", "distortion"):
            if getattr(g, name) is not None:
                add(out, f"camera.{name}", to_host(getattr(g, name)).astype(np.float64))
        rays = cast_rays.adjoint(
            mesh, self.origins, self.directions, result=self.hits, adj_position=xp.ascontiguousarray(g.points)
        )
        add(out, "vertices", rays.vertices.astype(np.float64))
        adj_x = rays.origins if self.points.far else rays.directions
        add(out, "vertices", spread(xp, mesh.n_vertices, self.ends, (1 - self.t, self.t), adj_x))
        adj_place = -rays.directions if self.points.far else rays.origins - rays.directions
        self.points.add_gradient(tables, self.entry, self.owner, adj_place, out)

    def tangent(self, d_vertices: Any) -> Any:
        """(H, W, 3) the change of the image when edges move with the vertices (V, 3), and receivers do not."""
        xp, t = self.tables.xp, self.t[:, None]
        step = (1 - t) * d_vertices[self.ends[:, 0]] + t * d_vertices[self.ends[:, 1]]
        swept = (self._derivative(self._thrown(step)) * self.across).sum(axis=1) * self.share
        h, w = self.camera.height, self.camera.width
        place = self.line * w + self.column
        image = [
            xp.bincount(place, weights=(swept * self.jump[:, k]).astype(np.float64), minlength=h * w) for k in range(3)
        ]
        return xp.stack(image, axis=1).reshape(h, w, 3)


def shadows_of(tables: SceneTables, camera: Camera, *, count: int, seed: int) -> list[ShadowSamples]:
    """The edges of the shadows of all lights."""
    return [ShadowSamples(tables, camera, entry, count=count, seed=seed) for entry in tables.lights]
