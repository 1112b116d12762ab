"""A camera in the words of other systems: OpenCV, OpenGL, COLMAP, PyTorch3D, Mitsuba."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from geomkit.arrays import as_array, imported
from geomkit.errors import message
from geomkit.render.optics import camera_array
from geomkit.render.pose import quaternion_of, rotation_matrix, rotation_vector_of

if TYPE_CHECKING:
    from geomkit.render.camera import Camera

__all__ = ["Colmap", "Conventions", "Mitsuba", "OpenCV", "OpenGL", "PyTorch3D"]

Y_UP = np.diag([1.0, -1.0, -1.0])  # OpenGL: x right, y up, z backward
X_LEFT = np.diag([-1.0, -1.0, 1.0])  # PyTorch3D and Mitsuba: x left, y up, z forward
SQUARE = 1e-9  # relative difference of focal lengths from which on a pixel is no square

# Of COLMAP: how many focal lengths, then the principal point, then which numbers of the distortion.
COLMAP = {
    "SIMPLE_PINHOLE": (1, ()),
    "PINHOLE": (2, ()),
    "SIMPLE_RADIAL": (1, (0,)),
    "RADIAL": (1, (0, 1)),
    "OPENCV": (2, (0, 1, 2, 3)),
    "FULL_OPENCV": (2, (0, 1, 2, 3, 4)),
}
RATIONAL = 3  # numbers at the end of FULL_OPENCV that must be zero


class OpenCV(NamedTuple):
    """A camera as OpenCV's calib3d has it: pixels are counted from the centre of the first one."""

    rotation_vector: np.ndarray  # (3,) world to camera
    translation: np.ndarray  # (3,)
    K: np.ndarray  # (3, 3), its principal point half a pixel less than geomkit's
    distortion: np.ndarray  # (5,) k1, k2, p1, p2, k3


class OpenGL(NamedTuple):
    """A camera as OpenGL, nvdiffrast and Kaolin have it, for columns (x, y, z, 1); row 0 of the image is on top."""

    view: np.ndarray  # (4, 4) world to camera: x right, y up, z backward
    projection: np.ndarray  # (4, 4) to clip space, depth -1 at the near plane and 1 at the far one


class Colmap(NamedTuple):
    """A camera as COLMAP's images.txt and cameras.txt have it; pixels are counted as geomkit counts them."""

    quaternion: np.ndarray  # (4,) w, x, y, z, world to camera
    translation: np.ndarray  # (3,)
    model: str
    params: np.ndarray


class PyTorch3D(NamedTuple):
    """A camera as PyTorch3D's PerspectiveCameras and OrthographicCameras have it, for rows: x' = x R + T."""

    R: np.ndarray  # (3, 3) world to camera, transposed: x left, y up, z forward
    T: np.ndarray  # (3,)
    focal_length: np.ndarray  # (2,)
    principal_point: np.ndarray  # (2,)
    image_size: tuple[int, int]  # height, width
    in_ndc: bool


class Mitsuba(NamedTuple):
    """A camera as Mitsuba's perspective and orthographic sensors have it."""

    type: str  # "perspective" or "orthographic"
    to_world: np.ndarray  # (4, 4) camera to world: x left, y up, z forward
    fov: float  # degrees; 0 for an orthographic one, whose size is the scale of to_world
    fov_axis: str
    principal_point_offset_x: float  # of the film's width; what is seen moves left by it
    principal_point_offset_y: float


