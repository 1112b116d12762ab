"""What a mesh says about the rays of a file."""

from __future__ import annotations

from typing import Any

import numpy as np

import geomkit
from geomkit.cli.table import Reader
from geomkit.mesh import Mesh

FIELDS = ("t", "face", "barycentric", "normal", "position")
WHAT = (*FIELDS, "count")
RAYS = Reader("raycast", "RAYS", ("ox", "oy", "oz", "dx", "dy", "dz"), ("origins", "directions"))


def answer(mesh: Mesh, rays: np.ndarray, what: list[str], *, t_min: float, t_max: float, cull: str) -> dict[str, Any]:
    """What is asked, by name and in that order.

    Args:
        mesh: the mesh.
        rays: (N, 6), origin and direction side by side.
        what: names out of WHAT.
        t_min, t_max, cull: as in `geomkit.cast_rays`.

    Returns:
        t (N,), face (N,) int32, barycentric (N, 2), normal (N, 3), position (N, 3) of the first hit, and the count (N,)
        int32 of all: those asked for.
    """
    options: dict[str, Any] = {"t_min": t_min, "t_max": t_max, "cull": cull}
    origins, directions = rays[:, :3], rays[:, 3:]
    found: dict[str, Any] = {}
    if set(what) & set(FIELDS):
        hits = geomkit.cast_rays(mesh, origins, directions, **options)
        found = {name: getattr(hits, name) for name in what if name != "count"}
    if "count" in what:
        found["count"] = geomkit.count_hits(mesh, origins, directions, **options)
    return {name: found[name] for name in what}
