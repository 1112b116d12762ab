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


def empty(device: str, shape: int | tuple[int, ...], dtype: Any) -> Any:
    return namespace(device).empty(shape, dtype)


def zeros(device: str, shape: int | tuple[int, ...], dtype: Any) -> Any:
    return namespace(device).zeros(shape, dtype)


def sort_order(keys: Any, bits: int) -> Any:
    """Stable permutation, int32, that sorts uint64 keys of which only the low `bits` count."""
    if isinstance(keys, np.ndarray):
        return host.sort_order(keys, bits)
    return namespace("cuda").argsort(keys, kind="stable").astype(np.int32)
