"""The kernels of the job `kernels` in Taichi; importing this needs Taichi, initialised."""

# No `from __future__ import annotations`: Taichi reads the types from the annotations.
import taichi as ti

__all__ = ["mathematics", "particles", "saxpy"]

numbers = ti.types.ndarray(dtype=ti.f32, ndim=1)
vectors = ti.types.ndarray(dtype=ti.math.vec3, ndim=1)


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
