"""Scenes and cameras of glTF and GLB files."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.mesh.mesh import Mesh
from geomkit.render.camera import Camera
from geomkit.render.gltf_file import GltfFile
from geomkit.render.image_io import decoded
from geomkit.render.scene import ConstantLight, DirectionalLight, Material, Object, PointLight, Scene, SpotLight
from geomkit.render.texture import Texture

__all__ = ["KNOWN", "cameras_of", "free_name", "scene_of"]

# Extensions that are obeyed, or that leave what is read as it is.
KNOWN = (
    "KHR_lights_punctual",
    "KHR_materials_emissive_strength",
    "KHR_texture_transform",
    "KHR_mesh_quantization",
    "KHR_materials_unlit",
)
TRIANGLES, STRIP, FAN = 4, 5, 6
SAME_NORMAL = 0.01  # what normals at one place may differ by in a file and be one
FLIP_V = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 1.0], [0.0, 0.0, 1.0]])
WRAPS = {33071: "clamp", 33648: "mirror"}  # all else repeats
OURS = "geomkit"  # in `extras`: what glTF has no word for


def free_name(wanted: str, used: Any, kind: str) -> str:
    """A name that a Scene and a file system take, and that is not used yet."""
    plain = "".join("_" if c in './\\:*?"<>|' or ord(c) < 32 else c for c in wanted).strip() or kind
    name, count = plain, 1
    while name in used or name == "camera":
        count += 1
        name = f"{plain}_{count}"
    return name


def scene_of(file: GltfFile, dtype: np.dtype, nonfinite: str) -> Scene:
    """The objects and lights of a file.

    Raises:
        ValueError, KeyError, IndexError: the file is not right, or has what is not read.
    """
    objects: dict[str, Object] = {}
    lights: dict[str, Any] = {}
    materials = _Materials(file)
    sources = file.document.get("extensions", {}).get("KHR_lights_punctual", {}).get("lights", [])
    for node, matrix in file.nodes():
        if "mesh" in node:
            mesh = file.items("meshes")[node["mesh"]]
            for primitive in mesh["primitives"]:
                thing = _object(file, primitive, matrix, materials, dtype, nonfinite)
                if thing is not None:
                    wanted = str(node.get("name") or mesh.get("name") or "object")
                    objects[free_name(wanted, {**objects, **lights}, "object")] = thing
        if "KHR_lights_punctual" in node.get("extensions", {}):
            given = sources[node["extensions"]["KHR_lights_punctual"]["light"]]
            wanted = str(node.get("name") or given.get("name") or "light")
            lights[free_name(wanted, {**objects, **lights}, "light")] = _light(given, matrix)
    scenes = file.items("scenes")
    extras = scenes[file.document.get("scene", 0)].get("extras") if scenes else None
    ours = extras.get(OURS, {}) if isinstance(extras, dict) else {}
    for given in ours.get("constant_lights", []):
        name = free_name(given["name"], {**objects, **lights}, "light")
        lights[name] = ConstantLight(tuple(given["radiance"]), bool(given["visible"]))
    # In the order of the scene that was written, on which the random numbers of an image depend.
    place = {name: k for k, name in enumerate(ours.get("lights", []))}
    return Scene(objects, {name: lights[name] for name in sorted(lights, key=lambda name: place.get(name, len(place)))})


def cameras_of(file: GltfFile, width: int, height: int) -> dict[str, Camera]:
    """The cameras of a file, for images of some size."""
    found: dict[str, Camera] = {}
    for node, matrix in file.nodes():
        if "camera" not in node:
            continue
        given = file.items("cameras")[node["camera"]]
        if given["type"] == "perspective":
            focal, model = 0.5 * height / math.tan(0.5 * given["perspective"]["yfov"]), "pinhole"
        else:
            focal, model = 0.5 * height / given["orthographic"]["ymag"], "orthographic"
        # A camera's axes stay at right angles, whatever scales its node has.
        u, _, vt = np.linalg.svd(matrix[:3, :3])
        turn = np.diag([1.0, -1.0, -1.0]) @ (u @ vt).T
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = turn, -turn @ matrix[:3, 3]
        K = [[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]
        name = free_name(str(node.get("name") or given.get("name") or "view"), found, "view")
        found[name] = Camera(pose, K, width=width, height=height, model=model)
    return found


def _object(
    file: GltfFile,
    primitive: dict[str, Any],
    matrix: np.ndarray,
    materials: _Materials,
    dtype: np.dtype,
    nonfinite: str,
) -> Object | None:
    """An object of a primitive in the world; None of points and lines."""
    faces, attributes = _faces(file, primitive), primitive["attributes"]
    if faces is None or "POSITION" not in attributes:
        return None
    points = file.accessor(attributes["POSITION"]).astype(np.float64)
    if len(faces) and (faces.min() < 0 or faces.max() >= len(points)):
        raise ValueError(f"a face names vertex {faces.max()} of {len(points)}")
    points = points @ matrix[:3, :3].T + matrix[:3, 3]
    if np.linalg.det(matrix[:3, :3]) < 0:
        faces = faces[:, ::-1]
    material, texcoord, to_uv = materials[primitive.get("material")]
    uv = None
    if f"TEXCOORD_{texcoord}" in attributes:
        given = file.accessor(attributes[f"TEXCOORD_{texcoord}"]).astype(np.float64)
        uv = ((FLIP_V @ to_uv)[:2, :2] @ given.T).T + (FLIP_V @ to_uv)[:2, 2]
        uv = uv.astype(dtype)
    albedo = material["albedo"]
    if uv is None and any(np.ndim(material[part]) > 1 for part in ("albedo", "metallic", "roughness", "emission")):
        raise ValueError("a textured mesh has no texture coordinates")
    if "COLOR_0" in attributes and albedo.ndim == 1:
        albedo = file.accessor(attributes["COLOR_0"])[:, :3] * albedo
    wraps = material["wraps"]
    material = {part: x.astype(dtype) if np.ndim(x) > 1 else x for part, x in material.items() if part != "wraps"}
    mesh = Mesh(points.astype(dtype), np.ascontiguousarray(faces), nonfinite=nonfinite)
    material["albedo"] = albedo.astype(dtype) if albedo.ndim > 1 else tuple(albedo.tolist())
    for part, wrap in wraps.items():
        image: Any = material[part]
        if wrap != "repeat" and np.ndim(image) == (3 if part in ("albedo", "emission") else 2):
            material[part] = Texture(image, wrap=wrap)
    return Object(mesh, Material(**material), uv=uv, smooth=_smoothness(file, attributes, mesh))


def _smoothness(file: GltfFile, attributes: dict[str, Any], mesh: Mesh) -> bool | str:
    """Whether there are normals; "split" where vertices at one place have different ones."""
    if "NORMAL" not in attributes:
        return False
    normals = file.accessor(attributes["NORMAL"]).astype(np.float64)
    first = mesh.topology.representative
    if len(first) != len(normals):
        return True
    return "split" if (abs(normals - normals[first]).max(axis=1, initial=0) > SAME_NORMAL).any() else True


def _faces(file: GltfFile, primitive: dict[str, Any]) -> np.ndarray | None:
    mode = primitive.get("mode", TRIANGLES)
    if mode not in (TRIANGLES, STRIP, FAN):
        return None
    if "indices" in primitive:
        index = file.accessor(primitive["indices"])
        if index.dtype.kind != "u" or index.shape[1] != 1:
            raise ValueError("indices of faces are no whole numbers")
        index = index.ravel().astype(np.int64)
    else:
        index = np.arange(file.items("accessors")[primitive["attributes"]["POSITION"]]["count"])
    if mode == TRIANGLES:
        return index[: len(index) // 3 * 3].reshape(-1, 3)
    if mode == FAN:
        return np.stack([np.full(max(len(index) - 2, 0), index[0]), index[1:-1], index[2:]], axis=1)
    faces = np.stack([index[:-2], index[1:-1], index[2:]], axis=1)
    faces[1::2] = faces[1::2, ::-1]
    return faces


class _Materials:
    """The materials of a file: as arguments of `Material`, which texture coordinates, and what becomes of those."""

    def __init__(self, file: GltfFile):
        self.file = file
        self.known: dict[int | None, tuple[dict[str, Any], int, np.ndarray]] = {}

    def __getitem__(self, k: int | None) -> tuple[dict[str, Any], int, np.ndarray]:
        if k not in self.known:
            self.known[k] = self._read({} if k is None else self.file.items("materials")[k])
        return self.known[k]

    def _read(self, given: dict[str, Any]) -> tuple[dict[str, Any], int, np.ndarray]:
        surface = given.get("pbrMetallicRoughness", {})
        albedo = np.array(surface.get("baseColorFactor", (1, 1, 1, 1))[:3], np.float64)
        # Textures that have their place in common stay textures; of one that lies otherwise only the mean counts.
        place = None
        textures = [surface.get(name) for name in ("baseColorTexture", "metallicRoughnessTexture")]
        textures.append(given.get("emissiveTexture"))
        for texture in textures:
            place = _placed(texture) if place is None and texture is not None else place
        texcoord, to_uv = (0, np.eye(3)) if place is None else place
        if "baseColorTexture" in surface:
            albedo = self._colors(surface["baseColorTexture"]) * albedo
        metallic, roughness = surface.get("metallicFactor", 1.0), surface.get("roughnessFactor", 1.0)
        if "metallicRoughnessTexture" in surface:
            values = self._levels(surface["metallicRoughnessTexture"], (texcoord, to_uv))
            roughness, metallic = roughness * values[..., 1], metallic * values[..., 2]
        emission = np.array(given.get("emissiveFactor", (0, 0, 0)), np.float64)
        emission *= given.get("extensions", {}).get("KHR_materials_emissive_strength", {}).get("emissiveStrength", 1.0)
        if "emissiveTexture" in given and emission.any():
            texture = given["emissiveTexture"]
            emission = emission * self._as_placed(self._colors(texture), texture, (texcoord, to_uv))
        extras = given.get("extras")
        model = extras.get(OURS, {}).get("model", "metallic") if isinstance(extras, dict) else "metallic"
        out = {
            "albedo": albedo,
            "model": model,
            "metallic": metallic if np.ndim(metallic) else float(metallic),
            "roughness": roughness if np.ndim(roughness) else float(roughness),
            "emission": emission if emission.ndim > 1 else tuple(emission.tolist()),
            "two_sided": bool(given.get("doubleSided", False)),
            "wraps": dict(zip(("albedo", "metallic", "emission"), map(self._wrap, textures), strict=True)),
        }
        out["wraps"]["roughness"] = out["wraps"]["metallic"]
        return out, texcoord, to_uv

    def _wrap(self, texture: dict[str, Any] | None) -> str:
        """How a texture goes on beyond its image; "repeat" if not the same way along both of its sides."""
        sampler = None if texture is None else self.file.items("textures")[texture["index"]].get("sampler")
        given = {} if sampler is None else self.file.items("samplers")[sampler]
        u, v = (WRAPS.get(given.get(side, 0), "repeat") for side in ("wrapS", "wrapT"))
        return u if u == v else "repeat"

    def _image(self, texture: dict[str, Any]) -> np.ndarray:
        source = self.file.items("textures")[texture["index"]].get("source")
        if source is None:
            raise ValueError("a texture is neither PNG nor JPEG")
        return decoded(self.file.image(source))

    def _colors(self, texture: dict[str, Any]) -> np.ndarray:
        """(H, W, 3) linear, whatever the number of channels."""
        image = self._image(texture)
        return image[:, :, :3] if image.shape[2] > 2 else np.repeat(image[:, :, :1], 3, axis=2)

    def _levels(self, texture: dict[str, Any], place: tuple[int, np.ndarray]) -> np.ndarray:
        """(H, W, 3) or (3,) what a file holds that is no colour, in [0, 1]."""
        from geomkit.render.color import linear_to_srgb

        levels: Callable[[Any], Any] = linear_to_srgb
        return self._as_placed(np.clip(levels(self._colors(texture)), 0, 1), texture, place)

    def _as_placed(self, image: np.ndarray, texture: dict[str, Any], place: tuple[int, np.ndarray]) -> np.ndarray:
        """A texture's image if it lies as the others do, else its mean."""
        texcoord, to_uv = _placed(texture)
        if texcoord == place[0] and np.array_equal(to_uv, place[1]):
            return image
        return image.mean(axis=(0, 1), dtype=np.float64)


