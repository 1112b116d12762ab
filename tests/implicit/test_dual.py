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


def contouring_reference(field, normals, weight):
    """(V, 3) vertices of dual contouring by least squares, one cell at a time."""
    found = []
    below = field < 0
    for cell in np.ndindex(*(n - 1 for n in field.shape)):
        points, planes = [], []
        for axis in range(3):
            for a, b in np.ndindex(2, 2):
                low = np.insert([a, b], axis, 0) + cell
                high = low + np.eye(3, dtype=int)[axis]
                s, e = field[tuple(low)], field[tuple(high)]
                if below[tuple(low)] != below[tuple(high)]:
                    t = s / (s - e)
                    points.append(low + t * (high - low))
                    planes.append((1 - t) * normals[tuple(low)] + t * normals[tuple(high)])
        if points:
            points, planes = np.array(points), np.array(planes)
            mean, pull = points.mean(axis=0), np.sqrt(weight * len(points))
            rows = np.concatenate([planes, pull * np.eye(3)])
            right = np.concatenate([(planes * (points - mean)).sum(axis=1), np.zeros(3)])
            x = mean + np.linalg.lstsq(rows, right, rcond=None)[0]
            found.append(np.clip(x, cell, np.add(cell, 1)))
    return np.array(found)


@pytest.mark.parametrize("weight", [10.0, 1e-2, 1e-6])
def test_value_contouring(weight):
    """On a ball, whose planes nearly agree, and on noise."""
    rng = np.random.default_rng(0)
    x, y, z, _ = grid(9)
    ball = np.sqrt((x - 3) ** 2 + (y - 2) ** 2 + z**2) - 3.6
    for field, normals in (
        (ball, np.stack([x - 3, y - 2, z], axis=-1) / (ball + 3.6)[..., None]),
        (rng.normal(size=(5, 4, 6)), rng.normal(size=(5, 4, 6, 3))),
    ):
        expected = contouring_reference(field, normals, weight)
        assert np.allclose(
            gk.dual_contouring(field, normals, regularization=weight).vertices, expected, atol=1e-9 / min(weight, 1)
        )


@pytest.mark.parametrize("scale", [1e-140, 1e-10, 1e10, 1e140, 1e200])
def test_value_contouring_scales(scale):
    """Only the normals' lengths in relation to the pull matter; their squares may leave the range of floats."""
    rng = np.random.default_rng(0)
    field, normals = rng.normal(size=(4, 5, 6)), rng.normal(size=(4, 5, 6, 3))
    weight, same = (0.1 * scale**2, 0.1) if scale < 1e150 else (0.1, 1e-11)
    expected = gk.dual_contouring(field, normals, regularization=same)
    mesh = gk.dual_contouring(field, normals * scale, regularization=weight)
    assert np.allclose(mesh.vertices, expected.vertices)
    g = gk.dual_contouring.adjoint(field, normals * scale, regularization=weight, adj_vertices=mesh.vertices)
    other = gk.dual_contouring.adjoint(field, normals, regularization=same, adj_vertices=mesh.vertices)
    assert np.allclose(g.field, other.field) and np.allclose(g.normals * scale, other.normals)


