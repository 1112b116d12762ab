"""Winding number: fast and exact, and the derivative of the exact one."""

import sys

import numpy as np
import pytest

import geomkit as gk
from tests.reference import around, surface_points, winding_numbers


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-12)])
def test_value_exact(dtype, tolerance):
    rng = np.random.default_rng(0)
    for mesh in (gk.shapes.icosphere(2, dtype=dtype), gk.shapes.torus(dtype=dtype), gk.shapes.grid(5, 4, dtype=dtype)):
        points = rng.uniform(-1.4, 1.4, (200, 3)).astype(dtype)
        expected = winding_numbers(mesh.vertices, mesh.faces, points)
        assert np.abs(gk.winding_number(mesh, points, method="exact") - expected).max() < tolerance


@pytest.mark.parametrize(
    "name", ["bunny.obj", "spot.obj", "plane_holes.obj", "self_intersectA.obj", "cube_no_bottom.obj"]
)
def test_value_fast(name, shared_mesh):
    """rms below 1e-3 of the exact one, and the same sign wherever the exact one is not within 0.01 of a half."""
    mesh = shared_mesh(name)
    points = around(mesh, 2000)
    fast, exact = gk.winding_number(mesh, points), gk.winding_number(mesh, points, method="exact")
    assert np.sqrt(np.mean((fast - exact) ** 2)) < 1e-3
    clear = np.abs(exact - 0.5) > 0.01
    assert ((fast > 0.5) == (exact > 0.5))[clear].all()
    assert (gk.contains(mesh, points, sign="winding") == (exact > 0.5))[clear].all()


def test_value_integer():
    """Once around inside a closed mesh, twice inside two of them, never outside, minus one inside out."""
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    points = np.array([[0, 0, 0], [0.9, 0, 0], [2, 0, 0]])
    twice = gk.Mesh(
        np.concatenate([ball.vertices, 0.5 * ball.vertices]), np.concatenate([ball.faces, ball.faces + ball.n_vertices])
    )
    for method, tolerance in (("exact", 1e-12), ("fast", 2e-3)):
        for mesh, expected in ((ball, [1, 1, 0]), (twice, [2, 1, 0]), (ball.flipped(), [-1, -1, 0])):
            assert np.abs(gk.winding_number(mesh, points, method=method) - expected).max() < tolerance


def test_edge_on_surface():
    """At face centres the value of either side or their mean; a step of 1e-3 off them exact (libigl-python 137)."""
    mesh = gk.shapes.icosphere(0, dtype=np.float64)
    centres, normals = mesh.vertices[mesh.faces].mean(1), mesh.face_normals
    w = gk.winding_number(mesh, centres, method="exact")
    assert (np.abs(w[:, None] - [0, 0.5, 1]).min(1) < 1e-9).all()
    for side, expected in ((-1e-3, 1), (1e-3, 0)):
        assert np.abs(gk.winding_number(mesh, centres + side * normals, method="exact") - expected).max() < 1e-9
    assert np.isfinite(gk.winding_number(mesh, mesh.vertices)).all()


def test_edge_empty_and_degenerate():
    empty = gk.Mesh(np.empty((0, 3)), np.empty((0, 3), int))
    for method in ("fast", "exact"):
        assert gk.winding_number(empty, [[0, 0, 0]], method=method).tolist() == [0]
        assert gk.winding_number(gk.shapes.box(), np.empty((0, 3)), method=method).shape == (0,)
        flat = gk.Mesh([[0, 0, 0], [1, 0, 0], [3, 0, 0]], [[0, 1, 2], [0, 0, 0]])
        assert gk.winding_number(flat, [[1, 1, 1], [0, 0, 0], [2, 0, 0]], method=method).tolist() == [0, 0, 0]
    assert gk.winding_number.adjoint(empty, [[0, 0, 0]], adj_winding=[1]).points.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_edge_scale(scale):
    mesh = gk.shapes.grid(6, 6)
    points = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    big = gk.Mesh(mesh.vertices * np.float32(scale), mesh.faces)
    for method, tolerance in (("fast", 3e-3), ("exact", 1e-5)):
        expected = gk.winding_number(mesh, points, method=method)
        assert np.abs(gk.winding_number(big, points * scale, method=method) - expected).max() < tolerance


def test_edge_at_the_centre():
    """Queries at the centre of the tree, where empty slots of its nodes have their moments."""
    for dtype in (np.float32, np.float64):
        for mesh in (
            gk.shapes.icosphere(3, dtype=dtype),
            gk.shapes.box(dtype=dtype),
            gk.shapes.grid(9, 9, dtype=dtype),
        ):
            assert np.isfinite(gk.winding_number(mesh, [[0, 0, 0]])).all()


