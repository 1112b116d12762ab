"""Large Steps: the matrix, its inverse by both solvers, seams, gradients."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime.device import namespace

RNG = np.random.default_rng(0)
TORUS = gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)


def soup(mesh):
    return gk.Mesh(mesh.vertices[mesh.faces].reshape(-1, 3), np.arange(3 * mesh.n_faces).reshape(-1, 3))


def matrix(mesh, smoothness):
    """I + smoothness L of a mesh without seams, by loops over its edges."""
    out = np.eye(mesh.n_vertices)
    for a, b in {tuple(sorted((f[k], f[k - 1]))) for f in mesh.faces for k in range(3)}:
        out[a, a] += smoothness
        out[b, b] += smoothness
        out[a, b] -= smoothness
        out[b, a] -= smoothness
    return out


@pytest.mark.parametrize("solver", ["cg", "factorised"])
@pytest.mark.parametrize("smoothness", [0.0, 3.0, 100.0])
def test_value(solver, smoothness):
    x = RNG.normal(size=(TORUS.n_vertices, 4))
    steps = gk.LargeSteps(TORUS, smoothness, solver=solver)
    wanted = matrix(TORUS, smoothness)
    np.testing.assert_allclose(steps.to_differential(x), wanted @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(steps.from_differential(x), np.linalg.solve(wanted, x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", ["cg", "factorised"])
def test_gradient(solver):
    steps = gk.LargeSteps(TORUS, 5.0, solver=solver)
    cut = gk.LargeSteps(soup(TORUS), 5.0, solver=solver)
    for one, n in ((steps, TORUS.n_vertices), (cut, 3 * TORUS.n_faces)):
        x = RNG.normal(size=(n, 2))
        gk.gradcheck(lambda x, one=one: gk.to_differential(x, one), [x], step=1e-4)
        gk.gradcheck(lambda x, one=one: gk.from_differential(x, one), [x], step=1e-4)


def test_seams_change_nothing():
    cut, x = soup(TORUS), RNG.normal(size=(TORUS.n_vertices, 3))
    whole, parts = gk.LargeSteps(TORUS, 7.0), gk.LargeSteps(cut, 7.0)
    at = TORUS.faces.ravel()
    np.testing.assert_allclose(parts.from_differential(x[at]), whole.from_differential(x)[at], rtol=1e-9)
    np.testing.assert_allclose(parts.to_differential(x[at]), whole.to_differential(x)[at], rtol=1e-12)


def test_float32_numbers_vectors_and_lists():
    steps = gk.LargeSteps(TORUS.with_vertices(TORUS.vertices.astype(np.float32)))
    x = RNG.normal(size=TORUS.n_vertices).astype(np.float32)
    u = steps.to_differential(x)
    assert u.dtype == np.float32 and u.shape == x.shape
    np.testing.assert_allclose(steps.from_differential(u), x, atol=1e-4)
    np.testing.assert_array_equal(steps.to_differential(x.tolist()), u)


def test_edge():
    alone = gk.Mesh(np.eye(3), np.zeros((0, 3), np.int32))
    for solver in ("cg", "factorised"):
        steps = gk.LargeSteps(alone, 3.0, solver=solver)
        np.testing.assert_allclose(steps.from_differential(np.eye(3)), np.eye(3))
    nothing = gk.LargeSteps(gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int32)))
    assert nothing.from_differential(np.zeros((0, 3))).shape == (0, 3)
    zero = gk.LargeSteps(TORUS, solver="cg").from_differential(np.zeros((TORUS.n_vertices, 2)))
    assert not zero.any()


def test_error():
    with pytest.raises(ValueError, match="LargeSteps: smoothness: expected a number of at least 0, got -1"):
        gk.LargeSteps(TORUS, -1)
    with pytest.raises(ValueError, match="LargeSteps: solver: expected one of auto, cg, factorised, got 'lu'"):
        gk.LargeSteps(TORUS, solver="lu")
    with pytest.raises(ValueError, match="to_differential: values: expected 63 rows, one a vertex of the mesh"):
        gk.LargeSteps(TORUS).to_differential(np.zeros((4, 3)))
    with pytest.raises(TypeError, match="from_differential: steps: expected a LargeSteps, got Mesh"):
        gk.from_differential(TORUS.vertices, TORUS)


def test_libraries():
    torch = pytest.importorskip("torch")
    steps = gk.LargeSteps(TORUS, 4.0)
    u = torch.tensor(TORUS.vertices, requires_grad=True)
    steps.from_differential(u).square().sum().backward()
    wanted = gk.from_differential.adjoint(
        TORUS.vertices, steps, adj_values=2 * steps.from_differential(TORUS.vertices)
    )
    np.testing.assert_allclose(u.grad.numpy(), wanted.differential, rtol=1e-12)


def test_devices():
    pytest.importorskip("cupy")
    try:
        xp = namespace("cuda")
        mesh = gk.Mesh(xp.asarray(TORUS.vertices), xp.asarray(TORUS.faces))
    except Exception:  # noqa: BLE001 (whatever CuPy raises without a GPU)
        pytest.skip("no GPU")
    steps = gk.LargeSteps(mesh)
    assert steps.solver == "cg"
    x = steps.from_differential(mesh.vertices).get()
    np.testing.assert_allclose(x, gk.LargeSteps(TORUS).from_differential(TORUS.vertices), rtol=1e-9, atol=1e-12)
