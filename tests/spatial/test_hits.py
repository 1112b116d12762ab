"""Any hit, counts and all hits: values, parity of closed meshes, each edge and corner once, odd inputs, threads."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.spatial.bvh import Bvh
from tests.implicit.samples import joined, moved, soup
from tests.reference import ray_crossings, rays_around, rays_to_edges, surface_points

MESHES = ("spot_low.obj", "torus.obj", "cube_no_bottom.obj", "boxframe.obj", "triple_vierbein.obj", "moebius.obj")
CLOSED = ("spot_low.obj", "boxframe.obj", "cubegrid.obj", "hourglass_ico.obj", "sword.obj", "self_intersectA.obj")
DOWN = [[0.0, 0.0, -1.0]]


def check(mesh, origins, directions, **options):
    """All three queries against brute force and against one another."""
    n = len(origins)
    rays = mesh, origins, directions
    hits, count = gk.all_hits(*rays, **options), gk.count_hits(*rays, **options)
    closest = gk.cast_rays(*rays, **options)
    assert (hits.offsets.dtype, hits.face.dtype, count.dtype) == (np.int64, np.int32, np.int32)
    assert hits.t.dtype == mesh.dtype and hits.offsets[0] == 0 and hits.offsets[-1] == len(hits.t) == len(hits.face)
    assert np.array_equal(count, np.diff(hits.offsets))
    assert np.array_equal(gk.occluded(mesh, origins, directions, **options), closest.hit)
    ray = np.repeat(np.arange(n), count)
    falls = (np.diff(hits.t) < 0) | ((np.diff(hits.t) == 0) & (np.diff(hits.face) <= 0))
    assert not (falls & (np.diff(ray) == 0)).any()

    doubt = 1e-5 if mesh.dtype == np.float32 else 1e-12
    crossings, doubtful = ray_crossings(mesh, origins, directions, doubt=doubt, **options)
    sure, hit = ~doubtful, np.isfinite(crossings)
    assert sure.mean() > 0.9 and np.array_equal(count[sure], hit.sum(axis=1)[sure])
    known = sure[ray]
    ray, face, t = ray[known], hits.face[known], hits.t[known]
    assert hit[ray, face].all() and len(np.unique(ray * mesh.n_faces + face)) == len(ray)
    scale = mesh.diagonal + np.linalg.norm(np.float64(origins) - mesh.center, axis=1)
    ulps = 4 * 2.0**-23 if mesh.dtype == np.float32 else 1e-12
    error = np.abs(t - crossings[ray, face]) * np.linalg.norm(np.float64(directions), axis=1)[ray]
    assert (error <= ulps * scale[ray]).all()
    some = sure & (count > 0)
    assert np.array_equal(closest.hit[sure], count[sure] > 0)
    assert np.array_equal(hits.t[hits.offsets[:-1][some]], closest.t[some])
    return count


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value(dtype):
    torus = gk.shapes.torus(dtype=dtype)
    for mesh in (gk.shapes.icosphere(2, dtype=dtype), gk.shapes.box(dtype=dtype), torus, soup(torus)):
        assert check(mesh, *rays_around(mesh, 400)).max() >= 2


@pytest.mark.parametrize("name", MESHES)
def test_value_real(name, shared_mesh):
    mesh = shared_mesh(name)
    check(mesh, *rays_around(mesh, 150))
    check(mesh, *rays_around(mesh, 150, 1), t_min=-np.inf, cull="back")


@pytest.mark.parametrize("cull", ["none", "back", "front"])
def test_value_bounds_and_culling(cull):
    mesh = gk.shapes.torus(dtype=np.float64)
    origins, directions = rays_around(mesh, 250)
    each = np.random.default_rng(0).uniform(-2, 2, 250)
    for t_min, t_max in ((-np.inf, np.inf), (-0.5, 0.25), (each, each + 1), (each, np.inf), (np.inf, np.inf), (1, 0)):
        check(mesh, origins, directions, t_min=t_min, t_max=t_max, cull=cull)


def test_value_front_and_back_are_all():
    mesh = gk.shapes.torus()
    origins, directions = rays_around(mesh, 5000)
    front, back, both = (
        gk.count_hits(mesh, origins, directions, t_min=-np.inf, cull=cull) for cull in ("back", "front", "none")
    )
    assert np.array_equal(front, back) and np.array_equal(front + back, both)


def test_value_pieces_are_the_whole():
    """What lies before, between and after two bounds is all there is."""
    mesh = gk.shapes.icosphere(3)
    origins, directions = rays_around(mesh, 3000)
    a, b = np.sort(np.random.default_rng(0).uniform(-1, 1, (2, 3000)).astype(np.float32), axis=0)
    ranges = ((-np.inf, np.nextafter(a, -9)), (a, np.nextafter(b, -9)), (b, np.inf))
    parts = [gk.count_hits(mesh, origins, directions, t_min=low, t_max=high) for low, high in ranges]
    assert np.array_equal(sum(parts), gk.count_hits(mesh, origins, directions, t_min=-np.inf))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sine", [1e-2, 1e-3, 1e-5])
def test_value_bounds_of_grazing_hits(sine, dtype):
    """t_min <= t <= t_max holds at small angles too, a few roundings away from the bound."""
    rng, slack = np.random.default_rng(0), 8 * np.finfo(dtype).eps
    for _ in range(60):
        corners = rng.uniform(-1, 1, (3, 3))
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal /= np.linalg.norm(normal)
        along = np.cross(normal, rng.normal(size=3))
        d = (along / np.linalg.norm(along) - sine * normal)[None]
        rays = (rng.dirichlet([2, 2, 2]) @ corners - 0.5 * d).astype(dtype), d.astype(dtype)
        mesh = gk.Mesh(corners.astype(dtype), [[0, 1, 2]])
        t = gk.cast_rays(mesh, *rays).t.astype(np.float64)
        if np.isfinite(t[0]):
            assert gk.occluded(mesh, *rays, t_max=t[0] + slack)[0] and gk.occluded(mesh, *rays, t_min=t[0] - slack)[0]
            assert not gk.occluded(mesh, *rays, t_max=t[0] - slack)[0]
            assert gk.count_hits(mesh, *rays, t_min=t[0] + slack)[0] == 0


def test_value_bounds_from_afar():
    """In float64 the hit at t lies in ranges that end or begin at t, and in none that ends before, from everywhere."""
    mesh, rng = gk.shapes.torus(dtype=np.float64), np.random.default_rng(0)
    for distance in (1, 10, 1e3, 1e6):
        target = surface_points(mesh, 1000)[0]
        d = rng.normal(size=(1000, 3))
        d /= np.linalg.norm(d, axis=1)[:, None]
        t = gk.cast_rays(mesh, target - distance * d, d).t
        rays = (target - distance * d)[np.isfinite(t)], d[np.isfinite(t)]
        t = t[np.isfinite(t)]
        assert len(t) > 990 and np.array_equal(gk.cast_rays(mesh, *rays, t_max=t).t, t)
        assert np.array_equal(gk.cast_rays(mesh, *rays, t_min=t).t, t)
        assert not gk.occluded(mesh, *rays, t_max=np.nextafter(t, 0)).any()


# ---- closed meshes are crossed an even number of times


def even(mesh, origins, directions):
    count = gk.count_hits(mesh, origins, directions, t_min=-np.inf)
    assert not (count % 2).any()
    return count


@pytest.mark.parametrize("name", (*CLOSED, "Offset1.obj"))
def test_parity_real(name, shared_mesh):
    """Lines at random, through edges, through vertices, from one vertex to another, along edges."""
    mesh = shared_mesh(name)
    even(mesh, *rays_around(mesh, 5000))
    aims = rays_to_edges(mesh, mesh.center + rays_around(mesh, 500)[0], 8000)
    even(mesh, *aims)
    even(mesh, *rays_to_edges(mesh, mesh.vertices, 8000))
    start, end = mesh.vertices[mesh.faces[:, 0]], mesh.vertices[mesh.faces[:, 1]]
    long = (start != end).any(axis=1)
    even(mesh, start[long], (end - start)[long])


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parity_on_a_lattice(steps, dtype):
    """Spheres whose corners are rounded to a lattice: flat, folded, collapsed faces, and lines in all of them."""
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    mesh = gk.Mesh((np.round(ball.vertices * steps) / steps).astype(dtype), ball.faces)
    rng = np.random.default_rng(0)
    assert mesh.topology.n_collapsed > 0 or steps > 3
    origins = rng.integers(-2 * steps, 2 * steps + 1, (20_000, 3)) / steps
    directions = rng.integers(-3, 4, (20_000, 3))
    lines = directions.any(axis=1)
    count = even(mesh, origins[lines], directions[lines])
    assert (count > 0).sum() > 1000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parity_parallel_to_axes(dtype):
    """Lines in the faces and along the edges of a lattice of boxes that touch."""
    box = gk.shapes.box(dtype=dtype)
    mesh = joined(*(moved(box, [x, y, z]) for x in range(3) for y in range(3) for z in range(3)))
    line = np.arange(-4, 13) / 4
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), 2).reshape(-1, 2)
    for axis in range(3):
        origins = np.roll(np.column_stack([grid, np.full(len(grid), 0.3)]), axis + 1, axis=1)
        for sign in (-1, 1):
            count = even(mesh, origins, np.tile(sign * np.eye(3)[axis], (len(grid), 1)))
            assert set(np.unique(count)) <= {0, 6} and (count == 6).sum() >= 12**2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parity_with_faces_without_area(dtype):
    """A closed mesh whose edges are split by needles: three collinear corners, two equal ones."""
    ball = gk.shapes.icosphere(2, dtype=dtype)
    middle = ((ball.vertices[ball.faces[:, 0]] + ball.vertices[ball.faces[:, 1]]) / 2).astype(dtype)
    a, b, c = ball.faces.T
    m = ball.n_vertices + np.arange(ball.n_faces)
    split = np.stack([np.stack([m, b, c], 1), np.stack([a, m, c], 1), np.stack([a, b, m], 1)], 1).reshape(-1, 3)
    mesh = gk.Mesh(np.concatenate([ball.vertices, middle]), split)
    assert mesh.topology.is_closed
    even(mesh, *rays_to_edges(mesh, [[0, 0, 0], [2, 0, 0], [0.1, -3, 0.2]], 20_000))
    even(mesh, np.tile(mesh.vertices[:1], (m.size, 1)), middle - mesh.vertices[0])


@pytest.mark.parametrize("size", [1e-5, 1e-10, 1e-15, 1e-17, 1e-18, 1e-19, 1e-25])
def test_parity_of_tiny_parts(size):
    """A closed part at the centre of a mesh so much larger that products of its coordinates underflow."""
    rng, ball, box = np.random.default_rng(0), gk.shapes.icosphere(1), gk.shapes.box((2, 2, 2))
    mesh = joined(box, gk.Mesh(ball.vertices * np.float32(size), ball.faces))
    even(mesh, (rng.uniform(-1, 1, (10_000, 3)) * size).astype(np.float32), rng.normal(size=(10_000, 3)))


def test_parity_inside_and_outside():
    """From inside an odd number, from outside an even one, aimed at edges and vertices."""
    mesh = gk.shapes.icosphere(3)
    inside = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 3))
    assert (gk.count_hits(mesh, *rays_to_edges(mesh, inside, 20_000)) == 1).all()
    assert (even(mesh, *rays_to_edges(mesh, inside, 20_000)) == 2).all()
    outside = gk.count_hits(mesh, *rays_to_edges(mesh, 3 + inside, 20_000))
    assert set(np.unique(outside)) == {0, 2}


# ---- odd meshes and rays


def test_edge_each_edge_and_vertex_once():
    """trimesh 2317: edge midpoints and vertices are hit once, where two and more faces meet."""
    for mesh in (gk.shapes.icosphere(2), gk.shapes.icosphere(2, dtype=np.float64)):
        corners = mesh.vertices[mesh.faces]
        points = np.concatenate([mesh.vertices, (corners[:, 0] + corners[:, 1]) / 2])
        hits = gk.all_hits(mesh, np.zeros_like(points), points)
        assert np.array_equal(hits.offsets, np.arange(len(points) + 1)) and np.allclose(hits.t, 1, atol=1e-6)


def test_edge_diagonal_of_a_square():
    """The diagonal once; the rim once or not at all, opposite rims in turn (trimesh 1766)."""
    square = gk.Mesh([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], [[0, 1, 2], [2, 3, 0]])
    origins = np.array([[0, 0, 1], [0.5, 0.5, 1], [-1, 0.2, 1], [1, 0.2, 1], [0.2, -1, 1], [0.2, 1, 1]])
    count = gk.count_hits(square, origins, DOWN * 6)
    assert count[:2].tolist() == [1, 1] and count[2] + count[3] == 1 and count[4] + count[5] == 1
    tiles = joined(*(moved(square, [2 * x, 2 * y, 0]) for x in (-1, 0, 1) for y in (-1, 0, 1)))
    assert (gk.count_hits(tiles, origins, DOWN * 6) == 1).all()
    corners = np.array([[x, y, 1.0] for x in (-1, 1) for y in (-1, 1)])
    assert (gk.count_hits(tiles, corners, DOWN * 4) == 1).all()


def test_edge_nested_shells():
    """No cap on the number of hits, and the same ones every time (trimesh 1097)."""
    ball = gk.shapes.icosphere(2)
    mesh = joined(*(gk.Mesh(ball.vertices * np.float32(r), ball.faces) for r in np.arange(1, 41)))
    origins = np.tile([[0.01, 0.02, 0.03]], (400, 1))
    directions = np.random.default_rng(0).normal(size=(400, 3))
    assert (gk.count_hits(mesh, origins, directions) == 40).all()
    first, second = (gk.all_hits(mesh, origins, directions, t_min=-np.inf) for _ in range(2))
    assert np.array_equal(first.offsets, 80 * np.arange(401)) and np.array_equal(first.t, second.t)
    assert np.array_equal(first.face, second.face) and (np.diff(first.t.reshape(400, 80), axis=1) > 0).all()


def test_edge_nested_cylinders():
    """A radial ray through vertices meets every shell, whatever else lies far away (embree 181)."""
    ring = np.stack([np.cos(np.arange(32) * np.pi / 16), np.sin(np.arange(32) * np.pi / 16)], 1)
    a = np.arange(32)
    b = (a + 1) % 32
    sides = np.concatenate([np.stack([a, b, b + 32], 1), np.stack([a, b + 32, a + 32], 1)])
    shells = []
    for k in range(11):
        radius = (1 + k) * (1 if k < 10 else 1e4)
        walls = np.concatenate([np.c_[ring * radius, np.full(32, z)] for z in (0, 1)])
        shells.append(gk.Mesh(walls.astype(np.float32), sides))
    directions = np.column_stack([ring, np.zeros(32)])
    for n in (10, 11):
        mesh = joined(*shells[:n])
        for z in (0.0, 0.5, 1.0):
            origins = np.tile([[0, 0, z]], (32, 1))
            assert gk.cast_rays(mesh, origins, directions).hit.all() and gk.occluded(mesh, origins, directions).all()
        assert (gk.count_hits(mesh, np.tile([[0, 0, 0.5]], (32, 1)), directions) == n).all()


def test_edge_duplicates_and_layers():
    """Faces at one place are all listed, by number; hundreds of hits are sorted."""
    flat = [[-1, -1, 0], [3, -1, 0], [-1, 3, 0]]
    same = gk.Mesh(flat, [[0, 1, 2], [2, 1, 0]] * 100)
    hits = gk.all_hits(same, [[0.25, 0.25, 1]], DOWN)
    assert (hits.t == 1).all() and np.array_equal(hits.face, np.arange(200))
    order = np.random.default_rng(0).permutation(1000)
    vertices = np.tile(np.array(flat, float), (1000, 1))
    vertices[:, 2] = np.repeat(order, 3)
    layers = gk.Mesh(vertices, np.arange(3000).reshape(-1, 3))
    hits = gk.all_hits(layers, [[0.25, 0.25, -1]] * 3, [[0, 0, 1], [0, 0, -1], [0, 0, 2]], t_min=-np.inf)
    assert hits.offsets.tolist() == [0, 1000, 2000, 3000]
    assert np.array_equal(hits.t[:1000], np.arange(1, 1001))
    assert np.array_equal(order[hits.face[:1000]], np.arange(1000))
    assert np.array_equal(hits.t[1000:2000], np.arange(-1000, 0)) and np.array_equal(hits.t[2000:], hits.t[:1000] / 2)


def test_edge_boxes_in_boxes():
    """Rays from the middle to the corners of a larger box that lie on lines of a smaller one (trimesh 1496)."""
    inner, outer = (gk.Mesh(gk.shapes.box().vertices * s, gk.shapes.box().faces) for s in (40, 60))
    fine, targets = split_to(inner, 20), split_to(outer, 20).vertices
    origins = np.zeros((len(targets), 3))
    assert gk.cast_rays(fine, origins, targets).hit.all() and gk.occluded(fine, origins, targets).all()


def split_to(mesh, edge):
    """Quarter the faces until no edge is longer."""
    v, f = mesh.vertices.astype(np.float64), mesh.faces
    while np.linalg.norm(v[f[:, 0]] - v[f[:, 1]], axis=1).max() > edge * 1.5:
        corners = v[f]
        middle = (corners + np.roll(corners, -1, axis=1)) / 2
        a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
        ab, bc, ca = middle[:, 0], middle[:, 1], middle[:, 2]
        quarters = np.stack([np.stack(t, 1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))], 1)
        v, inverse = np.unique(quarters.reshape(-1, 3), axis=0, return_inverse=True)
        f = inverse.reshape(-1, 3)
    return gk.Mesh(v.astype(np.float32), f)


def test_edge_empty():
    nothing, box = gk.Mesh(np.empty((0, 3)), np.empty((0, 3), int)), gk.shapes.box()
    for mesh, n in ((nothing, 2), (box, 0), (nothing, 0)):
        rays = np.ones((n, 3)), np.ones((n, 3))
        hits = gk.all_hits(mesh, *rays)
        assert hits.offsets.tolist() == [0] * (n + 1) and len(hits.t) == len(hits.face) == 0
        assert gk.count_hits(mesh, *rays).tolist() == [0] * n and gk.occluded(mesh, *rays).tolist() == [False] * n
    miss = gk.all_hits(box, [[9, 9, 9]] * 2, DOWN * 2)
    assert miss.offsets.tolist() == [0, 0, 0] and miss.offsets.dtype == np.int64 and miss.t.dtype == np.float32


def test_edge_degenerate():
    mesh = gk.Mesh([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]], [[0, 1, 2], [0, 1, 3]])
    rays = [[1, 0, 0], [1, 0, 0.5], [0, 0, 5]], [[-1, 0, 0], [-1, 0, 0], [0, 0, -1]]
    assert not gk.count_hits(mesh, *rays).any() and not gk.occluded(mesh, *rays).any()


def test_alone_as_in_a_batch(shared_mesh):
    """One ray alone is answered as among many, by either tree."""
    mesh = shared_mesh("spot_low.obj")
    other = mesh.copy()
    other.__dict__["bvh"] = Bvh(mesh.vertices_array, mesh.faces_array, mesh.center, method="morton")
    aimed = rays_to_edges(mesh, mesh.vertices, 3000)
    origins, directions = (np.concatenate(a) for a in zip(rays_around(mesh, 3000), aimed, strict=True))
    hits, occluded = gk.all_hits(mesh, origins, directions), gk.occluded(mesh, origins, directions)
    twin = gk.all_hits(other, origins, directions)
    assert all(np.array_equal(a, b) for a, b in zip(hits, twin, strict=True))
    assert np.array_equal(occluded, gk.occluded(other, origins, directions))
    for some in (slice(0, 1), slice(5, 6), slice(10, 17), slice(4000, 4300)):
        part = gk.all_hits(mesh, origins[some], directions[some])
        inner = slice(hits.offsets[some.start], hits.offsets[some.stop])
        assert np.array_equal(part.t, hits.t[inner]) and np.array_equal(part.face, hits.face[inner])
        assert np.array_equal(gk.occluded(mesh, origins[some], directions[some]), occluded[some])


def test_threads(shared_mesh):
    mesh, before, runs = shared_mesh("spot.obj"), gk.num_threads(), []
    rays = rays_around(mesh, 5000)
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            fresh = mesh.copy()
            answers = *gk.all_hits(fresh, *rays), gk.occluded(fresh, *rays), gk.count_hits(fresh, *rays)
            runs.append([a.tobytes() for a in answers])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]
