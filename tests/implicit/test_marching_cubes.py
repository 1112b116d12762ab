"""Marching cubes: values, edges, errors, gradients, devices, and the inputs that broke others."""

import tracemalloc

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import cuda
from tests.implicit.surfaces import check_surface, crossings, euler, grid, on_border, refined, sphere

TOPOLOGIES = ("table", "trilinear")


# ---- values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 2, 2), (5, 6, 7), (3, 4, 33), (2, 3, 64), (4, 2, 65)])
def test_value(shape, dtype):
    """Vertices are all the crossings of the grid's edges, to rounding; faces stay within a cell."""
    field = np.random.default_rng(0).normal(size=shape).astype(dtype)
    mesh = gk.marching_cubes(field, 0.25)
    v = mesh.vertices
    assert v.dtype == dtype and mesh.faces.dtype == np.int32
    expected = crossings(field, 0.25)
    assert len(v) == len(expected)
    distance = np.linalg.norm(v[:, None] - expected[None], axis=2)
    assert distance.min(axis=1).max() < 1e-5 and distance.min(axis=0).max() < 1e-5
    corners = v[mesh.faces].astype(np.float64)
    lower = np.floor(corners.min(axis=1) + 1e-6)
    assert (corners.max(axis=1) <= lower + 1 + 1e-6).all()


def test_value_sphere():
    field, h = sphere(48)
    mesh = gk.marching_cubes(field, spacing=h, origin=-1)
    assert mesh.is_closed and mesh.is_oriented and mesh.euler_characteristic == 2
    assert mesh.volume == pytest.approx(4 / 3 * np.pi * 0.7**3, rel=3e-3)
    assert mesh.area == pytest.approx(4 * np.pi * 0.7**2, rel=3e-3)
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - 0.7).max() < h * h


def test_value_order():
    """By row, then axis z, y, x, then k: the same numbers on every machine."""
    field = np.random.default_rng(1).normal(size=(4, 5, 40))
    v = gk.marching_cubes(field).vertices
    whole = v == np.round(v)
    axis = np.argmin(whole, axis=1)
    at = np.floor(v).astype(int)
    keys = [(i, j, 2 - a, k) for (i, j, k), a in zip(at.tolist(), axis.tolist(), strict=True)]
    assert keys == sorted(keys)


def test_value_faces_look_to_larger_values():
    field, _ = sphere(16)
    for sign in (1, -1):
        assert np.sign(gk.marching_cubes(sign * field).volume) == sign


def test_value_spacing_and_origin():
    """Axes in the order of the array (torchmcubes 10); orientation does not depend on spacing (skimage 1771)."""
    x, y, z = np.meshgrid(np.arange(40), np.arange(36), np.arange(25), indexing="ij")
    field = np.sqrt((x - 19.5) ** 2 + (y - 17.0) ** 2 + (z - 12.0) ** 2) - 9.0
    plain = gk.marching_cubes(field)
    mesh = gk.marching_cubes(field, spacing=(1, 2, 5), origin=(10, 20, 30))
    assert np.allclose(mesh.vertices, plain.vertices * [1, 2, 5] + [10, 20, 30]) and mesh.volume > 0
    assert mesh.volume == pytest.approx(10 * plain.volume)
    assert (mesh.bounds.mean(axis=0) == pytest.approx([29.5, 54, 90])) and np.array_equal(mesh.faces, plain.faces)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_closed_and_oriented(topology):
    """1,000 random fields and 1,000 of integers in [-2, 2] at level 0, samples equal to the level among them."""
    rng = np.random.default_rng(0)
    for n in range(1000):
        shape = tuple(rng.integers(2, 8, 3))
        field = rng.normal(size=shape) if n % 2 else rng.integers(-2, 3, shape)
        for boundary in ("open", "cap") if n % 4 < 2 else ("open",):
            mesh = gk.marching_cubes(field, 0, boundary=boundary, topology=topology)
            check_surface(mesh, shape)
            if boundary == "cap":
                assert mesh.is_closed


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_closed_large(topology):
    """Rows of more than one word, and codes of every kind."""
    rng = np.random.default_rng(7)
    for field in (rng.normal(size=(20, 20, 100)), rng.integers(-2, 3, (20, 20, 100))):
        check_surface(gk.marching_cubes(field, 0, topology=topology), field.shape)


