"""The hash grid: neighbours against all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import geomkit as gk
from geomkit.runtime import cuda, host

DTYPES = (np.float32, np.float64)


def pairs(points, queries, radius):
    """For each query the sorted indices of the points within the radius, by all pairs in float64."""
    difference = queries[:, None].astype(np.float64) - points[None].astype(np.float64)
    near = (difference**2).sum(2) <= np.float64(radius) ** 2
    return [np.flatnonzero(row) for row in near]


def lists(found):
    return [np.sort(found.indices[a:b]) for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


def check(points, queries, radius, grid_radius=None):
    grid = gk.HashGrid(points, radius if grid_radius is None else grid_radius)
    found = grid.neighbors(queries, radius=radius)
    assert found.offsets.dtype == np.int64 and found.indices.dtype == np.int32
    for got, expected in zip(lists(found), pairs(points, queries, radius), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_value(dtype):
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (600, 3)).astype(dtype)
    check(points, rng.uniform(-1.5, 1.5, (300, 3)).astype(dtype), 0.3)
    grid = gk.HashGrid(points, 0.3)
    for got, expected in zip(lists(grid.neighbors()), pairs(points, points, 0.3), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert grid.points.dtype == dtype and len(grid) == 600


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 1e6]), ratio=st.floats(0.05, 20),
    n=st.integers(1, 60), stretch=st.tuples(*[st.sampled_from([0.0, 1.0, 300.0])] * 3), other=st.floats(0.2, 5),
)  # fmt: skip
def test_value_of_any_cloud(seed, scale, ratio, n, stretch, other):
    """Flat, long and single clouds; cells much larger and much smaller than the cloud, folded axes, another radius."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3)) * stretch * scale
    queries = np.concatenate([points[: n // 2], rng.normal(size=(10, 3)) * stretch * scale])
    radius = ratio * scale
    check(points, queries, radius, radius * other)


def test_lattice_at_just_the_radius():
    """Points at a distance of exactly the radius count."""
    i = np.arange(6) * 0.25
    points = np.stack(np.meshgrid(i, i, i, indexing="ij"), -1).reshape(-1, 3)
    found = gk.HashGrid(points, 0.25).neighbors()
    count = np.diff(found.offsets).reshape(6, 6, 6)
    assert count[2, 3, 2] == 7 and count[0, 0, 0] == 4
    check(points.astype(np.float32), points.astype(np.float32), 0.25)


def test_folded_grid():
    """Two clusters so far apart that cells are folded: no neighbour twice, none missing, however large the radius."""
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(size=(20, 3)), rng.normal(size=(20, 3)) + [1e7, -1e7, 3e6]])
    for radius in (0.5, 30.0, 2e7):
        check(points, points, radius, 0.5)


def test_edge_far_beyond_the_range_of_cells():
    points = np.array([[0, 0, 0], [1e300, 0, 0], [1e300, 0, 1e-3], [2.0, 0, 0]])
    found = gk.HashGrid(points, 1e-2).neighbors()
    assert [a.tolist() for a in lists(found)] == [[0], [1, 2], [1, 2], [3]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_edge_empty(dtype):
    grid = gk.HashGrid(np.zeros((0, 3), dtype), 1.0)
    assert grid.neighbors().offsets.tolist() == [0]
    assert grid.neighbors([[0, 0, 0]]).offsets.tolist() == [0, 0]
    assert gk.HashGrid([[0, 0, 0]], 1.0).neighbors(np.zeros((0, 3))).offsets.tolist() == [0]


def test_edge_all_at_one_place():
    found = gk.HashGrid(np.ones((500, 3)), 1e-3).neighbors()
    assert len(found.indices) == 500 * 500  # nothing is cut off
    np.testing.assert_array_equal(found.indices[:500], np.arange(500))


def test_result_does_not_depend_on_threads():
    points = np.random.default_rng(4).uniform(size=(5000, 3)).astype(np.float32)
    before, results = host.num_threads(), []
    for threads in (1, 2, 5):
        host.set_num_threads(threads)
        results.append(gk.HashGrid(points, 0.1).neighbors())
    host.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other.offsets, results[0].offsets)
        np.testing.assert_array_equal(other.indices, results[0].indices)


def test_the_grid_is_a_snapshot():
    points = np.zeros((2, 3))
    grid = gk.HashGrid(points, 1.0)
    points[1] = 9
    assert len(grid.neighbors().indices) == 4


def test_order():
    points = np.random.default_rng(0).random((500, 3))
    grid = gk.HashGrid(points, 0.2)
    assert sorted(grid.order.tolist()) == list(range(500)) and grid.order.dtype == np.int32
    steps = [np.linalg.norm(np.diff(p, axis=0), axis=1).mean() for p in (points[grid.order], points)]
    assert steps[0] < 0.6 * steps[1]


def test_torch():
    torch = pytest.importorskip("torch")
    points = torch.rand(100, 3)
    found = gk.HashGrid(points, 0.2).neighbors()
    assert isinstance(found.offsets, torch.Tensor) and found.indices.dtype == torch.int32
    with pytest.raises(TypeError, match="HashGrid: points: .*do not track gradients"):
        gk.HashGrid(points.requires_grad_(), 0.2)


def test_error():
    for radius in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="HashGrid: radius: expected a positive number"):
            gk.HashGrid([[0, 0, 0]], radius)
    with pytest.raises(TypeError, match="HashGrid: radius"):
        gk.HashGrid([[0, 0, 0]], None)
    with pytest.raises(ValueError, match=r"HashGrid: points: expected \(N, 3\) floats, got \(1, 2\)"):
        gk.HashGrid([[0, 0]], 1)
    with pytest.raises(ValueError, match="the first is point 1"):
        gk.HashGrid([[0, 0, 0], [np.nan, 0, 0]], 1)
    grid = gk.HashGrid([[0, 0, 0]], 1)
    with pytest.raises(ValueError, match="HashGrid.neighbors: points: expected finite"):
        grid.neighbors([[np.inf, 0, 0]])
    with pytest.raises(ValueError, match="HashGrid.neighbors: radius"):
        grid.neighbors(radius=-1)


def test_repr():
    assert repr(gk.HashGrid(np.zeros((3, 3)), 0.5)) == "HashGrid(3 points, radius 0.5, float64)"


def test_devices():
    if not cuda.available():
        pytest.skip("no CUDA device")
    cupy = cuda.cupy()
    points = np.random.default_rng(5).uniform(size=(3000, 3)).astype(np.float32)
    here, there = gk.HashGrid(points, 0.1).neighbors(), gk.HashGrid(cupy.asarray(points), 0.1).neighbors()
    np.testing.assert_array_equal(here.offsets, there.offsets.get())
    np.testing.assert_array_equal(here.indices, there.indices.get())
