"""Cameras of other systems: each system's own formula gives the same pixels, and every camera comes back."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import geomkit as gk
from geomkit.render.camera import Camera
from tests.render.lens import LENS, POSE, K, bend

SIZE = {"width": 64, "height": 48}
POINTS = np.random.default_rng(0).normal(size=(40, 3))
SQUARE = np.array([[70.0, 0, 20], [0, 70, 31], [0, 0, 1]])
PLAIN = K * [[1, 0, 1], [1, 1, 1], [1, 1, 1]]  # without skew; fy is negative


def camera(K=K, lens=None, model="pinhole"):
    return Camera(POSE, K, **SIZE, distortion=lens, model=model)


def same(a, b, points=POINTS):
    """The same camera: its matrices, and with them its pixels."""
    assert (a.width, a.height, a.model) == (b.width, b.height, b.model)
    for found, wanted in zip(a.project(points), b.project(points), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    np.testing.assert_allclose(a.world_to_camera, b.world_to_camera, atol=1e-12)
    np.testing.assert_allclose(a.K, b.K, atol=1e-9)
    lenses = [np.zeros(5) if x.distortion is None else np.resize(np.append(x.distortion, 0), 5) for x in (a, b)]
    np.testing.assert_allclose(*lenses, atol=1e-15)


def padded(points):
    return np.insert(points, 3, 1, axis=1)


# ---- OpenCV


@pytest.mark.parametrize("lens", [None, LENS, LENS[:4]])
def test_opencv(lens):
    own = camera(K, lens)
    turn, shift, matrix, k = own.to_opencv()
    seen = POINTS @ Rotation.from_rotvec(turn).as_matrix().T + shift
    pixel = bend(seen[:, :2] / seen[:, 2:], k) @ matrix[:2, :2].T + matrix[:2, 2]
    np.testing.assert_allclose(own.project(POINTS).pixel, pixel + 0.5, atol=1e-10)
    same(Camera.from_opencv(turn[:, None], shift[:, None], matrix, k[None], **SIZE), own)


def test_the_middle_of_an_image_lies_half_a_pixel_further_on_than_in_opencv():
    middle = [[50, 0, (64 - 1) / 2], [0, 50, (48 - 1) / 2], [0, 0, 1]]
    own = Camera.from_opencv(np.zeros(3), np.zeros(3), middle, **SIZE)
    np.testing.assert_array_equal(own.K[:2, 2], [32, 24])
    directions = own.rays().directions.reshape(48, 64, 3)
    np.testing.assert_array_equal(directions[::-1, ::-1, :2], -directions[..., :2])
    # The pixel that OpenCV calls (0, 0) is the first, whose centre is (0.5, 0.5).
    np.testing.assert_allclose(own.rays(dtype=np.float64).directions[0], [-31.5 / 50, -23.5 / 50, 1])


# ---- OpenGL


@pytest.mark.parametrize("model", ["pinhole", "orthographic"])
def test_opengl(model):
    own = camera(K, model=model)
    view, projection = own.to_opengl(near=0.5, far=30)
    np.testing.assert_allclose(np.linalg.det(view), 1)
    clip = padded(POINTS) @ view.T @ projection.T
    ndc = clip[:, :3] / clip[:, 3:]
    pixel = np.stack([(ndc[:, 0] + 1) / 2 * 64, (1 - ndc[:, 1]) / 2 * 48], axis=1)
    np.testing.assert_allclose(own.project(POINTS).pixel, pixel, atol=1e-10)
    for depth, wanted in ((0.5, -1), (30, 1)):
        z = projection @ [0, 0, -depth, 1]
        assert z[2] / z[3] == pytest.approx(wanted)
    same(Camera.from_opengl(view, projection, **SIZE), own)


def test_opengl_of_a_known_field_of_view():
    own = Camera.look_at((0, 0, 4), (0, 0, 0), fov=60, **SIZE)
    view, projection = own.to_opengl()
    np.testing.assert_allclose(view, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, -4], [0, 0, 0, 1]], atol=1e-15)
    f = 1 / math.tan(math.radians(30))
    np.testing.assert_allclose(projection[:2], [[f * 48 / 64, 0, 0, 0], [0, f, 0, 0]], atol=1e-15)


# ---- COLMAP


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("SIMPLE_PINHOLE", [60, 31, 25]),
        ("PINHOLE", [60, 70, 31, 25]),
        ("SIMPLE_RADIAL", [60, 31, 25, -0.1]),
        ("RADIAL", [60, 31, 25, -0.1, 0.05]),
        ("OPENCV", [60, 70, 31, 25, -0.1, 0.05, 0.01, -0.02]),
        ("FULL_OPENCV", [60, 70, 31, 25, -0.1, 0.05, 0.01, -0.02, 0.03, 0, 0, 0]),
    ],
)
def test_colmap(model, params):
    turn = Rotation.from_rotvec([0.3, -0.5, 0.9])
    quaternion, shift = turn.as_quat(canonical=True, scalar_first=True), np.array([0.1, 0.2, 5])
    own = Camera.from_colmap(2 * quaternion, shift, model, params, **SIZE)
    seen = POINTS @ turn.as_matrix().T + shift
    plane = seen[:, :2] / seen[:, 2:]
    single = model in ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL")
    focal, rest = (params[0], params[1:]) if single else (params[:2], params[2:])
    lens = np.zeros(5)
    lens[: len(rest[2:7])] = rest[2:7]
    np.testing.assert_allclose(own.project(POINTS).pixel, bend(plane, lens) * focal + rest[:2], atol=1e-10)
    again = own.to_colmap(model)
    np.testing.assert_allclose(again.quaternion, quaternion, atol=1e-15)
    np.testing.assert_allclose(again.translation, shift)
    np.testing.assert_allclose(again.params, params)
    assert again.model == model
    found = own.to_colmap()
    same(Camera.from_colmap(*found, **SIZE), own)
    kind = {"SIMPLE_PINHOLE": "PINHOLE", "SIMPLE_RADIAL": "OPENCV", "RADIAL": "OPENCV"}
    assert found.model == kind.get(model, model)


# ---- PyTorch3D


@pytest.mark.parametrize("size", [(64, 48), (48, 64)])
@pytest.mark.parametrize("model", ["pinhole", "orthographic"])
def test_pytorch3d(model, size):
    width, height = size
    own = Camera(POSE, PLAIN, width=width, height=height, model=model)
    ndc = own.to_pytorch3d()
    assert ndc.image_size == (height, width) and ndc.in_ndc
    seen = POINTS @ ndc.R + ndc.T
    plane = seen[:, :2] / (seen[:, 2:] if model == "pinhole" else 1)
    at = plane * ndc.focal_length + ndc.principal_point
    pixel = np.array([width, height]) / 2 - min(width, height) / 2 * at
    np.testing.assert_allclose(own.project(POINTS).pixel, pixel, atol=1e-10)
    screen = own.to_pytorch3d(in_ndc=False)
    pixel = screen.principal_point - screen.focal_length * plane
    np.testing.assert_allclose(own.project(POINTS).pixel, pixel, atol=1e-10)
    for record in (ndc, screen):
        values = record._replace(image_size=None)._asdict()
        del values["image_size"]
        same(Camera.from_pytorch3d(**values, width=width, height=height, model=model), own)
    one = Camera.from_pytorch3d(np.eye(3), np.zeros(3), 2.0, np.zeros(2), width=width, height=height)
    assert one.K[0, 0] == one.K[1, 1] == min(width, height)


# ---- Mitsuba


def mitsuba_pixels(m, points, width, height):
    """Where a point is on the film of Mitsuba's perspective sensor: x of the sensor to the left, y up."""
    x, y, z = (np.linalg.inv(m.to_world) @ padded(points).T)[:3]
    half = math.tan(math.radians(m.fov) / 2)
    u = 0.5 - 0.5 * x / z / half - m.principal_point_offset_x
    v = 0.5 - 0.5 * y / z / half * width / height - m.principal_point_offset_y
    return np.stack([u * width, v * height], axis=1)


