"""Faces of one mesh that overlap: against separating axes in whole numbers, libigl, and shapes of known answers."""

import itertools

import numpy as np
import pytest

import geomkit as gk
from geomkit.arrays import to_host


def apart(one, other):
    """Whether convex hulls of a few points in whole numbers have a plane strictly between them, by their axes."""
    sides = [np.array([q - p for p, q in itertools.combinations(x, 2)]) for x in (one, other)]
    normals = [np.cross(s[0], s[1]) for s in sides if len(s) > 1]
    axes = [*normals, *(np.cross(a, b) for a in sides[0] for b in sides[1])]
    axes += [np.cross(n, e) for n in normals for s in sides for e in s]
    for axis in axes:
        a, b = one @ axis, other @ axis
        if axis.any() and (a.max() < b.min() or b.max() < a.min()):
            return True
    return False


def overlaps(vertices, f, g):
    """The rule of `self_intersections`, of faces with area."""
    common = set(f.tolist()) & set(g.tolist())
    if len(common) == 0:
        return not apart(vertices[f], vertices[g])
    if len(common) == 1:
        ends = [vertices[[v for v in x if v not in common]] for x in (f, g)]
        return not apart(ends[0], vertices[g]) or not apart(ends[1], vertices[f])
    if len(common) == 3:
        return True
    a, b = vertices[sorted(common)]
    (c,), (d,) = ([vertices[v] for v in x if v not in common] for x in (f, g))
    normal = np.cross(b - a, c - a)
    return normal @ (d - a) == 0 and np.cross(b - a, d - a) @ normal > 0


def brute(vertices, faces):
    pairs = itertools.combinations(range(len(faces)), 2)
    return [pair for pair in pairs if overlaps(vertices, faces[pair[0]], faces[pair[1]])]


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 3), (np.float64, 5), (np.float32, 30)])
def test_value_of_random_triangles(dtype, size):
    """On a coarse lattice nearly all pairs touch, are in one plane, or share corners."""
    rng = np.random.default_rng(size)
    lattice = np.unique(rng.integers(0, size, (16, 3)), axis=0)
    faces = np.array([rng.choice(len(lattice), 3, replace=False) for _ in range(40)])
    a, b, c = (lattice[faces[:, k]] for k in range(3))
    faces = faces[np.cross(b - a, c - a).any(axis=1)]
    found = gk.self_intersections(gk.Mesh(lattice.astype(dtype), faces))
    assert found.pairs.tolist() == [list(pair) for pair in brute(lattice, faces)]
    shared = [len(set(faces[i]) & set(faces[j])) for i, j in found.pairs]
    assert found.shared.tolist() == shared and len(set(shared)) >= 3


def test_value_scale_and_place_do_not_matter():
    rng = np.random.default_rng(1)
    v, faces = rng.integers(0, 4, (30, 3)), rng.integers(0, 30, (40, 3))
    expected = gk.self_intersections(gk.Mesh(v.astype(float), faces)).pairs
    assert len(expected) > 20
    for scale, shift in ((2.0**-70, 0), (2.0**80, 0), (1.0, 2.0**20)):
        moved = gk.Mesh(v * scale + shift, faces)
        assert np.array_equal(gk.self_intersections(moved).pairs, expected)


def test_value_barely():
    """A corner above, on and below a plane, by the last digit of float64."""
    flat = np.array([[0.1, 0.1, 0.1], [1.7, 0.3, 0.1], [0.2, 1.9, 0.1]])
    for height, meets in ((0.1, True), (np.nextafter(0.1, 1), False), (np.nextafter(0.1, 0), True)):
        needle = np.array([[0.5, 0.5, height], [0.6, 0.5, 1.0], [0.5, 0.6, 1.0]])
        mesh = gk.Mesh(np.concatenate([flat, needle]), [[0, 1, 2], [3, 4, 5]])
        assert len(gk.self_intersections(mesh).pairs) == meets


