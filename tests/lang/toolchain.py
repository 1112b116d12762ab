"""Small C++ programs on the headers of the kernel language, compiled as it does and called with NumPy arrays."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "cuda" / "lang"
FLAGS = (
    "-O3 -march=native -std=c++17 -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti -fopenmp-simd -fPIC "
    "-shared -Wall -Wextra -Werror -Wno-psabi"
).split()
REALS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


def compiler() -> str:
    """The C++ compiler of this machine, or a skipped test."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++", "c++"):
        if name and shutil.which(name):
            return name
    pytest.skip("no C++ compiler on the PATH")


def build(folder: Path, text: str, *, cxx: str | None = None, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile a text that includes headers by name, and load it."""
    source, target = folder / "program.cpp", folder / "program.so"
    source.write_text(text)
    command = [cxx or compiler(), *FLAGS, *flags, f"-I{FOLDER}", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(target))


def call(library: ctypes.CDLL, name: str, *arrays: np.ndarray) -> None:
    """Run `name(n, array, ...)`, n the length of the first array."""
    assert all(a.flags.c_contiguous for a in arrays)
    getattr(library, name)(ctypes.c_int(len(arrays[0])), *(ctypes.c_void_p(a.ctypes.data) for a in arrays))
