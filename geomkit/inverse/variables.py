"""What a fit moves: parts of a scene and of its cameras as named arrays, and the way of gradients to them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from geomkit.arrays import describe, imported, to_host
from geomkit.errors import message
from geomkit.inverse.large_steps import LargeSteps, from_differential
from geomkit.mesh.mesh import Mesh
from geomkit.render.camera import Camera
from geomkit.render.pose import pose
from geomkit.render.scene import Scene

__all__ = ["GROUPS", "Variables", "hidden", "shown"]

GROUPS = ("shape", "texture", "light", "camera", "focal")
POWERS = ("radiance", "intensity", "irradiance", "image")
UNIT = ("material.albedo", "material.metallic", "material.roughness")


class Variables:
    """Named arrays that stand for parts of a scene and its cameras.

    Of vertices the array holds coordinates of Large Steps; of cameras "camera.rotation" and "camera.translation" (N, 3)
    about the middle of the scene and in units of its size, and "camera.focal" (), the logarithm of a factor of all
    focal lengths. If poses and focal length move together, the camera goes back as the focal length grows, for the
    middle of the scene to stay as large in the image: what is left of the focal length is perspective, which a step in
    it, not one in the distance, has to find. All else is what the scene has at that path.

    Args:
        scene: where to start.
        cameras: likewise.
        chosen: names of GROUPS, or paths of the scene.
        smoothness: of Large Steps.

    Attributes:
        values: the arrays, by name; float64.
        group: of each name.

    Raises:
        ValueError: an unknown name, or a group that the scene has nothing of.
        TypeError: a part that is no number or array.
    """

    def __init__(self, scene: Scene, cameras: list[Camera], chosen: Any, smoothness: float):
        self.scene, self.cameras, self.smoothness = scene.with_plain({}), list(cameras), smoothness
        low, high = _bounds(self.scene)
        self.middle, self.size = 0.5 * (low + high), math.hypot(*(high - low)) or 1.0
        self.group: dict[str, str] = {}
        self.values: dict[str, np.ndarray] = {}
        self._steps: dict[str, LargeSteps] = {}
        for name in chosen if isinstance(chosen, Iterable) and not isinstance(chosen, str) else (chosen,):
            self._choose(name)
        if not self.group:
            raise ValueError(message("fit", "optimise", f"some of {', '.join(GROUPS)}, or paths", repr(chosen)))
        self.restart()

    def _choose(self, name: str) -> None:
        paths = list(self.scene.paths())
        n = len(self.cameras)
        if name == "camera":
            own = {"camera.rotation": np.zeros((n, 3)), "camera.translation": np.zeros((n, 3))}
        elif name == "focal":
            own = {"camera.focal": np.zeros(())}
        elif name in GROUPS:
            lights = {f"{light}.{part}" for light in self.scene.lights for part in POWERS}
            found = {
                "shape": [path for path in paths if path.endswith(".vertices")],
                "texture": [path for path in paths if path.endswith(".material.albedo")],
                "light": [path for path in paths if path in lights],
            }[name]
            if not found:
                raise ValueError(message("fit", "optimise", f"no {name!r} for a scene without any", repr(name)))
            own = dict.fromkeys(found)
        elif name in paths:
            own = {name: None}
        else:
            expected = f"one of {', '.join(GROUPS)}, or a path such as {', '.join(paths[:3])}"
            raise ValueError(message("fit", "optimise", expected, repr(name)))
        for path, value in own.items():
            kind = name if name in GROUPS else "shape" if path.endswith(".vertices") else "light"
            kind = "texture" if ".material." in path or path.endswith(".uv") else kind
            self.group[path] = kind
            if value is not None:
                self.values[path] = value
            elif kind != "shape":
                given = self.scene[path]
                array = np.asarray(to_host(imported(given)), np.float64) if given is not None else None
                if array is None or "int" in str(getattr(given, "dtype", "")):
                    raise TypeError(message("fit", path, "floats", describe(given)))
                self.values[path] = array.copy()

    def restart(self) -> None:
        """Take the scene's vertices for the coordinates of Large Steps, whose matrix is that of its faces."""
        for path in self.shapes:
            mesh = self.mesh(path)
            steps = self._steps[path] = LargeSteps(mesh, self.smoothness)
            self.values[path] = steps.to_differential(to_host(mesh.vertices_array).astype(np.float64))

    @property
    def shapes(self) -> list[str]:
        """The paths of vertices that move."""
        return [path for path, group in self.group.items() if group == "shape"]

    def mesh(self, path: str) -> Mesh:
        """The mesh whose vertices a path names."""
        return self.scene.objects[path.removesuffix(".vertices")].mesh

    # ---- forward

    def apply(self) -> tuple[Scene, list[Camera]]:
        """The scene and the cameras at the present values."""
        moved = {path: x for path, x in self.values.items() if self.group[path] not in ("camera", "focal")}
        for path in self.shapes:
            mesh = self.mesh(path)
            vertices = self._steps[path].from_differential(self.values[path])
            bad = ~(abs(vertices) < np.finfo(mesh.dtype).max).all(axis=1)
            if bad.any():
                got = f"{int(bad.sum())} vertices that are not"
                raise ValueError(message("fit", path, "finite numbers", got))
            moved[path] = vertices.astype(mesh.dtype)
        return self.scene.with_values(moved), [self.camera(k) for k in range(len(self.cameras))]

    def camera(self, k: int) -> Camera:
        """A camera at the present values."""
        camera = self.cameras[k]
        if "camera.rotation" in self.values:
            camera = replace(camera, world_to_camera=pose.forward(*self._pose(k)))
        if "camera.focal" in self.values:
            K = np.array(camera.K)
            K[:2, :2] *= math.exp(self.values["camera.focal"])
            camera = replace(camera, K=K)
        return camera

    def _pose(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Turned about the middle of the scene, then shifted: the two hardly depend on each other."""
        base = np.array(self.cameras[k].world_to_camera)
        middle = base[:3, :3] @ self.middle + base[:3, 3]
        base[:3, 3] -= middle
        shift = middle + self.size * self.values["camera.translation"][k]
        if "camera.focal" in self.values:
            shift[2] *= math.exp(self.values["camera.focal"])
        return self.values["camera.rotation"][k], shift, base

    # ---- back

    def gradients(self, scene: dict[str, Any], cameras: dict[int, dict[str, Any]]) -> dict[str, np.ndarray]:
        """Gradients of the values, for those of the scene, by path, and of some cameras, by number and field."""
        out: dict[str, np.ndarray] = {}
        for path, value in self.values.items():
            if self.group[path] in ("camera", "focal"):
                out[path] = np.zeros(value.shape)
                continue
            g = scene.get(path)
            g = np.zeros(value.shape) if g is None else np.asarray(to_host(imported(g)), np.float64)
            g = g.sum() if value.shape == () and g.ndim else g.reshape(value.shape)
            if path in self._steps:
                g = self._back(path, g)
            out[path] = np.asarray(g, np.float64)
        for k, g in cameras.items():
            if "camera.rotation" in out:
                rotation, shift, base = self._pose(k)
                found = pose.adjoint(rotation, shift, base, adj_pose=np.asarray(g["world_to_camera"], np.float64))
                out["camera.rotation"][k] = found.rotation_vector
                back = self.size * np.array(found.translation)
                if "camera.focal" in out:
                    out["camera.focal"] += found.translation[2] * shift[2]
                    back[2] *= math.exp(self.values["camera.focal"])
                out["camera.translation"][k] = back
            if "camera.focal" in out:
                # (Those of the camera as it is now: K is linear in the factor.)
                K = np.asarray(self.camera(k).K)
                out["camera.focal"] += (np.asarray(g["K"], np.float64)[:2, :2] * K[:2, :2]).sum()
        return out

    def _back(self, path: str, g: np.ndarray) -> np.ndarray:
        if not np.isfinite(g).all():
            return g  # the optimiser says whose it is
        return from_differential.adjoint(self.values[path], self._steps[path], adj_values=g).differential

    def bounded(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The nearest values that mean something: colours in [0, 1], power not negative."""
        out = {}
        for path, x in values.items():
            if path.endswith(UNIT):
                x = np.clip(x, 0, 1)
            elif path.rpartition(".")[2] in (*POWERS, "emission"):
                x = np.maximum(x, 0)
            out[path] = x
        return out


def hidden(scene: Scene) -> Scene:
    """The scene with lights that the camera does not see."""
    lights = {
        name: replace(light, visible=False) if any(part.name == "visible" for part in fields(light)) else light
        for name, light in scene.lights.items()
    }
    return Scene(scene.objects, lights)


def shown(scene: Scene, like: Scene) -> Scene:
    """The scene with lights that are seen or not as those of another are."""
    lights = {}
    for name, light in scene.lights.items():
        seen = {"visible": getattr(like.lights[name], "visible", True)} if hasattr(light, "visible") else {}
        lights[name] = replace(light, **seen)
    return Scene(scene.objects, lights)


def _bounds(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    boxes = np.array([thing.mesh.bounds for thing in scene.objects.values() if thing.mesh.n_faces])
    if not len(boxes):
        raise ValueError(message("fit", "init", "a scene with faces", "none"))
    return boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)
