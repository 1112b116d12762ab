"""Fields made distances: values, what stays, edges, errors, devices."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import cuda


def points(n, spacing=(1.0, 1.0, 1.0)):
    """Points of [-1, 1]^3, and the spacing: n along x, along y and z as many as the ratios say."""
    counts = [round((n - 1) / s) + 1 for s in spacing]
    axes = [np.linspace(-1, 1, m) for m in counts]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1), [a[1] - a[0] for a in axes]


def sphere(p):
    return np.linalg.norm(p, axis=-1) - 0.6


def torus(p):
    return np.hypot(np.hypot(p[..., 0], p[..., 1]) - 0.55, p[..., 2]) - 0.25


def bent(d, p):
    """A field with the same zeros, three times as steep on one side as on the other."""
    return d * (2 + np.sin(3 * p[..., 0]) + 0.5 * p[..., 1])


@pytest.mark.parametrize(
    ("shape", "n", "near", "far"), [(sphere, 25, 4e-3, 0.05), (torus, 49, 0.03, 0.06), (sphere, 49, 1e-3, 0.03)]
)
def test_value(shape, n, near, far):
    """Errors in spacings: within three of the surface, and everywhere."""
    p, step = points(n)
    exact, h = shape(p), step[0]
    for field in (exact, 3 * exact, bent(exact, p)):
        found = gk.redistance(field, spacing=h)
        off = np.abs(found - exact) / h
        assert off[np.abs(exact) < 2.8 * h].max() < near and off.max() < far
        np.testing.assert_array_equal(found < 0, field < 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_anisotropic(dtype):
    p, step = points(41, (1.0, 1.6, 0.8))
    exact = sphere(p)
    found = gk.redistance(bent(exact, p).astype(dtype), spacing=step)
    assert found.dtype == dtype
    off = np.abs(found - exact) / max(step)
    assert off[np.abs(exact) < 0.1].max() < 5e-3 and off.max() < 0.03


def test_value_again_and_again():
    """What is a distance stays: the second and the tenth time change next to nothing."""
    p, step = points(41)
    first = gk.redistance(bent(torus(p), p), spacing=step)
    near = np.abs(first) < 3 * step[0]
    again = gk.redistance(first, spacing=step)
    assert np.abs(again - first)[near].max() < 2e-3 * step[0]
    for _ in range(8):
        again = gk.redistance(again, spacing=step)
    # (The surface between two samples is that of the tricubic interpolant; its linear one differs by a few percent.)
    assert np.abs(again - first)[near].max() < 0.02 * step[0]
    surface = gk.marching_cubes(again, spacing=step, origin=-1).vertices
    assert np.abs(torus(surface)).max() < 0.04 * step[0]


def test_value_sharp_edges():
    """Where the field has no gradient to follow the mesh counts: no sample is far off."""
    p, step = points(41)
    q = np.abs(p) - 0.47
    exact = np.linalg.norm(np.maximum(q, 0), axis=-1) + np.minimum(q.max(axis=-1), 0)
    found = gk.redistance(3 * exact, spacing=step)
    assert np.abs(found - exact).max() < 0.6 * step[0]  # (the corners that marching cubes cuts off)
    assert np.abs(found - exact)[:, 20, 20].max() < 1e-9


def test_value_level_grid_and_band():
    p, step = points(33)
    exact = sphere(p)
    raised = gk.redistance(2 * exact + 5, spacing=step, level=5)
    np.testing.assert_allclose(raised, gk.redistance(2 * exact, spacing=step), atol=1e-9)
    grid = gk.redistance(gk.SdfGrid(2 * exact, np.full(3, -1.0), step[0]))
    assert isinstance(grid, gk.SdfGrid) and grid.spacing == step[0]
    np.testing.assert_array_equal(grid.values, raised * 0 + gk.redistance(2 * exact, spacing=step[0]))
    cut = gk.redistance(2 * exact, spacing=step, narrow_band=3)
    np.testing.assert_allclose(cut, np.clip(grid.values, -3 * step[0], 3 * step[0]), atol=1e-12)


def test_edge():
    # Samples that are zero stay, and so do the signs beside them.
    plane = (np.arange(7.0) - 3) ** 3 * np.ones((5, 6, 1))
    np.testing.assert_allclose(gk.redistance(plane), (np.arange(7.0) - 3) * np.ones((5, 6, 1)), atol=0.4)
    assert (gk.redistance(plane)[:, :, 3] == 0).all()
    noise = np.random.default_rng(0).normal(size=(8, 9, 10))
    found = gk.redistance(noise, spacing=(0.1, 0.2, 0.3))
    np.testing.assert_array_equal(found < 0, noise < 0)
    assert np.isfinite(found).all() and np.abs(found).max() < 1.0
    two = np.array([-1.0, 3.0])[:, None, None] + np.zeros((2, 2, 2))
    np.testing.assert_allclose(gk.redistance(two)[:, 0, 0], [-0.25, 0.75], atol=1e-12)


@pytest.mark.parametrize(
    ("grid", "options", "text"),
    [
        (np.ones((3, 3)), {}, r"grid: expected \(X, Y, Z\) floats"),
        (np.ones((3, 3, 3)), {}, "grid: expected a field that passes the level 0, got one without a surface"),
        (np.ones((3, 3, 3)), {"level": 2}, "grid: expected a field that passes the level 2"),
        (np.full((3, 3, 3), np.nan), {}, "grid: expected finite numbers, got 27 that are not"),
        (np.ones((3, 3, 3)), {"spacing": -1}, "spacing: expected positive numbers"),
        (np.ones((3, 3, 3)), {"narrow_band": 1}, "narrow_band: expected None, or a finite number of at least 2"),
        (gk.SdfGrid(np.ones((3, 3, 3)), np.zeros(3), 1.0), {"spacing": 1}, "spacing: expected none, as the SdfGrid"),
    ],
)
def test_error(grid, options, text):
    with pytest.raises(ValueError, match=f"^redistance: {text}"):
        gk.redistance(grid, **options)


def test_gradient_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="for gradients call marching_cubes and signed_distance"):
        gk.redistance(torch.ones(3, 3, 3, requires_grad=True))
    p, step = points(9)
    assert isinstance(gk.redistance(torch.tensor(sphere(p)), spacing=step), torch.Tensor)


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
def test_devices():
    import cupy

    p, step = points(33)
    field = bent(torus(p), p).astype(np.float32)
    found = gk.redistance(cupy.asarray(field), spacing=step).get()
    assert np.abs(found - gk.redistance(field, spacing=step)).max() < 0.02 * step[0]
