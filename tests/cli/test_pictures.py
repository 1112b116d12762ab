"""`geomkit render` of shaded pictures and turntables."""

import sys
import types
from pathlib import Path

import imageio.v3
import numpy as np
import pytest

import geomkit as gk
from geomkit.cli import film, studio
from geomkit.cli.studio import Look, Studio, colour, developed, dressed, fitted, undeveloped, whole_mesh

KNOT = str(Path(__file__).parents[2] / "data" / "knot.ply")
SMALL = ["--width", 48, "--height", 36, "--samples", 2, "--up", 0, 0, 1]
PAPER = 0xF2


def test_a_picture_has_its_object_in_the_middle_of_its_background(call, tmp_path):
    code, out, err = call("render", KNOT, *SMALL, "-o", tmp_path / "a.png")
    assert code == 0 and not err and "4 samples a pixel, light: studio\nCamera(48 x 36" in out
    image = imageio.v3.imread(tmp_path / "a.png").astype(int)
    assert image.shape == (36, 48, 3)
    blue = image[..., 2] - image[..., 0] > 30
    rows, columns = np.nonzero(blue)
    # FILL of the width, but for what half a pixel rounds.
    assert abs(columns.max() + 1 - columns.min() - studio.FILL * 48) <= 3 and 2 < rows.min() and rows.max() < 33
    assert np.abs(image[:3].mean(axis=(1, 2)) - PAPER).max() < 2  # the ground meets the background without an edge
    assert image[~blue].min() < PAPER - 40  # a shadow


@pytest.mark.parametrize("light", ["studio", "sun", "sky"])
def test_the_ground_is_as_bright_as_the_background(light):
    """Far from a small object, where nothing is in the way of any light."""
    look = Look(light, np.array([0.8, 0.5, 0.2]), True, None, 6, (0.0, 1.0, 0.0))
    ball = gk.shapes.icosphere(2)
    scene = dressed(gk.Scene(ball), look)
    camera = gk.Camera.look_at((0, 12, 6), (6, -1, 4), fov=30, width=16, height=16)
    seen = Studio(scene, whole_mesh(scene), gk.Camera.framing(ball, width=9, height=9), look)
    image = developed(seen.radiance(camera, lambda done, total: None))
    np.testing.assert_allclose(image.mean(axis=(0, 1)), look.background, rtol=0.015)