@pytest.mark.parametrize("sign", [1, -1])
def test_mitsuba(sign):
    own = camera(SQUARE * [[sign, 1, 1], [1, sign, 1], [1, 1, 1]])
    m = own.to_mitsuba()
    assert m.type == "perspective" and np.linalg.det(m.to_world) == pytest.approx(1)
    np.testing.assert_allclose(own.project(POINTS).pixel, mitsuba_pixels(m, POINTS, 64, 48), atol=1e-9)
    again = Camera.from_mitsuba(**m._asdict(), **SIZE)
    np.testing.assert_allclose(again.project(POINTS).pixel, own.project(POINTS).pixel, atol=1e-9)
    if sign > 0:
        same(again, own)


@pytest.mark.parametrize(
    ("axis", "length"), [("x", 64), ("y", 48), ("smaller", 48), ("larger", 64), ("diagonal", 80)]
)
def test_mitsuba_axes(axis, length):
    own = Camera.from_mitsuba(np.eye(4), fov=90, fov_axis=axis, **SIZE)
    assert own.K[0, 0] == own.K[1, 1] == pytest.approx(length / 2)
    np.testing.assert_array_equal(own.world_to_camera, np.diag([-1, -1, 1, 1]))


@pytest.mark.parametrize("K", [SQUARE, abs(PLAIN), abs(PLAIN) * [[-1, 1, 1], [1, -1, 1], [1, 1, 1]]])
def test_mitsuba_orthographic(K):
    own = camera(K, model="orthographic")
    m = own.to_mitsuba()
    # The film shows x from 1 to -1 of the sensor's plane, and as much of y as has the same scale.
    x, y, _ = (np.linalg.inv(m.to_world) @ padded(POINTS).T)[:3]
    pixel = np.stack([32 - 32 * x, 24 - 32 * y], axis=1)
    np.testing.assert_allclose(own.project(POINTS).pixel, pixel, atol=1e-9)
    again = Camera.from_mitsuba(**m._asdict(), **SIZE)
    for found, wanted in zip(again.project(POINTS), own.project(POINTS), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)


