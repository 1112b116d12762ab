"""What the rays of an image's pixels hit first, kept for the adjoint that mostly follows."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from geomkit.arrays import Library, to_host
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.render.camera import Camera
from geomkit.render.optics import SUM_BLOCK, CameraStruct, Optics, added
from geomkit.render.pixel_rays import PixelWindow, adj_pose
from geomkit.runtime import host
from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.cast_rays import Hits
from geomkit.spatial.rays import MeshStruct

__all__ = ["FirstHits", "View", "hit_rays"]

SOURCE = "render/first.cu"
_BLOCKS = "int block, int count"
find_hits = Kernel(
    SOURCE,
    "find_hits",
    f"{_BLOCKS}, Camera camera, Pixels pixels, int width, int mixed, int known, Bvh bvh, Mesh mesh, "
    "const real* face_normals, real* directions, uint* stream, int* index, real* t, int* face, real* barycentric, "
    "real* normal, int* hits, int* invalid",
    grain=1,
)
camera_hits_adj = Kernel(
    "render/camera.cu",
    "camera_hits_adj",
    "int block, int count, Camera camera, Pixels pixels, const int* at, const real* adj_origins, "
    "const real* adj_directions, double* sums",
    grain=4,
)
count_hits = Kernel(SOURCE, "count_hits", f"{_BLOCKS}, const int* face, int* hits", grain=16)
list_hits = Kernel(SOURCE, "list_hits", f"{_BLOCKS}, const int* face, const int* offset, int* at", grain=16)

BLOCK = 2048  # rays that the CPU takes through the tree together, as in cuda/spatial/ray_walk.h
LEAST = 128
MOST = 1 << 23  # samples of images whose hits are kept, at 16 bytes each


@dataclass
class FirstHits:
    """Rays of a window and what they hit.

    Attributes:
        directions: (N, 3).
        stream, index: (N,) uint32 and int32: the pixel in the whole image, mixed with the seed; the sample within it.
        hits: of the rays.
        at: (K,) int32, which of them hit something.
        shadows: what is known of the rays from there to lights, by what they depend on: (K,) int32.
    """

    directions: Any
    stream: Any
    index: Any
    hits: Hits
    at: Any
    shadows: dict[Any, Any] = field(default_factory=dict)


@dataclass
class _Kept:
    mesh: weakref.ref[Mesh]
    hits: tuple[Any, Any, Any]
    shadows: dict[Any, Any]


class View:
    """A camera that looks at a mesh.

    Args:
        mesh: the mesh.
        camera: its fields plain.
        seed: of the random numbers.
    """

    def __init__(self, mesh: Mesh, camera: Camera, seed: int):
        self.mesh, self.width = mesh, camera.width
        library = Library("cupy" if mesh.device == "cuda" else "numpy")
        fields = camera.world_to_camera, camera.K, camera.distortion
        self.optics = Optics("render", library, *fields, camera.model)
        self.camera = CameraStruct(self.optics, mesh.dtype)
        self.mixed = (seed * 0x9E3779B9 + 0x85EBCA6B) & 0xFFFFFFFF
        self._key = id(mesh), self.camera.fields, self.mixed, camera.width

    def first_hits(self, window: PixelWindow, *, again: bool) -> FirstHits:
        """Of the rays of a window. They are kept for an adjoint, which asks `again` and mostly follows its forward."""
        mesh, n, device, dtype = self.mesh, len(window), self.mesh.device, self.mesh.dtype
        key = (*self._key, window.left, window.top, window.columns, window.rows, window.samples)
        kept = _find(key, mesh) if again else None
        t, face, barycentric = kept.hits if kept else (
            empty(device, n, dtype), empty(device, n, np.int32), empty(device, (n, 2), dtype)
        )  # fmt: skip
        known = kept is not None or mesh.n_faces == 0
        if mesh.n_faces == 0:
            t[:], face[:], barycentric[:] = np.inf, -1, 0
        directions, normal = (empty(device, (n, 3), dtype) for _ in range(2))
        stream, index = empty(device, n, np.uint32), empty(device, n, np.int32)
        block = block_of(n, device)
        blocks = -(-n // block)
        hits, invalid = (empty(device, blocks, np.int32) for _ in range(2))
        pixels = _pixels(window, mesh)
        mixed = self.mixed - (self.mixed >> 31 << 32)
        normals = namespace(device).asarray(mesh.face_normals)
        find_hits(
            blocks, block, n, self.camera, pixels, self.width, mixed, int(known), mesh.bvh.struct(),
            MeshStruct(mesh), normals, directions, stream, index, t, face, barycentric, normal, hits, invalid,
        )  # fmt: skip
        if blocks and int(invalid.max()) >= 0:
            first = int(invalid[invalid >= 0].min())
            got = f"ray {first} is {directions[first].tolist()}, from afar or beyond what the lens shows"
            raise ValueError(message("render", "camera", "rays that are finite and start within reach", got))
        source: Any = SimpleNamespace(mesh=mesh, library=mesh.library)
        found = Hits(source, t, face, barycentric, normal)
        at = _listed(face, block, hits)
        if kept is None:
            kept = _Kept(weakref.ref(mesh), (t, face, barycentric), {})
            if not again:
                _keep(key, kept, n)
        return FirstHits(directions, stream, index, found, at, kept.shadows)

    def adjoint(self, window: PixelWindow, at: Any, adj_origins: Any, adj_directions: Any) -> dict[str, np.ndarray]:
        """Gradients of the camera's fields, for cotangents (K, 3) of the rays `at` (K,) of a window."""
        blocks, sums = self.optics.sums(len(at))
        camera_hits_adj(
            blocks, SUM_BLOCK, len(at), self.camera, _pixels(window, self.mesh), at, adj_origins, adj_directions, sums
        )
        total = added(sums)
        found = self.optics.gradients(adj_pose(self.optics, total[:12].reshape(3, 4)), total[12:], self.mesh.dtype)
        names = ("world_to_camera", "K", "distortion")
        return {name: to_host(x).astype(np.float64) for name, x in zip(names, found, strict=True) if x is not None}


