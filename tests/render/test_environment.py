"""Environment lights: where the image's parts are, how much light they give, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.environment import Surroundings
from geomkit.render.tables import SceneTables

RNG = np.random.default_rng(6)


def sky(h: int = 16) -> np.ndarray:
    """Radiance max(y, 0), which on a diffuse floor of albedo 1 gives 2/3."""
    y = np.cos(np.pi * (np.arange(h) + 0.5) / h)
    return np.maximum(y, 0)[:, None, None] * np.ones((1, 2 * h, 3))


def floor(y: float = 0.0, size: float = 1.0) -> gk.Mesh:
    corners = np.array([[-1.0, 0, 1], [1, 0, 1], [1, 0, -1], [-1, 0, -1]])
    return gk.Mesh(size * corners + [0, y, 0], [[0, 1, 2], [0, 2, 3]])


FAR = gk.Mesh(np.array([[0.0, 0, 90], [1, 0, 90], [0, 1, 90]]), [[0, 1, 2]])  # behind the cameras of what follows


def seen(light: gk.EnvironmentLight, toward: tuple[float, ...]) -> np.ndarray:
    up = (0, 1, 0) if toward[1] == 0 else (0, 0, 1)
    camera = gk.Camera.look_at((0, 0, 0), toward, up=up, fov=2, width=3, height=3)
    return gk.render(gk.Scene(FAR, light), camera, samples=1).color[1, 1]


@pytest.mark.parametrize("turn", [0.0, 90.0, -270.0, 450.0])
def test_three_dots(turn: float) -> None:
    """Red ahead at -z, green on the right at +x, blue above; turned about y by a right angle, red is at -x."""
    image = np.zeros((32, 64, 3))
    image[14:18, 30:34] = (1, 0, 0)
    image[14:18, 46:50] = (0, 1, 0)
    image[:2] = (0, 0, 1)
    light = gk.EnvironmentLight(image, rotation=turn)
    red, green = ((0, 0, -1), (1, 0, 0)) if turn == 0 else ((-1, 0, 0), (0, 0, -1))
    assert np.allclose(seen(light, red), (1, 0, 0), atol=1e-6)
    assert np.allclose(seen(light, green), (0, 1, 0), atol=1e-6)
    assert np.allclose(seen(light, (0, 1, 0)), (0, 0, 1), atol=1e-6)
    assert not seen(light, tuple(-x for x in red)).any()
    assert not seen(gk.EnvironmentLight(image, rotation=turn, visible=False), red).any()
    # What the camera sees is also where the light comes from.
    around = Surroundings("sky", image * [0, 1, 0], turn, np.dtype(np.float64), "cpu")
    directions, _ = around.drawn(RNG.random((100, 2)))
    assert (directions @ np.array(green, float)).min() > 0.85


def test_draws_by_its_density() -> None:
    """Drawn by shares, every function's mean is right: solid angle, and the image's integral, have no noise."""
    image = RNG.random((5, 9, 3)) ** 4
    around = Surroundings("sky", image, 20.0, np.dtype(np.float64), "cpu")
    u = np.stack(np.meshgrid((np.arange(900) + 0.5) / 900, (np.arange(900) + 0.5) / 900), axis=-1).reshape(-1, 2)
    directions, over_density = around.drawn(u)
    assert np.allclose(np.linalg.norm(directions, axis=1), 1)
    # The same integral over an even grid of directions.
    z, phi = np.meshgrid(2 * (np.arange(400) + 0.5) / 400 - 1, 2 * np.pi * (np.arange(800) + 0.5) / 800)
    r = np.sqrt(1 - z * z)
    grid = np.stack([r * np.cos(phi), z, r * np.sin(phi)], axis=-1).reshape(-1, 3)
    assert np.allclose(over_density.mean(axis=0), 4 * np.pi * around.at(grid).mean(axis=0), rtol=2e-3)
    moment = (over_density[:, :1] * directions).mean(axis=0)
    assert np.allclose(moment, 4 * np.pi * (around.at(grid)[:, :1] * grid).mean(axis=0), atol=1e-2)


CAMERA = gk.Camera.look_at((0.2, 2.5, 1.5), (0, 0, 0), fov=20, width=8, height=8)


@pytest.mark.parametrize("model", ["diffuse", "metallic"])
def test_same_as_constant(model: str) -> None:
    material = gk.Material((0.2, 0.5, 0.8), model=model, roughness=0.3)
    images = []
    for light in (gk.ConstantLight((1.0, 2, 3)), gk.EnvironmentLight(np.ones((4, 8, 3)) * [1, 2, 3])):
        scene = gk.Scene({"floor": gk.Object(floor(), material)}, {"light": light})
        images.append(gk.render(scene, CAMERA, samples=24).color.mean(axis=(0, 1)))
    assert np.allclose(images[0], images[1], rtol=3e-3)


@pytest.mark.parametrize("turn", [0.0, 33.0])
def test_value(turn: float) -> None:
    scene = gk.Scene({"floor": gk.Object(floor(), gk.Material((1.0, 0.5, 0.25)))}, gk.EnvironmentLight(sky(64), turn))
    color = gk.render(scene, CAMERA, samples=16).color
    assert np.allclose(color.mean(axis=(0, 1)), np.array([1, 0.5, 0.25]) * 2 / 3, rtol=2e-3)


def test_small_sun() -> None:
    """A light in one texel is found by 16 samples: the noise stays small."""
    image = np.full((64, 128, 3), 1e-3)
    image[10, 20] = 1000
    color = gk.render(gk.Scene(floor(), gk.EnvironmentLight(image)), CAMERA, samples=4).color
    assert color.mean() > 0.1
    assert color.std() < 0.08 * color.mean()


def test_visible_lights_add_up() -> None:
    lights: dict = {"a": gk.ConstantLight((1.0, 0, 0)), "b": gk.ConstantLight((0.0, 2, 0))}
    lights["c"] = gk.EnvironmentLight(sky() + 1)
    camera = gk.Camera.look_at((0, 0, 0), (0, -1, -1), fov=2, width=2, height=2)
    scene = gk.Scene(FAR, lights)
    assert np.allclose(gk.render(scene, camera, samples=1).color, (2, 3, 1), atol=1e-6)
    g = gk.render.adjoint(scene, camera, samples=1, boundary="none", adj_color=np.ones((2, 2, 3)))
    assert np.allclose(g["a.radiance"], 4) and np.allclose(g["b.radiance"], 4)
    assert g["c.image"].sum() == pytest.approx(12)


def test_gradient_of_what_is_seen() -> None:
    """The background's texels, its rotation and the camera, by finite differences: no randomness there."""
    image, adj = RNG.random((6, 9, 3)), RNG.normal(size=(7, 8, 3))
    camera = gk.Camera.look_at((0, 0, 0), (0.3, 0.2, -1), fov=40, width=8, height=7)
    scene = gk.Scene(FAR, {"sky": gk.EnvironmentLight(image, 20.0)})
    options = dict(samples=2, depth=0, boundary="none")
    g = gk.render.adjoint(scene, camera, adj_color=adj, **options)

    def slope(changed, step: float) -> float:
        ends = [(gk.render(*changed(s * step), **options).color * adj).sum() for s in (1, -1)]
        return (ends[0] - ends[1]) / (2 * step)

    d_image, d_pose = RNG.normal(size=image.shape), np.zeros((4, 4))
    d_pose[:3] = RNG.normal(size=(3, 4))
    found = slope(lambda e: (scene.with_values({"sky.image": image + e * d_image}), camera), 1e-3)
    assert (g["sky.image"] * d_image).sum() == pytest.approx(found, rel=1e-8)
    found = slope(lambda e: (scene.with_values({"sky.rotation": 20.0 + e}), camera), 1e-4)
    assert g["sky.rotation"] == pytest.approx(found, rel=1e-4)

    def moved(e: float) -> tuple[gk.Scene, gk.Camera]:
        return scene, gk.Camera(camera.world_to_camera + e * d_pose, camera.K, width=8, height=7)

    assert (g["camera.world_to_camera"] * d_pose).sum() == pytest.approx(slope(moved, 1e-6), rel=1e-4)


