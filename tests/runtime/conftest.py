"""A CUDA device played by the CPU: the GPU side of the kernels' text built by g++, behind a stand-in for CuPy."""

import ctypes
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from geomkit.runtime import cuda, host

# What the GPU's compiler knows by itself, and a launch as the driver does it: an address for each argument.
SHIM = """
#include <cmath>
#include <cstring>
#define __CUDACC__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ inline __attribute__((noinline))
struct Index { unsigned x; };
static thread_local Index blockIdx, threadIdx, blockDim, gridDim;
inline unsigned __float_as_uint(float a) { unsigned u; std::memcpy(&u, &a, 4); return u; }
inline long long __double_as_longlong(double a) { long long u; std::memcpy(&u, &a, 8); return u; }
inline double __longlong_as_double(long long a) { double u; std::memcpy(&u, &a, 8); return u; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
template <class... A, size_t... I>
void each(void (*kernel)(A...), void** p, unsigned blocks, unsigned threads, std::index_sequence<I...>) {
    gridDim.x = blocks, blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel(*static_cast<A*>(p[I])...);
}
template <class... A> void emulate(void (*kernel)(A...), void** p, unsigned blocks, unsigned threads) {
    each(kernel, p, blocks, threads, std::index_sequence_for<A...>());
}
"""
ENTRY = 'extern "C" void {0}_emulated(void** p, int blocks, int threads) {{ emulate(gk::{0}, p, blocks, threads); }}\n'


class DeviceArray(np.ndarray):
    """Stands for CuPy's array: not NumPy's own, on a numbered device."""

    device = None


class EmulatedModule:
    """A kernel file as a module of the driver."""

    def __init__(self, folder, source, real, stack):
        path = host.kernel_folder() / "kernels" / source
        names = re.findall(r"^GK_KERNEL (\w+)\(", path.read_text(), re.MULTILINE)
        stem = f"{source.replace('/', '_')}_{real}_{stack}"
        text, library = folder / f"{stem}.cpp", folder / f"{stem}.so"
        text.write_text("#include <utility>" + SHIM + f'#include "{path}"\n' + "".join(map(ENTRY.format, names)))
        flags = ["-std=c++17", "-O1", "-w", "-ffp-contract=off", f"-DGK_REAL={real}", f"-DGK_STACK={stack}"]
        subprocess.run(["g++", *flags, "-shared", "-fPIC", str(text), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))

    def get_function(self, name):
        entry = getattr(self.library, f"{name}_emulated")

        def call(grid, block, values):
            held = [self._value(value) for value in values]
            entry((ctypes.c_void_p * len(held))(*(a.ctypes.data for a in held)), grid[0], block[0])

        return call

    @staticmethod
    def _value(value):
        """What the driver reads: the address of an array on the device, or a value's own bytes."""
        if isinstance(value, DeviceArray):
            return np.array(value.ctypes.data, np.uint64)
        assert isinstance(value, (np.generic, np.ndarray)) and np.size(value) == 1
        return np.asarray(value)


@pytest.fixture
def device_array():
    """Makes an array on the stand-in's device, aligned as CUDA's are."""

    def make(array, device=0):
        made = host.aligned_empty(array.size, array.dtype).reshape(array.shape).view(DeviceArray)
        made[...] = array
        made.device = SimpleNamespace(id=device)
        return made

    return make


@pytest.fixture
def stand_in(monkeypatch):
    """CuPy as far as a launch needs it, with one device of compute capability 9.0; `loaded` collects machine code."""
    loaded, calls = [], []

    class Module:
        def load(self, code):
            loaded.append(code)

        def get_function(self, name):
            return lambda grid, block, values: calls.append((name, grid, block, values))

    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        driverGetVersion=lambda: 99000,
        getDeviceProperties=lambda i: {"major": 9, "minor": 0, "name": b"Stand-in", "totalGlobalMem": 3 << 30},
    )
    module = SimpleNamespace(
        ndarray=DeviceArray,
        cuda=SimpleNamespace(runtime=runtime, function=SimpleNamespace(Module=Module)),
        loaded=loaded,
        calls=calls,
    )
    monkeypatch.setattr(cuda, "cupy", lambda: module)
    monkeypatch.setattr(cuda, "_functions", {})
    monkeypatch.setattr(cuda, "_modules", {})
    return module


@pytest.fixture(scope="session")
def emulated_modules(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing: the GPU's text can not be run on the CPU")
    folder, modules = tmp_path_factory.mktemp("emulated"), {}

    def load(source, real, stack):
        key = (source, real, stack)
        if key not in modules:
            modules[key] = EmulatedModule(folder, *key)
        return modules[key]

    return load


@pytest.fixture
def emulated(stand_in, emulated_modules, device_array, monkeypatch):
    """Kernels called with the arrays that this makes run through `cuda.launch`, on the CPU.

    Structures by value may point to the CPU's arrays, and have "cuda" for a device.
    """
    monkeypatch.setattr(cuda, "_load", lambda xp, device, source, real, stack: emulated_modules(source, real, stack))
    return device_array
