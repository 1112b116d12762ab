"""What all ray queries share: no leaks, batches, trees, threads, laws, and what is refused."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import geomkit as gk
from geomkit.spatial.bvh import Bvh
from tests.implicit.samples import joined
from tests.reference import ray_crossings, rays_around, rays_to_edges

CLOSED = ("spot_low.obj", "torus.obj", "boxframe.obj", "cubegrid.obj", "sword.obj", "boot.obj", "Offset1.obj")
DOWN = [[0.0, 0.0, -1.0]]
QUERIES = ("cast_rays", "occluded", "count_hits", "all_hits")


def bits(hits):
    return [np.asarray(a).tobytes() for a in (hits.t, hits.face, hits.barycentric, hits.normal, hits.position)]


# ---- no ray leaks


def leaks(mesh, inside, n):
    origins, directions = rays_to_edges(mesh, inside, n)
    assert len(origins) > 0.9 * n
    return int((~gk.cast_rays(mesh, origins, directions).hit).sum() + (~gk.occluded(mesh, origins, directions)).sum())


@pytest.mark.parametrize("name", CLOSED)
def test_leaks_real(name, shared_mesh):
    mesh = shared_mesh(name)
    points = mesh.bounds[0] + np.random.default_rng(0).random((3000, 3)) * np.ptp(mesh.bounds, axis=0)
    points = points.astype(mesh.dtype)
    inside = points[np.abs(gk.winding_number(mesh, points)) > 0.5]
    assert leaks(mesh, inside, 12_000) == 0


@pytest.mark.parametrize(("scale", "shift", "dtype"), [
    (1e-3, 0, np.float32), (1e6, 0, np.float32), (1, 1e5, np.float32), (1e6, 1e5, np.float32),
    (1e-3, 1e5, np.float64), (1e6, 1e5, np.float64), (1, 0, np.float64),
])  # fmt: skip
def test_leaks_sphere(scale, shift, dtype):
    """Small, large and far spheres."""
    ball = gk.shapes.icosphere(4, dtype=np.float64)
    mesh = gk.Mesh((ball.vertices * scale + shift).astype(dtype), ball.faces)
    inside = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 3)) * scale + shift
    assert leaks(mesh, np.concatenate([[[shift] * 3], inside]), 20_000) == 0


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leaks_parallel_to_axes(axis, dtype):
    """Walls of cells whose edges lie in planes of the rays: through corners, edges and cells, both ways."""
    line = np.linspace(-1, 1, 17)
    sheet = gk.shapes.grid(16, 16, (2, 2), dtype=dtype)
    flat = sheet.vertices - sheet.vertices.mean(axis=0)
    normal = np.flatnonzero(np.ptp(flat, axis=0) == 0)[0]
    turned = np.roll(flat, axis - normal, axis=1)
    mesh = joined(*(gk.Mesh(turned + dtype(h) * np.eye(3, dtype=dtype)[axis], sheet.faces) for h in (-1, 1)))
    fine = np.sort(np.concatenate([line, (line[1:] + line[:-1]) / 2]))
    x, y = (a.ravel() for a in np.meshgrid(fine, fine))
    origins = np.roll(np.stack([x, y, np.full(x.size, 0.25)], 1), axis + 1, axis=1).astype(dtype)
    for sign in (-1, 1):
        hits = gk.cast_rays(mesh, origins, np.tile(sign * np.eye(3)[axis], (x.size, 1)))
        assert (hits.t == 1 - 0.25 * sign).all()


def uv_sphere(sections=48, rings=24):
    """Triangles long and short, and poles where many meet."""
    polar, turn = np.linspace(0, np.pi, rings + 1)[:, None], np.arange(sections) * 2 * np.pi / sections
    x, y, z = np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar) + 0 * turn
    vertices = np.stack([x, y, z], 2).reshape(-1, 3)
    row, column = (a.ravel() for a in np.meshgrid(np.arange(rings), np.arange(sections), indexing="ij"))
    a, b = row * sections + column, row * sections + (column + 1) % sections
    c, d = a + sections, b + sections
    vertices, inverse = np.unique(vertices.astype(np.float32).round(6), axis=0, return_inverse=True)
    faces = inverse.reshape(-1)[np.concatenate([np.stack([a, c, d], 1), np.stack([a, d, b], 1)])]
    sides = np.sort(faces, axis=1)
    return gk.Mesh(vertices, faces[(sides[:, :-1] != sides[:, 1:]).all(axis=1)])


def test_leaks_from_outside():
    """Through random points of edges of a sphere, those that face the origin (mitsuba3 1149)."""
    mesh = uv_sphere()
    origins, directions = rays_to_edges(mesh, [[9.0, 4.0, 5.0], [0.0, 0.0, 30.0], [-20.0, 1.0, 0.5]], 40_000)
    target = origins.astype(np.float64) + directions
    facing = -(target * directions).sum(axis=1) > 0.2 * np.linalg.norm(directions, axis=1)
    hits = gk.cast_rays(mesh, origins, directions)
    assert mesh.topology.is_closed and facing.sum() > 10_000
    assert hits.hit[facing].all() and np.abs(hits.t[facing] - 1).max() < 1e-5


# ---- one ray, many rays, any tree


def test_alone_as_in_a_batch(shared_mesh):
    """One ray alone is answered as in a batch of many (trimesh 306, 1362), near neighbours or not, in all outputs."""
    mesh = shared_mesh("spot.obj")
    x, y = np.meshgrid(np.linspace(-0.4, 0.4, 100), np.linspace(-0.4, 0.4, 100))
    pinhole = np.stack([x.ravel(), y.ravel(), np.full(x.size, -1)], 1)
    eye = np.tile(mesh.center + [0, 0, 1.5 * mesh.diagonal], (len(pinhole), 1))
    origins, directions = rays_around(mesh, 10_000)
    origins, directions = np.concatenate([origins, eye]), np.concatenate([directions, pinhole])
    hits = gk.cast_rays(mesh, origins, directions)
    arrays = hits.t, hits.face, hits.barycentric, hits.normal, hits.position
    for some in ([0], [11], slice(3, 5), slice(7, 20), slice(100, 800), slice(9990, 10_300), slice(15_000, 20_000, 3)):
        part = gk.cast_rays(mesh, origins[some], directions[some])
        assert bits(part) == [np.ascontiguousarray(a[some]).tobytes() for a in arrays]


def test_many_rays():
    """More rays than any count kept in 16 bits, as in parts (kaolin 487)."""
    mesh, n = gk.shapes.box(), 400_000
    origins = np.random.default_rng(0).uniform(-1, 1, (n, 3)).astype(np.float32)
    whole = gk.cast_rays(mesh, origins, -origins)
    parts = [gk.cast_rays(mesh, origins[i : i + 30_000], -origins[i : i + 30_000]).t for i in range(0, n, 30_000)]
    assert np.array_equal(whole.t, np.concatenate(parts))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trees_agree(dtype, shared_mesh):
    """The tree says where to look, not what is found."""
    mesh = shared_mesh("spot_low.obj", dtype=dtype)
    other = mesh.copy()
    other.__dict__["bvh"] = Bvh(mesh.vertices_array, mesh.faces_array, mesh.center, method="morton")
    aimed = rays_to_edges(mesh, mesh.center[None], 5000)
    origins, directions = (np.concatenate(a) for a in zip(rays_around(mesh, 5000), aimed, strict=True))
    assert other.bvh.nodes.tobytes() != mesh.bvh.nodes.tobytes()
    assert bits(gk.cast_rays(mesh, origins, directions)) == bits(gk.cast_rays(other, origins, directions))


def test_threads(shared_mesh):
    """Hits and gradients are the same bits from one, two and five threads."""
    mesh, before, runs = shared_mesh("spot.obj"), gk.num_threads(), []
    origins, directions = rays_around(mesh, 5000)
    adj = np.random.default_rng(0).normal(size=(5000, 3))
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            fresh = mesh.copy()
            g = gk.cast_rays.adjoint(fresh, origins, directions, adj_t=adj[:, 0], adj_normal=adj, adj_position=adj)
            runs.append(bits(gk.cast_rays(fresh, origins, directions)) + [a.tobytes() for a in g])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


def test_python_threads_and_pickle():
    """Eight threads of Python cast rays at one mesh at once; a pickled mesh is hit alike (python-embree 4)."""
    mesh = gk.shapes.icosphere(4)
    rays = [rays_around(mesh, 3000, seed) for seed in range(8)]
    twin = pickle.loads(pickle.dumps(mesh))
    expected = [bits(gk.cast_rays(twin, *r)) for r in rays]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda r: bits(gk.cast_rays(mesh, *r)), rays)) == expected


# ---- laws

ANGLES = st.floats(-3.2, 3.2, allow_subnormal=False)


@settings(max_examples=25, deadline=None)
@given(ANGLES, ANGLES, ANGLES, st.floats(-6, 6), st.lists(st.floats(-100, 100), min_size=3, max_size=3))
def test_law_of_motion(a, b, c, exponent, shift):
    """Turning, scaling and moving mesh and rays together changes no hit."""
    mesh, (origins, directions) = lawful()
    scale = 10**exponent
    turn = rotation(0, a) @ rotation(1, b) @ rotation(2, c) * scale
    shift = np.array(shift) * scale
    turned = gk.Mesh(mesh.vertices @ turn.T + shift, mesh.faces)
    hits = gk.cast_rays(turned, origins @ turn.T + shift, directions @ turn.T)
    expected = gk.cast_rays(mesh, origins, directions)
    assert np.array_equal(hits.face, expected.face)
    assert np.allclose(hits.t, expected.t, rtol=1e-9, atol=1e-9)
    assert np.allclose(hits.normal * scale, expected.normal @ turn.T, atol=1e-9 * scale)


def rotation(axis, angle):
    turn = np.eye(3)
    k, m = (axis + 1) % 3, (axis + 2) % 3
    turn[[k, k, m, m], [k, m, k, m]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
    return turn


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_law_of_order(seed):
    """Renaming faces renames the hits: the same bits otherwise."""
    mesh, rays = lawful()
    order = np.random.default_rng(seed).permutation(mesh.n_faces)
    hits, expected = gk.cast_rays(gk.Mesh(mesh.vertices, mesh.faces[order]), *rays), gk.cast_rays(mesh, *rays)
    assert np.array_equal(np.where(hits.hit, order[hits.face], -1), expected.face)
    assert np.array_equal(hits.t, expected.t) and np.array_equal(hits.barycentric, expected.barycentric)


@settings(max_examples=20, deadline=None)
@given(st.integers(-40, 40), st.floats(1, 2))
def test_law_of_length(exponent, factor):
    """t is in units of the direction: exactly so for powers of two."""
    mesh, (origins, directions) = lawful()
    expected, scale = gk.cast_rays(mesh, origins, directions), 2.0**exponent
    hits = gk.cast_rays(mesh, origins, directions * scale)
    assert np.array_equal(hits.t * scale, expected.t) and np.array_equal(hits.barycentric, expected.barycentric)
    hits = gk.cast_rays(mesh, origins, directions * (scale * factor))
    assert np.array_equal(hits.face, expected.face) and np.allclose(hits.t * (scale * factor), expected.t, rtol=1e-9)


@cache
def lawful():
    mesh = gk.shapes.torus(dtype=np.float64)
    origins, directions = rays_around(mesh, 300)
    clear = ~ray_crossings(mesh, origins, directions, t_min=-np.inf, doubt=1e-6)[1]
    return mesh, (origins[clear], directions[clear])


# ---- inputs and errors


@pytest.mark.parametrize("rays", [
    np.linspace(-1, 1, 60).reshape(20, 3)[::2],
    np.asfortranarray(np.linspace(-1, 1, 60).reshape(20, 3)),
    np.linspace(-1, 1, 60).reshape(20, 3)[:, ::-1],
    np.arange(-30, 30).reshape(20, 3),
    np.arange(60, dtype=np.uint8).reshape(20, 3),
    np.linspace(-1, 1, 60, dtype=np.float16).reshape(20, 3),
    np.linspace(-1, 1, 60).astype(">f8").reshape(20, 3),
    np.linspace(-1, 1, 60).reshape(20, 3).tolist(),
])  # fmt: skip
def test_edge_layouts(rays):
    mesh = gk.shapes.torus()
    plain = np.ascontiguousarray(rays, dtype=np.float32)
    plain.flags.writeable = False
    bounds = np.zeros((2, len(plain)), np.float32)[:, ::-1]
    expected = gk.cast_rays(mesh, plain, plain, t_min=-9)
    assert bits(gk.cast_rays(mesh, rays, rays, t_min=bounds[0] - 9)) == bits(expected)
    assert np.array_equal(gk.occluded(mesh, rays, rays, t_min=[-9] * len(plain)), expected.hit)


def test_edge_face_dtypes():
    box = gk.shapes.box()
    for dtype in (np.int8, np.int64, np.uint32, np.uint64):
        mesh = gk.Mesh(box.vertices, box.faces.astype(dtype))
        assert gk.cast_rays(mesh, [[0.1, 0, 2]], DOWN).t.tolist() == [1.5]


def test_edge_mesh_with_dropped_vertices():
    vertices = np.concatenate([[[np.nan, 0, 0]], gk.shapes.box().vertices])
    mesh = gk.Mesh(vertices, np.concatenate([[[0, 1, 2]], gk.shapes.box().faces + 1]), nonfinite="drop")
    assert gk.cast_rays(mesh, [[0.1, 0, 2]], DOWN).t.tolist() == [1.5]


def refused(match, *rays, error: type[Exception] = ValueError, mesh=None, **options):
    for name in QUERIES:
        with pytest.raises(error, match=f"^{name}: {match}"):
            getattr(gk, name)(gk.shapes.box() if mesh is None else mesh, *rays, **options)


def test_error_shapes():
    one, two = [[0, 0, 2]], [[0, 0, 1]] * 2
    refused(r"origins: expected \(N, 3\) floats, got \(3, 10\) float64$", np.zeros((3, 10)), two)
    refused(r"origins: expected \(N, 3\) floats, got \(3,\) int64$", [0, 0, 2], [0, 0, 1])
    refused(r"directions: expected \(1, 3\) floats, got \(2, 3\) int64$", one, two)
    refused(r"t_min: expected \(2,\) floats, got \(3,\) int64$", two, two, t_min=[0, 0, 0])
    refused(r"t_max: expected \(2,\) floats, got \(2, 1\) float64$", two, two, t_max=np.ones((2, 1)))


def test_error_types():
    one = [[0, 0, 2]]
    refused(r"origins: expected \(N, 3\) floats, got \(1, 3\) complex128$", [[0, 0, 1j]], one, error=TypeError)
    refused(r"directions: expected \(1, 3\) floats, got \(1, 3\) <U1$", one, [["a"] * 3], error=TypeError)
    refused(r"t_max: expected \(1,\) floats, got None$", one, one, t_max=None, error=TypeError)
    refused(r"t_min: expected \(1,\) floats, got str$", one, one, t_min="1", error=TypeError)
    refused("cull: expected 'none', 'back' or 'front', got 'both'$", one, one, cull="both")
    refused("cull: expected 'none', 'back' or 'front', got None$", one, one, cull=None)


def test_error_numbers():
    """Rays that are none are counted and the first is shown, on empty meshes too."""
    rays = np.tile([[0.0, 0, 2]], (900, 1))
    empty = gk.Mesh(np.empty((0, 3)), np.empty((0, 3), int))
    for mesh in (gk.shapes.box(), gk.shapes.box(dtype=np.float64), empty):
        for value in (np.nan, np.inf, -np.inf):
            bad = rays.copy()
            bad[[700, 899], 1] = value
            text = rf"expected finite numbers, got 2 that are not, the first is ray 700: \[0.0, {value}, 2.0\]$"
            refused("origins: " + text, bad, rays, mesh=mesh)
            refused("directions: " + text, rays, bad, mesh=mesh)
        bad = rays.copy()
        bad[[3, 4, 5]] = [0, -0.0, 0]
        text = r"expected directions that are not zero, got 3 that are not, the first is ray 3: \[0.0, -0.0, 0.0\]$"
        refused("directions: " + text, rays, bad, mesh=mesh)
        bound = np.ones(900)
        bound[899] = np.nan
        for name in ("t_min", "t_max"):
            text = f"{name}: expected numbers, got 1 that are not, the first is ray 899: nan$"
            refused(text, rays, rays, mesh=mesh, **{name: bound})
            text = rf"{name}: expected a number or \(N,\) of them, got nan$"
            refused(text, rays, rays, mesh=mesh, **{name: np.nan})


def test_error_too_far():
    small = gk.Mesh(gk.shapes.box().vertices * np.float32(1e-6), gk.shapes.box().faces)
    got = "ray 1, whose square overflows in units of the mesh's size"
    refused(
        f"origins: expected origins nearer to the mesh, got {got}$", [[0, 0, 1], [0, 0, 3e38]], DOWN * 2, mesh=small
    )


def test_error_of_the_adjoint():
    box, rays = gk.shapes.box(), ([[0, 0.1, 2]], DOWN)
    names = "adj_t, adj_barycentric, adj_normal, adj_position"
    with pytest.raises(ValueError, match=f"^cast_rays.adjoint: {names}: expected at least one, got None$"):
        gk.cast_rays.adjoint(box, *rays)
    shapes = {"adj_t": "(1,)", "adj_barycentric": "(1, 2)", "adj_normal": "(1, 3)", "adj_position": "(1, 3)"}
    for name, shape in shapes.items():
        expected = f"cast_rays.adjoint: {name}: expected {shape} floats, got (2, 2) float64"
        with pytest.raises(ValueError) as caught:
            gk.cast_rays.adjoint(box, *rays, **{name: np.ones((2, 2))})
        assert str(caught.value) == expected
    hits = gk.cast_rays(box, *rays)
    with pytest.raises(TypeError, match="^cast_rays.adjoint: result: expected what cast_rays returned, got tuple$"):
        gk.cast_rays.adjoint(box, *rays, adj_t=[1], result=(hits.t, hits.face))
    with pytest.raises(ValueError, match=r"^cast_rays.adjoint: result.face: expected \(2,\) ints, got \(1,\) int32$"):
        gk.cast_rays.adjoint(box, [[0, 0.1, 2]] * 2, DOWN * 2, adj_t=[1, 1], result=hits)
    one = gk.Mesh(box.vertices, box.faces[:1])
    with pytest.raises(ValueError, match=r"^cast_rays.adjoint: result.face: expected numbers in \[-1, 1\), got others"):
        gk.cast_rays.adjoint(one, *rays, adj_t=[1], result=hits)


def test_error_of_interpolation():
    hits = gk.cast_rays(gk.shapes.box(), [[0, 0.1, 2]], DOWN)
    for value, got in ((np.zeros(9), r"\(8,\) floats, got \(9,\) float64"), (5, r"\(8,\) floats, got int")):
        with pytest.raises(ValueError, match=f"^Hits.interpolate: attribute: expected {got}$"):
            hits.interpolate(value)
    for value, got in ((["a"] * 8, r"\(8,\) <U1"), (np.zeros((8, 2), bool), r"\(8, 2\) bool .*"), (None, "None")):
        with pytest.raises(TypeError, match=f"^Hits.interpolate: attribute: expected .* floats, got {got}$"):
            hits.interpolate(value)


def test_libraries_torch():
    """torch in, torch out, with gradients; where they would be lost, an error."""
    torch = pytest.importorskip("torch")
    mesh, rays = gk.shapes.box(), (torch.tensor([[0.0, 0.1, 2.0]]), torch.tensor(DOWN))
    hits = gk.cast_rays(mesh, *rays, t_min=torch.tensor([0.5]))
    arrays = hits.t, hits.face, hits.barycentric, hits.normal, hits.position, hits.hit, hits.interpolate(np.ones(8))
    assert all(isinstance(array, torch.Tensor) for array in arrays)
    assert hits.t.tolist() == [1.5] and hits.interpolate(torch.ones((8, 2))).tolist() == [[1, 1]]
    assert gk.occluded(mesh, *rays).tolist() == [True] and gk.count_hits(mesh, *rays).tolist() == [2]
    assert [a.tolist() for a in gk.all_hits(mesh, *rays)][:2] == [[0, 2], [1.5, 2.5]]
    g = gk.cast_rays.adjoint(mesh, *rays, adj_t=torch.ones(1), result=hits)
    assert isinstance(g.vertices, torch.Tensor) and g.origins.tolist() == [[0, 0, 1]]
    origins = rays[0].clone().requires_grad_()
    gk.cast_rays(mesh, origins, rays[1]).t.sum().backward()
    assert origins.grad.tolist() == [[0, 0, 1]]
    assert gk.occluded(mesh, origins, rays[1]).tolist() == [True]
    assert gk.count_hits(mesh, origins, rays[1]).tolist() == [2]
    with pytest.raises(TypeError, match="^all_hits: origins: expected values that do not track gradients"):
        gk.all_hits(mesh, origins, rays[1])


def test_libraries_jax():
    jax = pytest.importorskip("jax")
    mesh, rays = gk.shapes.box(), (jax.numpy.array([[0.0, 0.1, 2.0]]), jax.numpy.array(DOWN))
    hits = gk.cast_rays(mesh, *rays, t_max=jax.numpy.array([9.0]))
    assert isinstance(hits.t, jax.Array) and hits.t.tolist() == [1.5] and hits.position.shape == (1, 3)
    assert isinstance(gk.occluded(mesh, *rays), jax.Array) and gk.all_hits(mesh, *rays).face.shape == (2,)
    g = gk.cast_rays.adjoint(mesh, *rays, adj_position=hits.position, result=hits)
    assert isinstance(g.vertices, jax.Array) and g.vertices.shape == (8, 3)
