"""What moving edges do to an image: the gradient of visibility, as an integral along the edges that are seen.

The image at a point of the film jumps where an edge is. If the edge moves, the pixels it passes change by the jump
times the area swept. The integral runs along the edges; the jump is measured by a ray on either side, so that nothing
has to be known about what is seen there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from geomkit.arrays import to_host
from geomkit.errors import message
from geomkit.render.camera import Camera
from geomkit.render.film import Film, whole_film
from geomkit.render.film_edges import FilmEdges
from geomkit.render.first_hits import FirstHits, block_of, hit_rays
from geomkit.render.optics import SUM_BLOCK, added
from geomkit.render.project_points import project_points
from geomkit.render.tables import SceneTables, add
from geomkit.runtime.device import address, empty, sort_order
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.cast_rays import Hits, cast_rays_fwd
from geomkit.spatial.rays import MeshStruct

__all__ = ["ASIDE", "EdgeSamples", "crossings", "edge_samples", "spread"]

SOURCE = "render/silhouette.cu"
rays_beside = Kernel(
    SOURCE,
    "rays_beside",
    "int block, int count, Camera camera, int width, int mixed, double aside, const real* vertices, const int* ends, "
    "const int* edge, const double* t, real* points, real* pixel, double* across, real* origins, real* directions, "
    "uint* stream",
    grain=1,
)
edge_parts_adj = Kernel(
    SOURCE,
    "edge_parts_adj",
    "int block, int count, Camera camera, int channels, const real* points, const double* t, const double* share, "
    "const double* across, const real* jump, const real* adj_image, double* adj_ends, double* sums",
    grain=1,
)
sum_segments = Kernel(
    SOURCE, "sum_segments", "const int* start, const int* order, const int* to, const double* rows, double* sums"
)

ASIDE = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-5}  # pixels from the edge to the rays beside it
UNLIKE = 0.25  # of two jumps' sizes, by which they differ if something else is behind one of them
SPLIT = 8  # pixels of an edge that is looked along
LOOKS = 2  # to find where that begins, each at
ALONG = 7  # places at a time
BLOCK = 64  # places whose rays an item finds
RAYS = 1 << 18  # at a time, about: what is known of them does not grow with the number of edges


class EdgeSamples:
    """Points on the edges that are seen, and the jump of the image there.

    Args:
        tables: the scene.
        camera: the camera, its fields plain.
        radiance: from the first hits of N rays to (N, C) of what they see.
        repeat: number of rays on either side of each of them.
        seed: of their random numbers.
        flat: for each object whether the image jumps between its faces, as it shows their normals; None for those that
            are not smooth.
        film: the part of the image that is wanted, and its filter; or None for all of it and a box.
        edges: those that count; None for all.

    Attributes:
        ends: (N, 2) the vertices of each point's edge.
        t: (N,) the weight of the second.
        x: (N, 3) the points; pixel: (N, 2) where they are seen.
        across: (N, 2) on the film, what a step of t covers, turned by a right angle.
        jump: (N, C) of the image, from the side that `across` points to, to the other.
        share: (N,) of t that each point stands for.
    """

    def __init__(
        self,
        tables: SceneTables,
        camera: Camera,
        radiance: Callable[[FirstHits], Any],
        *,
        repeat: int,
        seed: int,
        flat: Sequence[bool] | None = None,
        film: Film | None = None,
        edges: FilmEdges | None = None,
    ):
        self.tables, self.camera = tables, camera
        self.film = whole_film(camera) if film is None else film
        self.edges = _edges(tables, camera, self.film, flat) if edges is None else edges
        self._radiance, self._repeat, self._seed = radiance, repeat, seed
        xp = tables.xp
        edge, parts = self.edges.seen_parts()
        start, self.t, end = (xp.ascontiguousarray(parts[:, k]) for k in range(3))
        self.share = end - start
        self.x, self.pixel, self.across, self.jump, face = self._measured(edge, self.t)
        length = xp.sqrt((self.across**2).sum(axis=1))
        self.jump = _shared_out(
            xp, edge, length, self.t, start, end, self.jump, lambda at, t: self._measured(edge[at], t)[3]
        )
        if self.edges.outline is not None:
            # Across a crease both faces are seen; else what jumps there is another edge, which has points of its own.
            own = self.edges.table.faces[self.edges.number[edge]]
            both = (face.reshape(-1, 2, 1) == own[:, None]).any(axis=2).all(axis=1)
            self.jump = xp.where((self.edges.outline[edge] | both)[:, None], self.jump, 0)
        self.ends = self.edges.ends[edge]
        inside = self.film.reaches(self.pixel)
        if not bool(inside.all()):
            inside = xp.flatnonzero(inside)
            for name in ("ends", "t", "share", "x", "pixel", "across", "jump"):
                setattr(self, name, getattr(self, name)[inside])

    def _measured(self, edge: Any, t: Any) -> tuple[Any, Any, Any, Any, Any]:
        """The points at places of edges: x, pixel, across and jump, and (2 N,) the faces seen beside them."""
        tables, device, dtype, n = self.tables, self.tables.device, self.tables.dtype, len(t)
        x, pixel, across = empty(device, (n, 3), dtype), empty(device, (n, 2), dtype), empty(device, (n, 2), np.float64)
        origins, directions = (empty(device, (2 * n, 3), dtype) for _ in range(2))
        stream = empty(device, 2 * n, np.uint32)
        mixed = (self._seed * 0x9E3779B9 + 0x85EBCA6B) & 0xFFFFFFFF
        block = BLOCK if device == "cpu" else 1
        rays_beside(
            -(-n // block), block, n, self.edges.camera, self.camera.width, mixed - (mixed >> 31 << 32), ASIDE[dtype],
            tables.mesh.vertices_array, self.edges.ends, edge, t, x, pixel, across, origins, directions, stream,
        )  # fmt: skip
        first = _first_hits(tables, origins, directions, stream)
        face = first.hits.face
        value = self._radiance(first if self._repeat == 1 else _repeated(tables.xp, first, self._repeat))
        value = value.reshape(n, 2, self._repeat, -1)
        value = value[:, :, 0] if self._repeat == 1 else value.mean(axis=2)
        return x, pixel, across, value[:, 0] - value[:, 1], face

    def adjoint(self, adj_image: Any, out: dict[str, Any]) -> None:
        """Add gradients for the cotangent (H, W, C) of the film's image to those of "vertices" and of the camera."""
        xp, tables, optics = self.tables.xp, self.tables, self.edges.optics
        n, channels = self.jump.shape
        adj = xp.ascontiguousarray(self.film.at(xp, adj_image, self.pixel), dtype=tables.dtype)
        adj_ends = empty(tables.device, (n, 2, 3), np.float64)
        blocks, sums = optics.sums(n)
        edge_parts_adj(
            blocks, SUM_BLOCK, n, self.edges.camera, channels, self.x, self.t, self.share, self.across,
            xp.ascontiguousarray(self.jump), adj, adj_ends, sums,
        )  # fmt: skip
        add(out, "vertices", spread(xp, tables.mesh.n_vertices, self.ends, adj_ends))
        total = added(sums)
        found = optics.gradients(total[:12].reshape(3, 4), total[12:], tables.dtype)
        for name, value in zip(("world_to_camera", "K", "distortion"), found, strict=True):
            if value is not None:
                add(out, f"camera.{name}", to_host(value).astype(np.float64))

    def tangent(self, d_vertices: Any) -> Any:
        """(H, W, C) the change of the whole image, of a box filter, when the vertices (V, 3) change."""
        xp, t = self.tables.xp, self.t[:, None]
        step = (1 - t) * d_vertices[self.ends[:, 0]] + t * d_vertices[self.ends[:, 1]]
        arguments, rows = (self.camera.world_to_camera, self.camera.K, self.camera.distortion), []
        for unit in ((1, 0), (0, 1)):
            adj = xp.broadcast_to(xp.asarray(unit, dtype=self.tables.dtype), self.pixel.shape).copy()
            rows.append(project_points.adjoint(self.x, *arguments, model=self.camera.model, adj_pixel=adj).points)
        moved = xp.stack([(row * step).sum(axis=1) for row in rows], axis=1)
        swept = (moved * self.across).sum(axis=1) * self.share
        h, w, c = self.camera.height, self.camera.width, self.jump.shape[1]
        column, line = (xp.floor(self.pixel[:, k]).astype(np.int64) for k in range(2))
        place = line * w + column
        image = [
            xp.bincount(place, weights=(swept * self.jump[:, k]).astype(np.float64), minlength=h * w) for k in range(c)
        ]
        return xp.stack(image, axis=1).reshape(h, w, c)


