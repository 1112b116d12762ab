"""Attributes of the vertices at points of faces."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.interpolate import interpolated, interpolated_adj

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
