"""Isotropic remeshing: sizes, shapes, what stays, and what is carried over."""

import re

import numpy as np
import pytest

import geomkit as gk
from geomkit.errors import MeshError


def edges(mesh):
    v, f = mesh.vertices.astype(np.float64), mesh.faces
    return np.linalg.norm(v[f] - v[np.roll(f, -1, axis=1)], axis=2)


def angles(mesh):
    """The three angles of each face, in degrees."""
    a, b, c = edges(mesh).T
    first = np.degrees(np.arccos((a * a + c * c - b * b) / (2 * a * c)))
    second = np.degrees(np.arccos((a * a + b * b - c * c) / (2 * a * b)))
    return np.stack([first, second, 180 - first - second], axis=1)


def degrees(mesh):
    pairs = np.sort(np.stack([mesh.faces, np.roll(mesh.faces, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    return np.bincount(np.unique(pairs, axis=0).ravel())


def same_kind(new, old):
    """Whether a surface is a manifold of the same kind as another."""
    a = new.topology
    assert (a.n_non_manifold, a.n_inconsistent, a.n_degenerate, a.n_unreferenced) == (0, 0, 0, 0)
    assert new.is_closed == old.is_closed and new.euler_characteristic == old.euler_characteristic
    assert new.components()[0] == old.components()[0] and len(new.boundary_loops()) == len(old.boundary_loops())
    return True


def wavy(n=24):
    """A square sheet with waves."""
    x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    v = np.stack([x, y, 0.05 * np.sin(6 * x)], axis=2).reshape(-1, 3)
    k = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    return gk.Mesh(v, np.concatenate([np.stack([k, k + n, k + 1], 1), np.stack([k + n, k + n + 1, k + 1], 1)]))


@pytest.mark.parametrize("length", [0.06, 0.12, 0.3])
def test_value_ball(length):
    ball = gk.shapes.icosphere(4, dtype=np.float64)
    new = gk.isotropic_remesh(ball, length).mesh
    relative, corner = edges(new) / length, angles(new)
    assert same_kind(new, ball) and new.dtype == np.float64
    assert ((relative > 0.75) & (relative < 1.37)).mean() > 0.95 and relative.max() < 1.5 and relative.min() > 0.5
    assert corner.min() > 25 and corner.min(axis=1).mean() > 50
    assert ((degrees(new) >= 5) & (degrees(new) <= 7)).mean() > 0.98
    # Vertices lie on the old surface; faces are as far from it as chords are.
    assert gk.closest_point(ball, new.vertices).distance.max() < 1e-12
    assert gk.hausdorff_distance(new, ball) < 0.3 * length**2 + 0.002


@pytest.mark.parametrize(("name", "factor"), [("spot_low.obj", 0.5), ("torus.obj", 1.5)])
def test_value_real(shared_mesh, name, factor):
    mesh = shared_mesh(name)
    length = factor * edges(mesh).mean()
    new = gk.isotropic_remesh(mesh, length).mesh
    assert same_kind(new, mesh)
    relative = edges(new) / length
    assert ((relative > 0.6) & (relative < 1.5)).mean() > 0.99 and angles(new).min(axis=1).mean() > 45
    assert gk.hausdorff_distance(new, mesh) < length


def test_value_better_than_before():
    knot = gk.load_mesh("data/knot.ply")
    length = 1.3 * edges(knot).mean()
    new = gk.isotropic_remesh(knot, length, iterations=10).mesh
    assert same_kind(new, knot)
    assert (edges(new) / length).std() < 0.5 * (edges(knot) / edges(knot).mean()).std() + 0.12
    assert angles(new).min(axis=1).mean() > 48
    assert abs(new.volume / knot.volume - 1) < 0.02


def test_value_features():
    box = gk.isotropic_remesh(gk.shapes.box(), 0.2, iterations=2).mesh
    kept = gk.isotropic_remesh(gk.shapes.box(), 0.2, feature_angle=40).mesh
    assert same_kind(kept, box) and kept.n_vertices > 100
    assert abs(kept.volume - 1) < 1e-6 and abs(kept.area - 6) < 1e-5
    # The corners are where they were; every vertex is on a side.
    near = np.linalg.norm(kept.vertices[:, None] - gk.shapes.box().vertices, axis=2).min(axis=0)
    assert near.max() == 0
    assert (abs(abs(kept.vertices).max(axis=1) - 0.5) < 1e-6).all()
    assert box.volume < 0.9999


def test_value_rims_of_a_cylinder_stay_round():
    # Bends of 15 degrees are no corners: the vertices of the rims may move along them.
    t = np.arange(24) * 2 * np.pi / 24
    rim = np.stack([np.cos(t), np.sin(t)], axis=1)
    v = np.concatenate([np.c_[rim, np.zeros(24)], np.c_[rim, np.ones(24)], [[0, 0, 0], [0, 0, 1]]])
    k, n = np.arange(24), (np.arange(24) + 1) % 24
    sides = [np.stack([k, n, n + 24], 1), np.stack([k, n + 24, k + 24], 1)]
    caps = [np.stack([n, k, 0 * k + 48], 1), np.stack([k + 24, n + 24, 0 * k + 49], 1)]
    cylinder = gk.Mesh(v, np.concatenate(sides + caps))
    new = gk.isotropic_remesh(cylinder, 0.13, feature_angle=40).mesh
    on_rim = (new.vertices[:, 2] == 0) | (new.vertices[:, 2] == 1)
    radius = np.linalg.norm(new.vertices[:, :2], axis=1)
    assert same_kind(new, cylinder) and (on_rim & (radius > 0.98)).sum() > 60
    assert abs(new.volume / cylinder.volume - 1) < 2e-3


def test_value_border():
    sheet = wavy()
    new = gk.isotropic_remesh(sheet, 0.07).mesh
    assert same_kind(new, sheet)
    corners = [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert np.linalg.norm(new.vertices[:, None, :2] - corners, axis=2).min(axis=0).max() < 1e-7
    (loop,) = new.boundary_loops()
    x, y = new.vertices[loop, :2].T
    assert (np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y)) < 1e-6).all()
    assert abs(new.area / sheet.area - 1) < 5e-3 and abs(len(loop) - 4 / 0.07) < 15


def test_value_attributes():
    ball = gk.shapes.icosphere(4, dtype=np.float64)
    n = ball.n_vertices
    given = {"x": ball.vertices, "one": np.ones(n, np.float32), "matrix": np.ones((n, 2, 2))}
    new = gk.isotropic_remesh(ball, 0.2, attributes=given)
    # What is linear in space is interpolated to the place itself, as the vertices are on the surface.
    assert abs(new.attributes["x"] - new.mesh.vertices).max() < 1e-12
    assert abs(new.attributes["one"] - 1).max() < 1e-6 and new.attributes["one"].dtype == np.float32
    assert new.attributes["matrix"].shape == (new.mesh.n_vertices, 2, 2)
    corners = ball.vertices[ball.faces[new.face]]
    assert abs((new.barycentric[:, :, None] * corners).sum(axis=1) - new.mesh.vertices).max() < 1e-12


def test_value_sizes_that_change():
    ball = gk.shapes.icosphere(4)
    wanted = 0.08 + 0.06 * (1 + ball.vertices[:, 1])
    new = gk.isotropic_remesh(ball, wanted, iterations=8).mesh
    middle = new.vertices[new.faces].mean(axis=1)
    relative = edges(new).mean(axis=1) / (0.08 + 0.06 * (1 + middle[:, 1]))
    assert same_kind(new, ball)
    assert ((relative > 0.75) & (relative < 1.3)).mean() > 0.97
    low, high = middle[:, 1] < -0.8, middle[:, 1] > 0.8
    assert edges(new)[high].mean() > 1.6 * edges(new)[low].mean()


def test_value_without_projection():
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    on, off = (gk.isotropic_remesh(ball, 0.3, project=p).mesh for p in (True, False))
    distances = [gk.closest_point(ball, new.vertices).distance.max() for new in (on, off)]
    assert distances[0] < 1e-12 and 1e-4 < distances[1] < 0.03


def test_value_seams_close():
    ball = gk.shapes.icosphere(3)
    soup = gk.Mesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * ball.n_faces).reshape(-1, 3))
    new = gk.isotropic_remesh(soup, 0.2, attributes={"y": soup.vertices[:, 1]})
    assert new.mesh.is_closed and new.mesh.topology.is_welded and same_kind(new.mesh, ball)
    assert abs(new.attributes["y"] - new.mesh.vertices[:, 1]).max() < 1e-6


def test_value_the_same_bits():
    ball = gk.shapes.icosphere(4)
    before = gk.num_threads()
    try:
        found = []
        for threads in (1, 3, 3):
            gk.set_num_threads(threads)
            found.append(gk.isotropic_remesh(ball, 0.1))
    finally:
        gk.set_num_threads(before)
    for other in found[1:]:
        assert np.array_equal(other.mesh.vertices, found[0].mesh.vertices)
        assert np.array_equal(other.mesh.faces, found[0].mesh.faces)
        assert np.array_equal(other.barycentric, found[0].barycentric)


def test_value_thin_wall_keeps_its_sides():
    slab = gk.shapes.box((1.0, 1.0, 0.004))
    new = gk.isotropic_remesh(slab, 0.1, feature_angle=40).mesh
    assert same_kind(new, slab) and abs(new.volume / slab.volume - 1) < 1e-3


def test_edge_smallest_surfaces():
    tetrahedron = gk.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    for mesh in (tetrahedron, gk.Mesh(tetrahedron.vertices, tetrahedron.faces[:1]), gk.shapes.torus(1.0, 0.2)):
        for length in (0.15, 100.0):
            assert same_kind(gk.isotropic_remesh(mesh, length, iterations=3).mesh, mesh)


def test_edge_nothing_to_do():
    mesh = gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), int))
    new = gk.isotropic_remesh(mesh, 1.0, attributes={"a": np.zeros((0, 2))})
    assert new.mesh.n_faces == 0 and new.attributes["a"].shape == (0, 2) and new.barycentric.shape == (0, 3)
    ball = gk.shapes.icosphere(1)
    same = gk.isotropic_remesh(ball, 0.1, iterations=0, attributes={"v": ball.vertices})
    assert same.mesh.n_faces == ball.n_faces and abs(same.attributes["v"] - same.mesh.vertices).max() < 1e-6


