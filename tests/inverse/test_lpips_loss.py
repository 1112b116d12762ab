"""The adapter to lpips: what the package is given, and what is said where it is missing."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import geomkit as gk
from geomkit.inverse import lpips_loss as module

IMAGE = np.random.default_rng(0).uniform(size=(8, 9, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def no_network_is_kept():
    module._network.cache_clear()
    yield
    module._network.cache_clear()


def test_the_package_gets_srgb_between_minus_one_and_one(monkeypatch):
    torch = pytest.importorskip("torch")
    seen = []

    def network(a, b):
        seen.append(a)
        return (a - b).abs().mean().reshape(1, 1, 1, 1)

    monkeypatch.setitem(sys.modules, "lpips", SimpleNamespace(LPIPS=lambda net, verbose: network))
    x = torch.tensor(IMAGE, requires_grad=True)
    loss = gk.lpips_loss(x, np.zeros_like(IMAGE))
    assert loss.shape == () and seen[0].shape == (1, 3, 8, 9)
    np.testing.assert_allclose(
        seen[0][0].detach().numpy(), 2 * gk.linear_to_srgb(IMAGE).transpose(2, 0, 1) - 1, atol=1e-6
    )
    loss.backward()
    assert (x.grad > 0).all()


def test_error(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "lpips", None)
    with pytest.raises(ImportError, match="lpips_loss: needs the package lpips"):
        gk.lpips_loss(IMAGE, IMAGE)
    with pytest.raises(ValueError, match="lpips_loss: net: expected one of alex, vgg, squeeze, got 'x'"):
        gk.lpips_loss(IMAGE, IMAGE, net="x")
    with pytest.raises(ValueError, match=r"lpips_loss: target: expected \(H, W, 3\), the same for both"):
        gk.lpips_loss(IMAGE, IMAGE[:4])
