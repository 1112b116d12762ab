"""Signed distance to a mesh: forward and adjoint; and the inside test."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.autodiff.primitive import nondifferentiable, primitive
from geomkit.errors import message
from geomkit.implicit.sign import METHODS, boundary_strength, choose, inside, pseudonormals
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import zeros
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.closest_point import PointGradients, closest
from geomkit.spatial.query import Points, n_groups
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["contains", "signed_distance"]

signed_distance_fwd = Kernel(
    "implicit/signed_distance.cu",
    "signed_distance_fwd",
    "Bvh bvh, Pseudonormals normals, int count, const real* points, const int* order, int sign, int inverted, "
    "double boundary, real* distance",
    grain=4,
)
signed_distance_adj = Kernel(
    "implicit/signed_distance.cu",
    "signed_distance_adj",
    "Bvh bvh, Pseudonormals normals, const real* vertices, const int* faces, const real* points, const int* face, "
    "const real* barycentric, const int* feature, const real* distance, int sign, const real* adj_distance, "
    "real* adj_points, real* adj_corners",
)


@primitive(differentiable=("points", "vertices"), outputs={"distance": "real N"})
def signed_distance(mesh: Mesh, points: Any, *, sign: str = "auto") -> Any:
    """Signed distance from each point to a triangle mesh: negative inside, positive outside, 0 on the surface.

    Distances are exact. The sign is as good as the mesh allows; `mesh.report()` says what is wrong with it.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        points: (N, 3) numbers of any array library, in the mesh's length unit.
        sign: how inside and outside are told apart.
            "auto": "pseudonormal" for closed, consistently oriented meshes (checked against the winding number on 256
            samples), else "winding"; where nothing is enclosed "unsigned", with a SignWarning.
            "pseudonormal": by the normal of the closest face, edge or vertex. Exact and nearly free, on closed oriented
            meshes only.
            "winding": inside where the winding number exceeds a half. Right for open meshes, soups, self-intersections.
            "parity": inside by the majority of three rays' numbers of crossings. Indifferent to flipped faces.
            "unsigned": no sign.

    Returns:
        (N,) in the library of `points` and the mesh's precision; inf for a mesh without faces.

    Gradients:
        points and mesh.vertices: sign times the unit vector from the closest point, and minus the barycentric share of
        it at the corners. On the surface the pseudonormal, whatever the method, but 0 where sign is "unsigned". At
        equally near features that of the one found.

    Raises:
        ValueError: wrong shape or sign, points that are not finite.
        TypeError: wrong dtype.

    Warns:
        SignWarning: no sign is right, or the mesh is inside out.

    Cost: O(N log F) after tree and tables are built once.
    Source: Baerentzen and Aanaes (2005) for pseudonormals; Barill et al. (2018) for winding numbers.

    Example:
        >>> import geomkit as gk
        >>> gk.signed_distance(gk.shapes.box(), [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]).tolist()
        [-0.5, 1.5]
    """
    q = Points("signed_distance", mesh, points)
    return q.library.wrap(distance(q, choose("signed_distance", q.mesh, sign)))


@signed_distance.define_adjoint
def signed_distance_adjoint(
    mesh: Mesh, points: Any, *, adj_distance: Any, sign: str = "auto", result: Any = None
) -> PointGradients:
    """Gradients of `signed_distance`: the cotangent of the distance to the points and the mesh's vertices.

    Args:
        mesh, points, sign: as given to `signed_distance`.
        adj_distance: (N,) cotangent of the distance.
        result: what `signed_distance` returned for the same inputs, to save finding the signs again.

    Returns:
        A record of `.points` (N, 3) and `.vertices` (V, 3), in the library of `points`.

    Raises:
        ValueError, TypeError: as `signed_distance`; a cotangent or result of the wrong shape.

    Cost: one closest-point query, one signed distance unless `result` is given, then O(N + V). The same bits whatever
    the number of threads.

    Example:
        >>> import geomkit as gk
        >>> gk.signed_distance.adjoint(gk.shapes.box(), [[0.0, 0.0, 0.25]], adj_distance=[1.0]).points.tolist()
        [[0.0, 0.0, 1.0]]
    """
    q = Points("signed_distance", mesh, points)
    n, m = len(q), q.mesh
    adj = q.cotangent("adj_distance", adj_distance, (n,))
    if m.n_faces == 0:
        zero = zeros(q.device, (n, 3), q.dtype), zeros(q.device, (m.n_vertices, 3), q.dtype)
        return PointGradients(*map(q.library.wrap, zero))
    method = choose("signed_distance", m, sign)
    signed = distance(q, method) if result is None else q.cotangent("result", result, (n,))
    return PointGradients(*map(q.library.wrap, adj_distance_of(q, method, signed, adj)))


def adj_distance_of(q: Points, method: str, signed: Any, adj: Any) -> tuple[Any, Any]:
    """`signed_distance.adjoint` on arrays of the mesh's device: cotangents of the points and of the vertices."""
    n, m = len(q), q.mesh
    adj_points = zeros(q.device, (n, 3), q.dtype)
    near = closest(q)
    normals = pseudonormals(m, "unsigned" if method == "unsigned" else "pseudonormal")
    adj_corners = q.empty(3, 3)
    signed_distance_adj(
        n, m.bvh.struct(), normals, m.vertices_array, m.faces_array, q.array, near.face, near.barycentric, near.feature,
        signed, METHODS[method], adj, adj_points, adj_corners,
    )  # fmt: skip
    return adj_points, corners_to_vertices(m, near.face, adj_corners)


