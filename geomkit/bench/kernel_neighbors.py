"""Job `neighbors` of `kernels`: forces between near particles; what finds them is built in every run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import geomkit as gk

__all__ = ["PEERS", "expected", "inputs", "own"]

AROUND = 30  # neighbours of a particle
CHECKED = 300  # particles whose forces are compared

Made = tuple[Callable[[], Any], Callable[[], np.ndarray]]


@gk.kernel
def forces(
    hash: gk.HashGrid, order: gk.array(gk.i32), p: gk.array(gk.vec3), radius: gk.f32,  # pyright: ignore
    f: gk.array(gk.vec3),  # pyright: ignore
) -> None:  # fmt: skip
    """Each particle is pushed by those within the radius, the more the nearer they are."""
    i = order[gk.tid()]
    total = gk.vec3(0.0)
    for j in gk.neighbors(hash, p[i], radius):
        d = p[i] - p[j]
        r = gk.length(d)
        if r > 0.0:
            total += d * ((radius - r) / r)
    f[i] = total


def inputs(n: int) -> tuple[np.ndarray, float]:
    """Particles in the unit cube, and a radius within which each has about `AROUND` others."""
    radius = float(np.float32((3 * AROUND / (4 * np.pi * n)) ** (1 / 3)))
    return np.random.default_rng(0).random((n, 3), dtype=np.float32), radius


def expected(p: np.ndarray, radius: float) -> np.ndarray:
    """The forces on the first particles in float64, by NumPy."""
    p, found = p.astype(np.float64), []
    for x in p[:CHECKED]:
        d = x - p
        r = np.sqrt(np.einsum("ij,ij->i", d, d))
        near = (r > 0) & (r < radius)
        found.append(np.sum(d[near] * ((radius - r[near]) / r[near])[:, None], axis=0))
    return np.array(found)


def own(p: np.ndarray, radius: float) -> Made:
    """What runs geomkit's kernel, and what reads the forces that are compared."""
    f = np.empty_like(p)

    def run() -> None:
        grid = gk.HashGrid(p, radius)
        forces(len(p), grid, grid.order, p, radius, f)

    return run, lambda: f[:CHECKED]


def _warp(p: np.ndarray, radius: float) -> Made:
    wp: Any = importlib.import_module("warp")

    from geomkit.bench import warp_programs

    wp.config.quiet = True
    wp.init()
    cells = max(1, min(128, int(1 / radius)))
    grid = wp.HashGrid(cells, cells, cells, device="cpu")
    points, out = wp.array(p, dtype=wp.vec3, device="cpu"), wp.empty(len(p), dtype=wp.vec3, device="cpu")

    def run() -> None:
        grid.build(points, radius)
        wp.launch(warp_programs.forces, len(p), inputs=[grid.id, points, radius], outputs=[out], device="cpu")

    return run, lambda: out.numpy()[:CHECKED]


def _numba(p: np.ndarray, radius: float) -> Made:
    from geomkit.bench import numba_programs

    f, cells = np.empty_like(p), max(1, int(1 / radius))
    return lambda: numba_programs.forces(p, np.float32(radius), cells, f), lambda: f[:CHECKED]


def _taichi(p: np.ndarray, radius: float) -> Made:
    ti: Any = importlib.import_module("taichi")

    if not getattr(ti.lang.impl.get_runtime(), "prog", None):
        ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False)
    from geomkit.bench import taichi_programs

    cells = max(1, int(1 / radius))
    f, cell, order = np.empty_like(p), np.empty(len(p), np.int32), np.empty_like(p)
    start, at = np.empty(cells**3 + 1, np.int32), np.empty(cells**3, np.int32)

    def run() -> None:
        taichi_programs.sort_by_cells(p, cells, cell, start, at, order)
        taichi_programs.forces(p, order, radius, cells, start, f)

    return run, lambda: f[:CHECKED]


PEERS: dict[str, Callable[[np.ndarray, float], Made]] = {"warp": _warp, "numba": _numba, "taichi": _taichi}
