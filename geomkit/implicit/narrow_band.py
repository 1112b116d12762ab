"""Signed distances near a surface only: blocks of samples that are far from it get a sign and a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.implicit.sign import boundary_strength, choose_auto
from geomkit.implicit.signed_distance import distance
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import namespace
from geomkit.spatial.query import Points
from geomkit.spatial.winding_number import winding

__all__ = ["blocks_have_signs", "fill_narrow_band"]

LARGEST = 16  # samples along a side of the first blocks, a power of two
CHUNK = {"cpu": 1 << 18, "cuda": 1 << 21}  # samples at a time
WINDING_ERROR = 0.03  # twice the largest error of the fast winding number that was seen


def blocks_have_signs(mesh: Mesh, method: str) -> bool:
    """Whether one point can tell the sign of a block without surface in it.

    The winding number changes slowly where there is no surface (Biot and Savart), parity not at all where every edge
    has an even number of faces, pseudonormals not where they are right. Elsewhere signs jump anywhere in space.
    """
    if method == "parity":
        return not (mesh.topology.unbalanced_edges("position")[1] % 2).any()
    return method != "pseudonormal" or mesh.derived("sign", choose_auto).method == "pseudonormal"


class _Filler:
    """The samples of a grid, which blocks write to."""

    def __init__(self, mesh: Mesh, method: str, values: Any, corner: np.ndarray, step: float, width: float):
        self.mesh, self.method, self.values, self.corner, self.step = mesh, method, values, corner, step
        self.width = width  # of the band, in world units
        self.xp = namespace(mesh.device)
        # What bounds the change of the winding number: the length of the mesh's boundary over 4 pi, and the boundary.
        wound = method == "winding"
        self.strength = mesh.derived("boundary", boundary_strength) * mesh.bvh.scale if wound else 0.0
        self.boundary = mesh.derived("boundary_mesh", _boundary) if self.strength else None

    def points(self, at: Any, mesh: Mesh | None = None) -> Points:
        """The points at (N, 3) places in index coordinates, to ask a mesh about: if None, the one that is sampled."""
        points = (self.xp.asarray(self.corner) + self.step * at).astype(self.values.dtype)
        return Points("sdf_grid", mesh or self.mesh, points)

    def blocks(self, lower: Any, size: int) -> Any:
        """Fill the blocks that are far inside the surface; return the lower corners of those near to it.

        Those far outside are left as they are. The middle of a block tells: no sample of it is nearer to the surface
        than its distance less half the diagonal.
        """
        middle = lower + 0.5 * (size - 1)
        # (Winding numbers cost as much as distances, and only what is far needs a sign.)
        wound = self.method == "winding"
        d = distance(self.points(middle), "unsigned" if wound else self.method)
        reach = 0.5 * math.sqrt(3) * (size - 1) * self.step
        far = abs(d) > (reach + self.width) * (1 + 1e-5)
        if wound and far.any():
            turns = winding(self.points(middle[far]), "fast")
            d[far] = self.xp.where(turns > 0.5, -d[far], d[far])
            if self.boundary is not None:
                far[far] = self._keeps_sign(middle[far], turns, reach)
        self._fill_inside(lower[far & (d < 0)], size)
        return lower[~far]

    def samples(self, at: Any) -> None:
        """Write the distances at samples, cut at the width of the band."""
        d = self.xp.clip(distance(self.points(at), self.method), -self.width, self.width)
        self.values[at[:, 0], at[:, 1], at[:, 2]] = d

    def _keeps_sign(self, middle: Any, turns: Any, reach: float) -> Any:
        """Whether the winding numbers of points stay on their side of one half within `reach`, where no surface is."""
        left = distance(self.points(middle, self.boundary), "unsigned") * (1 - 1e-4) - reach
        margin = abs(turns - 0.5) - WINDING_ERROR
        return (left > 0) & (self.strength * reach < margin * left * left)

    def _fill_inside(self, lower: Any, size: int) -> None:
        xp, (nx, ny, nz) = self.xp, self.values.shape
        side = xp.arange(size)
        step = max(1, CHUNK[self.mesh.device] // size**3)
        for start in range(0, len(lower), step):
            corner = lower[start : start + step]
            x, y, z = (xp.minimum(corner[:, k, None] + side, n - 1) for k, n in enumerate((nx, ny, nz)))
            # Blocks may stick out of the grid: their last samples are then written several times, to one value.
            place = (x[:, :, None, None] * ny + y[:, None, :, None]) * nz + z[:, None, None, :]
            self.values.reshape(-1)[place] = -self.width


def _boundary(mesh: Mesh) -> Mesh:
    """The edges of a mesh that its faces do not pass equally often both ways, as triangles without area."""
    edges = namespace(mesh.device).asarray(mesh.topology.unbalanced_edges("position")[0])
    return Mesh(mesh.vertices_array, edges[:, [0, 1, 1]])


def fill_narrow_band(
    mesh: Mesh,
    method: str,
    values: Any,
    corner: np.ndarray,
    step: float,
    width: float,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Fill a grid with signed distances, cut at `width`.

    Args:
        mesh: with faces.
        method: of the sign, one that `blocks_have_signs`.
        values: (nx, ny, nz) to write to.
        corner: where sample (0, 0, 0) is, in the mesh's frame.
        step: between samples.
        width: half the band's, in world units.
        progress: called with (done, total) blocks of the first size.
    """
    filler = _Filler(mesh, method, values, corner, step, width)
    xp, shape = filler.xp, values.shape
    counts = [-(-n // LARGEST) for n in shape]
    # Most blocks are far outside: one write is quicker than one for each.
    values[...] = width
    total = math.prod(counts)
    height = max(1, CHUNK[mesh.device] // LARGEST**2)
    for start in range(0, total, height):
        index = xp.arange(start, min(start + height, total))
        lower = xp.stack([index // (counts[1] * counts[2]), index // counts[2] % counts[1], index % counts[2]], axis=1)
        _fill_blocks(filler, lower * LARGEST, LARGEST)
        if progress is not None:
            progress(start + len(index), total)


def _fill_blocks(filler: _Filler, lower: Any, size: int) -> None:
    """Fill blocks, and the halves of those near the surface: few enough at a time to bound the scratch memory."""
    if size == 1:
        filler.samples(lower)
        return
    lower = filler.blocks(lower, size)
    step = max(1, CHUNK[filler.mesh.device] // 8)
    for start in range(0, len(lower), step):
        halves = _halves(filler.xp, lower[start : start + step], size // 2, filler.values.shape)
        _fill_blocks(filler, halves, size // 2)


def _halves(xp: Any, lower: Any, size: int, shape: tuple[int, ...]) -> Any:
    """The blocks of a size in those of twice that size which begin inside the grid."""
    side = size * xp.arange(2)
    offsets = xp.stack(xp.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
    parts = (lower[:, None] + offsets).reshape(-1, 3)
    return parts[(parts < xp.asarray(shape)).all(axis=1)]
