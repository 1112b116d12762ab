"""The commands and their options. What they do is imported when they run, so that help is quick."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import geomkit
from geomkit.autodiff.recording import paused
from geomkit.cli import photographs, pictures, volumes
from geomkit.files import destination

app = typer.Typer(
    name="geomkit",
    help="Rays, signed distances, closest points and isosurfaces of triangle meshes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MeshFile = Annotated[Path, typer.Argument(metavar="MESH", help="A .glb, .obj, .off, .ply or .stl file.")]
Sign = Annotated[str, typer.Option(help="auto, pseudonormal, winding, parity or unsigned.")]
Dtype = Annotated[str, typer.Option(help="float32, or float64 for coordinates with many digits.")]
Vector = tuple[float, float, float]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
STOPPED = 130
Bad = (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Rays, signed distances, closest points and isosurfaces of triangle meshes."""
    context.with_resource(paused())
    if version:
        print(geomkit.__version__)
        raise typer.Exit


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine has, what geomkit uses of it, and what could be installed."""
    from geomkit.cli import doctor

    found = doctor.examine()
    print(json.dumps(found, indent=2) if as_json else doctor.describe(found))
    if not found["cpu"]["works"]:
        raise typer.Exit(2)


@app.command()
def info(mesh: MeshFile, as_json: Json = False) -> None:
    """Say what is right and wrong with a mesh."""
    from geomkit.cli.info import numbers

    loaded = geomkit.load_mesh(mesh)
    print(json.dumps(numbers(loaded), indent=2) if as_json else loaded.report())


@app.command()
def sdf(
    mesh: MeshFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz, .npy or .vti file.")],
    resolution: Annotated[int | None, typer.Option(help="Samples along the longest side; 128 if none.")] = None,
    spacing: Annotated[float | None, typer.Option(help="Between samples, instead of --resolution.")] = None,
    padding: Annotated[float, typer.Option(help="Left free around the mesh, as a share of its longest side.")] = 0.1,
    sign: Sign = "auto",
    dtype: Dtype = "float32",
) -> None:
    """Write the signed distance to a mesh on a regular grid."""
    from geomkit.cli.progress import bar
    from geomkit.implicit.grid import grid_format

    grid_format(output, "sdf")
    destination(output)
    loaded = geomkit.load_mesh(mesh, dtype=dtype)
    if spacing is None and resolution is None:
        resolution = 128
    with bar("signed distance") as progress:
        grid = geomkit.sdf_grid(
            loaded, resolution=resolution, spacing=spacing, padding=padding, sign=sign, progress=progress
        )
    grid.save(output)
    inside = 100 * float((grid.values < 0).mean())
    shape = " x ".join(map(str, grid.values.shape))
    print(f"{output}: {shape} samples {grid.values.dtype}, {inside:.3g} % inside")
    print(f"origin {' '.join(map(repr, grid.origin.tolist()))}, spacing {grid.spacing!r}")
    if output.suffix.lower() == ".npy":
        print("a .npy file holds the values only: note origin and spacing, or write .npz or .vti")


@app.command()
def query(
    mesh: MeshFile,
    points: Annotated[Path, typer.Argument(metavar="POINTS", help="A .npy, .npz, .csv, .txt or .xyz file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz or .csv file.")],
    what: Annotated[
        str, typer.Option(help="Which of distance, point, face, winding; with commas between them.")
    ] = "distance,point,face,winding",
    sign: Sign = "auto",
    dtype: Dtype = "float32",
) -> None:
    """Write distance, closest point, its face, and winding number for each point of a file."""
    from geomkit.cli.query import POINTS, WHAT, answer
    from geomkit.cli.table import parse_what, table_format, write_table

    asked = parse_what("query", what, WHAT)
    table_format("query", output)
    destination(output)
    at = POINTS.read(points)
    columns = answer(geomkit.load_mesh(mesh, dtype=dtype), at, asked, sign)
    write_table("query", output, columns)
    print(f"{output}: {len(at)} points, {', '.join(columns)}")


for volume in (volumes.remesh, volumes.offset, volumes.voxelize):
    app.command()(volume)


@app.command()
def raycast(
    mesh: MeshFile,
    rays: Annotated[
        Path, typer.Argument(metavar="RAYS", help="A .npy, .npz, .csv or .txt file: ox, oy, oz, dx, dy, dz.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz or .csv file.")],
    what: Annotated[
        str, typer.Option(help="Which of t, face, barycentric, normal, position, count; with commas between them.")
    ] = "t,face,barycentric,normal,position",
    t_min: Annotated[float, typer.Option(help="Where a ray begins, in units of its direction.")] = 0.0,
    t_max: Annotated[float, typer.Option(help="Where a ray ends.")] = math.inf,
    cull: Annotated[str, typer.Option(help="Faces that are not hit: none, back or front.")] = "none",
    dtype: Dtype = "float32",
) -> None:
    """Write where each ray of a file first hits a mesh, and on request how often it does."""
    from geomkit.cli.raycast import RAYS, WHAT, answer
    from geomkit.cli.table import parse_what, table_format, write_table

    asked = parse_what("raycast", what, WHAT)
    table_format("raycast", output)
    destination(output)
    at = RAYS.read(rays)
    columns = answer(geomkit.load_mesh(mesh, dtype=dtype), at, asked, t_min=t_min, t_max=t_max, cull=cull)
    write_table("raycast", output, columns)
    print(f"{output}: {len(at)} rays, {', '.join(columns)}")


app.command()(pictures.render)
app.command()(photographs.fit)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of the pictures.")] = Path("geomkit-demo"),
    mesh: Annotated[Path | None, typer.Option(help="A mesh of your own instead of the one that ships.")] = None,
) -> None:
    """Do the main job on a mesh that ships: signed distance, its gradients, and pictures of both."""
    from geomkit.cli.demo import run

    run(output, mesh)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """Measure geomkit beside its peers: `python -m geomkit.bench` with the same arguments."""
    raise typer.Exit(subprocess.call([sys.executable, "-m", "geomkit.bench", *context.args]))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Errors are one line on stderr and exit code 2; Ctrl-C is exit code 130.

    Args:
        arguments: those of the process if None.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        warnings.simplefilter("always", geomkit.SignWarning)
        try:
            code = app(arguments, prog_name="geomkit", standalone_mode=False)
        except KeyboardInterrupt:
            code = STOPPED
        except Exception as error:
            code = _explain(error, "--debug" in arguments)
    if code == STOPPED:
        _fail("stopped", STOPPED)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception, debug: bool) -> int:
    """Print an error as one line; what nobody foresaw keeps its traceback."""
    kind = type(error).__name__
    if kind == "Abort":
        return STOPPED
    if kind == "NoArgsIsHelpError":
        print(error)
        return 2
    if hasattr(error, "format_message"):
        # A usage error of the parser, whose class has moved between releases of typer.
        return _fail(f"{error.format_message()} (see --help)", 2)  # type: ignore[attr-defined]
    if debug or not isinstance(error, Bad):
        raise error
    if isinstance(error, OSError) and error.filename is not None:
        return _fail(f"{error.filename}: {error.strerror}", 2)
    return _fail(str(error).partition("\n")[0] or kind, 2)


def _fail(text: str, code: int) -> int:
    print(f"geomkit: {text}", file=sys.stderr)
    return code


def _print_warning(text: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    print(f"geomkit: warning: {text}", file=sys.stderr)
