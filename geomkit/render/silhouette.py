"""What moving edges do to an image: the gradient of visibility, as an integral along the edges that are seen.

The image at a point of the film jumps where an edge is. If the edge moves, the pixels it passes change by the jump
times the area swept. The integral runs along the edges; the jump is measured by a ray on either side, so that nothing
has to be known about what is seen there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.mesh.edge_faces import edges_with_faces
from geomkit.mesh.mesh import Mesh
from geomkit.render.camera import Camera
from geomkit.render.film import Film, whole_film
from geomkit.render.pixel_rays import pixel_rays
from geomkit.render.project_points import project_points
from geomkit.render.tables import SceneTables, add
from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.hits import occluded

__all__ = ["EdgeSamples", "EdgeTable", "crossings", "spread"]

SOURCE = "render/edges.cu"
_BITS = "int block, int edges, int blocks, int words, const uint64* edge_bits"
facing_bits = Kernel(
    SOURCE,
    "facing_bits",
    "int words, int count, const real* places, int parallel, const real* vertices, const int* faces, "
    "const real* normals, uint64* bits",
)
silhouette_bits = Kernel(
    SOURCE,
    "silhouette_bits",
    "int words, const int* edge_faces, const int* opposed, const uint64* bits, uint64* edge_bits",
    grain=8192,
)
count_silhouettes = Kernel(SOURCE, "count_silhouettes", f"{_BITS}, int* count", grain=16)
list_silhouettes = Kernel(SOURCE, "list_silhouettes", f"{_BITS}, const int* offset, int* edge, int* place", grain=16)

BLOCK = 1024  # edges of an item

ASIDE = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-5}  # pixels from the edge to the rays beside it
NEAR = 1e-4  # of the scene's size: edges are cut there in front of a pinhole
BEFORE = 1e-3  # of the way to the eye: what is nearer to an edge point does not hide it
BISECTIONS = 14  # of a pixel, to find where an edge goes behind another
UNLIKE = 0.25  # of two jumps' sizes, by which they differ if something else is behind one of them
SPLIT = 8  # pixels of an edge that is looked along
LOOKS = 6  # to find where that begins
LONG = 3  # pieces of an edge whose ends are looked at, too
INSET = 1e-3  # of a piece, from the end
FLAT = 1e-6  # edges between faces whose normals differ by less do not show


class EdgeTable:
    """The edges of a mesh, by position: a seam of textures or normals is no edge.

    Attributes:
        ends: (E, 2) int32, vertices.
        faces: (E, 2) int32, the two faces; -1 where there is one or more than two.
        opposed: (E,) int32, whether the two faces pass the edge in opposite directions, as consistent faces do.
        normals: (F, 3).
    """

    def __init__(self, mesh: Mesh):
        xp = namespace(mesh.device)
        ends, faces, opposed = edges_with_faces(mesh.topology)
        self.normals = xp.asarray(mesh.face_normals)
        self.ends, self.faces, self.opposed = xp.asarray(ends), xp.asarray(faces), xp.asarray(opposed.astype(np.int32))

    @classmethod
    def of(cls, mesh: Mesh) -> EdgeTable:
        """The table of a mesh, made once."""
        return mesh.derived("edge_table", cls)

    def silhouettes(self, mesh: Mesh, places: Any, *, parallel: bool = False) -> tuple[Any, Any]:
        """Edges that may be silhouettes: their faces look to different sides, or are not two.

        Args:
            mesh: that of the table, which does not hold it: the mesh holds the table.
            places: (J, 3) where they are seen from; if parallel, the directions to there.

        Returns:
            int32 numbers of edges, and of the places they are seen from: by place, then by edge.
        """
        device, xp = mesh.device, namespace(mesh.device)
        places = xp.ascontiguousarray(xp.asarray(places, dtype=mesh.dtype))
        count, n, faces = len(places), len(self.ends), len(self.normals)
        words = -(-count // 64)
        bits = empty(device, (faces, words), np.uint64)
        edge_bits = empty(device, (n, words), np.uint64)
        at = mesh.vertices_array, mesh.faces_array
        facing_bits(faces, words, count, places, int(parallel), *at, self.normals, bits)
        silhouette_bits(n, words, self.faces, self.opposed, bits, edge_bits)
        blocks = -(-n // BLOCK)
        found = empty(device, count * blocks, np.int32)
        count_silhouettes(count * blocks, BLOCK, n, blocks, words, edge_bits, found)
        stops = xp.cumsum(found)
        total = int(stops[-1]) if len(stops) else 0
        edge, place = (empty(device, total, np.int32) for _ in range(2))
        offset = (stops - found).astype(np.int32)
        list_silhouettes(count * blocks, BLOCK, n, blocks, words, edge_bits, offset, edge, place)
        return edge, place

    def creases(self, flat_faces: Any) -> Any:
        """(E,) whether the shading jumps across an edge, because it is shaded by the faces' normals."""
        normals = self.normals
        a, b = self.faces[:, 0], self.faces[:, 1]
        jump = abs(normals[a] - normals[b]).max(axis=1) > FLAT
        return jump & (b >= 0) & (flat_faces[a] | flat_faces[b])


