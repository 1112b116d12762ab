"""Chamfer and Hausdorff distances: values, edges, errors, gradients."""

import numpy as np
import pytest
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist, directed_hausdorff

import geomkit as gk


def clouds(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(60, 3)), rng.normal(size=(45, 3)) + 0.3


def test_value_points():
    a, b = clouds()
    d = cdist(a, b)
    for squared, power in ((True, 2), (False, 1)):
        expected = (d.min(axis=1) ** power).mean() + (d.min(axis=0) ** power).mean()
        assert gk.chamfer_distance(a, b, squared=squared) == pytest.approx(expected)
        assert gk.chamfer_distance(b, a, squared=squared) == pytest.approx(expected)
    expected = max(directed_hausdorff(a, b)[0], directed_hausdorff(b, a)[0])
    assert gk.hausdorff_distance(a, b) == pytest.approx(expected)
    assert gk.chamfer_distance(a, a) == gk.hausdorff_distance(a, a) == 0


def test_value_meshes():
    one, two = (gk.shapes.icosphere(4, radius, dtype=np.float64) for radius in (1.0, 1.5))
    assert gk.hausdorff_distance(one, two) == pytest.approx(0.5, abs=2e-3)
    assert gk.chamfer_distance(one, two, squared=False) == pytest.approx(1.0, abs=5e-3)
    assert gk.chamfer_distance(one, two) == pytest.approx(0.5, abs=5e-3)
    assert gk.hausdorff_distance(one, one) < 1e-12
    assert gk.hausdorff_distance(one, np.array([[0, 0, 2.0]])) == pytest.approx(3.0, abs=1e-3)
    spike = gk.Mesh(
        np.concatenate([one.vertices, [[0, 0, 4.0]]]),
        np.concatenate(
            [one.faces, [[*one.faces[np.argmax(one.vertices[one.faces].mean(1)[:, 2])][:2], one.n_vertices]]]
        ),
    )
    assert gk.hausdorff_distance(spike, one, samples=1) == pytest.approx(3.0, abs=1e-3)


def nearest(a, b):
    """Distances by SciPy in float64, and of which point."""
    return KDTree(b.astype(np.float64)).query(a.astype(np.float64))


def test_value_beside_far_points():
    """float32 distances have their digits whatever lies around, and gradients their direction."""
    rng = np.random.default_rng(0)
    for place in ([1e4, 0, 0], [-1e6, 1e6, 1e5]):
        a, b = (np.concatenate([rng.normal(size=(300, 3)), [place]]).astype(np.float32) for _ in range(2))
        b[:300] = a[:300] + (1e-3 * rng.normal(size=(300, 3))).astype(np.float32)
        there, to = nearest(a, b)
        back, of = nearest(b, a)
        assert gk.chamfer_distance(a, b, squared=False) == pytest.approx(there.mean() + back.mean(), rel=2e-3)
        assert gk.hausdorff_distance(a, b) >= 0.999 * max(there.max(), back.max())
        g = gk.chamfer_distance.adjoint(a, b).b
        expected = np.zeros(b.shape)
        np.add.at(expected, to, -2 / len(a) * (a.astype(float) - b[to]))
        expected += 2 / len(b) * (b.astype(float) - a[of])
        same = np.linalg.norm(g - expected, axis=1) < 1e-4 * np.abs(expected).max()
        assert same.mean() > 0.9


