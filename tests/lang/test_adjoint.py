"""Adjoints against central differences and against each other."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import geomkit as gk
from geomkit.lang import adjoint, specialization
from geomkit.lang.interpret import interpret

_spec = importlib.util.spec_from_file_location("lang_programs", Path(__file__).with_name("programs.py"))
assert _spec is not None and _spec.loader is not None
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)


@gk.kernel
def carried(x: gk.array(gk.f64), n: gk.array(gk.i32), a: gk.f64, y: gk.array(gk.f64)):
    i = gk.tid()
    s = x[i]
    for _ in range(n[i]):
        s = s + a * gk.sin(s) * x[i]
    y[i] = s


@gk.kernel
def argmax(x: gk.array(gk.f64, ndim=2), y: gk.array(gk.f64)):
    i = gk.tid()
    best = -100.0
    at = 0
    for k in range(x.shape[1]):
        if x[i, k] < best:
            continue
        best = x[i, k]
        at = k
    y[i] = best * x[i, (at + 1) % x.shape[1]]


@gk.kernel
def before_the_loop(x: gk.array(gk.f64), y: gk.array(gk.f64)):
    i = gk.tid()
    v = x[i] * x[i]
    s = 1.0
    for _ in range(20):
        s = s * 0.9 + gk.tanh(v * s)
    y[i] = v * s


@gk.kernel
def nested(x: gk.array(gk.f64), y: gk.array(gk.f64)):
    i = gk.tid()
    s = x[i]
    k = 0
    while s < 4.0 and k < 30:
        k += 1
        for j in range(k % 4):
            if s > 3.5:
                break
            s = s + 0.1 * gk.cos(s) + 0.01 * float(j)
        s += 0.2
    y[i] = s * x[i]


@gk.kernel
def spring(p: gk.array(gk.vec3d), edges: gk.array(gk.i32, ndim=2), rest: gk.array(gk.f64), force: gk.array(gk.vec3d)):
    i = gk.tid()
    a = edges[i, 0]
    b = edges[i, 1]
    d = p[a] - p[b]
    length = gk.length(d)
    pull = d * ((length - rest[i]) / length)
    force[a] -= pull
    force[b] += pull


@gk.kernel
def in_place(x: gk.array(gk.f64), a: gk.f64, y: gk.array(gk.f64)):
    i = gk.tid()
    y[i] = a * x[i] + y[i]


@gk.func
def clipped(v):
    return min(max(v, 0.0), 1.0)


@clipped.adjoint
def adj_clipped(v, g):
    return g


@gk.kernel
def straight_through(x: gk.array(gk.f64), y: gk.array(gk.f64)):
    i = gk.tid()
    y[i] = clipped(x[i] * 2.0) + gk.stop_gradient(x[i]) * 5.0


R = np.random.default_rng(0)
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], np.int32)
CASES = {
    "carried": (carried, 8, (R.normal(size=8), R.integers(0, 9, 8).astype(np.int32), 0.3), (8,)),
    "argmax": (argmax, 6, (R.normal(size=(6, 7)),), (6,)),
    "before_the_loop": (before_the_loop, 5, (R.normal(size=5),), (5,)),
    "nested": (nested, 6, (R.normal(size=6),), (6,)),
    "spring": (spring, 5, (R.normal(size=(4, 3)), EDGES, R.uniform(0.5, 1, 5)), (4, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name, monkeypatch):
    kernel, n, args, shape = CASES[name]
    output = kernel.names[-1]
    adj = R.normal(size=shape)

    def value(given):
        out = np.zeros(shape)
        kernel(n, *given, out)
        return float(np.sum(out * adj))

    found = kernel.adjoint(n, *args, np.zeros(shape), **{f"adj_{output}": adj})
    for k, x in enumerate(args):
        if not isinstance(x, float) and x.dtype.kind != "f":
            continue
        gradient, x = getattr(found, kernel.names[k]), np.asarray(x, np.float64)
        for place in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[place] = 1e-6
            moved = [x + s * step if x.shape else float(x + s * step) for s in (1, -1)]
            sides = [value([*args[:k], v, *args[k + 1 :]]) for v in moved]
            np.testing.assert_allclose(gradient[place], (sides[0] - sides[1]) / 2e-6, rtol=2e-6, atol=2e-7)
    # With a stack or with checkpoints, compiled or interpreted, the gradients are the same.
    bound, values = kernel.bound((*args, np.zeros(shape)))
    wrt = frozenset(k for k in kernel.names if np.ndim(getattr(found, k, 0.0))) | {output}
    for slots in (0, 1, 2, 16):
        grads = {k: np.zeros_like(getattr(found, k)) for k in wrt if k != output} | {output: adj.copy()}
        interpret(bound.adjoint(wrt, slots).program, (n, 1, 1), values, grads)
        for k in wrt - {output}:
            np.testing.assert_allclose(grads[k], getattr(found, k), rtol=1e-12, atol=1e-12)


def test_what_is_written_in_place_has_the_gradient_of_before():
    x, y, w = R.normal(size=(3, 4))
    found = in_place.adjoint(4, x, 3.0, y, adj_y=w)
    np.testing.assert_allclose(found.x, 3 * w)
    np.testing.assert_allclose(found.y, w)
    np.testing.assert_allclose(found.a, x @ w)


def test_own_adjoint_and_stopped_gradient():
    x, w = np.array([-1.0, 0.2, 3.0]), np.array([1.0, 2.0, 3.0])
    y = np.zeros(3)
    straight_through(3, x, y)
    np.testing.assert_allclose(y, np.clip(2 * x, 0, 1) + 5 * x)
    np.testing.assert_allclose(straight_through.adjoint(3, x, y, adj_y=w).x, 2 * w)


def test_hazards(module):
    made = module(
        "@gk.kernel\ndef k(x: gk.array(gk.f64)):\n    i = gk.tid()\n    x[i] = x[i] * x[i]\n\n"
        "@gk.kernel\ndef best(x: gk.array(gk.f64), y: gk.array(gk.f64)):\n    i = gk.tid()\n"
        "    gk.atomic_max(y, 0, x[i])\n\n"
        "@gk.kernel\ndef slot(x: gk.array(gk.f64), c: gk.array(gk.i32), y: gk.array(gk.f64)):\n    i = gk.tid()\n"
        "    y[gk.atomic_add(c, 0, 1)] = x[i]\n"
    )
    x = np.ones(3)
    for call, text in (
        (lambda: made.k.adjoint(3, x, adj_x=x), "'x' is read here and overwritten in the same kernel (line 7)"),
        (lambda: made.best.adjoint(3, x, x, adj_y=x), "atomic_max has no derivative"),
        (lambda: made.slot.adjoint(3, x, np.zeros(1, np.int32), x, adj_y=x), "the result of atomic_add is needed"),
    ):
        with pytest.raises(gk.KernelError) as caught:
            call()
        assert text in str(caught.value) and "^" in str(caught.value)


@gk.kernel(deterministic=True)
def gathered(x: gk.array(gk.f32), at: gk.array(gk.i32), y: gk.array(gk.f32)):
    i = gk.tid()
    y[i] = gk.sin(x[at[i]])


def test_deterministic_sums():
    n = 20000
    x, at, w = R.normal(size=7).astype(np.float32), R.integers(0, 7, n).astype(np.int32), R.normal(size=n)
    threads = gk.num_threads()
    found = []
    for k in (1, 2, 4):
        gk.set_num_threads(k)
        found.append(gathered.adjoint(n, x, at, np.zeros(n, np.float32), adj_y=w.astype(np.float32)).x)
    gk.set_num_threads(threads)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.slow
def test_random_programs(tmp_path):
    """GEOMKIT_FUZZ=1000 tries as many programs, 40 if it is not set."""
    count = int(os.environ.get("GEOMKIT_FUZZ", "40"))
    errors = {}
    for start in range(0, count, 20):
        errors |= programs.check(range(start, min(count, start + 20)), tmp_path)
    assert not {seed: e for seed, e in errors.items() if not e < 1e-6}


def test_without_saved_state_random_programs_fail(tmp_path, monkeypatch):
    def forgotten(reverse, op, trips, kept, outer, firsts):
        """The loop backwards, where each iteration is taken to begin with what the loop began with."""
        original = reverse.iteration

        def iteration(op, index, carried, kept, outer, given):
            return original(op, index, [reverse.primal(v) for v in op.inits], kept, outer, given)

        reverse.iteration = iteration
        found = adjoint.reversed_with_stack(reverse, op, trips, kept, outer, firsts)
        reverse.iteration = original
        return found

    monkeypatch.setattr(adjoint, "STACK", forgotten)
    errors = programs.check(range(8), tmp_path)
    assert sum(not e < 1e-6 for e in errors.values()) >= 2


def test_interpreted_programs_are_the_compiled_ones(tmp_path, monkeypatch):
    module = programs.module_of(range(5), tmp_path)
    kernels = [getattr(module, f"f{seed}") for seed in range(5)]
    programs.compile_together(kernels, frozenset("xwpz"))
    for seed, kernel in enumerate(kernels):
        given = programs.inputs(seed)
        args = [given[k] for k in ("x", "w", "p", "n", "q")]

        def run(kernel=kernel, args=args):
            z = np.zeros(programs.THREADS)
            kernel(programs.THREADS, *args, z)
            return z, kernel.adjoint(programs.THREADS, *args, z, adj_z=np.arange(6.0))

        compiled = run()
        with monkeypatch.context() as patch:
            patch.setattr(specialization, "has_compiler", lambda: False)
            interpreted = run()
        np.testing.assert_allclose(interpreted[0], compiled[0], rtol=1e-12, atol=1e-13)
        for one, other in zip(interpreted[1], compiled[1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
