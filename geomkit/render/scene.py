"""What a renderer sees: objects with materials, and lights."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from geomkit.errors import message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.render.texture import Texture

__all__ = [
    "ConstantLight",
    "DirectionalLight",
    "EnvironmentLight",
    "Light",
    "Material",
    "Object",
    "PointLight",
    "Scene",
    "SpotLight",
]

BLACK, WHITE, GREY = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Material:
    """How a surface reflects and emits light.

    Each of its colours is (3,), or (V, 3), one at each vertex, or a texture: an image (H, W, 3), or a Texture with one.
    Each number is one, or (V,), or a texture (H, W). Textures need the object's uv.

    Attributes:
        albedo: linear RGB in [0, 1].
        model: "diffuse", or "metallic" for glTF's metallic-roughness model.
        metallic: from 0, a dielectric under a clear coat, to 1, a metal. Model "metallic" only.
        roughness: from 0, a mirror, to 1; below 0.03 it counts as that.
        emission: radiance that the surface emits. An object with any is a light; so is one whose emission is an array,
            zeros included, of which gradients then say whether it ought to shine.
        two_sided: whether the back reflects and emits as the front does; else it is black.
    """

    albedo: Any = GREY
    model: str = "diffuse"
    metallic: Any = 0.0
    roughness: Any = 0.5
    emission: Any = BLACK
    two_sided: bool = True


@dataclass(frozen=True)
class Object:
    """A mesh and its material.

    Attributes:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        material: its material.
        uv: (V, 2) texture coordinates, v upwards, or None.
        smooth: shade with normals interpolated between the vertices instead of those of the faces. True gives all
            vertices at one place one normal, so that seams of textures do not show; "split" each vertex its own, so
            that edges are hard where a mesh was cut for that.
    """

    mesh: Any
    material: Material = field(default_factory=Material)
    uv: Any = None
    smooth: bool | str = False


@dataclass(frozen=True)
class ConstantLight:
    """Light that comes from everywhere alike, and is what a ray sees that hits nothing.

    Attributes:
        radiance: (3,) linear RGB.
        visible: whether the camera sees it.
    """

    radiance: Any = WHITE
    visible: bool = True


@dataclass(frozen=True)
class EnvironmentLight:
    """Light from an image of the surroundings, infinitely far away: latitude by longitude, y up.

    The middle of the image is in the direction -z, where a camera looks in OpenGL's convention; +x is at three quarters
    of its width, -x at one quarter, +z at both ends; +y is the top row. So what is on the right of the image is on the
    right of who looks along -z. Directions are drawn by how bright they are and by how surfaces reflect them.

    Attributes:
        image: (H, W, 3) linear RGB radiance, bilinear between texels.
        rotation: degrees by which the surroundings are turned about y, counter-clockwise seen from above.
        visible: whether the camera sees it.
    """

    image: Any
    rotation: Any = 0.0
    visible: bool = True


@dataclass(frozen=True)
class PointLight:
    """A light at a point.

    Attributes:
        position: (3,).
        intensity: (3,) power per solid angle.
    """

    position: Any
    intensity: Any = WHITE


@dataclass(frozen=True)
class SpotLight:
    """A light at a point that shines into a cone.

    Attributes:
        position, direction: (3,), where it is and where it shines.
        intensity: (3,) power per solid angle in the middle of the cone.
        inner, outer: angles from the axis, in degrees, up to which the light is full and beyond which there is none.
    """

    position: Any
    direction: Any
    intensity: Any = WHITE
    inner: float = 0.0
    outer: float = 45.0


@dataclass(frozen=True)
class DirectionalLight:
    """Light from infinitely far away.

    Attributes:
        direction: (3,) in which it travels.
        irradiance: (3,) on a surface across it.
    """

    direction: Any
    irradiance: Any = WHITE


Light = ConstantLight | EnvironmentLight | PointLight | SpotLight | DirectionalLight
KINDS = (ConstantLight, EnvironmentLight, PointLight, SpotLight, DirectionalLight)


class Scene:
    """Objects and lights, by name.

    Any number or array in it has a path, such as `bunny.material.albedo`, `bunny.vertices` or `sun.direction`:
    `scene[path]` reads it, of a texture the image, and `scene.with_values({path: value})` is the scene with another
    value. Gradients are named by these paths.

    Args:
        objects: meshes or `Object`s by name; or one of them, which is then called "object".
        lights: lights by name; or one of them, called "light". An object whose material emits is a light as well.

    Raises:
        TypeError: what is neither.
        ValueError: a name with a dot in it, used twice, or "camera".

    Example:
        >>> import geomkit as gk
        >>> scene = gk.Scene({"ball": gk.shapes.icosphere(2)}, {"sky": gk.ConstantLight()})
        >>> scene["ball.material.albedo"]
        (0.5, 0.5, 0.5)
    """

    def __init__(self, objects: Any, lights: Any = ()):
        if not isinstance(objects, Mapping):
            objects = {"object": objects}
        if not isinstance(lights, Mapping):
            lights = {} if isinstance(lights, (tuple, list)) and not lights else {"light": lights}
        self.objects: dict[str, Object] = {}
        self.lights: dict[str, Light] = {}
        for name, thing in objects.items():
            self._check_name(name)
            if not isinstance(thing, Object):
                if not (isinstance(thing, Mesh) or (hasattr(thing, "vertices") and hasattr(thing, "faces"))):
                    raise TypeError(message("Scene", f"objects[{name!r}]", "an Object or a mesh", type(thing).__name__))
                thing = Object(thing)
            if not isinstance(thing.material, Material):
                got = type(thing.material).__name__
                raise TypeError(message("Scene", f"objects[{name!r}].material", "a Material", got))
            self.objects[name] = thing if isinstance(thing.mesh, Mesh) else replace(thing, mesh=as_mesh(thing.mesh))
        for name, light in lights.items():
            self._check_name(name)
            if not isinstance(light, KINDS):
                expected = "one of " + ", ".join(kind.__name__ for kind in KINDS)
                raise TypeError(message("Scene", f"lights[{name!r}]", expected, type(light).__name__))
            self.lights[name] = light

    def _check_name(self, name: Any) -> None:
        if not isinstance(name, str) or "." in name or name in ("", "camera") or name in self.objects:
            expected = "a string without a dot, used once and other than 'camera'"
            raise ValueError(message("Scene", "names", expected, repr(name)))

    def __repr__(self) -> str:
        return f"Scene(objects: {', '.join(self.objects)}; lights: {', '.join(self.lights) or 'none'})"

    def save(self, path: str | os.PathLike) -> None:
        """Write the scene as a GLB, OBJ or PLY file: see `geomkit.save_scene`."""
        from geomkit.render.scene_io import save_scene

        save_scene(path, self)

    # ---- by path

    def paths(self) -> Iterator[str]:
        """The paths of all numbers and arrays."""
        for name, thing in self.objects.items():
            yield f"{name}.vertices"
            if thing.uv is not None:
                yield f"{name}.uv"
            for part in ("albedo", "metallic", "roughness", "emission"):
                yield f"{name}.material.{part}"
        for name, light in self.lights.items():
            for part in fields(light):
                if part.name not in ("visible", "inner", "outer"):
                    yield f"{name}.{part.name}"

    def __getitem__(self, path: str) -> Any:
        name, _, rest = path.partition(".")
        if path not in set(self.paths()):
            raise KeyError(f"Scene: no {path!r} in it: there are {', '.join(self.paths())}")
        thing: Any = self.objects.get(name) or self.lights[name]
        value = thing.mesh.vertices if rest == "vertices" else operator.attrgetter(rest)(thing)
        return value.image if isinstance(value, Texture) else value

    def with_plain(self, values: Mapping[str, Any]) -> Scene:
        """The scene on NumPy's or CuPy's arrays, with these at some paths."""
        objects = {}
        for name, thing in self.objects.items():
            objects[name] = replace(thing, mesh=thing.mesh.plain_with(values.get(f"{name}.vertices")))
        return Scene(objects, self.lights).with_values(
            {path: x for path, x in values.items() if not path.endswith(".vertices")}
        )

    def with_values(self, values: Mapping[str, Any]) -> Scene:
        """The scene with other values at some paths.

        Args:
            values: by path.

        Raises:
            KeyError: no such path.
        """
        objects, lights = dict(self.objects), dict(self.lights)
        for path, value in values.items():
            self[path]
            name, _, rest = path.partition(".")
            if name in lights:
                lights[name] = replace(lights[name], **{rest: value})
            elif rest == "vertices":
                mesh = objects[name].mesh
                objects[name] = replace(
                    objects[name], mesh=mesh if value is mesh.vertices else mesh.with_vertices(value)
                )
            elif rest == "uv":
                objects[name] = replace(objects[name], uv=value)
            else:
                material, part = objects[name].material, rest.removeprefix("material.")
                texture = getattr(material, part)
                if isinstance(texture, Texture) and not isinstance(value, Texture):
                    value = replace(texture, image=value)
                objects[name] = replace(objects[name], material=replace(material, **{part: value}))
        return Scene(objects, lights)
