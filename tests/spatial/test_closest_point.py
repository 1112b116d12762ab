"""Closest point: values, edges, errors, gradients, threads, processes."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import geomkit as gk
from tests.reference import around, closest_points, distances, surface_points

MESHES = ("spot_low.obj", "torus.obj", "cube_no_bottom.obj", "boxframe.obj", "triple_vierbein.obj", "moebius.obj")


def check(mesh, points, tolerance):
    """All that the record says, against brute force, to `tolerance` of the diagonal."""
    hit = gk.closest_point(mesh, points)
    p = np.asarray(points, mesh.dtype).astype(np.float64)
    vertices = mesh.vertices_array.astype(np.float64)
    scale = tolerance * mesh.diagonal
    assert np.abs(hit.distance - distances(vertices, mesh.faces_array, p)).max() <= scale
    assert np.abs(np.linalg.norm(p - hit.point, axis=1) - hit.distance).max() <= scale
    assert (hit.barycentric >= 0).all() and np.abs(hit.barycentric.sum(1) - 1).max() < 1e-6
    corners = vertices[mesh.faces_array[hit.face]]
    assert np.abs((hit.barycentric[:, :, None] * corners).sum(1) - hit.point).max() <= scale
    zero = hit.barycentric == 0
    on_edge, on_corner = (hit.feature >= 1) & (hit.feature <= 3), hit.feature >= 4
    assert set(np.unique(hit.feature)) <= set(range(7))
    assert not zero[hit.feature == 0].all(axis=1).any()
    assert zero[on_edge, (hit.feature[on_edge] + 1) % 3].all()
    assert (hit.barycentric[on_corner, hit.feature[on_corner] - 4] == 1).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_value(dtype, tolerance):
    rng = np.random.default_rng(0)
    for mesh in (gk.shapes.icosphere(2, dtype=dtype), gk.shapes.box(dtype=dtype), gk.shapes.cylinder(dtype=dtype)):
        check(mesh, rng.uniform(-1.5, 1.5, (500, 3)), tolerance)


@pytest.mark.parametrize("name", MESHES)
def test_value_real(name, shared_mesh):
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-12)):
        mesh = shared_mesh(name, dtype=dtype)
        check(mesh, around(mesh, 75), tolerance)


def test_value_large(shared_mesh):
    """On meshes too large for brute force at many points, at a few: both trees, many queries at once."""
    mesh = shared_mesh("bunny.obj")
    points = around(mesh, 20_000)
    hit = gk.closest_point(mesh, points)
    some = slice(None, None, 1600)
    expected = distances(mesh.vertices_array, mesh.faces_array, points[some].astype(np.float32))
    assert np.abs(hit.distance[some] - expected).max() <= 1e-6 * mesh.diagonal
    alone = np.array([gk.closest_point(mesh, points[i : i + 1]).distance[0] for i in range(0, len(points), 1600)])
    assert np.abs(alone - hit.distance[some]).max() <= 1e-7 * mesh.diagonal


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_on_surface(dtype, shared_mesh):
    """Samples of the surface are at distance zero, to rounding (pytorch3d 897, 1354); its vertices exactly."""
    mesh = shared_mesh("spot.obj", dtype=dtype)
    points = surface_points(mesh, 5000)[0]
    assert gk.closest_point(mesh, points).distance.max() < (1e-7 if dtype == np.float32 else 1e-15) * 4 * mesh.diagonal
    assert (gk.closest_point(mesh, mesh.vertices).distance == 0).all()


def test_value_far_from_origin():
    """A mesh a million units away keeps its distances to 1e-6 of its size."""
    near = gk.shapes.icosphere(3, dtype=np.float64)
    points = np.random.default_rng(0).uniform(-2, 2, (300, 3))
    for dtype, tolerance in ((np.float64, 2e-9), (np.float32, 1e-6)):
        # Coordinates that float32 holds exactly at this place, or it would be the input that is rounded.
        grid = 2.0**-4 if dtype == np.float32 else 2.0**-40
        vertices, p = (np.round(x * (16 if dtype == np.float32 else 1) / grid) * grid for x in (near.vertices, points))
        at_home = gk.Mesh(vertices, near.faces)
        away = gk.Mesh((vertices + 1e6).astype(dtype), near.faces)
        expected = gk.closest_point(at_home, p).distance
        assert np.abs(gk.closest_point(away, p + 1e6).distance - expected).max() <= tolerance * at_home.diagonal


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e12])
def test_value_scale(scale):
    """No absolute epsilon: distances scale with the mesh."""
    points = np.random.default_rng(0).uniform(-2, 2, (300, 3))
    for dtype in (np.float32, np.float64):
        mesh = gk.shapes.torus(dtype=dtype)
        scaled = gk.Mesh(mesh.vertices * dtype(scale), mesh.faces)
        hit, expected = gk.closest_point(scaled, points * scale), gk.closest_point(mesh, points)
        assert np.allclose(hit.distance, scale * expected.distance, rtol=2e-5, atol=1e-6 * scale)


def test_value_scale_invariance_by_two():
    """Scaling by a power of two changes no bit of the mathematics."""
    points = np.random.default_rng(0).uniform(-2, 2, (200, 3)).astype(np.float32)
    mesh = gk.shapes.torus()
    scaled = gk.Mesh(mesh.vertices * np.float32(1024), mesh.faces)
    assert np.array_equal(
        gk.closest_point(scaled, points * 1024).distance, 1024 * gk.closest_point(mesh, points).distance
    )


def test_edge_empty():
    empty = gk.Mesh(np.empty((0, 3)), np.empty((0, 3), int))
    hit = gk.closest_point(empty, [[0.0, 0.0, 0.0]])
    assert (hit.distance.tolist(), hit.face.tolist(), hit.feature.tolist()) == ([np.inf], [-1], [-1])
    hit = gk.closest_point(gk.shapes.box(), np.empty((0, 3)))
    assert [a.shape for a in hit] == [(0, 3), (0,), (0, 3), (0,), (0,)]
    gradient = gk.closest_point.adjoint(empty, [[0.0, 0.0, 0.0]], adj_distance=[1.0])
    assert gradient.points.tolist() == [[0, 0, 0]] and gradient.vertices.shape == (0, 3)


def test_edge_no_faces():
    """Vertices without faces (libigl 2089)."""
    assert gk.closest_point(gk.Mesh([[0, 0, 0]], np.empty((0, 3), int)), [[1, 2, 3]]).distance.tolist() == [np.inf]


@pytest.mark.parametrize("corners", [
    [[0, 0, 0], [1, 0, 0], [3, 0, 0]],
    [[0, 0, 0], [3, 0, 0], [1, 0, 0]],
    [[1, 0, 0], [3, 0, 0], [0, 0, 0]],
    [[0, 0, 0], [3, 0, 0], [3, 0, 0]],
    [[3, 0, 0], [3, 0, 0], [0, 0, 0]],
])  # fmt: skip
def test_edge_collinear(corners):
    """Three collinear points are a segment (MPI-IS/mesh 36, scalismo 262)."""
    mesh = gk.Mesh(np.array(corners, float), [[0, 1, 2]])
    points = [[-1, 0, 0], [2, 1, 0], [4, 0, 0], [1.5, 0, 0]]
    assert gk.closest_point(mesh, points).distance.tolist() == [1, 1, 1, 0]


def test_edge_point_triangle():
    mesh = gk.Mesh([[1.0, 1.0, 1.0]], [[0, 0, 0]])
    hit = gk.closest_point(mesh, [[1, 1, 1], [1, 1, 3]])
    assert hit.distance.tolist() == [0, 2] and np.isfinite(hit.barycentric).all()


def test_edge_small_triangles():
    """Triangles that an absolute area threshold calls degenerate (pytorch3d 613)."""
    corners = [[-0.1630, -0.6029, 0.1093], [-0.1633, -0.6029, 0.1095], [-0.1641, -0.6041, 0.1075]]
    expected = distances(np.array(corners), np.array([[0, 1, 2]]), np.array([[-1.0, -1.0, -1.0]]))
    got = gk.closest_point(gk.Mesh(np.array(corners), [[0, 1, 2]]), [[-1, -1, -1]]).distance
    assert np.abs(got - expected) < 1e-15


def test_edge_permutations():
    """The order of a triangle's corners does not matter (pytorch3d 682)."""
    corners = np.array([[-0.0021, -0.3769, 0.7146], [-0.0161, -0.3771, 0.7146], [-0.0021, -0.3771, 0.7147]])
    p = [[-0.3623, -0.5340, 0.7727]]
    orders = ([0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2])
    found = [gk.closest_point(gk.Mesh(corners[o], [[0, 1, 2]]), p).distance[0] for o in orders]
    assert np.ptp(found) < 1e-15


