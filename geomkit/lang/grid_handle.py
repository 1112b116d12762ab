"""Sampled grids as parameters of kernels."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.arrays import as_array, library_of, precision_of
from geomkit.errors import message
from geomkit.implicit.field import triple
from geomkit.implicit.grid import SdfGrid
from geomkit.lang.handles import BoundHandle, Handle
from geomkit.lang.types import HANDLES
from geomkit.runtime.device import address

__all__ = ["BoundGrid", "GridHandle"]


class GridHandle(Handle):
    """A `gk.SdfGrid`."""

    public = SdfGrid
    header = "grid_query.h"
    c = "gk::GridHandle"
    layout = struct.Struct("PPiiidddddd")
    size = layout.size
    differentiable = True

    def bound(self, kernel: str, parameter: str, x: Any, functions: frozenset[str]) -> BoundGrid:
        assert self.scalar is not None
        self.check_kind(kernel, parameter, x)
        x = x.plain_with(None)
        self.check_precision(kernel, parameter, precision_of(x.values))
        device, shape = library_of(x.values).device, ("X", "Y", "Z")
        name = f"{parameter}.values"
        values = as_array(x.values, op=kernel, name=name, shape=shape, dtype=self.scalar.dtype, device=device)
        if not values.size:
            raise ValueError(message(kernel, parameter, "at least one sample", str(values.shape)))
        step = triple(kernel, f"{parameter}.spacing", x.spacing)
        if not min(step) > 0:
            raise ValueError(message(kernel, f"{parameter}.spacing", "positive numbers", repr(x.spacing)))
        place = (*step, *triple(kernel, f"{parameter}.origin", x.origin))
        return BoundGrid(x._replace(values=values), device, place)

    def instead(self) -> str:
        assert self.scalar is not None
        return f"write grid._replace(values=grid.values.astype(np.{self.scalar.dtype}))"


class BoundGrid(BoundHandle):
    """A grid and where it is: spacing and origin."""

    value: SdfGrid

    def __init__(self, grid: SdfGrid, device: str, place: tuple[float, ...]):
        super().__init__(grid, device)
        self.place = place

    @property
    def gradient_shape(self) -> tuple[int, ...]:
        return np.shape(self.value.values)

    def recognizer(self, given: Any) -> Callable[[Any], bool]:
        # (A plain array may have been copied to be contiguous, or be another library's.)
        own = weakref.ref(given.values) if given.values is self.value.values else lambda: None
        place = self.place

        def is_known(x: Any) -> bool:
            step, origin = (x.spacing,) * 3 if isinstance(x.spacing, float) else tuple(x.spacing), tuple(x.origin)
            return x.values is own() and x.values is not None and (*step, *origin) == place

        return is_known

    def pack(self, grad: int | None) -> bytes:
        values = self.value.values
        return GridHandle.layout.pack(address(values), grad or 0, *values.shape, *self.place)


HANDLES[SdfGrid] = GridHandle()
