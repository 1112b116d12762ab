"""Launching again: the quick way gives what the long way gives, and its errors."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import launcher

pytestmark = pytest.mark.skipif(not launcher.is_built(), reason="installed without Python's headers: no launcher")


@gk.kernel
def scale(a: gk.f32, x: gk.array(gk.f32), y: gk.array(gk.f32)):
    i = gk.tid()
    y[i] = a * x[i] + y[i]


@gk.kernel
def turn(x: gk.array(gk.vec3d), m: gk.array(gk.mat33d), on: gk.array(gk.i32, ndim=2), y: gk.array(gk.vec3d)):
    i, j = gk.tid()
    if on[i, j] > 0:
        y[i] = m[j] @ x[i]


def arrays(n=8):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_value():
    x, y = arrays()
    for _ in range(3):
        scale(8, 2.0, x, y)
    assert scale._types[0] is int and np.array_equal(y, 6 * x)


def test_value_of_vectors_in_two_dimensions():
    rng = np.random.default_rng(0)
    x, m = rng.normal(size=(4, 3)), rng.normal(size=(2, 3, 3))
    on = np.array([[1, 0], [0, 1], [1, 0], [0, 0]], np.int32)
    for _ in range(2):
        y = np.zeros((4, 3))
        turn((4, 2), x, m, on, y)
        np.testing.assert_allclose(y, [m[0] @ x[0], m[1] @ x[1], m[0] @ x[2], [0, 0, 0]], rtol=1e-14)
    assert turn._types[0] is tuple


def test_edge():
    x, y = arrays()
    scale(8, 1.0, x, y)
    z = np.zeros(16, np.float32)
    scale(8, 1.0, x, z[::2])  # another program, for strides
    assert np.array_equal(z[::2], x) and not z[1::2].any()
    scale(0, 1.0, x, y)
    scale(np.int64(8), 1, x, y)
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("dim", "change", "error", "text"),
    [
        (8, {1: np.zeros(8)}, TypeError, "scale: x: expected a 1-dimensional array of f32, got .* float64"),
        (8, {1: np.zeros((8, 1), np.float32)}, ValueError, "scale: x: expected a 1-dimensional array of f32, got"),
        (8, {0: "2"}, TypeError, r"scale: a: expected a number \(f32\)"),
        (-1, {}, ValueError, "scale: dim: expected no negative dimension, got -1"),
        ((8, 2), {}, TypeError, "scale: dim: expected 1 dimension"),
    ],
)
def test_error(dim, change, error, text):
    args = [2.0, *arrays()]
    scale(8, *args)
    for place, x in change.items():
        args[place] = x
    with pytest.raises(error, match=f"^{text}"):
        scale(dim, *args)


def test_error_of_what_is_read_only():
    x, y = arrays()
    scale(8, 2.0, x, y)
    y.flags.writeable = False
    with pytest.raises(TypeError, match="^scale: y: expected an array that can be written to, got one that is read-o"):
        scale(8, 2.0, x, y)


def test_launches_are_still_recorded():
    x, y = arrays()
    scale(8, 2.0, x, y)
    with gk.Tape() as tape:
        followed = tape.watch(x)
        scale(8, 2.0, followed, y)
        scale(8, 3.0, x.copy(), y)
    gradient = tape.gradient(y, followed, adj=np.ones(8, np.float32))
    assert np.array_equal(gradient, np.full(8, 2, np.float32))


def test_debugging_checks_again():
    x, y = arrays()
    scale(8, 2.0, x, y)
    scale.debug()
    try:
        with pytest.raises(IndexError, match="index 8 is out of bounds"):
            scale(9, 2.0, x, y)
    finally:
        scale.debug(False)


def test_streams_are_cut_into_longer_pieces(module):
    made = module(
        "@gk.kernel\ndef light(x: gk.array(gk.f32), y: gk.array(gk.f32)):\n    i = gk.tid()\n    y[i] = 2.0 * x[i]\n\n"
        "@gk.kernel\ndef sine(x: gk.array(gk.f32), y: gk.array(gk.f32)):\n    i = gk.tid()\n    y[i] = gk.sin(x[i])\n\n"
        "@gk.kernel\ndef loop(x: gk.array(gk.f32), n: gk.i32, y: gk.array(gk.f32)):\n    i = gk.tid()\n"
        "    for _ in range(n):\n        y[i] += x[i]\n"
    )
    grains = [k.specialization({}, frozenset()).grain for k in (made.light, made.sine, made.loop)]
    assert grains[0] > grains[1] == grains[2]
