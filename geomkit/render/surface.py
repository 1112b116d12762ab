"""What rays hit, row by row of the hits alone, and what pixels make of their rays: on arrays of one device."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.mesh.mesh import Mesh
from geomkit.render.direct_light import MATERIAL, Surfaces
from geomkit.render.tables import SceneTables, add
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.cast_rays import Hits, cast_rays_adj
from geomkit.spatial.rays import MeshStruct
from geomkit.spatial.scatter import FaceOrder, FaceSums

__all__ = [
    "add_materials", "emitted", "emitted_adj", "film", "film_adj", "hits_adj", "plain_hits_adj", "surfaces_at",
    "surfaces_adj",
]  # fmt: skip

SOURCE = "render/surface.cu"
_OBJECTS = "const int* object_of_face"
surface_fwd = Kernel(
    SOURCE,
    "surface_fwd",
    "const int* at, const int* rays, const real* vertices, const int* faces, const real* vertex_normals, "
    f"{_OBJECTS}, const int* smooth, const real* object_materials, const int* face, const real* barycentric, "
    "const real* normals, const real* directions, const uint* stream, const int* index, int* face_at, "
    "real* barycentric_at, int* rays_at, uint* stream_at, int* index_at, real* materials, real* positions, "
    "real* shading_normals, real* face_normals, real* directions_at",
)
surface_adj = Kernel(
    SOURCE,
    "surface_adj",
    f"int block, int count, Mesh mesh, double unit, const real* vertex_normals, {_OBJECTS}, const int* smooth, "
    "int width, const int* at, const int* face, const real* barycentric, const real* directions, const real* t, "
    "int given, const real* adj_t, const real* adj_flat, const real* adj_place, const real* adj_barycentric, "
    "const real* adj_positions, const real* adj_normals, const real* adj_towards, real* adj_origins, "
    "real* adj_directions, int* pieces, int* piece_face, double* piece_sums",
    grain=1,
)
plain_channels_adj = Kernel(
    SOURCE,
    "plain_channels_adj",
    "int block, int count, Mesh mesh, double unit, const int* face, const real* barycentric, const real* directions, "
    "const real* t, int given, const real* adj_t, const real* adj_flat, const real* adj_place, "
    "const real* adj_barycentric, int* pieces, int* piece_face, double* piece_sums",
    grain=1,
)
list_pieces = Kernel(
    SOURCE,
    "list_pieces",
    "int block, int width, const int* pieces, const int* offset, const int* piece_face, const double* piece_sums, "
    "int* face, double* sums",
    grain=4,
)
sum_materials = Kernel(
    SOURCE,
    "sum_materials",
    f"int block, int count, int objects, {_OBJECTS}, const int* face, const real* rows, double* sums",
    grain=1,
)
_EMISSION = f"const real* emission, {_OBJECTS}, const int* face, const real* normals, const real* directions"
emission_fwd = Kernel(SOURCE, "emission_fwd", f"double r, double g, double b, {_EMISSION}, real* value")
emission_adj = Kernel(
    SOURCE,
    "emission_adj",
    f"int block, int count, int objects, {_EMISSION}, const real* adj, double* sums",
    grain=1,
)
film_forward = Kernel(SOURCE, "film_fwd", "int samples, int channels, const real* values, real* image")
film_adjoint = Kernel(SOURCE, "film_adj", "int samples, int channels, const real* adj_image, real* adj_values")

PIECES = {"cpu": 1024, "cuda": 16}  # hits of which an item adds up those of one face
BLOCK = 2048  # rays that one item sums


def surfaces_at(
    tables: SceneTables, at: Any, rays: Any, hits: Hits, directions: Any, stream: Any, index: Any
) -> Surfaces:
    """The surfaces that M rays hit, row by row of the K that hit something.

    Args:
        tables: the scene.
        at: (K,) int32, which of the M rays hit something.
        rays: (M,) int32, their numbers among those of the camera.
        hits: of the M rays.
        directions: (M, 3) of them.
        stream, index: of all rays of the camera.
    """
    mesh, device, dtype = tables.mesh, tables.device, tables.dtype
    k = len(at)
    position, normal, face_normal, direction = (empty(device, (k, 3), dtype) for _ in range(4))
    face, ray, index_at = (empty(device, k, np.int32) for _ in range(3))
    material, stream_at = empty(device, (k, MATERIAL), dtype), empty(device, k, np.uint32)
    barycentric = empty(device, (k, 2), dtype)
    surface_fwd(
        k, at, rays, mesh.vertices_array, mesh.faces_array, tables.normals_array, tables.object_of_face,
        tables.smooth_array, tables.material, hits.face, hits.barycentric, hits.normal, directions, stream, index, face,
        barycentric, ray, stream_at, index_at, material, position, normal, face_normal, direction,
    )  # fmt: skip
    if tables.varying:
        width = tables.widths(hits.t[at], face_normal, direction) if tables.filtered else None
        tables.vary(material, face, barycentric, width)
    return Surfaces(material, position, normal, face_normal, direction, stream_at, index_at, ray, face, barycentric, at)


def surfaces_adj(
    tables: SceneTables, s: Surfaces, adj: Surfaces, t: Any, sums: dict[str, FaceSums], *, adj_t: Any = None,
    adj_flat: Any = None, adj_place: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """From the cotangents of surfaces to those of their rays; those of faces add up in `sums`.

    Args:
        tables: the scene.
        s: K hits of M rays.
        adj: their cotangents; those of barycentric may be None.
        t: (M,) of the rays.
        sums: of corners, by name: "vertices", and "normals" of the vertices where some are smooth.
        adj_t, adj_flat, adj_place: (M, 1), (M, 3) and (M, 3), of the rays' t, of the faces' normals and of positions;
            or None.

    Returns:
        (K, 3) of origins and of directions.
    """
    mesh, xp, device, dtype, k = tables.mesh, tables.xp, tables.device, tables.dtype, len(s)
    given, nothing = 0, empty(device, 0, dtype)
    by_ray = []
    for bit, x in ((1, adj_t), (2, adj_flat), (4, adj_place), (8, adj.barycentric)):
        given |= 0 if x is None else bit
        by_ray.append(nothing if x is None else xp.ascontiguousarray(x))
    origins, directions = (empty(device, (k, 3), dtype) for _ in range(2))
    width = 18 if any(tables.smooth) else 9
    block = PIECES[device]
    n = -(-k // block)
    pieces, piece_face = empty(device, n, np.int32), empty(device, k, np.int32)
    piece_sums = empty(device, (k, width), np.float64)
    surface_adj(
        n, block, k, MeshStruct(mesh), mesh.bvh.scale, tables.normals_array, tables.object_of_face, tables.smooth_array,
        width, s.at, s.face, s.barycentric, s.direction, t, given, *by_ray, adj.position, adj.normal, adj.direction,
        origins, directions, pieces, piece_face, piece_sums,
    )  # fmt: skip
    _add_pieces(mesh, sums, block, pieces, piece_face, piece_sums)
    return origins, directions


def plain_hits_adj(
    mesh: Mesh, hits: Hits, directions: Any, sums: dict[str, FaceSums], *, adj_t: Any = None, adj_flat: Any = None,
    adj_place: Any = None, adj_barycentric: Any = None,
) -> None:  # fmt: skip
    """Add to the sums of faces, under "vertices", what cotangents of N rays' first hits give; None is zero."""
    device, n = mesh.device, len(hits)
    given, nothing, by_ray = 0, empty(device, 0, mesh.dtype), []
    for bit, x in ((1, adj_t), (2, adj_flat), (4, adj_place), (8, adj_barycentric)):
        given |= 0 if x is None else bit
        by_ray.append(nothing if x is None else namespace(device).ascontiguousarray(x))
    block = PIECES[device]
    pieces, piece_face = empty(device, -(-n // block), np.int32), empty(device, n, np.int32)
    piece_sums = empty(device, (n, 9), np.float64)
    plain_channels_adj(
        len(pieces), block, n, MeshStruct(mesh), mesh.bvh.scale, hits.face, hits.barycentric, directions, hits.t, given,
        *by_ray, pieces, piece_face, piece_sums,
    )  # fmt: skip
    _add_pieces(mesh, sums, block, pieces, piece_face, piece_sums)


def _add_pieces(
    mesh: Mesh, sums: dict[str, FaceSums], block: int, pieces: Any, piece_face: Any, piece_sums: Any
) -> None:
    xp, device, n, width = namespace(mesh.device), mesh.device, len(pieces), piece_sums.shape[1]
    ends = xp.cumsum(pieces, dtype=np.int32)
    found = int(ends[-1]) if n else 0
    face, rows = empty(device, found, np.int32), empty(device, (found, width), np.float64)
    list_pieces(n, block, width, pieces, ends - pieces, piece_face, piece_sums, face, rows)
    order = FaceOrder(mesh, face)
    for first, name in zip(range(0, width, 9), ("vertices", "normals"), strict=False):
        if name not in sums:
            sums[name] = FaceSums(mesh)
        sums[name].add(order, order.row_sums(rows, first))


def hits_adj(
    mesh: Mesh,
    directions: Any,
    t: Any,
    face: Any,
    barycentric: Any,
    *,
    adj_t: Any = None,
    adj_barycentric: Any = None,
    adj_normal: Any = None,
    adj_position: Any = None,
) -> tuple[Any, Any, Any]:
    """As `cast_rays.adjoint`, of K hits alone: gradients of origins, directions, and corners (K, 3, 3)."""
    k = len(face)
    shapes = ((adj_t, (k,)), (adj_barycentric, (k, 2)), (adj_normal, (k, 3)), (adj_position, (k, 3)))
    given = [zeros(mesh.device, shape, mesh.dtype) if adj is None else adj for adj, shape in shapes]
    origins, adj_directions = (empty(mesh.device, (k, 3), mesh.dtype) for _ in range(2))
    corners = empty(mesh.device, (k, 3, 3), mesh.dtype)
    cast_rays_adj(
        k, MeshStruct(mesh), mesh.bvh.scale, directions, t, face, barycentric, *given, origins, adj_directions, corners
    )
    return origins, adj_directions, corners


def add_materials(tables: SceneTables, s: Surfaces, t: Any, adj: Surfaces, out: dict[str, Any]) -> None:
    """Add gradients of the materials by path, t (M,) of the rays; those of barycentric add up, from None if need be."""
    n, objects = -(-len(s) // BLOCK), len(tables.names)
    sums = empty(tables.device, (n, objects, 5), np.float64)
    sum_materials(n, BLOCK, len(s), objects, tables.object_of_face, s.face, adj.material, sums)
    if tables.varying and adj.barycentric is None:
        adj.barycentric = zeros(tables.device, s.barycentric.shape, tables.dtype)
    width = tables.widths(t[s.at], s.face_normal, s.direction) if tables.filtered else None
    tables.materials_adj(sums.sum(axis=0), s.face, s.barycentric, adj.material, adj.barycentric, out, width)


def emitted(tables: SceneTables, hits: Hits, directions: Any) -> Any:
    """(N, 3) what rays see that come from a camera, without what surfaces reflect."""
    n = len(hits)
    if not (tables.emits.any() or tables.background.any() or tables.surroundings):
        return zeros(tables.device, (n, 3), tables.dtype)
    value = empty(tables.device, (n, 3), tables.dtype)
    emission_fwd(
        n, *map(float, tables.background), tables.emission_array, tables.object_of_face, hits.face, hits.normal,
        directions, value,
    )  # fmt: skip
    width = tables.widths(hits.t, hits.normal, directions) if tables.varying_emitters else None
    tables.emission_at(value, hits.face, hits.barycentric, width)
    if tables.surroundings:
        missed = tables.xp.flatnonzero(hits.face < 0)
        for around in tables.surroundings:
            value[missed] += around.at(directions[missed])
    return value


def emitted_adj(tables: SceneTables, hits: Hits, directions: Any, adj: Any, out: dict[str, Any]) -> tuple[Any, Any]:
    """Add gradients of the background and of what emits.

    Returns:
        those of barycentrics (N, 2) and directions (N, 3); None where there are none.
    """
    xp, varying = tables.xp, tables.varying_emitters
    adj_barycentric = zeros(tables.device, (len(hits), 2), tables.dtype) if varying else None
    adj_directions: Any = zeros(tables.device, (len(hits), 3), tables.dtype) if tables.surroundings else None
    missed: Any = xp.flatnonzero(hits.face < 0) if tables.surroundings else None
    for around in tables.surroundings:
        adj_directions[missed] += around.adjoint(directions[missed], adj[missed], out)
    if varying:
        width = tables.widths(hits.t, hits.normal, directions)
        owner = tables.object_of_face[xp.maximum(hits.face, 0)]
        front = (tables.emission_array[owner, 3] != 0) | ((hits.normal * directions).sum(axis=1) < 0)
        seen = xp.where(front[:, None], adj, 0)
        tables.emission_adj(hits.face, hits.barycentric, width, seen, adj_barycentric, out)
    if not (tables.emits.any() or tables.background_paths):
        return adj_barycentric, adj_directions
    n, objects = -(-len(hits) // BLOCK), len(tables.names)
    sums = empty(tables.device, (n, objects + 1, 3), np.float64)
    emission_adj(
        n, BLOCK, len(hits), objects, tables.emission_array, tables.object_of_face, hits.face, hits.normal, directions,
        adj, sums,
    )  # fmt: skip
    total = sums.sum(axis=0)
    for path in tables.background_paths:
        add(out, path, total[-1])
    for k in np.flatnonzero(tables.emits):
        emission = tables.attributes[k]["emission"]
        if emission.constant is not None:
            add(out, emission.path, emission.total(total[k]))
    return adj_barycentric, adj_directions


def film(values: Any, samples: int, image: Any) -> None:
    """Pixels are the means of their rays: (P samples, C) values to an image of P pixels."""
    film_forward(image.size // image.shape[-1], samples, image.shape[-1], values, image)


def film_adj(adj_image: Any, samples: int, device: str) -> Any:
    """(P samples, C) from the cotangent of an image of P pixels."""
    pixels, channels = adj_image.size // adj_image.shape[-1], adj_image.shape[-1]
    adj_values = empty(device, (pixels * samples, channels), adj_image.dtype)
    film_adjoint(pixels, samples, channels, adj_image, adj_values)
    return adj_values
