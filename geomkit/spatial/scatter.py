"""Gradients of many queries summed into the vertices of the mesh, in one order whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.mesh.corners import sum_at_vertices
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, sort_order, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["FaceOrder", "corners_to_vertices"]

sum_pieces = Kernel(
    "spatial/scatter.cu", "sum_pieces", "const int* start, const int* order, const real* adj_corners, double* sums"
)
sum_wide_pieces = Kernel(
    "spatial/scatter.cu",
    "sum_wide_pieces",
    "const int* start, const int* order, int width, int first, const double* rows, double* sums",
)
sum_faces = Kernel("spatial/scatter.cu", "sum_faces", "const int* piece_face, const double* sums, double* adj_faces")

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

    def add_corners(self, adj_corners: Any, adj_faces: Any) -> None:
        """Add gradients of corners (N, 3, 3) to those of faces, (F, 9) float64, in the order of the queries."""
        pieces = len(self.face)
        sums = empty(self.device, (pieces, 9), np.float64)
        sum_pieces(pieces, self.start, self.order, adj_corners, sums)
        sum_faces(pieces, self.face, sums, adj_faces)

    def add_rows(self, rows: Any, first: int, adj_faces: Any) -> None:
        """Add nine of the numbers in rows (N, C) of float64, from `first` on, to those of faces (F, 9)."""
        pieces = len(self.face)
        sums = empty(self.device, (pieces, 9), np.float64)
        sum_wide_pieces(pieces, self.start, self.order, rows.shape[1], first, rows, sums)
        sum_faces(pieces, self.face, sums, adj_faces)


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
    order = FaceOrder(mesh, face)
    if not len(order.face):
        return zeros(mesh.device, (mesh.n_vertices, 3), mesh.dtype)
    adj_faces = zeros(mesh.device, (mesh.n_faces, 9), np.float64)
    order.add_corners(adj_corners, adj_faces)
    return sum_at_vertices(mesh, adj_faces)
