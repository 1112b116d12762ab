"""The axis-aligned box of points: forward and adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.runtime.device import device_of, empty, namespace, zeros
from geomkit.runtime.kernel import Kernel

point_bounds_fwd = Kernel(
    "mesh/bounds.cu", "point_bounds_fwd", "int block, int count, const real* points, real* bounds", grain=64
)
indexed_bounds = Kernel(
    "mesh/bounds.cu",
    "indexed_bounds",
    "int block, int count, const real* points, const int* index, real* bounds",
    grain=64,
)
point_bounds_adj = Kernel(
    "mesh/bounds.cu", "point_bounds_adj", "const int* at, const real* adj_bounds, real* adj_points"
)

BLOCK = 256


def point_bounds(points: Any, index: Any = None) -> np.ndarray:
    """The box of points, or of those that an index names.

    Args:
        points: (N, 3) NumPy or CuPy array.
        index: int32 array of any shape, or None for all points. At least one point.

    Returns:
        (2, 3) on the host, in the precision of the points.
    """
    count = len(points) if index is None else index.size
    n = -(-count // BLOCK)
    part = empty(device_of(points), (n, 2, 3), points.dtype)
    if index is None:
        point_bounds_fwd(n, BLOCK, count, points, part)
    else:
        indexed_bounds(n, BLOCK, count, points, index, part)
    lower, upper = part[:, 0].min(axis=0), part[:, 1].max(axis=0)
    return np.array([lower.tolist(), upper.tolist()], points.dtype)


def used_bounds(points: Any, faces: Any, kept: dict[str, Any] | None) -> np.ndarray:
    """The box of the points that faces use, as `point_bounds` returns it.

    Args:
        points: (V, 3) array.
        faces: (F, 3) int32 array, F > 0.
        kept: where to keep which points faces use, for the next time with the same faces; None looks at all corners.
    """
    if kept is None:
        return point_bounds(points, faces)
    if "used" not in kept:
        xp = namespace(device_of(faces))
        used = xp.flatnonzero(xp.bincount(faces.ravel(), minlength=len(points))).astype(np.int32)
        kept["used"] = None if len(used) == len(points) else used
    return point_bounds(points, kept["used"])


def point_bounds_adjoint(points: Any, adj_bounds: np.ndarray) -> Any:
    """(N, 3) cotangents of the points: each bound's goes to the point that attains it, the lowest index of several."""
    xp = namespace(device_of(points))
    bounds = point_bounds(points)
    at = [int((points[:, k] == bounds[side, k]).argmax()) for side in range(2) for k in range(3)]
    adj_points = zeros(device_of(points), points.shape, points.dtype)
    adj = xp.asarray(np.asarray(adj_bounds, points.dtype).reshape(6))
    point_bounds_adj(len(points), xp.asarray(at, dtype=np.int32), adj, adj_points)
    return adj_points
