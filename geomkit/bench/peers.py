"""The libraries that geomkit is measured against, each asked in the way that is fastest for it.

A peer's trees are built before the clock starts, where its interface allows that; where it builds anew in every call,
the time of a call with one point is taken off. Points and rays are already in the peer's own form.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.bench import reference
from geomkit.bench.peer import Peer, per_ray
from geomkit.bench.race import Task
from geomkit.bench.sample import Rays
from geomkit.mesh.mesh import Mesh

__all__ = ["PEERS", "present"]


class Open3D(Peer):
    """RaycastingScene, on Embree."""

    key, name, modules, packages = "open3d", "Open3D", ("open3d",), "open3d"

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        import open3d

        self.open3d = open3d
        self.tensor = open3d.core.Tensor.from_numpy
        self.unsigned_faces = self.faces.astype(np.uint32)
        self.scene = self._built()

    def _built(self) -> Any:
        scene = self.open3d.t.geometry.RaycastingScene()
        scene.add_triangles(self.tensor(self.vertices), self.tensor(self.unsigned_faces))
        # The tree is built at the first query.
        scene.cast_rays(self.tensor(np.ones((1, 6), np.float32)))
        return scene

    def distance(self, points: np.ndarray) -> Task:
        queries = self.tensor(points)
        return self.task(len(points), lambda: self.scene.compute_distance(queries), lambda r, n: r.numpy()[:n])

    def signed_distance(self, points: np.ndarray) -> Task:
        queries = self.tensor(points)
        return self.task(len(points), lambda: self.scene.compute_signed_distance(queries), lambda r, n: r.numpy()[:n])

    def build(self, points: np.ndarray) -> Task:
        return self.task(
            len(self.faces), self._built, lambda scene, n: scene.compute_distance(self.tensor(points[:n])).numpy()
        )

    @staticmethod
    def _as_rows(rays: Rays) -> np.ndarray:
        return np.concatenate([rays.origins, rays.directions], axis=1)

    def closest_hit(self, rays: Rays) -> Task:
        queries = self.tensor(self._as_rows(rays))
        return self.task(len(rays.origins), lambda: self.scene.cast_rays(queries), lambda r, n: r["t_hit"].numpy()[:n])

    def any_hit(self, rays: Rays) -> Task:
        queries = self.tensor(self._as_rows(rays))
        return self.task(len(rays.origins), lambda: self.scene.test_occlusions(queries), lambda r, n: r.numpy()[:n])

    def count_hits(self, rays: Rays) -> Task:
        queries = self.tensor(self._as_rows(rays))
        return self.task(len(rays.origins), lambda: self.scene.count_intersections(queries), lambda r, n: r.numpy()[:n])

    def all_hits(self, rays: Rays) -> Task:
        queries, n_rays = self.tensor(self._as_rows(rays)), len(rays.origins)
        return self.task(
            n_rays,
            lambda: self.scene.list_intersections(queries),
            lambda r, n: per_ray(r["ray_ids"].numpy(), r["t_hit"].numpy(), n_rays)[:n],
        )


class Fcpw(Peer):
    """The vectorised tree of FCPW."""

    key, name, modules, packages = "fcpw", "FCPW", ("fcpw",), "fcpw"

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        import fcpw

        self.fcpw = fcpw
        self.scene = self._built()

    def _built(self) -> Any:
        scene = self.fcpw.scene_3D()
        scene.set_object_count(1)
        scene.set_object_vertices(self.vertices, 0)
        scene.set_object_triangles(self.faces, 0)
        scene.build(self.fcpw.aggregate_type.bvh_surface_area, True)
        return scene

    def _query(self, points: np.ndarray) -> Callable[[Any], Any]:
        queries = np.asfortranarray(points)
        radius2 = np.full(len(points), np.inf, np.float32)
        found = self.fcpw.interaction_3D_list()

        def query(scene: Any) -> Any:
            scene.find_closest_points(queries, radius2, found)
            return found

        return query

    @staticmethod
    def _read(found: Any, n: int) -> np.ndarray:
        return np.array([found[i].d for i in range(n)])

    def distance(self, points: np.ndarray) -> Task:
        query = self._query(points)
        return self.task(len(points), lambda: query(self.scene), self._read)

    def build(self, points: np.ndarray) -> Task:
        return self.task(len(self.faces), self._built, lambda scene, n: self._read(self._query(points[:n])(scene), n))


class Libigl(Peer):
    """libigl, in float64 as its bindings have it. Its distance tree is kept, that of its winding numbers is not."""

    key, name, modules, packages = "libigl", "libigl", ("igl",), "libigl"

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        import igl

        self.igl = igl
        self.arrays = self.vertices.astype(np.float64), self.faces.astype(np.int64)
        self.tree = igl.AABB()
        self.tree.init(*self.arrays)

    def distance(self, points: np.ndarray) -> Task:
        queries = points.astype(np.float64)
        return self.task(
            len(points),
            lambda: self.tree.squared_distance(*self.arrays, queries),
            lambda r, n: np.sqrt(r[0][:n]),
        )

    def signed_distance(self, points: np.ndarray) -> Task:
        queries = points.astype(np.float64)
        # It scales the distance by 1 - 2 |winding number|, which the check notices.
        kind = self.igl.SIGNED_DISTANCE_TYPE_FAST_WINDING_NUMBER

        def run(q: np.ndarray) -> Any:
            return self.igl.signed_distance(q, *self.arrays, sign_type=kind)

        return self.task(len(points), lambda: run(queries), lambda r, n: r[0][:n], setup=lambda: run(queries[:1]))

    def winding_number(self, points: np.ndarray) -> Task:
        queries = points.astype(np.float64)

        def run(q: np.ndarray) -> Any:
            return self.igl.fast_winding_number(*self.arrays, q)

        return self.task(len(points), lambda: run(queries), lambda r, n: r[:n], setup=lambda: run(queries[:1]))


class PointCloudUtils(Peer):
    """point-cloud-utils. It builds its trees in each call."""

    key, name, modules, packages = "point-cloud-utils", "point-cloud-utils", ("point_cloud_utils",), "point-cloud-utils"

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        import point_cloud_utils

        self.library = point_cloud_utils

    def _rebuilding(self, points: np.ndarray, run: Callable[[np.ndarray], Any], first: bool) -> Task:
        read = (lambda r, n: r[0][:n]) if first else (lambda r, n: r[:n])
        return self.task(len(points), lambda: run(points), read, setup=lambda: run(points[:1]))

    def distance(self, points: np.ndarray) -> Task:
        return self._rebuilding(
            points, lambda p: self.library.closest_points_on_mesh(p, self.vertices, self.faces), first=True
        )

    def signed_distance(self, points: np.ndarray) -> Task:
        return self._rebuilding(
            points, lambda p: self.library.signed_distance_to_mesh(p, self.vertices, self.faces), first=True
        )

    def winding_number(self, points: np.ndarray) -> Task:
        return self._rebuilding(
            points,
            lambda p: np.atleast_1d(self.library.triangle_soup_fast_winding_number(self.vertices, self.faces, p)),
            first=False,
        )


class MeshLib(Peer):
    """MeshLib: projections, and signs by the pseudonormal."""

    key, name, modules, packages = "meshlib", "MeshLib", ("meshlib",), "meshlib"

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        from meshlib import mrmeshnumpy, mrmeshpy

        self.library, self.as_points = mrmeshpy, mrmeshnumpy.fromNumpyArray
        self.surface = mrmeshnumpy.meshFromFacesVerts(self.faces, self.vertices)
        self.surface.getAABBTree()

    def distance(self, points: np.ndarray) -> Task:
        queries, found = self.as_points(points), self.library.std_vector_MeshProjectionResult()
        projector = self.library.PointsToMeshProjector()
        projector.updateMeshData(self.surface)
        farthest2 = float(np.finfo(np.float32).max)

        def run() -> Any:
            projector.findProjections(found, queries, None, None, farthest2, 0.0)
            return found

        return self.task(len(points), run, lambda r, n: np.sqrt([r[i].distSq for i in range(n)]))

    def signed_distance(self, points: np.ndarray) -> Task:
        queries = self.library.VertCoords()
        queries.vec = self.as_points(points)
        return self.task(
            len(points),
            lambda: self.library.findSignedDistances(self.surface, queries),
            lambda r, n: np.array([r.vec[i] for i in range(n)]),
        )

    def winding_number(self, points: np.ndarray) -> Task:
        queries, found = self.as_points(points), self.library.std_vector_float()
        solver = self.library.FastWindingNumber(self.surface)
        rest = 2.0, self.library.FaceId(), self.library.func_bool_from_float()

        def run() -> Any:
            solver.calcFromVector(found, queries, *rest)
            return found

        return self.task(len(points), run, lambda r, n: np.array([r[i] for i in range(n)]))


class Trimesh(Peer):
    """trimesh, whose distances are NumPy over an R-tree: it gets a few of the points only."""

    key, name, modules, packages = "trimesh", "trimesh", ("trimesh", "rtree"), "trimesh rtree"
    MOST = 1000

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        import trimesh

        self.surface = trimesh.Trimesh(self.vertices, self.faces, process=False)
        self.proximity = trimesh.proximity

    def distance(self, points: np.ndarray) -> Task:
        few = points[: self.MOST]
        return self.task(len(few), lambda: self.proximity.closest_point(self.surface, few), lambda r, n: r[1][:n])

    def signed_distance(self, points: np.ndarray) -> Task:
        few = points[: self.MOST]
        return self.task(len(few), lambda: -self.proximity.signed_distance(self.surface, few), lambda r, n: r[:n])


class TrimeshEmbreex(Peer):
    """trimesh's rays, on Embree through embreex, on one thread. It gives faces, from which t is computed here."""

    key, name = "trimesh-embreex", "trimesh with embreex"
    modules, packages = ("trimesh", "embreex"), "trimesh embreex"

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        import trimesh
        from trimesh.ray.ray_pyembree import RayMeshIntersector

        surface = trimesh.Trimesh(self.vertices, self.faces, process=False)
        # (What it computes once for each mesh is computed here.)
        _ = surface.face_normals, surface.triangles
        self.intersector = RayMeshIntersector(surface)
        self.intersector.intersects_first(np.zeros((1, 3)), np.ones((1, 3)))

    def _t(self, face: np.ndarray, rays: Rays, ray: Any = slice(None)) -> np.ndarray:
        return reference.plane_t(self.vertices[self.faces[face]], rays.origins[ray], rays.directions[ray])

    def closest_hit(self, rays: Rays) -> Task:
        return self.task(
            len(rays.origins),
            lambda: self.intersector.intersects_first(*rays),
            lambda r, n: np.where(r < 0, np.inf, self._t(r, rays))[:n],
            threads=1,
        )

    def any_hit(self, rays: Rays) -> Task:
        return self.task(
            len(rays.origins), lambda: self.intersector.intersects_any(*rays), lambda r, n: r[:n], threads=1
        )

    def all_hits(self, rays: Rays) -> Task:
        def read(found: tuple[np.ndarray, np.ndarray], n: int) -> np.ndarray:
            face, ray = found
            return per_ray(ray, self._t(face, rays, ray), len(rays.origins))[:n]

        return self.task(len(rays.origins), lambda: self.intersector.intersects_id(*rays), read, threads=1)


