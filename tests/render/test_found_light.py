"""Area lights, by points drawn on them and by rays that surfaces draw, which share what there is to see."""

import numpy as np
import pytest

import geomkit as gk
from tests.render.views import ball, front, glow, gradients, only_draw, quad, total

DULL = gk.Material(albedo=(0.5, 0.4, 0.3))
GLOSSY = gk.Material(albedo=(0.9, 0.8, 0.7), model="metallic", metallic=1.0, roughness=0.3)


def scene_of(material=GLOSSY, size=1.0, height=1.0, emission=(3.0, 2.0, 1.0)):
    """A lamp above a plane, seen by a camera beside it."""
    lamp = gk.Mesh(quad(size, height).vertices, np.asarray(quad().faces)[:, ::-1])
    return gk.Scene({"plane": gk.Object(quad(3), material), "lamp": gk.Object(lamp, gk.Material(emission=emission))})


def camera(size=6):
    return gk.Camera.look_at((0.3, -3, 0.8), (0, 0.1, 0), fov=20, width=size, height=size)


def noise(scene, **options):
    """The standard deviation of pixels over seeds, relative to the image."""
    images = np.stack([gk.render(scene, camera(), samples=2, seed=s, **options).color for s in range(12)])
    return images.std(axis=0).mean() / images.mean(), images.mean()


# ---- values


@pytest.mark.parametrize("material", [DULL, GLOSSY])
@pytest.mark.parametrize("size", [0.1, 1.0])
def test_image_is_that_of_drawing_alone(monkeypatch, material, size):
    scene = scene_of(material, size)
    both = gk.render(scene, camera(2), samples=64).color
    only_draw(monkeypatch)
    np.testing.assert_allclose(both.mean(), gk.render(scene, camera(2), samples=160).color.mean(), rtol=0.02)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("metallic, roughness", [(1.0, 0.1), (0.0, 0.3), (0.5, 0.8)])
def test_furnace(depth, metallic, roughness):
    """Within a closed ball that glows, brightness grows with each bounce by no more than the first shows."""
    material = gk.Material((1.0, 1.0, 1.0), "metallic", metallic, roughness, emission=(1.0, 1.0, 1.0))
    scene = gk.Scene(gk.Object(ball(3), material, smooth=True))
    view = gk.Camera.look_at((0.1, 0.2, 0), (1, 0, 0), fov=60, width=3, height=3)
    image = gk.render(scene, view, samples=8, depth=depth).color
    assert 1 + 0.6 * depth < image.mean() < 1.003 * (1 + depth)


def test_one_sided_lamp_is_dark_from_behind():
    away = gk.Object(quad(1.0, 1.0), gk.Material(emission=(1.0, 1.0, 1.0), two_sided=False))
    scene = gk.Scene({"plane": gk.Object(quad(3), GLOSSY), "lamp": away})
    assert not gk.render(scene, camera(), samples=2).color.any()


def test_textured_lamp():
    """A texture of one colour is that colour, by drawn points and by found ones."""
    plain = scene_of()
    lamp = plain.objects["lamp"]
    texture = np.broadcast_to(np.array([3.0, 2.0, 1.0]), (4, 4, 3))
    uv = np.asarray(lamp.mesh.vertices)[:, :2] / 2 + 0.5
    textured = gk.Scene(plain.objects | {"lamp": gk.Object(lamp.mesh, gk.Material(emission=texture), uv=uv)})
    options = dict(samples=4)
    np.testing.assert_allclose(
        gk.render(textured, camera(), **options).color, gk.render(plain, camera(), **options).color, rtol=1e-9
    )
    a, b = (gradients(s, camera(), boundary="none", **options) for s in (plain, textured))
    np.testing.assert_allclose(b["lamp.material.emission"].sum(axis=(0, 1)), a["lamp.material.emission"], rtol=1e-9)
    np.testing.assert_allclose(b["lamp.vertices"], a["lamp.vertices"], rtol=1e-9, atol=1e-12)


# ---- noise


def test_noise_of_a_near_lamp_in_a_glossy_floor(monkeypatch):
    both, mean = noise(scene_of(size=3.0))
    only_draw(monkeypatch)
    drawn, same = noise(scene_of(size=3.0))
    assert mean == pytest.approx(same, rel=0.1) and both < drawn / 4


def test_noise_of_a_small_lamp_stays(monkeypatch):
    """Where rays of surfaces find little, the points that are drawn do as before."""
    small = dict(material=DULL, size=0.05, height=1.5)
    both, _ = noise(scene_of(**small))
    only_draw(monkeypatch)
    assert both < 1.3 * noise(scene_of(**small))[0]


def test_noise_of_surroundings():
    """Of an image with a sun and a sky: less than half of that of drawing by one of the two."""
    image = np.full((16, 32, 3), 0.2)
    image[4, 20] = 40.0
    one = gk.EnvironmentLight(image)
    for material in (DULL, GLOSSY):
        scene = gk.Scene(gk.Object(quad(3), material), one)
        found, _ = noise(scene)
        assert found < 0.3


# ---- gradients


@pytest.mark.parametrize("material", [DULL, GLOSSY])
@pytest.mark.parametrize("path, step", [("lamp.vertices", (0, 1, -0.5)), ("plane.vertices", (0, 0.1, 1))])
def test_gradients_are_those_of_drawing_alone(monkeypatch, path, step, material):
    """Of many samples: which sample has what share is a constant, and the points of the light move with it."""
    scene, options = scene_of(material, 0.6, 0.9), dict(boundary="none")
    both = np.sum(gradients(scene, camera(2), samples=48, **options)[path] * step)
    only_draw(monkeypatch)
    drawn = np.sum(gradients(scene, camera(2), samples=160, **options)[path] * step)
    assert both == pytest.approx(drawn, rel=0.04)


@pytest.mark.parametrize("path", ["plane.material.albedo", "lamp.material.emission"])
@pytest.mark.parametrize("depth", [1, 2])
def test_gradients_of_what_is_linear(path, depth):
    """By differences of the very same samples: shares do not depend on colours."""
    scene, view = scene_of(DULL), camera()
    x, step = np.asarray(scene[path], np.float64), np.array([0.1, -0.2, 0.3])
    got = np.sum(np.asarray(gradients(scene, view, samples=2, depth=depth, boundary="none")[path]) * step)
    low, high = (
        total(scene.with_values({path: x + e * step}), view, samples=2, depth=depth) for e in (-1e-5, 1e-5)
    )
    assert got == pytest.approx((high - low) / 2e-5, rel=1e-6)


def test_glow_alone_in_view():
    """A lamp that lights nothing else has gradients as before."""
    g = gradients(gk.Scene({"lamp": glow(quad(0.5), (1.0, 2.0, 3.0))}), front(6), samples=2)
    assert np.isfinite(g["lamp.vertices"]).all() and g["lamp.material.emission"].any()
