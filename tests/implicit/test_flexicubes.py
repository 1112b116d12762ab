"""Dual marching cubes with weights: values, topology, edges, errors, gradients, devices."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import cuda

PLACE = {"spacing": (0.1, 0.1, 0.1), "origin": (-1.0, -1.0, -1.0)}


def ball(n=21, radius=0.55, dtype=np.float64):
    p = np.stack(np.meshgrid(*[np.linspace(-1, 1, n)] * 3, indexing="ij"), axis=-1)
    return (np.linalg.norm(p, axis=-1) - radius).astype(dtype)


def noise(shape=(5, 6, 7), seed=0, rim=True):
    values = np.random.default_rng(seed).normal(size=shape)
    values = np.where(np.abs(values) < 0.1, 0.3, values)
    if rim:
        values[[0, -1]] = values[:, [0, -1]] = values[:, :, [0, -1]] = 1.0
    return values


def weights(shape, seed=1, dtype=np.float64):
    rng, cells = np.random.default_rng(seed), tuple(n - 1 for n in shape)
    return {
        "deform": 0.2 * rng.uniform(-1, 1, (*shape, 3)).astype(dtype),
        "alpha": rng.uniform(0.5, 2, (*cells, 8)).astype(dtype),
        "beta": rng.uniform(0.5, 2, (*cells, 12)).astype(dtype),
        "gamma": rng.uniform(0.5, 2, cells).astype(dtype),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("split", ["diagonal", "center"])
def test_value_ball(dtype, split):
    found = gk.flexicubes(ball(dtype=dtype), **PLACE, split=split)
    assert found.vertices.dtype == found.deviation.dtype == dtype and found.faces.dtype == np.int32
    mesh = found.mesh
    assert mesh.is_closed and mesh.euler_characteristic == 2
    assert mesh.volume == pytest.approx(4 / 3 * np.pi * 0.55**3, rel=0.04)  # (means lie within)
    assert np.abs(np.linalg.norm(found.vertices, axis=1) - 0.55).max() < 0.02
    nets = gk.surface_nets(ball(dtype=dtype), **PLACE)
    np.testing.assert_allclose(found.vertices[: len(nets.vertices)], nets.vertices, atol=1e-6)
    if split == "diagonal":
        assert len(mesh.faces) == len(nets.faces)
    else:
        assert len(mesh.faces) == 2 * len(nets.faces) and len(found.deviation) == len(nets.vertices)


def reference(values, deform, alpha, beta, cell):
    """The vertex and deviation of a cell with one sheet, as in the paper's equations 2 to 4."""
    corner = np.array([[c >> 2, c >> 1 & 1, c & 1] for c in range(8)])
    x = np.array(cell) + corner + np.array([deform[tuple(np.array(cell) + c)] for c in corner])
    s = np.array([values[tuple(np.array(cell) + c)] for c in corner]) * alpha[cell]
    starts = [0, 2, 4, 6, 0, 1, 4, 5, 0, 1, 2, 3]
    points, shares = [], []
    for edge, a in enumerate(starts):
        b = a + (1, 2, 4)[edge // 4]
        if (s[a] < 0) != (s[b] < 0):
            points.append((s[a] * x[b] - s[b] * x[a]) / (s[a] - s[b]))
            shares.append(beta[cell][edge])
    points, shares = np.array(points), np.array(shares)
    v = (shares[:, None] * points).sum(axis=0) / shares.sum()
    d = np.linalg.norm(points - v, axis=1)
    return v, np.abs(d - d.mean()).mean()


def test_value_weights():
    values = ball(7, 0.6)
    w = weights(values.shape)
    found = gk.flexicubes(values, **w)
    inside = np.lib.stride_tricks.sliding_window_view(values < 0, (2, 2, 2)).reshape(6, 6, 6, 8)
    cells = [tuple(c) for c in np.argwhere(inside.any(axis=-1) & ~inside.all(axis=-1)).tolist()]
    assert len(cells) == len(found.vertices)
    for k in range(0, len(cells), 5):
        v, deviation = reference(values, w["deform"], w["alpha"], w["beta"], cells[k])
        np.testing.assert_allclose(found.vertices[k], v, atol=1e-12)
        assert found.deviation[k] == pytest.approx(deviation, abs=1e-12)


def test_value_gamma():
    """The middle of a quad is on the diagonal of the greater product, and so is the cut."""
    values, w = ball(9, 0.6), {}
    cells = (8, 8, 8)
    gamma = np.ones(cells)
    gamma[::2, ::2, ::2] = gamma[1::2, 1::2, ::2] = gamma[1::2, ::2, 1::2] = gamma[::2, 1::2, 1::2] = 1e6
    w = {"gamma": gamma}
    cut, middle = gk.flexicubes(values, **w), gk.flexicubes(values, **w, split="center")
    heavy = gamma[tuple(np.floor(cut.vertices).astype(int).T)] > 1
    assert (heavy[cut.faces].sum(axis=1) == 2).all()  # (every quad has two of them, on a diagonal, which is in both)
    quads = middle.faces.reshape(-1, 4, 3)[:, :, 0]
    corners, centers = middle.vertices[quads], middle.vertices[len(cut.vertices) :]
    first = heavy[quads[:, 0]]
    on = np.where(first[:, None], corners[:, 0] + corners[:, 2], corners[:, 1] + corners[:, 3]) / 2
    np.testing.assert_allclose(centers, on, atol=1e-9)


def directed_edges(faces):
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    found, counts = np.unique(edges, axis=0, return_counts=True)
    return {tuple(e) for e in found.tolist()}, counts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("split", ["diagonal", "center"])
def test_value_manifold_on_noise(seed, split):
    """Every edge has one face on either side, and the faces around every vertex are one fan, ambiguous cells or not."""
    found = gk.flexicubes(noise((12, 13, 14), seed), split=split)
    edges, counts = directed_edges(found.faces)
    assert len(found.faces) > 1000 and (counts == 1).all() and edges == {(b, a) for a, b in edges}
    after = [{} for _ in found.vertices]
    for a, b, c in found.faces.tolist():
        after[a][b], after[b][c], after[c][a] = c, a, b
    for ring in after:
        start = at = next(iter(ring))
        for _ in ring:
            at = ring[at]
        assert at == start and len({*ring}) == len({*ring.values()})
        walked, at = {start}, ring[start]
        while at != start:
            walked.add(at)
            at = ring[at]
        assert len(walked) == len(ring)


def test_value_checkerboard():
    """Cells that are ambiguous on all their faces."""
    values = np.ones((8, 8, 8))
    values[1:-1, 1:-1, 1:-1] = np.where(np.indices((6, 6, 6)).sum(axis=0) % 2, 1.0, -1.0)
    edges, counts = directed_edges(gk.flexicubes(values).faces)
    assert (counts == 1).all() and edges == {(b, a) for a, b in edges}


def test_edge():
    for values in (np.ones((4, 4, 4)), -np.ones((4, 4, 4)), np.ones((1, 4, 4)), np.zeros((0, 3, 3))):
        w = weights(values.shape) if min(values.shape) > 1 else {}
        for split in ("diagonal", "center"):
            found = gk.flexicubes(values, **w, split=split)
            assert found.vertices.shape == found.faces.shape == (0, 3) and found.deviation.shape == (0,)
            g = gk.flexicubes.adjoint(values, **w, split=split, adj_vertices=np.zeros((0, 3)))
            assert g.values.shape == values.shape and not g.values.any()
    plane = np.arange(4.0)[:, None, None] - 1.3 + np.zeros((4, 3, 5))
    flat = gk.flexicubes(plane, spacing=(1, 2, 3), origin=(10, 20, 30))
    np.testing.assert_allclose(flat.vertices[:, 0], 11.3)
    assert len(flat.vertices) == 8 and len(flat.faces) == 6  # (three edges of the grid with four cells around)
    normals = gk.Mesh(flat.vertices, flat.faces).face_normals
    np.testing.assert_allclose(normals, np.broadcast_to([1, 0, 0], normals.shape), atol=1e-12)
    np.testing.assert_array_equal(gk.flexicubes(plane + 5, 5.0).faces, gk.flexicubes(plane).faces)
    far = gk.flexicubes(ball(9).astype(np.float32), origin=1e6)
    assert np.isfinite(far.vertices).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"values": np.zeros((3, 3))}, r"values: expected \(X, Y, Z\) floats"),
        ({"values": np.full((3, 3, 3), np.nan)}, "values: expected finite numbers, got 27"),
        ({"deform": np.zeros((3, 3, 3))}, r"deform: expected \(3, 3, 3, 3\) floats"),
        ({"alpha": np.ones((2, 2, 2))}, r"alpha: expected \(2, 2, 2, 8\) floats"),
        ({"beta": np.zeros((2, 2, 2, 12))}, "beta: expected positive numbers, got 0 among them"),
        ({"gamma": -np.ones((2, 2, 2))}, "gamma: expected positive numbers, got -1 among them"),
        ({"spacing": 0}, "spacing: expected positive numbers"),
        ({"split": "both"}, "split: expected one of 'diagonal', 'center', got 'both'"),
    ],
)
def test_error(change, text):
    with pytest.raises(ValueError, match=f"^flexicubes: {text}"):
        gk.flexicubes(**({"values": np.arange(27.0).reshape(3, 3, 3)} | change))


