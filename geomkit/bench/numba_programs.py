"""The kernels of the job `kernels` in Numba; importing this needs Numba."""

from typing import Any

import numpy as np
from numba import njit, prange

__all__ = ["mathematics", "particles", "saxpy"]

ONE_HALF, FALL, FAST, HALF = np.float32(1.5), np.float32(9.81), np.float32(5.0), np.float32(0.5)


@njit(parallel=True)
def saxpy(a: Any, x: Any, y: Any, z: Any) -> None:
    """z = a x + y."""
    for i in prange(len(x)):
        z[i] = a * x[i] + y[i]


@njit(parallel=True)
def mathematics(x: Any, y: Any) -> None:
    """Four times a sine, an exponential and a root."""
    for i in prange(len(x)):
        v = x[i]
        for _ in range(4):
            v = np.sqrt(np.exp(-v * v) + ONE_HALF) + np.sin(v)
        y[i] = v


@njit(parallel=True)
def particles(p: Any, v: Any, dt: Any, q: Any, w: Any) -> None:
    """A step of particles that fall, are dragged when they are fast, and bounce off the ground."""
    for i in prange(len(p)):
        x, y, z = v[i, 0], v[i, 1] - FALL * dt, v[i, 2]
        speed = np.sqrt(x * x + y * y + z * z)
        if speed > FAST:
            s = FAST / speed
            x, y, z = x * s, y * s, z * s
        px, py, pz = p[i, 0] + x * dt, p[i, 1] + y * dt, p[i, 2] + z * dt
        if py < 0:
            py, y = -py, -HALF * y
        q[i, 0], q[i, 1], q[i, 2] = px, py, pz
        w[i, 0], w[i, 1], w[i, 2] = x, y, z
