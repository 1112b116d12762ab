"""Film filters and parts of images."""

from __future__ import annotations

import math

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.film import FILTERS, Film

RNG = np.random.default_rng(7)
BALL = gk.shapes.icosphere(2, dtype=np.float64)
SCENE = gk.Scene({"ball": gk.Object(BALL, gk.Material((0.7, 0.5, 0.2)))}, {"sky": gk.ConstantLight((1.0, 0.8, 0.6))})
CAMERA = gk.Camera.look_at((0.3, 0.4, 4), (0, 0, 0), fov=40, width=20, height=16)


def weight(x: np.ndarray, kind: str) -> np.ndarray:
    if kind == "box":
        return np.where(abs(x) < 0.5, 1.0, 0)
    if kind == "triangle":
        return np.maximum(1 - abs(x), 0)
    return np.where(abs(x) < 2, np.exp(-2 * x * x) - math.exp(-8), 0)


@pytest.mark.parametrize("kind", FILTERS)
def test_value(kind: str) -> None:
    """Against sums over all samples of a larger image, of which the one wanted is the middle."""
    n, pad = 3, 2
    K = CAMERA.K.copy()
    K[:2, 2] += pad
    larger = gk.Camera(CAMERA.world_to_camera, K, width=20 + 2 * pad, height=16 + 2 * pad)
    K = np.diag([n, n, 1.0]) @ K
    fine = gk.Camera(larger.world_to_camera, K, width=n * larger.width, height=n * larger.height)
    samples = gk.render(SCENE, fine, channels="mask", samples=1).mask
    sums = []
    for size in (20, 16):
        x = (np.arange(n * (size + 2 * pad)) + 0.5) / n - pad
        w = weight(x[None, :] - np.arange(size)[:, None] - 0.5, kind)
        sums.append(w / w.sum(axis=1, keepdims=True))
    expected = np.einsum("xk,yl,lkc->yxc", sums[0], sums[1], samples)
    assert np.allclose(gk.render(SCENE, CAMERA, channels="mask", samples=n, filter=kind).mask, expected, atol=1e-12)


@pytest.mark.parametrize("kind", FILTERS)
def test_part_is_part_of_the_whole(kind: str) -> None:
    options = dict(channels=("color", "depth"), samples=2, filter=kind)
    whole = gk.render(SCENE, CAMERA, **options)
    part = gk.render(SCENE, CAMERA, rows=(3, 9), columns=(5, 20), **options)
    assert part.color.shape == (6, 15, 3)
    # Sums over neighbours are in another order.
    assert np.allclose(part.color, whole.color[3:9, 5:], rtol=0, atol=0 if kind == "box" else 1e-14)
    assert np.allclose(part.depth, whole.depth[3:9, 5:], rtol=0, atol=0 if kind == "box" else 1e-14)


@pytest.mark.parametrize("kind", FILTERS)
def test_gradient_of_a_part(kind: str) -> None:
    """The gradient of a part is that of the whole, for a cotangent that is zero outside."""
    options = dict(samples=2, filter=kind, light_points=8)
    adj = RNG.normal(size=(6, 15, 3))
    whole = np.zeros((16, 20, 3))
    whole[3:9, 5:] = adj
    g = gk.render.adjoint(SCENE, CAMERA, adj_color=adj, rows=(3, 9), columns=(5, 20), **options)
    expected = gk.render.adjoint(SCENE, CAMERA, adj_color=whole, **options)
    for path in ("ball.vertices", "camera.K", "camera.world_to_camera", "ball.material.albedo", "sky.radiance"):
        assert np.allclose(g[path], expected[path], rtol=1e-9, atol=1e-12), path


def test_empty_part() -> None:
    assert gk.render(SCENE, CAMERA, rows=(4, 4)).color.shape == (0, 20, 3)
    assert gk.render(SCENE, CAMERA, columns=(7, 7)).color.shape == (16, 0, 3)
    g = gk.render.adjoint(SCENE, CAMERA, columns=(7, 7), adj_color=np.zeros((16, 0, 3)))
    assert not g["ball.vertices"].any()


@pytest.mark.parametrize("kind", FILTERS)
def test_samples_are_the_transpose(kind: str) -> None:
    film = Film("render", 9, 7, rows=(1, 6), columns=(2, 9), filter=kind, samples=3)
    image, adj = np.zeros((5, 7, 2)), RNG.normal(size=(5, 7, 2))
    total = 0.0
    for window in film.tiles(200, np.dtype(np.float64), "cpu"):
        value = RNG.normal(size=(len(window), 2))
        film.add(np, image, window, value)
        total += (film.to_samples(np, adj, window) * value).sum()
    assert (image * adj).sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("kind", FILTERS)
def test_filter_has_integral_one(kind: str) -> None:
    film = Film("render", 9, 9, rows=None, columns=None, filter=kind, samples=1)
    x = (np.arange(300) + 0.5) / 50
    pixel = np.stack(np.meshgrid(x + 1.5, x + 1.5), axis=-1).reshape(-1, 2)
    adj = np.zeros((9, 9, 1))
    adj[4, 4] = 1
    assert film.at(np, adj, pixel).sum() / 50**2 == pytest.approx(1, rel=1e-3)
    # Far from the border the filters of all pixels add up to a constant.
    assert np.allclose(film.at(np, np.ones((9, 9, 1)), pixel), 1, atol=0.03)


@pytest.mark.parametrize("kind", FILTERS)
def test_silhouettes(kind: str) -> None:
    """A plate that emits, moved across the film: its edges by the filter, against the filtered image itself."""
    camera = gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=40, width=12, height=12)
    corners = np.array([[-0.51, -0.43, 0], [0.47, -0.32, 0.0], [0.4, 0.55, 0], [-0.38, 0.36, 0]])
    adj = RNG.normal(size=(12, 12, 3))
    d_corners = RNG.normal(size=(4, 3)) * [1, 1, 0]

    def made(e: float) -> gk.Scene:
        plate = gk.Mesh(corners + e * d_corners, [[0, 1, 2], [0, 2, 3]])
        return gk.Scene({"plate": gk.Object(plate, gk.Material(emission=(1.0, 1.0, 1.0)))})

    step = 2e-3
    ends = [gk.render(made(s * step), camera, samples=96, depth=0, filter=kind).color for s in (1, -1)]
    expected = ((ends[0] - ends[1]) * adj).sum() / (2 * step)
    g = gk.render.adjoint(made(0), camera, samples=2, depth=0, filter=kind, adj_color=adj)
    assert (g["plate.vertices"] * d_corners).sum() == pytest.approx(expected, rel=0.02, abs=0.02 * abs(adj).sum())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (dict(filter="sinc"), "render: filter: expected 'box', 'triangle' or 'gaussian', got 'sinc'"),
        (dict(rows=(3, 17)), r"render: rows: expected \(first, last\), 0 <= first <= last <= 16, got \(3, 17\)"),
        (dict(columns=(3, 2)), "render: columns"),
        (dict(columns=3), "render: columns"),
        (dict(rows=(1.5, 3)), "render: rows"),
    ],
)
def test_error(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gk.render(SCENE, CAMERA, **options)