class EdgeSamples:
    """Points on the edges that are seen, and the jump of the image there.

    Args:
        tables: the scene.
        camera: the camera, its fields plain.
        radiance: from origins, directions, stream and index of N rays to (N, C) of what they see, and (N,) the faces.
        repeat: number of rays on either side of each of them.
        seed: of their random numbers.
        flat: for each object whether the image jumps between its faces, as it shows their normals; None for those that
            are not smooth.
        film: the part of the image that is wanted, and its filter; or None for all of it and a box.

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
        radiance: Callable[[Any, Any, Any, Any], tuple[Any, Any]],
        *,
        repeat: int,
        seed: int,
        flat: Sequence[bool] | None = None,
        film: Film | None = None,
    ):
        self.tables, self.camera = tables, camera
        self.film = whole_film(camera) if film is None else film
        self.arguments = camera.world_to_camera, camera.K, camera.distortion
        mesh, xp = tables.mesh, tables.xp
        table = EdgeTable.of(mesh)
        orthographic = camera.model == "orthographic"
        forward = np.asarray(camera.world_to_camera)[2, :3]
        eye = -forward if orthographic else camera.eye
        chosen, _ = table.silhouettes(mesh, eye[None], parallel=orthographic)
        outline = None
        if flat is None:
            flat = [smooth is not True for smooth in tables.smooth]
        if any(flat):
            outline = xp.zeros(len(table.ends), bool)
            outline[chosen] = True
            chosen = xp.flatnonzero(outline | table.creases(xp.asarray(flat)[tables.object_of_face]))
        ends = table.ends[chosen]
        a, b = (mesh.vertices_array[ends[:, k]] for k in range(2))
        # A pixel more all around, so that a part of an image cuts pieces where the whole does.
        x0, y0, x1, y1 = self.film.bounds
        bounds = x0 - 1, y0 - 1, x1 + 1, y1 + 1
        which, t, left, right = _points_along(tables, camera, a, b, *_in_front(tables, camera, a, b), bounds)
        x = (a[which] + t[:, None] * (b - a)[which]).astype(tables.dtype)
        pixel = self._project(x)
        least, most = xp.asarray(bounds[:2]), xp.asarray(bounds[2:])
        keep = xp.flatnonzero(((pixel >= least) & (pixel < most)).all(axis=1))
        which, t, left, right, x = (y[keep] for y in (which, t, left, right, x))
        hidden = _hidden(tables, camera, x, eye)

        def hides(edge: Any, t: Any) -> Any:
            x = (a[edge] + t[:, None] * (b - a)[edge]).astype(tables.dtype)
            return _hidden(tables, camera, x, eye)

        which, self.t, start, end = _seen_parts(xp, which, t, left, right, hidden, hides)
        self.share = end - start
        chosen, self.ends, step = chosen[which], ends[which], (b - a)[which]
        self.x = (a[which] + self.t[:, None] * step).astype(tables.dtype)
        self.pixel = self._project(self.x)
        along = self._derivative(step)
        self.across = xp.stack([along[:, 1], -along[:, 0]], axis=1)
        self.column, self.line = (xp.floor(self.pixel[:, k]).astype(np.int64) for k in range(2))
        length = xp.linalg.norm(self.across, axis=1, keepdims=True)
        aside = tables.dtype.type(ASIDE[tables.dtype]) * self.across / xp.where(length > 0, length, 1)

        def measured(pixel: Any, at: Any) -> tuple[Any, Any]:
            column, line = (xp.floor(pixel[:, k]).astype(np.int64) for k in range(2))
            stream = streams(xp, line * camera.width + column, seed)
            pixels = xp.concatenate([pixel - aside[at], pixel + aside[at]]).astype(tables.dtype)
            rays = pixel_rays.forward(pixels, *self.arguments, model=camera.model)
            value, face = _mean(xp, radiance, rays, xp.concatenate([stream, stream]), repeat)
            return value[: len(pixel)] - value[len(pixel) :], face

        def jump_at(at: Any, t: Any) -> Any:
            x = a[which[at]] + t[:, None] * step[at]
            return measured(self._project(x.astype(tables.dtype)), at)[0]

        self.jump, face = measured(self.pixel, slice(None))
        n = len(self.t)
        self.jump = _shared_out(xp, which, length[:, 0], self.t, start, end, self.jump, jump_at)
        if outline is not None:
            # Across a crease both faces are seen; else what jumps there is another edge, which has points of its own.
            beside = (face.reshape(2, n, 1) == table.faces[chosen]).any(axis=2)
            own = beside[0] & beside[1]
            self.jump = xp.where((outline[chosen] | own)[:, None], self.jump, 0)
        inside = xp.flatnonzero(self.film.reaches(self.pixel))
        for name in ("ends", "t", "share", "x", "pixel", "across", "column", "line", "jump"):
            setattr(self, name, getattr(self, name)[inside])

    def _project(self, x: Any) -> Any:
        return project_points.forward(x, *self.arguments, model=self.camera.model).pixel

    def _derivative(self, step: Any) -> Any:
        """(N, 2) how the pixels of the points move by (N, 3) steps: a row of the projection's derivative at a time."""
        xp, rows = self.tables.xp, []
        for unit in ((1, 0), (0, 1)):
            adj = xp.broadcast_to(xp.asarray(unit, dtype=self.tables.dtype), self.pixel.shape).copy()
            rows.append(project_points.adjoint(self.x, *self.arguments, model=self.camera.model, adj_pixel=adj).points)
        return xp.stack([(row * step).sum(axis=1) for row in rows], axis=1)

    def adjoint(self, adj_image: Any, out: dict[str, Any]) -> None:
        """Add gradients for the cotangent (H, W, C) of the film's image to those of "vertices" and of the camera."""
        xp = self.tables.xp
        weight = (self.film.at(xp, adj_image, self.pixel) * self.jump).sum(axis=1) * self.share
        adj_pixel = (weight[:, None] * self.across).astype(self.tables.dtype)
        g = project_points.adjoint(self.x, *self.arguments, model=self.camera.model, adj_pixel=adj_pixel)
        add(out, "vertices", spread(xp, self.tables.mesh.n_vertices, self.ends, (1 - self.t, self.t), g.points))
        for name in ("world_to_camera", "K", "distortion"):
            if getattr(g, name) is not None:
                add(out, f"camera.{name}", to_host(getattr(g, name)).astype(np.float64))

    def tangent(self, d_vertices: Any) -> Any:
        """(H, W, C) the change of the whole image, of a box filter, when the vertices (V, 3) change."""
        xp, t = self.tables.xp, self.t[:, None]
        step = (1 - t) * d_vertices[self.ends[:, 0]] + t * d_vertices[self.ends[:, 1]]
        swept = (self._derivative(step) * self.across).sum(axis=1) * self.share
        h, w, c = self.camera.height, self.camera.width, self.jump.shape[1]
        place = self.line * w + self.column
        image = [
            xp.bincount(place, weights=(swept * self.jump[:, k]).astype(np.float64), minlength=h * w) for k in range(c)
        ]
        return xp.stack(image, axis=1).reshape(h, w, c)


