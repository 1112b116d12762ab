"""trimesh's ray interface, answered by geomkit: the same behaviour, and what users of trimesh reported."""

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import trimesh

import geomkit as gk
from geomkit.compat import RayMeshIntersector

ROOT = Path(__file__).parents[2]
DOWN = [[0.0, 0.0, -1.0]]


def box(*extents, **options):
    return plugged(trimesh.creation.box(extents=extents or (2, 2, 2)), **options)


def plugged(mesh, **options):
    mesh.ray = RayMeshIntersector(mesh, **options)
    return mesh


def square():
    corners = [[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]
    return trimesh.Trimesh(corners, [[0, 1, 2], [2, 3, 0]], process=False)


def random_rays(n, seed=0, size=2.0):
    rng = np.random.default_rng(seed)
    origins = rng.uniform(-size, size, (n, 3))
    return origins, rng.uniform(-1, 1, (n, 3)) - origins


def hits_per_ray(ray, origins, directions, **options):
    return np.bincount(ray.intersects_id(origins, directions, **options)[1], minlength=len(origins))


# ---- the interface


@pytest.mark.parametrize("origin", [[0.1, 0.2, 5.0], [9.0, 9.0, 9.0]], ids=["hits", "misses"])
@pytest.mark.parametrize("dtype", [None, np.float32])
def test_shapes_and_dtypes(origin, dtype):
    ray = box(dtype=dtype).ray
    m = 2 if origin[0] < 1 else 0
    index_tri, index_ray = ray.intersects_id([origin], DOWN)
    assert index_tri.dtype == index_ray.dtype == np.int64 and index_tri.shape == index_ray.shape == (m,)
    index_tri, index_ray, locations = ray.intersects_id([origin], DOWN, return_locations=True)
    assert locations.dtype == np.float64 and locations.shape == (m, 3)
    given = ray.intersects_location([origin], DOWN)
    assert all(np.array_equal(a, b) for a, b in zip(given, (locations, index_ray, index_tri), strict=True))
    first = ray.intersects_first([origin], DOWN)
    assert first.dtype == np.int64 and first.tolist() == (index_tri[:1].tolist() or [-1])
    any_hit = ray.intersects_any([origin], DOWN)
    assert any_hit.dtype == bool and any_hit.tolist() == [m > 0]
    inside = ray.contains_points([origin, [0, 0, 0]])
    assert inside.dtype == bool and inside.tolist() == [False, True]


def test_no_rays():
    ray = box().ray
    for empty in ([], np.zeros((0, 3))):
        locations, index_ray, index_tri = ray.intersects_location(empty, empty)
        assert locations.shape == (0, 3) and index_ray.shape == index_tri.shape == (0,)
        assert [len(a) for a in ray.intersects_id(empty, empty, multiple_hits=False)] == [0, 0]
        assert ray.intersects_first(empty, empty).shape == ray.intersects_any(empty, empty).shape == (0,)
        assert ray.contains_points(empty).shape == (0,)


def test_no_faces():
    ray = RayMeshIntersector(trimesh.Trimesh())
    assert ray.intersects_first([[0, 0, 1]], DOWN).tolist() == [-1]
    assert ray.intersects_any([[0, 0, 1]], DOWN).tolist() == [False]
    for multiple in (True, False):
        given = ray.intersects_location([[0, 0, 1]], DOWN, multiple_hits=multiple)
        assert [a.shape for a in given] == [(0, 3), (0,), (0,)]
    assert ray.contains_points([[0, 0, 0]]).tolist() == [False]


def test_hits_come_by_ray_and_from_near_to_far():
    mesh = plugged(trimesh.util.concatenate([trimesh.creation.icosphere(2, radius) for radius in (3, 1, 2)]))
    origins, directions = random_rays(500, size=4)
    locations, index_ray, index_tri = mesh.ray.intersects_location(origins, directions)
    distance = np.linalg.norm(locations - origins[index_ray], axis=1)
    assert len(index_ray) > 500
    assert (np.lexsort([distance, index_ray]) == np.arange(len(index_ray))).all()
    assert np.array_equal(mesh.ray.intersects_first(origins, directions)[np.unique(index_ray)],
                          index_tri[np.unique(index_ray, return_index=True)[1]])  # fmt: skip
    assert np.array_equal(mesh.ray.intersects_any(origins, directions), np.isin(np.arange(500), index_ray))


def test_only_the_first_hit():
    mesh = plugged(trimesh.creation.icosphere(3))
    origins, directions = random_rays(300)
    first = mesh.ray.intersects_first(origins, directions)
    for given in (
        mesh.ray.intersects_id(origins, directions, multiple_hits=False),
        mesh.ray.intersects_location(origins, directions, multiple_hits=False)[:0:-1],
        mesh.ray.intersects_id(origins, directions, max_hits=1),
    ):
        assert np.array_equal(given[1], np.flatnonzero(first >= 0))
        assert np.array_equal(given[0], first[first >= 0])


def test_max_hits_keeps_the_nearest():
    mesh = plugged(trimesh.util.concatenate([trimesh.creation.icosphere(2, radius) for radius in range(1, 6)]))
    origins = [[0.1, 0.2, 0.3], [0.1, 0.2, 9.0], [9.0, 9.0, 9.0]]
    all_tri, all_ray = mesh.ray.intersects_id(origins, DOWN * 3)
    assert np.bincount(all_ray, minlength=3).tolist() == [5, 10, 0]
    for most in (1, 3, 7, 1000):
        index_tri, index_ray, locations = mesh.ray.intersects_id(
            origins, DOWN * 3, max_hits=np.int64(most), return_locations=True
        )
        kept = [all_tri[all_ray == ray][:most] for ray in range(3)]
        assert np.array_equal(index_tri, np.concatenate(kept)) and len(locations) == len(index_ray)
        assert np.bincount(index_ray, minlength=3).tolist() == [len(part) for part in kept]


def test_directions_need_not_have_length_one():
    mesh = plugged(trimesh.creation.icosphere(2))
    origins, directions = random_rays(200)
    wanted = mesh.ray.intersects_location(origins, directions)
    for scale in (1e-6, 1e6):
        given = mesh.ray.intersects_location(origins, directions * scale)
        assert all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(given, wanted, strict=True))