@nondifferentiable("inside or outside is discrete", discrete={"inside": "bool N"})
def contains(mesh: Mesh, points: Any, *, sign: str = "auto") -> Any:
    """Whether each point is inside a triangle mesh.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        points: (N, 3) numbers of any array library, in the mesh's length unit.
        sign: how inside is told, as in `signed_distance`. "unsigned" has no inside and is refused.

    Returns:
        (N,) bool in the library of `points`. Points on the surface are not inside, where distance decides
        ("pseudonormal"); elsewhere they may be either.

    Gradients:
        None: the answer is discrete.

    Raises:
        ValueError: wrong shape or sign, points that are not finite.
        TypeError: wrong dtype.

    Warns:
        SignWarning: the mesh encloses nothing (all False), or is inside out.

    Cost: O(N log F).

    Example:
        >>> import geomkit as gk
        >>> gk.contains(gk.shapes.box(), [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]).tolist()
        [True, False]
    """
    if sign == "unsigned":
        raise ValueError(message("contains", "sign", "a method that has an inside", "'unsigned'"))
    q = Points("contains", mesh, points)
    method = choose("contains", q.mesh, sign)
    if q.mesh.n_faces == 0 or method == "unsigned":
        result = zeros(q.device, len(q), bool)
    elif method == "pseudonormal":
        result = distance(q, method) < 0
    else:
        result = inside(q, method) != 0
    return q.library.wrap(result)


def distance(q: Points, method: str) -> Any:
    """`signed_distance` on arrays of the mesh's device, the method chosen."""
    if q.mesh.n_faces == 0:
        return q.full(np.inf)
    result = q.empty()
    normals = pseudonormals(q.mesh, method)
    boundary = q.mesh.derived("boundary", boundary_strength) if method == "winding" else 0.0
    inverted = int(method == "pseudonormal" and q.mesh.volume < 0)
    bvh = q.mesh.bvh.struct("frames", "moments") if method == "winding" else q.mesh.bvh.struct("frames")
    for part, points, order in q.chunks():
        n = len(points)
        signed_distance_fwd(
            n_groups(n, q.device), bvh, normals, n, points, order, METHODS[method], inverted, boundary, result[part]
        )
    return result
