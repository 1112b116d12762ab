"""How compiled kernels of the kernel language are called: arguments checked, packed and run in compiled code."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import NamedTuple

from geomkit.errors import DeviceError
from geomkit.runtime import host

__all__ = ["Fault", "Launcher", "Misfit", "is_built"]

NAME = "geomkit_launch"


class Misfit(TypeError):
    """An argument that does not fit the signature of a kernel.

    Attributes:
        args: its index, what was expected, what was given.
    """

    def __str__(self) -> str:
        index, expected, got = self.args
        return f"argument {index}: expected {expected}, got {got}"


class Fault(NamedTuple):
    """What a kernel in debug mode found wrong first."""

    site: int  # of the check in the kernel
    index: int
    length: int
    thread: int


class _Record(ctypes.Structure):
    """Where a kernel writes it: `GkError` of the kernel language."""

    _fields_ = [
        ("flag", ctypes.c_int),
        ("site", ctypes.c_int),
        ("index", ctypes.c_longlong),
        ("length", ctypes.c_longlong),
        ("thread", ctypes.c_int),
    ]


@cache
def is_built() -> bool:
    """Whether there is a launcher: installing without Python's headers leaves it out."""
    return (host.library_folder() / f"{NAME}.so").exists()


@cache
def _extension() -> ModuleType:
    path = str(host.library_folder() / f"{NAME}.so")
    loader = importlib.machinery.ExtensionFileLoader(NAME, path)
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    if spec is None:
        raise DeviceError(f"{path} can not be loaded: run `pip install .`")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    address = ctypes.cast(host.host_library().gk_parallel, ctypes.c_void_p).value
    module.connect(address, Misfit)
    return module


class Launcher:
    """Calls one compiled kernel.

    Args:
        entry: address of `void entry(const void* block, int begin, int end)`, which stays valid.
        signature: one token a parameter, separated by blanks: `f4` and the like for scalars (f2 f4 f8, i1 to i8, u1 to
            u8, b1 for a bool); `p` for an address; `bN:A` for N bytes aligned to A; `a:TYPE:NDIM:ELEM:Fx` for an array
            of TYPE (a scalar's, or bN), with ELEM scalars an element, F = C if it must be C-contiguous, else S, x = r
            or w as it is read or written, and then o if each thread touches only the element of its own index: two of
            these may be one array. Otherwise an array that is written shares no memory with another one.
        grain: threads that are run at a time; no more than that run in the calling thread alone.
        debug: whether the kernel gets a record to write a fault to.

    Attributes:
        launch: `launch(dim, *values)` runs the kernel on dim threads: a number, or a tuple of up to three.
        grad: `grad(dim, values, grads)`: the same with two tuples of one length, the second of arrays for gradients,
            laid out as their arrays, or None.

    Raises:
        ValueError: the signature or grain is none. From launch and grad: a dim that is none.
        Misfit: from launch and grad: an argument that does not fit. The kernel has not run.
    """

    __slots__ = ("_record", "grad", "launch")

    launch: Callable[..., None]
    grad: Callable[[int | tuple[int, ...], tuple, tuple], None]

    def __init__(self, entry: int, signature: str, *, grain: int = 1024, debug: bool = False):
        self._record = _Record() if debug else None
        errors = ctypes.addressof(self._record) if self._record is not None else 0
        self.launch, self.grad = _extension().launcher(entry, signature, grain, errors)

    def error(self) -> Fault | None:
        """What the launches since the last call found wrong first, if anything; the record is cleared."""
        record = self._record
        if record is None or not record.flag:
            return None
        fault = Fault(record.site, record.index, record.length, record.thread)
        ctypes.memset(ctypes.addressof(record), 0, ctypes.sizeof(record))
        return fault
