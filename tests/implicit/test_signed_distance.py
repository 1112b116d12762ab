"""Signed distance and containment: values, what users of other systems reported, gradients, laws."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import geomkit as gk
from tests.implicit.samples import METHODS, POINTS, ball, box, inside_of, joined, moved
from tests.reference import around, distances, winding_numbers


@pytest.mark.parametrize("sign", ["auto", *METHODS])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_value(sign, dtype, tolerance):
    for mesh in (gk.shapes.icosphere(2, dtype=dtype), gk.shapes.torus(dtype=dtype), gk.shapes.box(dtype=dtype)):
        points = np.random.default_rng(1).uniform(-1.6, 1.6, (400, 3)).astype(dtype)
        expected = distances(mesh.vertices, mesh.faces, points)
        expected[winding_numbers(mesh.vertices, mesh.faces, points) > 0.5] *= -1
        assert np.abs(gk.signed_distance(mesh, points, sign=sign) - expected).max() < tolerance * mesh.diagonal


@pytest.mark.parametrize("name", ["spot.obj", "boot.obj", "sword.obj", "nefertiti.obj", "kitten.obj"])
def test_value_closed(name, shared_mesh):
    """On closed meshes all methods agree with the exact winding number at every point."""
    mesh = shared_mesh(name)
    points = around(mesh, 1000)
    exact = gk.winding_number(mesh, points, method="exact") > 0.5
    for sign in ("auto", "pseudonormal", "winding"):
        assert (inside_of(mesh, points, sign) == exact).all(), sign
        assert (gk.contains(mesh, points, sign=sign) == exact).all(), sign
    assert (inside_of(mesh, points, "parity") == exact).all()


@pytest.mark.parametrize(
    "name", ["bunny.obj", "plane_holes.obj", "cube_no_bottom.obj", "self_intersectA.obj", "Offset1.obj"]
)
def test_value_broken(name, shared_mesh):
    """On open and self-intersecting meshes the sign is that of the exact winding number where that is clear."""
    mesh = shared_mesh(name, dtype=np.float64)
    points = around(mesh, 3000)
    exact = gk.winding_number(mesh, points, method="exact")
    clear = np.abs(exact - 0.5) > 0.01
    for sign in ("auto", "winding"):
        assert (inside_of(mesh, points, sign) == (exact > 0.5))[clear].all(), sign


def test_value_distance_is_that_of_closest_point():
    mesh = gk.shapes.torus()
    points = np.random.default_rng(3).uniform(-2, 2, (1000, 3))
    expected = gk.closest_point(mesh, points).distance
    for sign in ("unsigned", *METHODS):
        assert np.array_equal(np.abs(gk.signed_distance(mesh, points, sign=sign)), expected)


def test_value_exact_surface():
    """0 on the surface, and the right sign a millionth off it (libigl 1204)."""
    cube = gk.Mesh(gk.shapes.box().vertices + np.float32(0.5), gk.shapes.box().faces)
    points = [[0, 0.5, 0.5], [1e-6, 0.5, 0.5], [-1e-6, 0.5, 0.5]]
    assert np.allclose(gk.signed_distance(cube, points), [0, -1e-6, 1e-6], atol=4e-8)
    assert gk.signed_distance(cube, points)[0] == 0
    assert np.allclose(
        gk.signed_distance(gk.Mesh(cube.vertices.astype(float), cube.faces), points), [0, -1e-6, 1e-6], atol=1e-16
    )


def test_value_of_analytic_box():
    """All features of a box, from inside and outside, against the closed form."""
    points = np.random.default_rng(5).uniform(-1.5, 1.5, (2000, 3))
    q = np.abs(points) - 0.5
    expected = np.linalg.norm(np.maximum(q, 0), axis=1) + np.minimum(q.max(1), 0)
    for sign in ("auto", *METHODS):
        assert np.abs(gk.signed_distance(box(), points, sign=sign) - expected).max() < 1e-14


# ---- what users of other systems reported


def test_edge_axis_rays():
    """A ball of parallels and meridians, points whose axis rays meet vertices and edges (trimesh 242, kaolin 566)."""
    angle = np.linspace(0, 2 * np.pi, 17)[:-1]
    z = np.cos(np.linspace(0, np.pi, 9)[1:-1])
    rings = np.array([[np.sqrt(1 - h * h) * np.cos(a), np.sqrt(1 - h * h) * np.sin(a), h] for h in z for a in angle])
    vertices = np.concatenate([rings, [[0, 0, 1], [0, 0, -1]]])
    faces = []
    for i in range(16):
        j = (i + 1) % 16
        faces += [[112, i, j], [113, 96 + j, 96 + i]]
        for k in range(6):
            a, b, c, d = 16 * k + i, 16 * k + j, 16 * (k + 1) + j, 16 * (k + 1) + i
            faces += [[a, d, c], [a, c, b]]
    mesh = gk.Mesh(vertices, faces)
    assert mesh.volume > 3.9 and mesh.topology.is_closed_manifold
    rng = np.random.default_rng(0)
    for sign in ("auto", "winding", "parity"):
        for axis in range(3):
            points = mesh.vertices[rng.integers(0, len(vertices), 2000)].copy()
            points[:, axis] = rng.uniform(-1.3, 1.3, 2000)
            exact = winding_numbers(mesh.vertices, mesh.faces, points[:200])
            clear = gk.closest_point(mesh, points[:200]).distance > 1e-9
            assert (inside_of(mesh, points[:200], sign) == (exact > 0.5))[clear].all()
    two = gk.shapes.icosphere(2, 2.0)
    for sign in ("auto", *METHODS):
        assert inside_of(two, np.eye(3), sign).all()


def test_edge_outside_cube():
    """trimesh 73: the cube [0, 2]^3 and (3, 2, 2); Open3D 5105: the unit cube and its corners."""
    two = gk.Mesh(box(2).vertices + 1, box().faces)
    one = gk.Mesh(box().vertices + 0.5, box().faces)
    for sign in ("auto", *METHODS):
        assert gk.signed_distance(two, [[3, 2, 2]], sign=sign).tolist() == [1]
        d = gk.signed_distance(one, [[-1, -1, 0], [-1, -1, -1], [0.5, 0.5, 0.5]], sign=sign)
        assert np.allclose(d, [np.sqrt(2), np.sqrt(3), -0.5], rtol=1e-15)


def test_edge_lattice():
    """Cubes on a lattice at coordinates of 5e4, seen from lattice points outside them (ncollpyde 3)."""
    cubes = [moved(box(2), [5e4 + 10 * i, 5e4 + 10 * j, 5e4]) for i in range(3) for j in range(3)]
    mesh = joined(*cubes)
    points = np.array([[5e4 + 5 * i, 5e4 + 5 * j, 5e4] for i in range(6) for j in range(6)])
    expected = np.array([i % 2 == 0 and j % 2 == 0 for i in range(6) for j in range(6)])
    for sign in ("auto", *METHODS):
        assert (inside_of(mesh, points, sign) == expected).all()
        assert (inside_of(gk.Mesh(mesh.vertices.astype(np.float32), mesh.faces), points, sign) == expected).all()


def test_edge_cubegrid(shared_mesh):
    mesh = shared_mesh("cubegrid.obj")
    points = around(mesh, 500)
    exact = winding_numbers(mesh.vertices, mesh.faces, points)
    clear = np.abs(exact - 0.5) > 0.01
    for sign in ("auto", *METHODS):
        assert (inside_of(mesh, points, sign) == (exact > 0.5))[clear].all()


def test_edge_empty():
    empty = gk.Mesh(np.empty((0, 3)), np.empty((0, 3), int))
    assert gk.signed_distance(empty, [[0, 0, 0]]).tolist() == [np.inf]
    assert gk.contains(empty, [[0, 0, 0]]).tolist() == [False]
    g = gk.signed_distance.adjoint(empty, [[0, 0, 0]], adj_distance=[1])
    assert g.points.tolist() == [[0, 0, 0]]
    assert gk.signed_distance(gk.shapes.box(), []).shape == (0,)


def test_edge_flat_meshes():
    """One triangle; all faces of zero area: finite, positive, with a warning."""
    one = gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    line = gk.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]])
    for mesh in (one, line):
        with pytest.warns(gk.SignWarning):
            assert gk.signed_distance(mesh, [[0, 0, 1], [0, 0, 0]]).tolist() == [1, 0]


def test_edge_unreferenced_vertices():
    mesh = gk.Mesh(np.concatenate([box().vertices, [[9, 9, 9]]]), box().faces)
    assert gk.signed_distance(mesh, [[0, 0, 0]]).tolist() == [-0.5]


def test_edge_any_object():
    trimesh = pytest.importorskip("trimesh")
    assert np.allclose(gk.signed_distance(trimesh.creation.box(), [[0, 0, 0]]), -0.5)


def test_error():
    with pytest.raises(ValueError, match="signed_distance: sign: expected one of 'auto', 'parity', 'pseudonormal'"):
        gk.signed_distance(box(), [[0, 0, 0]], sign="normal")
    with pytest.raises(ValueError, match="contains: sign: expected a method that has an inside, got 'unsigned'"):
        gk.contains(box(), [[0, 0, 0]], sign="unsigned")
    with pytest.raises(ValueError, match=r"signed_distance: points: expected \(N, 3\) floats, got \(2, 2\) float64"):
        gk.signed_distance(box(), np.zeros((2, 2)))


def test_warning_names_the_users_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gk.signed_distance(gk.shapes.grid(2, 2), [[0, 0, 1]])
    assert caught[0].filename == __file__


# ---- gradients


@pytest.mark.parametrize("sign", ["auto", "winding", "unsigned"])
@pytest.mark.parametrize("shape", ["ball", "torus", "open"])
def test_gradient(shape, sign):
    """Faces, edges and corners, inside and outside, away from the medial axis and from where the feature changes."""
    mesh = {
        "ball": ball(1),
        "torus": gk.shapes.torus(major_sections=10, minor_sections=7, dtype=np.float64),
        "open": gk.Mesh(ball(1).vertices, ball(1).faces[:-12]),
    }[shape]
    points = np.random.default_rng(0).uniform(-1.5, 1.5, (800, 3))
    hit = gk.closest_point(mesh, points)
    tries = [gk.closest_point(mesh, points + 1e-4 * v) for v in np.random.default_rng(1).normal(size=(8, 3))]
    steady = np.all(
        [(t.feature == hit.feature) & (np.linalg.norm(t.point - hit.point, axis=1) < 1e-2) for t in tries], axis=0
    )
    points = points[steady & (hit.distance > 0.05)]
    assert len({f for f in hit.feature[steady]}) >= 3

    def forward(p, v):
        return gk.signed_distance(mesh.with_vertices(v), p, sign=sign)

    def adjoint(p, v, adj):
        g = gk.signed_distance.adjoint(mesh.with_vertices(v), p, adj_distance=adj, sign=sign)
        return g.points, g.vertices

    gk.gradcheck(forward, [points, mesh.vertices], adjoint=adjoint, rtol=1e-7)


def test_gradient_on_surface():
    """At distance 0 the pseudonormal: faces, edges and corners of a box; without a sign nothing; never NaN."""
    points = np.array([[0.5, 0.1, 0.2], [0.5, 0.5, 0.1], [0.5, 0.5, 0.5], [-0.5, 0, 0]])
    expected = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [-1, 0, 0]]) / np.sqrt([[1], [2], [3], [1]])
    g = gk.signed_distance.adjoint(box(), points, adj_distance=np.ones(4))
    assert np.allclose(g.points, expected) and np.allclose(g.points.sum(0), -g.vertices.sum(0))
    assert (gk.signed_distance.adjoint(box(), points, adj_distance=np.ones(4), sign="unsigned").points == 0).all()
    degenerate = gk.Mesh([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]])
    for sign in ("winding", "parity", "unsigned", "pseudonormal"):
        g = gk.signed_distance.adjoint(degenerate, [[0.5, 0, 0], [0, 0, 1]], adj_distance=[1, 1], sign=sign)
        assert np.isfinite(g.points).all() and np.isfinite(g.vertices).all()


def test_gradient_near_surface_float32():
    """Close to a face the direction is the face's normal, not the rounding of a difference."""
    mesh = gk.shapes.icosphere(3)
    face = np.arange(0, mesh.n_faces, 7)
    centre, normal = mesh.vertices[mesh.faces[face]].mean(1), mesh.face_normals[face]
    for step in (1e-6, -1e-6, 1e-4):
        g = gk.signed_distance.adjoint(mesh, centre + np.float32(step) * normal, adj_distance=np.ones(len(face)))
        assert np.abs((g.points * normal).sum(1) - 1).max() < 1e-5


