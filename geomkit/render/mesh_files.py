"""Objects with their materials as OBJ with MTL and PNG, and as PLY."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from geomkit.arrays import as_array, to_host
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.render.color import linear_to_srgb
from geomkit.render.image_io import encoded_png
from geomkit.render.scene import Object, Scene
from geomkit.render.texture import Pyramid, Texture

__all__ = ["files_of_obj", "files_of_ply"]

OP = "save_scene"


class _Part:
    """An object in NumPy's arrays.

    Attributes:
        vertices, faces, normals, uv: arrays; None for what there is not.
        color: (3,) linear RGB of a constant albedo; else None.
        colors: (V, 3) of the vertices; else None.
        image: (H, W, 3) of a texture; else None.
        wrap: of the texture.
    """

    def __init__(self, name: str, thing: Object):
        mesh: Mesh = thing.mesh.plain
        self.vertices, self.faces = to_host(mesh.vertices_array), to_host(mesh.faces_array)
        self.mesh, self.thing = mesh, thing
        self.normals = to_host(mesh.vertex_normals) if thing.smooth else None
        n = len(self.vertices)
        self.uv: Any = None if thing.uv is None else self._array(f"{name}.uv", thing.uv, (n, 2))
        albedo = thing.material.albedo
        self.wrap = albedo.wrap if isinstance(albedo, Texture) else "repeat"
        values = albedo.image if isinstance(albedo, Texture) else albedo
        path, dimensions = f"{name}.material.albedo", np.ndim(values)
        self.color: Any = None
        self.colors: Any = None
        self.image: Any = None
        if dimensions == 3:
            self.image = self._array(path, values, ("H", "W", 3))
            if self.uv is None:
                raise ValueError(message(OP, f"{name}.uv", "texture coordinates, as albedo is a texture", "None"))
        elif dimensions == 2:
            self.colors = self._array(path, values, (n, 3))
        else:
            self.color = np.broadcast_to(self._array(path, values, (3,) if dimensions else ()), (3,))

    @staticmethod
    def _array(path: str, values: Any, shape: tuple) -> np.ndarray:
        plain = values.detach() if hasattr(values, "detach") else values
        array = as_array(plain, op=OP, name=path, shape=shape, dtype=np.float64)
        if not np.isfinite(array).all():
            raise ValueError(message(OP, path, "finite numbers", "nan or inf"))
        return array

    def seen(self) -> np.ndarray:
        """(V, 3) sRGB of the vertices, of whatever kind the albedo is."""
        if self.image is not None:
            values = Pyramid(self.image, self.wrap, self.wrap).values(np.ascontiguousarray(self.uv))
        else:
            values = np.broadcast_to(self.color, self.vertices.shape) if self.colors is None else self.colors
        return np.asarray(linear_to_srgb(np.clip(values, 0, 1)))


def files_of_obj(scene: Scene, stem: str) -> dict[str, bytes]:
    """The content of an OBJ file, of its MTL file and of its textures, by name; the OBJ is the last.

    Raises:
        ValueError, TypeError: an albedo or uv of the wrong shape.
    """
    files: dict[str, bytes] = {}
    lines, materials, labels = [f"mtllib {stem}.mtl\n"], [], set()
    ends = np.ones(3, np.int64)  # the next v, vt and vn
    for name, thing in scene.objects.items():
        part, label = _Part(name, thing), re.sub(r"[\s#\\/]+", "_", name)
        while label in labels:  # (Two names may differ in such letters alone.)
            label += "_"
        labels.add(label)
        lines.append(f"o {label}\nusemtl {label}\n")
        materials.append(_mtl(label, part, f"{stem}_{label}.png"))
        if part.image is not None:
            files[f"{stem}_{label}.png"] = encoded_png(part.image.astype(np.float32))
        places, corner = part.vertices, part.faces
        if part.image is not None:
            # Positions are there once, whatever seams cut the texture: the surface stays connected.
            topology = part.mesh.topology
            places, corner = places[topology.unique_vertices], topology.welded_faces
        rows = [(_digits(places), places)]
        if part.colors is not None:
            rows.append(("%.6f", part.seen()))
        lines.append(_lines("v", *rows))
        columns, form = [corner + ends[0]], "%d"
        if part.uv is not None:
            lines.append(_lines("vt", ("%.9g", part.uv)))
            columns.append(part.faces + ends[1])
            form += "/%d"
            ends[1] += len(part.uv)
        if part.normals is not None:
            lines.append(_lines("vn", ("%.6g", part.normals)))
            columns.append(part.faces + ends[2])
            form += "/%d" if part.uv is not None else "//%d"
            ends[2] += len(part.normals)
        ends[0] += len(places)
        numbers = np.stack(columns, axis=2)
        lines.append((f"f {form} {form} {form}\n" * len(numbers)) % tuple(numbers.ravel().tolist()))
    files[f"{stem}.mtl"] = "\n".join(materials).encode()
    files[f"{stem}.obj"] = "".join(lines).encode()
    return files


def _mtl(label: str, part: _Part, texture: str) -> str:
    material = part.thing.material
    color = np.ones(3) if part.color is None else part.color
    lines = [f"newmtl {label}", "Kd " + " ".join(f"{x:.9g}" for x in color), "illum 1"]
    if part.image is not None:
        lines.append(f"map_Kd {'-clamp on ' if part.wrap == 'clamp' else ''}{texture}")
    if np.ndim(material.emission) <= 1:
        emission = np.broadcast_to(part._array("emission", material.emission, np.shape(material.emission)), (3,))
        if emission.any():
            lines.append("Ke " + " ".join(f"{x:.9g}" for x in emission))
    if material.model == "metallic":
        for key, value in (("Pm", material.metallic), ("Pr", material.roughness)):
            if np.ndim(value) == 0:
                lines.append(f"{key} {float(value):.9g}")
    return "\n".join(lines) + "\n"


def files_of_ply(scene: Scene, stem: str) -> dict[str, bytes]:
    """The content of a PLY file, and of its texture if there is one, by name; the PLY is the last.

    Raises:
        ValueError: other than one object, or an albedo or uv of the wrong shape.
    """
    if len(scene.objects) != 1:
        raise ValueError(message(OP, "scene", "one object, as a PLY file holds no more", str(len(scene.objects))))
    ((name, thing),) = scene.objects.items()
    part = _Part(name, thing)
    files: dict[str, bytes] = {}
    header = ["ply", "format binary_little_endian 1.0"]
    if part.image is not None:
        files[f"{stem}.png"] = encoded_png(part.image.astype(np.float32))
        header.append(f"comment TextureFile {stem}.png")
    number = "<f4" if part.vertices.dtype == np.float32 else "<f8"
    columns: list[tuple[str, str, np.ndarray]] = [(a, number, part.vertices[:, k]) for k, a in enumerate("xyz")]
    if part.normals is not None:
        columns += [(f"n{a}", "<f4", part.normals[:, k]) for k, a in enumerate("xyz")]
    levels = np.rint(255 * part.seen())
    columns += [(a, "u1", levels[:, k]) for k, a in enumerate(("red", "green", "blue"))]
    if part.uv is not None:
        columns += [(a, "<f4", part.uv[:, k]) for k, a in enumerate("st")]
    kinds = {"<f4": "float", "<f8": "double", "u1": "uchar"}
    header.append(f"element vertex {len(part.vertices)}")
    header += [f"property {kinds[kind]} {column}" for column, kind, _ in columns]
    header += [f"element face {len(part.faces)}", "property list uchar int vertex_indices", "end_header\n"]
    vertices = np.empty(len(part.vertices), [(column, kind) for column, kind, _ in columns])
    for column, _, values in columns:
        vertices[column] = values
    rows = np.empty(len(part.faces), [("count", "u1"), ("index", "<i4", 3)])
    rows["count"], rows["index"] = 3, part.faces
    files[f"{stem}.ply"] = "\n".join(header).encode() + vertices.tobytes() + rows.tobytes()
    return files


def _digits(array: np.ndarray) -> str:
    return "%.9g" if array.dtype == np.float32 else "%.17g"


def _lines(key: str, *rows: tuple[str, np.ndarray]) -> str:
    """A line for each row of some arrays, beside one another."""
    form = " ".join(digits for digits, array in rows for _ in range(array.shape[1]))
    whole = np.concatenate([array.astype(np.float64) for _, array in rows], axis=1)
    return (f"{key} {form}\n" * len(whole)) % tuple(whole.ravel().tolist())