def test_error_adjoint():
    with pytest.raises(ValueError, match="^flexicubes.adjoint: adj_vertices, adj_deviation: expected at least one"):
        gk.flexicubes.adjoint(ball(5))
    with pytest.raises(ValueError, match=r"^flexicubes.adjoint: adj_vertices: expected \(\d+, 3\) floats"):
        gk.flexicubes.adjoint(ball(5), adj_vertices=np.zeros((1, 3)))


@pytest.mark.parametrize("split", ["diagonal", "center"])
def test_gradient(split):
    """On noise, whose cells have several sheets, and whose faces were joined."""
    values = noise((5, 6, 6), 2, rim=False)
    w = weights(values.shape)
    names = list(w) if split == "center" else [name for name in w if name != "gamma"]

    def surface(values, *rest):
        found = gk.flexicubes(values, spacing=(0.9, 1, 1.1), **dict(zip(names, rest, strict=True)), split=split)
        return found.vertices, found.deviation

    assert 0 < gk.gradcheck(surface, [values, *(w[name] for name in names)], step=1e-5, rtol=1e-6) < 1e-6


def test_gradient_without_weights():
    values = noise((4, 5, 6), 3)
    f = lambda v: gk.flexicubes(v, 0.02, split="center").vertices  # noqa: E731
    assert 0 < gk.gradcheck(f, [values], step=1e-5) < 1e-7
    g = gk.flexicubes.adjoint(values, adj_deviation=np.ones(len(gk.flexicubes(values).deviation)))
    assert g.values.any() and g.deform is g.alpha is g.beta is g.gamma is None


