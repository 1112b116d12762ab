"""Signed distance on a regular grid, and its files."""

from __future__ import annotations

import math
import os
import reprlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, imported, precision_of, refuse_tracked, tracker_of
from geomkit.autodiff.primitive import primitive
from geomkit.autodiff.recording import watched
from geomkit.errors import MeshError, message
from geomkit.files import replacing
from geomkit.implicit.narrow_band import blocks_have_signs, fill_narrow_band
from geomkit.implicit.sign import choose
from geomkit.implicit.signed_distance import adj_distance_of, distance
from geomkit.mesh.measure import MeshGradients
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.runtime.device import namespace
from geomkit.spatial.query import Points

__all__ = ["GRID_FORMATS", "SdfGrid", "sdf_grid"]

GRID_FORMATS = ("npy", "npz", "vti")

# Points at a time: bounds the scratch memory to about 100 bytes each, whatever the grid.
BLOCK = {"cpu": 1 << 18, "cuda": 1 << 21}


class SdfGrid(NamedTuple):
    """Signed distances at the corners of a regular grid: sample (i, j, k) is at origin + spacing * (i, j, k)."""

    values: Any  # (nx, ny, nz) of the mesh's precision, in the mesh's library
    origin: np.ndarray  # (3,) float64, where sample (0, 0, 0) is
    spacing: float  # between samples, the same along x, y and z, in the mesh's length unit

    @property
    def tracker(self) -> str:
        """Who follows gradients through the values: "torch", "jax", "tape", or "" for nobody.

        Raises:
            TypeError: gradients are followed through origin or spacing, where none are sent back.
        """
        for name, x in (("origin", self.origin), ("spacing", self.spacing)):
            refuse_tracked(x, op="SdfGrid", name=name)
        return tracker_of(self.values)

    @property
    def tracked_array(self) -> Any:
        """What gradients of the grid are gradients of: `values`."""
        return watched(self.values, "SdfGrid", "values")

    @property
    def without_trace(self) -> SdfGrid:
        """What `plain_with` needs, without the array that jax traces."""
        return self._replace(values=None)

    def plain_with(self, values: Any) -> SdfGrid:
        """The grid on NumPy's or CuPy's arrays; of these values, where they are known now."""
        return self._replace(values=imported(self.values) if values is None else values)

    @property
    def axes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The coordinates of the samples along x, y and z: three float64 arrays of nx, ny and nz numbers."""
        x, y, z = (self.origin[k] + self.spacing * np.arange(n) for k, n in enumerate(self.values.shape))
        return x, y, z

    def save(self, path: str | os.PathLike) -> None:
        """Write the grid to a file, which appears whole or not at all.

        Args:
            path: its ending chooses the format.
                .npz: `values`, `origin` and `spacing`, for `numpy.load`.
                .npy: the values only; origin and spacing are lost.
                .vti: VTK image data with the point array `distance`, for ParaView, PyVista and VTK.

        Raises:
            ValueError: another ending.
            OSError: the folder does not exist or cannot be written to.
        """
        path = Path(path)
        extension = grid_format(path, "SdfGrid.save")
        values = self.plain_with(None).values
        values = as_array(values, op="SdfGrid.save", name="values", shape=("X", "Y", "Z"), dtype=precision_of(values))
        with replacing(path) as file:
            if extension == "npy":
                np.save(file, values)
            elif extension == "npz":
                np.savez(file, values=values, origin=self.origin, spacing=np.float64(self.spacing))
            else:
                file.write(_vti_head(values, self.origin, self.spacing))
                for k in range(values.shape[2]):
                    # x runs fastest, and z slowest.
                    file.write(values[:, :, k].T.astype(values.dtype.newbyteorder("<")).tobytes())
                file.write(b"\n</AppendedData>\n</VTKFile>\n")


@primitive(differentiable=("vertices",), outputs={"values": "real ?"})
def sdf_grid(
    mesh: Mesh,
    *,
    resolution: int | None = None,
    spacing: float | None = None,
    padding: float = 0.1,
    sign: str = "auto",
    narrow_band: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SdfGrid:
    """Signed distance to a triangle mesh on a regular grid around it: what data sets, renderers and solvers store.

    Every sample is the exact distance of its point, not only near the surface, unless `narrow_band` says otherwise. For
    points of your own choice use `signed_distance`.

    Args:
        mesh: a Mesh with faces, or any object with `.vertices` and `.faces`.
        resolution: number of samples along the longest side of the padded box, at least 2. Give it or spacing.
        spacing: between samples, in the mesh's length unit.
        padding: what the grid leaves free around the mesh at least, as a share of the longest side of its box.
        sign: how inside and outside are told apart, as in `signed_distance`.
        narrow_band: None, or a number of spacings, at least 1: distances are then cut at so many spacings, so that only
            samples near the surface are queried, in a tenth of the time or less. Enough for isosurfaces near level 0.
            (With "pseudonormal" or "parity" on a mesh for which they are wrong, all samples are queried.)
        progress: called as progress(done, total) with numbers of samples, or of blocks of them, now and then. What it
            raises ends the work.

    Returns:
        A record `.values` (nx, ny, nz) of the mesh's precision, in its library; `.origin` (3,) float64; `.spacing`.
        Array axes are x, y, z; the grid's middle is that of the mesh's box.

    Gradients:
        mesh.vertices, through values, the grid staying where it is: as those of `signed_distance` at the samples; none
        from samples that are cut. The sign is discrete.

    Raises:
        ValueError: not just one of resolution and spacing, or one out of range; a grid larger than the memory; unknown
            sign; a band of less than one spacing.
        TypeError: resolution, spacing or padding is no number.
        MemoryError: there is no room left for the grid.
        MeshError: the mesh has no faces, so that there is no box to fill.

    Warns:
        SignWarning: no sign is right, or the mesh is inside out.

    Cost: O(N log F) for N samples, those near the surface in a narrow band. Beyond the result, the memory of some 2**18
        samples.

    Example:
        >>> import geomkit as gk
        >>> grid = gk.sdf_grid(gk.shapes.box(), resolution=5, padding=0.5)
        >>> grid.values.shape, grid.spacing, grid.origin.tolist(), float(grid.values[2, 2, 2])
        ((5, 5, 5), 0.5, [-1.0, -1.0, -1.0], -0.5)
    """
    mesh, shape, origin, step = _placed(mesh, resolution, spacing, padding)
    width = _band(narrow_band, step, mesh.dtype)
    frame, shift = _near_origin(mesh)
    method = choose("sdf_grid", frame, sign)
    try:
        values = namespace(mesh.device).empty(shape, mesh.dtype)
    except MemoryError as error:
        raise MemoryError(_too_large(mesh, resolution, spacing, math.prod(shape))) from error
    if width is not None and blocks_have_signs(frame, method):
        fill_narrow_band(frame, method, values, origin - shift, step, width, progress)
    else:
        rows = values.reshape(-1, shape[2])
        for part, query in _samples(frame, shape, origin - shift, step):
            rows[part] = distance(query, method).reshape(-1, shape[2])
            if progress is not None:
                progress(part.stop * shape[2], math.prod(shape))
        if width is not None:
            values.clip(-width, width, out=values)
    return SdfGrid(mesh.library.wrap(values), origin, step)


@sdf_grid.define_adjoint
def sdf_grid_adjoint(
    mesh: Mesh,
    *,
    resolution: int | None = None,
    spacing: float | None = None,
    padding: float = 0.1,
    sign: str = "auto",
    narrow_band: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    adj_values: Any,
) -> MeshGradients:
    """Gradients of `sdf_grid`: the cotangent of the values to the mesh's vertices, the grid staying where it is.

    Args:
        mesh, resolution, spacing, padding, sign, narrow_band: as given to `sdf_grid`.
        progress: called as progress(done, total) with numbers of samples.
        adj_values: (nx, ny, nz) cotangent of the values. Where it is 0 nothing is computed.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError, MeshError: as `sdf_grid`; a cotangent of the wrong shape.

    Cost: two queries a sample whose cotangent is not 0. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> g = gk.sdf_grid.adjoint(gk.shapes.box(), resolution=3, padding=0.5, adj_values=np.ones((3, 3, 3)))
        >>> g.vertices.shape
        (8, 3)
    """
    mesh, shape, origin, step = _placed(mesh, resolution, spacing, padding)
    width = _band(narrow_band, step, mesh.dtype)
    frame, shift = _near_origin(mesh)
    method = choose("sdf_grid", frame, sign)
    adj = as_array(
        adj_values, op="sdf_grid.adjoint", name="adj_values", shape=shape, dtype=mesh.dtype, device=mesh.device
    ).reshape(-1, shape[2])
    total = namespace(mesh.device).zeros((mesh.n_vertices, 3), np.float64)
    for part, query in _samples(frame, shape, origin - shift, step):
        weight = adj[part].reshape(-1)
        some = weight != 0
        if some.any():
            query = Points("sdf_grid", frame, query.array[some])
            weight, signed = weight[some], distance(query, method)
            if width is not None:
                weight = weight * (abs(signed) < width)
            total += adj_distance_of(query, method, signed, weight)[1]
        if progress is not None:
            progress(part.stop * shape[2], math.prod(shape))
    return MeshGradients(mesh.library.wrap(total.astype(mesh.dtype)))


def _placed(
    mesh: Any, resolution: int | None, spacing: float | None, padding: float
) -> tuple[Mesh, tuple[int, int, int], np.ndarray, float]:
    mesh = as_mesh(mesh)
    if mesh.n_faces == 0:
        raise MeshError(message("sdf_grid", "mesh", "at least one face", "none"))
    return mesh, *_layout(mesh, resolution, spacing, padding)


def _band(narrow_band: float | None, step: float, dtype: np.dtype) -> float | None:
    """Half the width of the band in world units, within the range of the distances."""
    if narrow_band is None:
        return None
    expected = "None, or a finite number of at least 1"
    width = _number("narrow_band", narrow_band, expected)
    if not 1 <= width < math.inf:
        raise ValueError(message("sdf_grid", "narrow_band", expected, reprlib.repr(narrow_band)))
    return min(width * step, float(np.finfo(dtype).max) / 4)


def _samples(
    frame: Mesh, shape: tuple[int, int, int], corner: np.ndarray, step: float
) -> Iterator[tuple[slice, Points]]:
    """Rows of samples, so many at a time as the scratch memory allows, and their points."""
    xp, (nx, ny, nz) = namespace(frame.device), shape
    x, y, z = (xp.asarray(corner[k] + step * np.arange(n)) for k, n in enumerate(shape))
    height = max(1, BLOCK[frame.device] // nz)
    for start in range(0, nx * ny, height):
        row = xp.arange(start, min(start + height, nx * ny))
        points = xp.empty((len(row), nz, 3), frame.dtype)
        points[:, :, 0], points[:, :, 1], points[:, :, 2] = x[row // ny, None], y[row % ny, None], z
        yield slice(start, start + len(row)), Points("sdf_grid", frame, points.reshape(-1, 3))


def grid_format(path: Path, op: str) -> str:
    """The format that a file name asks for.

    Raises:
        ValueError: none that is known.
    """
    extension = path.suffix.lower().removeprefix(".")
    if extension not in GRID_FORMATS:
        known = ", ".join(f".{known}" for known in GRID_FORMATS)
        raise ValueError(message(op, "path", f"a file name ending in {known}", str(path)))
    return extension


def _layout(
    mesh: Mesh, resolution: int | None, spacing: float | None, padding: float
) -> tuple[tuple[int, int, int], np.ndarray, float]:
    """Shape, origin and spacing of the grid."""
    if resolution is not None and spacing is not None:
        raise ValueError(message("sdf_grid", "resolution, spacing", "one of the two", "both"))
    if resolution is None and spacing is None:
        raise ValueError(message("sdf_grid", "resolution, spacing", "one of the two", "neither"))
    share = _number("padding", padding, "a finite number of at least 0")
    if not 0 <= share < math.inf:
        raise ValueError(message("sdf_grid", "padding", "a finite number of at least 0", repr(padding)))
    extent = [float(high) - float(low) for low, high in zip(*mesh.bounds, strict=True)]
    side = [length + 2 * share * max(extent) for length in extent]
    if not max(side) < 0.5 * float(np.finfo(mesh.dtype).max):
        expected = f"a number that leaves the grid within the range of {mesh.dtype}"
        raise ValueError(message("sdf_grid", "padding", expected, repr(padding)))
    if resolution is not None:
        count = _number("resolution", resolution, "an integer of at least 2")
        if not (2 <= count < math.inf and count.is_integer()):
            raise ValueError(message("sdf_grid", "resolution", "an integer of at least 2", reprlib.repr(resolution)))
        step = max(side) / (count - 1)
        if not step > 0:
            raise ValueError(message("sdf_grid", "spacing", "a number, as the mesh is but a point", "None"))
    else:
        step = _number("spacing", spacing, "a positive number")
        if not 0 < step < math.inf:
            raise ValueError(message("sdf_grid", "spacing", "a positive number", repr(spacing)))
    # A side that is a whole number of steps but for rounding takes just these. (A quotient may overflow.)
    nx, ny, nz = (max(0, math.ceil(min(length / step, sys.float_info.max) - 1e-9)) + 1 for length in side)
    if nx * ny * nz * mesh.dtype.itemsize > _memory(mesh.device):
        raise ValueError(_too_large(mesh, resolution, spacing, nx * ny * nz))
    return (nx, ny, nz), mesh.center - 0.5 * step * (np.array([nx, ny, nz]) - 1), step


def _number(name: str, value: Any, expected: str) -> float:
    """An argument as a float; infinite if it is an integer beyond all floats."""
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        pass
    raise TypeError(message("sdf_grid", name, expected, reprlib.repr(value)))


def _memory(device: str) -> int:
    """Bytes of memory that the machine or the device has, in use or not."""
    if device == "cuda":
        return namespace(device).cuda.Device().mem_info[1]
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _too_large(mesh: Mesh, resolution: Any, spacing: Any, total: int) -> str:
    name, value, change = ("resolution", resolution, "smaller") if spacing is None else ("spacing", spacing, "larger")
    size = total * mesh.dtype.itemsize
    memory = f"{size / 2**30:,.1f} GiB" if size < 2**60 else f"{_rounded(size)} bytes"
    expected = f"a {change} number, as the {_rounded(total)} samples would take {memory}"
    return message("sdf_grid", name, expected, reprlib.repr(value))


def _rounded(n: int) -> str:
    """An integer of any size in few characters."""
    return f"{n:,}" if n < 10**15 else f"{str(n)[0]}e{len(str(n)) - 1}"


def _near_origin(mesh: Mesh) -> tuple[Mesh, np.ndarray]:
    """The mesh, moved to the origin if points at its place are rounded by more than 1e-6 of its size, and the shift."""
    rounding = 0.5 * np.spacing(np.abs(mesh.bounds).max().astype(mesh.dtype))
    if rounding <= 1e-6 * mesh.diagonal:
        return mesh, np.zeros(3)
    xp = namespace(mesh.device)
    vertices = (mesh.vertices_array.astype(np.float64) - xp.asarray(mesh.center)).astype(mesh.dtype)
    return Mesh(vertices, mesh.faces_array), mesh.center


def _vti_head(values: np.ndarray, origin: np.ndarray, spacing: float) -> bytes:
    """A VTI file up to its appended data, the number of whose bytes comes first."""
    extent = " ".join(f"0 {n - 1}" for n in values.shape)
    place = f'Origin="{" ".join(map(repr, origin.tolist()))}" Spacing="{spacing!r} {spacing!r} {spacing!r}"'
    kind = "Float32" if values.dtype == np.float32 else "Float64"
    head = (
        '<?xml version="1.0"?>\n'
        '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">\n'
        f'<ImageData WholeExtent="{extent}" {place}>\n'
        f'<Piece Extent="{extent}">\n<PointData Scalars="distance">\n'
        f'<DataArray type="{kind}" Name="distance" format="appended" offset="0"/>\n'
        "</PointData>\n</Piece>\n</ImageData>\n"
        '<AppendedData encoding="raw">\n_'
    )
    return head.encode() + values.nbytes.to_bytes(8, "little")