def test_edge_touching_fans_and_repeated_points(shared_mesh):
    hourglass = shared_mesh("hourglass_ico.obj")
    new = gk.isotropic_remesh(hourglass, 0.5 * edges(hourglass).mean()).mesh
    assert new.euler_characteristic == hourglass.euler_characteristic
    assert new.topology.n_non_manifold_vertices == hourglass.topology.n_non_manifold_vertices == 1
    assert new.is_closed
    # A face with two corners at one place, in the middle of an edge.
    v = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]]
    sheet = gk.Mesh(v, [[0, 1, 2], [4, 3, 2], [1, 4, 2]])
    assert same_kind(gk.isotropic_remesh(sheet, 0.3).mesh, wavy(4))


def test_edge_far_from_the_origin():
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    far = gk.Mesh(ball.vertices + 1e6, ball.faces)
    new = gk.isotropic_remesh(far, 0.2).mesh
    assert same_kind(new, far) and gk.closest_point(far, new.vertices).distance.max() < 1e-9
    assert ((edges(new) > 0.12) & (edges(new) < 0.29)).all()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"edge_length": 0}, ValueError, "edge_length: expected positive lengths, got 0"),
        ({"edge_length": [0.1, 0.2]}, ValueError, "edge_length: expected (42,) floats"),
        ({"edge_length": np.full(42, np.nan)}, ValueError, "edge_length: expected positive lengths"),
        ({"edge_length": 1e-9}, ValueError, "edge_length: expected a length of more than a speck"),
        ({"edge_length": "wide"}, TypeError, "edge_length: expected () floats"),
        ({"edge_length": 1, "iterations": -1}, ValueError, "iterations: expected an integer of at least 0"),
        ({"edge_length": 1, "iterations": 1.5}, TypeError, "iterations: expected an integer"),
        ({"edge_length": 1, "feature_angle": 200}, ValueError, "feature_angle: expected degrees between 0 and 180"),
        ({"edge_length": 1, "attributes": {"c": np.ones(3)}}, ValueError, "attributes['c']: expected (42, ...) floats"),
    ],
)
def test_error(options, error, text):
    with pytest.raises(error, match=re.escape(f"isotropic_remesh: {text}")):
        gk.isotropic_remesh(gk.shapes.icosphere(1), **options)


