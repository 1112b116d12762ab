"""Light along paths: closed forms of several bounces, and gradients through them."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.radiance import Radiance
from geomkit.render.tables import SceneTables
from tests.render.views import ball, difference, front, glow, gradients, only_draw, quad, total


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_white_furnace(depth, smooth, dtype, tolerance):
    """A white ball in white light from everywhere can't be seen: nothing of it sees itself."""
    material = gk.Material(albedo=(1.0, 1.0, 1.0))
    scene = gk.Scene(gk.Object(ball(3, dtype=dtype), material, smooth=smooth), gk.ConstantLight())
    image = gk.render(scene, front(16), samples=2, depth=depth).color
    assert image.dtype == dtype
    # Where an interpolated normal leans away from the eye, or directions go below the face, some light is lost.
    inner = image[5:11, 5:11] if smooth else image
    np.testing.assert_allclose(inner, 1, atol=tolerance)
    assert image.max() <= 1 + tolerance


def test_inside_a_ball_that_glows():
    """A closed ball of radiance e and albedo a is seen from within as e (1 + a + a^2 ...), a term a bounce."""
    albedo = np.array([0.2, 0.5, 0.8])
    shell = gk.Object(ball(4), gk.Material(albedo=albedo, emission=(1.0, 1.0, 1.0)), smooth=True)
    camera = gk.Camera.look_at((0.1, 0.2, 0), (1, 0, 0), fov=60, width=4, height=4)
    for depth in range(4):
        image = gk.render(gk.Scene(shell), camera, samples=12, depth=depth).color
        wanted = sum(albedo**k for k in range(depth + 1))
        np.testing.assert_allclose(image.mean(axis=(0, 1)), wanted, rtol=0.01)


def test_depth_zero_shows_what_emits():
    scene = gk.Scene({"lamp": glow(quad(0.5), (1.0, 2.0, 3.0)), "wall": quad(3, -1.0)}, gk.PointLight((0, 0, 3)))
    image = gk.render(scene, front(8), samples=1, depth=0).color
    np.testing.assert_array_equal(image[4, 4], [1, 2, 3])
    assert not image[0].any()


def test_light_around_a_corner():
    """A wall without a light of its own is lit by the floor before it: only from depth 2 on."""
    floor = gk.Object(quad(2), gk.Material(albedo=(1.0, 0.0, 0.0)))
    corners = np.array([[0.0, -1, 0], [0, 1, 0], [0, 1, 2], [0, -1, 2]])
    wall = gk.Object(gk.Mesh(corners, [[0, 1, 2], [0, 2, 3]]), gk.Material(albedo=(1.0, 1.0, 1.0)))
    camera = gk.Camera.look_at((-3, 0, 1), (0, 0, 1), fov=10, width=2, height=2)
    scene = gk.Scene({"floor": floor, "wall": wall}, gk.DirectionalLight((0, 0, -1)))
    dark = gk.render(scene, camera, samples=4, depth=1).color
    lit = gk.render(scene, camera, samples=16, depth=2).color
    assert not dark.any() and (lit[..., 0] > 0.01).all() and not lit[..., 1:].any()


def test_what_a_ray_sees_does_not_depend_on_the_others():
    scene = gk.Scene({"ball": gk.Object(ball(2)), "floor": quad(3, -1.0)}, {"sky": gk.ConstantLight()})
    tables = SceneTables(scene)
    rng = np.random.default_rng(0)
    origins = np.tile([0.0, 0, 4], (50, 1))
    directions = rng.normal(size=(50, 3)) * [0.3, 0.3, 0] - [0, 0, 1.0]
    stream, index = rng.integers(0, 1 << 31, 50).astype(np.uint32), np.zeros(50, np.int32)
    whole = Radiance(tables, origins, directions, stream, index, 3)
    for part in (slice(0, 1), slice(20, 33)):
        own = Radiance(tables, origins[part], directions[part], stream[part], index[part], 3)
        np.testing.assert_array_equal(own.value, whole.value[part])


def test_no_rays():
    none = np.zeros((0, 3))
    tables = SceneTables(gk.Scene(ball(1), gk.ConstantLight()))
    found = Radiance(tables, none, none, np.zeros(0, np.uint32), np.zeros(0, np.int32), 2)
    assert found.value.shape == (0, 3)
    out, origins, directions = found.adjoint(none)
    assert not out["vertices"].any() and origins.shape == directions.shape == (0, 3)


# ---- gradients: a bumpy plane that fills the view, so that no edge is seen

RNG = np.random.default_rng(0)


def bumpy():
    grid = gk.shapes.grid(5, 5, dtype=np.float64)
    vertices = 6 * grid.vertices
    vertices[:, 2] += 0.15 * RNG.normal(size=len(vertices))
    return gk.Mesh(vertices, grid.faces)