@pytest.mark.parametrize("depth", [1, 2])
def test_gradient_of_the_light(depth: int) -> None:
    """The colour is linear in the image where directions stay what they are."""
    image = 0.1 + RNG.random((4, 6, 3))
    ball = gk.shapes.icosphere(2, dtype=np.float64)
    objects = {
        "floor": gk.Object(floor(), gk.Material((0.6, 0.5, 0.4), model="metallic", roughness=0.4)),
        "ball": gk.Object(gk.Mesh(0.3 * ball.vertices + [0, 0.3, 0], ball.faces)),
    }
    scene = gk.Scene(objects, {"sky": gk.EnvironmentLight(image)})
    adj = RNG.normal(size=(8, 8, 3))
    options = dict(samples=3, depth=depth, boundary="none")
    g = gk.render.adjoint(scene, CAMERA, adj_color=adj, **options)
    color = gk.render(scene, CAMERA, **options).color
    assert (g["sky.image"] * image).sum() == pytest.approx((adj * color).sum(), rel=1e-9)
    # Twice as bright an image has the same directions.
    brighter = scene.with_values({"sky.image": 2 * image})
    rows = [SceneTables(x).surroundings[0].rows for x in (scene, brighter)]
    assert np.allclose(*rows)
    assert np.allclose(gk.render(brighter, CAMERA, **options).color, 2 * color)


