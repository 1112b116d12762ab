"""Closest hits of rays: values, odd meshes and rays, gradients. Leaks, batches, laws: test_rays.py."""

import numpy as np
import pytest

import geomkit as gk
from tests.implicit.samples import joined, moved, soup
from tests.reference import ray_crossings, ray_triangles, rays_around, surface_points

MESHES = ("spot_low.obj", "torus.obj", "cube_no_bottom.obj", "boxframe.obj", "triple_vierbein.obj", "moebius.obj")
DOWN = [[0.0, 0.0, -1.0]]
OUTPUTS = ("t", "barycentric", "normal", "position")


def check(mesh, origins, directions, **options):
    """All that the record says, against brute force. Lengths are judged by the diagonal and the origin's distance."""
    ulps, tolerance = (4 * 2.0**-23, 1e-6) if mesh.dtype == np.float32 else (1e-12, 1e-12)
    hits = gk.cast_rays(mesh, origins, directions, **options)
    doubt = 1e-5 if mesh.dtype == np.float32 else 1e-12
    crossings, doubtful = ray_crossings(mesh, origins, directions, doubt=doubt, **options)
    expected, sure = crossings.min(axis=1), ~doubtful
    assert sure.mean() > 0.9
    assert np.array_equal(hits.hit[sure], np.isfinite(expected)[sure])
    o, d = np.float64(origins), np.float64(directions)
    scale = mesh.diagonal + np.linalg.norm(o - mesh.center, axis=1)
    hit = np.flatnonzero(hits.hit & sure)
    length = np.linalg.norm(d[hit], axis=1)
    assert (np.abs(hits.t[hit] - expected[hit]) * length <= ulps * scale[hit]).all()

    # The face named is hit there, whatever lay in doubt.
    hit = np.flatnonzero(hits.hit)
    u, v = np.float64(hits.barycentric[hit].T)
    assert min(u.min(initial=0), v.min(initial=0), (1 - u - v).min(initial=0)) >= -1e-6
    corners = np.float64(mesh.vertices_array)[mesh.faces_array[hits.face[hit]]]
    point = np.einsum("nk,nkx->nx", np.stack([1 - u - v, u, v], 1), corners)
    along = o[hit] + np.float64(hits.t[hit])[:, None] * d[hit]
    assert (np.abs(along - point).max(axis=1, initial=0) <= tolerance * scale[hit]).all()
    assert (np.abs(hits.position[hit] - point).max(axis=1, initial=0) <= tolerance * scale[hit]).all()
    assert np.array_equal(hits.normal[hit], mesh.face_normals[hits.face[hit]])
    values = np.arange(2.0 * mesh.n_vertices).reshape(-1, 2)
    linear = np.einsum("nk,nkx->nx", np.stack([1 - u - v, u, v], 1), values[mesh.faces_array[hits.face[hit]]])
    assert np.allclose(hits.interpolate(values)[hit], linear, rtol=1e-5)

    miss = ~hits.hit
    assert (hits.face[miss] == -1).all() and np.isinf(hits.t[miss]).all() and np.isinf(hits.position[miss]).all()
    assert not hits.barycentric[miss].any() and not hits.normal[miss].any() and not hits.interpolate(values)[miss].any()
    assert np.array_equal(gk.occluded(mesh, origins, directions, **options), hits.hit)
    return hits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value(dtype):
    torus = gk.shapes.torus(dtype=dtype)
    for mesh in (gk.shapes.icosphere(3, dtype=dtype), gk.shapes.box(dtype=dtype), torus, soup(torus)):
        hits = check(mesh, *rays_around(mesh, 500))
        assert 200 < hits.hit.sum() < 500


@pytest.mark.parametrize("name", MESHES)
def test_value_real(name, shared_mesh):
    for dtype in (np.float32, np.float64):
        mesh = shared_mesh(name, dtype=dtype)
        check(mesh, *rays_around(mesh, 150))


