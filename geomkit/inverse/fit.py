"""From photographs to a scene: shape, texture, light and cameras, by gradients of renderings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geomkit.errors import message
from geomkit.inverse.fit_state import FitState, read_checkpoint, write_checkpoint
from geomkit.inverse.image_loss import huber_loss, l1_loss, mse_loss, multiscale_loss
from geomkit.inverse.live import notebook_progress
from geomkit.inverse.mesh_loss import mesh_edge_loss, mesh_laplacian_smoothing, mesh_normal_consistency
from geomkit.inverse.schedule import Schedule, constant, cosine, exponential
from geomkit.inverse.variables import GROUPS, Variables, hidden, shown
from geomkit.inverse.views import Views, scaled_camera
from geomkit.mesh.mesh import Mesh
from geomkit.render.camera import Camera
from geomkit.render.render import Rendering, render
from geomkit.render.scene import ConstantLight, Object, Scene

__all__ = ["Fit", "FitStep", "Stage", "fit"]

LOSSES = {"l1": l1_loss, "mse": mse_loss, "huber": huber_loss, "multiscale": multiscale_loss}
REGULARIZERS = {
    "laplacian": mesh_laplacian_smoothing, "normal": mesh_normal_consistency, "edge": mesh_edge_loss,
}  # fmt: skip
# Of the shape in sizes of the scene, the step of the public tutorials on objects some four units across.
RATES = {"shape": 0.025, "texture": 0.03, "light": 0.03, "camera": 0.02, "focal": 0.02}
END, CAMERAS_END = 0.02, 0.005  # of the rates but that of the shape, at the last iteration
SMALL = 64  # pixels that the first stage leaves of an image's shorter side


@dataclass(frozen=True)
class Stage:
    """A part of a fit.

    Attributes:
        iterations: how many.
        scale: images are compared at 1 / scale of their size; their sizes are multiples of it.
        edge_length: before the stage, meshes whose shape is optimised are remeshed to so many of their mean edge
            lengths; None leaves them.
        rate: a factor of the learning rate of shapes.
        carry: whether the optimiser's memory is carried over to the new vertices, or starts anew.
        views_per_step, samples: of each iteration, as for `gk.fit`; None is what the fit has.
    """

    iterations: int
    scale: int = 1
    edge_length: float | None = None
    rate: float = 1.0
    carry: bool = False
    views_per_step: int | None = None
    samples: int | None = None


class FitStep:
    """What a callback sees after an iteration.

    Attributes:
        iteration, iterations: done, and all there are.
        loss, losses: of this iteration, and of all so far.
        scene, cameras: as they were rendered.
        views: the images compared with.
    """

    def __init__(self, iteration: int, iterations: int, losses: list[float], scene: Scene, cameras: Any, views: Views):
        self.iteration, self.iterations, self.losses = iteration, iterations, losses
        self.scene, self.cameras, self.views = scene, cameras, views

    @property
    def loss(self) -> float:
        """Of this iteration."""
        return self.losses[-1]

    def render(self, view: int = 0, *, samples: int = 2) -> Rendering:
        """What a view looks like now, in the channels that are compared."""
        return render(self.scene, self.cameras[view], channels=self.views.channels, samples=samples)


class Fit:
    """What a fit found.

    Attributes:
        scene: the scene.
        cameras: in the order given.
        losses: (n,) of every iteration.
        stopped: whether the callback ended it.
    """

    def __init__(self, scene: Scene, cameras: list[Camera], losses: np.ndarray, stopped: bool):
        self.scene, self.cameras, self.losses, self.stopped = scene, cameras, losses, stopped

    @property
    def mesh(self) -> Mesh:
        """The mesh of the first object."""
        return next(iter(self.scene.objects.values())).mesh

    def __repr__(self) -> str:
        span = f"{self.losses[0]:.4g} -> {self.losses[-1]:.4g}" if len(self.losses) else "none"
        return f"Fit({len(self.losses)} iterations, loss {span}, {self.scene})"


def fit(
    images: Any,
    cameras: Any,
    init: Any,
    *,
    optimise: str | Sequence[str] = ("shape",),
    iterations: int = 200,
    stages: Sequence[Stage] | None = None,
    loss: str = "l1",
    mask_weight: float = 1.0,
    regularize: Mapping[str, float] | None = None,
    rates: Mapping[str, float | Schedule] | None = None,
    smoothness: float = 25.0,
    remesh: bool = False,
    views_per_step: int | None = None,
    samples: int = 2,
    depth: int = 1,
    light_points: int = 16,
    seed: int = 0,
    callback: Callable[[FitStep], Any] | None = None,
    progress: Callable[[int, int, float], Any] | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int = 50,
    resume: bool = False,
) -> Fit:
    """Find shape, texture, light or cameras that make a scene look like images.

    Each iteration renders the views, compares them, and takes a step against the gradient: shapes by uniform Adam in
    coordinates of Large Steps, all else by Adam. Colours stay within [0, 1], power is never negative.

    Args:
        images: (H, W, C) for each camera, linear (`gk.load_image`): C = 1 silhouettes, 3 colours, 4 colours and alpha.
            With alpha, the camera does not see the lights and the silhouette is compared, too.
        cameras: a Camera for each image.
        init: where to start: a Scene, or an Object or a mesh, which is then lit from everywhere alike.
        optimise: what to find: "shape", "texture" (albedo), "light" (its power or image), "camera" (pose of each),
            "focal" (one factor of all focal lengths); or paths of the scene, such as "bulb.position".
        iterations: in all; not used if stages are given.
        stages: parts of the fit; None is a coarse one on smaller images, if they can be halved, and a fine one.
        loss: "l1", "mse", "huber" or "multiscale", between colours, or silhouettes if there are no colours.
        mask_weight: of the same loss between silhouettes and alpha.
        regularize: weights of "laplacian", "normal" or "edge" (see `gk.mesh_laplacian_smoothing` and so on), of shapes.
        rates: learning rates, numbers or schedules, by group or path. A number for shape is in the scene's length unit
            and stays; of the others it falls to 2 % during the fit, that of cameras along half a wave to 0.5 %.
            Default: 0.025 of the scene's size for shape, 0.03 of the size of the values for texture and light, 0.02 for
            cameras, in radians and sizes of the scene, and for the logarithm of the focal length.
        smoothness: of Large Steps; more keeps a shape smoother.
        remesh: whether the default stages end with one on meshes of half the edge length.
        views_per_step: views of each iteration, drawn without repetition until all had their turn; None is all. One
            view a step, with as many times more iterations, costs the same and moves a shape further; the last
            iterations are better with all.
        samples: along each side of a pixel. Under lights that are sampled (those with a size) "l1" finds the median of
            noisy pixels, not their mean: shapes come out too dark where little light gets. A last stage with 4 ends
            that.
        depth, light_points: as for `gk.render`.
        seed: of samples and of the order of views. The same seed gives the same bits.
        callback: called as callback(step) with a `FitStep` after each iteration; if it returns True, the fit ends.
        progress: called as progress(done, total, loss). None shows a bar in notebooks, if tqdm is there.
        checkpoint: a .npz file, written every so many iterations and at the end.
        checkpoint_every: so many.
        resume: go on from the checkpoint, if there is one, with the same bits as if it had not been interrupted. The
            other arguments must be those of before.

    Returns:
        A `Fit`: `.scene`, `.cameras`, `.losses`, `.mesh`.

    Raises:
        ValueError: arguments that do not fit one another; to optimise what the images do not depend on; a gradient or
            parameter that is not finite, with its name; a checkpoint of another fit.
        TypeError: as `gk.render`; images, cameras, stages or a callback that are none.

    Warns:
        ColorSpaceWarning: images of sRGB codes.

    Cost: a rendering and its adjoint for each view of each iteration. Memory does not grow with the iterations.

    Example:
        >>> import geomkit as gk
        >>> ball = gk.shapes.icosphere(2)
        >>> cameras = [gk.Camera.framing(ball, width=16, height=16, azimuth=a) for a in (0, 90)]
        >>> images = [gk.render(gk.Scene(ball), camera, channels="mask").mask for camera in cameras]
        >>> found = gk.fit(images, cameras, ball.with_vertices(0.8 * ball.vertices), iterations=30)
        >>> bool(found.losses[-1] < 0.5 * found.losses[0])
        True
    """
    views = Views(images, cameras)
    scene = _scene(init)
    variables = Variables(hidden(scene) if "mask" in views.channels else scene, views.cameras, optimise, smoothness)
    _check_reached(variables, views)
    if callback is not None and not callable(callback):
        raise TypeError(message("fit", "callback", "a function of a FitStep, or None", type(callback).__name__))
    plan = _stages(stages, iterations, remesh, views)
    total = sum(stage.iterations for stage in plan)
    options = _Options(loss, mask_weight, regularize, samples, depth, light_points)
    schedules = _schedules(rates, variables, total)
    counts = [("views_per_step", views_per_step)]
    counts += [(name, getattr(stage, name)) for stage in plan for name in ("views_per_step", "samples")]
    for name, count in counts:
        if count is not None and not (isinstance(count, int) and count >= 1):
            raise ValueError(message("fit", name, "an integer of at least 1, or None", repr(count)))
    if resume and checkpoint is None:
        raise ValueError(message("fit", "checkpoint", "a file to resume from", "None"))
    state = FitState(variables, schedules)
    mark = f"{len(views)} views, {plan}, optimise {sorted(variables.group)}, seed {seed}, smoothness {smoothness}"
    if resume and checkpoint is not None and Path(checkpoint).exists():
        read_checkpoint(checkpoint, state, mark)
    shown_progress = notebook_progress(total) if progress is None else progress
    stopped = False
    while state.iteration < total and not stopped:
        stage, into = _stage_of(plan, state.iteration)
        if into == 0 and state.stage < plan.index(stage) + 1:
            state.enter(stage, plan.index(stage) + 1)
        now, at = variables.apply()
        value, gradients = _evaluated(views, variables, now, at, state.iteration, stage, options, views_per_step, seed)
        state.step(gradients, value, stage.rate)
        if shown_progress is not None:
            shown_progress(state.iteration, total, value)
        if callback is not None:
            step = FitStep(state.iteration, total, state.losses, shown(now, scene), at, views)
            stopped = callback(step) is True
        if checkpoint is not None and (state.iteration % checkpoint_every == 0 or stopped or state.iteration == total):
            write_checkpoint(checkpoint, state, mark)
    found, at = variables.apply()
    return Fit(shown(found, scene), at, np.array(state.losses), stopped)


class _Options:
    """What is compared, and how it is rendered."""

    def __init__(self, loss: str, mask_weight: float, regularize: Any, samples: int, depth: int, light_points: int):
        if loss not in LOSSES:
            raise ValueError(message("fit", "loss", f"one of {', '.join(LOSSES)}", repr(loss)))
        self.loss, self.mask_weight = LOSSES[loss], float(mask_weight)
        self.regularize = dict(regularize or {})
        if unknown := sorted(set(self.regularize) - set(REGULARIZERS)):
            raise ValueError(message("fit", "regularize", f"some of {', '.join(REGULARIZERS)}", repr(unknown[0])))
        self.render = {"samples": samples, "depth": depth, "light_points": light_points}


def _evaluated(
    views: Views,
    variables: Variables,
    scene: Scene,
    cameras: list[Camera],
    iteration: int,
    stage: Stage,
    options: _Options,
    views_per_step: int | None,
    seed: int,
) -> tuple[float, dict[str, np.ndarray]]:
    """The loss of an iteration and its gradients."""
    size = views_per_step if stage.views_per_step is None else stage.views_per_step
    batch = views.batch(iteration, size, seed)
    total, sums, of_cameras = 0.0, {}, {}
    rendered = options.render if stage.samples is None else {**options.render, "samples": stage.samples}
    for k in map(int, batch):
        target, camera = views.target(k, stage.scale), scaled_camera(cameras[k], stage.scale)
        # The adjoint has the samples of its image, the next iteration others.
        own = {**rendered, "seed": ((seed * 1_000_003 + iteration) * len(views) + k) % 2**31}
        image = render.forward(scene, camera, channels=views.channels, **own)
        cotangents = {}
        for name, wanted in target.items():
            weight = options.mask_weight if name == "mask" and "color" in target else 1.0
            weight /= len(batch)
            given = getattr(image, name)
            total += weight * float(options.loss.forward(given, wanted))
            cotangents[f"adj_{name}"] = options.loss.adjoint(given, wanted, adj_loss=weight).image
        g = render.adjoint(scene, camera, channels=views.channels, **own, **cotangents)
        for path, value in g.scene.items():
            if path in variables.values:
                sums[path] = sums[path] + value if path in sums else value
        fields = dict(g.camera)
        # K of the small image is that of the large one, its first rows divided by the scale.
        fields["K"] = np.asarray(fields["K"], np.float64) * np.array([[1 / stage.scale]] * 2 + [[1.0]])
        of_cameras[k] = fields
    for name, weight in options.regularize.items():
        loss = REGULARIZERS[name]
        for path in variables.shapes:
            mesh = scene.objects[path.removesuffix(".vertices")].mesh
            total += weight * float(loss.forward(mesh))
            sums[path] = sums.get(path, 0.0) + loss.adjoint(mesh, adj_loss=weight).vertices
    return total, variables.gradients(sums, of_cameras)


def _check_reached(variables: Variables, views: Views) -> None:
    """Refuse to optimise what no image depends on: it would stay as it is without a word."""
    for path, group in variables.group.items():
        if views.channels == ("mask",) and group in ("texture", "light"):
            expected = "what silhouettes show, shapes and cameras, as images have one channel"
            raise ValueError(message("fit", "optimise", expected, path))
        name, _, part = path.partition(".material.")
        if part in ("metallic", "roughness") and variables.scene.objects[name].material.model == "diffuse":
            expected = f"the model 'metallic' for {name}, as a diffuse one has neither metallic nor roughness"
            raise ValueError(message("fit", "optimise", expected, path))


def _scene(init: Any) -> Scene:
    if isinstance(init, Scene):
        return init
    if not (isinstance(init, Object) or (hasattr(init, "vertices") and hasattr(init, "faces"))):
        raise TypeError(message("fit", "init", "a Scene, an Object or a mesh", type(init).__name__))
    return Scene(init, ConstantLight())


def _stages(stages: Sequence[Stage] | None, iterations: int, remesh: bool, views: Views) -> list[Stage]:
    if stages is None:
        if not (isinstance(iterations, int) and iterations >= 1):
            raise ValueError(message("fit", "iterations", "an integer of at least 1", repr(iterations)))
        sizes = [min(image.shape[:2]) for image in views.images]
        scale = 1
        while views.divides(2 * scale) and min(sizes) // (2 * scale) >= SMALL:
            scale *= 2
        last = iterations // 2 if remesh else 0
        coarse = (iterations - last) // 3 if scale > 1 else 0
        plan = [Stage(coarse, scale), Stage(iterations - last - coarse)]
        plan.append(Stage(last, edge_length=0.5, rate=0.8))
        return [stage for stage in plan if stage.iterations]
    if not isinstance(stages, Iterable) or not all(isinstance(stage, Stage) for stage in stages):
        got = type(stages).__name__ if not isinstance(stages, Iterable) else repr(stages)
        raise TypeError(message("fit", "stages", "a list of Stages", got))
    plan = list(stages)
    for k, stage in enumerate(plan):
        if not (stage.iterations >= 1 and stage.scale >= 1 and views.divides(stage.scale)):
            expected = "iterations of at least 1, and a scale that divides the sizes of all images"
            raise ValueError(message("fit", f"stages[{k}]", expected, repr(stage)))
    if not plan:
        raise ValueError(message("fit", "stages", "at least one", "none"))
    return plan


def _stage_of(plan: list[Stage], iteration: int) -> tuple[Stage, int]:
    """The stage of an iteration, and how many of its iterations are done."""
    for stage in plan:
        if iteration < stage.iterations:
            return stage, iteration
        iteration -= stage.iterations
    raise IndexError(iteration)


def _schedules(rates: Mapping[str, Any] | None, variables: Variables, total: int) -> dict[str, Schedule]:
    given = dict(rates or {})
    if unknown := sorted(set(given) - set(GROUPS) - set(variables.group)):
        expected = f"rates of {', '.join(GROUPS)}, or of a path that is optimised"
        raise ValueError(message("fit", "rates", expected, repr(unknown[0])))
    out: dict[str, Schedule] = {}
    for path, group in variables.group.items():
        rate: Any = given.get(path, given.get(group))
        if rate is None:
            size = abs(variables.values[path]).max(initial=0.0) if group in ("texture", "light") else 0.0
            rate = RATES[group] * (variables.size if group == "shape" else float(size) or 1.0)
        if isinstance(rate, (int, float)):
            if group == "shape":
                out[path] = constant(rate)
            elif group in ("camera", "focal"):
                out[path] = cosine(rate, max(total, 1), end=CAMERAS_END * rate)
            else:
                out[path] = exponential(rate, END, every=max(total, 1))
        else:
            out[path] = rate
    return out