def test_error_attributes_without_names():
    with pytest.raises(TypeError, match="isotropic_remesh: attributes: expected arrays by name, or None, got ndarray"):
        gk.isotropic_remesh(gk.shapes.icosphere(1), 0.5, attributes=np.zeros(42))


def test_error_surfaces(shared_mesh):
    fan, strip = shared_mesh("fan3.obj"), shared_mesh("moebius.obj")
    with pytest.raises(MeshError, match="isotropic_remesh: mesh: expected a manifold .* with more than two faces"):
        gk.isotropic_remesh(fan, 1.0)
    with pytest.raises(MeshError, match="isotropic_remesh: mesh: expected a manifold .* whose faces disagree"):
        gk.isotropic_remesh(strip, 1.0)


def test_error_of_progress_ends_the_work():
    seen = []

    def progress(done, total):
        seen.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gk.isotropic_remesh(gk.shapes.icosphere(2), 0.2, progress=progress)
    assert seen == [(1, 5), (2, 5)]


def test_libraries():
    torch = pytest.importorskip("torch")
    ball = gk.shapes.icosphere(2)
    vertices = torch.tensor(ball.vertices)
    given = {"m": vertices.double(), "n": ball.vertices}
    new = gk.isotropic_remesh(gk.Mesh(vertices, ball.faces), 0.3, attributes=given)
    assert isinstance(new.mesh.vertices, torch.Tensor) and new.attributes["m"].dtype == torch.float64
    assert isinstance(new.attributes["n"], np.ndarray) and isinstance(new.face, torch.Tensor)
    with pytest.raises(TypeError, match="isotropic_remesh: mesh: expected values that do not track gradients"):
        gk.isotropic_remesh(gk.Mesh(vertices.requires_grad_(), ball.faces), 0.3)
    with pytest.raises(TypeError, match=r"isotropic_remesh: attributes\['m'\]: expected values that do not track"):
        gk.isotropic_remesh(ball, 0.3, attributes={"m": vertices})
