"""Pictures of a mesh: depth, normals, or faces, as one camera sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import geomkit
from geomkit.errors import message
from geomkit.files import replacing
from geomkit.mesh import Mesh
from geomkit.render.camera import Camera

CHANNELS = ("color", "depth", "normal", "face")
IMAGE_FORMATS = (".png", ".npy", ".npz")
COLOR_FORMATS = (".png", ".jpg", ".jpeg", ".exr", ".hdr", ".npy", ".npz")
FILM_FORMATS = (".gif", ".mp4")
MOST_SAMPLES = 64  # along a side of a pixel
LARGEST = 1 << 15  # pixels a side
TILE = 1 << 18  # rays at a time, about 100 bytes each
WHITE = 65535
DIM = 13107  # of the farthest depth: a fifth of white, which stands out from the background
AZIMUTH, ELEVATION = 30.0, 20.0

Vector = tuple[float, float, float]


def output_format(path: Path, channel: str, turntable: int | None) -> str:
    """The format that a file name asks for.

    Raises:
        ValueError: none that is known of such a channel; a turntable that is none, or has no frames to turn.
    """
    formats, extension = IMAGE_FORMATS, path.suffix.lower()
    if turntable is not None:
        if channel != "color":
            raise ValueError(message("render", "turntable", "it with the channel color", channel))
        if turntable < 2:
            raise ValueError(message("render", "turntable", "at least 2 frames", str(turntable)))
        formats = FILM_FORMATS
    elif channel == "color":
        if extension in FILM_FORMATS:
            raise ValueError(message("render", "turntable", f"a number of frames for {extension}", "none"))
        formats = COLOR_FORMATS
    if extension not in formats:
        raise ValueError(message("render", "output", f"a file name ending in {', '.join(formats)}", str(path)))
    return extension


def check(channel: str, width: int, height: int, samples: int = 1) -> None:
    """Refuse what no mesh would make right.

    Raises:
        ValueError: a channel that is none, a size that is too large or less than one pixel, or so for samples.
    """
    if channel not in CHANNELS:
        raise ValueError(message("render", "channel", f"one of {', '.join(CHANNELS)}", repr(channel)))
    for name, pixels in (("width", width), ("height", height)):
        if not 1 <= pixels <= LARGEST:
            raise ValueError(message("render", name, f"pixels in [1, {LARGEST}]", str(pixels)))
    if not 1 <= samples <= MOST_SAMPLES:
        raise ValueError(message("render", "samples", f"a number in [1, {MOST_SAMPLES}]", str(samples)))


def view(
    mesh: Mesh,
    *,
    width: int,
    height: int,
    fov: float,
    azimuth: float | None,
    elevation: float | None,
    eye: Vector | None,
    target: Vector | None,
    up: Vector,
) -> Camera:
    """The camera that the options describe: one that frames the mesh, or one at `eye`.

    Raises:
        ValueError: angles beside `eye`, `target` without it, or as for `Camera`.
    """
    size: dict[str, Any] = {"fov": fov, "width": width, "height": height}
    if eye is None:
        if target is not None:
            raise ValueError(message("render", "target", "--eye beside it", "none"))
        azimuth = AZIMUTH if azimuth is None else azimuth
        elevation = ELEVATION if elevation is None else elevation
        return Camera.framing(mesh, azimuth=azimuth, elevation=elevation, up=up, **size)
    for name, angle in (("azimuth", azimuth), ("elevation", elevation)):
        if angle is not None:
            raise ValueError(message("render", name, "it without --eye", f"{angle:g} beside it"))
    return Camera.look_at(eye, mesh.center if target is None else target, up, **size)


def cast(
    mesh: Mesh, camera: Camera, channel: str, *, encode: Callable[[np.ndarray], np.ndarray], progress: Callable
) -> tuple[np.ndarray, int]:
    """A channel of the first hits of all pixels, a tile of rows at a time.

    Args:
        mesh: the mesh.
        camera: the camera.
        channel: one of CHANNELS but color.
        encode: from the values of a tile, (rows, width) or (rows, width, 3), to what the image holds of them.
        progress: called with the rows done and the rows there are.

    Returns:
        The image (height, width) or (height, width, 3), and how many of its pixels see the mesh.
    """
    image, seen = np.empty(0), 0
    step = max(1, TILE // camera.width)
    for first in range(0, camera.height, step):
        end = min(first + step, camera.height)
        hits = geomkit.cast_rays(mesh, *camera.rays(rows=(first, end), dtype=mesh.dtype))
        seen += int(np.count_nonzero(hits.face >= 0))
        values = np.asarray(hits.t if channel == "depth" else getattr(hits, channel))
        tile = encode(values.reshape(end - first, camera.width, *values.shape[1:]))
        if first == 0:
            image = np.empty((camera.height, *tile.shape[1:]), tile.dtype)
        image[first:end] = tile
        progress(end, camera.height)
    return image, seen


def draw(
    mesh: Mesh, camera: Camera, channel: str, path: Path, progress: Callable[[int, int], None]
) -> tuple[int, tuple[float, float] | None]:
    """Write a channel as a picture (.png) or as the values themselves (.npy, or .npz with the camera beside them).

    In a picture depth is grey, of 16 bits, nearest white and farthest a fifth of it; a normal is the colour
    (normal + 1) / 2; a face has a colour of its number, the same each time. The background is black. As values it is
    depth inf, normal 0, face -1.

    Returns:
        How many pixels see the mesh; and, for depths that are seen, the least and the greatest.
    """
    extension = path.suffix.lower()
    encode = {"normal": normal_colours, "face": face_colours}.get(channel) if extension == ".png" else None
    image, seen = cast(mesh, camera, channel, encode=_same if encode is None else encode, progress=progress)
    span = None
    if channel == "depth" and seen:
        depths = image[image < np.inf]
        span = float(depths.min()), float(depths.max())
    if channel == "depth" and extension == ".png":
        image = depth_greys(image, span)
    with replacing(path) as file:
        if extension == ".png":
            import imageio.v3

            file.write(imageio.v3.imwrite("<bytes>", image, extension=".png"))
        elif extension == ".npy":
            np.save(file, image)
        else:
            values: dict[str, Any] = {channel: image, "K": camera.K, "world_to_camera": camera.world_to_camera}
            np.savez(file, **values)
    return seen, span


def depth_greys(depth: np.ndarray, span: tuple[float, float] | None) -> np.ndarray:
    """uint16: WHITE at the first number of the span, DIM at the second, 0 for inf."""
    grey = np.zeros(depth.shape, np.uint16)
    if span is not None:
        near, far = span
        seen = depth < np.inf
        share = (far - depth[seen].astype(np.float64)) / (far - near) if far > near else 1.0
        grey[seen] = np.rint(DIM + (WHITE - DIM) * share)
    return grey


def normal_colours(normal: np.ndarray) -> np.ndarray:
    """uint8: (normal + 1) / 2 of white, and black where the normal is 0."""
    colours = np.rint((normal + 1) * 127.5).astype(np.uint8)
    colours[~normal.any(axis=-1)] = 0
    return colours


def face_colours(face: np.ndarray) -> np.ndarray:
    """uint8: a colour that only depends on the number, neighbours far apart, and black for -1."""
    bits = (face.astype(np.uint32) + np.uint32(1)) * np.uint32(0x9E3779B1)
    bits = (bits ^ (bits >> 15)) * np.uint32(0x85EBCA77)
    bits ^= bits >> 13
    levels = np.stack([bits & 255, (bits >> 8) & 255, (bits >> 16) & 255], axis=-1)
    colours = (64 + levels * 3 // 4).astype(np.uint8)
    colours[face < 0] = 0
    return colours


def _same(values: np.ndarray) -> np.ndarray:
    return values