def test_trilinear_closed_form():
    """Two opposite corners at -1, the others at h: the interpolant joins them through the cell's middle if h < 1/3."""
    for h, parts in ((0.2, 1), (0.3, 1), (0.4, 2), (1.0, 2)):
        for flip in (1, -1):
            field = np.full((2, 2, 2), h)
            field[0, 0, 0] = field[1, 1, 1] = -1
            mesh = gk.marching_cubes(flip * field, topology="trilinear")
            assert mesh.n_faces == (6 if parts == 1 else 2) and mesh.components()[0] == parts
            assert gk.marching_cubes(flip * field).n_faces == 2


def test_trilinear_euler_characteristic():
    """Random cells and small grids: that of the interpolant, from samples fine enough to agree among themselves."""
    rng = np.random.default_rng(3)
    checked = tubes = 0
    for n in range(120):
        field = rng.normal(size=(2, 2, 2) if n % 3 else (3, 3, 3))
        if n % 3 == 1:
            alternate = np.where(np.indices(field.shape).sum(axis=0) % 2, 1, -1)
            field = np.abs(field) * alternate
        fine = [euler(gk.marching_cubes(refined(field, k), boundary="cap")) for k in (7, 11, 16)]
        if len(set(fine)) > 1:
            continue
        checked += 1
        assert euler(gk.marching_cubes(field, boundary="cap", topology="trilinear")) == fine[0]
        tubes += euler(gk.marching_cubes(field, boundary="cap")) != fine[0]
    assert checked > 80 and tubes > 8


def test_trilinear_known_fields():
    x, y, z, _ = grid(20)
    torus = np.sqrt((np.sqrt(x * x + y * y) - 0.6) ** 2 + z * z) - 0.21
    two = np.minimum((x - 0.5) ** 2, (x + 0.5) ** 2) + y * y + z * z - 0.13
    for topology in TOPOLOGIES:
        assert [euler(gk.marching_cubes(f, topology=topology)) for f in (torus, two)] == [0, 4]


# ---- edges


@pytest.mark.parametrize("shape", [(0, 0, 0), (1, 1, 1), (1, 5, 5), (5, 1, 5), (5, 5, 1), (0, 4, 4)])
def test_edge_no_cells(shape):
    mesh = gk.marching_cubes(np.random.default_rng(0).normal(size=shape))
    assert mesh.vertices.shape == (0, 3) and mesh.faces.shape == (0, 3)
    assert gk.marching_cubes.adjoint(np.zeros(shape), adj_vertices=np.zeros((0, 3))).field.shape == shape


def test_edge_no_surface():
    """Constant fields, levels outside the range (PyMCubes 15)."""
    field, _ = sphere(9)
    for f, level in ((np.zeros((4, 4, 4)), 0.5), (np.ones((3, 3, 3)), 1), (field, 9), (field, -9)):
        mesh = gk.marching_cubes(f, level)
        assert mesh.vertices.shape == (0, 3) and mesh.faces.shape == (0, 3)


def test_edge_cap():
    """Inside that reaches the border: open by default, or closed on the border itself (nii2mesh 2)."""
    full = -np.ones((4, 5, 6))
    assert gk.marching_cubes(full).n_faces == 0
    box = gk.marching_cubes(full, boundary="cap")
    assert box.is_closed and box.volume == pytest.approx(3 * 4 * 5) and box.area == pytest.approx(2 * (12 + 15 + 20))
    assert box.bounds.tolist() == [[0, 0, 0], [3, 4, 5]]
    single = gk.marching_cubes([[[-1.0]]], boundary="cap")
    assert single.n_faces == 8 and (single.vertices == 0).all()
    half = gk.marching_cubes(np.arange(5.0)[:, None, None] + np.zeros((5, 5, 5)), 2.5, boundary="cap")
    assert half.is_closed and half.volume == pytest.approx(2.5 * 16)


