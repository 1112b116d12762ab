import json
import os
import subprocess
import sys

import numpy as np
import pytest

import geomkit as gk
from geomkit.bench import reference
from geomkit.bench.__main__ import JOBS as RUN, main
from geomkit.bench.contest import Arena, Verdict
from geomkit.bench.distance import Check
from geomkit.bench.peer import Peer
from geomkit.bench.peers import PEERS, present
from geomkit.bench.race import Task, race
from geomkit.bench.row import Row, table
from geomkit.bench.sample import near_points, uniform_points
from geomkit.mesh.io import save_mesh

FIELDS = {
    "job", "mesh", "triangles", "points", "who", "threads", "rounds", "seconds", "cpu_seconds", "setup_seconds", "rate",
    "ratio", "cpu_ratio", "ratio_with_setup", "error", "wrong_signs", "check",
}  # fmt: skip
RAYS = "closest hit", "any hit", "count", "all hits", "adjoint"
JOBS = {
    "distance": ["unsigned uniform", "signed uniform", "unsigned near", "signed near"],
    "winding": ["winding"],
    "build": [
        "build sah", "build morton", "build frames", "build moments", "build topology", "build pseudonormals",
        "build choice of sign", "build all, and one signed distance",
    ],
    "rays": [f"{what} {rays}" for rays in ("pinhole", "chords") for what in RAYS],
}  # fmt: skip


@pytest.fixture
def torus(tmp_path):
    path = tmp_path / "torus.ply"
    save_mesh(gk.shapes.torus(major_sections=12, minor_sections=8), path)
    return path


def bench(capsys, *arguments):
    """Exit status, rows and what went to standard error of a small benchmark."""
    status = main([*map(str, arguments), "--points", "300", "--rays", "300", "--checked", "40", "--repeat", "1"])
    out, err = capsys.readouterr()
    return status, [json.loads(line) for line in out.splitlines()], err


@pytest.mark.parametrize("job", JOBS)
def test_rows(capsys, tmp_path, torus, job):
    status, rows, err = bench(capsys, job, torus, "--peers", "none", "--json", tmp_path / "rows.jsonl")
    assert status == 0
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == rows
    assert list(dict.fromkeys(row["job"] for row in rows)) == JOBS[job]
    for row in rows:
        assert set(row) == FIELDS
        assert row["mesh"] == "torus.ply" and row["triangles"] == 192 and row["rounds"] == 1
        assert row["who"].startswith("geomkit") and row["check"] == "ok"
        # The picture has 17 by 17 pixels.
        assert row["points"] == (None if job == "build" else 17**2 if "pinhole" in row["job"] else 300)
        assert row["seconds"] > 0 and row["cpu_seconds"] >= 0 and row["rate"] > 0
        assert row["setup_seconds"] == 0
    firsts = [next(row for row in rows if row["job"] == name) for name in JOBS[job]]
    assert {row["who"] for row in firsts} <= {"geomkit", "geomkit, forward"}
    assert all(row["ratio"] == 1 for row in firsts)
    assert all(row["job"] in err for row in firsts)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("key", PEERS)
def test_peer(capsys, torus, job, key):
    if not present(PEERS[key]):
        pytest.skip(f"{key} is not installed")
    status, rows, _ = bench(capsys, job, torus, "--peers", key)
    # These two scale signed distances by an approximate winding number.
    inexact = job == "distance" and key in ("libigl", "point-cloud-utils")
    assert status in (0, 3) if inexact else status == 0, rows
    own, other = ([row for row in rows if row["who"].startswith("geomkit") == mine] for mine in (True, False))
    assert own
    for row in other:
        assert row["who"] == PEERS[key].name
        assert row["check"] == "ok" or (inexact and row["job"].startswith("signed") and row["error"] < 1e-2)
        assert row["ratio"] is None or row["ratio"] >= 0
        base = next(r for r in own if r["job"] == row["job"] and r["threads"] == row["threads"])
        # (Without the peer's setup, which noise may make longer than the whole, the ratio is that of the times.)
        if row["setup_seconds"] == 0 and row["points"] == base["points"]:
            assert row["ratio"] == pytest.approx(row["seconds"] / base["seconds"])
    known = {row["job"] for row in other}
    names = {
        "distance": "unsigned uniform", "signed_distance": "signed near", "winding_number": "winding",
        "build": "build sah", "closest_hit": "closest hit pinhole", "any_hit": "any hit chords",
        "count_hits": "count chords", "all_hits": "all hits pinhole",
    }  # fmt: skip
    assert {name for job in RUN.values() for name in job.asks} == set(names)
    for method, name in names.items():
        offered = getattr(PEERS[key], method) is not getattr(Peer, method)
        assert (name in known) == (offered and method in RUN[job].asks)
    assert not any(name.startswith("adjoint") for name in known)


