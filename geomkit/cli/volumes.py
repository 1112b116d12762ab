"""The commands that make meshes and voxels anew from signed distances."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

import geomkit
from geomkit.errors import message
from geomkit.files import destination
from geomkit.mesh.io import FORMATS

MeshFile = Annotated[Path, typer.Argument(metavar="MESH", help="A .glb, .obj, .off, .ply or .stl file.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="A .glb, .obj, .off, .ply or .stl file.")]
Resolution = Annotated[int, typer.Option(help="Samples along the longest side.")]
Sign = Annotated[str, typer.Option(help="auto, pseudonormal, winding, parity or unsigned.")]


def remesh(
    mesh: MeshFile,
    output: Output,
    resolution: Resolution = 128,
    sign: Sign = "auto",
    thin: Annotated[str, typer.Option(help="keep or drop what is lost between the samples.")] = "keep",
    project: Annotated[bool, typer.Option("--project", help="Move vertices to the old surface.")] = False,
) -> None:
    """Make a watertight mesh of one of any quality."""
    from geomkit.cli.progress import bar

    _check(output, "remesh")
    loaded = geomkit.load_mesh(mesh)
    with bar("remesh") as progress:
        made = geomkit.remesh(loaded, resolution, sign=sign, thin=thin, project=project, progress=progress)
    _save(made, output, "remesh")


def offset(
    mesh: MeshFile,
    output: Output,
    distance: Annotated[float, typer.Option(help="In the mesh's length unit; negative goes inside.")],
    resolution: Resolution = 128,
    sign: Sign = "auto",
) -> None:
    """Make the surface at a distance from a mesh."""
    from geomkit.cli.progress import bar

    _check(output, "offset")
    loaded = geomkit.load_mesh(mesh)
    with bar("offset") as progress:
        made = geomkit.offset(loaded, distance, resolution=resolution, sign=sign, progress=progress)
    _save(made, output, "offset")


def voxelize(
    mesh: MeshFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz file: values, origin and spacing.")],
    resolution: Annotated[int, typer.Option(help="Cubes along the longest side.")] = 64,
    sign: Sign = "auto",
    fill: Annotated[str, typer.Option(help="solid, surface or both.")] = "both",
) -> None:
    """Write the cubes that a mesh fills."""
    import numpy as np

    from geomkit.cli.progress import bar
    from geomkit.files import replacing

    if output.suffix.lower() != ".npz":
        raise ValueError(message("voxelize", "output", "a file name ending in .npz", str(output)))
    destination(output)
    loaded = geomkit.load_mesh(mesh)
    with bar("voxelize") as progress:
        voxels = geomkit.voxelize(loaded, resolution, sign=sign, fill=fill, progress=progress)
    with replacing(output) as file:
        np.savez_compressed(file, values=voxels.values, origin=voxels.origin, spacing=np.float64(voxels.spacing))
    shape = " x ".join(map(str, voxels.values.shape))
    print(f"{output}: {shape} cubes of side {voxels.spacing!r}, {int(voxels.values.sum())} filled")


def _check(output: Path, op: str) -> None:
    """Learn of a wrong path before the long work."""
    if output.suffix.lower().removeprefix(".") not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise ValueError(message(op, "output", f"a file name ending in {endings}", str(output)))
    destination(output)


def _save(mesh: geomkit.Mesh, output: Path, op: str) -> None:
    if mesh.n_faces == 0:
        warnings.warn(f"{op}: no surface is left, so the mesh has no faces", stacklevel=2)
    mesh.save(output)
    print(f"{output}: {mesh.n_vertices} vertices, {mesh.n_faces} faces")
