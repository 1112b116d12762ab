"""Which tapes are recording in this thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import is_cupy_array

if TYPE_CHECKING:
    from geomkit.autodiff.tape import Tape

__all__ = ["enter", "innermost", "leave", "paused", "recordings", "tapes", "watched"]


class _State(threading.local):
    def __init__(self) -> None:
        self.tapes: list[Tape] = []
        self.recordings: frozenset[object] = frozenset()
        self.paused = 0


_state = _State()


def tapes() -> list[Tape]:
    """The tapes entered and not left, the outermost first; also while paused."""
    return _state.tapes


def innermost() -> Tape | None:
    """The tape that records now."""
    return _state.tapes[-1] if _state.tapes and not _state.paused else None


def recordings() -> frozenset[object]:
    """What tells the recordings under way from all others: a tape that is entered again starts another."""
    return _state.recordings


def enter(tape: Tape) -> None:
    """Let a tape record in this thread."""
    _set([*_state.tapes, tape])


def leave(tape: Tape) -> None:
    """Let it record no longer."""
    _set([other for other in _state.tapes if other is not tape])


def _set(tapes: list[Tape]) -> None:
    _state.tapes, _state.recordings = tapes, frozenset([tape.recording for tape in tapes])


def watched(array: Any, op: str, argument: str, *, private: bool = False) -> Any:
    """The array as a TapeArray, if a tape is recording and can follow gradients through it; else the array.

    A private array of NumPy's is one that nobody writes into.
    """
    tape = innermost()
    if tape is None or not (isinstance(array, np.ndarray) or is_cupy_array(array)) or array.dtype.kind != "f":
        return array
    return tape.watched(array, op, argument, private=private)


@contextmanager
def paused() -> Iterator[None]:
    """Nothing is recorded within, in this thread."""
    _state.paused += 1
    try:
        yield
    finally:
        _state.paused -= 1
