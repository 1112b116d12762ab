"""Attributes of the vertices at points of faces, on arrays of one device: forward and adjoint."""

from __future__ import annotations

from typing import Any

from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["interpolated", "interpolated_adj"]

SOURCE = "render/interpolate.cu"
interpolate_fwd = Kernel(
    SOURCE,
    "interpolate_fwd",
    "int channels, const real* attribute, const int* faces, const int* face, const real* barycentric, real* out",
)
interpolate_adj = Kernel(
    SOURCE,
    "interpolate_adj",
    "int channels, const real* attribute, const int* faces, const int* face, const real* barycentric, "
    "const real* adj_out, int wanted, real* adj_barycentric, real* adj_corners",
)


def interpolated(mesh: Mesh, attribute: Any, face: Any, barycentric: Any) -> Any:
    """(N, C) values of a (V, C) attribute at N points of faces, zero where face is -1."""
    out = empty(mesh.device, (len(face), attribute.shape[1]), mesh.dtype)
    interpolate_fwd(len(face), attribute.shape[1], attribute, mesh.faces_array, face, barycentric, out)
    return out


def interpolated_adj(
    mesh: Mesh, attribute: Any, face: Any, barycentric: Any, adj_out: Any, adj_barycentric: Any, *, wanted: bool = True
) -> Any:
    """The cotangent (V, C) of the attribute, or None unless it is wanted; that of barycentric adds up."""
    n, channels = len(face), attribute.shape[1]
    adj_corners = empty(mesh.device, (n if wanted else 0, 3, channels), mesh.dtype)
    interpolate_adj(
        n, channels, attribute, mesh.faces_array, face, barycentric, adj_out, int(wanted), adj_barycentric, adj_corners
    )
    if not wanted:
        return None
    # The sum at vertices takes three numbers a corner.
    if channels == 3:
        return corners_to_vertices(mesh, face, adj_corners)
    padded = zeros(mesh.device, (n, 3, 3 * -(-channels // 3)), mesh.dtype)
    padded[:, :, :channels] = adj_corners
    xp = namespace(mesh.device)
    parts = [
        corners_to_vertices(mesh, face, xp.ascontiguousarray(padded[:, :, k : k + 3])) for k in range(0, channels, 3)
    ]
    return xp.concatenate(parts, axis=1)[:, :channels]
