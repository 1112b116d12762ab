"""Neighbours in kernels: against the public function and central differences, compiled and interpreted."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.errors import DeviceError
from geomkit.lang import specialization
from geomkit.runtime import nvrtc, program_cuda

RADIUS = 0.35


@gk.kernel
def listed(
    hash: gk.HashGrid, p: gk.array(gk.vec3), radius: gk.f32, n: gk.array(gk.i32), found: gk.array(gk.i32, ndim=2)
):
    i = gk.tid()
    k = 0
    for j in gk.neighbors(hash, p[i], radius):
        if k < found.shape[1]:
            found[i, k] = j
        k += 1
    n[i] = k


@gk.func
def push(hash: gk.HashGrid, x, i, p):
    total = gk.vec3d(0.0)
    for j in gk.neighbors(hash, x, RADIUS):
        if j == i:
            continue
        d = x - p[j]
        r = gk.length(d)
        total += d * ((RADIUS - r) ** 2 / r)
    return total


@gk.kernel
def forces(hash: gk.HashGrid, p: gk.array(gk.vec3d), stiffness: gk.f64, f: gk.array(gk.vec3d)):
    i = gk.tid()
    f[i] += push(hash, p[i], i, p) * stiffness


@gk.kernel
def pairs(hash: gk.HashGrid, p: gk.array(gk.vec3d), w: gk.array(gk.f64), f: gk.array(gk.vec3d)):
    i = gk.tid()
    for j in gk.neighbors(hash, p[i], RADIUS):
        if i < j:
            pull = (p[j] - p[i]) * (w[i] * w[j])
            f[i] += pull
            f[j] -= pull


@gk.kernel
def chained(hash: gk.HashGrid, p: gk.array(gk.vec3d), y: gk.array(gk.f64)):
    i = gk.tid()
    s = p[i].x
    count = 0
    for j in gk.neighbors(hash, p[i], RADIUS):
        s = gk.sin(s) + s * p[j].y
        for k in gk.neighbors(hash, p[j], 0.5 * RADIUS):
            s += p[k].z * s
            if k > j:
                break
        count += 1
        if count == 4:
            break
    y[i] = s


@gk.kernel
def first(hash: gk.HashGrid, p: gk.array(gk.vec3d), y: gk.array(gk.i32)):
    i = gk.tid()
    y[i] = -1
    for j in gk.neighbors(hash, p[i], RADIUS):
        if j != i:
            y[i] = j
            return
    y[i] = -2


def points(n=60, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).random((n, 3)).astype(dtype)


def run_both(monkeypatch, run):
    """What a function gives compiled, and interpreted."""
    compiled = run()
    with monkeypatch.context() as patch:
        patch.setattr(specialization, "has_compiler", lambda: False)
        return compiled, run()


def lists(grid, places, radius):
    offsets, indices = grid.neighbors(places, radius=radius)
    return [indices[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


@pytest.mark.parametrize("radius", [0.05, 0.3, 0.9])
def test_value(radius, monkeypatch):
    p, places = points(dtype=np.float32), points(40, 1, np.float32) * 1.4 - 0.2
    grid = gk.HashGrid(p, 0.3)
    expected = lists(grid, places, float(np.float32(radius)))

    def run():
        n, found = np.zeros(40, np.int32), np.full((40, 60), -1, np.int32)
        listed(40, grid, places, radius, n, found)
        return n, found

    for n, found in run_both(monkeypatch, run):
        assert [f[:k].tolist() for f, k in zip(found, n, strict=True)] == expected


def test_value_on_the_sphere():
    """Points at just the radius count, as they do in the public function, whatever rounding makes of them."""
    p = np.float32([[0.3, 0, 0], [0, 0.1, 0], [0, 0, 0.7], [0.1, 0.2, 0.2]])
    grid, places = gk.HashGrid(p, 0.3), np.zeros((1, 3), np.float32)
    for radius in np.float32([0.3, 0.1, 0.7, np.nextafter(np.float32(0.3), 0)]):
        n, found = np.zeros(1, np.int32), np.zeros((1, 4), np.int32)
        listed(1, grid, places, radius, n, found)
        assert found[0, : n[0]].tolist() == lists(grid, places, float(radius))[0]


def test_edge(monkeypatch):
    places = np.float32([[np.nan, 0, 0], [0, np.inf, 0], [9, 9, 9], [0.5, 0.5, 0.5]])
    grid = gk.HashGrid(points(dtype=np.float32), 0.3)
    empty = gk.HashGrid(np.zeros((0, 3), np.float32), 0.3)

    def run(grid, radius):
        n = np.ones(4, np.int32)
        listed(4, grid, places, radius, n, np.zeros((4, 1), np.int32))
        return n.tolist()

    for counts in run_both(monkeypatch, lambda: run(grid, 0.3)):
        assert counts[:3] == [0, 0, 0] and counts[3] == len(lists(grid, places[3:], float(np.float32(0.3)))[0]) > 0
    for radius in (0.0, -1.0, np.nan):
        for counts in run_both(monkeypatch, lambda radius=radius: run(grid, radius)):
            assert counts == [0, 0, 0, 0]
    for counts in run_both(monkeypatch, lambda: run(empty, 0.3)):
        assert counts == [0, 0, 0, 0]


def test_value_of_loops_that_are_left(monkeypatch):
    p = points()
    grid = gk.HashGrid(p, RADIUS)
    near = lists(grid, p, RADIUS)
    half = lists(grid, p, 0.5 * RADIUS)

    def run():
        y, s = np.zeros(60, np.int32), np.zeros(60)
        first(60, grid, p, y)
        chained(60, grid, p, s)
        return y, s

    expected = []
    for i in range(60):
        s = p[i, 0]
        for j in near[i][:4]:
            s = np.sin(s) + s * p[j, 1]
            for k in half[j]:
                s += p[k, 2] * s
                if k > j:
                    break
        expected.append(s)
    for y, s in run_both(monkeypatch, run):
        assert y.tolist() == [next((j for j in near[i] if j != i), -2) for i in range(60)]
        np.testing.assert_allclose(s, expected, rtol=1e-12)


CASES = {
    "forces": (forces, (0.7,), (60, 3)),
    "pairs": (pairs, (points(seed=3)[:, 0],), (60, 3)),
    "chained": (chained, (), (60,)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name, monkeypatch):
    kernel, extra, shape = CASES[name]
    p, w = points(), np.random.default_rng(1).normal(size=shape)
    grid = gk.HashGrid(p, RADIUS)
    output = f"adj_{kernel.names[-1]}"

    def value(p):
        y = np.zeros(shape)
        kernel(60, grid, p, *extra, y)
        return float(np.sum(y * w))

    def run():
        return kernel.adjoint(60, grid, p, *extra, np.zeros(shape), **{output: w})

    compiled, interpreted = run_both(monkeypatch, run)
    for one, other in zip(compiled, interpreted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    for place in [(0, 0), (7, 1), (31, 2), (44, 0), (59, 1)]:
        step = np.zeros_like(p)
        step[place] = 1e-6
        expected = (value(p + step) - value(p - step)) / 2e-6
        np.testing.assert_allclose(compiled.p[place], expected, rtol=2e-6, atol=1e-7)
    # On the GPU loops save their state in arrays of fixed size.
    from geomkit.lang.interpret import interpret

    bound, values = kernel.bound((grid, p, *extra, np.zeros(shape)))
    wrt = frozenset({"p", kernel.names[-1]})
    grads = {"p": np.zeros_like(p), kernel.names[-1]: w.copy()}
    interpret(bound.adjoint(wrt, 4).program, (60, 1, 1), values, grads)
    np.testing.assert_allclose(grads["p"], compiled.p, rtol=1e-11, atol=1e-12)


def test_sums_need_no_saved_state():
    """The reverse of a loop that only adds forces finds its neighbours again: nothing is kept for each."""
    assert "stack" not in forces.adjoint_source()


def test_deterministic(monkeypatch):
    ordered = gk.kernel(pairs.function.source.function, deterministic=True)
    p, w = points(4000, dtype=np.float64), np.ones(4000)
    grid, found = gk.HashGrid(p, RADIUS / 4), []
    for threads in (1, 2):
        before = gk.num_threads()
        gk.set_num_threads(threads)
        f = np.zeros((4000, 3))
        ordered(4000, grid, p, w, f)
        found.append((f, ordered.adjoint(4000, grid, p, w, f, adj_f=p).p))
        gk.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_tape_and_torch():
    p = points()
    grid, f = gk.HashGrid(p, RADIUS), np.zeros((60, 3))
    expected = forces.adjoint(60, grid, p, 0.7, f, adj_f=np.ones((60, 3))).p
    with gk.Tape() as tape:
        y = forces(60, grid, p, 0.7, f)
    np.testing.assert_allclose(tape.gradient(y, p, adj=np.ones((60, 3))), expected)
    torch = pytest.importorskip("torch")
    x = torch.tensor(p, requires_grad=True)
    forces(60, grid, x, 0.7, torch.zeros(60, 3, dtype=torch.float64)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_launching_again():
    n = np.zeros(60, np.int32)
    p = points(dtype=np.float32)
    for grid in (gk.HashGrid(p, 0.3), gk.HashGrid(p * 2, 0.3)):
        for _ in range(2):
            listed(60, grid, p, 0.3, n, np.zeros((60, 1), np.int32))
            assert n.tolist() == [len(x) for x in lists(grid, p, float(np.float32(0.3)))]


def test_debug(module):
    made = module(
        "@gk.kernel\ndef k(hash: gk.HashGrid, p: gk.array(gk.vec3), y: gk.array(gk.f32)):\n    i = gk.tid()\n"
        "    for j in gk.neighbors(hash, p[i], 0.3):\n        y[i] += y[j + 1]\n"
    )
    p = points(dtype=np.float32)
    made.k.debug()
    with pytest.raises(IndexError, match="index 60 is out of bounds for 'y' of length 60"):
        made.k(60, gk.HashGrid(p, 0.3), p, np.zeros(60, np.float32))


HEAD = "@gk.kernel\ndef k(hash: gk.HashGrid, p: gk.array(gk.vec3), n: gk.array(gk.i32)):\n    i = gk.tid()\n"
REFUSED = {
    "for j in gk.neighbors(3, p[i], 0.1):\n        n[j] = 1": "gk.neighbors takes a gk.HashGrid, not the number 3: "
    "make it a parameter, hash: gk.HashGrid",
    "for j in gk.neighbors(p, p[i], 0.1):\n        n[j] = 1": "gk.neighbors takes a gk.HashGrid, not array(vec3)",
    "for j in gk.neighbors(OUTSIDE, p[i], 0.1):\n        n[j] = 1": "a gk.HashGrid from outside of the kernel",
    "for j in gk.neighbors(hash, p[i]):\n        n[j] = 1": "gk.neighbors takes (hash, point, radius), got no radius",
    "for j in gk.neighbors(hash, i, 0.1):\n        n[j] = 1": "the point is vec3, not i32",
    "for j in gk.neighbors(hash, p[i], i):\n        n[j] = 1": "the radius is f32, not i32: write gk.f32(...)",
    "for j, k in gk.neighbors(hash, p[i], 0.1):\n        n[j] = 1": "neighbours are integers: for j in",
    "x = gk.neighbors(hash, p[i], 0.1)": "gk.neighbors is for loops: for j in gk.neighbors(hash, p[i], 0.1)",
    "n[i] = hash[0]": "HashGrid cannot be indexed",
    "hash = 3": "'hash' is a parameter that is a HashGrid: use another name",
}


@pytest.mark.parametrize("body", REFUSED)
def test_error(body, refusal):
    assert REFUSED[body] in refusal(f"OUTSIDE = gk.HashGrid([[0.0, 0, 0]], 1.0)\n{HEAD}    {body}\n")


def test_error_at_the_launch():
    n, found = np.zeros(3, np.int32), np.zeros((3, 1), np.int32)
    p = np.zeros((3, 3), np.float32)
    for wrong, text in (
        (7, "listed: hash: expected a gk.HashGrid, got"),
        (p, "listed: hash: expected a gk.HashGrid, got"),
        (gk.HashGrid(np.zeros((3, 3)), 1.0), "of float32, as the kernel's other parameters, got one of float64: write"),
    ):
        with pytest.raises(TypeError, match=text):
            listed(3, wrong, p, 0.1, n, found)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_120"])
@pytest.mark.parametrize("kernel", [listed, forces, chained])
def test_nvrtc(kernel, architecture):
    try:
        library = nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    if int(architecture[3:]) not in library.architectures:
        pytest.skip(f"{library} does not compile for {architecture}")
    texts = [kernel.source("cuda")] + ([kernel.adjoint_source("cuda")] if kernel is not listed else [])
    for text in texts:
        assert program_cuda.cubin(text, architecture=architecture)
