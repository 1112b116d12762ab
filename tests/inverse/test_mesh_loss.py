"""Losses of a mesh's shape: values, seams, edges, errors, gradients."""

import numpy as np
import pytest

import geomkit as gk

RNG = np.random.default_rng(0)
LOSSES = {
    "uniform": lambda mesh: gk.mesh_laplacian_smoothing(mesh),
    "cot": lambda mesh: gk.mesh_laplacian_smoothing(mesh, method="cot"),
    "normals": lambda mesh: gk.mesh_normal_consistency(mesh),
    "edges": lambda mesh: gk.mesh_edge_loss(mesh, target_length=0.2),
}


def rough(mesh=None, size=0.05):
    mesh = gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64) if mesh is None else mesh
    return mesh.with_vertices(mesh.vertices + size * RNG.normal(size=mesh.vertices.shape))


def open_mesh():
    mesh = rough()
    return gk.Mesh(mesh.vertices, mesh.faces[:-11])


@pytest.mark.parametrize("make", [rough, open_mesh])
@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name, make):
    gk.gradcheck(LOSSES[name], [make()], step=1e-5)


def soup(mesh):
    """Every face with corners of its own."""
    return gk.Mesh(mesh.vertices[mesh.faces].reshape(-1, 3), np.arange(3 * mesh.n_faces).reshape(-1, 3))


@pytest.mark.parametrize("name", LOSSES)
def test_seams_change_nothing(name):
    mesh = rough()
    cut = soup(mesh)
    with gk.Tape() as tape:
        whole, parts = LOSSES[name](mesh), LOSSES[name](cut)
    np.testing.assert_allclose(parts.item(), whole.item(), rtol=1e-12)
    wanted = tape.gradient(whole, mesh)
    found = np.zeros_like(wanted)
    np.add.at(found, mesh.faces.ravel(), tape.gradient(parts, cut))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-14)


def test_value_by_loops():
    mesh = open_mesh()
    v, faces = mesh.vertices, mesh.faces
    edges = {tuple(sorted((f[k], f[k - 1]))) for f in faces for k in range(3)}
    weights = {edge: 0.0 for edge in edges}
    at_edge = {edge: [] for edge in edges}
    normals = []
    for f in faces:
        n = np.cross(v[f[1]] - v[f[0]], v[f[2]] - v[f[0]])
        normals.append(n / np.linalg.norm(n))
        for k in range(3):
            a, b = v[f[k - 2]] - v[f[k]], v[f[k - 1]] - v[f[k]]
            edge = tuple(sorted((f[k - 2], f[k - 1])))
            weights[edge] += a @ b / np.linalg.norm(np.cross(a, b))
            at_edge[edge].append(normals[-1])
    for name, weight in (("uniform", dict.fromkeys(edges, 1.0)), ("cot", weights)):
        away = np.zeros(len(v))
        for i in range(len(v)):
            own = [((set(e) - {i}).pop(), w) for e, w in weight.items() if i in e]
            if own:
                away[i] = np.linalg.norm(sum(w * v[j] for j, w in own) / sum(w for _, w in own) - v[i])
        np.testing.assert_allclose(LOSSES[name](mesh), away.mean(), rtol=1e-9)
    bends = [1 - n[0] @ n[1] for n in at_edge.values() if len(n) == 2]
    np.testing.assert_allclose(LOSSES["normals"](mesh), np.mean(bends), rtol=1e-12)
    lengths = [np.linalg.norm(v[a] - v[b]) for a, b in edges]
    np.testing.assert_allclose(LOSSES["edges"](mesh), np.mean((np.array(lengths) - 0.2) ** 2), rtol=1e-12)


def test_faces_that_disagree_are_compared_as_if_they_agreed():
    mesh = rough()
    faces = np.array(mesh.faces)
    faces[::3] = faces[::3, ::-1]
    np.testing.assert_allclose(
        gk.mesh_normal_consistency(gk.Mesh(mesh.vertices, faces)), gk.mesh_normal_consistency(mesh), rtol=1e-12
    )


@pytest.mark.parametrize("name", LOSSES)
def test_edge(name):
    loss = LOSSES[name]
    assert loss(gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int32))) == 0
    assert np.isfinite(loss(gk.Mesh(np.zeros((3, 3)), [[0, 1, 2]])))
    flat = gk.Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]]), [[0, 1, 2], [1, 0, 3]])
    with gk.Tape() as tape:
        value = loss(flat)
    assert np.isfinite(value.item()) and np.isfinite(tape.gradient(value, flat)).all()


def test_flat_is_smooth():
    grid = gk.shapes.grid(4, 4, dtype=np.float64)
    assert gk.mesh_normal_consistency(grid) < 1e-15
    assert gk.mesh_laplacian_smoothing(gk.shapes.icosphere(3), method="cot") < 0.02


def test_error():
    with pytest.raises(ValueError, match="mesh_laplacian_smoothing: method: expected 'uniform' or 'cot', got 'x'"):
        gk.mesh_laplacian_smoothing(gk.shapes.box(), method="x")
    with pytest.raises(ValueError, match="mesh_edge_loss: target_length: expected a length of at least 0, got -1"):
        gk.mesh_edge_loss(gk.shapes.box(), target_length=-1)
    with pytest.raises(TypeError, match="Mesh"):
        gk.mesh_edge_loss(3)
