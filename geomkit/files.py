"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Write a file beside its place, and rename it when all of it is there. An error or Ctrl-C leaves what was there.

    Args:
        path: the file to make or to replace.

    Raises:
        OSError: the folder does not exist or cannot be written to.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.txt"
        ...     with replacing(path) as file:
        ...         size = file.write(b"whole")
        ...     path.read_bytes()
        b'whole'
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.parent}")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    """The mask of new files, which a process can only read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
