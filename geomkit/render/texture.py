"""Textures: images on surfaces, looked up between texels and between levels of detail; forward and adjoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geomkit.arrays import as_array
from geomkit.errors import message
from geomkit.runtime.device import empty, namespace, sort_order, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["Pyramid", "Texture", "texture_array"]

_SOURCE = "render/texture.cu"
_SHAPE = "int width, int height, int levels, int channels, int wrap_u, int wrap_v"
texture_fwd = Kernel(
    _SOURCE, "texture_fwd", f"{_SHAPE}, const real* texels, const real* uv, const real* level, real* out"
)
texture_adj = Kernel(
    _SOURCE,
    "texture_adj",
    f"{_SHAPE}, const real* texels, const real* uv, const real* level, const real* adj_out, real* adj_uv, int* cells",
)
texel_adj = Kernel(
    _SOURCE,
    "texel_adj",
    f"{_SHAPE}, const real* uv, const real* level, const real* adj_out, const int* order, const int* start, "
    "double* adj_texels",
)

WRAPS = ("repeat", "clamp", "mirror")
FILTERS = ("bilinear", "mipmap")
MOST = 1 << 29  # texels of a pyramid: cells are counted by 32-bit numbers


@dataclass(frozen=True)
class Texture:
    """An image that a material takes albedo, metallic, roughness or emission from, by the uv of its object.

    Row 0 of the image is on top, where v is 1; texel (i, j) has its centre at u = (i + 0.5) / W, v = 1 - (j + 0.5) / H.

    Attributes:
        image: (H, W, 3) linear RGB for albedo and emission, (H, W) for metallic and roughness. Floats: an 8-bit image
            is x.astype(float) / 255, and an sRGB one has to be made linear as well.
        wrap: what is beyond [0, 1]: "repeat", "clamp" (the nearest texel of the border) or "mirror".
        filter: "bilinear" between the four texels nearest; or "mipmap", trilinear: as that, in smaller copies of the
            image where a pixel's sample covers more than a texel, so that what is far away does not flicker. The level
            follows from the distance along the ray, the angle to the surface, and how large the triangle's texels are.
            It is a constant to gradients.
    """

    image: Any
    wrap: str = "repeat"
    filter: str = "bilinear"


def texture_array(path: str, image: Any, channels: int, dtype: Any, device: str) -> Any:
    """A texture's image as an array (H, W, channels) of floats, checked."""
    kind = str(getattr(image, "dtype", ""))
    if "int" in kind or "bool" in kind:
        # 255 would be a colour of 255; and what is a whole number has no gradient.
        wanted = "floats of linear light: x.astype(float) / 255, and ((x + 0.055) / 1.055)**2.4 of that if it is sRGB"
        raise TypeError(message("render", path, wanted, kind))
    flat = channels == 1 and np.ndim(image) == 2
    shape = ("H", "W") if flat else ("H", "W", channels)
    array = as_array(image, op="render", name=path, shape=shape, dtype=dtype, device=device)
    if 0 in array.shape:
        raise ValueError(message("render", path, "an image of at least one texel", str(array.shape)))
    if array.shape[0] * array.shape[1] > MOST:
        raise ValueError(message("render", path, f"at most {MOST} texels", str(array.shape)))
    return array.reshape(*array.shape[:2], channels)


