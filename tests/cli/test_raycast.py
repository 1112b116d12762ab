"""`geomkit raycast`."""

from pathlib import Path

import numpy as np
import pytest

import geomkit as gk
from geomkit.cli import raycast

DATA = Path(__file__).parents[2] / "data"
KNOT = str(DATA / "knot.ply")
RAYS = np.array([[0.0, 0, 5, 0, 0, -1], [9, 9, 9, 1, 0, 0], [0.3, -0.2, 4, 0, 0.1, -2]])


@pytest.mark.parametrize(
    ("rays", "options", "text"),
    [
        (
            "0,0,5,0,0,1",
            ["--what", "distance"],
            "raycast: what: expected some of t, face, barycentric, normal, position",
        ),
        ("0,0,5,0,0,1", ["--cull", "sides"], "cast_rays: cull: expected 'none', 'back' or 'front', got 'sides'"),
        ("0,0,5,0,0,1", ["--t-min", "nan"], "cast_rays: t_min: expected a number"),
        ("0,0,5,0,0,1", ["--dtype", "int8"], "load_mesh: dtype: expected float32 or float64, got int8"),
        ("0,0,5,0,0,1", ["-o", "a.ply"], "raycast: output: expected a file name ending in .npz, .csv, got a.ply"),
        ("0,0,5,0,0,1", ["-o", "none/a.csv"], "no such folder: none"),
        ("0,0,5,0,0,0", ["--what", "count"], "count_hits: directions: expected"),
        ("0,0,5,0,0,0", [], "cast_rays: directions: expected"),
        ("0,0,inf,0,0,1", [], "cast_rays: origins: expected"),
        ("0,0,5,0,0", [], "raycast: RAYS: expected six numbers a line, got '0,0,5,0,0' in line 1 of r.csv"),
        (None, [], "r.csv: No such file or directory"),
    ],
)
def test_raycast_refuses(call, tmp_path, monkeypatch, rays, options, text):
    monkeypatch.chdir(tmp_path)
    if rays is not None:
        (tmp_path / "r.csv").write_text(rays + "\n")
    code, out, err = call("raycast", KNOT, "r.csv", *([] if "-o" in options else ["-o", "a.csv"]), *options)
    assert code == 2 and not out and err.startswith(f"geomkit: {text}") and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ([] if rays is None else ["r.csv"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_raycast_npz(call, tmp_path, dtype):
    rays = np.concatenate([RAYS, np.random.default_rng(0).normal(size=(50, 6))])
    np.save(tmp_path / "r.npy", rays)
    every = ",".join(raycast.WHAT)
    options = ["--what", every, "--t-min", "0.5", "--t-max", "9", "--cull", "back", "--dtype", np.dtype(dtype).name]
    code, out, err = call("raycast", KNOT, tmp_path / "r.npy", "-o", tmp_path / "a.npz", *options)
    assert code == 0 and not err and "53 rays, t, face, barycentric, normal, position, count" in out
    mesh, limits = gk.load_mesh(KNOT, dtype=dtype), {"t_min": 0.5, "t_max": 9, "cull": "back"}
    hits = gk.cast_rays(mesh, rays[:, :3], rays[:, 3:], **limits)
    with np.load(tmp_path / "a.npz") as found:
        assert list(found) == list(raycast.WHAT) and 3 < (found["face"] >= 0).sum() < 53
        for name in raycast.FIELDS:
            np.testing.assert_array_equal(found[name], getattr(hits, name))
        np.testing.assert_array_equal(found["count"], gk.count_hits(mesh, rays[:, :3], rays[:, 3:], **limits))


def test_raycast_csv(call, tmp_path):
    (tmp_path / "box.off").write_text("OFF 3 1 0\n0 0 0\n2 0 0\n0 2 0\n3 0 1 2\n")
    (tmp_path / "r.csv").write_text("0.5,1,3,0,0,-2\n5,5,5,1,0,0\n")
    assert call("raycast", tmp_path / "box.off", tmp_path / "r.csv", "-o", tmp_path / "a.csv")[0] == 0
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        "t,face,barycentric_u,barycentric_v,normal_x,normal_y,normal_z,position_x,position_y,position_z",
        "1.5,0,0.25,0.5,0,0,1,0.5,1,0",
        "inf,-1,0,0,0,0,0,inf,inf,inf",
    ]
