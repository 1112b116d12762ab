"""Where a surface passes through itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.autodiff.primitive import nondifferentiable
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel

__all__ = ["SelfIntersections", "self_intersections"]

_MESH = "Bvh bvh, const real* vertices, const int* faces, const int* points"
count_overlaps = Kernel("spatial/self_intersections.cu", "count_overlaps", f"{_MESH}, int* count", grain=64)
list_overlaps = Kernel(
    "spatial/self_intersections.cu", "list_overlaps", f"{_MESH}, const int* at, const int* start, int* pairs", grain=8
)


class SelfIntersections(NamedTuple):
    """Pairs of faces that overlap; how many there are is `len(found.pairs)`."""

    pairs: Any  # (K, 2) int32 faces, the lower first, sorted
    shared: Any  # (K,) int32 corners that the two have in common, by position: 0, 1, 2 or 3


@nondifferentiable("which faces intersect is discrete", discrete={"pairs": "int32 ? 2", "shared": "int32 ?"})
def self_intersections(mesh: Mesh) -> SelfIntersections:
    """Pairs of faces that intersect one another, other than where they are joined.

    Faces that share no corner count if they have any point in common, even if they only touch. Faces that share one
    count if they meet elsewhere, too; those that share an edge if one lies folded onto the other; those on the same
    three corners always. Corners at one position are one. Faces with two corners at one position are left out; those
    with three on a line count as the segment that they are, though not against one another.

    The answers are those of signs of determinants, in float64, and where its rounding could change them in numbers of
    106 bits; what is below 1e-29 of the products' sizes is zero. So for float32 meshes they are exact.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.

    Returns:
        A record in the library of the mesh: `.pairs` (K, 2) int32, `.shared` (K,) int32. `pairs[shared == 0]` are those
        of faces that are not neighbours.

    Gradients:
        None: the answer is discrete.

    Raises:
        TypeError: not a mesh.

    Cost: a descent of the tree for each face; O(F log F) where few intersect.

    Example:
        >>> import geomkit as gk, numpy as np
        >>> from geomkit.mesh import Mesh
        >>> ball = gk.shapes.icosphere(2)
        >>> two = Mesh(np.r_[ball.vertices, ball.vertices + 0.5], np.r_[ball.faces, ball.faces + ball.n_vertices])
        >>> len(gk.self_intersections(ball).pairs), len(gk.self_intersections(two).pairs) > 50
        (0, True)
    """
    mesh = as_mesh(mesh)
    xp, n = namespace(mesh.device), mesh.n_faces
    if n == 0:
        nothing = empty(mesh.device, (0, 3), np.int32)
        return SelfIntersections(mesh.library.wrap(nothing[:, :2]), mesh.library.wrap(nothing[:, 2]))
    points = xp.ascontiguousarray(xp.asarray(mesh.topology.welded_faces))
    given = mesh.bvh.struct(), mesh.vertices_array, mesh.faces_array, points
    count = empty(mesh.device, n, np.int32)
    count_overlaps(n, *given, count)
    at = xp.flatnonzero(count).astype(np.int32)
    ends = xp.cumsum(count[at].astype(np.int64))
    total = int(ends[-1]) if len(at) else 0
    if total >= 1 << 31:
        raise MemoryError(f"self_intersections: {total} pairs are more than there are numbers for")
    rows = empty(mesh.device, (total, 3), np.int32)
    list_overlaps(len(at), *given, at, (ends - count[at]).astype(np.int32), rows)
    order = xp.argsort(rows[:, 0].astype(np.int64) * n + rows[:, 1])
    rows = rows[order]
    pairs, shared = xp.ascontiguousarray(rows[:, :2]), xp.ascontiguousarray(rows[:, 2])
    return SelfIntersections(mesh.library.wrap(pairs), mesh.library.wrap(shared))