class Pyramid:
    """An image, and smaller copies of it if it is to be filtered.

    Args:
        image: (H, W, C) of a texture.
        wrap_u, wrap_v: of "repeat", "clamp", "mirror".
        mipmap: whether there are smaller copies: each half as large, rounded down, down to one texel. A texel is the
            mean of what it covers.

    Attributes:
        levels: number of images.
    """

    def __init__(self, image: Any, wrap_u: str, wrap_v: str, *, mipmap: bool = False):
        self.device = "cpu" if isinstance(image, np.ndarray) else "cuda"
        self.xp, self.dtype = namespace(self.device), image.dtype
        h, w, self.channels = image.shape
        self.shapes = [(h, w)]
        images = [image]
        while mipmap and max(self.shapes[-1]) > 1:
            images.append(_halved(self.xp, _halved(self.xp, images[-1], 0), 1))
            self.shapes.append(images[-1].shape[:2])
        self.levels = len(images)
        texels = [x.reshape(-1, self.channels) for x in images]
        self.texels = self.xp.ascontiguousarray(texels[0] if len(texels) == 1 else self.xp.concatenate(texels))
        self.shape = w, h, self.levels, self.channels, WRAPS.index(wrap_u), WRAPS.index(wrap_v)

    def values(self, uv: Any, level: Any = None) -> Any:
        """(N, C) at places (N, 2); of a pyramid with several levels, at levels (N,) between them."""
        out = empty(self.device, (len(uv), self.channels), self.dtype)
        texture_fwd(len(uv), *self.shape, self.texels, uv, self._level(level), out)
        return out

    def adjoint(self, uv: Any, level: Any, adj: Any) -> tuple[Any, Any]:
        """Cotangents of the image (H, W, C), in float64, and of uv, for that (N, C) of `values`. The level is fixed.

        The same bits whatever the number of threads: the places are sorted by texel, and each texel sums its own.
        """
        xp, n, each = self.xp, len(uv), min(self.levels, 2)
        cells = sum((h + 1) * (w + 1) for h, w in self.shapes)
        adj_uv = empty(self.device, (n, 2), self.dtype)
        cell = empty(self.device, n * each, np.int32)
        texture_adj(n, *self.shape, self.texels, uv, self._level(level), adj, adj_uv, cell)
        order = sort_order(cell.astype(np.uint64), cells.bit_length())
        start = zeros(self.device, cells + 1, np.int32)
        xp.cumsum(xp.bincount(cell, minlength=cells), out=start[1:])
        total = empty(self.device, (len(self.texels), self.channels), np.float64)
        texel_adj(len(self.texels), *self.shape, uv, self._level(level), adj, order, start, total)
        return self._collapsed(total), adj_uv

    def _level(self, level: Any) -> Any:
        return empty(self.device, 0, self.dtype) if self.levels == 1 else level

    def _collapsed(self, total: Any) -> Any:
        """The cotangent of the image, from those of all levels."""
        parts, end = [], len(total)
        for h, w in reversed(self.shapes):
            parts.append(total[end - h * w : end].reshape(h, w, self.channels))
            end -= h * w
        adj = parts[0]
        for part in parts[1:]:
            h, w = part.shape[:2]
            back = _halved_adj(self.xp, _halved_adj(self.xp, adj, 1, w), 0, h)
            adj = part + back
        return adj


def _weights(xp: Any, n: int) -> Any:
    """(3, n // 2) what texels 2i, 2i + 1 and 2i + 2 of n give to texel i of half as many: their share of it."""
    m = n // 2
    if n % 2 == 0:
        return xp.broadcast_to(xp.asarray([[0.5], [0.5], [0.0]]), (3, m))
    i = xp.arange(m)
    return xp.stack([(m - i) / n, xp.full(m, m / n), (i + 1) / n])


def _halved(xp: Any, image: Any, axis: int) -> Any:
    n = image.shape[axis]
    if n == 1:
        return image
    x = xp.moveaxis(image, axis, 0)
    m = n // 2
    weights = _weights(xp, n).astype(image.dtype).reshape(3, m, *([1] * (x.ndim - 1)))
    out = weights[0] * x[0 : 2 * m : 2] + weights[1] * x[1 : 2 * m : 2]
    if n % 2:
        out += weights[2] * x[2::2]
    return xp.moveaxis(out, 0, axis)


def _halved_adj(xp: Any, adj: Any, axis: int, n: int) -> Any:
    if n == 1:
        return adj
    a = xp.moveaxis(adj, axis, 0)
    m = n // 2
    weights = _weights(xp, n).reshape(3, m, *([1] * (a.ndim - 1)))
    out = xp.zeros((n, *a.shape[1:]), np.float64)
    out[0 : 2 * m : 2] = weights[0] * a
    out[1 : 2 * m : 2] = weights[1] * a
    if n % 2:
        out[2::2] += weights[2] * a
    return xp.moveaxis(out, 0, axis)
