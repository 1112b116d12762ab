import json

import numpy as np
import pytest

import geomkit as gk
from geomkit.bench import reference
from geomkit.bench.__main__ import main
from geomkit.bench.contest import Verdict
from geomkit.bench.peer import Peer, per_ray
from geomkit.bench.peers import PEERS
from geomkit.bench.race import Task
from geomkit.bench.rays import RayCheck
from geomkit.bench.sample import Rays, chord_rays, pinhole_rays
from geomkit.mesh.io import save_mesh

INF = np.inf
# From where to where: through a cube of side 2, past it, away from it, out of it, and along a diagonal of two of its
# faces.
BOX_RAYS = Rays(
    np.array([[0.3, 0.1, 5], [3, 0, 5], [0.3, 0.1, 5], [0.3, 0.1, 0], [5, 5, 0.2]]),
    np.array([[0, 0, -2], [0, 0, -1], [0, 0, 1], [0, 0, 0.5], [-1, -1, 0.0]]),
)


def box_check(n=5):
    rays = Rays(*(part[:n].astype(np.float32) for part in BOX_RAYS))
    return RayCheck(gk.shapes.box((2, 2, 2)), rays, np.arange(n)[::-1])


def task(who="geomkit"):
    return Task(who, lambda: None, lambda r, n: r, 5, 1)


@pytest.fixture
def box(tmp_path):
    save_mesh(gk.shapes.box((2, 2, 2)), tmp_path / "box.ply")
    return tmp_path / "box.ply"


def bench(capsys, *arguments):
    """Exit status and rows of a small benchmark."""
    status = main(["rays", *map(str, arguments), "--rays", "100", "--checked", "60", "--repeat", "1"])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# ---- rays


def test_pinhole():
    mesh = gk.shapes.torus(major_sections=48, minor_sections=32)
    rays = pinhole_rays(mesh, 50 * 50 + 7)
    assert rays.origins.shape == rays.directions.shape == (2500, 3)
    assert rays.origins.dtype == rays.directions.dtype == np.float32
    assert (rays.origins == rays.origins[0]).all()
    assert np.linalg.norm(rays.origins[0] - mesh.center) == pytest.approx(1.5 * mesh.diagonal, rel=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rays.directions, axis=1), 1, rtol=1e-6)
    hit = reference.cast_rays(mesh.vertices_array, mesh.faces_array, *rays, slack=0).face.reshape(50, 50) >= 0
    assert 0.3 < hit.mean() < 0.8
    # The longer side fills the picture to its margin.
    assert max(hit.any(axis=0).sum(), hit.any(axis=1).sum()) >= 47
    # Row by row, the top one first.
    y = rays.directions.reshape(50, 50, 3)[..., 1]
    assert (np.diff(y, axis=0) < 0).all()


