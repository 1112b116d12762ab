"""Rays of pixels: against NumPy, at the lens's fold, in every library, and their gradients."""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import geomkit as gk
from geomkit.render.pixel_rays import PixelWindow
from tests.render.lens import LENS, POSE, K, bend, five, intrinsics, pose_of, project

MODELS = ["pinhole", "orthographic"]
PIXELS = np.random.default_rng(0).uniform(0, 40, (50, 2))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lens", [None, LENS])
def test_value(model, lens):
    origins, directions = gk.pixel_rays(PIXELS, POSE, K, lens, model=model)
    assert origins.dtype == directions.dtype == np.float64
    for t in (0.5, 3.0):
        pixel, depth = project(origins + t * directions, POSE, K, lens, model=model)
        np.testing.assert_allclose(pixel, PIXELS, atol=1e-11)
        np.testing.assert_allclose(depth, t, rtol=1e-13)
    if model == "pinhole":
        np.testing.assert_allclose(origins, np.tile(-POSE[:3, :3].T @ POSE[:3, 3], (50, 1)), atol=1e-14)
    else:
        np.testing.assert_allclose(directions, np.tile(POSE[2, :3], (50, 1)), atol=1e-14)


def test_closed_forms():
    # Distortion by k1 alone along the x axis is a cubic: x (1 + k1 x^2) = 0.625 at x = 0.5 with k1 = 1.
    rays = gk.pixel_rays(np.array([[0.625, 0.0]]), np.eye(4), np.eye(3), [1, 0, 0, 0])
    np.testing.assert_allclose(rays.directions, [[0.5, 0, 1]], atol=1e-16)
    # p2 alone along the x axis is x + 3 p2 x^2.
    rays = gk.pixel_rays(np.array([[0.5 + 0.15, 0.0]]), np.eye(4), np.eye(3), [0, 0, 0, 0.2])
    np.testing.assert_allclose(rays.directions, [[0.5, 0, 1]], atol=1e-16)
    # p1 alone along the x axis moves a point by p1 x^2 downwards.
    rays = gk.pixel_rays(np.array([[0.5, 0.05]]), np.eye(4), np.eye(3), [0, 0, 0.2, 0])
    assert bend(rays.directions[:, :2], [0, 0, 0.2, 0, 0]) == pytest.approx(np.array([[0.5, 0.05]]), abs=1e-15)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-0.4, 0.4), min_size=3, max_size=3), st.floats(0, 2), st.floats(0, 6.3))
def test_undistortion_is_the_inverse_to_the_last_digits(radial, radius, angle):
    """Of all points that a radial lens does not fold."""
    k1, k2, k3 = radial
    s = np.linspace(0, 1.01 * radius**2, 1000)
    assume((1 + 3 * k1 * s + 5 * k2 * s**2 + 7 * k3 * s**3).min() > 0.02)
    point, lens = radius * np.array([[np.cos(angle), np.sin(angle)]]), [k1, k2, 0, 0, k3]
    seen = gk.project_points(np.insert(point, 2, 1, axis=1), np.eye(4), np.eye(3), lens).pixel
    np.testing.assert_allclose(seen, bend(point, lens), rtol=1e-14, atol=1e-300)
    found = gk.pixel_rays(seen, np.eye(4), np.eye(3), lens).directions[:, :2]
    np.testing.assert_allclose(bend(found, lens), seen, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found, point, rtol=1e-11, atol=1e-15)


