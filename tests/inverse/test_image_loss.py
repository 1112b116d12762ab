"""Losses between images: values, edges, errors, warnings, gradients."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime.device import namespace

RNG = np.random.default_rng(0)
A, B = RNG.uniform(size=(2, 15, 13, 3))
MASK, TRUTH = RNG.uniform(0.1, 0.9, size=(2, 9, 8, 1))
LOSSES = {
    "l1": (gk.l1_loss, A, B, {}),
    "l1 weighted": (gk.l1_loss, A, B, {"weight": RNG.uniform(size=(15, 13))}),
    "mse": (gk.mse_loss, A, B, {}),
    "mse weighted": (gk.mse_loss, A, B, {"weight": RNG.uniform(size=(15, 13, 3))}),
    "huber": (gk.huber_loss, A, B, {"delta": 0.3}),
    "multiscale l1": (gk.multiscale_loss, A, B, {"levels": 4}),
    "multiscale mse": (gk.multiscale_loss, A, B, {"levels": 3, "kind": "mse"}),
    "iou": (gk.iou_loss, MASK, TRUTH, {}),
    "psnr": (gk.psnr, A, B, {"data_range": 2.0}),
    "ssim": (gk.ssim, A, B, {}),
    "ssim wide": (gk.ssim, A[:, :, 0], B[:, :, 0], {"sigma": 0.8, "data_range": 2.0}),
    "depth": (gk.depth_loss, A + 0.1, B + 0.1, {}),
    "normal": (gk.normal_loss, A - 0.5, B - 0.5, {}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name):
    loss, a, b, options = LOSSES[name]
    # (No entry is so close to a kink, of which l1 has one at 0.)
    gk.gradcheck(lambda x, y: loss(x, y, **options), [a, b], step=1e-5, rtol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_float32_in_float32_out_and_close(name):
    loss, a, b, options = LOSSES[name]
    found = loss(a.astype(np.float32), b.astype(np.float32), **options)
    assert found.dtype == np.float32 and found.shape == ()
    np.testing.assert_allclose(found, loss(a, b, **options), rtol=1e-5)
    g = loss.adjoint(a.astype(np.float32), b.astype(np.float32), **options)
    assert g[0].dtype == np.float32 and g[0].shape == a.shape and g[1].shape == b.shape


def test_value_of_simple_losses():
    d = A - B
    weight = LOSSES["l1 weighted"][3]["weight"]
    np.testing.assert_allclose(gk.l1_loss(A, B), np.abs(d).mean(), rtol=1e-14)
    np.testing.assert_allclose(
        gk.l1_loss(A, B, weight=weight), np.average(np.abs(d).mean(axis=2), weights=weight), rtol=1e-14
    )
    np.testing.assert_allclose(gk.mse_loss(A, B), (d**2).mean(), rtol=1e-14)
    huber = np.where(np.abs(d) < 0.3, 0.5 * d**2, 0.3 * (np.abs(d) - 0.15))
    np.testing.assert_allclose(gk.huber_loss(A, B, delta=0.3), huber.mean(), rtol=1e-14)
    np.testing.assert_allclose(gk.psnr(A, B), 10 * np.log10(1 / (d**2).mean()), rtol=1e-14)
    union = (MASK + TRUTH - MASK * TRUTH).sum()
    np.testing.assert_allclose(gk.iou_loss(MASK, TRUTH), 1 - (MASK * TRUTH).sum() / union, rtol=1e-14)


def test_value_of_the_pyramid():
    d = A - B
    even = d[:12, :12]
    levels = [even, even.reshape(6, 2, 6, 2, 3).mean(axis=(1, 3)), even.reshape(3, 4, 3, 4, 3).mean(axis=(1, 3))]
    wanted = np.mean([np.abs(x).mean() for x in levels])
    np.testing.assert_allclose(gk.multiscale_loss(A[:12, :12], B[:12, :12], levels=3), wanted, rtol=1e-14)


@pytest.mark.parametrize("channels", [1, 3])
def test_value_of_ssim_is_that_of_scikit_image(channels):
    metrics = pytest.importorskip("skimage.metrics")
    x, y = RNG.uniform(size=(2, 40, 31, channels))
    y = 0.7 * x + 0.3 * y
    wanted = metrics.structural_similarity(
        x, y, channel_axis=2, gaussian_weights=True, use_sample_covariance=False, data_range=1.0
    )
    np.testing.assert_allclose(gk.ssim(x, y), wanted, rtol=1e-12)


def test_value_of_depth_and_normals_counts_what_both_see():
    depth, target = np.array([[2.0, 0.0, 3.0, 1.0]]), np.array([[2.5, 1.0, np.inf, 1.0]])
    assert gk.depth_loss(depth, target) == 0.25
    assert np.isfinite(gk.depth_loss.adjoint(depth, target).target).all()
    n = np.array([[1.0, 0, 0], [0, 0, 0]])
    assert gk.normal_loss(n, -3 * n) == 2.0
    assert not gk.normal_loss.adjoint(n, n[::-1].copy()).normal.any()


def test_edge_equal_and_empty():
    for loss in (gk.l1_loss, gk.mse_loss, gk.huber_loss, gk.multiscale_loss):
        assert loss(A, A) == 0 and not loss.adjoint(A, A).image.any()
    assert gk.psnr(A, A) == np.inf and not gk.psnr.adjoint(A, A).image.any()
    np.testing.assert_allclose(gk.ssim(A, A), 1.0, rtol=1e-14)
    zero = np.zeros((3, 3, 1))
    assert gk.iou_loss(zero, zero) == 0 and not gk.iou_loss.adjoint(zero, zero).mask.any()
    assert gk.iou_loss(zero, zero + 1) == 1


@pytest.mark.parametrize("name", ["l1_loss", "psnr", "iou_loss", "depth_loss", "normal_loss"])
def test_edge_nan_is_no_perfect_score(name):
    image = np.full((4, 4, 3), 0.5)
    broken = image.copy()
    broken[1, 2] = np.nan
    assert np.isnan(getattr(gk, name)(broken, image))
    assert np.isnan(getattr(gk, name).adjoint(broken, image)[0]).any()
    assert name != "depth_loss" or gk.depth_loss(image, broken) == 0


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: gk.l1_loss(A, B[:3]), "l1_loss: target: expected the shape of image, (15, 13, 3), got (3, 13, 3)"),
        (lambda: gk.l1_loss(A[:0], B[:0]), "l1_loss: image: expected at least one pixel"),
        (lambda: gk.l1_loss(A, B, weight=-np.ones((15, 13))), "l1_loss: weight: expected weights that are not neg"),
        (lambda: gk.l1_loss(A, B, weight=np.zeros((15, 13))), "l1_loss: weight: expected .* some above 0, got none"),
        (lambda: gk.l1_loss(A, B, weight=np.ones((2, 2))), "l1_loss: weight: expected (H, W), or what broadcasts"),
        (lambda: gk.huber_loss(A, B, delta=0), "huber_loss: delta: expected a positive number, got 0"),
        (lambda: gk.multiscale_loss(A, B, levels=9), "multiscale_loss: levels: expected an integer from 1 to 5, got 9"),
        (lambda: gk.multiscale_loss(A, B, kind="l3"), "multiscale_loss: kind: expected 'l1' or 'mse', got 'l3'"),
        (lambda: gk.ssim(A[:9], B[:9]), "ssim: image: expected 11 pixels or more a side, got (9, 13, 3)"),
        (lambda: gk.psnr(A, B, data_range=0), "psnr: data_range: expected a positive number, got 0"),
        (lambda: gk.normal_loss(MASK, TRUTH), "normal_loss: normal: expected (..., 3), got (9, 8, 1)"),
    ],
)
def test_error(call, text):
    with pytest.raises(ValueError) as error:
        call()
    head, _, tail = text.partition(" .* ")
    assert head in str(error.value) and tail in str(error.value)


def test_codes_of_srgb_beside_linear_colours_warn(tmp_path):
    image = np.full((12, 12, 3), 0.5, np.float32)
    gk.save_image(tmp_path / "a.png", image)
    codes = gk.load_image(tmp_path / "a.png", linear=False)
    assert abs(codes - 188 / 255).max() < 1e-6
    with pytest.warns(gk.ColorSpaceWarning, match="l1_loss: target holds sRGB codes and image does not"):
        found = gk.l1_loss(image, codes)
    np.testing.assert_allclose(found, 188 / 255 - 0.5, rtol=1e-5)
    integers = np.rint(255 * np.asarray(codes)).astype(np.uint8)
    with pytest.warns(gk.ColorSpaceWarning, match="image holds sRGB codes"):
        np.testing.assert_allclose(gk.ssim(integers, image), gk.ssim(np.asarray(codes), image), rtol=1e-6)
    # What is computed from codes is still codes; what is made linear is not. (Warnings are errors in these tests.)
    with pytest.warns(gk.ColorSpaceWarning):
        gk.mse_loss(image, 0.5 * codes)
    assert gk.l1_loss(image, gk.srgb_to_linear(codes)) < 3e-3
    assert gk.l1_loss(integers, codes) < 1e-6
    assert gk.l1_loss(image, gk.load_image(tmp_path / "a.png")) < 3e-3


def test_libraries():
    torch = pytest.importorskip("torch")
    x = torch.tensor(A, requires_grad=True)
    loss = gk.ssim(x, torch.tensor(B)) + gk.l1_loss(x, torch.tensor(B))
    loss.backward()
    wanted = gk.ssim.adjoint(A, B).image + gk.l1_loss.adjoint(A, B).image
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


def test_devices():
    pytest.importorskip("cupy")
    try:
        xp = namespace("cuda")
        a, b = xp.asarray(A), xp.asarray(B)
    except Exception:  # noqa: BLE001 (whatever CuPy raises without a GPU)
        pytest.skip("no GPU")
    for loss, _, _, options in list(LOSSES.values())[:7]:
        np.testing.assert_allclose(loss(a, b, **options).get(), loss(A, B, **options), rtol=1e-10)