def _pixels(window: PixelWindow, mesh: Mesh) -> Any:
    """The structure `Pixels` of the kernels."""
    fields = (0, window.left, window.top, window.columns, window.samples)
    return SimpleNamespace(dtype=mesh.dtype, device=mesh.device, fields=fields)


def hit_rays(face: Any, device: str) -> Any:
    """(K,) int32 numbers of the rays that hit something."""
    block = block_of(len(face), device)
    hits = empty(device, -(-len(face) // block), np.int32)
    count_hits(len(hits), block, len(face), face, hits)
    return _listed(face, block, hits)


def block_of(n: int, device: str) -> int:
    """Rays of an item of a kernel."""
    return min(max(-(-n // (4 * host.num_threads())), LEAST), BLOCK) if device == "cpu" else 1


def _listed(face: Any, block: int, hits: Any) -> Any:
    xp = np if isinstance(face, np.ndarray) else namespace("cuda")
    ends = xp.cumsum(hits, dtype=np.int32)
    at = xp.empty(int(ends[-1]) if len(ends) else 0, np.int32)
    list_hits(len(hits), block, len(face), face, ends - hits, at)
    return at


_kept: OrderedDict[tuple, tuple[_Kept, int]] = OrderedDict()
_lock = threading.Lock()


def _find(key: tuple, mesh: Mesh) -> _Kept | None:
    with _lock:
        kept = _kept.get(key)
        return kept[0] if kept is not None and kept[0].mesh() is mesh else None


def _keep(key: tuple, kept: _Kept, n: int) -> None:
    with _lock:
        _kept.pop(key, None)
        _kept[key] = kept, n
        for name in [name for name, (old, _) in _kept.items() if old.mesh() is None]:
            del _kept[name]
        total = sum(n for _, n in _kept.values())
        while total > MOST:
            total -= _kept.popitem(last=False)[1][1]
