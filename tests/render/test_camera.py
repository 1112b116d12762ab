"""The camera: closed forms, axes, rays that project to their pixels, and what is refused."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import geomkit as gk
from geomkit.render.camera import MARGIN, Camera

SIZE = {"width": 64, "height": 48}


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


def turned(seed: int) -> Camera:
    """A camera anywhere, with skew and a principal point off the middle."""
    rng = np.random.default_rng(seed)
    pose = Camera.look_at(rng.normal(size=3), rng.normal(size=3), rng.normal(size=3), fov=50, **SIZE).world_to_camera
    return Camera(pose, [[60, 1.5, 20], [0, 80, 31], [0, 0, 1]], **SIZE)


# ---- look_at


def test_look_at_down_z_has_the_matrices_of_the_closed_form():
    camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=60, **SIZE)
    np.testing.assert_allclose(camera.world_to_camera, [[1, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 4], [0, 0, 0, 1]])
    focal = 24 / math.tan(math.radians(30))
    np.testing.assert_allclose(camera.K, [[focal, 0, 32], [0, focal, 24], [0, 0, 1]])
    assert camera.world_to_camera.dtype == camera.K.dtype == np.float64
    np.testing.assert_array_equal(camera.eye, (0, 0, 4))


def test_the_film_of_a_known_field_of_view():
    # Half the film at distance 1 is 0.30594117 for a square one of 34.022 degrees.
    camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=34.022, width=128, height=128)
    corner = camera.project([[4 * 0.30594117, 4 * 0.30594117, 0.0]]).pixel
    np.testing.assert_allclose(corner, [[128, 0]], atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_look_at_axes(seed):
    eye, target, up = np.random.default_rng(seed).normal(size=(3, 3))
    camera = Camera.look_at(eye, target, up, fov=70, **SIZE)
    right, down, forward = camera.world_to_camera[:3, :3]
    np.testing.assert_allclose(forward, unit(target - eye), atol=1e-12)
    np.testing.assert_allclose(np.cross(right, down), forward, atol=1e-12)  # right-handed
    assert abs(right @ up) < 1e-12 and down @ up < 0
    np.testing.assert_allclose(camera.eye, eye, atol=1e-12)
    seen = camera.project([target, eye + 2 * forward - 0.1 * down, eye + 2 * forward + 0.1 * right])
    np.testing.assert_allclose(seen.pixel[0], (32, 24), atol=1e-9)
    np.testing.assert_allclose(seen.depth, [np.linalg.norm(target - eye), 2, 2], atol=1e-12)
    assert seen.pixel[1, 1] < 24 and seen.pixel[1, 0] == pytest.approx(32)  # up is towards row 0
    assert seen.pixel[2, 0] > 32 and seen.pixel[2, 1] == pytest.approx(24)


def test_fov_is_vertical_and_pixels_are_square():
    camera = Camera.look_at((0, 0, 1), (0, 0, 0), fov=90, width=200, height=100)
    np.testing.assert_allclose(
        camera.project([[0, 1, 0], [0, -1, 0], [2, 0, 0]]).pixel, [[100, 0], [100, 100], [200, 50]], atol=1e-12
    )


# ---- rays


def test_rays_go_through_pixel_centres_row_by_row_from_the_upper_left():
    camera = Camera(np.eye(4), [[2, 0, 1.5], [0, 4, 1], [0, 0, 1]], width=3, height=2)
    origins, directions = camera.rays()
    wanted = [[(i + 0.5 - 1.5) / 2, (j + 0.5 - 1) / 4, 1] for j in range(2) for i in range(3)]
    np.testing.assert_array_equal(directions, np.float32(wanted))
    np.testing.assert_array_equal(origins, np.zeros((6, 3)))
    for array in (origins, directions):
        assert array.dtype == np.float32 and array.flags.c_contiguous and array.flags.writeable


def test_skew_moves_columns_with_rows():
    camera = Camera(np.eye(4), [[2, 1, 0], [0, 4, 0], [0, 0, 1]], width=1, height=2)
    np.testing.assert_allclose(camera.rays(dtype=np.float64)[1][:, 1], [0.125, 0.375])
    np.testing.assert_allclose(camera.rays(dtype=np.float64)[1][:, 0], [(0.5 - 0.125) / 2, (0.5 - 0.375) / 2])


@pytest.mark.parametrize("seed", range(5))
def test_a_point_of_a_ray_projects_to_its_pixel_and_t_is_its_depth(seed):
    camera = turned(seed)
    origins, directions = camera.rays(dtype=np.float64)
    t = np.random.default_rng(seed).uniform(0.1, 9, len(origins))
    seen = camera.project(origins + t[:, None] * directions)
    row, column = np.divmod(np.arange(len(t)), 64)
    np.testing.assert_allclose(seen.pixel, np.stack([column, row], axis=1) + 0.5, atol=1e-9)
    np.testing.assert_allclose(seen.depth, t, rtol=1e-12)


def test_a_rotation_of_few_digits_has_its_rays_where_it_projects():
    pose = turned(0).world_to_camera.round(5)
    camera = Camera(pose, turned(0).K, **SIZE)
    origins, directions = camera.rays(dtype=np.float64)
    np.testing.assert_allclose(camera.project(origins + directions).depth, 1, atol=1e-13)
    np.testing.assert_allclose(camera.project(origins + directions).pixel[0], (0.5, 0.5), atol=1e-9)


def test_rows_are_parts_of_the_whole():
    camera = turned(1)
    whole = camera.rays()
    for first, end in ((0, 7), (7, 48), (5, 5)):
        part = camera.rays(rows=(first, end))
        for a, b in zip(part, whole, strict=True):
            np.testing.assert_array_equal(a, b[64 * first : 64 * end])


def test_columns_are_parts_of_the_whole():
    camera = turned(1)
    whole = [x.reshape(48, 64, 3) for x in camera.rays()]
    for rows, columns in (((0, 7), (3, 10)), ((7, 48), (60, 64)), (None, (0, 1)), ((5, 9), (8, 8))):
        part = camera.rays(rows=rows, columns=columns)
        for a, b in zip(part, whole, strict=True):
            cut = b[slice(*rows) if rows else slice(None), slice(*columns)]
            np.testing.assert_array_equal(a, cut.reshape(-1, 3))


def test_samples_are_centres_of_parts_of_a_pixel():
    camera = Camera(np.eye(4), np.eye(3), width=3, height=2)
    directions = camera.rays(samples=2, dtype=np.float64).directions.reshape(2, 3, 4, 3)
    np.testing.assert_allclose(directions[0, 0, :, :2], [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])
    np.testing.assert_allclose(directions[1, 2, 0], [2.25, 1.25, 1])
    part = camera.rays(samples=2, rows=(1, 2), columns=(1, 3), dtype=np.float64).directions
    np.testing.assert_array_equal(part, directions[1, 1:].reshape(-1, 3))
    np.testing.assert_allclose(
        turned(1).rays(samples=3, dtype=np.float64).directions.reshape(-1, 9, 3)[:, 4],
        turned(1).rays(dtype=np.float64).directions,
        rtol=1e-13,
        atol=1e-15,
    )


def test_a_distorted_camera_has_its_rays_where_it_projects():
    camera = replace(turned(0), distortion=[-0.15, 0.02, 0.005, -0.01, 0.001])
    origins, directions = camera.rays(dtype=np.float64)
    np.testing.assert_allclose(camera.project(origins + 3 * directions).pixel[65], (1.5, 1.5), atol=1e-9)
    assert "distorted" in repr(camera) and len(camera.distortion) == 5


def test_a_negative_focal_length_mirrors_the_image():
    pose, k = turned(2).world_to_camera, np.array([[60, 0, 32], [0, 80, 24], [0, 0, 1.0]])
    plain, mirrored = Camera(pose, k, **SIZE), Camera(pose, k * [[-1, 1, 1], [1, -1, 1], [1, 1, 1]], **SIZE)
    images = [camera.rays(dtype=np.float64)[1].reshape(48, 64, 3) for camera in (plain, mirrored)]
    np.testing.assert_allclose(images[1], images[0][::-1, ::-1], atol=1e-12)
    point = plain.eye + 3 * plain.world_to_camera[2, :3] + 0.1
    np.testing.assert_allclose(mirrored.project([point]).pixel, [64, 48] - plain.project([point]).pixel, atol=1e-9)


# ---- project


def test_points_behind_have_no_pixel():
    camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=60, **SIZE)
    seen = camera.project(np.array([[0, 0, 5.0], [1, 1, 4], [0, 0, 3]]))
    assert np.isnan(seen.pixel[:2]).all() and (seen.pixel[2] == (32, 24)).all()
    np.testing.assert_array_equal(seen.depth, [-1, 0, 1])


def test_project_answers_in_the_library_and_precision_of_the_points():
    torch = pytest.importorskip("torch")
    camera = turned(3)
    points = camera.eye + 3 * camera.world_to_camera[2, :3] + np.random.default_rng(0).normal(size=(7, 3))
    wanted = camera.project(points)
    assert wanted.pixel.dtype == np.float64
    for dtype in (torch.float32, torch.float64):
        seen = camera.project(torch.tensor(points, dtype=dtype))
        assert seen.pixel.dtype == seen.depth.dtype == dtype
        np.testing.assert_allclose(seen.pixel.numpy(), wanted.pixel, rtol=1e-4)
    assert camera.project([]).pixel.shape == (0, 2) and camera.project([[1, 2, 3]]).depth.dtype == np.float32


# ---- orthographic


def test_orthographic_looks_along_one_direction():
    camera = Camera.orthographic((1, 2, 4), (1, 2, 0), extent=6, **SIZE)
    assert repr(camera) == "Camera(64 x 48, at [1, 2, 4], fx 8, fy 8, orthographic)"
    origins, directions = camera.rays(dtype=np.float64)
    np.testing.assert_allclose(directions, np.tile([0, 0, -1.0], (64 * 48, 1)), atol=1e-15)
    np.testing.assert_allclose(origins[0], [1 - 3.9375, 2 + 2.9375, 4], atol=1e-12)
    np.testing.assert_allclose(origins[-1], [1 + 3.9375, 2 - 2.9375, 4], atol=1e-12)
    seen = camera.project([[1, 2, 0], [1, 5, -7], [1, 2, 9]])
    np.testing.assert_allclose(seen.pixel, [[32, 24], [32, 0], [32, 24]], atol=1e-5)
    np.testing.assert_allclose(seen.depth, [4, 11, -5], atol=1e-6)


def test_orthographic_refuses():
    for extent in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="Camera.orthographic: extent: expected a positive length, got"):
            Camera.orthographic((0, 0, 4), (0, 0, 0), extent=extent, **SIZE)
    with pytest.raises(ValueError, match="Camera.orthographic: target: expected another point than eye"):
        Camera.orthographic((0, 0, 4), (0, 0, 4), extent=1, **SIZE)


@pytest.mark.parametrize("size", [(64, 48), (48, 64)])
def test_orthographic_framing_fits(size):
    width, height = size
    mesh = gk.shapes.icosphere(4, 2.0, dtype=np.float64)
    camera = Camera.framing(mesh, width=width, height=height, model="orthographic")
    assert camera.model == "orthographic"
    seen = camera.project(mesh.vertices)
    assert (seen.depth > 0).all()
    np.testing.assert_allclose(np.ptp(seen.pixel, axis=0), min(size) / MARGIN, rtol=1e-2)
    np.testing.assert_allclose(seen.pixel.min(axis=0) + seen.pixel.max(axis=0), size, atol=0.01 * min(size))


# ---- framing

ANGLES = [(30, 20), (0, 0), (-100, 90), (200, -90), (77, -35)]
UPS = [(0, 1, 0), (0, 0, 1), (0, -2, 0), (1, 0, 0), (0.3, -0.8, 0.5), (1e-9, -1, 1e-9)]


@pytest.mark.parametrize("size", [(64, 48), (48, 64), (500, 20)])
@pytest.mark.parametrize(("azimuth", "elevation"), ANGLES)
def test_framing_fits_a_ball_between_the_nearer_sides(size, azimuth, elevation):
    width, height = size
    mesh = gk.shapes.icosphere(4, 2.0, dtype=np.float64)
    camera = Camera.framing(mesh, width=width, height=height, azimuth=azimuth, elevation=elevation, fov=35)
    pixel = camera.project(mesh.vertices).pixel
    low, high = pixel.min(axis=0), pixel.max(axis=0)
    assert (low > 0).all() and (high < size).all()
    assert 0.9 * min(size) < (high - low).max() < min(size)
    np.testing.assert_allclose(low + high, size, atol=0.01 * min(size))


@pytest.mark.parametrize("up", UPS)
@pytest.mark.parametrize(("azimuth", "elevation"), ANGLES)
def test_framing_holds_any_mesh_and_has_up_on_top(up, azimuth, elevation):
    mesh = gk.Mesh(gk.shapes.box((1, 2, 5), dtype=np.float64).vertices + [100, -20, 3], gk.shapes.box().faces)
    camera = Camera.framing(mesh, **SIZE, fov=90, azimuth=azimuth, elevation=elevation, up=up)
    seen = camera.project(mesh.vertices)
    assert (seen.pixel > 0).all() and (seen.pixel < (64, 48)).all() and (seen.depth > 0).all()
    down = camera.world_to_camera[1, :3]
    assert down @ unit(np.array(up)) == pytest.approx(-math.cos(math.radians(elevation)), abs=1e-9)
    distance = MARGIN * np.sqrt(1 + 4 + 25) / 2 / math.sin(math.radians(45))
    assert np.linalg.norm(camera.eye - mesh.center) == pytest.approx(distance)


@pytest.mark.parametrize(
    ("up", "azimuth", "elevation", "direction"),
    [
        ((0, 1, 0), 0, 0, (0, 0, 1)),
        ((0, 1, 0), 90, 0, (1, 0, 0)),
        ((0, 1, 0), 180, 0, (0, 0, -1)),
        ((0, 1, 0), 12, 90, (0, 1, 0)),
        ((0, 0, 1), 0, 0, (0, -1, 0)),
        ((0, 0, 1), 90, 0, (1, 0, 0)),
        ((0, 0, 5), 0, 90, (0, 0, 1)),
        ((0, -1, 0), 0, 0, (0, 0, 1)),
        ((0, -1, 0), 0, 90, (0, -1, 0)),
    ],
)
def test_framing_angles(up, azimuth, elevation, direction):
    camera = Camera.framing(gk.shapes.icosphere(1), **SIZE, up=up, azimuth=azimuth, elevation=elevation)
    np.testing.assert_allclose(unit(camera.eye), direction, atol=1e-9)


def test_framing_leaves_out_vertices_that_no_face_uses():
    box = gk.shapes.box()
    stray = gk.Mesh(np.concatenate([box.vertices, [[50, 60, 70]]]), box.faces)
    np.testing.assert_array_equal(Camera.framing(stray, **SIZE).eye, Camera.framing(box, **SIZE).eye)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(1, 170), st.floats(-720, 720), st.floats(-90, 90), st.floats(-8, 8))
def test_framing_holds_any_mesh_of_any_size(seed, fov, azimuth, elevation, size):
    rng = np.random.default_rng(seed)
    mesh = gk.Mesh(10**size * rng.normal(size=(5, 3)), [[0, 1, 2], [2, 3, 4]])
    camera = Camera.framing(mesh, **SIZE, fov=fov, azimuth=azimuth, elevation=elevation)
    seen = camera.project(mesh.vertices)
    assert (seen.depth > 0).all() and (seen.pixel > 0).all() and (seen.pixel < (64, 48)).all()


# ---- the object


def test_a_camera_does_not_change():
    pose = np.eye(4)
    camera = Camera(pose, np.eye(3), **SIZE)
    pose[0, 3] = 5
    assert camera.world_to_camera[0, 3] == 0
    with pytest.raises(ValueError, match="read-only"):
        camera.K[0, 0] = 2
    with pytest.raises(AttributeError):
        camera.width = 3  # pyright: ignore[reportAttributeAccessIssue]
    again = pickle.loads(pickle.dumps(camera))
    np.testing.assert_array_equal(again.world_to_camera, camera.world_to_camera)
    assert again.width == 64 and repr(again) == "Camera(64 x 48, at [0, 0, 0], fx 1, fy 1)"


def test_matrices_of_float32_are_taken():
    pose = turned(4).world_to_camera.astype(np.float32)
    assert Camera(pose, np.eye(3, dtype=np.float32), **SIZE).world_to_camera.dtype == np.float64


# ---- errors

MIRRORED = np.diag([-1.0, 1, 1, 1])
SCALED = np.diag([2.0, 2, 2, 1])


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"world_to_camera": np.eye(3)}, r"world_to_camera: expected \(4, 4\) floats, got \(3, 3\) float64"),
        ({"world_to_camera": np.full((4, 4), np.nan)}, "world_to_camera: expected finite numbers, got"),
        ({"world_to_camera": np.eye(4)[[0, 1, 3, 2]]}, "world_to_camera: expected the last row 0, 0, 0, 1, got"),
        ({"world_to_camera": SCALED}, r"expected a rotation in \[:3, :3\], got R with R R\^T off the identity by 3"),
        ({"world_to_camera": MIRRORED}, r"expected a rotation in \[:3, :3\], got a mirrored one"),
        ({"K": np.eye(4)}, r"K: expected \(3, 3\) floats, got \(4, 4\) float64"),
        ({"K": np.diag([1, 1, 2])}, r"K: expected \[\[fx, skew, cx\]"),
        ({"K": [[1, 0, 0], [3, 1, 0], [0, 0, 1]]}, r"K: expected \[\[fx, skew, cx\]"),
        ({"K": np.diag([1, 0, 1])}, "K: expected focal lengths other than zero, got 1 and 0"),
        ({"width": 0}, "width: expected an integer of at least 1, got 0"),
        ({"height": 4.5}, "height: expected an integer of at least 1, got 4.5"),
        ({"model": "fisheye"}, "model: expected 'pinhole' or 'orthographic', got 'fisheye'"),
        ({"distortion": [1, 2]}, "distortion: expected k1, k2, p1, p2 or k1, k2, p1, p2, k3, got 2 numbers"),
        ({"distortion": [0, 0, 0, math.nan]}, "distortion: expected finite numbers, got"),
    ],
)
def test_matrices_that_are_no_camera(changed, text):
    with pytest.raises(ValueError, match=f"Camera: .*{text}"):
        Camera(**{"world_to_camera": np.eye(4), "K": np.eye(3), **SIZE, **changed})


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"target": (0, 0, 4)}, "target: expected another point than eye, got"),
        ({"up": (0, 0, 0)}, "up: expected a direction, got"),
        ({"up": (0, 0, -7)}, "up: expected another direction than that of the view, got"),
        ({"up": (0, 1e-8, 1)}, "up: expected another direction than that of the view, got"),
        ({"eye": (0, np.inf, 0)}, "eye: expected finite numbers, got"),
        ({"eye": (0, 0)}, r"eye: expected \(3,\) floats, got \(2,\) int64"),
        ({"fov": 180}, "fov: expected degrees between 0 and 180, got 180"),
        ({"fov": -3}, "fov: expected degrees between 0 and 180, got -3"),
        ({"width": -1}, "width: expected an integer of at least 1, got -1"),
    ],
)
def test_look_at_refuses(changed, text):
    with pytest.raises(ValueError, match=f"Camera.look_at: {text}"):
        Camera.look_at(**{"eye": (0, 0, 4), "target": (0, 0, 0), "fov": 60, **SIZE, **changed})


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"mesh": gk.Mesh(np.zeros((3, 3)), np.zeros((0, 3), int))}, "mesh: expected at least one face, got none"),
        ({"mesh": gk.Mesh(np.ones((3, 3)), [[0, 1, 2]])}, "mesh: expected faces of some extent, got all at"),
        ({"elevation": 91}, r"elevation: expected degrees in \[-90, 90\], got 91"),
        ({"elevation": math.nan}, r"elevation: expected degrees in \[-90, 90\], got nan"),
        ({"azimuth": math.inf}, "azimuth: expected a finite number of degrees, got inf"),
        ({"up": (0, 0, 0)}, "up: expected a direction, got"),
        ({"fov": 0}, "fov: expected degrees between 0 and 180, got 0"),
        ({"height": 0}, "height: expected an integer of at least 1, got 0"),
    ],
)
def test_framing_refuses(changed, text):
    with pytest.raises(ValueError, match=f"Camera.framing: {text}"):
        Camera.framing(**{"mesh": gk.shapes.box(), **SIZE, **changed})


def test_rays_refuse():
    camera = turned(0)
    with pytest.raises(ValueError, match="Camera.rays: dtype: expected float32 or float64, got int32"):
        camera.rays(dtype=np.int32)
    for rows in ((-1, 3), (4, 3), (0, 49)):
        with pytest.raises(ValueError, match=r"Camera.rays: rows: expected \(first, end\) within \(0, 48\)"):
            camera.rays(rows=rows)
    with pytest.raises(ValueError, match=r"Camera.rays: columns: expected \(first, end\) within \(0, 64\)"):
        camera.rays(columns=(3, 65))
    with pytest.raises(ValueError, match="Camera.rays: samples: expected an integer of at least 1, got 0"):
        camera.rays(samples=0)
    with pytest.raises(ValueError, match="Camera.rays: device: expected 'cpu' or 'cuda', got 'gpu'"):
        camera.rays(device="gpu")


def test_project_refuses():
    with pytest.raises(ValueError, match=r"project_points: points: expected \(N, 3\) floats, got \(3,\) float64"):
        turned(0).project(np.zeros(3))


def test_gradients_do_not_get_lost_in_the_field_of_view():
    torch = pytest.importorskip("torch")
    x = torch.tensor(40.0, requires_grad=True)
    for make, name in ((Camera.look_at, "fov"), (Camera.orthographic, "extent")):
        with pytest.raises(TypeError, match=f"{name}: expected values that do not track gradients"):
            make((0, 0, 4), (0, 0, 0), width=8, height=6, **{name: x})
