"""Tests of what is kept of an image for its adjoint, and of gradients that nobody asks for."""

import gc
import sys

import numpy as np
import pytest

import geomkit as gk
from geomkit.mesh.shapes import box, icosphere
from geomkit.render.first_hits import hit_rays

kept = sys.modules["geomkit.render.first_hits"]._kept
LAMP = gk.PointLight((1.0, 2.0, 3.0), (9.0, 9.0, 9.0))


def scene_of(mesh, albedo=0.5, **light):
    lights = {"sky": gk.ConstantLight(**light), "lamp": LAMP}
    return gk.Scene({"ball": gk.Object(mesh, gk.Material(albedo=(albedo,) * 3), smooth=True), "box": box()}, lights)


def view(size=24):
    return gk.Camera.look_at((2, 3, 4), (0, 0, 0), fov=40, width=size, height=size)


def gradients(scene, camera, **options):
    ones = np.ones((camera.height, camera.width, 3), np.float32)
    return gk.render.adjoint(scene, camera, adj_color=ones, samples=2, **options)


def same(a, b):
    assert a.scene.keys() == b.scene.keys()
    for path, x in a.scene.items():
        np.testing.assert_array_equal(x, b.scene[path], err_msg=path)
    for name, x in a.camera.items():
        np.testing.assert_array_equal(x, b.camera[name], err_msg=name)


@pytest.mark.parametrize("boundary", ["none", "integral"])
def test_gradients_are_the_same_with_and_without(boundary):
    mesh = icosphere(2).with_vertices(np.asarray(icosphere(2).vertices) + np.float32(0.3))
    kept.clear()
    alone = gradients(scene_of(mesh), view(), boundary=boundary)
    gk.render(scene_of(mesh), view(), samples=2)
    assert kept
    same(gradients(scene_of(mesh), view(), boundary=boundary), alone)


@pytest.mark.parametrize("change", ["albedo", "radiance", "seed", "camera", "smooth", "roughness"])
def test_what_has_changed_since(change):
    """An adjoint of another scene than that of the latest image takes of it what still holds."""
    mesh, options = icosphere(2), {}
    gk.render(scene_of(mesh, albedo=0.0, radiance=(0.0, 0.0, 0.0)), view(), samples=2)
    scene, camera = scene_of(mesh, albedo=0.0, radiance=(0.0, 0.0, 0.0)), view()
    if change == "albedo":
        scene = scene_of(mesh, radiance=(0.0, 0.0, 0.0))
    elif change == "radiance":
        scene = scene_of(mesh, albedo=0.0)
    elif change == "seed":
        options["seed"] = 3
    elif change == "camera":
        camera = gk.Camera.look_at((2, 3, 4.5), (0, 0, 0), fov=40, width=24, height=24)
    else:
        model = "metallic" if change == "roughness" else "diffuse"
        thing = gk.Object(mesh, gk.Material(model=model, roughness=0.4), smooth=change != "smooth")
        scene = gk.Scene({"ball": thing, "box": box()}, scene.lights)
    found = gradients(scene, camera, **options)
    kept.clear()
    same(found, gradients(scene, camera, **options))


def test_black_surfaces_and_lights_have_gradients():
    mesh = icosphere(2)
    g = gradients(scene_of(mesh, albedo=0.0), view(), boundary="none")
    assert (g["ball.material.albedo"] > 1).all()
    g = gradients(scene_of(mesh, radiance=(0.0, 0.0, 0.0)), view(), boundary="none")
    assert (g["sky.radiance"] > 1).all()


def test_meshes_are_not_held():
    kept.clear()
    for _ in range(3):
        gk.render(gk.Scene(icosphere(1), gk.ConstantLight()), view(), samples=1)
        gc.collect()
    assert len(kept) <= 1


def test_little_is_kept(monkeypatch):
    monkeypatch.setattr(sys.modules["geomkit.render.first_hits"], "MOST", 1000)
    kept.clear()
    mesh = icosphere(1)
    for k in range(8):
        gk.render(gk.Scene(mesh, gk.ConstantLight()), view(8 + k), samples=2)
    assert sum(n for _, n in kept.values()) <= 1000


def test_rays_that_hit():
    face = np.random.default_rng(0).integers(-1, 2, 5000).astype(np.int32)
    np.testing.assert_array_equal(hit_rays(face, "cpu"), np.flatnonzero(face >= 0))
    assert len(hit_rays(face[:0], "cpu")) == 0


def test_wanted():
    colors = np.random.default_rng(0).random((42, 3)).astype(np.float32)
    scene = gk.Scene(gk.Object(icosphere(1), gk.Material(albedo=colors)), gk.ConstantLight())
    whole = gradients(scene, view())
    some = gradients(scene, view(), wanted="object.vertices")
    np.testing.assert_array_equal(some["object.vertices"], whole["object.vertices"])
    assert "object.material.albedo" not in some.scene
    some = gradients(scene, view(), wanted=("object.material.albedo", "camera.K"))
    np.testing.assert_array_equal(some["object.material.albedo"], whole["object.material.albedo"])
    np.testing.assert_array_equal(some["camera.K"], whole["camera.K"])
    with pytest.raises(ValueError, match=r"render.adjoint: wanted: expected some of .*, got \['ball.vertices'\]"):
        gradients(scene, view(), wanted="ball.vertices")
