"""Scenes: names, paths, and what is refused."""

import numpy as np
import pytest

import geomkit as gk
from tests.render.views import ball, front, quad


def scene():
    objects = {
        "ball": gk.Object(ball(1), gk.Material(albedo=(0.2, 0.3, 0.4)), smooth=True),
        "floor": gk.Object(quad(), uv=np.zeros((4, 2))),
    }
    lights = {
        "sky": gk.ConstantLight(),
        "bulb": gk.PointLight((0, 1, 2)),
        "spot": gk.SpotLight((0, 0, 1), (0, 0, -1)),
        "sun": gk.DirectionalLight((0, 0, -1)),
    }
    return gk.Scene(objects, lights)


def test_paths():
    paths = list(scene().paths())
    assert len(paths) == len(set(paths))
    for path in paths:
        value = scene()[path]
        changed = scene().with_values({path: value})
        assert changed[path] is value or np.array_equal(changed[path], value)
    assert {
        "ball.vertices",
        "floor.uv",
        "ball.material.albedo",
        "sky.radiance",
        "bulb.position",
        "spot.intensity",
    } < set(paths)
    assert "ball.uv" not in paths and "spot.inner" not in paths


def test_with_values_changes_nothing_else():
    base = scene()
    changed = base.with_values({"ball.material.albedo": (1, 0, 0), "ball.vertices": 2 * base["ball.vertices"]})
    assert base["ball.material.albedo"] == (0.2, 0.3, 0.4) and changed["ball.material.albedo"] == (1, 0, 0)
    np.testing.assert_array_equal(changed["ball.vertices"], 2 * base["ball.vertices"])
    assert changed.objects["ball"].smooth and changed.lights == base.lights
    assert changed.objects["floor"] is base.objects["floor"]


def test_short_forms():
    mesh = ball(1)
    one = gk.Scene(mesh, gk.ConstantLight())
    assert repr(one) == "Scene(objects: object; lights: light)"
    assert repr(gk.Scene({"a": mesh})) == "Scene(objects: a; lights: none)"
    assert one["object.material.albedo"] == (0.5, 0.5, 0.5)

    class Foreign:
        vertices, faces = mesh.vertices, mesh.faces

    assert gk.Scene(Foreign()).objects["object"].mesh.n_faces == mesh.n_faces
    assert gk.Scene(gk.Object(Foreign())).objects["object"].mesh.n_faces == mesh.n_faces


def test_a_mesh_is_a_scene_lit_from_everywhere():
    image = gk.render(ball(2), front(8), samples=2).color
    assert image[4, 4] == pytest.approx([0.5] * 3, abs=1e-6) and image[0, 0] == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("name", ["a.b", "", "camera", 3])
def test_names_that_are_refused(name):
    with pytest.raises(ValueError, match="Scene: names: expected a string without a dot"):
        gk.Scene({name: ball(1)})


def test_what_is_refused():
    with pytest.raises(ValueError, match="used once"):
        gk.Scene({"a": ball(1)}, {"a": gk.ConstantLight()})
    with pytest.raises(TypeError, match=r"Scene: objects\['a'\]: expected an Object or a mesh, got int"):
        gk.Scene({"a": 3})
    with pytest.raises(TypeError, match=r"Scene: lights\['light'\]: expected one of ConstantLight"):
        gk.Scene(ball(1), 3)
    with pytest.raises(KeyError, match=r"no 'ball.color' in it: there are ball.vertices"):
        scene()["ball.color"]
    with pytest.raises(KeyError, match="no 'moon.radiance' in it"):
        scene().with_values({"moon.radiance": 1.0})


BAD = [
    ("ball.material.albedo", (1.0, 1.0), "albedo"),
    ("ball.material.albedo", (np.nan, 0, 0), "finite"),
    ("ball.material.metallic", 2.0, r"expected a number in \[0, 1\], got 2.0"),
    ("ball.material.roughness", -0.1, r"expected a number in \[0, 1\], got -0.1"),
    ("ball.material.emission", (1.0, np.inf, 0.0), "expected finite numbers"),
    ("floor.uv", np.zeros((3, 2)), "uv"),
    ("sky.radiance", (1.0, 2.0), "radiance"),
    ("bulb.position", (0.0, np.nan, 0.0), "expected finite numbers"),
    ("spot.direction", (0.0, 0.0, 0.0), "expected a direction"),
    ("sun.direction", (0.0, 0.0, 0.0), "expected a direction"),
]


@pytest.mark.parametrize("path, value, expected", BAD, ids=[f"{path}-{k}" for k, (path, *_) in enumerate(BAD)])
def test_values_that_are_refused(path, value, expected):
    with pytest.raises(ValueError, match=expected) as caught:
        gk.render(scene().with_values({path: value}), front(2))
    assert str(caught.value).startswith(f"render: {path}: expected")


def test_materials_and_cones_that_are_refused():
    with pytest.raises(ValueError, match="render: a.material.model: expected 'diffuse' or 'metallic', got 'glass'"):
        gk.render(gk.Scene({"a": gk.Object(ball(1), gk.Material(model="glass"))}), front(2))
    with pytest.raises(ValueError, match="render: a.uv: expected texture coordinates"):
        gk.render(gk.Scene({"a": gk.Object(ball(1), gk.Material(albedo=np.ones((2, 2, 3))))}), front(2))
    with pytest.raises(ValueError, match="render: a.uv: expected finite numbers"):
        uv = np.full((ball(1).n_vertices, 2), np.nan)
        gk.render(gk.Scene({"a": gk.Object(ball(1), gk.Material(np.ones((2, 2, 3))), uv=uv)}), front(2))
    with pytest.raises(TypeError, match="Scene: objects.'a'..material: expected a Material, got tuple"):
        gk.Scene({"a": gk.Object(ball(1), (1.0, 0.0, 0.0))})
    for inner, outer in ((40, 30), (-1, 30), (0, 200)):
        light = gk.SpotLight((0, 0, 2), (0, 0, -1), inner=inner, outer=outer)
        with pytest.raises(ValueError, match="0 <= inner < outer <= 180"):
            gk.render(gk.Scene(ball(1), light), front(2))
    with pytest.raises(ValueError, match="render: scene: expected at least one object, got none"):
        gk.render(gk.Scene({}), front(2))
    flat = gk.Object(gk.Mesh(np.zeros((3, 3)), [[0, 1, 2]]), gk.Material(emission=(1.0, 1.0, 1.0)))
    with pytest.raises(ValueError, match="render: a.vertices: expected faces with some area"):
        gk.render(gk.Scene({"a": flat, "b": ball(1)}), front(2))
