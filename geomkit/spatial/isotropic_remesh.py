"""Meshes made anew of triangles of one size, on the surface of the old."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, as_array, library_of, precision_of, refuse_tracked, to_host
from geomkit.autodiff.primitive import nondifferentiable
from geomkit.errors import MeshError, message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.mesh.topology import joined
from geomkit.runtime.remesher import Remesher
from geomkit.spatial.closest_point import ClosestPoint, closest_point

__all__ = ["Remeshed", "isotropic_remesh"]

OP = "isotropic_remesh"
SMOOTH, ON_LINE, FIXED = 0, 1, 2
TURN = 45.0  # degrees by which a line bends at a vertex that is a corner
STEPS = 3  # of smoothing between two projections
MOST = 200_000_000  # triangles, about: half-edges are numbered by 32 bits
ASKEW = -0.2  # cosine between normals below which a closest point is on another sheet

Progress = Callable[[int, int], None]


class Remeshed(NamedTuple):
    """A mesh made anew, and where each of its vertices is on the old one."""

    mesh: Mesh
    attributes: dict[str, Any]  # (V', ...) by name, each in its own library and precision
    face: Any  # (V',) int32, the old face that the new vertex lies on, or nearest to
    barycentric: Any  # (V', 3) weights of that face's corners


@nondifferentiable("the connectivity changes: start anew from its vertices")
def isotropic_remesh(
    mesh: Mesh,
    edge_length: Any,
    *,
    iterations: int = 5,
    feature_angle: float | None = None,
    project: bool = True,
    attributes: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Remeshed:
    """A mesh of the same surface whose triangles are nearly equilateral and of a given size.

    In each iteration edges longer than 4/3 of the wanted length are split, those shorter than 4/5 collapsed, edges
    flipped towards six edges a vertex (four at borders), and vertices moved within their tangent planes and back onto
    the old surface. Holes, handles and parts stay what they are: a closed manifold gives one, with the same Euler
    characteristic. For a mesh of any quality made watertight use `remesh`.

    Vertices at one position are one: seams of uv close, so give uv anew by `unwrap_uv`, and bring textures over by
    `bake_texture`. Border edges stay on the border's curve; so do features on theirs. Vertices where such lines end,
    meet, or bend by more than 45 degrees stay where they are, as do those where separate fans of faces touch.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`, whose edges have two faces at most, which agree about
            the front. Faces with two corners at one position are dropped.
        edge_length: in the mesh's length unit: one number, or (V,) one at each vertex, between which the size changes.
        iterations: ten instead of five come nearer to even triangles, most of all where they become larger.
        feature_angle: degrees between the normals of two faces from which on their edge is a feature; None for none.
        project: whether new vertices are put on the old surface. Without, they stay near the
            tangent planes of where they came from, and drift off with every iteration.
        attributes: arrays (V, ...) of floats by name, such as colours or what an optimiser keeps, of any library.
        progress: called as progress(done, total) after each iteration. What it raises ends the work.

    Returns:
        A record: `.mesh` in the library and precision of the old one; `.attributes`, the given arrays at the new
        vertices by barycentric interpolation; `.face` (V',) and `.barycentric` (V', 3), from which they come: those of
        the closest point of the old mesh. At a seam the values are those of the side that the face found is on.

    Gradients:
        None: the connectivity changes.

    Raises:
        ValueError: an argument is out of range or of the wrong shape.
        TypeError: wrong dtype; attributes that track gradients.
        MeshError: edges with more than two faces, or with two that pass them in the same direction.

    Cost: O(n log F) for n new vertices, on one core but for projections; also for meshes on a GPU it runs on the CPU.
    The result does not depend on the number of threads.   Source: Botsch and Kobbelt (2004), A remeshing approach to
    multiresolution modeling.

    Example:
        >>> import geomkit as gk
        >>> ball = gk.shapes.icosphere(3)
        >>> new = gk.isotropic_remesh(ball, 0.3, attributes={"height": ball.vertices[:, 1]})
        >>> new.mesh.is_closed, bool(abs(new.attributes["height"] - new.mesh.vertices[:, 1]).max() < 0.01)
        (True, True)
    """
    given = as_mesh(mesh)
    solid = Mesh(to_host(given.vertices_array), to_host(given.faces_array))
    rounds = _integer("iterations", iterations)
    length = _lengths(edge_length, solid)
    angle = None if feature_angle is None else _number("feature_angle", feature_angle)
    if angle is not None and not 0 < angle < 180:
        raise ValueError(message(OP, "feature_angle", "degrees between 0 and 180, or None", repr(feature_angle)))
    if attributes is not None and not isinstance(attributes, Mapping):
        raise TypeError(message(OP, "attributes", "arrays by name, or None", type(attributes).__name__))
    carried = {name: _attribute(name, value, solid) for name, value in (attributes or {}).items()}
    library = given.library
    if not solid.n_faces:
        empty = {name: value[2].wrap(value[0][:0]) for name, value in carried.items()}
        none = np.zeros(0, np.int32), np.zeros((0, 3), solid.dtype)
        nothing = Mesh.adopt(solid.vertices_array[:0], solid.faces_array, library)
        return Remeshed(nothing, empty, *map(library.wrap, none))
    start = _Start(solid, angle)
    surface = Remesher(
        start.place, np.broadcast_to(length, solid.n_vertices)[start.vertex], start.kind, start.faces, start.twin,
        start.line,
    )  # fmt: skip
    place, faces = start.place, start.faces
    for done in range(rounds):
        surface.sweep()
        place, normal, line, faces = surface.smoothed(STEPS)
        target = np.zeros(len(place))
        if project or length.ndim:
            hit = closest_point(solid, place.astype(solid.dtype))
            if length.ndim:
                target = _interpolated(length, solid, hit.face, hit.barycentric)
            if project:
                place = _projected(start, place, normal, line, hit)
        place = surface.move(place, target)
        if progress is not None:
            progress(done + 1, rounds)
    vertices = place.astype(solid.dtype)
    at = closest_point(solid, vertices)
    new = Mesh.adopt(vertices, np.ascontiguousarray(faces), library)
    values = {
        name: own.wrap(_interpolated(array, solid, at.face, at.barycentric).astype(dtype))
        for name, (array, dtype, own) in carried.items()
    }
    return Remeshed(new, values, library.wrap(at.face), library.wrap(at.barycentric))


class _Start:
    """What the half-edges begin with.

    Attributes:
        solid: the mesh.
        vertex: (V',) a vertex of it at the position of each; there are several where fans of faces touch.
        place, kind, faces, twin, line: as for `Remesher`.
        lines: a mesh of the edges of all lines, each a triangle without area.
        line_of_edge: (E,) the line of each.
    """

    def __init__(self, solid: Mesh, angle: float | None):
        topology = solid.topology
        for count, what in (
            (topology.n_non_manifold, "with more than two faces"),
            (topology.n_inconsistent, "whose faces disagree about the front"),
        ):
            if count:
                expected = "a manifold with one front (`remesh` makes one of any mesh)"
                raise MeshError(message(OP, "mesh", expected, f"{count} edge{'s' * (count > 1)} {what}"))
        kept = np.flatnonzero(~topology.collapsed)
        number = np.full(solid.n_faces, -1)
        number[kept] = np.arange(len(kept))
        twin = topology.edge_twin[kept].ravel()
        twin = np.where(twin < 0, -1, 3 * number[twin // 3] + twin % 3)
        corner = np.arange(len(twin))
        inner = corner[twin >= 0]
        n, fan = joined(inner, _next(twin[inner]), len(twin))
        point = topology.welded_faces[kept].ravel()
        first = np.zeros(n, np.int64)
        first[fan[::-1]] = corner[::-1]
        self.faces, self.twin = fan.reshape(-1, 3).astype(np.int32), twin.reshape(-1, 3).astype(np.int32)
        self.vertex = topology.unique_vertices[point[first]]
        self.place = solid.vertices_array[self.vertex].astype(np.float64)
        self.kind = np.where(np.bincount(point[first])[point[first]] > 1, FIXED, SMOOTH).astype(np.int8)
        self.solid = solid
        self._find_lines(solid, kept, angle)

    def _find_lines(self, solid: Mesh, kept: np.ndarray, angle: float | None) -> None:
        twin, tail = self.twin.ravel(), self.faces.ravel()
        is_line = twin < 0
        if angle is not None:
            normals = solid.face_normals[kept].astype(np.float64)
            one, other = normals[np.arange(len(twin)) // 3], normals[twin // 3]
            flat = one.any(axis=1) & other.any(axis=1)
            is_line |= flat & ((one * other).sum(axis=1) < math.cos(math.radians(angle)))
        edge = np.flatnonzero(is_line & (np.arange(len(twin)) > twin))
        ends = np.stack([tail[edge], tail[_next(edge)]], axis=1)
        n = len(self.place)
        count = np.bincount(ends.ravel(), minlength=n)
        along = self.place[ends[:, 1]] - self.place[ends[:, 0]]
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        away = np.stack([np.bincount(ends.ravel(), np.stack([x, -x], axis=1).ravel(), n) for x in along.T], axis=1)
        # Two unit vectors from a vertex add up to this where they bend by TURN.
        bends = np.linalg.norm(away, axis=1) > 2 * math.sin(math.radians(TURN / 2))
        self.kind[(count == 2) & ~bends & (self.kind == SMOOTH)] = ON_LINE
        self.kind[(count > 0) & (self.kind != ON_LINE)] = FIXED
        # Edges that share a vertex on a line are of one.
        order = np.argsort(ends.ravel(), kind="stable")
        order = order[self.kind[ends.ravel()[order]] == ON_LINE] // 2
        self.line_of_edge = joined(order[::2], order[1::2], len(edge))[1]
        line = np.full(len(twin), -1, np.int32)
        line[edge] = self.line_of_edge
        line[twin[edge][twin[edge] >= 0]] = self.line_of_edge[twin[edge] >= 0]
        self.line = line.reshape(-1, 3)
        self.lines = Mesh(self.place.astype(solid.dtype), ends[:, [0, 1, 1]])


def _next(half_edge: np.ndarray) -> np.ndarray:
    return half_edge - half_edge % 3 + (half_edge + 1) % 3


def _projected(
    start: _Start, place: np.ndarray, normal: np.ndarray, line: np.ndarray, hit: ClosestPoint
) -> np.ndarray:
    """Where vertices come to lie on the surface, or on their line; not a number for those that stay where they were."""
    solid, out = start.solid, np.array(hit.point, np.float64)
    # What is nearest may be the other side of a thin wall.
    out[(solid.face_normals[hit.face] * normal).sum(axis=1) < ASKEW] = np.nan
    out[line < -1] = np.nan
    on = np.flatnonzero(line >= 0)
    if len(on):
        near = closest_point(start.lines, place[on].astype(solid.dtype))
        same = start.line_of_edge[near.face] == line[on]
        out[on] = np.where(same[:, None], near.point, np.nan)
    return out


def _interpolated(values: np.ndarray, solid: Mesh, face: np.ndarray, barycentric: np.ndarray) -> np.ndarray:
    """Values of vertices at points of faces, in float64."""
    weights = barycentric.astype(np.float64)
    corners = solid.faces_array[face]
    shape = (-1, *[1] * (values.ndim - 1))
    out = weights[:, 0].reshape(shape) * values[corners[:, 0]]
    for k in (1, 2):
        out += weights[:, k].reshape(shape) * values[corners[:, k]]
    return out


def _integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(message(OP, name, "an integer", type(value).__name__)) from error
    if number < 0:
        raise ValueError(message(OP, name, "an integer of at least 0", str(value)))
    return number


def _number(name: str, value: Any) -> float:
    return float(as_array(value, op=OP, name=name, shape=(), dtype=np.float64))


def _lengths(given: Any, solid: Mesh) -> np.ndarray:
    """() or (V,) float64, checked."""
    shape = (solid.n_vertices,) if np.ndim(to_host(given) if hasattr(given, "get") else given) else ()
    lengths = as_array(given, op=OP, name="edge_length", shape=shape, dtype=np.float64)
    if not ((lengths > 0) & (lengths < np.inf)).all():
        got = f"{float(lengths.min()):g}" if np.isfinite(lengths).all() else "some that are not finite"
        raise ValueError(message(OP, "edge_length", "positive lengths", got))
    expected = 2 * solid.area / math.sqrt(3) / max(float(lengths.min()) ** 2, 1e-300) if lengths.ndim == 0 else 0.0
    if expected > MOST:
        got = f"{float(lengths):g}, which gives {2 * expected:.3g} triangles"
        raise ValueError(message(OP, "edge_length", "a length of more than a speck", got))
    return lengths


def _attribute(name: str, value: Any, solid: Mesh) -> tuple[np.ndarray, np.dtype, Library]:
    """Values (V, ...), the precision and the library that they are given back in."""
    path = f"attributes[{name!r}]"
    refuse_tracked(value, op=OP, name=path)
    dtype = precision_of(value)
    array = as_array(value, op=OP, name=path, shape=(solid.n_vertices, "..."), dtype=dtype)
    return array, dtype, library_of(value)