def test_edge_nearest_vertex_is_wrong():
    """A large triangle beside a strip of tiny ones: the nearest vertex says nothing (sxyu/sdf 14)."""
    x = np.linspace(0, 10, 1001)
    strip = np.stack([np.repeat(x, 2), np.tile([0, -0.01], 1001), np.zeros(2002)], 1)
    faces = np.stack([np.arange(2000), np.arange(1, 2001), np.arange(2, 2002)], 1)
    mesh = gk.Mesh(
        np.concatenate([strip, [[0, 0.001, 0], [10, 0.001, 0], [5, 10, 0]]]), [*faces.tolist(), [2002, 2003, 2004]]
    )
    hit = gk.closest_point(mesh, [[5, 3, 1]])
    assert hit.face.tolist() == [2000] and hit.distance.tolist() == [1]


def test_edge_needles(shared_mesh):
    """A mesh of slivers has distances everywhere (Warp skips such triangles)."""
    rng = np.random.default_rng(0)
    start = rng.uniform(-1, 1, (200, 3))
    vertices = np.concatenate([start, start + [1, 0, 0], start + [0.5, 1e-7, 0]])
    mesh = gk.Mesh(vertices, np.arange(600).reshape(3, 200).T)
    check(mesh, rng.uniform(-2, 2, (300, 3)), 1e-12)
    check(gk.Mesh(vertices.astype(np.float32), mesh.faces), rng.uniform(-2, 2, (300, 3)), 1e-6)


