"""Closest point on a mesh: forward and adjoint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import zeros
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.query import Points, n_groups
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["ClosestPoint", "PointGradients", "closest_point"]

closest_point_fwd = Kernel(
    "spatial/closest_point.cu",
    "closest_point_fwd",
    "Bvh bvh, int count, const real* points, const int* order, real* point, int* face, real* barycentric, "
    "int* feature, real* distance",
    grain=4,
)
closest_point_adj = Kernel(
    "spatial/closest_point.cu",
    "closest_point_adj",
    "Bvh bvh, const real* vertices, const int* faces, const real* points, const int* face, const real* barycentric, "
    "const int* feature, const real* adj_point, const real* adj_distance, real* adj_points, real* adj_corners",
)


class ClosestPoint(NamedTuple):
    """What `closest_point` finds for each of N points."""

    point: Any  # (N, 3) the closest point, in the mesh's length unit
    face: Any  # (N,) int32, the face it lies on; -1 without faces
    barycentric: Any  # (N, 3) weights of the face's corners, not negative, of sum 1
    feature: Any  # (N,) int32: 0 inside the face, 1 + k on edge k (from corner k to corner k + 1), 4 + k on corner k
    distance: Any  # (N,) not negative; inf without faces


class PointGradients(NamedTuple):
    """Gradients of a query."""

    points: Any  # (N, 3) of the query points
    vertices: Any  # (V, 3) of mesh.vertices


@primitive(
    differentiable=("points", "vertices"),
    outputs={"point": "real N 3", "distance": "real N"},
    discrete={"face": "int32 N", "barycentric": "real N 3", "feature": "int32 N"},
)
def closest_point(mesh: Mesh, points: Any) -> ClosestPoint:
    """Closest point on a triangle mesh to each query point.

    For distances with a sign use `signed_distance`. The mesh may be open, self-intersecting or degenerate: triangles
    without area are segments or points. Which of several equally near faces is returned may depend on the other points
    of the call, not on the number of threads.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        points: (N, 3) numbers of any array library, in the mesh's length unit.

    Returns:
        A record in the library of `points`, its floats in the mesh's precision: `.point` (N, 3), `.face` (N,) int32,
        `.barycentric` (N, 3), `.feature` (N,) int32 (0 face, 1 2 3 edges, 4 5 6 corners), `.distance` (N,). For a mesh
        without faces: inf, -1, 0, -1, inf.

    Gradients:
        points and mesh.vertices, through point and distance. face and feature are discrete; barycentric carries none
        (use point). On an edge or corner, the derivative of the projection on it; at a tie, that of the face returned;
        at distance 0 the distance has no direction and sends 0.

    Raises:
        ValueError: wrong shape, points that are not finite, or points on another device than the mesh.
        TypeError: wrong dtype.

    Cost: O(N log F) after the tree is built once.   Source: Ericson (2005), 5.1.5; box distances as in Embree.

    Example:
        >>> import geomkit as gk
        >>> hit = gk.closest_point(gk.shapes.box(), [[0.0, 0.0, 2.0]])
        >>> hit.point.tolist(), hit.distance.tolist()
        ([[0.0, 0.0, 0.5]], [1.5])
    """
    q = Points("closest_point", mesh, points)
    result = ClosestPoint(*map(q.library.wrap, closest(q)))
    return result


@closest_point.define_adjoint
def closest_point_adjoint(
    mesh: Mesh,
    points: Any,
    *,
    adj_point: Any = None,
    adj_distance: Any = None,
    result: ClosestPoint | None = None,
) -> PointGradients:
    """Gradients of `closest_point`: cotangents of point and distance to the points and the mesh's vertices.

    Args:
        mesh, points: as given to `closest_point`.
        adj_point: (N, 3) cotangent of point; None is zero.
        adj_distance: (N,) cotangent of distance; None is zero.
        result: what `closest_point` returned for the same inputs, to save finding it again.

    Returns:
        A record of `.points` (N, 3) and `.vertices` (V, 3), in the library of `points`.

    Raises:
        ValueError, TypeError: as `closest_point`; a cotangent of the wrong shape; neither cotangent given.

    Cost: one more query unless `result` is given, then O(N + V). The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> gk.closest_point.adjoint(gk.shapes.box(), [[0.0, 0.0, 2.0]], adj_distance=[1.0]).points.tolist()
        [[0.0, 0.0, 1.0]]
    """
    if adj_point is None and adj_distance is None:
        raise ValueError(message("closest_point.adjoint", "adj_point, adj_distance", "at least one", "None"))
    q = Points("closest_point", mesh, points)
    n = len(q)
    adj_point, adj_distance = (
        q.cotangent("adj_point", adj_point, (n, 3)),
        q.cotangent("adj_distance", adj_distance, (n,)),
    )
    adj_points = zeros(q.device, (n, 3), q.dtype)
    if q.mesh.n_faces == 0:
        adj_vertices = zeros(q.device, (q.mesh.n_vertices, 3), q.dtype)
    else:
        known = closest(q) if result is None else known_result(q, result)
        adj_corners = q.empty(3, 3)
        vertices, faces = q.mesh.vertices_array, q.mesh.faces_array
        closest_point_adj(
            n, q.mesh.bvh.struct(), vertices, faces, q.array, known.face, known.barycentric, known.feature, adj_point,
            adj_distance, adj_points, adj_corners,
        )  # fmt: skip
        adj_vertices = corners_to_vertices(q.mesh, known.face, adj_corners)
    return PointGradients(q.library.wrap(adj_points), q.library.wrap(adj_vertices))


def closest(q: Points) -> ClosestPoint:
    """`closest_point` on arrays of the mesh's device."""
    if q.mesh.n_faces == 0:
        return ClosestPoint(
            q.full(np.inf, 3), q.full(-1, dtype=np.int32), q.full(0, 3), q.full(-1, dtype=np.int32), q.full(np.inf)
        )
    r = ClosestPoint(q.empty(3), q.empty(dtype=np.int32), q.empty(3), q.empty(dtype=np.int32), q.empty())
    bvh = q.mesh.bvh.struct("frames")
    for part, points, order in q.chunks():
        n = len(points)
        closest_point_fwd(n_groups(n, q.device), bvh, n, points, order, *(a[part] for a in r))
    return r


def known_result(q: Points, result: ClosestPoint) -> ClosestPoint:
    """A result that the caller hands back, on the mesh's device."""

    def field(name: str, shape: tuple, dtype: Any) -> Any:
        value = getattr(result, name)
        return as_array(value, op=f"{q.op}.adjoint", name=f"result.{name}", shape=shape, dtype=dtype, device=q.device)

    if not isinstance(result, ClosestPoint):
        raise TypeError(message(f"{q.op}.adjoint", "result", "what closest_point returned", type(result).__name__))
    n = len(q)
    face, feature = field("face", (n,), np.int32), field("feature", (n,), np.int32)
    for name, values, end in (("face", face, q.mesh.n_faces), ("feature", feature, 7)):
        if n and (int(values.min()) < 0 or int(values.max()) >= end):
            raise ValueError(message(f"{q.op}.adjoint", f"result.{name}", f"numbers in [0, {end})", "others"))
    return ClosestPoint(None, face, field("barycentric", (n, 3), q.dtype), feature, None)
