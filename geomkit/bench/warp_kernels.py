"""The kernels by which Warp answers queries; importing this needs Warp."""

# No `from __future__ import annotations`: Warp reads the types from the annotations.
import warp as wp

__all__ = ["any_hit", "by_normal", "by_winding_number", "closest_hit", "count_hits", "unsigned"]

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


# Each of these is a module of its own: where a version of Warp lacks what one asks for, the others work.


@wp.kernel(module="unique")
def closest_hit(
    mesh: wp.uint64, origins: wp.array(dtype=wp.vec3), directions: wp.array(dtype=wp.vec3), t: wp.array(dtype=float)
):
    """t of the first hit, inf for a miss."""
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, origins[i], directions[i], FAR)
    if hit.result:
        t[i] = hit.t
    else:
        t[i] = wp.inf


@wp.kernel(module="unique")
def any_hit(
    mesh: wp.uint64, origins: wp.array(dtype=wp.vec3), directions: wp.array(dtype=wp.vec3), hit: wp.array(dtype=int)
):
    """1 where the ray hits anything."""
    i = wp.tid()
    hit[i] = int(wp.mesh_query_ray_anyhit(mesh, origins[i], directions[i], FAR))


@wp.kernel(module="unique")
def count_hits(
    mesh: wp.uint64, origins: wp.array(dtype=wp.vec3), directions: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)
):
    """Number of hits."""
    i = wp.tid()
    n[i] = wp.mesh_query_ray_count_intersections(mesh, origins[i], directions[i])
