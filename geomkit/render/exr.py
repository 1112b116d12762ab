"""OpenEXR files: one part of scan lines, packed by ZIP, ZIPS, RLE or not at all."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

__all__ = ["read_exr", "write_exr"]

MAGIC = 20000630
COMPRESSIONS = ("none", "RLE", "ZIPS", "ZIP", "PIZ", "PXR24", "B44", "B44A", "DWAA", "DWAB")
ROWS = {"none": 1, "RLE": 1, "ZIPS": 1, "ZIP": 16}  # of a block
KINDS = (np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4"))
LAYERS = {1: ("Y",), 2: ("Y", "A"), 3: ("R", "G", "B"), 4: ("R", "G", "B", "A")}
OTHER_FLAGS = 0x1A00  # tiles, deep data, several parts


def read_exr(data: bytes) -> np.ndarray:
    """(H, W, C) float32: channels R, G, B and A, or Y and A, of those that the file has; its data window.

    Raises:
        ValueError: what is none of these, and how it is packed.
    """
    magic, version = struct.unpack("<II", data[:8])
    if magic != MAGIC:
        raise ValueError("it does not begin as OpenEXR does")
    if version & OTHER_FLAGS:
        raise ValueError("it has tiles, deep data or several parts")
    header, at = _header(data)
    packing = COMPRESSIONS[header["compression"][0]]
    if packing not in ROWS:
        raise ValueError(f"it is packed by {packing}: ZIP, ZIPS, RLE and none are read")
    left, top, right, bottom = struct.unpack("<4i", header["dataWindow"])
    width, height = right - left + 1, bottom - top + 1
    channels = _channels(header["channels"])
    layers = next((x for x in reversed(LAYERS.values()) if set(x) <= set(channels)), None)
    if layers is None:
        raise ValueError(f"its channels are {', '.join(channels)}: R, G, B, A or Y, A are read")
    line = sum(kind.itemsize for kind in channels.values()) * width
    out = np.empty((height, width, len(layers)), np.float32)
    blocks = -(-height // ROWS[packing])
    for start in struct.unpack(f"<{blocks}Q", data[at : at + 8 * blocks]):
        y, size = struct.unpack("<ii", data[start : start + 8])
        first, rows = y - top, min(ROWS[packing], bottom + 1 - y)
        block = _unpacked(data[start + 8 : start + 8 + size], rows * line, packing)
        lines, offset = np.frombuffer(block, np.uint8).reshape(rows, line), 0
        for name, kind in channels.items():
            if name in layers:
                values = np.ascontiguousarray(lines[:, offset : offset + kind.itemsize * width]).view(kind)
                out[first : first + rows, :, layers.index(name)] = values
            offset += kind.itemsize * width
    return out


def _header(data: bytes) -> tuple[dict[str, bytes], int]:
    """The attributes by name, and where they end."""
    found, at = {}, 8
    while data[at]:
        name_end = data.index(b"\0", at)
        kind_end = data.index(b"\0", name_end + 1)
        (size,) = struct.unpack("<i", data[kind_end + 1 : kind_end + 5])
        found[data[at:name_end].decode()] = data[kind_end + 5 : kind_end + 5 + size]
        at = kind_end + 5 + size
    return found, at + 1


def _channels(data: bytes) -> dict[str, np.dtype]:
    """The type of each channel, in the order in which a line holds them."""
    found, at = {}, 0
    while data[at]:
        end = data.index(b"\0", at)
        kind, _, x, y = struct.unpack("<iIii", data[end + 1 : end + 17])
        if (x, y) != (1, 1):
            raise ValueError("a channel has fewer samples than pixels")
        found[data[at:end].decode()] = KINDS[kind]
        at = end + 17
    return found


def _unpacked(block: bytes, size: int, packing: str) -> bytes:
    # A block that packing would make larger is left as it is.
    if packing == "none" or len(block) == size:
        return block
    raw = np.frombuffer(_runs(block) if packing == "RLE" else zlib.decompress(block), np.uint8)
    if len(raw) != size:
        raise ValueError("a block is cut short")
    steps = raw.astype(np.int64)
    steps[1:] -= 128
    halves, out = np.cumsum(steps).astype(np.uint8), np.empty(size, np.uint8)
    out[::2], out[1::2] = halves[: (size + 1) // 2], halves[(size + 1) // 2 :]
    return out.tobytes()


def _runs(block: bytes) -> bytes:
    out, at = bytearray(), 0
    while at < len(block):
        count = block[at] - 256 if block[at] > 127 else block[at]
        if count < 0:
            out += block[at + 1 : at + 1 - count]
            at += 1 - count
        else:
            out += block[at + 1 : at + 2] * (count + 1)
            at += 2
    return bytes(out)


def _packed(block: bytes) -> bytes:
    raw = np.frombuffer(block, np.uint8)
    halves = np.concatenate([raw[::2], raw[1::2]])
    steps = halves.copy()
    steps[1:] = halves[1:] - halves[:-1] + np.uint8(128)
    small = zlib.compress(steps.tobytes(), 6)
    return small if len(small) < len(block) else block


def write_exr(image: np.ndarray) -> bytes:
    """The file of an image (H, W, C) float32 of 1 to 4 channels, packed by ZIP."""
    height, width, count = image.shape
    layers = LAYERS[count]
    order = sorted(layers)
    listed = b"".join(name.encode() + b"\0" + struct.pack("<iIii", 2, 0, 1, 1) for name in order) + b"\0"
    window = struct.pack("<4i", 0, 0, width - 1, height - 1)
    attributes: dict[str, tuple[str, Any]] = {
        "channels": ("chlist", listed),
        "compression": ("compression", bytes([COMPRESSIONS.index("ZIP")])),
        "dataWindow": ("box2i", window),
        "displayWindow": ("box2i", window),
        "lineOrder": ("lineOrder", b"\0"),
        "pixelAspectRatio": ("float", struct.pack("<f", 1)),
        "screenWindowCenter": ("v2f", struct.pack("<2f", 0, 0)),
        "screenWindowWidth": ("float", struct.pack("<f", 1)),
    }
    head = struct.pack("<II", MAGIC, 2)
    for name, (kind, value) in attributes.items():
        head += name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<i", len(value)) + value
    head += b"\0"
    planes = image[:, :, [layers.index(name) for name in order]].astype("<f4").transpose(0, 2, 1)
    starts = range(0, height, ROWS["ZIP"])
    blocks = [_packed(np.ascontiguousarray(planes[y : y + ROWS["ZIP"]]).tobytes()) for y in starts]
    blocks = [struct.pack("<ii", y, len(block)) + block for y, block in zip(starts, blocks, strict=True)]
    sizes = np.cumsum([len(head) + 8 * len(blocks), *map(len, blocks)])
    return head + sizes[:-1].astype("<u8").tobytes() + b"".join(blocks)
