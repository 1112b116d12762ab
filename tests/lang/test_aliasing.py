"""Arrays of one launch that share memory: refused, or without harm."""

import numpy as np
import pytest

import geomkit as gk


@gk.kernel
def axpy(a: gk.f32, x: gk.array(gk.f32), y: gk.array(gk.f32), z: gk.array(gk.f32)):
    i = gk.tid()
    z[i] = a * x[i] + y[i]


@gk.kernel
def shifted(x: gk.array(gk.f32), z: gk.array(gk.f32)):
    i = gk.tid()
    z[i] = x[(i + 1) % len(x)]


@gk.kernel
def transposed(x: gk.array(gk.f32, ndim=2), z: gk.array(gk.f32, ndim=2)):
    i, j = gk.tid()
    z[i, j] = x[j, i]


@gk.kernel
def moved(p: gk.array(gk.vec3), q: gk.array(gk.vec3)):
    i = gk.tid()
    q[i] = p[i] * 2.0


@gk.kernel
def both_ways(x: gk.array(gk.f64, ndim=2), y: gk.array(gk.f64, ndim=2)):
    i, j = gk.tid()
    y[i, j] += x[i, j]
    y[j, i] += x[i, j] * x[j, i]


def numbers(n=8):
    return np.arange(n, dtype=np.float32)


@pytest.mark.parametrize("again", [False, True], ids=["first launch", "later launch"])
def test_error(again):
    def warm(kernel, *shapes):
        """Let the next launch take the short way, or not."""
        if again:
            kernel(*shapes[:1], *(np.zeros(s, np.float32) if isinstance(s, tuple) else s for s in shapes[1:]))

    x = numbers()
    warm(axpy, 7, 2.0, (7,), (7,), (7,))
    with pytest.raises(ValueError, match="axpy: z: expected memory of its own, or the whole of 'x', got memory that"):
        axpy(7, 2.0, x[:-1], numbers(7), x[1:])
    warm(shifted, 8, (8,), (8,))
    with pytest.raises(ValueError, match="shifted: z: expected another array than 'x', as threads touch others'"):
        shifted(8, x, x)
    warm(transposed, (2, 2), (2, 2), (2, 2))
    with pytest.raises(ValueError, match="transposed: z: expected another array than 'x'"):
        transposed((2, 2), x[:4].reshape(2, 2), x[:4].reshape(2, 2))
    with pytest.raises(ValueError, match="transposed: z: expected memory of its own"):
        transposed((2, 2), x[:4].reshape(2, 2), x[2:6].reshape(2, 2))
    warm(moved, 2, (2, 3), (2, 3))
    with pytest.raises(ValueError, match="moved: q: expected memory of its own, or the whole of 'p'"):
        moved(2, x[:6].reshape(2, 3), x[1:7].reshape(2, 3))
    assert x.tolist() == list(range(8))


def test_value():
    x, y = numbers(), numbers()
    for _ in range(3):
        axpy(8, 2.0, x, y, x)
    expected = numbers()
    for _ in range(3):
        expected = 2 * expected + numbers()
    assert x.tolist() == expected.tolist() and y.tolist() == numbers().tolist()
    for _ in range(2):
        axpy(8, 1.0, y, y, y)
    assert y.tolist() == (4 * numbers()).tolist()
    p = numbers(6).reshape(2, 3)
    moved(2, p, p)
    assert p.ravel().tolist() == (2 * numbers(6)).tolist()
    # Reading one memory twice, and parts that do not meet, are no harm.
    z = np.zeros(8, np.float32)
    for _ in range(2):
        axpy(7, 1.0, x[1:], x[:-1], z[1:])
        axpy(4, 1.0, numbers(4), numbers(4), z[:4])
        shifted(4, z[4:], z[:4])
        axpy(4, 1.0, z[::2], numbers(4), z[1::2])
    empty = numbers(0)
    axpy(0, 1.0, empty, empty, empty)


def test_edge():
    """Threads (i, j) and (j, i) meet in an array that is indexed both ways: none of their sums is lost."""
    n = 200
    x = np.random.default_rng(0).normal(size=(n, n))
    y, w = np.zeros((n, n)), np.random.default_rng(1).normal(size=(n, n))
    both_ways((n, n), x, y)
    np.testing.assert_allclose(y, x + (x * x.T).T)
    assert "atomic" in both_ways.source()
    found = both_ways.adjoint((n, n), x, y, adj_y=w)
    np.testing.assert_allclose(found.x, w + w.T * x.T + w * x.T, rtol=1e-12, atol=1e-12)
    assert "atomic" in both_ways.adjoint_source()
