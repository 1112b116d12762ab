import re

import numpy as np
import pytest

from geomkit.mesh.shapes import box, cylinder, grid, icosphere, torus

CLOSED = [icosphere(0), icosphere(3), box(), box((1, 2, 3)), torus(), cylinder(), cylinder(sections=3)]


@pytest.mark.parametrize("mesh", CLOSED)
def test_closed_manifold_and_outwards(mesh):
    t = mesh.topology
    assert t.is_closed_manifold
    assert t.is_welded
    assert t.n_degenerate == t.n_unreferenced == t.n_non_manifold_vertices == 0
    assert mesh.components()[0] == 1
    assert mesh.volume > 0
    assert mesh.dtype == np.float32
    np.testing.assert_allclose(mesh.center, 0, atol=0.26)


@pytest.mark.parametrize("shape", [icosphere, box, torus, cylinder, grid])
def test_dtype(shape):
    mesh = shape(dtype=np.float64)
    assert mesh.dtype == np.float64
    np.testing.assert_array_equal(mesh.vertices_array.astype(np.float32), shape().vertices_array)


class TestIcosphere:
    @pytest.mark.parametrize("n", range(5))
    def test_counts(self, n):
        mesh = icosphere(n)
        assert (mesh.n_vertices, mesh.n_faces) == (10 * 4**n + 2, 20 * 4**n)

    def test_vertices_lie_on_the_sphere(self):
        mesh = icosphere(3, radius=2.5, dtype=np.float64)
        np.testing.assert_allclose(np.linalg.norm(mesh.vertices_array, axis=1), 2.5, rtol=1e-15)

    def test_icosahedron(self):
        mesh = icosphere(0, dtype=np.float64)
        edge = 4 / np.sqrt(10 + 2 * np.sqrt(5))
        assert mesh.volume == pytest.approx(5 / 12 * (3 + 5**0.5) * edge**3, rel=1e-14)
        assert mesh.area == pytest.approx(5 * 3**0.5 * edge**2, rel=1e-14)

    def test_volume_converges_with_order_two(self):
        error = [4 / 3 * np.pi - icosphere(n, dtype=np.float64).volume for n in (3, 4, 5)]
        assert error[0] / error[1] == pytest.approx(4, rel=0.02)
        assert error[1] / error[2] == pytest.approx(4, rel=0.01)


def test_box_spans_its_extents():
    mesh = box((1, 2, 3))
    assert mesh.bounds.tolist() == [[-0.5, -1, -1.5], [0.5, 1, 1.5]]
    assert (mesh.n_vertices, mesh.n_faces) == (8, 12)


class TestTorus:
    def test_vertices_lie_on_the_torus(self):
        x, y, z = torus(2, 0.5, dtype=np.float64).vertices_array.T
        np.testing.assert_allclose((np.hypot(x, y) - 2) ** 2 + z**2, 0.25, rtol=1e-13)

    def test_genus(self):
        assert torus().topology.genus == 1

    def test_volume_converges_with_order_two(self):
        exact = 2 * np.pi**2 * 1 * 0.4**2
        volume = [torus(major_sections=2 * n, minor_sections=n, dtype=np.float64).volume for n in (32, 64)]
        assert (exact - volume[0]) / (exact - volume[1]) == pytest.approx(4, rel=0.02)


class TestCylinder:
    def test_volume(self):
        mesh = cylinder(2, 3, sections=64, dtype=np.float64)
        assert mesh.volume == pytest.approx(3 * 32 * 4 * np.sin(np.pi / 32), rel=1e-14)

    def test_open_tube(self):
        mesh = cylinder(sections=5, caps=False)
        assert mesh.topology.n_boundary == 10
        assert (mesh.n_vertices, mesh.n_faces) == (10, 10)


class TestGrid:
    def test_value(self):
        mesh = grid(3, 2, (6, 4))
        assert (mesh.n_vertices, mesh.n_faces) == (12, 12)
        assert mesh.bounds.tolist() == [[-3, -2, 0], [3, 2, 0]]
        assert mesh.area == 24
        assert (mesh.face_normals == [0, 0, 1]).all()
        assert mesh.vertices_array[1 * 3 + 2].tolist() == [-1, 2, 0]

    def test_rim(self):
        assert grid(3, 2).topology.n_boundary == 10


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: icosphere(-1), "icosphere: subdivisions: expected an integer of at least 0, got -1"),
        (lambda: icosphere(1.5), "icosphere: subdivisions: expected an integer of at least 0, got 1.5"),
        (lambda: icosphere(1, 0), "icosphere: radius: expected a positive number, got 0"),
        (lambda: box((1, 2)), "box: extents: expected three positive numbers, got (1, 2)"),
        (lambda: box((1, 2, 0)), "box: extents: expected three positive numbers, got (1, 2, 0)"),
        (lambda: torus(1, 1), "torus: minor_radius: expected less than major_radius 1, got 1"),
        (lambda: torus(minor_sections=2), "torus: minor_sections: expected an integer of at least 3, got 2"),
        (lambda: cylinder(float("nan")), "cylinder: radius: expected a positive number, got nan"),
        (lambda: cylinder(sections=2), "cylinder: sections: expected an integer of at least 3, got 2"),
        (lambda: grid(0, 1), "grid: nx: expected an integer of at least 1, got 0"),
        (lambda: grid(1, 1, (1, -1)), "grid: size: expected two positive numbers, got (1, -1)"),
    ],
)
def test_error(call, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        call()
