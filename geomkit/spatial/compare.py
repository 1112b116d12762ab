"""How far two surfaces or point sets are apart: chamfer and Hausdorff distances, forward and adjoint."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, library_of, precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.runtime.device import namespace
from geomkit.spatial.closest_point import closest_point
from geomkit.spatial.sample_surface import sample_surface
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["PairGradients", "chamfer_distance", "hausdorff_distance"]

SAMPLES = 10_000


class PairGradients(NamedTuple):
    """Gradients of a comparison."""

    a: Any  # (V, 3) of a's vertices if it is a mesh, (N, 3) of its points if it is a point set
    b: Any  # likewise


class _Side:
    """A mesh or a point set: what the other side's points are measured to, and the points measured from it."""

    def __init__(self, op: str, name: str, given: Any, samples: int, seed: int, vertices: bool):
        self.is_mesh = isinstance(given, Mesh) or (hasattr(given, "vertices") and hasattr(given, "faces"))
        self.samples, self.seed, self.vertices = samples, seed, vertices
        if self.is_mesh:
            self.mesh = as_mesh(given)
            self.empty = self.mesh.n_faces == 0
            drawn = [] if self.empty else [self._drawn(op, name)]
            xp = namespace(self.mesh.device)
            # Vertices are where a surface reaches farthest.
            self.used = xp.unique(self.mesh.faces_array) if vertices and not self.empty else None
            if self.used is not None:
                drawn.append(self.mesh.vertices_array[self.used])
            self.points = xp.concatenate(drawn) if drawn else self.mesh.vertices_array[:0]
        else:
            library, dtype = library_of(given), precision_of(given)
            self.points = as_array(given, op=op, name=name, shape=("N", 3), dtype=dtype, device=library.device)
            xp = namespace(library.device)
            bad = ~xp.isfinite(self.points).all(axis=1)
            if bad.any():
                first = int(bad.argmax())
                got = f"{int(bad.sum())} that are not, the first is point {first}: {self.points[first].tolist()}"
                raise ValueError(message(op, name, "finite numbers", got))
            # A point is a triangle whose corners coincide.
            place = xp.arange(len(self.points), dtype=np.int32)
            self.mesh = Mesh(library.wrap(self.points), library.wrap(xp.stack([place] * 3, axis=1)))
            self.empty = len(self.points) == 0
        self.adj_points = xp.zeros(self.points.shape, np.float64)
        self.adj_vertices = xp.zeros(self.mesh.vertices_array.shape, np.float64)

    def _drawn(self, op: str, name: str) -> Any:
        try:
            points = sample_surface(self.mesh, self.samples, seed=self.seed).points
        except ValueError as error:
            raise ValueError(message(op, name, "faces with some area", repr(self.mesh))) from error
        return self._own(points, 3, self.mesh.dtype)

    def _own(self, array: Any, width: int, dtype: Any) -> Any:
        return as_array(array, op="", name="", shape=("N", width), dtype=dtype, device=self.mesh.device)

    def distances(self, other: _Side) -> Any:
        """From this side's points to the other side; also what `send` needs.

        In float64, from the coordinates as they were given: those of the tree have the digits of its whole box only.
        """
        xp = namespace(self.mesh.device)
        hit = closest_point(other.mesh, xp.asarray(self.points, dtype=other.mesh.dtype))
        self.face = as_array(hit.face, op="", name="", shape=("N",), dtype=np.int32, device=self.mesh.device)
        corners = other.mesh.faces_array[self.face]
        first = other.mesh.vertices_array[corners[:, 0]].astype(np.float64)
        self.away = self.points - first
        if other.is_mesh:
            self.weights = xp.array(self._own(hit.barycentric, 3, np.float64))
            # (What is left of 1 is the first corner's, so that coordinates far from zero do not count.)
            self.weights[:, 0] = 1 - self.weights[:, 1] - self.weights[:, 2]
            for k in (1, 2):
                self.away -= self.weights[:, k, None] * (other.mesh.vertices_array[corners[:, k]] - first)
        else:
            self.weights = xp.asarray([[1.0, 0.0, 0.0]])
        # (In units of the largest component, so that no square leaves the range of floats.)
        largest = abs(self.away).max(axis=1)
        unit = self.away / xp.where(largest > 0, largest, 1)[:, None]
        self.distance = largest * xp.sqrt((unit * unit).sum(axis=1))
        return self.distance

    def send(self, other: _Side, weight: Any, squared: bool) -> None:
        """Add the gradients of distances, or of their squares, measured from this side; those of 0 send 0."""
        xp = namespace(self.mesh.device)
        size = 0.5 if squared else xp.where(self.distance > 0, self.distance, 1)[:, None]
        along = xp.broadcast_to(weight, self.distance.shape)[:, None] * (self.away / size)
        self.adj_points += along
        adj_corners = -self.weights[:, :, None] * along[:, None]
        other.adj_vertices += corners_to_vertices(other.mesh, self.face, adj_corners.astype(other.mesh.dtype))

    def gradient(self) -> Any:
        """Of the vertices or points, in the library and precision given."""
        total = self.adj_vertices
        if not self.is_mesh:
            total = total + self.adj_points
        elif not self.empty:
            drawn = self.adj_points[: self.samples]
            g = sample_surface.adjoint(self.mesh, self.samples, seed=self.seed, adj_points=drawn)
            total = total + self._own(g.vertices, 3, np.float64)
            if self.used is not None:
                total[self.used] += self.adj_points[self.samples :]
        return self.mesh.library.wrap(total.astype(self.mesh.dtype))


