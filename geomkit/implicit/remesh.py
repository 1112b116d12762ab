"""Meshes made anew from their signed distance: watertight ones, offsets, and voxels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import Library, as_array
from geomkit.autodiff.primitive import nondifferentiable
from geomkit.errors import MeshError, message
from geomkit.implicit.field import one_of
from geomkit.implicit.grid import SdfGrid, sdf_grid
from geomkit.implicit.marching_cubes import marching_cubes
from geomkit.implicit.sign import METHODS, choose_auto
from geomkit.implicit.signed_distance import distance
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.runtime.device import namespace
from geomkit.spatial.closest_point import closest_point
from geomkit.spatial.query import Points
from geomkit.spatial.sample_surface import sample_surface
from geomkit.spatial.winding_number import winding

__all__ = ["Voxels", "offset", "remesh", "voxelize"]

LEAST = 16  # samples along the longest side
MARGIN = 3  # spacings left free around the surface
BAND = 4  # spacings within which distances are exact
LOST, LESS = 1.25, 1.0  # spacings from the new surface beyond which a point of the old one is lost; and beside others
BLOCK = 4  # spacings: what is beside
SHELL = 0.9  # spacings: more than half a cell's diagonal, so that a sample lies in the shell of every point
ROUNDS = 4  # in which lost points are brought back: one for all around them, then for the nearest sample alone
CAP = 4.0  # spacings: the field where it closes a hole is so many for a whole turn of the winding number
BESIDE = 0.02  # spacings: where the two sides of a face are looked at
TINY = 1e-6  # spacings: the least that keeps a sign
MOST_SAMPLES = 2_000_000

Progress = Callable[[int, int], None]


class Voxels(NamedTuple):
    """Which cubes of a grid a mesh fills: that of values[i, j, k] has its centre at origin + spacing * (i, j, k)."""

    values: Any  # (nx, ny, nz) bool, in the mesh's library
    origin: np.ndarray  # (3,) float64, the centre of the first
    spacing: float  # the length of a side, in the mesh's length unit


@nondifferentiable("for gradients call sdf_grid and marching_cubes")
def remesh(
    mesh: Mesh,
    resolution: int = 128,
    *,
    sign: str = "auto",
    thin: str = "keep",
    project: bool = False,
    progress: Progress | None = None,
) -> Mesh:
    """A watertight, consistently oriented mesh of the solid that a mesh of any quality stands for.

    Holes are closed, overlaps merged, and repeated, flipped and degenerate faces forgotten. What has no inside, such as
    a sheet, becomes a shell of about two spacings. For even triangles on the very surface of a sound mesh, with its
    holes, use `isotropic_remesh`.

    Args:
        mesh: a Mesh with faces, or any object with `.vertices` and `.faces`.
        resolution: number of samples along the longest side of the padded box, at least 16.
        sign: how inside and outside are told apart, as in `signed_distance`; "auto" also turns meshes that are inside
            out.
        thin: what happens to what is lost between the samples: "keep" makes walls and gaps that are thinner than a
            spacing one to two spacings thick, walls without any thickness among them; "drop" lets them go.
        project: move each vertex to the closest point of the old surface, where that is less than a spacing away. Sharp
            edges come out sharper, triangles worse.
        progress: called as progress(done, total) now and then. What it raises ends the work.

    Returns:
        a Mesh in the library and precision of the old one. With "keep", points of the solid's surface are within 1.5
        spacings of it, unless there are more walls and gaps side by side than samples to tell them apart. Faces with
        the inside on both sides, as where parts overlap, are no part of that surface; nor are sheets within the shells
        of other sheets. Holes are closed where the winding number is one half.

    Gradients:
        None: for gradients call `sdf_grid` and `marching_cubes`.

    Raises:
        ValueError: resolution, sign or thin is out of range.
        TypeError: resolution is no number.
        MeshError: the mesh has no faces, or is but a point.

    Cost: the narrow band of `sdf_grid` on closed meshes; on others all its samples, as holes are closed far from faces.

    Example:
        >>> import geomkit as gk
        >>> from geomkit.mesh import Mesh
        >>> box = gk.shapes.box()
        >>> half_open = Mesh(box.vertices, box.faces[2:])
        >>> half_open.is_closed, gk.remesh(half_open, 32).is_closed
        (False, True)
    """
    one_of("remesh", "thin", thin, ("keep", "drop"))
    library, solid, method = _solid("remesh", mesh, sign)
    grid = _distances("remesh", solid, method, resolution, 0.0, BAND, progress)
    exact = abs(grid.values)
    if method == "winding" and not solid.is_closed:
        _smooth_caps(grid, solid)
    if thin == "keep" and method == "unsigned":
        grid.values[...] -= solid.dtype.type(SHELL * grid.spacing)
    surface = _surface(grid, 0.0)
    if thin == "keep" and method != "unsigned":
        surface = _kept(grid, exact, solid, method, surface)
    if project and surface.n_faces:
        surface = _projected(surface, solid, grid.spacing)
    return Mesh.adopt(_as(surface.vertices_array, solid), surface.faces_array, library)


@nondifferentiable("for gradients call sdf_grid and marching_cubes")
def offset(
    mesh: Mesh, distance: float, *, resolution: int = 128, sign: str = "auto", progress: Progress | None = None
) -> Mesh:
    """The surface at a signed distance from a mesh: outside of it if positive, inside if negative.

    Args:
        mesh: a Mesh with faces, or any object with `.vertices` and `.faces`.
        distance: in the mesh's length unit.
        resolution: number of samples along the longest side of the padded box, at least 16.
        sign: how inside and outside are told apart, as in `signed_distance`; "auto" also turns meshes that are inside
            out. What has no inside, such as a sheet, has offsets on both its sides at once.
        progress: called as progress(done, total) now and then. What it raises ends the work.

    Returns:
        a watertight, consistently oriented Mesh in the library and precision of the old one; empty where there is no
        inside so deep.

    Gradients:
        None: for gradients call `sdf_grid` and `marching_cubes`.

    Raises:
        ValueError: an argument is out of range.
        TypeError: distance or resolution is no number.
        MeshError: the mesh has no faces, or is but a point.

    Cost: that of `sdf_grid`, in a narrow band as wide as the distance on closed meshes.

    Example:
        >>> import geomkit as gk
        >>> grown = gk.offset(gk.shapes.icosphere(4), 0.5, resolution=48)
        >>> grown.is_closed, bool(abs(grown.bounds - [[-1.5] * 3, [1.5] * 3]).max() < 0.01)
        (True, True)
    """
    length = float(as_array(distance, op="offset", name="distance", shape=(), dtype=np.float64))
    if not abs(length) < math.inf:
        raise ValueError(message("offset", "distance", "a finite number", repr(distance)))
    library, solid, method = _solid("offset", mesh, sign)
    grid = _distances("offset", solid, method, resolution, length, BAND, progress)
    surface = _surface(grid, length)
    return Mesh.adopt(_as(surface.vertices_array, solid), surface.faces_array, library)


@nondifferentiable("which voxels are filled is discrete", discrete={"values": "bool ?"})
def voxelize(
    mesh: Mesh, resolution: int = 64, *, sign: str = "auto", fill: str = "both", progress: Progress | None = None
) -> Voxels:
    """The cubes of a regular grid that a mesh fills.

    Args:
        mesh: a Mesh with faces, or any object with `.vertices` and `.faces`.
        resolution: number of cubes along the longest side of the padded box, at least 16.
        sign: how inside and outside are told apart, as in `signed_distance`.
        fill: "solid" takes the cubes whose centre is inside; "surface" those whose centre is no farther from the
            surface than a corner of the cube, which are all that the surface passes, and a few that it nearly passes;
            "both".
        progress: called as progress(done, total) now and then. What it raises ends the work.

    Returns:
        A record `.values` (nx, ny, nz) bool in the mesh's library, `.origin` (3,) float64, `.spacing`.

    Gradients:
        None: the answer is discrete.

    Raises:
        ValueError: an argument is out of range.
        TypeError: resolution is no number.
        MeshError: the mesh has no faces, or is but a point.

    Cost: that of `sdf_grid`, in a narrow band on closed meshes.

    Example:
        >>> import geomkit as gk
        >>> voxels = gk.voxelize(gk.shapes.icosphere(), 32, fill="solid")
        >>> bool(abs(voxels.values.sum() * voxels.spacing**3 - 4.19) < 0.1)
        True
    """
    one_of("voxelize", "fill", fill, ("solid", "surface", "both"))
    library, solid, method = _solid("voxelize", mesh, sign)
    if fill == "solid" and sign == "unsigned":
        raise ValueError(message("voxelize", "sign", "a method that has an inside, as fill is 'solid'", "'unsigned'"))
    grid = _distances("voxelize", solid, method, resolution, 0.0, BAND, progress)
    inside, near = grid.values < 0, abs(grid.values) <= 0.5 * math.sqrt(3) * grid.spacing
    values = {"solid": inside, "surface": near, "both": inside | near}[fill]
    return Voxels(library.wrap(values), grid.origin, grid.spacing)


def _solid(op: str, mesh: Any, sign: str) -> tuple[Library, Mesh, str]:
    """The mesh's library; the mesh in NumPy or CuPy, turned outwards if it is inside out; the method of its sign."""
    given = as_mesh(mesh)
    if given.n_faces == 0:
        raise MeshError(message(op, "mesh", "at least one face", "none"))
    solid = Mesh(given.vertices_array, given.faces_array)
    if sign != "auto":
        if sign not in METHODS:
            expected = "one of 'auto', " + ", ".join(repr(name) for name in sorted(METHODS))
            raise ValueError(message(op, "sign", expected, repr(sign)))
        return given.library, solid, sign
    method = choose_auto(solid).method
    if method == "pseudonormal" and solid.volume < 0:
        solid = solid.flipped()
    elif method == "unsigned":
        turned = solid.flipped()
        other = choose_auto(turned).method
        if other != "unsigned":
            return given.library, turned, other
    return given.library, solid, method


