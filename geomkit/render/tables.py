"""A scene as the kernels want it: one mesh, tables of materials, and lights."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import as_array, to_host
from geomkit.errors import MeshError, message
from geomkit.mesh.mesh import Mesh
from geomkit.render.direct_light import AREA, CONSTANT, DIRECTIONAL, MATERIAL, POINT, SPOT, LightStruct
from geomkit.render.interpolate import interpolated, interpolated_adj
from geomkit.render.scene import ConstantLight, DirectionalLight, Object, PointLight, Scene
from geomkit.render.texture import texel_colors, texel_colors_adj
from geomkit.runtime.device import namespace

__all__ = ["LightEntry", "SceneTables"]


class LightEntry:
    """A light of the kernels, and where its gradients go.

    Attributes:
        name: of the light, or of the object that emits.
        light: the structure.
        paths: of the gradients of position, axis and power; "" for none.
    """

    def __init__(self, name: str, light: LightStruct, position: str, axis: str, power: str):
        self.name, self.light = name, light
        self.paths = tuple(f"{name}.{part}" if part else "" for part in (position, axis, power))
        self.lengths: dict[str, np.ndarray] = {}  # directions as given, before they were made one long

    def add_gradients(self, sums: np.ndarray, out: dict[str, Any]) -> None:
        """Add gradients of position, axis and power (9,) at their paths."""
        for path, value in zip(self.paths, sums.reshape(3, 3), strict=True):
            if path in self.lengths:
                given = self.lengths[path]
                length = np.linalg.norm(given)
                value = (value - given * (given @ value) / length**2) / length
            if path:
                add(out, path, value)


class SceneTables:
    """A scene on NumPy's or CuPy's arrays.

    Args:
        scene: the scene, its arrays plain.

    Attributes:
        mesh: all objects as one Mesh.
        background: (3,) what a ray sees that hits nothing.
        lights: LightEntry for each.
        background_path: of its gradient, or "".
    """

    def __init__(self, scene: Scene):
        if not scene.objects:
            raise MeshError(message("render", "scene", "at least one object", "none"))
        self.names = list(scene.objects)
        self.objects = list(scene.objects.values())
        meshes = [thing.mesh.plain for thing in self.objects]
        self.mesh = merged(meshes)
        self.dtype, self.device = self.mesh.dtype, self.mesh.device
        self.first_vertex = np.cumsum([0, *(m.n_vertices for m in meshes)])
        self.first_face = np.cumsum([0, *(m.n_faces for m in meshes)])
        xp = namespace(self.device)
        self.xp = xp
        self.object_of_face = xp.asarray(np.repeat(np.arange(len(meshes), dtype=np.int32), np.diff(self.first_face)))
        self.albedo = [self._albedo(name, thing) for name, thing in zip(self.names, self.objects, strict=True)]
        self.uv = [self._uv(name, thing) for name, thing in zip(self.names, self.objects, strict=True)]
        rows = np.zeros((len(meshes), MATERIAL), self.dtype)
        self.emission = np.zeros((len(meshes), 3))
        for row, name, thing, albedo in zip(rows, self.names, self.objects, self.albedo, strict=True):
            material = thing.material
            if material.model not in ("diffuse", "metallic"):
                raise ValueError(
                    message("render", f"{name}.material.model", "'diffuse' or 'metallic'", repr(material.model))
                )
            row[:3] = to_host(albedo) if albedo.ndim == 1 else 1
            row[3] = number(f"{name}.material.metallic", material.metallic)
            row[4] = number(f"{name}.material.roughness", material.roughness)
            row[5], row[6] = material.model == "metallic", material.two_sided
            self.emission[self.names.index(name)] = color(f"{name}.material.emission", material.emission)
        self.material = xp.asarray(rows)
        self.emits = self.emission.any(axis=1)
        self.smooth = [thing.smooth for thing in self.objects]
        self.vertex_normals = xp.asarray(self.mesh.vertex_normals) if any(self.smooth) else None
        # What kernels take; where nothing is smooth they do not look at the normals.
        self.smooth_array = xp.asarray(np.array(self.smooth, np.int32))
        self.normals_array = self.mesh.vertices_array if self.vertex_normals is None else self.vertex_normals
        self.emission_array = xp.asarray(np.concatenate([self.emission, rows[:, 6:]], axis=1).astype(self.dtype))
        self.background, self.background_path = np.zeros(3), ""
        self.lights = [self._light(name, light) for name, light in scene.lights.items()]
        self.lights += [self._emitter(int(k)) for k in np.flatnonzero(self.emits)]

    def _albedo(self, name: str, thing: Object) -> Any:
        given = thing.material.albedo
        shape = np.shape(given)
        path = f"{name}.material.albedo"
        wanted: tuple[Any, ...] = (3,)
        if len(shape) == 2:
            wanted = (thing.mesh.n_vertices, 3)
        elif len(shape) == 3:
            wanted = ("H", "W", 3)
        device = "cpu" if len(shape) == 1 else self.device
        return as_array(given, op="render", name=path, shape=wanted, dtype=self.dtype, device=device)

    def _uv(self, name: str, thing: Object) -> Any:
        if thing.uv is None:
            if self.albedo[self.names.index(name)].ndim == 3:
                raise ValueError(message("render", f"{name}.uv", "texture coordinates, as albedo is a texture", "None"))
            return None
        shape = (thing.mesh.n_vertices, 2)
        return as_array(thing.uv, op="render", name=f"{name}.uv", shape=shape, dtype=self.dtype, device=self.device)

    def _light(self, name: str, light: Any) -> LightEntry:
        def struct(kind: int, **numbers: Any) -> LightStruct:
            return LightStruct(kind, self.dtype, self.device, **numbers)

        if isinstance(light, ConstantLight):
            radiance = color(f"{name}.radiance", light.radiance)
            if light.visible:
                self.background, self.background_path = radiance, f"{name}.radiance"
            return LightEntry(name, struct(CONSTANT, power=radiance), "", "", "radiance")
        if isinstance(light, DirectionalLight):
            travel = point(f"{name}.direction", light.direction)
            length = np.linalg.norm(travel)
            if length == 0:
                raise ValueError(message("render", f"{name}.direction", "a direction", str(travel.tolist())))
            power = color(f"{name}.irradiance", light.irradiance)
            light = struct(DIRECTIONAL, power=power, position=travel / length)
            entry = LightEntry(name, light, "direction", "", "irradiance")
            entry.lengths[f"{name}.direction"] = travel
            return entry
        power, position = color(f"{name}.intensity", light.intensity), point(f"{name}.position", light.position)
        if isinstance(light, PointLight):
            return LightEntry(name, struct(POINT, power=power, position=position), "position", "", "intensity")
        axis = point(f"{name}.direction", light.direction)
        if not np.linalg.norm(axis) > 0:
            raise ValueError(message("render", f"{name}.direction", "a direction", str(axis.tolist())))
        if not 0 <= light.inner < light.outer <= 180:
            got = f"{light.inner} and {light.outer}"
            raise ValueError(message("render", f"{name}.inner, outer", "degrees, 0 <= inner < outer <= 180", got))
        unit = axis / np.linalg.norm(axis)
        numbers = dict(power=power, position=position, axis=unit, inner=light.inner, outer=light.outer)
        entry = LightEntry(name, struct(SPOT, **numbers), "position", "direction", "intensity")
        entry.lengths[f"{name}.direction"] = axis
        return entry

    def _emitter(self, k: int) -> LightEntry:
        """The object k as a light: its faces by their areas."""
        begin, end = self.first_face[k], self.first_face[k + 1]
        areas = to_host(self.mesh.face_areas)[begin:end].astype(np.float64)
        shares = np.cumsum(areas)
        if not (len(shares) and shares[-1] > 0):
            raise MeshError(
                message("render", f"{self.names[k]}.vertices", "faces with some area, as they emit", "none")
            )
        faces = self.xp.asarray(np.arange(begin, end, dtype=np.int32))
        distribution = self.xp.asarray(shares / shares[-1])
        light = LightStruct(
            AREA, self.dtype, self.device, power=self.emission[k], faces=faces, distribution=distribution,
            two_sided=bool(self.objects[k].material.two_sided),
        )  # fmt: skip
        return LightEntry(self.names[k], light, "", "", "material.emission")

    # ---- at hits

    def albedo_at(self, face: Any, barycentric: Any) -> Any:
        """(M, 3) albedo at points of faces."""
        rows = self.material[self.object_of_face[face]]
        self.color(rows, face, barycentric)
        return rows[:, :3]

    def color(self, rows: Any, face: Any, barycentric: Any) -> None:
        """Set the albedo that is not one for its object, in rows (M, 7) of materials at points of faces."""
        for k, albedo in enumerate(self.albedo):
            if albedo.ndim > 1:
                here = self._of(k, face)
                rows[here, :3] = self._colors(k, face[here], barycentric[here])

    def _of(self, k: int, face: Any) -> Any:
        """Which points are on an object."""
        return slice(None) if len(self.objects) == 1 else self.xp.flatnonzero(self.object_of_face[face] == k)

    def _colors(self, k: int, face: Any, barycentric: Any) -> Any:
        albedo = self.albedo[k]
        if albedo.ndim == 2:
            return interpolated(self.mesh, self._spread(k, albedo), face, barycentric)
        return texel_colors(albedo, interpolated(self.mesh, self._spread(k, self.uv[k]), face, barycentric))

    def _spread(self, k: int, attribute: Any) -> Any:
        """An attribute of one object's vertices, for those of all."""
        if len(self.objects) == 1:
            return attribute
        whole = self.xp.zeros((self.mesh.n_vertices, attribute.shape[1]), self.dtype)
        whole[self.first_vertex[k] : self.first_vertex[k + 1]] = attribute
        return whole

    def materials_adj(
        self, sums: Any, face: Any, barycentric: Any, adj_rows: Any, adj_barycentric: Any, out: dict[str, Any]
    ) -> None:
        """Gradients of the materials by path, added to `out`; those of barycentric add up in adj_barycentric.

        Args:
            sums: (objects, 5) of adj_rows, by object.
            face, barycentric: of M points.
            adj_rows: (M, 7) cotangents of their materials.
        """
        for k, name in enumerate(self.names):
            add(out, f"{name}.material.metallic", sums[k, 3])
            add(out, f"{name}.material.roughness", sums[k, 4])
            albedo = self.albedo[k]
            if albedo.ndim == 1:
                add(out, f"{name}.material.albedo", sums[k, :3])
                continue
            here = self._of(k, face)
            adj_color = self.xp.ascontiguousarray(adj_rows[here, :3])
            if not len(adj_color):
                continue
            f, b = face[here], self.xp.ascontiguousarray(barycentric[here])
            adj_b = self.xp.zeros(b.shape, self.dtype)
            part = slice(self.first_vertex[k], self.first_vertex[k + 1])
            if albedo.ndim == 2:
                whole = interpolated_adj(self.mesh, self._spread(k, albedo), f, b, adj_color, adj_b)
                add(out, f"{name}.material.albedo", whole[part])
            else:
                spread = self._spread(k, self.uv[k])
                adj_texture, adj_uv = texel_colors_adj(albedo, interpolated(self.mesh, spread, f, b), adj_color)
                add(out, f"{name}.material.albedo", adj_texture)
                add(out, f"{name}.uv", interpolated_adj(self.mesh, spread, f, b, adj_uv, adj_b)[part])
            adj_barycentric[here] += adj_b


