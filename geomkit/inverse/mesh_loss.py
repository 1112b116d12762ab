"""Losses of a mesh's own shape: smoothness, flatness, length of edges; forward and adjoint.

Vertices at one position count as one, so that seams and soups are as connected as they look; they share the gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from geomkit.arrays import as_array
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.measure import MeshGradients
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.mesh.position_graph import PositionGraph
from geomkit.runtime.device import namespace

__all__ = ["mesh_edge_loss", "mesh_laplacian_smoothing", "mesh_normal_consistency"]


class _Shape:
    """A mesh's positions and the graph between them, in float64."""

    def __init__(self, mesh: Any):
        self.mesh: Mesh = as_mesh(mesh).plain
        self.library = as_mesh(mesh).library
        self.xp = namespace(self.mesh.device)
        self.graph = PositionGraph.of(self.mesh)
        self.points = self.graph.means(self.mesh.vertices_array)
        self.corners = self.points[self.graph.faces]  # (F, 3, 3)

    def value(self, x: Any) -> Any:
        return self.library.wrap(self.xp.asarray(x, dtype=self.mesh.dtype))

    def gradients(self, adj_points: Any) -> MeshGradients:
        out = self.graph.shared(adj_points).astype(self.mesh.dtype)
        return MeshGradients(self.library.wrap(self.xp.ascontiguousarray(out)))

    def from_corners(self, adj_corners: Any) -> MeshGradients:
        return self.gradients(self.graph.corners_to_positions(adj_corners))


def _cotangent(op: str, adj: Any) -> float:
    return float(as_array(adj, op=f"{op}.adjoint", name="adj_loss", shape=(), dtype=np.float64))


# ---- Laplacian


class _Laplacian:
    """The differences of positions from the means of their neighbours.

    Attributes:
        away: (n, 3) the differences, 0 where there are no neighbours or no weights.
        length: (n, 1) their lengths.
    """

    def __init__(self, s: _Shape, method: str):
        if method not in ("uniform", "cot"):
            raise ValueError(message("mesh_laplacian_smoothing", "method", "'uniform' or 'cot'", repr(method)))
        self.s, self.method, xp = s, method, s.xp
        if method == "uniform":
            self.total = s.graph.degree[:, None]
            pull = -s.graph.apply(s.points, 0.0, 1.0)
        else:
            # u and v from corner k to the two others; the cotangent weights the edge between these.
            self.u = xp.roll(s.corners, -1, axis=1) - s.corners
            self.v = xp.roll(s.corners, 1, axis=1) - s.corners
            self.across = xp.cross(self.u, self.v)
            self.dot = (self.u * self.v).sum(axis=2)
            area = xp.sqrt((self.across**2).sum(axis=2))
            self.flat = area <= 0
            self.area = xp.where(self.flat, 1, area)
            self.weight = xp.where(self.flat, 0, self.dot / self.area)  # (F, 3), by the corner opposite
            edge = self.v - self.u  # from corner k + 1 to k + 2
            self.edge = edge
            pulled = self.weight[:, :, None] * edge
            pull = s.graph.corners_to_positions(xp.roll(pulled, 1, axis=1) - xp.roll(pulled, -1, axis=1))
            own = xp.roll(self.weight, 1, axis=1) + xp.roll(self.weight, -1, axis=1)
            self.total = s.graph.corners_to_positions(xp.stack([own] * 3, axis=2))[:, :1]
        # Where the weights cancel there is no mean.
        self.some = abs(self.total) > 0
        self.divisor = xp.where(self.some, self.total, 1)
        self.away = xp.where(self.some, pull / self.divisor, 0)
        self.length = xp.sqrt((self.away**2).sum(axis=1, keepdims=True))

    def gradients(self, adj_away: Any) -> MeshGradients:
        s, xp = self.s, self.s.xp
        adj_pull = xp.where(self.some, adj_away / self.divisor, 0)
        if self.method == "uniform":
            return s.gradients(-s.graph.apply(xp.ascontiguousarray(adj_pull), 0.0, 1.0))
        adj_total = -(adj_pull * self.away).sum(axis=1)
        at, faces = adj_pull[s.graph.faces], s.graph.faces
        # Corner k + 1 is pulled along the edge, corner k + 2 against it.
        along = xp.roll(at, -1, axis=1) - xp.roll(at, 1, axis=1)
        sums = adj_total[faces]
        adj_weight = (along * self.edge).sum(axis=2) + xp.roll(sums, -1, axis=1) + xp.roll(sums, 1, axis=1)
        adj_weight = xp.where(self.flat, 0, adj_weight)
        adj_dot = (adj_weight / self.area)[:, :, None]
        adj_across = (-adj_weight * self.dot / self.area**3)[:, :, None] * self.across
        adj_edge = self.weight[:, :, None] * along
        adj_u = adj_dot * self.v + xp.cross(self.v, adj_across) - adj_edge
        adj_v = adj_dot * self.u + xp.cross(adj_across, self.u) + adj_edge
        return s.from_corners(xp.roll(adj_u, 1, axis=1) + xp.roll(adj_v, -1, axis=1) - adj_u - adj_v)