def _sides(op: str, a: Any, b: Any, samples: int, seed: int, vertices: bool) -> tuple[_Side, _Side]:
    numbers: list[int] = []
    for name, value, least in (("samples", samples, 1), ("seed", seed, 0)):
        expected = f"an integer of at least {least}"
        try:
            numbers.append(operator.index(value))
        except TypeError as error:
            raise TypeError(message(op, name, expected, type(value).__name__)) from error
        if numbers[-1] < least:
            raise ValueError(message(op, name, expected, str(value)))
    n, start = numbers
    pair = _Side(op, "a", a, n, start, vertices), _Side(op, "b", b, n, start, vertices)
    if pair[0].mesh.device != pair[1].mesh.device:
        raise ValueError(message(op, "b", f"arrays on {pair[0].mesh.device}, as a", pair[1].mesh.device))
    for name, side in zip("ab", pair, strict=True):
        if side.empty:
            raise ValueError(message(op, name, "at least one face or point", "none"))
    return pair


@primitive(differentiable=("a", "b"), outputs={"distance": "real"})
def chamfer_distance(a: Any, b: Any, *, samples: int = SAMPLES, seed: int = 0, squared: bool = True) -> Any:
    """How far two surfaces or point sets are apart on average: of a's points to b, plus of b's points to a.

    Distances to a mesh are those to its surface, exact; distances from a mesh are those of points drawn from it.

    Args:
        a: a Mesh, any object with `.vertices` and `.faces`, or (N, 3) points.
        b: likewise.
        samples: number of points drawn from a mesh.
        seed: of the points drawn.
        squared: mean squared distances (the default, the loss of most papers), or mean distances.

    Returns:
        () in the library of a: the sum of both means.

    Gradients:
        a and b: vertices of meshes, points of point sets. The points drawn move with their faces; at equally near
        features, that of the one found. Points at distance 0 send 0.

    Raises:
        ValueError: wrong shape, points that are not finite, a side without faces or points, a mesh without area,
            samples or seed out of range.
        TypeError: wrong dtype, samples or seed that are no integers.

    Cost: a closest-point query for each point of both sides.

    Example:
        >>> import geomkit as gk
        >>> gk.chamfer_distance([[0.0, 0, 0]], [[0.0, 3, 4]]).item(), gk.chamfer_distance(
        ...     [[0.0, 0, 0]], [[0.0, 3, 4]], squared=False
        ... ).item()
        (50.0, 10.0)
    """
    one, other = _sides("chamfer_distance", a, b, samples, seed, vertices=False)
    total = 0.0
    for x, y in ((one, other), (other, one)):
        d = x.distances(y)
        total = total + (d * d if squared else d).mean()
    xp = namespace(one.mesh.device)
    return one.mesh.library.wrap(xp.asarray(total, dtype=one.mesh.dtype))


