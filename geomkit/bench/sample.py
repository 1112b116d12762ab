"""Query points and rays for benchmarks."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np

from geomkit.mesh.mesh import Mesh

__all__ = ["Rays", "chord_rays", "near_points", "pinhole_rays", "uniform_points"]

BOX_SCALE = 1.2
NEAR = 0.02
VIEW = np.array([-1.0, -0.75, -1.0])  # a 3/4 view, y up
VIEW_DISTANCE = 1.5  # over the diagonal
MARGIN = 1.02


class Rays(NamedTuple):
    """Rays.

    Attributes:
        origins: (N, 3) float32.
        directions: (N, 3) float32, of length one.
    """

    origins: np.ndarray
    directions: np.ndarray


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
    direction = _unit(rng.normal(size=(n, 3)))
    return (on_surface + NEAR * mesh.diagonal * rng.random((n, 1)) ** (1 / 3) * direction).astype(np.float32)


def pinhole_rays(mesh: Mesh, n: int) -> Rays:
    """The rays of a square picture of the mesh, row by row from the top: as many pixels a side as the root of n holds.

    The pinhole is 1.5 diagonals of the box away from its middle, in a 3/4 view; the picture frames the vertices.
    """
    forward = VIEW / np.linalg.norm(VIEW)
    right = np.cross(forward, [0.0, 1.0, 0.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    eye = (mesh.center - VIEW_DISTANCE * mesh.diagonal * forward).astype(np.float32)
    seen = mesh.vertices_array.astype(np.float64) - eye
    x, y = seen @ right / (seen @ forward), seen @ down / (seen @ forward)
    side = isqrt(n)
    half = MARGIN * max(np.ptp(x), np.ptp(y)) / 2
    pixel = half * ((2 * np.arange(side) + 1) / side - 1)
    x, y = np.meshgrid(pixel + (x.min() + x.max()) / 2, pixel + (y.min() + y.max()) / 2)
    directions = forward + x.reshape(-1, 1) * right + y.reshape(-1, 1) * down
    return Rays(np.tile(eye, (side * side, 1)), _unit(directions).astype(np.float32))


def chord_rays(mesh: Mesh, n: int, rng: np.random.Generator) -> Rays:
    """n rays along chords of the sphere around the mesh's box; both ends of a chord are uniform on the sphere."""
    start, end = mesh.center + mesh.diagonal / 2 * _unit(rng.normal(size=(2, n, 3)))
    return Rays(start.astype(np.float32), _unit(end - start).astype(np.float32))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
