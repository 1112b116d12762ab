"""From samples to pixels: reconstruction filters and windows of an image, and the way back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from geomkit.errors import message
from geomkit.render.pixel_rays import PixelWindow
from geomkit.render.surface import film, film_adj
from geomkit.runtime.device import device_of, namespace

__all__ = ["FILTERS", "Film", "whole_film"]

FILTERS = {"box": 0, "triangle": 1, "gaussian": 2}  # and by how many pixels each reaches beyond its own
SPREAD = 0.5  # standard deviation of the Gaussian, in pixels; it ends at four of them, as Mitsuba's does
_ROOT = math.sqrt(2) * SPREAD
_FLOOR = math.exp(-8.0)
_GAUSSIAN = _ROOT * math.sqrt(math.pi) * math.erf(2 / _ROOT) - 4 * _FLOOR  # its integral


class Film:
    """The part of an image that is wanted, and how pixels are made of samples.

    Args:
        width, height: of the whole image.
        rows, columns: (first, last) of the part, or None for all.
        filter: of FILTERS.
        samples: along a side of a pixel.

    Attributes:
        left, top, columns, rows: of the part.
        reach: pixels around it whose samples count as well.
    """

    def __init__(self, op: str, width: int, height: int, *, rows: Any, columns: Any, filter: str, samples: int):
        if filter not in FILTERS:
            raise ValueError(message(op, "filter", "'box', 'triangle' or 'gaussian'", repr(filter)))
        self.image_width, self.image_height = width, height
        self.top, bottom = _part(op, "rows", rows, height)
        self.left, right = _part(op, "columns", columns, width)
        self.rows, self.columns = bottom - self.top, right - self.left
        self.filter, self.reach, self.samples = filter, FILTERS[filter], samples
        offsets = np.arange(-self.reach, self.reach + 1)
        inside = (np.arange(samples) + 0.5) / samples - 0.5
        weights = self._filter(inside[None, :] - offsets[:, None])
        weights /= weights.sum()
        # (D * D, n * n) of a pixel's samples in it and its neighbours: by neighbour, row by row; and by sample.
        self.weights = np.einsum("ak,bl->abkl", weights, weights).reshape(len(offsets) ** 2, samples**2)

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of where samples are, in pixels of the whole image."""
        r = self.reach
        return self.left - r, self.top - r, self.left + self.columns + r, self.top + self.rows + r

    def tiles(self, most: int, dtype: Any, device: str) -> Iterator[PixelWindow]:
        """Windows of rows, with at most that many samples if a row has no more."""
        left, top, right, bottom = self.bounds
        if self.columns == 0:
            return
        step = max(1, most // ((right - left) * self.samples**2))
        for first in range(top, bottom, step):
            yield PixelWindow(left, first, right - left, min(step, bottom - first), self.samples, dtype, device)

    def _neighbours(self, window: PixelWindow) -> Iterator[tuple[int, slice, slice, slice, slice]]:
        """Which pixels of the part the pixels of a window reach: k, rows and columns of the part, and of the window."""
        left, top, _, _ = self.bounds
        size, r = 2 * self.reach + 1, self.reach
        for k in range(size**2):
            # Of window pixel (i, j) to part pixel (i + y, j + x).
            y, x = window.top - top - r + k // size - r, window.left - left - r + k % size - r
            rows = slice(max(y, 0), min(y + window.rows, self.rows))
            columns = slice(max(x, 0), min(x + window.columns, self.columns))
            if rows.start < rows.stop and columns.start < columns.stop:
                yield k, rows, columns, slice(rows.start - y, rows.stop - y), slice(columns.start - x, columns.stop - x)

    def reaches(self, pixel: Any) -> Any:
        """(N,) whether places (N, 2) of the whole image count."""
        left, top, right, bottom = self.bounds
        x, y = pixel[:, 0], pixel[:, 1]
        return (x >= left) & (x < right) & (y >= top) & (y < bottom)

    def add(self, xp: Any, image: Any, window: PixelWindow, value: Any) -> None:
        """Add what the samples of a window see (N, C) to the image (rows, columns, C) of the part."""
        if self.reach == 0:
            first = window.top - self.top
            film(value, self.samples**2, image[first : first + window.rows])
            return
        value = value.reshape(window.rows * window.columns, self.samples**2, -1)
        shares = xp.einsum("ks,psc->kpc", xp.asarray(self.weights, dtype=value.dtype), value, optimize=True)
        shares = shares.reshape(-1, window.rows, window.columns, image.shape[2])
        for k, rows, columns, from_rows, from_columns in self._neighbours(window):
            image[rows, columns] += shares[k, from_rows, from_columns]

    def to_samples(self, xp: Any, adj: Any, window: PixelWindow) -> Any:
        """(N, C) cotangents of the samples of a window, for that of the image."""
        if self.reach == 0:
            first = window.top - self.top
            return film_adj(adj[first : first + window.rows], self.samples**2, window.device)
        around = xp.zeros((len(self.weights), window.rows, window.columns, adj.shape[2]), adj.dtype)
        for k, rows, columns, from_rows, from_columns in self._neighbours(window):
            around[k, from_rows, from_columns] = adj[rows, columns]
        around = around.reshape(len(self.weights), -1, adj.shape[2])
        weights = xp.asarray(self.weights, dtype=adj.dtype)
        each = xp.einsum("ks,kpc->psc", weights, around, optimize=True)
        return xp.ascontiguousarray(each.reshape(-1, adj.shape[2]))

    def at(self, xp: Any, adj: Any, pixel: Any) -> Any:
        """(N, C) the cotangent of the image spread by the filter, at places (N, 2) of the whole image."""
        out = xp.zeros((len(pixel), adj.shape[2]), adj.dtype)
        if self.columns == 0 or self.rows == 0:
            return out
        base = xp.floor(pixel).astype(np.int64)
        r = self.reach
        for y in range(-r, r + 1):
            for x in range(-r, r + 1):
                column, row = base[:, 0] + x, base[:, 1] + y
                weight = self._filter(pixel[:, 0] - column - 0.5) * self._filter(pixel[:, 1] - row - 0.5)
                column, row = column - self.left, row - self.top
                inside = (column >= 0) & (column < self.columns) & (row >= 0) & (row < self.rows)
                place = xp.where(inside, row, 0), xp.where(inside, column, 0)
                out += xp.where(inside, weight, 0)[:, None].astype(adj.dtype) * adj[place]
        return out

    def _filter(self, x: Any) -> Any:
        """The filter along one axis, for distances from the centre of a pixel; its integral is 1."""
        if self.filter == "box":
            return 1.0 + 0 * x
        xp = namespace(device_of(x))
        if self.filter == "triangle":
            return xp.maximum(1 - abs(x), 0)
        return xp.maximum(xp.exp(-(x * x) / (2 * SPREAD**2)) - _FLOOR, 0) / _GAUSSIAN


def whole_film(camera: Any) -> Film:
    """All of an image, with a box filter."""
    return Film("render", camera.width, camera.height, rows=None, columns=None, filter="box", samples=1)


def _part(op: str, name: str, given: Any, size: int) -> tuple[int, int]:
    """First and last of a part, checked."""
    if given is None:
        return 0, size
    expected = f"(first, last), 0 <= first <= last <= {size}"
    try:
        first, last = (int(x.__index__()) for x in given)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(message(op, name, expected, repr(given))) from error
    if not 0 <= first <= last <= size:
        raise ValueError(message(op, name, expected, repr(given)))
    return first, last
