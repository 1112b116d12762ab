"""What lights give, by closed forms; what surfaces scatter."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.radiance import Radiance
from geomkit.render.tables import SceneTables
from tests.render.views import ball, difference, front, glow, gradients, only_draw, quad, total

ALBEDO = np.array([0.2, 0.5, 0.8])


def lit(light, point=(0.0, 0.0), material=None, samples=1, depth=1, objects=None):
    """What a camera sees of the plane z = 0 at a point: the image of one small pixel."""
    x, y = point
    camera = gk.Camera.look_at((x, y, 3), (x, y, 0), fov=1e-3, width=1, height=1)
    material = gk.Material(albedo=ALBEDO) if material is None else material
    lights = {} if light is None else {"light": light}
    scene = gk.Scene({"plane": gk.Object(quad(5), material), **(objects or {})}, lights)
    return gk.render(scene, camera, samples=samples, depth=depth).color[0, 0]


@pytest.mark.parametrize("point", [(0.0, 0.0), (0.7, -0.3)])
def test_point_light_by_lamberts_law(point):
    position, intensity = np.array([1.0, 0.5, 2.0]), np.array([3.0, 4.0, 5.0])
    to = position - [*point, 0]
    wanted = ALBEDO / np.pi * intensity * to[2] / np.linalg.norm(to) ** 3
    np.testing.assert_allclose(lit(gk.PointLight(position, intensity), point), wanted, rtol=1e-5)


def test_inverse_square():
    near, far = (lit(gk.PointLight((0, 0, z), (1.0, 1.0, 1.0))) for z in (0.5, 1.5))
    np.testing.assert_allclose(near, 9 * far, rtol=1e-6)


def test_light_behind_a_surface():
    assert not lit(gk.PointLight((0, 0, -1))).any()
    assert not lit(gk.DirectionalLight((0, 0, 1))).any()


def test_directional_light():
    travel, irradiance = np.array([1.0, 2.0, -2.0]), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        lit(gk.DirectionalLight(travel, irradiance)), ALBEDO / np.pi * irradiance * 2 / 3, rtol=1e-5
    )


@pytest.mark.parametrize("angle", [0.0, 9.0, 15.0, 25.0, 29.0, 31.0, 60.0])
def test_spot_light(angle):
    """Full within the inner cone, none beyond the outer; between them the square of a line in the cosine."""
    x = np.tan(np.radians(angle))
    light = gk.SpotLight((0, 0, 1), (0, 0, -1), (1.0, 1.0, 1.0), inner=10, outer=30)
    cosine, inner, outer = np.cos(np.radians([angle, 10, 30]))
    part = np.clip((cosine - outer) / (inner - outer), 0, 1) ** 2
    np.testing.assert_allclose(lit(light, (x, 0.0)), ALBEDO / np.pi * part * cosine**3, rtol=1e-4, atol=1e-9)


def test_constant_light():
    np.testing.assert_allclose(lit(gk.ConstantLight((1.0, 2.0, 3.0))), ALBEDO * [1, 2, 3], rtol=1e-6)


def test_area_light_by_the_form_factor():
    """A square of 1 x 1 at height 1 above the point: the form factor of four corners (Howell, configuration B-3)."""
    half = 0.5
    corner = half / np.hypot(1, half) * np.arctan(half / np.hypot(1, half)) / np.pi
    lamp = gk.Mesh(quad(half, 1.0).vertices, np.asarray(quad().faces)[:, ::-1])
    scene_light = {"lamp": gk.Object(lamp, gk.Material(emission=(2.0, 2.0, 2.0), two_sided=False))}
    camera = gk.Camera.look_at((3, 0, 1), (0, 0, 0), fov=1e-3, width=1, height=1)
    objects = {"plane": gk.Object(quad(5), gk.Material(albedo=ALBEDO)), **scene_light}
    seen = gk.render(gk.Scene(objects), camera, samples=64).color[0, 0]
    np.testing.assert_allclose(seen, ALBEDO * 2 * 4 * corner, rtol=2e-3)
    turned = {"lamp": gk.Object(quad(half, 1.0), gk.Material(emission=(2.0, 2.0, 2.0), two_sided=False))}
    away = gk.render(gk.Scene({**objects, **turned}), camera, samples=4).color
    assert not away.any()


def test_black_back():
    for sided, wanted in ((True, 0.5), (False, 0.0)):
        turned = gk.Mesh(quad(5).vertices, np.asarray(quad().faces)[:, ::-1])
        scene = gk.Scene(gk.Object(turned, gk.Material(two_sided=sided)), gk.ConstantLight())
        image = gk.render(scene, front(2), samples=2).color
        np.testing.assert_allclose(image, wanted, atol=1e-6)


def test_lights_add():
    one, two = gk.PointLight((1, 0, 2)), gk.DirectionalLight((0, 0, -1))
    scene = gk.Scene(quad(5), {"one": one, "two": two})
    both = gk.render(scene, front(4), samples=1).color
    alone = [gk.render(gk.Scene(quad(5), light), front(4), samples=1).color for light in (one, two)]
    np.testing.assert_allclose(both, alone[0] + alone[1], rtol=1e-12)


def test_invisible_sky_lights_all_the_same():
    scene = gk.Scene(ball(2, 0.5), gk.ConstantLight(visible=False))
    image = gk.render(scene, front(8), samples=2).color
    assert not image[0, 0].any() and image[4, 4] == pytest.approx([0.5] * 3)


# ---- the BSDF, from what rays see of the plane z = 0


def seen_from(toward, lights, metallic, roughness, albedo=(1.0, 1.0, 1.0), model="metallic"):
    """(N, 3) what comes to directions (N, 3) from the origin."""
    material = gk.Material(albedo=albedo, model=model, metallic=metallic, roughness=roughness)
    plane = gk.Mesh(np.array([[-9.0, -9, 0], [11, -9, 0], [0, 12, 0]]), [[0, 1, 2]])  # the origin is not on an edge
    tables, n = SceneTables(gk.Scene(gk.Object(plane, material), lights)), len(toward)
    toward, index = np.ascontiguousarray(toward), np.arange(n, dtype=np.int32)
    return Radiance(tables, 2 * toward, -toward, np.zeros(n, np.uint32), index, 1).value


def scattered(toward, light, metallic, roughness, **options):
    """(N, 3) BSDF times the light's cosine."""
    return seen_from(toward, gk.DirectionalLight(-light), metallic, roughness, **options)