def _distances(
    op: str, solid: Mesh, method: str, resolution: Any, reach: float, band: int, progress: Progress | None
) -> SdfGrid:
    """Signed distances around a mesh, the surface at `reach` at least MARGIN spacings from the border."""
    count = float(as_array(resolution, op=op, name="resolution", shape=(), dtype=np.float64))
    if not (LEAST <= count < math.inf and count.is_integer()):
        raise ValueError(message(op, "resolution", f"an integer of at least {LEAST}", repr(resolution)))
    longest = float((solid.bounds[1] - solid.bounds[0]).max())
    if not longest > 0:
        raise MeshError(message(op, "mesh", "more than a point", repr(solid)))
    # The share p of the longest side L that leaves p L = reach + MARGIN h free, where h = L (1 + 2 p) / (count - 1).
    gaps = count - 1
    padding = (max(reach, 0.0) / longest + MARGIN / gaps) / (1 - 2 * MARGIN / gaps)
    spacing = longest * (1 + 2 * padding) / gaps
    options: dict[str, Any] = {"padding": padding, "sign": method, "progress": progress}
    try:
        return sdf_grid(solid, resolution=int(count), narrow_band=band + abs(reach) / spacing, **options)
    except (ValueError, MemoryError) as error:
        raise type(error)(str(error).replace("sdf_grid:", f"{op}:", 1)) from error


