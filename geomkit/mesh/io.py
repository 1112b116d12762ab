"""Mesh files: OBJ, PLY, STL, OFF and GLB, read and written by trimesh."""

import io
import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from geomkit.arrays import to_host
from geomkit.errors import message
from geomkit.files import replacing
from geomkit.mesh.mesh import Mesh

__all__ = ["FORMATS", "load_mesh", "save_mesh"]

FORMATS = ("glb", "obj", "off", "ply", "stl")

# What an OBJ says besides positions and faces. trimesh would cut vertices apart along texture seams and reorder faces
# by material; without these lines vertex i and face j are those of the file.
OBJ_STATEMENTS = re.compile(rb"^[ \t]*(?:vt|vn|vp|usemtl|mtllib|o|g|s)\b[^\n]*$", re.MULTILINE)
OBJ_COMMENTS = re.compile(rb"#[^\n]*")
OBJ_REFERENCES = re.compile(rb"(?<=\d)/[-\d/]*")

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
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(message("load_mesh", "dtype", "float32 or float64", str(np.dtype(dtype))))
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


def _parse(data: bytes, extension: str) -> tuple[np.ndarray, np.ndarray]:
    import trimesh

    if extension == "obj":
        data = OBJ_REFERENCES.sub(b"", OBJ_STATEMENTS.sub(b"", data))
    # (maintain_order is the OBJ reader's: keep the vertices that no face uses.)
    scene = trimesh.load_scene(io.BytesIO(data), file_type=extension, process=False, maintain_order=True)
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
    if extension == "stl":
        return data.lstrip().lower().startswith(b"solid") or len(data) == STL_HEADER
    return extension != "obj" or not OBJ_COMMENTS.sub(b"", data).strip()


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
