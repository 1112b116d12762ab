"""A scene as the kernels want it: one mesh, tables of materials, and lights."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import as_array, to_host
from geomkit.errors import MeshError, message
from geomkit.render.attribute import Attribute
from geomkit.render.direct_light import (
    AREA,
    CONSTANT,
    DIRECTIONAL,
    ENVIRONMENT,
    MATERIAL,
    POINT,
    SPOT,
    LightStruct,
    Met,
    Surfaces,
    emitter_points,
)
from geomkit.render.environment import Surroundings
from geomkit.render.merged import merged
from geomkit.render.scene import ConstantLight, DirectionalLight, EnvironmentLight, Object, PointLight, Scene
from geomkit.render.shading_normals import ShadingNormals
from geomkit.runtime.device import namespace

__all__ = ["LightEntry", "SceneTables", "Tint"]

COLUMNS = {"albedo": slice(0, 3), "metallic": slice(3, 4), "roughness": slice(4, 5)}  # of a row of a material
GRAZING = 0.01  # cosine below which a surface counts as seen at that angle: what a pixel covers of it stays finite


class LightEntry:
    """A light of the kernels, and where its gradients go.

    Attributes:
        name: of the light, or of the object that emits.
        light: the structure.
        paths: of the gradients of position, axis and power; "" for none.
        tint: what differs from sample to sample, and `light` gives at a power of one: a Tint, or None.
    """

    def __init__(self, name: str, light: LightStruct, position: str, axis: str, power: str, tint: Tint | None = None):
        self.name, self.light, self.tint = name, light, tint
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


class Tint:
    """The radiance of samples of a light that is not the same everywhere: of surroundings, or of a surface.

    Args:
        light: the light.
        source: a Surroundings, or the Attribute of emission.
    """

    def __init__(self, light: LightStruct, source: Surroundings | Attribute):
        self.light, self.source = light, source

    def at(self, s: Surfaces, to_light: Any, dimension: int, met: Met | None = None) -> Any:
        """(M, 3) radiance of the samples that `light_rays` draws for hits, or of the points that their rays met."""
        if isinstance(self.source, Surroundings):
            return self.source.at(to_light)
        return self.source.at(*self._points(s, dimension, met), None)

    def _points(self, s: Surfaces, dimension: int, met: Met | None) -> tuple[Any, Any]:
        if met is None:
            return emitter_points(self.light, s, dimension)
        return met.face, met.barycentric

    def adjoint(
        self, s: Surfaces, to_light: Any, dimension: int, adj: Any, out: dict[str, Any], met: Met | None = None
    ) -> None:
        """Add gradients for the cotangent (M, 3); what was drawn is a constant."""
        if isinstance(self.source, Surroundings):
            self.source.adjoint(to_light, adj, out)
            return
        face, barycentric = self._points(s, dimension, met)
        for path, value in self.source.adjoint(face, barycentric, None, adj, 0 * barycentric):
            add(out, path, value)


class SceneTables:
    """A scene on NumPy's or CuPy's arrays.

    Args:
        scene: the scene, its arrays plain.

    Attributes:
        scene: what it was made of.
        mesh: all objects as one Mesh.
        background: (3,) what a ray sees that hits nothing.
        lights: LightEntry for each.
        has_emitters: whether surfaces are among them.
        background_paths: of its gradient.
        surroundings: that such a ray sees as well.
        wanted: paths of the gradients that somebody asks for; None is all.
        has_lens: whether the camera's lens may leave pixels without a ray, of directions NaN: they are black.
        slope, width: of what a camera ray stands for, at distance t: slope * t + width, in the world. 0 if not known.
    """

    def __init__(self, scene: Scene):
        if not scene.objects:
            raise MeshError(message("render", "scene", "at least one object", "none"))
        self.scene = scene
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
        self.attributes = [self._attributes(name, thing) for name, thing in zip(self.names, self.objects, strict=True)]
        rows = np.zeros((len(meshes), MATERIAL), self.dtype)
        for row, name, thing, own in zip(rows, self.names, self.objects, self.attributes, strict=True):
            model = thing.material.model
            if model not in ("diffuse", "metallic"):
                raise ValueError(message("render", f"{name}.material.model", "'diffuse' or 'metallic'", repr(model)))
            for part, columns in COLUMNS.items():
                if own[part].constant is not None:
                    row[columns] = own[part].constant
            row[5], row[6] = model == "metallic", thing.material.two_sided
        self.material = xp.asarray(rows)
        self.emits = np.array([own["emission"].some or own["emission"].is_array for own in self.attributes])
        self.smooth = [self._smoothness(name, thing) for name, thing in zip(self.names, self.objects, strict=True)]
        self.shading = ShadingNormals(self.mesh, meshes, self.smooth) if any(self.smooth) else None
        self.vertex_normals = None if self.shading is None else self.shading.normals
        # What kernels take; where nothing is smooth they do not look at the normals.
        self.smooth_array = xp.asarray(np.array([bool(flag) for flag in self.smooth], np.int32))
        self.normals_array = self.mesh.vertices_array if self.vertex_normals is None else self.vertex_normals
        # Of emission that differs from point to point, where it is.
        emission = np.ones((len(meshes), 3))
        for row, own in zip(emission, self.attributes, strict=True):
            if own["emission"].constant is not None:
                row[:] = own["emission"].constant
        self.emission_array = xp.asarray(np.concatenate([emission, rows[:, 6:]], axis=1).astype(self.dtype))
        self.background, self.background_paths = np.zeros(3), []
        self.surroundings: list[Surroundings] = []
        self.slope = self.width = 0.0
        self.has_lens = False
        self.wanted: frozenset[str] | None = None
        pyramids = [a.pyramid for own in self.attributes for a in own.values() if a.pyramid is not None]
        # Whether what surfaces scatter differs from point to point.
        self.varying = any(own[what].constant is None for own in self.attributes for what in COLUMNS)
        self.filtered = any(pyramid.levels > 1 for pyramid in pyramids)
        self.lights = [self._light(name, light) for name, light in scene.lights.items()]
        self.lights += [self._emitter(int(k)) for k in np.flatnonzero(self.emits)]
        self.has_emitters = bool(self.emits.any())

    @staticmethod
    def _smoothness(name: str, thing: Object) -> bool | str:
        if thing.smooth == "split" or isinstance(thing.smooth, (bool, np.bool_)):
            return thing.smooth if thing.smooth == "split" else bool(thing.smooth)
        raise ValueError(message("render", f"{name}.smooth", "True, False or 'split'", repr(thing.smooth)))

    def _attributes(self, name: str, thing: Object) -> dict[str, Attribute]:
        k = self.names.index(name)
        part = slice(int(self.first_vertex[k]), int(self.first_vertex[k + 1]))
        uv = thing.uv
        if uv is not None:
            shape = (thing.mesh.n_vertices, 2)
            uv = as_array(uv, op="render", name=f"{name}.uv", shape=shape, dtype=self.dtype, device=self.device)
            # (As the least and the greatest of numbers of which one is NaN.)
            if uv.size and not np.isfinite([float(uv.min()), float(uv.max())]).all():
                raise ValueError(message("render", f"{name}.uv", "finite numbers", "nan or inf"))
        found = {}
        for what, channels in (("albedo", 3), ("metallic", 1), ("roughness", 1), ("emission", 3)):
            path, given = f"{name}.material.{what}", getattr(thing.material, what)
            found[what] = Attribute(path, given, channels, unit=channels == 1, part=part, uv=uv, mesh=self.mesh)
        return found

    def _light(self, name: str, light: Any) -> LightEntry:
        def struct(kind: int, **numbers: Any) -> LightStruct:
            return LightStruct(kind, self.dtype, self.device, **numbers)

        if isinstance(light, ConstantLight):
            radiance = color(f"{name}.radiance", light.radiance)
            if light.visible:
                self.background = self.background + radiance
                self.background_paths.append(f"{name}.radiance")
            return LightEntry(name, struct(CONSTANT, power=radiance), "", "", "radiance")
        if isinstance(light, EnvironmentLight):
            around = Surroundings(name, light.image, light.rotation, self.dtype, self.device)
            if light.visible:
                self.surroundings.append(around)
            numbers: dict[str, Any] = dict(distribution=around.table, size=(around.width, around.height))
            environment = struct(ENVIRONMENT, power=np.ones(3), position=(around.turn, 0, 0), **numbers)
            return LightEntry(name, environment, "", "", "", Tint(environment, around))
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
        # Neighbours near each other, so that even numbers become even points.
        corners = to_host(self.mesh.vertices_array)[to_host(self.mesh.faces_array)[begin:end]].astype(np.float64)
        order = np.argsort(along_curve(corners.mean(axis=1)), kind="stable")
        areas = to_host(self.mesh.face_areas)[begin:end][order].astype(np.float64)
        shares = np.cumsum(areas)
        if not (len(shares) and shares[-1] > 0):
            raise MeshError(
                message("render", f"{self.names[k]}.vertices", "faces with some area, as they emit", "none")
            )
        faces = self.xp.asarray((begin + order).astype(np.int32))
        distribution = self.xp.asarray(shares / shares[-1])
        emission = self.attributes[k]["emission"]
        power = np.ones(3) if emission.constant is None else emission.constant
        light = LightStruct(
            AREA, self.dtype, self.device, power=power, faces=faces, distribution=distribution,
            area=float(shares[-1]), followed=True, two_sided=bool(self.objects[k].material.two_sided),
        )  # fmt: skip
        if emission.constant is None:
            return LightEntry(self.names[k], light, "", "", "", Tint(light, emission))
        return LightEntry(self.names[k], light, "", "", "material.emission")

    # ---- at hits

    def widths(self, t: Any, normal: Any, direction: Any) -> Any:
        """(M,) side of the square that each of some rays stands for where it hits; None if nothing asks for it."""
        if not self.filtered or (self.slope == 0 and self.width == 0):
            return None
        xp = self.xp
        cosine = abs((normal * direction).sum(axis=1)) / xp.linalg.norm(direction, axis=1)
        return (self.slope * t + self.width) / xp.sqrt(xp.maximum(cosine, GRAZING))

    def vary(self, rows: Any, face: Any, barycentric: Any, width: Any = None) -> None:
        """Set what is not one for its object, in rows (M, 7) of materials at points of faces."""
        for k, own in enumerate(self.attributes):
            varying = [what for what in COLUMNS if own[what].constant is None]
            if varying:
                here = self._of(k, face)
                for what in varying:
                    rows[here, COLUMNS[what]] = own[what].at(*_rows(here, face, barycentric, width))

    def _of(self, k: int, face: Any) -> Any:
        """Which points are on an object."""
        return slice(None) if len(self.objects) == 1 else self.xp.flatnonzero(self.object_of_face[face] == k)

    def materials_adj(
        self, sums: Any, face: Any, barycentric: Any, adj_rows: Any, adj_barycentric: Any, out: dict[str, Any],
        width: Any = None,
    ) -> None:  # fmt: skip
        """Gradients of the materials by path, added to `out`; those of barycentric add up in adj_barycentric.

        Args:
            sums: (objects, 5) of adj_rows, by object.
            face, barycentric, width: of M points.
            adj_rows: (M, 7) cotangents of their materials.
        """
        for k, own in enumerate(self.attributes):
            for what, columns in COLUMNS.items():
                if own[what].constant is not None:
                    add(out, own[what].path, own[what].total(sums[k, columns]))
                else:
                    here, adj = self._of(k, face), adj_rows[:, columns]
                    self._add_varying(k, what, here, face, barycentric, width, adj, adj_barycentric, out)

    def emission_at(self, value: Any, face: Any, barycentric: Any, width: Any = None) -> None:
        """Multiply values (M, 3) at points of faces, or -1, by the emission that differs from point to point."""
        for k in self.varying_emitters:
            here = self._hit(k, face)
            value[here] *= self.attributes[k]["emission"].at(*_rows(here, face, barycentric, width))

    def emission_adj(
        self, face: Any, barycentric: Any, width: Any, adj: Any, adj_barycentric: Any, out: dict[str, Any]
    ) -> None:
        """Add gradients of that emission by path; those of barycentric add up."""
        for k in self.varying_emitters:
            here = self._hit(k, face)
            self._add_varying(k, "emission", here, face, barycentric, width, adj, adj_barycentric, out)

    @property
    def varying_emitters(self) -> list[int]:
        """Objects whose emission differs from point to point."""
        return [k for k, own in enumerate(self.attributes) if self.emits[k] and own["emission"].constant is None]

    def _hit(self, k: int, face: Any) -> Any:
        return self.xp.flatnonzero(self.on_object(self.names[k], face))

    def on_object(self, name: str, face: Any) -> Any:
        """(N,) whether faces, or -1, are those of an object."""
        k = self.names.index(name)
        return (face >= self.first_face[k]) & (face < self.first_face[k + 1])

    def _add_varying(
        self, k: int, what: str, here: Any, face: Any, barycentric: Any, width: Any, adj: Any, adj_barycentric: Any,
        out: dict[str, Any],
    ) -> None:  # fmt: skip
        f, b, w = _rows(here, face, barycentric, width)
        if not len(f):
            return
        whole = isinstance(here, slice)
        adj_b = adj_barycentric if whole else self.xp.zeros(b.shape, self.dtype)
        given = self.xp.ascontiguousarray(adj[here])
        for path, value in self.attributes[k][what].adjoint(f, b, w, given, adj_b, self.wanted):
            add(out, path, value)
        if not whole:
            adj_barycentric[here] += adj_b


def _rows(here: Any, face: Any, barycentric: Any, width: Any) -> tuple[Any, Any, Any]:
    return face[here], barycentric[here], None if width is None else width[here]


def add(out: dict[str, Any], path: str, value: Any) -> None:
    """Add to the gradient at a path."""
    out[path] = out[path] + value if path in out else value


def along_curve(points: np.ndarray) -> np.ndarray:
    """Numbers along Morton's curve."""
    if not len(points):
        return np.zeros(0, np.int64)
    low = points.min(axis=0)
    size = (points.max(axis=0) - low).max()
    cell = np.minimum((points - low) / (size if size > 0 else 1) * 1024, 1023).astype(np.int64)
    bits = np.arange(10)
    spread = (cell[:, :, None] >> bits & 1) << 3 * bits
    return (spread.sum(axis=2) << np.arange(3)).sum(axis=1)


def point(path: str, value: Any) -> np.ndarray:
    """Three finite numbers."""
    x = as_array(value, op="render", name=path, shape=(3,), dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError(message("render", path, "finite numbers", str(x.tolist())))
    return x


def color(path: str, value: Any) -> np.ndarray:
    """Three finite numbers; one stands for three."""
    return point(path, np.broadcast_to(value, (3,)) if np.ndim(value) == 0 else value)
