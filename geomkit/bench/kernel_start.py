"""Jobs `cold start` and `warm start` of `kernels`: a new process, with empty caches or with those of a run before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["start"]

# The library is imported and initialised first; what counts is from the definition of a kernel to the end of its first
# launch. For each library: what comes before, the module with the kernel, and the launch.
_TEXTS = {
    "geomkit": (
        "import geomkit",
        """
import geomkit as gk
@gk.kernel
def mathematics(x: gk.array(gk.f32), y: gk.array(gk.f32)):
    i = gk.tid()
    v = x[i]
    for _ in range(4):
        v = gk.sqrt(gk.exp(-v * v) + 1.5) + gk.sin(v)
    y[i] = v
""",
        "mathematics(16, x, y)",
    ),
    "warp": (
        """
import warp
warp.config.quiet, warp.config.kernel_cache_dir = True, folder
warp.init()
x, y = (warp.array(v, dtype=warp.float32, device="cpu") for v in (x, y))
""",
        """
import warp as wp
@wp.kernel
def mathematics(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    for _ in range(4):
        v = wp.sqrt(wp.exp(-v * v) + 1.5) + wp.sin(v)
    y[i] = v
""",
        'warp.launch(mathematics, 16, inputs=[x], outputs=[y], device="cpu")',
    ),
    "numba": (
        "import numba",
        """
import numpy as np
from numba import njit, prange
ONE_HALF = np.float32(1.5)
@njit(parallel=True, cache=True)
def mathematics(x, y):
    for i in prange(len(x)):
        v = x[i]
        for _ in range(4):
            v = np.sqrt(np.exp(-v * v) + ONE_HALF) + np.sin(v)
        y[i] = v
""",
        "mathematics(x, y)",
    ),
    "taichi": (
        """
import taichi
taichi.init(arch=taichi.cpu, log_level=taichi.ERROR, offline_cache=True, offline_cache_file_path=folder)
""",
        """
import taichi as ti
numbers = ti.types.ndarray(dtype=ti.f32, ndim=1)
@ti.kernel
def mathematics(x: numbers, y: numbers):
    for i in range(x.shape[0]):
        v = x[i]
        for _ in range(4):
            v = ti.sqrt(ti.exp(-v * v) + 1.5) + ti.sin(v)
        y[i] = v
""",
        "mathematics(x, y)",
    ),
    "jax": (
        """
import jax, jax.numpy
x = jax.numpy.asarray(x)
""",
        """
import jax, jax.numpy as jnp
@jax.jit
def mathematics(v):
    for _ in range(4):
        v = jnp.sqrt(jnp.exp(-v * v) + 1.5) + jnp.sin(v)
    return v
""",
        "mathematics(x).block_until_ready()",
    ),
}
_FRAME = """
import sys, time
import numpy as np
folder, x, y = sys.argv[1], np.ones(16, np.float32), np.ones(16, np.float32)
sys.path.insert(0, folder)
{}
begin = time.perf_counter()
from start_of_a_kernel import mathematics
{}
print("seconds", time.perf_counter() - begin)
"""


def start(key: str, *, warm: bool) -> float:
    """Seconds from the definition of a kernel to the end of its first launch.

    Args:
        key: of a peer, or "geomkit".
        warm: whether the same has run before, in another process.

    Raises:
        RuntimeError: the process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "start_of_a_kernel.py").write_text(_TEXTS[key][1])
        found = [_run(key, folder) for _ in range(3 if warm else 1)]
    return min(found[1:]) if warm else found[0]


def _run(key: str, folder: str) -> float:
    caches = {
        "GEOMKIT_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder, "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-c", _FRAME.format(_TEXTS[key][0], _TEXTS[key][2]), folder]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **caches})
    lines = [line for line in done.stdout.splitlines() if line.startswith("seconds ")]
    if done.returncode or not lines:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no time was printed")
    return float(lines[-1].split()[1])
