"""Texture coordinates of meshes that have none."""

import re
import sys

import numpy as np
import pytest

import geomkit as gk

pytest.importorskip("xatlas")


def texel_owners(uv, faces, n):
    """(n, n) how many triangles cover the centre of each texel."""
    covered = np.zeros((n, n), int)
    at = (np.arange(n) + 0.5) / n
    for a, b, c in uv[faces]:
        low = np.floor(np.min([a, b, c], axis=0) * n).astype(int).clip(0, n - 1)
        high = np.ceil(np.max([a, b, c], axis=0) * n).astype(int).clip(0, n)
        x, y = np.meshgrid(at[low[0] : high[0]], at[low[1] : high[1]], indexing="ij")
        side = [
            (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0]) for p, q in ((a, b), (b, c), (c, a))
        ]
        inside = (side[0] > 1e-9) & (side[1] > 1e-9) & (side[2] > 1e-9)
        inside |= (side[0] < -1e-9) & (side[1] < -1e-9) & (side[2] < -1e-9)
        covered[low[0] : high[0], low[1] : high[1]] += inside
    return covered


def charts(faces, n):
    """The chart of each face: those that share vertices are of one."""
    owner = np.arange(n)
    while True:
        least = np.minimum.reduce([owner[faces[:, k]] for k in range(3)])
        new = owner.copy()
        for k in range(3):
            np.minimum.at(new, faces[:, k], least)
        if np.array_equal(new, owner):
            return owner[faces[:, 0]]
        owner = new


@pytest.mark.parametrize("mesh", [gk.shapes.box(), gk.shapes.icosphere(3), gk.shapes.torus(1.0, 0.4)])
def test_value(mesh):
    found = gk.unwrap_uv(mesh, resolution=128, padding=3)
    assert np.array_equal(found.vertex[found.mesh.faces], mesh.faces)
    assert np.array_equal(found.mesh.vertices, mesh.vertices[found.vertex])
    assert found.mesh.is_closed and found.mesh.euler_characteristic == mesh.euler_characteristic
    assert found.uv.dtype == np.float32 and found.uv.min() >= 0 and found.uv.max() <= 1
    assert texel_owners(found.uv, found.mesh.faces, 256).max() == 1
    a, b, c = (found.uv[found.mesh.faces[:, k]].astype(float) for k in range(3))
    areas = 0.5 * abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])
    share = areas / mesh.face_areas
    assert areas.min() > 0 and 0.3 < areas.sum() <= 1 and share.max() < 5 * share.min()


def test_value_padding():
    """Between the vertices of two charts, and so their edges here, the padding is free."""
    found = gk.unwrap_uv(gk.shapes.icosphere(3), resolution=128, padding=5)
    of = charts(found.mesh.faces, len(found.uv))
    corner = found.uv[found.mesh.faces].reshape(-1, 2) * 128
    owner = np.repeat(of, 3)
    assert len(set(of)) > 1
    for chart in set(of):
        ours, others = corner[owner == chart], corner[owner != chart]
        gap = abs(ours[:, None] - others).max(axis=2).min()
        assert gap >= 5


def test_value_of_a_cut_mesh():
    ball = gk.shapes.icosphere(2, dtype=np.float64)
    soup = gk.Mesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * ball.n_faces).reshape(-1, 3))
    one, other = gk.unwrap_uv(ball, resolution=64), gk.unwrap_uv(soup, resolution=64)
    assert one.mesh.n_vertices == other.mesh.n_vertices < 2 * ball.n_vertices and other.mesh.dtype == np.float64
    assert np.array_equal(one.uv, other.uv) and np.array_equal(soup.vertices[other.vertex], other.mesh.vertices)


def test_value_scale_does_not_matter():
    mesh = gk.shapes.icosphere(2)
    one, other = (gk.unwrap_uv(gk.Mesh(s * mesh.vertices, mesh.faces), resolution=64) for s in (1.0, 2.0**-13))
    assert one.mesh.n_vertices == other.mesh.n_vertices


def test_edge():
    empty = gk.unwrap_uv(gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), int)))
    assert empty.uv.shape == (0, 2) and empty.mesh.n_faces == 0
    one = gk.unwrap_uv(gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), resolution=16)
    assert len(one.uv) == 3 and one.mesh.n_faces == 1
    point = gk.unwrap_uv(gk.Mesh(np.zeros((3, 3)), [[0, 1, 2]]), resolution=16)
    assert point.mesh.n_faces == 1 and not point.uv.any()
    many = gk.unwrap_uv(gk.shapes.icosphere(3), resolution=16, padding=1)
    assert many.uv.min() >= 0 and many.uv.max() <= 1


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"resolution": 0}, ValueError, "resolution: expected an integer of at least 1, got 0"),
        ({"padding": 0}, ValueError, "padding: expected an integer of at least 1, got 0"),
        ({"resolution": 1.5}, TypeError, "resolution: expected an integer, got float"),
    ],
)
def test_error(options, error, text):
    with pytest.raises(error, match=re.escape(f"unwrap_uv: {text}")):
        gk.unwrap_uv(gk.shapes.box(), **options)


def test_error_of_a_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "xatlas", None)
    with pytest.raises(ImportError, match=r'^unwrap_uv: needs the package xatlas: pip install "geomkit-diff\[uv\]"$'):
        gk.unwrap_uv(gk.shapes.box())