def test_a_ray_without_direction_hits_nothing():
    ray = box().ray
    origins, directions = [[0, 0, 5], [0, 0, 0], [0.5, 0, 5]], [[0, 0, -1], [0, 0, 0], [0, 0, -1]]
    assert ray.intersects_any(origins, directions).tolist() == [True, False, True]
    assert (ray.intersects_first(origins, directions) >= 0).tolist() == [True, False, True]
    assert np.unique(ray.intersects_id(origins, directions)[1]).tolist() == [0, 2]
    assert ray.intersects_id(origins, directions, multiple_hits=False)[1].tolist() == [0, 2]


def test_input_of_any_kind():
    ray = box().ray
    wanted = ray.intersects_id([[0.5, 0.25, 5]], DOWN)
    rays = np.array([[0.5, 0.25, 5, 0, 0, -1]])
    for origins, directions in (
        (rays[:, :3], rays[:, 3:]),
        (rays[:, :3].astype(np.float32), rays[:, 3:].astype(np.int8)),
        (trimesh.caching.tracked_array(rays[:, :3]), np.asfortranarray(rays[:, 3:])),
    ):
        given = ray.intersects_id(origins, directions)
        assert all(np.array_equal(a, b) for a, b in zip(given, wanted, strict=True))
    assert np.array_equal(rays, [[0.5, 0.25, 5, 0, 0, -1]])


# ---- values


@pytest.mark.parametrize("shape", ["icosphere", "torus", "soup"])
def test_value_beside_trimesh(shape):
    pytest.importorskip("rtree")
    if shape == "soup":
        corners = np.random.default_rng(3).uniform(-1, 1, (120, 3))
        mesh = trimesh.Trimesh(corners, np.arange(120).reshape(-1, 3), process=False)
    else:
        mesh = {"icosphere": trimesh.creation.icosphere(2), "torus": trimesh.creation.torus(1, 0.4, 16, 12)}[shape]
    ours, theirs = RayMeshIntersector(mesh), trimesh.ray.ray_triangle.RayMeshIntersector(mesh)
    origins, directions = random_rays(400, seed=2)
    for multiple in (True, False):
        options = {"multiple_hits": multiple, "return_locations": True}
        a, b = ours.intersects_id(origins, directions, **options), theirs.intersects_id(origins, directions, **options)
        assert len(b[0]) > 100
        orders = [np.lexsort([tri, ray]) for tri, ray, _ in (a, b)]
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype and np.allclose(x[orders[0]], y[orders[1]], rtol=0, atol=1e-9)
    for query in ("intersects_first", "intersects_any"):
        x, y = getattr(ours, query)(origins, directions), getattr(theirs, query)(origins, directions)
        assert x.dtype == y.dtype and np.array_equal(x, y)
    if mesh.is_watertight:
        points = np.random.default_rng(4).uniform(-1.2, 1.2, (400, 3))
        assert np.array_equal(ours.contains_points(points), theirs.contains_points(points))


