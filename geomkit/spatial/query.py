"""What all queries share: checked points in an order that makes neighbours follow one another, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from geomkit.arrays import Library, as_array, library_of
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.runtime.device import empty, namespace, sort_order
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.bvh import code_grid

__all__ = ["Points", "Query", "n_groups"]

point_codes = Kernel(
    "spatial/morton.cu",
    "point_codes",
    "const real* points, double lx, double ly, double lz, double sx, double sy, double sz, int bits, uint64* codes",
)

CHUNK = 1 << 20  # queries at a time: bounds the scratch memory of sorting, about 40 bytes each
GROUP = 64  # on the CPU neighbouring queries share a traversal
BITS = 7  # cells an axis of the grid that orders queries, as a power of two: enough to fill groups with neighbours


def n_groups(n: int, device: str) -> int:
    """Number of items of a kernel that answers n queries in groups."""
    return -(-n // GROUP) if device == "cpu" else n


class Query:
    """What a query is asked with: a mesh, N rows of arrays of any library, and the library to give results back in.

    Args:
        op: the public function, for messages.
        mesh: a Mesh or an object with `.vertices` and `.faces`.
        rows: (N, 3) numbers of any array library, by name; the first says N and the library of the results.

    Attributes:
        mesh: the Mesh.
        arrays: (N, 3) NumPy or CuPy arrays of the mesh's dtype, in the order given.
        library: the library to give results back in: that of the rows, else that of the mesh.
    """

    def __init__(self, op: str, mesh: Any, **rows: Any):
        self.mesh: Mesh = as_mesh(mesh)
        self.op, self.device, self.dtype = op, self.mesh.device, self.mesh.dtype
        self.library: Library = library_of(*rows.values(), self.mesh.vertices)
        name = next(iter(rows))
        if self.library.device != self.device:
            raise ValueError(message(op, name, f"an array on {self.device}, as the mesh", self.library.device))
        self.arrays: list[Any] = []
        for name, values in rows.items():
            shape = (len(self.arrays[0]) if self.arrays else "N", 3)
            self.arrays.append(
                as_array(values, op=op, name=name, shape=shape, dtype=self.dtype, device=self.device)
            )

    def __len__(self) -> int:
        return len(self.arrays[0])

    def check_finite(self, array: Any, name: str, one: str) -> None:
        """Raise a ValueError that names the first row of an array that is not finite."""
        xp = namespace(self.device)
        if not xp.isfinite(array).all():
            self.refuse(~xp.isfinite(array).all(axis=1), array, name, one, "finite numbers")

    def refuse(self, bad: Any, array: Any, name: str, one: str, expected: str) -> NoReturn:
        """Raise a ValueError that counts the bad rows of an array and shows the first."""
        first = int(bad.argmax())
        got = f"{int(bad.sum())} that are not, the first is {one} {first}: {array[first].tolist()}"
        raise ValueError(message(self.op, name, expected, got))

    def cotangent(self, name: str, value: Any, shape: tuple[int, ...]) -> Any:
        """A cotangent as an array of this device and precision; zeros for None."""
        if value is None:
            return namespace(self.device).zeros(shape, self.dtype)
        return as_array(value, op=f"{self.op}.adjoint", name=name, shape=shape, dtype=self.dtype, device=self.device)

    def empty(self, *shape: int, dtype: Any = None) -> Any:
        return empty(self.device, (len(self), *shape), self.dtype if dtype is None else dtype)

    def full(self, value: float, *shape: int, dtype: Any = None) -> Any:
        return namespace(self.device).full((len(self), *shape), value, self.dtype if dtype is None else dtype)


class Points(Query):
    """Query points, checked and ready for the mesh's device and precision.

    Args:
        op: the public function, for messages.
        mesh: a Mesh or an object with `.vertices` and `.faces`.
        points: (N, 3) numbers of any array library.

    Attributes:
        array: (N, 3) NumPy or CuPy array of the mesh's dtype.
    """

    def __init__(self, op: str, mesh: Any, points: Any):
        super().__init__(op, mesh, points=points)
        self.array = self.arrays[0]
        self.check_finite(self.array, "points", "point")

    def chunks(self) -> Iterator[tuple[slice, Any, Any]]:
        """For each chunk: where it lies, its points, and the order in which to answer them."""
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            points = self.array[part]
            yield part, points, self._order(points)

    def _order(self, points: Any) -> Any:
        n = len(points)
        if n <= GROUP:
            return namespace(self.device).arange(n, dtype=np.int32)
        codes = empty(self.device, n, np.uint64)
        lower, cells = code_grid(points, BITS)
        point_codes(n, points, *lower, *cells, BITS, codes)
        return sort_order(codes, 3 * BITS)
