"""Closest hits of rays on a mesh: forward and adjoint."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, as_array, tracker_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import namespace
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.interpolate_attribute import interpolate_attribute, interpolated
from geomkit.spatial.rays import RayQuery
from geomkit.spatial.scatter import corners_to_vertices
from geomkit.tensors import untraced

__all__ = ["Hits", "RayGradients", "cast_rays"]

cast_rays_fwd = Kernel(
    "spatial/rays.cu",
    "cast_rays_fwd",
    "int block, int count, Bvh bvh, Mesh mesh, Rays rays, int cull, const real* face_normals, real* t, int* face, "
    "real* barycentric, real* normal, int* invalid",
    grain=1,
)
cast_rays_adj = Kernel(
    "spatial/rays.cu",
    "cast_rays_adj",
    "Mesh mesh, double unit, const real* directions, const real* t, const int* face, const real* barycentric, "
    "const real* adj_t, const real* adj_barycentric, const real* adj_normal, const real* adj_position, "
    "real* adj_origins, real* adj_directions, real* adj_corners",
)


class Hits:
    """What `cast_rays` finds for each of N rays. A miss has t inf, face -1, and zeros.

    Attributes:
        t: (N,) parameter of the hit, in units of the direction.
        face: (N,) int32, the face hit.
        barycentric: (N, 2), u and v: the weights of the face's corners 1 and 2; corner 0 has 1 - u - v.
        normal: (N, 3) unit normal of the face, by its winding; zero for a face without area.
    """

    _fields = ("t", "face", "barycentric", "normal", "position")
    t: Any
    face: Any
    barycentric: Any
    normal: Any

    def __init__(self, q: RayQuery, t: Any, face: Any, barycentric: Any, normal: Any):
        self._mesh, self._library = q.mesh, q.library
        wrap = q.library.wrap
        self.t, self.face, self.barycentric, self.normal = wrap(t), wrap(face), wrap(barycentric), wrap(normal)
        self._arrays: Any = (face, barycentric)  # None where there are no numbers
        self._position: Any = None

    def rebuilt(self, outputs: dict[str, Any], library: Library) -> Hits:
        """The same hits with other t, barycentric, normal and position (or what makes it), and all else in another
        library."""
        hits = copy.copy(self)
        hits._library, hits.face = library, library.wrap(self.face)
        hits.t, hits.barycentric, hits.normal = outputs["t"], outputs["barycentric"], outputs["normal"]
        hits._position = outputs["position"]
        return hits

    @classmethod
    def assembled(cls, fields: dict[str, Any]) -> Hits:
        """Hits of which there are no numbers yet."""
        hits = cls.__new__(cls)
        hits.t, hits.face, hits.normal = fields["t"], fields["face"], fields["normal"]
        hits.barycentric, hits._position = fields["barycentric"], fields["position"]
        hits._arrays = None
        return hits

    def part(self, at: Any) -> Hits:
        """Some of the hits of a plain result, by their numbers."""
        hits = copy.copy(self)
        for name in ("t", "face", "barycentric", "normal"):
            setattr(hits, name, getattr(self, name)[at])
        hits._arrays = hits.face, hits.barycentric
        return hits

    def __len__(self) -> int:
        return len(self.face)

    def __repr__(self) -> str:
        found = "jax traces them" if self._arrays is None else f"{int((self._arrays[0] >= 0).sum())} hits"
        return f"Hits({len(self)} rays, {found})"

    @property
    def hit(self) -> Any:
        """(N,) bool, whether each ray hits."""
        return self.face >= 0

    @property
    @untraced
    def position(self) -> Any:
        """(N, 3) points hit, inf for a miss. `cast_rays.adjoint` takes their cotangent."""
        if self._position is not None:
            return self._position() if callable(self._position) else self._position
        position = interpolated(self._mesh, self._mesh.vertices_array, *self._arrays)
        position[self._arrays[0] < 0] = np.inf
        return self._library.wrap(position)

    @untraced
    def interpolate(self, attribute: Any) -> Any:
        """An attribute of the vertices at each hit.

        Args:
            attribute: (V, ...) numbers, of the vertices.

        Returns:
            (N, ...) of the mesh's precision (of the attribute's, where gradients are followed through it): the mean of
            the face's corners by barycentric weights; zero for a miss.

        Gradients:
            attribute, and through barycentric the rays and the mesh, where they are followed: `interpolate_attribute`.

        Raises:
            ValueError: another number of rows than the mesh has vertices.
            TypeError: no numbers, or hits that jax traces.

        Example:
            >>> import geomkit as gk
            >>> hits = gk.cast_rays(gk.shapes.box(), [[0.0, 0.0, 2.0]], [[0.0, 0.0, -1.0]])
            >>> hits.interpolate(gk.shapes.box().vertices[:, 2]).tolist()
            [0.5]
        """
        if self._arrays is None:
            expected = "values (use gk.interpolate_attribute)"
            raise TypeError(message("Hits.interpolate", "hits", expected, "arrays that jax traces"))
        mesh = self._mesh
        try:
            shape = (mesh.n_vertices, *np.shape(attribute)[1:])
        except ValueError:
            expected = f"({mesh.n_vertices}, ...) numbers"
            raise ValueError(message("Hits.interpolate", "attribute", expected, "rows of several lengths")) from None
        if not tracker_of(attribute):
            attribute = as_array(
                attribute, op="Hits.interpolate", name="attribute", shape=shape, dtype=mesh.dtype, device=mesh.device
            )
        return interpolate_attribute(attribute, mesh.faces_array, self.face, self.barycentric)


class RayGradients(NamedTuple):
    """Gradients of a ray query."""

    origins: Any  # (N, 3)
    directions: Any  # (N, 3)
    vertices: Any  # (V, 3) of mesh.vertices


@primitive(
    differentiable=("origins", "directions", "vertices"),
    outputs={"t": "real N", "barycentric": "real N 2", "normal": "real N 3", "position": "real N 3"},
    discrete={"face": "int32 N"},
    late=("position",),
)
def cast_rays(
    mesh: Mesh, origins: Any, directions: Any, *, t_min: Any = 0.0, t_max: Any = np.inf, cull: str = "none"
) -> Hits:
    """The closest hit of each ray on a triangle mesh: what range sensors, cameras and picking see.

    No ray passes between faces that share an edge or a corner. To know only whether something is in the way use
    `occluded`; for all hits `count_hits` and `all_hits`. From a point on the mesh, such as an earlier hit, start at
    t_min > 0 (1e-6 of the mesh's size), or rounding decides whether the same face is hit again.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        origins: (N, 3) numbers of any array library, in the mesh's length unit.
        directions: (N, 3), not zero, of any length.
        t_min, t_max: hits count for t_min <= t <= t_max: numbers, or (N,) of them. Point o + t d is at parameter t, so
            t is a length where d has length one. t_min may be negative, -inf for whole lines.
        cull: "none"; "back", not to hit faces whose corners run clockwise seen from the origin; or "front".

    Returns:
        A record in the library of `origins`, its floats in the mesh's precision: `.t` (N,), inf for a miss; `.face`
        (N,) int32, -1 for a miss; `.barycentric` (N, 2), the weights u and v of corners 1 and 2; `.normal` (N, 3), the
        unit normal of the face, not turned to the ray; `.position` (N, 3); `.hit` (N,) bool; `.interpolate(attribute)`.
        t, u and v are computed in float64 from the numbers given and rounded once; t is inf, too, where it does not fit
        the precision. Which of two faces is hit within a rounding (1e-7 of the mesh's size in float32) of their edge is
        up to that rounding. The answer to a ray does not depend on the other rays of the call; of hits at the same t
        the lowest face is the one. A face seen exactly edge-on is not hit: those beyond its edges are, if any.

    Gradients:
        origins, directions and mesh.vertices, through t, barycentric, normal and position, for the face hit. A miss
        sends 0. Below a sine of 1e-6 between ray and face the derivative is bounded as if there; where no digit of the
        sine is left it is 0. What changes where a silhouette moves is not part of it.

    Raises:
        ValueError: wrong shape, numbers that are not finite, a direction that is zero, or another device than the
            mesh's.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.

    Cost: O(log F) a ray after the tree is built once; neighbouring rays are faster when they follow one another.
    Source: Woop, Benthin and Wald (2013).

    Example:
        >>> import geomkit as gk
        >>> hits = gk.cast_rays(gk.shapes.box(), [[0.0, 0.1, 2.0]], [[0.0, 0.0, -1.0]])
        >>> hits.t.tolist(), hits.normal.tolist()
        ([1.5], [[0.0, 0.0, 1.0]])
    """
    q = RayQuery("cast_rays", mesh, origins, directions, t_min, t_max, cull)
    return Hits(q, *closest_hits(q))


@cast_rays.define_adjoint
def cast_rays_adjoint(
    mesh: Mesh,
    origins: Any,
    directions: Any,
    *,
    t_min: Any = 0.0,
    t_max: Any = np.inf,
    cull: str = "none",
    adj_t: Any = None,
    adj_barycentric: Any = None,
    adj_normal: Any = None,
    adj_position: Any = None,
    result: Hits | None = None,
) -> RayGradients:
    """Gradients of `cast_rays`: cotangents of what it returns to the rays and the mesh's vertices.

    Args:
        mesh, origins, directions, t_min, t_max, cull: as given to `cast_rays`.
        adj_t: (N,) cotangent of t; None is zero. What misses have is not read, here and below.
        adj_barycentric: (N, 2) cotangent of barycentric; None is zero.
        adj_normal: (N, 3) cotangent of normal; None is zero.
        adj_position: (N, 3) cotangent of position; None is zero.
        result: what `cast_rays` returned for the same inputs, to save finding it again.

    Returns:
        A record of `.origins` (N, 3), `.directions` (N, 3) and `.vertices` (V, 3), in the library of `origins`.

    Raises:
        ValueError, TypeError: as `cast_rays`; a cotangent of the wrong shape; no cotangent given.

    Cost: one more query unless `result` is given, then O(N + V). The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> rays = [[0.0, 0.1, 2.0]], [[0.0, 0.0, -1.0]]
        >>> gk.cast_rays.adjoint(gk.shapes.box(), *rays, adj_t=[1.0]).origins.tolist()
        [[0.0, 0.0, 1.0]]
    """
    op = "cast_rays.adjoint"
    if adj_t is None and adj_barycentric is None and adj_normal is None and adj_position is None:
        names = "adj_t, adj_barycentric, adj_normal, adj_position"
        raise ValueError(message(op, names, "at least one", "None"))
    q = RayQuery("cast_rays", mesh, origins, directions, t_min, t_max, cull)
    n = len(q)
    cotangents = (
        q.cotangent("adj_t", adj_t, (n,)),
        q.cotangent("adj_barycentric", adj_barycentric, (n, 2)),
        q.cotangent("adj_normal", adj_normal, (n, 3)),
        q.cotangent("adj_position", adj_position, (n, 3)),
    )
    if result is None:
        t, face, barycentric, _ = closest_hits(q)
    else:
        q.check_all()
        t, face, barycentric = known_hits(q, result)
    adj_origins, adj_directions, adj_corners = q.empty(3), q.empty(3), q.empty(3, 3)
    cast_rays_adj(
        n, q.mesh_struct(), q.mesh.bvh.scale, q.directions, t, face, barycentric, *cotangents, adj_origins,
        adj_directions, adj_corners,
    )  # fmt: skip
    adj_vertices = corners_to_vertices(q.mesh, face, adj_corners)
    return RayGradients(*map(q.library.wrap, (adj_origins, adj_directions, adj_vertices)))


def known_hits(q: RayQuery, result: Hits) -> tuple[Any, Any, Any]:
    """t, face and barycentric that a caller hands back, on the mesh's device."""
    op, n = f"{q.op}.adjoint", len(q)
    if not isinstance(result, Hits):
        raise TypeError(message(op, "result", "what cast_rays returned", type(result).__name__))
    fields = (("face", (n,), np.int32), ("t", (n,), q.dtype), ("barycentric", (n, 2), q.dtype))
    face, t, barycentric = (
        as_array(getattr(result, name), op=op, name=f"result.{name}", shape=shape, dtype=dtype, device=q.device)
        for name, shape, dtype in fields
    )
    if n and (int(face.min()) < -1 or int(face.max()) >= q.mesh.n_faces):
        raise ValueError(message(op, "result.face", f"numbers in [-1, {q.mesh.n_faces})", "others"))
    return t, face, barycentric


def closest_hits(q: RayQuery) -> tuple[Any, Any, Any, Any]:
    """t, face, barycentric and normal on arrays of the mesh's device."""
    if q.mesh.n_faces == 0:
        q.check_all()
        return q.full(np.inf), q.full(-1, dtype=np.int32), q.full(0, 2), q.full(0, 3)
    out = q.empty(), q.empty(dtype=np.int32), q.empty(2), q.empty(3)
    normals = namespace(q.device).asarray(q.mesh.face_normals)
    cast_rays_fwd(
        q.n_blocks, q.block, len(q), q.mesh.bvh.struct(), q.mesh_struct(), q.struct(), q.cull, normals, *out, q.invalid
    )
    q.check()
    return out
