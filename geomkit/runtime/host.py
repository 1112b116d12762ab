"""The CPU side: the compiled kernel libraries, the thread pool, and what the processor can do."""

from __future__ import annotations

import ctypes
import hashlib
import operator
import os
import sysconfig
from functools import cache
from pathlib import Path

import numpy as np

from geomkit.errors import DeviceError

MAX_THREADS = 1024
ADDRESS = ctypes.c_void_p  # the type of what a function of a library returns
REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


@cache
def library_folder() -> Path:
    """The folder of the compiled libraries: beside this package, or, run from a checkout, that of the installed one."""
    here = Path(__file__).resolve().parent.parent / "_lib"
    installed = Path(sysconfig.get_paths()["platlib"]) / "geomkit" / "_lib"
    for folder in (here, installed):
        if (folder / "geomkit_host.so").exists():
            return folder
    raise DeviceError(f"the compiled kernels are missing (looked in {here} and {installed}): run `pip install .`")


@cache
def kernel_folder() -> Path:
    """The folder of the kernels' text, which NVRTC compiles: the checkout's `cuda`, or the installed copy."""
    package = Path(__file__).resolve().parent.parent
    installed = Path(sysconfig.get_paths()["platlib"]) / "geomkit" / "_kernels"
    for folder in (package / "_kernels", package.parent / "cuda", installed):
        if (folder / "core" / "platform.h").exists():
            return folder
    raise DeviceError("the kernels' source text is missing: run `pip install .`")


def source_digest(folder: Path) -> str:
    """Digest of all C++ text in a checkout's `cuda`, as `cuda/CMakeLists.txt` computes it for the libraries."""
    files = [f for pattern in ("*.h", "*.cpp", "*.cu") for f in folder.rglob(pattern)]
    files.sort(key=lambda f: f.relative_to(folder).as_posix())
    digests = "".join(hashlib.sha256(f.read_bytes()).hexdigest() for f in files)
    return hashlib.sha256(digests.encode()).hexdigest()


@cache
def host_library() -> ctypes.CDLL:
    """Thread pool and sorting, the same for every instruction set.

    Raises:
        DeviceError: this is a checkout whose kernels have changed since the libraries were built.
    """
    library = ctypes.CDLL(str(library_folder() / "geomkit_host.so"))
    library.gk_source_digest.restype = ctypes.c_char_p
    source = Path(__file__).resolve().parent.parent.parent / "cuda"
    if (source / "CMakeLists.txt").exists() and source_digest(source) != library.gk_source_digest().decode():
        raise DeviceError(f"the compiled kernels in {library_folder()} are not those of {source}: run `pip install .`")
    library.gk_parallel.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
    library.gk_parallel.restype = None
    library.gk_set_threads.restype = None
    wanted = os.environ.get("GEOMKIT_NUM_THREADS")
    if wanted and not (wanted.isdecimal() and 1 <= int(wanted) <= MAX_THREADS):
        raise DeviceError(f"GEOMKIT_NUM_THREADS={wanted}: expected a number from 1 to {MAX_THREADS}")
    return library


def levels() -> list[str]:
    """The instruction sets that were built and that this processor has, best first."""
    best = host_library().gk_x86_level()
    names = ["portable"] if best == 0 else [f"x86-64-v{n}" for n in range(best, 1, -1)]
    return [name for name in names if (library_folder() / f"geomkit_{name}_float.so").exists()]


@cache
def instruction_set() -> str:
    """The instruction set in use: the best one, or the one named by the environment variable GEOMKIT_CPU."""
    found = levels()
    wanted = os.environ.get("GEOMKIT_CPU") or None
    if wanted is not None and wanted not in found:
        raise DeviceError(f"GEOMKIT_CPU={wanted}: expected one of {', '.join(found)}")
    if not found:
        raise DeviceError("this processor has none of the built instruction sets; x86-64 needs SSE4.2")
    return wanted if wanted is not None else found[0]


@cache
def kernel_library(dtype: np.dtype) -> ctypes.CDLL:
    """All kernels in one precision, for this processor."""
    library = ctypes.CDLL(str(library_folder() / f"geomkit_{instruction_set()}_{REAL[dtype]}.so"))
    library.gk_connect(ctypes.cast(host_library().gk_parallel, ctypes.c_void_p))
    return library


def num_threads() -> int:
    """Number of CPU threads that a launch uses."""
    return host_library().gk_threads()


def set_num_threads(n: int) -> None:
    """Set the number of CPU threads. Results do not depend on it.

    Args:
        n: at least 1. At import it is the environment variable GEOMKIT_NUM_THREADS, or the number of processors.

    Raises:
        ValueError: n is less than 1 or more than 1024.
        TypeError: n is not an integer.
    """
    n = operator.index(n)
    if not 1 <= n <= MAX_THREADS:
        raise ValueError(f"set_num_threads: n: expected 1 to {MAX_THREADS}, got {n}")
    host_library().gk_set_threads(n)


def pointer(array: np.ndarray) -> int:
    """Address of an array's first element."""
    return array.ctypes.data


def sort_order(keys: np.ndarray, bits: int) -> np.ndarray:
    """Stable permutation that sorts unsigned keys.

    Args:
        keys: (N,) uint64.
        bits: only the low bits count.
    """
    order = np.empty(len(keys), np.int32)
    host_library().gk_sort_order(
        ctypes.c_void_p(pointer(keys)), ctypes.c_int(len(keys)), ctypes.c_int(bits), ctypes.c_void_p(pointer(order))
    )
    return order


def aligned_empty(n: int, dtype: np.dtype) -> np.ndarray:
    """An uninitialised array of structures that starts on a cache line."""
    size = n * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -pointer(raw) % 64
    return raw[start : start + size].view(dtype)


@cache
def keep_freed_memory() -> None:
    """Have the C library keep memory that is freed, up to 64 MB, for the next arrays.

    Glibc gives large blocks back at once, and each of their pages costs a fault when it is asked for again: a fifth of
    an image's time. A block of just under 32 MB that was freed is what raises its thresholds, once for all.
    """
    np.empty((32 << 20) - (64 << 10), np.uint8)


def sah_build(n: int, vertices: np.ndarray, faces: np.ndarray, place: np.ndarray, *outputs: np.ndarray) -> None:
    """Build the tree of n > 0 faces; `cuda/host/sah_build.cpp` says what the outputs are.

    Raises:
        RuntimeError: the tree would be deeper than queries allow for.
        MemoryError: not enough memory.
    """
    arrays = (ctypes.c_void_p(pointer(a)) for a in (vertices, faces, place, *outputs))
    status = kernel_library(vertices.dtype).gk_sah_build(ctypes.c_int(n), *arrays)
    if status == 1:
        raise RuntimeError("Bvh: the tree is too deep")
    if status == 2:
        raise MemoryError(f"Bvh: not enough memory to build the tree of {n} faces")