@pytest.mark.parametrize("boundary", ["open", "cap"])
def test_edge_nan(boundary):
    """Cells with a NaN at a corner are left out, whatever the rest; nothing else changes."""
    rng = np.random.default_rng(2)
    for shape in ((5, 6, 70), (6, 5, 9), (2, 2, 2)):
        field = rng.normal(size=shape)
        holes = rng.random(shape) < 0.05
        holes[tuple(n // 2 for n in shape)] = True
        mesh = gk.marching_cubes(np.where(holes, np.nan, field), boundary=boundary)
        whole = gk.marching_cubes(field, boundary=boundary)
        assert np.isfinite(mesh.vertices).all() and len(np.unique(mesh.faces)) == mesh.n_vertices
        near = np.zeros(np.array(shape) + 1, bool)
        for c in np.ndindex(2, 2, 2):
            near[tuple(slice(s, s + n) for s, n in zip(c, shape, strict=True))] |= holes
        middle = whole.vertices[whole.faces].astype(np.float64).mean(axis=1)
        kept = ~near[tuple(np.floor(middle).astype(int).T + 1)]
        inner = ((middle != np.round(middle)).all(axis=1)) if boundary == "cap" else np.ones(len(middle), bool)
        expected = whole.vertices[whole.faces[kept & inner]]
        found = mesh.vertices[mesh.faces].astype(np.float64)
        inner = (found.mean(axis=1) != np.round(found.mean(axis=1))).all(axis=1) if boundary == "cap" else slice(None)
        assert np.array_equal(found[inner], expected)
    assert gk.marching_cubes(np.full((4, 4, 4), np.nan)).n_vertices == 0


def test_edge_infinite_and_huge():
    """Infinite samples put the vertex at the finite one, or in the middle; differences that overflow do no harm."""
    field = np.array([-1.0, 1.0])[:, None, None] * np.ones((2, 2, 2), np.float32)
    for a, b, x in ((-np.inf, 1, 1), (-1, np.inf, 0), (-np.inf, np.inf, 0.5), (-3e38, 3e38, 0.5), (-1e-44, 1e-44, 0.5)):
        f = np.where(field < 0, np.float32(a), np.float32(b))
        assert np.allclose(gk.marching_cubes(f).vertices[:, 0], x)
        g = gk.marching_cubes.adjoint(f, adj_vertices=np.ones((4, 3)))
        assert np.isfinite(g.field).all() and np.isfinite(g.level)


def test_edge_level_on_samples():
    """Samples equal to the level are outside: triangles without area, and still closed."""
    field = np.abs(np.indices((7, 7, 7)) - 3).sum(axis=0) - 2.0
    mesh = gk.marching_cubes(field)
    check_surface(mesh, field.shape)
    assert mesh.is_closed and mesh.euler_characteristic == 2 and (mesh.face_areas == 0).any()
    assert mesh.volume == pytest.approx(4 / 3 * 2**3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16, ">f8"])
def test_edge_dtypes_and_layouts(dtype):
    field = np.random.default_rng(0).integers(0, 9, (6, 7, 8)).astype(dtype)
    expected = gk.marching_cubes(field.astype(np.float64), 4.5)
    for given in (field, np.asfortranarray(field), np.repeat(field, 2, axis=2)[:, :, ::2], field.tolist()):
        mesh = gk.marching_cubes(given, 4.5)
        assert np.allclose(mesh.vertices, expected.vertices) and np.array_equal(mesh.faces, expected.faces)


def test_edge_far_from_origin():
    field, h = sphere(12)
    mesh = gk.marching_cubes(field, spacing=h, origin=1e6)
    assert np.abs(np.linalg.norm(mesh.vertices - 1e6 - 1, axis=1) - 0.7).max() < h * h


def test_memory():
    """The peak is the input, the output, and a tenth of the input."""
    field, _ = sphere(96, dtype=np.float32)
    gk.marching_cubes(field)
    tracemalloc.start()
    try:
        mesh = gk.marching_cubes(field)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < mesh.vertices.nbytes + mesh.faces.nbytes + 0.1 * field.nbytes + 50_000


# ---- the inputs of other people's reports


def test_no_repeated_face():
    """skimage 8109: a middle-face test that comes out 0."""
    field = np.array([[[13, -1], [-1, -7]], [[-1, 1], [7, -7]], [[15, -9], [-3, -1]]])
    for topology in TOPOLOGIES:
        check_surface(gk.marching_cubes(field, 0, topology=topology), field.shape)


def test_first_sample_counts():
    """skimage 8202: only the first sample is positive, and it is masked out."""
    field = np.where(np.arange(8).reshape(2, 2, 2) == 0, 1.0, -1.0)
    assert gk.marching_cubes(field).n_faces == 1
    field[0, 0, 0] = np.nan
    assert gk.marching_cubes(field).n_faces == 0


def test_not_cubic():
    """pytorch3d 1641, 1731: an ellipsoid on a grid that is no cube."""
    half = np.array([50, 60, 16]) / 4
    n = (half * 2 + 5).astype(int)
    p = np.stack(np.meshgrid(*map(np.arange, n), indexing="ij"), axis=-1) - (n - 1) / 2
    mesh = gk.marching_cubes(np.sqrt(((p / half) ** 2).sum(axis=-1)), 1.0)
    assert np.allclose(mesh.bounds, (n - 1) / 2 + [-half, half], atol=0.05) and mesh.euler_characteristic == 2


def test_corner_convention():
    """pytorch3d 185: a block of 2**3 samples in 4**3 has its faces half a sample outside of it."""
    field = np.ones((4, 4, 4))
    field[1:3, 1:3, 1:3] = -1
    assert gk.marching_cubes(field).bounds.tolist() == [[0.5] * 3, [2.5] * 3]


def test_checkerboard():
    """torchmcubes 7: holes in plain marching cubes."""
    field = np.where(np.indices((7, 8, 9)).sum(axis=0) % 2, 1.0, -1.0)
    for topology in TOPOLOGIES:
        check_surface(gk.marching_cubes(field, topology=topology), field.shape)
        assert gk.marching_cubes(field, topology=topology, boundary="cap").is_closed


def test_shell():
    """warp 324: a shell of -1, one sample thick, around a block of +1 has both its sides."""
    field = np.ones((9, 9, 9))
    field[2:7, 2:7, 2:7] = -1
    field[3:6, 3:6, 3:6] = 1
    mesh = gk.marching_cubes(field)
    assert mesh.is_closed and mesh.components()[0] == 2
    assert mesh.bounds.tolist() == [[1.5] * 3, [6.5] * 3]
    assert mesh.volume == pytest.approx(gk.marching_cubes(np.where(field < 0, -1, field)).volume)


# ---- errors


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((np.zeros((3, 3)),), {}, r"field: expected \(X, Y, Z\) floats, got \(3, 3\) float64"),
        ((np.zeros((3, 3, 3), complex),), {}, "field: expected .* got .* complex128"),
        ((np.zeros((3, 3, 3)), np.nan), {}, "level: expected a finite number in the range of float64, got nan"),
        ((np.zeros((3, 3, 3), np.float32), 1e39), {}, "level: expected a finite number in the range of float32"),
        ((np.zeros((3, 3, 3)), "a"), {}, "level: expected"),
        ((np.zeros((3, 3, 3)),), {"spacing": 0}, "spacing: expected positive numbers, got 0"),
        ((np.zeros((3, 3, 3)),), {"spacing": (1, -1, 1)}, "spacing: expected positive numbers"),
        ((np.zeros((3, 3, 3)),), {"spacing": (1, 1)}, r"spacing: expected \(3,\) floats, got \(2,\) int64"),
        ((np.zeros((3, 3, 3)),), {"origin": np.inf}, "origin: expected finite numbers, got inf"),
        ((np.zeros((3, 3, 3), np.float32),), {"spacing": 1e38}, "spacing, origin: expected a grid within the range"),
        ((np.zeros((3, 3, 3)),), {"boundary": "closed"}, "boundary: expected one of 'open', 'cap', got 'closed'"),
        ((np.zeros((3, 3, 3)),), {"gradient": 1}, "gradient: expected one of 'edge', 'normal', got 1"),
        ((np.zeros((3, 3, 3)),), {"topology": "mc33"}, "topology: expected one of 'table', 'trilinear', got 'mc33'"),
    ],
)
def test_error(arguments, options, text):
    with pytest.raises((ValueError, TypeError), match=f"^marching_cubes: {text}"):
        gk.marching_cubes(*arguments, **options)


