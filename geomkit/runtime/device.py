"""What differs between NumPy on the CPU and CuPy on CUDA, and nothing else."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from geomkit.runtime import host


def namespace(device: str) -> ModuleType:
    """NumPy for "cpu", CuPy for "cuda"."""
    if device == "cpu":
        return np
    from geomkit.runtime import cuda

    return cuda.cupy()


def device_of(array: Any) -> str:
    return "cpu" if isinstance(array, np.ndarray) else "cuda"


def address(array: Any) -> int:
    """Where an array's numbers lie, as a pointer in a structure that a kernel takes; 0 for None."""
    if array is None:
        return 0
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def empty(device: str, shape: int | tuple[int, ...], dtype: Any) -> Any:
    return namespace(device).empty(shape, dtype)


def zeros(device: str, shape: int | tuple[int, ...], dtype: Any) -> Any:
    return namespace(device).zeros(shape, dtype)


def sort_order(keys: Any, bits: int) -> Any:
    """Stable permutation, int32, that sorts uint64 keys of which only the low `bits` count."""
    if isinstance(keys, np.ndarray):
        return host.sort_order(keys, bits)
    return namespace("cuda").argsort(keys, kind="stable").astype(np.int32)
