"""PNG files of 16 bits a channel, which image libraries for Python cut to 8."""

from __future__ import annotations

import struct
import zlib

import numpy as np

__all__ = ["is_deep", "read_png", "write_png"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by colour type
COLOUR_TYPES = {count: kind for kind, count in CHANNELS.items()}


def is_deep(data: bytes) -> bool:
    """Whether a file is a PNG of 16 bits."""
    return data[:8] == SIGNATURE and len(data) > 24 and data[24] == 16


def read_png(data: bytes) -> np.ndarray:
    """(H, W, C) uint16 of a PNG of 16 bits that is not interlaced.

    Raises:
        ValueError: it is another, or is cut short.
    """
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if depth != 16 or kind not in CHANNELS or interlaced:
        raise ValueError("a PNG of 16 bits is read if it is not interlaced")
    packed, at = [], 8
    while at + 8 <= len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        if name == b"IDAT":
            packed.append(data[at + 8 : at + 8 + length])
        at += 12 + length
    size = 2 * CHANNELS[kind]  # bytes a pixel
    raw = np.frombuffer(zlib.decompress(b"".join(packed)), np.uint8)
    if len(raw) != height * (1 + size * width):
        raise ValueError("it is cut short")
    rows = raw.reshape(height, 1 + size * width)
    pixels = _unfiltered(rows[:, 0], rows[:, 1:].reshape(height, width, size))
    return pixels.reshape(height, -1).view(">u2").astype(np.uint16).reshape(height, width, -1)


def write_png(image: np.ndarray) -> bytes:
    """A PNG of (H, W, C) uint16, each row as what it has more than the one above."""
    height, width, channels = image.shape
    rows = np.ascontiguousarray(image.astype(">u2")).reshape(height, -1).view(np.uint8)
    filtered = np.full((height, rows.shape[1] + 1), 2, np.uint8)
    filtered[:, 1:] = rows - np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
    header = struct.pack(">IIBBBBB", width, height, 16, COLOUR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 6)), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def _unfiltered(kinds: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The bytes (H, W, size) that filters were applied to.

    A pixel needs those to its left, above it, and to the upper left, so all of a diagonal are computed at once.
    """
    if kinds.max(initial=0) > 4:
        raise ValueError("a row has a filter that there is not")
    height, width, size = given.shape
    out = np.zeros((height + 1, width + 1, size), np.int16)
    for diagonal in range(height + width - 1):
        i = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        j = diagonal - i
        left, above, corner = out[i + 1, j], out[i, j + 1], out[i, j]
        estimate = left + above - corner
        to_left, to_above, to_corner = abs(estimate - left), abs(estimate - above), abs(estimate - corner)
        nearest = np.where(to_above <= to_corner, above, corner)
        paeth = np.where((to_left <= to_above) & (to_left <= to_corner), left, nearest)
        guesses = np.stack([np.zeros_like(left), left, above, (left + above) >> 1, paeth])
        out[i + 1, j + 1] = (given[i, j] + guesses[kinds[i], np.arange(len(i))]) & 255
    return np.ascontiguousarray(out[1:, 1:].astype(np.uint8))
