"""What a mesh says about the points of a file."""

from __future__ import annotations

from typing import Any

import numpy as np

import geomkit
from geomkit.cli.table import Reader
from geomkit.mesh import Mesh

WHAT = ("distance", "point", "face", "winding")
POINTS = Reader("query", "POINTS", ("x", "y", "z"), ("points",), (".npy", ".npz", ".csv", ".txt", ".xyz"))


def answer(mesh: Mesh, points: np.ndarray, what: list[str], sign: str) -> dict[str, Any]:
    """What is asked, by name and in that order.

    Args:
        mesh: the mesh.
        points: (N, 3).
        what: names out of WHAT.
        sign: of the distance, as in `geomkit.signed_distance`.

    Returns:
        distance (N,), point (N, 3), face (N,) int32, winding_number (N,): those asked for.
    """
    found: dict[str, Any] = {}
    if "distance" in what:
        found["distance"] = geomkit.signed_distance(mesh, points, sign=sign)
    if "point" in what or "face" in what:
        closest = geomkit.closest_point(mesh, points)
        found["point"], found["face"] = closest.point, closest.face
    if "winding" in what:
        found["winding"] = geomkit.winding_number(mesh, points)
    return {"winding_number" if name == "winding" else name: found[name] for name in what}