def test_error_adjoint():
    field, _ = sphere(8)
    mesh = gk.marching_cubes(field)
    with pytest.raises(ValueError, match=rf"marching_cubes.adjoint: adj_vertices: expected \({mesh.n_vertices}, 3\)"):
        gk.marching_cubes.adjoint(field, adj_vertices=np.zeros((3, 3)))
    for other in (gk.marching_cubes(field, 0.1), gk.shapes.box(), 5):
        with pytest.raises(ValueError, match="adjoint: result: expected the mesh of this field, level and boundary"):
            gk.marching_cubes.adjoint(field, adj_vertices=mesh.vertices, result=other)


def test_error_memory(monkeypatch):
    """One error that can be caught (skimage 5519, 7377)."""
    from geomkit.implicit import marching_cubes as module

    def full(device, shape, dtype):
        if isinstance(shape, tuple):
            raise MemoryError
        return np.empty(shape, dtype)

    monkeypatch.setattr(module, "empty", full)
    with pytest.raises(MemoryError, match="field: expected a surface that fits in memory, got one of .* vertices"):
        gk.marching_cubes(sphere(8)[0])


# ---- gradients


def steady(shape, seed):
    """Samples away from the level, so that no small step changes a sign."""
    field = np.random.default_rng(seed).normal(size=shape)
    return np.where(np.abs(field) < 0.05, 0.3, field)