def test_chords():
    box = gk.shapes.box((1, 2, 3))
    mesh = gk.Mesh(box.vertices_array + np.float32(5), box.faces_array)
    rays = chord_rays(mesh, 3000, np.random.default_rng(0))
    radius = mesh.diagonal / 2
    start = rays.origins - mesh.center
    np.testing.assert_allclose(np.linalg.norm(start, axis=1), radius, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rays.directions, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(start.mean(axis=0), 0, atol=0.05 * radius)
    # Of a chord between uniform ends, the square of the length is uniform up to that of the diameter.
    length = -2 * (start * rays.directions).sum(axis=1)
    np.testing.assert_allclose(np.quantile(length**2, [0.25, 0.5, 0.75]), radius**2 * np.array([1, 2, 3]), rtol=0.1)


# ---- reference


def test_reference_closed_forms():
    mesh = gk.shapes.box((2, 2, 2))
    arrays = mesh.vertices_array, mesh.faces_array
    truth = reference.cast_rays(*arrays, *BOX_RAYS, slack=1e-9)
    np.testing.assert_allclose(truth.t[:4], [2, INF, INF, 2], rtol=1e-14)
    np.testing.assert_array_equal(truth.count[:4], [2, 0, 0, 1])
    np.testing.assert_allclose(truth.total[:4], [2 + 3, 0, 0, 2], rtol=1e-14)
    z = mesh.vertices_array[mesh.faces_array[truth.face[[0, 3]]]][..., 2]
    assert (z == 1).all() and (truth.face[[1, 2]] == -1).all()
    # The last ray goes through edges, on which nothing is clear.
    for clear in (truth.clear_first, truth.clear_any, truth.clear_all):
        np.testing.assert_array_equal(clear, [True, True, True, True, False])
    np.testing.assert_allclose(
        reference.plane_t(mesh.vertices_array[mesh.faces_array[truth.face[[0, 3]]]], *(p[[0, 3]] for p in BOX_RAYS)), 2
    )


def test_reference_by_linear_systems():
    # o + t d = a + u (b - a) + v (c - a), solved for each ray and triangle.
    rng = np.random.default_rng(1)
    vertices, faces = rng.normal(size=(90, 3)), np.arange(90).reshape(30, 3)
    origins, directions = rng.normal(size=(2, 200, 3))
    a, b, c = vertices[faces].transpose(1, 0, 2)
    system = np.empty((200, 30, 3, 3))
    system[..., 0], system[..., 1], system[..., 2] = b - a, c - a, -directions[:, None]
    u, v, t = np.linalg.solve(system, (origins[:, None] - a)[..., None])[..., 0].transpose(2, 0, 1)
    hit = (u > 0) & (v > 0) & (u + v < 1) & (t > 0)
    truth = reference.cast_rays(vertices, faces, origins, directions, slack=1e-9)
    first = np.where(hit, t, INF)
    np.testing.assert_allclose(truth.t, first.min(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(truth.face, np.where(hit.any(axis=1), first.argmin(axis=1), -1))
    np.testing.assert_array_equal(truth.count, hit.sum(axis=1))
    np.testing.assert_allclose(truth.total, np.where(hit, t, 0).sum(axis=1), rtol=1e-9)
    assert truth.clear_all.all() and 50 < hit.any(axis=1).sum() < 200


def test_reference_slack():
    # A large triangle in front of a small one whose edge the ray passes at a distance of 0.01, and once more behind.
    vertices = np.array([[-9, -9, 0], [9, -9, 0], [0, 9, 0], [0.01, -1, 0], [0.01, 1, 0], [1, 0, 0.0]])
    faces = np.array([[0, 1, 2], [3, 4, 5]])

    def clear(front, slack):
        moved = vertices.copy()
        moved[:3, 2], moved[3:, 2] = (1, 2) if front else (2, 1)
        truth = reference.cast_rays(moved, faces, np.zeros((1, 3)), np.array([[0, 0, 1.0]]), slack)
        return bool(truth.clear_first[0]), bool(truth.clear_any[0]), bool(truth.clear_all[0])

    assert clear(True, 0.005) == clear(False, 0.005) == (True, True, True)
    assert clear(True, 0.02) == (True, True, False)
    assert clear(False, 0.02) == (False, True, False)
    # A hit that starts on the triangle may be one or none.
    truth = reference.cast_rays(vertices, faces[:1], np.zeros((1, 3)), np.array([[0, 0, 1.0]]), 1e-9)
    assert truth.count[0] == 0 and not truth.clear_any[0] and not truth.clear_first[0]


def test_reference_degenerate():
    # A point, a segment, and a triangle seen edge on: never hit, and clear where the ray is not near.
    vertices = np.array([[0, 0, 3], [0, 1, 3], [0, 2, 3], [0, 0, 5.0]])
    faces = np.array([[0, 0, 0], [0, 1, 2], [0, 1, 3]])
    origins = np.array([[0.1, 0.5, 0], [0, 0.5, 0], [0.1, 0.1, 0], [0, 0, 0]])
    truth = reference.cast_rays(vertices, faces, origins, np.tile([0, 0, 1.0], (4, 1)), 1e-9)
    assert (truth.t == INF).all() and (truth.count == 0).all()
    np.testing.assert_array_equal(truth.clear_any, [True, False, True, False])


def test_per_ray():
    np.testing.assert_array_equal(
        per_ray(np.array([2, 0, 2]), np.array([1.0, 5.0, 2.5], np.float32), 4), [[1, 5], [0, 0], [2, 3.5], [0, 0]]
    )


# ---- check


def test_check_closest():
    # The directions are 2, 1, 1, 1/2 and 1.4 long; the last ray is unclear, and anything is right.
    check, diagonal = box_check(), np.sqrt(12)
    right = np.array([2, INF, INF, 2, 7])
    verdict = check.closest(task(), right)
    assert verdict.error == pytest.approx(0, abs=1e-15) and verdict[1:] == (0.0, "ok")
    verdict = check.closest(task(), right + [1e-6, 0, 0, 0, 0])
    assert verdict.error == pytest.approx(2e-6 / diagonal) and verdict.check == "wrong t (> 4.8e-07)"
    assert check.closest(task("P"), right + [1e-6, 0, 0, 0, 0]).check == "ok"
    assert check.closest(task("P"), right + [0, 0, 0, 0.01, 0]).check == "wrong t (> 0.0001)"
    assert check.closest(task(), np.array([INF, 3, INF, 2, INF])).check == "wrong hits or misses: 2 of 4"
    assert check.closest(task(), np.array([np.nan, INF, INF, 2, INF])).check == "wrong hits or misses: 1 of 4"


def test_check_any_count_all():
    check = box_check()
    assert check.any(task(), np.array([1, 0, 0, 1, 0])) == Verdict(None, 0.0, "ok")
    assert check.any(task(), np.array([1, 1, 0, 1, 0])) == Verdict(None, 0.25, "wrong hits or misses: 1 of 4")
    assert check.count(task(), np.array([2, 0, 0, 1, 9])) == Verdict(None, 0.0, "ok")
    assert check.count(task(), np.array([3, 0, 0, 0, 9])) == Verdict(None, 0.5, "wrong counts: 2 of 4")
    right = np.array([[2, 5], [0, 0], [0, 0], [1, 2], [9, 9]])
    assert check.all(task(), right).check == "ok"
    assert check.all(task(), right - [1, 0]).check == "wrong counts: 4 of 4"
    assert check.all(task(), right * [1, 1.1]).check.startswith("wrong t")


def test_check_adjoint():
    check = box_check(4)
    # t = (1 - z) / dz.
    right = np.array([[0, 0, 0.5], [0, 0, 0], [0, 0, 0], [0, 0, -2]])
    assert check.adjoint(task(), right) == Verdict(0.0, None, "ok")
    assert check.adjoint(task(), right * 1.01) == Verdict(pytest.approx(0.01), None, "wrong adjoints (> 0.0001)")
    assert check.adjoint(task(), right + np.array([[0], [1], [0], [0]])).check.startswith("wrong adjoints")
    assert check.adjoint(task(), np.array([2, INF, INF, 2])).check == "ok"


# ---- the job


class Wrong(Peer):
    """A peer that always misses, or fails."""

    key, name, modules, packages = "wrong", "Wrong", ("numpy",), "numpy"

    def closest_hit(self, rays):
        n = len(rays.origins)
        return self.task(n, lambda: np.full(n, np.inf), lambda r, n: r[:n])

    def any_hit(self, rays):
        return self.task(len(rays.origins), lambda: 1 / 0, lambda r, n: r[:n])


def test_wrong_peer(capsys, box, monkeypatch):
    monkeypatch.setitem(PEERS, "wrong", Wrong)
    status, rows = bench(capsys, box, "--peers", "wrong")
    assert status == 0
    wrong = {row["job"]: row for row in rows if row["who"] == "Wrong"}
    assert set(wrong) == {f"{what} hit {rays}" for what in ("closest", "any") for rays in ("pinhole", "chords")}
    assert wrong["closest hit pinhole"]["check"].startswith("wrong hits or misses")
    assert 0 < wrong["closest hit chords"]["wrong_signs"] < 1
    assert wrong["any hit chords"]["check"] == "failed: ZeroDivisionError: division by zero"
    assert all(row["check"] == "ok" for row in rows if row["who"] != "Wrong")


def test_wrong_geomkit(capsys, box, monkeypatch):
    monkeypatch.setattr(gk, "occluded", lambda mesh, origins, directions: np.ones(len(origins), bool))
    status, rows = bench(capsys, box, "--peers", "none")
    assert status == 1
    for row in rows:
        assert row["check"].startswith("wrong hits or misses") if row["job"].startswith("any") else row["check"] == "ok"


def test_adjoint_over_forward(capsys, box):
    status, rows = bench(capsys, box, "--peers", "none")
    assert status == 0
    rows = [row for row in rows if row["job"] == "adjoint chords"]
    for threads in {row["threads"] for row in rows}:
        forward, adjoint = (row for row in rows if row["threads"] == threads)
        assert forward["who"].startswith("geomkit, forward") and adjoint["who"].startswith("geomkit, adjoint")
        assert forward["ratio"] == 1
        assert adjoint["ratio"] == pytest.approx(adjoint["seconds"] / forward["seconds"])
        assert adjoint["error"] < 1e-6


def test_subdivide(capsys, box):
    status, rows = bench(capsys, box, "--peers", "none", "--subdivide", "2")
    assert status == 0
    assert {(row["mesh"], row["triangles"]) for row in rows} == {("box.ply x 16", 12 * 16)}
