"""Gradients of many queries summed into the vertices of the mesh, in one order whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.mesh.corners import sum_at_vertices
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, sort_order, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["corners_to_vertices"]

sum_pieces = Kernel(
    "spatial/scatter.cu", "sum_pieces", "const int* start, const int* order, const real* adj_corners, double* sums"
)
sum_faces = Kernel("spatial/scatter.cu", "sum_faces", "const int* piece_face, const double* sums, double* adj_faces")

PIECE = 256  # contributions that one item sums


def corners_to_vertices(mesh: Mesh, face: Any, adj_corners: Any) -> Any:
    """Sum gradients of face corners at each vertex. The sums are in float64 and in the order of the queries.

    Args:
        mesh: the mesh.
        face: (N,) int32, the face that each query's gradients belong to; those of -1 belong to none.
        adj_corners: (N, 3, 3) of the mesh's dtype: query, corner, axis.

    Returns:
        (V, 3) of the mesh's dtype.
    """
    xp, device = namespace(mesh.device), mesh.device
    if len(face) == 0 or mesh.n_faces == 0:
        return zeros(device, (mesh.n_vertices, 3), mesh.dtype)
    # -1 becomes F and goes last.
    order = sort_order(xp.where(face < 0, mesh.n_faces, face).astype(np.uint64), mesh.n_faces.bit_length())
    sorted_face = face[order]
    n = int((face >= 0).sum())
    order, sorted_face = order[:n], sorted_face[:n]
    if n == 0:
        return zeros(device, (mesh.n_vertices, 3), mesh.dtype)
    begins = xp.empty(n, bool)
    begins[0] = True
    begins[1:] = sorted_face[1:] != sorted_face[:-1]
    begins[::PIECE] = True
    start = xp.flatnonzero(begins).astype(np.int32)
    pieces = len(start)
    sums = empty(device, (pieces, 9), np.float64)
    sum_pieces(pieces, xp.append(start, np.int32(n)), order, adj_corners, sums)
    adj_faces = zeros(device, (mesh.n_faces, 9), np.float64)
    sum_faces(pieces, sorted_face[start], sums, adj_faces)
    return sum_at_vertices(mesh, adj_faces)
