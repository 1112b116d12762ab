"""The faces on either side of each edge."""

from __future__ import annotations

import numpy as np

from geomkit.mesh.topology import Topology

__all__ = ["edges_with_faces"]


def edges_with_faces(topology: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The welded edges of a mesh, found once for all meshes that share its census of edges.

    Returns:
        ends: (E, 2) int32 vertex indices, the lowest at their positions.
        faces: (E, 2) int32. The faces of an edge that has two; else one of them, and -1.
        opposed: (E,) bool. Whether the two faces pass it in opposite directions.
    """
    table = topology._edges  # pyright: ignore[reportPrivateUsage]
    if (known := vars(topology).get("edges_with_faces")) is not None:
        return known
    low, high = table.ends(np.arange(len(table.starts)))
    ends = np.stack([low, high], axis=1)
    ends = (ends if topology.is_welded else topology.unique_vertices[ends]).astype(np.int32)
    two = table.uses == 2
    second = table.codes[np.minimum(table.starts + 1, len(table.codes) - 1)] // 3
    faces = np.stack([table.codes[table.starts] // 3, np.where(two, second, -1)], axis=1)
    # (A topology that has moved takes this along.)
    found = vars(topology)["edges_with_faces"] = ends, faces.astype(np.int32), two & (table.net == 0)
    return found
