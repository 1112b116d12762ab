"""Radiance's HDR files: three mantissas of 8 bits and a shared exponent."""

from __future__ import annotations

import re

import numpy as np

__all__ = ["read_hdr", "write_hdr"]

LITERAL = 128  # bytes at most that follow one count


def read_hdr(data: bytes) -> np.ndarray:
    """(H, W, 3) float32.

    Raises:
        ValueError: no such file, one whose rows do not go from the top down, or one that is cut short.
    """
    if not data.startswith(b"#?"):
        raise ValueError("it does not begin with #?RADIANCE")
    header, _, rest = data.partition(b"\n\n")
    if b"FORMAT=32-bit_rle_xyze" in header:
        raise ValueError("it holds XYZ colours")
    size = re.match(rb"-Y (\d+) \+X (\d+)\n", rest)
    if size is None:
        raise ValueError("its rows do not go from the top down")
    height, width = int(size[1]), int(size[2])
    body = np.frombuffer(rest, np.uint8, offset=size.end())
    rows = np.empty((height, 4, width), np.uint8)
    if len(body) == 4 * width * height:
        rows[:] = body.reshape(height, width, 4).transpose(0, 2, 1)
    else:
        at = 0
        for row in rows:
            at = _unpack_row(body, at, row)
    scale = np.ldexp(np.float32(1), rows[:, 3].astype(np.int32) - 136)
    scale[rows[:, 3] == 0] = 0
    return (rows[:, :3] * scale[:, None]).transpose(0, 2, 1).astype(np.float32)


def _unpack_row(body: np.ndarray, at: int, row: np.ndarray) -> int:
    width = row.shape[1]
    if body[at : at + 4].tolist() != [2, 2, width >> 8, width & 255]:
        raise ValueError("a row is cut short, or packed in a way older than 1991")
    at += 4
    for channel in row:
        done = 0
        while done < width:
            if at + 1 >= len(body):
                raise ValueError("it is cut short")
            count = int(body[at])
            run = count > LITERAL
            count -= LITERAL if run else 0
            if count == 0 or done + count > width or (not run and at + 1 + count > len(body)):
                raise ValueError("a row is longer than the image is wide")
            channel[done : done + count] = body[at + 1] if run else body[at + 1 : at + 1 + count]
            at += 2 if run else 1 + count
            done += count
    return at


def write_hdr(image: np.ndarray) -> bytes:
    """The file of an image (H, W, 3) of numbers from 0 on; each keeps 8 bits relative to its pixel's largest."""
    height, width, _ = image.shape
    largest = image.max(axis=2, initial=0).astype(np.float64)
    mantissa, exponent = np.frexp(largest)
    # What is rounded up to 256 would not fit its byte.
    exponent += np.rint(256 * mantissa) > 255
    exponent = np.where(largest > 1e-38, exponent, -128)
    rows = np.empty((height, 4, width), np.uint8)
    scaled = np.ldexp(image.astype(np.float64), (8 - exponent)[:, :, None])
    scaled[exponent == -128] = 0
    rows[:, :3] = np.rint(scaled).transpose(0, 2, 1)
    rows[:, 3] = exponent + 128
    header = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {height} +X {width}\n".encode()
    if not 8 <= width < 32768:
        return header + rows.transpose(0, 2, 1).tobytes()
    # Every row in the packed form, all of it literal: a flat row could be taken for a packed one.
    starts = range(0, width, LITERAL)
    counts = [np.full((height, 4, 1), min(LITERAL, width - first), np.uint8) for first in starts]
    parts = [
        x for first, count in zip(starts, counts, strict=True) for x in (count, rows[:, :, first : first + LITERAL])
    ]
    packed = np.concatenate(parts, axis=2).reshape(height, -1)
    head = np.broadcast_to(np.array([2, 2, width >> 8, width & 255], np.uint8), (height, 4))
    return header + np.concatenate([head, packed], axis=1).tobytes()