@pytest.mark.parametrize("aspect", [1e3, 1e5, 1e7, 1e10])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 2e-12)])
def test_edge_needle(dtype, tolerance, aspect):
    """One needle, near and far, in any position: its normal is noise, its distance is not; point and distance agree."""
    rng = np.random.default_rng(int(aspect))
    for _ in range(15):
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        corners = np.array([[0, 0, 0], [1, 0, 0], [rng.uniform(0.2, 0.8), 1 / aspect, 0]]) @ turn.T + rng.normal(size=3)
        mesh = gk.Mesh(corners.astype(dtype), [[0, 1, 2]])
        points = (corners.mean(0) + rng.choice([1e-4, 1e-2, 1], (40, 1)) * rng.normal(size=(40, 3))).astype(dtype)
        hit = gk.closest_point(mesh, points)
        expected = distances(mesh.vertices, mesh.faces, points)
        assert np.abs(hit.distance - expected).max() < tolerance
        assert np.abs(np.linalg.norm(points.astype(float) - hit.point, axis=1) - hit.distance).max() < tolerance


def test_edge_slivers_real(shared_mesh):
    """Near the 768 slivers of a real mesh, where distances were wrong by 6e-4 of the diagonal."""
    mesh = shared_mesh("Offset1.obj")
    points = surface_points(mesh, 200)[0] + np.random.default_rng(0).normal(size=(200, 3)) * 1e-4 * mesh.diagonal
    known = np.array([[4770.1318359375, -20026.64453125, 1920.7283935546875]])
    check(mesh, np.concatenate([known, points]), 1e-6)


