"""A field sampled on a regular grid, checked, and the signs of its rows, from which isosurfaces are extracted."""

from __future__ import annotations

import math
import reprlib
from typing import Any

import numpy as np

from geomkit.arrays import Library, as_array, describe, library_of, precision_of
from geomkit.errors import message
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["GRID", "SIGNS", "Field", "one_of", "triple"]

# Rows of the signatures that all kernels on fields share.
GRID = "const real* samples, int nx, int ny, int nz, int pad, real level"
SIGNS = "const uint* words, const uint* live, int use_live"

sample_signs = Kernel("implicit/field.cu", "sample_signs", f"{GRID}, uint* words, int* found", grain=2048)
live_cells = Kernel("implicit/field.cu", "live_cells", f"{GRID}, uint* live", grain=512)


class Field:
    """Samples of a field and where they are.

    Args:
        op: the public function, for messages.
        field: (X, Y, Z) numbers of any array library; sample (i, j, k) is at origin + spacing * (i, j, k).
        level: the value of the surface.
        spacing: between samples: a number, or three.
        origin: where sample (0, 0, 0) is: a number, or three.
        boundary: "open", or "cap" for a layer of outside around the samples.

    Attributes:
        array: the samples, NumPy or CuPy, C-contiguous.
        level, spacing, origin: a float and two lists of three.
        pad: number of layers around the samples, 0 or 1.
        rows: number of rows, those of the layer included.
        grid: the first arguments of the kernels.
        frame: spacing and origin, as arguments of the kernels.
        key: what decides on the edges besides the samples.
    """

    def __init__(self, op: str, field: Any, level: Any, spacing: Any, origin: Any, boundary: str):
        self.op = op
        self.library: Library = library_of(field)
        self.device, self.dtype = self.library.device, precision_of(field)
        self.array = as_array(field, op=op, name="field", shape=("X", "Y", "Z"), dtype=self.dtype, device=self.device)
        number = as_array(level, op=op, name="level", shape=(), dtype=np.float64)
        self.level = float(number)
        if not abs(self.level) <= float(np.finfo(self.dtype).max):
            raise ValueError(message(op, "level", f"a finite number in the range of {self.dtype}", repr(self.level)))
        self.spacing = triple(op, "spacing", spacing)
        if not min(self.spacing) > 0:
            raise ValueError(message(op, "spacing", "positive numbers", reprlib.repr(spacing)))
        self.origin = triple(op, "origin", origin)
        self._check_range()
        one_of(op, "boundary", boundary, ("open", "cap"))
        self.pad = int(boundary == "cap" and self.array.size > 0)
        self.shape = tuple(int(n) + 2 * self.pad for n in self.array.shape)
        # Nothing is between samples where there are not two.
        self.rows = self.shape[0] * self.shape[1] if min(self.shape) >= 2 else 0
        self.grid = (self.array, *self.array.shape, self.pad, self.level)
        self.key = (self.array.shape, self.dtype, self.device, self.level, self.pad)
        self.frame = (*self.spacing, *self.origin)

    def signs(self) -> tuple[Any, Any, int]:
        """Which samples are below the level, a bit each, and which cells have no NaN: the kernels' arguments SIGNS."""
        n = self.rows * -(-self.shape[2] // 32)
        words, found = empty(self.device, n, np.uint32), zeros(self.device, 1, np.int32)
        sample_signs(n, *self.grid, words, found)
        holes = int(found[0])
        live = empty(self.device, n if holes else 0, np.uint32)
        if holes:
            live_cells(n, *self.grid, live)
        return words, live, holes

    def cotangent(self, name: str, value: Any, shape: tuple) -> Any:
        """A cotangent as an array of this device and precision."""
        return as_array(value, op=f"{self.op}.adjoint", name=name, shape=shape, dtype=self.dtype, device=self.device)

    def wrap(self, array: Any) -> Any:
        """An array of NumPy's or CuPy's in the library and precision of the field."""
        return self.library.wrap(namespace(self.device).asarray(array, dtype=self.dtype))

    def _check_range(self) -> None:
        bound = float(np.finfo(self.dtype).max)
        for n, step, start in zip(self.array.shape, self.spacing, self.origin, strict=True):
            if not abs(start) + (n + 1) * step < bound:
                expected = f"a grid within the range of {self.dtype}"
                raise ValueError(message(self.op, "spacing, origin", expected, f"{self.spacing}, {self.origin}"))


def triple(op: str, name: str, value: Any) -> list[float]:
    """A number, or three of them, as three.

    Raises:
        ValueError, TypeError: anything else; a number that is not finite.
    """
    try:
        shape = () if np.ndim(value) == 0 else (3,)
    except ValueError as error:
        raise ValueError(message(op, name, "a number, or three", describe(value))) from error
    array = as_array(value, op=op, name=name, shape=shape, dtype=np.float64)
    numbers = np.broadcast_to(array, (3,)).tolist()
    if not all(map(math.isfinite, numbers)):
        raise ValueError(message(op, name, "finite numbers", reprlib.repr(value)))
    return numbers


def one_of(op: str, name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse what is not one of the allowed strings."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(message(op, name, f"one of {', '.join(map(repr, allowed))}", reprlib.repr(value)))