def test_value_large(shared_mesh):
    """A few of many rays against brute force, on a mesh with holes."""
    mesh = shared_mesh("bunny.obj")
    origins, directions = rays_around(mesh, 8000)
    hits, some = gk.cast_rays(mesh, origins, directions), slice(None, None, 200)
    alone = check(mesh, origins[some], directions[some])
    assert np.array_equal(hits.t[some], alone.t) and np.array_equal(hits.face[some], alone.face)


@pytest.mark.parametrize("cull", ["none", "back", "front"])
def test_value_bounds_and_culling(cull):
    """t_min and t_max as numbers and as arrays, of any sign and infinite."""
    mesh = gk.shapes.torus(dtype=np.float64)
    origins, directions = rays_around(mesh, 250)
    t = gk.cast_rays(mesh, origins, directions).t
    each = np.where(np.isfinite(t), t, 1.0)
    bounds = [(-np.inf, np.inf), (-np.inf, 0.0), (-0.5, 0.25), (1e-3, 2)]
    for t_min, t_max in (*bounds, (0.5 * each, 1.5 * each), (1.1 * each, np.inf)):
        check(mesh, origins, directions, t_min=t_min, t_max=t_max, cull=cull)


def test_value_bounds_are_exact():
    """Both bounds belong to the range, to the last bit."""
    for mesh in (gk.shapes.box(), gk.shapes.box(dtype=np.float64)):
        for t_min, t_max, expected in (
            (1.5, 1.5, [1.5]),
            (np.nextafter(1.5, 2), 9, [2.5]),
            (0, np.nextafter(1.5, 0), [np.inf]),
            (2, 1, [np.inf]),
            (np.inf, np.inf, [np.inf]),
            (-np.inf, -np.inf, [np.inf]),
        ):
            assert gk.cast_rays(mesh, [[0.1, 0.2, 2]], DOWN, t_min=t_min, t_max=t_max).t.tolist() == expected


def test_value_far_from_origin():
    """A mesh a million units away is hit as at home."""
    for dtype, grid, tolerance in ((np.float32, 2.0**-4, 2e-6), (np.float64, 2.0**-30, 1e-12)):
        home = gk.shapes.icosphere(3, radius=16, dtype=np.float64)
        home = gk.Mesh((np.round(home.vertices / grid) * grid).astype(dtype), home.faces)
        origins, directions = rays_around(home, 300)
        origins = np.round(origins / grid).astype(dtype) * dtype(grid)
        away = gk.cast_rays(moved(home, [1e6] * 3), origins + dtype(1e6), directions)
        expected = gk.cast_rays(home, origins, directions)
        assert np.array_equal(away.face, expected.face)
        both = expected.hit
        length = np.linalg.norm(directions[both], axis=1)
        assert (np.abs(away.t[both] - expected.t[both]) * length).max() < tolerance * home.diagonal


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_scale(scale, dtype):
    """No absolute epsilon: mesh and rays scaled together are hit alike."""
    mesh = gk.shapes.torus(dtype=dtype)
    origins, directions = rays_around(mesh, 500)
    expected = gk.cast_rays(mesh, origins, directions)
    scaled = gk.Mesh(mesh.vertices * dtype(scale), mesh.faces)
    hits = gk.cast_rays(scaled, origins * dtype(scale), directions * dtype(scale))
    assert np.array_equal(hits.face, expected.face)
    assert np.allclose(hits.t, expected.t, rtol=1e-5, atol=1e-6)


# ---- odd meshes and rays


