"""The kernels of the job `kernels` in Taichi; importing this needs Taichi, initialised."""

# No `from __future__ import annotations`: Taichi reads the types from the annotations.
import taichi as ti

__all__ = ["forces", "mathematics", "particles", "saxpy", "sort_by_cells"]

numbers = ti.types.ndarray(dtype=ti.f32, ndim=1)
vectors = ti.types.ndarray(dtype=ti.math.vec3, ndim=1)
integers = ti.types.ndarray(dtype=ti.i32, ndim=1)


@ti.kernel
def saxpy(a: ti.f32, x: numbers, y: numbers, z: numbers):  # pyright: ignore
    """z = a x + y."""
    for i in range(x.shape[0]):
        z[i] = a * x[i] + y[i]


@ti.kernel
def mathematics(x: numbers, y: numbers):  # pyright: ignore
    """Four times a sine, an exponential and a root."""
    for i in range(x.shape[0]):
        v = x[i]
        for _ in range(4):
            v = ti.sqrt(ti.exp(-v * v) + 1.5) + ti.sin(v)
        y[i] = v


@ti.kernel
def particles(p: vectors, v: vectors, dt: ti.f32, q: vectors, w: vectors):  # pyright: ignore
    """A step of particles that fall, are dragged when they are fast, and bounce off the ground."""
    for i in range(p.shape[0]):
        velocity = v[i]
        velocity.y -= 9.81 * dt
        speed = velocity.norm()
        if speed > 5.0:
            velocity *= 5.0 / speed
        place = p[i] + velocity * dt
        if place.y < 0.0:
            place.y = -place.y
            velocity.y = -0.5 * velocity.y
        q[i] = place
        w[i] = velocity


@ti.kernel
def sort_by_cells(
    p: vectors, cells: ti.i32, cell: integers, start: integers, at: integers, order: vectors,  # pyright: ignore
):  # fmt: skip
    """Where the particles of each cell of the unit cube begin, and the particles in that order."""
    for c in range(start.shape[0]):
        start[c] = 0
    for i in range(p.shape[0]):
        c = ti.min(ti.cast(p[i] * cells, ti.i32), cells - 1)
        cell[i] = (c.x * cells + c.y) * cells + c.z
        ti.atomic_add(start[cell[i] + 1], 1)
    ti.loop_config(serialize=True)
    for c in range(at.shape[0]):
        at[c] = start[c]
        start[c + 1] += start[c]
    for i in range(p.shape[0]):
        order[ti.atomic_add(at[cell[i]], 1)] = p[i]


@ti.kernel
def forces(p: vectors, order: vectors, radius: ti.f32, cells: ti.i32, start: integers, f: vectors):  # pyright: ignore
    """Each particle is pushed by those within the radius, the more the nearer they are."""
    for i in range(p.shape[0]):
        c = ti.min(ti.cast(p[i] * cells, ti.i32), cells - 1)
        total = ti.math.vec3(0.0)
        for a in range(ti.max(c.x - 1, 0), ti.min(c.x + 2, cells)):
            for b in range(ti.max(c.y - 1, 0), ti.min(c.y + 2, cells)):
                row = (a * cells + b) * cells
                for k in range(start[row + ti.max(c.z - 1, 0)], start[row + ti.min(c.z + 2, cells)]):
                    d = p[i] - order[k]
                    r = d.norm()
                    if r < radius and r > 0.0:
                        total += d * ((radius - r) / r)
        f[i] = total
