"""Which tapes are recording in this thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from geomkit.autodiff.tape import Tape

__all__ = ["innermost", "paused", "recordings", "tapes"]


class _State(threading.local):
    def __init__(self) -> None:
        self.tapes: list[Tape] = []
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
    return frozenset([tape.recording for tape in _state.tapes])


@contextmanager
def paused() -> Iterator[None]:
    """Nothing is recorded within, in this thread."""
    _state.paused += 1
    try:
        yield
    finally:
        _state.paused -= 1
