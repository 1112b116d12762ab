"""Gradients of many queries summed into the vertices of the mesh, in one order whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.mesh.corners import sum_at_vertices, vertex_corners
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, sort_order, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["FaceOrder", "FaceSums", "corners_to_vertices"]

sum_pieces = Kernel(
    "spatial/scatter.cu", "sum_pieces", "const int* start, const int* order, const real* adj_corners, double* sums"
)
sum_wide_pieces = Kernel(
    "spatial/scatter.cu",
    "sum_wide_pieces",
    "const int* start, const int* order, int width, int first, const double* rows, double* sums",
)
sum_faces = Kernel("spatial/scatter.cu", "sum_faces", "const int* piece_face, const double* sums, double* adj_faces")
first_pieces = Kernel("spatial/scatter.cu", "first_pieces", "const int* piece_face, int* piece_of")
sum_pieces_at_vertices = Kernel(
    "spatial/scatter.cu",
    "sum_pieces_at_vertices",
    "const int* offset, const int* corners, const int* piece_of, int pieces, const int* piece_face, "
    "const double* sums, real* adj_vertices",
)

PIECE = 256  # contributions that one item sums


class FaceOrder:
    """Queries in the order of their faces: found once for all that is summed over them.

    Args:
        mesh: the mesh.
        face: (N,) int32, the face that each query's gradients belong to; those of -1 belong to none.
    """

    def __init__(self, mesh: Mesh, face: Any):
        xp = namespace(mesh.device)
        # -1 becomes F and goes last.
        keys = xp.where(face < 0, mesh.n_faces, face).astype(np.uint64)
        self.order = sort_order(keys, mesh.n_faces.bit_length())
        sorted_face = face[self.order]
        n = int((face >= 0).sum())
        self.order, sorted_face = self.order[:n], sorted_face[:n]
        self.device = mesh.device
        if n == 0:
            self.start, self.face = xp.zeros(1, np.int32), sorted_face
            return
        begins = xp.empty(n, bool)
        begins[0] = True
        begins[1:] = sorted_face[1:] != sorted_face[:-1]
        begins[::PIECE] = True
        start = xp.flatnonzero(begins).astype(np.int32)
        self.start, self.face = xp.append(start, np.int32(n)), sorted_face[start]

    def corner_sums(self, adj_corners: Any) -> Any:
        """(P, 9) float64 sums of gradients of corners (N, 3, 3), piece by piece, in the order of the queries."""
        sums = empty(self.device, (len(self.face), 9), np.float64)
        sum_pieces(len(self.face), self.start, self.order, adj_corners, sums)
        return sums

    def row_sums(self, rows: Any, first: int) -> Any:
        """The same of nine of the numbers in rows (N, C) of float64, from `first` on."""
        sums = empty(self.device, (len(self.face), 9), np.float64)
        sum_wide_pieces(len(self.face), self.start, self.order, rows.shape[1], first, rows, sums)
        return sums


class FaceSums:
    """Gradients of the corners of faces that add up. As long as they have come once only, those of few faces are few.

    Args:
        mesh: the mesh.
    """

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self._pieces: tuple[Any, Any] | None = None
        self._faces: Any = None  # (F, 9)

    def add(self, order: FaceOrder, sums: Any) -> None:
        """Add the sums (P, 9) of the pieces of an order."""
        if self._pieces is None and self._faces is None:
            self._pieces = order.face, sums
            return
        if self._faces is None:
            assert self._pieces is not None
            self._faces = zeros(self.mesh.device, (self.mesh.n_faces, 9), np.float64)
            sum_faces(len(self._pieces[0]), *self._pieces, self._faces)
            self._pieces = None
        sum_faces(len(order.face), order.face, sums, self._faces)

    def at_vertices(self) -> Any:
        """(V, 3) of the mesh's dtype, their sums at the vertices."""
        mesh = self.mesh
        if self._faces is not None:
            return sum_at_vertices(mesh, self._faces)
        if self._pieces is None or not len(self._pieces[0]):
            return zeros(mesh.device, (mesh.n_vertices, 3), mesh.dtype)
        face, sums = self._pieces
        piece_of = namespace(mesh.device).full(mesh.n_faces, -1, np.int32)
        first_pieces(len(face), face, piece_of)
        adj_vertices = empty(mesh.device, (mesh.n_vertices, 3), mesh.dtype)
        sum_pieces_at_vertices(
            mesh.n_vertices, *vertex_corners(mesh), piece_of, len(face), face, sums, adj_vertices
        )
        return adj_vertices


def corners_to_vertices(mesh: Mesh, face: Any, adj_corners: Any) -> Any:
    """Sum gradients of face corners at each vertex. The sums are in float64 and in the order of the queries.

    Args:
        mesh: the mesh.
        face: (N,) int32, the face that each query's gradients belong to; those of -1 belong to none.
        adj_corners: (N, 3, 3) of the mesh's dtype: query, corner, axis.

    Returns:
        (V, 3) of the mesh's dtype.
    """
    if len(face) == 0 or mesh.n_faces == 0:
        return zeros(mesh.device, (mesh.n_vertices, 3), mesh.dtype)
    order, total = FaceOrder(mesh, face), FaceSums(mesh)
    total.add(order, order.corner_sums(adj_corners))
    return total.at_vertices()
