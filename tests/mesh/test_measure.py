import numpy as np
import pytest

from geomkit.mesh import Mesh
from geomkit.mesh.measure import area, count_flat, face_areas, face_normals, vertex_normals, volume
from geomkit.mesh.shapes import box, cylinder, grid, icosphere


class TestValue:
    def test_triangle(self):
        mesh = Mesh([[0, 0, 0], [3, 0, 0], [0, 4, 0]], [[0, 1, 2]])
        assert face_areas(mesh).tolist() == [6]
        assert face_normals(mesh).tolist() == [[0, 0, 1]]
        assert vertex_normals(mesh).tolist() == [[0, 0, 1]] * 3
        assert area(mesh) == mesh.area == 6
        assert face_areas(mesh).dtype == face_normals(mesh).dtype == vertex_normals(mesh).dtype == np.float32

    def test_box(self):
        mesh = box((1, 2, 3), dtype=np.float64)
        assert area(mesh) == pytest.approx(22, rel=1e-15)
        assert volume(mesh) == pytest.approx(6, rel=1e-15)

    def test_normals_at_the_corner_of_a_box_ignore_the_triangulation(self):
        mesh = box(dtype=np.float64)
        np.testing.assert_allclose(vertex_normals(mesh), np.sign(mesh.vertices_array) / 3**0.5, atol=1e-15)

    def test_normals_of_a_sphere(self):
        mesh = icosphere(4, radius=2, dtype=np.float64)
        np.testing.assert_allclose(vertex_normals(mesh), mesh.vertices_array / 2, atol=3e-3)
        np.testing.assert_allclose(np.linalg.norm(face_normals(mesh), axis=1), 1, rtol=1e-15)

    def test_prism(self):
        n = 12
        mesh = cylinder(2, 3, sections=n, dtype=np.float64)
        base = n / 2 * 4 * np.sin(2 * np.pi / n)
        assert volume(mesh) == pytest.approx(3 * base, rel=1e-14)
        assert area(mesh) == pytest.approx(2 * base + 3 * n * 4 * np.sin(np.pi / n), rel=1e-14)

    def test_float32_is_rounded_once(self):
        vertices = icosphere(3).vertices_array
        faces = icosphere(3).faces_array
        exact = face_areas(Mesh(vertices.astype(np.float64), faces))
        np.testing.assert_array_equal(face_areas(Mesh(vertices, faces)), exact.astype(np.float32))


class TestEdge:
    def test_degenerate_faces(self):
        mesh = Mesh([[0, 0, 0], [1, 1, 1], [2, 2, 2], [1, 0, 0]], [[0, 1, 2], [3, 3, 3], [0, 0, 3]])
        assert face_areas(mesh).tolist() == [0, 0, 0]
        assert not face_normals(mesh).any()
        assert not vertex_normals(mesh).any()

    def test_degenerate_faces_do_not_bend_normals(self):
        square = grid(1, 1)
        mesh = Mesh(square.vertices_array, np.concatenate([square.faces_array, [[0, 0, 1], [2, 2, 2]]]))
        np.testing.assert_array_equal(vertex_normals(mesh), [[0, 0, 1]] * 4)

    def test_unreferenced_vertices_have_no_normal(self):
        assert vertex_normals(Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5]], [[0, 1, 2]]))[3].tolist() == [0, 0, 0]

    @pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
    def test_normals_at_extreme_scales(self, scale):
        mesh = Mesh(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]) * scale, [[0, 1, 2]])
        np.testing.assert_allclose(face_normals(mesh), [[0, 0, 1]], atol=1e-15)
        np.testing.assert_allclose(vertex_normals(mesh), [[0, 0, 1]] * 3, atol=1e-15)

    def test_volume_far_from_the_origin(self):
        cube = box(dtype=np.float64)
        assert volume(Mesh(cube.vertices_array + 2.0**30, cube.faces_array)) == pytest.approx(1, rel=1e-12)

    def test_volume_of_an_inverted_cavity(self):
        outer, inner = box((2, 2, 2)), box().flipped()
        both = Mesh(
            np.concatenate([outer.vertices_array, inner.vertices_array]),
            np.concatenate([outer.faces_array, inner.faces_array + 8]),
        )
        assert volume(both) == pytest.approx(7)

    def test_volume_of_a_flat_sheet(self):
        assert volume(grid(5, 5)) == 0


def test_invariance():
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    rotation *= np.sign(np.linalg.det(rotation))
    mesh = icosphere(2, dtype=np.float64)
    turned = Mesh(mesh.vertices_array @ rotation.T, mesh.faces_array)
    np.testing.assert_allclose(face_areas(turned), face_areas(mesh), rtol=1e-12)
    np.testing.assert_allclose(vertex_normals(turned), vertex_normals(mesh) @ rotation.T, atol=1e-13)
    assert volume(turned) == pytest.approx(volume(mesh), rel=1e-13)
    rolled = Mesh(mesh.vertices_array, np.roll(mesh.faces_array, 1, axis=1))
    np.testing.assert_allclose(vertex_normals(rolled), vertex_normals(mesh), atol=1e-14)


def test_count_flat_in_blocks():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], np.float32)
    faces = np.tile(np.array([[0, 1, 2], [0, 1, 3]], np.int32), (10000, 1))
    assert count_flat(vertices, faces) == 10000
    assert count_flat(vertices, faces[:0]) == 0
