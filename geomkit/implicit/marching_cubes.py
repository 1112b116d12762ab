"""Isosurfaces of fields on regular grids by marching cubes: forward and adjoint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.implicit.field import GRID, SIGNS, Field, one_of
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel

__all__ = [
    "FieldGradients",
    "adj_edges",
    "as_gradients",
    "marching_cubes",
    "number_edges",
    "room",
    "running",
    "running_sum",
]

count_rows = Kernel(
    "implicit/marching_cubes.cu",
    "count_rows",
    f"{GRID}, int topology, {SIGNS}, int* vertices, uint64* triangles",
    grain=64,
)
marching_cubes_fwd = Kernel(
    "implicit/marching_cubes.cu",
    "marching_cubes_fwd",
    f"{GRID}, int topology, double sx, double sy, double sz, double ox, double oy, double oz, {SIGNS}, "
    "const int* first_vertex, const uint64* first_triangle, real* vertices, int* faces",
    grain=64,
)
marching_cubes_adj = Kernel(
    "implicit/marching_cubes.cu",
    "marching_cubes_adj",
    f"int each, int rows, {GRID}, double sx, double sy, double sz, {SIGNS}, const int* first_vertex, int normal, "
    "const real* adj_vertices, real* adj_samples, double* sums",
    grain=1,
)

TOPOLOGIES = ("table", "trilinear")
GRADIENTS = ("edge", "normal")
BLOCKS = 96  # of the adjoint on the CPU: few rows on their borders, enough for many threads
KEPT = "marching cubes"  # under which a mesh keeps its signs and vertex numbers
LIMIT = 1 << 31  # vertices have int32 numbers


class FieldGradients(NamedTuple):
    """Gradients of an isosurface."""

    field: Any  # (X, Y, Z) of the samples
    level: Any  # () of the level
    spacing: Any  # () or (3,), as the spacing was given
    origin: Any  # () or (3,), as the origin was given


@primitive(
    differentiable=("field", "level", "spacing", "origin"),
    outputs={"vertices": "real ? 3"},
    discrete={"faces": "int32 ? 3"},
)
def marching_cubes(
    field: Any,
    level: Any = 0.0,
    *,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    boundary: str = "open",
    gradient: str = "edge",
    topology: str = "table",
) -> Mesh:
    """The surface where a sampled field has a given level, as a triangle mesh.

    Inside is where the field is strictly below the level, and faces look outwards, to larger values: right for signed
    distances. For occupancies and densities, which are larger inside, pass `-field` and `-level`.

    The mesh is welded, consistently oriented, and closed but for the border of the grid and of cells with a NaN, for
    any field, samples equal to the level included: those make triangles without area, which keep it a manifold. No edge
    has more than two faces.

    Args:
        field: (X, Y, Z) numbers of any array library and layout (all but C order is copied). A cell that has a NaN at
            one of its corners is left out; infinite samples are taken as they are.
        level: the value of the surface.
        spacing: between samples: a positive number, or three for x, y and z.
        origin: where sample (0, 0, 0) is: a number, or three. Sample (i, j, k) is at origin + spacing * (i, j, k).
        boundary: "open" ends the surface at the border of the grid; "cap" closes it there, with flat faces on the
            border where the inside reaches it.
        gradient: what the adjoint sends back; it does not change the mesh. "edge" is the exact derivative of the
            vertices. "normal" moves vertices along the field's gradient only, by the interpolated change of the field:
            for a signed distance the two agree along the normal, and this one stays bounded where the surface is nearly
            parallel to a grid line.
        topology: what a cell looks like inside when signs alone leave it open. "table" (the default) always separates
            the inside corners of an ambiguous face: connectivity depends on signs only, so it is the same in every
            precision and on every device and does not flicker while a field is optimised. "trilinear" joins what the
            trilinear interpolant of the samples joins, on faces and through cells: the topology of the interpolant's
            own surface, at the same price but for the ambiguous cells.

    Returns:
        A Mesh in the library of the field, float64 for a float64 field, else float32; (0, 3) arrays where there is no
        surface. Vertices are in the order of the grid edges they lie on: by row (i, j), then axis (z, y, x), then k;
        the same on every machine.

    Gradients:
        field, level, spacing and origin, through the vertices. Connectivity is discrete. The denominator, the
        difference of the samples along an edge, is taken as no smaller than their rounding.

    Raises:
        ValueError: wrong shape or option, a spacing that is not positive, numbers that are not finite, a surface of
            2**31 vertices or more.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.
        MemoryError: there is no room for the surface.

    Cost: reads the field once and again near the surface. Beyond the result, 1 bit a sample and 20 bytes a row, of
        which the mesh keeps 1 bit and 12 bytes for the adjoint.
    Source: Lorensen and Cline (1987); Schroeder, Maynard and Geveci (2015) for the passes; Nielson and Hamann (1991)
        and Chernyaev (1995) for the trilinear decisions.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> x, y, z = np.meshgrid(*[np.linspace(-1, 1, 21)] * 3, indexing="ij")
        >>> ball = gk.marching_cubes(x**2 + y**2 + z**2, 0.25, spacing=0.1, origin=-1)
        >>> ball.is_closed, ball.euler_characteristic, bool(abs(ball.volume - np.pi / 6) < 0.02)
        (True, 2, True)
    """
    f = Field("marching_cubes", field, level, spacing, origin, boundary)
    one_of("marching_cubes", "gradient", gradient, GRADIENTS)
    one_of("marching_cubes", "topology", topology, TOPOLOGIES)
    if f.rows == 0:
        return Mesh.adopt(*room(f, 0, 0), f.library)
    trilinear = TOPOLOGIES.index(topology)
    signs = f.signs()
    first_vertex, first_triangle = number_edges(f, signs, trilinear)
    n_vertices, n_faces = int(first_vertex[-1]), int(first_triangle[-1])
    vertices, faces = room(f, n_vertices, n_faces)
    marching_cubes_fwd(f.rows, *f.grid, trilinear, *f.frame, *signs, first_vertex, first_triangle, vertices, faces)
    mesh = Mesh.adopt(vertices, faces, f.library)
    mesh.derived(KEPT, lambda _: (f.key, signs, first_vertex))
    return mesh


@marching_cubes.define_adjoint
def marching_cubes_adjoint(
    field: Any,
    level: Any = 0.0,
    *,
    spacing: Any = 1.0,
    origin: Any = 0.0,
    boundary: str = "open",
    gradient: str = "edge",
    topology: str = "table",
    adj_vertices: Any,
    result: Mesh | None = None,
) -> FieldGradients:
    """Gradients of `marching_cubes`: the cotangent of the vertices to the field, the level, the spacing and the origin.

    Args:
        field, level, spacing, origin, boundary, gradient, topology: as given to `marching_cubes`.
        adj_vertices: (V, 3) cotangent of the mesh's vertices.
        result: the mesh that `marching_cubes` returned for the same inputs, to save finding its edges again.

    Returns:
        A record of `.field` (X, Y, Z), `.level` (), `.spacing` and `.origin` of the shapes given, in the library of the
        field.

    Raises:
        ValueError, TypeError: as `marching_cubes`; a cotangent of the wrong shape.

    Cost: about that of the forward function if `result` is given, else that of finding the edges again, too. Much of it
        is the memory of the field's gradient, whose pages are first touched wherever the surface is: about two thirds
        for a sphere in 512**3 samples. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> x = np.arange(3.0)[:, None, None] + np.zeros((3, 2, 2))
        >>> plane = gk.marching_cubes(x, 1.25)
        >>> gk.marching_cubes.adjoint(x, 1.25, adj_vertices=np.ones_like(plane.vertices)).field[:, 0, 0].tolist()
        [0.0, -0.75, -0.25]
    """
    f = Field("marching_cubes", field, level, spacing, origin, boundary)
    one_of("marching_cubes", "gradient", gradient, GRADIENTS)
    one_of("marching_cubes", "topology", topology, TOPOLOGIES)
    if f.rows == 0:
        f.cotangent("adj_vertices", adj_vertices, (0, 3))
        return as_gradients(f, zeros(f.device, f.array.shape, f.dtype), np.zeros(7), spacing, origin)
    signs, first_vertex = _known(f, result) if result is not None else _edges(f)
    adj = f.cotangent("adj_vertices", adj_vertices, (int(first_vertex[-1]), 3))
    adj_samples, total = adj_edges(f, signs, first_vertex, gradient, adj)
    if result is not None and np.isnan(total[1:4]).any() and _differs(f, signs):
        raise _other_field(result)
    return as_gradients(f, adj_samples, total, spacing, origin)


def adj_edges(f: Field, signs: tuple, first_vertex: Any, gradient: str, adj_vertices: Any) -> tuple[Any, Any]:
    """Cotangents of the samples, and of level, spacing (3) and origin (3), for those of the vertices on edges."""
    adj_samples = zeros(f.device, f.array.shape, f.dtype)
    each = 1 if f.device == "cuda" else -(-f.rows // BLOCKS)
    n = -(-f.rows // each)
    sums = empty(f.device, (n, 7), np.float64)
    marching_cubes_adj(
        n, each, f.rows, *f.grid, *f.spacing, *signs, first_vertex, GRADIENTS.index(gradient), adj_vertices,
        adj_samples, sums,
    )  # fmt: skip
    return adj_samples, sums.sum(axis=0)


def as_gradients(f: Field, adj_samples: Any, total: Any, spacing: Any, origin: Any) -> FieldGradients:
    """The record, in the library of the field; spacing and origin of the shapes given."""
    adj_spacing, adj_origin = total[1:4], total[4:7]
    return FieldGradients(
        f.library.wrap(adj_samples),
        f.wrap(total[0]),
        f.wrap(adj_spacing if np.ndim(spacing) else adj_spacing.sum()),
        f.wrap(adj_origin if np.ndim(origin) else adj_origin.sum()),
    )


def room(f: Field, n_vertices: int, n_faces: int) -> tuple[Any, Any]:
    """Arrays for a surface.

    Raises:
        MemoryError: there is no room for them.
    """
    try:
        return empty(f.device, (n_vertices, 3), f.dtype), empty(f.device, (n_faces, 3), np.int32)
    except MemoryError as error:
        got = f"one of {n_vertices:,} vertices and {n_faces:,} faces"
        raise MemoryError(message(f.op, "field", "a surface that fits in memory", got)) from error


def _edges(f: Field) -> tuple[tuple, Any]:
    signs = f.signs()
    return signs, number_edges(f, signs, -1)[0]


def _known(f: Field, result: Mesh) -> tuple[tuple, Any]:
    """Signs and vertex numbers that a mesh of the same field has kept."""
    kept = result.derived(KEPT, lambda _: None) if isinstance(result, Mesh) else None
    if kept is None or kept[0] != f.key:
        raise _other_field(result, kept is not None)
    return kept[1], kept[2]


def _differs(f: Field, signs: tuple) -> bool:
    return bool((f.signs()[0] != signs[0]).any())


def _other_field(result: Any, is_surface: bool = True) -> ValueError:
    got = f"{result!r}, which is of another" if is_surface else repr(result)
    return ValueError(message("marching_cubes.adjoint", "result", "the mesh of this field, level and boundary", got))


def number_edges(f: Field, signs: tuple, topology: int) -> tuple[Any, Any]:
    """The numbers of the first vertices along z, y and x of each row, and of its first triangle; then the totals."""
    counts, triangles = empty(f.device, 3 * f.rows + 1, np.int32), empty(f.device, f.rows + 1, np.uint64)
    counts[0], triangles[0] = 0, 0
    count_rows(f.rows, *f.grid, topology, *signs, counts, triangles)
    return running(f, counts), running_sum(triangles)


def running(f: Field, counts: Any) -> Any:
    """The running sum of numbers of vertices.

    Raises:
        ValueError: an int32 does not hold it.
    """
    total = int(counts.sum(dtype=np.int64))
    if total >= LIMIT:
        raise ValueError(message(f.op, "field", f"a surface of fewer than {LIMIT:,} vertices", f"one of {total:,}"))
    return running_sum(counts)


def running_sum(counts: Any) -> Any:
    """The running sum of integers; NumPy's take its place."""
    if isinstance(counts, np.ndarray):
        return np.cumsum(counts, out=counts)
    return namespace("cuda").cumsum(counts, dtype=counts.dtype)
