"""The command that makes a scene of photographs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path, typer.Argument(metavar="DATASET", help="A folder with NeRF's transforms.json or COLMAP's text model.")
]


def fit(
    dataset: Folder,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of what is found; made if need be.")],
    init: Annotated[Path | None, typer.Option(help="A mesh to start from instead of a ball.")] = None,
    optimise: Annotated[
        str, typer.Option(help="Which of shape, texture, light, camera, focal; with commas between them.")
    ] = "shape,texture",
    iterations: Annotated[int, typer.Option(help="In all, the texture's last ones apart.")] = 200,
    size: Annotated[int, typer.Option(help="Pixels: images are shrunk until no side is longer.")] = 256,
    views: Annotated[int | None, typer.Option(help="Views of each iteration; all if none.")] = None,
    detail: Annotated[int, typer.Option(help="Of the ball: how often its faces are divided into four.")] = 4,
    remesh: Annotated[bool, typer.Option(help="Once to half the edge length.")] = True,
    texture_size: Annotated[int, typer.Option(help="Texels along a side of the texture.")] = 512,
    smoothness: Annotated[float, typer.Option(help="Of the shape's steps.")] = 25.0,
    samples: Annotated[int, typer.Option(help="Along each side of a pixel.")] = 2,
    frames: Annotated[int, typer.Option(help="Of the turntable.")] = 36,
    split: Annotated[str, typer.Option(help="Of NeRF's files: train, val or test.")] = "train",
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was interrupted.")] = False,
) -> None:
    """Find shape and texture from photographs: writes GLB, OBJ, PLY, a turntable, and a report.html."""
    from geomkit.cli.fit import Choice, run

    run(
        dataset, output,
        Choice(
            init=init, optimise=tuple(filter(None, optimise.split(","))), iterations=iterations, size=size, views=views,
            detail=detail, remesh=remesh, texture_size=texture_size, smoothness=smoothness, samples=samples,
            frames=frames, split=split, seed=seed, resume=resume,
        ),
    )  # fmt: skip
