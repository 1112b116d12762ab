"""The box of a mesh and its gradient."""

import numpy as np
import pytest

import geomkit as gk


def test_value():
    mesh = gk.Mesh([[0, 0, 0], [1, 0, 3], [0, 2, 0], [9, 9, 9]], [[0, 1, 2]])
    assert gk.bounds(mesh).tolist() == [[0, 0, 0], [1, 2, 3]]
    assert mesh.bvh.bounds.tolist() == [[0, 0, 0], [1, 2, 3]]


def test_edge_empty():
    mesh = gk.Mesh(np.empty((0, 3)), np.empty((0, 3), int))
    assert gk.bounds(mesh).tolist() == [[np.inf] * 3, [-np.inf] * 3]
    with pytest.raises(ValueError, match="bounds.adjoint: mesh: expected a mesh with faces, got 0 faces"):
        gk.bounds.adjoint(mesh, adj_bounds=np.zeros((2, 3)))


def test_error():
    with pytest.raises(ValueError, match=r"bounds.adjoint: adj_bounds: expected \(2, 3\) floats, got \(3,\) float64"):
        gk.bounds.adjoint(gk.shapes.box(), adj_bounds=np.zeros(3))


def test_gradient():
    mesh = gk.shapes.torus(dtype=np.float64)
    rng = np.random.default_rng(0)
    vertices = mesh.vertices + 0.01 * rng.standard_normal(mesh.vertices.shape)

    def adjoint(v, adj):
        return (gk.bounds.adjoint(mesh.with_vertices(v), adj_bounds=adj).vertices,)

    gk.gradcheck(lambda v: gk.bounds(mesh.with_vertices(v)), [vertices], adjoint=adjoint)


def test_gradient_tie():
    """Four corners attain each bound of a box: the lowest index has all of it. Unused vertices have none."""
    box = gk.shapes.box()
    mesh = gk.Mesh(np.concatenate([box.vertices[:1] * 4, box.vertices]), box.faces + 1)
    adj = gk.bounds.adjoint(mesh, adj_bounds=np.arange(1, 7).reshape(2, 3)).vertices
    assert adj[0].tolist() == [0, 0, 0]
    assert adj.sum(0).tolist() == [5, 7, 9]
    for k in range(3):
        first = int(np.flatnonzero(mesh.vertices[1:, k] == -0.5)[0]) + 1
        assert adj[first, k] >= k + 1
