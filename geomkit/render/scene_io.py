"""Scene files: glTF and GLB, with OBJ and its materials, PLY, STL and OFF as scenes of what they hold."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from geomkit.errors import message, warn
from geomkit.files import replacing
from geomkit.mesh.io import load_mesh
from geomkit.mesh.mesh import Mesh
from geomkit.render.camera import Camera
from geomkit.render.color import srgb_to_linear
from geomkit.render.gltf_file import GltfFile
from geomkit.render.gltf_read import KNOWN, cameras_of, free_name, scene_of
from geomkit.render.gltf_write import glb_of_scene
from geomkit.render.image_io import load_image
from geomkit.render.mesh_files import files_of_obj, files_of_ply
from geomkit.render.scene import Material, Object, Scene
from geomkit.render.texture import Texture

__all__ = ["FORMATS", "load_cameras", "load_scene", "save_scene"]

TEXTURE = re.compile(rb"\ncomment TextureFile ([^\r\n]+)\r?\n")  # in the head of a PLY
FORMATS = ("glb", "gltf", "obj", "off", "ply", "stl")


def load_scene(path: str | os.PathLike, *, dtype: DTypeLike = np.float32, nonfinite: str = "error") -> Scene:
    """Read a file as a scene: objects with materials, textures and uv, and lights.

    Of glTF and GLB: the default scene, each primitive of each node an object in its place; materials of the
    metallic-roughness model, base colours by factor, texture or vertex (where there is a texture, colours of vertices
    are left out), emission, sides; lights of KHR_lights_punctual with their numbers as they are. Textures of metallic,
    roughness and emission that lie as the base colour's does are textures; others count by their mean. Normals of a
    file say that an object is smooth, or "split" where they differ at one place, no more: they are computed anew. Left
    out are alpha, normal and occlusion maps, skins, morphs and animations; a texture that goes on in one way along u
    and another along v repeats.

    Of OBJ: an object for each material, with the Kd, map_Kd and Ke of its MTL file, or the colours of all vertices, in
    sRGB, for Kd; Kd and Ke are linear. Of PLY, STL and OFF: one object, its albedo that of the vertices, or of PLY the
    texture it names. These have no lights.

    Args:
        path: a .glb, .gltf, .obj, .off, .ply or .stl file.
        dtype: of the meshes, numpy.float32 or numpy.float64.
        nonfinite: as for `Mesh`.

    Returns:
        the scene. Names are those of the file, with `_` for what no path has, and a number where one is taken; uv has v
        upwards.

    Raises:
        FileNotFoundError: no such file, or one that a glTF file names.
        ValueError: an extension of no known format, a file that is not of its format, or another dtype.
        MeshError: as for `Mesh`.

    Warns:
        UserWarning: an MTL file or its texture is missing, as often, and what it says is left out.

    Example:
        >>> import geomkit as gk, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "ball.glb")
        >>> gk.Scene({"ball": gk.shapes.icosphere(2)}, {"lamp": gk.PointLight((0, 3, 0))}).save(path)
        >>> gk.load_scene(path)
        Scene(objects: ball; lights: lamp)
    """
    op, path = "load_scene", Path(path)
    extension = _extension(path, op, FORMATS)
    if dtype not in (np.float32, np.float64, "float32", "float64"):
        raise ValueError(message(op, "dtype", "float32 or float64", str(dtype)))
    kind = np.dtype(dtype)
    if extension in ("glb", "gltf"):
        data = path.read_bytes()
        return _tried(op, path, lambda: scene_of(GltfFile(data, path.parent, KNOWN), kind, nonfinite))
    if extension == "obj":
        return _obj_scene(path, kind, nonfinite)
    mesh = load_mesh(path, dtype=kind, nonfinite=nonfinite)
    albedo = uv = None
    if extension in ("ply", "off"):
        albedo, uv = _tried(op, path, lambda: _looks(path, extension, mesh, kind))
    thing = Object(mesh, uv=uv) if albedo is None else Object(mesh, Material(albedo=albedo), uv=uv)
    return Scene({free_name(path.stem, (), "object"): thing})


def load_cameras(path: str | os.PathLike, *, width: int, height: int) -> dict[str, Camera]:
    """The cameras of a glTF or GLB file, by name.

    Args:
        path: a .glb or .gltf file.
        width, height: of the images in pixels, which glTF does not say. The vertical field of view is the file's.

    Returns:
        a Camera for each node that has one.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another extension, or a file that is not of its format.

    Example:
        >>> import geomkit as gk, os, tempfile
        >>> path, ball = os.path.join(tempfile.mkdtemp(), "ball.glb"), gk.shapes.icosphere(2)
        >>> gk.save_scene(path, gk.Scene(ball), cameras={"front": gk.Camera.framing(ball, width=64, height=48)})
        >>> gk.load_cameras(path, width=128, height=96)
        {'front': Camera(128 x 96, at [1.42869, 1.04, 2.47456], fx 131.879, fy 131.879)}
    """
    path = Path(path)
    _extension(path, "load_cameras", ("glb", "gltf"))
    data = path.read_bytes()
    return _tried("load_cameras", path, lambda: cameras_of(GltfFile(data, path.parent, KNOWN), width, height))


def save_scene(path: str | os.PathLike, scene: Any, *, cameras: Mapping[str, Camera] | None = None) -> None:
    """Write a scene as a GLB, OBJ or PLY file. Each file appears whole or not at all.

    Of GLB `load_scene` reads all of it again: vertices, uv and colours in float32; textures as PNG of 8 bits, sRGB,
    bilinear. A constant light and the diffuse model, of which glTF knows nothing, are noted for geomkit; others see a
    rough dielectric.

    OBJ and PLY hold objects alone, no lights, and keep the digits of float64. Beside NAME.obj come NAME.mtl (Kd and Ke
    linear, map_Kd, Pm and Pr of the metallic model) and a PNG for each texture; colours of vertices stand behind their
    positions in sRGB, and positions are shared across the seams of a texture. A PLY holds one object, the colours of
    its vertices in sRGB (of a texture those at the vertices), uv as s and t, and names its texture, NAME.png.

    Args:
        path: ends in .glb, .obj or .ply. Existing files are replaced.
        scene: a Scene, an Object, or a mesh.
        cameras: by name; in GLB only.

    Raises:
        ValueError: another extension; what the format has no place for: cameras in OBJ and PLY, several objects in PLY;
            in glTF numbers out of its ranges, an EnvironmentLight, a spot's cone of more than 90 degrees, a camera with
            distortion or an axis that is not in the middle.
        OSError: the folder does not exist or cannot be written to.

    Example:
        >>> import geomkit as gk, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "ball.glb")
        >>> gk.save_scene(path, gk.Scene({"ball": gk.shapes.icosphere(2)}))
    """
    path = Path(path)
    extension = _extension(path, "save_scene", ("glb", "obj", "ply"))
    whole = scene if isinstance(scene, Scene) else Scene(scene)
    if extension == "glb":
        files = {path.name: glb_of_scene(whole, cameras or {})}
    else:
        if cameras:
            raise ValueError(message("save_scene", "cameras", f"none in a .{extension} file", f"{len(cameras)}"))
        files = (files_of_obj if extension == "obj" else files_of_ply)(whole, path.stem)
    for name, data in files.items():
        with replacing(path if Path(name).suffix == f".{extension}" else path.with_name(name)) as file:
            file.write(data)


def _extension(path: Path, op: str, formats: tuple[str, ...]) -> str:
    extension = path.suffix.lower().removeprefix(".")
    if extension not in formats:
        known = ", ".join(f".{known}" for known in formats)
        raise ValueError(message(op, "path", f"a file name ending in {known}", str(path)))
    return extension


def _tried(op: str, path: Path, read: Any) -> Any:
    try:
        return read()
    except FileNotFoundError:
        raise
    except Exception as error:
        if type(error).__module__.startswith("geomkit") or str(error).startswith("Mesh"):
            raise
        # Whatever a broken file makes parsers raise: KeyError, IndexError, struct.error...
        got = f"{path} ({type(error).__name__}: {error})"
        form = path.suffix.removeprefix(".").upper()
        raise ValueError(message(op, "path", f"a {form} file that can be read", got)) from error


def _looks(path: Path, extension: str, mesh: Mesh, dtype: np.dtype) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The albedo of a PLY or OFF file, by vertex or texture, and its uv, as far as there are such."""
    import trimesh

    data = path.read_bytes()
    # (The texture is found here: trimesh would look for it elsewhere.)
    texture = TEXTURE.search(data[: data.find(b"end_header")])
    content = TEXTURE.sub(b"\n", data, count=1) if texture else data
    visual: Any = None
    if mesh.n_faces:
        visual = trimesh.load_mesh(io.BytesIO(content), file_type=extension, process=False).visual
    if visual is not None and visual.kind == "vertex" and len(visual.vertex_colors) == mesh.n_vertices:
        return srgb_to_linear(np.asarray(visual.vertex_colors)[:, :3] / 255.0).astype(dtype), None
    uv = getattr(visual, "uv", None)
    if uv is None or len(uv) != mesh.n_vertices:
        return None, None
    uv = np.asarray(uv[:, :2], dtype)
    if texture is None:
        return None, uv
    return _image_beside(path, texture[1].decode(errors="replace").strip(), dtype), uv


