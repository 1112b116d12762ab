"""Tables of numbers from files, and the lists of what to answer."""

import io
from pathlib import Path

import numpy as np
import pytest

from geomkit.cli.query import POINTS as POINTS_FILE
from geomkit.cli.raycast import RAYS as RAYS_FILE
from geomkit.cli.table import parse_what

DATA = Path(__file__).parents[2] / "data"
KNOT = str(DATA / "knot.ply")


# ---- points

POINTS = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [4.5, 0.25, -1.0]])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x,y,z\n1,0,0\n0,0,0\n4.5,0.25,-1\n"),
        ("b.csv", "1,0,0\n0,0,0\n4.5,0.25,-1\n"),
        ("c.csv", '"id","z","x","y"\n7,0,1,0\n8,0,0,0\n9,-1,4.5,0.25\n'),
        ("a.xyz", "# a cloud\n1 0 0 255 0 0\n0 0 0 255 0 0\n\n4.5 0.25 -1 0 0 0\n"),
        ("a.txt", "1\t0\t0\n0\t0\t0\n4.5\t0.25\t-1\n"),
        ("d.csv", "\ufeff1,0,0\r\n0,0,0\r\n4.5,0.25,-1\r\n"),
        ("e.csv", "\ufeffz,y,x\n0,0,1\n0,0,0\n-1,0.25,4.5\n"),
        ("f.csv", ",X, Y ,Z # metres\n0,1,0,0 # first\n1,0,0,0\n2,4.5,0.25,-1\n"),
        ("g.csv", "1,0,0,red\n0,0,0,blue\n4.5,0.25,-1,red\n"),
        ("b.xyz", "z x y\n0 1 0\n0 0 0\n-1 4.5 0.25\n"),
    ],
)
def test_points_of_text(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode())
    np.testing.assert_array_equal(POINTS_FILE.read(tmp_path / name), POINTS)


