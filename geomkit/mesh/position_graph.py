"""The graph of a mesh's positions: vertices at one place are one, so that seams do not cut."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.mesh.corners import sum_corners
from geomkit.mesh.mesh import Mesh
from geomkit.mesh.topology import Topology
from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel

__all__ = ["PositionGraph"]

graph_apply = Kernel(
    "mesh/graph.cu",
    "graph_apply",
    "const int* offset, const int* neighbors, int channels, double identity, double laplacian, const double* x, "
    "double* out",
)

KEPT = "_position_graph"


class PositionGraph:
    """Positions, the edges between them, and the faces on either side.

    Values at vertices count as their mean where several vertices are at one position, and what is computed at a
    position goes back to all of them.

    Args:
        topology: of a mesh.
        device: where its arrays are to be.

    Attributes:
        n: number of positions.
        n_edges: number of edges between them; those of collapsed faces are not among them.
        weld: (V,) the position of each vertex.
        copies: (n,) how many vertices are there.
        faces: (F, 3) int32 of positions.
        offset, neighbors: int32, compressed rows: neighbors[offset[v] : offset[v + 1]] are joined to v.
        share: (F, 3) float64. One over the number of faces at the edge from corner k to k + 1; 0 of collapsed faces.
        across: (F, 3) int32 the face at the other side of that edge, -1 if there are not two faces.
        turned: (F, 3) float64, 1 if that face passes the edge the other way, as it should, else -1.
    """

    def __init__(self, topology: Topology, device: str):
        table = topology._edges  # pyright: ignore[reportPrivateUsage]
        xp = namespace(device)
        self.device, self.n, self.n_edges = device, topology.n_unique, len(table.starts)
        low, high = (x.astype(np.int64) for x in table.ends(np.arange(self.n_edges)))
        rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.lexsort((columns, rows))
        offset = np.zeros(self.n + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=self.n), out=offset[1:])
        share = np.zeros(topology.welded_faces.size)
        share[table.codes] = np.repeat(1 / table.uses, table.uses)
        across, turned = np.full(share.shape, -1, np.int32), np.ones(share.shape)
        first = table.starts[table.uses == 2]
        one, other = table.codes[first], table.codes[first + 1]
        across[one], across[other] = other // 3, one // 3
        turned[one] = turned[other] = np.where(table.net[table.uses == 2] == 0, 1.0, -1.0)
        self.weld = xp.asarray(topology.weld)
        self.unique = xp.asarray(topology.unique_vertices)
        self.copies = xp.asarray(np.bincount(topology.weld, minlength=self.n).astype(np.float64))
        self.is_welded = topology.is_welded
        self.faces = xp.asarray(topology.welded_faces)
        self.offset, self.neighbors = xp.asarray(offset), xp.asarray(columns[order].astype(np.int32))
        self.degree = xp.asarray(np.diff(offset).astype(np.float64))
        self.share = xp.asarray(share.reshape(-1, 3))
        self.across, self.turned = xp.asarray(across.reshape(-1, 3)), xp.asarray(turned.reshape(-1, 3))
        flat = topology.welded_faces.ravel()
        stands = np.zeros(self.n + 1, np.int32)
        np.cumsum(np.bincount(flat, minlength=self.n), out=stands[1:])
        self._corners = xp.asarray(stands), xp.asarray(np.argsort(flat, kind="stable").astype(np.int32))
        if not self.is_welded:
            order = np.argsort(topology.weld, kind="stable")
            self._starts = np.searchsorted(topology.weld[order], np.arange(self.n))
            self._order = order

    @classmethod
    def of(cls, mesh: Mesh) -> PositionGraph:
        """That of a mesh: made once, also for the same faces at other positions."""
        kept = mesh.topology.__dict__
        if KEPT not in kept or kept[KEPT].device != mesh.device:
            kept[KEPT] = cls(mesh.topology, mesh.device)
        return kept[KEPT]

    def sums(self, at_vertices: Any) -> Any:
        """(n, C) float64: the sum over the vertices at each position of (V, C)."""
        xp = namespace(self.device)
        values = xp.asarray(at_vertices, dtype=np.float64)
        if self.is_welded:
            return values
        # On the host, in the order of the vertices: a GPU's float atomics would give other bits each time.
        host = values if isinstance(values, np.ndarray) else values.get()
        return xp.asarray(np.add.reduceat(host[self._order], self._starts, axis=0))

    def means(self, at_vertices: Any) -> Any:
        """(n, C) float64: likewise the means."""
        return self.sums(at_vertices) if self.is_welded else self.sums(at_vertices) / self.copies[:, None]

    def spread(self, at_positions: Any) -> Any:
        """(V, C): each vertex gets what is at its position; the adjoint of `sums`."""
        return at_positions if self.is_welded else at_positions[self.weld]

    def shared(self, at_positions: Any) -> Any:
        """(V, C): the vertices at a position get equal parts of what is there; the adjoint of `means`."""
        return at_positions if self.is_welded else (at_positions / self.copies[:, None])[self.weld]

    def apply(self, x: Any, identity: float, laplacian: float) -> Any:
        """(identity I + laplacian L) x of (n, C) float64, C-contiguous, L the degree less the neighbours."""
        out = empty(self.device, x.shape, np.float64)
        graph_apply(self.n, self.offset, self.neighbors, x.shape[1], float(identity), float(laplacian), x, out)
        return out

    def corners_to_positions(self, adj_corners: Any) -> Any:
        """(n, 3) float64: cotangents (F, 3, 3) of the corners, summed at each position in the order of the faces."""
        xp = namespace(self.device)
        out = empty(self.device, (self.n, 3), np.float64)
        sum_corners(self.n, *self._corners, xp.ascontiguousarray(adj_corners, dtype=np.float64), out)
        return out
