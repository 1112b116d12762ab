"""The system's C++ compiler: text in, a library in the cache out, found there again by its content."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

from geomkit.errors import DeviceError
from geomkit.runtime import cache as kernel_cache, host

ABI = "1"  # of programs and what launches them; part of every key
FLAGS = (
    "-std=c++17 -O3 -march=native -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti -fopenmp-simd -fPIC "
    "-g0 -shared -Wno-psabi"
).split()
DEBUG_FLAGS = "-std=c++17 -O1 -g -march=native -fno-exceptions -fno-rtti -fPIC -shared -Wno-psabi".split()

_lock = threading.Lock()
_libraries: dict[str, ctypes.CDLL] = {}


class Compiler(NamedTuple):
    """A C++ compiler: its command, and what tells it from others."""

    command: tuple[str, ...]
    identity: str

    def __str__(self) -> str:
        return " ".join(self.command)


def _identity(path: str) -> str:
    real = os.path.realpath(path)
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"


@cache
def find() -> Compiler:
    """The compiler: the environment variable CXX, c++, g++, clang++, else that of the package ziglang.

    Raises:
        DeviceError: there is none. The message says what to install.
    """
    wanted = os.environ.get("CXX", "")
    for command in ([shlex.split(wanted)] if wanted else []) + [["c++"], ["g++"], ["clang++"]]:
        path = shutil.which(command[0])
        if path is not None:
            return Compiler((path, *command[1:]), _identity(path))
        if wanted and command == shlex.split(wanted):
            raise DeviceError(f"CXX={wanted}: there is no such compiler")
    if importlib.util.find_spec("ziglang") is not None:
        # `zig c++` would first build the C++ library, for a minute.
        command = (sys.executable, "-m", "ziglang", "cc", "-x", "c++", "-nostdlib", "-fno-sanitize=all")
        spec = importlib.util.find_spec("ziglang")
        origin = spec.origin if spec is not None and spec.origin is not None else sys.executable
        return Compiler(command, _identity(origin))
    raise DeviceError('no C++ compiler is found: install g++ or clang, or pip install "geomkit-diff[jit]"')


@cache
def processor() -> str:
    """What the processor can do, as -march=native depends on it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    kept = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(kept)))


@cache
def _header_digest(name: str) -> str:
    digest = hashlib.sha256()
    for text in kernel_cache.texts(host.kernel_folder() / "lang" / name).values():
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def _key(text: str, headers: tuple[str, ...], settings: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for part in (ABI, text, *map(_header_digest, headers), *settings):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def library_path(text: str, headers: tuple[str, ...], *, debug: bool = False) -> Path:
    """The compiled library of a text, from the cache or else compiled and kept there. Safe with other processes.

    Args:
        text: C++; it includes headers of cuda/lang only.
        headers: those that it includes, by name.
        debug: compiled for debuggers.

    Raises:
        DeviceError: there is no compiler, the text does not compile, or the cache's folder is not safe.
    """
    compiler = find()
    flags = DEBUG_FLAGS if debug else FLAGS
    settings = (compiler.identity, *compiler.command, *flags, processor(), platform.system(), platform.machine())
    key = _key(text, headers, settings)
    root = kernel_cache.open_folder() / "programs"
    path = root / key[:2] / f"{key[2:]}.so"
    if path.exists():
        return path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="build") as folder:
        source, made = Path(folder) / "program.cpp", Path(folder) / "program.so"
        source.write_text(text)
        include = f"-I{host.kernel_folder() / 'lang'}"
        command = [*compiler.command, *flags, include, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DeviceError(f"{compiler} does not compile a kernel:\n{done.stderr}")
        os.replace(made, path)
    return path


def entries(path: Path, *names: str) -> tuple[int, ...]:
    """Addresses of functions in a compiled library, which is loaded once and stays.

    Raises:
        DeviceError: the library cannot be loaded.
    """
    with _lock:
        library = _libraries.get(str(path))
        if library is None:
            try:
                library = _libraries[str(path)] = ctypes.CDLL(str(path))
            except OSError as error:
                raise DeviceError(f"a compiled kernel cannot be loaded ({error}): set GEOMKIT_CACHE_DIR to a folder "
                                  "from which programs may run") from error  # fmt: skip
    found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    return tuple(address for address in found if address is not None)


def run(entry: int, block: bytes, n: int, grain: int) -> None:
    """Run the threads 0 to n - 1 of a program on the pool, `grain` at a time."""
    host.host_library().gk_parallel(entry, block, n, grain)
