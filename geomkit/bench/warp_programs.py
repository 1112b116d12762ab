"""The kernels of the job `kernels` in Warp; importing this needs Warp."""

# No `from __future__ import annotations`: Warp reads the types from the annotations.
import warp as wp

__all__ = ["forces", "mathematics", "particles", "saxpy"]


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    """z = a x + y."""
    i = wp.tid()
    z[i] = a * x[i] + y[i]


@wp.kernel
def mathematics(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    """Four times a sine, an exponential and a root."""
    i = wp.tid()
    v = x[i]
    for _ in range(4):
        v = wp.sqrt(wp.exp(-v * v) + 1.5) + wp.sin(v)
    y[i] = v


@wp.kernel
def particles(
    p: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float, q: wp.array(dtype=wp.vec3),
    w: wp.array(dtype=wp.vec3),
):  # fmt: skip
    """A step of particles that fall, are dragged when they are fast, and bounce off the ground."""
    i = wp.tid()
    velocity = v[i]
    velocity = wp.vec3(velocity[0], velocity[1] - 9.81 * dt, velocity[2])
    speed = wp.length(velocity)
    if speed > 5.0:
        velocity = velocity * (5.0 / speed)
    place = p[i] + velocity * dt
    if place[1] < 0.0:
        place = wp.vec3(place[0], -place[1], place[2])
        velocity = wp.vec3(velocity[0], -0.5 * velocity[1], velocity[2])
    q[i] = place
    w[i] = velocity


@wp.kernel
def forces(grid: wp.uint64, p: wp.array(dtype=wp.vec3), radius: float, f: wp.array(dtype=wp.vec3)):
    """Each particle is pushed by those within the radius, the more the nearer they are."""
    i = wp.hash_grid_point_id(grid, wp.tid())
    x = p[i]
    total = wp.vec3(0.0)
    query = wp.hash_grid_query(grid, x, radius)
    j = int(0)  # noqa: UP018 (a constant would not be changed by the query)
    while wp.hash_grid_query_next(query, j):
        d = x - p[j]
        r = wp.length(d)
        if r < radius and r > 0.0:
            total += d * ((radius - r) / r)
    f[i] = total