@primitive(differentiable=("vertices",), outputs={"loss": "real"})
def mesh_laplacian_smoothing(mesh: Mesh, *, method: str = "uniform") -> Any:
    """How far vertices are from the means of their neighbours, on average.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        method: "uniform", the plain mean; "cot", weighted by cotangents, so that moving a vertex within the surface
            costs nothing.

    Returns:
        () in the library of the mesh, in its length unit: the mean over all positions of the distance. Vertices of no
        face, and those whose weights cancel, count 0.

    Gradients:
        mesh.vertices, those through the cotangents included, which PyTorch3D takes for constants. 0 of a vertex that is
        the mean of its neighbours.

    Raises:
        ValueError: another method.
        TypeError: mesh is no mesh.

    Cost: O(F), in float64; the same bits whatever the number of threads.   Source: Desbrun et al. (1999).

    Example:
        >>> import geomkit as gk
        >>> round(gk.mesh_laplacian_smoothing(gk.Mesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])).item(), 4)
        1.9621
    """
    s = _Shape(mesh)
    return s.value(_Laplacian(s, method).length.sum() / max(s.graph.n, 1))


@mesh_laplacian_smoothing.define_adjoint
def mesh_laplacian_smoothing_adjoint(mesh: Mesh, *, method: str = "uniform", adj_loss: Any = 1.0) -> MeshGradients:
    """Gradients of `mesh_laplacian_smoothing`: the cotangent of the loss to the mesh's vertices.

    Args:
        mesh, method: as given to `mesh_laplacian_smoothing`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: as `mesh_laplacian_smoothing`.
    """
    s = _Shape(mesh)
    lap = _Laplacian(s, method)
    adj = _cotangent("mesh_laplacian_smoothing", adj_loss) / max(s.graph.n, 1)
    away = s.xp.where(lap.length > 0, lap.away / s.xp.where(lap.length > 0, lap.length, 1), 0)
    return lap.gradients(adj * away)


# ---- normals


class _Bends:
    """The cosines between the normals of neighbouring faces, at each side of each face."""

    def __init__(self, s: _Shape):
        xp, g = s.xp, s.graph
        self.u, self.v = s.corners[:, 1] - s.corners[:, 0], s.corners[:, 2] - s.corners[:, 0]
        across = xp.cross(self.u, self.v)
        length = xp.sqrt((across**2).sum(axis=1, keepdims=True))
        self.length = xp.where(length > 0, length, 1)
        self.normal = xp.where(length > 0, across / self.length, 0)
        self.other = self.normal[g.across] * g.turned[:, :, None]  # (F, side, 3)
        # A face without area has no normal that could disagree.
        self.pair = (g.across >= 0) & (length > 0) & (length[g.across][:, :, 0] > 0)
        self.n_pairs = max(int(self.pair.sum()), 1)  # each pair twice
        self.cosine = (self.normal[:, None] * self.other).sum(axis=2)


