"""Handles: objects of geomkit that kernels take as parameters, by type and never as a number."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.arrays import describe
from geomkit.errors import message
from geomkit.lang.types import HANDLES, Scalar, Type, f32, f64
from geomkit.runtime.kernel import STRUCTS
from geomkit.spatial.hash_grid import HashGrid

__all__ = ["BoundHandle", "Handle", "HashGridHandle", "in_precision"]


class Handle(Type):
    """The type of a parameter that is an object of geomkit.

    Attributes:
        scalar: its precision, that of the kernel; None before the kernel's other parameters are known.
        header: what its functions need in C++.
        c: its structure in C++.
        size: of the structure, in bytes.
        differentiable: whether it has gradients.
    """

    public: type
    header = ""
    c = ""
    size = 0
    differentiable = False

    def __init__(self, scalar: Scalar | None = None):
        self.scalar = scalar
        self.name = self.public.__name__

    @property
    def dtype(self) -> np.dtype:
        """That of its gradient."""
        assert self.scalar is not None
        return self.scalar.dtype

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.scalar is self.scalar  # pyright: ignore

    def __hash__(self) -> int:
        return hash((type(self), self.scalar))

    def bound(self, kernel: str, parameter: str, x: Any, functions: frozenset[str]) -> BoundHandle:
        """An argument, checked; functions are those that the kernel calls with it.

        Raises:
            TypeError: it is no such object, or of another precision than the kernel.
        """
        raise NotImplementedError

    def check(self, kernel: str, parameter: str, x: Any) -> None:
        """Refuse what is no such object, or has another precision.

        Raises:
            TypeError: it is.
        """
        self.check_kind(kernel, parameter, x)
        self.check_precision(kernel, parameter, x.dtype)

    def check_kind(self, kernel: str, parameter: str, x: Any) -> None:
        """Refuse what is no such object.

        Raises:
            TypeError: it is.
        """
        if not isinstance(x, self.public):
            raise TypeError(message(kernel, parameter, f"a gk.{self.name}", describe(x)))

    def check_precision(self, kernel: str, parameter: str, dtype: np.dtype) -> None:
        """Refuse an object of another precision than the kernel.

        Raises:
            TypeError: it is.
        """
        assert self.scalar is not None
        if dtype != self.scalar.dtype:
            expected = f"a gk.{self.name} of {self.scalar.dtype}, as the kernel's other parameters"
            raise TypeError(message(kernel, parameter, expected, f"one of {dtype}: {self.instead()}"))

    def instead(self) -> str:
        """How an object of the kernel's precision is made."""
        raise NotImplementedError


class BoundHandle:
    """A checked argument.

    Attributes:
        value: the object.
        device: "cpu" or "cuda".
        found: what the interpreter has found out with it.
    """

    def __init__(self, value: Any, device: str):
        self.value, self.device = value, device
        self.found: list[Any] = []

    @property
    def gradient_shape(self) -> tuple[int, ...]:
        """The shape of its gradient, if it has one."""
        raise NotImplementedError

    def recognizer(self, given: Any) -> Callable[[Any], bool]:
        """A function that tells whether an argument is the one given here, with nothing changed that was packed."""
        own = weakref.ref(given)
        return lambda x: x is own()

    def pack(self, grad: int | None) -> bytes:
        """The structure as C++ has it; grad is where gradients go, or 0 for nowhere, or None before the adjoint."""
        raise NotImplementedError


class HashGridHandle(Handle):
    """A `gk.HashGrid`."""

    public = HashGrid
    header = "neighbors.h"
    c = "gk::HashGrid"
    layout = struct.Struct("".join(code for _, code in STRUCTS["HashGrid"]))
    size = layout.size

    def bound(self, kernel: str, parameter: str, x: Any, functions: frozenset[str]) -> BoundHandle:
        self.check(kernel, parameter, x)
        return _BoundHashGrid(x, x.device)

    def instead(self) -> str:
        assert self.scalar is not None
        return f"write gk.HashGrid(points.astype(np.{self.scalar.dtype}), radius)"


class _BoundHashGrid(BoundHandle):
    def pack(self, grad: int | None) -> bytes:
        return HashGridHandle.layout.pack(*self.value.struct().fields)


HANDLES[HashGrid] = HashGridHandle()


def in_precision(t: Type, precision: Scalar) -> Type:
    """A parameter's type, if it is a handle that of this precision."""
    if not isinstance(t, Handle):
        return t
    assert precision in (f32, f64)
    return type(t)(precision)


def neighbor_lists(bound: BoundHandle, points: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For the interpreter: where in `bound.found` the neighbours of each point lie, [begin, end).

    Args:
        bound: a hash grid.
        points: (N, 3).
        radius: (N,), of each.
    """
    begin, end = np.zeros(len(points), np.int32), np.zeros(len(points), np.int32)
    valid = np.isfinite(points).all(axis=1) & (radius > 0)
    for one in np.unique(radius[valid]):
        lanes = np.flatnonzero(valid & (radius == one))
        offsets, indices = bound.value.neighbors(points[lanes], radius=float(one))
        start = len(bound.found)
        bound.found.extend(np.asarray(indices).tolist())
        begin[lanes], end[lanes] = start + np.asarray(offsets)[:-1], start + np.asarray(offsets)[1:]
    return begin, end
