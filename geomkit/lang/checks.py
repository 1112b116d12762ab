"""What debug mode finds wrong while a kernel runs, as an exception at the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.lang.emit import Text

__all__ = ["ERROR", "report"]

# gk::Error of kernel.h.
ERROR = np.dtype([("flag", "i4"), ("site", "i4"), ("index", "i8"), ("length", "i8"), ("thread", "i4")], align=True)


def report(text: Text, record: np.ndarray, dims: tuple[int, ...], name: str) -> None:
    """Raise what a launch recorded, if anything.

    Raises:
        IndexError: an index is out of bounds.
        FloatingPointError: an operation gave NaN.
        AssertionError: an assertion does not hold.
    """
    if not record["flag"]:
        return
    site = text.sites[int(record["site"])]
    index = tuple(map(int, np.unravel_index(int(record["thread"]), dims)))
    thread = f"thread {index[0] if len(index) == 1 else index}"
    kinds: dict[str, tuple[Any, str]] = {
        "bounds": (IndexError, f"index {record['index']} is out of bounds for {site.name} of length "
                               f"{record['length']}"),
        "nan": (FloatingPointError, f"{site.name or 'the result'} is NaN"),
        "assert": (AssertionError, site.name or "the assertion does not hold"),
    }  # fmt: skip
    kind, what = kinds[site.kind]
    shown = f"{what} ({thread})"
    raise kind(f"{name}\n{site.where.show(shown)}" if site.where is not None else f"{name}: {shown}")