@primitive(differentiable=("vertices",), outputs={"loss": "real"})
def mesh_normal_consistency(mesh: Mesh) -> Any:
    """How much a mesh bends at its edges: the mean of one minus the cosine between the normals on either side.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.

    Returns:
        () in the library of the mesh, from 0, flat, to 2: the mean over edges of two faces. Edges of one face or of
        more than two, and faces without area, do not count. Faces that disagree about the front are compared as if
        they agreed.

    Gradients:
        mesh.vertices.

    Raises:
        TypeError: mesh is no mesh.

    Cost: O(F), in float64; the same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> round(gk.mesh_normal_consistency(gk.shapes.box()).item(), 4)
        0.6667
    """
    s = _Shape(mesh)
    b = _Bends(s)
    return s.value(s.xp.where(b.pair, 1 - b.cosine, 0).sum() / b.n_pairs)


@mesh_normal_consistency.define_adjoint
def mesh_normal_consistency_adjoint(mesh: Mesh, *, adj_loss: Any = 1.0) -> MeshGradients:
    """Gradients of `mesh_normal_consistency`: the cotangent of the loss to the mesh's vertices.

    Args:
        mesh: as given to `mesh_normal_consistency`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: as `mesh_normal_consistency`.
    """
    s = _Shape(mesh)
    b, xp = _Bends(s), s.xp
    scale = -2 * _cotangent("mesh_normal_consistency", adj_loss) / b.n_pairs
    adj = scale * xp.where(b.pair[:, :, None], b.other, 0).sum(axis=1)
    adj = (adj - (adj * b.normal).sum(axis=1, keepdims=True) * b.normal) / b.length
    adj_u, adj_v = xp.cross(b.v, adj), xp.cross(adj, b.u)
    return s.from_corners(xp.stack([-adj_u - adj_v, adj_u, adj_v], axis=1))


# ---- edges


def _edges(s: _Shape, target_length: float) -> tuple[Any, Any]:
    """(F, 3, 3) the sides of the faces, and (F, 3, 1) their lengths."""
    if not 0 <= target_length < math.inf:
        raise ValueError(message("mesh_edge_loss", "target_length", "a length of at least 0", repr(target_length)))
    edge = s.xp.roll(s.corners, -1, axis=1) - s.corners
    return edge, s.xp.sqrt((edge**2).sum(axis=2, keepdims=True))


@primitive(differentiable=("vertices",), outputs={"loss": "real"})
def mesh_edge_loss(mesh: Mesh, *, target_length: float = 0.0) -> Any:
    """The mean over edges of the squared difference of their length from one that is wanted.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        target_length: in the mesh's length unit.

    Returns:
        () in the library of the mesh; 0 without edges. An edge counts once however many faces are at it.

    Gradients:
        mesh.vertices. An edge of length 0 has no direction and sends 0.

    Raises:
        ValueError: a length below 0 or not finite.
        TypeError: mesh is no mesh.

    Cost: O(F), in float64; the same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> round(gk.mesh_edge_loss(gk.Mesh([[0, 0, 0], [3, 0, 0], [0, 4, 0]], [[0, 1, 2]])).item(), 4)
        16.6667
    """
    s = _Shape(mesh)
    _, length = _edges(s, target_length)
    return s.value((s.graph.share * (length[:, :, 0] - target_length) ** 2).sum() / max(s.graph.n_edges, 1))


@mesh_edge_loss.define_adjoint
def mesh_edge_loss_adjoint(mesh: Mesh, *, target_length: float = 0.0, adj_loss: Any = 1.0) -> MeshGradients:
    """Gradients of `mesh_edge_loss`: the cotangent of the loss to the mesh's vertices.

    Args:
        mesh, target_length: as given to `mesh_edge_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: as `mesh_edge_loss`.
    """
    s = _Shape(mesh)
    edge, length = _edges(s, target_length)
    xp = s.xp
    pull = xp.where(length > 0, 1 - target_length / xp.where(length > 0, length, 1), 0)
    scale = 2 * _cotangent("mesh_edge_loss", adj_loss) / max(s.graph.n_edges, 1)
    adj = scale * s.graph.share[:, :, None] * pull * edge
    return s.from_corners(xp.roll(adj, 1, axis=1) - adj)
