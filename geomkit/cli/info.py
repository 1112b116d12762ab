"""The numbers of `geomkit info --json`."""

from __future__ import annotations

from typing import Any

from geomkit.mesh import Mesh
from geomkit.mesh.report import sign_method

COUNTS = (
    "n_edges",
    "n_boundary",
    "n_non_manifold",
    "n_inconsistent",
    "n_collapsed",
    "n_zero_area",
    "n_duplicate_same",
    "n_duplicate_opposite",
    "n_non_manifold_vertices",
    "n_unreferenced",
    "n_unique",
)


def numbers(mesh: Mesh) -> dict[str, Any]:
    """What `mesh.report()` says in words, as numbers; lengths, areas and volumes in the file's unit.

    Returns:
        JSON values by name. Without faces there are no bounds.
    """
    topology = mesh.topology
    return {
        "n_vertices": mesh.n_vertices,
        "n_faces": mesh.n_faces,
        "dtype": str(mesh.dtype),
        "bounds": mesh.bounds.tolist() if mesh.n_faces else None,
        "diagonal": mesh.diagonal,
        "area": mesh.area,
        "volume": mesh.volume,
        "is_closed": topology.is_closed,
        "is_closed_manifold": topology.is_closed_manifold,
        "is_oriented": topology.is_oriented,
        "euler_characteristic": topology.euler_characteristic,
        "genus": topology.genus,
        "n_components": topology.components[0],
        "n_boundary_loops": len(topology.boundary_loops),
        **{name: getattr(topology, name) for name in COUNTS},
        "sign": sign_method(mesh),
        "report": mesh.report().splitlines(),
    }
