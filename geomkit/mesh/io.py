"""Mesh files: OBJ, PLY, STL, OFF and GLB. OBJ is read here, the others by trimesh."""

import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from geomkit.arrays import to_host
from geomkit.errors import message
from geomkit.files import replacing
from geomkit.mesh.mesh import Mesh

__all__ = ["FORMATS", "load_mesh", "save_mesh"]

FORMATS = ("glb", "obj", "off", "ply", "stl")

# The statements of an OBJ, with what follows their keyword. `v` and `f` are read; the others say nothing of positions
# and faces. Only `v` and `f` are continued after a backslash: a path that ends in one must not swallow the next line.
OBJ_VERTEX = re.compile(rb"^[ \t]*v(?=[ \t\n]|\Z)([^\n]*)", re.MULTILINE)
OBJ_FACE = re.compile(rb"^[ \t]*f(?=[ \t\n]|\Z)([^\n]*)", re.MULTILINE)
OBJ_OTHER = re.compile(rb"^[ \t]*(?:vt|vn|vp|usemtl|mtllib|o|g|s|l|p)\b[^\n]*$", re.MULTILINE)
OBJ_COMMENT = re.compile(rb"#[^\n]*")
OBJ_CONTINUED = re.compile(rb"^[ \t]*[vf](?=[ \t\\])(?:[^\\\n]|\\(?:[ \t]*\n)?)*", re.MULTILINE)
OBJ_CONTINUATION = re.compile(rb"\\[ \t]*\n")
OBJ_REFERENCE = re.compile(rb"(?<=\d)/[-\d/]*")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)
INTEGER = re.compile(rb"[-+]?\d+")

STL_HEADER = 84


def load_mesh(path: str | os.PathLike, *, dtype: DTypeLike = np.float32, nonfinite: str = "error") -> Mesh:
    """Read a mesh file: all its triangles, as one mesh, untouched.

    Nothing is merged, reordered, or rescaled; quads and polygons are cut into triangles, and the parts of a GLB scene
    are put in their places. Texture coordinates, normals and colours are left out.

    Args:
        path: a .glb, .obj, .off, .ply or .stl file.
        dtype: numpy.float32, or numpy.float64 to keep all digits of a text file, as coordinates far from the origin
            need.
        nonfinite: as for `Mesh`.
    Returns:
        the mesh; without faces when the file has none.
    Raises:
        FileNotFoundError: no such file.
        ValueError: an extension of no known format, a file that is not of its format, or another dtype.
        MeshError: as for `Mesh`.
    """
    path = Path(path)
    extension = _extension(path, "load_mesh")
    dtype = _precision(dtype)
    data = path.read_bytes()
    try:
        vertices, faces = _parse(data, extension) if data.strip() else (np.zeros((0, 3)), np.zeros((0, 3), np.int32))
    except Exception as error:
        # trimesh raises whatever its parsers happen to raise: IndexError, struct.error, KeyError...
        got = f"{path} ({type(error).__name__}: {error})"
        raise ValueError(message("load_mesh", "path", f"a valid {extension.upper()} file", got)) from error
    with np.errstate(over="ignore"):
        # What overflows becomes inf, and Mesh says so.
        return Mesh(vertices.astype(dtype), faces, nonfinite=nonfinite)


def save_mesh(mesh: Mesh, path: str | os.PathLike) -> None:
    """Write a mesh file. The file appears whole or not at all: it is written beside its place and renamed.

    STL and GLB hold float32; OBJ, OFF and PLY keep the digits of the mesh.

    Args:
        mesh: the mesh.
        path: ends in .glb, .obj, .off, .ply or .stl, which chooses the format. An existing file is replaced.
    Raises:
        ValueError: an extension of no known format; a mesh without faces as GLB.
        OSError: the folder does not exist or cannot be written to.
    """
    path = Path(path)
    data = _serialize(mesh, _extension(path, "save_mesh"))
    with replacing(path) as file:
        file.write(data)


