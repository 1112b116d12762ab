"""Edges of a mesh on the film: their pieces within single pixels, and what is seen of those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from geomkit.arrays import Library
from geomkit.render.camera import Camera
from geomkit.render.edge_table import EdgeTable
from geomkit.render.film import Film
from geomkit.render.optics import Optics
from geomkit.render.tables import SceneTables
from geomkit.runtime.device import empty
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.rays import MeshStruct

__all__ = ["BEFORE", "NEAR", "FilmEdges"]

SOURCE = "render/silhouette.cu"
_LINES = (
    "Camera camera, double least, int left, int top, int right, int bottom, const real* vertices, const int* ends"
)
_EYE = "double x, double y, double z, double before, int parallel"
count_edge_pieces = Kernel(SOURCE, "count_edge_pieces", f"{_LINES}, int* count", grain=64)
list_edge_pieces = Kernel(
    SOURCE, "list_edge_pieces", f"{_LINES}, const int* offset, double* spans, real* points", grain=32
)
hide_edge_pieces = Kernel(
    SOURCE,
    "hide_edge_pieces",
    f"int block, int count, Bvh bvh, Mesh mesh, {_EYE}, const double* spans, const real* points, int* hider",
    grain=1,
)
cut_edge_pieces = Kernel(
    SOURCE,
    "cut_edge_pieces",
    f"Bvh bvh, Mesh mesh, {_EYE}, int longest, double inset, const int* ends, const int* offset, const double* spans, "
    "const int* hider, double* cuts, int* count",
    grain=8,
)
list_edge_parts = Kernel(
    SOURCE,
    "list_edge_parts",
    "const int* offset, const double* spans, const int* hider, const double* cuts, const int* offset_of_parts, "
    "int* edge, double* parts",
    grain=128,
)

BLOCK = 256  # pieces that the CPU takes through the tree together
NEAR = 1e-4  # of the scene's size: edges are cut there in front of a pinhole
BEFORE = 1e-3  # of the way to the eye: what is nearer to an edge point does not hide it
LONG = 3  # pieces of an edge whose ends are looked at, too
INSET = 1e-3  # of a piece, from the end


class FilmEdges:
    """Edges that a film may show as lines: silhouettes, and creases where the image jumps between faces.

    Args:
        tables: the scene.
        camera: the camera, its fields plain.
        film: the part of the image that is wanted.
        flat: for each object whether the image jumps between its faces.

    Attributes:
        table: the edges of the mesh.
        optics, camera: the camera's numbers, and as kernels take them.
        number: (N,) int32, which edges of the table.
        ends: (N, 2) int32 vertices.
        outline: (N,) whether they are silhouettes; None where all are.
        count: (N,) int32 an upper bound of their pieces.
    """

    def __init__(self, tables: SceneTables, camera: Camera, film: Film, flat: Sequence[bool]):
        self.tables, mesh, xp = tables, tables.mesh, tables.xp
        library = Library("cupy" if tables.device == "cuda" else "numpy")
        fields = camera.world_to_camera, camera.K, camera.distortion
        self.optics = Optics("render", library, *fields, camera.model)
        self.camera = self.optics.struct(tables.dtype)
        self.table = EdgeTable.of(mesh)
        parallel = camera.model == "orthographic"
        forward = np.asarray(camera.world_to_camera)[2, :3]
        eye = -forward if parallel else camera.eye
        number, _ = self.table.silhouettes(mesh, eye[None], parallel=parallel)
        self.outline = None
        if any(flat):
            outline = xp.zeros(len(self.table.ends), bool)
            outline[number] = True
            number = xp.flatnonzero(outline | self.table.creases(xp.asarray(flat)[tables.object_of_face]))
            self.outline = outline[number]
        self.number, self.ends = number, self.table.ends[number]
        # Parallel rays come from beyond the scene.
        back = 2 * mesh.diagonal + float(abs(camera.eye - mesh.center).max()) if parallel else 1.0
        self._eye = (*(back * np.asarray(eye, np.float64)).tolist(), BEFORE, int(parallel))
        # A pixel more all around, so that a part of an image cuts pieces where the whole does.
        x0, y0, x1, y1 = film.bounds
        self._film = self.camera, NEAR * mesh.diagonal, x0 - 1, y0 - 1, x1 + 1, y1 + 1
        self.count = empty(tables.device, len(self.ends), np.int32)
        count_edge_pieces(len(self.ends), *self._film, mesh.vertices_array, self.ends, self.count)

    def blocks(self, most: int) -> Iterator[FilmEdges]:
        """The edges in their order, some at a time: with at most so many pieces, if one edge has no more."""
        xp = self.tables.xp
        stops = xp.cumsum(self.count, dtype=np.int64)
        total, first = int(stops[-1]) if len(stops) else 0, 0
        if total <= most:
            yield self
            return
        while first < len(stops):
            before = int(stops[first - 1]) if first else 0
            last = max(first + 1, int(xp.searchsorted(stops, before + most, side="right")))
            yield self._part(slice(first, last))
            first = last

    def _part(self, part: slice) -> FilmEdges:
        some = object.__new__(FilmEdges)
        some.__dict__.update(self.__dict__)
        some.number, some.ends, some.count = self.number[part], self.ends[part], self.count[part]
        some.outline = None if self.outline is None else self.outline[part]
        return some

    def seen_parts(self) -> tuple[Any, Any]:
        """What is seen of the edges: cut at the borders of pixels, and where they go behind something.

        Exact but for distortion, which bends the edges: there the pieces are those of the straight line.

        Returns:
            (M,) int32 whose parts, and (M, 3) where they begin, their middles and where they end, as weights of
            the edges' second ends; one edge after the other, and along each.
        """
        mesh, device = self.tables.mesh, self.tables.device
        n, offset = len(self.ends), self._offset(self.count)
        pieces = int(offset[-1])
        spans, points = empty(device, (pieces, 3), np.float64), empty(device, (pieces, 3), mesh.dtype)
        list_edge_pieces(n, *self._film, mesh.vertices_array, self.ends, offset, spans, points)
        tree = mesh.bvh.struct(), MeshStruct(mesh), *self._eye
        hider, cuts = empty(device, pieces, np.int32), empty(device, (pieces, 2), np.float64)
        # Whatever the number of threads: which face hides a point may depend on its company.
        block = BLOCK if device == "cpu" else 1
        hide_edge_pieces(-(-pieces // block), block, pieces, *tree, spans, points, hider)
        count = empty(device, n, np.int32)
        cut_edge_pieces(n, *tree, LONG, INSET, self.ends, offset, spans, hider, cuts, count)
        offset_of_parts = self._offset(count)
        parts = int(offset_of_parts[-1])
        edge, seen = empty(device, parts, np.int32), empty(device, (parts, 3), np.float64)
        list_edge_parts(n, offset, spans, hider, cuts, offset_of_parts, edge, seen)
        return edge, seen

    def _offset(self, count: Any) -> Any:
        offset = self.tables.xp.zeros(len(count) + 1, np.int32)
        self.tables.xp.cumsum(count, dtype=np.int32, out=offset[1:])
        return offset
