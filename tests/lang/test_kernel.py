"""Kernels against NumPy, compiled and interpreted."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.lang import specialization

SIZES = (3, 5, 2)


@gk.struct
class Particle:
    position: gk.vec3
    mass: gk.f64
    kind: gk.i32


@gk.func
def both(u, v=2.0):
    return u + v, u * v


@gk.kernel
def scalars(x: gk.array(gk.f32), k: gk.array(gk.i32), y: gk.array(gk.f32)):
    i = gk.tid()
    v = x[i]
    total, product = both(v)
    weights = [0.5 * j for j in range(3)]
    s = sum([w * v for w in weights])
    if 0 < k[i] <= 3 and not k[i] == 2:
        s = s - 1.0 if v > 0.0 else s + 1.0
    elif k[i] < 0:
        s += float(k[i] // 2) + float(k[i] % 3)
    y[i] = s + total * product + v**3 + gk.clamp(v, -0.5, 0.5) + max(v, 0.1) + abs(v) + gk.sign(v)


@gk.kernel
def loops(n: gk.array(gk.i32), y: gk.array(gk.i32)):
    i = gk.tid()
    if n[i] < 0:
        return
    count = 0
    for a in range(n[i], 0, -2):
        if a % 3 == 0:
            continue
        for b in range(20):
            if b * b > a:
                break
            count += b
        else_value = a
        count += else_value
    while True:
        count += 1
        if count > 30:
            break
    y[i] = count


@gk.kernel
def grids(a: gk.array(gk.f64, ndim=3), rows: gk.array(gk.f64, ndim=2), y: gk.array(gk.f64, ndim=3)):
    i, j, k = gk.tid()
    row = rows[i]
    column = a[:, j, k]
    y[i, j, k] = a[i][j, k] * row[k] + column[0] + float(a.shape[1]) + float(len(row))


@gk.kernel
def vectors(p: gk.array(gk.vec3d), m: gk.array(gk.mat33d), q: gk.array(gk.quatd), y: gk.array(gk.f64, ndim=2)):
    i = gk.tid()
    v = p[i]
    a = m[i]
    w = a @ v + gk.cross(v, gk.vec3d(1.0, 2.0, 3.0)) * 2.0
    w.x += v[1]
    w[2] = w.z - gk.dot(v, w.zyx)
    inverse = gk.inverse(a) @ a
    y[i, 0] = gk.length(w)
    y[i, 1] = gk.determinant(a)
    y[i, 2] = inverse[1, 1] + gk.trace(a.T)
    y[i, 3] = gk.normalize(v)[i % 3]
    y[i, 4] = gk.quat_rotate(q[i], v).y - (gk.quat_to_matrix(q[i]) @ v).y
    y[i, 5] = (gk.quat_inverse(q[i]) * q[i]).w


@gk.kernel
def structures(p: gk.array(Particle), by: Particle):
    i = gk.tid()
    one = p[i]
    one.position += by.position
    one.mass *= 2.0
    p[i] = one
    p[i].kind = by.kind + i
    p[i].position.z = 7.0


@gk.kernel
def sums(
    x: gk.array(gk.f32),
    bins: gk.array(gk.i32),
    y: gk.array(gk.f32),
    least: gk.array(gk.i32),
    seen: gk.array(gk.i32),
):
    i = gk.tid()
    y[bins[i]] += x[i]
    gk.atomic_min(least, 0, i + 3)
    seen[gk.atomic_add(least, 1, 1)] = 1


@gk.kernel
def generic(x: gk.array(), y: gk.array()):
    i = gk.tid()
    y[i] = x[i] * x[i] + x[0]


def run_both(monkeypatch, run):
    """What a function gives compiled, and interpreted."""
    compiled = run()
    with monkeypatch.context() as patch:
        patch.setattr(specialization, "has_compiler", lambda: False)
        interpreted = run()
    return compiled, interpreted


def test_value_of_scalars(monkeypatch):
    r = np.random.default_rng(0)
    x, k = r.normal(size=50).astype(np.float32), r.integers(-6, 6, 50).astype(np.int32)

    def run():
        y = np.zeros(50, np.float32)
        scalars(50, x, k, y)
        return y

    expected = 1.5 * x
    inner = (0 < k) & (k <= 3) & (k != 2)
    expected = np.where(inner, np.where(x > 0, expected - 1, expected + 1), expected)
    expected = np.where(~inner & (k < 0), expected + k // 2 + k % 3, expected)
    expected = expected + (x + 2) * (x * 2) + x**3 + np.clip(x, -0.5, 0.5) + np.maximum(x, 0.1) + np.abs(x) + np.sign(x)
    for y in run_both(monkeypatch, run):
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-5)


def reference_of_loops(n):
    if n < 0:
        return 0
    count = 0
    for a in range(n, 0, -2):
        if a % 3 == 0:
            continue
        for b in range(20):
            if b * b > a:
                break
            count += b
        count += a
    while True:
        count += 1
        if count > 30:
            break
    return count


def test_value_of_loops(monkeypatch):
    n = np.arange(-2, 30, dtype=np.int32)

    def run():
        y = np.zeros_like(n)
        loops(len(n), n, y)
        return y

    for y in run_both(monkeypatch, run):
        assert y.tolist() == [reference_of_loops(int(v)) for v in n]


@pytest.mark.parametrize("strided", [False, True])
def test_value_of_grids(monkeypatch, strided):
    r = np.random.default_rng(1)
    a, rows = r.normal(size=SIZES), r.normal(size=(3, 2))
    if strided:
        a, rows = np.asfortranarray(a), np.repeat(rows, 2, axis=0)[::2]

    def run():
        y = np.zeros(SIZES)
        grids(SIZES, a, rows, y)
        return y

    expected = a * rows[:, None, :] + a[:1] + 7
    for y in run_both(monkeypatch, run):
        np.testing.assert_allclose(y, expected, rtol=1e-14)


def test_value_of_vectors(monkeypatch):
    r = np.random.default_rng(2)
    p, m, q = r.normal(size=(4, 3)), r.normal(size=(4, 3, 3)), r.normal(size=(4, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)

    def run():
        y = np.zeros((4, 6))
        vectors(4, p, m, q, y)
        return y

    w = np.einsum("nij,nj->ni", m, p) + np.cross(p, [1.0, 2.0, 3.0]) * 2
    w[:, 0] += p[:, 1]
    w[:, 2] -= np.sum(p * w[:, ::-1], axis=1)
    direction = p / np.linalg.norm(p, axis=1, keepdims=True)
    expected = np.stack([np.linalg.norm(w, axis=1), np.linalg.det(m), 1 + np.trace(m, axis1=1, axis2=2),
                         direction[range(4), [0, 1, 2, 0]], np.zeros(4), np.ones(4)], axis=1)  # fmt: skip
    for y in run_both(monkeypatch, run):
        np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-12)


def test_value_of_structures(monkeypatch):
    def run():
        p = np.zeros(3, Particle.dtype)
        p["mass"] = [1, 2, 3]
        structures(3, p, Particle([1, 2, 3], 0.0, 5))
        return p

    for p in run_both(monkeypatch, run):
        assert p["position"].tolist() == [[1, 2, 7]] * 3
        assert p["mass"].tolist() == [2, 4, 6] and p["kind"].tolist() == [5, 6, 7]


def test_value_of_atomics(monkeypatch):
    n = 5000
    bins = (np.arange(n) % 7).astype(np.int32)

    def run():
        y, least, seen = np.zeros(7, np.float32), np.array([9, 0], np.int32), np.zeros(n, np.int32)
        sums(n, np.ones(n, np.float32), bins, y, least, seen)
        return y, least, seen

    for y, least, seen in run_both(monkeypatch, run):
        assert y.tolist() == np.bincount(bins).tolist() and least.tolist() == [3, n] and seen.all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.float16])
def test_generic(dtype):
    x, y = np.arange(1, 6).astype(dtype), np.zeros(5, dtype)
    generic(5, x, y)
    assert y.tolist() == (x * x + x[0]).tolist()


def test_edge():
    y = np.zeros(0, np.float32)
    generic(0, y, y)
    constant = generic.specialization({"x": gk.f32, "y": gk.f32}, frozenset())
    assert constant is generic.specialization({"x": gk.f32, "y": gk.f32}, frozenset())


def test_random_numbers_are_the_same_everywhere(module, monkeypatch):
    made = module(
        "@gk.kernel\ndef k(seed: gk.u32, u: gk.array(gk.f32), v: gk.array(gk.f32)):\n    i = gk.tid()\n"
        "    u[i] = gk.random_uniform(seed, i)\n    v[i] = gk.random_normal(seed, i)\n"
    )

    def run():
        u, v = np.zeros(20000, np.float32), np.zeros(20000, np.float32)
        made.k(20000, 7, u, v)
        return u, v

    (u, v), (u2, v2) = run_both(monkeypatch, run)
    assert np.array_equal(u, u2) and np.allclose(v, v2, rtol=1e-4, atol=1e-5)
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.01 and abs(v.std() - 1) < 0.02


def test_debug(module):
    made = module(
        "@gk.kernel\ndef k(x: gk.array(gk.f32), y: gk.array(gk.f32), off: gk.i32):\n    i = gk.tid()\n"
        "    assert off < 5, 'too far'\n    y[i] = gk.sqrt(x[i + off]) * 2.0\n"
    )
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    made.k.debug()
    made.k(10, x, y, 0)
    assert y.tolist() == [2.0] * 10
    for off, kind, text in (
        (3, IndexError, "index 10 is out of bounds for 'x' of length 10 (thread 7)"),
        (7, AssertionError, "too far (thread 0)"),
    ):
        with pytest.raises(kind) as caught:
            made.k(10, x, y, off)
        assert text in str(caught.value) and ", in k\n" in str(caught.value) and "^" in str(caught.value)
    x[4] = -1
    with pytest.raises(FloatingPointError, match=r"NaN \(thread 4\)"):
        made.k(10, x, y, 0)
    assert "#line" in made.k.source() and "gk::outside" in made.k.source("cuda")


def test_sources():
    assert "scalars" in scalars.source() and "kernel scalars[1]" in scalars.ir()
    assert "gk_scalars_adj" in scalars.adjoint_source("cuda")
    with pytest.raises(ValueError, match='expected "cpu" or "cuda"'):
        scalars.source("gpu")
