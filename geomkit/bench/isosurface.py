"""Job `isosurface`: marching cubes of two fields, a ball's distance and a gyroid, and its adjoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import geomkit as gk
from geomkit.bench.contest import geomkit_tasks
from geomkit.bench.peer import installed, processors
from geomkit.bench.race import REST, Task, race
from geomkit.bench.row import Row, printing, table
from geomkit.runtime import host

__all__ = ["FIELDS", "PEERS", "main"]

SAME_AREA = 1e-2  # surfaces of the same field may be triangulated otherwise


def sphere(n: int) -> np.ndarray:
    """Distance to a ball that fills most of the grid, (n, n, n) float32."""
    x, y, z = _axes(n, 1.0)
    return np.sqrt(x * x + y * y + z * z) - np.float32(0.7)


def gyroid(n: int) -> np.ndarray:
    """Two and a half periods a side, (n, n, n) float32."""
    x, y, z = _axes(n, 2.5 * np.pi)
    return np.sin(x) * np.cos(y) + np.sin(y) * np.cos(z) + np.sin(z) * np.cos(x)


FIELDS: dict[str, Callable[[int], np.ndarray]] = {"sphere": sphere, "gyroid": gyroid}


def _axes(n: int, half: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    axis = np.linspace(-half, half, n, dtype=np.float32)
    return axis[:, None, None], axis[None, :, None], axis[None, None, :]


# ---- peers: each gives what runs it, and what reads vertices (N, 3), in any unit, and faces from the result


def _vtk(field: np.ndarray) -> tuple[Callable[[], Any], Callable[[Any], tuple]]:
    """Flying Edges, with the threads of STDThread (its default is slower), points and triangles only."""
    import vtk
    from vtk.util.numpy_support import numpy_to_vtk, vtk_to_numpy

    vtk.vtkSMPTools.SetBackend("STDThread")
    image = vtk.vtkImageData()
    image.SetDimensions(*field.shape[::-1])
    image.GetPointData().SetScalars(numpy_to_vtk(field.reshape(-1)))
    extract = vtk.vtkFlyingEdges3D()
    extract.SetInputData(image)
    extract.ComputeNormalsOff()
    extract.ComputeGradientsOff()
    extract.ComputeScalarsOff()
    extract.SetValue(0, 0.0)

    def run() -> Any:
        extract.Modified()
        extract.Update()
        return extract.GetOutput()

    def read(output: Any) -> tuple:
        faces = vtk_to_numpy(output.GetPolys().GetConnectivityArray()).reshape(-1, 3)
        return vtk_to_numpy(output.GetPoints().GetData()), faces

    return run, read


def _scikit_image(field: np.ndarray) -> tuple[Callable[[], Any], Callable[[Any], tuple]]:
    from skimage.measure import marching_cubes

    return lambda: marching_cubes(field, 0.0), lambda r: (r[0], r[1])


def _pymcubes(field: np.ndarray) -> tuple[Callable[[], Any], Callable[[Any], tuple]]:
    import mcubes

    return lambda: mcubes.marching_cubes(field, 0.0), lambda r: r


def _libigl(field: np.ndarray) -> tuple[Callable[[], Any], Callable[[Any], tuple]]:
    import igl

    n = field.shape[0]
    values = field.astype(np.float64).ravel(order="F")
    z, y, x = np.meshgrid(*[np.arange(float(n))] * 3, indexing="ij")
    places = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
    return lambda: igl.marching_cubes(values, places, n, n, n, 0.0), lambda r: (r[0], r[1])


def _warp(field: np.ndarray) -> tuple[Callable[[], Any], Callable[[Any], tuple]]:
    import warp
    import warp.geometry

    warp.config.log_level = warp.LOG_WARNING
    warp.init()
    given: Any = warp.array(field, dtype=float, device="cpu")
    with warp.ScopedDevice("cpu"):
        extract = warp.geometry.IsoSurfaceMarchingCubes(*field.shape)

    def run() -> Any:
        extract.surface(given, 0.0)
        return extract

    return run, lambda r: (r.verts.numpy(), r.indices.numpy().reshape(-1, 3))


# By key: name, module, package, one thread only, and what runs it.
PEERS: dict[str, tuple[str, str, str, bool, Callable]] = {
    "vtk": ("VTK Flying Edges", "vtk", "vtk", False, _vtk),
    "scikit-image": ("scikit-image", "skimage", "scikit-image", True, _scikit_image),
    "pymcubes": ("PyMCubes", "mcubes", "PyMCubes", True, _pymcubes),
    "libigl": ("libigl", "igl", "libigl", True, _libigl),
    "warp": ("Warp", "warp", "warp-lang", True, _warp),
}


def main(arguments: Sequence[str]) -> int:
    """Run the job; rows go to standard output, the table to standard error.

    Args:
        arguments: what follows `isosurface` on the command line.

    Returns:
        the exit status: 1 if some of geomkit's surfaces are wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m geomkit.bench isosurface", description=__doc__)
    parser.add_argument("sizes", metavar="N", nargs="*", type=int, help="samples a side (default 128 256 512)")
    parser.add_argument("--fields", default=",".join(FIELDS), help=f"some of {','.join(FIELDS)}")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"some of {','.join(PEERS)}, or none")
    parser.add_argument("--repeat", metavar="N", type=int, default=5, help="runs of each, the best counts (default 5)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows to this file, too")
    options = parser.parse_args(arguments)
    fields, peers = options.fields.split(","), [] if options.peers == "none" else options.peers.split(",")
    for name, given, known in (("--fields", fields, FIELDS), ("--peers", peers, PEERS)):
        if set(given) - set(known):
            parser.error(f"{name}: expected some of {','.join(known)}, got {','.join(given)}")
    if options.repeat < 1 or min(options.sizes, default=2) < 2:
        parser.error("expected at least 2 samples a side, and one run")
    host.set_num_threads(min(host.num_threads(), processors()))
    rows: list[Row] = []
    with printing(options.json) as report:
        for n in options.sizes or (128, 256, 512):
            for name in fields:
                for row in _contest(name, n, installed(PEERS, peers), options.repeat):
                    rows.append(row)
                    report([row])
    table(rows)
    return 1 if any(row.own and row.check != "ok" for row in rows) else 0


