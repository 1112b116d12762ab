"""Data sets: NeRF's and COLMAP's folders, made here of renderings."""

import json
import math

import numpy as np
import pytest

import geomkit as gk
from geomkit.inverse.dataset import Dataset

BALL = gk.shapes.icosphere(2)


def scene():
    mesh = gk.shapes.box((1.0, 0.7, 0.4))
    colors = np.random.default_rng(0).uniform(0.2, 0.9, size=(mesh.n_vertices, 3))
    return gk.Scene(gk.Object(mesh, gk.Material(colors)), gk.ConstantLight(visible=False))


def views(n=4, size=32, up=(0, 1, 0)):
    return [
        gk.Camera.framing(BALL, width=size, height=size, azimuth=360 * k / n, elevation=20, up=up) for k in range(n)
    ]


def picture(camera):
    image = gk.render(scene(), camera, channels=("color", "mask"), samples=2)
    share = np.maximum(image.mask, 1e-6)
    return np.concatenate([image.color / share, image.mask], axis=2)


def write_nerf(folder, cameras, name="transforms.json", **more):
    frames = []
    for k, camera in enumerate(cameras):
        gk.save_image(folder / f"r_{k}.png", picture(camera), bits=16)
        to_world = np.linalg.inv(camera.world_to_camera) @ np.diag([1.0, -1, -1, 1])
        frames.append({"file_path": f"./r_{k}", "transform_matrix": to_world.tolist()})
    angle = 2 * math.atan(0.5 * cameras[0].width / cameras[0].K[0, 0])
    (folder / name).write_text(json.dumps({"camera_angle_x": angle, "frames": frames, **more}))


def write_colmap(folder, cameras, models=("PINHOLE",)):
    (folder / "images").mkdir()
    (folder / "sparse" / "0").mkdir(parents=True)
    optics, poses = ["# Camera list"], ["# Image list"]
    for k, camera in enumerate(cameras):
        gk.save_image(folder / "images" / f"view {k}.png", picture(camera)[:, :, :3])
        found = camera.to_colmap(models[k % len(models)])
        numbers = " ".join(map(repr, map(float, found.params)))
        optics.append(f"{k + 1} {found.model} {camera.width} {camera.height} {numbers}")
        pose = " ".join(repr(float(x)) for x in (*found.quaternion, *found.translation))
        poses += [f"{k + 1} {pose} {k + 1} view {k}.png", "" if k % 2 else "1.0 2.0 -1"]
    model = folder / "sparse" / "0"
    (model / "cameras.txt").write_text("\n".join(optics))
    (model / "images.txt").write_text("\n".join(poses))
    (model / "points3D.txt").write_text("# points\n1 0.5 0.25 -1 255 0 0 0.1 1 2\n2 0 0 0 0 255 0 0.1\n")


def same(found, cameras):
    for one, other in zip(found, cameras, strict=True):
        np.testing.assert_allclose(one.world_to_camera, other.world_to_camera, atol=1e-9)
        np.testing.assert_allclose(one.K, other.K, atol=1e-9)
        assert (one.width, one.height) == (other.width, other.height)


def test_nerf(tmp_path):
    cameras = views(up=(0, 0, 1))
    write_nerf(tmp_path, cameras)
    data = gk.load_dataset(tmp_path)
    same(data.cameras, cameras)
    assert data.names[1] == "r_1.png" and data.images[0].shape == (32, 32, 4) and data.up == (0, 0, 1)
    np.testing.assert_allclose(data.images[0][:, :, 3:], picture(cameras[0])[:, :, 3:], atol=1e-4)
    same(gk.load_dataset(tmp_path / "transforms.json").cameras, cameras)


def test_nerf_splits_and_numbers_of_a_lens(tmp_path):
    cameras = views(2)
    lens = {"w": 64, "h": 64, "fl_x": 80.0, "fl_y": 82.0, "cx": 30.0, "cy": 33.0, "k1": 0.1, "p2": 0.01}
    write_nerf(tmp_path, cameras, "transforms_test.json", **lens)
    camera = gk.load_dataset(tmp_path, split="test").cameras[0]
    np.testing.assert_allclose(camera.K, [[40, 0, 15], [0, 41, 16.5], [0, 0, 1]])
    assert camera.distortion.tolist() == [0.1, 0, 0, 0.01]


