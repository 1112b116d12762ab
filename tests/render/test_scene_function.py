"""Images of several cameras in one call, beside those of single calls."""

import numpy as np
import pytest

import geomkit as gk
from tests.render.views import ball, quad, weights

LIGHT = gk.PointLight((2.0, 1.0, 3.0), (20.0, 15.0, 10.0))
OPTIONS = dict(channels=("color", "mask"), samples=2)


def scene_of(vertices=None, position=LIGHT.position):
    mesh = ball(2, 0.7, (0.1, 0.2, 0.3))
    mesh = mesh if vertices is None else gk.Mesh(vertices, mesh.faces)
    objects = {"ball": gk.Object(mesh, smooth=True), "floor": gk.Object(quad(1.5, -0.8))}
    return gk.Scene(objects, {"light": gk.PointLight(position, LIGHT.intensity)})


def cameras(sizes):
    eyes = [(0.4, 0.7, 4), (-2, 1, 3), (3, 0.2, 2)]
    return [
        gk.Camera.look_at(eye, (0.1, 0, 0), fov=40 + 5 * k, width=w, height=h)
        for k, (eye, (w, h)) in enumerate(zip(eyes, sizes, strict=False))
    ]


SAME, OTHER = [(9, 7)] * 3, [(9, 7), (5, 8), (6, 6)]


def cotangents(views):
    return [weights(view) for view in views], [weights(view, 1) for view in views]


@pytest.mark.parametrize("sizes", [SAME, OTHER])
def test_images_are_those_of_single_calls(sizes):
    views = cameras(sizes)
    found = gk.render(scene_of(), views, **OPTIONS)
    assert isinstance(found, list) == (sizes is OTHER)
    if sizes is SAME:
        assert found.color.shape == (3, 7, 9, 3) and found.depth is None
    for k, view in enumerate(views):
        own = gk.render(scene_of(), view, **OPTIONS)
        for name in OPTIONS["channels"]:
            image = getattr(found[k], name) if sizes is OTHER else getattr(found, name)[k]
            np.testing.assert_array_equal(image, getattr(own, name))


@pytest.mark.parametrize("sizes", [SAME, OTHER, SAME[:1]])
def test_gradients_are_those_of_single_calls(sizes):
    views = cameras(sizes)
    color, mask = cotangents(views)
    g = gk.render.adjoint(scene_of(), views, **OPTIONS, adj_color=color, adj_mask=mask)
    total = {}
    for k, view in enumerate(views):
        own = gk.render.adjoint(scene_of(), view, **OPTIONS, adj_color=color[k], adj_mask=mask[k])
        for path, value in own.scene.items():
            total[path] = total[path] + value if path in total else value
        np.testing.assert_array_equal(g[f"camera.{k}.K"], own["camera.K"])
        np.testing.assert_array_equal(g.camera[k]["world_to_camera"], own["camera.world_to_camera"])
    for path, value in total.items():
        np.testing.assert_array_equal(g[path], value)


def wanted(views):
    color, mask = cotangents(views)
    g = gk.render.adjoint(scene_of(), views, **OPTIONS, adj_color=color, adj_mask=mask)
    return g["ball.vertices"], g["light.position"], g["camera.1.K"]


def loss(vertices, position, K, views, library):
    pose, width, height = views[1].world_to_camera, views[1].width, views[1].height
    views = [views[0], gk.Camera(pose, K, width=width, height=height), views[2]]
    found = gk.render(scene_of(vertices, position), views, **OPTIONS)
    color, mask = cotangents(views)
    if not isinstance(found, list):
        return (found.color * library(np.stack(color))).sum() + (found.mask * library(np.stack(mask))).sum()
    parts = zip(found, color, mask, strict=True)
    return sum((x.color * library(c)).sum() + (x.mask * library(m)).sum() for x, c, m in parts)


@pytest.mark.parametrize("sizes", [SAME, OTHER])
def test_torch(sizes):
    torch = pytest.importorskip("torch")
    views = cameras(sizes)
    values = ball(2, 0.7, (0.1, 0.2, 0.3)).vertices, np.array(LIGHT.position), views[1].K
    values = [torch.tensor(x, requires_grad=True) for x in values]
    loss(*values, views, torch.tensor).backward()
    for x, g in zip(values, wanted(views), strict=True):
        np.testing.assert_allclose(x.grad, g, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sizes", [SAME, OTHER])
def test_tape(sizes):
    views = cameras(sizes)
    vertices, K = np.array(ball(2, 0.7, (0.1, 0.2, 0.3)).vertices), np.array(views[1].K)
    with gk.Tape() as tape:
        total = loss(tape.watch(vertices), LIGHT.position, tape.watch(K), views, np.asarray)
    found = tape.gradient(total, [vertices, K])
    vertices_wanted, _, K_wanted = wanted(views)
    np.testing.assert_allclose(found[0], vertices_wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], K_wanted, rtol=1e-9, atol=1e-9)


def test_what_is_refused():
    with pytest.raises(ValueError, match="render: camera: expected a Camera, or a list of at least one"):
        gk.render(scene_of(), [])
    with pytest.raises(TypeError, match="render: camera: expected a Camera, got int"):
        gk.render(scene_of(), [cameras(SAME)[0], 3])
    with pytest.raises(ValueError, match="render.adjoint: adj_color: expected one for each of 3 cameras, got 2"):
        gk.render.adjoint(scene_of(), cameras(SAME), adj_color=np.zeros((2, 7, 9, 3)))
    for wanted in ("camera.K", "camera.3.K", ["camera.0.focal"]):
        with pytest.raises(ValueError, match="render.adjoint: wanted: expected some of .*camera.0.K.* got"):
            gk.render.adjoint(scene_of(), cameras(SAME), adj_color=np.zeros((3, 7, 9, 3)), wanted=wanted)