def _placed(texture: dict[str, Any]) -> tuple[int, np.ndarray]:
    """Which texture coordinates a texture has, and the (3, 3) matrix that is applied to them."""
    placed = texture.get("extensions", {}).get("KHR_texture_transform")
    if placed is None:
        return texture.get("texCoord", 0), np.eye(3)
    angle = placed.get("rotation", 0.0)
    s, c = math.sin(angle), math.cos(angle)
    (x, y), (u, v) = placed.get("scale", (1, 1)), placed.get("offset", (0, 0))
    matrix = np.array([[c * x, s * y, u], [-s * x, c * y, v], [0, 0, 1]])
    return placed.get("texCoord", texture.get("texCoord", 0)), matrix


def _light(given: dict[str, Any], matrix: np.ndarray) -> Any:
    power = tuple((given.get("intensity", 1.0) * np.array(given.get("color", (1, 1, 1)), np.float64)).tolist())
    place = tuple(matrix[:3, 3].tolist())
    axis = -matrix[:3, 2]
    axis = tuple((axis / np.linalg.norm(axis)).tolist())
    if given["type"] == "directional":
        return DirectionalLight(axis, power)
    if given["type"] == "spot":
        cone = given.get("spot", {})
        inner, outer = cone.get("innerConeAngle", 0.0), cone.get("outerConeAngle", math.pi / 4)
        return SpotLight(place, axis, power, math.degrees(inner), math.degrees(outer))
    return PointLight(place, power)
