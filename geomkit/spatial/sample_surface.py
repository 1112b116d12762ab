"""Random points on a mesh's surface: forward and adjoint."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, to_host
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.measure import MeshGradients
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.runtime.device import namespace
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["SurfaceSamples", "draw", "sample_surface"]


class SurfaceSamples(NamedTuple):
    """Points on a surface."""

    points: Any  # (N, 3) in the mesh's length unit
    face: Any  # (N,) int32, the face each lies on
    barycentric: Any  # (N, 3) weights of the face's corners, not negative, of sum 1
    normal: Any  # (N, 3) the face's unit normal


@primitive(
    differentiable=("vertices",),
    outputs={"points": "real N 3"},
    discrete={"face": "int32 N", "barycentric": "real N 3", "normal": "real N 3"},
)
def sample_surface(mesh: Mesh, n: int, *, seed: int = 0) -> SurfaceSamples:
    """Points drawn at random from a mesh's surface, evenly by area.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`, with some area.
        n: number of points.
        seed: not negative. The same seed gives the same faces and weights on every device.

    Returns:
        A record in the library and precision of the mesh: `.points` (N, 3), `.face` (N,) int32, `.barycentric` (N, 3),
        `.normal` (N, 3).

    Gradients:
        mesh.vertices, through points, which move with their faces. Which face is drawn, and where on it, is discrete;
        normal carries none (use `face_normals`).

    Raises:
        ValueError: n or seed is negative; the mesh has no area to draw from.
        TypeError: n or seed is no integer.
        MemoryError: there is no room for the points.

    Cost: O(F + N log F).

    Example:
        >>> import geomkit as gk
        >>> samples = gk.sample_surface(gk.shapes.box(), 1000)
        >>> samples.points.shape, bool(abs(abs(samples.points).max(axis=1) - 0.5).max() < 1e-6)
        ((1000, 3), True)
    """
    mesh, n, face, weights = _drawn(mesh, n, seed)
    xp = namespace(mesh.device)
    face, weights = xp.asarray(face), xp.asarray(weights).astype(mesh.dtype)
    corners = mesh.vertices_array[mesh.faces_array[face]]
    points = (weights[:, :, None] * corners).sum(axis=1)
    normals = xp.asarray(mesh.face_normals)[face]
    return SurfaceSamples(*map(mesh.library.wrap, (points, face, weights, normals)))


@sample_surface.define_adjoint
def sample_surface_adjoint(mesh: Mesh, n: int, *, seed: int = 0, adj_points: Any) -> MeshGradients:
    """Gradients of `sample_surface`: the cotangent of the points to the mesh's vertices.

    Args:
        mesh, n, seed: as given to `sample_surface`.
        adj_points: (N, 3) cotangent of the points.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: as `sample_surface`; a cotangent of the wrong shape.

    Cost: O(F + N log F). The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> g = gk.sample_surface.adjoint(gk.shapes.box(), 100, adj_points=np.ones((100, 3)))
        >>> g.vertices.sum(axis=0).round(3).tolist()
        [100.0, 100.0, 100.0]
    """
    mesh, n, face, weights = _drawn(mesh, n, seed)
    xp = namespace(mesh.device)
    adj = as_array(
        adj_points, op="sample_surface.adjoint", name="adj_points", shape=(n, 3), dtype=mesh.dtype, device=mesh.device
    )
    weights = xp.asarray(weights).astype(mesh.dtype)
    adj_corners = xp.ascontiguousarray(weights[:, :, None] * adj[:, None])
    return MeshGradients(mesh.library.wrap(corners_to_vertices(mesh, xp.asarray(face), adj_corners)))


def draw(mesh: Mesh, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Faces (n,) int32 by area, and weights (n, 3) float64, even over each face; on the host.

    Raises:
        ValueError: the mesh has no area.
    """
    if n == 0:
        return np.empty(0, np.int32), np.empty((0, 3))
    total, area = _running_area(mesh)
    if not (len(total) and total[-1] > 0):
        raise ValueError(message("sample_surface", "mesh", "faces with some area", repr(mesh)))
    try:
        random = np.random.Generator(np.random.Philox(seed)).random((n, 3))
    except (MemoryError, ValueError, OverflowError) as error:
        raise MemoryError(message("sample_surface", "n", "a number of points that fits in memory", str(n))) from error
    # (A product may round up to the total.)
    at = np.minimum(np.searchsorted(total, random[:, 0] * total[-1], side="right"), np.flatnonzero(area)[-1])
    root = np.sqrt(random[:, 1])
    weights = np.stack([1 - root, root * (1 - random[:, 2]), root * random[:, 2]], axis=1)
    return at.astype(np.int32), weights


def _running_area(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """The running sum of the faces' areas, and these, in units of their own: no square leaves the range of floats."""
    corners = to_host(mesh.vertices_array).astype(np.float64)[to_host(mesh.faces_array)]
    if len(corners):
        largest = np.abs(corners).max()
        # (A power of two: nothing is rounded.)
        corners = np.ldexp(corners, -int(np.frexp(largest)[1]))
        edges = corners[:, 1:] - corners[:, :1]
        edges = np.ldexp(edges, -int(np.frexp(np.abs(edges).max())[1]))
    else:
        edges = np.empty((0, 2, 3))
    area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
    return np.cumsum(area), area


def _drawn(mesh: Any, n: int, seed: int) -> tuple[Mesh, int, np.ndarray, np.ndarray]:
    mesh = as_mesh(mesh)
    for name, value in (("n", n), ("seed", seed)):
        try:
            number = operator.index(value)
        except TypeError as error:
            text = message("sample_surface", name, "an integer of at least 0", type(value).__name__)
            raise TypeError(text) from error
        if number < 0:
            raise ValueError(message("sample_surface", name, "an integer of at least 0", str(number)))
    return mesh, operator.index(n), *draw(mesh, operator.index(n), operator.index(seed))