def spread(xp: Any, n: int, ends: Any, weights: Any, rows: Any) -> Any:
    """(n, 3) float64 sums of weighted rows at the vertices of edges, in the order of the rows."""
    total = xp.zeros((n, 3), np.float64)
    for k, weight in enumerate(weights):
        for axis in range(3):
            total[:, axis] += xp.bincount(ends[:, k], weights=(weight * rows[:, axis]).astype(np.float64), minlength=n)
    return total


def _mean(xp: Any, radiance: Callable, rays: Any, stream: Any, repeat: int) -> tuple[Any, Any]:
    """What rays see on average, and the faces they hit."""
    n = len(stream)
    origins, directions = (xp.repeat(x, repeat, axis=0) for x in rays)
    index = xp.tile(xp.arange(repeat, dtype=np.int32), n)
    value, face = radiance(origins, directions, xp.repeat(stream, repeat), index)
    return value.reshape(n, repeat, value.shape[1]).mean(axis=1), face[::repeat]


def streams(xp: Any, pixel: Any, seed: int) -> Any:
    return (pixel.astype(np.uint32) ^ np.uint32((seed * 0x9E3779B9 + 0x85EBCA6B) & 0xFFFFFFFF)).astype(np.uint32)


def _in_front(tables: SceneTables, camera: Camera, a: Any, b: Any) -> tuple[Any, Any]:
    """The part of each edge, as two weights of b, that is in front of the camera; all of it for parallel rays."""
    xp = tables.xp
    t0, t1 = xp.zeros(len(a)), xp.ones(len(a))
    if camera.model == "orthographic":
        return t0, t1
    pose = np.asarray(camera.world_to_camera, np.float64)
    least = NEAR * tables.mesh.diagonal
    za, zb = (p.astype(np.float64) @ xp.asarray(pose[2, :3]) + pose[2, 3] - least for p in (a, b))
    cut = za / xp.where(za == zb, 1, za - zb)
    t0 = xp.where(za < 0, xp.where(zb > 0, cut, 1), 0)
    t1 = xp.where(zb < 0, xp.where(za > 0, cut, 0), 1)
    return t0, xp.maximum(t0, t1)