@pytest.mark.parametrize("boundary", ["open", "cap"])
@pytest.mark.parametrize("shape", [(4, 5, 6), (3, 2, 37), (2, 9, 3)])
def test_gradient(shape, boundary):
    def forward(field, level, spacing, origin):
        return gk.marching_cubes(field, level, spacing=spacing, origin=origin, boundary=boundary).vertices

    def adjoint(field, level, spacing, origin, adj):
        return gk.marching_cubes.adjoint(
            field, level, spacing=spacing, origin=origin, boundary=boundary, adj_vertices=adj
        )

    inputs = [steady(shape, 0), np.array(0.0), np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])]
    gk.gradcheck(forward, inputs, adjoint=adjoint, step=1e-3)
    gk.gradcheck(forward, [*inputs[:2], np.array(0.7), np.array(-1.0)], adjoint=adjoint, step=1e-3)


def test_gradient_nan():
    field = steady((5, 5, 40), 1)
    field[2, 2, 20] = field[4, 0, 33] = np.nan
    mesh = gk.marching_cubes(field)
    adj = np.random.default_rng(0).normal(size=mesh.vertices.shape)
    g = gk.marching_cubes.adjoint(field, adj_vertices=adj).field
    at = np.argwhere(np.isfinite(field))[::7]
    for i in map(tuple, at):
        moved = [field.copy(), field.copy()]
        moved[0][i] += 1e-4
        moved[1][i] -= 1e-4
        slope = (gk.marching_cubes(moved[0]).vertices - gk.marching_cubes(moved[1]).vertices) / 2e-4
        assert (slope * adj).sum() == pytest.approx(g[i], rel=1e-4, abs=1e-6)


def volume_gradient(mesh):
    corners = mesh.vertices[mesh.faces]
    adj = np.zeros_like(mesh.vertices)
    for k in range(3):
        np.add.at(adj, mesh.faces[:, k], np.cross(corners[:, (k + 1) % 3], corners[:, (k + 2) % 3]) / 6)
    return adj


@pytest.mark.parametrize("gradient", ["edge", "normal"])
def test_gradient_of_a_volume_is_the_area(gradient):
    field, h = sphere(64)
    mesh = gk.marching_cubes(field, spacing=h, origin=-1)
    g = gk.marching_cubes.adjoint(
        field, spacing=h, origin=-1, gradient=gradient, adj_vertices=volume_gradient(mesh), result=mesh
    )
    area = 4 * np.pi * 0.7**2
    assert float(g.level) == pytest.approx(area, rel=1e-3)
    assert g.field.sum() == pytest.approx(-area, rel=1e-3)
    assert float(g.spacing) == pytest.approx(3 * mesh.volume / h, rel=1e-2)
    assert float(g.origin) == pytest.approx(0, abs=1e-9)


def test_gradient_modes_agree_along_the_normal():
    """On a true distance field; and the second mode stays small where the surface is parallel to a grid line."""
    normal = np.array([0.6, 0.48, 0.64])
    field = np.indices((9, 8, 7)).transpose(1, 2, 3, 0) @ normal - 6.1
    adj = np.outer(np.random.default_rng(0).normal(size=gk.marching_cubes(field).n_vertices), normal)
    edge, other = (gk.marching_cubes.adjoint(field, gradient=g, adj_vertices=adj) for g in ("edge", "normal"))
    np.testing.assert_allclose(edge.field, other.field, atol=1e-12)
    assert float(edge.level) == pytest.approx(float(other.level))
    ball, h = sphere(65)
    mesh = gk.marching_cubes(ball, spacing=h, origin=-1)
    adj = mesh.vertices * np.random.default_rng(1).normal(size=(mesh.n_vertices, 1))
    edge, other = (
        gk.marching_cubes.adjoint(ball, spacing=h, origin=-1, gradient=g, adj_vertices=adj) for g in ("edge", "normal")
    )
    assert np.linalg.norm(edge.field - other.field) < 0.04 * np.linalg.norm(edge.field)
    flat = np.indices((5, 5, 5))[2] - 2.5 + 1e-9 * np.random.default_rng(2).normal(size=(5, 5, 5))
    flat[2, 2, 2], flat[2, 3, 2] = 1e-7, -1e-7
    adj = np.ones_like(gk.marching_cubes(flat).vertices)
    edge, other = (gk.marching_cubes.adjoint(flat, gradient=g, adj_vertices=adj) for g in ("edge", "normal"))
    assert np.abs(edge.field).max() > 1e5 and np.abs(other.field).max() < 50


