"""What is right, in float64 and without a tree: the values that timed results are checked against."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["RayHits", "cast_rays", "closest_distance", "plane_t", "winding_number"]


class RayHits(NamedTuple):
    """What rays hit, and where that is clear, which it is not where a ray passes too near to the edge of a triangle.

    Attributes:
        t: (N,) of the first hit, in units of the direction; inf for a miss.
        face: (N,) its triangle; -1 for a miss.
        count: (N,) number of hits.
        total: (N,) the sum of their t.
        clear_first: (N,) whether the first hit, or that there is none, is clear.
        clear_any: (N,) whether it is clear that there is a hit or none.
        clear_all: (N,) whether all hits are clear.
    """

    t: np.ndarray
    face: np.ndarray
    count: np.ndarray
    total: np.ndarray
    clear_first: np.ndarray
    clear_any: np.ndarray
    clear_all: np.ndarray


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


def cast_rays(
    vertices: np.ndarray, faces: np.ndarray, origins: np.ndarray, directions: np.ndarray, slack: float
) -> RayHits:
    """What rays from t = 0 on hit, each tried with all triangles.

    A triangle is hit where the ray passes left of all its edges, or right of all, as seen along the ray. It may or may
    not be hit where the ray is within `slack` of that changing.

    Args:
        vertices: (V, 3) numbers.
        faces: (F, 3) ints, F > 0.
        origins: (N, 3) numbers.
        directions: (N, 3) numbers, not 0.
        slack: a length.
    """
    corners = vertices.astype(np.float64)[faces]
    centroid = corners.mean(axis=1)
    radius = np.linalg.norm(corners - centroid[:, None], axis=2).max(axis=1) + slack
    n = len(origins)
    hits = RayHits(
        np.full(n, np.inf), np.full(n, -1), np.zeros(n, int), np.zeros(n),
        np.ones(n, bool), np.ones(n, bool), np.ones(n, bool),
    )  # fmt: skip
    for i, (o, d) in enumerate(zip(origins.astype(np.float64), directions.astype(np.float64), strict=True)):
        frame, length = _frame(d)
        # Only triangles whose bounding sphere meets a plane through the ray, then a second one.
        near = np.flatnonzero(np.abs(centroid @ frame[0] - o @ frame[0]) <= radius)
        near = near[np.abs((centroid[near] - o) @ frame[1]) <= radius[near]]
        x, y, depth = ((corners[near] - o) @ frame.T).transpose(2, 1, 0)
        inside, maybe, crossing = _crossing(x, y, depth, slack)
        sure = inside & (crossing > slack)
        unsure = (inside & (np.abs(crossing) <= slack)) | (maybe & (depth.max(axis=0) > -slack))
        hits.count[i] = sure.sum()
        hits.total[i] = crossing[sure].sum() / length
        first = np.inf
        if sure.any():
            k = np.argmin(np.where(sure, crossing, np.inf))
            first = crossing[k]
            hits.t[i], hits.face[i] = first / length, near[k]
        hits.clear_first[i] = not (depth.min(axis=0)[unsure] - slack < first).any()
        hits.clear_any[i] = sure.any() or not unsure.any()
        hits.clear_all[i] = not unsure.any()
    return hits


def plane_t(corners: np.ndarray, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """(M,) float64 t at which rays cross the planes of (M, 3, 3) triangles; not finite where they never do."""
    a, b, c = corners.astype(np.float64).transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    with np.errstate(divide="ignore", invalid="ignore"):
        return ((a - origins) * normal).sum(axis=1) / (directions * normal).sum(axis=1)


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


def _frame(d: np.ndarray) -> tuple[np.ndarray, float]:
    """(3, 3) an orthonormal frame whose last row is along d, and the length of d."""
    length = float(np.linalg.norm(d))
    along = d / length
    side = np.cross(along, np.eye(3)[np.argmin(np.abs(along))])
    side /= np.linalg.norm(side)
    return np.stack([side, np.cross(along, side), along]), length


def _crossing(
    x: np.ndarray, y: np.ndarray, depth: np.ndarray, slack: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether the origin is inside each of M triangles in the plane, whether it may be, and the depth there.

    Args:
        x: (3, M) of the corners.
        y: (3, M) of the corners.
        depth: (3, M) of the corners.
        slack: how far from an edge the origin is clearly on one side of it.
    """
    next_x, next_y = np.roll(x, -1, axis=0), np.roll(y, -1, axis=0)
    edge = x * next_y - next_x * y  # twice the area of each edge's triangle with the origin
    area = edge.sum(axis=0)
    length = np.hypot(next_x - x, next_y - y)
    # (The distance to an edge that is a point is no help: 0.)
    left = np.where(area < 0, -1, 1) * edge / np.where(length > 0, length, np.inf)
    inside = np.asarray((left > slack).all(axis=0))
    outside = np.asarray((left < -slack).any(axis=0))
    # An edge weighs the corner opposite to it.
    weighed = (edge * np.roll(depth, -2, axis=0)).sum(axis=0)
    return inside, ~inside & ~outside, np.where(inside, weighed / np.where(inside, area, 1), np.inf)


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