def _extension(path: Path, op: str) -> str:
    extension = path.suffix.lower().removeprefix(".")
    if extension not in FORMATS:
        known = ", ".join(f".{known}" for known in FORMATS)
        raise ValueError(message(op, "path", f"a file name ending in {known}", str(path)))
    return extension


def _precision(dtype: DTypeLike) -> np.dtype:
    try:
        found = np.dtype(dtype)
    except TypeError:
        # The name of no type.
        raise ValueError(message("load_mesh", "dtype", "float32 or float64", str(dtype))) from None
    if found not in (np.float32, np.float64):
        raise ValueError(message("load_mesh", "dtype", "float32 or float64", str(found)))
    return found


def _parse(data: bytes, extension: str) -> tuple[np.ndarray, np.ndarray]:
    if extension == "obj":
        return _parse_obj(data)
    import trimesh

    # (It would look for the texture that a PLY names, and complain.)
    options: dict[str, Any] = {"skip_materials": True} if extension == "ply" else {}
    scene = trimesh.load_scene(io.BytesIO(data), file_type=extension, process=False, **options)
    parts = [part for part in scene.dump() if isinstance(part, trimesh.Trimesh)]
    if not parts:
        points = [np.asarray(part.vertices) for part in scene.dump() if isinstance(part, trimesh.PointCloud)]
        if not points and not _may_be_empty(data, extension):
            raise ValueError("nothing in it was understood")
        return np.concatenate([np.zeros((0, 3)), *points]), np.zeros((0, 3), np.int32)
    starts = np.cumsum([0] + [len(part.vertices) for part in parts])
    faces = [np.asarray(part.faces, np.int64) + start for part, start in zip(parts, starts[:-1], strict=True)]
    return np.concatenate([np.asarray(part.vertices) for part in parts]), np.concatenate(faces)


def _may_be_empty(data: bytes, extension: str) -> bool:
    """Whether a file in which trimesh finds nothing is one that holds nothing, and not something else."""
    return extension != "stl" or data.lstrip().lower().startswith(b"solid") or len(data) == STL_HEADER


