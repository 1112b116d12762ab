"""A progress bar for work of more than two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0


@contextmanager
def bar(what: str) -> Iterator[Callable[..., None]]:
    """A function to call with (done, total), or (done, total, loss).

    It shows a bar on a terminal's stderr once the work takes two seconds.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    begin = time.monotonic()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None, visible=False)

        def update(done: int, total: int, loss: float | None = None) -> None:
            late = time.monotonic() - begin > PATIENCE
            said = what if loss is None else f"{what}, loss {loss:.4g}"
            progress.update(task, completed=done, total=total, visible=late, description=said)

        yield update
