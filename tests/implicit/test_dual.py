"""Surface nets and dual contouring: values, edges, errors, gradients, devices."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import cuda
from tests.implicit.surfaces import edges_of, grid, sphere


def nets(field, *arguments, **options):
    return gk.surface_nets(field, *arguments, **options)


def contouring(field, *arguments, **options):
    """With the normals of central differences."""
    normals = np.stack(np.gradient(np.asarray(field, np.float64)), axis=-1).astype(np.asarray(field).dtype)
    return gk.dual_contouring(field, normals, *arguments, **options)


BOTH = pytest.mark.parametrize("extract", [nets, contouring])


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_sphere(extract, dtype):
    field, h = sphere(33, dtype=dtype)
    mesh = extract(field)
    assert mesh.dtype == dtype and mesh.is_closed and mesh.is_oriented and mesh.euler_characteristic == 2
    assert mesh.volume * h**3 == pytest.approx(4 / 3 * np.pi * 0.7**3, rel=1e-2)
    assert extract(-field).volume < 0


def test_value_means():
    """A vertex a cell, at the mean of the cell's crossings."""
    field = np.random.default_rng(0).normal(size=(5, 6, 40))
    mesh = gk.surface_nets(field)
    cubes = gk.marching_cubes(field)
    below = field < 0
    count = sum(below[a : a + 4, b : b + 5, c : c + 39].astype(int) for a, b, c in np.ndindex(2, 2, 2))
    cells = np.argwhere((count > 0) & (count < 8))
    assert len(cells) == mesh.n_vertices
    for at, vertex in zip(cells[::17], mesh.vertices[::17], strict=True):
        near = ((cubes.vertices >= at) & (cubes.vertices <= at + 1)).all(axis=1)
        assert np.allclose(vertex, cubes.vertices[near].mean(axis=0))


@BOTH
def test_value_spacing_and_origin(extract):
    field, _ = sphere(12)
    plain = extract(field)
    if extract is nets:
        mesh = extract(field, spacing=(1, 2, 3), origin=(5, 6, 7))
        assert np.allclose(mesh.vertices, plain.vertices * [1, 2, 3] + [5, 6, 7])
    mesh = extract(field, spacing=2, origin=(5, 6, 7))
    if extract is nets:
        assert np.allclose(mesh.vertices, plain.vertices * 2 + [5, 6, 7])
    assert ((mesh.vertices - [5, 6, 7]) / 2 >= np.floor(plain.vertices.min(axis=0))).all()


def test_sharp_edges():
    """Dual contouring has the edges and corners of a turned box; surface nets cut them off."""
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    x, y, z, h = grid(30)
    p = np.stack([x, y, z], axis=-1) @ turn
    q = np.abs(p)
    field = q.max(axis=-1) - 0.5
    side = np.argmax(q, axis=-1)
    normals = (np.eye(3)[side] * np.sign(p)) @ turn.T
    sharp = gk.dual_contouring(field, normals, spacing=h, origin=-1, regularization=1e-3)
    blunt = gk.surface_nets(field, spacing=h, origin=-1)
    assert sharp.is_closed
    off = [np.abs(np.abs(m.vertices @ turn).max(axis=1) - 0.5).max() for m in (sharp, blunt)]
    assert off[0] < 0.25 * h < 0.4 * h < off[1]
    assert abs(sharp.volume - 1) < 0.3 * abs(blunt.volume - 1)


@BOTH
def test_closed_and_oriented(extract):
    rng = np.random.default_rng(0)
    for n in range(200):
        shape = tuple(rng.integers(2, 7, 3)) if n else (5, 5, 70)
        field = rng.normal(size=shape) if n % 2 else rng.integers(-2, 3, shape).astype(float)
        mesh = extract(field, boundary="cap")
        _, count, sign = edges_of(mesh.faces)
        assert not sign.any() and (count % 2 == 0).all() and np.isfinite(mesh.vertices).all()
        assert len(np.unique(mesh.faces)) == mesh.n_vertices
        cell = mesh.vertices[mesh.faces]
        assert (cell.max(axis=1) - cell.min(axis=1) <= 2 + 1e-9).all()


@BOTH
def test_edge_nan(extract):
    field = np.random.default_rng(2).normal(size=(6, 6, 40))
    field[3, 3, 31] = field[0, 0, 0] = np.nan
    normals = np.random.default_rng(3).normal(size=(6, 6, 40, 3))
    mesh = nets(field) if extract is nets else gk.dual_contouring(field, normals)
    assert np.isfinite(mesh.vertices).all() and mesh.n_faces
    assert not ((mesh.vertices > [2, 2, 30]) & (mesh.vertices < [4, 4, 32])).all(axis=1).any()


def test_edge_empty():
    for shape in ((0, 0, 0), (1, 4, 4), (4, 4, 4)):
        for mesh in (gk.surface_nets(np.ones(shape)), gk.dual_contouring(np.ones(shape), np.zeros((*shape, 3)))):
            assert mesh.vertices.shape == (0, 3) and mesh.faces.shape == (0, 3)
        none = np.zeros((0, 3))
        assert gk.surface_nets.adjoint(np.ones(shape), adj_vertices=none).field.shape == shape
        g = gk.dual_contouring.adjoint(np.ones(shape), np.zeros((*shape, 3)), adj_vertices=none)
        assert g.normals.shape == (*shape, 3)