def test_edge_empty():
    nothing = gk.Mesh(np.empty((0, 3)), np.empty((0, 3), int))
    hits = gk.cast_rays(nothing, [[0, 0, 0]], DOWN)
    assert (hits.t.tolist(), hits.face.tolist(), hits.hit.tolist()) == ([np.inf], [-1], [False])
    assert hits.position.tolist() == [[np.inf] * 3] and hits.interpolate(np.empty((0, 2))).tolist() == [[0, 0]]
    hits = gk.cast_rays(gk.shapes.box(), np.empty((0, 3)), np.empty((0, 3)))
    assert [a.shape for a in (hits.t, hits.face, hits.barycentric, hits.normal)] == [(0,), (0,), (0, 2), (0, 3)]
    assert hits.position.shape == (0, 3) and hits.interpolate(np.zeros((8, 4))).shape == (0, 4) and len(hits) == 0
    g = gk.cast_rays.adjoint(gk.shapes.box(), np.empty((0, 3)), np.empty((0, 3)), adj_t=[])
    assert g.origins.shape == (0, 3) and g.vertices.shape == (8, 3) and not g.vertices.any()


def test_edge_one_triangle():
    """Corners, edges and inside, before and after a refit (warp 860, 1506; yocto-gl 74; Ignis 3)."""
    mesh = gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    points = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1], [0.5, 0, 1], [0.5, 0.5, 1], [0, 0.25, 1], [0.25, 0.25, 1]])
    assert mesh.bvh.levels == 1
    for by in (0, 5):
        hits = gk.cast_rays(mesh.with_vertices(mesh.vertices + np.float32(by)), points + by, DOWN * 7)
        assert (hits.t == 1).all() and np.array_equal(hits.barycentric, points[:, :2].astype(np.float32))
    assert not gk.cast_rays(mesh, points + [1.25, 0, 0], DOWN * 7).hit.any()


def test_edge_degenerate():
    """Faces without area are met by no ray, and hide none (svenstaro/bvh 44)."""
    points = gk.Mesh([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]], [[0, 1, 2], [0, 1, 3]])
    assert not gk.cast_rays(points, [[1, 0, 0], [1, 0, 0.5], [0, 0, 5]], [[-1, 0, 0], [-1, 0, 0], [0, 0, -1]]).hit.any()
    line = gk.Mesh([[0, 0, 0], [1, 0, 0], [3, 0, 0]], [[0, 1, 2]])
    assert not gk.cast_rays(line, [[1, 0, 1]], DOWN).hit.any()
    box = gk.shapes.box()
    both = gk.Mesh(box.vertices, np.concatenate([[[0, 0, 1], [0, 0, 0]], box.faces]))
    rays = rays_around(box, 500)
    assert np.array_equal(gk.cast_rays(both, *rays).t, gk.cast_rays(box, *rays).t)


def test_edge_duplicates():
    """Of faces hit at the same place, the first."""
    mesh = gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]] * 50)
    assert gk.cast_rays(mesh, [[0.25, 0.25, 1]], DOWN).face.tolist() == [0]


def test_edge_diagonal_of_a_square():
    """trimesh 1766."""
    square = gk.Mesh([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], [[0, 1, 2], [2, 3, 0]])
    hits = gk.cast_rays(square, [[0, 0, 1]], DOWN)
    assert hits.t.tolist() == [1] and hits.position.tolist() == [[0, 0, 0]]


def test_edge_far_part():
    """A hit does not depend on how far away another part is (embree 181)."""
    ring = gk.shapes.cylinder(sections=32)
    corner = ring.vertices[np.abs(ring.vertices[:, 0]).argmax()] * [1, 1, 0]
    for far in (10, 1e3, 1e5):
        mesh = joined(ring, moved(ring, [far, far, 0]))
        inside = gk.cast_rays(mesh, [[0, 0, 0]], corner[None])
        assert inside.hit.all() and abs(inside.t[0] - 1) < 4 * 2.0**-23 * mesh.diagonal