class Embreex(Peer):
    """Embree through embreex, on one thread, with nothing of trimesh's around it."""

    key, name, modules, packages = "embreex", "embreex", ("embreex",), "embreex"
    FAR = 1e36  # the t of a miss is greater

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        from embreex.mesh_construction import TriangleMesh
        from embreex.rtcore_scene import EmbreeScene

        self.scene = EmbreeScene()
        TriangleMesh(scene=self.scene, vertices=self.vertices, indices=self.faces)
        # The tree is built at the first query.
        self.scene.run(np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32))

    def closest_hit(self, rays: Rays) -> Task:
        return self.task(
            len(rays.origins),
            lambda: self.scene.run(*rays, query="DISTANCE"),
            lambda r, n: np.where(r < self.FAR, r, np.inf)[:n],
            threads=1,
        )

    def any_hit(self, rays: Rays) -> Task:
        return self.task(
            len(rays.origins), lambda: self.scene.run(*rays, query="OCCLUDED"), lambda r, n: r[:n] == 0, threads=1
        )


class Warp(Peer):
    """NVIDIA Warp on the CPU, where it runs on one thread.

    The sign is by the pseudonormal on closed meshes, else by the winding number.
    """

    key, name, modules, packages = "warp", "Warp", ("warp",), "warp-lang"

    def __init__(self, mesh: Mesh):
        super().__init__(mesh)
        import warp

        warp.config.log_level = warp.LOG_WARNING
        warp.init()
        from geomkit.bench import warp_kernels

        self.warp, self.kernels = warp, warp_kernels
        self.arrays = self._array(self.vertices, warp.vec3), self._array(self.faces.ravel(), warp.int32)

    def _array(self, values: np.ndarray, dtype: Any) -> Any:
        return self.warp.array(values, dtype=dtype, device="cpu")

    def _query(self, kernel: Any, points: np.ndarray) -> Callable[[Any], Any]:
        queries = self._array(points, self.warp.vec3)
        distance = self.warp.empty(len(points), dtype=float, device="cpu")

        def query(surface: Any) -> Any:
            self.warp.launch(kernel, len(points), inputs=[surface.id, queries, distance], device="cpu")
            return distance.numpy()

        return query

    def _ask(self, kernel: Any, surface: Any, points: np.ndarray) -> Task:
        query = self._query(kernel, points)
        return self.task(len(points), lambda: query(surface), lambda r, n: r[:n], threads=1)

    def distance(self, points: np.ndarray) -> Task:
        return self._ask(self.kernels.unsigned, self.warp.Mesh(*self.arrays), points)

    def signed_distance(self, points: np.ndarray) -> Task:
        closed = self.mesh.is_closed
        surface = self.warp.Mesh(*self.arrays, support_winding_number=not closed)
        return self._ask(self.kernels.by_normal if closed else self.kernels.by_winding_number, surface, points)

    def build(self, points: np.ndarray) -> Task:
        return self.task(
            len(self.faces),
            lambda: self.warp.Mesh(*self.arrays),
            lambda surface, n: self._query(self.kernels.unsigned, points[:n])(surface),
            threads=1,
        )

    def _trace(self, kernel: Any, rays: Rays, dtype: Any) -> Task:
        origins, directions = (self._array(part, self.warp.vec3) for part in rays)
        surface, n_rays = self.warp.Mesh(*self.arrays), len(rays.origins)
        found = self.warp.empty(n_rays, dtype=dtype, device="cpu")

        def run() -> Any:
            self.warp.launch(kernel, n_rays, inputs=[surface.id, origins, directions, found], device="cpu")
            return found.numpy()

        return self.task(n_rays, run, lambda r, n: r[:n], threads=1)

    def closest_hit(self, rays: Rays) -> Task:
        return self._trace(self.kernels.closest_hit, rays, float)

    def any_hit(self, rays: Rays) -> Task:
        return self._trace(self.kernels.any_hit, rays, self.warp.int32)

    def count_hits(self, rays: Rays) -> Task:
        return self._trace(self.kernels.count_hits, rays, self.warp.int32)


PEERS: dict[str, type[Peer]] = {
    peer.key: peer for peer in (Open3D, Fcpw, Libigl, PointCloudUtils, MeshLib, Trimesh, TrimeshEmbreex, Embreex, Warp)
}


def present(peer: type[Peer]) -> bool:
    """Whether a peer's packages are installed."""
    return all(importlib.util.find_spec(module) for module in peer.modules)
