"""A pinhole camera: where it is, what it sees, and the ray of each pixel."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from geomkit.arrays import as_array, frozen, library_of, precision_of, to_host
from geomkit.errors import MeshError, message
from geomkit.mesh.mesh import Mesh, as_mesh

__all__ = ["Camera", "Projection"]

ORTHONORMAL = 1e-4  # largest entry of R R^T - 1: matrices of float32 and of text files with five digits pass
PARALLEL = 1e-6  # sine of the angle between the view and `up` from which on there is no telling what is right
MARGIN = 1.04  # the distance of a framing camera over that at which the bounding sphere touches the image's sides


class Projection(NamedTuple):
    """Where N points are seen."""

    pixel: Any  # (N, 2) x to the right and y down, in pixels from the image's upper left corner; NaN behind the camera
    depth: Any  # (N,) along the camera's z axis; not positive behind the camera


@dataclass(frozen=True, eq=False, repr=False)
class Camera:
    """A pinhole camera.

    Its axes are OpenCV's: x to the right, y down, z forward, in a right-handed world. Pixel (column i, row j) has its
    centre at (i + 0.5, j + 0.5), row 0 is on top: a principal point of OpenCV, which counts from the centre of the
    first pixel, needs 0.5 added. Numbers are kept in float64, as read-only NumPy arrays. Make one from matrices, or by
    `Camera.look_at` or `Camera.framing`.

    Args:
        world_to_camera: (4, 4) numbers [[R, t], [0, 0, 0, 1]] that take a point of the world, a column (x, y, z, 1), to
            the camera's axes, in the mesh's length unit. R is a rotation.
        K: (3, 3) numbers [[fx, skew, cx], [0, fy, cy], [0, 0, 1]] in pixels. A negative focal length is taken: fx < 0
            mirrors the image left to right, fy < 0 top to bottom, which is how other conventions are often written.
        width, height: of the image in pixels.

    Raises:
        ValueError: wrong shapes, numbers that are not finite, R no rotation (a mirrored one, of determinant -1,
            included), a focal length of zero, a wrong last row, a size less than one pixel.
        TypeError: entries that are no numbers, or an input that tracks gradients.

    Example:
        >>> camera = Camera(np.eye(4), [[100, 0, 32], [0, 100, 24], [0, 0, 1]], width=64, height=48)
        >>> camera.project([[0.1, 0.0, 1.0]]).pixel.tolist()
        [[42.0, 24.0]]
    """

    world_to_camera: Any
    K: Any
    width: int = field(kw_only=True)
    height: int = field(kw_only=True)

    def __post_init__(self) -> None:
        pose = _numbers("Camera", "world_to_camera", self.world_to_camera, (4, 4))
        rotation = pose[:3, :3]
        if (pose[3] != (0, 0, 0, 1)).any():
            raise ValueError(message("Camera", "world_to_camera", "the last row 0, 0, 0, 1", str(pose[3].tolist())))
        off = float(abs(rotation @ rotation.T - np.eye(3)).max())
        if off > ORTHONORMAL:
            got = f"R with R R^T off the identity by {off:.3g}"
            raise ValueError(message("Camera", "world_to_camera", "a rotation in [:3, :3]", got))
        if np.linalg.det(rotation) < 0:
            raise ValueError(message("Camera", "world_to_camera", "a rotation in [:3, :3]", "a mirrored one"))
        intrinsics = _numbers("Camera", "K", self.K, (3, 3))
        if intrinsics[1, 0] != 0 or (intrinsics[2] != (0, 0, 1)).any():
            raise ValueError(message("Camera", "K", "[[fx, skew, cx], [0, fy, cy], [0, 0, 1]]", str(self.K)))
        if intrinsics[0, 0] == 0 or intrinsics[1, 1] == 0:
            focal = f"{intrinsics[0, 0]:g} and {intrinsics[1, 1]:g}"
            raise ValueError(message("Camera", "K", "focal lengths other than zero", focal))
        for name, value in (("world_to_camera", pose), ("K", intrinsics)):
            object.__setattr__(self, name, frozen(value))
        for name in ("width", "height"):
            object.__setattr__(self, name, _pixels("Camera", name, getattr(self, name)))

    def __repr__(self) -> str:
        eye = ", ".join(f"{x:g}" for x in self.eye)
        return f"Camera({self.width} x {self.height}, at [{eye}], fx {self.K[0, 0]:g}, fy {self.K[1, 1]:g})"

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
        eye, target, up = (_numbers(op, *x, (3,)) for x in (("eye", eye), ("target", target), ("up", up)))
        width, height = _pixels(op, "width", width), _pixels(op, "height", height)
        focal = 0.5 * height / _half_extent(op, fov)
        if math.hypot(*(target - eye)) == 0:
            raise ValueError(message(op, "target", "another point than eye", str(target.tolist())))
        if math.hypot(*up) == 0:
            raise ValueError(message(op, "up", "a direction", str(up.tolist())))
        forward = _unit(target - eye)
        right = np.cross(forward, _unit(up))
        if math.hypot(*right) < PARALLEL:
            raise ValueError(message(op, "up", "another direction than that of the view", str(up.tolist())))
        right = _unit(right)
        pose = np.eye(4)
        pose[:3, :3] = right, np.cross(forward, right), forward
        pose[:3, 3] = -pose[:3, :3] @ eye
        intrinsics = [[focal, 0, 0.5 * width], [0, focal, 0.5 * height], [0, 0, 1]]
        return cls(pose, intrinsics, width=width, height=height)

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
        return cls.look_at(eye, mesh.center, meridian, fov=fov, width=width, height=height)

    # ---- what it sees

    @property
    def eye(self) -> np.ndarray:
        """(3,) float64, where the camera is."""
        return self._camera_to_world() @ -self.world_to_camera[:3, 3] + 0.0

    def rays(self, *, rows: tuple[int, int] | None = None, dtype: DTypeLike = np.float32) -> tuple[Any, Any]:
        """The ray through the centre of each pixel, row by row from the upper left.

        A direction has not length one: its part along the camera's z axis is one, so that t of a hit is its depth.

        Args:
            rows: (first, last + 1) of the rows wanted, for one part of a large image at a time; all if None.
            dtype: numpy.float32 or numpy.float64; that of the mesh serves best.

        Returns:
            origins (N, 3), all the same, and directions (N, 3), NumPy arrays; N = rows * width.

        Raises:
            ValueError: rows outside the image, or another dtype.

        Example:
            >>> camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=90, width=2, height=2)
            >>> origins, directions = camera.rays()
            >>> directions.tolist()
            [[-0.5, 0.5, -1.0], [0.5, 0.5, -1.0], [-0.5, -0.5, -1.0], [0.5, -0.5, -1.0]]
        """
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(message("Camera.rays", "dtype", "float32 or float64", str(np.dtype(dtype))))
        first, end = (0, self.height) if rows is None else map(operator.index, rows)
        if not 0 <= first <= end <= self.height:
            raise ValueError(message("Camera.rays", "rows", f"(first, end) within (0, {self.height})", str(rows)))
        (fx, skew, cx), (_, fy, cy), _ = self.K
        x = (np.arange(self.width) + 0.5 - cx) / fx
        y = (np.arange(first, end) + 0.5 - cy) / fy
        axes = self._camera_to_world().T
        of_column = x[:, None] * axes[0]
        of_row = y[:, None] * (axes[1] - skew / fx * axes[0]) + axes[2]
        origins, directions = (np.empty((len(y), len(x), 3), dtype) for _ in range(2))
        origins[:] = self.eye
        np.add(of_column, of_row[:, None], out=directions, casting="same_kind")
        return origins.reshape(-1, 3), directions.reshape(-1, 3)

    def project(self, points: Any) -> Projection:
        """Where points are seen in the image; those outside of it have a pixel too.

        Args:
            points: (N, 3) numbers of any array library, in the mesh's length unit.

        Returns:
            A record in the library of `points`, float64 if they are, else float32: `.pixel` (N, 2), x to the right and
            y down from the image's upper left corner, NaN for a point that is not in front of the camera; `.depth`
            (N,) along the camera's z axis.

        Raises:
            ValueError: wrong shape.
            TypeError: wrong dtype, or an input that tracks gradients.

        Example:
            >>> camera = Camera.look_at((0, 0, 4), (0, 0, 0), fov=90, width=64, height=48)
            >>> camera.project([[0.0, 1.0, 0.0], [0.0, 0.0, 9.0]]).pixel.tolist()
            [[32.0, 18.0], [nan, nan]]
        """
        library, dtype = library_of(points), precision_of(points)
        at = as_array(points, op="Camera.project", name="points", shape=("N", 3), dtype=np.float64)
        x, y, depth = self.world_to_camera[:3, :3] @ at.T + self.world_to_camera[:3, 3:]
        z = np.where(depth > 0, depth, np.nan)
        pixel = np.stack([x / z, y / z, np.ones_like(z)], axis=1) @ self.K[:2].T
        return Projection(library.wrap(pixel.astype(dtype)), library.wrap(depth.astype(dtype)))

    def _camera_to_world(self) -> np.ndarray:
        """(3, 3), the inverse and not the transpose: rays are then where points project, whatever the digits of R."""
        return np.linalg.inv(self.world_to_camera[:3, :3])


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
