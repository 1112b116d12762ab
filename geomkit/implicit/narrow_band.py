"""Signed distances near a surface only: blocks of samples that are far from it get a sign and a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.implicit.signed_distance import distance
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import namespace
from geomkit.spatial.query import Points

__all__ = ["fill_narrow_band"]

LARGEST = 16  # samples along a side of the first blocks
CHUNK = {"cpu": 1 << 18, "cuda": 1 << 21}  # samples at a time


class _Filler:
    """The samples of a grid, which blocks write to."""

    def __init__(self, mesh: Mesh, method: str, values: Any, corner: np.ndarray, step: float, width: float):
        self.mesh, self.method, self.values, self.corner, self.step = mesh, method, values, corner, step
        self.width = width  # of the band, in world units
        self.xp = namespace(mesh.device)

    def distances(self, at: Any) -> Any:
        """Signed distances at (N, 3) places in index coordinates."""
        xp = self.xp
        points = (xp.asarray(self.corner) + self.step * at).astype(self.values.dtype)
        return distance(Points("sdf_grid", self.mesh, points), self.method)

    def blocks(self, lower: Any, size: int) -> Any:
        """Fill the blocks that are far inside the surface; return the lower corners of those near to it.

        Those far outside are left as they are. The middle of a block tells: no sample of it is nearer to the surface
        than its distance less half the diagonal.
        """
        middle = lower + 0.5 * (size - 1)
        d = self.distances(middle)
        reach = 0.5 * math.sqrt(3) * (size - 1) * self.step
        far = abs(d) > (reach + self.width) * (1 + 1e-5)
        self._fill_inside(lower[far & (d < 0)], size)
        return lower[~far]

    def samples(self, at: Any) -> None:
        """Write the distances at samples, cut at the width of the band."""
        d = self.xp.clip(self.distances(at), -self.width, self.width)
        self.values[at[:, 0], at[:, 1], at[:, 2]] = d

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
        method: of the sign.
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
    total, sides = math.prod(counts), _sides(LARGEST)
    height = max(1, CHUNK[mesh.device] // LARGEST**2)
    for start in range(0, total, height):
        index = xp.arange(start, min(start + height, total))
        lower = xp.stack([index // (counts[1] * counts[2]), index // counts[2] % counts[1], index % counts[2]], axis=1)
        lower = filler.blocks(lower * LARGEST, LARGEST)
        for size, smaller in zip(sides, sides[1:], strict=False):
            lower = _parts(xp, lower, size // smaller, smaller, shape)
            if smaller > 1:
                lower = filler.blocks(lower, smaller)
        for begin in range(0, len(lower), CHUNK[mesh.device]):
            filler.samples(lower[begin : begin + CHUNK[mesh.device]])
        if progress is not None:
            progress(start + len(index), total)


def _sides(largest: int) -> list[int]:
    """The sizes of blocks, each half the one before, down to a sample."""
    return [largest >> k for k in range(largest.bit_length())]


def _parts(xp: Any, lower: Any, ratio: int, size: int, shape: tuple[int, ...]) -> Any:
    """The blocks of a size in larger ones, as many along a side as the ratio says, that begin inside the grid."""
    side = size * xp.arange(ratio)
    offsets = xp.stack(xp.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
    parts = (lower[:, None] + offsets).reshape(-1, 3)
    return parts[(parts < xp.asarray(shape)).all(axis=1)]
