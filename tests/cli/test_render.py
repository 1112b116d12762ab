"""`geomkit render`."""

from pathlib import Path

import imageio.v3
import numpy as np
import pytest

import geomkit as gk
from geomkit.cli import render
from geomkit.render.camera import Camera

DATA = Path(__file__).parents[2] / "data"
KNOT = str(DATA / "knot.ply")


@pytest.fixture
def flag(tmp_path) -> Path:
    """A square in the plane z = 0, seen from +z, and a small one before its upper left corner."""
    square = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    corners = np.concatenate([square, 0.25 * square + [-0.75, 0.75, 0.5]])
    quads = np.array([[0, 1, 2], [0, 2, 3]])
    gk.Mesh(corners, np.concatenate([quads, quads + 4])).save(tmp_path / "flag.ply")
    return tmp_path / "flag.ply"


FRONT = ["--eye", 0, 0, 4, "--target", 0, 0, 0, "--fov", 36, "--width", 60, "--height", 50]
DEPTH = ["--channel", "depth"]


def test_render_shows_the_mark_where_it_is(call, flag, tmp_path):
    code, out, err = call("render", flag, *FRONT, *DEPTH, "-o", tmp_path / "a.png")
    assert code == 0 and not err and "depth 3.5 (65535) to 4 (13107)" in out
    image = imageio.v3.imread(tmp_path / "a.png")
    assert image.shape == (50, 60) and image.dtype == np.uint16
    rows, columns = np.nonzero(image == 65535)
    assert rows.size and rows.max() < 20 and columns.max() < 25
    assert image[25, 30] == 13107 and image[0, 0] == image[25, 2] == image[-1, -1] == 0


def test_render_values(call, flag, tmp_path):
    camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=36, width=60, height=50)
    hits = gk.cast_rays(gk.load_mesh(flag), *camera.rays())
    for channel, values in (("depth", hits.t), ("normal", hits.normal), ("face", hits.face)):
        assert call("render", flag, *FRONT, "--channel", channel, "-o", tmp_path / "a.npy")[0] == 0
        wanted = values.reshape(50, 60, *values.shape[1:])
        found = np.load(tmp_path / "a.npy")
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    call("render", flag, *FRONT, *DEPTH, "-o", tmp_path / "a.npz", "--dtype", "float64")
    with np.load(tmp_path / "a.npz") as found:
        assert found["depth"].dtype == np.float64
        np.testing.assert_array_equal(found["K"], camera.K)
        np.testing.assert_array_equal(found["world_to_camera"], camera.world_to_camera)


def test_render_normals_and_faces(call, flag, tmp_path):
    for channel in ("normal", "face"):
        assert call("render", flag, *FRONT, "--channel", channel, "-o", tmp_path / f"{channel}.png")[0] == 0
    normal, face = (imageio.v3.imread(tmp_path / f"{channel}.png") for channel in ("normal", "face"))
    assert normal.shape == face.shape == (50, 60, 3) and normal.dtype == face.dtype == np.uint8
    colours = {tuple(c) for c in normal.reshape(-1, 3).tolist()}
    assert colours == {(0, 0, 0), (128, 128, 255)}
    assert len({tuple(c) for c in face.reshape(-1, 3).tolist()}) == 5
    np.testing.assert_array_equal(normal.any(axis=-1), face.any(axis=-1))
    assert np.unique(render.face_colours(np.arange(-1, 5000)), axis=0).shape[0] > 4990


def test_render_frames_the_mesh(call, tmp_path):
    options = ["--width", 90, "--height", 70, "--azimuth", -40, "--elevation", 10, "--up", 0, 0, 1, "--fov", 50]
    code, out, _ = call("render", KNOT, *options, *DEPTH, "-o", tmp_path / "a.npy")
    mesh = gk.load_mesh(KNOT)
    camera = Camera.framing(mesh, width=90, height=70, azimuth=-40, elevation=10, up=(0, 0, 1), fov=50)
    depth = gk.cast_rays(mesh, *camera.rays()).t.reshape(70, 90)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), depth)
    seen = np.isfinite(depth)
    assert code == 0 and f"{100 * seen.mean():.3g} % of the pixels see the mesh\n{camera}\ndepth " in out
    assert not seen[[0, -1]].any() and not seen[:, [0, -1]].any() and seen.mean() > 0.15


def test_render_tiles_do_not_show(call, tmp_path, monkeypatch):
    size = ["--width", 40, "--height", 30]
    for path, tile in (("whole", render.TILE), ("rows", 130), ("row", 1)):
        monkeypatch.setattr(render, "TILE", tile)
        assert call("render", KNOT, *size, "--channel", "normal", "-o", tmp_path / f"{path}.png")[0] == 0
    images = [imageio.v3.imread(tmp_path / f"{path}.png") for path in ("whole", "rows", "row")]
    assert images[0].any() and (images[0] == images[1]).all() and (images[0] == images[2]).all()


def test_render_of_nothing_is_black(call, flag, tmp_path):
    away = ["--eye", 0, 0, 4, "--target", 0, 0, 9, "--width", 8, "--height", 6]
    for channel in ("depth", "normal", "face"):
        code, out, _ = call("render", flag, *away, "--channel", channel, "-o", tmp_path / "a.png")
        assert code == 0 and "0 % of the pixels see the mesh" in out and out.count("\n") == 2
        assert not imageio.v3.imread(tmp_path / "a.png").any()
    (tmp_path / "empty.obj").write_text("")
    code, _, err = call("render", tmp_path / "empty.obj", "-o", tmp_path / "b.png")
    assert (code, err) == (2, "geomkit: Camera.framing: mesh: expected at least one face, got none\n")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([*DEPTH, "-o", "a.jpg"], "render: output: expected a file name ending in .png, .npy, .npz, got a.jpg"),
        (["-o", "none/a.png"], "no such folder: none"),
        (["--channel", "colour"], "render: channel: expected one of color, depth, normal, face, got 'colour'"),
        (["--width", "0"], "render: width: expected pixels in [1, 32768], got 0"),
        (["--height", "99999"], "render: height: expected pixels in [1, 32768], got 99999"),
        (["--fov", "180"], "Camera.framing: fov: expected degrees between 0 and 180, got 180.0"),
        (["--elevation", "100"], "Camera.framing: elevation: expected degrees in [-90, 90], got 100.0"),
        (["--up", *"000"], "Camera.framing: up: expected a direction, got [0.0, 0.0, 0.0]"),
        (["--target", *"123"], "render: target: expected --eye beside it, got none"),
        (["--eye", *"123", "--azimuth", "5"], "render: azimuth: expected it without --eye, got 5 beside it"),
        (["--eye", *"123", "--elevation", "-5"], "render: elevation: expected it without --eye, got -5 beside it"),
        (["--eye", *"111", "--target", *"111"], "Camera.look_at: target: expected another point than eye, got"),
        (["--eye", *"050", "--target", *"000"], "Camera.look_at: up: expected another direction than that of the vi"),
        (["--eye", *"12"], "Option '--eye' requires 3 arguments. (see --help)"),
        ([*DEPTH, "--dtype", "int8"], "load_mesh: dtype: expected float32 or float64, got int8"),
    ],
)
def test_render_refuses(call, tmp_path, monkeypatch, options, text):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("render", KNOT, *([] if "-o" in options else ["-o", "a.png"]), *options)
    assert code == 2 and not out and err.startswith(f"geomkit: {text}") and err.count("\n") == 1
    assert not list(tmp_path.iterdir())
