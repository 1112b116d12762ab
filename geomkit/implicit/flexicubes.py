"""Isosurfaces whose vertices are steered by weights, for optimisation: forward and adjoint."""

from __future__ import annotations

import reprlib
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, as_array, library_of, precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.implicit.dual_cells import EDGE_CORNERS, EDGE_OF_CORNER, DualCells
from geomkit.implicit.field import one_of, triple
from geomkit.mesh.corners import sum_corners
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, sort_order, zeros

__all__ = ["FlexiGradients", "FlexiSurface", "flexicubes"]

SPLITS = ("diagonal", "center")
A, B = EDGE_CORNERS.T


class FlexiSurface(NamedTuple):
    """A surface of `flexicubes`."""

    vertices: Any  # (V, 3)
    faces: Any  # (F, 3) int32
    deviation: Any  # (D,) for each vertex that is in a cell: by how much its distances to the crossings differ

    @property
    def mesh(self) -> Mesh:
        """The surface as a Mesh, which gradients of the vertices run through."""
        return Mesh(self.vertices, self.faces)


class FlexiGradients(NamedTuple):
    """Gradients of `flexicubes`; None for what was not given."""

    values: Any  # (X, Y, Z)
    deform: Any  # (X, Y, Z, 3)
    alpha: Any  # (X - 1, Y - 1, Z - 1, 8)
    beta: Any  # (X - 1, Y - 1, Z - 1, 12)
    gamma: Any  # (X - 1, Y - 1, Z - 1)