def test_missing_peer(capsys, torus, monkeypatch):
    monkeypatch.setattr(PEERS["open3d"], "modules", ("no_such_module",))
    status, rows, err = bench(capsys, "winding", torus, "--peers", "open3d")
    assert status == 0 and {row["who"].partition(",")[0] for row in rows} == {"geomkit"}
    assert "Open3D: skipped, not installed: pip install open3d\n" in err


class Wrong(Peer):
    """A peer that is wrong by a tenth, or fails."""

    key, name, modules, packages = "wrong", "Wrong", ("numpy",), "numpy"

    def distance(self, points):
        return self.task(len(points), lambda: np.zeros(len(points)), lambda r, n: r[:n])

    def signed_distance(self, points):
        return self.task(len(points), lambda: 1 / 0, lambda r, n: r[:n])


def test_wrong_peer(capsys, torus, monkeypatch):
    monkeypatch.setitem(PEERS, "wrong", Wrong)
    status, rows, _ = bench(capsys, "distance", torus, "--peers", "wrong")
    assert status == 0
    unsigned, signed = ([r for r in rows if r["who"] == "Wrong" and r["job"] == job] for job in JOBS["distance"][:2])
    assert unsigned[0]["check"].startswith("wrong distances") and unsigned[0]["error"] > 0.01
    assert signed[0]["check"] == "failed: ZeroDivisionError: division by zero" and signed[0]["seconds"] is None
    assert all(row["check"] == "ok" for row in rows if row["who"] != "Wrong")


def test_wrong_geomkit(capsys, torus, monkeypatch):
    monkeypatch.setattr(gk, "winding_number", lambda mesh, points: np.zeros(len(points)))
    status, rows, _ = bench(capsys, "winding", torus, "--peers", "none")
    assert status == 1
    assert rows[0]["check"].startswith("wrong winding numbers") and rows[0]["wrong_signs"] > 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["race", "MESH"], "invalid choice: 'race'"),
        (["build"], "the following arguments are required: MESH"),
        (["build", "no_such.obj"], "no_such.obj"),
        (["build", "MESH", "--points", "0"], "expected at least 1, got 0"),
        (["rays", "MESH", "--subdivide", "-1"], "expected at least 0, got -1"),
        (["build", "MESH", "--threads", "100000"], "--threads: expected at most"),
        (["build", "MESH", "--peers", "embree"], "or none; got embree"),
    ],
)
def test_command_error(capsys, torus, arguments, text):
    with pytest.raises(SystemExit) as error:
        main([str(torus) if a == "MESH" else a for a in arguments])
    assert error.value.code == 2
    assert text in capsys.readouterr().err


def test_mesh_without_area(capsys, tmp_path):
    save_mesh(gk.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]]), tmp_path / "line.ply")
    with pytest.raises(SystemExit):
        main(["build", str(tmp_path / "line.ply")])
    assert "expected faces with some area" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no processor affinity")
def test_threads(torus):
    # In a process of its own, as it keeps to its processors for good.
    command = [sys.executable, "-m", "geomkit.bench", "winding", str(torus), "--peers", "none", "--threads", "1"]
    command += ["--points", "100", "--checked", "10", "--repeat", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["who"], row["threads"]) for row in rows] == [("geomkit", 1)]


