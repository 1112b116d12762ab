"""The ray of each pixel: forward and adjoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.render.optics import SUM_BLOCK, Optics, added, results_library
from geomkit.runtime.device import address, empty, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["PixelRayGradients", "PixelRays", "PixelWindow", "pixel_rays"]

_SOURCE = "render/camera.cu"
_PIXELS = "int block, int count, Camera camera, Pixels pixels"

camera_rays_fwd = Kernel(_SOURCE, "camera_rays_fwd", f"{_PIXELS}, real* origins, real* directions", grain=1)
camera_rays_adj = Kernel(
    _SOURCE,
    "camera_rays_adj",
    f"{_PIXELS}, const real* adj_origins, const real* adj_directions, real* adj_pixels, double* sums",
    grain=4,
)

BLOCK = 2048  # pixels that a thread of the CPU takes at a time


class PixelRays(NamedTuple):
    """The rays of N pixels."""

    origins: Any  # (N, 3)
    directions: Any  # (N, 3) not of length one: their part along the camera's z axis is one


class PixelRayGradients(NamedTuple):
    """Gradients of rays."""

    pixels: Any  # (N, 2); None where the pixels are those of a window
    world_to_camera: Any  # (4, 4), the last row zero
    K: Any  # (3, 3), zero but for fx, skew, cx, fy and cy
    distortion: Any  # as given; None without one


@dataclass(frozen=True)
class PixelWindow:
    """All pixels of a part of an image, row by row, without a list of them.

    Where there are samples x samples in a pixel, those of one pixel follow one another, row by row, at (i + 0.5) /
    samples of its side.
    """

    left: int
    top: int
    columns: int
    rows: int
    samples: int = 1
    dtype: np.dtype = np.dtype(np.float32)
    device: str = "cpu"

    def __len__(self) -> int:
        return self.columns * self.rows * self.samples**2


class _Query:
    def __init__(self, pixels: Any, world_to_camera: Any, K: Any, distortion: Any, model: str):
        op, cameras = "pixel_rays", (world_to_camera, K, distortion)
        self.optics = Optics(op, results_library(pixels, *cameras), *cameras, model)
        self.dtype, self.device, self.library = precision_of(pixels), self.optics.device, self.optics.library
        self.is_window = isinstance(pixels, PixelWindow)
        if self.is_window:
            self.array, self.n = None, len(pixels)
            place = pixels.left, pixels.top, pixels.columns, pixels.samples
        else:
            self.array = self.optics.array("pixels", pixels, ("N", 2), self.dtype)
            self.n, place = len(self.array), (0, 0, 1, 1)
        self.camera, self.pixels = self.optics.struct(self.dtype), PixelsStruct(self, place)

    def cotangent(self, name: str, value: Any) -> Any:
        if value is None:
            return zeros(self.device, (self.n, 3), self.dtype)
        return self.optics.array(name, value, (self.n, 3), self.dtype)


class PixelsStruct:
    """The structure `Pixels` of the kernels, for one launch."""

    def __init__(self, q: _Query, place: tuple[int, ...]):
        self.dtype, self.device = q.dtype, q.device
        self.fields = (address(q.array), *place)


@primitive(
    differentiable=("pixels", "world_to_camera", "K", "distortion"),
    outputs={"origins": "real N 3", "directions": "real N 3"},
)
def pixel_rays(
    pixels: Any, world_to_camera: Any, K: Any, distortion: Any = None, *, model: str = "pinhole"
) -> PixelRays:
    """The ray on which all points lie that a camera sees at a pixel.

    The inverse of `project_points`; `Camera.rays` calls it for the pixels of an image. The image's upper left corner is
    (0, 0), the centre of the first pixel (0.5, 0.5).

    Args:
        pixels: (N, 2) numbers of any array library, x to the right and y down; or what `Camera` asks with, a
            PixelWindow.
        world_to_camera: (4, 4) numbers [[R, t], [0, 0, 0, 1]], to OpenCV's axes: x right, y down, z forward.
        K: (3, 3) numbers [[fx, skew, cx], [0, fy, cy], [0, 0, 1]], in pixels; for an orthographic camera fx, fy and
            skew are in pixels per unit of length.
        distortion: k1, k2, p1, p2 or k1, k2, p1, p2, k3 of Brown and Conrady, in OpenCV's order; None is zeros.
        model: "pinhole" or "orthographic".

    Returns:
        A record in the library of the arguments, float64 if the pixels are, else float32: `.origins` (N, 3), the
        camera's place, or for an orthographic one a point of its plane z = 0; `.directions` (N, 3), whose part along
        the camera's z axis is one, so that t of a hit is its depth. NaN for a pixel at which the lens shows nothing, as
        beyond the circle that a strong negative k1 leaves.

    Gradients:
        pixels, world_to_camera, K and distortion, through both outputs. The entries of [R, t] count as 12 free numbers;
        the other rows and entries get zero. For a pose to be optimised use `pose`, which keeps R a rotation. The
        derivative of the undistorted point is that of the implicit function. Where there is no ray, none.

    Raises:
        ValueError: wrong shape, a camera's numbers that are not finite, a matrix that cannot be inverted, a focal
            length of zero, an unknown model.
        TypeError: wrong dtype.

    Cost: one launch, O(N); computed in float64 and rounded once.   Source: Brown (1966); terms as in OpenCV.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> rays = gk.pixel_rays([[42.0, 24.0]], np.eye(4), [[100, 0, 32], [0, 100, 24], [0, 0, 1]])
        >>> rays.directions.round(3).tolist()
        [[0.10000000149011612, 0.0, 1.0]]
    """
    q = _Query(pixels, world_to_camera, K, distortion, model)
    origins, directions = (empty(q.device, (q.n, 3), q.dtype) for _ in range(2))
    block = BLOCK if q.device == "cpu" else 1
    camera_rays_fwd(-(-q.n // block), block, q.n, q.camera, q.pixels, origins, directions)
    return PixelRays(q.library.wrap(origins), q.library.wrap(directions))


@pixel_rays.define_adjoint
def pixel_rays_adjoint(
    pixels: Any,
    world_to_camera: Any,
    K: Any,
    distortion: Any = None,
    *,
    model: str = "pinhole",
    adj_origins: Any = None,
    adj_directions: Any = None,
) -> PixelRayGradients:
    """Gradients of `pixel_rays`: cotangents of origins and directions to the pixels and the camera.

    Args:
        pixels, world_to_camera, K, distortion, model: as given to `pixel_rays`.
        adj_origins: (N, 3) cotangent of the origins; None is zero.
        adj_directions: (N, 3) cotangent of the directions; None is zero.

    Returns:
        A record of `.pixels` (N, 2), `.world_to_camera` (4, 4), `.K` (3, 3) and `.distortion`, in the library of the
        arguments.

    Raises:
        ValueError, TypeError: as `pixel_rays`; a cotangent of the wrong shape; neither cotangent given.

    Cost: one launch, O(N). Sums over the pixels are taken in float64, in blocks of 256: the same bits whatever the
    number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> K = [[100, 0, 32], [0, 100, 24], [0, 0, 1]]
        >>> gradient = gk.pixel_rays.adjoint(np.array([[42.0, 24.0]]), np.eye(4), K, adj_directions=[[1.0, 0, 0]])
        >>> gradient.pixels.tolist(), gradient.K[0].round(5).tolist()
        ([[0.01, 0.0]], [-0.001, 0.0, -0.01])
    """
    if adj_origins is None and adj_directions is None:
        raise ValueError(message("pixel_rays.adjoint", "adj_origins, adj_directions", "at least one", "None"))
    q = _Query(pixels, world_to_camera, K, distortion, model)
    q.optics.op = "pixel_rays.adjoint"
    adj_origins, adj_directions = q.cotangent("adj_origins", adj_origins), q.cotangent("adj_directions", adj_directions)
    adj_pixels = empty(q.device, (0 if q.is_window else q.n, 2), q.dtype)
    blocks, sums = q.optics.sums(q.n)
    camera_rays_adj(blocks, SUM_BLOCK, q.n, q.camera, q.pixels, adj_origins, adj_directions, adj_pixels, sums)
    total = added(sums)
    camera = q.optics.gradients(adj_pose(q.optics, total[:12].reshape(3, 4)), total[12:], q.dtype)
    return PixelRayGradients(None if q.is_window else q.library.wrap(adj_pixels), *camera)


def adj_pose(optics: Optics, sums: np.ndarray) -> np.ndarray:
    """The cotangent of [R | t] from what the kernel adds up: (3, 3) for the slanted vector of each ray, (3,) the other.

    With A the inverse of R a pinhole's ray is A (x, y, 1) from A (-t), an orthographic one's A (0, 0, 1) from
    A ((x, y, 0) - t).
    """
    slanted, other = sums[:, :3].copy(), sums[:, 3]
    t, origin = optics.pose[:3, 3], other
    if optics.orthographic:
        origin = slanted[:, 2].copy()
        slanted[:, 2] = other
    adj_inverse = slanted - np.outer(origin, t)
    transposed = optics.inverse.T
    return np.concatenate([-transposed @ adj_inverse @ transposed, -(transposed @ origin)[:, None]], axis=1)