def edge_samples(
    tables: SceneTables,
    camera: Camera,
    radiance: Callable[[FirstHits], Any],
    *,
    repeat: int,
    seed: int,
    flat: Sequence[bool] | None,
    film: Film,
) -> Iterator[EdgeSamples]:
    """The points of all edges, as EdgeSamples of some edges at a time: memory does not grow with their number."""
    options: dict[str, Any] = dict(repeat=repeat, seed=seed, film=film)
    for some in _edges(tables, camera, film, flat).blocks(max(1, RAYS // (2 * repeat))):
        yield EdgeSamples(tables, camera, radiance, **options, edges=some)


def _edges(tables: SceneTables, camera: Camera, film: Film, flat: Sequence[bool] | None) -> FilmEdges:
    if flat is None:
        flat = [smooth is not True for smooth in tables.smooth]
    return FilmEdges(tables, camera, film, flat)


def spread(xp: Any, n: int, to: Any, rows: Any) -> Any:
    """(n, 3) float64 sums of M rows of three at the vertices `to`, M of any shape, in the order of the rows."""
    total, to = xp.zeros((n, 3), np.float64), to.ravel()
    if not len(to):
        return total
    order = sort_order(to.astype(np.uint64), int(n).bit_length())
    at = to[order]
    first = xp.ones(len(at), bool)
    first[1:] = at[1:] != at[:-1]
    start = xp.flatnonzero(first).astype(np.int32)
    at = at[start].astype(np.int32)
    start = xp.append(start, np.int32(len(to)))
    sum_segments(len(at), start, order, at, xp.ascontiguousarray(rows), total)
    return total


def _first_hits(tables: SceneTables, origins: Any, directions: Any, stream: Any) -> FirstHits:
    """Of rays, on arrays of the scene's device and precision."""
    mesh, device, dtype, n = tables.mesh, tables.device, tables.dtype, len(origins)
    xp = tables.xp
    t, face, barycentric = empty(device, n, dtype), empty(device, n, np.int32), empty(device, (n, 2), dtype)
    normal = empty(device, (n, 3), dtype)
    block = block_of(n, device)
    invalid = empty(device, -(-n // block), np.int32)
    rays = SimpleNamespace(
        dtype=dtype, device=device, fields=(address(origins), address(directions), 0, 0, 0.0, np.inf)
    )
    cast_rays_fwd(
        len(invalid), block, n, mesh.bvh.struct(), MeshStruct(mesh), rays, 0, xp.asarray(mesh.face_normals), t, face,
        barycentric, normal, invalid,
    )  # fmt: skip
    # (A lens leaves some pixels without a ray, which then hits nothing.)
    if n and not tables.has_lens and int(invalid.max()) >= 0:
        raise ValueError(message("render", "camera", "rays that are finite and start within reach", "others"))
    source: Any = SimpleNamespace(mesh=mesh, library=mesh.library)
    index = xp.zeros(n, np.int32)
    hits = Hits(source, t, face, barycentric, normal)
    return FirstHits(directions, stream, index, hits, hit_rays(face, device))


def _repeated(xp: Any, first: FirstHits, repeat: int) -> FirstHits:
    """Each ray as often, as a sample of its own."""
    index = xp.tile(xp.arange(repeat, dtype=np.int32), len(first.stream))
    h, source = first.hits, SimpleNamespace(mesh=first.hits._mesh, library=first.hits._library)
    parts = (first.directions, first.stream, h.t, h.face, h.barycentric, h.normal)
    directions, stream, *hits = (xp.repeat(x, repeat, axis=0) for x in parts)
    at = (first.at[:, None] * np.int32(repeat) + xp.arange(repeat, dtype=np.int32)).ravel()
    return FirstHits(directions, stream, index, Hits(cast(Any, source), *hits), at)


def _shared_out(
    xp: Any, edge: Any, length: Any, t: Any, start: Any, end: Any, jump: Any, jump_at: Callable[[Any, Any], Any]
) -> Any:
    """(N, C) the mean jumps of pieces, of which (N, C) are in the middle: where two that follow one another differ, as
    where another edge passes behind, the place is looked for at which the one becomes the other.
    """
    differ, size = abs(jump[1:] - jump[:-1]).sum(axis=1), abs(jump[1:]).sum(axis=1) + abs(jump[:-1]).sum(axis=1)
    follows = (edge[1:] == edge[:-1]) & (start[1:] == end[:-1])
    # Of short edges the halves of pieces make up for one another.
    at = xp.flatnonzero(follows & (length[:-1] >= SPLIT) & (differ > UNLIKE * size))
    most = len(edge) // 4 + 16
    if len(at) > most:
        # So many are noise: the greatest count most.
        at = xp.sort(at[xp.argsort(-differ[at], kind="stable")[:most]])
    if not len(at):
        return jump
    one, other, low, high = jump[at], jump[at + 1], t[at], t[at + 1]
    for _ in range(LOOKS):
        step = (high - low) / (ALONG + 1)
        inner = low[:, None] + step[:, None] * xp.arange(1, ALONG + 1)
        here = jump_at(xp.repeat(at, ALONG), inner.ravel()).reshape(len(at), ALONG, -1)
        before = abs(here - one[:, None]).sum(axis=2) <= abs(here - other[:, None]).sum(axis=2)
        low = low + xp.cumprod(before, axis=1).sum(axis=1) * step
        high = low + step
    cut = 0.5 * (low + high)
    first = ((end[at] - cut) / (end - start)[at]).clip(0, 1)[:, None]
    second = ((cut - start[at + 1]) / (end - start)[at + 1]).clip(0, 1)[:, None]
    out = jump.copy()
    out[at] += (first * (other - one)).astype(jump.dtype)
    out[at + 1] += (second * (one - other)).astype(jump.dtype)
    return out


def crossings(xp: Any, begin: Any, end: Any) -> tuple[Any, Any]:
    """Where lines cross whole numbers: the line, and how far along it."""
    low, high = xp.floor(xp.minimum(begin, end)), xp.floor(xp.maximum(begin, end))
    count = (high - low).astype(np.int64)
    line = xp.repeat(xp.arange(len(begin)), count.tolist() if xp is not np else count)
    number = low[line] + 1 + (xp.arange(len(line)) - (xp.cumsum(count) - count)[line])
    step = (end - begin)[line]
    return line, (number - begin[line]) / xp.where(step == 0, 1, step)
