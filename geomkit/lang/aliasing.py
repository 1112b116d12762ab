"""Arrays of one launch that share memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.errors import message
from geomkit.lang.arguments import address, overlap
from geomkit.lang.types import Array

if TYPE_CHECKING:
    from geomkit.lang.specialization import Specialization

__all__ = ["refuse_shared"]

WORK = 100_000  # steps that NumPy may take to find out whether two arrays with strides meet


def refuse_shared(found: Specialization, values: Sequence[Any]) -> None:
    """Refuse a written array that shares memory with another one: what a thread finds would depend on the others.

    The same array may be given twice where each thread touches only the element of its own index.

    Args:
        found: the kernel.
        values: its checked arguments, in order.

    Raises:
        ValueError: there is such an array.
    """
    arrays = [(n, a) for (n, t), a in zip(found.types.items(), values, strict=True) if isinstance(t, Array)]
    for k, (n, a) in enumerate(arrays):
        for m, b in arrays[:k]:
            if not {n, m} & found.written or not overlap(a, b) or not _meet(a, b):
                continue
            if _same(a, b):
                if {n, m} <= found.own:
                    continue
                expected, got = f"another array than '{m}', as threads touch others' elements", "the same one"
            else:
                expected, got = f"memory of its own, or the whole of '{m}'", f"memory that it shares with '{m}'"
            raise ValueError(message(found.name, n, expected, got))


def _same(a: Any, b: Any) -> bool:
    return address(a) == address(b) and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)


def _meet(a: Any, b: Any) -> bool:
    """Whether arrays whose bounds overlap have an element in common."""
    if not isinstance(a, np.ndarray):
        return True
    try:
        return np.shares_memory(a, b, max_work=WORK)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True
