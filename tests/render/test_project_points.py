"""Pixels of points: against NumPy, behind the camera, in every library, and their gradients."""

import numpy as np
import pytest

import geomkit as gk
from tests.render.lens import LENS, POSE, K, five, intrinsics, pose_of, project

MODELS = ["pinhole", "orthographic"]
POINTS = np.random.default_rng(0).normal(size=(50, 3))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lens", [None, LENS, 0.1 * LENS[:4]])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 2e-7)])
def test_value(model, lens, dtype, rtol):
    points = POINTS.astype(dtype)
    seen = gk.project_points(points, POSE, K, lens, model=model)
    pixel, depth = project(points, POSE, K, None if lens is None else np.resize(np.append(lens, 0), 5), model=model)
    kept = np.isfinite(seen.pixel).all(axis=1)
    assert kept.sum() > 30 and seen.pixel.dtype == seen.depth.dtype == dtype
    np.testing.assert_allclose(seen.pixel[kept], pixel[kept], rtol=rtol, atol=100 * rtol)
    np.testing.assert_allclose(seen.depth, depth, rtol=rtol, atol=rtol)


def test_behind_a_pinhole_there_is_no_pixel_and_no_gradient_of_one():
    points = np.array([[0.1, 0.2, -1.0], [0.1, 0.2, 0.0], [0.1, 0.2, 1.0], [0, 0, -2]])
    seen = gk.project_points(points, np.eye(4), K)
    assert np.isnan(seen.pixel).all(axis=1).tolist() == [True, True, False, True]
    np.testing.assert_array_equal(seen.depth, points[:, 2])
    cotangent = np.where(np.isnan(seen.pixel), np.nan, 1.0)
    some = gk.project_points.adjoint(points, np.eye(4), K, LENS, adj_pixel=cotangent)
    one = gk.project_points.adjoint(points[2:3], np.eye(4), K, LENS, adj_pixel=[[1.0, 1.0]])
    assert not some.points[[0, 1, 3]].any()
    for a, b in zip((some.points[2:3], *some[1:]), one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    depth = gk.project_points.adjoint(points, np.eye(4), K, adj_depth=np.ones(4))
    np.testing.assert_array_equal(depth.points, np.tile([0.0, 0, 1], (4, 1)))
    assert not depth.K.any()
    assert np.isfinite(gk.project_points(points, np.eye(4), K, model="orthographic").pixel).all()


def test_beyond_the_fold_of_a_lens_there_is_no_pixel():
    # x (1 - x^2 / 3) grows up to x = 1.
    points = [[0.999, 0, 1], [1.001, 0, 1], [0, 3, 1], [0.6, 0.6, 1]]
    seen = gk.project_points(points, np.eye(4), K, [-1 / 3, 0, 0, 0])
    assert np.isnan(seen.pixel).all(axis=1).tolist() == [False, True, True, False]
    gradient = gk.project_points.adjoint(points, np.eye(4), K, [-1 / 3, 0, 0, 0], adj_pixel=np.ones((4, 2)))
    assert not gradient.points[1:3].any() and all(np.isfinite(g).all() for g in gradient)


@pytest.mark.parametrize("model", MODELS)
def test_rays_lead_back(model):
    seen = gk.project_points(POINTS, POSE, K, LENS, model=model)
    kept = np.isfinite(seen.pixel).all(axis=1)
    rays = gk.pixel_rays(seen.pixel[kept], POSE, K, LENS, model=model)
    np.testing.assert_allclose(rays.origins + seen.depth[kept, None] * rays.directions, POINTS[kept], atol=1e-11)


def test_edge():
    for points in ([], np.zeros((0, 3))):
        seen = gk.project_points(points, POSE, K, LENS)
        assert seen.pixel.shape == (0, 2) and seen.depth.shape == (0,)
        gradient = gk.project_points.adjoint(points, POSE, K, LENS, adj_pixel=np.zeros((0, 2)))
        assert gradient.points.shape == (0, 3) and not any(g.any() for g in gradient[1:])
    assert np.isnan(gk.project_points([[np.nan, 0, 0], [0, np.inf, 0]], POSE, K).pixel).any(axis=1).all()


def test_the_same_bits_whatever_the_threads():
    points = np.random.default_rng(0).normal(size=(5000, 3))
    adj = np.random.default_rng(1).normal(size=(5000, 2))
    before = gk.num_threads()
    try:
        sums = []
        for threads in (1, 2):
            gk.set_num_threads(threads)
            sums.append(gk.project_points.adjoint(points, POSE, K, LENS, adj_pixel=adj))
    finally:
        gk.set_num_threads(before)
    for a, b in zip(*sums, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- gradients


@pytest.mark.parametrize("output", ["pixel", "depth"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lens", [None, LENS, np.zeros(5)])
def test_gradient(model, lens, output):
    pose = POSE[:3] + 0.05 * np.random.default_rng(2).normal(size=(3, 4))
    points = 0.4 * POINTS

    def forward(points, rows, k, *d):
        return getattr(gk.project_points(points, pose_of(rows), intrinsics(k), *d, model=model), output)

    def adjoint(points, rows, k, *d_and_adj):
        *d, adj = d_and_adj
        given = {"model": model, f"adj_{output}": adj}
        g = gk.project_points.adjoint(points, pose_of(rows), intrinsics(k), *d, **given)
        assert not g.world_to_camera[3].any() and not g.K[2].any() and g.K[1, 0] == 0
        return g.points, g.world_to_camera[:3], five(g.K), *([] if lens is None else [g.distortion])

    inputs = [points, pose, five(K), *([] if lens is None else [lens])]
    assert np.isfinite(forward(*inputs)).all()
    assert gk.gradcheck(forward, inputs, adjoint=adjoint, rtol=1e-7) < 1e-7


def test_rays_and_pixels_have_inverse_derivatives():
    """Moving a pixel, and then where its ray is at one depth, moves the pixel by as much."""
    seen = gk.project_points(0.4 * POINTS, POSE, K, LENS)
    for k in range(2):
        there = np.tile(np.eye(2)[k], (50, 1))
        to_points = gk.project_points.adjoint(0.4 * POINTS, POSE, K, LENS, adj_pixel=there).points
        given = {"adj_directions": seen.depth[:, None] * to_points}
        back = gk.pixel_rays.adjoint(seen.pixel, POSE, K, LENS, **given)
        np.testing.assert_allclose(back.pixels, there, atol=1e-11)


def test_torch_and_tape():
    torch = pytest.importorskip("torch")
    arrays = [torch.tensor(x, requires_grad=True) for x in (POINTS, POSE, K, LENS)]
    seen = gk.project_points(*arrays)
    (seen.pixel.nan_to_num().square().sum() + seen.depth.sum()).backward()
    pixel = np.nan_to_num(gk.project_points(POINTS, POSE, K, LENS).pixel)
    wanted = gk.project_points.adjoint(POINTS, POSE, K, LENS, adj_pixel=2 * pixel, adj_depth=np.ones(50))
    for x, g in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(x.grad, g, rtol=1e-12, atol=1e-12)
    near = 0.4 * POINTS
    with gk.Tape() as tape:
        loss = np.sum(gk.project_points(near, POSE, K, LENS).pixel ** 2)
    pixel = gk.project_points(near, POSE, K, LENS).pixel
    wanted = gk.project_points.adjoint(near, POSE, K, LENS, adj_pixel=2 * pixel)
    for a, b in zip(tape.gradient(loss, [near, POSE, K, LENS]), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_jax():
    jax = pytest.importorskip("jax")
    points, pose, k = (np.float32(x) for x in (0.4 * POINTS, POSE, K))

    def loss(points, pose, k):
        return (gk.project_points(points, pose, k).pixel ** 2).sum()

    pixel = gk.project_points(points, pose, k).pixel
    wanted = gk.project_points.adjoint(points, pose, k, adj_pixel=2 * pixel)[:3]
    for f in (jax.grad(loss, (0, 1, 2)), jax.jit(jax.grad(loss, (0, 1, 2)))):
        for a, b in zip(f(points, pose, k), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * abs(b).max())


# ---- errors


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"points": np.zeros((3, 2))}, r"points: expected \(N, 3\) floats, got \(3, 2\) float64"),
        ({"world_to_camera": np.zeros((4, 4))}, "world_to_camera: expected the last row 0, 0, 0, 1, got"),
        ({"world_to_camera": np.diag([1, 1, 0, 1])}, "world_to_camera: expected a matrix that can be inverted, got"),
        ({"K": np.diag([1, 0, 1])}, "K: expected focal lengths other than zero, got 1 and 0"),
        ({"distortion": np.zeros(8)}, "distortion: expected k1, k2, p1, p2 or k1, k2, p1, p2, k3, got 8 numbers"),
        ({"model": None}, "model: expected 'pinhole' or 'orthographic', got None"),
    ],
)
def test_error(changed, text):
    with pytest.raises(ValueError, match=f"project_points: {text}"):
        gk.project_points(**{"points": POINTS, "world_to_camera": POSE, "K": K, **changed})


def test_error_of_the_adjoint():
    with pytest.raises(ValueError, match="project_points.adjoint: adj_pixel, adj_depth: expected at least one"):
        gk.project_points.adjoint(POINTS, POSE, K)
    with pytest.raises(ValueError, match=r"project_points.adjoint: adj_depth: expected \(50,\) floats"):
        gk.project_points.adjoint(POINTS, POSE, K, adj_depth=np.zeros((50, 1)))
