"""Textures: bilinear between texels, on arrays of one device, forward and adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.runtime.device import device_of, namespace

__all__ = ["texel_colors", "texel_colors_adj"]


def texel_colors(texture: Any, uv: Any) -> Any:
    """Colours of a texture that repeats.

    Args:
        texture: (H, W, C); row 0 is on top, where v is 1; texel (i, j) has its centre at ((i + 0.5) / W,
            1 - (j + 0.5) / H).
        uv: (N, 2).

    Returns:
        (N, C).
    """
    (i, j), (x, y) = _place(texture, uv)
    a, b, c, d = _four(texture, i, j)
    top, bottom = a + x * (b - a), c + x * (d - c)
    return top + y * (bottom - top)


def texel_colors_adj(texture: Any, uv: Any, adj: Any) -> tuple[Any, Any]:
    """The cotangents of the texture (H, W, C) and of uv (N, 2)."""
    xp = namespace(device_of(texture))
    h, w, channels = texture.shape
    (i, j), (x, y) = _place(texture, uv)
    a, b, c, d = _four(texture, i, j)
    adj_x = (((b - a) * (1 - y) + (d - c) * y) * adj).sum(axis=1)
    adj_y = ((c + x * (d - c) - a - x * (b - a)) * adj).sum(axis=1)
    adj_uv = xp.stack([w * adj_x, -h * adj_y], axis=1).astype(texture.dtype)
    total = xp.zeros((h * w, channels), np.float64)
    i1, j1 = (i + 1) % w, (j + 1) % h
    for row, column, weight in ((j, i, (1 - x) * (1 - y)), (j, i1, x * (1 - y)), (j1, i, (1 - x) * y), (j1, i1, x * y)):
        for k in range(channels):
            share = (weight[:, 0] * adj[:, k]).astype(np.float64)
            total[:, k] += xp.bincount(row * w + column, weights=share, minlength=h * w)
    return total.reshape(h, w, channels).astype(texture.dtype), adj_uv


def _place(texture: Any, uv: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The texel to the upper left, and how far beyond its centre."""
    xp = namespace(device_of(texture))
    h, w = texture.shape[:2]
    x, y = w * uv[:, 0] - 0.5, h * (1 - uv[:, 1]) - 0.5
    left, top = xp.floor(x), xp.floor(y)
    index = (left.astype(np.int64) % w, top.astype(np.int64) % h)
    return index, ((x - left)[:, None].astype(texture.dtype), (y - top)[:, None].astype(texture.dtype))


def _four(texture: Any, i: Any, j: Any) -> tuple[Any, Any, Any, Any]:
    h, w = texture.shape[:2]
    i1, j1 = (i + 1) % w, (j + 1) % h
    return texture[j, i], texture[j, i1], texture[j1, i], texture[j1, i1]
