"""Analytic antialiasing of an image with one sample a pixel, by the outlines that pass between neighbouring pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.render.camera import Camera
from geomkit.render.edge_table import EdgeTable
from geomkit.render.film_edges import NEAR
from geomkit.render.project_points import project_points
from geomkit.render.silhouette import crossings, spread
from geomkit.render.tables import SceneTables, add
from geomkit.runtime.device import empty
from geomkit.runtime.kernel import Kernel

__all__ = ["Antialias"]

SOURCE = "render/antialias.cu"
AFTER = 1e-4  # share of the way by which an outline may be behind what is seen beside it
_SIZE = "int width, int height"
outlines_adj = Kernel(
    SOURCE,
    "outlines_adj",
    f"{_SIZE}, int channels, const int* pair, const int* ends, const real* alpha, const real* pixel, "
    "const real* image, const real* adj_out, real* adj_ends",
)
antialias_fwd = Kernel(
    SOURCE, "antialias_fwd", f"{_SIZE}, int channels, const real* alpha, const real* image, real* out"
)
antialias_adj = Kernel(
    SOURCE, "antialias_adj", f"{_SIZE}, int channels, const real* alpha, const real* adj_out, real* adj_image"
)


class Antialias:
    """Where outlines pass between the pixels of an image.

    Args:
        tables: the scene.
        camera: the camera, its fields plain.
        face: (H W,) int32 what each pixel's centre shows, or -1.
        t: (H W,) how far away it is.
    """

    def __init__(self, tables: SceneTables, camera: Camera, face: Any, t: Any):
        self.tables, self.camera = tables, camera
        mesh, xp = tables.mesh, tables.xp
        self.size = width, height = camera.width, camera.height
        self.arguments = camera.world_to_camera, camera.K, camera.distortion
        parallel = camera.model == "orthographic"
        eye = -np.asarray(camera.world_to_camera)[2, :3] if parallel else camera.eye
        table = EdgeTable.of(mesh)
        ends = table.ends[table.silhouettes(mesh, eye[None], parallel=parallel)[0]]
        used, ends = xp.unique(ends, return_inverse=True)
        ends = ends.reshape(-1, 2).astype(np.int32)
        self.points = xp.ascontiguousarray(mesh.vertices_array[used])
        self.used = used
        seen = project_points.forward(self.points, *self.arguments, model=camera.model)
        self.pixel = xp.ascontiguousarray(seen.pixel)
        place, depth = self.pixel.astype(np.float64), seen.depth.astype(np.float64)
        before = depth > (-np.inf if parallel else NEAR * mesh.diagonal)
        good = xp.isfinite(place).all(axis=1) & before
        ends = ends[good[ends].all(axis=1)]
        pairs, edges, shares, depths = [], [], [], []
        for down in (0, 1):
            along, across = down, 1 - down
            a, b = (place[ends[:, k]] for k in range(2))
            step = b - a
            # An edge counts between the pixels that it separates more than it follows their row.
            steep = xp.flatnonzero(abs(step[:, across]) >= abs(step[:, along]))
            a, b = (x[steep, across] - 0.5 for x in (a, b))
            most = (height, width)[down] - 0.5
            edge, s = crossings(xp, xp.clip(a, -0.5, most), xp.clip(b, -0.5, most))
            low, high = xp.clip(a, -0.5, most)[edge], xp.clip(b, -0.5, most)[edge]
            line = xp.rint(low + s * (high - low)).astype(np.int64)
            edge = steep[edge]
            begin, end = place[ends[edge, 0]], place[ends[edge, 1]]
            s = (line + 0.5 - begin[:, across]) / (end[:, across] - begin[:, across])
            u = begin[:, along] + s * (end[:, along] - begin[:, along]) - 0.5
            first = xp.floor(u)
            inside = (first >= 0) & (first < (width, height)[down] - 1) & (line >= 0) & (line < (height, width)[down])
            at = xp.flatnonzero(inside)
            x, y = (line, first) if down else (first, line)
            near, far = depth[ends[edge[at], 0]], depth[ends[edge[at], 1]]
            s = s[at]
            pairs.append(2 * (y[at] * width + x[at]).astype(np.int64) + down)
            edges.append(edge[at])
            shares.append(0.5 - (u - first)[at])
            depths.append(near + s * (far - near) if parallel else 1 / (1 / near + s * (1 / far - 1 / near)))
        pair, edge, share, depth = (xp.concatenate(x) for x in (pairs, edges, shares, depths))
        other = pair // 2 + xp.where(pair % 2 == 1, width, 1)
        apart = (face[pair // 2] != face[other]) & (depth <= (1 + AFTER) * xp.maximum(t[pair // 2], t[other]))
        pair, edge, share, depth = (x[apart] for x in (pair, edge, share, depth))
        # Of several edges between two pixels the nearest is the outline.
        order = xp.lexsort(xp.stack([edge.astype(np.float64), depth, pair.astype(np.float64)]))
        pair, edge, share = pair[order], edge[order], share[order]
        first = xp.ones(len(pair), bool)
        first[1:] = pair[1:] != pair[:-1]
        self.pair, self.ends = pair[first].astype(np.int32), xp.ascontiguousarray(ends[edge[first]])
        self.alpha = xp.zeros(2 * len(face), tables.dtype)
        self.alpha[self.pair] = share[first]

    def image(self, aliased: Any) -> Any:
        """(H, W, C) from one with a sample a pixel."""
        out = empty(self.tables.device, aliased.shape, aliased.dtype)
        h, w, channels = aliased.shape
        antialias_fwd(h * w, *self.size, channels, self.alpha, aliased, out)
        return out

    def adjoint(self, aliased: Any, adj: Any, out: dict[str, Any]) -> Any:
        """The cotangent of the aliased image; those of vertices and camera add up in `out`."""
        tables, mesh, xp = self.tables, self.tables.mesh, self.tables.xp
        h, w, channels = aliased.shape
        adj_image = empty(tables.device, aliased.shape, aliased.dtype)
        antialias_adj(h * w, *self.size, channels, self.alpha, adj, adj_image)
        adj_ends = empty(tables.device, (len(self.pair), 2, 2), tables.dtype)
        outlines_adj(
            len(self.pair), *self.size, channels, self.pair, self.ends, self.alpha, self.pixel, aliased, adj, adj_ends
        )
        ends = self.ends.reshape(-1, 1)
        points = xp.ascontiguousarray(self.points[ends[:, 0]])
        g = project_points.adjoint(
            points, *self.arguments, model=self.camera.model, adj_pixel=xp.ascontiguousarray(adj_ends.reshape(-1, 2))
        )
        add(out, "vertices", spread(xp, mesh.n_vertices, self.used[ends], g.points.astype(np.float64)))
        for name in ("world_to_camera", "K", "distortion"):
            if getattr(g, name) is not None:
                add(out, f"camera.{name}", to_host(getattr(g, name)).astype(np.float64))
        return adj_image
