"""A kernel: its name and one signature row, from which both the CPU and the CUDA launch follow."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from geomkit.runtime import host

# Structures that kernels take by value: field names and their codes, as in the module `struct`.
STRUCTS: dict[str, tuple[tuple[str, str], ...]] = {
    "Bvh": (
        ("nodes", "P"),
        ("packets", "P"),
        ("frames", "P"),
        ("moments", "P"),
        ("cx", "d"),
        ("cy", "d"),
        ("cz", "d"),
        ("scale", "d"),
    ),
    "Mesh": (("vertices", "P"), ("faces", "P")),
    "HashGrid": (
        *((name, "P") for name in ("start", "order", "x", "y", "z")),
        *((name, "d") for name in ("lx", "ly", "lz", "inverse", "radius")),
        *((name, "i") for name in ("ex", "ey", "ez", "nx", "ny", "nz")),
    ),
    "Rays": (
        ("origins", "P"),
        ("directions", "P"),
        ("t_min", "P"),
        ("t_max", "P"),
        ("every_t_min", "d"),
        ("every_t_max", "d"),
    ),
    "Light": (
        ("faces", "P"),
        ("distribution", "P"),
        ("x", "d"),
        ("y", "d"),
        ("z", "d"),
        ("nx", "d"),
        ("ny", "d"),
        ("nz", "d"),
        ("r", "d"),
        ("g", "d"),
        ("b", "d"),
        ("inner", "d"),
        ("outer", "d"),
        ("count", "d"),
        ("sides", "d"),
    ),
    "Camera": (
        *((f"pose{k}", "d") for k in range(12)),
        *((f"inverse{k}", "d") for k in range(9)),
        *((name, "d") for name in ("fx", "skew", "cx", "fy", "cy", "k1", "k2", "p1", "p2", "k3", "reach")),
        ("orthographic", "i"),
        ("distorted", "i"),
    ),
    "Pixels": (("at", "P"), ("left", "i"), ("top", "i"), ("columns", "i"), ("samples", "i")),
    "Pseudonormals": (("faces", "P"), ("face_normals", "P"), ("edge_normals", "P"), ("vertex_normals", "P")),
}
_SCALARS = {"int": "i", "double": "d", "uint64": "Q"}
_ARRAYS = {
    "int": np.dtype(np.int32),
    "uint": np.dtype(np.uint32),
    "double": np.dtype(np.float64),
    "uint64": np.dtype(np.uint64),
}
_FLOAT = np.dtype(np.float32)
_SCALAR, _STRUCT, _INPUT, _OUTPUT = range(4)  # kinds of parameters

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
        if self.pointer:
            self.kind = _INPUT if self.constant else _OUTPUT
        else:
            self.kind = _STRUCT if self.type in STRUCTS else _SCALAR

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
        self.kinds = [p.kind for p in kernel.parameters]
        self.array_types = [p.dtype(real) if p.pointer else None for p in kernel.parameters]
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
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{self.name}: expected {len(self.parameters)} arguments after n, got {len(arguments)}")
        real = self._precision(arguments) if dtype is None else dtype
        plan = self._plans.get(real)
        if plan is None:
            plan = self._plan(real)
        values = [n]
        for kind, array_type, a in zip(plan.kinds, plan.array_types, arguments, strict=True):
            if kind == _SCALAR:
                values.append(a)
            elif kind == _STRUCT:
                if a.device == "cuda":
                    return self._launch_cuda(n, arguments, real)
                values.extend(a.fields)
            elif type(a) is not np.ndarray:
                return self._launch_cuda(n, arguments, real)
            else:
                if array_type is not None and a.dtype != array_type:
                    raise self._misfit(arguments, plan)
                try:
                    values.append(_address_of(_byte_at(a)))  # pyright: ignore[reportArgumentType]
                except (TypeError, ValueError):  # read-only, empty, or not contiguous
                    if not a.flags.c_contiguous or (kind == _OUTPUT and a.size and not a.flags.writeable):
                        raise self._misfit(arguments, plan) from None
                    values.append(a.ctypes.data)
        if n > 0:
            plan.launch(plan.entry, plan.pack(*values), n, self.grain)

    def _precision(self, arguments: tuple) -> np.dtype:
        if self._real is not None:
            real = getattr(arguments[self._real], "dtype", None)
            if real is None:
                name = self.parameters[self._real].name
                raise TypeError(f"{self.name}: {name}: expected an array, got {type(arguments[self._real]).__name__}")
            return real
        if self._structures:
            raise TypeError(f"{self.name}: no argument tells the precision of the structures: pass dtype")
        return _FLOAT

    def _plan(self, real: np.dtype) -> Plan:
        if real not in host.REAL:
            raise TypeError(f"{self.name}: expected float32 or float64 arrays, got {real}")
        plan = self._plans[real] = Plan(self, real)
        return plan

    def _misfit(self, arguments: tuple, plan: Plan) -> TypeError:
        """The error for the first array that does not fit."""
        for parameter, array_type, a in zip(self.parameters, plan.array_types, arguments, strict=True):
            if not parameter.pointer:
                continue
            right = array_type is None or a.dtype == array_type
            if not (right and a.flags.c_contiguous and (parameter.constant or a.flags.writeable or not a.size)):
                break
        kind = "" if parameter.constant else "writeable "
        return TypeError(
            f"{self.name}: {parameter.name}: expected a C-contiguous {kind}{array_type or 'structure'} array, "
            f"got {a.dtype} with strides {a.strides}, {'writeable' if a.flags.writeable else 'read-only'}"
        )

    def _launch_cuda(self, n: int, arguments: tuple, real: np.dtype) -> None:
        if any(isinstance(a, (list, tuple)) for a in arguments):
            raise TypeError(f"{self.name}: expected arrays, got a list")
        from geomkit.runtime import cuda

        cuda.launch(self, n, arguments, real)
