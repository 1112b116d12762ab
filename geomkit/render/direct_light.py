"""One sample of a light at each of many hits, on arrays of one device: forward and adjoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from geomkit.errors import message
from geomkit.runtime import host
from geomkit.runtime.device import address, empty, zeros
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.rays import MeshStruct

__all__ = [
    "MATERIAL",
    "Arriving",
    "LightRays",
    "LightStruct",
    "Met",
    "Surfaces",
    "bounce",
    "bounce_adj",
    "found_light",
    "light_rays",
    "light_rays_adj",
    "unshadowed",
]

SOURCE = "render/light.cu"
_HITS = (
    "const real* materials, const real* positions, const real* normals, const real* face_normals, "
    "const real* directions, const uint* stream, const int* index, int dimension"
)
_MET = "int followed, const int* met, const real* met_at"
_BOUNCE = _HITS.replace("const real* positions, ", "")
light_fwd = Kernel(
    SOURCE,
    "light_fwd",
    f"int kind, Light light, const real* vertices, const int* faces, {_HITS}, {_MET}, double lift, double until, "
    "real* origins, real* to_light, real* t_max, real* color",
)
light_hits = Kernel(
    SOURCE,
    "light_hits",
    f"int block, int count, Bvh bvh, Mesh mesh, int kind, Light light, {_HITS}, double lift, double until, "
    "const int* face, const int* ray_of, const real* throughput, real* color, int* dark, real* value, int* invalid",
    grain=1,
)
add_unshadowed = Kernel(
    SOURCE,
    "add_unshadowed",
    "const int* rays, const real* t_max, int* dark, const real* throughput, real* color, real* value",
)
light_adj = Kernel(
    SOURCE,
    "light_adj",
    f"int block, int count, int kind, Light light, const real* vertices, const int* faces, {_HITS}, "
    f"{_MET}, const int* rays, const real* adj_value, const real* throughput, const int* dark, int fresh, "
    "real* adj_throughput, "
    "real* adj_materials, real* adj_positions, real* adj_normals, real* adj_directions, double* sums, "
    "int* light_face, real* adj_light",
    grain=1,
)
bounce_fwd = Kernel(SOURCE, "bounce_fwd", f"{_BOUNCE}, real* next, real* factor")
bounce_adj_kernel = Kernel(
    SOURCE,
    "bounce_adj",
    f"{_BOUNCE}, const real* adj_factor, real* adj_materials, real* adj_normals, real* adj_directions",
)
emitter_kernel = Kernel(
    "render/emitter.cu",
    "emitter_points",
    "Light light, const uint* stream, const int* index, int dimension, int* face, real* barycentric",
)

MATERIAL = 7  # numbers of a material at a hit, as in cuda/render/bsdf.h
CONSTANT, POINT, DIRECTIONAL, SPOT, AREA, PATCH, ENVIRONMENT = range(7)
LEAST, SORTED = 256, 8192  # hits whose rays to a light an item sorts, as in the kernel
BLOCK = 512  # hits whose gradients of a light one item sums


@dataclass
class Surfaces:
    """What hits are made of: M rows each.

    Attributes:
        material: (M, 7) albedo, metallic, roughness, whether it is metallic-roughness, whether two-sided.
        position, normal, face_normal: (M, 3).
        direction: (M, 3) of the rays that hit.
        stream: (M,) uint32, of the random numbers; one for each pixel.
        index: (M,) int32, of the sample within the pixel.
        ray: (M,) int32, which of the rays.
        face: (M,) int32, barycentric: (M, 2), where they are.
        at: (M,) int32, which of the rays of this bounce.
    """

    material: Any
    position: Any
    normal: Any
    face_normal: Any
    direction: Any
    stream: Any
    index: Any
    ray: Any
    face: Any
    barycentric: Any
    at: Any

    def __len__(self) -> int:
        return len(self.index)

    def part(self, at: Any) -> Surfaces:
        """Some of the rows."""
        return Surfaces(*(getattr(self, field.name)[at] for field in fields(self)))


class LightStruct:
    """The structure `Light` of the kernels.

    Args:
        kind: which light.
        dtype, device: of the hits.
        position, axis, power: (3,) float64.
        faces: (E,) int32, of an area light; distribution: (E,) float64, the running sum of their shares, that of the
            areas; area: all of it.
        followed: of an area light, whether the rays of surfaces find it as well (`met_light`), and samples share.
        size: of an environment's image, columns and rows; distribution is then as in Surroundings.
    """

    def __init__(
        self,
        kind: int,
        dtype: Any,
        device: str,
        *,
        power: Any,
        position: Any = (0.0, 0.0, 0.0),
        axis: Any = (0.0, 0.0, 0.0),
        inner: float = 0.0,
        outer: float = 0.0,
        faces: Any = None,
        distribution: Any = None,
        area: float = 0.0,
        followed: bool = False,
        two_sided: bool = False,
        size: tuple[int, int] | None = None,
    ):
        self.kind, self.dtype, self.device = kind, dtype, device
        self.table = faces, distribution
        count, sides = (0 if faces is None else len(faces), 2 if two_sided else 1) if size is None else size
        self.followed = followed
        position = (1.0, 0.0, 0.0) if followed else position
        self.fields = (
            address(faces), address(distribution), *map(float, position), *map(float, axis), *map(float, power),
            area if kind == AREA else math.cos(math.radians(inner)), math.cos(math.radians(outer)),
            float(count), float(sides),
        )  # fmt: skip

    @property
    def position_at_infinity(self) -> bool:
        """Whether rays to it have no end."""
        return self.kind in (CONSTANT, DIRECTIONAL, ENVIRONMENT)


def emitter_points(light: LightStruct, s: Surfaces, dimension: int) -> tuple[Any, Any]:
    """The faces (M,) and barycentrics (M, 2) of the points of an area light that `light_sample` draws."""
    face, barycentric = empty(light.device, len(s), np.int32), empty(light.device, (len(s), 2), light.dtype)
    emitter_kernel(len(s), light, s.stream, s.index, dimension, face, barycentric)
    return face, barycentric


class Met(NamedTuple):
    """What the rays that M surfaces draw meet: where they may find an area light."""

    face: Any  # (M,) int32, or -1
    barycentric: Any  # (M, 2)

    @classmethod
    def none(cls, device: str, dtype: Any) -> Met:
        """Of lights that are drawn."""
        return cls(empty(device, 0, np.int32), empty(device, (0, 2), dtype))


class Arriving(NamedTuple):
    """What M hits see of a light."""

    color: Any  # (M, 3)
    dark: Any  # (M,) int32, whether nothing can be seen, whatever the light's and the surface's colours


class LightRays(NamedTuple):
    """A ray to a sample of a light for each of M hits, and what is seen if nothing is in its way."""

    origins: Any  # (M, 3) a little off the surface
    directions: Any  # (M, 3) to the sample, of length one if that has no place
    t_max: Any  # (M,) where the rays end; negative where nothing is seen
    color: Any  # (M, 3)


def light_rays(
    mesh: Any, light: LightStruct, s: Surfaces, dimension: int, *, lift: float = 0.0, short: float = 0.0,
    met: Met | None = None,
) -> LightRays:  # fmt: skip
    """Sample a light at hits.

    Args:
        mesh: all objects.
        light: the light.
        s: M hits.
        dimension: of the random numbers.
        lift: how far above the surface the rays start.
        short: how far before the light they end, as a share of the way.
        met: the points of an area light that the surface's own rays found, in place of drawn ones.
    """
    m, until = len(s), np.inf if light.position_at_infinity else 1 - short
    origins, to_light, color = (empty(mesh.device, (m, 3), mesh.dtype) for _ in range(3))
    t_max = empty(mesh.device, m, mesh.dtype)
    found = Met.none(mesh.device, mesh.dtype) if met is None else met
    light_fwd(
        m, light.kind, light, mesh.vertices_array, mesh.faces_array, s.material, s.position, s.normal, s.face_normal,
        s.direction, s.stream, s.index, dimension, int(met is not None), *found, lift, until, origins, to_light, t_max,
        color,
    )  # fmt: skip
    return LightRays(origins, to_light, t_max, color)


def unshadowed(
    mesh: Any, light: LightStruct, s: Surfaces, dimension: int, throughput: Any, value: Any, *, lift: float,
    short: float,
) -> Arriving:  # fmt: skip
    """What is seen of a light, shadows included; times the throughput it adds to the values of the rays.

    Arguments are as of `light_rays`. Rays that go the same way are sorted to go through the tree together.
    """
    m, until = len(s), np.inf if light.position_at_infinity else 1 - short
    color, dark = empty(mesh.device, (m, 3), mesh.dtype), empty(mesh.device, m, np.int32)
    block = min(max(-(-m // (8 * host.num_threads())), LEAST), SORTED) if mesh.device == "cpu" else 1
    blocks = -(-m // block)
    invalid = empty(mesh.device, blocks, np.int32)
    light_hits(
        blocks, block, m, mesh.bvh.struct(), MeshStruct(mesh), light.kind, light, s.material, s.position, s.normal,
        s.face_normal, s.direction, s.stream, s.index, dimension, lift, until, s.face, s.ray, throughput, color, dark,
        value, invalid,
    )  # fmt: skip
    if blocks and int(invalid.max()):
        raise ValueError(message("render", "scene", "finite places and directions of light", "others"))
    return Arriving(color, dark)


def found_light(rays: LightRays, s: Surfaces, throughput: Any, value: Any, device: str) -> Arriving:
    """As `unshadowed`, of points that the surface's rays have met: nothing is in the way."""
    dark = zeros(device, len(s), np.int32)
    add_unshadowed(len(s), s.ray, rays.t_max, dark, throughput, rays.color, value)
    return Arriving(rays.color, dark)