def test_race_takes_turns():
    order = []

    def task(who, setup=None):
        return Task(who, lambda: order.append(who), lambda r, n: np.zeros(n), 1, 1, setup)

    timings = race([task("a"), task("b", lambda: order.append("setup"))], 2)
    assert order == ["a", "setup", "b"] * 2
    assert timings[0].setup == 0 and timings[1].setup > 0
    assert all(t.wall >= 0 and t.cpu >= 0 for t in timings)


def test_sample():
    mesh = gk.shapes.icosphere(3, radius=2)
    rng = np.random.default_rng(0)
    near = near_points(mesh, 2000, rng)
    distance = gk.closest_point(mesh, near).distance
    assert near.dtype == np.float32 and near.shape == (2000, 3)
    assert distance.max() <= 0.02 * mesh.diagonal * (1 + 1e-5)
    assert distance.max() > 0.015 * mesh.diagonal
    everywhere = uniform_points(mesh, 2000, rng)
    np.testing.assert_allclose(everywhere.max(0), 1.2 * mesh.bounds[1], rtol=0.01)
    np.testing.assert_allclose(everywhere.min(0), 1.2 * mesh.bounds[0], rtol=0.01)


def test_reference_closed_forms():
    mesh = gk.shapes.box((2, 2, 2))
    points = np.array([[0, 0, 0.25], [3, 0, 0], [2, 2, 0], [2, 2, 2], [1, 0.5, 0.5]])
    arrays = mesh.vertices_array, mesh.faces_array
    np.testing.assert_allclose(
        reference.closest_distance(*arrays, points), [0.75, 2, np.sqrt(2), np.sqrt(3), 0], atol=1e-15
    )
    np.testing.assert_allclose(reference.winding_number(*arrays, points[:4]), [1, 0, 0, 0], atol=1e-15)


def test_reference_degenerate():
    # A triangle that is a segment, and one that is a point.
    vertices = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [5, 0, 0.0]])
    faces = np.array([[0, 1, 2], [3, 3, 3]])
    points = np.array([[1.5, 1, 0], [5, 0, 2.0], [-1, 0, 0]])
    np.testing.assert_allclose(reference.closest_distance(vertices, faces, points), [1, 2, 1], atol=1e-15)


def test_check_signs():
    mesh = gk.shapes.box()
    points = np.array([[0, 0, 0.25], [0, 0, 1], [0.1, 0, 0.5]], np.float32)
    check = Check(mesh, points)
    peer = Task("geomkit", None, None, 3, 1)
    # The last point is on the surface, where either sign is right.
    assert check.signed(peer, np.array([-0.25, 0.5, -0.0])) == Verdict(0.0, 0.0, "ok")
    assert check.signed(peer, np.array([0.25, 0.5, 0.0])) == Verdict(0.0, 0.5, "wrong signs: 1 of 2")
    assert check.signed(peer, np.array([-0.25, np.nan, 0.0])).check.startswith("wrong distances")


def test_row_json_is_strict():
    row = Row("winding", "a.ply", 1, 1, "geomkit", 1, 1, error=float("nan"), ratio=float("inf"))
    values = json.loads(row.json())
    assert values["error"] is None and values["ratio"] is None and values["seconds"] is None


def test_table_of_nothing(capsys):
    table([])
    assert "job" in capsys.readouterr().err


def test_arena_compares_threads():
    def task(who, threads):
        return Task(who, lambda: sum(range(1000)), lambda r, n: np.zeros(n), 1, threads)

    arena = Arena("a", gk.shapes.box(), [], 1, 1, 1, np.random.default_rng(0))
    arena.contest("x", [task("geomkit", 2), task("geomkit, 1 thread", 1), None, task("P", 1)], None)
    own, alone, peer = arena.rows
    assert peer.ratio == pytest.approx(peer.seconds / alone.seconds)
    assert own.ratio == alone.ratio == 1
