"""Interpolation on a grid: values, edges, errors, gradients, devices."""

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

import geomkit as gk
from geomkit.runtime import cuda

PLACE = {"spacing": (0.5, 1.0, 2.0), "origin": (1.0, -2.0, 3.0)}


def polynomial(p, degree):
    x, y, z = np.moveaxis(p, -1, 0)
    return 1 + x - 2 * y + 3 * z + (0.5 * x * x - y * z + 0.25 * z * z + x * y if degree == 2 else x * y * z - y * z)


def lattice(shape):
    return np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1) * PLACE["spacing"] + PLACE["origin"]


def inside(shape, n, seed=0, margin=0.0):
    u = np.random.default_rng(seed).uniform(margin, np.array(shape) - 1 - margin, (n, 3))
    return u * PLACE["spacing"] + PLACE["origin"]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("shape", [(5, 6, 7), (2, 2, 2), (1, 4, 3)])
def test_value_linear(shape, dtype, tolerance):
    grid = np.random.default_rng(0).normal(size=shape).astype(dtype)
    points = inside(shape, 300)
    if min(shape) > 1:
        axes = [o + h * np.arange(n) for o, h, n in zip(PLACE["origin"], PLACE["spacing"], shape, strict=True)]
        expected = RegularGridInterpolator(axes, grid)(points)
    else:
        axes = [o + h * np.arange(n) for o, h, n in zip(PLACE["origin"], PLACE["spacing"], shape, strict=True)][1:]
        expected = RegularGridInterpolator(axes, grid[0])(points[:, 1:])
    found = gk.interpolate_grid(grid, points, **PLACE)
    assert found.value.dtype == found.gradient.dtype == dtype
    np.testing.assert_allclose(found.value, expected, atol=tolerance)


@pytest.mark.parametrize(("method", "degree"), [("linear", 1), ("cubic", 2), ("cubic", 1)])
def test_value_polynomials(method, degree):
    """Linear interpolation has multilinear fields exactly, cubic also quadratic ones, away from the border."""
    shape = (7, 6, 8)
    points = inside(shape, 200, margin=1.0 if degree == 2 else 0.0)
    found = gk.interpolate_grid(polynomial(lattice(shape), degree), points, method=method, **PLACE)
    np.testing.assert_allclose(found.value, polynomial(points, degree), atol=1e-10)
    for axis in range(3):
        step = 1e-5 * np.eye(3)[axis]
        slope = (polynomial(points + step, degree) - polynomial(points - step, degree)) / 2e-5
        np.testing.assert_allclose(found.gradient[:, axis], slope, atol=1e-6)


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_value_at_samples_and_outside(method):
    grid = np.random.default_rng(1).normal(size=(4, 5, 6))
    at = lattice(grid.shape).reshape(-1, 3)
    np.testing.assert_allclose(gk.interpolate_grid(grid, at, method=method, **PLACE).value, grid.ravel(), atol=1e-12)
    low, high = at.min(axis=0), at.max(axis=0)
    points = np.random.default_rng(2).uniform(low - 5, high + 5, (300, 3))
    nearest = np.clip(points, low, high)
    found = gk.interpolate_grid(grid, points, method=method, **PLACE)
    np.testing.assert_allclose(
        found.value, gk.interpolate_grid(grid, nearest, method=method, **PLACE).value, atol=1e-12
    )
    assert (found.gradient[points != nearest] == 0).all() and (found.gradient[points == nearest] != 0).all()


def test_cubic_gradient_is_continuous():
    grid = np.random.default_rng(1).normal(size=(6, 6, 6))
    points = np.random.default_rng(2).uniform(1, 4, (100, 3))
    points[:, 0] = 2.0
    below = points - [1e-9, 0, 0]
    jump = {
        method: np.abs(
            gk.interpolate_grid(grid, points, method=method).gradient
            - gk.interpolate_grid(grid, below, method=method).gradient
        ).max()
        for method in ("linear", "cubic")
    }
    assert jump["cubic"] < 1e-6 < 0.1 < jump["linear"]


