"""Loads of what the same thread has stored: their gradients, and what stays refused."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.lang.ir import walk
from geomkit.lang.passes.forward import forwarded

R = np.random.default_rng(0)


@gk.kernel
def euler(
    x: gk.array(gk.vec2d), v: gk.array(gk.vec2d), force: gk.array(gk.vec2d), dt: gk.f64,
    x_next: gk.array(gk.vec2d), v_next: gk.array(gk.vec2d),
):
    i = gk.tid()
    v_next[i] = v[i] + force[i] * dt
    x_next[i] = x[i] + v_next[i] * dt


@gk.kernel
def branches(x: gk.array(gk.f64), n: gk.i32, y: gk.array(gk.f64), z: gk.array(gk.f64)):
    i = gk.tid()
    y[i] = gk.sin(x[i])
    s = 0.0
    for k in range(n):
        if s > 0.5:
            s = s - y[i] * y[i]
        else:
            s = s + gk.exp(y[i]) + 0.1 * float(k)
    z[i] = s * y[i]


@gk.kernel
def columns(x: gk.array(gk.f64), a: gk.array(gk.f64, ndim=2), y: gk.array(gk.f64)):
    i = gk.tid()
    a[i, 0] = x[i] * x[i]
    a[i, 0] = a[i, 0] * x[i]
    y[i] = a[i, 0] * a[i, 0]


CASES = {
    "euler": (euler, 4, (R.normal(size=(4, 2)), R.normal(size=(4, 2)), R.normal(size=(4, 2)), 0.3), ((4, 2), (4, 2))),
    "branches": (branches, 5, (R.normal(size=5), 4), ((5,), (5,))),
    "columns": (columns, 3, (R.normal(size=3),), ((3, 2), (3,))),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    kernel, n, args, shapes = CASES[name]
    names = kernel.names[-len(shapes) :]
    adj = [R.normal(size=shape) for shape in shapes]

    def value(given):
        out = [np.zeros(shape) for shape in shapes]
        kernel(n, *given, *out)
        return sum(float(np.sum(a * b)) for a, b in zip(out, adj, strict=True))

    cotangents = {f"adj_{k}": a for k, a in zip(names, adj, strict=True)}
    found = kernel.adjoint(n, *args, *(np.zeros(shape) for shape in shapes), **cotangents)
    for k, x in enumerate(args):
        if isinstance(x, int):
            continue
        x, gradient = np.asarray(x), np.asarray(getattr(found, kernel.names[k]))
        for place in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[place] = 1e-6
            sides = [value([*args[:k], v if v.shape else float(v), *args[k + 1 :]]) for v in (x + step, x - step)]
            np.testing.assert_allclose(gradient[place], (sides[0] - sides[1]) / 2e-6, rtol=1e-7, atol=1e-8)


HEAD = "@gk.kernel\ndef k(x: gk.array(gk.f64), at: gk.array(gk.i32), y: gk.array(gk.f64), z: gk.array(gk.f64)):\n"

# What is stored is not, or may not be, what the load finds.
REFUSED = {
    "another index between": "    y[i] = x[i]\n    y[at[i]] = 2.0\n    z[i] = y[i] * y[i]\n",
    "another thread's": "    y[i] = x[i]\n    z[i] = y[i + 1] * y[i + 1]\n",
    "stored in one branch": "    if at[i] > 0:\n        y[i] = x[i]\n    z[i] = y[i] * y[i]\n",
    "stored later in the loop": "    s = 0.0\n    for k in range(3):\n        s += y[i] * y[i]\n"
    "        y[i] = s + x[i]\n    z[i] = s\n",
    "an atomic between": "    y[i] = x[i]\n    gk.atomic_add(y, at[i], 1.0)\n    z[i] = y[i] * y[i]\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_edge(case, module):
    made = module(f"{HEAD}    i = gk.tid()\n{REFUSED[case]}")
    x = np.ones(3)
    with pytest.raises(gk.KernelError, match="'y' is read here and overwritten in the same kernel"):
        made.k.adjoint(3, x, np.zeros(3, np.int32), x, x, adj_z=x)


def test_the_program_itself_stays(module):
    """Arrays of one memory may be given for two parameters, so that the forward program reads what is there."""
    made = module(f"{HEAD}    i = gk.tid()\n    y[i] = x[i]\n    z[i] = 5.0\n    z[i] = y[i] + 1.0\n")
    x, y = np.arange(3.0), np.zeros(3)
    made.k(3, x, np.zeros(3, np.int32), y, y)
    assert y.tolist() == [6.0] * 3
    program = made.k.specialization({}, frozenset()).program
    loads = [[op.attr.array for op in walk(p.body) if op.kind == "load"] for p in (program, forwarded(program))]
    assert loads == [["x", "y"], ["x"]]


def test_rounded_numbers_stay(module):
    made = module(
        "@gk.kernel\ndef k(x: gk.array(gk.f32), h: gk.array(gk.f16), y: gk.array(gk.f32)):\n    i = gk.tid()\n"
        "    h[i] = gk.f16(x[i])\n    y[i] = float(h[i]) * float(h[i])\n"
    )
    with pytest.raises(gk.KernelError, match="'h' is read here"):
        made.k.adjoint(1, *(np.ones(1, t) for t in (np.float32, np.float16, np.float32)), adj_y=np.ones(1, np.float32))