def test_gradient_result_saves_work():
    field = steady((9, 8, 70), 3)
    for boundary in ("open", "cap"):
        mesh = gk.marching_cubes(field, boundary=boundary)
        adj = np.random.default_rng(0).normal(size=mesh.vertices.shape)
        fresh = gk.marching_cubes.adjoint(field, boundary=boundary, adj_vertices=adj)
        known = gk.marching_cubes.adjoint(field, boundary=boundary, adj_vertices=adj, result=mesh)
        assert all(np.array_equal(a, b) for a, b in zip(fresh, known, strict=True))


def test_gradient_blocks_do_not_show(monkeypatch):
    from geomkit.implicit import marching_cubes as module

    field = steady((9, 8, 40), 4)
    mesh = gk.marching_cubes(field)
    adj = np.random.default_rng(0).normal(size=mesh.vertices.shape)
    found = []
    for blocks in (1, 3, 96, 1000):
        monkeypatch.setattr(module, "BLOCKS", blocks)
        found.append(gk.marching_cubes.adjoint(field, adj_vertices=adj))
    assert all(np.array_equal(g.field, found[0].field) for g in found)
    assert np.allclose([g.spacing for g in found], found[0].spacing)


# ---- devices


def test_threads():
    field, before, runs = np.random.default_rng(0).normal(size=(40, 41, 42)), gk.num_threads(), []
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            mesh = gk.marching_cubes(field, topology="trilinear")
            g = gk.marching_cubes.adjoint(field, adj_vertices=mesh.vertices)
            runs.append([a.tobytes() for a in (mesh.vertices, mesh.faces, *g)])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


def test_libraries():
    torch = pytest.importorskip("torch")
    field, _ = sphere(9, dtype=np.float32)
    mesh = gk.marching_cubes(torch.from_numpy(field))
    assert isinstance(mesh.vertices, torch.Tensor) and isinstance(mesh.faces, torch.Tensor)
    g = gk.marching_cubes.adjoint(torch.from_numpy(field), adj_vertices=torch.ones_like(mesh.vertices))
    assert isinstance(g.field, torch.Tensor) and g.level.shape == () and g.level.dtype == torch.float32
    tracked = torch.from_numpy(field).requires_grad_()
    gk.marching_cubes(tracked).vertices.sum().backward()
    np.testing.assert_array_equal(tracked.grad, g.field)


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
@pytest.mark.parametrize("boundary", ["open", "cap"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_devices(dtype, topology, boundary):
    xp = cuda.cupy()
    field = np.random.default_rng(0).normal(size=(20, 21, 70)).astype(dtype)
    for holes in (False, True):
        if holes:
            field[3, 4, 5] = np.nan
        given = {"boundary": boundary, "topology": topology, "spacing": (0.5, 1, 2)}
        mesh, found = gk.marching_cubes(field, **given), gk.marching_cubes(xp.asarray(field), **given)
        np.testing.assert_array_equal(found.faces.get(), mesh.faces)
        np.testing.assert_allclose(found.vertices.get(), mesh.vertices, atol=1e-5)
        for gradient in ("edge", "normal"):
            g = gk.marching_cubes.adjoint(field, **given, gradient=gradient, adj_vertices=mesh.vertices)
            other = gk.marching_cubes.adjoint(
                xp.asarray(field), **given, gradient=gradient, adj_vertices=xp.asarray(mesh.vertices)
            )
            scale = np.abs(g.field[np.isfinite(g.field)]).max()
            np.testing.assert_allclose(other.field.get(), g.field, rtol=1e-3, atol=1e-4 * scale)


def test_reference_border():
    assert on_border(np.array([[0.0, 1, 2], [1, 1, 1]]), (3, 3, 3)).tolist() == [
        [True, False, False, False, False, True],
        [False] * 6,
    ]
