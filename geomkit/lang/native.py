"""Functions of the shared headers that kernels call with a handle: what they give, and what they are with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from geomkit.implicit.interpolate_grid import interpolate_grid
from geomkit.implicit.signed_distance import signed_distance
from geomkit.lang.handles import BoundHandle, neighbor_lists
from geomkit.lang.struct import Struct
from geomkit.lang.types import Scalar, Vec, boolean, i32
from geomkit.spatial.cast_rays import cast_rays
from geomkit.spatial.closest_point import closest_point
from geomkit.spatial.winding_number import winding_number

__all__ = ["NATIVES", "Native", "NativeCall", "record_of"]


class NativeCall(NamedTuple):
    """The attribute of an operation: the function, and the parameter that is its handle."""

    function: str
    handle: str


class Native(NamedTuple):
    """A function.

    Attributes:
        interpret: it with NumPy, of the handle and the arguments of the threads that run; gives one array a scalar.
        results: names and types of what it gives, as `record_of` reads them.
        sends: the results that carry gradients.
        instead: of results that carry none though they are floats, what to use.
        slopes: the numbers of the scalar arguments that gradients reach.
        adjoint: of the handle, the arguments, the results and the cotangents of `sends`, and of where gradients of the
            handle are added or None; gives the gradients of the arguments in `slopes`.
    """

    interpret: Callable[[BoundHandle, list[np.ndarray]], list[Any]]
    results: str = ""
    sends: tuple[str, ...] = ()
    instead: dict[str, str] = {}
    slopes: tuple[int, ...] = ()
    adjoint: Callable[[BoundHandle, list[np.ndarray], list[np.ndarray], list[np.ndarray], Any], list[Any]] | None = None

    @property
    def count(self) -> int:
        """How many scalars it gives."""
        return len(self.places(*(part.split()[1] for part in self.results.split(", "))))

    def places(self, *names: str) -> list[int]:
        """The numbers of the scalars of some results."""
        if not self.results:
            return []
        found, at = [], 0
        for part in self.results.split(", "):
            kind, name = part.split()
            count = int(kind[3]) if kind.startswith("vec") else 1
            found += range(at, at + count) if name in names else []
            at += count
        return found


@cache
def record_of(function: str, precision: Scalar) -> Struct:
    """The type of what a function gives, in a precision."""
    fields: dict[str, Any] = {}
    for part in NATIVES[function].results.split(", "):
        kind, name = part.split()
        fields[name] = {"bool": boolean, "int": i32, "real": precision}.get(kind) or Vec(int(kind[3]), precision)
    return Struct(function, fields)


def _neighbor_ball(bound: BoundHandle, args: list[np.ndarray]) -> list[Any]:
    # One row of a list that the public function makes, in place of the rows of the grid.
    begin, end = neighbor_lists(bound, np.stack(args[:3], axis=1), args[3])
    none = np.zeros_like(begin)
    return [(end > begin).astype(np.int32), begin, end, none, none, none, none]


def _points(args: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Points, and which of them are finite."""
    points = np.stack(args[:3], axis=1)
    return points, np.asarray(np.isfinite(points).all(axis=1))


def _nearest(bound: BoundHandle, args: list[np.ndarray], *, signed: bool) -> list[Any]:
    points, valid = _points(args)
    n = len(points)
    face, feature = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    weights, point, distance = np.zeros_like(points), np.full_like(points, np.inf), np.full_like(points[:, 0], np.inf)
    found = closest_point.forward(bound.value, points[valid])
    near = found.distance <= args[3][valid]
    lanes = np.flatnonzero(valid)[near]
    face[lanes], feature[lanes], weights[lanes] = found.face[near], found.feature[near], found.barycentric[near]
    point[lanes], distance[lanes] = found.point[near], found.distance[near]
    if signed and len(lanes):
        distance[lanes] = signed_distance.forward(bound.value, points[lanes])
    hit = face >= 0
    return [hit, face, *weights.T, feature, *point.T, distance]


def _adj_nearest(bound: BoundHandle, args: Any, results: Any, adj: Any, grad: Any, *, signed: bool) -> list[Any]:
    points, _ = _points(args)
    lanes = np.flatnonzero(results[0])
    out = np.zeros_like(points)
    if not len(lanes):
        return list(out.T)
    adj_point, adj_distance = np.stack(adj[:3], axis=1)[lanes], adj[3][lanes]
    pairs = [(closest_point, {"adj_point": adj_point} | ({} if signed else {"adj_distance": adj_distance}))]
    if signed:
        pairs.append((signed_distance, {"adj_distance": adj_distance}))
    for op, cotangents in pairs:
        found = op.adjoint(bound.value, points[lanes], **cotangents)
        out[lanes] += found.points
        if grad is not None:
            grad += found.vertices
    return list(out.T)


def _query(*, signed: bool) -> Native:
    return Native(
        lambda bound, args: _nearest(bound, args, signed=signed),
        "bool hit, int face, vec3 barycentric, int feature, vec3 point, real distance",
        ("point", "distance"),
        {"barycentric": "point"},
        (0, 1, 2),
        lambda *given: _adj_nearest(*given, signed=signed),
    )


