"""The edges of a mesh, and which of them may be silhouettes."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.mesh.edge_faces import edges_with_faces
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel

__all__ = ["EdgeTable"]

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
