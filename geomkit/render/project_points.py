"""Where a camera sees points: forward and adjoint."""

from __future__ import annotations

from typing import Any, NamedTuple

from geomkit.arrays import precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.render.optics import SUM_BLOCK, Optics, added, results_library
from geomkit.runtime.device import empty, zeros
from geomkit.runtime.kernel import Kernel

__all__ = ["Projection", "ProjectionGradients", "project_points"]

_SOURCE = "render/camera.cu"

project_fwd = Kernel(_SOURCE, "project_fwd", "Camera camera, const real* points, real* pixel, real* depth")
project_adj = Kernel(
    _SOURCE,
    "project_adj",
    "int block, int count, Camera camera, const real* points, const real* adj_pixel, const real* adj_depth, "
    "real* adj_points, double* sums",
    grain=4,
)


class Projection(NamedTuple):
    """Where N points are seen."""

    pixel: Any  # (N, 2) x to the right and y down, in pixels from the image's upper left corner; NaN for no pixel
    depth: Any  # (N,) along the camera's z axis; not positive behind the camera


class ProjectionGradients(NamedTuple):
    """Gradients of a projection."""

    points: Any  # (N, 3)
    world_to_camera: Any  # (4, 4), the last row zero
    K: Any  # (3, 3), zero but for fx, skew, cx, fy and cy
    distortion: Any  # as given; None without one


class _Query:
    def __init__(self, points: Any, world_to_camera: Any, K: Any, distortion: Any, model: str):
        op, cameras = "project_points", (world_to_camera, K, distortion)
        self.optics = Optics(op, results_library(points, *cameras), *cameras, model)
        self.dtype, self.device, self.library = precision_of(points), self.optics.device, self.optics.library
        self.points = self.optics.array("points", points, ("N", 3), self.dtype)
        self.n, self.camera = len(self.points), self.optics.struct(self.dtype)

    def cotangent(self, name: str, value: Any, shape: tuple[int, ...]) -> Any:
        if value is None:
            return zeros(self.device, shape, self.dtype)
        return self.optics.array(name, value, shape, self.dtype)


@primitive(
    differentiable=("points", "world_to_camera", "K", "distortion"), outputs={"pixel": "real N 2", "depth": "real N"}
)
def project_points(
    points: Any, world_to_camera: Any, K: Any, distortion: Any = None, *, model: str = "pinhole"
) -> Projection:
    """Where a camera sees points of the world; those outside of the image have a pixel too.

    The inverse of `pixel_rays`. Whether anything hides a point is not asked: use `occluded`.

    Args:
        points: (N, 3) numbers of any array library, in the mesh's length unit.
        world_to_camera: (4, 4) numbers [[R, t], [0, 0, 0, 1]], to OpenCV's axes: x right, y down, z forward.
        K: (3, 3) numbers [[fx, skew, cx], [0, fy, cy], [0, 0, 1]], in pixels; for an orthographic camera fx, fy and
            skew are in pixels per unit of length.
        distortion: k1, k2, p1, p2 or k1, k2, p1, p2, k3 of Brown and Conrady, in OpenCV's order; None is zeros.
        model: "pinhole" or "orthographic".

    Returns:
        A record in the library of the arguments, float64 if the points are, else float32: `.pixel` (N, 2), x to the
        right and y down from the image's upper left corner, NaN for a point that is not in front of a pinhole, and for
        one so far off the axis that the lens folds it back over others; `.depth` (N,) along the camera's z axis.

    Gradients:
        points, world_to_camera, K and distortion, through both outputs. The entries of [R, t] count as 12 free numbers;
        the other rows and entries get zero. For a pose to be optimised use `pose`, which keeps R a rotation. A pixel
        that is NaN sends none.

    Raises:
        ValueError: wrong shape, a camera's numbers that are not finite, a matrix that cannot be inverted, a focal
            length of zero, an unknown model.
        TypeError: wrong dtype.

    Cost: one launch, O(N); computed in float64 and rounded once.   Source: Brown (1966); terms as in OpenCV.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> seen = gk.project_points([[0.1, 0.0, 1.0]], np.eye(4), [[100, 0, 32], [0, 100, 24], [0, 0, 1]])
        >>> seen.pixel.tolist(), seen.depth.tolist()
        ([[42.0, 24.0]], [1.0])
    """
    q = _Query(points, world_to_camera, K, distortion, model)
    pixel, depth = empty(q.device, (q.n, 2), q.dtype), empty(q.device, q.n, q.dtype)
    project_fwd(q.n, q.camera, q.points, pixel, depth)
    return Projection(q.library.wrap(pixel), q.library.wrap(depth))


@project_points.define_adjoint
def project_points_adjoint(
    points: Any,
    world_to_camera: Any,
    K: Any,
    distortion: Any = None,
    *,
    model: str = "pinhole",
    adj_pixel: Any = None,
    adj_depth: Any = None,
) -> ProjectionGradients:
    """Gradients of `project_points`: cotangents of pixel and depth to the points and the camera.

    Args:
        points, world_to_camera, K, distortion, model: as given to `project_points`.
        adj_pixel: (N, 2) cotangent of the pixels; None is zero. That of a pixel that is NaN is not read.
        adj_depth: (N,) cotangent of the depths; None is zero.

    Returns:
        A record of `.points` (N, 3), `.world_to_camera` (4, 4), `.K` (3, 3) and `.distortion`, in the library of the
        arguments.

    Raises:
        ValueError, TypeError: as `project_points`; a cotangent of the wrong shape; neither cotangent given.

    Cost: one launch, O(N). Sums over the points are taken in float64, in blocks of 256: the same bits whatever the
    number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> K = [[100, 0, 32], [0, 100, 24], [0, 0, 1]]
        >>> gradient = gk.project_points.adjoint([[0.1, 0.0, 1.0]], np.eye(4), K, adj_pixel=[[1.0, 0.0]])
        >>> gradient.points.round(3).tolist()
        [[100.0, 0.0, -10.0]]
    """
    if adj_pixel is None and adj_depth is None:
        raise ValueError(message("project_points.adjoint", "adj_pixel, adj_depth", "at least one", "None"))
    q = _Query(points, world_to_camera, K, distortion, model)
    q.optics.op = "project_points.adjoint"
    adj_pixel, adj_depth = q.cotangent("adj_pixel", adj_pixel, (q.n, 2)), q.cotangent("adj_depth", adj_depth, (q.n,))
    adj_points = empty(q.device, (q.n, 3), q.dtype)
    blocks, sums = q.optics.sums(q.n)
    project_adj(blocks, SUM_BLOCK, q.n, q.camera, q.points, adj_pixel, adj_depth, adj_points, sums)
    total = added(sums)
    camera = q.optics.gradients(total[:12].reshape(3, 4), total[12:], q.dtype)
    return ProjectionGradients(q.library.wrap(adj_points), *camera)
