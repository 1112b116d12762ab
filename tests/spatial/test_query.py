"""What all queries share: order, chunks, memory."""

import resource
import sys

import numpy as np
import pytest

import geomkit as gk
from geomkit.spatial import query


def test_order_is_a_permutation():
    for n in (1, 64, 65, 5000):
        points = query.Points("test", gk.shapes.box(), np.random.default_rng(n).normal(size=(n, 3)))
        ((_, _, order),) = points.chunks()
        assert np.array_equal(np.sort(order), np.arange(n))


def test_order_of_neighbours():
    """Consecutive queries are near one another: the steps are short beside the box."""
    points = query.Points("test", gk.shapes.box(), np.random.default_rng(0).random((20_000, 3)))
    ((_, _, order),) = points.chunks()
    steps = np.linalg.norm(np.diff(points.array[order], axis=0), axis=1)
    assert steps.mean() < 0.06


@pytest.mark.parametrize(
    "points", [np.zeros((500, 3)), np.repeat([[1.0, 2, 3], [4, 5, 6]], 250, 0), np.eye(3)[np.arange(300) % 3]]
)
def test_order_of_equal_points(points):
    hit = gk.closest_point(gk.shapes.torus(), points)
    alone = gk.closest_point(gk.shapes.torus(), points[:1])
    assert hit.distance[0] == alone.distance[0]
    assert len(np.unique(hit.distance)) <= 3


def test_chunks(monkeypatch):
    """Chunks are answered alike: their borders are not seen in the values."""
    mesh, points = gk.shapes.torus(), np.random.default_rng(0).uniform(-2, 2, (3000, 3))
    whole = gk.closest_point(mesh, points), gk.signed_distance(mesh, points), gk.winding_number(mesh, points)
    monkeypatch.setattr(query, "CHUNK", 700)
    parts = gk.closest_point(mesh, points), gk.signed_distance(mesh, points), gk.winding_number(mesh, points)
    assert np.allclose(parts[0].distance, whole[0].distance, atol=1e-6)
    assert np.allclose(parts[1], whole[1], atol=1e-6) and np.array_equal(parts[2], whole[2])


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is measured in Linux's unit")
def test_memory_does_not_grow():
    """A hundred calls keep no memory (trimesh 339, 527, 806)."""
    mesh, points = gk.shapes.icosphere(4), np.random.default_rng(0).uniform(-2, 2, (50_000, 3))

    def work(times):
        for _ in range(times):
            gk.signed_distance(mesh, points)
            gk.closest_point.adjoint(mesh, points, adj_distance=np.ones(len(points)))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = work(10)
    assert work(90) - before < 20_000  # kB; one call's results are 4,000
