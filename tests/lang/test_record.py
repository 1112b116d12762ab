"""Launches on tapes, in torch's autograd and under JAX."""

import numpy as np
import pytest

import geomkit as gk

N = 12


@gk.kernel
def step(x: gk.array(gk.f64), a: gk.f64, y: gk.array(gk.f64), count: gk.array(gk.i32)):
    i = gk.tid()
    s = x[i]
    for _ in range(i % 4):
        s = s + a * gk.sin(s)
    y[i] = s * x[(i + 1) % len(x)]
    count[i] = i % 4


@gk.kernel
def total(x: gk.array(gk.f64), out: gk.array(gk.f64)):
    i = gk.tid()
    out[0] += x[i] * x[i]


R = np.random.default_rng(0)
X, W = R.normal(size=(2, N))


def outputs():
    return np.zeros(N), np.zeros(N, np.int32)


EXPECTED = step.adjoint(N, X, 0.3, *outputs(), adj_y=W)


def test_tape():
    y, count = outputs()
    with gk.Tape() as tape:
        made = step(N, X, 0.3, y, count)
        loss = np.sum(made.y * W)
    np.testing.assert_allclose(tape.gradient(loss, X), EXPECTED.x)
    assert count.tolist() == [i % 4 for i in range(N)] and np.array_equal(y, made.y.value)


def test_tape_follows_arrays_that_are_written():
    x = X.copy()

    def value(x):
        y, count = outputs()
        loss = np.zeros(1)
        step(N, x, 0.3, y, count)
        total(N, y, loss)
        return loss, y

    with gk.Tape() as tape:
        loss, y = value(x)
    gradient = tape.gradient(loss, x)
    for i in range(N):
        e = 1e-6 * np.eye(N)[i]
        np.testing.assert_allclose(gradient[i], (value(x + e)[0] - value(x - e)[0])[0] / 2e-6, rtol=1e-6, atol=1e-7)
    with gk.Tape() as tape:
        loss, y = value(x)
        y[0] = 5.0
        with pytest.raises(ValueError, match="an array written to since"):
            total(N, y, np.zeros(1))


def test_tape_refuses_what_is_overwritten():
    x = X.copy()
    with gk.Tape() as tape:
        made = step(N, x, 0.3, *outputs())
        loss = np.sum(made.y)
    x[0] = 2.0
    with pytest.raises(ValueError, match="an array written to since"):
        tape.gradient(loss, x)


def test_shared_memory_is_refused():
    x = X.copy()
    with gk.Tape(), pytest.raises(ValueError, match="memory of its own, as 'x' is read again"):
        step(N, x, 0.3, x, np.zeros(N, np.int32))


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X, requires_grad=True)
    a = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    y = torch.zeros(N, dtype=torch.float64)
    made = step(N, x, a, y, torch.zeros(N, dtype=torch.int32))
    assert made.y.requires_grad and torch.equal(made.y.detach(), y)
    (made.y * torch.tensor(W)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), EXPECTED.x)
    np.testing.assert_allclose(a.grad.numpy(), EXPECTED.a)


def test_jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x = jax.numpy.asarray(X)
        loss = lambda x: (step(N, x, 0.3, jax.numpy.zeros(N), np.zeros(N, np.int32)).y * W).sum()  # noqa: E731
        np.testing.assert_allclose(np.asarray(jax.grad(loss)(x)), EXPECTED.x)
        np.testing.assert_allclose(np.asarray(jax.jit(jax.grad(loss))(x)), EXPECTED.x)


def test_plain_tensors():
    torch = pytest.importorskip("torch")
    y = torch.zeros(N, dtype=torch.float64)
    assert step(N, torch.tensor(X), 0.3, y, torch.zeros(N, dtype=torch.int32)) is None
    assert np.any(y.numpy())
