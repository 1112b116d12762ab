"""The kernels by which Warp answers distance queries; importing this needs Warp."""

# No `from __future__ import annotations`: Warp reads the types from the annotations.
import warp as wp

__all__ = ["by_normal", "by_winding_number", "unsigned"]

FAR = wp.constant(1.0e15)  # its square is still a float32


@wp.kernel
def unsigned(mesh: wp.uint64, points: wp.array(dtype=wp.vec3), distance: wp.array(dtype=float)):
    """Distance to the mesh."""
    i = wp.tid()
    hit = wp.mesh_query_point_no_sign(mesh, points[i], FAR)
    distance[i] = wp.length(wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - points[i])


@wp.kernel
def by_normal(mesh: wp.uint64, points: wp.array(dtype=wp.vec3), distance: wp.array(dtype=float)):
    """Signed distance, the sign by the pseudonormal."""
    i = wp.tid()
    hit = wp.mesh_query_point_sign_normal(mesh, points[i], FAR)
    distance[i] = hit.sign * wp.length(wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - points[i])


@wp.kernel
def by_winding_number(mesh: wp.uint64, points: wp.array(dtype=wp.vec3), distance: wp.array(dtype=float)):
    """Signed distance, the sign by the winding number."""
    i = wp.tid()
    hit = wp.mesh_query_point_sign_winding_number(mesh, points[i], FAR)
    distance[i] = hit.sign * wp.length(wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - points[i])