def test_value_mixed_precisions():
    """A float64 side keeps its digits beside a float32 one."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 3)) + 1e5
    b = (a[::-1] + 0.01).astype(np.float32)
    expected = nearest(a, b)[0].mean() + nearest(b, a)[0].mean()
    assert gk.chamfer_distance(a, b, squared=False) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_edge_scales(scale):
    a, b = clouds()
    for measure in (lambda *x: gk.chamfer_distance(*x, squared=False), gk.hausdorff_distance):
        assert measure(a * scale, b * scale) / scale == pytest.approx(measure(a, b))
    g, plain = (gk.chamfer_distance.adjoint(a * s, b * s, squared=False) for s in (scale, 1))
    assert all(np.allclose(x, y) for x, y in zip(g, plain, strict=True))


def test_gradient_at_distance_zero():
    a, _ = clouds()
    for adjoint in (gk.chamfer_distance.adjoint, gk.hausdorff_distance.adjoint):
        assert all((g == 0).all() for g in adjoint(a, a))
    g = gk.chamfer_distance.adjoint(a, a[:1], squared=False)
    assert np.isfinite(g.a).all() and (g.a[0] == 0).all() and np.isfinite(g.b).all()


def test_edge():
    assert gk.chamfer_distance([[0, 0, 0]], [[0, 0, 1]]).dtype == np.float32
    assert gk.chamfer_distance(gk.shapes.box(), np.zeros((1, 3))) > 0
    one = gk.shapes.box()

    class Other:
        vertices, faces = one.vertices, one.faces

    assert gk.hausdorff_distance(Other(), one) < 1e-6


@pytest.mark.parametrize("measure", [gk.chamfer_distance, gk.hausdorff_distance])
def test_error(measure):
    name, points = measure.__name__, np.zeros((1, 3))
    with pytest.raises(ValueError, match=rf"^{name}: a: expected \(N, 3\) floats, got \(3,\) int64"):
        measure([1, 2, 3], points)
    with pytest.raises(ValueError, match=f"^{name}: b: expected at least one face or point, got none"):
        measure(points, [])
    with pytest.raises(ValueError, match=f"^{name}: a: expected at least one face or point, got none"):
        measure(gk.Mesh(np.zeros((3, 3)), np.zeros((0, 3), int)), points)
    with pytest.raises(ValueError, match=f"^{name}: samples: expected an integer of at least 1, got 0"):
        measure(points, points, samples=0)
    with pytest.raises(TypeError, match=f"^{name}: samples: expected an integer of at least 1, got float"):
        measure(points, points, samples=1.5)
    with pytest.raises(ValueError, match=f"^{name}: seed: expected an integer of at least 0, got -1"):
        measure(points, gk.shapes.box(), seed=-1)
    with pytest.raises(TypeError, match=f"^{name}: seed: expected an integer of at least 0, got str"):
        measure(points, gk.shapes.box(), seed="a")
    with pytest.raises(ValueError, match=f"^{name}: b: expected finite numbers, got 1 that are not, the first"):
        measure(points, [[0, 0, 0], [0, np.nan, 0]])
    with pytest.raises(ValueError, match=f"^{name}: b: expected faces with some area, got Mesh"):
        measure(points, gk.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]]))


@pytest.mark.parametrize("squared", [True, False])
def test_gradient_points(squared):
    a, b = clouds(1)
    gk.gradcheck(
        lambda a, b: gk.chamfer_distance(a, b, squared=squared),
        [a, b],
        adjoint=lambda a, b, adj: gk.chamfer_distance.adjoint(a, b, squared=squared, adj_distance=adj),
    )
    gk.gradcheck(
        gk.hausdorff_distance,
        [a, b],
        adjoint=lambda a, b, adj: gk.hausdorff_distance.adjoint(a, b, adj_distance=adj),
    )


def test_gradient_meshes():
    """Of the points drawn: their faces and weights stay while vertices move."""
    rng = np.random.default_rng(0)
    one = gk.shapes.icosphere(1, dtype=np.float64)
    two = gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)
    start = [m.vertices + rng.normal(scale=0.03, size=m.vertices.shape) for m in (one, two)]
    drawn = [gk.sample_surface(m.with_vertices(v), 200, seed=3) for m, v in zip((one, two), start, strict=True)]

    def fixed(v, mesh, s):
        return (v[mesh.faces[s.face]] * s.barycentric[:, :, None]).sum(axis=1)

    def forward(v, w):
        a, b = fixed(v, one, drawn[0]), fixed(w, two, drawn[1])
        there = gk.closest_point(two.with_vertices(w), a).distance
        back = gk.closest_point(one.with_vertices(v), b).distance
        return (there**2).mean() + (back**2).mean()

    def adjoint(v, w, adj):
        a, b = one.with_vertices(v), two.with_vertices(w)
        return gk.chamfer_distance.adjoint(a, b, samples=200, seed=3, adj_distance=adj)

    g = adjoint(*start, 1.0)
    for k in range(2):
        for _ in range(4):
            step = rng.normal(size=start[k].shape) * 1e-6
            moved = [[x + s * step if i == k else x for i, x in enumerate(start)] for s in (1, -1)]
            slope = (forward(*moved[0]) - forward(*moved[1])) / 2
            assert (g[k] * step).sum() == pytest.approx(slope, rel=1e-4, abs=1e-12)
    value = gk.hausdorff_distance(one, two, samples=200)
    pair = gk.hausdorff_distance.adjoint(one, two, samples=200)
    assert np.linalg.norm(pair.a.sum(axis=0)) == pytest.approx(1) and np.allclose(pair.a.sum(0), -pair.b.sum(0))
    assert (pair.a * one.vertices).sum() + (pair.b * two.vertices).sum() == pytest.approx(float(value))


def test_threads_and_libraries():
    torch = pytest.importorskip("torch")
    a, b = (x.astype(np.float32) for x in clouds())
    assert isinstance(gk.chamfer_distance(torch.from_numpy(a), torch.from_numpy(b)), torch.Tensor)
    g = gk.chamfer_distance.adjoint(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(g.a, torch.Tensor) and g.b.shape == (45, 3)
    before, runs = gk.num_threads(), []
    try:
        for threads in (1, 3):
            gk.set_num_threads(threads)
            runs.append([x.tobytes() for x in gk.chamfer_distance.adjoint(gk.shapes.torus(), a)])
    finally:
        gk.set_num_threads(before)
    assert runs[0] == runs[1]