def hemisphere(n):
    """Directions by their cosine, each with a share of pi / n^2."""
    u, v = (x.ravel() for x in np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(n) + 0.5) / n))
    return np.stack([np.sqrt(u) * np.cos(2 * np.pi * v), np.sqrt(u) * np.sin(2 * np.pi * v), np.sqrt(1 - u)], axis=1)


LIGHTS = [np.array([0.0, 0.0, 1.0]), np.array([0.6, 0.0, 0.8]), np.array([0.3, 0.9, np.sqrt(0.1)])]
METALS = [(0.0, 0.4), (1.0, 0.4), (0.5, 0.6), (1.0, 1.0)]


@pytest.mark.parametrize("metallic, roughness", METALS)
def test_reciprocity(metallic, roughness):
    for a in LIGHTS:
        for b in LIGHTS:
            one = scattered(a[None], b, metallic, roughness, albedo=ALBEDO) / b[2]
            other = scattered(b[None], a, metallic, roughness, albedo=ALBEDO) / a[2]
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("metallic, roughness", METALS)
@pytest.mark.parametrize("light", LIGHTS)
def test_energy(light, metallic, roughness):
    """No more light leaves than arrives; and what leaves is what is found by sampling directions."""
    out = hemisphere(300)
    leaves = (scattered(out, light, metallic, roughness) * np.pi / len(out)).sum(axis=0) / light[2]
    assert (leaves <= 1.001).all() and (leaves > (0.95 if metallic == 0 else 0.3)).all()
    # By reciprocity the light that leaves from one direction is what comes from everywhere into it.
    drawn = seen_from(np.tile(light, (1 << 14, 1)), gk.ConstantLight(), metallic, roughness)
    np.testing.assert_allclose(drawn.mean(axis=0), leaves, rtol=0.01)


def test_smooth_metal_reflects_where_a_mirror_does():
    light = np.array([0.6, 0.0, 0.8])
    angles = np.radians(np.arange(-80, 80, 0.25))
    toward = np.stack([np.sin(angles), 0 * angles, np.cos(angles)], axis=1)
    seen = scattered(toward, light, 1.0, 0.1)[:, 0]
    assert np.degrees(angles[seen.argmax()]) == pytest.approx(-np.degrees(np.arcsin(0.6)), abs=0.5)


def test_diffuse_is_lambert():
    out = hemisphere(10)
    for light in LIGHTS:
        np.testing.assert_allclose(scattered(out, light, 0, 0.5, model="diffuse"), light[2] / np.pi, rtol=1e-12)


