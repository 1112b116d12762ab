"""A kernel: its name and one signature row, from which both the CPU and the CUDA launch follow."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from geomkit.runtime import host

# Structures that kernels take by value: field names and their codes, as in the module `struct`.
STRUCTS: dict[str, tuple[tuple[str, str], ...]] = {
    "Bvh": (("nodes", "P"), ("packets", "P"), ("frames", "P"), ("moments", "P"), ("cx", "d"), ("cy", "d"), ("cz", "d")),
    "Pseudonormals": (("faces", "P"), ("face_normals", "P"), ("edge_normals", "P"), ("vertex_normals", "P")),
}
_SCALARS = {"int": "i", "double": "d", "uint64": "Q"}
_ARRAYS = {"int": np.dtype(np.int32), "double": np.dtype(np.float64), "uint64": np.dtype(np.uint64)}
_FLOAT = np.dtype(np.float32)

_address_of = ctypes.addressof
_byte_at = ctypes.c_char.from_buffer


class Parameter:
    """One entry of a signature row."""

    def __init__(self, text: str):
        kind, self.name = text.rsplit(" ", 1)
        self.constant = kind.startswith("const ")
        kind = kind.removeprefix("const ")
        self.pointer = kind.endswith("*")
        self.type = kind.rstrip("*")

    def dtype(self, real: np.dtype) -> np.dtype | None:
        """Element type of a pointer; None for a pointer to bytes of a structure."""
        return real if self.type == "real" else _ARRAYS.get(self.type)

    def code(self, real: np.dtype) -> str:
        if self.pointer:
            return "P"
        if self.type in STRUCTS:
            return "".join(code for _, code in STRUCTS[self.type])
        return real.char if self.type == "real" else _SCALARS[self.type]


class Plan:
    """What a launch in one precision needs to know, found once."""

    def __init__(self, kernel: Kernel, real: np.dtype):
        self.pack = struct.Struct("@i" + "".join(p.code(real) for p in kernel.parameters)).pack
        self.checks = [(p, p.dtype(real) if p.pointer else None) for p in kernel.parameters]
        library = host.kernel_library(real)
        self.entry = ctypes.cast(getattr(library, f"{kernel.name}_call"), ctypes.c_void_p).value
        self.launch = host.host_library().gk_parallel


class Kernel:
    """A kernel of `cuda/kernels`, called with NumPy arrays on the CPU and with CuPy arrays on CUDA.

    Args:
        source: file below `cuda/kernels`.
        name: the kernel's name in it.
        parameters: its parameters after `int n`, as in the C++ text. `real` is the precision of the arrays given.
        grain: items that a CPU thread takes at a time.

    Calling it with n and the arguments runs the kernel on items 0 to n - 1. Arrays must be C-contiguous and of exactly
    the type of the signature; `const` arrays may be read-only. dtype is the precision where no argument tells it.

    Raises:
        TypeError: an argument does not fit the signature.
    """

    registry: list[Kernel] = []

    def __init__(self, source: str, name: str, parameters: str, *, grain: int = 1024):
        self.source, self.name, self.grain = source, name, grain
        self.parameters = [Parameter(text.strip()) for text in parameters.split(",")]
        reals = [i for i, p in enumerate(self.parameters) if (p.pointer and p.type == "real") or p.type in STRUCTS]
        self._real = reals[0] if reals else None
        self._structures = any(p.pointer and p.type not in ("real", *_ARRAYS) for p in self.parameters)
        self._plans: dict[np.dtype, Plan] = {}
        Kernel.registry.append(self)

    def __call__(self, n: int, *arguments: Any, dtype: np.dtype | None = None) -> None:
        if dtype is not None:
            real = dtype
        elif self._real is not None:
            real = arguments[self._real].dtype
        elif self._structures:
            raise TypeError(f"{self.name}: no argument tells the precision of the structures: pass dtype")
        else:
            real = _FLOAT
        plan = self._plans.get(real)
        if plan is None:
            plan = self._plan(real)
        values = [n]
        try:
            for (parameter, dtype), a in zip(plan.checks, arguments, strict=True):
                if parameter.pointer:
                    if type(a) is not np.ndarray:
                        return self._launch_cuda(n, arguments, real)
                    if not a.flags.c_contiguous or (dtype is not None and a.dtype != dtype):
                        raise self._misfit(parameter, dtype, a)
                    if a.flags.writeable and a.size:
                        values.append(_address_of(_byte_at(a)))
                    elif parameter.constant or not a.size:
                        values.append(a.ctypes.data)
                    else:
                        raise self._misfit(parameter, dtype, a)
                elif parameter.type in STRUCTS:
                    if a.device == "cuda":
                        return self._launch_cuda(n, arguments, real)
                    values.extend(a.fields)
                else:
                    values.append(a)
        except AttributeError:
            raise TypeError(f"{self.name}: expected arrays for pointer parameters") from None
        if n > 0:
            plan.launch(plan.entry, plan.pack(*values), n, self.grain)

    def _plan(self, real: np.dtype) -> Plan:
        if real not in host.REAL:
            raise TypeError(f"{self.name}: expected float32 or float64 arrays, got {real}")
        plan = self._plans[real] = Plan(self, real)
        return plan

    def _misfit(self, parameter: Parameter, dtype: np.dtype | None, a: np.ndarray) -> TypeError:
        kind = "" if parameter.constant else "writeable "
        return TypeError(
            f"{self.name}: {parameter.name}: expected a C-contiguous {kind}{dtype or 'structure'} array, "
            f"got {a.dtype} with strides {a.strides}, {'writeable' if a.flags.writeable else 'read-only'}"
        )

    def _launch_cuda(self, n: int, arguments: tuple, real: np.dtype) -> None:
        from geomkit.runtime import cuda

        cuda.launch(self, n, arguments, real)