def light_rays_adj(
    mesh: Any, light: LightStruct, s: Surfaces, dimension: int, *, adj_value: Any, throughput: Any, dark: Any,
    fresh: bool, adj_throughput: Any, adj: Surfaces, met: Met | None = None,
) -> tuple[np.ndarray, Any, Any]:  # fmt: skip
    """Gradients for the cotangent (N, 3) of the rays' values: those of throughput and of hits add up in their arrays,
    from zero if these are `fresh`.

    Returns:
        (9,) of the light's position, axis and power; for area lights the emitting face (M,) of each hit, or -1, and the
        gradients of its corners (M, 3, 3).
    """
    m = len(s)
    n = -(-m // BLOCK)
    area = m if light.kind == AREA else 0
    sums = empty(mesh.device, (n, 9), np.float64)
    face, corners = empty(mesh.device, area, np.int32), empty(mesh.device, (area, 3, 3), mesh.dtype)
    found = Met.none(mesh.device, mesh.dtype) if met is None else met
    light_adj(
        n, BLOCK, m, light.kind, light, mesh.vertices_array, mesh.faces_array, s.material, s.position, s.normal,
        s.face_normal, s.direction, s.stream, s.index, dimension, int(met is not None), *found, s.ray, adj_value,
        throughput, dark, int(fresh), adj_throughput, adj.material, adj.position, adj.normal, adj.direction, sums, face,
        corners,
    )  # fmt: skip
    return sums.sum(axis=0), face, corners


def bounce(mesh: Any, s: Surfaces, dimension: int) -> tuple[Any, Any]:
    """For each hit a direction to go on in (M, 3), and the factor (M, 3) of what comes from there."""
    direction, factor = (empty(mesh.device, (len(s), 3), mesh.dtype) for _ in range(2))
    bounce_fwd(
        len(s), s.material, s.normal, s.face_normal, s.direction, s.stream, s.index, dimension, direction, factor
    )
    return direction, factor


def bounce_adj(s: Surfaces, dimension: int, adj_factor: Any, adj: Surfaces) -> None:
    """Gradients for the cotangent of the factor; they add up in `adj`. The direction is a constant."""
    bounce_adj_kernel(
        len(s), s.material, s.normal, s.face_normal, s.direction, s.stream, s.index, dimension, adj_factor,
        adj.material, adj.normal, adj.direction,
    )  # fmt: skip
