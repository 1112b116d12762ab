"""Shapes to start from: closed and looking outwards where they can be, the same vertices and faces on every machine."""

import numpy as np
from numpy.typing import DTypeLike

from geomkit.errors import message
from geomkit.mesh.mesh import Mesh

__all__ = ["box", "cylinder", "grid", "icosphere", "torus"]


def icosphere(subdivisions: int = 3, radius: float = 1.0, *, dtype: DTypeLike = np.float32) -> Mesh:
    """A sphere about the origin: an icosahedron, every face cut in four `subdivisions` times. All vertices lie on it.

    Args:
        subdivisions: at least 0. The mesh has 10 * 4**subdivisions + 2 vertices and 20 * 4**subdivisions faces.
        radius: positive.
        dtype: numpy.float32 or numpy.float64.
    Raises:
        ValueError: an argument out of range.
    Example:
        >>> icosphere(1)
        Mesh(42 vertices, 80 faces, float32)
    """
    _check("icosphere", "subdivisions", subdivisions, 0)
    _check_positive("icosphere", "radius", radius)
    golden = (1 + 5**0.5) / 2
    rectangle = np.array([[-1, golden, 0], [1, golden, 0], [-1, -golden, 0], [1, -golden, 0]])
    vertices = np.concatenate([rectangle, np.roll(rectangle, 1, axis=1), np.roll(rectangle, 2, axis=1)])
    vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
    faces = _icosahedron_faces(vertices)
    for _ in range(subdivisions):
        vertices, faces = _quartered(vertices, faces)
        vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
    return _mesh(vertices * radius, faces, dtype)


def box(extents: tuple[float, float, float] = (1.0, 1.0, 1.0), *, dtype: DTypeLike = np.float32) -> Mesh:
    """A box about the origin: 8 vertices, 12 faces.

    Args:
        extents: lengths along x, y and z, positive.
        dtype: numpy.float32 or numpy.float64.
    Raises:
        ValueError: an extent is not positive.
    """
    lengths = np.asarray(extents, np.float64)
    if lengths.shape != (3,) or not ((lengths > 0) & (lengths < np.inf)).all():
        raise ValueError(message("box", "extents", "three positive numbers", repr(extents)))
    corners = np.stack(np.meshgrid([-0.5, 0.5], [-0.5, 0.5], [-0.5, 0.5], indexing="ij"), axis=-1).reshape(8, 3)
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    return _mesh(corners * lengths, _triangles(np.array(quads)), dtype)


def torus(
    major_radius: float = 1.0,
    minor_radius: float = 0.4,
    *,
    major_sections: int = 48,
    minor_sections: int = 24,
    dtype: DTypeLike = np.float32,
) -> Mesh:
    """A torus about the z axis. All vertices lie on it.

    Args:
        major_radius: from the axis to the middle of the tube, positive.
        minor_radius: of the tube, positive; less than major_radius, or the surface meets itself.
        major_sections: around the axis, at least 3.
        minor_sections: around the tube, at least 3.
        dtype: numpy.float32 or numpy.float64.
    Raises:
        ValueError: an argument out of range.
    """
    _check_positive("torus", "major_radius", major_radius)
    _check_positive("torus", "minor_radius", minor_radius)
    if minor_radius >= major_radius:
        raise ValueError(message("torus", "minor_radius", f"less than major_radius {major_radius}", str(minor_radius)))
    _check("torus", "major_sections", major_sections, 3)
    _check("torus", "minor_sections", minor_sections, 3)
    around, tube = np.meshgrid(_circle(major_sections), _circle(minor_sections), indexing="ij")
    out = major_radius + minor_radius * np.cos(tube)
    vertices = np.stack([out * np.cos(around), out * np.sin(around), minor_radius * np.sin(tube)], axis=-1)
    i, j = np.meshgrid(np.arange(major_sections), np.arange(minor_sections), indexing="ij")
    k, m = (i + 1) % major_sections, (j + 1) % minor_sections
    quads = np.stack([i * minor_sections + j, k * minor_sections + j, k * minor_sections + m, i * minor_sections + m])
    return _mesh(vertices.reshape(-1, 3), _triangles(quads.reshape(4, -1).T), dtype)


