"""The command that makes pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import geomkit
from geomkit.files import destination

SceneFile = Annotated[
    Path,
    typer.Argument(metavar="MESH", help="A .glb, .gltf, .obj, .off, .ply or .stl file, with materials or without."),
]
Vector = tuple[float, float, float]


def render(
    mesh: SceneFile,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="A .png or .jpg picture; .exr, .hdr, .npy or .npz values; a .gif or .mp4 turntable."
        ),
    ],
    channel: Annotated[str, typer.Option(help="color, or depth, normal (of the world) or face.")] = "color",
    width: Annotated[int, typer.Option(help="In pixels.")] = 640,
    height: Annotated[int, typer.Option(help="In pixels.")] = 480,
    samples: Annotated[int, typer.Option(help="Along each side of a pixel; more for less grain.")] = 5,
    light: Annotated[
        str | None, typer.Option(help="studio, sun, sky, or scene for the file's; that if it has lights, else studio.")
    ] = None,
    albedo: Annotated[
        str | None, typer.Option(metavar="COLOR", help="Of all objects: a name, #rrggbb, or r,g,b from 0 to 1.")
    ] = None,
    background: Annotated[
        str, typer.Option(metavar="COLOR", help="As for --albedo, or none for transparent, without a ground.")
    ] = "#f2f2f2",
    ground: Annotated[bool, typer.Option(help="Below it, to take its shadow; not with --light scene.")] = True,
    turntable: Annotated[int | None, typer.Option(metavar="N", help="N frames of a whole turn, as GIF or MP4.")] = None,
    fov: Annotated[float, typer.Option(help="Vertical field of view, in degrees.")] = 40.0,
    azimuth: Annotated[float | None, typer.Option(help="Degrees about --up; 30 if none.")] = None,
    elevation: Annotated[float | None, typer.Option(help="Degrees above the horizon; 20 if none.")] = None,
    eye: Annotated[Vector | None, typer.Option(metavar="X Y Z", help="Camera, instead of angles.")] = None,
    target: Annotated[
        Vector | None, typer.Option(metavar="X Y Z", help="What it looks at; the middle if none.")
    ] = None,
    up: Annotated[Vector, typer.Option(metavar="X Y Z", help="Upwards in the picture.")] = (0.0, 1.0, 0.0),
    dtype: Annotated[str, typer.Option(help="float32, or float64 for coordinates with many digits.")] = "float32",
) -> None:
    """Draw what a camera sees of a mesh or a scene: the whole of it if no --eye is given."""
    from geomkit.cli.progress import bar
    from geomkit.cli.render import DIM, WHITE, check, draw, output_format, view

    extension = output_format(output, channel, turntable)
    check(channel, width, height, samples)
    destination(output)
    size: dict[str, Any] = {"width": width, "height": height, "fov": fov}
    angles: dict[str, Any] = {"azimuth": azimuth, "elevation": elevation, "eye": eye, "target": target, "up": up}
    if channel == "color":
        from geomkit.cli.film import shoot
        from geomkit.cli.studio import look_of

        look = look_of(light, albedo, background, ground, samples, up, extension)
        scene = geomkit.load_scene(mesh, dtype=dtype)
        with bar("rendering") as progress:
            said = shoot(scene, look, output, turntable, size | angles, progress)
        print(f"{output}: {said}")
        return
    loaded = geomkit.load_mesh(mesh, dtype=dtype)
    camera = view(loaded, **size, **angles)
    with bar("rendering") as progress:
        seen, span = draw(loaded, camera, channel, output, progress)
    print(f"{output}: {channel}, {100 * seen / (width * height):.3g} % of the pixels see the mesh")
    print(camera)
    if span is not None:
        greys = (f" ({WHITE})", f" ({DIM})") if output.suffix.lower() == ".png" else ("", "")
        print(f"depth {span[0]:g}{greys[0]} to {span[1]:g}{greys[1]}")
