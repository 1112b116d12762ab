"""`geomkit query`."""

from pathlib import Path

import numpy as np

import geomkit as gk

DATA = Path(__file__).parents[2] / "data"
KNOT = str(DATA / "knot.ply")
POINTS = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [4.5, 0.25, -1.0]])


def test_no_points(call, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z\n")
    assert call("query", KNOT, tmp_path / "a.csv", "-o", tmp_path / "b.csv")[0] == 0
    assert (tmp_path / "b.csv").read_text() == "distance,point_x,point_y,point_z,face,winding_number\n"


def test_query_npz(call, tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    code, out, _ = call("query", KNOT, tmp_path / "a.npy", "-o", tmp_path / "b.npz")
    assert code == 0 and "3 points, distance, point, face, winding_number" in out
    mesh = gk.load_mesh(KNOT)
    with np.load(tmp_path / "b.npz") as found:
        np.testing.assert_array_equal(found["distance"], gk.signed_distance(mesh, POINTS))
        np.testing.assert_array_equal(found["point"], gk.closest_point(mesh, POINTS).point)
        np.testing.assert_array_equal(found["face"], gk.closest_point(mesh, POINTS).face)
        np.testing.assert_array_equal(found["winding_number"], gk.winding_number(mesh, POINTS))


def test_query_csv_keeps_all_digits(call, tmp_path):
    (tmp_path / "a.csv").write_text("1,0,0\n0,0,0\n")
    call("query", KNOT, tmp_path / "a.csv", "-o", tmp_path / "b.csv", "--what", "face,distance", "--sign", "unsigned")
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert lines[0] == "face,distance" and len(lines) == 3
    distance = gk.signed_distance(gk.load_mesh(KNOT), POINTS[:2], sign="unsigned")
    assert [np.float32(line.split(",")[1]) for line in lines[1:]] == distance.tolist()