def test_value_sound_surfaces():
    for mesh in (gk.shapes.icosphere(4), gk.shapes.torus(1.0, 0.3), gk.shapes.box(), gk.load_mesh("data/knot.ply")):
        assert len(gk.self_intersections(mesh).pairs) == 0


def test_value_two_balls():
    """As many pairs as rings of triangles cross; none after they are moved apart."""
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    both = np.concatenate([ball.faces, ball.faces + ball.n_vertices])
    near, far = (gk.Mesh(np.concatenate([ball.vertices, ball.vertices + s]), both) for s in (0.7, 1.3))
    pairs = gk.self_intersections(near).pairs
    assert len(gk.self_intersections(far).pairs) == 0 and len(pairs) > 100
    assert (pairs[:, 0] < ball.n_faces).all() and (pairs[:, 1] >= ball.n_faces).all()
    # Triangles that cross are near the circle where the spheres meet.
    middle = near.vertices[near.faces[pairs.ravel()]].mean(axis=1)
    assert abs(np.linalg.norm(middle, axis=1) - np.linalg.norm(middle - 0.7, axis=1)).max() < 0.3


def test_value_of_libigl(shared_mesh):
    igl = pytest.importorskip("igl")
    mesh = shared_mesh("self_intersectA.obj", dtype=np.float64)
    found = gk.self_intersections(mesh)
    pairs = found.pairs[found.shared == 0]
    assert len(pairs) > 50
    proper = 0
    for f, g in mesh.vertices[mesh.faces[pairs]]:
        proper += bool(igl.tri_tri_intersection_test_3d(*(x.reshape(1, 3) for x in (*f, *g)))[0])
    assert proper == len(pairs)


def test_value_real(shared_mesh):
    assert len(gk.self_intersections(shared_mesh("self_intersectA.obj")).pairs) == 338
    for name in ("spot_low.obj", "torus.obj", "hourglass_ico.obj", "triple_vierbein.obj"):
        assert len(gk.self_intersections(shared_mesh(name)).pairs) == 0


def test_edge_without_area_and_folded():
    square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    folded = gk.self_intersections(gk.Mesh(square, [[0, 1, 2], [1, 0, 3]]))
    assert folded.pairs.tolist() == [[0, 1]] and folded.shared.tolist() == [2]
    twice = gk.self_intersections(gk.Mesh(square, [[0, 1, 2], [2, 1, 0], [0, 2, 3]]))
    assert twice.pairs.tolist() == [[0, 1]] and twice.shared.tolist() == [3]
    # Without area: a segment that passes a face, the same twice, and one with two corners at one position.
    line = [[0.7, 0.2, -1], [0.7, 0.2, 1], [0.7, 0.2, 0.5]]
    faces = [[0, 1, 2], [4, 5, 6], [4, 6, 5], [4, 4, 5]]
    assert gk.self_intersections(gk.Mesh(square + line, faces)).pairs.tolist() == [[0, 1], [0, 2]]
    assert gk.self_intersections(gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), int))).pairs.shape == (0, 2)


def test_edge_unwelded_is_welded():
    ball = gk.shapes.icosphere(2)
    soup = gk.Mesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * ball.n_faces).reshape(-1, 3))
    assert len(gk.self_intersections(soup).pairs) == 0


def test_error():
    with pytest.raises(TypeError):
        gk.self_intersections(np.zeros((3, 3)))


def test_devices_and_libraries():
    torch = pytest.importorskip("torch")
    square = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], requires_grad=True)
    found = gk.self_intersections(gk.Mesh(square, [[0, 1, 2], [1, 0, 3]]))
    assert isinstance(found.pairs, torch.Tensor) and found.pairs.dtype == torch.int32
    before = gk.num_threads()
    try:
        results = []
        for threads in (1, 4):
            gk.set_num_threads(threads)
            mesh = gk.Mesh(np.random.default_rng(0).random((300, 3)), np.arange(300).reshape(-1, 3))
            results.append(to_host(gk.self_intersections(mesh).pairs))
    finally:
        gk.set_num_threads(before)
    assert len(results[0]) > 50 and np.array_equal(*results)
