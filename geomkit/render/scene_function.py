"""Functions of a scene and cameras as primitives of all arrays in them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from geomkit.arrays import Library, library_of, precision_of, tracker_of
from geomkit.autodiff.primitive import Primitive, node_for
from geomkit.autodiff.recording import innermost
from geomkit.errors import message
from geomkit.render.camera import Camera
from geomkit.render.film import Film
from geomkit.render.rendering import CAMERA, CHANNELS, Rendering
from geomkit.render.scene import ConstantLight, Scene
from geomkit.runtime.device import device_of, namespace

__all__ = ["SceneFunction", "is_batch", "scene_of", "stacked"]


class SceneFunction(Primitive):
    """A primitive of a scene and a camera: gradients reach any array in either, by its path."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = _signature(self.forward).bind(*args, **kwargs).arguments
        scene, camera = bound.pop("scene"), bound.pop("camera")
        scene = scene_of(scene)
        arrays = {path: scene[path] for path in scene.paths()}
        for prefix, one in _views(camera).items():
            if isinstance(one, Camera):
                fields = {name: getattr(one, name) for name in CAMERA}
                arrays |= {f"{prefix}.{name}": x for name, x in fields.items() if x is not None}
        trackers = {tracker_of(x) for x in arrays.values()} - {""}
        if not trackers and innermost() is None:
            found, library = self.forward(scene, camera, **bound), library_of(*arrays.values())
            images = found if isinstance(found, list) else [found]
            images = [Rendering(**{name: library.wrap(x) for name, x in vars(image).items()}) for image in images]
            return images if isinstance(found, list) else images[0]
        known = {path: x for path, x in arrays.items() if hasattr(x, "dtype")}
        tracker = next(iter(trackers), "tape")
        followed = tuple(path for path, x in known.items() if tracker_of(x)) or None
        call: Any = _Bound(self, scene, camera, bound, known, followed)
        return node_for(tracker)(call, known)


@cache
def _signature(function: Callable) -> inspect.Signature:
    return inspect.signature(function)