def test_edge_huge_plane():
    """From the hit on, a ray finds nothing more (embree 416)."""
    for half in 5.9 * 10.0 ** np.arange(8, 12):
        square = gk.Mesh(np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * half, [[0, 1, 2], [2, 3, 0]])
        hit = gk.cast_rays(square, [[100.0, 50.0, 120500.0]], [[0.1, 0.2, -1.0]])
        assert abs(hit.t[0] - 120500) < 1e-12 * square.diagonal
        again = gk.cast_rays(square, hit.position, [[0.1, 0.2, -1.0]], t_min=1e-12 * square.diagonal)
        assert not again.hit.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edge_far_origins(dtype):
    """Triangles of any size seen from up to 1e9 along their normal (trimesh 48)."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    for size in 10.0 ** np.arange(6):
        mesh = gk.Mesh((corners * size).astype(dtype), [[0, 1, 2]])
        distance = 10.0 ** np.arange(10)
        origins = np.stack([np.full(10, size / 4), np.full(10, size / 4), distance], 1).astype(dtype)
        hits = gk.cast_rays(mesh, origins, DOWN * 10)
        assert np.array_equal(hits.t, origins[:, 2])
        # From aside as well, where the aim itself is rounded.
        origins = np.stack([distance, 0.5 * distance, distance], 1)[distance <= 1e6 * size].astype(dtype)
        aims = np.array([0.25 * size, 0.25 * size, 0], dtype) - origins
        assert gk.cast_rays(mesh, origins, aims).hit.all()


def test_edge_precision():
    """A float64 mesh leaves no float32 residual (Open3D 5777, python-embree 20)."""
    rng = np.random.default_rng(0)
    corners = np.array([[-9.7, -10.3, 9.9], [10.1, -9.9, 10.2], [9.8, 10.4, 10.1]])
    plane = gk.Mesh(corners, [[0, 1, 2]])
    targets = rng.dirichlet([1, 1, 1], 500) @ corners
    origins = rng.uniform(-10, 10, (500, 3)) + [0, 0, 30]
    hits = gk.cast_rays(plane, origins, targets - origins)
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    normal /= np.linalg.norm(normal)
    assert hits.hit.all() and np.abs((hits.position - corners[0]) @ normal).max() < 1e-13
    assert np.abs((origins + hits.t[:, None] * (targets - origins) - corners[0]) @ normal).max() < 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edge_needles(dtype):
    """Slivers, alone and in a fan, are hit (madmann91/bvh 28)."""
    rng = np.random.default_rng(0)
    for width in (1e-3, 1e-6):
        start = rng.uniform(-1, 1, (50, 3))
        vertices = np.stack([start, start + [1, 0, 0], start + [0.5, width, 0]], 1).astype(dtype)
        mesh = gk.Mesh(vertices.reshape(-1, 3), np.arange(150).reshape(-1, 3))
        if dtype == np.float32 and width < 1e-5:
            continue
        middle = vertices.astype(np.float64).mean(axis=1)
        hits = gk.cast_rays(mesh, middle + [0, 0, 3], DOWN * 50)
        assert hits.hit.all()
    one = gk.Mesh(np.array([[0, 0, 0], [1, 0, 0], [0.5, 1e-6, 0]], dtype), [[0, 1, 2]])
    assert gk.cast_rays(one, [[0.5, 5e-7, 1]], DOWN).t.tolist() == [1]


@pytest.mark.parametrize("sine", [1e-3, 1e-5])
def test_edge_grazed_face_behind_another(sine):
    """The nearer of two faces, though the ray is within a rounding of the other for a long way."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        turn, gap = np.linalg.qr(rng.normal(size=(3, 3)))[0], 10 ** rng.uniform(-5, -2)
        grazed = np.array([[-1, -1, 0], [1, -1, 0], [0, 1.5, 0]])
        before = np.array([[-gap, -1, -1], [-gap, 1, -1], [-gap, 0, 2]])
        shift, d = rng.uniform(-1, 1, 3), np.array([[1, 0, -sine]]) @ turn.T
        rays = (shift - 0.7 * d).astype(np.float32), d.astype(np.float32)
        vertices = np.concatenate([grazed, before]) @ turn.T + shift
        both, *each = (
            gk.Mesh(vertices.astype(np.float32), f) for f in ([[0, 1, 2], [3, 4, 5]], [[0, 1, 2]], [[3, 4, 5]])
        )
        nearest = min(gk.cast_rays(mesh, *rays).t[0] for mesh in each)
        assert gk.cast_rays(both, *rays).t[0] <= nearest + 4 * 2.0**-23 * both.diagonal


