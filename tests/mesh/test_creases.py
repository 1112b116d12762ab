"""Meshes cut along their creases."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.mesh.creases import cut_at_creases


def test_a_cube_is_cut_into_its_sides():
    cube = gk.shapes.box()
    cut, source = cut_at_creases(cube, 40)
    assert cut.n_vertices == 24
    np.testing.assert_array_equal(cut.vertices, cube.vertices[source])
    np.testing.assert_array_equal(source[cut.faces], cube.faces)
    normals = cut.vertex_normals[cut.faces]
    np.testing.assert_allclose(normals, np.broadcast_to(cut.face_normals[:, None], normals.shape), atol=1e-6)


def test_a_ball_stays_whole_and_a_soup_becomes_it():
    ball = gk.shapes.icosphere(2)
    cut, source = cut_at_creases(ball, 40)
    assert sorted(source) == list(range(ball.n_vertices))
    np.testing.assert_allclose(cut.vertex_normals, ball.vertex_normals[source], atol=1e-6)
    soup = gk.Mesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * ball.n_faces).reshape(-1, 3))
    assert cut_at_creases(soup, 40)[0].n_vertices == ball.n_vertices
    assert cut_at_creases(soup, 1)[0].n_vertices == 3 * ball.n_faces


@pytest.mark.parametrize(("angle", "vertices"), [(20, 6), (40, 4)])
def test_the_angle_is_between_normals(angle, vertices):
    bend = np.radians(30)
    points = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -np.cos(bend), np.sin(bend)]]
    assert cut_at_creases(gk.Mesh(points, [[0, 1, 2], [1, 0, 3]]), angle)[0].n_vertices == vertices


def test_three_faces_at_an_edge():
    """A flat sheet with a fin on its middle: the fin is cut off, the sheet is not."""
    points = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1]]
    cut, _ = cut_at_creases(gk.Mesh(points, [[0, 1, 2], [0, 1, 4], [1, 0, 3]]), 40)
    assert cut.n_vertices == 4 + 3 and cut.faces[0, 0] == cut.faces[2, 1]


def test_nothing():
    assert cut_at_creases(gk.Mesh(np.zeros((3, 3)), np.zeros((0, 3), int)), 40)[0].n_faces == 0
