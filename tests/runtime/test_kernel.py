"""Launches on the CPU: signature rows, checks, precision, threads, processes."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import geomkit as gk
from geomkit.mesh.box import point_bounds_adj, point_bounds_fwd
from geomkit.runtime import host
from geomkit.runtime.kernel import Kernel, Parameter


def arrays(dtype=np.float32):
    return np.zeros(6, np.int32), np.ones(6, dtype), np.zeros((3, 3), dtype)


def test_value():
    at, adj, out = (
        np.array([0, 1, 2, 2, 1, 0], np.int32),
        np.arange(1, 7, dtype=np.float32),
        np.zeros((3, 3), np.float32),
    )
    point_bounds_adj(3, at, adj, out)
    assert out.tolist() == [[1, 0, 6], [0, 7, 0], [4, 0, 3]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_precision(dtype):
    """The precision of the arrays chooses the library."""
    points = np.array([[1, 2, 3], [1 / 3, 5, -1]], dtype)
    bounds = np.empty((1, 2, 3), dtype)
    point_bounds_fwd(1, 2, 2, points, bounds)
    assert np.array_equal(bounds[0], [points.min(0), points.max(0)])


def test_edge_nothing():
    at, adj, out = arrays()
    point_bounds_adj(0, at, adj, out[:0])
    assert (out == 0).all()


def test_edge_read_only_inputs():
    at, adj, out = arrays()
    at.flags.writeable = adj.flags.writeable = False
    point_bounds_adj(3, at, adj, out)
    assert out[0].tolist() == [2, 2, 2]


def test_error():
    at, adj, out = arrays()
    strided = np.zeros((3, 6), np.float32)[:, ::2]
    wide = np.zeros((3, 3), np.float64)
    frozen = out.copy()
    frozen.flags.writeable = False
    with pytest.raises(
        TypeError, match="point_bounds_adj: adj_points: expected a C-contiguous writeable float32 array"
    ):
        point_bounds_adj(3, at, adj, strided)
    with pytest.raises(TypeError, match="adj_points: expected a C-contiguous writeable float32 array, got float64"):
        point_bounds_adj(3, at, adj, wide)
    with pytest.raises(TypeError, match="adj_points: expected .*, got float32 with strides .*, read-only"):
        point_bounds_adj(3, at, adj, frozen)
    with pytest.raises(TypeError, match="at: expected a C-contiguous int32 array, got int64"):
        point_bounds_adj(3, at.astype(np.int64), adj, out)
    with pytest.raises(TypeError, match="expected 3 arguments after n, got 2"):
        point_bounds_adj(3, at, adj)
    with pytest.raises(TypeError, match="adj_bounds: expected an array, got list"):
        point_bounds_adj(3, at, [1.0] * 6, out)
    with pytest.raises(TypeError, match="expected float32 or float64 arrays, got float16"):
        point_bounds_adj(3, at, adj.astype(np.float16), out)


def test_parameter():
    p = Parameter("const real* points")
    assert (p.name, p.type, p.pointer, p.constant) == ("points", "real", True, True)
    p = Parameter("double beta")
    assert (p.name, p.type, p.pointer, p.constant) == ("beta", "double", False, False)


def test_registry():
    """Every kernel has a row, and no name stands for two."""
    names = [kernel.name for kernel in Kernel.registry]
    assert len(names) == len(set(names))


def test_set_num_threads():
    before = gk.num_threads()
    try:
        gk.set_num_threads(3)
        assert gk.num_threads() == 3
    finally:
        gk.set_num_threads(before)
    with pytest.raises(ValueError, match="set_num_threads: n: expected 1 to 1024, got 0"):
        gk.set_num_threads(0)


@pytest.mark.parametrize("bits", [1, 12, 24, 30, 32, 33, 63])
def test_sort_order(bits):
    """The stable permutation, for any number of bits."""
    rng = np.random.default_rng(bits)
    for n in (0, 1, 2, 1000, 200_000):
        keys = rng.integers(0, 1 << bits, n, dtype=np.uint64)
        assert np.array_equal(host.sort_order(keys, bits), np.argsort(keys, kind="stable"))
    same = np.full(70_000, (1 << bits) - 1, np.uint64)
    assert np.array_equal(host.sort_order(same, bits), np.arange(len(same)))


def test_launch_while_another_runs():
    """Launches from many threads at once all finish, with the right result."""
    points = np.random.default_rng(0).random((1 << 18, 3)).astype(np.float32)
    expected = [points.min(0), points.max(0)]
    found = []

    def work():
        for _ in range(20):
            part = np.empty((1024, 2, 3), np.float32)
            point_bounds_fwd(1024, 256, len(points), points, part)
            found.append(np.array_equal([part[:, 0].min(0), part[:, 1].max(0)], expected))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=60)
    assert len(found) == 120 and all(found)


SCRIPT = """
import numpy as np, geomkit as gk
from geomkit.runtime import host
mesh = gk.shapes.torus(dtype=np.float64 if {double} else np.float32)
points = np.random.default_rng(0).uniform(-1.5, 1.5, (3000, 3))
values = [gk.signed_distance(mesh, points, sign=s) for s in ("pseudonormal", "winding", "parity")]
g = gk.closest_point.adjoint(mesh, points, adj_point=points, adj_distance=points[:, 0])
print(host.instruction_set(), gk.num_threads())
np.save({path!r}, np.concatenate([np.ravel(a) for a in (*values, *g, gk.winding_number(mesh, points))]))
"""


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )
    return done


@pytest.mark.parametrize("double", [False, True])
def test_instruction_sets(double, tmp_path):
    """Every instruction set that this processor has gives the same values, to rounding."""
    results = {}
    for level in host.levels():
        path = str(tmp_path / f"{level}.npy")
        done = run(SCRIPT.format(double=double, path=path), GEOMKIT_CPU=level, GEOMKIT_NUM_THREADS="3")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [level, "3"]
        results[level] = np.load(path)
    best, *others = results.values()
    for other in others:
        # A closest point at equal distances may be another one, and its gradient with it.
        close = np.isclose(other, best, rtol=1e-9 if double else 1e-3, atol=1e-12 if double else 1e-4)
        assert close.mean() > 0.995


def test_instruction_set_error():
    done = run("import geomkit as gk; gk.closest_point(gk.shapes.box(), [[0, 0, 0]])", GEOMKIT_CPU="x86-64-v9")
    assert "DeviceError: GEOMKIT_CPU=x86-64-v9: expected one of" in done.stderr