def test_edge_flat_boxes():
    """Squares without thickness, and origins on the surface: the hit at t = 0 counts, t_min skips it (embree 464)."""
    square = np.array([[-1, 0, -1], [1, 0, -1], [1, 0, 1], [-1, 0, 1]])
    sheets = joined(*(gk.Mesh(square + [0, y, 0], [[0, 1, 2], [2, 3, 0]]) for y in (0, 3)))
    origins, down = [[0.25, 3, 0.5], [0.25, 0, 0.5], [0.25, 5, 0.5]], [[0, -1, 0]] * 3
    assert gk.cast_rays(sheets, origins, down).t.tolist() == [0, 0, 2]
    assert gk.cast_rays(sheets, origins, down, t_min=1e-6).t.tolist() == [3, np.inf, 2]


def test_edge_fan_at_a_cube():
    """A fan of rays hits as the slab test says (Open3D 6188)."""
    cube = gk.Mesh(gk.shapes.box(dtype=np.float64).vertices + 0.5, gk.shapes.box().faces)
    angle = np.linspace(0, 2 * np.pi, 721)
    directions = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    origin = np.array([2.0, 0.5, 0.5])
    with np.errstate(divide="ignore", invalid="ignore"):
        near, far = (0 - origin) / directions, (1 - origin) / directions
    enter, leave = np.fmax(np.fmin(near, far)[:, :2].max(1), 0), np.fmax(near, far)[:, :2].min(1)
    hits = gk.cast_rays(cube, np.tile(origin, (721, 1)), directions)
    assert np.array_equal(hits.hit, enter <= leave)
    assert np.allclose(hits.t[hits.hit], enter[hits.hit], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edge_directions(dtype):
    """Directions of any length, and with components so small that they move nothing."""
    info, box = np.finfo(dtype), gk.shapes.box(dtype=dtype)
    for length in (1e-30, 1e30, info.tiny**0.4 * 8, info.max**0.4):
        d = (np.array([[0, 0, -1], [1e-3, 3e-4, -1]]) * length).astype(dtype)
        hits = gk.cast_rays(box, np.array([[0.5, 0.5, 2], [0.1, 0.2, 2]], dtype), d)
        assert np.allclose(hits.t * np.abs(d[:, 2]), 1.5, rtol=1e-5)
    for small in (1e-17, 1e-30, info.tiny, info.smallest_subnormal):
        for sign in (-1, 1):
            d = np.array([[sign * small, 0, -1], [0, sign * small, -1], [0, -1, sign * small]], dtype)
            origins = np.array([[0.25, 0.5, 2], [0.5, 0.25, 2], [0.25, 2, 0.5]], dtype)
            assert gk.cast_rays(box, origins - np.float64(0.25), d).t.tolist() == [1.25] * 3


# ---- gradients


def well_inside(mesh, n=60, seed=0):
    """Rays that stay on their faces when anything moves a little."""
    origins, directions = rays_around(mesh, 20 * n, seed)
    directions /= np.linalg.norm(directions, axis=1)[:, None] * np.linspace(0.5, 2, len(directions))[:, None]
    hits = gk.cast_rays(mesh, origins, directions)
    u, v = hits.barycentric.T
    steep = np.abs((hits.normal * directions).sum(1)) > 0.3 * np.linalg.norm(directions, axis=1)
    clear = hits.hit & steep & (np.minimum(np.minimum(u, v), 1 - u - v) > 0.05) & (hits.t > 0.05)
    return origins[clear][:n], directions[clear][:n]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("shape", ["sphere", "torus"])
def test_gradient(shape, output):
    """Adjoints of each output to origins, directions and vertices against finite differences."""
    small = {"major_sections": 9, "minor_sections": 7}
    mesh = gk.shapes.icosphere(1, dtype=np.float64) if shape == "sphere" else gk.shapes.torus(**small, dtype=np.float64)
    origins, directions = well_inside(mesh)
    assert len(origins) == 60

    def forward(o, d, v):
        return getattr(gk.cast_rays(mesh.with_vertices(v), o, d), output)

    def adjoint(o, d, v, adj):
        return gk.cast_rays.adjoint(mesh.with_vertices(v), o, d, **{f"adj_{output}": adj})

    gk.gradcheck(forward, [origins, directions, mesh.vertices], adjoint=adjoint, rtol=1e-7)


def cotangents(n, seed=0):
    rng = np.random.default_rng(seed)
    return {"adj_t": rng.normal(size=n), "adj_barycentric": rng.normal(size=(n, 2)),
            "adj_normal": rng.normal(size=(n, 3)), "adj_position": rng.normal(size=(n, 3))}  # fmt: skip


def test_gradient_is_the_transpose():
    """<J v, w> = <v, J' w> for all outputs and inputs at once, J v by the formula that moves ray and face."""
    mesh = gk.shapes.torus(dtype=np.float64)
    origins, directions = well_inside(mesh, 200)
    n, rng, w = len(origins), np.random.default_rng(1), cotangents(len(origins))
    hits = gk.cast_rays(mesh, origins, directions)
    do, dd, dv = (rng.normal(size=x.shape) for x in (origins, directions, mesh.vertices))
    corners, moves = mesh.vertices[mesh.faces[hits.face]], dv[mesh.faces[hits.face]]
    e1, e2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    m1, m2 = moves[:, 1] - moves[:, 0], moves[:, 2] - moves[:, 0]
    u, v = hits.barycentric.T[:, :, None]
    t = hits.t[:, None]
    # [e1 e2 -d] (u, v, t) = o - a, derived.
    right = do - moves[:, 0] - u * m1 - v * m2 + t * dd
    du, dv_, dt = np.linalg.solve(np.stack([e1, e2, -directions], 2), right[:, :, None])[:, :, 0].T
    area, darea = np.cross(e1, e2), np.cross(m1, e2) + np.cross(e1, m2)
    size = np.linalg.norm(area, axis=1)[:, None]
    dn = (darea - hits.normal * (hits.normal * darea).sum(1)[:, None]) / size
    dp = do + dt[:, None] * directions + t * dd
    left = (dt * w["adj_t"]).sum() + (np.stack([du, dv_], 1) * w["adj_barycentric"]).sum()
    left += (dn * w["adj_normal"]).sum() + (dp * w["adj_position"]).sum()
    g = gk.cast_rays.adjoint(mesh, origins, directions, **w)
    right = sum((a * b).sum() for a, b in zip((do, dd, dv), g, strict=True))
    assert n == 200 and abs(left - right) < 1e-11 * np.abs(left)


def test_gradient_result_and_sum():
    """Cotangents add up; the forward's result saves work without changing a bit; None is zero."""
    mesh = gk.shapes.torus()
    rays, w = rays_around(mesh, 500), cotangents(500)
    both = gk.cast_rays.adjoint(mesh, *rays, **w)
    known = gk.cast_rays.adjoint(mesh, *rays, **w, result=gk.cast_rays(mesh, *rays))
    assert all(np.array_equal(a, b) for a, b in zip(both, known, strict=True))
    parts = [gk.cast_rays.adjoint(mesh, *rays, **{name: value}) for name, value in w.items()]
    for total, each in zip(both, zip(*parts, strict=True), strict=True):
        assert np.allclose(total, sum(each), rtol=1e-3, atol=1e-3 * np.abs(total).max())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradient_misses(bad):
    """A miss sends zero, and its cotangent is not read."""
    mesh = gk.shapes.icosphere(2, dtype=np.float64)
    origins, directions = rays_around(mesh, 400)
    miss, w = ~gk.cast_rays(mesh, origins, directions, t_max=1.0).hit, cotangents(400)
    assert 50 < miss.sum() < 350
    for value in w.values():
        value[miss] = bad
    g = gk.cast_rays.adjoint(mesh, origins, directions, t_max=1.0, **w)
    assert not g.origins[miss].any() and not g.directions[miss].any() and np.isfinite(g.vertices).all()
    hits_only = gk.cast_rays.adjoint(mesh, origins[~miss], directions[~miss], **{k: a[~miss] for k, a in w.items()})
    assert np.array_equal(g.vertices, hits_only.vertices) and np.array_equal(g.origins[~miss], hits_only.origins)
    nothing = gk.cast_rays.adjoint(mesh, origins[miss], directions[miss], t_max=1.0, adj_t=w["adj_t"][miss])
    assert not any(a.any() for a in nothing)


def test_gradient_grazing():
    """Down to a sine of 1e-6 the derivative is that of the hit; below it is bounded; in the plane it is zero."""
    mesh = gk.Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), [[0, 1, 2]])
    for sine in (1e-2, 1e-4, 2e-6, 1e-8, 1e-12):
        d = np.array([[np.sqrt(1 - sine**2), 0, -sine]])
        o = np.array([[0.25, 0.25, 0]]) - 0.5 * d
        hits = gk.cast_rays(mesh, o, d)
        assert hits.hit.all() and abs(hits.t[0] - 0.5) < 1e-3
        g = gk.cast_rays.adjoint(mesh, o, d, adj_t=[1.0])
        expected = 1 / max(sine, 1e-6)
        assert np.allclose(g.origins, [[0, 0, expected]], rtol=1e-9)
        assert np.allclose(g.directions, 0.5 * g.origins, rtol=1e-4)
        assert np.allclose(g.vertices.sum(0), -g.origins[0], rtol=1e-4) and np.isfinite(g.vertices).all()