def test_value_sdf_grid():
    sphere = gk.shapes.icosphere(4, dtype=np.float64)
    grid = gk.sdf_grid(sphere, resolution=40)
    points = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    exact = gk.signed_distance(sphere, points)
    assert np.abs(gk.interpolate_grid(grid, points).value - exact).max() < 0.02
    away = np.linalg.norm(points, axis=1) > 0.5
    g = gk.interpolate_grid(grid, points[away], method="cubic").gradient
    assert np.abs(np.linalg.norm(g, axis=1) - 1).max() < 0.05


def test_edge():
    grid = np.random.default_rng(0).normal(size=(3, 3, 3))
    empty = gk.interpolate_grid(grid, [])
    assert empty.value.shape == (0,) and empty.gradient.shape == (0, 3)
    g = gk.interpolate_grid.adjoint(grid, [], adj_value=[])
    assert (g.grid == 0).all() and g.points.shape == (0, 3)
    for method in ("linear", "cubic"):
        one = gk.interpolate_grid([[[5.0]]], [[9, 9, 9], [0, 0, 0]], method=method)
        assert one.value.tolist() == [5, 5] and (one.gradient == 0).all()
    grid[0, 0, 0] = np.nan
    assert np.isnan(gk.interpolate_grid(grid, [[0.5, 0.5, 0.5], [1.5, 1.5, 1.5]]).value).tolist() == [True, False]
    fortran = np.asfortranarray(np.random.default_rng(0).integers(0, 9, (3, 4, 5)))
    assert gk.interpolate_grid(fortran, [[1, 2, 3]]).value.tolist() == [fortran[1, 2, 3]]


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((np.zeros((3, 3)), [[0, 0, 0]]), {}, r"grid: expected \(X, Y, Z\) floats, got \(3, 3\) float64"),
        ((np.zeros((3, 3, 3)), [[0, 0]]), {}, r"points: expected \(N, 3\) floats, got \(1, 2\) int64"),
        ((np.zeros((3, 3, 3)), [[0, 0, np.nan]]), {}, "points: expected finite numbers, got 1 that are not"),
        ((np.zeros((0, 3, 3)), [[0, 0, 0]]), {}, "grid: expected at least one sample"),
        (
            (np.zeros((3, 3, 3)), [[0, 0, 0]]),
            {"method": "sinc"},
            "method: expected one of 'linear', 'cubic', got 'sinc'",
        ),
        ((np.zeros((3, 3, 3)), [[0, 0, 0]]), {"spacing": 0}, "spacing: expected positive numbers, got 0"),
        ((np.zeros((3, 3, 3), np.float32), [[0, 0, 0]]), {"spacing": 1e-40}, "spacing: expected numbers whose inverse"),
        (
            (gk.SdfGrid(np.zeros((3, 3, 3)), np.zeros(3), 1.0), [[0, 0, 0]]),
            {"spacing": 1},
            "spacing, origin: expected none",
        ),
    ],
)
def test_error(arguments, options, text):
    with pytest.raises(ValueError, match=f"^interpolate_grid: {text}"):
        gk.interpolate_grid(*arguments, **options)


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_edge_far_from_origin(method):
    """float64 points keep their digits on a float32 grid, and so do float32 ones."""
    grid, rng = np.random.default_rng(0).normal(size=(5, 6, 7)).astype(np.float32), np.random.default_rng(1)
    near = rng.uniform(0, 4, (100, 3))
    expected = gk.interpolate_grid(grid, near, method=method)
    adj = rng.normal(size=100)
    for far in (1e5, 1e9):
        place = {"spacing": 1.0, "origin": (far, -far, far)}
        found = gk.interpolate_grid(grid, near + place["origin"], **place, method=method)
        np.testing.assert_allclose(found.value, expected.value, atol=1e-5)
        np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-4)
        g, other = (
            gk.interpolate_grid.adjoint(grid, p, **o, method=method, adj_value=adj).grid
            for p, o in ((near + place["origin"], place), (near, {}))
        )
        np.testing.assert_allclose(g, other, atol=1e-5)


def test_error_adjoint():
    with pytest.raises(ValueError, match="interpolate_grid.adjoint: adj_value, adj_gradient: expected at least one"):
        gk.interpolate_grid.adjoint(np.zeros((3, 3, 3)), [[0, 0, 0]])
    with pytest.raises(ValueError, match=r"adj_value: expected \(1,\) floats"):
        gk.interpolate_grid.adjoint(np.zeros((3, 3, 3)), [[0, 0, 0]], adj_value=[1, 2])