def _surface(grid: SdfGrid, level: float) -> Mesh:
    # (Of a mesh with flipped parts even the border may be inside.)
    return marching_cubes(grid.values, level, spacing=grid.spacing, origin=grid.origin, boundary="cap")


def _smooth_caps(grid: SdfGrid, solid: Mesh) -> None:
    """Let the surface that closes a hole run where the winding number is one half.

    There the distance, to faces, changes its sign in a jump, and its surface would have the steps of the grid. What
    replaces it, the smaller of the distance and of a multiple of the winding number's difference from one half, is
    continuous, with the same signs.
    """
    values, step = grid.values, grid.spacing
    xp = namespace(solid.device)
    jumps = xp.zeros(values.shape, bool)
    for axis in range(3):
        low, high = (tuple(slice(*ends) if k == axis else slice(None) for k in range(3)) for ends in ((-1,), (1, None)))
        # Between samples on two sides of a face the distances add up to a spacing at most.
        jump = ((values[low] < 0) != (values[high] < 0)) & (abs(values[low] - values[high]) > 1.001 * step)
        jumps[low] |= jump
        jumps[high] |= jump
    number = xp.flatnonzero(jumps)
    place = xp.stack(xp.unravel_index(number, values.shape), axis=1)
    points = (xp.asarray(grid.origin) + step * place).astype(solid.dtype)
    over = abs(winding(Points("remesh", solid, points), "fast") - solid.dtype.type(0.5))
    old = values.reshape(-1)[number]
    size = xp.minimum(abs(old), xp.maximum(CAP * step * over, TINY * step))
    values.reshape(-1)[number] = xp.where(old < 0, -size, size).astype(solid.dtype)


def _kept(grid: SdfGrid, exact: Any, solid: Mesh, method: str, surface: Mesh) -> Mesh:
    """The surface after walls and gaps that the samples miss have been made thicker, in the grid, too: of those of all
    rounds the one that comes nearest to all points."""
    points, normals = _on_surface(solid, grid.spacing)
    best, kept = math.inf, surface
    for turn in range(ROUNDS + 1):
        lost, worst = _lost(points, normals, solid, method, surface, grid.spacing)
        if worst < best:
            best, kept = worst, surface
        if turn == ROUNDS or not _thicken(grid, exact, lost, all_around=turn == 0):
            break
        surface = _surface(grid, 0.0)
    return kept


