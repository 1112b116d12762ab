"""Samples of a grid in kernels: against the public function and central differences, compiled and interpreted."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.errors import DeviceError
from geomkit.lang import specialization
from geomkit.runtime import nvrtc, program_cuda

TEXT = """
@gk.kernel
def sample(grid: gk.SdfGrid, p: gk.array(gk.VEC), y: gk.array(gk.REAL, ndim=2)):
    i = gk.tid()
    found = gk.grid_sample(grid, p[i]METHOD)
    y[i, 0] = found.value
    y[i, 1] = found.gradient.x
    y[i, 2] = found.gradient.y
    y[i, 3] = found.gradient.z
"""
N = 30


def kernel_of(module, dtype, method):
    real, vec = ("f64", "vec3d") if dtype == np.float64 else ("f32", "vec3")
    given = "" if method == "linear" else f", method={method!r}"
    return module(TEXT.replace("REAL", real).replace("VEC", vec).replace("METHOD", given)).sample


def inputs(dtype=np.float64):
    r = np.random.default_rng(0)
    values = r.normal(size=(4, 5, 6)).astype(dtype)
    grid = gk.SdfGrid(values, np.array([-1.0, 0.5, 2.0]), 0.5)
    # Inside and outside of the grid.
    return grid, (grid.origin + r.uniform(-0.3, 1.3, (N, 3)) * 0.5 * np.array([3, 4, 5])).astype(dtype)


def run_both(monkeypatch, run):
    """What a function gives compiled, and interpreted."""
    compiled = run()
    with monkeypatch.context() as patch:
        patch.setattr(specialization, "has_compiler", lambda: False)
        return compiled, run()


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value(method, dtype, module, monkeypatch):
    kernel, (grid, p) = kernel_of(module, dtype, method), inputs(dtype)
    expected = gk.interpolate_grid(grid, p, method=method)

    def run():
        y = np.zeros((N, 4), dtype)
        kernel(N, grid, p, y)
        return y

    for y in run_both(monkeypatch, run):
        tolerance = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(y[:, 0], expected.value, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(y[:, 1:], expected.gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_gradient(method, module, monkeypatch):
    kernel, (grid, p) = kernel_of(module, np.float64, method), inputs()

    def value(values, p):
        y = np.zeros((N, 4))
        made = kernel(N, grid._replace(values=values), p, y)
        return y if made is None else made

    gk.gradcheck(value, [grid.values, p], rtol=1e-6)
    w = np.random.default_rng(1).normal(size=(N, 4))

    def run():
        return kernel.adjoint(N, grid, p, np.zeros((N, 4)), adj_y=w)

    compiled, interpreted = run_both(monkeypatch, run)
    expected = gk.interpolate_grid.adjoint(grid, p, method=method, adj_value=w[:, 0], adj_gradient=w[:, 1:])
    for found in (compiled, interpreted):
        np.testing.assert_allclose(found.grid, expected.grid, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.p, expected.points, rtol=1e-10, atol=1e-12)


def test_edge(module, monkeypatch):
    """A point that is not finite has no value, and sends nothing; a grid of one sample is constant."""
    kernel, (grid, _) = kernel_of(module, np.float64, "linear"), inputs()
    p = np.array([[np.nan, 0, 0], [0, np.inf, 0], [9, 9, 9]])
    one = gk.SdfGrid(np.full((1, 1, 1), 7.0), np.zeros(3), 1.0)

    def run():
        y, z = np.zeros((2, 3, 4))
        kernel(3, grid, p, y)
        kernel(3, one, p, z)
        return y, z, kernel.adjoint(3, grid, p, y, adj_y=np.ones((3, 4)))

    for y, z, found in run_both(monkeypatch, run):
        assert np.isnan(y[:2]).all() and y[2].tolist() == [grid.values[-1, -1, -1], 0, 0, 0]
        assert z[2].tolist() == [7, 0, 0, 0]
        assert not found.p.any() and found.grid.sum() == found.grid[-1, -1, -1] == 1


def test_launching_again(module):
    """The quick way sees what is written into the samples, another place, and another grid."""
    kernel, (grid, p) = kernel_of(module, np.float64, "linear"), inputs()
    for _ in range(2):
        others = grid._replace(spacing=0.4), grid._replace(origin=np.zeros(3)), grid._replace(values=grid.values * 2)
        for given in (grid, *others):
            y = np.zeros((N, 4))
            kernel(N, given, p, y)
            np.testing.assert_allclose(y[:, 0], gk.interpolate_grid(given, p).value, rtol=1e-12)
        grid.values[...] += 1.0
    y, z = np.zeros((2, N, 4))
    kernel(N, grid, p, y)
    grid.values[...] += 1.0
    kernel(N, grid, p, z)
    np.testing.assert_allclose(z[:, 0], y[:, 0] + 1)


def test_torch(module):
    torch = pytest.importorskip("torch")
    kernel, (grid, p) = kernel_of(module, np.float64, "linear"), inputs()
    values = torch.tensor(grid.values, requires_grad=True)
    y = kernel(N, grid._replace(values=values), torch.tensor(p), torch.zeros(N, 4, dtype=torch.float64))
    y.sum().backward()
    expected = kernel.adjoint(N, grid, p, np.zeros((N, 4)), adj_y=np.ones((N, 4)))
    np.testing.assert_allclose(values.grad.numpy(), expected.grid)


HEAD = "@gk.kernel\ndef k(grid: gk.SdfGrid, p: gk.array(gk.vec3), y: gk.array(gk.f32)):\n    i = gk.tid()\n"
REFUSED = {
    "y[i] = gk.grid_sample(3, p[i]).value": "gk.grid_sample takes a gk.SdfGrid, not the number 3: "
    "make it a parameter, grid: gk.SdfGrid",
    "y[i] = gk.grid_sample(grid).value": "gk.grid_sample takes (grid, point, method), got no point",
    "y[i] = gk.grid_sample(grid, p[i], 'quintic').value": "the method is 'linear' or 'cubic', not 'quintic'",
    "y[i] = gk.grid_sample(grid, p[i])": "an element of 'y' is f32, not grid_sample",
    "y[i] = grid.values[0]": "SdfGrid has no 'values'",
}


@pytest.mark.parametrize("body", REFUSED)
def test_error(body, refusal):
    assert REFUSED[body] in refusal(f"{HEAD}    {body}\n")


def test_error_at_the_launch(module):
    kernel, (grid, p) = kernel_of(module, np.float32, "linear"), inputs(np.float32)
    y = np.zeros((N, 4), np.float32)
    for wrong, error, text in (
        (grid.values, TypeError, "sample: grid: expected a gk.SdfGrid, got"),
        (inputs()[0], TypeError, "as the kernel's other parameters, got one of float64: write grid._replace"),
        (grid._replace(values=grid.values[:0]), ValueError, "sample: grid: expected at least one sample"),
        (grid._replace(values=grid.values[0]), ValueError, "sample: grid.values: expected"),
        (grid._replace(spacing=0.0), ValueError, "sample: grid.spacing: expected positive numbers"),
    ):
        with pytest.raises(error, match=text):
            kernel(N, wrong, p, y)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_120"])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_nvrtc(method, architecture, module):
    try:
        library = nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    if int(architecture[3:]) not in library.architectures:
        pytest.skip(f"{library} does not compile for {architecture}")
    kernel = kernel_of(module, np.float32 if architecture == "sm_75" else np.float64, method)
    for text in (kernel.source("cuda"), kernel.adjoint_source("cuda")):
        assert program_cuda.cubin(text, architecture=architecture)
