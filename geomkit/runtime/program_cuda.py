"""Programs of the kernel language on CUDA: text in, machine code in the cache, launches."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from geomkit.runtime import cache as kernel_cache, cuda, host, nvrtc

_functions: dict[tuple[int, str, str], Any] = {}


def cubin(text: str, *, architecture: str, compiler: nvrtc.Library | None = None) -> bytes:
    """Machine code of a program's text, from the cache or else compiled and kept there.

    Args:
        text: C++; it includes headers of cuda/lang.
        architecture: such as "sm_90".
        compiler: the newest on this machine if None.

    Raises:
        DeviceError: the compiler is missing, or the text does not compile.
    """
    # NVRTC looks for a program's headers where it lies, and the cache hashes them from there.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.cu"
        path.write_text(text.replace('#include "', f'#include "{host.kernel_folder() / "lang"}/'))
        real = "double" if "#define GK_REAL double" in text else "float"
        return kernel_cache.cubin(path, architecture=architecture, real=real, compiler=compiler)


def launch(text: str, entry: str, block: bytes, total: int) -> None:
    """Run the threads 0 to total - 1 of a program on the current device and stream.

    Raises:
        DeviceError: there is no device, or the text does not compile.
    """
    xp = cuda.cupy()
    device = xp.cuda.runtime.getDevice()
    key = device, entry, hashlib.sha256(text.encode()).hexdigest()
    if key not in _functions:
        compiler = nvrtc.library(xp.cuda.runtime.driverGetVersion() // 1000)
        properties = xp.cuda.runtime.getDeviceProperties(device)
        name = cuda.architecture((properties["major"], properties["minor"]), compiler)
        module = xp.cuda.function.Module()
        module.load(cubin(text, architecture=name, compiler=compiler))
        _functions[key] = module.get_function(entry)
    # CuPy passes a NumPy array of one element by value.
    argument = np.frombuffer(block, np.dtype((np.void, len(block))))
    _functions[key]((cuda.blocks(total),), (cuda.THREADS,), (argument[0],))