def test_colmap(tmp_path):
    cameras = views(5)
    write_colmap(tmp_path, cameras, ("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV"))
    data = gk.load_dataset(tmp_path)
    same(data.cameras, cameras)
    assert len(data) == 5 and data.names[0] == "view 0.png" and data.images[0].shape == (32, 32, 3)
    assert data.points.tolist() == [[0.5, 0.25, -1], [0, 0, 0]] and data.colors[0].tolist() == [1, 0, 0]
    assert data.up[1] > 0.9


def test_scale(tmp_path):
    cameras = views(2, size=33)
    write_nerf(tmp_path, cameras)
    whole, half = gk.load_dataset(tmp_path), gk.load_dataset(tmp_path, scale=2)
    assert half.images[0].shape == (16, 16, 4) and half.cameras[0].width == 16
    np.testing.assert_allclose(half.images[0][3, 4], whole.images[0][6:8, 8:10].mean(axis=(0, 1)), rtol=1e-5)
    point = [[0.1, 0.2, 0.3]]
    halved, full = (d.cameras[1].project(point).pixel for d in (half, whole))
    np.testing.assert_allclose(2 * halved, full, rtol=1e-6)


def test_scale_counts_colours_by_their_alpha():
    image = np.zeros((2, 4, 4), np.float32)
    image[:, 0] = (0.8, 0.6, 0.4, 1.0)
    camera = gk.Camera(np.eye(4), [[4, 0, 2], [0, 4, 1], [0, 0, 1]], width=4, height=2)
    data = Dataset([image], [camera], ["a"])
    half = data.shrunk(2).images[0]
    np.testing.assert_allclose(half, [[(0.8, 0.6, 0.4, 0.5), (0, 0, 0, 0)]], rtol=1e-6)
    # What `fit` compares is the mean of what the pixels show.
    shown = (image[:2, :2, :3] * image[:2, :2, 3:]).mean(axis=(0, 1))
    np.testing.assert_allclose(half[0, 0, :3] * half[0, 0, 3], shown, rtol=1e-6)
    for scale in (0, 3, 1.5):
        with pytest.raises(ValueError, match="Dataset.shrunk: scale: expected an integer from 1 to 2, got"):
            data.shrunk(scale)


@pytest.mark.parametrize(
    "lens, got",
    [({"camera_model": "OPENCV_FISHEYE"}, "OPENCV_FISHEYE"), ({"is_fisheye": True}, "is_fisheye"), ({"k4": 0.1}, "k4")],
)
def test_error_of_another_lens(tmp_path, lens, got):
    write_nerf(tmp_path, views(1), k1=0.1, **lens)
    with pytest.raises(ValueError, match=f"load_dataset: camera_model: expected one of PINHOLE, .* got {got}"):
        gk.load_dataset(tmp_path)


def test_a_lens_of_five_numbers(tmp_path):
    write_nerf(tmp_path, views(1), camera_model="OPENCV", k1=0.1, k3=0.01)
    assert gk.load_dataset(tmp_path).cameras[0].distortion.tolist() == [0.1, 0, 0, 0, 0.01]


def test_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        gk.load_dataset(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="load_dataset: path: expected a folder with transforms.json"):
        gk.load_dataset(tmp_path)
    write_nerf(tmp_path, views(1))
    with pytest.raises(ValueError, match="load_dataset: scale: expected an integer of at least 1, got 0"):
        gk.load_dataset(tmp_path, scale=0)
    (tmp_path / "r_0.png").unlink()
    with pytest.raises(FileNotFoundError, match="no such file: .*r_0"):
        gk.load_dataset(tmp_path)
    (tmp_path / "transforms.json").write_text("{}")
    with pytest.raises(ValueError, match="a transforms.json of NeRF, got .*KeyError: 'frames'"):
        gk.load_dataset(tmp_path)


def test_error_of_colmap(tmp_path):
    write_colmap(tmp_path, views(2))
    model = tmp_path / "sparse" / "0"
    text = (model / "cameras.txt").read_text()
    (model / "cameras.txt").write_text(text.replace(" 32 32 ", " 30 32 "))
    with pytest.raises(ValueError, match="expected 30 x 32 pixels as its camera has, got 32 x 32"):
        gk.load_dataset(tmp_path)
    (model / "cameras.txt").write_text("1 PINHOLE x\n")
    with pytest.raises(ValueError, match="a text model of COLMAP"):
        gk.load_dataset(tmp_path)