def test_gradient_in_the_plane():
    """Rays in the plane of a face, and through degenerate faces, send nothing that is not finite (pytorch3d 110)."""
    box = gk.shapes.box(dtype=np.float64)
    flat = gk.Mesh(np.concatenate([box.vertices, [[0, 0, 0.0]]]), np.concatenate([box.faces, [[0, 1, 1], [8, 8, 8]]]))
    origins = np.array([[-2, 0.1, 0.5], [-2, 0.5, 0.5], [-2, -2, 0.5], [2, 2, 2], [0.5, 0.5, 0.5], [0, 0, 0.5]])
    directions = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [-1, -1, -1], [-1, 0, 0], [0, 1, 1e-300]])
    for mesh in (box, flat):
        hits = gk.cast_rays(mesh, origins, directions)
        g = gk.cast_rays.adjoint(mesh, origins, directions, **cotangents(6), result=hits)
        assert all(np.isfinite(a).all() for a in g)
    above = gk.cast_rays(box, [[0.1, 0.2, 2]], DOWN)
    g = gk.cast_rays.adjoint(box, origins[:1], directions[:1], adj_t=[1.0], adj_barycentric=[[1.0, 1.0]], result=above)
    assert not g.origins.any() and not g.directions.any() and not g.vertices.any()


