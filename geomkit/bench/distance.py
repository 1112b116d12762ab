"""Job `distance`: distances with and without sign, of points all over the box and of points near the surface."""

from __future__ import annotations

from typing import Any

import numpy as np

import geomkit as gk
from geomkit.bench import reference
from geomkit.bench.contest import Arena, Verdict, geomkit_tasks
from geomkit.bench.race import Task
from geomkit.bench.sample import near_points, uniform_points

__all__ = ["Check", "distance"]

OWN_ERROR = 1e-6  # what geomkit promises in float32, over the diagonal of the box
PEER_ERROR = 1e-5
CLEAR_WINDING = 0.01  # a side is clear where the winding number is so far from a half
CLEAR_DISTANCE = 2e-6  # and the surface so far away, over the diagonal


def distance(arena: Arena) -> None:
    """Race geomkit as users call it: NumPy in, complete records out, on a Mesh whose tree and tables are there."""
    mesh, peers, rng = arena.mesh, arena.peers, arena.rng
    for where, sample in (("uniform", uniform_points), ("near", near_points)):
        points = sample(mesh, arena.points, rng)
        check = Check(mesh, points[: arena.checked])
        n = len(points)
        unsigned = [
            *geomkit_tasks("geomkit", lambda p=points: gk.closest_point(mesh, p), lambda r, n: r.distance[:n], n),
            *geomkit_tasks("geomkit, distance only", lambda p=points: _signed(mesh, p, "unsigned"), _first, n),
        ]
        signed = geomkit_tasks("geomkit", lambda p=points: _signed(mesh, p, "auto"), _first, n)
        arena.contest(f"unsigned {where}", unsigned + [peer.distance(points) for peer in peers], check.unsigned)
        arena.contest(f"signed {where}", signed + [peer.signed_distance(points) for peer in peers], check.signed)


class Check:
    """Distances checked against float64 over all triangles, signs against the exact winding number.

    Args:
        mesh: with faces.
        points: (N, 3) the points checked.
    """

    def __init__(self, mesh: gk.Mesh, points: np.ndarray):
        arrays = mesh.vertices_array, mesh.faces_array
        self.diagonal = mesh.diagonal
        self.distance = reference.closest_distance(*arrays, points)
        winding = reference.winding_number(*arrays, points)
        self.inside = winding > 0.5
        self.clear = (np.abs(winding - 0.5) > CLEAR_WINDING) & (self.distance > CLEAR_DISTANCE * self.diagonal)

    def unsigned(self, task: Task, values: np.ndarray) -> Verdict:
        """What is right of distances."""
        error = float(np.abs(values - self.distance[: len(values)]).max()) / self.diagonal
        limit = OWN_ERROR if task.who.startswith("geomkit") else PEER_ERROR
        # (A NaN fails.)
        return Verdict(error, None, "ok" if error <= limit else f"wrong distances (> {limit:g})")

    def signed(self, task: Task, values: np.ndarray) -> Verdict:
        """What is right of signed distances."""
        error, _, text = self.unsigned(task, np.abs(values))
        clear = self.clear[: len(values)]
        wrong = int(((values < 0) != self.inside[: len(values)])[clear].sum())
        if text == "ok" and wrong:
            text = f"wrong signs: {wrong} of {clear.sum()}"
        return Verdict(error, wrong / max(int(clear.sum()), 1), text)


def _signed(mesh: gk.Mesh, points: np.ndarray, sign: str) -> Any:
    return gk.signed_distance(mesh, points, sign=sign)


def _first(values: np.ndarray, n: int) -> np.ndarray:
    return values[:n]
