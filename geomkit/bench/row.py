"""One row of results, and the table of all."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Row", "printing", "table"]


@dataclass
class Row:
    """What one contender did in one job on one mesh. A value that does not exist is None.

    Attributes:
        job: what was timed, such as "signed near", "build sah" or "any hit chords".
        mesh: name of the file.
        triangles: number of the mesh's.
        points: number of points or rays that this contender answered.
        who: the contender.
        threads: number of CPU threads that it may use.
        rounds: number of runs of which the best counts.
        seconds: best time by the clock, what others have built before (`setup_seconds`) taken off.
        cpu_seconds: best time of all threads of the process, likewise.
        setup_seconds: what was taken off, by the clock; 0 where the contender keeps its trees.
        rate: points or rays (triangles, for builds) a second.
        ratio: time a point (ray, triangle) over that of geomkit on as many threads: how many times faster geomkit is.
            That of an adjoint is to the forward call.
        cpu_ratio: the same of cpu_seconds.
        ratio_with_setup: the same of seconds and setup_seconds together.
        error: against float64 on some of the points or rays. Distances, builds and t: the greatest error, as a length
            over the diagonal of the mesh's box. Winding numbers: root mean square. Adjoints: the greatest of those of
            an origin, over the adjoint's length.
        wrong_signs: share of those points on the wrong side, of those where the side is clear; of those rays with a hit
            too many or too few, of those where the hits are clear.
        check: "ok", or what is wrong with the values.
    """

    job: str
    mesh: str
    triangles: int
    points: int | None
    who: str
    threads: int
    rounds: int
    seconds: float | None = None
    cpu_seconds: float | None = None
    setup_seconds: float | None = None
    rate: float | None = None
    ratio: float | None = None
    cpu_ratio: float | None = None
    ratio_with_setup: float | None = None
    error: float | None = None
    wrong_signs: float | None = None
    check: str = "ok"

    @property
    def own(self) -> bool:
        """Whether the contender is geomkit."""
        return self.who.startswith("geomkit")

    def json(self) -> str:
        """The row as one line of JSON; numbers that are not finite are null."""
        values = asdict(self).items()
        return json.dumps({k: None if isinstance(v, float) and not abs(v) < float("inf") else v for k, v in values})


@contextmanager
def printing(path: Path | None) -> Iterator[Callable[[Sequence[Row]], None]]:
    """What prints rows as they come, a line of JSON each, to standard output and, if there is a path, to that file."""
    with ExitStack() as stack:
        outputs = [sys.stdout]
        if path:
            outputs.append(stack.enter_context(open(path, "w", encoding="utf-8")))

        def report(rows: Sequence[Row]) -> None:
            for row in rows:
                for output in outputs:
                    print(row.json(), file=output, flush=True)

        yield report


def table(rows: Sequence[Row]) -> None:
    """Print the rows as a table to standard error, a section for each job on each mesh."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    result = Table(
        box=box.SIMPLE_HEAD, caption="ratio: time over geomkit's on as many threads; with setup: trees included"
    )
    for name in ("job", "mesh", "who"):
        result.add_column(name, no_wrap=True)
    for name in ("threads", "points, rays", "ms", "M/s", "ratio", "cpu ratio", "with setup", "error"):
        result.add_column(name, justify="right")
    result.add_column("check")
    before = None
    for row in rows:
        if before and (row.job, row.mesh) != (before.job, before.mesh):
            result.add_section()
        before = row
        with_setup = row.ratio_with_setup if row.setup_seconds else None
        result.add_row(
            row.job,
            row.mesh,
            row.who,
            str(row.threads),
            "" if row.points is None else f"{row.points:,}",
            _number(row.seconds, ".1f", 1e3),
            _number(row.rate, ".3g", 1e-6),
            _number(row.ratio, ".2f"),
            _number(row.cpu_ratio, ".2f"),
            _number(with_setup, ".2f"),
            _number(row.error, ".1e"),
            row.check,
            style="bold" if row.own else None,
        )
    # A file or a pipe has no width of its own.
    console = Console(stderr=True)
    Console(stderr=True, width=max(console.width, 180)).print(result)


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "" if value is None else format(value * scale, form)
