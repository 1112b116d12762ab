"""Functions of the shared headers that kernels call with a handle: what they give, and what they are with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from geomkit.lang.handles import BoundHandle, neighbor_lists

__all__ = ["NATIVES", "Native", "NativeCall"]


class NativeCall(NamedTuple):
    """The attribute of an operation: the function, and the parameter that is its handle."""

    function: str
    handle: str


class Native(NamedTuple):
    """A function.

    Attributes:
        interpret: it with NumPy, of the handle and the arguments of the threads that run.
    """

    interpret: Callable[[BoundHandle, list[np.ndarray]], list[Any]]


def _neighbor_ball(bound: BoundHandle, args: list[np.ndarray]) -> list[Any]:
    # One row of a list that the public function makes, in place of the rows of the grid.
    begin, end = neighbor_lists(bound, np.stack(args[:3], axis=1), args[3])
    none = np.zeros_like(begin)
    return [(end > begin).astype(np.int32), begin, end, none, none, none, none]


NATIVES: dict[str, Native] = {
    "neighbor_ball": Native(_neighbor_ball),
    "neighbor_row": Native(lambda bound, args: [args[1], args[2]]),
    "neighbor_test": Native(lambda bound, args: [np.ones(len(args[0]), bool)]),
    "neighbor_index": Native(lambda bound, args: [np.asarray(bound.found, np.int32)[args[0]]]),
}
