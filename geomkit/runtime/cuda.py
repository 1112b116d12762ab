"""The CUDA side: CuPy's arrays, and kernels compiled by NVRTC when they are first launched."""

from __future__ import annotations

import ctypes
import importlib
import operator
import threading
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from geomkit.errors import DeviceError
from geomkit.runtime import cache as kernel_cache, host, nvrtc
from geomkit.runtime.kernel import STRUCTS, Kernel, Parameter

THREADS = 256
MAX_BLOCKS = 1 << 20  # beyond that, threads take several items
STACKS = (64, 128, 256, 680)  # entries of a traversal stack; the last is what the deepest tree needs

_INTEGERS = {"int": np.int32, "uint64": np.uint64}
_lock = threading.Lock()
_functions: dict[tuple, Any] = {}
_modules: dict[tuple, Any] = {}


@cache
def cupy() -> ModuleType:
    """CuPy, on a machine where it works.

    Raises:
        DeviceError: CuPy is missing, or it has no GPU. The message says what to install.
    """
    try:
        module = importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError(f"CUDA needs CuPy ({error}): {nvrtc.EXTRA}") from None
    try:
        count = module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"CuPy {module.__version__} finds no CUDA device: {error}") from None
    if count == 0:
        raise DeviceError(f"CuPy {module.__version__} finds no CUDA device")
    return module


def available() -> bool:
    """Whether arrays and kernels can live on a CUDA device here."""
    try:
        cupy()
    except DeviceError:
        return False
    return True


class Device(NamedTuple):
    """What `geomkit doctor` says of a GPU."""

    name: str
    memory: int
    compute_capability: str
    driver: str

    def __str__(self) -> str:
        memory = f"{self.memory / 2**30:.1f} GiB"
        return f"{self.name}, {memory}, compute capability {self.compute_capability}, CUDA driver {self.driver}"


def devices() -> list[Device]:
    """All CUDA devices.

    Raises:
        DeviceError: there is none, or CuPy is missing.
    """
    runtime = cupy().cuda.runtime
    driver = runtime.driverGetVersion()
    found = []
    for i in range(runtime.getDeviceCount()):
        p = runtime.getDeviceProperties(i)
        version = f"{driver // 1000}.{driver % 1000 // 10}"
        found.append(Device(p["name"].decode(), p["totalGlobalMem"], f"{p['major']}.{p['minor']}", version))
    return found


@cache
def struct_dtype(name: str) -> np.dtype:
    """Layout of a structure that kernels take by value: that of C. The codes of `struct` are NumPy's, too."""
    return np.dtype(list(STRUCTS[name]), align=True)


def stack_entries(levels: int) -> int:
    """Entries of the stack that kernels for a tree of so many levels are compiled with: seven a level and one."""
    return next(size for size in STACKS if size >= 7 * levels + 1)


