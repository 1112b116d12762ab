"""A program on the CPU: compiled, or interpreted where there is no compiler."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from geomkit.errors import DeviceError, warn
from geomkit.lang.emit import Text
from geomkit.runtime import compiler

__all__ = ["entry_of", "has_compiler", "library_of"]

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


@cache
def has_compiler() -> bool:
    """Whether kernels are compiled here; if not, a warning says so, once."""
    try:
        compiler.find()
    except DeviceError as error:
        warn(f"kernels are interpreted with NumPy, many times slower: {error}", RuntimeWarning)
        return False
    return True


def library_of(text: Text, *, debug: bool = False) -> tuple[int, ...]:
    """The address of a compiled text's entry."""
    headers = tuple(_INCLUDE.findall(text.text))
    return compiler.entries(compiler.library_path(text.text, headers, debug=debug), text.entry)


def entry_of(text: Text, *, debug: bool = False) -> Callable[[bytes, int, int], None]:
    """A compiled text as a function of the packed block, the number of threads and the grain."""
    (address,) = library_of(text, debug=debug)
    return lambda block, n, grain: compiler.run(address, block, n, grain)