def test_error():
    with pytest.raises(ValueError, match=r"^surface_nets: field: expected \(X, Y, Z\) floats, got \(3, 3\) float64"):
        gk.surface_nets(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="^surface_nets: gradient: expected one of 'edge', 'normal'"):
        gk.surface_nets(np.zeros((3, 3, 3)), gradient="none")
    with pytest.raises(ValueError, match=r"^dual_contouring: normals: expected \(3, 3, 3, 3\) floats, got \(3, 3, 3\)"):
        gk.dual_contouring(np.zeros((3, 3, 3)), np.zeros((3, 3, 3)))
    with pytest.raises(ValueError, match="^dual_contouring: regularization: expected a positive number, got 0"):
        gk.dual_contouring(np.zeros((3, 3, 3)), np.zeros((3, 3, 3, 3)), regularization=0)
    with pytest.raises(ValueError, match=r"^surface_nets.adjoint: adj_vertices: expected \(0, 3\) floats"):
        gk.surface_nets.adjoint(np.ones((3, 3, 3)), adj_vertices=np.zeros((1, 3)))


def steady(shape, seed):
    field = np.random.default_rng(seed).normal(size=shape)
    return np.where(np.abs(field) < 0.1, 0.3, field)


@pytest.mark.parametrize("boundary", ["open", "cap"])
def test_gradient_nets(boundary):
    def forward(field, level, spacing, origin):
        return gk.surface_nets(field, level, spacing=spacing, origin=origin, boundary=boundary).vertices

    def adjoint(field, level, spacing, origin, adj):
        return gk.surface_nets.adjoint(
            field, level, spacing=spacing, origin=origin, boundary=boundary, adj_vertices=adj
        )

    inputs = [steady((4, 5, 36), 0), np.array(0.0), np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])]
    gk.gradcheck(forward, inputs, adjoint=adjoint, step=1e-3)


def test_gradient_contouring():
    """Strongly regularized, so that no vertex is held on its cell's border."""

    def forward(field, normals, level, spacing, origin):
        return gk.dual_contouring(field, normals, level, spacing=spacing, origin=origin, regularization=5.0).vertices

    def adjoint(field, normals, level, spacing, origin, adj):
        return gk.dual_contouring.adjoint(
            field, normals, level, spacing=spacing, origin=origin, regularization=5.0, adj_vertices=adj
        )

    field = steady((4, 5, 34), 0)
    normals = np.random.default_rng(1).normal(size=(4, 5, 34, 3))
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    inputs = [field, normals, np.array(0.0), np.array([0.9, 1.0, 1.1]), np.array([1.0, 2.0, 3.0])]
    gk.gradcheck(forward, inputs, adjoint=adjoint, step=1e-4)


def test_gradient_held_by_the_cell():
    """Vertices on their cells' borders send finite gradients, and none across the border."""
    field, h = sphere(12)
    normals = np.random.default_rng(0).normal(size=(*field.shape, 3))
    mesh = gk.dual_contouring(field, normals, regularization=1e-6)
    held = mesh.vertices == np.round(mesh.vertices)
    assert held.any()
    g = gk.dual_contouring.adjoint(field, normals, regularization=1e-6, adj_vertices=held.astype(float))
    assert (g.field == 0).all() and (g.normals == 0).all()


def test_threads():
    field, before, runs = np.random.default_rng(0).normal(size=(20, 21, 42)), gk.num_threads(), []
    normals = np.random.default_rng(1).normal(size=(*field.shape, 3))
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            mesh = gk.dual_contouring(field, normals)
            g = gk.dual_contouring.adjoint(field, normals, adj_vertices=mesh.vertices)
            runs.append([a.tobytes() for a in (mesh.vertices, mesh.faces, *g)])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
def test_devices():
    xp = cuda.cupy()
    field = np.random.default_rng(0).normal(size=(20, 21, 70))
    normals = np.random.default_rng(1).normal(size=(*field.shape, 3))
    for mesh, found in (
        (gk.surface_nets(field), gk.surface_nets(xp.asarray(field))),
        (gk.dual_contouring(field, normals), gk.dual_contouring(xp.asarray(field), xp.asarray(normals))),
    ):
        np.testing.assert_array_equal(found.faces.get(), mesh.faces)
        np.testing.assert_allclose(found.vertices.get(), mesh.vertices, atol=1e-8)
    g = gk.dual_contouring.adjoint(field, normals, adj_vertices=mesh.vertices)
    other = gk.dual_contouring.adjoint(xp.asarray(field), xp.asarray(normals), adj_vertices=found.vertices)
    for a, b in zip(other, g, strict=True):
        np.testing.assert_allclose(a.get(), b, rtol=1e-6, atol=1e-6 * np.abs(b).max())
