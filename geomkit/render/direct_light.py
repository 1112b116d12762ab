"""One sample of a light at each of many hits, on arrays of one device: forward and adjoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from geomkit.runtime.device import address, empty
from geomkit.runtime.kernel import Kernel

__all__ = ["MATERIAL", "LightStruct", "Surfaces", "bounce", "bounce_adj", "light_sample", "light_sample_adj"]

SOURCE = "render/light.cu"
_HITS = (
    "const real* materials, const real* positions, const real* normals, const real* face_normals, "
    "const real* directions, const uint* stream, const int* index, int dimension"
)
_BOUNCE = _HITS.replace("const real* positions, ", "")
light_fwd = Kernel(
    SOURCE,
    "light_fwd",
    f"int kind, Light light, const real* vertices, const int* faces, {_HITS}, real* to_light, real* color",
)
light_adj = Kernel(
    SOURCE,
    "light_adj",
    f"int block, int count, int kind, Light light, const real* vertices, const int* faces, {_HITS}, "
    "const real* adj_color, real* adj_materials, real* adj_positions, real* adj_normals, real* adj_directions, "
    "double* sums, int* light_face, real* adj_light",
    grain=1,
)
bounce_fwd = Kernel(SOURCE, "bounce_fwd", f"{_BOUNCE}, real* next, real* factor")
bounce_adj_kernel = Kernel(
    SOURCE,
    "bounce_adj",
    f"{_BOUNCE}, const real* adj_factor, real* adj_materials, real* adj_normals, real* adj_directions",
)
emitter_fwd = Kernel(
    "render/emitter.cu", "emitter_fwd", "Light light, const uint* stream, const int* index, int dimension, int* face, "
    "real* barycentric",
)  # fmt: skip

MATERIAL = 7  # numbers of a material at a hit, as in cuda/render/bsdf.h
CONSTANT, POINT, DIRECTIONAL, SPOT, AREA, PATCH, ENVIRONMENT = range(7)
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
    """

    material: Any
    position: Any
    normal: Any
    face_normal: Any
    direction: Any
    stream: Any
    index: Any

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
        faces: (E,) int32, of an area light; distribution: (E,) float64, the running sum of their shares.
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
        two_sided: bool = False,
        size: tuple[int, int] | None = None,
    ):
        self.kind, self.dtype, self.device = kind, dtype, device
        self.table = faces, distribution
        count, sides = (0 if faces is None else len(faces), 2 if two_sided else 1) if size is None else size
        self.fields = (
            address(faces), address(distribution), *map(float, position), *map(float, axis), *map(float, power),
            math.cos(math.radians(inner)), math.cos(math.radians(outer)),
            float(count), float(sides),
        )  # fmt: skip

    @property
    def position_at_infinity(self) -> bool:
        """Whether rays to it have no end."""
        return self.kind in (CONSTANT, DIRECTIONAL, ENVIRONMENT)


def emitter_points(light: LightStruct, s: Surfaces, dimension: int) -> tuple[Any, Any]:
    """The faces (M,) and barycentrics (M, 2) of the points of an area light that `light_sample` draws."""
    face, barycentric = empty(light.device, len(s), np.int32), empty(light.device, (len(s), 2), light.dtype)
    emitter_fwd(len(s), light, s.stream, s.index, dimension, face, barycentric)
    return face, barycentric


def light_sample(mesh: Any, light: LightStruct, s: Surfaces, dimension: int) -> tuple[Any, Any]:
    """For each hit the vector to a sample of the light (M, 3), of length one if that has no place, and what is seen."""
    m = len(s)
    to_light, color = (empty(mesh.device, (m, 3), mesh.dtype) for _ in range(2))
    light_fwd(
        m, light.kind, light, mesh.vertices_array, mesh.faces_array, s.material, s.position, s.normal, s.face_normal,
        s.direction, s.stream, s.index, dimension, to_light, color,
    )  # fmt: skip
    return to_light, color


def light_sample_adj(
    mesh: Any, light: LightStruct, s: Surfaces, dimension: int, adj_color: Any, adj: Surfaces
) -> tuple[np.ndarray, Any, Any]:
    """Gradients for the cotangent of what is seen: those of the hits add up in `adj`.

    Returns:
        (9,) of the light's position, axis and power; for area lights the emitting face (M,) of each hit, or -1, and the
        gradients of its corners (M, 3, 3).
    """
    m = len(s)
    n = -(-m // BLOCK)
    area = m if light.kind == AREA else 0
    sums = empty(mesh.device, (n, 9), np.float64)
    face, corners = empty(mesh.device, area, np.int32), empty(mesh.device, (area, 3, 3), mesh.dtype)
    light_adj(
        n, BLOCK, m, light.kind, light, mesh.vertices_array, mesh.faces_array, s.material, s.position, s.normal,
        s.face_normal, s.direction, s.stream, s.index, dimension, adj_color, adj.material, adj.position, adj.normal,
        adj.direction, sums, face, corners,
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