def blocks(n: int) -> int:
    """Blocks of a launch of n items.

    Raises:
        ValueError: a kernel's 32-bit index would overflow.
    """
    count = min(-(-n // THREADS), MAX_BLOCKS)
    if n + count * THREADS >= 1 << 31:
        raise ValueError(f"a launch on CUDA takes fewer than {(1 << 31) - MAX_BLOCKS * THREADS} items, got {n}")
    return count


def architecture(capability: tuple[int, int], compiler: nvrtc.Library) -> str:
    """The architecture to compile for: that of the device, or the newest older one of the same generation.

    Raises:
        DeviceError: the compiler knows neither.
    """
    major, minor = capability
    fitting = [a for a in compiler.architectures if a // 10 == major and a % 10 <= minor]
    if not fitting:
        known = ", ".join(f"{a // 10}.{a % 10}" for a in compiler.architectures)
        raise DeviceError(f"{compiler} does not compile for compute capability {major}.{minor}, only for {known}")
    return f"sm_{max(fitting)}"


def pack(kernel: Kernel, n: int, arguments: tuple, real: np.dtype, array_type: type) -> tuple[list, int, int | None]:
    """What a launch passes to the driver, after the same checks as on the CPU.

    Args:
        kernel: whose signature the arguments must fit.
        n: number of items.
        arguments: all others, in order.
        real: the precision.
        array_type: CuPy's array.

    Returns:
        The arguments as arrays and as scalars of exactly the kernel's types; the stack size to compile for; the index
        of the device that the arrays are on, None if there are none.

    Raises:
        TypeError: an argument does not fit; the message names it.
    """
    if len(arguments) != len(kernel.parameters):
        raise TypeError(f"{kernel.name}: expected {len(kernel.parameters)} arguments after n, got {len(arguments)}")
    values: list[Any] = [np.int32(n)]
    stack, device = STACKS[0], None
    for parameter, a in zip(kernel.parameters, arguments, strict=True):
        if parameter.pointer:
            _check_array(kernel, parameter, a, parameter.dtype(real), array_type)
            if device is not None and a.device.id != device:
                places = f"on CUDA device {a.device.id}, others on {device}"
                raise TypeError(f"{kernel.name}: {parameter.name}: expected arrays of one device, got one {places}")
            device = a.device.id
            values.append(a)
        elif parameter.type in STRUCTS:
            if not hasattr(a, "fields") or a.device != "cuda":
                raise _misfit(kernel, parameter, f"a structure {parameter.type} on CUDA like the other arguments", a)
            # CuPy passes a NumPy array of one element by value.
            values.append(np.array(tuple(a.fields), struct_dtype(parameter.type)))
            if parameter.type == "Bvh":
                stack = stack_entries(a.levels)
        else:
            values.append(_scalar(kernel, parameter, a, real))
    return values, stack, device


def _check_array(kernel: Kernel, parameter: Parameter, a: Any, dtype: np.dtype | None, array_type: type) -> None:
    expected = f"a C-contiguous {dtype or 'structure'} array on CUDA"
    if not isinstance(a, array_type):
        raise _misfit(kernel, parameter, f"{expected} like the other arguments", a)
    if not a.flags.c_contiguous or (dtype is not None and a.dtype != dtype):
        raise TypeError(f"{kernel.name}: {parameter.name}: expected {expected}, got {a.dtype} with strides {a.strides}")


def _scalar(kernel: Kernel, parameter: Parameter, a: Any, real: np.dtype) -> np.generic:
    try:
        if parameter.type in _INTEGERS:
            return _INTEGERS[parameter.type](operator.index(a))
        # ctypes takes numbers only, where NumPy also takes strings, and None as NaN.
        return (real.type if parameter.type == "real" else np.float64)(ctypes.c_double(a).value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _misfit(kernel, parameter, parameter.type, a) from error


def _misfit(kernel: Kernel, parameter: Parameter, expected: str, got: Any) -> TypeError:
    kind = type(got)
    what = "a NumPy array" if isinstance(got, np.ndarray) else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(got, (int, float)):
        what = repr(got)
    return TypeError(f"{kernel.name}: {parameter.name}: expected {expected}, got {what}")


def launch(kernel: Kernel, n: int, arguments: tuple, real: np.dtype) -> None:
    """Run a kernel on items 0 to n - 1, on CuPy's current stream of the device that the arrays are on.

    The first launch of a file in a precision compiles it, or finds it compiled in the cache.

    Args:
        kernel, n, arguments, real: as in `Kernel.__call__`.

    Raises:
        TypeError: an argument does not fit the signature, or is not on CUDA like the others.
        DeviceError: the kernel can not be compiled or loaded.
    """
    xp = _cupy_of(kernel, arguments)
    values, stack, device = pack(kernel, n, arguments, real, xp.ndarray)
    if n <= 0:
        return
    current = xp.cuda.runtime.getDevice()
    if device is None or device == current:
        _function(xp, current, kernel, real, stack)((blocks(n),), (THREADS,), values)
    else:
        with xp.cuda.Device(device):
            _function(xp, device, kernel, real, stack)((blocks(n),), (THREADS,), values)


def _cupy_of(kernel: Kernel, arguments: tuple) -> ModuleType:
    """CuPy; where it does not work the arguments can not be its arrays, and the first stranger among them is named."""
    try:
        return cupy()
    except DeviceError as error:
        for parameter, a in zip(kernel.parameters, arguments, strict=False):
            if parameter.pointer and not isinstance(a, np.ndarray):
                raise _misfit(kernel, parameter, f"a NumPy array ({error})", a) from None
        raise


def _function(xp: ModuleType, device: int, kernel: Kernel, real: np.dtype, stack: int) -> Any:
    """The kernel's handle in the module of its file, precision and stack size, which is loaded once on each device."""
    key = (device, kernel.source, kernel.name, real, stack)
    found = _functions.get(key)
    if found is not None:
        return found
    with _lock:
        place = (device, kernel.source, real, stack)
        if place not in _modules:
            _modules[place] = _load(xp, device, kernel.source, host.REAL[real], stack)
        return _functions.setdefault(key, _modules[place].get_function(kernel.name))


def _load(xp: ModuleType, device: int, source: str, real: str, stack: int) -> Any:
    compiler = nvrtc.library(xp.cuda.runtime.driverGetVersion() // 1000)
    properties = xp.cuda.runtime.getDeviceProperties(device)
    code = kernel_cache.cubin(
        host.kernel_folder() / "kernels" / source,
        architecture=architecture((properties["major"], properties["minor"]), compiler),
        real=real,
        options=(f"-DGK_STACK={stack}",),
        compiler=compiler,
    )
    module = xp.cuda.function.Module()
    module.load(code)
    return module
