"""Points drawn from surfaces: values, edges, errors, gradients, devices."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import cuda


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value(dtype):
    mesh = gk.Mesh(
        np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 1], [0, 1, 1]], dtype), [[0, 1, 2], [3, 4, 5]]
    )
    s = gk.sample_surface(mesh, 40_000)
    assert s.points.dtype == dtype and s.face.dtype == np.int32
    corners = mesh.vertices[mesh.faces[s.face]]
    assert np.allclose((corners * s.barycentric[:, :, None]).sum(axis=1), s.points, atol=1e-6)
    assert (s.barycentric >= 0).all() and np.allclose(s.barycentric.sum(axis=1), 1, atol=1e-6)
    assert (s.face == 1).mean() == pytest.approx(0.75, abs=0.01)
    assert np.allclose(s.barycentric.mean(axis=0), 1 / 3, atol=0.01)
    assert np.allclose(s.normal, [0, 0, 1])


def test_seeds():
    mesh = gk.shapes.torus()
    runs = [gk.sample_surface(mesh, 100, seed=seed).points for seed in (0, 0, 1)]
    assert np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])
    assert gk.closest_point(mesh, runs[0]).distance.max() < 1e-6


def test_edge():
    flat = gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0]], [[0, 1, 3], [0, 1, 2], [1, 1, 2]])
    assert (gk.sample_surface(flat, 500).face == 1).all()
    empty = gk.sample_surface(gk.shapes.box(), 0)
    assert empty.points.shape == (0, 3) and empty.face.shape == (0,)
    assert (gk.sample_surface.adjoint(gk.shapes.box(), 0, adj_points=np.zeros((0, 3))).vertices == 0).all()


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e-30, 1e30, 1e160, 1e200])
def test_edge_scales(scale):
    """Points are those of the mesh at its own size, though the squares of areas leave the range of floats."""
    torus = gk.shapes.torus(dtype=np.float64)
    plain, s = gk.sample_surface(torus, 200), gk.sample_surface(torus.with_vertices(torus.vertices * scale), 200)
    assert np.array_equal(s.face, plain.face) and np.allclose(s.points / scale, plain.points)


def test_edge_far_from_origin():
    torus = gk.shapes.torus(dtype=np.float64)
    plain, s = gk.sample_surface(torus, 2000), gk.sample_surface(torus.with_vertices(torus.vertices + 1e8), 2000)
    assert (s.face == plain.face).mean() > 0.99


def test_error():
    box = gk.shapes.box()
    line = gk.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]])
    for mesh in (line, gk.Mesh(np.zeros((3, 3)), np.zeros((0, 3), int))):
        with pytest.raises(ValueError, match="^sample_surface: mesh: expected faces with some area, got Mesh"):
            gk.sample_surface(mesh, 5)
    with pytest.raises(ValueError, match="^sample_surface: n: expected an integer of at least 0, got -1"):
        gk.sample_surface(box, -1)
    with pytest.raises(MemoryError, match="^sample_surface: n: expected a number of points that fits in memory"):
        gk.sample_surface(box, 10**30)
    with pytest.raises(TypeError, match="^sample_surface: seed: expected an integer of at least 0, got float"):
        gk.sample_surface(box, 1, seed=0.5)
    with pytest.raises(ValueError, match=r"^sample_surface.adjoint: adj_points: expected \(5, 3\) floats"):
        gk.sample_surface.adjoint(box, 5, adj_points=np.zeros((4, 3)))


def test_gradient():
    """Faces and weights as they were drawn: the points are linear in the vertices."""
    mesh = gk.shapes.torus(major_sections=7, minor_sections=5, dtype=np.float64)
    s = gk.sample_surface(mesh, 300)

    def forward(v):
        return (v[mesh.faces[s.face]] * s.barycentric[:, :, None]).sum(axis=1)

    gk.gradcheck(
        forward, [mesh.vertices], adjoint=lambda v, adj: [gk.sample_surface.adjoint(mesh, 300, adj_points=adj).vertices]
    )


def test_libraries():
    torch = pytest.importorskip("torch")
    box = gk.shapes.box()
    mesh = gk.Mesh(torch.tensor(box.vertices.copy()), torch.tensor(box.faces.copy()))
    assert isinstance(gk.sample_surface(mesh, 5).points, torch.Tensor)


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
def test_devices():
    xp, mesh = cuda.cupy(), gk.shapes.torus()
    other = gk.Mesh(xp.asarray(mesh.vertices), xp.asarray(mesh.faces))
    a, b = gk.sample_surface(mesh, 1000), gk.sample_surface(other, 1000)
    np.testing.assert_array_equal(b.face.get(), a.face)
    np.testing.assert_allclose(b.points.get(), a.points, atol=1e-6)
    adj = np.random.default_rng(0).normal(size=(1000, 3))
    g, found = (gk.sample_surface.adjoint(m, 1000, adj_points=p) for m, p in ((mesh, adj), (other, xp.asarray(adj))))
    np.testing.assert_allclose(found.vertices.get(), g.vertices, atol=1e-4)