class _Query:
    """The arguments, checked, and all that the vertices are made of."""

    def __init__(
        self, values: Any, level: Any, deform: Any, alpha: Any, beta: Any, gamma: Any, spacing: Any, origin: Any,
        split: str,
    ):  # fmt: skip
        op = "flexicubes"
        one_of(op, "split", split, SPLITS)
        self.library: Library = library_of(values, deform, alpha, beta, gamma)
        self.device, self.dtype, self.split = self.library.device, precision_of(values), split
        xp = self.xp = namespace(self.device)
        self.values = self._array("values", values, ("X", "Y", "Z"))
        shape = self.values.shape
        cells = tuple(max(n - 1, 0) for n in shape)
        self.step, self.start = triple(op, "spacing", spacing), triple(op, "origin", origin)
        if not min(self.step) > 0:
            raise ValueError(message(op, "spacing", "positive numbers", reprlib.repr(spacing)))
        height = as_array(level, op=op, name="level", shape=(), dtype=np.float64)
        self.deform = None if deform is None else self._finite("deform", deform, (*shape, 3))
        self.alpha, self.beta, self.gamma = (
            None if x is None else self._positive(name, x, (*cells, *last))
            for name, x, last in (("alpha", alpha, (8,)), ("beta", beta, (12,)), ("gamma", gamma, ()))
        )
        if not xp.isfinite(self.values).all():
            got = f"{int((~xp.isfinite(self.values)).sum())} that are not"
            raise ValueError(message(op, "values", "finite numbers", got))
        self.relative = self.values - self.dtype.type(float(height))
        self.is_empty = min(shape) < 2
        if self.is_empty:
            return
        self.cells = DualCells(xp, self.relative < 0)
        self._place()

    def _array(self, name: str, value: Any, shape: tuple) -> Any:
        return as_array(value, op="flexicubes", name=name, shape=shape, dtype=self.dtype, device=self.device)

    def _finite(self, name: str, value: Any, shape: tuple) -> Any:
        array = self._array(name, value, shape)
        if not self.xp.isfinite(array).all():
            raise ValueError(message("flexicubes", name, "finite numbers", "others"))
        return array

    def _positive(self, name: str, value: Any, shape: tuple) -> Any:
        array = self._finite(name, value, shape)
        if array.size and not float(array.min()) > 0:
            raise ValueError(message("flexicubes", name, "positive numbers", f"{float(array.min()):g} among them"))
        return array

    def _of_cells(self, weight: Any, last: tuple[int, ...]) -> Any:
        """Weights of the cells that are passed, 1 where none are given."""
        if weight is None:
            return self.xp.ones((len(self.cells.cell), *last), self.dtype)
        return weight.reshape(-1, *last)[self.cells.cell]

    def _place(self) -> None:
        xp, c = self.xp, self.cells
        _, ny, nz = self.values.shape
        at = xp.stack([c.corner // (ny * nz), c.corner // nz % ny, c.corner % nz], axis=-1)
        self.x = (at * xp.asarray(self.step)).astype(self.dtype)  # (C, 8, 3), relative to the origin
        if self.deform is not None:
            self.x = self.x + self.deform.reshape(-1, 3)[c.corner]
        self.s = self.relative.reshape(-1)[c.corner]
        self.a = self._of_cells(self.alpha, (8,))
        w = self.s * self.a
        self.crossed = c.sheet >= 0
        self.wa, self.wb = w[:, A], w[:, B]
        self.span = xp.where(self.crossed, self.wa - self.wb, 1)
        self.tau = xp.where(self.crossed, self.wa / self.span, 0)
        self.along = self.x[:, B] - self.x[:, A]
        self.u = self.x[:, A] + self.tau[..., None] * self.along  # (C, 12, 3), where the edges are crossed
        # What belongs to each vertex: the edges of its sheet.
        self.own = c.sheet[c.owner] == (xp.arange(c.n_vertices) - c.first[c.owner])[:, None]
        share = xp.where(self.own, self._of_cells(self.beta, (12,))[c.owner], 0)
        self.total = share.sum(axis=1)
        self.share = share / self.total[:, None]
        crossing = self.u[c.owner]
        self.v = (self.share[..., None] * crossing).sum(axis=1)
        self.off = crossing - self.v[:, None]
        self.distance = xp.where(self.own, xp.sqrt((self.off * self.off).sum(axis=2)), 0)
        self.count = self.own.sum(axis=1).astype(self.dtype)
        mean = self.distance.sum(axis=1) / self.count
        self.differ = xp.where(self.own, self.distance - mean[:, None], 0)
        self.quad, cell = c.quads()
        g = self._of_cells(self.gamma, ())[cell]
        self.g = g
        self.p, self.q = g[:, 0] * g[:, 2], g[:, 1] * g[:, 3]

    def surface(self) -> FlexiSurface:
        """The record on NumPy's or CuPy's arrays."""
        xp = self.xp
        if self.is_empty:
            none = zeros(self.device, (0, 3), self.dtype)
            return FlexiSurface(none, zeros(self.device, (0, 3), np.int32), zeros(self.device, 0, self.dtype))
        deviation = abs(self.differ).sum(axis=1) / self.count
        v, k = self.v, self.quad
        if self.split == "center":
            corner = v[k]
            p, q = self.p[:, None], self.q[:, None]
            middle = 0.5 * (p * (corner[:, 0] + corner[:, 2]) + q * (corner[:, 1] + corner[:, 3])) / (p + q)
            number = self.cells.n_vertices + xp.arange(len(k))
            v = xp.concatenate([v, middle.astype(self.dtype)])
            faces = xp.stack([xp.stack([k[:, i], k[:, (i + 1) % 4], number], axis=1) for i in range(4)], axis=1)
        else:
            if self.gamma is None:
                corner = v[k]
                long = corner[:, [2, 3]] - corner[:, [0, 1]]
                squares = (long * long).sum(axis=2)
                turn = squares[:, 0] > squares[:, 1]
            else:
                turn = self.p < self.q
            k = xp.where(turn[:, None], k[:, [1, 2, 3, 0]], k)
            faces = xp.stack([k[:, [0, 1, 2]], k[:, [0, 2, 3]]], axis=1)
        placed = (v + xp.asarray(self.start)).astype(self.dtype)
        return FlexiSurface(placed, faces.reshape(-1, 3).astype(np.int32), deviation)

    def adjoint(self, adj_vertices: Any, adj_deviation: Any) -> tuple[Any, ...]:
        """Cotangents of values, deform, alpha, beta and gamma."""
        xp = self.xp
        grids: list[Any] = [
            None if x is None else zeros(self.device, x.shape, self.dtype)
            for x in (self.values, self.deform, self.alpha, self.beta, self.gamma)
        ]
        shape = (0, 3)
        if not self.is_empty:
            shape = (self.cells.n_vertices + (len(self.quad) if self.split == "center" else 0), 3)
        count = 0 if self.is_empty else self.cells.n_vertices
        adj_v, adj_dev = self._cotangent("adj_vertices", adj_vertices, shape), self._cotangent(
            "adj_deviation", adj_deviation, (count,)
        )
        if count == 0:
            return tuple(grids)
        c = self.cells
        adj_v, adj_middle = adj_v[:count], adj_v[count:]
        if self.split == "center":
            to_gamma, sent = self._adj_middle(adj_middle)
            adj_v = adj_v + sent
            if self.gamma is not None:
                grids[4].reshape(-1)[c.cell] = to_gamma
        # Deviation: the mean of |d - mean d|.
        sign = xp.sign(self.differ)
        to_d = xp.where(self.own, sign - (sign.sum(axis=1) / self.count)[:, None], 0) * (adj_dev / self.count)[:, None]
        to_u = (to_d / xp.where(self.distance > 0, self.distance, 1))[..., None] * self.off
        adj_v = adj_v - to_u.sum(axis=1)
        # The vertex: a mean of crossings.
        to_u = to_u + self.share[..., None] * adj_v[:, None]
        to_beta = xp.where(self.own, (self.off * adj_v[:, None]).sum(axis=2) / self.total[:, None], 0)
        # From vertices to the edges of their cells: no edge has two of them.
        which, edge = xp.nonzero(self.own)
        at = c.owner[which], edge
        adj_u = zeros(self.device, self.u.shape, self.dtype)
        adj_u[at] = to_u[which, edge]
        if self.beta is not None:
            each = zeros(self.device, self.tau.shape, self.dtype)
            each[at] = to_beta[which, edge]
            grids[3].reshape(-1, 12)[c.cell] = each
        # The crossing: between the ends of the edge.
        to_tau = (adj_u * self.along).sum(axis=2) / (self.span * self.span)
        to_tau = xp.where(self.crossed, to_tau, 0)
        to_w = self._at_corners(-self.wb * to_tau, self.wa * to_tau)
        if self.alpha is not None:
            grids[2].reshape(-1, 8)[c.cell] = to_w * self.s
        self._add_to_samples(to_w * self.a, grids[0].reshape(-1))
        if self.deform is not None:
            t = self.tau[..., None]
            self._add_to_samples(self._at_corners((1 - t) * adj_u, t * adj_u), grids[1].reshape(-1, 3))
        return tuple(grids)

    def _cotangent(self, name: str, value: Any, shape: tuple) -> Any:
        if value is None:
            return zeros(self.device, shape, self.dtype)
        return as_array(
            value, op="flexicubes.adjoint", name=name, shape=shape, dtype=self.dtype, device=self.device
        )

    def _adj_middle(self, adj: Any) -> tuple[Any, Any]:
        """What the middles of quads send: to gamma of the cells (C,), and to their corners (D, 3)."""
        p, q, k = self.p[:, None], self.q[:, None], self.quad
        corner, share = self.v[k], 0.5 * p / (p + q)
        to_corner = self.xp.stack([share * adj, (0.5 - share) * adj] * 2, axis=1)
        change = 0.5 * (corner[:, 0] + corner[:, 2] - corner[:, 1] - corner[:, 3])
        rise = (adj * change).sum(axis=1) / (self.p + self.q) ** 2
        to_p, to_q = rise * self.q, -rise * self.p
        to_gamma = self.xp.stack([to_p, to_q, to_p, to_q], axis=1) * self.g[:, [2, 3, 0, 1]]
        both = self.xp.concatenate([to_corner, self.xp.zeros_like(to_corner[:, :, :1])], axis=2)
        both[:, :, 3] = to_gamma
        sums = self._sum(k.reshape(-1), both.reshape(-1, 4), self.cells.n_vertices)
        cells = self._sum(self.cells.owner, sums[:, 3:], len(self.cells.cell))
        return cells[:, 0], sums[:, :3]

    def _sum(self, target: Any, rows: Any, n: int) -> Any:
        """Sums of rows (N, k) by their targets, in their order."""
        xp = self.xp
        order = sort_order(target.astype(np.uint64), max(n, 1).bit_length())
        offset = xp.searchsorted(target[order], xp.arange(n + 1)).astype(np.int32)
        out = empty(self.device, (n, rows.shape[1]), self.dtype)
        for first in range(0, rows.shape[1], 3):
            part = zeros(self.device, (len(rows), 3), np.float64)
            width = min(3, rows.shape[1] - first)
            part[:, :width] = rows[:, first : first + width]
            sums = empty(self.device, (n, 3), self.dtype)
            sum_corners(n, offset, order, part, sums)
            out[:, first : first + width] = sums[:, :width]
        return out

    def _at_corners(self, low: Any, high: Any) -> Any:
        """(C, 8, ...) sums over the three edges of each corner of (C, 12, ...) at their lower and upper ends."""
        ends = self.xp.stack([low, high], axis=2)
        return self.xp.stack([sum(ends[:, e, end] for e, end in EDGE_OF_CORNER[k].tolist()) for k in range(8)], axis=1)

    def _add_to_samples(self, rows: Any, out: Any) -> None:
        """Add (C, 8, ...) to the samples: those that are corner k of a cell are so of one cell only."""
        for k in range(8):
            out[self.cells.corner[:, k]] += rows[:, k]


@primitive(
    differentiable=("values", "deform", "alpha", "beta", "gamma"),
    outputs={"vertices": "real ? 3", "deviation": "real ?"},
    discrete={"faces": "int32 ? 3"},
)
def flexicubes(
    values: Any,
    level: float = 0.0,
    *,
    deform: Any = None,
    alpha: Any = None,
    beta: Any = None,
    gamma: Any = None,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    split: str = "diagonal",
) -> FlexiSurface:
    """The surface where a sampled field has a given level, with weights that let an optimiser place its vertices.

    Dual marching cubes: a vertex for each sheet of the surface in a cell, at a weighted mean of the points where the
    sheet crosses the cell's edges. Where `marching_cubes` ties vertices to the grid's edges, weights let them slide
    within their cells, to sharp edges for instance. Without weights a rounder relative of `marching_cubes`.

    Args:
        values: (X, Y, Z) finite numbers of any array library. Inside is strictly below the level.
        level: the value of the surface.
        deform: (X, Y, Z, 3) what is added to the places of the samples, in world units; less than half a spacing keeps
            cells from folding over.
        alpha: (X - 1, Y - 1, Z - 1, 8) positive weights of the cells' corners, which multiply the field there: move the
            crossings along the edges. Corner 4 x + 2 y + z is at (x, y, z) of the cell.
        beta: (X - 1, Y - 1, Z - 1, 12) positive weights of the cells' edges in the mean. Edges 0 to 3 run along z, 4 to
            7 along y, 8 to 11 along x; of each four the corners that they start at rise.
        gamma: (X - 1, Y - 1, Z - 1) positive weights of cells: quads are cut along the diagonal of the greater product.
        spacing, origin: of the samples, a number or three.
        split: "diagonal", two triangles a quad, cut along the shorter diagonal if gamma is None; "center", four
            triangles around a point between the diagonals by the weights gamma, which is how they are optimised.

    Returns:
        A record in the library of the values, of their precision: `.vertices` (V, 3), `.faces` (F, 3) int32,
        `.deviation` (D,), and `.mesh`. The first D vertices are those of cells, then the middles of quads. The
        deviation of a vertex is the mean of |d - mean d| for its distances d to its crossings; its mean over all is a
        regulariser against degenerate cells. The surface is closed but for the grid's border, consistently oriented and
        manifold, whatever the field. A vertex in a cell on the border may have no face.

    Gradients:
        values, deform, alpha, beta and gamma, through vertices and deviation. Connectivity is discrete, and so is the
        choice of a diagonal: gamma gets 0 unless split is "center".

    Raises:
        ValueError: wrong shape or option, weights that are not positive, numbers that are not finite.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.

    Cost: a pass over the field; then some 2 kB for each cell of the surface.
    Source: Shen et al. (2023); Nielson (2004) for the cells; Wenger (2013) for ambiguous faces.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> x, y, z = np.meshgrid(*[np.linspace(-1, 1, 21)] * 3, indexing="ij")
        >>> ball = gk.flexicubes(x**2 + y**2 + z**2, 0.25, spacing=0.1, origin=-1)
        >>> ball.mesh.is_closed, bool(abs(ball.mesh.volume - np.pi / 6) < 0.03), bool(ball.deviation.max() < 0.05)
        (True, True, True)
    """
    q = _Query(values, level, deform, alpha, beta, gamma, spacing, origin, split)
    return FlexiSurface(*map(q.library.wrap, q.surface()))


@flexicubes.define_adjoint
def flexicubes_adjoint(
    values: Any,
    level: float = 0.0,
    *,
    deform: Any = None,
    alpha: Any = None,
    beta: Any = None,
    gamma: Any = None,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    split: str = "diagonal",
    adj_vertices: Any = None,
    adj_deviation: Any = None,
) -> FlexiGradients:
    """Gradients of `flexicubes`: cotangents of vertices and deviation to the field, its places and the weights.

    Args:
        values, level, deform, alpha, beta, gamma, spacing, origin, split: as given to `flexicubes`.
        adj_vertices: (V, 3) cotangent of the vertices; None is zero.
        adj_deviation: (D,) cotangent of the deviation; None is zero.

    Returns:
        A record of `.values` (X, Y, Z), and `.deform`, `.alpha`, `.beta`, `.gamma` of the shapes given, None where
        none was; in the library of the values.

    Raises:
        ValueError, TypeError: as `flexicubes`; a cotangent of the wrong shape; no cotangent given.

    Cost: about twice that of the forward function. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> x = np.arange(3.0)[:, None, None] + np.zeros((3, 3, 3))
        >>> plane = gk.flexicubes(x, 1.25)
        >>> gk.flexicubes.adjoint(x, 1.25, adj_vertices=np.ones_like(plane.vertices)).values[:, 1, 1].tolist()
        [0.0, -0.75, -0.25]
    """
    if adj_vertices is None and adj_deviation is None:
        raise ValueError(message("flexicubes.adjoint", "adj_vertices, adj_deviation", "at least one", "None"))
    q = _Query(values, level, deform, alpha, beta, gamma, spacing, origin, split)
    found = q.adjoint(adj_vertices, adj_deviation)
    return FlexiGradients(*(None if x is None else q.library.wrap(x) for x in found))