def test_gradient_translation():
    """Moving mesh and rays together changes no t: the gradients of a translation cancel."""
    mesh = gk.shapes.icosphere(2, dtype=np.float64)
    rays, w = rays_around(mesh, 300), cotangents(300)
    del w["adj_position"]
    g = gk.cast_rays.adjoint(mesh, *rays, **w)
    assert np.allclose(g.origins.sum(0) + g.vertices.sum(0), 0, atol=1e-9 * np.abs(g.origins).sum())


# What moves, how the ray (origin, direction) or the corners move, and the change of t, (u, v), normal and position.
# A ray comes down with d = (0, 0, -2) from five lengths of it above corner 0 = (-1, -1, 0) of the square [-1, 1]^2 in
# z = 0, so a point (x, y) of the square has v = (y + 1) / 2 and u = (x + 1) / 2 - v in face (0, 1, 2).
SQUARE = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
X, Y, Z, STILL = [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]
CASES = {
    # The corner runs away under the ray, which then meets what lies opposite.
    "square moves in x": (STILL, STILL, SQUARE * 0 + X, 0, (-0.5, 0), STILL, STILL),
    "square moves in y": (STILL, STILL, SQUARE * 0 + Y, 0, (0.5, -0.5), STILL, STILL),
    # It comes nearer by one, and the ray makes two a unit of t.
    "square moves in z": (STILL, STILL, SQUARE * 0 + Z, -0.5, (0, 0), STILL, Z),
    "origin moves in x": (X, STILL, SQUARE * 0, 0, (0.5, 0), STILL, X),
    "origin moves in y": (Y, STILL, SQUARE * 0, 0, (-0.5, 0.5), STILL, Y),
    "origin moves in z": (Z, STILL, SQUARE * 0, 0.5, (0, 0), STILL, STILL),
    # Five units of t away the direction's change has grown fivefold.
    "direction turns to x": (STILL, X, SQUARE * 0, 0, (2.5, 0), STILL, [5, 0, 0]),
    "direction turns to y": (STILL, Y, SQUARE * 0, 0, (-2.5, 2.5), STILL, [0, 5, 0]),
    # t = 10 / (2 - s).
    "direction shortens": (STILL, Z, SQUARE * 0, 2.5, (0, 0), STILL, STILL),
    # Velocities w x p, at the corner (0, 0, y) = -z and (0, 0, -x) = +z, and of the normal w x z.
    "square turns about x": (STILL, STILL, np.cross(X, SQUARE), 0.5, (0, 0), [0, -1, 0], [0, 0, -1]),
    "square turns about y": (STILL, STILL, np.cross(Y, SQUARE), -0.5, (0, 0), X, Z),
    # The corner moves by (1, -1): the ray meets what was at (-1, 1) beside it.
    "square turns about z": (STILL, STILL, np.cross(Z, SQUARE), 0, (-1, 0.5), STILL, STILL),
    # The corner moves by (-1, -1), or by (-1, 0).
    "square grows": (STILL, STILL, SQUARE, 0, (0, 0.5), STILL, STILL),
    "square grows in x": (STILL, STILL, SQUARE * X, 0, (0.5, 0), STILL, STILL),
}


