"""Compiled kernels on disk, found by the content of all that they were made from."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from geomkit.errors import DeviceError
from geomkit.runtime import nvrtc

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_DIGEST = 32


def folder() -> Path:
    """Where the cache is, once made: GEOMKIT_CACHE_DIR, else geomkit in XDG_CACHE_HOME, else ~/.cache/geomkit."""
    own = os.environ.get("GEOMKIT_CACHE_DIR")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "geomkit"


def open_folder() -> Path:
    """The cache's folder, made if need be and safe to load code from.

    Raises:
        DeviceError: it belongs to another user or others may write to it.
        OSError: it can not be made.
    """
    path = folder()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.geteuid():
        problem = f"belongs to user {status.st_uid}"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"is writable by others (mode {stat.S_IMODE(status.st_mode):04o})"
    else:
        return path
    raise DeviceError(f"the kernel cache {path} {problem}: correct that, or set GEOMKIT_CACHE_DIR to another folder")


def texts(path: Path) -> dict[Path, bytes]:
    """A kernel file and all headers that it includes, directly or not, in the order of inclusion."""
    found: dict[Path, bytes] = {}
    waiting = [Path(path).resolve()]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found[current] = current.read_bytes()
        names = _INCLUDE.findall(found[current])
        waiting += [(current.parent / os.fsdecode(name)).resolve() for name in reversed(names)]
    return found


def key(path: Path, *, compiler: nvrtc.Library, architecture: str, real: str, options: Sequence[str] = ()) -> str:
    """A name that changes with the text, the headers, the options, the architecture and the compiler, and only then."""
    sources = texts(path)
    root = Path(path).resolve().parent
    digest = hashlib.sha256()
    settings = nvrtc.flags(architecture=architecture, real=real, options=options)
    settings.append("nvrtc {}.{}".format(*compiler.version))
    named = [part for p, text in sources.items() for part in (os.path.relpath(p, root).encode(), text)]
    for part in (*(s.encode() for s in settings), *named):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _read(entry: Path) -> bytes | None:
    """An entry's content, or None if there is none, or only a damaged one."""
    try:
        data = entry.read_bytes()
    except FileNotFoundError:
        return None
    content = data[_DIGEST:]
    return content if content and hashlib.sha256(content).digest() == data[:_DIGEST] else None


def _write(entry: Path, content: bytes) -> None:
    """Write an entry so that others see all of it or nothing, also when several processes write it at once."""
    handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=entry.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(temporary, entry)
    except BaseException:
        os.unlink(temporary)
        raise


def cubin(
    text_path: Path, *, architecture: str, real: str, options: Sequence[str] = (), compiler: nvrtc.Library | None = None
) -> bytes:
    """Machine code of a kernel file, from the cache or else compiled and kept there.

    Args:
        text_path, architecture, real, options: as of `nvrtc.Library.compile`.
        compiler: the newest on this machine if None.

    Raises:
        DeviceError: the compiler is missing, the text does not compile, or the cache's folder is not safe.

    Warns:
        RuntimeWarning: the cache's folder can not be made, read or written; the kernel is compiled all the same.
    """
    if compiler is None:
        compiler = nvrtc.library()
    options = tuple(options)
    name = key(text_path, compiler=compiler, architecture=architecture, real=real, options=options)
    content = None
    try:
        entry = open_folder() / f"{name}.cubin"
        content = _read(entry)
        if content is None:
            content = compiler.compile(text_path, architecture=architecture, real=real, options=options)
            _write(entry, content)
    except OSError as error:
        warnings.warn(
            f"compiled kernels are not kept ({error}): set GEOMKIT_CACHE_DIR to a folder that can be written",
            RuntimeWarning,
            stacklevel=2,
        )
    if content is None:
        content = compiler.compile(text_path, architecture=architecture, real=real, options=options)
    return content
