"""A race: several ways to do one job, in turns, in one process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Task", "Timing", "race"]


@dataclass
class Task:
    """One contender of a race, its inputs already in the form it wants them in.

    Attributes:
        who: its name, as in the rows.
        run: does the job once; what is timed.
        read: (result of run, n) to the values of the first n points, a (n,) array.
        items: number of points that `run` answers, or of triangles over which it builds.
        threads: number of CPU threads that it may use.
        setup: does what `run` repeats in every call but others have done before, such as building a tree; its time is
            taken off that of `run`. None where there is no such thing.
    """

    who: str
    run: Callable[[], Any]
    read: Callable[[Any, int], np.ndarray]
    items: int
    threads: int
    setup: Callable[[], Any] | None = None


@dataclass
class Timing:
    """The best of several runs of a task, in seconds; `setup` is already taken off the other two.

    Attributes:
        wall: by the clock.
        cpu: of all threads of the process. May come from another run than `wall`.
        setup: by the clock.
    """

    wall: float
    cpu: float
    setup: float


REST = 0.25  # seconds; OpenMP's workers spin for 200 ms after a loop, which takes a core from whoever runs next


def race(tasks: Sequence[Task], rounds: int, *, rest: float = 0.0) -> list[Timing]:
    """Run the tasks in turns, `rounds` times each, and keep the best times of each.

    Turns make a machine that slows down for a while slow for all; the best time is the one least disturbed.

    Args:
        tasks: in the order of their turns.
        rounds: at least 1.
        rest: seconds to wait before each run.
    """
    best = [Timing(np.inf, np.inf, 0.0) for _ in tasks]
    best_setup = [Timing(np.inf, np.inf, 0.0) if task.setup else Timing(0.0, 0.0, 0.0) for task in tasks]
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for i, task in enumerate(tasks):
                time.sleep(rest)
                if task.setup:
                    _keep_best(best_setup[i], task.setup)
                _keep_best(best[i], task.run)
            gc.collect()
    finally:
        if enabled:
            gc.enable()
    return [
        Timing(max(total.wall - setup.wall, 0.0), max(total.cpu - setup.cpu, 0.0), setup.wall)
        for total, setup in zip(best, best_setup, strict=True)
    ]


def _keep_best(best: Timing, run: Callable[[], Any]) -> None:
    """Time one run; its result is let go after the clock has stopped."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    del result
    best.wall, best.cpu = min(best.wall, wall), min(best.cpu, cpu)