def _parse_obj(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) float64 and triangles (F, 3) int64 of an OBJ, in the order of the file.

    trimesh would cut vertices apart along texture seams, reorder faces by material, and take `f 0` for the last vertex.
    """
    # Files put together from several have a mark in front of each.
    text = data.replace(BYTE_ORDER_MARK, b"").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = OBJ_COMMENT.sub(b"", text)
    if OBJ_CONTINUATION.search(text):
        text = OBJ_CONTINUED.sub(lambda statement: OBJ_CONTINUATION.sub(b" ", statement[0]), text)
    positions, polygons = OBJ_VERTEX.findall(text), OBJ_FACE.findall(text)
    if not positions and not polygons and OBJ_OTHER.sub(b"", text).strip():
        raise ValueError("nothing in it was understood")
    numbers, count = _numbers(positions, np.float64)
    if len(short := np.flatnonzero(count < 3)):
        raise ValueError(f"a vertex of fewer than three coordinates: 'v{_shown(positions[short[0]])}'")
    # After x, y and z there may be a weight or a colour.
    vertices = numbers[(np.cumsum(count) - count)[:, None] + np.arange(3)]
    index, count = _numbers(OBJ_REFERENCE.sub(b"", b"\n".join(polygons)).split(b"\n") if polygons else [], np.int64)
    if len(short := np.flatnonzero(count < 3)):
        raise ValueError(f"a face of fewer than three vertices: 'f{_shown(polygons[short[0]])}'")
    corner = index - 1
    if (index < 0).any():
        # Counted back from the last vertex before the face.
        starts = [[found.start() for found in kind.finditer(text)] for kind in (OBJ_VERTEX, OBJ_FACE)]
        before = np.repeat(np.searchsorted(starts[0], starts[1]), count)
        corner = np.where(index < 0, before + index, corner)
    wrong = np.flatnonzero((index == 0) | (corner < 0) | (corner >= len(vertices)))
    if len(wrong):
        face = polygons[np.searchsorted(np.cumsum(count), wrong[0], side="right")]
        why = "indices start at 1" if index[wrong[0]] == 0 else f"there are {len(vertices)} vertices"
        raise ValueError(f"no vertex {index[wrong[0]]}, as {why}: 'f{_shown(face)}'")
    return vertices, _fans(corner, count)


def _numbers(lines: list[bytes], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """All numbers in some lines, and how many there are in each."""
    text = b"\n".join(lines) + b"\n"
    characters = np.frombuffer(text, np.uint8)
    blank = characters <= ord(" ")
    starts = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]]))
    count = np.diff(np.searchsorted(starts, np.flatnonzero(characters == ord("\n"))), prepend=0)
    try:
        # What comes after a word that is no number is not read; so the zero at the end says whether there was one.
        found = np.fromstring(text + b"0", dtype, sep=" ")
    except (DeprecationWarning, ValueError):
        found = np.zeros(0, dtype)
    if len(found) != len(starts) + 1:
        form, kind = (NUMBER, "number") if dtype is np.float64 else (INTEGER, "integer")
        bad = next((word for word in text.split() if not form.fullmatch(word)), text[:40])
        raise ValueError(f"'{_shown(bad)}' is no {kind}")
    return found[:-1], count[: len(lines)]


def _shown(text: bytes) -> str:
    """Some of the file for an error, which is one line."""
    return " ".join(text[:80].decode(errors="replace").replace("\0", "?").rstrip().split("\n"))


def _fans(corner: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The triangles (0, k, k+1) of polygons, each of whose corners follow those of the one before."""
    if (count == 3).all():
        return corner.reshape(-1, 3)
    triangles = count - 2
    first = np.repeat(np.cumsum(count) - count, triangles)
    k = np.arange(len(first)) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    return corner[np.stack([first, first + k + 1, first + k + 2], axis=1)]


def _serialize(mesh: Mesh, extension: str) -> bytes:
    """The content of the file. Text is written here, as trimesh rounds it to eight digits."""
    vertices, faces = to_host(mesh.vertices_array), to_host(mesh.faces_array)
    if extension in ("obj", "off"):
        return _text(vertices, faces, extension)
    if extension == "ply":
        return _ply(vertices, faces)
    import trimesh

    if extension == "glb" and not mesh.n_faces:
        raise ValueError(message("save_mesh", "mesh", "faces, as a GLB file cannot be without", "none"))
    buffer = io.BytesIO()
    trimesh.Trimesh(vertices, faces, process=False).export(buffer, file_type=extension)
    return buffer.getvalue()


def _text(vertices: np.ndarray, faces: np.ndarray, extension: str) -> bytes:
    digits = "%.9g" if vertices.dtype == np.float32 else "%.17g"
    positions = (f"{digits} {digits} {digits}\n" * len(vertices)) % tuple(vertices.ravel().tolist())
    if extension == "off":
        header = f"OFF\n{len(vertices)} {len(faces)} 0\n"
        return (header + positions + ("3 %d %d %d\n" * len(faces)) % tuple(faces.ravel().tolist())).encode()
    positions = "".join(f"v {line}\n" for line in positions.splitlines())
    return (positions + ("f %d %d %d\n" * len(faces)) % tuple((faces + 1).ravel().tolist())).encode()


def _ply(vertices: np.ndarray, faces: np.ndarray) -> bytes:
    number = "float" if vertices.dtype == np.float32 else "double"
    header = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(vertices)}\nproperty {number} x\nproperty {number} y\nproperty {number} z\n"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    rows = np.empty(len(faces), [("count", "u1"), ("index", "<i4", 3)])
    rows["count"], rows["index"] = 3, faces
    return header.encode() + vertices.astype(vertices.dtype.newbyteorder("<")).tobytes() + rows.tobytes()