def test_gradient_of_single_texels() -> None:
    """In the mean over directions, what one texel gives is the difference between images."""
    image, changed = np.ones((4, 8, 3)), np.ones((4, 8, 3))
    changed[1, 2] += (0.5, 1.0, 0.0)
    options = dict(samples=24, boundary="none")

    def made(x: np.ndarray) -> gk.Scene:
        return gk.Scene(floor(), {"sky": gk.EnvironmentLight(x)})

    g = gk.render.adjoint(made(image), CAMERA, adj_color=np.full((8, 8, 3), 1 / 64), **options)["sky.image"]
    change = [gk.render(made(x), CAMERA, **options).color.mean(axis=(0, 1)) for x in (changed, image)]
    assert np.allclose(g[1, 2] * (0.5, 1.0, 0.0), change[0] - change[1], rtol=0.05, atol=2e-3)


def test_dark_surroundings_have_gradients() -> None:
    scene = gk.Scene(floor(), {"sky": gk.EnvironmentLight(np.zeros((4, 8, 3)))})
    g = gk.render.adjoint(scene, CAMERA, boundary="none", adj_color=np.ones((8, 8, 3)))["sky.image"]
    assert (g[:2] > 0).all() and np.isfinite(g).all()


def test_shadow_moves() -> None:
    """A sun in the image, and a plate whose shadow crosses the view: as finite differences have it."""
    image = np.full((32, 64, 3), 0.05)
    image[6:9, 30:34] = 40.0
    camera = gk.Camera.look_at((0, 4, 3), (0, 0, 0), fov=25, width=32, height=32)

    def made(shift: float) -> gk.Scene:
        plate = floor(y=0.8, size=0.5)
        plate = gk.Mesh(plate.vertices + [0.55 + shift, 0, -0.9], plate.faces)
        return gk.Scene({"floor": gk.Object(floor(size=3)), "plate": plate}, gk.EnvironmentLight(image))

    step = 0.05
    ends = [gk.render(made(s * step), camera, samples=12).color.mean() for s in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step)
    g = gk.render.adjoint(made(0), camera, samples=4, light_points=256, adj_color=np.full((32, 32, 3), 1 / 3072))
    assert abs(expected) > 0.01
    assert g["plate.vertices"][:, 0].sum() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("light", "error", "text"),
    [
        (gk.EnvironmentLight(np.zeros((2, 4, 3), np.uint8)), TypeError, "light.image"),
        (gk.EnvironmentLight(np.zeros((2, 4))), ValueError, "light.image"),
        (gk.EnvironmentLight(np.zeros((0, 4, 3))), ValueError, "at least one texel"),
        (gk.EnvironmentLight(np.full((2, 4, 3), np.inf)), ValueError, "finite"),
        (gk.EnvironmentLight(np.zeros((2, 4, 3)), rotation=np.nan), ValueError, "light.rotation"),
    ],
)
def test_error(light: gk.EnvironmentLight, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        gk.render(gk.Scene(floor(), light), CAMERA)
