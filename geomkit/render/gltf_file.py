"""glTF and GLB files: the document, its buffers, its images, and where its nodes are."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

__all__ = ["GltfFile", "glb_of"]

MAGIC, JSON, BINARY = 0x46546C67, 0x4E4F534A, 0x004E4942
KINDS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
COUNTS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


class GltfFile:
    """A .glb or .gltf file.

    Args:
        data: its content.
        folder: where files that it names lie.

    Raises:
        ValueError: it is no glTF 2 file, or needs an extension that is not known.

    Attributes:
        document: the JSON.
    """

    def __init__(self, data: bytes, folder: Path, known: tuple[str, ...] = ()):
        self.folder, self.binary = folder, b""
        text = data
        if data[:4] == struct.pack("<I", MAGIC):
            text, at = b"", 12
            while at + 8 <= len(data):
                length, kind = struct.unpack("<II", data[at : at + 8])
                chunk = data[at + 8 : at + 8 + length]
                if len(chunk) < length:
                    raise ValueError("it is cut short")
                if kind == JSON:
                    text = chunk
                elif kind == BINARY:
                    self.binary = chunk
                at += 8 + length
        self.document: dict[str, Any] = json.loads(text)
        version = str(self.document.get("asset", {}).get("version", "none"))
        if not version.startswith("2."):
            raise ValueError(f"its version is {version}: 2.0 is read")
        if unknown := sorted(set(self.document.get("extensionsRequired", ())) - set(known)):
            raise ValueError(f"it needs {', '.join(unknown)}, which is not read")
        self.buffers: dict[int, bytes] = {}

    def items(self, kind: str) -> list[Any]:
        """The document's list of some kind of thing."""
        return self.document.get(kind, [])

    def nodes(self) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
        """The nodes of the default scene, with their (4, 4) matrices to the world."""
        nodes, scenes = self.items("nodes"), self.items("scenes")
        children = {child for node in nodes for child in node.get("children", ())}
        roots = [k for k in range(len(nodes)) if k not in children]
        if scenes:
            roots = scenes[self.document.get("scene", 0)].get("nodes", [])
        waiting, seen = [(k, np.eye(4)) for k in reversed(roots)], set()
        while waiting:
            k, parent = waiting.pop()
            if k in seen:
                raise ValueError(f"node {k} has two parents")
            seen.add(k)
            matrix = parent @ local_matrix(nodes[k])
            yield nodes[k], matrix
            waiting += [(child, matrix) for child in reversed(nodes[k].get("children", ()))]

    def accessor(self, k: int) -> np.ndarray:
        """(N, C) of an accessor; integers that stand for [0, 1] or [-1, 1] as float32 of that."""
        given = self.items("accessors")[k]
        if "sparse" in given:
            raise ValueError("it has sparse accessors")
        kind, count = np.dtype(KINDS[given["componentType"]]), COUNTS[given["type"]]
        length, out = given["count"], np.zeros((given["count"], count), KINDS[given["componentType"]])
        if "bufferView" in given and length:
            view = self.items("bufferViews")[given["bufferView"]]
            data, size = self.view(given["bufferView"]), kind.itemsize * count
            stride, start = view.get("byteStride", size), given.get("byteOffset", 0)
            if start + stride * (length - 1) + size > len(data):
                raise ValueError("an accessor reaches beyond its buffer")
            out = np.ndarray((length, count), kind, data, start, (stride, kind.itemsize)).copy()
        if given.get("normalized"):
            return np.maximum(out / np.float32(np.iinfo(kind).max), -1)
        return out

    def view(self, k: int) -> bytes:
        """The bytes of a buffer view."""
        view = self.items("bufferViews")[k]
        buffer, start = self.buffer(view["buffer"]), view.get("byteOffset", 0)
        if start + view["byteLength"] > len(buffer):
            raise ValueError("a buffer is cut short")
        return buffer[start : start + view["byteLength"]]

    def buffer(self, k: int) -> bytes:
        """The bytes of a buffer."""
        if k not in self.buffers:
            uri = self.items("buffers")[k].get("uri")
            self.buffers[k] = self.binary if uri is None else self.named(uri)
        return self.buffers[k]

    def image(self, k: int) -> bytes:
        """The content of an image file."""
        image = self.items("images")[k]
        return self.view(image["bufferView"]) if "bufferView" in image else self.named(image["uri"])

    def named(self, uri: str) -> bytes:
        """What a URI stands for: data in itself, or a file."""
        if uri.startswith("data:"):
            return base64.b64decode(uri.partition(",")[2])
        return (self.folder / unquote(uri)).read_bytes()


def local_matrix(node: dict[str, Any]) -> np.ndarray:
    """(4, 4) from a node's axes to its parent's."""
    if "matrix" in node:
        return np.array(node["matrix"], np.float64).reshape(4, 4).T
    x, y, z, w = node.get("rotation", (0, 0, 0, 1))
    length = math.sqrt(x * x + y * y + z * z + w * w)
    x, y, z, w = x / length, y / length, z / length, w / length
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    out = np.eye(4)
    out[:3, :3] = turn * np.asarray(node.get("scale", (1, 1, 1)), np.float64)
    out[:3, 3] = node.get("translation", (0, 0, 0))
    return out


def glb_of(document: dict[str, Any], binary: bytes) -> bytes:
    """A GLB of a document and the one buffer of it."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = struct.pack("<II", len(text), JSON) + text
    if binary:
        chunks += struct.pack("<II", len(binary), BINARY) + binary
    return struct.pack("<III", MAGIC, 2, 12 + len(chunks)) + chunks
