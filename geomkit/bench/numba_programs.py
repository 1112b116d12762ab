"""The kernels of the job `kernels` in Numba; importing this needs Numba."""

from typing import Any

import numpy as np
from numba import njit, prange

__all__ = ["forces", "mathematics", "particles", "saxpy"]

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


@njit
def _sorted_by_cells(p: Any, cells: Any) -> Any:
    """Where the particles of each cell of the unit cube begin, and the particles in that order."""
    start = np.zeros(cells**3 + 1, np.int32)
    cell = np.empty(len(p), np.int32)
    for i in range(len(p)):
        x, y, z = (min(int(p[i, 0] * cells), cells - 1), min(int(p[i, 1] * cells), cells - 1),
                   min(int(p[i, 2] * cells), cells - 1))  # fmt: skip
        cell[i] = (x * cells + y) * cells + z
        start[cell[i] + 1] += 1
    for c in range(cells**3):
        start[c + 1] += start[c]
    at, order = start[:-1].copy(), np.empty_like(p)
    for i in range(len(p)):
        order[at[cell[i]]] = p[i]
        at[cell[i]] += 1
    return start, order


@njit(parallel=True)
def _forces(p: Any, order: Any, start: Any, radius: Any, cells: Any, f: Any) -> None:
    for i in prange(len(p)):
        x, y, z = p[i, 0], p[i, 1], p[i, 2]
        cx, cy, cz = min(int(x * cells), cells - 1), min(int(y * cells), cells - 1), min(int(z * cells), cells - 1)
        fx, fy, fz = np.float32(0), np.float32(0), np.float32(0)
        for a in range(max(cx - 1, 0), min(cx + 2, cells)):
            for b in range(max(cy - 1, 0), min(cy + 2, cells)):
                row = (a * cells + b) * cells
                for k in range(start[row + max(cz - 1, 0)], start[row + min(cz + 2, cells)]):
                    dx, dy, dz = x - order[k, 0], y - order[k, 1], z - order[k, 2]
                    r = np.sqrt(dx * dx + dy * dy + dz * dz)
                    if r < radius and r > 0:
                        s = (radius - r) / r
                        fx, fy, fz = fx + dx * s, fy + dy * s, fz + dz * s
        f[i, 0], f[i, 1], f[i, 2] = fx, fy, fz


def forces(p: Any, radius: Any, cells: Any, f: Any) -> None:
    """Each particle is pushed by those within the radius, the more the nearer they are."""
    start, order = _sorted_by_cells(p, cells)
    _forces(p, order, start, radius, cells, f)
