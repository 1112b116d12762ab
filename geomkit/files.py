"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["destination", "replacing"]

PREFIX = ".geomkit-"  # of temporary names


def destination(path: str | os.PathLike) -> Path:
    """Where a file is written: the path, or what it links to. Ask before long work, to learn of a wrong path in time.

    Raises:
        OSError: the folder does not exist or is not to be written to, or the path is a folder; under the path as given.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    try:
        mode = os.stat(target).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not target.parent.is_dir():
            folder = target.parent if path.is_symlink() else path.parent
            raise FileNotFoundError(f"no such folder: {folder}") from None
        _check_folder(target, path)
        return target
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISREG(mode):
        _check_folder(target, path)
    return target


def _check_folder(target: Path, path: Path) -> None:
    """A file is replaced by a new one beside it, so its folder has to take one."""
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Write a file beside its place, and rename it when all of it is there. An error or Ctrl-C leaves what was there.

    A symbolic link stays, and what it links to is replaced. A pipe or a device is written to as it is.

    Args:
        path: the file to make or to replace.

    Raises:
        OSError: the folder does not exist or cannot be written to, or the path is a folder.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.txt"
        ...     with replacing(path) as file:
        ...         size = file.write(b"whole")
        ...     path.read_bytes()
        b'whole'
    """
    target, temporary = destination(path), None
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        # (The name is short whatever the file's, which may be as long as the file system allows.)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=PREFIX, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and _is_ours(error.filename, target):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def _is_ours(name: object, target: Path) -> bool:
    """Whether an error is about the file that is written: a full disk names none."""
    return name is None or (isinstance(name, str) and (name == str(target) or Path(name).name.startswith(PREFIX)))


def _umask() -> int:
    """The mask of new files, which a process can only read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
