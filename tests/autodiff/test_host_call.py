"""Calls from compiled programs: constants, errors, threads, memory."""

import os
import resource
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import geomkit as gk

jax = pytest.importorskip("jax")
jnp = jax.numpy

BALL = gk.shapes.icosphere(1, dtype=np.float64)
FACES, VERTICES = BALL.faces, BALL.vertices
POINTS = np.random.default_rng(5).normal(size=(6, 3))


@pytest.fixture
def double():
    """jax's 64-bit mode, in this test only."""
    with jax.enable_x64(True):
        yield


def distance(vertices: Any, points: Any = POINTS) -> Any:
    return gk.signed_distance(gk.Mesh(vertices, FACES), points)


def test_the_64_bit_mode_of_one_thread_reaches_the_callback(double):
    # (Behind work that is pending the program runs in another thread.)
    a, busy = jnp.ones((400, 400)), jax.jit(lambda a: a @ a * 1e-3)
    f = jax.jit(lambda p: distance(VERTICES, p))
    for _ in range(10):
        pending = [busy(a) for _ in range(5)]
        assert np.allclose(f(POINTS + 0 * pending[-1][0, 0]), distance(VERTICES))


def test_constants_are_as_they_were_when_traced(double):
    points, rows = POINTS.copy(), POINTS.tolist()
    f = jax.jit(lambda v: distance(v, points) + distance(v, rows))
    before = f(VERTICES)
    points[:] = 0
    rows[0][0] = 100.0
    assert np.array_equal(f(VERTICES), before) and not np.allclose(distance(VERTICES, points), before / 2)


def test_constants_are_as_they_were_outside_of_jit_too(double):
    points, rows, grid = POINTS.copy(), POINTS.tolist(), gk.sdf_grid(BALL, resolution=8)
    grid = grid._replace(values=grid.values.copy())

    def total(v: Any) -> Any:
        on_grid = gk.interpolate_grid(grid, 0.1 * v).value
        return (distance(v, points) ** 2 + distance(v, rows) ** 2).sum() + (on_grid**2).sum()

    _, back = jax.vjp(total, jnp.asarray(VERTICES))
    (before,) = back(1.0)
    points[:], rows[0][0], grid.values[:] = 0, 100.0, 7
    assert np.array_equal(back(1.0)[0], before)


def test_results_are_those_of_jax_when_jax_traces(double):
    torch = pytest.importorskip("torch")
    points = torch.tensor(POINTS)
    found = jax.jit(jax.grad(lambda v: distance(v, points).sum()))(VERTICES)
    assert np.array_equal(found, jax.grad(lambda v: distance(v).sum())(jnp.asarray(VERTICES)))


def test_a_mesh_whose_tensor_changed_is_refused_by_a_program(double):
    torch = pytest.importorskip("torch")
    vertices = torch.tensor(VERTICES)
    ball = gk.Mesh(vertices, FACES)
    f = jax.jit(lambda p: gk.signed_distance(ball, p))
    assert np.array_equal(f(POINTS), distance(VERTICES))
    vertices *= 2
    with pytest.raises(Exception, match="signed_distance in a program.*the values the mesh was made of"):
        jax.block_until_ready(f(POINTS))


def test_lists_of_traced_numbers_are_refused(double):
    with pytest.raises(TypeError, match="^signed_distance: points: expected one array .jax.numpy.stack makes it."):
        jax.grad(lambda x: gk.signed_distance(BALL, [[x, x, x]])[0])(2.0)


def test_donated_arrays_do_not_change_a_mesh():
    v = jnp.array(VERTICES, jnp.float32)
    mesh = gk.Mesh(v, FACES)
    before = mesh.vertices_array.copy()
    step = jax.jit(lambda v: v - distance(v).sum() * 0 - 5, donate_argnums=0)
    for _ in range(3):
        v = step(v)
    assert np.array_equal(mesh.vertices_array, before) and np.allclose(v, before - 15, atol=1e-5)


@pytest.mark.parametrize("f", [distance, jax.grad(lambda v, p: distance(v, p).sum())])
def test_errors_in_a_compiled_program_reach_the_user(f):
    v, p = jnp.asarray(VERTICES, jnp.float32), jnp.asarray(POINTS, jnp.float32)
    text = "signed_distance in a program compiled by jax: Mesh: vertices: expected finite numbers.*1 that are not"
    with pytest.raises((ValueError, RuntimeError), match=text):
        jax.block_until_ready(jax.jit(f)(v.at[0, 0].set(jnp.nan), p))
    text = r"signed_distance in a program .*: points: expected finite numbers, got 1 that are not, the first is point 2"
    with pytest.raises((ValueError, RuntimeError), match=text):
        jax.block_until_ready(jax.jit(f)(v, p.at[2].set(jnp.inf)))
    with pytest.raises((ValueError, RuntimeError), match=r"points: expected \(N, 3\) floats, got \(6, 2\) float32"):
        jax.block_until_ready(jax.jit(f)(v, p[:, :2]))
    with pytest.raises(ValueError, match="^signed_distance: points: expected finite numbers"):
        f(v, p.at[2].set(jnp.inf))
    assert np.isfinite(jax.jit(f)(v, p)).all()


def test_memory_stays_flat():
    ball = gk.shapes.icosphere(4)
    p = jnp.asarray(np.random.default_rng(5).normal(size=(2000, 3)), jnp.float32)
    f = lambda v: (gk.signed_distance(ball.with_vertices(v), p) ** 2).sum()  # noqa: E731
    step = jax.jit(lambda v: v - 1e-3 * jax.grad(f)(v))
    v = jnp.asarray(ball.vertices)
    peaks = []
    for k in range(220):
        v = step(v).block_until_ready()
        if k in (20, 219):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    # A mesh with its tree takes 0.7 MB here.
    assert peaks[1] - peaks[0] < 30_000


WAITING = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import geomkit as gk, jax, jax.numpy as jnp, threading
box = gk.shapes.box()
p = jnp.ones((200_000, 3))
f = lambda v, p: (gk.signed_distance(gk.Mesh(v, box.faces), jnp.sin(p)) ** 2).sum()
g = jax.jit(jax.value_and_grad(f, (0, 1)))
v = jnp.asarray(box.vertices)
a, busy = jnp.ones((300, 300)), jax.jit(lambda a: a @ a @ a * 1e-9)
def work(k):
    for _ in range(4):
        before = [busy(a) for _ in range(6)]
        found = g(v * k, p + before[-1][0, 0] * 0)
        after = [busy(a) for _ in range(6)]
        jax.block_until_ready((found, after))
        h = jax.jit(lambda v, q=p + busy(a)[0, 0]: gk.signed_distance(gk.Mesh(v, box.faces), q).sum())
        jax.block_until_ready(h(v))
work(1)
threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
for t in threads: t.start()
for t in threads: t.join()
print("done")
"""


def test_large_arguments_do_not_wait_for_ever():
    """One thread of jax only, and work of its own pending."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=300, env=env)
    assert done.stdout == "done\n", done.stderr


def test_threads_share_a_compiled_function():
    f = jax.jit(jax.value_and_grad(lambda v: distance(v, POINTS.astype(np.float32)).sum()))
    scales = [1 + 0.1 * k for k in range(4)]
    expected = [distance(VERTICES * s).sum() for s in scales]
    wrong = []

    def work(k: int) -> None:
        v = jnp.asarray(VERTICES * scales[k], jnp.float32)
        for _ in range(30):
            value, _ = f(v)
            if not np.allclose(value, expected[k], rtol=1e-5):
                wrong.append((k, float(value)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