def test_edge_small_stack():
    """Threads of other programs have small stacks."""
    mesh, points = gk.shapes.icosphere(3), np.random.default_rng(0).normal(size=(5000, 3))
    found, before = [], threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=lambda: found.append(gk.signed_distance(mesh, points)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert np.array_equal(found[0], gk.signed_distance(mesh, points))


def test_edge_coordinates_overflow_float32():
    """Squares of such distances overflow float32; they stay right or infinite, never wrong."""
    mesh = gk.shapes.box()
    d = gk.closest_point(mesh, [[1e15, 0, 0], [0, 3e18, 0]]).distance
    assert np.allclose(d, [1e15, 3e18], rtol=1e-6)


@pytest.mark.parametrize("points", [
    np.linspace(-1, 1, 60).reshape(20, 3)[::2],
    np.asfortranarray(np.linspace(-1, 1, 60).reshape(20, 3)),
    np.linspace(-1, 1, 60).reshape(20, 3)[:, ::-1],
    np.arange(-30, 30).reshape(20, 3),
    np.linspace(-1, 1, 60, dtype=np.float16).reshape(20, 3),
    np.linspace(-1, 1, 60).reshape(20, 3).tolist(),
])  # fmt: skip
def test_edge_layouts(points):
    mesh = gk.shapes.torus()
    plain = np.ascontiguousarray(points, dtype=np.float32)
    plain.flags.writeable = False
    assert np.array_equal(gk.closest_point(mesh, points).distance, gk.closest_point(mesh, plain).distance)


def test_edge_face_dtypes():
    box = gk.shapes.box()
    for dtype in (np.int8, np.int64, np.uint32, np.uint64):
        mesh = gk.Mesh(box.vertices, box.faces.astype(dtype))
        assert gk.closest_point(mesh, [[0, 0, 1]]).distance.tolist() == [0.5]
    assert gk.closest_point(gk.Mesh(box.vertices.tolist(), box.faces.tolist()), [[0, 0, 1]]).distance.tolist() == [0.5]


def test_error():
    box = gk.shapes.box()
    with pytest.raises(ValueError, match=r"^closest_point: points: expected \(N, 3\) floats, got \(3, 10\) float64$"):
        gk.closest_point(box, np.zeros((3, 10)))
    with pytest.raises(TypeError, match=r"^closest_point: points: expected \(N, 3\) floats, got \(1, 3\) complex128$"):
        gk.closest_point(box, np.zeros((1, 3), complex))
    with pytest.raises(ValueError, match=r"points: expected finite numbers, got 2 that are not, the first is point 1"):
        gk.closest_point(box, [[0, 0, 0], [np.nan, 0, 0], [0, np.inf, 0]])
    with pytest.raises(ValueError, match="closest_point.adjoint: adj_point, adj_distance: expected at least one"):
        gk.closest_point.adjoint(box, [[0, 0, 1]])
    with pytest.raises(ValueError, match=r"closest_point.adjoint: adj_distance: expected \(1,\) floats, got \(2,\)"):
        gk.closest_point.adjoint(box, [[0, 0, 1]], adj_distance=[1, 2])
    hit = gk.closest_point(box, [[0, 0, 1]])
    with pytest.raises(TypeError, match="result: expected what closest_point returned, got tuple"):
        gk.closest_point.adjoint(box, [[0, 0, 1]], adj_distance=[1], result=tuple(hit))
    with pytest.raises(ValueError, match=r"result.feature: expected numbers in \[0, 7\)"):
        gk.closest_point.adjoint(box, [[0, 0, 1]], adj_distance=[1], result=hit._replace(feature=np.array([99])))
    with pytest.raises(ValueError, match=r"result.face: expected numbers in \[0, 12\)"):
        gk.closest_point.adjoint(box, [[0, 0, 1]], adj_distance=[1], result=hit._replace(face=np.array([99])))


def features(mesh, feature, n=40):
    """Float64 points whose closest point has the feature class, well inside its region."""
    rng = np.random.default_rng(feature)
    points = rng.uniform(-1.6, 1.6, (4000, 3))
    hit = gk.closest_point(mesh, points)
    margin = np.sort(hit.barycentric, axis=1)[:, {"face": 0, "edge": 1, "corner": 2}[feature_class(feature)]] > 0.02
    known = np.array([feature_class(f) for f in hit.feature]) == feature_class(feature)
    steady = np.all(
        [gk.closest_point(mesh, points + 1e-4 * v).feature == hit.feature for v in rng.normal(size=(6, 3))], axis=0
    )
    return points[known & margin & steady & (hit.distance > 0.05)][:n]


def feature_class(feature):
    return "face" if feature == 0 else "edge" if feature < 4 else "corner"


@pytest.mark.parametrize("output", ["point", "distance"])
@pytest.mark.parametrize("feature", [0, 1, 4])
def test_gradient(feature, output):
    mesh = (
        gk.shapes.icosphere(1, dtype=np.float64)
        if feature
        else gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)
    )
    points = features(mesh, feature)
    assert len(points) >= 20

    def forward(p, v):
        return getattr(gk.closest_point(mesh.with_vertices(v), p), output)

    def adjoint(p, v, adj):
        g = gk.closest_point.adjoint(mesh.with_vertices(v), p, **{f"adj_{output}": adj})
        return g.points, g.vertices

    gk.gradcheck(forward, [points, mesh.vertices], adjoint=adjoint, rtol=1e-7)


def test_gradient_both_and_result():
    """Cotangents add up, and the forward's result saves work without changing a bit."""
    mesh = gk.shapes.torus(dtype=np.float64)
    points = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    a, b = np.random.default_rng(1).normal(size=(500, 3)), np.random.default_rng(2).normal(size=500)
    both = gk.closest_point.adjoint(mesh, points, adj_point=a, adj_distance=b)
    known = gk.closest_point.adjoint(mesh, points, adj_point=a, adj_distance=b, result=gk.closest_point(mesh, points))
    one, other = (
        gk.closest_point.adjoint(mesh, points, adj_point=a),
        gk.closest_point.adjoint(mesh, points, adj_distance=b),
    )
    assert np.array_equal(both.vertices, known.vertices) and np.array_equal(both.points, known.points)
    assert np.allclose(both.vertices, one.vertices + other.vertices) and np.allclose(
        both.points, one.points + other.points
    )