PLANE = bumpy()
PATHS = [
    "plane.vertices", "plane.material.albedo", "plane.material.metallic", "plane.material.roughness", "bulb.position",
    "bulb.intensity", "spot.direction", "sun.direction", "lamp.vertices", "lamp.material.emission", "sky.radiance",
]  # fmt: skip


def scene_of(model, smooth, sky=False):
    material = gk.Material(albedo=(0.5, 0.4, 0.3), model=model, metallic=0.3, roughness=0.5)
    lamp = gk.Mesh([[2.0, 0, 3], [2.5, 0.3, 3], [2, 0.6, 3.2]], np.array([[0, 2, 1]]))
    objects = {
        "plane": gk.Object(PLANE, material, smooth=smooth),
        "lamp": gk.Object(lamp, gk.Material(emission=(20.0, 15.0, 10.0))),
    }
    lights = {
        "bulb": gk.PointLight((1.0, 0.5, 2.0), (5.0, 4.0, 3.0)),
        "spot": gk.SpotLight((-1.0, -0.5, 2.0), (0.3, 0.1, -1.0), (8.0, 8.0, 8.0), 5, 40),
        "sun": gk.DirectionalLight((0.3, 0.2, -1.0), (1.0, 1.0, 2.0)),
    }
    # The directions drawn for a constant light follow the surface: they are constants in gradients, not in differences.
    return gk.Scene(objects, lights | ({"sky": gk.ConstantLight((0.5, 0.6, 0.7))} if sky else {}))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("model, smooth", [("metallic", True), ("diffuse", False), ("metallic", False)])
def test_gradients_of_direct_light(model, smooth, path, monkeypatch):
    only_draw(monkeypatch)
    scene = scene_of(model, smooth, path == "sky.radiance")
    if path not in scene.paths() or (model == "diffuse" and ("metallic" in path or "roughness" in path)):
        got = gradients(scene, front(3), samples=1, boundary="none")[path]
        assert not np.any(got)
        return
    check(scene, path, 1)


@pytest.mark.parametrize("path", ["plane.material.albedo", "bulb.intensity", "lamp.material.emission", "bulb.position"])
@pytest.mark.parametrize("depth", [2, 3])
def test_gradients_of_several_bounces(path, depth, monkeypatch):
    """Diffuse and flat: directions do not depend on these."""
    only_draw(monkeypatch)
    check(scene_of("diffuse", False), path, depth)


def check(scene, path, depth):
    camera = gk.Camera.look_at((0.2, 0.1, 4), (0, 0, 0), fov=30, width=6, height=6)
    options = dict(samples=2, depth=depth, boundary="none")
    x = np.asarray(scene[path], np.float64)
    step = np.random.default_rng(1).normal(size=x.shape)
    got = np.sum(gradients(scene, camera, **options)[path] * step)
    wanted = difference(lambda e: total(scene.with_values({path: x + e * step}), camera, **options), 1e-6)
    assert got == pytest.approx(wanted, rel=1e-6, abs=1e-7)
    assert abs(wanted) > 1e-4


CHANNELS = ["depth", "position", "normal", "color", "albedo"]


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("path", ["plane.vertices", "camera.K", "camera.world_to_camera", "camera.distortion"])
def test_gradients_of_channels(channel, path):
    """Interior terms of the camera and of the vertices, by central differences of the very same samples."""
    material = gk.Material(albedo=0.2 + 0.5 * RNG.random((PLANE.n_vertices, 3)))
    scene = gk.Scene(
        {"plane": gk.Object(PLANE, material, smooth=True)}, gk.PointLight((1.0, 0.5, 2.0), (5.0, 4.0, 3.0))
    )
    base = front(5, fov=30)
    fields = {
        "world_to_camera": base.world_to_camera,
        "K": base.K,
        "distortion": np.array([-0.2, 0.05, 0.01, -0.02, 0.01]),
    }
    step = np.random.default_rng(2).normal(size=np.shape(scene[path] if path in scene.paths() else fields[path[7:]]))
    if path == "camera.K":
        step = step * np.array([[1, 1, 1], [0, 1, 1], [0, 0, 0]])
    if path == "camera.world_to_camera":
        turn = np.array([[0, -0.3, 0.2, 0.1], [0.3, 0, -0.4, 0.2], [-0.2, 0.4, 0, 0.3], [0, 0, 0, 0]])
        step = turn @ base.world_to_camera

    def seen(e):
        own, scene_now = dict(fields), scene
        if path.startswith("camera."):
            own[path[7:]] = own[path[7:]] + e * step
        else:
            scene_now = scene.with_values({path: scene[path] + e * step})
        return scene_now, gk.Camera(own["world_to_camera"], own["K"], distortion=own["distortion"], width=5, height=5)

    options = dict(samples=2, boundary="none")
    got = np.sum(np.asarray(gradients(*seen(0), channel, **options)[path]) * step)
    wanted = difference(lambda e: total(*seen(e), channel, **options), 1e-6)
    assert got == pytest.approx(wanted, rel=1e-6, abs=1e-7)
