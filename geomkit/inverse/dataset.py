"""Photographs with cameras, read from the folders that other programs write."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from geomkit.errors import message
from geomkit.render.camera import Camera
from geomkit.render.image_io import load_image

__all__ = ["Dataset", "load_dataset"]

IMAGES = ("images", "input", "")  # folders beside a COLMAP model that its images lie in
MODELS = ("", "sparse", "sparse/0", "text")
NERF = ("transforms.json", "transforms_{split}.json")
OPENCV = ("k1", "k2", "p1", "p2")
LENSES = ("PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "PERSPECTIVE")


@dataclass(frozen=True)
class Dataset:
    """Images and what took them.

    Attributes:
        images: (H, W, C) float32 linear, as `load_image` gives them, with alpha where the files have it.
        cameras: a Camera for each.
        names: of the files.
        points: (N, 3) float64 of the scene, or None.
        colors: (N, 3) float64 linear of the points, or None.
        up: (3,) the direction that is upwards, as far as the format says.
    """

    images: list[np.ndarray] = field(repr=False)
    cameras: list[Camera] = field(repr=False)
    names: list[str]
    points: np.ndarray | None = field(default=None, repr=False)
    colors: np.ndarray | None = field(default=None, repr=False)
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)

    def __len__(self) -> int:
        return len(self.images)

    def shrunk(self, scale: int) -> Dataset:
        """The data set with pixels that are means of scale x scale; what is left over at the right and below is cut.

        Colours count by their alpha: what is transparent has none to give.

        Raises:
            ValueError: scale is no integer from 1 to the length of the shortest side.
        """
        shortest = min((min(camera.width, camera.height) for camera in self.cameras), default=1)
        if not (isinstance(scale, int) and 1 <= scale <= shortest):
            raise ValueError(message("Dataset.shrunk", "scale", f"an integer from 1 to {shortest}", repr(scale)))
        if scale == 1:
            return self
        images, cameras = [], []
        for image, camera in zip(self.images, self.cameras, strict=True):
            h, w = camera.height // scale, camera.width // scale
            whole = image[: h * scale, : w * scale].reshape(h, scale, w, scale, -1).astype(np.float64)
            mean = whole.mean(axis=(1, 3))
            if image.shape[2] == 4:
                share = mean[:, :, 3:]
                seen = (whole[..., :3] * whole[..., 3:]).mean(axis=(1, 3))
                mean[:, :, :3] = np.where(share > 0, seen / np.where(share > 0, share, 1), mean[:, :, :3])
            images.append(mean.astype(np.float32))
            K = np.diag([1 / scale, 1 / scale, 1.0]) @ np.asarray(camera.K)
            cameras.append(replace(camera, K=K, width=w, height=h))
        return replace(self, images=images, cameras=cameras)


def load_dataset(path: str | os.PathLike, *, split: str = "train", scale: int = 1) -> Dataset:
    """Read a folder of images with cameras.

    Two formats are known. NeRF's: `transforms.json` or `transforms_train.json` and so on, with camera_angle_x or fl_x,
    fl_y, cx, cy, k1, k2, k3, p1, p2 and camera-to-world matrices in Blender's axes, and PNG or JPEG images. COLMAP's
    text model: `cameras.txt` (SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, FULL_OPENCV with k4 to k6 zero),
    `images.txt` and, if there, `points3D.txt`, in the folder or its `sparse`, `sparse/0` or `text`; images in the
    folder or its `images` or `input`.

    Args:
        path: of the folder, or of a transforms.json file.
        split: of NeRF's files: "train", "val" or "test".
        scale: pixels are means of scale x scale of the files'.

    Returns:
        A `Dataset`.

    Raises:
        FileNotFoundError: no such folder, none of the formats in it, or an image is missing.
        ValueError: a file that is not of its format, images of another size than their camera, a scale below 1.

    Example:
        >>> import geomkit as gk, json, os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> gk.save_image(os.path.join(folder, "a.png"), [[[0.5, 0.5, 0.5]]])
        >>> view = {"file_path": "a", "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]}
        >>> with open(os.path.join(folder, "transforms.json"), "w") as file:
        ...     json.dump({"camera_angle_x": 0.7, "frames": [view]}, file)
        >>> gk.load_dataset(folder).cameras[0].eye.tolist()
        [0.0, 0.0, 4.0]
    """
    path = Path(path)
    if not (isinstance(scale, int) and scale >= 1):
        raise ValueError(message("load_dataset", "scale", "an integer of at least 1", repr(scale)))
    if path.is_file() and path.suffix == ".json":
        return _nerf(path).shrunk(scale)
    if not path.is_dir():
        raise FileNotFoundError(f"no such folder: {path}")
    for name in NERF:
        if (path / name.format(split=split)).exists():
            return _nerf(path / name.format(split=split)).shrunk(scale)
    for name in MODELS:
        if (path / name / "cameras.txt").exists() and (path / name / "images.txt").exists():
            return _colmap(path, path / name).shrunk(scale)
    known = "transforms.json, transforms_{train,val,test}.json or COLMAP's cameras.txt and images.txt"
    raise FileNotFoundError(message("load_dataset", "path", f"a folder with {known}", str(path)))


def _image(path: Path, width: int | None = None, height: int | None = None) -> np.ndarray:
    image = load_image(path)
    if image.shape[2] in (1, 2):  # grey
        image = np.concatenate([image[:, :, :1]] * 3 + [image[:, :, 1:]], axis=2)
    if width is not None and image.shape[:2] != (height, width):
        got = f"{image.shape[1]} x {image.shape[0]}"
        raise ValueError(message("load_dataset", str(path), f"{width} x {height} pixels as its camera has", got))
    return image


# ---- NeRF


def _nerf(path: Path) -> Dataset:
    try:
        data = json.loads(path.read_text())
        frames = data["frames"]
        images, cameras, names = [], [], []
        for frame in frames:
            file = _file_of(path.parent, frame["file_path"])
            image = _image(file)
            images.append(image)
            cameras.append(_blender_camera({**data, **frame}, image))
            names.append(file.name)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        got = f"{path} ({type(error).__name__}: {error})"
        raise ValueError(message("load_dataset", "path", "a transforms.json of NeRF", got)) from error
    if not images:
        raise ValueError(message("load_dataset", "path", "at least one frame", f"none in {path}"))
    return Dataset(images, cameras, names, up=(0.0, 0.0, 1.0))


def _file_of(folder: Path, name: str) -> Path:
    for candidate in (folder / name, *(folder / f"{name}{end}" for end in (".png", ".jpg", ".jpeg", ".exr"))):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"no such file: {folder / name} (or with .png, .jpg, .jpeg, .exr)")


def _blender_camera(data: dict[str, Any], image: np.ndarray) -> Camera:
    h, w = image.shape[:2]
    if "fl_x" in data:
        # Numbers of a size other than the image's are brought to it.
        across, down = w / float(data.get("w", w)), h / float(data.get("h", h))
        fx, fy = float(data["fl_x"]) * across, float(data.get("fl_y", data["fl_x"])) * down
        cx = float(data["cx"]) * across if "cx" in data else 0.5 * w
        cy = float(data["cy"]) * down if "cy" in data else 0.5 * h
    else:
        fx = 0.5 * w / math.tan(0.5 * float(data["camera_angle_x"]))
        fy = 0.5 * h / math.tan(0.5 * float(data["camera_angle_y"])) if "camera_angle_y" in data else fx
        cx, cy = 0.5 * w, 0.5 * h
    model, far = data.get("camera_model", "OPENCV"), [x for x in ("k4", "k5", "k6") if float(data.get(x, 0.0))]
    if model not in LENSES or data.get("is_fisheye") or far:
        got = ", ".join(far) if far else model if model not in LENSES else "is_fisheye"
        raise ValueError(message("load_dataset", "camera_model", f"one of {', '.join(LENSES)}, k1 to k3", got))
    lens = [float(data.get(name, 0.0)) for name in (*OPENCV, "k3")]
    lens = lens if lens[4] else lens[:4]
    matrix = np.array(data["transform_matrix"], np.float64)
    if matrix.shape not in ((4, 4), (3, 4)):
        raise ValueError(message("load_dataset", "transform_matrix", "(4, 4) numbers", str(matrix.shape)))
    to_world = np.eye(4)
    to_world[:3] = matrix[:3]
    # Blender's camera looks along -z with y up. (A rotation of few digits is made one; a scale has no place.)
    u, _, v = np.linalg.svd(to_world[:3, :3] @ np.diag([1.0, -1.0, -1.0]))
    to_camera = np.eye(4)
    to_camera[:3, :3] = (u @ v).T
    to_camera[:3, 3] = -to_camera[:3, :3] @ to_world[:3, 3]
    K = [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]
    return Camera(to_camera, K, width=w, height=h, distortion=lens if any(lens) else None)


# ---- COLMAP


def _rows(path: Path) -> list[str]:
    """Lines without comments; empty ones stay, as an image's second line may be."""
    return [line.strip() for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]


def _colmap(folder: Path, model: Path) -> Dataset:
    from geomkit.render.color import srgb_to_linear

    try:
        optics = {}
        for line in filter(None, _rows(model / "cameras.txt")):
            number, kind, w, h, *params = line.split()
            optics[number] = kind, [float(x) for x in params], int(w), int(h)
        views = []
        lines = _rows(model / "images.txt")
        while lines and not lines[0]:
            lines.pop(0)
        for line in lines[::2]:
            if line:
                _, *pose, number, name = line.split(maxsplit=9)
                views.append((name, [float(x) for x in pose], optics[number]))
        points, colors = None, None
        if (model / "points3D.txt").exists():
            rows = [[float(x) for x in line.split()[1:7]] for line in filter(None, _rows(model / "points3D.txt"))]
            table = np.array(rows, np.float64).reshape(-1, 6)
            points, colors = table[:, :3], srgb_to_linear(table[:, 3:] / 255)
    except (KeyError, IndexError, ValueError) as error:
        got = f"{model} ({type(error).__name__}: {error})"
        raise ValueError(message("load_dataset", "path", "a text model of COLMAP", got)) from error
    if not views:
        raise ValueError(message("load_dataset", "path", "at least one image", f"none in {model / 'images.txt'}"))
    images, cameras, names = [], [], []
    for name, pose, (kind, params, w, h) in sorted(views, key=lambda view: view[0]):
        file = next((folder / place / name for place in IMAGES if (folder / place / name).is_file()), None)
        if file is None:
            raise FileNotFoundError(f"no such file: {folder / IMAGES[0] / name} (or in {folder})")
        images.append(_image(file, w, h))
        cameras.append(Camera.from_colmap(pose[:4], pose[4:], kind, params, width=w, height=h))
        names.append(name)
    # COLMAP's world has no up of its own: that of the cameras, on average.
    up = -np.mean([np.asarray(camera.world_to_camera)[1, :3] for camera in cameras], axis=0)
    length = float(np.linalg.norm(up))
    x, y, z = (up / length).tolist() if length > 1e-6 else (0.0, 1.0, 0.0)
    return Dataset(images, cameras, names, points, colors, (x, y, z))
