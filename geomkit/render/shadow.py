"""What moving shadows do to an image: the gradient of light's visibility, as an integral along the edges of shadows.

As `silhouette`, with an edge seen from a point of a light instead of the camera, and thrown on what lies behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.render.attribute import Attribute
from geomkit.render.camera import Camera
from geomkit.render.direct_light import AREA, CONSTANT, DIRECTIONAL, ENVIRONMENT, PATCH, LightStruct, light_rays
from geomkit.render.edge_table import EdgeTable
from geomkit.render.environment import Surroundings
from geomkit.render.film import Film, whole_film
from geomkit.render.film_edges import BEFORE
from geomkit.render.interpolate import interpolated
from geomkit.render.pixel_rays import pixel_rays
from geomkit.render.project_points import project_points
from geomkit.render.radiance import Radiance
from geomkit.render.silhouette import ASIDE, spread
from geomkit.render.surface import hits_adj
from geomkit.render.tables import LightEntry, SceneTables, add, along_curve
from geomkit.runtime.device import empty
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.cast_rays import cast_rays
from geomkit.spatial.hits import blocked
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["ShadowSamples", "shadows_of"]

edge_rays = Kernel(
    "render/edges.cu",
    "edge_rays",
    "const int* ends, const int* place, const double* t, const real* places, int far, double beyond, "
    "const real* vertices, real* origins, real* directions, real* t_min",
)

BEHIND = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-5}  # of the scene's size: what is nearer is the edge
MOST = 64  # points on an edge
RECEIVERS = 12  # squared: rays of the camera that tell which faces of an area light matter
REST = 0.05  # of the points go to faces by their area alone
SHORT_EDGE = 4  # pixels
DENSE = 4  # points a pixel where a light has one point, which no others make up for
_THROWN = ("ends", "owner", "t", "share", "origins", "directions", "pixel")
FIELDS = (*_THROWN, "face", "hit_t", "barycentric", "normal", "q")
GOLDEN = 0.7548776662466927, 0.5698402909980532  # Roberts (2018): steps that fill the square evenly


class _Points:
    """Points of a light, each with the light that it gives alone.

    Attributes:
        place: (J, 3) the points, or the directions to them; face, weights: of the faces of an area light.
        far: whether they are directions.
    """

    def __init__(self, tables: SceneTables, camera: Camera, entry: LightEntry, count: int, seed: int):
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
        elif kind == ENVIRONMENT:
            assert entry.tint is not None and isinstance(entry.tint.source, Surroundings)
            self.place, radiance = entry.tint.source.drawn(u)
            self.structs = [
                struct(DIRECTIONAL, power=seen / count, position=-to)
                for to, seen in zip(self.place, radiance, strict=True)
            ]
        elif kind == AREA:
            faces, vertices = to_host(tables.mesh.faces_array), to_host(tables.mesh.vertices_array).astype(np.float64)
            own, distribution = _useful(tables, camera, to_host(light.table[0]), light.fields[-1] == 2)
            at = np.minimum(np.searchsorted(distribution, u[:, 0], side="right"), len(own) - 1)
            before = np.where(at > 0, distribution[at - 1], 0)
            root = np.sqrt((u[:, 0] - before) / (distribution[at] - before))
            self.face = own[at]
            self.weights = np.stack([1 - root, root * (1 - u[:, 1]), root * u[:, 1]], axis=1)
            corners = vertices[faces[self.face]]
            self.place = (self.weights[:, :, None] * corners).sum(axis=1)
            normal = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            # As long as the area that the point stands for.
            normal /= ((distribution[at] - before) * count)[:, None]
            both = light.fields[-1] == 2
            powers = np.broadcast_to(power, (count, 3))
            if entry.tint is not None:
                assert isinstance(entry.tint.source, Attribute)
                face, barycentric = self.face.astype(np.int32), self.weights[:, 1:].astype(tables.dtype)
                xp = tables.xp
                powers = to_host(entry.tint.source.at(xp.asarray(face), xp.asarray(barycentric), None))
            self.structs = [
                struct(PATCH, power=w, position=p, axis=n, two_sided=both)
                for w, p, n in zip(powers, self.place, normal, strict=True)
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
        elif entry.light.kind not in (CONSTANT, ENVIRONMENT):
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
        film: as of EdgeSamples.
    """

    def __init__(
        self,
        tables: SceneTables,
        camera: Camera,
        entry: LightEntry,
        *,
        count: int,
        seed: int,
        film: Film | None = None,
    ):
        self.film = whole_film(camera) if film is None else film
        self.tables, self.camera, self.entry = tables, camera, entry
        self.arguments = camera.world_to_camera, camera.K, camera.distortion
        self.points = _Points(tables, camera, entry, count, seed)
        mesh, xp = tables.mesh, tables.xp
        table = EdgeTable.of(mesh)
        edge, owner = table.silhouettes(mesh, self.points.place, parallel=self.points.far)
        self._places = xp.ascontiguousarray(xp.asarray(self.points.place, dtype=tables.dtype))
        # One ray through the middle of each edge tells how long its shadow is: of most, not even a pixel.
        ends = table.ends[edge]
        half = xp.full(len(edge), 0.5)
        self._throw(ends, owner, half)
        count_of = self._pieces(ends)
        once = self._fields(xp.flatnonzero(count_of[self.lit] == 1))
        many = xp.flatnonzero(count_of > 1)
        if len(many):
            ends, owner, count_of = ends[many], owner[many], count_of[many]
            which = xp.repeat(xp.arange(len(ends)), count_of if xp is np else count_of.tolist())
            k = xp.arange(len(which)) - (xp.cumsum(count_of) - count_of)[which]
            share = 1 / count_of[which]
            self._throw(ends[which], owner[which], (k + 0.5) * share, share)
            more = self._fields(xp.arange(len(self.lit)))
            once = {name: xp.concatenate([once[name], more[name]]) for name in once}
        self._keep(once)
        self._cut(xp.flatnonzero(self._seen()))
        self._measure()

    # ---- the points

    def _throw(self, ends: Any, owner: Any, t: Any, share: Any = None) -> None:
        """Find where edges throw their shadows: at the points `lit` of them, to which all else belongs."""
        xp, mesh, device, dtype = self.tables.xp, self.tables.mesh, self.tables.device, self.tables.dtype
        n, far = len(t), self.points.far
        origins, directions = (empty(device, (n, 3), dtype) for _ in range(2))
        t_min = empty(device, n, dtype)
        beyond = BEHIND[dtype] * mesh.diagonal
        edge_rays(
            n, ends, owner, t, self._places, int(far), beyond, mesh.vertices_array, origins, directions, t_min
        )
        if far:
            dark = blocked(mesh, origins, -directions, t_min=t_min)
        else:
            dark = blocked(mesh, origins, directions, t_min=BEFORE, t_max=1 - BEFORE)
        # What is dark throws no shadow, nor does what nothing is behind: only the others go on.
        at = xp.flatnonzero(dark == 0)
        hits = cast_rays.forward(mesh, origins.take(at, 0), directions.take(at, 0), t_min=t_min.take(at))
        met = xp.flatnonzero(hits.face >= 0)
        at = self.lit = at[met]
        self.ends, self.owner, self.t = ends.take(at, 0), owner.take(at), t.take(at)
        self.share = xp.ones(len(at)) if share is None else share.take(at)
        self.origins, self.directions = origins.take(at, 0), directions.take(at, 0)
        self.face, self.hit_t = hits.face.take(met), hits.t.take(met)
        self.barycentric, self.normal = hits.barycentric.take(met, 0), hits.normal.take(met, 0)
        self.q = interpolated(mesh, mesh.vertices_array, self.face, self.barycentric)
        self.pixel = self._project(self.q)

    def _project(self, points: Any) -> Any:
        return project_points.forward(points, *self.arguments, model=self.camera.model).pixel

    def _pieces(self, ends: Any) -> Any:
        """How many points an edge gets: some for each pixel of its shadow's length; of its own where its middle throws
        none, unless the edge is short and the light has many points: then all of it counts as its middle does.
        """
        xp, v = self.tables.xp, self.tables.mesh.vertices_array
        length = xp.full(len(ends), np.inf)
        step = v[self.ends[:, 1]] - v[self.ends[:, 0]]
        length[self.lit] = xp.linalg.norm(self._derivative(self._thrown(step)), axis=1)
        dark = xp.ones(len(ends), bool)
        dark[self.lit] = False
        rest = xp.flatnonzero(dark)
        ab = [self._project(v[ends[rest, k]]) for k in (0, 1)]
        own = xp.linalg.norm(ab[0] - ab[1], axis=1)
        alone = len(self.points.place) == 1
        length[rest] = own if alone else xp.where(own < SHORT_EDGE, 1, own)
        count = xp.ceil((DENSE if alone else 1) * length)
        return xp.where(xp.isfinite(length), xp.clip(count, 1, MOST), 4).astype(np.int64)

    def _fields(self, at: Any) -> dict[str, Any]:
        return {name: getattr(self, name).take(at, 0) for name in FIELDS}

    def _keep(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            setattr(self, name, value)

    def _seen(self) -> Any:
        """Whether the camera sees the points where shadows end."""
        xp, camera, mesh = self.tables.xp, self.camera, self.tables.mesh
        seen = self.film.reaches(self.pixel)
        at = xp.flatnonzero(seen)
        rays = pixel_rays.forward(self.pixel[at].astype(self.tables.dtype), *self.arguments, model=camera.model)
        # Where a lens has no ray, nothing is seen.
        sighted = xp.isfinite(rays.directions).all(axis=1)
        seen[at[~sighted]] = False
        at, rays = at[sighted], type(rays)(rays.origins[sighted], rays.directions[sighted])
        depth = ((self.q[at] - rays.origins) * rays.directions).sum(axis=1) / (rays.directions**2).sum(axis=1)
        hidden = blocked(mesh, *rays, t_max=(depth * (1 - BEFORE)).astype(self.tables.dtype))
        seen[at[hidden > 0]] = False
        return seen

    def _cut(self, keep: Any) -> None:
        self._keep(self._fields(keep))

    def _measure(self) -> None:
        """The jump of the image across each point: the light of one point of the light, where it is not in shadow."""
        xp, tables, camera = self.tables.xp, self.tables, self.camera
        v, dtype = tables.mesh.vertices_array, tables.dtype
        step = v[self.ends[:, 1]] - v[self.ends[:, 0]]
        along = self._derivative(self._thrown(step))
        self.across = xp.stack([along[:, 1], -along[:, 0]], axis=1)
        length = xp.linalg.norm(self.across, axis=1, keepdims=True)
        aside = dtype.type(ASIDE[dtype]) * self.across / xp.where(length > 0, length, 1)
        self.column, self.line = (xp.floor(self.pixel[:, k]).astype(np.int64) for k in range(2))
        stream = xp.zeros(len(self.t), np.uint32)
        sides, same = [], xp.ones(len(self.t), bool)
        for sign in (-1, 1):
            rays = pixel_rays.forward((self.pixel + sign * aside).astype(dtype), *self.arguments, model=camera.model)
            side = Radiance(tables, rays.origins, rays.directions, stream, stream.astype(np.int32), 0)
            same &= side.hits.face == self.face
            sides.append(self._arriving(side))
        self.jump = xp.where(same[:, None], sides[0] - sides[1], 0)

    def _arriving(self, side: Radiance) -> Any:
        xp, mesh = self.tables.xp, self.tables.mesh
        out = xp.zeros((len(self.t), 3), self.tables.dtype)
        surfaces = side.first
        at, owner = surfaces.at, self.owner[surfaces.at]
        order = xp.argsort(owner, kind="stable")
        stops = xp.searchsorted(owner[order], xp.arange(len(self.points.structs) + 1))
        surfaces, at = surfaces.part(order), at[order]
        to_light, color = (empty(self.tables.device, (len(at), 3), self.tables.dtype) for _ in range(2))
        for j, struct in enumerate(self.points.structs):
            first, last = int(stops[j]), int(stops[j + 1])
            if first < last:
                rays = light_rays(mesh, struct, surfaces.part(slice(first, last)), 0)
                to_light[first:last], color[first:last] = rays.directions, rays.color
        # From the point itself: a step off the surface would move the shadow by as much as the two sides are apart.
        t_min = BEHIND[self.tables.dtype] * mesh.diagonal / xp.linalg.norm(to_light, axis=1)
        t_max = np.inf if self.points.far else 1 - BEFORE
        dark = blocked(mesh, surfaces.position, to_light, t_min=t_min.astype(self.tables.dtype), t_max=t_max)
        color[dark > 0] = 0
        out[at] = color
        return out

    # ---- derivatives

    def _thrown(self, step: Any) -> Any:
        """(N, 3) how the shadows move when the points of the edges move by (N, 3) steps."""
        n, d = self.normal, self.directions
        facing = (n * d).sum(axis=1, keepdims=True)
        slide = (n * step).sum(axis=1, keepdims=True) / self.tables.xp.where(facing == 0, 1, facing)
        factor = 1 if self.points.far else self.hit_t[:, None]
        return factor * (step - d * slide)

    def _derivative(self, step: Any) -> Any:
        xp, rows = self.tables.xp, []
        for unit in ((1, 0), (0, 1)):
            adj = xp.broadcast_to(xp.asarray(unit, dtype=self.tables.dtype), self.pixel.shape).copy()
            rows.append(project_points.adjoint(self.q, *self.arguments, model=self.camera.model, adj_pixel=adj).points)
        return xp.stack([(row * step).sum(axis=1) for row in rows], axis=1)

    def adjoint(self, adj_image: Any, out: dict[str, Any]) -> None:
        """Add gradients for the cotangent (H, W, 3) of the film's image."""
        xp, tables, mesh = self.tables.xp, self.tables, self.tables.mesh
        weight = (self.film.at(xp, adj_image, self.pixel) * self.jump).sum(axis=1) * self.share
        adj_pixel = (weight[:, None] * self.across).astype(tables.dtype)
        g = project_points.adjoint(self.q, *self.arguments, model=self.camera.model, adj_pixel=adj_pixel)
        for name in ("world_to_camera", "K", "distortion"):
            if getattr(g, name) is not None:
                add(out, f"camera.{name}", to_host(getattr(g, name)).astype(np.float64))
        origins, directions, corners = hits_adj(
            mesh, self.directions, self.hit_t, self.face, self.barycentric, adj_position=xp.ascontiguousarray(g.points)
        )
        add(out, "vertices", corners_to_vertices(mesh, self.face, corners).astype(np.float64))
        adj_x = origins if self.points.far else directions
        weights = xp.stack([1 - self.t, self.t], axis=1)
        add(out, "vertices", spread(xp, mesh.n_vertices, self.ends, weights[:, :, None] * adj_x[:, None]))
        adj_place = -directions if self.points.far else origins - directions
        self.points.add_gradient(tables, self.entry, self.owner, adj_place, out)

    def tangent(self, d_vertices: Any) -> Any:
        """(H, W, 3) as of EdgeSamples: edges move with the vertices (V, 3), and receivers do not."""
        xp, t = self.tables.xp, self.t[:, None]
        step = (1 - t) * d_vertices[self.ends[:, 0]] + t * d_vertices[self.ends[:, 1]]
        swept = (self._derivative(self._thrown(step)) * self.across).sum(axis=1) * self.share
        h, w = self.camera.height, self.camera.width
        place = self.line * w + self.column
        image = [
            xp.bincount(place, weights=(swept * self.jump[:, k]).astype(np.float64), minlength=h * w) for k in range(3)
        ]
        return xp.stack(image, axis=1).reshape(h, w, 3)


def _useful(tables: SceneTables, camera: Camera, own: np.ndarray, two_sided: bool) -> tuple[np.ndarray, np.ndarray]:
    """Faces of an area light, neighbours near each other, and the running sum of shares by which points are drawn.

    They are the shares in the light that arrives, shadows aside, where a few rays of the camera hit; and a little of
    the area's, so that no face is left out.
    """
    vertices, faces = to_host(tables.mesh.vertices_array).astype(np.float64), to_host(tables.mesh.faces_array)
    corners = vertices[faces[own]]
    center = corners.mean(axis=1)
    own_order = np.argsort(along_curve(center), kind="stable")
    own, corners, center = own[own_order], corners[own_order], center[own_order]
    area = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    size = np.linalg.norm(area, axis=1)
    x, y = ((np.arange(RECEIVERS) + 0.5) / RECEIVERS * n for n in (camera.width, camera.height))
    pixels = tables.xp.asarray(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(tables.dtype))
    rays = pixel_rays.forward(pixels, camera.world_to_camera, camera.K, camera.distortion, model=camera.model)
    sighted = tables.xp.isfinite(rays.directions).all(axis=1)
    rays = type(rays)(rays.origins[sighted], rays.directions[sighted])
    hits = cast_rays.forward(tables.mesh, *rays)
    shares = REST * size / size.sum()
    arriving = np.zeros(len(own))
    seen = to_host(hits.face) >= 0
    directions = to_host(rays.directions)[seen]
    for point, n, d in zip(to_host(hits.position)[seen], to_host(hits.normal)[seen], directions, strict=True):
        way = point.astype(np.float64) - center
        square = (way**2).sum(axis=1) + size
        leaving = (way * area).sum(axis=1)
        received = -(way * n).sum(axis=1) * (-1 if (n * d).sum() > 0 else 1)
        arriving += np.maximum(abs(leaving) if two_sided else leaving, 0) * np.maximum(received, 0) / square**2
    if arriving.sum() > 0:
        shares += (1 - REST) * arriving / arriving.sum()
    total = np.cumsum(shares)
    return own, total / total[-1]


def shadows_of(tables: SceneTables, camera: Camera, *, count: int, seed: int) -> list[ShadowSamples]:
    """The edges of the shadows of all lights."""
    return [ShadowSamples(tables, camera, entry, count=count, seed=seed) for entry in tables.lights]
