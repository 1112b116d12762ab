"""The bounding volume hierarchy that every query shares."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.mesh.box import point_bounds
from geomkit.runtime import host
from geomkit.runtime.device import address, empty, namespace, sort_order
from geomkit.runtime.kernel import Kernel

pack_triangles = Kernel(
    "spatial/bvh.cu",
    "pack_triangles",
    "const real* vertices, const int* faces, const int* leaf_faces, double cx, double cy, double cz, double scale, "
    "Packet* packets",
)
to_tree = Kernel(
    "spatial/bvh.cu", "to_tree", "const real* vertices, double cx, double cy, double cz, double scale, real* points"
)
repack_triangles = Kernel(
    "spatial/bvh.cu",
    "repack_triangles",
    "const real* points, const int* corners, const int* leaf_faces, Packet* packets",
    grain=128,
)
fit_boxes = Kernel("spatial/bvh.cu", "fit_boxes", "int first, const Packet* packets, Node* nodes", grain=64)
sah_cost = Kernel("spatial/bvh.cu", "sah_cost", "const Node* nodes, double* cost")
build_frames = Kernel("spatial/bvh.cu", "build_frames", "const Packet* packets, Frame* frames", grain=128)
fit_moments = Kernel(
    "spatial/moments.cu",
    "fit_moments",
    "int first, const Node* nodes, const Packet* packets, Moments* moments",
    grain=64,
)
face_codes = Kernel(
    "spatial/morton.cu",
    "face_codes",
    "const real* vertices, const int* faces, double lx, double ly, double lz, double sx, double sy, double sz, "
    "int bits, uint64* codes",
)
split_ranges = Kernel(
    "spatial/morton.cu",
    "split_ranges",
    "const uint64* codes, const int* ranges, int* children, int* inner, int* leaves",
    grain=128,
)
link_nodes = Kernel(
    "spatial/morton.cu",
    "link_nodes",
    "int first_node, int first_packet, const int* order, const int* children, const int* inner_end, "
    "const int* leaf_end, Node* nodes, int* next_ranges, int* leaf_faces",
    grain=128,
)

WIDTH = 8
MAX_DEPTH = 96
REBUILD = 1.5  # a refit tree that costs this much more than when it was built is built anew


def _structure(real: np.dtype, lanes: dict[str, tuple[int, ...]], integers: str) -> np.dtype:
    """Layout of a C++ structure of rows of eight, with the integers last, padded to 64 bytes."""
    fields = [(name, real, (*shape, WIDTH)) for name, shape in lanes.items()]
    fields += [(integers, np.int32, (WIDTH,))] if integers else []
    padding = -np.dtype(fields).itemsize % 64
    return np.dtype([*fields, ("padding", np.uint8, (padding,))] if padding else fields)


_LANES = {
    "Node": ({"bounds": (3, 2)}, "child"),
    "Packet": ({"corner": (3, 3)}, "face"),
    "Frame": (
        dict.fromkeys(("origin", "x", "y", "normal"), (3,))
        | dict.fromkeys(("edge", "apex_x", "apex_y", "inverse_1", "inverse_2"), ()),
        "",
    ),
    "Moments": (
        {"centroid": (3,), "radius2": (), "area": (), "area_normal": (3,), "second": (6,), "third": (10,)},
        "",
    ),
}
STRUCTURES = {
    (name, real): _structure(real, lanes, integers) for name, (lanes, integers) in _LANES.items() for real in host.REAL
}


class Bvh:
    """A tree of eight-wide nodes over the triangles of a mesh.

    Args:
        vertices: (V, 3) float32 or float64 array, NumPy's or CuPy's.
        faces: (F, 3) int32 array on the same device. F may be 0.
        center: (3,) float64. Subtracted from all coordinates in the tree.
        size: of the mesh; None is the diagonal of the vertices' box. Lengths in the tree are in units of the next power
            of two.
        method: "sah" (binned surface area heuristic, on the CPU: the better tree) or "morton" (along a space-filling
            curve, on either device: the faster build).

    Attributes:
        method, dtype, device, center: as given.
        n_nodes, n_packets, levels: size of the tree.
        cost: surface area heuristic: expected number of nodes and packets that a random line through the box visits.
    """

    def __init__(
        self, vertices: Any, faces: Any, center: np.ndarray, *, size: float | None = None, method: str = "sah"
    ):
        if method not in ("sah", "morton"):
            raise ValueError(f"Bvh: method: expected 'sah' or 'morton', got {method!r}")
        self.method, self.dtype = method, vertices.dtype
        self.center, self.scale = np.asarray(center, np.float64), _scale(vertices, size)
        self.device = "cpu" if isinstance(vertices, np.ndarray) else "cuda"
        self._faces = faces
        if len(faces) == 0:
            self.nodes, self._leaf_faces = self._empty("Node", 0), empty(self.device, (0, WIDTH), np.int32)
            self._level_start = [0]
            boxes_known = True
        else:
            boxes_known = method == "sah"
            self._build_sah(vertices, faces) if boxes_known else self._build_morton(vertices, faces)
        self._fit(vertices, boxes_known)

    @property
    def n_nodes(self) -> int:
        return self._level_start[-1]

    @property
    def n_packets(self) -> int:
        return len(self._leaf_faces)

    @property
    def levels(self) -> int:
        return len(self._level_start) - 1

    def _empty(self, name: str, n: int) -> Any:
        """Uninitialised structures: a structured array on the CPU, bytes on CUDA."""
        layout = STRUCTURES[name, self.dtype]
        if self.device == "cpu":
            return host.aligned_empty(n, layout)
        return empty("cuda", (n, layout.itemsize), np.uint8)

    def _build_sah(self, vertices: Any, faces: Any) -> None:
        on_host = [a if self.device == "cpu" else a.get() for a in (vertices, faces)]
        n = len(faces)
        nodes = host.aligned_empty(n, STRUCTURES["Node", self.dtype])
        leaf_faces = np.empty((n, WIDTH), np.int32)
        level_start, counts = np.zeros(MAX_DEPTH + 2, np.int32), np.zeros(3, np.int32)
        host.sah_build(n, *on_host, np.append(self.center, self.scale), nodes, leaf_faces, level_start, counts)
        levels, n_nodes, n_packets = counts.tolist()
        self._level_start = level_start[: levels + 1].tolist()
        self.nodes, self._leaf_faces = nodes[:n_nodes], leaf_faces[:n_packets]
        if self.device == "cuda":
            xp = namespace("cuda")
            raw = self.nodes.view(np.uint8).reshape(n_nodes, -1)
            self.nodes, self._leaf_faces = xp.asarray(raw), xp.asarray(self._leaf_faces)

    def _build_morton(self, vertices: Any, faces: Any) -> None:
        xp, n = namespace(self.device), len(faces)
        bits = 10 if n <= 1 << 20 else 21
        codes = empty(self.device, n, np.uint64)
        lower, cells = code_grid(vertices, bits)
        face_codes(n, vertices, faces, *lower, *cells, bits, codes)
        order = sort_order(codes, 3 * bits)
        codes = codes[order]
        nodes, leaf_faces = self._empty("Node", n), empty(self.device, (n, WIDTH), np.int32)
        ranges = xp.asarray([[0, n]], dtype=np.int32)
        self._level_start, first_packet = [0], 0
        while len(ranges):
            m, first = len(ranges), self._level_start[-1]
            children = empty(self.device, (m, WIDTH, 2), np.int32)
            counts = empty(self.device, (2, m), np.int32)
            split_ranges(m, codes, ranges, children, counts[0], counts[1])
            ends = xp.cumsum(counts, axis=1, dtype=np.int32)
            n_inner, n_leaves = ends[:, -1].tolist()
            ranges = empty(self.device, (n_inner, 2), np.int32)
            link_nodes(
                m, first, first_packet, order, children, ends[0], ends[1], nodes, ranges, leaf_faces, dtype=self.dtype
            )
            self._level_start.append(first + m)
            first_packet += n_leaves
        self.nodes, self._leaf_faces = nodes[: self.n_nodes], leaf_faces[:first_packet]

    def _fit(self, vertices: Any, boxes_known: bool) -> None:
        """Fill packets and, unless known, boxes from the vertices."""
        self.packets = self._empty("Packet", self.n_packets)
        pack_triangles(self.n_packets, vertices, self._faces, self._leaf_faces, *self.center, self.scale, self.packets)
        if not boxes_known:
            self._fit_boxes()

    def _fit_boxes(self) -> None:
        for first, end in self._levels_upward():
            fit_boxes(end - first, first, self.packets, self.nodes, dtype=self.dtype)

    def _leaf_corners(self) -> Any:
        """(n_packets, 8, 3) int32 vertices of the triangles of each packet, or those of a point where it has none."""
        if "_corners" not in self.__dict__:
            used = self._leaf_faces >= 0
            xp = namespace(self.device)
            corners = self._faces[xp.where(used, self._leaf_faces, self._leaf_faces[:, :1])]
            self._corners = xp.where(used[:, :, None], corners, corners[:, :, :1])
        return self._corners

    def _levels_upward(self) -> list[tuple[int, int]]:
        starts = self._level_start
        return list(zip(starts[-2::-1], starts[:0:-1], strict=True))

    @property
    def cost(self) -> float:
        if self.n_nodes == 0:
            return 0.0
        part = empty(self.device, self.n_nodes, np.float64)
        sah_cost(self.n_nodes, self.nodes, part, dtype=self.dtype)
        x, y, z = (np.subtract(*self.bounds[::-1]) / self.scale).tolist()
        area = 2 * (x * y + y * z + z * x)
        return 1.0 + float(part.sum()) / area if area > 0 else 1.0

    @property
    def bounds(self) -> np.ndarray:
        """(2, 3) float64 box of all triangles, in the world; `geomkit.bounds` is its differentiable form."""
        if self.n_nodes == 0:
            return np.array([[np.inf] * 3, [-np.inf] * 3])
        root = to_host(self.nodes[:1]).view(STRUCTURES["Node", self.dtype])
        bounds = root["bounds"].reshape(3, 2, WIDTH).astype(np.float64)
        return self.center + self.scale * np.stack([bounds[:, 0].min(1), bounds[:, 1].max(1)])

    def refitted(self, vertices: Any, center: np.ndarray, *, size: float | None = None) -> Bvh:
        """The tree after the triangles have moved: of the same shape, or a new one if that would be too slow.

        Args:
            vertices: (V, 3) array of the same dtype and device as the tree's.
            center, size: the new ones.

        Returns:
            A tree of the same shape with new boxes, or, when that would cost more than 1.5 times what this tree cost
            when it was built, a newly built one. This tree stays as it is.
        """
        if "_built_cost" not in self.__dict__:
            self._built_cost = self.cost  # of the tree that was built, carried along
        corners = self._leaf_corners()
        moved = object.__new__(Bvh)
        moved.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("frames", "moments")})
        moved.center, moved.scale = np.asarray(center, np.float64), _scale(vertices, size)
        moved.nodes = self._empty("Node", self.n_nodes)
        moved.nodes[...] = self.nodes
        points = empty(self.device, vertices.shape, self.dtype)
        to_tree(len(vertices), vertices, *moved.center, moved.scale, points)
        moved.packets = self._empty("Packet", self.n_packets)
        repack_triangles(self.n_packets, points, corners, self._leaf_faces, moved.packets)
        moved._fit_boxes()
        if moved.cost <= REBUILD * moved._built_cost:
            return moved
        return Bvh(vertices, self._faces, center, size=size, method=self.method)

    @cached_property
    def frames(self) -> Any:
        """Triangle frames of each packet, for closest points."""
        frames = self._empty("Frame", self.n_packets)
        build_frames(self.n_packets, self.packets, frames, dtype=self.dtype)
        return frames

    @cached_property
    def moments(self) -> Any:
        """Moments of each node's children, for winding numbers."""
        moments = self._empty("Moments", self.n_nodes)
        for first, end in self._levels_upward():
            fit_moments(end - first, first, self.nodes, self.packets, moments, dtype=self.dtype)
        return moments

    def struct(self, *parts: str) -> BvhStruct:
        """What a kernel takes by value.

        Args:
            parts: "frames" and "moments", as far as the kernel reads them; they are made when first asked for.
        """
        return BvhStruct(self, parts)


class BvhStruct:
    """The structure `Bvh` of the kernels, for one launch."""

    def __init__(self, bvh: Bvh, parts: tuple[str, ...]):
        self.dtype, self.device, self.levels = bvh.dtype, bvh.device, bvh.levels
        arrays = (bvh.nodes, bvh.packets, *(getattr(bvh, p) if p in parts else None for p in ("frames", "moments")))
        self._keep_alive = arrays
        self.fields = (*(address(a) for a in arrays), *bvh.center.tolist(), bvh.scale)


def _scale(vertices: Any, size: float | None) -> float:
    """The power of two above the size."""
    if size is None:
        size = math.dist(*point_bounds(vertices).tolist()) if len(vertices) else 0.0
    return math.ldexp(1.0, math.frexp(size)[1]) if size > 0 else 1.0


def code_grid(points: Any, bits: int) -> tuple[list[float], list[float]]:
    """Lower corner and cells per length on each axis of the Morton grid around points, as floats."""
    lower, upper = point_bounds(points).tolist()
    cells = [(1 << bits) / (u - low) if u > low else 0.0 for low, u in zip(lower, upper, strict=True)]
    return lower, cells
