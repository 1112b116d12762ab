"""NVRTC, the CUDA compiler as a library: kernel text in, machine code of one GPU architecture out. It needs no GPU."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from geomkit.errors import DeviceError

EXTRA = 'pip install "geomkit-diff[cuda13]", or geomkit-diff[cuda12] for a driver of CUDA 12'


def flags(*, architecture: str, real: str, options: Sequence[str] = ()) -> list[str]:
    """The options of a compilation, all but where headers lie. Products are fused; there is no fast mathematics.

    Args:
        architecture: such as "sm_90".
        real: "float" or "double".
        options: more of them, such as "-DGK_STACK=64".
    """
    return [f"--gpu-architecture={architecture}", "-std=c++17", f"-DGK_REAL={real}", *options]


class Library:
    """A loaded libnvrtc.

    Args:
        path: the file, or a name that the system's loader knows.

    Attributes:
        path: as given.
        version: (major, minor) of CUDA.
        architectures: the compute capabilities that it compiles for, such as 90, ascending.

    Raises:
        OSError: the file, or the built-ins that belong beside it, can not be loaded.
    """

    def __init__(self, path: str):
        # NVRTC opens its built-ins by bare name when it first compiles; once loaded they are found wherever they lie.
        for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so*")) if os.sep in path else ():
            ctypes.CDLL(str(builtins))
        self.path, self._library = path, ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        self.architectures = sorted(found)

    def __repr__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]} ({self.path})"

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DeviceError(f"{name}: {self._library.nvrtcGetErrorString(status).decode()}")

    def _output(self, program: ctypes.c_void_p, name: str) -> bytes:
        """What the pair of functions nvrtcGet{name}Size and nvrtcGet{name} gives."""
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{name}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{name}", program, buffer)
        return buffer.raw

    def compile(self, text_path: Path, *, architecture: str, real: str, options: Sequence[str] = ()) -> bytes:
        """Compile a kernel file. Other Python threads run meanwhile.

        Args:
            text_path: the file; its headers are found relative to the file that includes them.
            architecture: such as "sm_90", exactly that of the GPU.
            real: "float" or "double".
            options: more of the compiler's options, such as "-DGK_STACK=64".

        Returns:
            A CUBIN, the machine code.

        Raises:
            DeviceError: the text does not compile; the message begins with the first error.

        Warns:
            RuntimeWarning: with the compiler's warnings.
        """
        path = Path(text_path).resolve()
        given = [*flags(architecture=architecture, real=real, options=options), f"--include-path={path.parent}"]
        array = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
        program, text, name = ctypes.c_void_p(), path.read_bytes(), str(path).encode()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, name, 0, None, None)
        try:
            status = self._library.nvrtcCompileProgram(program, len(given), array)
            log = self._output(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            if status:
                reason = self._library.nvrtcGetErrorString(status).decode()
                raise DeviceError(f"{path.name}, {architecture}, {real}: {first_error(log, reason)}\n{log}")
            if log:
                warnings.warn(f"{path.name}, {architecture}, {real}: {log}", RuntimeWarning, stacklevel=2)
            return self._output(program, "CUBIN")
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))


def first_error(log: str, otherwise: str) -> str:
    """The first line of a compiler's log that reports an error."""
    return next((line.strip() for line in log.splitlines() if re.search(r"\berror\b", line)), otherwise)


def candidates() -> Iterator[str]:
    """Where libnvrtc may be: in the wheels of NVIDIA, newest first, in a CUDA toolkit, or where the loader finds it."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None and spec.submodule_search_locations else []
    found = [path for folder in folders for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    toolkits = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    for toolkit in toolkits:
        found += Path(toolkit, "lib64").glob("libnvrtc.so.[0-9][0-9]") if toolkit else []
    yield from map(str, sorted(found, key=lambda path: -int(re.findall(r"so\.(\d+)", path.name)[0])))
    known = ctypes.util.find_library("nvrtc")
    if known is not None:
        yield known


@cache
def library(newest: int | None = None) -> Library:
    """The newest NVRTC on this machine.

    Args:
        newest: the greatest major version of CUDA that the driver can load code of; None where nothing is to be loaded.

    Raises:
        DeviceError: there is none. The message names the extra that installs it.
    """
    tried = []
    for path in candidates():
        try:
            found = Library(path)
        except (OSError, AttributeError) as error:
            tried.append(f"{path}: {error}")
            continue
        if newest is None or found.version[0] <= newest:
            return found
        tried.append(f"{path}: CUDA {found.version[0]}, but the driver stops at CUDA {newest}")
    detail = f" ({'; '.join(tried)})" if tried else ""
    raise DeviceError(f"the CUDA compiler NVRTC is missing{detail}: {EXTRA}")


def compile(text_path: Path, *, architecture: str, real: str, options: Sequence[str] = ()) -> bytes:
    """Compile a kernel file with the newest NVRTC on this machine; see `Library.compile`."""
    return library().compile(text_path, architecture=architecture, real=real, options=options)