def _on_surface(solid: Mesh, spacing: float) -> tuple[Any, Any]:
    """Points of a mesh, at least eight a square of the spacing if they are not too many, and normals."""
    xp = namespace(solid.device)
    used = xp.unique(solid.faces_array)
    points, normals = solid.vertices_array[used], solid.vertex_normals[used]
    area = solid.area
    if area > 0:
        drawn = sample_surface(solid, int(min(max(8 * area / spacing**2, 10_000), MOST_SAMPLES)))
        points, normals = xp.concatenate([points, drawn.points]), xp.concatenate([normals, drawn.normal])
    return points, normals


def _lost(points: Any, normals: Any, solid: Mesh, method: str, surface: Mesh, spacing: float) -> tuple[Any, float]:
    """Those of the points of the solid's surface that are far from the new one, all of them where there is none; and
    how far the farthest is, 0 if there are none."""
    xp = namespace(solid.device)
    if surface.n_faces:
        distances = closest_point(surface, points.astype(surface.dtype)).distance
    else:
        distances = xp.full(len(points), np.inf, solid.dtype)
    far = distances > LESS * spacing
    points, normals, distances = points[far], normals[far], distances[far]
    # Sharp corners are cut by less, and best left alone; but a wall is brought back with its rims.
    block = xp.floor((points - xp.asarray(solid.bounds[0])) / (BLOCK * spacing)).astype(np.int64)
    number = (block * xp.asarray([1 << 42, 1 << 21, 1])).sum(axis=1)
    lost = xp.isin(number, number[distances > LOST * spacing])
    points, normals, distances = points[lost], normals[lost], distances[lost]
    step = solid.dtype.type(BESIDE * spacing) * normals
    behind, before = (distance(Points("remesh", solid, points + s * step), method) < 0 for s in (-1, 1))
    # Faces buried inside the solid are no part of its surface. Those with the outside on both sides are walls without
    # thickness, but for an inverted part's.
    lost = ~(behind & before)
    if method == "winding" and solid.is_closed:
        inverted = winding(Points("remesh", solid, points + step), "fast") < -0.5
        lost &= behind | before | ~inverted
    return points[lost], float(distances[lost].max()) if lost.any() else 0.0


def _thicken(grid: SdfGrid, exact: Any, lost: Any, all_around: bool) -> bool:
    """Bring back lost points: where all samples around are outside, those near the surface become inside; where all are
    inside, outside. Near are all of a cell's corners that the shell reaches, or only the nearest sample, which moves
    less of what is beside. Returns whether there was anything to do."""
    values, shape = grid.values, grid.values.shape
    xp = np if isinstance(values, np.ndarray) else namespace("cuda")
    place = (lost.astype(np.float64) - xp.asarray(grid.origin)) / grid.spacing
    corners = xp.floor(place).astype(np.int64)[:, None] + _around(xp)
    inside = (values[corners[..., 0], corners[..., 1], corners[..., 2]] < 0).sum(axis=1)
    near = corners if all_around else xp.rint(place).astype(np.int64)[:, None]
    number = (near[..., 0] * shape[1] + near[..., 1]) * shape[2] + near[..., 2]
    reach = values.dtype.type(SHELL * grid.spacing)
    for count, sign in ((0, -1), (8, 1)):
        at = xp.unique(number[inside == count])
        at = at[exact.reshape(-1)[at] < reach]
        values.reshape(-1)[at] = sign * (reach - exact.reshape(-1)[at])
    return bool(((inside == 0) | (inside == 8)).any())


def _around(xp: Any) -> Any:
    """The corners of a cell, (8, 3)."""
    side = xp.arange(2)
    return xp.stack(xp.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)


def _projected(surface: Mesh, solid: Mesh, spacing: float) -> Mesh:
    xp = namespace(solid.device)
    hit = closest_point(solid, _as(surface.vertices_array, solid))
    near = (hit.distance < spacing)[:, None]
    return Mesh.adopt(xp.where(near, hit.point, _as(surface.vertices_array, solid)), surface.faces_array, solid.library)


def _as(vertices: Any, solid: Mesh) -> Any:
    """Vertices in the precision of the old mesh."""
    return namespace(solid.device).ascontiguousarray(vertices, dtype=solid.dtype)