def test_points_of_arrays(tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    np.savez(tmp_path / "a.npz", cloud=POINTS)
    np.savez(tmp_path / "b.npz", points=POINTS, colours=POINTS[:1])
    np.savez(tmp_path / "c.npz", one=POINTS, other=POINTS)
    for name in ("a.npy", "a.npz", "b.npz"):
        np.testing.assert_array_equal(POINTS_FILE.read(tmp_path / name), POINTS)
    with pytest.raises(ValueError, match="query: POINTS: expected an array named points, got one, other in"):
        POINTS_FILE.read(tmp_path / "c.npz")


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", b"x,y\n1,2\n", "three numbers, or the names x, y and z once each, got 'x,y' in line 1 of"),
        (
            "a.csv",
            b"# a\n\nx,y,z,x\n1,2,3,4\n",
            "three numbers, or the names x, y and z once each, got 'x,y,z,x' in line 3",
        ),
        ("a.csv", b"1.0abc,2,3\n1,2,3\n", "three numbers a line, got '1.0abc,2,3' in line 1 of"),
        ("a.csv", b"x,2,3\n1,2,3\n", "three numbers a line, got 'x,2,3' in line 1 of"),
        ("a.csv", b"1,2,3\n# a\n1,2\n", "three numbers a line, got '1,2' in line 3 of"),
        ("a.csv", b"1;2;3\n", "three numbers, or the names"),
        ("a.csv", "größe\n1,2,3\n".encode("latin-1"), "a text file in UTF-8, got"),
        ("a.csv", "x,y,z\n1,2,3\n".encode("utf-16"), "a text file in UTF-8, got"),
        ("a.xyz", b"1 2 three\n", "three numbers a line, got '1 2 three' in line 1 of"),
        ("a.npy", b"not an array", "a valid .npy file, got"),
        ("a.npy", npy(POINTS)[:-8], "a valid .npy file, got"),
        ("a.npy", npz(points=POINTS), "a valid .npy file, got"),
        ("a.npy", npy(POINTS[0]), "(N, 3) numbers, got (3,) float64 in"),
        ("a.npy", npy(np.array([["a", "b", "c"]])), "(N, 3) numbers, got"),
        ("a.npz", b"", "a valid .npz file, got"),
        ("a.npz", npz(points=POINTS)[:-30], "a valid .npz file, got"),
        ("a.npz", npz(points=POINTS).replace(POINTS.tobytes(), POINTS[::-1].tobytes()), "a valid .npz file, got"),
        ("a.npz", npy(POINTS), "a valid .npz file, got"),
        ("a.npz", npz(), "an array named points, got none in"),
        ("a.las", b"", "a file name ending in .npy, .npz, .csv, .txt, .xyz, got"),
    ],
)
def test_points_that_are_none(call, tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(content)
    code, _, err = call("query", KNOT, path, "-o", tmp_path / "b.csv")
    assert code == 2 and err.count("\n") == 1 and str(path) in err
    assert err.startswith(f"geomkit: query: POINTS: expected {text}")


# ---- rays

RAYS = np.array([[0.0, 0, 5, 0, 0, -1], [9, 9, 9, 1, 0, 0], [0.3, -0.2, 4, 0, 0.1, -2]])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "ox,oy,oz,dx,dy,dz\n0,0,5,0,0,-1\n9,9,9,1,0,0\n.3,-.2,4,0,.1,-2\n"),
        ("b.csv", "0,0,5,0,0,-1,1\n9,9,9,1,0,0,2\n.3,-.2,4,0,.1,-2,3\n"),
        ("c.csv", "dx,DY,dz,id,ox,oy,oz\n0,0,-1,7,0,0,5\n1,0,0,7,9,9,9\n0,.1,-2,7,.3,-.2,4\n"),
        ("a.txt", "# rays\n0 0 5 0 0 -1\n9 9 9 1 0 0\n.3 -.2 4 0 .1 -2\n"),
    ],
)
def test_rays_of_text(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    np.testing.assert_array_equal(RAYS_FILE.read(tmp_path / name), RAYS)


def test_rays_of_arrays(tmp_path):
    np.save(tmp_path / "a.npy", RAYS)
    np.savez(tmp_path / "a.npz", directions=RAYS[:, 3:], origins=RAYS[:, :3], other=1)
    np.savez(tmp_path / "b.npz", both=RAYS)
    for name in ("a.npy", "a.npz", "b.npz"):
        np.testing.assert_array_equal(RAYS_FILE.read(tmp_path / name), RAYS)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "a.csv",
            b"ox,oy,oz\n1,2,3\n",
            "six numbers, or the names ox, oy, oz, dx, dy and dz once each, got 'ox,oy,oz'",
        ),
        ("a.csv", b"1,2,3,4,5,6\n1,2,3,4,5\n", "six numbers a line, got '1,2,3,4,5' in line 2 of"),
        ("a.npy", npy(RAYS[:, :3]), "(N, 6) numbers, got (3, 3) float64 in"),
        ("a.npz", npz(origins=RAYS, directions=RAYS), "(N, 3) numbers, got (3, 6) float64 in origins of"),
        ("a.npz", npz(origins=RAYS[:, :3], directions=RAYS[:2, :3]), "as many origins as directions, got 3 and 2 in"),
        ("a.npz", npz(origins=RAYS[:, :3], other=RAYS), "arrays named origins and directions, got origins, other in"),
        ("a.npz", npz(origins=RAYS[:, :3]), "(N, 6) numbers, got (3, 3) float64 in origins of"),
        ("a.txt", npy(RAYS), "a text file in UTF-8, got"),
    ],
)
def test_rays_that_are_none(call, tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(content)
    code, _, err = call("raycast", KNOT, path, "-o", tmp_path / "b.csv")
    assert code == 2 and err.count("\n") == 1 and str(path) in err
    assert err.startswith(f"geomkit: raycast: RAYS: expected {text}")


# ---- lists


def test_what():
    names = ("distance", "winding")
    assert parse_what("query", " winding, distance ,winding", names) == ["winding", "distance"]
    with pytest.raises(ValueError, match="query: what"):
        parse_what("query", ",", names)