@pytest.mark.parametrize("roughness", [0.1, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("elevation", [4, 10, 30, 60, 89])
def test_furnace_of_a_dielectric(elevation, roughness):
    """A white base under a coat sends on all that arrives but a few per cent, and no more, at any angle."""
    toward = np.array([0, np.cos(np.radians(elevation)), np.sin(np.radians(elevation))])
    seen = seen_from(np.tile(toward, (1 << 13, 1)), gk.ConstantLight(), 0.0, roughness).mean()
    assert 0.94 < seen < 1.002


def test_black_light_and_black_surface_have_derivatives():
    """Where a channel of either is 0 the colour is, but not its derivative; and shadows stay shadows."""
    objects = {
        "plane": gk.Object(quad(4), gk.Material(albedo=(0.0, 0.5, 0.5))),
        "shade": gk.Object(quad(0.3, 0.5), gk.Material(albedo=(0.2, 0.3, 0.4))),
    }
    black = gk.SpotLight((0, 1, 2.0), (0, 0, -1.0), (0.0,) * 3)
    lights = {"bulb": gk.PointLight((1.0, 0, 2), (1.0, 0.0, 0.0)), "lamp": black}
    scene = gk.Scene(objects | {"glow": glow(quad(0.2, 2.5), np.zeros(3))}, lights)
    g = gradients(scene, front(8), samples=2, boundary="none")
    for path in ("plane.material.albedo", "bulb.intensity", "lamp.intensity", "glow.material.emission"):
        x = np.broadcast_to(np.asarray(scene[path], np.float64), 3)
        step = np.array([0.3, 0.2, 0.4])
        low, high = (total(scene.with_values({path: x + e * step}), front(8), samples=2) for e in (0, 1))
        assert np.sum(np.asarray(g[path]) * step) == pytest.approx(high - low, rel=1e-9), path


# ---- gradients

SUN = gk.DirectionalLight((0.3, 0.2, -1.0), (1.0, 1.0, 2.0))
LAMPS = {
    "sky": gk.ConstantLight((0.5, 0.6, 0.7)),
    "bulb": gk.PointLight((1.0, 0.5, 2.0), (5.0, 4.0, 3.0)),
    "spot": gk.SpotLight((-1.0, -0.5, 2.0), (0.3, 0.1, -1.0), (8.0, 8.0, 8.0), 5, 40),
    "sun": SUN,
}
PATHS = [
    "sky.radiance", "bulb.position", "bulb.intensity", "spot.position", "spot.direction", "spot.intensity",
    "sun.direction", "sun.irradiance", "plane.material.albedo", "plane.material.metallic", "plane.material.roughness",
    "lamp.material.emission", "lamp.vertices",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_gradients(path, monkeypatch):
    """Of a plane that fills the view, so that no edge is seen."""
    only_draw(monkeypatch)
    lights = dict(LAMPS) if path.startswith("sky") else {k: v for k, v in LAMPS.items() if k != "sky"}
    material = gk.Material(albedo=(0.5, 0.4, 0.3), model="metallic", metallic=0.3, roughness=0.5)
    lamp = gk.Mesh([[2.0, 0, 3], [2.5, 0.3, 3], [2, 0.6, 3.2]], np.array([[0, 2, 1]]))
    scene = gk.Scene({"plane": gk.Object(quad(9), material), "lamp": glow(lamp, (20.0, 15.0, 10.0))}, lights)
    camera, options = front(6), dict(samples=2, boundary="none")
    x = np.asarray(scene[path], np.float64)
    step = np.random.default_rng(0).normal(size=x.shape)
    got = np.sum(gradients(scene, camera, **options)[path] * step)
    wanted = difference(lambda e: total(scene.with_values({path: x + e * step}), camera, **options), 1e-5)
    assert got == pytest.approx(wanted, rel=1e-6) and abs(wanted) > 1e-4


def test_lanes_and_scalars_agree():
    """A spot that shines on all that is seen as a point light does: the one hit by hit, the other eight at a time."""
    position, intensity = (0.4, -0.3, 3.0), (3.0, 4.0, 5.0)
    camera = gk.Camera.look_at((0.3, 0.2, 4), (0, 0, 0), fov=40, width=13, height=11)
    spot = gk.SpotLight(position, (0, 0, -1), intensity, inner=80, outer=89)
    images, found = [], []
    for light in (gk.PointLight(position, intensity), spot):
        objects = {
            "ball": gk.Object(ball(3), gk.Material(albedo=(0.2, 0.5, 0.8)), smooth=True),
            "plane": gk.Object(quad(2, -1.2), gk.Material(albedo=(0.6, 0.3, 0.1), model="metallic", roughness=0.5)),
        }
        scene = gk.Scene(objects, {"light": light})
        images.append(gk.render(scene, camera, samples=3).color)
        found.append(gk.render.adjoint(scene, camera, samples=3, boundary="none", adj_color=images[0]))
    np.testing.assert_allclose(images[1], images[0], rtol=1e-5, atol=1e-6)
    for path in ("light.position", "light.intensity", "ball.material.albedo", "plane.material.albedo", "ball.vertices"):
        scale = abs(found[0][path]).max()
        assert scale > 0
        np.testing.assert_allclose(found[1][path], found[0][path], atol=2e-5 * scale, rtol=1e-5, err_msg=path)


@pytest.mark.parametrize("light", [gk.ConstantLight(), gk.PointLight((1.0, 2.0, 3.0))])
def test_neighbours_change_nothing(light):
    """A part of an image, of which other hits are side by side, has the bits of the whole."""
    objects = {
        "ball": gk.Object(ball(3), smooth=True),
        "plane": gk.Object(quad(2, -1.2), gk.Material(model="metallic", roughness=0.5)),
    }
    camera = gk.Camera.look_at((0.3, 0.2, 4), (0, 0, 0), fov=40, width=17, height=15)
    whole = gk.render(gk.Scene(objects, light), camera, samples=2).color
    part = gk.render(gk.Scene(objects, light), camera, samples=2, rows=(3, 12), columns=(5, 16)).color
    np.testing.assert_array_equal(part, whole[3:12, 5:16])