def add(out: dict[str, Any], path: str, value: Any) -> None:
    """Add to the gradient at a path."""
    out[path] = out[path] + value if path in out else value


def merged(meshes: list[Mesh]) -> Mesh:
    """Several meshes as one, faces and vertices in their order."""
    if len(meshes) == 1:
        return meshes[0]
    devices = {m.device for m in meshes}
    if len(devices) > 1:
        raise ValueError(message("render", "scene", "meshes on one device", " and ".join(sorted(devices))))
    xp = namespace(meshes[0].device)
    dtype = np.result_type(*(m.dtype for m in meshes))
    vertices = xp.concatenate([m.vertices_array.astype(dtype) for m in meshes])
    first = np.cumsum([0, *(m.n_vertices for m in meshes)])
    faces = xp.concatenate([m.faces_array + np.int32(k) for m, k in zip(meshes, first, strict=False)])
    return Mesh.adopt(vertices, faces, meshes[0].library)


def number(path: str, value: Any) -> float:
    """A number in [0, 1]."""
    x = float(as_array(value, op="render", name=path, shape=(), dtype=np.float64))
    if not 0 <= x <= 1:
        raise ValueError(message("render", path, "a number in [0, 1]", repr(x)))
    return x


def point(path: str, value: Any) -> np.ndarray:
    """Three finite numbers."""
    x = as_array(value, op="render", name=path, shape=(3,), dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError(message("render", path, "finite numbers", str(x.tolist())))
    return x


def color(path: str, value: Any) -> np.ndarray:
    """Three finite numbers; one stands for three."""
    return point(path, np.broadcast_to(value, (3,)) if np.ndim(value) == 0 else value)