@pytest.mark.parametrize("case", CASES)
def test_gradient_of_a_square_at_its_corner(case):
    """Fourteen motions whose derivatives are plain, each found in the adjoints of all nine outputs."""
    origin, direction, corners, *expected = CASES[case]
    mesh, rays = gk.Mesh(SQUARE, [[0, 1, 2], [2, 3, 0]]), ([[-1.0, -1, 10]], [[0.0, 0, -2]])
    hits = gk.cast_rays(mesh, *rays)
    assert (hits.t.tolist(), hits.face.tolist(), hits.barycentric.tolist()) == ([5], [0], [[0, 0]])
    for name, value in zip(OUTPUTS, expected, strict=True):
        for k, change in enumerate(np.atleast_1d(value)):
            adj = np.zeros(np.shape(getattr(hits, name)))
            adj.flat[k] = 1
            g = gk.cast_rays.adjoint(mesh, *rays, **{f"adj_{name}": adj})
            found = (g.origins * origin).sum() + (g.directions * direction).sum() + (g.vertices * corners).sum()
            assert abs(found - change) < 1e-13, name


def test_reference_is_right():
    """The brute force itself, where the answer is plain."""
    v, f = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]])
    t, u, w = ray_triangles(v, f, [[0.25, 0.5, 3], [2, 0, 1], [0, 0, 1]], [[0, 0, -2], [0, 0, 1], [1, 0, 0]])
    assert np.array_equal(t[:2], [[1.5], [-1]]) and not np.isfinite(t[2])
    assert np.array_equal(u[:2], [[0.25], [2]]) and np.array_equal(w[:2], [[0.5], [0]])
    aim = surface_points(gk.shapes.box(), 9)[0]
    assert np.allclose(np.abs(aim).max(axis=1), 0.5)
