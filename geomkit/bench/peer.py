"""What every library that geomkit is measured against has in common."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from geomkit.bench.race import Task
from geomkit.bench.sample import Rays
from geomkit.mesh.mesh import Mesh

__all__ = ["Peer", "installed", "per_ray", "processors"]


def processors() -> int:
    """Number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def installed(peers: Mapping[str, Sequence[Any]], keys: Sequence[str]) -> list[str]:
    """Those of the keys whose package is there; says how to get the others.

    Args:
        peers: by key, first of each its name, its module and its package.
        keys: some of them.
    """
    there = {key: importlib.util.find_spec(peers[key][1]) is not None for key in keys}
    for key in keys:
        if not there[key]:
            print(f"{peers[key][0]}: skipped, not installed: pip install {peers[key][2]}", file=sys.stderr)
    return [key for key in keys if there[key]]


class Peer:
    """One library and one mesh.

    Its methods give the task of a job, or None where the library does not do it.

    Attributes:
        key: its name on the command line.
        name: its name in the rows.
        modules: what must be importable.
        packages: what to install.
    """

    key: str
    name: str
    modules: tuple[str, ...]
    packages: str

    @classmethod
    def answers(cls, asked: Sequence[str]) -> bool:
        """Whether the library does any of the jobs that these methods stand for."""
        return any(getattr(cls, name) is not getattr(Peer, name) for name in asked)

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self.vertices = np.array(mesh.vertices_array, np.float32)
        self.faces = np.array(mesh.faces_array, np.int32)

    def distance(self, points: np.ndarray) -> Task | None:
        """Distances without sign."""
        return None

    def signed_distance(self, points: np.ndarray) -> Task | None:
        """Distances, negative inside."""
        return None

    def winding_number(self, points: np.ndarray) -> Task | None:
        """Winding numbers, 1 inside a closed mesh."""
        return None

    def closest_hit(self, rays: Rays) -> Task | None:
        """The first hit of each ray. Its values are t, inf for a miss."""
        return None

    def any_hit(self, rays: Rays) -> Task | None:
        """Whether each ray hits anything."""
        return None

    def count_hits(self, rays: Rays) -> Task | None:
        """The number of hits of each ray."""
        return None

    def all_hits(self, rays: Rays) -> Task | None:
        """Every hit of each ray. Its values are those of `per_ray`."""
        return None

    def build(self, points: np.ndarray) -> Task | None:
        """Building the tree for distances or rays. The points are those at which the built tree will be checked."""
        return None

    def task(self, n: int, run: Callable, read: Callable, *, threads: int | None = None, setup: Any = None) -> Task:
        """A task of this peer on n points or triangles."""
        return Task(self.name, run, read, n, processors() if threads is None else threads, setup)


def per_ray(ray: np.ndarray, t: np.ndarray, n: int) -> np.ndarray:
    """(n, 2) float64: the number of hits of each of n rays, and the sum of their t.

    Args:
        ray: (M,) the ray of each hit.
        t: (M,) the t of each hit.
        n: the number of rays.
    """
    return np.stack([np.bincount(ray, minlength=n), np.bincount(ray, t, n)], axis=1)
