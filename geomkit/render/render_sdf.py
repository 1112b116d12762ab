"""Images of the surface of a sampled field."""

from __future__ import annotations

from typing import Any

from geomkit.arrays import library_of, precision_of
from geomkit.errors import message
from geomkit.implicit.field import one_of
from geomkit.implicit.grid import SdfGrid
from geomkit.implicit.marching_cubes import marching_cubes
from geomkit.render.camera import Camera
from geomkit.render.render import Rendering, render
from geomkit.render.scene import GREY, ConstantLight, Material, Object, Scene
from geomkit.render.sdf_features import CHANNELS, lights_of, sdf_features

__all__ = ["render_sdf"]

BOUNDARIES = ("thin_band", "mesh", "none")


def render_sdf(
    grid: Any,
    camera: Camera,
    *,
    channels: Any = ("mask",),
    samples: int = 2,
    boundary: str = "thin_band",
    spacing: Any = None,
    origin: Any = None,
    band: float | None = None,
    normals: str = "cubic",
    lipschitz: float | None = None,
    light: Any = None,
    albedo: Any = GREY,
) -> Rendering:
    """An image of the surface where a sampled field is zero, and other channels of it, with gradients to the samples.

    Args:
        grid: what `sdf_grid` returned, or (X, Y, Z) samples of any array library, less the level that is wanted.
        camera: a Camera.
        channels: some of "color", "mask", "depth", "position", "normal", as in `render`: all but color are 0 where
            nothing is seen.
        samples: along each side of a pixel, samples^2 in all.
        boundary: how the image is made, and what its gradients know of silhouettes. "thin_band" traces the grid, and
            rays that pass near the surface stand for those on its silhouette: fast, and off by a few percent. "mesh"
            renders the mesh of `marching_cubes`, whose silhouettes are exact, with shadows and with the faces'
            normals in the channel "normal". "none" traces the grid and takes silhouettes as fixed.
        spacing, origin: of the samples, as in `sphere_trace`.
        band: of "thin_band", in the field's unit; half the longest spacing if None. See `sdf_features`.
        normals: when tracing: "cubic", smooth ones, or "linear".
        lipschitz: when tracing: a bound of the field's slope, as in `sphere_trace`.
        light: a ConstantLight or DirectionalLight, or several. None is a ConstantLight.
        albedo: (3,) linear RGB.

    Returns:
        A record with an array (H, W, C) for each channel, of the grid's precision, in its library.

    Gradients:
        grid and camera, through all channels; those of `sdf_features` when tracing, else those of `marching_cubes` and
        `render`. The "thin_band" needs values that are distances near the surface: see `redistance`.

    Raises:
        ValueError: wrong shape or option.
        TypeError: no Camera, another kind of light, wrong dtype.

    Cost: that of `sphere_trace` for a ray a sample; with "mesh" that of `marching_cubes` and `render`.

    Example:
        >>> import geomkit as gk
        >>> ball = gk.shapes.icosphere(3)
        >>> grid, camera = gk.sdf_grid(ball, resolution=33), gk.Camera.framing(ball, width=32, height=32)
        >>> image = gk.render_sdf(grid, camera, channels=("mask", "normal"))
        >>> image, float(image.mask[16, 16, 0])
        (Rendering(mask (32, 32, 1), normal (32, 32, 3)), 1.0)
    """
    op = "render_sdf"
    if not isinstance(camera, Camera):
        raise TypeError(message(op, "camera", "a Camera", type(camera).__name__))
    chosen = (channels,) if isinstance(channels, str) else tuple(channels)
    if not chosen or set(chosen) - set(CHANNELS) or len(set(chosen)) < len(chosen):
        raise ValueError(message(op, "channels", f"some of {', '.join(CHANNELS)}, once each", repr(channels)))
    one_of(op, "boundary", boundary, BOUNDARIES)
    lights = lights_of(op, ConstantLight() if light is None else light)
    values = grid.values if isinstance(grid, SdfGrid) else grid
    if boundary == "mesh":
        if isinstance(grid, SdfGrid):
            spacing, origin = grid.spacing, grid.origin
        place = {"spacing": 1.0 if spacing is None else spacing, "origin": 0.0 if origin is None else origin}
        surface = Object(marching_cubes(values, **place), Material(albedo), smooth=True)
        scene = Scene({"surface": surface}, {f"light{i}": each for i, each in enumerate(lights)})
        return render(scene, camera, channels=chosen, samples=samples)
    rays = camera.rays(samples=samples, dtype=precision_of(values), device=library_of(values).device)
    seen = sdf_features(
        grid, *rays, spacing=spacing, origin=origin, boundary=boundary, band=band, normals=normals,
        lipschitz=lipschitz, light=lights, albedo=albedo,
    )  # fmt: skip
    shape = camera.height, camera.width, samples**2
    images = {name: getattr(seen, name).reshape((*shape, CHANNELS[name])).mean(axis=2) for name in chosen}
    return Rendering(**images)
