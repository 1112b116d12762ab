"""Normals that smooth objects are shaded with: one at each place, whatever seams cut the mesh there."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.mesh.corners import sum_at_vertices
from geomkit.mesh.measure import normals_to_corners
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import namespace

__all__ = ["ShadingNormals"]


class ShadingNormals:
    """The normals of the vertices of a scene's objects.

    Args:
        mesh: all objects as one.
        parts: their own meshes, in the same order.
        smooth: of each, True for one normal at each place, "split" for one at each vertex, or False.

    Attributes:
        normals: (V, 3).
    """

    def __init__(self, mesh: Mesh, parts: list[Mesh], smooth: list[Any]):
        self.mesh, self.xp = mesh, namespace(mesh.device)
        self.joined, self.first = mesh, None
        if any(flag is True and not part.topology.is_welded for part, flag in zip(parts, smooth, strict=True)):
            # Kept, as it has a census of its own.
            self.joined, self.first = mesh.derived(f"joined {smooth}", lambda mesh: self._join(mesh, parts, smooth))
        normals = self.xp.asarray(self.joined.vertex_normals)
        self.normals = normals if self.first is None else self.xp.ascontiguousarray(normals[self.first])

    def _join(self, mesh: Mesh, parts: list[Mesh], smooth: list[Any]) -> tuple[Mesh, Any]:
        """The mesh with one vertex at each place where smoothing goes across seams, and which one."""
        start, firsts = 0, []
        for part, flag in zip(parts, smooth, strict=True):
            own = part.topology.representative if flag is True else np.arange(part.n_vertices, dtype=np.int32)
            firsts.append(own + np.int32(start))
            start += part.n_vertices
        first = self.xp.asarray(np.concatenate(firsts))
        joined, known = mesh.family.get(f"joined {smooth}", (None, None))
        if joined is not None and self.xp.array_equal(first, known):
            joined = joined.moved(mesh.vertices_array)
        else:
            joined = Mesh.adopt(mesh.vertices_array, first[mesh.faces_array], mesh.library)
        mesh.family[f"joined {smooth}"] = joined, first
        return joined, first

    def adjoint(self, adj: Any) -> Any:
        """(V, 3) gradients of the vertices for the cotangent (V, 3) of their normals: each face's own move."""
        if self.first is not None:
            n = len(adj)
            sums = [self.xp.bincount(self.first, weights=adj[:, k].astype(np.float64), minlength=n) for k in range(3)]
            adj = self.xp.stack(sums, axis=1)
        adj = self.xp.ascontiguousarray(adj.astype(self.mesh.dtype))
        return sum_at_vertices(self.mesh, normals_to_corners(self.joined, adj))