def cylinder(
    radius: float = 1.0, height: float = 2.0, *, sections: int = 32, caps: bool = True, dtype: DTypeLike = np.float32
) -> Mesh:
    """A cylinder about the z axis, its middle at the origin; the caps are fans about a vertex on the axis.

    Args:
        radius, height: positive.
        sections: around the axis, at least 3.
        caps: False leaves the ends open.
        dtype: numpy.float32 or numpy.float64.
    Raises:
        ValueError: an argument out of range.
    """
    _check_positive("cylinder", "radius", radius)
    _check_positive("cylinder", "height", height)
    _check("cylinder", "sections", sections, 3)
    angle = _circle(sections)
    rim = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(sections, height / 2)], axis=1)
    low, high = np.arange(sections), sections + np.arange(sections)
    low_next, high_next = np.roll(low, -1), np.roll(high, -1)
    vertices = np.concatenate([rim * [1, 1, -1], rim])
    faces = _triangles(np.stack([low, low_next, high_next, high], axis=1))
    if caps:
        bottom, top = np.full(sections, 2 * sections), np.full(sections, 2 * sections + 1)
        vertices = np.concatenate([vertices, [[0, 0, -height / 2], [0, 0, height / 2]]])
        ends = [np.stack([bottom, low_next, low], axis=1), np.stack([top, high, high_next], axis=1)]
        faces = np.concatenate([faces, *ends])
    return _mesh(vertices, faces, dtype)


def grid(nx: int = 10, ny: int = 10, size: tuple[float, float] = (1.0, 1.0), *, dtype: DTypeLike = np.float32) -> Mesh:
    """A flat rectangle in the plane z = 0 about the origin, looking towards +z. Open: it has a rim.

    Args:
        nx, ny: cells along x and y, at least 1; each is two triangles.
        size: lengths along x and y, positive.
        dtype: numpy.float32 or numpy.float64.
    Returns:
        (nx + 1) * (ny + 1) vertices, of which number i * (ny + 1) + j is the i-th along x and the j-th along y.
    Raises:
        ValueError: an argument out of range.
    """
    _check("grid", "nx", nx, 1)
    _check("grid", "ny", ny, 1)
    lengths = np.asarray(size, np.float64)
    if lengths.shape != (2,) or not ((lengths > 0) & (lengths < np.inf)).all():
        raise ValueError(message("grid", "size", "two positive numbers", repr(size)))
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, nx + 1), np.linspace(-0.5, 0.5, ny + 1), indexing="ij")
    vertices = np.stack([x * lengths[0], y * lengths[1], np.zeros_like(x)], axis=-1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    first = (i * (ny + 1) + j).ravel()
    return _mesh(vertices, _triangles(np.stack([first, first + ny + 1, first + ny + 2, first + 1], axis=1)), dtype)


def _icosahedron_faces(vertices: np.ndarray) -> np.ndarray:
    """The triples of vertices at the shortest distance of each other, turned outwards."""
    near = np.linalg.norm(vertices[:, None] - vertices, axis=2) < 1.1
    a, b, c = np.indices((12, 12, 12)).reshape(3, -1)
    faces = np.stack([a, b, c], axis=1)[(a < b) & (b < c) & near[a, b] & near[b, c] & near[c, a]]
    inwards = np.linalg.det(vertices[faces]) < 0
    faces[inwards] = faces[inwards][:, [0, 2, 1]]
    return faces


def _quartered(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every face cut in four at the middles of its edges."""
    tail, head = faces, faces[:, [1, 2, 0]]
    keys = np.minimum(tail, head).astype(np.int64) * len(vertices) + np.maximum(tail, head)
    edges, middle = np.unique(keys, return_inverse=True)
    middles = 0.5 * (vertices[edges // len(vertices)] + vertices[edges % len(vertices)])
    a, b, c = faces.T
    ab, bc, ca = len(vertices) + middle.reshape(faces.shape).T
    quarters = np.stack([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]])
    return np.concatenate([vertices, middles]), quarters.transpose(2, 0, 1).reshape(-1, 3)


def _triangles(quads: np.ndarray) -> np.ndarray:
    """Every quad cut along its first diagonal, its two triangles beside each other."""
    return quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)


def _circle(sections: int) -> np.ndarray:
    return np.arange(sections) * (2 * np.pi / sections)


def _mesh(vertices: np.ndarray, faces: np.ndarray, dtype: DTypeLike) -> Mesh:
    return Mesh(vertices.astype(dtype), faces)


def _check(op: str, argument: str, value: int, least: int) -> None:
    if int(value) != value or value < least:
        raise ValueError(message(op, argument, f"an integer of at least {least}", repr(value)))


def _check_positive(op: str, argument: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ValueError(message(op, argument, "a positive number", repr(value)))