def test_a_barrel_has_no_ray_beyond_its_fold():
    # x (1 - x^2 / 3) grows up to x = 1, where it is 2 / 3.
    pixels = np.array([[0.66, 0.0], [2 / 3 + 1e-9, 0], [5, 0], [0, -0.9], [0.3, 0.4]])
    rays = gk.pixel_rays(pixels, np.eye(4), np.eye(3), [-1 / 3, 0, 0, 0])
    assert np.isnan(rays.directions).any(axis=1).tolist() == [False, True, True, True, False]
    assert np.isfinite(rays.origins).all() and abs(rays.directions[0, 0]) < 1
    ones = np.ones((5, 3))
    some = gk.pixel_rays.adjoint(pixels, np.eye(4), np.eye(3), [-1 / 3, 0, 0, 0], adj_directions=ones)
    seen = [0, 4]
    few = gk.pixel_rays.adjoint(pixels[seen], np.eye(4), np.eye(3), [-1 / 3, 0, 0, 0], adj_directions=ones[seen])
    assert not some.pixels[1:4].any() and np.isfinite(some.pixels).all()
    for a, b in zip(some[1:], few[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("lens", [[5.0, 0, 0, 0], [0.5, 2, 0.05, -0.05, 3], [-0.3, 0.2, 0, 0, -0.01]])
def test_strong_lenses(lens):
    plane = np.random.default_rng(1).uniform(-1, 1, (500, 2))
    seen = gk.project_points(np.insert(plane, 2, 1, axis=1), np.eye(4), np.eye(3), lens).pixel
    kept = np.isfinite(seen).all(axis=1)
    assert kept.sum() > 200
    found = gk.pixel_rays(seen[kept], np.eye(4), np.eye(3), lens).directions
    np.testing.assert_allclose(found[:, :2], plane[kept], atol=1e-12)


def test_four_numbers_are_five_without_k3():
    for a, b in zip(*(gk.pixel_rays(PIXELS, POSE, K, k) for k in (LENS[:4], [*LENS[:4], 0])), strict=True):
        np.testing.assert_array_equal(a, b)
    given = {"adj_directions": np.ones((50, 3))}
    assert gk.pixel_rays.adjoint(PIXELS, POSE, K, LENS[:4], **given).distortion.shape == (4,)
    assert gk.pixel_rays.adjoint(PIXELS, POSE, K, **given).distortion is None


def test_edge():
    for pixels in ([], np.zeros((0, 2)), PixelWindow(3, 4, 0, 5), PixelWindow(3, 4, 5, 0, 2)):
        assert gk.pixel_rays(pixels, POSE, K, LENS).directions.shape == (0, 3)
        gradient = gk.pixel_rays.adjoint(pixels, POSE, K, LENS, adj_origins=np.zeros((0, 3)))
        assert not any(g.any() for g in gradient[1:])
    one, two = (gk.pixel_rays(x, POSE, K, LENS) for x in ([[3, 4]], np.float32([[9, 9], [3, 4]])))
    np.testing.assert_array_equal(one.directions, two.directions[1:])


def test_a_pixel_has_the_same_bits_in_any_company():
    window = PixelWindow(0, 0, 37, 29, 3)
    whole = gk.pixel_rays(window, POSE, K, LENS).directions.reshape(29, 37, 9, 3)
    part = gk.pixel_rays(PixelWindow(5, 7, 11, 13, 3), POSE, K, LENS).directions.reshape(13, 11, 9, 3)
    np.testing.assert_array_equal(part, whole[7:20, 5:16])
    adj = np.random.default_rng(0).normal(size=(len(window), 3))
    before = gk.num_threads()
    try:
        sums = []
        for threads in (1, 2):
            gk.set_num_threads(threads)
            sums.append(gk.pixel_rays.adjoint(window, POSE, K, LENS, adj_directions=adj, adj_origins=adj))
    finally:
        gk.set_num_threads(before)
    for a, b in zip(sums[0][1:], sums[1][1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_window_is_its_list_of_pixels():
    at = [[x + (i + 0.5) / 2, y + (j + 0.5) / 2] for y in (4, 5, 6) for x in (2, 3) for j in (0, 1) for i in (0, 1)]
    window = PixelWindow(2, 4, 2, 3, 2, np.dtype(np.float64))
    adj = np.random.default_rng(0).normal(size=(24, 3))
    for a, b in zip(gk.pixel_rays(window, POSE, K), gk.pixel_rays(np.array(at), POSE, K), strict=True):
        np.testing.assert_array_equal(a, b)
    a, b = (gk.pixel_rays.adjoint(p, POSE, K, LENS, adj_directions=adj) for p in (window, np.array(at)))
    assert a.pixels is None and b.pixels.shape == (24, 2)
    np.testing.assert_array_equal(a.K, b.K)
    np.testing.assert_array_equal(a.world_to_camera, b.world_to_camera)


# ---- gradients


@pytest.mark.parametrize("output", ["origins", "directions"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lens", [None, LENS, np.zeros(5)])
def test_gradient(model, lens, output):
    pose = POSE[:3] + 0.05 * np.random.default_rng(2).normal(size=(3, 4))

    def forward(pixels, rows, k, *d):
        return getattr(gk.pixel_rays(pixels, pose_of(rows), intrinsics(k), *d, model=model), output)

    def adjoint(pixels, rows, k, *d_and_adj):
        *d, adj = d_and_adj
        given = {"model": model, f"adj_{output}": adj}
        g = gk.pixel_rays.adjoint(pixels, pose_of(rows), intrinsics(k), *d, **given)
        assert not g.world_to_camera[3].any() and not g.K[2].any() and g.K[1, 0] == 0
        return g.pixels, g.world_to_camera[:3], five(g.K), *([] if lens is None else [g.distortion])

    inputs = [PIXELS, pose, five(K), *([] if lens is None else [lens])]
    assert gk.gradcheck(forward, inputs, adjoint=adjoint, rtol=1e-7) < 1e-7


def test_gradients_add_up():
    given = [np.random.default_rng(k).normal(size=(50, 3)) for k in range(2)]
    both = gk.pixel_rays.adjoint(PIXELS, POSE, K, LENS, adj_origins=given[0], adj_directions=given[1])
    a = gk.pixel_rays.adjoint(PIXELS, POSE, K, LENS, adj_origins=given[0])
    b = gk.pixel_rays.adjoint(PIXELS, POSE, K, LENS, adj_directions=given[1])
    for x, y, z in zip(both, a, b, strict=True):
        np.testing.assert_allclose(x, y + z, atol=1e-12)


def test_torch():
    torch = pytest.importorskip("torch")
    arrays = [torch.tensor(x, requires_grad=True) for x in (PIXELS, POSE, K, LENS)]
    rays = gk.pixel_rays(*arrays)
    (rays.origins.sum() + (rays.directions**2).sum()).backward()
    plain = gk.pixel_rays(PIXELS, POSE, K, LENS)
    wanted = gk.pixel_rays.adjoint(
        PIXELS, POSE, K, LENS, adj_origins=np.ones((50, 3)), adj_directions=2 * plain.directions
    )
    for x, g in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(x.grad, g, rtol=1e-12, atol=1e-12)
    # Only the camera tracks gradients, in another precision than the pixels.
    k = torch.tensor(K, dtype=torch.float64, requires_grad=True)
    rays = gk.pixel_rays(PIXELS.astype(np.float32), POSE, k)
    assert rays.directions.dtype == torch.float32
    rays.directions[:, 0].sum().backward()
    assert k.grad.dtype == torch.float64 and k.grad[0, 0] != 0


def test_jax():
    jax = pytest.importorskip("jax")
    pixels, pose, k, lens = (np.float32(x) for x in (PIXELS, POSE, K, LENS))

    def loss(pose, k, lens):
        return (gk.pixel_rays(pixels, pose, k, lens).directions ** 2).sum()

    found = [f(pose, k, lens) for f in (jax.grad(loss, (0, 1, 2)), jax.jit(jax.grad(loss, (0, 1, 2))))]
    directions = gk.pixel_rays(pixels, pose, k, lens).directions
    wanted = gk.pixel_rays.adjoint(pixels, pose, k, lens, adj_directions=2 * directions)[1:]
    for gradients in found:
        for a, b in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * abs(b).max())


def test_tape():
    with gk.Tape() as tape:
        loss = np.sum(gk.pixel_rays(PIXELS, POSE, K, LENS).directions ** 2)
    directions = gk.pixel_rays(PIXELS, POSE, K, LENS).directions
    wanted = gk.pixel_rays.adjoint(PIXELS, POSE, K, LENS, adj_directions=2 * directions)
    for a, b in zip(tape.gradient(loss, [PIXELS, POSE, K, LENS]), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- errors


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"pixels": np.zeros((3, 3))}, r"pixels: expected \(N, 2\) floats, got \(3, 3\) float64"),
        ({"world_to_camera": np.eye(3)}, r"world_to_camera: expected \(4, 4\) floats, got \(3, 3\) float64"),
        ({"world_to_camera": np.diag([1, 1, 0, 1])}, "world_to_camera: expected a matrix that can be inverted, got"),
        ({"world_to_camera": np.diag([1, 1, 1, 2])}, "world_to_camera: expected the last row 0, 0, 0, 1, got"),
        ({"K": np.full((3, 3), np.nan)}, "K: expected finite numbers, got"),
        ({"K": np.diag([0, 1, 1])}, "K: expected focal lengths other than zero, got 0 and 1"),
        ({"K": np.ones((3, 3))}, r"K: expected \[\[fx, skew, cx\]"),
        ({"distortion": [1, 2, 3]}, "distortion: expected k1, k2, p1, p2 or k1, k2, p1, p2, k3, got 3 numbers"),
        ({"distortion": [np.inf, 0, 0, 0]}, "distortion: expected finite numbers, got"),
        ({"model": "fisheye"}, "model: expected 'pinhole' or 'orthographic', got 'fisheye'"),
    ],
)
def test_error(changed, text):
    with pytest.raises(ValueError, match=f"pixel_rays: {text}"):
        gk.pixel_rays(**{"pixels": PIXELS, "world_to_camera": POSE, "K": K, **changed})


def test_error_of_the_adjoint():
    with pytest.raises(ValueError, match="pixel_rays.adjoint: adj_origins, adj_directions: expected at least one"):
        gk.pixel_rays.adjoint(PIXELS, POSE, K)
    with pytest.raises(ValueError, match=r"pixel_rays.adjoint: adj_origins: expected \(50, 3\) floats"):
        gk.pixel_rays.adjoint(PIXELS, POSE, K, adj_origins=np.zeros((3, 3)))