def test_values_are_linear_and_not_developed(call, tmp_path):
    for extension in ("exr", "npy", "hdr"):
        assert call("render", KNOT, *SMALL, "--background", "white", "-o", tmp_path / f"a.{extension}")[0] == 0
    images = [gk.load_image(tmp_path / f"a.{extension}") for extension in ("exr", "npy", "hdr")]
    np.testing.assert_array_equal(images[0], images[1])
    np.testing.assert_allclose(images[0], images[2], atol=0.01)
    np.testing.assert_allclose(images[0][0, 0], studio.WHITE, rtol=0.1)
    call("render", KNOT, *SMALL, "-o", tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as found:
        assert found["color"].shape == (36, 48, 3) and found["K"].shape == (3, 3)


def test_transparent(call, tmp_path):
    assert call("render", KNOT, *SMALL, "--background", "none", "-o", tmp_path / "a.png")[0] == 0
    image = imageio.v3.imread(tmp_path / "a.png")
    assert image.shape == (36, 48, 4) and not image[0].any() and image[..., 3].max() == 255
    assert 0.1 < (image[..., 3] > 0).mean() < 0.6


def test_albedo_and_strips(call, tmp_path, monkeypatch):
    options = [*SMALL, "--albedo", "#cc2200", "--no-ground"]
    for name, strip in (("whole", studio.STRIP), ("rows", 48 * 4 * 5)):
        monkeypatch.setattr(studio, "STRIP", strip)
        assert call("render", KNOT, *options, "-o", tmp_path / f"{name}.png")[0] == 0
    whole, rows = (imageio.v3.imread(tmp_path / f"{name}.png").astype(int) for name in ("whole", "rows"))
    red = whole[..., 0] - whole[..., 2] > 60
    assert red.mean() > 0.1 and not (whole[..., 2] - whole[..., 0] > 10).any()
    # Strips have other random numbers, and the same picture otherwise.
    assert np.abs(whole - rows).mean() < 6 and (red == (rows[..., 0] - rows[..., 2] > 60)).mean() > 0.97


def test_a_scene_keeps_its_materials_and_its_lights(call, tmp_path):
    wall = gk.Mesh([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    texture = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 1, 0]]], np.float32)
    thing = gk.Object(wall, gk.Material(texture), uv=[[0, 0], [1, 0], [1, 1], [0, 1]])
    front = ["--eye", 0, 0, 3, "--width", 40, "--height", 40, "--samples", 2, "-o", tmp_path / "a.png"]
    gk.Scene(thing, {"lamp": gk.PointLight((0, 0, 1), (0.0, 9.0, 0.0))}).save(tmp_path / "lit.glb")
    gk.Scene(thing).save(tmp_path / "dark.glb")
    code, out, _ = call("render", tmp_path / "lit.glb", *front)
    image = imageio.v3.imread(tmp_path / "a.png").astype(int)
    assert code == 0 and "light: scene" in out and image[15, 25, 1] > 100 and image[15:25, 15:25, [0, 2]].max() < 5
    for options in ([str(tmp_path / "lit.glb"), "--light", "studio"], [str(tmp_path / "dark.glb")]):
        code, out, _ = call("render", *options, *front)
        image = imageio.v3.imread(tmp_path / "a.png").astype(int)
        assert "light: studio" in out and image[15, 15].argmax() == 0 and image[15, 25].argmax() == 1
        assert image[25, 15].argmax() == 2
    code, _, err = call("render", tmp_path / "dark.glb", "--light", "scene", *front)
    assert (code, err) == (
        2,
        "geomkit: render: light: expected one of studio, sun, sky, as the file has none, got scene\n",
    )


def test_turntable_gif(call, tmp_path):
    small = ["--width", 24, "--height", 18, "--samples", 1, "--up", 0, 0, 1]
    code, out, _ = call("render", KNOT, *small, "--turntable", 3, "-o", tmp_path / "a.gif")
    frames = imageio.v3.imread(tmp_path / "a.gif")
    assert code == 0 and "3 frames" in out and frames.shape == (3, 18, 24, 3)
    assert (frames[0] != frames[1]).mean() > 0.1 and (frames[1] != frames[2]).mean() > 0.1


def test_mp4_needs_its_package(call, tmp_path, monkeypatch):
    monkeypatch.setattr(film.importlib.util, "find_spec", lambda name: None)
    code, out, err = call("render", KNOT, "--turntable", 3, "-o", tmp_path / "a.mp4")
    line = 'geomkit: render: .mp4: needs the package imageio-ffmpeg: pip install "geomkit-diff[video]"\n'
    assert (code, out, err) == (2, "", line) and not list(tmp_path.iterdir())
    monkeypatch.setattr(film.importlib.util, "find_spec", lambda name: types.SimpleNamespace())
    code, _, err = call("render", KNOT, "--turntable", 3, "--width", 31, "-o", tmp_path / "a.mp4")
    assert code == 2 and "render: width, height: expected even numbers for .mp4, got 31, 480" in err


# imageio-ffmpeg leaves it to the garbage collector to close its pipes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_turntable_mp4(call, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    small = ["--width", 32, "--height", 24, "--samples", 1, "--up", 0, 0, 1]
    assert call("render", KNOT, *small, "--turntable", 3, "-o", tmp_path / "a.mp4")[0] == 0
    assert imageio.v3.imread(tmp_path / "a.mp4", plugin="FFMPEG").shape[1:] == (24, 32, 3)


