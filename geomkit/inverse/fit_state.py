"""Where a fit is: its variables, what the optimisers remember, and the file that holds both."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from geomkit.arrays import imported, to_host
from geomkit.errors import message
from geomkit.files import replacing
from geomkit.inverse.optimizer import Adam, UniformAdam
from geomkit.inverse.schedule import Schedule
from geomkit.inverse.variables import Variables
from geomkit.mesh.mesh import Mesh
from geomkit.render.scene import Object, Scene
from geomkit.spatial.isotropic_remesh import isotropic_remesh

__all__ = ["FitState", "read_checkpoint", "write_checkpoint"]

PER_VERTEX = ("albedo", "metallic", "roughness", "emission")


class FitState:
    """The variables of a fit and their optimisers.

    Attributes:
        iteration: number of iterations done.
        stage: number of stages entered.
        losses: of all iterations.
    """

    def __init__(self, variables: Variables, schedules: dict[str, Schedule]):
        self.variables, self.schedules = variables, schedules
        self.iteration, self.stage, self.factor = 0, 0, 1.0
        self.losses: list[float] = []
        self._renew(variables.values)

    def _renew(self, values: dict[str, np.ndarray]) -> None:
        """Optimisers that remember nothing."""
        rates = {path: self._rate(path) for path in self.schedules}
        shapes = self.variables.shapes
        self.optimizers = {
            "shape": UniformAdam({path: values[path] for path in shapes}, rates),
            "rest": Adam({path: x for path, x in values.items() if path not in shapes}, rates),
        }

    def _rate(self, path: str) -> Schedule:
        is_shape = self.variables.group[path] == "shape"
        # By the iteration of the fit, wherever the optimiser began.
        return lambda _: self.schedules[path](self.iteration) * (self.factor if is_shape else 1.0)

    def step(self, gradients: dict[str, np.ndarray], loss: float, factor: float) -> None:
        """Move against the gradients.

        Raises:
            ValueError: one, or the loss, is not finite.
        """
        self.factor = factor
        if not np.isfinite(loss):
            raise ValueError(message("fit", "loss", f"a finite one at iteration {self.iteration}", str(loss)))
        moved: dict[str, np.ndarray] = {}
        for optimizer in self.optimizers.values():
            own = {path: gradients[path] for path in optimizer.parameters}
            moved |= self.variables.bounded(optimizer.step(own))
            optimizer.parameters = {path: moved[path] for path in own}
        self.variables.values = moved
        self.iteration += 1
        self.losses.append(loss)

    def enter(self, stage: Any, number: int) -> None:
        """Begin a stage: remesh, if it wants that."""
        self.stage = number
        if stage.edge_length is None:
            return
        variables = self.variables
        scene, _ = variables.apply()
        kept: dict[str, dict[str, np.ndarray]] = {}
        objects = dict(scene.objects)
        for path in variables.shapes:
            name = path.removesuffix(".vertices")
            objects[name], kept[path] = self._remeshed(name, scene.objects[name], stage)
        variables.scene = Scene(objects, scene.lights)
        variables.restart()
        for name, thing in objects.items():
            for part in PER_VERTEX:
                path = f"{name}.material.{part}"
                if path in variables.values and _is_per_vertex(thing, part):
                    variables.values[path] = np.asarray(getattr(thing.material, part), np.float64)
        self._renew(variables.values)
        for path, state in kept.items():
            for moment, value in state.items():
                self.optimizers["shape"]._state[path][moment] = value
        if any(kept.values()):
            self.optimizers["shape"].steps = self.iteration

    def _remeshed(self, name: str, thing: Object, stage: Any) -> tuple[Object, dict[str, np.ndarray]]:
        path = f"{name}.vertices"
        if thing.uv is not None:
            got = f"{name} with uv (they would not fit the new mesh)"
            raise ValueError(message("fit", "stages", "no edge_length for an object with uv", got))
        mesh = thing.mesh
        attributes = {
            part: np.asarray(to_host(imported(getattr(thing.material, part))), np.float64)
            for part in PER_VERTEX
            if _is_per_vertex(thing, part)
        }
        state = self.optimizers["shape"]._state[path] if stage.carry else {}
        attributes |= {f"state.{moment}": np.asarray(x) for moment, x in state.items()}
        new = isotropic_remesh(mesh, stage.edge_length * mean_edge_length(mesh), attributes=attributes)
        material = replace(thing.material, **{p: x for p, x in new.attributes.items() if not p.startswith("state.")})
        moments = {p.removeprefix("state."): x for p, x in new.attributes.items() if p.startswith("state.")}
        return replace(thing, mesh=new.mesh, material=material), moments


def mean_edge_length(mesh: Mesh) -> float:
    """The mean length of the sides of the faces."""
    corners = to_host(mesh.vertices_array).astype(np.float64)[to_host(mesh.faces_array)]
    return float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())


def _is_per_vertex(thing: Object, part: str) -> bool:
    value = getattr(thing.material, part)
    if hasattr(value, "image") or np.ndim(value) != (2 if part in ("albedo", "emission") else 1):
        return False  # (A single colour has three numbers.)
    return len(value) == thing.mesh.n_vertices


def write_checkpoint(path: str | os.PathLike, state: FitState, mark: str) -> None:
    """Write all that the next iterations depend on."""
    arrays: dict[str, Any] = {
        "mark": np.array(mark), "iteration": np.array(state.iteration), "stage": np.array(state.stage),
        "losses": np.array(state.losses),
    }  # fmt: skip
    for kind, optimizer in state.optimizers.items():
        arrays |= {f"{kind}/{name}": x for name, x in optimizer.state().items()}
    for name, thing in state.variables.scene.objects.items():
        arrays[f"objects/{name}/vertices"] = to_host(thing.mesh.vertices_array)
        arrays[f"objects/{name}/faces"] = to_host(thing.mesh.faces_array)
        for part in PER_VERTEX:
            if _is_per_vertex(thing, part):
                arrays[f"objects/{name}/{part}"] = to_host(imported(getattr(thing.material, part)))
    with replacing(path) as file:
        np.savez(file, **arrays)


def read_checkpoint(path: str | os.PathLike, state: FitState, mark: str) -> None:
    """Go on from a file.

    Raises:
        ValueError: it is of another fit, or of none.
    """
    with np.load(path, allow_pickle=False) as file:
        known = dict(file)
    if "mark" not in known or str(known["mark"]) != mark:
        got = str(known.get("mark", "no checkpoint"))
        raise ValueError(message("fit", "checkpoint", f"one of this fit ({mark})", got))
    variables = state.variables
    objects = {}
    for name, thing in variables.scene.objects.items():
        mesh = Mesh(known[f"objects/{name}/vertices"], known[f"objects/{name}/faces"])
        own = {part: known[f"objects/{name}/{part}"] for part in PER_VERTEX if f"objects/{name}/{part}" in known}
        objects[name] = replace(thing, mesh=mesh, material=replace(thing.material, **own))
    variables.scene = Scene(objects, variables.scene.lights)
    variables.restart()
    for kind in state.optimizers:
        for full, value in known.items():
            if full.startswith(f"{kind}/parameters."):
                variables.values[full.removeprefix(f"{kind}/parameters.")] = value
    state.iteration, state.stage = int(known["iteration"]), int(known["stage"])
    state.losses = known["losses"].tolist()
    state._renew(variables.values)
    for kind, optimizer in state.optimizers.items():
        optimizer.load_state({k.removeprefix(f"{kind}/"): x for k, x in known.items() if k.startswith(f"{kind}/")})
    variables.values = {path: x for o in state.optimizers.values() for path, x in o.parameters.items()}
