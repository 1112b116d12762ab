"""Job `winding`: winding numbers of points all over the box."""

from __future__ import annotations

import numpy as np

import geomkit as gk
from geomkit.bench import reference
from geomkit.bench.contest import Arena, Verdict, geomkit_tasks
from geomkit.bench.distance import CLEAR_WINDING
from geomkit.bench.race import Task
from geomkit.bench.sample import uniform_points

__all__ = ["winding"]

OWN_ERROR = 1e-3  # what geomkit promises of the root mean square
PEER_ERROR = 2e-2
ROUNDING = 1e-5  # errors below come from float32, and less is no merit


def winding(arena: Arena) -> None:
    """Race `winding_number(method="fast")`; no tree counts, geomkit's or others'.

    geomkit's row fails too where its error is greater than libigl's.
    """
    mesh = arena.mesh
    points = uniform_points(mesh, arena.points, arena.rng)
    checked = points[: arena.checked]
    exact = reference.winding_number(mesh.vertices_array, mesh.faces_array, checked)

    def rms(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean((values - exact[: len(values)]) ** 2)))

    # A ratio is worth something only at an error no greater than the peer's.
    own_limit = OWN_ERROR
    for peer in arena.peers:
        if peer.key == "libigl":
            task = peer.winding_number(checked)
            assert task is not None
            own_limit = min(own_limit, max(ROUNDING, rms(task.read(task.run(), len(checked)))))

    def check(task: Task, values: np.ndarray) -> Verdict:
        truth = exact[: len(values)]
        error = rms(values)
        clear = np.abs(truth - 0.5) > CLEAR_WINDING
        wrong = int(((values > 0.5) != (truth > 0.5))[clear].sum())
        limit = own_limit if task.who.startswith("geomkit") else PEER_ERROR
        text = "ok" if error <= limit else f"wrong winding numbers (> {limit:.2g})"
        if text == "ok" and wrong:
            text = f"wrong sides: {wrong} of {clear.sum()}"
        return Verdict(error, wrong / max(int(clear.sum()), 1), text)

    tasks = geomkit_tasks("geomkit", lambda: gk.winding_number(mesh, points), lambda r, n: r[:n], len(points))
    arena.contest("winding", [*tasks, *(peer.winding_number(points) for peer in arena.peers)], check)
