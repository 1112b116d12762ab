"""Generalised winding number: forward and adjoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.closest_point import PointGradients
from geomkit.spatial.query import Points, n_groups

__all__ = ["winding_number"]

winding_number_fwd = Kernel(
    "spatial/winding_number.cu",
    "winding_number_fwd",
    "Bvh bvh, int count, const real* points, const int* order, double beta, real* winding",
    grain=4,
)
exact_winding_number_fwd = Kernel(
    "spatial/winding_number.cu",
    "exact_winding_number_fwd",
    "Bvh bvh, int packets, const real* points, real* winding",
    grain=4,
)
winding_number_points_adj = Kernel(
    "spatial/winding_number.cu",
    "winding_number_points_adj",
    "Bvh bvh, int edge_count, const real* vertices, const int* edges, const int* multiplicity, const real* points, "
    "const real* adj_winding, real* adj_points",
    grain=16,
)
winding_number_edges_adj = Kernel(
    "spatial/winding_number.cu",
    "winding_number_edges_adj",
    "Bvh bvh, int edge_count, int block, int count, const real* vertices, const int* edges, const int* multiplicity, "
    "const real* points, const real* adj_winding, double* adj_ends",
    grain=16,
)

BETA = 2.1  # a cluster is far beyond so many times its radius; rms error below 1e-3 (Barill et al. use 2)
BLOCK = 4096  # points whose gradients one item of the edges' adjoint sums
ENDS = 1 << 20  # such items at a time
WORK = 1 << 28  # packets or edges seen from points in one launch


@primitive(differentiable=("points", "vertices"), outputs={"winding": "real N"})
def winding_number(mesh: Mesh, points: Any, *, method: str = "fast") -> Any:
    """How often a mesh wraps around each point: 1 inside a closed mesh, 0 outside, in between where it has holes.

    More than a half is inside (`contains`). Works for open meshes, soups and self-intersections; faces that are there
    twice with opposite winding cancel.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        points: (N, 3) numbers of any array library, in the mesh's length unit.
        method: "fast" sees far clusters of triangles through their moments (rms error below 1e-3); "exact" sums the
            solid angles of all triangles.

    Returns:
        (N,) in the library of `points` and the mesh's precision. On the surface itself it is the value of either side,
        or their mean. 0 for a mesh without faces.

    Gradients:
        points and mesh.vertices: the exact derivative for either method, which only the edges that do not cancel have:
        for a closed mesh both are zero. On such an edge itself the winding number jumps, and the gradient is 0.

    Raises:
        ValueError: wrong shape or method, points that are not finite.
        TypeError: wrong dtype.

    Cost: "fast" O(N log F), "exact" O(N F); the adjoint O(N B) for B edges that do not cancel.
    Source: Jacobson et al. (2013); Barill et al. (2018); Van Oosterom and Strackee (1983).

    Example:
        >>> import geomkit as gk
        >>> w = gk.winding_number(gk.shapes.box(), [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
        >>> (w > 0.5).tolist()
        [True, False]
    """
    if method not in ("fast", "exact"):
        raise ValueError(message("winding_number", "method", "'fast' or 'exact'", repr(method)))
    q = Points("winding_number", mesh, points)
    return q.library.wrap(winding(q, method))


@winding_number.define_adjoint
def winding_number_adjoint(mesh: Mesh, points: Any, *, adj_winding: Any, method: str = "fast") -> PointGradients:
    """Gradients of `winding_number`: the cotangent of its value to the points and the mesh's vertices.

    Args:
        mesh, points, method: as given to `winding_number`. Both methods have the derivative of the exact value.
        adj_winding: (N,) cotangent of the winding number.

    Returns:
        A record of `.points` (N, 3) and `.vertices` (V, 3), in the library of `points`.

    Raises:
        ValueError, TypeError: as `winding_number`; a cotangent of the wrong shape.

    Cost: O(N B) for B edges that do not cancel: none for a closed mesh, all for a soup of triangles without shared
    vertices. The same bits whatever the number of threads.
    """
    if method not in ("fast", "exact"):
        raise ValueError(message("winding_number.adjoint", "method", "'fast' or 'exact'", repr(method)))
    q = Points("winding_number", mesh, points)
    adj = q.cotangent("adj_winding", adj_winding, (len(q),))
    return PointGradients(q.library.wrap(_points_gradient(q, adj)), q.library.wrap(_vertices_gradient(q, adj)))


def winding(q: Points, method: str) -> Any:
    """`winding_number` on arrays of the mesh's device."""
    result = q.full(0)
    if q.mesh.n_faces == 0:
        return result
    if method == "exact":
        bvh, packets = q.mesh.bvh.struct(), q.mesh.bvh.n_packets
        for part in _parts(len(q), packets):
            exact_winding_number_fwd(len(q.array[part]), bvh, packets, q.array[part], result[part])
        return result
    bvh = q.mesh.bvh.struct("moments")
    for part, points, order in q.chunks():
        winding_number_fwd(n_groups(len(points), q.device), bvh, len(points), points, order, BETA, result[part])
    return result


def _parts(n: int, work: int) -> Iterator[slice]:
    """Slices of n points, `work` units of work each, that take about a second, so that Ctrl-C is heard between them."""
    step = max(1, WORK // max(1, work))
    return (slice(start, start + step) for start in range(0, n, step))


def _points_gradient(q: Points, adj: Any) -> Any:
    m = q.mesh
    edges, multiplicity = unbalanced_edges(m, "position")
    adj_points = zeros(q.device, (len(q), 3), q.dtype)
    for part in _parts(len(q), len(edges)):
        points, bvh = q.array[part], m.bvh.struct()
        winding_number_points_adj(
            len(points), bvh, len(edges), m.vertices_array, edges, multiplicity, points, adj[part], adj_points[part]
        )
    return adj_points


def _vertices_gradient(q: Points, adj: Any) -> Any:
    """Blocks of points are summed by the kernel, and the blocks here: few enough at a time to bound the memory."""
    m = q.mesh
    edges, multiplicity = unbalanced_edges(m, "index")
    total = zeros(q.device, (len(edges), 2, 3), np.float64)
    step = BLOCK * max(1, ENDS // max(1, len(edges)))
    for start in range(0, len(q) if len(edges) else 0, step):
        points = q.array[start : start + step]
        blocks = -(-len(points) // BLOCK)
        ends = empty(q.device, (blocks, len(edges), 2, 3), np.float64)
        winding_number_edges_adj(
            blocks * len(edges), m.bvh.struct(), len(edges), BLOCK, len(points), m.vertices_array, edges, multiplicity,
            points, adj[start : start + step], ends,
        )  # fmt: skip
        total += ends.sum(axis=0)
    return _ends_to_vertices(m, edges, total)


def unbalanced_edges(mesh: Mesh, by: str) -> tuple[Any, Any]:
    """Edges that do not cancel, by "position" or "index", (E, 2) int32, and how often they are passed, (E,) int32."""
    return mesh.derived(f"unbalanced_by_{by}", lambda mesh: _unbalanced(mesh, by))


def _unbalanced(mesh: Mesh, by: str) -> tuple[Any, Any]:
    """Edges that do not cancel, and how often they are passed, on the mesh's device."""
    xp = namespace(mesh.device)
    edges, multiplicity = mesh.topology.unbalanced_edges(by)
    return xp.asarray(edges, dtype=np.int32), xp.asarray(multiplicity, dtype=np.int32)


def _ends_to_vertices(mesh: Mesh, edges: Any, adj_ends: Any) -> Any:
    """Sum (E, 2, 3) gradients of edge ends at the vertices, in the order of the edges."""
    on_host = [a if isinstance(a, np.ndarray) else a.get() for a in (edges, adj_ends)]
    vertex, adj = on_host[0].ravel(), on_host[1].reshape(-1, 3)
    sums = np.stack([np.bincount(vertex, weights=adj[:, k], minlength=mesh.n_vertices) for k in range(3)], axis=1)
    return namespace(mesh.device).asarray(sums.astype(mesh.dtype))
