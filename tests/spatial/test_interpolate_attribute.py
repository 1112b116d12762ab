"""Attributes of the vertices at points of faces."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.spatial.interpolate_attribute import interpolated, interpolated_adj

MESH = gk.shapes.icosphere(1, dtype=np.float64)
RNG = np.random.default_rng(0)


def places(n=40, mesh=MESH):
    weights = np.sort(RNG.random((n, 2)), axis=1)
    barycentric = np.stack([weights[:, 0], weights[:, 1] - weights[:, 0]], axis=1)
    face = RNG.integers(0, mesh.n_faces, n).astype(np.int32)
    face[::7] = -1
    return face, barycentric


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_value(channels):
    attribute, (face, barycentric) = RNG.normal(size=(MESH.n_vertices, channels)), places()
    u, v = barycentric.T[..., None]
    a, b, c = (attribute[MESH.faces[face][:, k]] for k in range(3))
    wanted = np.where((face >= 0)[:, None], (1 - u - v) * a + u * b + v * c, 0)
    np.testing.assert_allclose(interpolated(MESH, attribute, face, barycentric), wanted, rtol=0, atol=1e-14)


def test_edge():
    none = np.zeros(0, np.int32), np.zeros((0, 2))
    assert interpolated(MESH, np.ones((MESH.n_vertices, 4)), *none).shape == (0, 4)
    adj = interpolated_adj(MESH, np.ones((MESH.n_vertices, 3)), *none, np.zeros((0, 3)), np.zeros((0, 2)))
    assert adj.shape == (MESH.n_vertices, 3) and not adj.any()
    # A corner has its own value, and a linear field is itself.
    corner = np.arange(MESH.n_faces, dtype=np.int32), np.zeros((MESH.n_faces, 2))
    np.testing.assert_array_equal(interpolated(MESH, MESH.vertices, *corner), MESH.vertices[MESH.faces[:, 0]])
    face, barycentric = places()
    hits = gk.cast_rays(MESH, 3 * MESH.vertices[:5] + 0.1, -MESH.vertices[:5])
    found = interpolated(MESH, MESH.vertices, np.asarray(hits.face), np.asarray(hits.barycentric))
    np.testing.assert_allclose(found, hits.position, atol=1e-12)
    assert np.isfinite(interpolated(MESH, MESH.vertices, face, barycentric)).all()


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_gradient(channels):
    attribute, (face, barycentric) = RNG.normal(size=(MESH.n_vertices, channels)), places()
    adj, adj_barycentric = RNG.normal(size=(len(face), channels)), np.ones((len(face), 2))
    g = interpolated_adj(MESH, attribute, face, barycentric, adj, adj_barycentric)
    assert interpolated_adj(MESH, attribute, face, barycentric, adj, np.zeros((len(face), 2)), wanted=False) is None
    step, along = RNG.normal(size=attribute.shape), RNG.normal(size=barycentric.shape)
    by_attribute = np.sum(adj * interpolated(MESH, step, face, barycentric))
    assert np.sum(g * step) == pytest.approx(by_attribute, rel=1e-12)
    low, high = (np.sum(adj * interpolated(MESH, attribute, face, barycentric + e * along)) for e in (-1e-5, 1e-5))
    # (What there was of barycentric's is added to.)
    assert np.sum((adj_barycentric - 1) * along) == pytest.approx((high - low) / 2e-5, rel=1e-8)


def test_devices():
    attribute, (face, barycentric) = RNG.normal(size=(MESH.n_vertices, 3)), places()
    float32 = gk.Mesh(MESH.vertices.astype(np.float32), MESH.faces)
    low = interpolated(float32, attribute.astype(np.float32), face, barycentric.astype(np.float32))
    assert low.dtype == np.float32
    np.testing.assert_allclose(low, interpolated(MESH, attribute, face, barycentric), atol=1e-6)


# ---- the public function


@pytest.mark.parametrize("shape", [(), (1,), (2, 2), (3,)])
def test_value_of_two_and_of_three_weights(shape):
    attribute, (face, two) = RNG.normal(size=(MESH.n_vertices, *shape)), places()
    three = np.concatenate([1 - two.sum(axis=1, keepdims=True), two], axis=1)
    found = gk.interpolate_attribute(attribute, MESH.faces, face, two)
    assert found.shape == (len(face), *shape) and not found[face < 0].any()
    np.testing.assert_allclose(found, gk.interpolate_attribute(attribute, MESH.faces, face, three), atol=1e-14)
    corners = attribute[MESH.faces[face]]
    np.testing.assert_allclose(found[face >= 0], np.einsum("nk,nk...->n...", three, corners)[face >= 0], atol=1e-14)
    # Weights need not have the sum one.
    np.testing.assert_allclose(gk.interpolate_attribute(attribute, MESH.faces, face, 2 * three), 2 * found, atol=1e-13)


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_gradient_of_two_and_of_three_weights(width, shape):
    attribute, (face, two) = RNG.normal(size=(MESH.n_vertices, *shape)), places()
    weights = two if width == 2 else np.concatenate([RNG.random((len(face), 1)), two], axis=1)
    error = gk.gradcheck(lambda a, b: gk.interpolate_attribute(a, MESH.faces, face, b), [attribute, weights])
    assert error < 1e-9


def test_closest_points_and_samples_are_found_again():
    points = RNG.normal(size=(20, 3))
    near = gk.closest_point(MESH, points)
    again = gk.interpolate_attribute(MESH.vertices, MESH.faces, near.face, near.barycentric)
    np.testing.assert_allclose(again, near.point, atol=1e-14)
    drawn = gk.sample_surface(MESH, 30)
    again = gk.interpolate_attribute(MESH.vertices, MESH.faces, drawn.face, drawn.barycentric)
    np.testing.assert_allclose(again, drawn.points, atol=1e-14)


def test_hits_carry_gradients_to_attribute_ray_and_mesh():
    torch = pytest.importorskip("torch")
    origins, directions = 3 * MESH.vertices[:5] + [0.3, 0.1, 0.2], -MESH.vertices[:5]
    attribute = RNG.normal(size=(MESH.n_vertices, 2))

    def seen(vertices, origins, attribute):
        return gk.cast_rays(gk.Mesh(vertices, MESH.faces), origins, directions).interpolate(attribute)

    given = [torch.tensor(np.array(x), requires_grad=True) for x in (MESH.vertices, origins, attribute)]
    assert bool((seen(*given) != 0).all())
    assert torch.autograd.gradcheck(seen, given, eps=1e-6, atol=1e-6)


def test_devices_of_the_public_function():
    torch = pytest.importorskip("torch")
    attribute, (face, two) = RNG.normal(size=(MESH.n_vertices, 2)), places()
    expected = gk.interpolate_attribute(attribute, MESH.faces, face, two)
    found = gk.interpolate_attribute(torch.tensor(attribute), MESH.faces, face, two)
    assert isinstance(found, torch.Tensor) and np.array_equal(found.numpy(), expected)
    low = gk.interpolate_attribute(attribute.astype(np.float32), MESH.faces, face, two)
    assert low.dtype == np.float32
    np.testing.assert_allclose(low, expected, atol=1e-6)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"face": [80, 0]}, r"face\[0\]: expected faces from 0 to 79, or -1 for none, got 80"),
        ({"face": [0, -2]}, r"face\[1\]: expected faces from 0 to 79, or -1 for none, got -2"),
        ({"face": [0]}, r"barycentric: expected \(1, 2\) floats, got"),
        ({"barycentric": np.zeros((2, 4))}, r"barycentric: expected \(2, 2\) floats, got"),
        ({"attribute": 1.0}, r"attribute: expected \(V, \.\.\.\) floats, got"),
        ({"attribute": np.zeros((3, 1))}, "Mesh: faces"),
    ],
)
def test_error(arguments, text):
    given = {"attribute": np.zeros(42), "faces": MESH.faces, "face": [0, 1], "barycentric": np.zeros((2, 2))}
    with pytest.raises((ValueError, gk.MeshError), match=text):
        gk.interpolate_attribute(**(given | arguments))
