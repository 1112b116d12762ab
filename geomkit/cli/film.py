"""Pictures and turntables of scenes, as files."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from geomkit.cli.render import AZIMUTH, view
from geomkit.cli.studio import Look, Studio, developed, dressed, fitted, whole_mesh
from geomkit.errors import message, missing_package
from geomkit.files import replacing
from geomkit.render.image_io import save_image
from geomkit.render.scene import Scene

DEVELOPED = (".png", ".jpg", ".jpeg")
GIF_MILLISECONDS, MP4_RATE = 50, 30  # of a frame; frames a second


def shoot(
    scene: Scene,
    look: Look,
    path: Path,
    frames: int | None,
    options: dict[str, Any],
    progress: Callable[[int, int], None],
) -> str:
    """Write a picture of a scene, or a turntable of some frames.

    Args:
        scene: as loaded.
        look: what it is to look like.
        path: of the file, whose end says what it is.
        frames: of a turntable, or None.
        options: of the camera, as for `view`.
        progress: called with the parts done and all there are.

    Returns:
        What was written, in words.

    Raises:
        ValueError, MeshError: options that do not fit the scene.
        ImportError: MP4 without what writes it.
    """
    if path.suffix.lower() == ".mp4":
        check_mp4(options["width"], options["height"])
    if frames is not None and options["eye"] is not None:
        raise ValueError(message("render", "turntable", "it without --eye", "both"))
    look = look.chosen(scene)
    whole = whole_mesh(scene)
    start = AZIMUTH if options["azimuth"] is None else options["azimuth"]
    turns: list[dict[str, Any]] = (
        [options] if frames is None else [options | {"azimuth": start + 360 * k / frames} for k in range(frames)]
    )
    cameras = [view(whole, **turn) for turn in turns]
    if options["eye"] is None:
        cameras = fitted(cameras, np.asarray(whole.vertices_array, np.float64))
    scene = dressed(scene, look)
    if frames is None:
        camera = cameras[0]
        image = Studio(scene, whole, camera, look).radiance(camera, progress)
        extension = path.suffix.lower()
        if extension == ".npz":
            with replacing(path) as file:
                np.savez(file, color=image.astype(np.float32), K=camera.K, world_to_camera=camera.world_to_camera)
        else:
            save_image(path, developed(image) if extension in DEVELOPED else image)
        return f"{look.samples**2} samples a pixel, light: {look.light}\n{camera}"
    pictures = []
    for k, camera in enumerate(cameras):

        def advance(done: int, total: int, k: int = k) -> None:
            progress(k * total + done, frames * total)

        image = developed(Studio(scene, whole, camera, look).radiance(camera, advance))
        pictures.append(_levels(image))
    write_film(path, pictures)
    return f"{frames} frames, {look.samples**2} samples a pixel, light: {look.light}"


def _levels(image: np.ndarray) -> np.ndarray:
    from geomkit.render.color import linear_to_srgb

    return np.rint(255 * linear_to_srgb(np.clip(image, 0, 1))).astype(np.uint8)


def check_mp4(width: int, height: int) -> None:
    """Refuse what MP4 does not take, before the work.

    Raises:
        ImportError: imageio-ffmpeg is missing.
        ValueError: an odd size.
    """
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        raise missing_package("imageio-ffmpeg", "video", "render: .mp4")
    if width % 2 or height % 2:
        raise ValueError(message("render", "width, height", "even numbers for .mp4", f"{width}, {height}"))


def write_film(path: Path, frames: list[np.ndarray]) -> None:
    """Write (H, W, 3) uint8 frames as a GIF that repeats, or as MP4."""
    import imageio.v3

    if path.suffix.lower() == ".gif":
        from PIL import Image

        # One palette for all frames, so that nothing flickers; made of a few of them side by side.
        shown = np.concatenate(frames[:: max(1, len(frames) // 8)], axis=1)
        palette = Image.fromarray(shown).quantize(256, method=Image.Quantize.MEDIANCUT)
        few = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG) for frame in frames]
        with replacing(path) as file:
            few[0].save(file, "GIF", save_all=True, append_images=few[1:], duration=GIF_MILLISECONDS, loop=0)
        return
    # ffmpeg writes to a file of a name of its own.
    handle, name = tempfile.mkstemp(suffix=".mp4")
    os.close(handle)
    try:
        options = {"fps": MP4_RATE, "codec": "libx264", "quality": 8, "macro_block_size": 2}
        imageio.v3.imwrite(name, np.stack(frames), plugin="FFMPEG", **options)
        with replacing(path) as file:
            file.write(Path(name).read_bytes())
    finally:
        Path(name).unlink(missing_ok=True)