def test_gradient_result():
    points, adj = POINTS[:50], np.ones(50)
    plain = gk.signed_distance.adjoint(ball(), points, adj_distance=adj)
    known = gk.signed_distance.adjoint(ball(), points, adj_distance=adj, result=gk.signed_distance(ball(), points))
    assert np.array_equal(plain.vertices, known.vertices)


def test_threads(shared_mesh):
    """Bits do not depend on the number of threads, for any sign."""
    mesh, before, runs = shared_mesh("bunny.obj"), gk.num_threads(), []
    points = around(mesh, 3000)
    adj = np.random.default_rng(0).normal(size=len(points))
    try:
        for threads in (1, 2, 5):
            gk.set_num_threads(threads)
            fresh = mesh.copy()
            values = [gk.signed_distance(fresh, points, sign=sign) for sign in ("auto", *METHODS, "unsigned")]
            g = gk.signed_distance.adjoint(fresh, points, adj_distance=adj)
            runs.append([a.tobytes() for a in (*values, *g)])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


# ---- laws

coordinate = st.floats(-3, 3, allow_nan=False, width=32)
point = st.tuples(coordinate, coordinate, coordinate)
TORUS = gk.shapes.torus(dtype=np.float64)


@settings(max_examples=60, deadline=None)
@given(point, point)
def test_law_lipschitz(p, q):
    """|d(p) - d(q)| <= |p - q|"""
    a, b = gk.signed_distance(TORUS, [p, q])
    assert abs(a - b) <= np.linalg.norm(np.subtract(p, q)) + 1e-12


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), point)
def test_law_rigid_motion(seed, shift):
    """Turning, scaling and moving mesh and points together scales the distances; so does renumbering the faces."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    scale = float(np.exp(rng.uniform(-3, 3)))
    points = rng.uniform(-2, 2, (50, 3))
    mesh = gk.Mesh(scale * TORUS.vertices @ turn.T + shift, rng.permutation(TORUS.faces))
    d = gk.signed_distance(mesh, scale * points @ turn.T + shift)
    assert np.allclose(d, scale * gk.signed_distance(TORUS, points), rtol=1e-10, atol=1e-12 * scale)
