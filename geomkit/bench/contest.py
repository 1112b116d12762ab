"""A contest: contenders whose values are checked, then raced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from geomkit.bench.peer import Peer
from geomkit.bench.race import REST, Task, Timing, race
from geomkit.bench.row import Row
from geomkit.mesh.mesh import Mesh
from geomkit.runtime import host

__all__ = ["Arena", "Verdict", "geomkit_tasks"]


class Verdict(NamedTuple):
    """What a check says of a contender's values."""

    error: float | None = None
    wrong_signs: float | None = None
    check: str = "ok"


@dataclass
class Arena:
    """A mesh, the contenders on it, and where rows go.

    Attributes:
        name: of the mesh.
        mesh: a float32 mesh with faces, its trees and tables not yet built.
        peers: the libraries to compare with.
        points: number of query points.
        rounds: number of runs of which the best counts.
        checked: number of values checked.
        rng: source of the points.
        report: is given each contest's rows when it is over.
        rays: number of rays, for the job that casts them.
        rows: all rows so far.
    """

    name: str
    mesh: Mesh
    peers: Sequence[Peer]
    points: int
    rounds: int
    checked: int
    rng: np.random.Generator
    report: Callable[[Sequence[Row]], None] = lambda rows: None
    rays: int = 1 << 20
    rows: list[Row] = field(default_factory=list)

    def contest(
        self,
        job: str,
        tasks: Sequence[Task | None],
        check: Callable[[Task, np.ndarray], Verdict] | None,
        *,
        per_triangle: bool = False,
        checked: int | None = None,
    ) -> None:
        """Check the values of each task, then race those that ran, and add their rows.

        Args:
            job: what the rows call it.
            tasks: the first is geomkit's, which the ratios refer to; those of contenders on one thread refer to the
                first of geomkit's on one thread. None is a peer that does not do this.
            check: (task, its first values) to what is right and wrong with them; None where there is nothing to check.
            per_triangle: tasks work on triangles, not on points or rays.
            checked: how many first values `check` is given; None for the arena's number.
        """
        entered = [task for task in tasks if task is not None]
        rows, running = [], []
        for task in entered:
            points = None if per_triangle else task.items
            row = Row(job, self.name, self.mesh.n_faces, points, task.who, task.threads, self.rounds)
            rows.append(row)
            try:
                verdict = _verdict(task, check, self.checked if checked is None else checked)
            except Exception as error:
                if row.own:
                    raise
                # A peer may fail in its own way; the others go on.
                row.check = f"failed: {type(error).__name__}: {error}"
                continue
            row.error, row.wrong_signs, row.check = verdict
            running.append((task, row))
        timings = race([task for task, _ in running], self.rounds, rest=REST if self.peers else 0.0)
        first, alone = 0, [i for i, (_, row) in enumerate(running) if row.own and row.threads == 1]
        for (task, row), timing in zip(running, timings, strict=True):
            base = alone[0] if alone and task.threads == 1 else first
            _fill(row, task.items, timing, running[base][0].items, timings[base])
        self.rows += rows
        self.report(rows)


def geomkit_tasks(who: str, run: Callable[[], Any], read: Callable[[Any, int], np.ndarray], items: int) -> list[Task]:
    """A task of geomkit's, and the same on one thread where that is another."""
    threads = host.num_threads()

    def alone() -> Any:
        host.set_num_threads(1)
        try:
            return run()
        finally:
            host.set_num_threads(threads)

    tasks = [Task(who, run, read, items, threads)]
    return tasks if threads == 1 else [*tasks, Task(f"{who}, 1 thread", alone, read, items, 1)]


def _verdict(task: Task, check: Callable[[Task, np.ndarray], Verdict] | None, checked: int) -> Verdict:
    """Run a task once, which also warms it up, and check its first values."""
    result = task.run()
    if check is None:
        return Verdict()
    return check(task, np.asarray(task.read(result, min(checked, task.items)), np.float64))


def _fill(row: Row, items: int, timing: Timing, base_items: int, base: Timing) -> None:
    """Times, rate and ratios of a row."""
    row.seconds, row.cpu_seconds, row.setup_seconds = timing.wall, timing.cpu, timing.setup
    row.rate = items / timing.wall if timing.wall > 0 else None

    def ratio(time: float, base_time: float) -> float | None:
        return (time / items) / (base_time / base_items) if base_time > 0 else None

    row.ratio = ratio(timing.wall, base.wall)
    row.cpu_ratio = ratio(timing.cpu, base.cpu)
    row.ratio_with_setup = ratio(timing.wall + timing.setup, base.wall)