class Conventions:
    """What `Camera` inherits: cameras made from other systems' numbers, and given out as such.

    The converters take and give numbers: fields that track gradients are refused (`camera.detach()` has their values).
    """

    # ---- OpenCV

    @classmethod
    def from_opencv(
        cls, rotation_vector: Any, translation: Any, K: Any, distortion: Any = None, *, width: int, height: int
    ) -> Self:
        """A camera of what `cv2.calibrateCamera` or `cv2.solvePnP` found.

        OpenCV counts pixels from the centre of the first one: 0.5 is added to the principal point. The middle of an
        image, (W - 1) / 2 there, is W / 2 here.

        Args:
            rotation_vector, translation: (3,) or (3, 1) numbers, world to camera.
            K: (3, 3) numbers.
            distortion: k1, k2, p1, p2 and maybe k3; None is zeros.
            width, height: of the image in pixels.

        Returns:
            the camera.

        Raises:
            ValueError, TypeError: as for `Camera`.
        """
        op = "Camera.from_opencv"
        turn, t = _vector(op, "rotation_vector", rotation_vector, 3), _vector(op, "translation", translation, 3)
        K = camera_array(op, "K", K).copy()
        K[:2, 2] += 0.5
        lens = None if distortion is None else np.ravel(imported(distortion))
        return cls._of(rotation_matrix(turn), t, K, lens, width=width, height=height)

    def to_opencv(self) -> OpenCV:
        """The camera for OpenCV.

        Raises:
            ValueError: an orthographic camera.
            TypeError: a field that tracks gradients.
        """
        pose, K, lens = self._numbers("to_opencv", distorted=True, skewed=True, orthographic=False)
        K[:2, 2] -= 0.5
        return OpenCV(rotation_vector_of(pose[:3, :3]), pose[:3, 3], K, lens)

    # ---- OpenGL

    @classmethod
    def from_opengl(cls, view: Any, projection: Any, *, width: int, height: int) -> Self:
        """A camera of OpenGL's two matrices.

        For the inverse of the view matrix, which NeRF's files and Blender have, pass `np.linalg.inv(camera_to_world)`.

        Args:
            view: (4, 4) numbers, world to camera, for columns: x right, y up, z backward.
            projection: (4, 4) numbers, camera to clip space, of a perspective or an orthographic camera.
            width, height: of the image in pixels.

        Returns:
            the camera; the near and the far plane are dropped.

        Raises:
            ValueError: a projection of another form, or as for `Camera`.
            TypeError: as for `Camera`.
        """
        op = "Camera.from_opengl"
        view, p = _pose(op, "view", view), _array(op, "projection", projection, (4, 4))
        orthographic = bool(p[3, 3] != 0)
        # Where the axis is seen in clip space, and the entries that have to be zero.
        middle, rest, last = -p[:2, 2], p[:2, 3], (0, 0, -1, 0)
        if orthographic:
            middle, rest, last = p[:2, 3], p[:2, 2], (0, 0, 0, 1)
        if (p[3] != last).any() or p[1, 0] != 0 or rest.any():
            raise ValueError(message(op, "projection", "the matrix of glFrustum or glOrtho", str(p.tolist())))
        fx, skew, fy = 0.5 * width * p[0, 0], -0.5 * width * p[0, 1], 0.5 * height * p[1, 1]
        cx, cy = 0.5 * width * (1 + middle[0]), 0.5 * height * (1 - middle[1])
        K = np.array([[fx, skew, cx], [0, fy, cy], [0, 0, 1]])
        model = "orthographic" if orthographic else "pinhole"
        return cls._of(Y_UP @ view[:3, :3], Y_UP @ view[:3, 3], K, width=width, height=height, model=model)

    def to_opengl(self, *, near: float = 0.01, far: float = 1000.0) -> OpenGL:
        """The camera for OpenGL, nvdiffrast or Kaolin.

        Clip space has y upwards: row 0 of the image, on top here, is the last one of nvdiffrast's.

        Args:
            near, far: distances of the two clipping planes.

        Raises:
            ValueError: distortion, or not near < far, or near not positive for a pinhole.
            TypeError: a field that tracks gradients.
        """
        pose, K, _ = self._numbers("to_opengl", distorted=False, skewed=True)
        orthographic = self._is_orthographic
        if not (near < far and math.isfinite(far - near) and (near > 0 or orthographic)):
            raise ValueError(message("Camera.to_opengl", "near, far", "0 < near < far", f"{near}, {far}"))
        width, height = self._size
        p = np.zeros((4, 4))
        p[0, 0], p[0, 1], p[1, 1] = 2 * K[0, 0] / width, -2 * K[0, 1] / width, 2 * K[1, 1] / height
        middle = 2 * K[0, 2] / width - 1, 1 - 2 * K[1, 2] / height
        if orthographic:
            p[:2, 3], p[3, 3] = middle, 1
            p[2, 2:] = -2 / (far - near), -(far + near) / (far - near)
        else:
            p[:2, 2], p[3, 2] = (-middle[0], -middle[1]), -1
            p[2, 2:] = -(far + near) / (far - near), -2 * far * near / (far - near)
        return OpenGL(_affine(Y_UP @ pose[:3]), p)

    # ---- COLMAP

    @classmethod
    def from_colmap(
        cls, quaternion: Any, translation: Any, model: str, params: Any, *, width: int, height: int
    ) -> Self:
        """A camera of a line of COLMAP's images.txt and one of cameras.txt.

        Args:
            quaternion: (4,) numbers qw, qx, qy, qz, world to camera; of any length but zero.
            translation: (3,) numbers tx, ty, tz.
            model: SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, or FULL_OPENCV with k4 = k5 = k6 = 0.
            params: the model's numbers, in COLMAP's order.
            width, height: of the image in pixels.

        Returns:
            the camera.

        Raises:
            ValueError: another model, a wrong number of params, or as for `Camera`.
            TypeError: as for `Camera`.
        """
        op = "Camera.from_colmap"
        q, t = _vector(op, "quaternion", quaternion, 4), _vector(op, "translation", translation, 3)
        if math.hypot(*q) == 0:
            raise ValueError(message(op, "quaternion", "one other than zero", str(q.tolist())))
        if model not in COLMAP:
            raise ValueError(message(op, "model", f"one of {', '.join(COLMAP)}", repr(model)))
        n_focal, which = COLMAP[model]
        full = model == "FULL_OPENCV"
        values = _vector(op, "params", params, n_focal + 2 + len(which) + (RATIONAL if full else 0))
        if full and values[-RATIONAL:].any():
            raise ValueError(message(op, "params", "k4, k5 and k6 zero", str(values.tolist())))
        cx, cy, *rest = values[n_focal:]
        K = np.array([[values[0], 0, cx], [0, values[n_focal - 1], cy], [0, 0, 1]])
        lens = None
        if which:
            lens = np.zeros(5)
            lens[list(which)] = rest[: len(which)]
        return cls._of(_rotation(q), t, K, lens, width=width, height=height)

    def to_colmap(self, model: str | None = None) -> Colmap:
        """The camera for COLMAP.

        Args:
            model: the one to give; if None the first of PINHOLE, OPENCV and FULL_OPENCV that can hold it.

        Raises:
            ValueError: an orthographic camera, skew, or numbers that the model has no place for.
            TypeError: a field that tracks gradients.
        """
        op = "Camera.to_colmap"
        pose, K, lens = self._numbers("to_colmap", distorted=True, skewed=False, orthographic=False)
        if model is None:
            model = "FULL_OPENCV" if lens[4] else "OPENCV" if lens.any() else "PINHOLE"
        if model not in COLMAP:
            raise ValueError(message(op, "model", f"one of {', '.join(COLMAP)}", repr(model)))
        n_focal, which = COLMAP[model]
        left = [k for k in range(5) if k not in which]
        if lens[left].any() or (n_focal == 1 and K[0, 0] != K[1, 1]):
            raise ValueError(message(op, "model", "one that holds all of the camera's numbers", model))
        focal = [K[0, 0], K[1, 1]][:n_focal]
        zeros = [0.0] * RATIONAL if model == "FULL_OPENCV" else []
        params = np.array([*focal, K[0, 2], K[1, 2], *lens[list(which)], *zeros])
        return Colmap(quaternion_of(pose[:3, :3]), pose[:3, 3], model, params)

    # ---- PyTorch3D

    @classmethod
    def from_pytorch3d(
        cls,
        R: Any,
        T: Any,
        focal_length: Any,
        principal_point: Any,
        *,
        width: int,
        height: int,
        in_ndc: bool = True,
        model: str = "pinhole",
    ) -> Self:
        """A camera of PyTorch3D's PerspectiveCameras, or OrthographicCameras; one of a batch.

        Args:
            R, T: (3, 3) and (3,) numbers for rows, x' = x R + T: x left, y up, z forward.
            focal_length: (2,) numbers, or one.
            principal_point: (2,) numbers.
            width, height: of the image in pixels.
            in_ndc: whether the last two are in NDC (half the shorter side is one, x to the left, y up) or in pixels.
            model: "pinhole" or "orthographic".

        Returns:
            the camera.

        Raises:
            ValueError, TypeError: as for `Camera`.
        """
        op = "Camera.from_pytorch3d"
        rotation, t = X_LEFT @ _array(op, "R", R, (3, 3)).T, X_LEFT @ _vector(op, "T", T, 3)
        focal = np.ravel(imported(focal_length))
        focal = _vector(op, "focal_length", np.repeat(focal, 2) if len(focal) == 1 else focal, 2)
        point = _vector(op, "principal_point", principal_point, 2)
        if in_ndc:
            scale = 0.5 * min(width, height)
            focal, point = scale * focal, 0.5 * np.array([width, height]) - scale * point
        K = np.array([[focal[0], 0, point[0]], [0, focal[1], point[1]], [0, 0, 1]])
        return cls._of(rotation, t, K, width=width, height=height, model=model)

    def to_pytorch3d(self, *, in_ndc: bool = True) -> PyTorch3D:
        """The camera for PyTorch3D; each array is one of a batch (`R[None]`).

        Args:
            in_ndc: whether focal length and principal point are in NDC or in pixels.

        Raises:
            ValueError: distortion or skew.
            TypeError: a field that tracks gradients.
        """
        pose, K, _ = self._numbers("to_pytorch3d", distorted=False, skewed=False)
        width, height = self._size
        focal, point = np.array([K[0, 0], K[1, 1]]), K[:2, 2]
        if in_ndc:
            scale = 0.5 * min(width, height)
            focal, point = focal / scale, (0.5 * np.array([width, height]) - point) / scale
        return PyTorch3D((X_LEFT @ pose[:3, :3]).T, X_LEFT @ pose[:3, 3], focal, point, (height, width), in_ndc)

    # ---- Mitsuba

    @classmethod
    def from_mitsuba(
        cls,
        to_world: Any,
        *,
        width: int,
        height: int,
        type: str = "perspective",
        fov: float = 0.0,
        fov_axis: str = "x",
        principal_point_offset_x: float = 0.0,
        principal_point_offset_y: float = 0.0,
    ) -> Self:
        """A camera of Mitsuba's sensor.

        Args:
            to_world: (4, 4) numbers, camera to world: x left, y up, z forward. Of an orthographic sensor its scale is
                half the width of what is seen.
            width, height: of the film in pixels.
            type: "perspective" or "orthographic".
            fov: degrees, of a perspective sensor.
            fov_axis: what fov is measured along: "x", "y", "diagonal", "smaller" or "larger".
            principal_point_offset_x, principal_point_offset_y: of the film's size.

        Returns:
            the camera; near and far clip are dropped.

        Raises:
            ValueError: an unknown type or axis, fov out of range, or as for `Camera`.
            TypeError: as for `Camera`.
        """
        op = "Camera.from_mitsuba"
        axes: dict[str, float] = {"x": width, "y": height, "smaller": min(width, height), "larger": max(width, height)}
        axes["diagonal"] = math.hypot(width, height)
        if type not in ("perspective", "orthographic"):
            raise ValueError(message(op, "type", "'perspective' or 'orthographic'", repr(type)))
        if fov_axis not in axes:
            raise ValueError(message(op, "fov_axis", f"one of {', '.join(axes)}", repr(fov_axis)))
        matrix = _pose(op, "to_world", to_world)
        frame, eye = matrix[:3, :3], matrix[:3, 3]
        if type == "orthographic":
            scale = np.linalg.norm(frame, axis=0)
            if not scale.all():
                raise ValueError(message(op, "to_world", "a matrix that can be inverted", str(matrix.tolist())))
            frame, focal = frame / scale, 0.5 * width / scale[:2]
        else:
            if not 0 < fov < 180:
                raise ValueError(message(op, "fov", "degrees between 0 and 180", repr(fov)))
            focal = np.full(2, 0.5 * axes[fov_axis] / math.tan(math.radians(fov) / 2))
        cx, cy = (0.5 - principal_point_offset_x) * width, (0.5 - principal_point_offset_y) * height
        rotation = X_LEFT @ frame.T
        model = "orthographic" if type == "orthographic" else "pinhole"
        K = np.array([[focal[0], 0, cx], [0, focal[1], cy], [0, 0, 1]])
        return cls._of(rotation, -rotation @ eye, K, width=width, height=height, model=model)

    def to_mitsuba(self) -> Mitsuba:
        """The camera for Mitsuba: `mi.ScalarTransform4f(m.to_world)`, and a film of the same width and height.

        Raises:
            ValueError: distortion, skew, pixels that are not square (of a pinhole), or an image that is mirrored.
            TypeError: a field that tracks gradients.
        """
        op = "Camera.to_mitsuba"
        pose, K, _ = self._numbers("to_mitsuba", distorted=False, skewed=False)
        width, height = self._size
        fx, fy = K[0, 0], K[1, 1]
        if fx * fy < 0:
            raise ValueError(message(op, "K", "focal lengths of one sign", f"{fx:g} and {fy:g}"))
        offset = 0.5 - K[:2, 2] / (width, height)
        frame = np.linalg.inv(pose[:3, :3])
        eye = -frame @ pose[:3, 3]
        # Two negative focal lengths turn the image by half a turn about the axis.
        axes = frame @ (X_LEFT if fx > 0 else np.eye(3))
        if self._is_orthographic:
            half = 0.5 * width / abs(np.array([fx, fy]))
            # The sensor's axis goes through the middle of the film.
            eye = eye + frame @ [*((0.5 * np.array([width, height]) - K[:2, 2]) / (fx, fy)), 0]
            return Mitsuba("orthographic", _affine(np.column_stack([axes * [*half, 1], eye])), 0.0, "x", 0.0, 0.0)
        if abs(fx - fy) > SQUARE * abs(fx):
            raise ValueError(message(op, "K", "square pixels", f"focal lengths {fx:g} and {fy:g}"))
        fov = 2 * math.degrees(math.atan(0.5 * width / abs(fx)))
        return Mitsuba("perspective", _affine(np.column_stack([axes, eye])), fov, "x", *offset.tolist())

    # ---- both ways

    @classmethod
    def _of(
        cls, rotation: np.ndarray, translation: np.ndarray, K: np.ndarray, distortion: Any = None, **options: Any
    ) -> Self:
        pose = _affine(np.column_stack([rotation, translation]))
        return cls(pose, K, distortion=distortion, **options)  # pyright: ignore[reportCallIssue]

    @property
    def _is_orthographic(self: Any) -> bool:
        return self.model == "orthographic"

    @property
    def _size(self: Any) -> tuple[int, int]:
        return self.width, self.height

    def _numbers(
        self: Any, name: str, *, distorted: bool, skewed: bool, orthographic: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copies of pose, K and five numbers of distortion, if the other system can have them."""
        camera: Camera = self
        op = f"Camera.{name}"
        pose, K = camera_array(op, "world_to_camera", camera.world_to_camera), camera_array(op, "K", camera.K)
        lens = np.zeros(5)
        if camera.distortion is not None:
            given = camera_array(op, "distortion", camera.distortion)
            lens[: len(given)] = given
        if lens.any() and not distorted:
            raise ValueError(message(op, "distortion", "none, as the other system has none", str(lens.tolist())))
        if K[0, 1] != 0 and not skewed:
            raise ValueError(message(op, "K", "no skew, as the other system has none", f"{K[0, 1]:g}"))
        if camera.model == "orthographic" and not orthographic:
            raise ValueError(message(op, "model", "'pinhole', as the other system has no other", repr(camera.model)))
        return pose.copy(), K.copy(), lens


def _affine(rows: np.ndarray) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3] = rows
    return matrix


def _array(op: str, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = as_array(value, op=op, name=name, shape=shape, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(message(op, name, "finite numbers", str(array.tolist())))
    return array


def _pose(op: str, name: str, value: Any) -> np.ndarray:
    matrix = _array(op, name, value, (4, 4))
    if (matrix[3] != (0, 0, 0, 1)).any():
        raise ValueError(message(op, name, "the last row 0, 0, 0, 1", str(matrix[3].tolist())))
    return matrix


def _vector(op: str, name: str, value: Any, n: int) -> np.ndarray:
    """n numbers, also where they are a column or a row of a matrix."""
    array = imported(value)
    if array is not None and getattr(array, "ndim", 1) == 2 and 1 in array.shape:
        value = array.ravel()
    return _array(op, name, value, (n,))


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    w, *axis = quaternion
    length = math.hypot(*axis)
    if length == 0:
        return np.eye(3)
    return rotation_matrix(2 * math.atan2(length, w) / length * np.array(axis))
