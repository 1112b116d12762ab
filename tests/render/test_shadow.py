"""Shadows that move: gradients beside differences of images of many samples."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.shadow import shadows_of
from geomkit.render.tables import SceneTables
from tests.render.views import ball, difference, front, glow, gradients, quad, slopes, total

VIEW = gk.Camera.look_at((-0.4, -0.5, 4), (0, 0, 0), fov=30, width=40, height=40)
LIGHTS = {
    "point": gk.PointLight((2.0, 0.3, 2.5), (30.0, 25.0, 20.0)),
    "spot": gk.SpotLight((2.0, 0.3, 2.5), (-2.0, -0.3, -2.5), (30.0, 25.0, 20.0), 10, 60),
    "sun": gk.DirectionalLight((-2.0, -0.3, -2.5), (3.0, 2.5, 2.0)),
}


def scene_of(light):
    """A ball that is not seen throws a shadow on a floor that is."""
    floor = gk.Object(quad(4), gk.Material(two_sided=False))
    occluder = gk.Object(ball(2, 0.3, (0.8, 0.1, 1.1)), gk.Material(albedo=(0.0, 0.0, 0.0)), smooth=True)
    return gk.Scene({"floor": floor, "ball": occluder}, {"light": light})


def check(scene, path, step, size, *, rel=0.01, dense=16, **options):
    x = np.asarray(scene[path], np.float64)
    moved = lambda e: scene.with_values({path: x + e * np.asarray(step)})  # noqa: E731
    slope = lambda e: np.sum(gradients(moved(e), VIEW, **options)[path] * step)  # noqa: E731
    got, wanted = slopes(lambda e: total(moved(e), VIEW, samples=dense), slope, size, n=12)
    assert got == pytest.approx(wanted, rel=rel) and abs(wanted) > 1
    return wanted


@pytest.mark.parametrize("light", LIGHTS)
@pytest.mark.parametrize("step", [(1.0, 0, 0), (0, 1.0, 0.5)])
def test_vertices(light, step):
    check(scene_of(LIGHTS[light]), "ball.vertices", step, 0.06, samples=1)


PATHS = [("point", "position"), ("spot", "position"), ("sun", "direction")]


@pytest.mark.parametrize("light, part", PATHS)
@pytest.mark.parametrize("step", [(1.0, 0, 0.3), (0, 1.0, -0.4)])
def test_light(light, part, step):
    """Where the light is: the shadow moves, and the light on the floor changes."""
    scene = scene_of(LIGHTS[light])
    wanted = check(scene, f"light.{part}", step, 0.08, samples=4)
    still = np.sum(gradients(scene, VIEW, samples=4, boundary="none")[f"light.{part}"] * step)
    assert abs(still - wanted) > 0.05 * abs(wanted)


def test_receiver():
    """The floor tilts under the shadow."""
    scene = scene_of(LIGHTS["point"])
    x = scene["floor.vertices"][:, :1]
    check(scene, "floor.vertices", np.concatenate([0 * x, 0 * x, 0.3 + 0.1 * x], axis=1), 0.1, samples=4)


@pytest.mark.parametrize("twist", [(0, 0.02, 0, 0, 0, 0), (0, 0, 0, 0.1, 0, 0), (0, 0, 0.05, 0, 0, 0.2)])
def test_camera(twist):
    """The shadow stays, and what sees it moves."""
    scene, twist = scene_of(LIGHTS["point"]), np.array(twist, float)
    seen = lambda e: VIEW.moved(e * twist[:3], e * twist[3:])  # noqa: E731

    def slope(e):
        direction = (seen(e + 1e-5).world_to_camera - seen(e - 1e-5).world_to_camera) / 2e-5
        return np.sum(gradients(scene, seen(e), samples=4)["camera.world_to_camera"] * direction)

    # (The difference of images is the noisy side: with 16 samples it is off by 3 %.)
    got, wanted = slopes(lambda e: total(scene, seen(e), samples=24), slope, 0.7, n=12)
    assert got == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize("path, step", [("ball.vertices", (0.3, 1.0, 0)), ("lamp.vertices", (1.0, 1.0, 0))])
def test_soft_shadow(path, step):
    """Of an area light: the occluder moves, or the lamp does."""
    turn = np.array([[0.8, 0, -0.6], [0, 1, 0], [0.6, 0, 0.8]])
    lamp = gk.Mesh(quad(0.15).vertices @ turn + [2.0, 0.3, 2.5], quad().faces)
    objects = scene_of(LIGHTS["point"]).objects
    scene = gk.Scene({**objects, "lamp": glow(lamp, (300.0, 250.0, 200.0))})
    check(scene, path, step, 0.15, samples=4, light_points=64, rel=0.03)


def test_shadow_of_the_sky():
    """Darkness below a ball over the floor: directions stand for the sky."""
    floor = gk.Object(quad(4))
    scene = gk.Scene({"floor": floor, "ball": gk.Object(ball(2, 0.4, (0, 0, 0.6)), gk.Material(albedo=(0.0,) * 3))})
    scene = gk.Scene(scene.objects, gk.ConstantLight())
    view = gk.Camera.look_at((3, 0, 1.0), (0, 0, 0), up=(0, 0, 1), fov=15, width=16, height=16)
    x, up = scene["ball.vertices"], np.array([0, 0, 1.0])
    moved = lambda e: scene.with_values({"ball.vertices": x + e * up})  # noqa: E731
    got = np.sum(gradients(scene, view, samples=4, light_points=256)["ball.vertices"] * up)
    wanted = difference(lambda e: total(moved(e), view, samples=16), 0.05)
    assert got == pytest.approx(wanted, rel=0.03)


def test_the_tangent_is_the_adjoint_transposed():
    scene = scene_of(LIGHTS["point"])
    tables = SceneTables(scene)
    (shadows,) = shadows_of(tables, VIEW, count=1, seed=0)
    rng = np.random.default_rng(0)
    adj, steps = rng.normal(size=(40, 40, 3)), np.zeros((tables.mesh.n_vertices, 3))
    steps[4:] = rng.normal(size=(tables.mesh.n_vertices - 4, 3))  # not of the floor, on which they are thrown
    out = {}
    shadows.adjoint(adj, out)
    assert (out["vertices"] * steps).sum() == pytest.approx((shadows.tangent(steps) * adj).sum(), rel=1e-9)


def test_no_shadow():
    """Nothing to throw one, nothing to fall on, or a light inside the ball."""
    alone = gk.Scene(gk.Object(ball(2), smooth=True), gk.PointLight((3, 3, 3)))
    inside = scene_of(gk.PointLight((0.8, 0.1, 1.1)))
    for scene in (alone, inside, gk.Scene(quad(), gk.PointLight((0, 0, 1)))):
        g = gradients(scene, front(8), samples=1)
        assert all(np.isfinite(x).all() for x in g.scene.values())
