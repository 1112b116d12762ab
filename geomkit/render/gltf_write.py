"""Scenes and cameras as GLB files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from geomkit.arrays import to_host
from geomkit.errors import message
from geomkit.render.camera import Camera
from geomkit.render.color import srgb_to_linear
from geomkit.render.gltf_file import glb_of
from geomkit.render.gltf_read import OURS
from geomkit.render.image_io import encoded_png
from geomkit.render.scene import ConstantLight, DirectionalLight, EnvironmentLight, Object, Scene, SpotLight
from geomkit.render.shading_normals import ShadingNormals
from geomkit.render.texture import Texture

__all__ = ["glb_of_scene"]

FLOAT, UNSIGNED = 5126, 5125
ARRAYS, INDICES = 34962, 34963
WRAPS = {"repeat": None, "clamp": 33071, "mirror": 33648}
NEAR, FAR = 0.01, 1000.0


def glb_of_scene(scene: Scene, cameras: Mapping[str, Camera]) -> bytes:
    """The content of a GLB file.

    Raises:
        ValueError: what glTF has no place for.
    """
    out = _Writer()
    for name, thing in scene.objects.items():
        out.add_object(name, thing)
    constant = []
    for name, light in scene.lights.items():
        if isinstance(light, EnvironmentLight):
            raise ValueError(message("save_scene", name, "a light other than surroundings, as glTF has none", "one"))
        if isinstance(light, ConstantLight):
            radiance = _three(light.radiance)
            constant.append({"name": name, "radiance": radiance, "visible": bool(light.visible)})
        else:
            out.add_light(name, light)
    for name, camera in cameras.items():
        out.add_camera(name, camera)
    if constant:
        out.scene["extras"] = {OURS: {"constant_lights": constant, "lights": list(scene.lights)}}
    return out.finished()


class _Writer:
    def __init__(self) -> None:
        self.binary = bytearray()
        self.scene: dict[str, Any] = {"nodes": []}
        self.lists: dict[str, list[Any]] = {}
        self.lights: list[Any] = []
        self.extensions: set[str] = set()

    def add(self, kind: str, thing: Any) -> int:
        self.lists.setdefault(kind, []).append(thing)
        return len(self.lists[kind]) - 1

    def finished(self) -> bytes:
        document: dict[str, Any] = {"asset": {"version": "2.0", "generator": "geomkit"}, "scene": 0}
        document |= {"scenes": [self.scene], **self.lists}
        if self.lights:
            document["extensions"] = {"KHR_lights_punctual": {"lights": self.lights}}
        if self.extensions:
            document["extensionsUsed"] = sorted(self.extensions)
        if self.binary:
            document["buffers"] = [{"byteLength": len(self.binary)}]
        return glb_of(document, bytes(self.binary))

    def view(self, data: bytes, **more: Any) -> int:
        self.binary += b"\0" * (-len(self.binary) % 4)
        at = len(self.binary)
        self.binary += data
        return self.add("bufferViews", {"buffer": 0, "byteOffset": at, "byteLength": len(data), **more})

    def accessor(self, array: np.ndarray, *, bounds: bool = False) -> int:
        """An accessor of (N, C) floats or (N,) indices."""
        real = array.ndim == 2
        data = np.ascontiguousarray(array, "<f4" if real else "<u4")
        view = self.view(data.tobytes(), target=ARRAYS if real else INDICES)
        kind = f"VEC{array.shape[1]}" if real else "SCALAR"
        component = FLOAT if real else UNSIGNED
        given = {"bufferView": view, "componentType": component, "count": len(array), "type": kind}
        if bounds:
            given |= {"min": data.min(axis=0).tolist(), "max": data.max(axis=0).tolist()}
        return self.add("accessors", given)

    def node(self, name: str, **more: Any) -> None:
        self.scene["nodes"].append(self.add("nodes", {"name": name, **more}))

    def add_object(self, name: str, thing: Object) -> None:
        mesh = thing.mesh.plain
        if not mesh.n_faces:
            # A mesh without faces has no place there: the name stays.
            self.node(name)
            return
        attributes = {"POSITION": self.accessor(to_host(mesh.vertices_array), bounds=True)}
        if thing.smooth:
            normals = to_host(ShadingNormals(mesh, [mesh], [thing.smooth]).normals)
            # glTF wants unit vectors, of vertices without any as well.
            attributes["NORMAL"] = self.accessor(np.where(normals.any(axis=1, keepdims=True), normals, (0, 0, 1)))
        if thing.uv is not None:
            uv = to_host(_plain(thing.uv)).astype(np.float64)
            attributes["TEXCOORD_0"] = self.accessor(np.stack([uv[:, 0], 1 - uv[:, 1]], axis=1))
        given = thing.material.albedo
        albedo = to_host(_plain(given.image if isinstance(given, Texture) else given))
        if albedo.ndim == 2:
            _unit(f"{name}.material.albedo", [float(albedo.min()), float(albedo.max())])
            attributes["COLOR_0"] = self.accessor(albedo)
        material = self.material(name, thing, albedo)
        faces = self.accessor(to_host(mesh.faces_array).ravel())
        primitive = {"attributes": attributes, "indices": faces, "material": material}
        self.node(name, mesh=self.add("meshes", {"name": name, "primitives": [primitive]}))

    def material(self, name: str, thing: Object, albedo: np.ndarray) -> int:
        given = thing.material
        diffuse = given.model == "diffuse"
        surface = self.metal(name, 0.0, 1.0) if diffuse else self.metal(name, given.metallic, given.roughness)
        if albedo.ndim == 3:
            _unit(f"{name}.material.albedo", [float(albedo.min()), float(albedo.max())])
            surface["baseColorTexture"] = self.texture(name, albedo, given.albedo)
        elif albedo.ndim < 2:
            surface["baseColorFactor"] = [*_unit(f"{name}.material.albedo", _three(albedo)), 1.0]
        out: dict[str, Any] = {"name": name, "pbrMetallicRoughness": surface, "doubleSided": bool(given.two_sided)}
        emission = to_host(_plain(given.emission)).astype(np.float64)
        if emission.ndim == 3 and emission.any() and emission.min() >= 0:
            # The image in [0, 1], its brightness as a factor.
            brightest = float(emission.max())
            out["emissiveTexture"] = self.texture(f"{name} emission", emission / brightest, given.emission)
            emission = brightest
        emission = _three(emission)
        if min(emission) < 0:
            raise ValueError(message("save_scene", f"{name}.material.emission", "numbers from 0 on", str(emission)))
        if any(emission):
            strength = max(1.0, *emission)
            out["emissiveFactor"] = [x / strength for x in emission]
            if strength > 1:
                out["extensions"] = {"KHR_materials_emissive_strength": {"emissiveStrength": strength}}
                self.extensions.add("KHR_materials_emissive_strength")
        if diffuse:
            out["extras"] = {OURS: {"model": "diffuse"}}
        return self.add("materials", out)

    def texture(self, name: str, image: np.ndarray, *given: Any) -> dict[str, int]:
        """A texture of linear colours (H, W, 3), which repeats as the first of what was given that says how."""
        view = self.view(encoded_png(image.astype(np.float32)))
        source = self.add("images", {"bufferView": view, "mimeType": "image/png", "name": name})
        texture: dict[str, Any] = {"source": source}
        wrap = next((WRAPS[one.wrap] for one in given if isinstance(one, Texture)), None)
        if wrap is not None:
            texture["sampler"] = self.add("samplers", {"wrapS": wrap, "wrapT": wrap})
        return {"index": self.add("textures", texture)}

    def metal(self, name: str, metallic: Any, roughness: Any) -> dict[str, Any]:
        """The numbers of the metallic-roughness model, as factors or as one texture: roughness green, metallic blue."""
        values = {"metallic": to_host(_plain(metallic)), "roughness": to_host(_plain(roughness))}
        values = {part: x.reshape(x.shape[:2]) if x.ndim == 3 else x for part, x in values.items()}
        for part, x in values.items():
            if x.ndim == 1:
                got = f"{x.shape}"
                raise ValueError(message("save_scene", f"{name}.material.{part}", "a number or a texture (H, W)", got))
        sizes = {x.shape for x in values.values() if x.ndim}
        if not sizes:
            return {f"{part}Factor": float(x) for part, x in values.items()}
        if len(sizes) > 1:
            expected, got = "textures of one size, as glTF has both in one", f"{sorted(sizes)}"
            raise ValueError(message("save_scene", f"{name}.material.metallic, roughness", expected, got))
        size = sizes.pop()
        green, blue = (np.broadcast_to(values[part], size).astype(np.float32) for part in ("roughness", "metallic"))
        image = np.stack([np.zeros(size, np.float32), green, blue], axis=2)
        # What is written as a colour is encoded; these are numbers.
        texture = self.texture(f"{name} metallic roughness", srgb_to_linear(image), roughness, metallic)
        return {"metallicRoughnessTexture": texture}

    def add_light(self, name: str, light: Any) -> None:
        directional = isinstance(light, DirectionalLight)
        power = _three(light.irradiance if directional else light.intensity)
        if min(power) < 0:
            raise ValueError(message("save_scene", name, "a light of numbers from 0 on", str(power)))
        strength = max(power)
        given: dict[str, Any] = {"name": name, "type": "directional" if directional else "point", "intensity": strength}
        given["color"] = [x / strength for x in power] if strength else [1.0, 1.0, 1.0]
        where: dict[str, Any] = {} if directional else {"translation": _three(light.position)}
        if isinstance(light, SpotLight):
            given["type"] = "spot"
            if light.outer > 90:
                raise ValueError(message("save_scene", f"{name}.outer", "at most 90 degrees in glTF", f"{light.outer}"))
            angles = {"innerConeAngle": math.radians(light.inner), "outerConeAngle": math.radians(light.outer)}
            given["spot"] = angles
        if directional or isinstance(light, SpotLight):
            where["rotation"] = _turned(np.array(_three(light.direction)))
        self.lights.append(given)
        self.extensions.add("KHR_lights_punctual")
        self.node(name, extensions={"KHR_lights_punctual": {"light": len(self.lights) - 1}}, **where)

    def add_camera(self, name: str, camera: Camera) -> None:
        pose, K = (to_host(_plain(x)).astype(np.float64) for x in (camera.world_to_camera, camera.K))
        middle = (K[0, 2], K[1, 2], K[0, 1]) == (camera.width / 2, camera.height / 2, 0)
        if camera.distortion is not None or not middle or K[0, 0] != K[1, 1] or K[0, 0] <= 0:
            expected = "square pixels, the axis in the middle of the image and no distortion, as glTF has nothing else"
            raise ValueError(message("save_scene", f"cameras[{name!r}]", expected, repr(camera)))
        half = 0.5 * camera.height / K[0, 0]
        if camera.model == "pinhole":
            lens = {"yfov": 2 * math.atan(half), "aspectRatio": camera.width / camera.height, "znear": NEAR}
            given: dict[str, Any] = {"name": name, "type": "perspective", "perspective": lens}
        else:
            lens = {"xmag": half * camera.width / camera.height, "ymag": half, "znear": NEAR, "zfar": FAR}
            given = {"name": name, "type": "orthographic", "orthographic": lens}
        matrix = np.linalg.inv(np.diag([1.0, -1.0, -1.0, 1.0]) @ pose)
        self.node(name, camera=self.add("cameras", given), matrix=matrix.T.ravel().tolist())


def _plain(x: Any) -> Any:
    """An array without a tracker of gradients: a file has no place for one."""
    return x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x) if not hasattr(x, "get") else x


def _three(x: Any) -> list[float]:
    return np.broadcast_to(to_host(_plain(x)).astype(np.float64), (3,)).tolist()


def _unit(path: str, values: list[float]) -> list[float]:
    if not (min(values) >= 0 and max(values) <= 1):
        raise ValueError(message("save_scene", path, "numbers in [0, 1]", str(values)))
    return values


def _turned(direction: np.ndarray) -> list[float]:
    """The quaternion (x, y, z, w) of a rotation that takes -z, where glTF's lights shine, to a direction."""
    to = direction / np.linalg.norm(direction)
    if to[2] > 1 - 1e-12:
        return [0.0, 1.0, 0.0, 0.0]
    q = np.append(np.cross([0.0, 0.0, -1.0], to), 1 - to[2])
    return (q / np.linalg.norm(q)).tolist()
