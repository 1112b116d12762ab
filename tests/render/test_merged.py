"""Tests of merged meshes: what is kept, and what a mesh that moved changes."""

import numpy as np

import geomkit as gk
from geomkit.mesh.shapes import box, icosphere
from geomkit.render.merged import merged


def test_values():
    a, b = box(), icosphere(1)
    whole = merged([a, b])
    assert np.array_equal(whole.vertices, np.concatenate([a.vertices, b.vertices]))
    assert np.array_equal(whole.faces, np.concatenate([a.faces, b.faces + np.int32(a.n_vertices)]))


def test_the_same_meshes_are_the_same_mesh():
    a, b = box(), icosphere(1)
    assert merged([a, b]) is merged([a, b])
    assert merged([a]) is a
    assert merged([a, b]) is not merged([b, a])
    assert merged([a, icosphere(1)]) is not merged([a, b])


def test_meshes_that_move_refit_the_tree():
    a, b = box(), icosphere(2)
    whole = merged([a, b])
    built, faces = whole.bvh, whole.faces_array
    for step in (0.5, 1.0, 1.5):
        moved = b.with_vertices(np.asarray(b.vertices) + np.float32(step))
        again = merged([a, moved])
        assert again.faces_array is faces and again.topology.n_edges == whole.topology.n_edges
        assert np.array_equal(again.vertices[a.n_vertices :], moved.vertices)
        assert again.bvh.n_nodes == built.n_nodes
        assert np.array_equal(again.bvh._leaf_faces, built._leaf_faces)
    assert merged([a, moved]) is again


def test_images_of_what_moved():
    def scene(ball: gk.Mesh) -> gk.Scene:
        return gk.Scene({"box": box(), "ball": ball}, gk.ConstantLight())

    ball = icosphere(2)
    camera = gk.Camera.framing(box(), width=16, height=16)
    gk.render(scene(ball), camera, samples=1)
    moved = ball.with_vertices(np.asarray(ball.vertices) * np.float32(1.2))
    kept = gk.render(scene(moved), camera, samples=1).color
    fresh = gk.render(scene(gk.Mesh(moved.vertices, moved.faces)), camera, samples=1).color
    assert np.array_equal(kept, fresh)


def test_few_are_kept():
    a = box()
    for _ in range(8):
        merged([a, icosphere(1)])
    assert len(a.family["merged"]) == 4