def _points_along(
    tables: SceneTables, camera: Camera, a: Any, b: Any, t0: Any, t1: Any, bounds: tuple[int, int, int, int]
) -> tuple[Any, Any, Any, Any]:
    """The pieces of edges within single pixels: of each its edge, and the weights of b in its middle and at its ends.

    Exact but for distortion, which bends the edges: there the pieces are those of the straight line.
    """
    xp = tables.xp
    arguments = camera.world_to_camera, camera.K, camera.distortion

    def seen(t: Any) -> Any:
        x = (a + t[:, None] * (b - a)).astype(tables.dtype)
        seen = project_points.forward(x, *arguments, model=camera.model)
        return xp.nan_to_num(seen.pixel.astype(np.float64)), seen.depth.astype(np.float64)

    (first, near), (last, far) = seen(t0), seen(t1)
    # Only what the film has samples of: the part of the line inside its rectangle.
    low, high = xp.zeros(len(a)), xp.where(t1 > t0, 1.0, 0.0)
    for axis in range(2):
        least, most = bounds[axis], bounds[axis + 2]
        start, step = first[:, axis], last[:, axis] - first[:, axis]
        flat = abs(step) < 1e-12
        one, other = ((least - start) / xp.where(flat, 1, step), (most - start) / xp.where(flat, 1, step))
        outside = flat & ((start < least) | (start > most))
        low = xp.where(flat, low, xp.maximum(low, xp.minimum(one, other)))
        high = xp.where(outside, 0, xp.where(flat, high, xp.minimum(high, xp.maximum(one, other))))
    some = xp.flatnonzero(high > low)
    first, last, near, far, low, high = (x[some] for x in (first, last, near, far, low, high))
    begin, end = (first + w[:, None] * (last - first) for w in (low, high))
    cuts = [crossings(xp, begin[:, axis], end[:, axis]) for axis in (0, 1)]
    # Each piece ends at the next crossing, or where the edge does.
    edge = xp.concatenate([cuts[0][0], cuts[1][0], xp.arange(len(some)), xp.arange(len(some))])
    at = xp.concatenate([cuts[0][1], cuts[1][1], xp.zeros(len(some)), xp.ones(len(some))])
    order = xp.lexsort(xp.stack([at, edge]))
    edge, at = edge[order], at[order]
    piece = xp.flatnonzero((edge[1:] == edge[:-1]) & (at[1:] > at[:-1]))
    which = edge[piece]

    def weight(s: Any) -> Any:
        """From the line on the film to the edge: perspective shortens what is far."""
        s = low[which] + s * (high - low)[which]
        if camera.model == "orthographic":
            inner = s
        else:
            inner = s * near[which] / (far[which] + s * (near[which] - far[which]))
        return t0[some][which] + inner * (t1 - t0)[some][which]

    left, right = weight(at[piece]), weight(at[piece + 1])
    return some[which], weight(0.5 * (at[piece] + at[piece + 1])), left, right


