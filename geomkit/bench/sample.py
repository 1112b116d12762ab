"""Query points for benchmarks."""

from __future__ import annotations

import numpy as np

from geomkit.mesh.mesh import Mesh

__all__ = ["near_points", "uniform_points"]

BOX_SCALE = 1.2
NEAR = 0.02


def uniform_points(mesh: Mesh, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 3) float32 points uniform in the mesh's box scaled by 1.2 about its middle."""
    extent = mesh.bounds[1] - mesh.bounds[0]
    return (mesh.center + rng.uniform(-0.5, 0.5, (n, 3)) * BOX_SCALE * extent).astype(np.float32)


def near_points(mesh: Mesh, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 3) float32 points within 2 % of the box's diagonal of the surface.

    Each is a point of the surface, drawn by area, moved to a uniform point of the ball of that radius about it.
    """
    corners = mesh.vertices_array.astype(np.float64)[mesh.faces_array]
    a, b, c = (corners[:, k] for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    face = rng.choice(len(area), n, p=area / area.sum())
    u, v = rng.random((2, n, 1))
    root = np.sqrt(u)
    on_surface = (1 - root) * a[face] + root * (1 - v) * b[face] + root * v * c[face]
    direction = rng.normal(size=(n, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return (on_surface + NEAR * mesh.diagonal * rng.random((n, 1)) ** (1 / 3) * direction).astype(np.float32)
