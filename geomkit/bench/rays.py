"""Job `rays`: first hits, any hit, counts, all hits and the adjoint, of a picture's rays and of random chords."""

from __future__ import annotations

import numpy as np

import geomkit as gk
from geomkit.bench import reference
from geomkit.bench.contest import Arena, Verdict, geomkit_tasks
from geomkit.bench.peer import per_ray
from geomkit.bench.race import Task
from geomkit.bench.sample import Rays, chord_rays, pinhole_rays
from geomkit.spatial.hits import AllHits

__all__ = ["RayCheck", "rays"]

OWN_ERROR = 4 * 2.0**-23  # what geomkit promises of t in float32, as a length over the diagonal of the box
PEER_ERROR = 1e-4  # (a ray that grazes a face makes the most of every rounding)
ADJOINT_ERROR = 1e-4  # of the adjoint of an origin, over its length
CLEAR_DISTANCE = 2e-6  # a hit is clear where the ray is so far from the triangle's edges, over the diagonal


def rays(arena: Arena) -> None:
    """Race geomkit as users call it: NumPy in, complete records out, on a Mesh whose tree is there.

    Nobody else has the adjoint: its ratio is to the forward call whose result it is given.
    """
    _race(arena, "pinhole", pinhole_rays(arena.mesh, arena.rays))
    _race(arena, "chords", chord_rays(arena.mesh, arena.rays, arena.rng))


def _race(arena: Arena, name: str, rays: Rays) -> None:
    """Race all on these rays."""
    mesh, peers, n = arena.mesh, arena.peers, len(rays.origins)
    check = RayCheck(mesh, rays, arena.rng.permutation(n)[: arena.checked])

    def forward(who: str) -> list[Task]:
        return geomkit_tasks(who, lambda: gk.cast_rays(mesh, *rays), lambda r, n: r.t[:n], n)

    own = forward("geomkit")
    arena.contest(f"closest hit {name}", own + [peer.closest_hit(rays) for peer in peers], check.closest, checked=n)

    own = geomkit_tasks("geomkit", lambda: gk.occluded(mesh, *rays), lambda r, n: r[:n], n)
    arena.contest(f"any hit {name}", own + [peer.any_hit(rays) for peer in peers], check.any, checked=n)

    own = geomkit_tasks("geomkit", lambda: gk.count_hits(mesh, *rays), lambda r, n: r[:n], n)
    arena.contest(f"count {name}", own + [peer.count_hits(rays) for peer in peers], check.count, checked=n)

    own = geomkit_tasks("geomkit", lambda: gk.all_hits(mesh, *rays), _listed, n)
    arena.contest(f"all hits {name}", own + [peer.all_hits(rays) for peer in peers], check.all, checked=n)

    hits, adj_t = gk.cast_rays(mesh, *rays), np.ones(n, np.float32)
    adjoint = geomkit_tasks(
        "geomkit, adjoint",
        lambda: gk.cast_rays.adjoint(mesh, *rays, adj_t=adj_t, result=hits),
        lambda r, n: r.origins[:n],
        n,
    )
    arena.contest(f"adjoint {name}", forward("geomkit, forward") + adjoint, check.adjoint, checked=n)


class RayCheck:
    """Hits checked against float64 over all triangles, where it is clear what is right.

    Args:
        mesh: with faces.
        rays: all rays.
        index: (M,) which of them are checked.
    """

    def __init__(self, mesh: gk.Mesh, rays: Rays, index: np.ndarray):
        self.diagonal, self.index = mesh.diagonal, index
        chosen = Rays(rays.origins[index], rays.directions[index])
        self.speed = np.linalg.norm(chosen.directions.astype(np.float64), axis=1)
        self.truth = reference.cast_rays(
            mesh.vertices_array, mesh.faces_array, *chosen, slack=CLEAR_DISTANCE * mesh.diagonal
        )
        # t = (a - o).m / d.m with m across the face, so that dt / do = -m / d.m.
        a, b, c = mesh.vertices_array.astype(np.float64)[mesh.faces_array[self.truth.face]].transpose(1, 0, 2)
        normal = np.cross(b - a, c - a)
        hit = self.truth.face >= 0
        across = (normal * chosen.directions).sum(axis=1, keepdims=True)
        self.gradient = np.where(hit[:, None], -normal / np.where(hit[:, None], across, 1), 0.0)

    def closest(self, task: Task, values: np.ndarray) -> Verdict:
        """What is right of the t of first hits."""
        t, truth, clear = values[self.index], self.truth, self.truth.clear_first
        hit = truth.face >= 0
        wrong = (np.isfinite(t) != hit) & clear
        both = clear & hit & ~wrong
        error = np.abs(t[both] - truth.t[both]) * self.speed[both]
        return self._verdict(task, error, "t", int(wrong.sum()), int(clear.sum()), "hits or misses")

    def any(self, task: Task, values: np.ndarray) -> Verdict:
        """What is right of whether rays hit."""
        clear = self.truth.clear_any
        wrong = ((values[self.index] != 0) != (self.truth.face >= 0)) & clear
        return self._verdict(task, None, "", int(wrong.sum()), int(clear.sum()), "hits or misses")

    def count(self, task: Task, values: np.ndarray) -> Verdict:
        """What is right of numbers of hits."""
        clear = self.truth.clear_all
        wrong = (values[self.index] != self.truth.count) & clear
        return self._verdict(task, None, "", int(wrong.sum()), int(clear.sum()), "counts")

    def all(self, task: Task, values: np.ndarray) -> Verdict:
        """What is right of the values of `per_ray`: of numbers of hits, and of the mean of their t."""
        count, total = values[self.index].T
        truth, clear = self.truth, self.truth.clear_all
        wrong = (count != truth.count) & clear
        both = clear & ~wrong & (truth.count > 0)
        error = np.abs(total - truth.total)[both] / truth.count[both] * self.speed[both]
        return self._verdict(task, error, "t", int(wrong.sum()), int(clear.sum()), "counts")

    def adjoint(self, task: Task, values: np.ndarray) -> Verdict:
        """What is right of the adjoints of origins where that of every t is 1; forward rows are checked as such."""
        if values.ndim == 1:
            return self.closest(task, values)
        clear = self.truth.clear_first
        adjoint, gradient = values[self.index][clear], self.gradient[clear]
        size = np.linalg.norm(gradient, axis=1)
        error = float((np.linalg.norm(adjoint - gradient, axis=1) / np.where(size > 0, size, 1)).max(initial=0))
        return Verdict(error, None, "ok" if error <= ADJOINT_ERROR else f"wrong adjoints (> {ADJOINT_ERROR:g})")

    def _verdict(self, task: Task, length: np.ndarray | None, what: str, wrong: int, clear: int, of: str) -> Verdict:
        """The verdict on errors that are lengths, and on answers of which some are wrong."""
        error = None if length is None else float(length.max(initial=0)) / self.diagonal
        limit = OWN_ERROR if task.who.startswith("geomkit") else PEER_ERROR
        # (A NaN fails.)
        text = "ok" if error is None or error <= limit else f"wrong {what} (> {limit:.2g})"
        if wrong:
            text = f"wrong {of}: {wrong} of {clear}"
        return Verdict(error, wrong / max(clear, 1), text)


def _listed(found: AllHits, n: int) -> np.ndarray:
    """The values of `per_ray` of what `all_hits` gives."""
    n_rays = len(found.offsets) - 1
    return per_ray(np.repeat(np.arange(n_rays), np.diff(found.offsets)), found.t, n_rays)[:n]
