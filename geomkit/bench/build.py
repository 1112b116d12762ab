"""Job `build`: trees, and the tables that geomkit makes when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import geomkit as gk
from geomkit.bench.contest import Arena, geomkit_tasks
from geomkit.bench.distance import Check
from geomkit.bench.sample import uniform_points
from geomkit.implicit.sign import Pseudonormals, choose_auto
from geomkit.mesh.topology import Topology
from geomkit.spatial.bvh import Bvh

__all__ = ["build"]


def build(arena: Arena) -> None:
    """Race both builders, their trees checked by distances found in them; then time geomkit's tables one by one."""
    mesh = arena.mesh
    arrays = mesh.vertices_array, mesh.faces_array
    points = uniform_points(mesh, arena.checked, arena.rng)
    check = Check(mesh, points)

    def read(tree: Bvh, n: int) -> np.ndarray:
        with_tree = mesh.copy()
        with_tree.bvh = tree
        return gk.closest_point(with_tree, points[:n]).distance

    for method in ("sah", "morton"):
        own = geomkit_tasks("geomkit", lambda m=method: Bvh(*arrays, mesh.center, method=m), read, mesh.n_faces)
        peers = [peer.build(points) for peer in arena.peers]
        arena.contest(f"build {method}", own + peers, check.unsigned, per_triangle=True)

    def part(what: str, run: Callable[[], Any]) -> None:
        arena.contest(f"build {what}", geomkit_tasks("geomkit", run, read, mesh.n_faces)[:1], None, per_triangle=True)

    tree = Bvh(*arrays, mesh.center)
    part("frames", lambda: _afresh(tree, "frames"))
    part("moments", lambda: _afresh(tree, "moments"))
    part("topology", lambda: _census(Topology(*arrays)))
    part("pseudonormals", lambda: Pseudonormals(mesh))
    part("choice of sign", lambda: choose_auto(mesh))
    part("all, and one signed distance", lambda: gk.signed_distance(mesh.copy(), points[:1]))


def _census(topology: Topology) -> Any:
    """What signs need of the topology, which makes its parts when they are first asked for."""
    return topology.is_closed, topology.is_oriented, topology.edge_twin


def _afresh(tree: Bvh, name: str) -> Any:
    """A table of the tree, made anew."""
    tree.__dict__.pop(name, None)
    return getattr(tree, name)