def _seen_parts(
    xp: Any, edge: Any, t: Any, left: Any, right: Any, hidden: Any, hides: Callable[[Any, Any], Any]
) -> tuple[Any, Any, Any, Any]:
    """What is seen of pieces of edges: cut where one that follows on another is hidden and the other is not.

    Args:
        edge: (N,) of the pieces, one edge after the other and along it.
        t, left, right: (N,) the place in the middle, and the ends.
        hidden: (N,) whether it is, in the middle.
        hides: from edges and places on them to whether something is before them.

    Returns:
        edges and places of the parts, and where they begin and end.
    """
    follows = (edge[1:] == edge[:-1]) & (left[1:] == right[:-1])
    at = xp.flatnonzero(follows & (hidden[1:] != hidden[:-1]))
    # The first and the last halves of long edges, which no middle is beyond.
    starts, stops = xp.ones(len(edge), bool), xp.ones(len(edge), bool)
    starts[1:], stops[:-1] = ~follows, ~follows
    first, last = xp.flatnonzero(starts), xp.flatnonzero(stops)
    long = last - first >= LONG - 1
    first, last = first[long], last[long]
    inset = INSET * (right - left)
    first = first[hides(edge[first], (left + inset)[first]) != hidden[first]]
    last = last[hides(edge[last], (right - inset)[last]) != hidden[last]]
    low = xp.concatenate([t[at], (left + inset)[first], t[last]])
    high = xp.concatenate([t[at + 1], t[first], (right - inset)[last]])
    of, state = edge[xp.concatenate([at, first, last])], xp.concatenate([hidden[at], ~hidden[first], hidden[last]])
    # Quarters at a time: half as many calls.
    for _ in range(BISECTIONS // 2 if len(of) else 0):
        step = 0.25 * (high - low)
        inner = low[:, None] + step[:, None] * xp.arange(1, 4)
        before = hides(xp.repeat(of, 3), inner.ravel()).reshape(-1, 3) == state[:, None]
        passed = xp.cumprod(before, axis=1).sum(axis=1)
        low, high = low + passed * step, low + (passed + 1) * step
    cut = 0.5 * (low + high)
    owner = xp.concatenate([at + (cut[: len(at)] >= right[at]), first, last])
    # A part that does not have the middle of its piece is on the other side of a cut.
    piece = xp.concatenate([xp.arange(len(edge)), owner])
    start = xp.concatenate([left, cut])
    order = xp.lexsort(xp.stack([start, piece]))
    piece, start = piece[order], start[order]
    last = xp.ones(len(piece), bool)
    last[:-1] = piece[1:] != piece[:-1]
    end = right[piece]
    end[:-1] = xp.where(last[:-1], end[:-1], start[1:])
    has_middle = (start <= t[piece]) & (t[piece] < end)
    whole = (start == left[piece]) & (end == right[piece])
    seen = xp.flatnonzero((hidden[piece] != (has_middle | whole)) & (end > start))
    piece, start, end, whole = piece[seen], start[seen], end[seen], whole[seen]
    return edge[piece], xp.where(whole, t[piece], 0.5 * (start + end)), start, end


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
        middle = 0.5 * (low + high)
        here = jump_at(at, middle)
        before = abs(here - one).sum(axis=1) <= abs(here - other).sum(axis=1)
        low, high = xp.where(before, middle, low), xp.where(before, high, middle)
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


def _hidden(tables: SceneTables, camera: Camera, x: Any, eye: np.ndarray) -> Any:
    """Whether something is well before a point, seen from the eye, or if the rays are parallel from its direction."""
    xp = tables.xp
    if camera.model == "orthographic":
        size = 2 * tables.mesh.diagonal + float(abs(camera.eye - tables.mesh.center).max())
        back = xp.broadcast_to(xp.asarray(size * eye, dtype=tables.dtype), x.shape).copy()
    else:
        back = xp.asarray(eye, dtype=tables.dtype) - x
    return occluded.forward(tables.mesh, x, back, t_min=BEFORE, t_max=1.0)