def test_gradient_singular():
    """Finite everywhere: on the surface, on edges, at corners, on degenerate triangles."""
    box = gk.shapes.box(dtype=np.float64)
    flat = gk.Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [3, 0, 0], [0, 0, 0]]), [[0, 1, 2], [0, 0, 0], [0, 3, 1]])
    for mesh in (box, flat):
        points = np.concatenate([mesh.vertices, mesh.vertices[mesh.faces].mean(1), mesh.vertices + [0, 1, 0]])
        n = len(points)
        g = gk.closest_point.adjoint(mesh, points, adj_point=np.ones((n, 3)), adj_distance=np.ones(n))
        assert np.isfinite(g.points).all() and np.isfinite(g.vertices).all()


def test_gradient_translation():
    """Moving mesh and point together moves the closest point with them: the gradients of a translation sum to g."""
    mesh = gk.shapes.icosphere(2, dtype=np.float64)
    points = np.random.default_rng(0).uniform(-2, 2, (300, 3))
    adj = np.random.default_rng(1).normal(size=(300, 3))
    g = gk.closest_point.adjoint(mesh, points, adj_point=adj)
    assert np.allclose(g.points.sum(0) + g.vertices.sum(0), adj.sum(0))


def test_threads(shared_mesh):
    """Values and gradients are the same bits from one, two and five threads."""
    mesh, before, runs = shared_mesh("spot.obj"), gk.num_threads(), []
    points = around(mesh, 5000)
    adj = np.random.default_rng(0).normal(size=(len(points), 3))
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            fresh = mesh.copy()
            g = gk.closest_point.adjoint(fresh, points, adj_point=adj, adj_distance=adj[:, 0])
            runs.append([a.tobytes() for a in (*gk.closest_point(fresh, points), *g)])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


def test_python_threads():
    """Eight threads of Python query one tree at once."""
    mesh = gk.shapes.icosphere(4)
    points = np.random.default_rng(0).uniform(-2, 2, (8, 2000, 3))
    expected = [gk.closest_point(mesh.copy(), p).distance for p in points]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda p: gk.closest_point(mesh, p).distance, points))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


FORK = """
import multiprocessing, warnings
import numpy as np, geomkit as gk

warnings.filterwarnings("ignore", category=DeprecationWarning)
mesh = gk.shapes.icosphere(4)
points = np.random.default_rng(0).uniform(-2, 2, (4, 20_000, 3))
expected = [gk.closest_point(mesh, p).distance for p in points]
query = lambda k: gk.closest_point(mesh, points[k]).distance

def in_child(k):
    return query(k), gk.num_threads()

with multiprocessing.get_context("fork").Pool(4) as pool:
    found = pool.map_async(in_child, range(4)).get(timeout=60)
assert all(np.array_equal(a, b) and threads == 3 for (a, threads), b in zip(found, expected))
print("equal")
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_fork():
    """Four forked workers query a mesh whose tree the parent's threads built: they start threads of their own."""
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env=os.environ | {"GEOMKIT_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "equal\n", done.stderr


def test_pickle_and_deepcopy():
    mesh = gk.shapes.torus()
    points = np.random.default_rng(0).uniform(-2, 2, (100, 3))
    expected = gk.closest_point(mesh, points).distance
    for twin in (pickle.loads(pickle.dumps(mesh)), copy.deepcopy(mesh)):
        assert np.array_equal(gk.closest_point(twin, points).distance, expected)


def test_libraries():
    """torch in, torch out, with gradients."""
    torch = pytest.importorskip("torch")
    mesh, points = gk.shapes.box(), torch.tensor([[0.0, 0.0, 2.0]])
    hit = gk.closest_point(mesh, points)
    assert isinstance(hit.point, torch.Tensor) and hit.distance.tolist() == [1.5]
    gk.closest_point(mesh, points.requires_grad_()).distance.backward()
    assert points.grad.tolist() == [[0, 0, 1]]


def test_reference_is_right():
    """The brute force itself, where the answer is plain."""
    v, f = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]])
    points = np.array([[0.25, 0.25, 1], [-1, -1, 0], [0.5, -1, 0], [2, 0, 0], [1, 1, 0]])
    expected = [[0.25, 0.25, 0], [0, 0, 0], [0.5, 0, 0], [1, 0, 0], [0.5, 0.5, 0]]
    assert np.allclose(closest_points(v, f, points)[:, 0], expected)