def _ray(bound: BoundHandle, args: list[np.ndarray]) -> list[Any]:
    origins, directions, t_max = np.stack(args[:3], axis=1), np.stack(args[3:6], axis=1), args[6]
    n, dtype = len(origins), origins.dtype
    t, face = np.full(n, np.inf, dtype), np.full(n, -1, np.int32)
    at, normal, position = np.zeros((n, 2), dtype), np.zeros((n, 3), dtype), np.full((n, 3), np.inf, dtype)
    lanes = np.flatnonzero(_rays(origins, directions) & ~np.isnan(t_max))
    found = cast_rays.forward(bound.value, origins[lanes], directions[lanes], t_max=t_max[lanes])
    t[lanes], face[lanes], at[lanes], normal[lanes] = found.t, found.face, found.barycentric, found.normal
    position[lanes] = found.position
    return [face >= 0, t, face, *at.T, *normal.T, *position.T]


def _rays(origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Which rays are rays."""
    return np.asarray(np.isfinite(np.hstack([origins, directions])).all(axis=1) & (directions != 0).any(axis=1))


def _adj_ray(bound: BoundHandle, args: Any, results: Any, adj: Any, grad: Any) -> list[Any]:
    lanes = np.flatnonzero(results[0])
    out = np.zeros((6, len(args[0])), args[0].dtype)
    if len(lanes):
        origins, directions = np.stack(args[:3], axis=1)[lanes], np.stack(args[3:6], axis=1)[lanes]
        found = cast_rays.adjoint(
            bound.value, origins, directions, t_max=args[6][lanes], adj_t=adj[0][lanes],
            adj_barycentric=np.stack(adj[1:3], axis=1)[lanes], adj_normal=np.stack(adj[3:6], axis=1)[lanes],
            adj_position=np.stack(adj[6:9], axis=1)[lanes],
        )  # fmt: skip
        out[:3, lanes], out[3:, lanes] = found.origins.T, found.directions.T
        if grad is not None:
            grad += found.vertices
    return list(out)


def _winding(bound: BoundHandle, args: list[np.ndarray]) -> list[Any]:
    points, valid = _points(args)
    out = np.zeros_like(points[:, 0])
    out[valid] = winding_number.forward(bound.value, points[valid])
    return [out]


def _adj_winding(bound: BoundHandle, args: Any, results: Any, adj: Any, grad: Any) -> list[Any]:
    points, valid = _points(args)
    out = np.zeros_like(points)
    found = winding_number.adjoint(bound.value, points[valid], adj_winding=adj[0][valid])
    out[valid] = found.points
    if grad is not None:
        grad += found.vertices
    return list(out.T)


def _sample(bound: BoundHandle, args: list[np.ndarray], *, method: str) -> list[Any]:
    points, valid = _points(args)
    out = np.full((4, len(points)), np.nan, points.dtype)
    found = interpolate_grid.forward(bound.value, points[valid], method=method)
    out[0, valid], out[1:, valid] = found.value, found.gradient.T
    return list(out)


def _adj_sample(bound: BoundHandle, args: Any, results: Any, adj: Any, grad: Any, *, method: str) -> list[Any]:
    points, valid = _points(args)
    out = np.zeros_like(points)
    if valid.any():
        value, gradient = adj[0][valid], np.stack(adj[1:], axis=1)[valid]
        found = interpolate_grid.adjoint(
            bound.value, points[valid], method=method, adj_value=value, adj_gradient=gradient
        )
        out[valid] = found.points
        if grad is not None:
            grad += found.grid
    return list(out.T)


def _sampled(method: str) -> Native:
    return Native(
        lambda bound, args: _sample(bound, args, method=method), "real value, vec3 gradient", ("value", "gradient"), {},
        (0, 1, 2), lambda *given: _adj_sample(*given, method=method),
    )  # fmt: skip


NATIVES: dict[str, Native] = {
    "neighbor_ball": Native(_neighbor_ball),
    "neighbor_row": Native(lambda bound, args: [args[1], args[2]]),
    "neighbor_test": Native(lambda bound, args: [np.ones(len(args[0]), bool)]),
    "neighbor_index": Native(lambda bound, args: [np.asarray(bound.found, np.int32)[args[0]]]),
    "closest_point_query": _query(signed=False),
    "signed_distance_query": _query(signed=True),
    "ray_query": Native(
        _ray, "bool hit, real t, int face, vec2 barycentric, vec3 normal, vec3 position",
        ("t", "barycentric", "normal", "position"), {}, (0, 1, 2, 3, 4, 5), _adj_ray,
    ),
    "grid_sample": _sampled("linear"),
    "grid_sample_cubic": _sampled("cubic"),
    "winding_number_query": Native(_winding, "real winding", ("winding",), {}, (0, 1, 2), _adj_winding),
}