def _image_beside(path: Path, name: str, dtype: np.dtype) -> np.ndarray | None:
    """The RGB of an image that a file names; None, and a warning, where it is missing."""
    file = path.parent / name.replace("\\", "/")
    if not file.is_file():
        warn(f"load_scene: {file} is missing: its material has a plain colour", UserWarning)
        return None
    image = load_image(file)
    return (image[:, :, :3] if image.shape[2] > 2 else np.repeat(image[:, :, :1], 3, axis=2)).astype(dtype)


# ---- OBJ


def _obj_scene(path: Path, dtype: np.dtype, nonfinite: str) -> Scene:
    plain = load_mesh(path, dtype=dtype, nonfinite=nonfinite)
    lines = [line.split(maxsplit=1) for line in path.read_text(errors="replace").splitlines()]
    words = {line[0] for line in lines if line}
    rows = [line[1].split() for line in lines if len(line) == 2 and line[0] == "v"]
    colored = [row for row in rows if len(row) == 6]
    if colored and len(colored) < len(rows):
        warn(f"load_scene: {path} has colours at some vertices only: they are left out", UserWarning)
    if not words & {"vt", "usemtl"} or not plain.n_faces:
        # Nothing cuts it: vertices and faces as they are in the file.
        values = np.array(colored, np.float64).reshape(-1, 6)
        values = values[np.isfinite(values[:, :3]).all(axis=1), 3:]
        whole = len(colored) == len(rows) and len(values) == plain.n_vertices > 0
        material = Material(srgb_to_linear(values).astype(dtype)) if whole else Material()
        return Scene({free_name(path.stem, (), "object"): Object(plain, material)})
    materials: dict[str, Material] = {}
    for line in lines:
        if len(line) == 2 and line[0] == "mtllib":
            beside = path.parent / line[1].strip()
            if beside.is_file():
                materials |= _mtl(beside, dtype)
            else:
                warn(f"load_scene: {beside} is missing: its materials are grey", UserWarning)
    import trimesh

    # It cuts the file along its materials and texture coordinates; what the materials are was read above.
    data = path.read_bytes()
    names = dict.fromkeys(line[1].strip() for line in lines if len(line) == 2 and line[0] == "usemtl")
    stand_in = "".join(f"newmtl {name}\nKd 1 1 1\n" for name in names).encode()
    resolver = {line[1].strip(): stand_in for line in lines if len(line) == 2 and line[0] == "mtllib"}
    found = _tried(
        "load_scene",
        path,
        lambda: trimesh.load_scene(io.BytesIO(data), file_type="obj", process=False, resolver=resolver),
    )
    objects: dict[str, Object] = {}
    # In the order of the file, on which the random numbers of an image depend.
    place = {name: k for k, name in enumerate(names)}
    parts = [(name, part, _material_of(part)) for name, part in found.geometry.items()]
    for name, part, used in sorted(parts, key=lambda entry: place.get(str(entry[2]), len(place))):
        if not isinstance(part, trimesh.Trimesh):
            continue
        visual: Any = part.visual
        uv = getattr(visual, "uv", None)
        kept: Any = np.isfinite(part.vertices).all(axis=1)  # of Mesh, if others may be dropped
        uv = None if uv is None or len(uv) != len(kept) else np.asarray(uv[kept, :2], dtype)
        material = materials.get(str(used), Material())
        if (isinstance(material.albedo, Texture) or np.ndim(material.albedo) == 3) and uv is None:
            raise ValueError(message("load_scene", "path", f"texture coordinates, as {used} has a texture", str(path)))
        colors = part.vertex_attributes.get("color")
        if colors is None and visual.kind == "vertex":
            colors = np.asarray(visual.vertex_colors) / 255.0
        if colors is not None and not isinstance(material.albedo, Texture) and np.ndim(material.albedo) == 1:
            # (They stand behind the positions, in sRGB, and say more than Kd.)
            material = replace(material, albedo=srgb_to_linear(np.asarray(colors)[kept, :3]).astype(dtype))
        mesh = Mesh(np.asarray(part.vertices, dtype), np.asarray(part.faces), nonfinite=nonfinite)
        wanted = str(used) if used in materials else path.stem if len(found.geometry) == 1 else name
        objects[free_name(wanted, objects, "object")] = Object(mesh, material, uv=uv)
    return Scene(objects)


def _material_of(part: Any) -> str | None:
    """The name of the material of a part of a file."""
    return getattr(getattr(getattr(part, "visual", None), "material", None), "name", None)


def _mtl(path: Path, dtype: np.dtype) -> dict[str, Material]:
    """The materials of an MTL file: Kd, map_Kd (its last word the file) and Ke."""
    found: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {}
    for line in path.read_text(errors="replace").splitlines():
        key, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if key == "newmtl":
            current = found.setdefault(rest, {})
        elif key in ("Kd", "Ke"):
            numbers = tuple(float(x) for x in rest.split()[:3])
            current["albedo" if key == "Kd" else "emission"] = numbers if len(numbers) == 3 else numbers[:1] * 3
        elif key == "map_Kd":
            name = rest.split()[-1] if rest.startswith("-") else rest
            image = _image_beside(path, name, dtype)
            if image is not None:
                clamped = rest.split()[:2] == ["-clamp", "on"]
                current["texture"] = Texture(image, wrap="clamp") if clamped else image
    out = {}
    for name, given in found.items():
        if "texture" in given:
            # Exporters write Kd 0 or 1 beside a texture, which replaces it.
            given["albedo"] = given.pop("texture")
        out[name] = Material(**given)
    return out