def test_ctrl_c_leaves_what_was_there(call, tmp_path, monkeypatch):
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "a.png").write_text("old")
    monkeypatch.setattr(sys.modules["geomkit"], "render", stop)
    code, _, err = call("render", KNOT, *SMALL, "-o", tmp_path / "a.png")
    assert (code, err) == (130, "geomkit: stopped\n") and [p.name for p in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_text() == "old"


def test_lambert():
    """A square of side 2 at height 1 over its middle: pi times 0.5541, by the closed form of two parallel squares."""
    square = np.array([[-1, -1, 1], [-1, 1, 1], [1, 1, 1], [1, -1, 1]])
    half = 1 / np.sqrt(2) * np.arctan(1 / np.sqrt(2))
    down, up = (studio.lambert(np.zeros((1, 3)), np.array([0, 0, 1.0]), corners) for corners in (square, square[::-1]))
    assert down[0] == pytest.approx(4 * half) and up[0] == 0


def test_tones():
    x = np.linspace(0, studio.WHITE, 200)[:, None] * [1.0, 0.5, 0.25]
    y = developed(x)
    assert (np.diff(y[:, 0]) > 0).all() and y.max() == pytest.approx(1)
    np.testing.assert_array_equal(y[x[:, 0] < studio.SHOULDER], x[x[:, 0] < studio.SHOULDER])
    np.testing.assert_allclose(undeveloped(y), x, atol=1e-6)
    np.testing.assert_allclose(y[:, 1], 0.5 * y[:, 0])
    np.testing.assert_allclose(developed(np.array([0.1, 0.2, 0.3, 0.5])), [0.2, 0.4, 0.6, 0.5])


def test_fitted_cameras_touch_the_margin():
    points = np.random.default_rng(0).normal(size=(500, 3)) * [3, 1, 1] + [5, 0, 0]
    mesh = gk.Mesh(points, np.arange(498).reshape(-1, 3))
    for size in ({"width": 60, "height": 40}, {"width": 40, "height": 60}):
        camera = fitted([gk.Camera.framing(mesh, **size)], points)[0]
        pixel, half = camera.project(points).pixel, 0.5 * np.array([*size.values()])
        span = np.abs(pixel - half).max(axis=0) / half
        assert span.max() == pytest.approx(studio.FILL, abs=1e-6)
        np.testing.assert_allclose(pixel.min(axis=0) + pixel.max(axis=0), 2 * half, atol=8)


def test_colours():
    np.testing.assert_allclose(colour("albedo", "#bcff00"), [0.5029, 1, 0], atol=1e-4)
    np.testing.assert_allclose(colour("albedo", "0.5, 1, 0"), [0.2140, 1, 0], atol=1e-4)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--albedo", "clay"], "render: albedo: expected a colour: a name, #rrggbb, or r,g,b from 0 to 1, got 'clay'"),
        (["--albedo", "1,2,3"], "render: albedo: expected a colour"),
        (["--light", "moon"], "render: light: expected one of studio, sun, sky, scene, got 'moon'"),
        (["--samples", "0"], "render: samples: expected a number in [1, 64], got 0"),
        (["--turntable", "1", "-o", "a.gif"], "render: turntable: expected at least 2 frames, got 1"),
        (["--turntable", "9"], "render: output: expected a file name ending in .gif, .mp4, got a.png"),
        (["-o", "a.gif"], "render: turntable: expected a number of frames for .gif, got none"),
        (["--turntable", "9", "--channel", "face"], "render: turntable: expected it with the channel color, got face"),
        (
            ["--turntable", "9", "-o", "a.gif", "--eye", *"123"],
            "render: turntable: expected it without --eye, got both",
        ),
        (
            ["--background", "none", "-o", "a.jpg"],
            "render: background: expected a colour, as .jpg has no alpha, got none",
        ),
        (["-o", "a.bmp"], "render: output: expected a file name ending in .png, .jpg, .jpeg, .exr, .hdr, .npy, .npz, "),
    ],
)
def test_refuses(call, tmp_path, monkeypatch, options, text):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("render", KNOT, *([] if "-o" in options else ["-o", "a.png"]), *options)
    assert code == 2 and not out and err.startswith(f"geomkit: {text}") and err.count("\n") == 1
    assert not list(tmp_path.iterdir())
