"""What is right, in float64 and without a tree: the values that timed results are checked against."""

from __future__ import annotations

import numpy as np

__all__ = ["closest_distance", "winding_number"]


def closest_distance(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N,) float64 distance of each point to the nearest of all triangles.

    Triangles whose bounding sphere is farther than the nearest centroid cannot be the nearest and are passed over.

    Args:
        vertices: (V, 3) numbers.
        faces: (F, 3) ints, F > 0.
        points: (N, 3) numbers.
    """
    corners = vertices.astype(np.float64)[faces]
    centroid = corners.mean(axis=1)
    radius = np.linalg.norm(corners - centroid[:, None], axis=2).max(axis=1)
    x, y, z = np.ascontiguousarray(centroid.T)
    distance = np.empty(len(points))
    for i, p in enumerate(points.astype(np.float64)):
        to_centroid = np.sqrt((x - p[0]) ** 2 + (y - p[1]) ** 2 + (z - p[2]) ** 2)
        # The factor covers the rounding of both sides.
        candidate = to_centroid - radius <= to_centroid.min() * (1 + 1e-12)
        distance[i] = _to_triangles(p, corners[candidate]).min()
    return distance


def winding_number(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N,) float64 winding number at each point: the sum of the solid angles of all triangles over 4 pi.

    Args:
        vertices: (V, 3) numbers.
        faces: (F, 3) ints.
        points: (N, 3) numbers.

    Source: Van Oosterom and Strackee (1983).
    """
    corners = np.ascontiguousarray(vertices.astype(np.float64)[faces].transpose(1, 2, 0))
    winding = np.empty(len(points))
    for i, p in enumerate(points.astype(np.float64)):
        a, b, c = corners - p[:, None]
        la, lb, lc = (np.sqrt(_dot(v, v)) for v in (a, b, c))
        volume = (
            a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])
        )
        along = la * lb * lc + _dot(a, b) * lc + _dot(b, c) * la + _dot(c, a) * lb
        winding[i] = np.arctan2(volume, along).sum() / (2 * np.pi)
    return winding


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _to_triangles(p: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(M,) distances from one point to (M, 3, 3) triangles: to the plane if p is over the face, else to the edges."""
    start, along = corners, np.roll(corners, -1, axis=1) - corners
    length2 = (along**2).sum(axis=2)
    t = ((p - start) * along).sum(axis=2) / np.where(length2 > 0, length2, 1)
    to_edge = np.linalg.norm(start + np.clip(t, 0, 1)[..., None] * along - p, axis=2).min(axis=1)
    normal = np.cross(along[:, 0], along[:, 1])
    length = np.linalg.norm(normal, axis=1)
    # p is over the face when it is left of all edges.
    left = (np.cross(along, p - start) * normal[:, None]).sum(axis=2)
    over = (length > 0) & (left >= 0).all(axis=1)
    to_plane = np.abs(((p - start[:, 0]) * normal).sum(axis=1)) / np.where(length > 0, length, 1)
    return np.where(over, to_plane, to_edge)
