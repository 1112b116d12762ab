"""Dual isosurfaces, a vertex in each cell: surface nets, and dual contouring for sharp edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.implicit.field import GRID, SIGNS, Field, one_of
from geomkit.implicit.marching_cubes import (
    GRADIENTS,
    FieldGradients,
    adj_edges,
    as_gradients,
    marching_cubes_fwd,
    number_edges,
    room,
    running,
    running_sum,
)
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["ContouringGradients", "dual_contouring", "surface_nets"]

_SPACING = "double sx, double sy, double sz"
_EDGES = "const int* first_edge, const int* first_cell, const real* points, const real* normals, double weight"

count_dual = Kernel(
    "implicit/dual.cu", "count_dual", f"{GRID}, {SIGNS}, uint* cells, int* vertices, uint64* triangles", grain=64
)
edge_normals_fwd = Kernel(
    "implicit/dual.cu",
    "edge_normals_fwd",
    f"{GRID}, {_SPACING}, {SIGNS}, const int* first_edge, const real* points, const real* sample_normals, "
    "real* normals",
    grain=64,
)
edge_normals_adj = Kernel(
    "implicit/dual.cu",
    "edge_normals_adj",
    f"int turn, {GRID}, {_SPACING}, {SIGNS}, const int* first_edge, const real* points, const real* sample_normals, "
    "const real* adj_normals, real* adj_points, real* adj_sample_normals",
    grain=64,
)
dual_vertices_fwd = Kernel(
    "implicit/dual.cu",
    "dual_vertices_fwd",
    f"{GRID}, {_SPACING}, double ox, double oy, double oz, {SIGNS}, {_EDGES}, real* vertices",
    grain=64,
)
dual_vertices_adj = Kernel(
    "implicit/dual.cu",
    "dual_vertices_adj",
    f"int turn, {GRID}, {_SPACING}, {SIGNS}, {_EDGES}, const real* adj_vertices, real* adj_points, real* adj_normals, "
    "real* adj_border",
    grain=64,
)
dual_faces = Kernel(
    "implicit/dual.cu",
    "dual_faces",
    f"{GRID}, {SIGNS}, const uint* cells, const int* first_cell, const uint64* first_triangle, const real* vertices, "
    "int* faces",
    grain=64,
)

MEAN = -1.0  # the weight that stands for plain means


class ContouringGradients(NamedTuple):
    """Gradients of dual contouring."""

    field: Any  # (X, Y, Z) of the samples
    normals: Any  # (X, Y, Z, 3) of the normals
    level: Any  # () of the level
    spacing: Any  # () or (3,), as the spacing was given
    origin: Any  # () or (3,), as the origin was given


class _Net:
    """The cells and crossings of a field, and what lies at the crossings."""

    def __init__(self, f: Field, normals: Any, weight: float):
        self.f, self.weight = f, weight
        self.signs = f.signs()
        self.first_edge, no_triangles = number_edges(f, self.signs, -1)
        self.points, no_faces = room(f, int(self.first_edge[-1]), 0)
        # Relative to the origin, so that they keep their digits far from the world's.
        marching_cubes_fwd(
            f.rows, *f.grid, -1, *f.spacing, 0.0, 0.0, 0.0, *self.signs, self.first_edge, no_triangles, self.points,
            no_faces,
        )  # fmt: skip
        # (Those of a field without normals are not looked at.)
        self.given = normals
        self.normals = empty(f.device, self.points.shape, f.dtype)
        if normals is not None:
            edge_normals_fwd(
                f.rows, *f.grid, *f.spacing, *self.signs, self.first_edge, self.points, normals, self.normals
            )
        counts, triangles = empty(f.device, f.rows + 1, np.int32), empty(f.device, f.rows + 1, np.uint64)
        counts[0], triangles[0] = 0, 0
        self.cells = empty(f.device, len(self.signs[0]), np.uint32)
        count_dual(f.rows, *f.grid, *self.signs, self.cells, counts, triangles)
        self.first_cell, self.first_triangle = running(f, counts), running_sum(triangles)

    @property
    def arguments(self) -> tuple:
        return (*self.signs, self.first_edge, self.first_cell, self.points, self.normals, self.weight)

    def mesh(self) -> Mesh:
        f = self.f
        vertices, faces = room(f, int(self.first_cell[-1]), int(self.first_triangle[-1]))
        dual_vertices_fwd(f.rows, *f.grid, *f.frame, *self.arguments, vertices)
        dual_faces(
            f.rows, *f.grid, *self.signs, self.cells, self.first_cell, self.first_triangle, vertices, faces
        )  # fmt: skip
        return Mesh.adopt(vertices, faces, f.library)

    def adjoint(self, adj_vertices: Any) -> tuple[Any, Any, Any]:
        """Cotangents of the crossings' points and normals; what the cells' borders send to origin and spacing."""
        f = self.f
        adj = f.cotangent("adj_vertices", adj_vertices, (int(self.first_cell[-1]), 3))
        adj_points, adj_normals = (zeros(f.device, self.points.shape, f.dtype) for _ in range(2))
        border = empty(f.device, (len(adj) if self.given is not None else 0, 2, 3), f.dtype)
        for turn, n in self.turns():
            dual_vertices_adj(
                n, turn, *f.grid, *f.spacing, *self.arguments, adj, adj_points, adj_normals, border
            )
        return adj_points, adj_normals, border

    def adj_given(self, adj_normals: Any, adj_points: Any) -> Any:
        """The cotangent of the samples' normals; adds to that of the crossings' points."""
        f = self.f
        result = zeros(f.device, self.given.shape, f.dtype)
        for turn, n in self.turns():
            edge_normals_adj(
                n, turn, *f.grid, *f.spacing, *self.signs, self.first_edge, self.points, self.given, adj_normals,
                adj_points, result,
            )  # fmt: skip
        return result

    def turns(self) -> Iterator[tuple[int, int]]:
        """The four ways to choose every second row of every second slab, and how many rows that are."""
        for turn in range(4):
            yield turn, ((self.f.shape[0] + 1 - (turn >> 1)) // 2) * ((self.f.shape[1] + 1 - (turn & 1)) // 2)


@primitive(
    differentiable=("field", "level", "spacing", "origin"),
    outputs={"vertices": "real ? 3"},
    discrete={"faces": "int32 ? 3"},
)
def surface_nets(
    field: Any,
    level: Any = 0.0,
    *,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    boundary: str = "open",
    gradient: str = "edge",
) -> Mesh:
    """The surface where a sampled field has a given level, with one vertex in each cell that it passes.

    Its triangles are rounder and about as many as those of `marching_cubes`; edges and corners are cut off a little. It
    is closed and oriented like that, but where two sheets pass one cell they share its vertex: edges may have four
    faces. For sharp edges use `dual_contouring`.

    Args:
        field: (X, Y, Z) numbers of any array library. Inside is strictly below the level; cells with a NaN are left
            out.
        level: the value of the surface.
        spacing: between samples: a positive number, or three for x, y and z.
        origin: where sample (0, 0, 0) is: a number, or three.
        boundary: "open", or "cap" to close the surface within one cell of the grid's border.
        gradient: "edge" or "normal", as in `marching_cubes`.

    Returns:
        A Mesh in the library of the field: a vertex for each cell that is passed, in the order of the cells, at the
        mean of the points where the surface crosses the cell's edges; two triangles for each edge that is crossed and
        has four cells around it. With an open boundary, cells on the border may have a vertex without faces.

    Gradients:
        field, level, spacing and origin, through the vertices. Connectivity is discrete, and so is the choice between
        the two diagonals of a quad.

    Raises:
        ValueError: wrong shape or option, numbers that are not finite, a surface of 2**31 vertices or more.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.
        MemoryError: there is no room for the surface.

    Cost: that of `marching_cubes`, twice.   Source: Gibson (1998), without the smoothing.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> x, y, z = np.meshgrid(*[np.linspace(-1, 1, 21)] * 3, indexing="ij")
        >>> ball = gk.surface_nets(x**2 + y**2 + z**2, 0.25, spacing=0.1, origin=-1)
        >>> ball.is_closed, bool(abs(ball.volume - np.pi / 6) < 0.03)
        (True, True)
    """
    f = Field("surface_nets", field, level, spacing, origin, boundary)
    one_of("surface_nets", "gradient", gradient, GRADIENTS)
    return _Net(f, None, MEAN).mesh() if f.rows else Mesh.adopt(*room(f, 0, 0), f.library)


@surface_nets.define_adjoint
def surface_nets_adjoint(
    field: Any,
    level: Any = 0.0,
    *,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    boundary: str = "open",
    gradient: str = "edge",
    adj_vertices: Any,
) -> FieldGradients:
    """Gradients of `surface_nets`: the cotangent of the vertices to the field, the level, the spacing and the origin.

    Args:
        field, level, spacing, origin, boundary, gradient: as given to `surface_nets`.
        adj_vertices: (V, 3) cotangent of the mesh's vertices.

    Returns:
        A record of `.field` (X, Y, Z), `.level` (), `.spacing` and `.origin` of the shapes given, in the library of the
        field.

    Raises:
        ValueError, TypeError: as `surface_nets`; a cotangent of the wrong shape.

    Cost: about that of the forward function. The same bits whatever the number of threads.
    """
    f = Field("surface_nets", field, level, spacing, origin, boundary)
    one_of("surface_nets", "gradient", gradient, GRADIENTS)
    if f.rows == 0:
        f.cotangent("adj_vertices", adj_vertices, (0, 3))
        return as_gradients(f, zeros(f.device, f.array.shape, f.dtype), np.zeros(7), spacing, origin)
    net = _Net(f, None, MEAN)
    adj_points, *_ = net.adjoint(adj_vertices)
    return as_gradients(f, *adj_edges(f, net.signs, net.first_edge, gradient, adj_points), spacing, origin)


@primitive(
    differentiable=("field", "normals", "level", "spacing", "origin"),
    outputs={"vertices": "real ? 3"},
    discrete={"faces": "int32 ? 3"},
)
def dual_contouring(
    field: Any,
    normals: Any,
    level: Any = 0.0,
    *,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    boundary: str = "open",
    gradient: str = "edge",
    regularization: float = 0.01,
) -> Mesh:
    """The surface where a sampled field has a given level, with its sharp edges and corners.

    Each cell that the surface passes has one vertex, which is as near as can be to the planes at the points where the
    surface crosses the cell's edges: on an edge of the shape where two planes meet, at a corner where three do.

    Args:
        field: (X, Y, Z) numbers of any array library. Inside is strictly below the level; cells with a NaN are left
            out.
        normals: (X, Y, Z, 3) the field's gradient at the samples, in world units. It is interpolated along the edges; a
            longer normal has more weight. One that is not finite, as beside a NaN in the field, counts as none.
        level: the value of the surface.
        spacing: between samples: a positive number, or three for x, y and z.
        origin: where sample (0, 0, 0) is: a number, or three.
        boundary: "open", or "cap" to close the surface within one cell of the grid's border.
        gradient: "edge" or "normal", as in `marching_cubes`.
        regularization: pull towards the mean of the crossings, positive: what a squared distance to it counts for each
            crossing, where one to the crossing's plane counts its normal's squared length. Less than 1e-9 of the
            longest normal's counts as that much.

    Returns:
        A Mesh as that of `surface_nets`, its vertices elsewhere in their cells.

    Gradients:
        field, normals, level, spacing and origin, through the vertices. A vertex that would leave its cell is held on
        the cell's border, and moves across it with spacing and origin only.

    Raises:
        ValueError: wrong shape or option, numbers that are not finite, a surface of 2**31 vertices or more.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.
        MemoryError: there is no room for the surface.

    Cost: about four times that of `marching_cubes`.   Source: Ju, Losasso, Schaefer and Warren (2002).

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> p = np.stack(np.meshgrid(*[np.arange(8.0) - 3.4] * 3, indexing="ij"), axis=-1)
        >>> box = np.abs(p).max(axis=-1) - 2
        >>> normals = np.sign(p) * (np.abs(p) == np.abs(p).max(axis=-1, keepdims=True))
        >>> gk.dual_contouring(box, normals, origin=-3.4).bounds.round(1).tolist()
        [[-2.0, -2.0, -2.0], [2.0, 2.0, 2.0]]
    """
    f, n, weight = _contouring(field, normals, level, spacing, origin, boundary, gradient, regularization)
    return _Net(f, n, weight).mesh() if f.rows else Mesh.adopt(*room(f, 0, 0), f.library)


@dual_contouring.define_adjoint
def dual_contouring_adjoint(
    field: Any,
    normals: Any,
    level: Any = 0.0,
    *,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    boundary: str = "open",
    gradient: str = "edge",
    regularization: float = 0.01,
    adj_vertices: Any,
) -> ContouringGradients:
    """Gradients of `dual_contouring`: the cotangent of the vertices to all its inputs.

    Args:
        field, normals, level, spacing, origin, boundary, gradient, regularization: as given to `dual_contouring`.
        adj_vertices: (V, 3) cotangent of the mesh's vertices.

    Returns:
        A record of `.field` (X, Y, Z), `.normals` (X, Y, Z, 3), `.level` (), `.spacing` and `.origin` of the shapes
        given, in the library of the field.

    Raises:
        ValueError, TypeError: as `dual_contouring`; a cotangent of the wrong shape.

    Cost: about three times that of the forward function. The same bits whatever the number of threads.
    """
    f, n, weight = _contouring(field, normals, level, spacing, origin, boundary, gradient, regularization)
    xp = namespace(f.device)
    if f.rows == 0:
        adj_given = zeros(f.device, n.shape, f.dtype)
        f.cotangent("adj_vertices", adj_vertices, (0, 3))
        rest = as_gradients(f, zeros(f.device, f.array.shape, f.dtype), np.zeros(7), spacing, origin)
    else:
        net = _Net(f, n, weight)
        adj_points, adj_normals, border = net.adjoint(adj_vertices)
        # Spacing and origin move the points, but along with the samples: the normals there stay as they are.
        wide, border = adj_points.astype(np.float64), border.sum(axis=0, dtype=np.float64)
        places = net.points / xp.asarray(f.spacing)
        adj_given = net.adj_given(adj_normals, adj_points)
        adj_samples, total = adj_edges(f, net.signs, net.first_edge, gradient, adj_points)
        total[1:4], total[4:7] = (wide * places).sum(axis=0) + border[1], wide.sum(axis=0) + border[0]
        rest = as_gradients(f, adj_samples, total, spacing, origin)
    return ContouringGradients(rest.field, f.library.wrap(adj_given), rest.level, rest.spacing, rest.origin)


def _contouring(
    field: Any,
    normals: Any,
    level: Any,
    spacing: Any,
    origin: Any,
    boundary: str,
    gradient: str,
    regularization: float,
) -> tuple[Field, Any, float]:
    op = "dual_contouring"
    f = Field(op, field, level, spacing, origin, boundary)
    one_of(op, "gradient", gradient, GRADIENTS)
    n = as_array(normals, op=op, name="normals", shape=(*f.array.shape, 3), dtype=f.dtype, device=f.device)
    weight = float(as_array(regularization, op=op, name="regularization", shape=(), dtype=np.float64))
    if not 0 < weight < np.inf:
        raise ValueError(message(op, "regularization", "a positive number", repr(regularization)))
    return f, n, weight
