"""The ray interface of trimesh."""

import operator
import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from geomkit.arrays import as_array, to_host
from geomkit.autodiff.recording import paused
from geomkit.errors import message
from geomkit.implicit.signed_distance import contains
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.spatial.cast_rays import cast_rays
from geomkit.spatial.hits import all_hits, occluded

__all__ = ["RayMeshIntersector"]


class RayMeshIntersector:
    """Ray queries on a mesh, in place of trimesh's `ray_triangle` and `ray_pyembree` intersectors.

    For one mesh:

        mesh.ray = geomkit.compat.RayMeshIntersector(mesh)

    after which `mesh.contains`, `trimesh.proximity` and whatever else asks `mesh.ray` use geomkit. Copies of the mesh
    are given trimesh's own engine again; for every mesh made from now on:

        trimesh.ray.ray_triangle.RayMeshIntersector = geomkit.compat.RayMeshIntersector
        trimesh.ray.ray_pyembree.RayMeshIntersector = geomkit.compat.RayMeshIntersector  # where embreex is installed

    Methods, shapes and dtypes are trimesh's: NumPy arrays, int64 indices, float64 locations, (0, 3) when there are
    none. When the mesh changes the answers follow, as with trimesh: vertices and faces edited in place through
    `mesh.vertices` and `mesh.faces` are noticed, edits of a view of their memory are not. Of an object that is neither
    a trimesh.Trimesh nor a `Mesh`, vertices and faces are compared at every call. What is different:

    - Hits come by ray, and from near to far within a ray. trimesh's engines each have their own order.
    - `multiple_hits=True` finds every hit, also of surfaces close behind one another, and there is no cap unless
      `max_hits` is given.
    - It counts a hit on a shared edge or vertex exactly once, as if the ray were moved by an infinitesimal amount, so
      a line through a closed mesh has an even number of hits. A ray that only touches the mesh, at its rim or
      silhouette, may then have no hit, or two; the first hit and `intersects_any` do see it.
    - A ray that is not finite is a ValueError; `ray_pyembree` says that it misses.
    - Vertices of float64, as trimesh's are, are worked on in float64.
    - `contains_points` is `geomkit.contains`: on meshes with holes and overlaps it goes by the winding number, and
      warns where nothing is enclosed.

    Args:
        mesh: a trimesh.Trimesh, a `Mesh`, or any object with `.vertices` and `.faces`.
        scale_to_box: accepted because `ray_pyembree` does. Coordinates are recentred in any case.
        dtype: numpy.float32, which is about twice as fast, or numpy.float64. None takes that of the mesh's vertices.
        sign: how `contains_points` tells inside, as in `geomkit.contains`. "parity" is trimesh's rule.
    Raises:
        ValueError: another dtype.
    Example:
        >>> import trimesh
        >>> mesh = trimesh.creation.box()
        >>> mesh.ray = RayMeshIntersector(mesh)
        >>> mesh.ray.intersects_location([[0.1, 0.2, 5.0]], [[0.0, 0.0, -1.0]])[0].tolist()
        [[0.1, 0.2, 0.5], [0.1, 0.2, -0.5]]
    """

    def __init__(
        self, mesh: Any, scale_to_box: bool = True, *, dtype: DTypeLike | None = None, sign: str = "auto"
    ) -> None:
        self.mesh = mesh
        self.sign = sign
        self._dtype = None if dtype is None else np.dtype(dtype)
        if self._dtype not in (None, np.float32, np.float64):
            raise ValueError(message("RayMeshIntersector", "dtype", "float32 or float64", str(self._dtype)))
        # By what the mesh was known when last looked at, and the Mesh made of it.
        self._known: tuple[Any, Mesh] | None = None

    # ---- queries

    @paused()
    def intersects_id(
        self,
        ray_origins: ArrayLike,
        ray_directions: ArrayLike,
        *,
        return_locations: bool = False,
        multiple_hits: bool = True,
        max_hits: int | None = None,
    ) -> tuple[np.ndarray, ...]:
        """The faces that rays hit. (trimesh's two engines have the options in different orders, so they go by name.)

        Args:
            ray_origins: (N, 3) numbers.
            ray_directions: (N, 3) numbers, of any length. Where all three are 0 the ray hits nothing.
            return_locations: whether to return the positions of the hits too.
            multiple_hits: whether to return every hit of a ray, or the first only.
            max_hits: of each ray only so many hits, the nearest. None for all.
        Returns:
            index_tri (M,) int64 the faces, index_ray (M,) int64 the rays, ascending, and with `return_locations`
            locations (M, 3) float64.
        Raises:
            ValueError: wrong shape, a number that is not finite, `max_hits` below 1.
            TypeError: wrong dtype.
        """
        origins, directions, moves = _rays("intersects_id", ray_origins, ray_directions)
        if max_hits is not None and operator.index(max_hits) < 1:
            raise ValueError(message("intersects_id", "max_hits", "a number of at least 1, or None", str(max_hits)))
        if multiple_hits:
            hits = all_hits(self._current(), origins, directions)
            offsets, face, t = to_host(hits.offsets), to_host(hits.face), to_host(hits.t)
            index_ray = np.repeat(np.arange(len(origins)), np.diff(offsets))
            kept = moves[index_ray]
            if max_hits is not None:
                kept &= np.arange(len(face)) - offsets[index_ray] < max_hits
        else:
            hits = cast_rays(self._current(), origins, directions)
            face, t = to_host(hits.face), to_host(hits.t)
            index_ray = np.arange(len(origins))
            kept = moves & (face >= 0)
        index_tri, index_ray, t = face[kept].astype(np.int64), index_ray[kept], t[kept].astype(np.float64)
        if not return_locations:
            return index_tri, index_ray
        return index_tri, index_ray, origins[index_ray] + t[:, None] * directions[index_ray]

    def intersects_location(
        self,
        ray_origins: ArrayLike,
        ray_directions: ArrayLike,
        multiple_hits: bool = True,
        *,
        max_hits: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The positions where rays hit.

        Args:
            ray_origins, ray_directions, multiple_hits, max_hits: as for `intersects_id`.
        Returns:
            locations (M, 3) float64, index_ray (M,) int64 the rays, ascending, and index_tri (M,) int64 the faces.
        Raises:
            ValueError, TypeError: as `intersects_id`.
        """
        index_tri, index_ray, locations = self.intersects_id(
            ray_origins, ray_directions, return_locations=True, multiple_hits=multiple_hits, max_hits=max_hits
        )
        return locations, index_ray, index_tri

    @paused()
    def intersects_first(self, ray_origins: ArrayLike, ray_directions: ArrayLike) -> np.ndarray:
        """The first face that each ray hits.

        Args:
            ray_origins, ray_directions: as for `intersects_id`.
        Returns:
            (N,) int64, -1 for a ray that hits nothing.
        Raises:
            ValueError, TypeError: as `intersects_id`.
        """
        origins, directions, moves = _rays("intersects_first", ray_origins, ray_directions)
        face = to_host(cast_rays(self._current(), origins, directions).face)
        return np.where(moves, face, -1).astype(np.int64)

    @paused()
    def intersects_any(self, ray_origins: ArrayLike, ray_directions: ArrayLike) -> np.ndarray:
        """Whether each ray hits anything.

        Args:
            ray_origins, ray_directions: as for `intersects_id`.
        Returns:
            (N,) bool.
        Raises:
            ValueError, TypeError: as `intersects_id`.
        """
        origins, directions, moves = _rays("intersects_any", ray_origins, ray_directions)
        return to_host(occluded(self._current(), origins, directions)) & moves

    @paused()
    def contains_points(self, points: ArrayLike) -> np.ndarray:
        """Whether each point is inside the mesh. See `geomkit.contains`.

        Args:
            points: (N, 3) numbers.
        Returns:
            (N,) bool. Points on the surface may be either.
        Raises:
            ValueError, TypeError: as `geomkit.contains`.
        Warns:
            SignWarning: the mesh encloses nothing (all False), or is inside out.
        """
        points = as_array(points, op="contains_points", name="points", shape=("N", 3), dtype=np.float64)
        return to_host(contains(self._current(), points, sign=self.sign))

    # ---- the mesh

    def _current(self) -> Mesh:
        """The mesh as it is now: the Mesh of the last call, with its tree, unless something has changed."""
        source, known = self.mesh, self._known
        if isinstance(source, Mesh):
            mark = source
        elif _is_trimesh(source):
            # A hash of vertices and faces, which trimesh keeps until one of them is written to.
            mark = hash(source)
        else:
            mark = None
        if known is not None and mark is not None and mark == known[0]:
            return known[1]
        mesh = self._taken(source)
        if known is not None and _same(known[1], mesh):
            mesh = known[1]
        self._known = mark, mesh
        return mesh

    def _taken(self, source: Any) -> Mesh:
        """The Mesh of an object, in the precision asked for, whose results are NumPy's or CuPy's."""
        mesh = as_mesh(source)
        dtype = mesh.dtype if self._dtype is None else self._dtype
        if mesh.dtype == dtype and mesh.library.name in ("numpy", "cupy"):
            return mesh
        with np.errstate(over="ignore"):
            # What overflows becomes inf, and Mesh says so.
            return Mesh(mesh.vertices_array.astype(dtype), mesh.faces_array)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": None}


def _rays(op: str, ray_origins: ArrayLike, ray_directions: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Origins and directions (N, 3), and (N,) whether there is a direction: where not, some other stands for it."""
    origins = as_array(ray_origins, op=op, name="ray_origins", shape=("N", 3), dtype=np.float64)
    directions = as_array(ray_directions, op=op, name="ray_directions", shape=("N", 3), dtype=np.float64)
    if len(origins) != len(directions):
        raise ValueError(message(op, "ray_directions", f"as many as origins, {len(origins)}", str(len(directions))))
    moves = directions.any(axis=1)
    return origins, directions if moves.all() else np.where(moves[:, None], directions, 1.0), moves


def _is_trimesh(mesh: Any) -> bool:
    trimesh = sys.modules.get("trimesh")
    return trimesh is not None and isinstance(mesh, trimesh.Trimesh)


def _same(a: Mesh, b: Mesh) -> bool:
    """Whether two meshes are equal in every number, place and precision."""
    if a is b:
        return True
    pairs = ((a.vertices_array, b.vertices_array), (a.faces_array, b.faces_array))
    return a.device == b.device and all(
        x.dtype == y.dtype and x.shape == y.shape and bool((x == y).all()) for x, y in pairs
    )
