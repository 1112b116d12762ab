"""Texture coordinates for meshes that have none."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import to_host
from geomkit.autodiff.primitive import nondifferentiable
from geomkit.errors import message, missing_package
from geomkit.mesh.mesh import Mesh, as_mesh

__all__ = ["Unwrapped", "unwrap_uv"]

OP = "unwrap_uv"
SIZE = 10.0  # the diagonal of what xatlas gets: it has thresholds that are lengths
SPARE = 1.3  # an atlas is up to so many times as wide as was asked for


class Unwrapped(NamedTuple):
    """A mesh cut along the seams of its texture."""

    mesh: Mesh  # the same triangles in the same order, with a vertex for each side of a seam
    uv: Any  # (V', 2) in [0, 1], v upwards
    vertex: Any  # (V',) int32, the vertex of the given mesh that each was


@nondifferentiable("where charts are cut is discrete: take mesh.vertices[vertex] for gradients")
def unwrap_uv(mesh: Mesh, *, resolution: int = 1024, padding: int = 4) -> Unwrapped:
    """Texture coordinates: the surface cut into charts and laid out in a square without overlaps, by xatlas.

    Vertices at one position count as one, so that old seams do not matter. The mesh that comes back is cut where charts
    end, but by position it is the same: closed if it was, with the same edges.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        resolution: of the textures that are to be put on it, in texels along a side.
        padding: texels that stay free between charts at that resolution, at least 1. `bake_texture` fills them.

    Returns:
        A record `.mesh`, `.uv`, `.vertex`, in the library of the mesh: `gk.Object(found.mesh, material, uv=found.uv)`.

    Gradients:
        None: where charts are cut is discrete. Vertices of any library follow by `vertices[vertex]`.

    Raises:
        ValueError: resolution or padding out of range.
        TypeError: they are no integers.
        ImportError: xatlas is not installed; the message names the extra.

    Cost: that of xatlas: some 5 s for 20,000 faces, half a minute for 70,000, on one core.

    Example:
        >>> import geomkit as gk
        >>> found = gk.unwrap_uv(gk.shapes.box(), resolution=64)
        >>> found.mesh.n_faces, found.mesh.is_closed, bool((found.uv >= 0).all() and (found.uv <= 1).all())
        (12, True, True)
    """
    given = as_mesh(mesh)
    texels, gap = _integer("resolution", resolution, 1), _integer("padding", padding, 1)
    library = given.library
    vertices, faces = to_host(given.vertices_array), to_host(given.faces_array)
    if not len(faces):
        nothing = Mesh.adopt(vertices[:0], faces, library)
        return Unwrapped(nothing, library.wrap(np.zeros((0, 2), vertices.dtype)), library.wrap(np.zeros(0, np.int32)))
    topology = given.topology
    scale = SIZE / given.diagonal if given.diagonal > 0 else 1.0
    places = ((vertices[topology.unique_vertices] - given.center) * scale).astype(np.float32)
    cut, uv = _charts(places, topology.welded_faces.astype(np.uint32), texels, gap)
    # A vertex of the new mesh is the vertex of the old that was at its first corner.
    vertex = np.zeros(len(uv), np.int32)
    vertex[cut.ravel()[::-1]] = faces.ravel()[::-1]
    new = Mesh.adopt(vertices[vertex], np.ascontiguousarray(cut, np.int32), library)
    return Unwrapped(new, library.wrap(uv.astype(vertices.dtype)), library.wrap(vertex))


def _charts(places: np.ndarray, faces: np.ndarray, texels: int, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Faces of cut vertices, and their uv in a square."""
    try:
        import xatlas
    except ImportError as error:
        raise missing_package("xatlas", "uv", OP) from error
    padding = math.ceil(SPARE * gap)
    while True:
        atlas = xatlas.Atlas()
        atlas.add_mesh(places, faces)
        options = xatlas.PackOptions()
        options.resolution, options.padding = texels, padding
        atlas.generate(pack_options=options)
        widest = max(atlas.width, atlas.height, 1)
        # Many charts in few texels make an atlas wider than was asked for.
        needed = math.ceil(gap * widest / texels)
        if padding >= needed or padding > texels:
            break
        padding = needed + 1
    _, cut, uv = atlas.get_mesh(0)
    if not (atlas.width and atlas.height):
        # Faces without any area have no place in an atlas.
        return cut, np.zeros(uv.shape)
    return cut, uv.astype(np.float64) * ([atlas.width / widest, atlas.height / widest])


def _integer(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(message(OP, name, "an integer", type(value).__name__)) from error
    if number < least:
        raise ValueError(message(OP, name, f"an integer of at least {least}", str(value)))
    return number
