"""Analytic antialiasing: closed forms, its exact adjoint, and how near to the truth it is."""

import numpy as np
import pytest

import geomkit as gk
from tests.render.views import ball, difference, front, glow, gradients, quad, total, weights

OPTIONS = dict(samples=1, boundary="antialias")


def flat_view(size=10):
    return gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=2, width=size, height=size)


def turned(mesh, angle):
    c, s = np.cos(angle), np.sin(angle)
    return gk.Mesh(np.asarray(mesh.vertices) @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]), mesh.faces)


# ---- values


@pytest.mark.parametrize("place", np.linspace(0.01, 0.19, 7))
def test_value(place):
    """An edge along the pixels covers each of them by what it covers, wherever it is."""
    mesh = gk.Mesh([[-2.0, -2, 0], [place, -2, 0], [place, 2, 0], [-2, 2, 0]], quad().faces)
    mask = gk.render(mesh, flat_view(), channels="mask", **OPTIONS).mask[..., 0]
    np.testing.assert_allclose(mask[:, 5], place / 0.2, atol=1e-6)
    assert (mask[:, :5] == 1).all() and not mask[:, 6:].any()


def test_area_of_a_disc():
    """Of many discs the mean is right to 0.2 %, and each to 2 %."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(12):
        x, y = 0.1 * rng.random(2) - 0.05
        mesh = ball(4, 0.6, (x, y, 0.0))
        area = gk.render(mesh, flat_view(32), channels="mask", **OPTIONS).mask.sum() / (16 * 16)
        errors.append(area / (np.pi * 0.36) - 1)
    assert abs(np.mean(errors)) < 2e-3 and np.max(np.abs(errors)) < 0.02


def test_inner_edges_do_not_show():
    """Neighbouring faces of a smooth ball are not mixed: within, the image is the aliased one."""
    scene = gk.Scene(gk.Object(ball(2), smooth=True), gk.PointLight((2.0, 1.0, 3.0)))
    one, other = (gk.render(scene, front(16), samples=1, boundary=b).color for b in ("antialias", "none"))
    np.testing.assert_array_equal(one[6:10, 6:10], other[6:10, 6:10])
    assert (one != other).any()


@pytest.mark.parametrize("seed", range(4))
def test_range(seed):
    """As documented: at most half of the difference for each outline beyond what is mixed."""
    rng = np.random.default_rng(seed)
    mesh = gk.Mesh(rng.normal(size=(90, 3)), np.arange(90).reshape(30, 3))
    mask = gk.render(mesh, front(16), channels="mask", **OPTIONS).mask
    assert np.isfinite(mask).all() and mask.min() >= -1 and mask.max() <= 2


# ---- edges


def test_edge():
    empty = gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int32))
    assert not gk.render(empty, front(5), channels="mask", **OPTIONS).mask.any()
    for width, height in ((1, 1), (1, 6), (6, 1)):
        view = gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=35, width=width, height=height)
        assert gk.render(ball(1), view, channels="mask", **OPTIONS).mask.shape == (height, width, 1)
    corners = np.array([[-0.4, -0.3, 2.0], [0.6, -0.2, 1.0], [0.3, 0.9, 6.5]])
    g = gradients(gk.Scene(glow(gk.Mesh(corners, [[0, 1, 2]]))), front(12), depth=0, **OPTIONS)
    assert np.isfinite(g["object.vertices"]).all()


def test_seams_do_not_show():
    """Every face with vertices of its own: the same image, and the same gradient, shared out."""
    mesh = ball(2, 0.8)
    corners = np.asarray(mesh.faces).ravel()
    soup = gk.Mesh(mesh.vertices[corners], np.arange(len(corners)).reshape(-1, 3))
    a, b = (gk.render(m, front(12), channels="mask", **OPTIONS).mask for m in (mesh, soup))
    np.testing.assert_array_equal(a, b)
    g, h = (gradients(gk.Scene(m), front(12), "mask", **OPTIONS)["object.vertices"] for m in (mesh, soup))
    whole = np.zeros_like(g)
    np.add.at(whole, corners, h)
    np.testing.assert_allclose(whole, g, atol=1e-9)


# ---- errors


@pytest.mark.parametrize("more", [{"samples": 2}, {"filter": "triangle"}, {"rows": (0, 3)}, {"columns": (1, 2)}])
def test_error(more):
    with pytest.raises(ValueError, match="render: samples, filter, rows, columns: expected one sample a pixel"):
        gk.render(ball(1), front(6), **{**OPTIONS, **more})


# ---- gradients: of this very image, by its differences


@pytest.mark.parametrize("channel", ["mask", "color", "depth", "normal"])
@pytest.mark.parametrize("model", ["pinhole", "orthographic"])
def test_gradient(channel, model):
    """To 1e-6: the image is smooth where no outline crosses a centre within the step."""
    view = front(9) if model == "pinhole" else flat_view(9)
    shape = turned(gk.Mesh(quad(0.55).vertices + [0.013, 0.021, 0], quad().faces), 0.3)
    light = gk.PointLight((1.0, 0.5, 3.0), (5.0, 4.0, 3.0))
    wall = {} if channel == "mask" else {"wall": gk.Object(quad(9, -1.0), gk.Material((0.2, 0.4, 0.6)))}
    scene = gk.Scene({"a": gk.Object(shape), **wall}, light)
    step = np.random.default_rng(1).normal(size=shape.vertices.shape)
    options = dict(OPTIONS)
    got = np.sum(gradients(scene, view, channel, **options)["a.vertices"] * step)
    wanted = difference(
        lambda e: total(scene.with_values({"a.vertices": shape.vertices + e * step}), view, channel, **options), 1e-7
    )
    assert got == pytest.approx(wanted, rel=1e-5, abs=1e-6) and (abs(wanted) > 1e-3 or channel == "normal")


@pytest.mark.parametrize("path", ["K", "world_to_camera", "distortion"])
def test_gradient_of_the_camera(path):
    base, scene = front(9), gk.Scene(turned(quad(0.55), 0.3))
    lens = np.array([-0.2, 0.05, 0.01, -0.02, 0.01])
    fields = {"K": base.K, "world_to_camera": base.world_to_camera, "distortion": lens}
    steps = {
        "K": np.array([[1, 1, 1], [0, 1, 1], [0, 0, 0]]) * np.array([[0.3, 0.2, 0.5], [0, -0.4, 0.6], [0, 0, 0]]),
        "world_to_camera": np.array([[0, -0.3, 0.2, 0.1], [0.3, 0, -0.4, 0.2], [-0.2, 0.4, 0, 0.3], [0, 0, 0, 0]])
        @ base.world_to_camera,
        "distortion": np.array([0.3, 0.2, -0.1, 0.2, 0.1]),
    }

    def view(e):
        own = fields | {path: fields[path] + e * steps[path]}
        return gk.Camera(own["world_to_camera"], own["K"], distortion=own["distortion"], width=9, height=9)

    got = np.sum(np.asarray(gradients(scene, view(0), "mask", **OPTIONS).camera[path]) * steps[path])
    wanted = difference(lambda e: total(scene, view(e), "mask", **OPTIONS), 1e-6)
    assert got == pytest.approx(wanted, rel=1e-5) and abs(wanted) > 1e-3


def test_gradient_is_near_the_integral():
    """Of a ball's area by its radius: 2 %, from 64 pixels across on."""
    mesh, view = ball(4, 0.6, (0.013, 0.021, 0.0)), flat_view(64)
    adj = np.ones((64, 64, 1))
    g = gk.render.adjoint(mesh, view, channels="mask", **OPTIONS, adj_mask=adj)["object.vertices"]
    radial = (mesh.vertices - [0.013, 0.021, 0]) / 0.6
    assert np.sum(g * radial) == pytest.approx(2 * np.pi * 0.6 * 32**2, rel=0.02)


def test_torch():
    torch = pytest.importorskip("torch")
    vertices = torch.tensor(ball(2, 0.7).vertices, requires_grad=True)
    scene = gk.Scene(gk.Mesh(vertices, ball(2).faces))
    image = gk.render(scene, front(10), channels="mask", **OPTIONS).mask
    (image * torch.tensor(weights(front(10), 1))).sum().backward()
    wanted = gradients(gk.Scene(ball(2, 0.7)), front(10), "mask", **OPTIONS)["object.vertices"]
    np.testing.assert_allclose(vertices.grad, wanted, rtol=1e-9, atol=1e-9)


def test_devices():
    """Single precision is near double."""
    low = gk.render(ball(2, 0.7, dtype=np.float32), front(10), channels="mask", **OPTIONS).mask
    high = gk.render(ball(2, 0.7), front(10), channels="mask", **OPTIONS).mask
    assert low.dtype == np.float32
    np.testing.assert_allclose(low, high, atol=1e-4)
