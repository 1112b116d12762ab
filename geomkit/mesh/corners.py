"""From the corners of faces to the vertices that stand there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel

if TYPE_CHECKING:
    from geomkit.mesh.mesh import Mesh

__all__ = ["sum_at_vertices", "sum_corners", "vertex_corners"]

sum_corners = Kernel(
    "mesh/corners.cu",
    "sum_corners",
    "const int* offset, const int* corners, const double* adj_corners, real* adj_vertices",
)


def vertex_corners(mesh: Mesh) -> tuple[Any, Any]:
    """The places 3 face + corner of each vertex as compressed rows, on the mesh's device; found once.

    Returns:
        offset (V + 1,) and corners (3 F,) int32: vertex v stands at corners[offset[v] : offset[v + 1]], in order.
    """

    def find(mesh: Mesh) -> tuple[Any, Any]:
        offset, corners = mesh.topology.vertex_faces
        xp = namespace(mesh.device)
        return xp.asarray(offset), xp.asarray(corners)

    return mesh.derived("vertex_corners", find)


def sum_at_vertices(mesh: Mesh, adj_corners: Any) -> Any:
    """Sum gradients of corners at each vertex, in the order of the faces, and round once.

    Args:
        mesh: the mesh.
        adj_corners: (F, 3, 3) float64: face, corner, axis.

    Returns:
        (V, 3) of the mesh's dtype.
    """
    adj_vertices = empty(mesh.device, (mesh.n_vertices, 3), mesh.dtype)
    sum_corners(mesh.n_vertices, *vertex_corners(mesh), adj_corners, adj_vertices)
    return adj_vertices
