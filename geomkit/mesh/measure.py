"""Measures of a mesh: areas, normals, volume, with their adjoints. Computed in float64 and rounded once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, frozen, to_host
from geomkit.autodiff.primitive import primitive
from geomkit.mesh.corners import sum_at_vertices, vertex_corners
from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel

if TYPE_CHECKING:
    from geomkit.mesh.mesh import Mesh

__all__ = ["MeshGradients", "area", "count_flat", "face_areas", "face_normals", "vertex_normals", "volume"]

SOURCE = "mesh/measure.cu"
FACES = "const real* vertices, const int* faces"
BLOCKS = f"int block, int count, {FACES}"
CORNERS = "const int* offset, const int* corners"
CENTER = "double cx, double cy, double cz, double scale"

face_areas_fwd = Kernel(SOURCE, "face_areas_fwd", f"{FACES}, real* areas")
face_areas_adj = Kernel(SOURCE, "face_areas_adj", f"{FACES}, const real* adj_areas, double* adj_corners")
area_fwd = Kernel(SOURCE, "area_fwd", f"{BLOCKS}, double* areas", grain=4)
area_adj = Kernel(SOURCE, "area_adj", f"{FACES}, double adj_area, double* adj_corners")
face_normals_fwd = Kernel(SOURCE, "face_normals_fwd", f"{FACES}, real* normals")
face_normals_adj = Kernel(SOURCE, "face_normals_adj", f"{FACES}, const real* adj_normals, double* adj_corners")
corner_normals_fwd = Kernel(SOURCE, "corner_normals_fwd", f"{FACES}, double* corner_normals")
some_corner_normals = Kernel(
    SOURCE, "some_corner_normals", f"{FACES}, const real* adj_normals, double* corner_normals"
)
corner_normals_adj = Kernel(SOURCE, "corner_normals_adj", f"{FACES}, const double* adj_sums, double* adj_corners")
vertex_normals_fwd = Kernel(SOURCE, "vertex_normals_fwd", f"{CORNERS}, const double* corner_normals, real* normals")
vertex_normals_adj = Kernel(
    SOURCE,
    "vertex_normals_adj",
    f"{CORNERS}, const double* corner_normals, const real* adj_normals, double* adj_sums",
)
volume_fwd = Kernel(SOURCE, "volume_fwd", f"{BLOCKS}, {CENTER}, double* volumes", grain=4)
volume_adj = Kernel(SOURCE, "volume_adj", f"{FACES}, {CENTER}, double adj_volume, double* adj_corners")

BLOCK = 256  # faces that one item sums, however many threads there are
# Faces that count_flat works on at a time: its temporary arrays stay in the cache (measured: 4 ms instead of 10).
FLAT_BLOCK = 8192


class MeshGradients(NamedTuple):
    """Gradients of a measure."""

    vertices: Any  # (V, 3) of mesh.vertices


@primitive(differentiable=("vertices",), outputs={"areas": "real F"})
def face_areas(mesh: Mesh) -> Any:
    """Area of each face, in the square of the mesh's length unit.

    `mesh.face_areas` keeps the result. For their sum use `area`, which rounds once.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.

    Returns:
        (F,) float of the mesh's precision, in the library of the mesh; 0 for a degenerate face. Read-only if NumPy's.

    Gradients:
        mesh.vertices. A face without area sends 0: its area has a minimum there, and no derivative.

    Raises:
        TypeError: mesh is no mesh.

    Cost: one launch, O(F).   Source: half the length of the cross product of two edges.

    Example:
        >>> import geomkit as gk
        >>> float(gk.face_areas(gk.shapes.box()).sum())
        6.0
    """
    mesh = _mesh(mesh)
    areas = empty(mesh.device, mesh.n_faces, mesh.dtype)
    face_areas_fwd(mesh.n_faces, *_arrays(mesh), areas)
    return _wrap(mesh, areas)


@face_areas.define_adjoint
def face_areas_adjoint(mesh: Mesh, *, adj_areas: Any) -> MeshGradients:
    """Gradients of `face_areas`: the cotangent of the areas to the mesh's vertices.

    Args:
        mesh: as given to `face_areas`.
        adj_areas: (F,) cotangent of the areas.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: a cotangent of the wrong shape or dtype.

    Cost: O(F + V), and once the table of faces at each vertex. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> mesh = gk.Mesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
        >>> gk.face_areas.adjoint(mesh, adj_areas=[1.0]).vertices.tolist()
        [[-1.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    mesh = _mesh(mesh)
    adj_areas = _cotangent(mesh, "face_areas", "adj_areas", adj_areas, (mesh.n_faces,))
    adj_corners = _corner_rows(mesh)
    face_areas_adj(mesh.n_faces, *_arrays(mesh), adj_areas, adj_corners)
    return _gradients(mesh, adj_corners)


@primitive(differentiable=("vertices",), outputs={"area": "real"})
def area(mesh: Mesh) -> float:
    """Area of the surface, in the square of the mesh's length unit.

    Faces that are there twice count twice. `mesh.area` keeps the result.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.

    Returns:
        float, in double precision whatever that of the mesh; 0 without faces.

    Gradients:
        mesh.vertices. A face without area sends 0.

    Raises:
        TypeError: mesh is no mesh.

    Cost: one launch, O(F); the sum runs in blocks of 256 faces, the same bits whatever the number of threads.
    Source: half the length of the cross product of two edges.

    Example:
        >>> import geomkit as gk
        >>> gk.area(gk.shapes.box())
        6.0
    """
    mesh = _mesh(mesh)
    return _block_sum(mesh, area_fwd)


@area.define_adjoint
def area_adjoint(mesh: Mesh, *, adj_area: Any) -> MeshGradients:
    """Gradients of `area`: the cotangent of the area to the mesh's vertices.

    For an adj_area of 1 it is the cotangent Laplacian of the positions: the direction of steepest growth of the area.

    Args:
        mesh: as given to `area`.
        adj_area: a number, the cotangent of the area.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: a cotangent that is not one number.

    Cost: O(F + V), and once the table of faces at each vertex. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> mesh = gk.Mesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
        >>> gk.area.adjoint(mesh, adj_area=1.0).vertices.tolist()
        [[-1.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    mesh = _mesh(mesh)
    adj_corners = _corner_rows(mesh)
    area_adj(mesh.n_faces, *_arrays(mesh), _number("area", "adj_area", adj_area), adj_corners)
    return _gradients(mesh, adj_corners)


@primitive(differentiable=("vertices",), outputs={"normals": "real F 3"})
def face_normals(mesh: Mesh) -> Any:
    """Unit normal of each face; counter-clockwise is the front.

    `mesh.face_normals` keeps the result. Meshes of any size have normals, far below and above where squares overflow.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.

    Returns:
        (F, 3) float of the mesh's precision, in the library of the mesh; (0, 0, 0) for a face of zero area, which
        has no normal. Read-only if NumPy's.

    Gradients:
        mesh.vertices. A face without area sends 0.

    Raises:
        TypeError: mesh is no mesh.

    Cost: one launch, O(F).   Source: the cross product of two edges.

    Example:
        >>> import geomkit as gk
        >>> gk.face_normals(gk.Mesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])).tolist()
        [[0.0, 0.0, 1.0]]
    """
    mesh = _mesh(mesh)
    normals = empty(mesh.device, (mesh.n_faces, 3), mesh.dtype)
    face_normals_fwd(mesh.n_faces, *_arrays(mesh), normals)
    return _wrap(mesh, normals)


@face_normals.define_adjoint
def face_normals_adjoint(mesh: Mesh, *, adj_normals: Any) -> MeshGradients:
    """Gradients of `face_normals`: the cotangent of the normals to the mesh's vertices.

    Args:
        mesh: as given to `face_normals`.
        adj_normals: (F, 3) cotangent of the normals; its part along a normal has no effect.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: a cotangent of the wrong shape or dtype.

    Cost: O(F + V), and once the table of faces at each vertex. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> mesh = gk.Mesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
        >>> gk.face_normals.adjoint(mesh, adj_normals=[[1.0, 0.0, 0.0]]).vertices.tolist()
        [[0.0, 0.0, 0.5], [0.0, 0.0, -0.5], [0.0, 0.0, 0.0]]
    """
    mesh = _mesh(mesh)
    adj_normals = _cotangent(mesh, "face_normals", "adj_normals", adj_normals, (mesh.n_faces, 3))
    adj_corners = _corner_rows(mesh)
    face_normals_adj(mesh.n_faces, *_arrays(mesh), adj_normals, adj_corners)
    return _gradients(mesh, adj_corners)


@primitive(differentiable=("vertices",), outputs={"normals": "real V 3"})
def vertex_normals(mesh: Mesh) -> Any:
    """Unit normal at each vertex: the normals of its faces weighted by their angles there, which no triangulation of
    the same surface changes.

    By index: a vertex cut along a seam keeps one normal a side (`mesh.weld()` first gives one normal a point).
    `mesh.vertex_normals` keeps the result.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.

    Returns:
        (V, 3) float of the mesh's precision, in the library of the mesh; (0, 0, 0) where no face with an area is, and
        where the normals of the faces cancel. Read-only if NumPy's.

    Gradients:
        mesh.vertices, of the normals and of the angles that weight them. A face without area sends 0, and so does a
        vertex without a normal.

    Raises:
        TypeError: mesh is no mesh.

    Cost: two launches, O(F), and once the table of faces at each vertex; sums run in the order of the faces.
    Source: Thuermer and Wuethrich (1998).

    Example:
        >>> import geomkit as gk
        >>> gk.vertex_normals(gk.shapes.grid(1, 1))[0].tolist()
        [0.0, 0.0, 1.0]
    """
    mesh = _mesh(mesh)
    normals = empty(mesh.device, (mesh.n_vertices, 3), mesh.dtype)
    vertex_normals_fwd(mesh.n_vertices, *vertex_corners(mesh), _corner_normals(mesh), normals)
    return _wrap(mesh, normals)


@vertex_normals.define_adjoint
def vertex_normals_adjoint(mesh: Mesh, *, adj_normals: Any) -> MeshGradients:
    """Gradients of `vertex_normals`: the cotangent of the normals to the mesh's vertices.

    Args:
        mesh: as given to `vertex_normals`.
        adj_normals: (V, 3) cotangent of the normals; its part along a normal has no effect.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: a cotangent of the wrong shape or dtype.

    Cost: O(F + V), and once the table of faces at each vertex. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> mesh = gk.Mesh([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
        >>> gk.vertex_normals.adjoint(mesh, adj_normals=[[1.0, 0.0, 0.0]] * 3).vertices.round(6).tolist()
        [[0.0, 0.0, 1.5], [0.0, 0.0, -1.5], [0.0, 0.0, 0.0]]
    """
    mesh = _mesh(mesh)
    adj_normals = _cotangent(mesh, "vertex_normals", "adj_normals", adj_normals, (mesh.n_vertices, 3))
    return _gradients(mesh, normals_to_corners(mesh, adj_normals))


def normals_to_corners(mesh: Mesh, adj_normals: Any) -> Any:
    """(F, 3, 3) float64 gradients of the corners of faces, for the cotangent (V, 3) of the vertices' normals."""
    corner_normals = _corner_rows(mesh)
    some_corner_normals(mesh.n_faces, *_arrays(mesh), adj_normals, corner_normals)
    adj_sums = empty(mesh.device, (mesh.n_vertices, 3), np.float64)
    vertex_normals_adj(mesh.n_vertices, *vertex_corners(mesh), corner_normals, adj_normals, adj_sums)
    adj_corners = corner_normals  # read for the last time: its memory serves again
    corner_normals_adj(mesh.n_faces, *_arrays(mesh), adj_sums, adj_corners)
    return adj_corners


@primitive(differentiable=("vertices",), outputs={"volume": "real"})
def volume(mesh: Mesh) -> float:
    """Signed volume, in the cube of the mesh's length unit: positive when the faces look outwards.

    The volume of the cones from the faces to the centre of the bounding box, so that a mesh far from the origin loses
    nothing. Regions that are enclosed twice count twice; for an open mesh it depends on the centre and means little.
    `mesh.volume` keeps the result.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.

    Returns:
        float, in double precision whatever that of the mesh; 0 without faces.

    Gradients:
        mesh.vertices. For an open mesh also through the centre, to the vertices that attain the bounds of the box, the
        lowest index of several.

    Raises:
        TypeError: mesh is no mesh.

    Cost: O(F); the sum runs in blocks of 256 faces, the same bits whatever the number of threads.
    Source: the divergence theorem, on tetrahedra.

    Example:
        >>> import geomkit as gk
        >>> gk.volume(gk.shapes.box((1, 2, 3)))
        6.0
    """
    mesh = _mesh(mesh)
    scale, center = _about_center(mesh)
    total = _block_sum(mesh, volume_fwd, *center, scale)
    size = 1 / scale
    return size * (size * (size * (total / 6)))


@volume.define_adjoint
def volume_adjoint(mesh: Mesh, *, adj_volume: Any) -> MeshGradients:
    """Gradients of `volume`: the cotangent of the volume to the mesh's vertices.

    Args:
        mesh: as given to `volume`.
        adj_volume: a number, the cotangent of the volume.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: a cotangent that is not one number.

    Cost: O(F + V), and once the table of faces at each vertex. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> gk.volume.adjoint(gk.shapes.box(), adj_volume=3.0).vertices.sum(axis=0).tolist()
        [0.0, 0.0, 0.0]
    """
    mesh = _mesh(mesh)
    adj_volume = _number("volume", "adj_volume", adj_volume)
    adj_corners = _corner_rows(mesh)
    scale, center = _about_center(mesh)
    volume_adj(mesh.n_faces, *_arrays(mesh), *center, scale, adj_volume, adj_corners)
    if mesh.n_faces:
        _add_center_gradient(mesh, adj_corners)
    return _gradients(mesh, adj_corners)


def count_flat(vertices: np.ndarray, faces: np.ndarray) -> int:
    """Number of triangles without area, to the precision of their coordinates.

    One counts when its height over the longest side is at most the rounding of its coordinates: the spacing of floats
    at the largest of them, in the dtype of the vertices.

    Args:
        vertices: (V, 3) float32 or float64, on the host.
        faces: (F, 3) int32, on the host.
    """
    if not len(faces):
        return 0
    columns = vertices.T.astype(np.float64, order="C")
    corners = faces.T.astype(np.intp, order="C")
    height = float(np.spacing(np.abs(vertices).max()))
    count = 0
    for start in range(0, len(faces), FLAT_BLOCK):
        a, b, c = (np.take(columns, corner, axis=1) for corner in corners[:, start : start + FLAT_BLOCK])
        u, v = b - a, c - a
        uu, vv, uv = _dot(u, u), _dot(v, v), _dot(u, v)
        across = _cross(u, v)
        longest = np.maximum(np.maximum(uu, vv), uu + vv - 2 * uv)
        count += int(np.count_nonzero(_dot(across, across) <= longest * height**2))
    return count


def _mesh(mesh: Any) -> Mesh:
    from geomkit.mesh.mesh import as_mesh  # which imports this module

    return as_mesh(mesh)


def _arrays(mesh: Mesh) -> tuple[Any, Any]:
    return mesh.vertices_array, mesh.faces_array


def _wrap(mesh: Mesh, values: Any) -> Any:
    return frozen(values) if mesh.library.name == "numpy" else mesh.library.wrap(values)


def _cotangent(mesh: Mesh, op: str, name: str, value: Any, shape: tuple[int, ...]) -> Any:
    return as_array(value, op=f"{op}.adjoint", name=name, shape=shape, dtype=mesh.dtype, device=mesh.device)


def _number(op: str, name: str, value: Any) -> float:
    return float(as_array(value, op=f"{op}.adjoint", name=name, shape=(), dtype=np.float64))


def _corner_rows(mesh: Mesh) -> Any:
    """Room for three numbers at each corner of each face."""
    return empty(mesh.device, (mesh.n_faces, 3, 3), np.float64)


def _corner_normals(mesh: Mesh) -> Any:
    """(F, 3, 3) float64: the normal times the angle at each corner."""
    corner_normals = _corner_rows(mesh)
    corner_normals_fwd(mesh.n_faces, *_arrays(mesh), corner_normals)
    return corner_normals


def _gradients(mesh: Mesh, adj_corners: Any) -> MeshGradients:
    """Cotangents of the corners summed at each vertex, in the order of the faces, and rounded once."""
    return MeshGradients(mesh.library.wrap(sum_at_vertices(mesh, adj_corners)))


def _block_sum(mesh: Mesh, kernel: Kernel, *arguments: float) -> float:
    """The sum over all faces of what a kernel sums in blocks of them."""
    n = -(-mesh.n_faces // BLOCK)
    part = empty(mesh.device, n, np.float64)
    kernel(n, BLOCK, mesh.n_faces, *_arrays(mesh), *arguments, part)
    return float(to_host(part).sum())


def _about_center(mesh: Mesh) -> tuple[float, tuple[float, ...]]:
    """A power of two that scales the mesh to a size near 1, so that no product overflows, and the centre so scaled."""
    if not mesh.n_faces:
        return 1.0, (0.0, 0.0, 0.0)
    half = 0.5 * mesh.bounds[1] - 0.5 * mesh.bounds[0]
    scale = 2.0 ** -min(max(math.frexp(half.max())[1], -1000), 1000)
    return scale, tuple(scale * x for x in mesh.center.tolist())


def _add_center_gradient(mesh: Mesh, adj_corners: Any) -> None:
    """Move the gradient that the centre of the box feels on to a corner of each vertex that attains a bound.

    The volume does not change when vertices and centre move together: the centre's gradient is minus the sum of theirs.
    """
    xp = namespace(mesh.device)
    offset, corners = vertex_corners(mesh)
    rows = adj_corners.reshape(-1, 3)
    adj_bound = -0.5 * rows.sum(axis=0)
    used, axes = offset[1:] > offset[:-1], xp.arange(3)
    for bound in mesh.bounds:
        attained = (mesh.vertices_array == xp.asarray(bound.astype(mesh.dtype))) & used[:, None]
        rows[corners[offset[attained.argmax(axis=0)]], axes] += adj_bound


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.stack([u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]])


def _dot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
