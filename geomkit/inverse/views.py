"""Photographs and their cameras, at several sizes, as a fit compares them with renderings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from geomkit.arrays import as_array, describe, imported, to_host
from geomkit.errors import ColorSpaceWarning, message, warn
from geomkit.render.camera import Camera
from geomkit.render.color import EncodedImage, srgb_to_linear

__all__ = ["Views", "scaled_camera"]


def scaled_camera(camera: Camera, scale: int) -> Camera:
    """The camera of an image whose pixels are means of scale x scale of the old ones."""
    if scale == 1:
        return camera
    shrink = np.diag([1 / scale, 1 / scale, 1.0])
    return replace(
        camera, K=shrink @ np.asarray(camera.K), width=camera.width // scale, height=camera.height // scale
    )


class Views:
    """Images with their cameras.

    Args:
        images: (H, W, C) linear floats of any library: C = 1 a silhouette, 3 colours, 4 colours and alpha, not
            multiplied. Integers and `EncodedImage`s are sRGB codes: made linear, with a warning.
        cameras: as many.

    Attributes:
        images: (H, W, C) float32, colours multiplied by alpha.
        channels: what a rendering needs to be compared: "color", "mask" or both.

    Raises:
        ValueError: numbers, sizes or channels that do not fit one another.
        TypeError: what is no image or no Camera.
    """

    def __init__(self, images: Any, cameras: Any):
        op = "fit"
        if not isinstance(cameras, Iterable) or isinstance(cameras, str):
            raise TypeError(message(op, "cameras", "a list of Cameras, one for each image", type(cameras).__name__))
        if not isinstance(images, Iterable) or isinstance(images, str):
            raise TypeError(message(op, "images", "a list of images, one for each camera", type(images).__name__))
        self.cameras: list[Camera] = list(cameras.values() if isinstance(cameras, Mapping) else cameras)
        given = list(images.values() if isinstance(images, Mapping) else images)
        if len(given) != len(self.cameras) or not given:
            got = f"{len(given)} and {len(self.cameras)}"
            raise ValueError(message(op, "images, cameras", "as many cameras as images, at least one", got))
        self.images: list[np.ndarray] = []
        for k, (image, camera) in enumerate(zip(given, self.cameras, strict=True)):
            if not isinstance(camera, Camera):
                raise TypeError(message(op, f"cameras[{k}]", "a Camera", type(camera).__name__))
            self.images.append(_linear(op, f"images[{k}]", image, camera))
            if self.images[k].shape[2] != self.images[0].shape[2]:
                expected = f"{self.images[0].shape[2]} channels, as images[0]"
                raise ValueError(message(op, f"images[{k}]", expected, describe(image)))
        count = self.images[0].shape[2]
        self.channels = {1: ("mask",), 3: ("color",), 4: ("color", "mask")}[count]
        self._kept: dict[int, list[np.ndarray]] = {1: self.images}

    def __len__(self) -> int:
        return len(self.images)

    def divides(self, scale: int) -> bool:
        """Whether all images have sizes that are multiples of it."""
        return all(n % scale == 0 for image in self.images for n in image.shape[:2])

    def target(self, k: int, scale: int) -> dict[str, np.ndarray]:
        """The channels of an image, of pixels that are means of scale x scale."""
        if scale not in self._kept:
            self._kept = {1: self.images, scale: [_shrunk(image, scale) for image in self.images]}
        image = self._kept[scale][k]
        if self.channels == ("mask",):
            return {"mask": image}
        out = {"color": image[:, :, :3]}
        return out | {"mask": image[:, :, 3:]} if "mask" in self.channels else out

    def batch(self, iteration: int, size: int | None, seed: int) -> np.ndarray:
        """The views of an iteration: all, or in each pass over them all an order of its own, cut into pieces."""
        n = len(self)
        if size is None or size >= n:
            return np.arange(n)
        first = iteration * size
        drawn = []
        for place in range(first, first + size):
            drawn.append(int(np.random.default_rng((seed, place // n)).permutation(n)[place % n]))
        return np.array(drawn)


def _linear(op: str, name: str, image: Any, camera: Camera) -> np.ndarray:
    codes = isinstance(image, EncodedImage) or "int" in str(getattr(image, "dtype", ""))
    top = np.iinfo(imported(image).dtype).max if codes and not isinstance(image, EncodedImage) else 1
    shape = ("H", "W") if np.ndim(image) == 2 else ("H", "W", "C")
    array = as_array(to_host(imported(image)), op=op, name=name, shape=shape, dtype=np.float32)
    array = np.array(array if array.ndim == 3 else array[:, :, None]) / np.float32(top)
    if array.shape[:2] != (camera.height, camera.width) or array.shape[2] not in (1, 3, 4):
        expected = f"({camera.height}, {camera.width}, 1, 3 or 4) as its camera has it"
        raise ValueError(message(op, name, expected, describe(image)))
    if not np.isfinite(array).all():
        raise ValueError(message(op, name, "finite numbers", f"{int((~np.isfinite(array)).sum())} that are not"))
    if codes and array.shape[2] > 1:
        warn(f"{op}: {name} holds sRGB codes: they are made linear (gk.load_image does that)", ColorSpaceWarning)
        array[:, :, :3] = srgb_to_linear(array[:, :, :3])
    if array.shape[2] == 4:
        array[:, :, :3] *= array[:, :, 3:]
    return array


def _shrunk(image: np.ndarray, scale: int) -> np.ndarray:
    h, w, c = image.shape
    return image.reshape(h // scale, scale, w // scale, scale, c).mean(axis=(1, 3), dtype=np.float64).astype(np.float32)