def test_float64_vertices_keep_their_precision():
    far = np.array([4e5, -3e6, 50.0])
    mesh = plugged(trimesh.Trimesh(trimesh.creation.box().vertices + far, trimesh.creation.box().faces, process=False))
    locations = mesh.ray.intersects_location([far + [0.1, 0.2, 5]], DOWN)[0]
    assert np.allclose(locations - far, [[0.1, 0.2, 0.5], [0.1, 0.2, -0.5]], rtol=0, atol=1e-9)


def test_precision_follows_the_mesh_unless_told():
    single = gk.shapes.icosphere(2)
    double = gk.shapes.icosphere(2, dtype=np.float64)
    origins, directions = random_rays(200)
    for mesh, dtype, wanted in (
        (single, None, single),
        (double, None, double),
        (double, np.float32, gk.Mesh(double.vertices.astype(np.float32), double.faces)),
        (single, "float64", gk.Mesh(single.vertices.astype(np.float64), single.faces)),
    ):
        hits = gk.cast_rays(wanted, origins, directions)
        locations = origins + hits.t[:, None].astype(np.float64) * directions
        given = RayMeshIntersector(mesh, dtype=dtype).intersects_location(origins, directions, multiple_hits=False)[0]
        assert np.array_equal(given, locations[hits.face >= 0])


def test_contains_points():
    mesh = plugged(trimesh.creation.icosphere(3))
    points = np.random.default_rng(5).uniform(-1.2, 1.2, (2000, 3))
    radius = np.linalg.norm(points, axis=1)
    inside = mesh.ray.contains_points(points)
    assert inside[radius < 0.98].all() and not inside[radius > 1].any()
    assert np.array_equal(mesh.contains(points), inside)


