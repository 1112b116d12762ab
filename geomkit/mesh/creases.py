"""Meshes cut along their creases, so that normals of vertices round what is smooth and leave edges sharp."""

from __future__ import annotations

import math

import numpy as np

from geomkit.arrays import to_host
from geomkit.mesh.mesh import Mesh

__all__ = ["cut_at_creases"]


def cut_at_creases(mesh: Mesh, angle: float) -> tuple[Mesh, np.ndarray]:
    """A mesh of the same triangles whose vertices are one where the surface is smooth, and several at a crease.

    Vertices at one position count as one, as those of an STL are. The corners of the faces about a vertex share one
    if they are connected through edges that bend by less than the angle.

    Args:
        mesh: on the CPU.
        angle: between the normals of two faces, in degrees, from which on their edge is a crease. Of three or more
            faces at an edge every two are taken.

    Returns:
        The mesh, and (V',) the vertex of the given mesh that each of its vertices was.

    Cost: O(F log F).
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    faces, points = to_host(mesh.faces_array), to_host(mesh.topology.welded_faces)
    normals = to_host(mesh.face_normals).astype(np.float64)
    corner = np.arange(faces.size).reshape(-1, 3)
    # Each side of a face, from its lower point to its higher, with the corners at these.
    start, end = corner.ravel(), np.roll(corner, -1, axis=1).ravel()
    swapped = points.ravel()[start] > points.ravel()[end]
    low, high = np.where(swapped, end, start), np.where(swapped, start, end)
    key = points.ravel()[low].astype(np.int64) * (int(points.max(initial=0)) + 1) + points.ravel()[high]
    order = np.argsort(key, kind="stable")
    key, low, high = key[order], low[order], high[order]
    a, b = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for step in range(1, 1 + int(np.bincount(np.unique(key, return_inverse=True)[1]).max(initial=1))):
        # Sides of one edge follow each other; pairs of all distances are met one after another.
        here = np.flatnonzero(key[step:] == key[:-step])
        n, m = normals[low[here] // 3], normals[low[here + step] // 3]
        here = here[(n * m).sum(axis=1) > math.cos(math.radians(angle))]
        a = np.concatenate([a, low[here], high[here]])
        b = np.concatenate([b, low[here + step], high[here + step]])
    graph = coo_array((np.ones(len(a), np.int8), (a, b)), shape=(faces.size, faces.size))
    _, group = connected_components(graph, directed=False)
    _, first, index = np.unique(group, return_index=True, return_inverse=True)
    source = faces.ravel()[first]
    cut = Mesh(to_host(mesh.vertices_array)[source], index.reshape(-1, 3).astype(np.int32))
    return cut, source