# ---- errors


@pytest.mark.parametrize(
    ("name", "own", "text"),
    [
        ("to_opencv", camera(model="orthographic"), "model: expected 'pinhole'"),
        ("to_opengl", camera(lens=LENS), "distortion: expected none"),
        ("to_colmap", camera(), "K: expected no skew"),
        ("to_colmap", camera(PLAIN, model="orthographic"), "model: expected 'pinhole'"),
        ("to_pytorch3d", camera(), "K: expected no skew"),
        ("to_pytorch3d", camera(PLAIN, LENS), "distortion: expected none"),
        ("to_mitsuba", camera(SQUARE, LENS), "distortion: expected none"),
        ("to_mitsuba", camera(PLAIN), "K: expected focal lengths of one sign, got 60 and -80"),
        ("to_mitsuba", camera(abs(PLAIN)), "K: expected square pixels, got focal lengths 60 and 80"),
    ],
)
def test_what_another_system_cannot_hold(name, own, text):
    with pytest.raises(ValueError, match=f"Camera.{name}: {text}"):
        getattr(own, name)()


def test_more_that_is_refused():
    with pytest.raises(ValueError, match="Camera.to_opengl: near, far: expected 0 < near < far, got 2, 1"):
        camera().to_opengl(near=2, far=1)
    with pytest.raises(ValueError, match="Camera.to_colmap: model: expected one that holds all of the camera's"):
        camera(PLAIN, LENS).to_colmap("OPENCV")
    with pytest.raises(ValueError, match="Camera.to_colmap: model: expected one of SIMPLE_PINHOLE"):
        camera(PLAIN).to_colmap("FISHEYE")
    pose = ([1, 0, 0, 0], [0, 0, 0])
    with pytest.raises(ValueError, match="Camera.from_colmap: model: expected one of SIMPLE_PINHOLE"):
        Camera.from_colmap(*pose, "FOV", [1, 2, 3], **SIZE)
    with pytest.raises(ValueError, match=r"Camera.from_colmap: params: expected \(4,\) floats, got \(3,\) int64"):
        Camera.from_colmap(*pose, "PINHOLE", [1, 2, 3], **SIZE)
    with pytest.raises(ValueError, match="Camera.from_colmap: params: expected k4, k5 and k6 zero"):
        Camera.from_colmap(*pose, "FULL_OPENCV", np.ones(12), **SIZE)
    with pytest.raises(ValueError, match="Camera.from_colmap: quaternion: expected one other than zero"):
        Camera.from_colmap([0, 0, 0, 0], [0, 0, 0], "PINHOLE", np.ones(4), **SIZE)
    with pytest.raises(ValueError, match="Camera.from_opengl: projection: expected the matrix of glFrustum or glOrtho"):
        Camera.from_opengl(np.eye(4), np.ones((4, 4)), **SIZE)
    with pytest.raises(ValueError, match="Camera.from_opengl: view: expected the last row"):
        Camera.from_opengl(np.ones((4, 4)), np.eye(4), **SIZE)
    for changed, text in (
        ({"type": "thinlens"}, "type: expected 'perspective' or 'orthographic'"),
        ({"fov": 0}, "fov: expected degrees between 0 and 180, got 0"),
        ({"fov_axis": "z"}, "fov_axis: expected one of x, y, smaller, larger, diagonal, got 'z'"),
    ):
        with pytest.raises(ValueError, match=f"Camera.from_mitsuba: {text}"):
            Camera.from_mitsuba(np.eye(4), **{"fov": 40, **SIZE, **changed})


def test_a_camera_that_is_tracked_has_to_be_detached():
    torch = pytest.importorskip("torch")
    tracked = Camera(POSE, torch.tensor(K, requires_grad=True), **SIZE)
    with pytest.raises(TypeError, match="Camera.to_opengl: K: expected values that do not track gradients"):
        tracked.to_opengl()
    same(Camera.from_opengl(*tracked.detach().to_opengl(), **SIZE), camera())
    assert gk.Camera is Camera
