"""A grid over points that finds all of them within a radius."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, as_array, library_of, precision_of
from geomkit.errors import message
from geomkit.mesh.box import point_bounds
from geomkit.runtime.device import address, empty, namespace, sort_order
from geomkit.runtime.kernel import Kernel

__all__ = ["HashGrid", "HashGridStruct", "Neighbors"]

_SOURCE = "spatial/hash_grid.cu"
hash_grid_cells = Kernel(_SOURCE, "hash_grid_cells", "HashGrid grid, const real* points, uint64* keys")
hash_grid_sort = Kernel(
    _SOURCE,
    "hash_grid_sort",
    "int cells, const uint64* keys, const int* order, const real* points, int* start, real* sorted",
)
count_neighbors_fwd = Kernel(
    _SOURCE,
    "count_neighbors_fwd",
    "HashGrid grid, const real* points, const int* order, double radius, int* count",
    grain=256,
)
list_neighbors_fwd = Kernel(
    _SOURCE,
    "list_neighbors_fwd",
    "HashGrid grid, const real* points, const int* order, double radius, const uint64* offset, int* indices",
    grain=256,
)

MOST_CELLS = 1 << 30  # along an axis, as in the kernels
CELLS_A_POINT = 4  # a grid with more cells than that is folded


class Neighbors(NamedTuple):
    """The neighbours of each of M points: those of point i are indices[offsets[i] : offsets[i + 1]]."""

    offsets: Any  # (M + 1,) int64
    indices: Any  # int32, of the grid's points


class HashGrid:
    """A grid over points, for finding all that lie within a radius of a place.

    For particles and point clouds; for the points of a mesh's surface use `closest_point`. A grid is a snapshot of its
    points: after they have moved make a new one, which is one sort. Periodic boxes are not supported: add the points'
    images yourself. Kernels of your own take a grid as an argument.

    Args:
        points: (N, 3) numbers of any array library.
        radius: a positive length, near the radius that will be asked for: the side of a cell. Any other radius can be
            asked for too, more slowly.

    Attributes:
        points: (N, 3) float32, or float64 if they were given so; in the library of the caller.
        radius: as given.
        order: (N,) int32. The points from cell to cell: threads of a kernel that take them in this order, i =
            order[gk.tid()], find their neighbours in fast memory.

    Gradients:
        None: which points are neighbours is discrete. Follow the distances between them instead.

    Raises:
        ValueError: wrong shape, points that are not finite, a radius that is not positive.
        TypeError: wrong dtype, or points that track gradients: detach them.

    Cost: one radix sort, O(N).

    Example:
        >>> import geomkit as gk
        >>> grid = gk.HashGrid([[0.0, 0, 0], [1.0, 0, 0], [5.0, 0, 0]], 1.5)
        >>> offsets, indices = grid.neighbors()
        >>> offsets.tolist(), indices.tolist()
        ([0, 2, 4, 5], [0, 1, 0, 1, 2])
    """

    def __init__(self, points: Any, radius: float):
        self._library: Library = library_of(points)
        self.device, self.dtype = self._library.device, precision_of(points)
        self.radius = _radius("HashGrid", radius)
        array = self._checked("HashGrid", points)
        self._points = array.copy() if array is points or getattr(array, "base", None) is not None else array
        n = len(array)
        # The box in cells, in double: the cells of all points are found alike.
        lower, upper = point_bounds(array).astype(np.float64) if n else np.zeros((2, 3))
        extent = [int(min((u - low) / self.radius + 1, MOST_CELLS)) for low, u in zip(lower, upper, strict=True)]
        size, most = list(extent), max(CELLS_A_POINT * n, 64)
        while math.prod(size) > most:
            axis = size.index(max(size))
            size[axis] = -(-size[axis] // 2)
        self._place = (*lower.tolist(), 1 / self.radius, self.radius, *extent, *size)
        keys = empty(self.device, n, np.uint64)
        self._order = empty(self.device, n, np.int32)
        self._start: Any = None
        hash_grid_cells(n, self.struct(), self._points, keys)
        cells = math.prod(size)
        self._order = sort_order(keys, max(cells - 1, 1).bit_length())
        self._start = namespace(self.device).zeros(cells + 1, np.int32)
        self._sorted = empty(self.device, (3, n), self.dtype)
        hash_grid_sort(n, cells, keys, self._order, self._points, self._start, self._sorted)

    def __len__(self) -> int:
        return len(self._points)

    def __repr__(self) -> str:
        return f"HashGrid({len(self)} points, radius {self.radius:g}, {self.dtype})"

    @property
    def points(self) -> Any:
        return self._library.wrap(self._points)

    @property
    def order(self) -> Any:
        return self._library.wrap(self._order)

    def struct(self) -> HashGridStruct:
        """What a kernel takes by value."""
        return HashGridStruct(self)

    def _checked(self, op: str, points: Any) -> Any:
        array = as_array(points, op=op, name="points", shape=("N", 3), dtype=self.dtype, device=self.device)
        finite = namespace(self.device).isfinite(array)
        if not finite.all():
            bad = ~finite.all(axis=1)
            first = int(bad.argmax())
            got = f"{int(bad.sum())} that are not, the first is point {first}: {array[first].tolist()}"
            raise ValueError(message(op, "points", "finite numbers", got))
        return array

    def neighbors(self, points: Any = None, *, radius: float | None = None) -> Neighbors:
        """All points of the grid within a radius of each point, however many.

        Args:
            points: (M, 3) numbers of any array library; None stands for the points of the grid, of which each is its
                own neighbour.
            radius: a positive length; None is that of the grid. Points at just this distance count.

        Returns:
            A record in the library of `points`, else of the grid: `.offsets` (M + 1,) int64 and `.indices` int32, such
            that the neighbours of point i are indices[offsets[i] : offsets[i + 1]], in the order of the grid's cells:
            always the same, but not sorted.

        Gradients:
            None: which points are neighbours is discrete.

        Raises:
            ValueError: wrong shape, points that are not finite or on another device, a radius that is not positive.
            TypeError: wrong dtype, or points that track gradients: detach them.

        Cost: two visits of all points in the cells that the radius reaches.

        Example:
            >>> import geomkit as gk
            >>> gk.HashGrid([[0.0, 0, 0], [1.0, 0, 0]], 1.0).neighbors([[1.5, 0, 0]]).indices.tolist()
            [1]
        """
        reach = self.radius if radius is None else _radius("HashGrid.neighbors", radius)
        library = self._library if points is None else library_of(points, self._points)
        if library.device != self.device:
            expected = f"an array on {self.device}, as the grid"
            raise ValueError(message("HashGrid.neighbors", "points", expected, library.device))
        array = self._points if points is None else self._checked("HashGrid.neighbors", points)
        n, xp, grid = len(array), namespace(self.device), self.struct()
        offsets = xp.zeros(n + 1, np.int64)
        if n == 0 or len(self) == 0:
            return Neighbors(library.wrap(offsets), library.wrap(xp.empty(0, np.int32)))
        order = self._order
        if points is not None:
            keys = empty(self.device, n, np.uint64)
            hash_grid_cells(n, grid, array, keys)
            order = sort_order(keys, max(len(self._start) - 2, 1).bit_length())
        count = empty(self.device, n, np.int32)
        count_neighbors_fwd(n, grid, array, order, reach, count)
        xp.cumsum(count, dtype=np.int64, out=offsets[1:])
        indices = empty(self.device, int(offsets[-1]), np.int32)
        list_neighbors_fwd(n, grid, array, order, reach, offsets.view(np.uint64), indices)
        return Neighbors(library.wrap(offsets), library.wrap(indices))


class HashGridStruct:
    """The structure `HashGrid` of the kernels, for one launch."""

    def __init__(self, grid: HashGrid):
        self.dtype, self.device = grid.dtype, grid.device
        start = grid._start
        x, y, z = grid._sorted if start is not None else (None, None, None)
        self._keep_alive = (start, grid._order, x, y, z)
        self.fields = (*map(address, self._keep_alive), *grid._place)


def _radius(op: str, radius: Any) -> float:
    try:
        value = float(radius)
    except (TypeError, ValueError):
        raise TypeError(message(op, "radius", "a positive number", type(radius).__name__)) from None
    if not (0 < value < math.inf and 1 / value < math.inf):
        raise ValueError(message(op, "radius", "a positive number", repr(radius)))
    return value
