"""From a folder of photographs to a model: what `geomkit fit` does."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import geomkit
from geomkit.cli.film import write_film
from geomkit.cli.fit_report import write_report
from geomkit.cli.progress import bar
from geomkit.errors import message
from geomkit.inverse.dataset import Dataset
from geomkit.render.scene import Scene

NAME, LIGHT = "object", "light"
GREY = 0.5
FILLED = 0.5  # of what the narrowest view sees around where all look: the radius of the ball
TEXTURE_SHARE = 0.25  # iterations for the texture alone, of those before
FILM = 240  # pixels of the turntable


@dataclass(frozen=True)
class Choice:
    """The options of `geomkit fit`."""

    init: Path | None = None
    optimise: tuple[str, ...] = ("shape", "texture")
    iterations: int = 200
    size: int = 256
    views: int | None = None
    detail: int = 4
    remesh: bool = True
    texture_size: int = 512
    smoothness: float = 25.0
    samples: int = 2
    frames: int = 36
    split: str = "train"
    seed: int = 0
    resume: bool = False


def run(dataset: Path, output: Path, choice: Choice) -> None:
    """Fit a scene and write all of it into a folder.

    Args:
        dataset: as for `gk.load_dataset`.
        output: the folder, made if need be.
        choice: the options.

    Raises:
        ValueError, FileNotFoundError: as `gk.load_dataset` and `gk.fit`.
    """
    for name in ("size", "texture_size", "frames"):
        if getattr(choice, name) < 1:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(message("fit", option, "an integer of at least 1", str(getattr(choice, name))))
    whole = geomkit.load_dataset(dataset, split=choice.split)
    longest = max(max(camera.width, camera.height) for camera in whole.cameras)
    data = whole.shrunk(-(-longest // choice.size))
    output.mkdir(parents=True, exist_ok=True)
    alpha = data.images[0].shape[2] == 4
    height, width = data.images[0].shape[:2]
    print(f"{len(data)} views of {width} x {height} pixels")
    if not alpha:
        print("the images have no alpha: what is not the object is taken to be black")
    begin = time.monotonic()
    init = initial(data, choice)
    options: dict[str, Any] = {
        "views_per_step": choice.views, "samples": choice.samples, "seed": choice.seed,
        "smoothness": choice.smoothness,
    }  # fmt: skip
    with bar("fit") as progress:
        found = geomkit.fit(
            data.images, data.cameras, init, optimise=choice.optimise, iterations=choice.iterations,
            remesh=choice.remesh and "shape" in choice.optimise, progress=progress,
            checkpoint=output / "checkpoint.npz", resume=choice.resume, **options,
        )  # fmt: skip
    scene, losses = textured(found.scene, choice), [found.losses]
    if "texture" in choice.optimise:
        with bar("texture") as progress:
            steps = max(1, round(TEXTURE_SHARE * choice.iterations))
            last = geomkit.fit(
                data.images, found.cameras, scene, optimise="texture", iterations=steps, progress=progress,
                stages=[geomkit.Stage(steps)], **options,
            )  # fmt: skip
        scene = last.scene
        losses.append(last.losses)
    seconds = time.monotonic() - begin
    for extension in ("glb", "obj", "ply"):
        geomkit.save_scene(output / f"model.{extension}", scene)
    with bar("turntable") as progress:
        write_film(output / "turntable.gif", turntable(scene, data, choice.frames, progress))
    numbers = write_report(output, data, scene, found.cameras, losses, seconds)
    for name, value in numbers.items():
        print(f"{name}: {value}")
    print(f"{output}: model.glb, model.obj, model.ply, turntable.gif, loss.png, report.html")


def initial(data: Dataset, choice: Choice) -> Scene:
    """A grey ball where all views look, or the mesh that is given."""
    if choice.init is not None:
        mesh = geomkit.load_mesh(choice.init)
    else:
        center, radius = looked_at(data)
        ball = geomkit.shapes.icosphere(choice.detail)
        mesh = ball.with_vertices((radius * np.asarray(ball.vertices, np.float64) + center).astype(np.float32))
    material = geomkit.Material(np.full((mesh.n_vertices, 3), GREY, np.float32))
    # All light that there is in the images becomes the texture's.
    light = geomkit.ConstantLight(np.ones(3), visible=False)
    return Scene({NAME: geomkit.Object(mesh, material, smooth=True)}, {LIGHT: light})


def looked_at(data: Dataset) -> tuple[np.ndarray, float]:
    """The point nearest to the axes of all cameras, and the radius of a ball there that all of them see whole."""
    eyes = np.array([camera.eye for camera in data.cameras])
    axes = np.array([np.asarray(camera.world_to_camera)[2, :3] for camera in data.cameras])
    across = np.eye(3) - axes[:, :, None] * axes[:, None]
    center = np.linalg.lstsq(across.sum(axis=0), (across @ eyes[:, :, None]).sum(axis=0)[:, 0], rcond=None)[0]
    radii = []
    for camera, eye in zip(data.cameras, eyes, strict=True):
        K = np.asarray(camera.K)
        half = min(camera.width / (2 * K[0, 0]), camera.height / (2 * K[1, 1]))
        radii.append(np.linalg.norm(center - eye) * math.sin(math.atan(half)))
    return center, FILLED * float(min(radii))


def textured(scene: Scene, choice: Choice) -> Scene:
    """The scene with a texture instead of colours at its vertices."""
    thing = scene.objects[NAME]
    colors = np.asarray(thing.material.albedo)
    cut = geomkit.unwrap_uv(thing.mesh, resolution=choice.texture_size)
    image = geomkit.bake_texture(cut.mesh, cut.uv, colors[np.asarray(cut.vertex)], resolution=choice.texture_size)
    # Smooth normals are by index, and the mesh is cut: faces are small enough to be seen as they are.
    made = replace(thing, mesh=cut.mesh, uv=cut.uv, material=replace(thing.material, albedo=image), smooth=False)
    return Scene({NAME: made}, scene.lights)


def turntable(scene: Scene, data: Dataset, frames: int, progress: Any) -> list[np.ndarray]:
    """Pictures all around, (H, W, 3) uint8, on white."""
    out = []
    mesh = scene.objects[NAME].mesh
    for k in range(frames):
        camera = geomkit.Camera.framing(mesh, width=FILM, height=FILM, azimuth=360 * k / frames, up=data.up)
        seen = geomkit.render(scene, camera, channels=("color", "mask"), samples=3, seed=k)
        image = np.clip(np.asarray(seen.color) + 1 - np.asarray(seen.mask), 0, 1)
        out.append(np.rint(255 * geomkit.linear_to_srgb(image)).astype(np.uint8))
        progress(k + 1, frames)
    return out