class _Bound:
    """One call of a `SceneFunction` as a primitive of the arrays in its scene, by path."""

    takes_result, reason, discrete = False, "", {}

    def __init__(
        self, op: Primitive, scene: Scene, camera: Any, options: dict[str, Any], arrays: dict[str, Any], wanted: Any
    ):
        self.op, self.scene, self.camera, self.options, self.wanted = op, scene, camera, options, wanted
        self.__name__ = op.__name__
        self.parameters = tuple(arrays)
        self.sends = {path: path for path in arrays}
        chosen = options.get("channels", ("color",))
        chosen = (chosen,) if isinstance(chosen, str) else tuple(chosen)
        views = _views(camera)
        sizes = [_size(one, options) for one in views.values()]
        # Of several sizes each image has outputs of its own, after its number.
        self.listed = len(set(sizes)) > 1
        places = [f"{k}_" for k in range(len(sizes))] if self.listed else [""]
        count = f"{len(sizes)} " if is_batch(camera) and not self.listed else ""
        self.outputs = {
            f"{place}{name}": f"real {count}{size[0]} {size[1]} {CHANNELS[name]}"
            for place, size in zip(places, sizes, strict=False) for name in chosen if name in CHANNELS
        }  # fmt: skip
        self.early = tuple(self.outputs)
        self.shapes = {path: (tuple(array.shape), precision_of(array)) for path, array in arrays.items()}

    def _with(self, values: dict[str, Any]) -> tuple[Scene, Any]:
        scene = self.scene.with_plain({path: x for path, x in values.items() if not path.startswith("camera.")})
        cameras = []
        for prefix, camera in _views(self.camera).items():
            own = {path.removeprefix(f"{prefix}."): x for path, x in values.items() if path.startswith(f"{prefix}.")}
            cameras.append(replace(camera, **own))
        return scene, cameras if is_batch(self.camera) else cameras[0]

    def forward(self, **values: Any) -> Rendering:
        return self.op.forward(*self._with(values), **self.options)

    def adjoint(self, **values: Any) -> SimpleNamespace:
        cotangents = {name: values.pop(name) for name in list(values) if name.startswith("adj_")}
        scene, camera = self._with(values)
        if self.listed:
            names = [name.removeprefix("0_") for name in self.outputs if name.startswith("0_")]
            given = {n: [cotangents.get(f"adj_{k}_{n}") for k in range(len(camera))] for n in names}
            shapes = [{n: self.outputs[f"{k}_{n}"] for n in names} for k in range(len(camera))]
            cotangents = {
                f"adj_{n}": [_or_zero(x, shape[n]) for x, shape in zip(given[n], shapes, strict=True)] for n in names
            }
        g = self.op.adjoint(scene, camera, **self.options, **cotangents, wanted=self.wanted)
        fields = g.camera if isinstance(g.camera, list) else [g.camera]
        found = dict(g.scene)
        for prefix, own in zip(_views(camera), fields, strict=True):
            found |= {f"{prefix}.{name}": x for name, x in own.items()}
        gradients = {}
        for path in values:
            shape, dtype = self.shapes[path]
            # What the image does not depend on gets zero; a number for three channels the sum of theirs.
            x = found.get(path, np.zeros(shape))
            gradients[path] = (x.sum() if shape == () and x.ndim else x).astype(dtype)
        return SimpleNamespace(**gradients)

    def fields_of(self, result: Any, names: tuple[str, ...] | None = None) -> list[Any]:
        names = tuple(self.outputs) if names is None else names
        if not self.listed:
            return [getattr(result, name) for name in names]
        return [getattr(result[int(k)], name) for k, _, name in (name.partition("_") for name in names)]

    def rebuilt(self, result: Any, outputs: dict[str, Any], library: Library) -> Any:
        return self.assembled(outputs)

    def assembled(self, fields: dict[str, Any]) -> Any:
        if not self.listed:
            return Rendering(**fields)
        each: dict[int, dict[str, Any]] = {}
        for name, x in fields.items():
            k, _, channel = name.partition("_")
            each.setdefault(int(k), {})[channel] = x
        return [Rendering(**each[k]) for k in sorted(each)]


def is_batch(camera: Any) -> bool:
    """Whether it is several cameras.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(camera, (list, tuple)):
        return False
    if not len(camera):
        raise ValueError(message("render", "camera", "a Camera, or a list of at least one", "an empty list"))
    return True


def stacked(images: list[Rendering]) -> Any:
    """Images of one size as one record (B, H, W, C); of several, the list."""
    if len({x.shape[:2] for image in images for x in vars(image).values()}) > 1:
        return images
    names = list(vars(images[0]))
    xp = namespace(device_of(getattr(images[0], names[0])))
    return Rendering(**{name: xp.stack([getattr(image, name) for image in images]) for name in names})


def scene_of(given: Any) -> Scene:
    """A Scene; of a mesh, one that is lit from everywhere alike."""
    return given if isinstance(given, Scene) else Scene(given, ConstantLight())


def _views(camera: Any) -> dict[str, Any]:
    """Cameras by the beginnings of their paths."""
    if is_batch(camera):
        return {f"camera.{k}": one for k, one in enumerate(camera)}
    return {"camera": camera}


def _size(camera: Any, options: dict[str, Any]) -> tuple[int, int]:
    if not isinstance(camera, Camera):
        raise TypeError(message("render", "camera", "a Camera", type(camera).__name__))
    parts = {name: options.get(name) for name in ("rows", "columns")}
    film = Film("render", camera.width, camera.height, filter="box", samples=1, **parts)
    return film.rows, film.columns


def _or_zero(cotangent: Any, spec: str) -> Any:
    return np.zeros([int(n) for n in spec.split()[1:]]) if cotangent is None else cotangent