@pytest.mark.parametrize("weight", [1e-300, 1e-160, 1e-12])
def test_edge_weak_pull(weight):
    """Where the planes say little, the vertex stays at the mean in all other directions."""
    p = np.stack(np.meshgrid(*[np.arange(6.0)] * 3, indexing="ij"), axis=-1)
    normal = np.array([1, 2, 3]) / np.sqrt(14)
    field = p @ normal - 5.0
    plain = gk.surface_nets(field).vertices
    for normals in (np.broadcast_to(normal, p.shape), np.zeros(p.shape)):
        mesh = gk.dual_contouring(field, normals, regularization=weight)
        assert np.allclose(mesh.vertices, plain, atol=1e-6)
        g = gk.dual_contouring.adjoint(field, normals, regularization=weight, adj_vertices=mesh.vertices)
        assert all(np.isfinite(a).all() for a in g)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_edge_normals_not_finite(bad):
    """They count as none, so that those of differences beside a NaN do no harm."""
    rng = np.random.default_rng(0)
    field, normals = rng.normal(size=(6, 6, 12)), rng.normal(size=(6, 6, 12, 3))
    lost = rng.random(field.shape) < 0.2
    given = np.where(lost[..., None], [bad, 0, 1], normals)
    mesh = gk.dual_contouring(field, given)
    expected = np.where(lost[..., None], 0, normals)
    assert np.array_equal(mesh.vertices, gk.dual_contouring(field, expected).vertices)
    g = gk.dual_contouring.adjoint(field, given, adj_vertices=mesh.vertices)
    other = gk.dual_contouring.adjoint(field, expected, adj_vertices=mesh.vertices)
    assert (g.normals[lost] == 0).all() and np.array_equal(g.normals[~lost], other.normals[~lost])
    assert all(np.array_equal(a, b) for a, b in zip(g[:1] + g[2:], other[:1] + other[2:], strict=True))


def test_edge_normals_beside_the_edge():
    """Only the two samples of an edge count for the normal at its crossing, and padding has the border's."""
    rng = np.random.default_rng(0)
    field, normals = rng.normal(size=(5, 6, 37)), rng.normal(size=(5, 6, 37, 3))
    inside = field < 0
    away = np.ones(field.shape, bool)
    for axis in range(3):
        crossed = np.diff(inside, axis=axis)
        for low in (True, False):
            part = [slice(None)] * 3
            part[axis] = slice(None, -1) if low else slice(1, None)
            away[tuple(part)] &= ~crossed
    assert away.any()
    other = np.where(away[..., None], 1e3, normals)
    mesh = gk.dual_contouring(field, normals)
    assert np.array_equal(gk.dual_contouring(field, other).vertices, mesh.vertices)
    g = gk.dual_contouring.adjoint(field, other, adj_vertices=mesh.vertices)
    assert (g.normals[away] == 0).all() and (g.normals[~away] != 0).any()
    ramp = np.broadcast_to(np.arange(4.0)[:, None, None] - 1.3, (4, 4, 4))
    capped = gk.dual_contouring(ramp, np.broadcast_to([1.0, 0, 0], (4, 4, 4, 3)), boundary="cap")
    assert capped.is_closed and np.allclose(capped.bounds[1], [1.3, 3, 3], atol=0.01)


@BOTH
def test_edge_far_from_origin(extract):
    """Vertices are as exact as float32 can say where they are."""
    field = np.random.default_rng(0).normal(size=(6, 7, 8)).astype(np.float32)
    exact = extract(field.astype(np.float64), spacing=0.01).vertices + 1000
    off = np.abs(extract(field, spacing=0.01, origin=1000).vertices - exact).max()
    assert off <= 0.6 * np.spacing(np.float32(1000))


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


@pytest.mark.parametrize("boundary", ["open", "cap"])
def test_gradient_contouring_held(boundary):
    """A vertex held on its cell's border moves with the cell."""

    def forward(field, normals, level, spacing, origin):
        return gk.dual_contouring(field, normals, level, spacing=spacing, origin=origin, boundary=boundary).vertices

    def adjoint(field, normals, level, spacing, origin, adj):
        return gk.dual_contouring.adjoint(
            field, normals, level, spacing=spacing, origin=origin, boundary=boundary, adj_vertices=adj
        )

    field, normals = steady((4, 5, 34), 0), np.random.default_rng(1).normal(size=(4, 5, 34, 3))
    inputs = [field, normals, np.array(0.0), np.array([0.9, 1.0, 1.1]), np.array([1.0, 2.0, 3.0])]
    place = (forward(*inputs) - inputs[4]) / inputs[3]
    assert (np.abs(place - np.round(place)) < 1e-12).any(axis=1).mean() > 0.3
    gk.gradcheck(forward, inputs, adjoint=adjoint, step=1e-5)


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
