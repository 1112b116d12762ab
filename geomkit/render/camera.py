"""A camera: where it is, what it sees, and the ray of each pixel."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from geomkit.arrays import as_array, frozen, imported, library_of, refuse_tracked, to_host, tracker_of
from geomkit.errors import MeshError, message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.render.conventions import Conventions
from geomkit.render.optics import MODELS, camera_array, check_intrinsics
from geomkit.render.pixel_rays import PixelRays, PixelWindow, pixel_rays
from geomkit.render.pose import pose
from geomkit.render.project_points import Projection, project_points

__all__ = ["Camera"]

ORTHONORMAL = 1e-4  # largest entry of R R^T - 1: matrices of float32 and of text files with five digits pass
PARALLEL = 1e-6  # sine of the angle between the view and `up` from which on there is no telling what is right
MARGIN = 1.04  # the distance of a framing camera over that at which the bounding sphere touches the image's sides
ARRAYS = ("world_to_camera", "K", "distortion")


@dataclass(frozen=True, eq=False, repr=False)
class Camera(Conventions):
    """A pinhole or an orthographic camera.

    Its axes are OpenCV's: x to the right, y down, z forward, in a right-handed world. Pixel (column i, row j) has its
    centre at (i + 0.5, j + 0.5), row 0 is on top: a principal point of OpenCV, which counts from the centre of the
    first pixel, needs 0.5 added (`from_opencv` does). Make one from matrices, by `look_at`, `orthographic` or
    `framing`, or from another system's numbers: `from_opencv`, `from_opengl`, `from_colmap`, `from_pytorch3d`,
    `from_mitsuba`, and back by `to_opencv` and so on.

    Lists and NumPy's arrays are kept in float64 and read-only. Arrays of torch, JAX, CuPy or a tape are kept as given:
    rays are then of that library, and `rays` and `project` send gradients to them. The pose's entries count as free
    numbers there: to optimise where a camera is, use `moved`, or `gk.pose`.

    Args:
        world_to_camera: (4, 4) numbers [[R, t], [0, 0, 0, 1]] that take a point of the world, a column (x, y, z, 1), to
            the camera's axes, in the mesh's length unit. R is a rotation.
        K: (3, 3) numbers [[fx, skew, cx], [0, fy, cy], [0, 0, 1]] in pixels; for an orthographic camera fx, fy and skew
            are in pixels per unit of length. A negative focal length is taken: fx < 0 mirrors the image left to right,
            fy < 0 top to bottom, which is how other conventions are often written.
        width, height: of the image in pixels.
        distortion: k1, k2, p1, p2 or k1, k2, p1, p2, k3 of Brown and Conrady, in OpenCV's order; None is zeros.
        model: "pinhole" or "orthographic".

    Raises:
        ValueError: wrong shapes, numbers that are not finite, R no rotation (a mirrored one, of determinant -1,
            included), a focal length of zero, a wrong last row, a size less than one pixel, an unknown model.
        TypeError: entries that are no numbers.

    Example:
        >>> camera = Camera(np.eye(4), [[100, 0, 32], [0, 100, 24], [0, 0, 1]], width=64, height=48)
        >>> camera.project([[0.1, 0.0, 1.0]]).pixel.tolist()
        [[42.0, 24.0]]
    """

    world_to_camera: Any
    K: Any
    width: int = field(kw_only=True)
    height: int = field(kw_only=True)
    distortion: Any = field(default=None, kw_only=True)
    model: str = field(default="pinhole", kw_only=True)

    def __post_init__(self) -> None:
        for name in ARRAYS:
            value = getattr(self, name)
            if value is None and name == "distortion" or tracker_of(value) == "jax":
                continue  # (What jax traces has no values to look at.)
            numbers = camera_array("Camera", name, imported(value) if tracker_of(value) else value)
            own = not tracker_of(value) and library_of(value).name == "numpy"
            if name == "world_to_camera":
                _check_rotation(numbers[:3, :3])
            if name == "K":
                check_intrinsics("Camera", numbers)
            if own:
                object.__setattr__(self, name, frozen(numbers.copy()))
        if self.model not in MODELS:
            raise ValueError(message("Camera", "model", "'pinhole' or 'orthographic'", repr(self.model)))
        for name in ("width", "height"):
            object.__setattr__(self, name, _pixels("Camera", name, getattr(self, name)))

    def __repr__(self) -> str:
        size = f"Camera({self.width} x {self.height}"
        if "jax" in (tracker_of(self.world_to_camera), tracker_of(self.K)):
            return f"{size}, traced by jax)"
        K = self._numbers_of("K")
        eye = ", ".join(f"{x:g}" for x in self.eye)
        kind = ", orthographic" if self.model == "orthographic" else ""
        lens = "" if self.distortion is None else ", distorted"
        return f"{size}, at [{eye}], fx {K[0, 0]:g}, fy {K[1, 1]:g}{kind}{lens})"

    # ---- other ways to make one

    @classmethod
    def look_at(cls, eye: Any, target: Any, up: Any = (0, 1, 0), *, fov: float, width: int, height: int) -> Camera:
        """A camera at one point that has another in the middle of its image.

        Pixels are square, and the principal point is the image's middle.

        Args:
            eye: (3,) numbers, where the camera is.
            target: (3,) numbers, what it looks at.
            up: (3,) numbers, a direction that is upwards in the image.
            fov: the vertical field of view, in degrees, between 0 and 180.
            width, height: of the image in pixels.

        Returns:
            the camera.

        Raises:
            ValueError: eye and target are the same, up is zero or along the view, fov out of range, or as for `Camera`.
            TypeError: as for `Camera`.

        Example:
            >>> camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=60, width=64, height=48)
            >>> camera
            Camera(64 x 48, at [0, 0, 4], fx 41.5692, fy 41.5692)
            >>> camera.project([[0.0, 0.0, 0.0]]).depth.tolist()
            [4.0]
        """
        op = "Camera.look_at"
        height = _pixels(op, "height", height)
        focal = 0.5 * height / _half_extent(op, fov)
        return cls._looking(op, eye, target, up, focal, width=width, height=height)

    @classmethod
    def orthographic(
        cls, eye: Any, target: Any, up: Any = (0, 1, 0), *, extent: float, width: int, height: int
    ) -> Camera:
        """A camera without perspective that has a point in the middle of its image.

        Args:
            eye: (3,) numbers, where the camera's plane is; rays start in it.
            target: (3,) numbers, what it looks at.
            up: (3,) numbers, a direction that is upwards in the image.
            extent: the height of what the image shows, in the mesh's length unit.
            width, height: of the image in pixels.

        Returns:
            the camera.

        Raises:
            ValueError: as `look_at`; extent that is not positive.
            TypeError: as for `Camera`.

        Example:
            >>> camera = Camera.orthographic((0, 0, 4), (0, 0, 0), extent=2, width=64, height=64)
            >>> camera.project([[0.5, 0.0, 0.0], [0.5, 0.0, 3.0]]).pixel.tolist()
            [[48.0, 32.0], [48.0, 32.0]]
        """
        op = "Camera.orthographic"
        height = _pixels(op, "height", height)
        refuse_tracked(extent, op=op, name="extent")
        if not 0 < extent < math.inf:
            raise ValueError(message(op, "extent", "a positive length", repr(extent)))
        return cls._looking(op, eye, target, up, height / extent, width=width, height=height, model="orthographic")

    @classmethod
    def _looking(
        cls, op: str, eye: Any, target: Any, up: Any, focal: float, *, width: int, height: int, model: str = "pinhole"
    ) -> Camera:
        eye, target, up = (_numbers(op, *x, (3,)) for x in (("eye", eye), ("target", target), ("up", up)))
        width = _pixels(op, "width", width)
        if math.hypot(*(target - eye)) == 0:
            raise ValueError(message(op, "target", "another point than eye", str(target.tolist())))
        if math.hypot(*up) == 0:
            raise ValueError(message(op, "up", "a direction", str(up.tolist())))
        forward = _unit(target - eye)
        right = np.cross(forward, _unit(up))
        if math.hypot(*right) < PARALLEL:
            raise ValueError(message(op, "up", "another direction than that of the view", str(up.tolist())))
        right = _unit(right)
        matrix = np.eye(4)
        matrix[:3, :3] = right, np.cross(forward, right), forward
        matrix[:3, 3] = -matrix[:3, :3] @ eye
        intrinsics = [[focal, 0, 0.5 * width], [0, focal, 0.5 * height], [0, 0, 1]]
        return cls(matrix, intrinsics, width=width, height=height, model=model)

    @classmethod
    def framing(
        cls,
        mesh: Mesh,
        *,
        width: int,
        height: int,
        fov: float = 40.0,
        azimuth: float = 30.0,
        elevation: float = 20.0,
        up: Any = (0, 1, 0),
        model: str = "pinhole",
    ) -> Camera:
        """A camera that has a whole mesh in its image.

        It looks at the middle of the mesh's box, from where the sphere about it that holds all faces just fits between
        the nearer sides of the image: the distance is the same from all sides, as a turntable needs.

        Args:
            mesh: a Mesh, or any object with `.vertices` and `.faces`.
            width, height: of the image in pixels.
            fov: the vertical field of view, in degrees, between 0 and 180.
            azimuth: degrees about `up`, counter-clockwise from above. With up = y, 0 looks from +z and 90 from +x; with
                up = z, 0 looks from -y and 90 from +x.
            elevation: degrees above the mesh's horizon; at 90, straight from above, the azimuth says what is on top.
            up: (3,) numbers, a direction that is upwards in the image.
            model: "pinhole" or "orthographic"; the latter from the same place, whatever the field of view.

        Returns:
            the camera.

        Raises:
            ValueError: an angle that is not finite or out of range, up is zero, or as for `Camera`.
            MeshError: the mesh has no faces, or is a single point.
            TypeError: as for `Camera`, or an object that is no mesh.

        Cost: O(V + F).

        Example:
            >>> from geomkit.mesh.shapes import icosphere
            >>> camera = Camera.framing(icosphere(), width=64, height=64, azimuth=90, elevation=0)
            >>> camera.eye.round(3).tolist()
            [3.041, 0.0, 0.0]
        """
        op, mesh = "Camera.framing", as_mesh(mesh)
        upwards = _numbers(op, "up", up, (3,))
        if math.hypot(*upwards) == 0:
            raise ValueError(message(op, "up", "a direction", str(upwards.tolist())))
        if not math.isfinite(azimuth):
            raise ValueError(message(op, "azimuth", "a finite number of degrees", repr(azimuth)))
        if not -90 <= elevation <= 90:
            raise ValueError(message(op, "elevation", "degrees in [-90, 90]", repr(elevation)))
        width, height = _pixels(op, "width", width), _pixels(op, "height", height)
        extent = _half_extent(op, fov)
        radius = _radius(op, mesh)
        distance = MARGIN * radius / math.sin(math.atan(extent * min(1.0, width / height)))
        # Elevation moves the camera along a meridian, whose direction is upwards in the image, at the poles too.
        side, top, front = _frame(_unit(upwards))
        (s, c), (se, ce) = ((math.sin(a), math.cos(a)) for a in (math.radians(azimuth), math.radians(elevation)))
        outwards = s * side + c * front
        eye = mesh.center + distance * (ce * outwards + se * top)
        meridian = ce * top - se * outwards
        focal = 0.5 * height / extent
        if model == "orthographic":
            focal = 0.5 * min(width, height) / (MARGIN * radius)
        return cls._looking(op, eye, mesh.center, meridian, focal, width=width, height=height, model=model)

    def moved(self, rotation_vector: Any, translation: Any) -> Camera:
        """The same camera, turned and shifted: six numbers in which to optimise where it is.

        Args:
            rotation_vector, translation: (3,) numbers in the camera's axes, as `gk.pose` takes them: what the camera
                sees is turned, then shifted. Zeros change nothing.

        Returns:
            the camera, which gradients of the six numbers run through.

        Raises:
            ValueError, TypeError: as `gk.pose`.

        Example:
            >>> camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=60, width=64, height=48)
            >>> camera.moved([0, 0, 0], [0, 0, 1]).eye.tolist()
            [0.0, 0.0, 5.0]
        """
        return replace(self, world_to_camera=pose(rotation_vector, translation, base=self.world_to_camera))

    def detach(self) -> Camera:
        """The same camera as plain numbers, through which no gradients are followed."""
        plain = {name: self._numbers_of(name) for name in ARRAYS if getattr(self, name) is not None}
        return replace(self, **plain)

    # ---- what it sees

    @property
    def eye(self) -> np.ndarray:
        """(3,) float64, where the camera is; no gradients are followed through it."""
        matrix = self._numbers_of("world_to_camera")
        return np.linalg.inv(matrix[:3, :3]) @ -matrix[:3, 3] + 0.0

    def rays(
        self,
        *,
        rows: tuple[int, int] | None = None,
        columns: tuple[int, int] | None = None,
        samples: int = 1,
        dtype: DTypeLike = np.float32,
        device: str = "cpu",
    ) -> PixelRays:
        """The ray through the centre of each pixel, row by row from the upper left.

        A direction has not length one: its part along the camera's z axis is one, so that t of a hit is its depth.

        Args:
            rows: (first, last + 1) of the rows wanted, for one part of a large image at a time; all if None.
            columns: (first, last + 1) of the columns wanted, likewise.
            samples: rays along each side of a pixel, samples^2 in all, at (i + 0.5) / samples of it. Those of one pixel
                follow one another, row by row: what they see becomes (rows, columns, samples^2, ...) by a reshape.
            dtype: numpy.float32 or numpy.float64; that of the mesh serves best.
            device: "cpu" for NumPy arrays, "cuda" for CuPy's. A camera of torch's, JAX's or CuPy's arrays has its rays
                in their library, where they are.

        Returns:
            A record of `.origins` and `.directions`, (N, 3), N = rows * columns * samples^2. A direction is NaN where a
            strong distortion shows nothing.

        Gradients:
            world_to_camera, K and distortion, where they track gradients or a tape records.

        Raises:
            ValueError: rows or columns outside the image, samples less than one, another dtype or device.

        Cost: one launch, O(N).

        Example:
            >>> camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=90, width=2, height=2)
            >>> origins, directions = camera.rays()
            >>> directions.tolist()
            [[-0.5, 0.5, -1.0], [0.5, 0.5, -1.0], [-0.5, -0.5, -1.0], [0.5, -0.5, -1.0]]
        """
        op = "Camera.rays"
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(message(op, "dtype", "float32 or float64", str(np.dtype(dtype))))
        if device not in ("cpu", "cuda"):
            raise ValueError(message(op, "device", "'cpu' or 'cuda'", repr(device)))
        top, bottom = _part(op, "rows", rows, self.height)
        left, right = _part(op, "columns", columns, self.width)
        samples = _pixels(op, "samples", samples)
        window = PixelWindow(left, top, right - left, bottom - top, samples, np.dtype(dtype), device)
        return pixel_rays(window, self.world_to_camera, self.K, self.distortion, model=self.model)

    def project(self, points: Any) -> Projection:
        """Where points are seen in the image; those outside of it have a pixel too.

        Args:
            points: (N, 3) numbers of any array library, in the mesh's length unit.

        Returns:
            A record in the library of `points`, float64 if they are, else float32: `.pixel` (N, 2), x to the right and
            y down from the image's upper left corner, NaN for a point that is not in front of a pinhole; `.depth` (N,)
            along the camera's z axis. See `gk.project_points`.

        Gradients:
            points, world_to_camera, K and distortion, where they track gradients or a tape records.

        Raises:
            ValueError: wrong shape.
            TypeError: wrong dtype.

        Example:
            >>> camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=90, width=64, height=64)
            >>> camera.project([[0.0, 1.0, 0.0], [0.0, 0.0, 9.0]]).pixel.tolist()
            [[32.0, 24.0], [nan, nan]]
        """
        return project_points(points, self.world_to_camera, self.K, self.distortion, model=self.model)

    def _numbers_of(self, name: str) -> np.ndarray:
        """The values of a field now, also where gradients are followed through it."""
        value = getattr(self, name)
        if tracker_of(value) == "jax":
            expected = "values (pass the camera to a primitive, or do not jit)"
            raise TypeError(message("Camera", name, expected, "an array that jax traces"))
        return camera_array("Camera", name, imported(value))


def _check_rotation(rotation: np.ndarray) -> None:
    off = float(abs(rotation @ rotation.T - np.eye(3)).max())
    if off > ORTHONORMAL:
        got = f"R with R R^T off the identity by {off:.3g}"
        raise ValueError(message("Camera", "world_to_camera", "a rotation in [:3, :3]", got))
    if np.linalg.det(rotation) < 0:
        raise ValueError(message("Camera", "world_to_camera", "a rotation in [:3, :3]", "a mirrored one"))


def _part(op: str, name: str, part: tuple[int, int] | None, whole: int) -> tuple[int, int]:
    """First and last + 1 of the rows or columns asked for."""
    first, end = (0, whole) if part is None else map(operator.index, part)
    if not 0 <= first <= end <= whole:
        raise ValueError(message(op, name, f"(first, end) within (0, {whole})", str(part)))
    return first, end


def _numbers(op: str, name: str, x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of the input in float64, all of it finite."""
    array = as_array(x, op=op, name=name, shape=shape, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(message(op, name, "finite numbers", str(array.tolist())))
    return array.copy()


def _pixels(op: str, name: str, n: Any) -> int:
    try:
        number = operator.index(n)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(message(op, name, "an integer of at least 1", repr(n)))
    return number


def _half_extent(op: str, fov: float) -> float:
    """Half the image's height at distance one."""
    refuse_tracked(fov, op=op, name="fov")
    if not 0 < fov < 180:
        raise ValueError(message(op, "fov", "degrees between 0 and 180", repr(fov)))
    return math.tan(math.radians(fov) / 2)


def _unit(v: np.ndarray) -> np.ndarray:
    return v / math.hypot(*v)


def _frame(up: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where x, y and z go by the smallest rotation that takes y to `up`; half a turn about z takes it to -y."""
    x, y, z = np.eye(3)
    # 1 + up[1], which would cancel below the horizon.
    scale = 1 + up[1] if up[1] >= 0 else (up[0] ** 2 + up[2] ** 2) / (1 - up[1])
    if scale == 0:
        return -x, up, z
    return x - up[0] / scale * (y + up), up, z - up[2] / scale * (y + up)


def _radius(op: str, mesh: Mesh) -> float:
    """Of the sphere about the middle of the mesh's box that holds all faces."""
    if not mesh.n_faces:
        raise MeshError(message(op, "mesh", "at least one face", "none"))
    used = np.zeros(mesh.n_vertices, bool)
    used[to_host(mesh.faces_array)] = True
    offset = to_host(mesh.vertices_array)[used].astype(np.float64) - mesh.center
    radius = float(np.linalg.norm(offset, axis=1).max())
    if radius == 0:
        raise MeshError(message(op, "mesh", "faces of some extent", f"all at {mesh.center.tolist()}"))
    return radius