@pytest.mark.parametrize("output", ["value", "gradient"])
@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("shape", [(4, 5, 6), (2, 3, 2)])
def test_gradient(shape, method, output):
    cells = np.random.default_rng(3).integers(0, np.array(shape) - 1, (60, 3))
    u = cells + np.random.default_rng(4).uniform(0.1, 0.9, (60, 3))
    u[50:] += np.array(shape) * np.random.default_rng(5).choice([0, 2], (10, 3))
    points = u * PLACE["spacing"] + PLACE["origin"]
    grid = np.random.default_rng(6).normal(size=shape)

    def forward(g, p):
        return getattr(gk.interpolate_grid(g, p, method=method, **PLACE), output)

    def adjoint(g, p, adj):
        return gk.interpolate_grid.adjoint(g, p, method=method, **PLACE, **{f"adj_{output}": adj})

    gk.gradcheck(forward, [grid, points], adjoint=adjoint, step=1e-3)


def test_gradient_chunks_and_threads(monkeypatch):
    from geomkit.implicit import interpolate_grid as module

    grid, points = np.zeros((6, 7, 8)), np.random.default_rng(0).uniform(0, 7, (3000, 3))
    adj, before, runs = points[:, 0] - 3, gk.num_threads(), []
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            g = gk.interpolate_grid.adjoint(grid, points, method="cubic", adj_value=adj, adj_gradient=points)
            runs.append([g.grid.tobytes(), g.points.tobytes()])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]
    monkeypatch.setattr(module, "CHUNK", 100)
    small = gk.interpolate_grid.adjoint(grid, points, method="cubic", adj_value=adj, adj_gradient=points)
    np.testing.assert_allclose(small.grid, g.grid, atol=1e-9)


def test_libraries():
    torch = pytest.importorskip("torch")
    found = gk.interpolate_grid(np.ones((3, 3, 3), np.float32), torch.zeros(2, 3))
    assert isinstance(found.value, torch.Tensor) and found.value.tolist() == [1, 1]
    points = torch.ones(1, 3, requires_grad=True)
    gk.interpolate_grid(np.arange(27.0).reshape(3, 3, 3), points).value.backward()
    assert points.grad.tolist() == [[9, 3, 1]]


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_devices(method):
    xp = cuda.cupy()
    grid, points = np.random.default_rng(0).normal(size=(6, 7, 8)), np.random.default_rng(1).uniform(0, 7, (3000, 3))
    expected = gk.interpolate_grid(grid, points, method=method)
    found = gk.interpolate_grid(xp.asarray(grid), xp.asarray(points), method=method)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.get(), b, atol=1e-10)
    cotangents = {"adj_value": points[:, 0], "adj_gradient": points}
    expected = gk.interpolate_grid.adjoint(grid, points, method=method, **cotangents)
    cotangents = {k: xp.asarray(v) for k, v in cotangents.items()}
    found = gk.interpolate_grid.adjoint(xp.asarray(grid), xp.asarray(points), method=method, **cotangents)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.get(), b, atol=1e-9)


@pytest.mark.parametrize("name", ["origin", "spacing"])
def test_gradients_do_not_get_lost_in_where_a_grid_is(name):
    values, where = np.random.default_rng(0).normal(size=(4, 4, 4)), {"origin": np.zeros(3), "spacing": np.array(0.5)}
    text = f"^SdfGrid: {name}: expected values that do not track gradients"
    with gk.Tape() as tape:
        given = where | {name: tape.watch(where[name])}
        with pytest.raises(TypeError, match=text):
            gk.interpolate_grid(gk.SdfGrid(values, **given), [[0.3, 0.4, 0.5]])
    torch = pytest.importorskip("torch")
    given = where | {name: torch.tensor(where[name], requires_grad=True)}
    for points in (np.full((1, 3), 0.4), torch.full((1, 3), 0.4, requires_grad=True)):
        with pytest.raises(TypeError, match=text):
            gk.interpolate_grid(gk.SdfGrid(values, **given), points)