def _contest(name: str, n: int, peers: Sequence[str], rounds: int) -> list[Row]:
    """Rows of all contenders on one field; the adjoint's ratio is to the forward function's time."""
    field = FIELDS[name](n)
    mesh = gk.marching_cubes(field)
    trilinear = gk.marching_cubes(field, topology="trilinear")
    area, adj = mesh.area, np.ones_like(mesh.vertices)
    tasks = geomkit_tasks("geomkit", lambda: gk.marching_cubes(field), lambda r, k: np.empty(0), n**3)
    extra = (
        ("geomkit trilinear", lambda: gk.marching_cubes(field, topology="trilinear")),
        ("geomkit adjoint", lambda: gk.marching_cubes.adjoint(field, adj_vertices=adj, result=mesh)),
        ("geomkit adjoint alone", lambda: gk.marching_cubes.adjoint(field, adj_vertices=adj)),
    )
    tasks += [Task(who, run, lambda r, k: np.empty(0), n**3, host.num_threads()) for who, run in extra]
    own = "ok" if mesh.is_oriented and abs(trilinear.area / area - 1) < SAME_AREA else "wrong surface"
    checks = [(own, 0.0)] * len(tasks)
    for key in peers:
        who, _, _, single, make = PEERS[key]
        try:
            run, read = make(field)
            vertices, faces = read(run())
            # Some work in units of the grid, some in the unit box: the area is compared at the size of ours.
            scale = np.ptp(mesh.vertices, axis=0).max() / np.ptp(vertices, axis=0).max()
            error = abs(gk.Mesh(vertices.astype(np.float32), faces.astype(np.int32)).area * scale**2 / area - 1)
            checks.append(("ok" if error < SAME_AREA else "wrong surface", float(error)))
        except Exception as error:
            # A peer may fail in its own way; the others go on.
            checks.append((f"failed: {type(error).__name__}: {error}", np.inf))
            run = None
        threads = 1 if single else processors()
        tasks.append(Task(who, run if run else lambda: None, lambda r, k: np.empty(0), n**3, threads))
    timings = race(tasks, rounds, rest=REST if peers else 0.0)
    rows = []
    for task, timing, (check, error) in zip(tasks, timings, checks, strict=True):
        row = Row(f"isosurface {name}", f"{n}^3", mesh.n_faces, n**3, task.who, task.threads, rounds, check=check)
        row.error = error
        if not check.startswith("failed"):
            row.seconds, row.cpu_seconds, row.setup_seconds = timing.wall, timing.cpu, 0.0
            row.rate = n**3 / timing.wall
            row.ratio, row.cpu_ratio = timing.wall / timings[0].wall, timing.cpu / timings[0].cpu
            row.ratio_with_setup = row.ratio
        rows.append(row)
    return rows