def test_contains_points_of_a_cavity():
    inner = trimesh.creation.box(extents=(1, 1, 1))
    inner.invert()
    mesh = plugged(trimesh.util.concatenate([trimesh.creation.box(extents=(3, 3, 3)), inner]))
    points = [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert mesh.contains(points).tolist() == [False, True, False]
    assert trimesh.ray.ray_util.contains_points(mesh.ray, points).tolist() == [False, True, False]


def test_contains_points_of_overlapping_parts():
    """Where trimesh's parity takes what two parts share for outside."""
    parts = [trimesh.creation.box(extents=(2, 2, 2)), trimesh.creation.box(extents=(1, 1, 1))]
    mesh, points = trimesh.util.concatenate(parts), [[0.1, 0.1, 0.1], [0.8, 0.1, 0.1], [2, 0, 0]]
    assert RayMeshIntersector(mesh).contains_points(points).tolist() == [True, True, False]
    assert RayMeshIntersector(mesh, sign="parity").contains_points(points).tolist() == [False, True, False]


# ---- the mesh changes


def test_answers_follow_the_mesh():
    mesh = box()
    first = mesh.ray.intersects_location([[0.1, 0.2, 9]], DOWN, multiple_hits=False)[0]
    assert first.tolist() == [[0.1, 0.2, 1.0]] and mesh.contains([[0, 0, 0]]).all()
    mesh.vertices[:, 2] += 3
    assert np.allclose(mesh.ray.intersects_location([[0.1, 0.2, 9]], DOWN)[0][:, 2], [4, 2])
    assert not mesh.contains([[0, 0, 0]]).any() and mesh.contains([[0, 0, 3]]).all()
    mesh.apply_scale(2)
    assert np.allclose(mesh.ray.intersects_location([[0.1, 0.2, 9]], DOWN)[0][:, 2], [8, 4])
    mesh.vertices = mesh.vertices - [0, 0, 7]
    assert np.allclose(mesh.ray.intersects_location([[0.1, 0.2, 9]], DOWN)[0][:, 2], [1, -3])
    mesh.update_faces(mesh.triangles_center[:, 2] < 0.5)
    assert np.allclose(mesh.ray.intersects_location([[0.1, 0.2, 9]], DOWN)[0][:, 2], [-3])
    mesh.faces = mesh.faces[:0]
    assert not mesh.ray.intersects_any([[0.1, 0.2, 9]], DOWN).any()


@pytest.mark.parametrize("list_of", [np.asarray, np.ndarray.tolist], ids=["array", "list"])
def test_answers_follow_any_object(list_of):
    source = gk.shapes.box(dtype=np.float64)
    mesh = SimpleNamespace(vertices=list_of(source.vertices.copy()), faces=list_of(source.faces.copy()))
    ray = RayMeshIntersector(mesh)
    assert ray.intersects_first([[0.1, 0.2, 9]], DOWN) >= 0
    tree = ray._current().bvh
    assert ray.intersects_any([[0.1, 0.2, 9]], DOWN) and ray._current().bvh is tree
    mesh.faces[:] = [face[::-1] for face in mesh.faces]
    assert ray._current().bvh is not tree
    for vertex in mesh.vertices:
        vertex[0] += 5
    assert not ray.intersects_any([[0.1, 0.2, 9]], DOWN) and ray.intersects_any([[5.1, 0.2, 9]], DOWN)


def test_another_mesh_may_be_put_in():
    mesh = gk.shapes.box()
    ray = RayMeshIntersector(mesh)
    assert ray.intersects_any([[0.1, 0.2, 9]], DOWN)
    assert ray._current() is mesh
    for other in (
        gk.Mesh(mesh.vertices + np.float32(3), mesh.faces),
        trimesh.creation.box().apply_translation([3] * 3),
    ):
        ray.mesh = other
        assert not ray.intersects_any([[0.1, 0.2, 9]], DOWN) and ray.intersects_any([[3.1, 3.2, 9]], DOWN)


def test_the_tree_is_kept_while_nothing_changes():
    mesh = box()
    mesh.ray.intersects_any([[0, 0, 9]], DOWN)
    known = mesh.ray._current()
    mesh.vertices = mesh.vertices.copy()
    mesh.visual.face_colors = [255, 0, 0, 255]
    assert mesh.ray._current() is known
    mesh.vertices[0] += 1e-9
    assert mesh.ray._current() is not known


def test_copies():
    mesh = box()
    mesh.ray.intersects_any([[0, 0, 9]], DOWN)
    for ray in (copy.copy(mesh.ray), copy.deepcopy(mesh.ray), pickle.loads(pickle.dumps(mesh)).ray):
        assert isinstance(ray, RayMeshIntersector) and ray is not mesh.ray
        assert ray.intersects_any([[0, 0, 9], [9, 9, 9]], DOWN * 2).tolist() == [True, False]
    assert copy.copy(mesh.ray).mesh is mesh


def test_mesh_of_another_library():
    torch = pytest.importorskip("torch")
    source = gk.shapes.box(dtype=np.float64)
    mesh = gk.Mesh(torch.tensor(np.array(source.vertices)), torch.tensor(np.array(source.faces)))
    ray = RayMeshIntersector(mesh)
    origins = torch.tensor([[0.1, 0.2, 5.0]], dtype=torch.float64)
    for given in (*ray.intersects_location(origins, DOWN), ray.intersects_first(origins, DOWN)):
        assert type(given) is np.ndarray
    assert ray.intersects_any(origins, DOWN).tolist() == ray.contains_points(0 * origins).tolist() == [True]


# ---- what users of trimesh reported


def test_edge_diagonal_of_a_square():
    """A ray through the diagonal of a square has one hit (trimesh 1766)."""
    mesh = plugged(square())
    locations, index_ray, index_tri = mesh.ray.intersects_location([[0, 0, 1]], DOWN)
    assert locations.tolist() == [[0, 0, 0]] and index_ray.tolist() == [0] and index_tri[0] in (0, 1)
    assert hits_per_ray(mesh.ray, [[0, 0, 1]], DOWN, multiple_hits=False).tolist() == [1]
    assert hits_per_ray(mesh.ray, [[x, x, 1] for x in np.linspace(-0.9, 0.9, 19)], DOWN * 19).tolist() == [1] * 19


def test_edge_any_hit_is_first_hit():
    """Rays from the centre of a box through the vertices of a larger one all hit (trimesh 1496)."""
    inner = plugged(trimesh.creation.box(extents=(40, 40, 40)).subdivide_to_size(20))
    directions = trimesh.creation.box(extents=(60, 60, 60)).subdivide_to_size(20).vertices
    origins = np.zeros_like(directions)
    assert inner.ray.intersects_any(origins, directions).all()
    assert (inner.ray.intersects_first(origins, directions) >= 0).all()
    for multiple in (True, False):
        assert (hits_per_ray(inner.ray, origins, directions, multiple_hits=multiple) == 1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edge_hits_are_counted_once(dtype):
    """Rays at the middles of edges and at vertices of a sphere, from inside and through (trimesh 2317)."""
    mesh = plugged(trimesh.creation.icosphere(3), dtype=dtype)
    aims = np.concatenate([mesh.vertices, mesh.vertices[mesh.edges_unique].mean(axis=1)])
    assert (hits_per_ray(mesh.ray, np.zeros_like(aims), aims) == 1).all()
    assert (hits_per_ray(mesh.ray, 3 * aims, -aims) == 2).all()
    locations, index_ray, _ = mesh.ray.intersects_location(np.zeros_like(aims), aims)
    assert np.allclose(locations, aims[index_ray], rtol=0, atol=1e-6 if dtype == np.float32 else 1e-14)


def test_edge_rim():
    """Rays that touch a box along its sides and at its corners do hit (trimesh 2317)."""
    mesh = box()
    origins = [[x, y, 5] for x in (-1, 0, 1) for y in (-1, 0, 1)]
    assert mesh.ray.intersects_any(origins, DOWN * 9).all()
    assert (mesh.ray.intersects_first(origins, DOWN * 9) >= 0).all()
    assert (hits_per_ray(mesh.ray, origins, DOWN * 9) % 2 == 0).all()


def test_edge_ray_in_the_plane_of_a_face():
    """It hits nothing of it, and the arrays have their shapes (trimesh 2462)."""
    mesh = plugged(square())
    for multiple in (True, False):
        given = mesh.ray.intersects_location([[-5, 0.1, 0]], [[1, 0, 0]], multiple_hits=multiple)
        assert [a.shape for a in given] == [(0, 3), (0,), (0,)]


@pytest.mark.parametrize("scale", [1e-4, 0.1, 1.0, 10.0, 1e4, 1e8])
def test_edge_origin_on_the_surface(scale):
    mesh = plugged(trimesh.creation.box().subdivide().subdivide().apply_scale(scale), scale_to_box=False)
    assert hits_per_ray(mesh.ray, [[0, 0, scale / 2]], DOWN).tolist() == [2]


def test_edge_small_mesh_far_away():
    """Two hits, not the same one again and again (trimesh 2504)."""
    mesh = box(1e-3, 1e-3, 1e-3)
    locations = mesh.ray.intersects_location([[1e-5, 2e-5, 1e4]], DOWN)[0]
    assert np.allclose(locations[:, 2], [5e-4, -5e-4], rtol=0, atol=1e-11)


def test_edge_one_ray_and_a_million():
    """A ray has the same hits alone and among a million others, bit for bit (trimesh 306 and 1362)."""
    mesh = plugged(trimesh.creation.icosphere(3))
    origins, directions = random_rays(1_000_000)
    index_tri, index_ray, locations = mesh.ray.intersects_id(origins, directions, return_locations=True)
    first, any_hit = mesh.ray.intersects_first(origins, directions), mesh.ray.intersects_any(origins, directions)
    for i in range(0, 1_000_000, 33_333):
        one = slice(i, i + 1)
        alone = mesh.ray.intersects_id(origins[one], directions[one], return_locations=True)
        assert np.array_equal(alone[0], index_tri[index_ray == i])
        assert np.array_equal(alone[2], locations[index_ray == i])
        assert mesh.ray.intersects_first(origins[one], directions[one]) == first[i]
        assert mesh.ray.intersects_any(origins[one], directions[one]) == any_hit[i]


def test_edge_many_shells():
    """Every hit of forty nested shells is found, and the same ones each time (trimesh 1097)."""
    shells = [trimesh.creation.icosphere(2, radius) for radius in np.linspace(1, 5, 40)]
    mesh = plugged(trimesh.util.concatenate(shells))
    aims = np.random.default_rng(6).normal(size=(1000, 3)) * 0.1
    origins = trimesh.unitize(np.random.default_rng(7).normal(size=(1000, 3))) * 10
    found = mesh.ray.intersects_id(origins, aims - origins, return_locations=True)
    assert (np.bincount(found[1], minlength=1000) == 80).all()
    for _ in range(3):
        again = mesh.ray.intersects_id(origins, aims - origins, return_locations=True)
        assert all(np.array_equal(a, b) for a, b in zip(again, found, strict=True))


def test_edge_surfaces_closer_than_any_offset():
    """Sheets a millionth of a millionth apart are all found, in order."""
    # (trimesh's own concatenate would merge their vertices.)
    corners = [square().vertices + [0, 0, 1e-12 * k] for k in range(6)]
    faces = [square().faces + 4 * k for k in range(6)]
    mesh = plugged(trimesh.Trimesh(np.concatenate(corners), np.concatenate(faces), process=False))
    assert (mesh.ray.intersects_id([[0.3, 0.1, 1]], DOWN)[0] // 2).tolist() == [5, 4, 3, 2, 1, 0]


# ---- trimesh's own code on top of it


def test_thickness_of_a_box():
    mesh = box(1, 2, 3)
    points, faces = trimesh.sample.sample_surface(mesh, 200, seed=1)
    normals = mesh.face_normals[faces]
    thickness = trimesh.proximity.thickness(mesh, points, normals=normals, method="ray")
    assert np.allclose(thickness, mesh.extents[np.abs(normals).argmax(axis=1)])
    reach = trimesh.proximity.thickness(mesh, points, exterior=True, normals=normals, method="ray")
    assert np.isinf(reach).all()


def test_every_mesh_when_put_in_place_of_both_engines(monkeypatch):
    monkeypatch.setattr(trimesh.ray.ray_triangle, "RayMeshIntersector", RayMeshIntersector)
    if trimesh.ray.has_embree:
        monkeypatch.setattr(trimesh.ray.ray_pyembree, "RayMeshIntersector", RayMeshIntersector)
    for use_embree in (True, False):
        mesh = trimesh.creation.box(use_embree=use_embree)
        for each in (mesh, mesh.copy(), mesh.subdivide()):
            assert isinstance(each.ray, RayMeshIntersector) and each.ray.mesh is each
            assert each.contains([[0.1, 0.2, 0.3], [1, 1, 1]]).tolist() == [True, False]


def test_importing_it_leaves_trimesh_alone():
    program = "import sys, geomkit.compat; print('trimesh' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


# ---- errors


def refuses(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}")


@pytest.mark.parametrize("query", ["intersects_id", "intersects_first", "intersects_any", "intersects_location"])
def test_error_of_rays(query):
    ask = getattr(box().ray, query)
    op = "intersects_id" if query == "intersects_location" else query
    with refuses(ValueError, f"{op}: ray_origins: expected (N, 3) floats, got (3,) float64"):
        ask([0.0, 0.0, 1.0], DOWN)
    with refuses(ValueError, f"{op}: ray_directions: expected as many as origins, 2, got 1"):
        ask([[0, 0, 1], [0, 0, 2]], DOWN)
    with refuses(TypeError, f"{op}: ray_directions: expected (N, 3) floats, got (1, 3) bool"):
        ask([[0, 0, 1]], [[True, False, False]])
    for origin, direction in (([0, 0, np.nan], [0, 0, 1]), ([0, 0, 0], [0, np.inf, 1])):
        with pytest.raises(ValueError, match="finite.*ray 1"):
            ask([[0, 0, 1], origin], [[0, 0, 1], direction])


def test_error_of_options():
    ray = box().ray
    for most in (0, -1):
        with refuses(ValueError, f"intersects_id: max_hits: expected a number of at least 1, or None, got {most}"):
            ray.intersects_id([[0, 0, 1]], DOWN, max_hits=most)
    with pytest.raises(TypeError):
        ray.intersects_id([[0, 0, 1]], DOWN, max_hits=1.5)
    with refuses(ValueError, "RayMeshIntersector: dtype: expected float32 or float64, got int32"):
        RayMeshIntersector(box(), dtype=np.int32)
    with refuses(ValueError, "contains_points: points: expected (N, 3) floats, got (3,) float64"):
        ray.contains_points([0.0, 0.0, 0.0])


def test_error_of_a_mesh():
    mesh = box()
    mesh.vertices[3, 1] = np.nan
    with refuses(gk.MeshError, "Mesh: vertices: expected finite numbers"):
        mesh.ray.intersects_any([[0, 0, 9]], DOWN)