@chamfer_distance.define_adjoint
def chamfer_distance_adjoint(
    a: Any, b: Any, *, samples: int = SAMPLES, seed: int = 0, squared: bool = True, adj_distance: Any = 1.0
) -> PairGradients:
    """Gradients of `chamfer_distance`: the cotangent of the distance to both sides.

    Args:
        a, b, samples, seed, squared: as given to `chamfer_distance`.
        adj_distance: () cotangent of the distance.

    Returns:
        A record of `.a` and `.b`, of the shape of the vertices or points, each in its own library.

    Raises:
        ValueError, TypeError: as `chamfer_distance`.

    Cost: about twice the forward function. The same bits whatever the number of threads.
    """
    one, other = _sides("chamfer_distance", a, b, samples, seed, vertices=False)
    adj = float(as_array(adj_distance, op="chamfer_distance.adjoint", name="adj_distance", shape=(), dtype=np.float64))
    for x, y in ((one, other), (other, one)):
        d = x.distances(y)
        x.send(y, adj / len(d), squared)
    return PairGradients(one.gradient(), other.gradient())


@primitive(differentiable=("a", "b"), outputs={"distance": "real"})
def hausdorff_distance(a: Any, b: Any, *, samples: int = SAMPLES, seed: int = 0) -> Any:
    """How far two surfaces or point sets are apart at most: the greatest distance from a point of either to the other.

    Of point sets it is exact. Of meshes it is the greatest over their vertices and points drawn from them: a lower
    bound that comes nearer with more samples.

    Args:
        a: a Mesh, any object with `.vertices` and `.faces`, or (N, 3) points.
        b: likewise.
        samples: number of points drawn from a mesh, besides its vertices.
        seed: of the points drawn.

    Returns:
        () in the library of a.

    Gradients:
        a and b: vertices of meshes, points of point sets, through the one pair of points that is farthest apart; 0 if
        that is at distance 0.

    Raises:
        ValueError: wrong shape, points that are not finite, a side without faces or points, a mesh without area,
            samples or seed out of range.
        TypeError: wrong dtype, samples or seed that are no integers.

    Cost: a closest-point query for each point of both sides.

    Example:
        >>> import geomkit as gk
        >>> gk.hausdorff_distance([[0.0, 0, 0], [0, 0, 1]], [[0.0, 0, 0]]).item()
        1.0
    """
    one, other = _sides("hausdorff_distance", a, b, samples, seed, vertices=True)
    farthest = max(float(x.distances(y).max()) for x, y in ((one, other), (other, one)))
    xp = namespace(one.mesh.device)
    return one.mesh.library.wrap(xp.asarray(farthest, dtype=one.mesh.dtype))


@hausdorff_distance.define_adjoint
def hausdorff_distance_adjoint(
    a: Any, b: Any, *, samples: int = SAMPLES, seed: int = 0, adj_distance: Any = 1.0
) -> PairGradients:
    """Gradients of `hausdorff_distance`: the cotangent of the distance to both sides.

    Args:
        a, b, samples, seed: as given to `hausdorff_distance`.
        adj_distance: () cotangent of the distance.

    Returns:
        A record of `.a` and `.b`, of the shape of the vertices or points, each in its own library.

    Raises:
        ValueError, TypeError: as `hausdorff_distance`.

    Cost: about twice the forward function. The same bits whatever the number of threads.
    """
    one, other = _sides("hausdorff_distance", a, b, samples, seed, vertices=True)
    adj = float(
        as_array(adj_distance, op="hausdorff_distance.adjoint", name="adj_distance", shape=(), dtype=np.float64)
    )
    found = [x.distances(y) for x, y in ((one, other), (other, one))]
    x, y = (one, other) if float(found[0].max()) >= float(found[1].max()) else (other, one)
    d = found[0] if x is one else found[1]
    weight = namespace(one.mesh.device).zeros(d.shape, np.float64)
    weight[int(d.argmax())] = adj
    x.send(y, weight, squared=False)
    return PairGradients(one.gradient(), other.gradient())