def test_gradient_in_torch():
    """Weights move vertices to the edges of a box, which means of crossings cut off."""
    torch = pytest.importorskip("torch")
    p = np.stack(np.meshgrid(*[np.linspace(-1, 1, 7)] * 3, indexing="ij"), axis=-1)
    box = torch.tensor(np.abs(p).max(axis=-1) - 0.55)
    raw = torch.zeros(6, 6, 6, 12, dtype=torch.float64, requires_grad=True)
    deform = torch.zeros(7, 7, 7, 3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([raw, deform], 0.01)
    off = []
    for _ in range(30):
        found = gk.flexicubes(box, deform=deform, beta=torch.exp(raw), spacing=1 / 3, origin=-1)
        away = found.vertices.abs().max(dim=1).values - 0.55
        loss = (away**2).mean() + 1e-3 * found.deviation.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        off.append(float(away.detach().abs().max()))
    assert off[0] > 0.05 and off[-1] < 0.3 * off[0]
    assert found.mesh.is_closed and found.mesh.vertices.requires_grad


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
def test_devices():
    import cupy

    values = noise((9, 9, 9)).astype(np.float32)
    w = weights(values.shape, dtype=np.float32)
    expected = gk.flexicubes(values, **w, split="center")
    there = {name: cupy.asarray(x) for name, x in w.items()}
    found = gk.flexicubes(cupy.asarray(values), **there, split="center")
    np.testing.assert_array_equal(found.faces.get(), expected.faces)
    np.testing.assert_allclose(found.vertices.get(), expected.vertices, atol=1e-4)
    adj = np.random.default_rng(0).normal(size=expected.vertices.shape).astype(np.float32)
    wanted = gk.flexicubes.adjoint(values, **w, split="center", adj_vertices=adj)
    g = gk.flexicubes.adjoint(cupy.asarray(values), **there, split="center", adj_vertices=cupy.asarray(adj))
    for x, y in zip(g, wanted, strict=True):
        np.testing.assert_allclose(x.get(), y, atol=1e-3 * np.abs(y).max())