def test_error():
    with pytest.raises(ValueError, match="winding_number: method: expected 'fast' or 'exact', got 'slow'"):
        gk.winding_number(gk.shapes.box(), [[0, 0, 0]], method="slow")
    with pytest.raises(ValueError, match=r"winding_number: points: expected \(N, 3\) floats, got \(3,\) float64"):
        gk.winding_number(gk.shapes.box(), np.zeros(3))


def open_meshes():
    grid = gk.shapes.grid(4, 3, dtype=np.float64)
    rng = np.random.default_rng(3)
    bumpy = grid.with_vertices(grid.vertices + 0.05 * rng.standard_normal(grid.vertices.shape))
    soup = gk.Mesh(bumpy.vertices[bumpy.faces.ravel()], np.arange(3 * bumpy.n_faces).reshape(-1, 3))
    ball = gk.shapes.icosphere(1, dtype=np.float64)
    fan = gk.Mesh(
        np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0.2], [0, 0, 1]]), [[0, 1, 2], [0, 1, 3], [0, 1, 4]]
    )
    return {"sheet": bumpy, "soup": soup, "punctured": gk.Mesh(ball.vertices, ball.faces[:-9]), "three on an edge": fan}


@pytest.mark.parametrize("name", open_meshes())
def test_gradient(name):
    mesh = open_meshes()[name]
    points = np.random.default_rng(0).uniform(-1.5, 1.5, (60, 3))
    points = points[gk.closest_point(mesh, points).distance > 0.15]

    def forward(p, v):
        return gk.winding_number(mesh.with_vertices(v), p, method="exact")

    def adjoint(p, v, adj):
        g = gk.winding_number.adjoint(mesh.with_vertices(v), p, adj_winding=adj)
        return g.points, g.vertices

    gk.gradcheck(forward, [points, mesh.vertices], adjoint=adjoint, step=1e-4, rtol=1e-7)


def test_gradient_of_soup_points_cancels():
    """A closed soup of triangles does not feel its inner edges where the points move, but does where its corners do."""
    ball = gk.shapes.icosphere(1, dtype=np.float64)
    soup = gk.Mesh(ball.vertices[ball.faces.ravel()], np.arange(3 * ball.n_faces).reshape(-1, 3))
    points = np.array([[0.1, 0.2, 0.3], [2, 0, 0]])
    assert (gk.winding_number.adjoint(ball, points, adj_winding=[1, 1]).vertices == 0).all()
    g = gk.winding_number.adjoint(soup, points, adj_winding=[1, 1])
    assert (g.points == 0).all() and np.abs(g.vertices).max() > 0.01
    summed = np.zeros_like(ball.vertices)
    np.add.at(summed, ball.faces.ravel(), g.vertices)
    assert np.abs(summed).max() < 1e-12


def test_parts(monkeypatch):
    """Work cut into launches of bounded size gives the same values."""
    module = sys.modules["geomkit.spatial.winding_number"]
    mesh, points = gk.shapes.grid(5, 5), np.random.default_rng(0).uniform(-1, 1, (9000, 3))
    adj = np.random.default_rng(1).normal(size=9000)

    def work():
        g = gk.winding_number.adjoint(mesh, points, adj_winding=adj)
        return gk.winding_number(mesh, points, method="exact"), g.points, g.vertices

    whole = work()
    monkeypatch.setattr(module, "WORK", 10_000)
    monkeypatch.setattr(module, "ENDS", 1)
    assert all(np.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(work(), whole, strict=True))


def test_gradient_singular():
    """On the boundary itself, and in line with it: finite."""
    mesh = gk.shapes.grid(2, 2, dtype=np.float64)
    loop = mesh.vertices[mesh.boundary_loops()[0]]
    points = np.concatenate([loop, 0.5 * (loop + np.roll(loop, 1, 0)), 2 * loop])
    g = gk.winding_number.adjoint(mesh, points, adj_winding=np.ones(len(points)))
    assert np.isfinite(g.points).all() and np.isfinite(g.vertices).all()


def test_threads(shared_mesh):
    mesh, before, runs = shared_mesh("plane_holes.obj"), gk.num_threads(), []
    points = surface_points(mesh, 5000)[0] + 0.1 * mesh.diagonal
    adj = np.random.default_rng(0).normal(size=len(points))
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            fresh = mesh.copy()
            g = gk.winding_number.adjoint(fresh, points, adj_winding=adj)
            runs.append([a.tobytes() for a in (gk.winding_number(fresh, points), *g)])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]
