"""What rays of pixels and pixels of points share: the numbers of a camera, checked, and the cotangents of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from geomkit.arrays import Library, as_array, library_of, precision_of, to_host
from geomkit.errors import message
from geomkit.runtime.device import empty, namespace

__all__ = ["MODELS", "SUM_BLOCK", "Optics", "added", "camera_array", "check_intrinsics", "results_library"]

MODELS = ("pinhole", "orthographic")
SUMS = 22  # numbers in a row of sums, as in cuda/render/camera.h
SUM_BLOCK = 256  # pixels or points that one row sums, however many threads there are


class Optics:
    """The numbers of a camera, on the host and in float64.

    Args:
        op: the public function, for messages.
        library: that of the results.
        world_to_camera, K, distortion, model: as `pixel_rays` takes them.

    Attributes:
        pose: (4, 4).
        K: (3, 3).
        distortion: (5,), zeros for None.
    """

    def __init__(self, op: str, library: Library, world_to_camera: Any, K: Any, distortion: Any, model: str):
        self.op, self.library, self.device = op, library, library.device
        self.given = world_to_camera, K, distortion
        self.pose = camera_array(op, "world_to_camera", world_to_camera)
        self.inverse = _inverse(op, self.pose)
        self.K = check_intrinsics(op, camera_array(op, "K", K))
        self.distortion = np.zeros(5)
        self.n_distortion = 0
        if distortion is not None:
            given = camera_array(op, "distortion", distortion)
            self.n_distortion = len(given)
            self.distortion[: len(given)] = given
        if model not in MODELS:
            raise ValueError(message(op, "model", "'pinhole' or 'orthographic'", repr(model)))
        self.orthographic = model == "orthographic"

    def struct(self, dtype: np.dtype) -> CameraStruct:
        """What a kernel takes by value."""
        return CameraStruct(self, dtype)

    def array(self, name: str, value: Any, shape: tuple, dtype: np.dtype) -> Any:
        """An argument as an array on the device of the results."""
        return as_array(value, op=self.op, name=name, shape=shape, dtype=dtype, device=self.device)

    def sums(self, n: int) -> tuple[int, Any]:
        """For n pixels or points: the number of blocks, and an array with a row for each."""
        blocks = -(-n // SUM_BLOCK)
        return blocks, empty(self.device, (blocks, SUMS), np.float64)

    def gradients(self, pose: np.ndarray, rest: np.ndarray, dtype: np.dtype) -> tuple[Any, Any, Any]:
        """Cotangents of world_to_camera, K and distortion in the caller's library, each in its own precision.

        Args:
            pose: (3, 4) that of [R | t].
            rest: (10,) those of fx, skew, cx, fy, cy, k1, k2, p1, p2, k3.
            dtype: for what came as a list.
        """
        fx, skew, cx, fy, cy = rest[:5]
        full = np.zeros((4, 4))
        full[:3] = pose
        found = (full, np.array([[fx, skew, cx], [0, fy, cy], [0, 0, 0]]), rest[5 : 5 + self.n_distortion])
        to_camera, to_K, to_distortion = (
            None if given is None else self._wrap(g.astype(precision_of(given) if hasattr(given, "dtype") else dtype))
            for g, given in zip(found, self.given, strict=True)
        )
        return to_camera, to_K, to_distortion

    def _wrap(self, values: np.ndarray) -> Any:
        return self.library.wrap(namespace(self.device).asarray(values))



class CameraStruct:
    """The structure `Camera` of the kernels, for one launch."""

    def __init__(self, optics: Optics, dtype: np.dtype):
        self.dtype, self.device = dtype, optics.device
        (fx, skew, cx), (_, fy, cy), _ = optics.K.tolist()
        self.fields = (
            *optics.pose[:3].ravel().tolist(), *optics.inverse.ravel().tolist(), fx, skew, cx, fy, cy,
            *optics.distortion.tolist(), reach(optics.distortion), int(optics.orthographic),
            # (Zeros have gradients, too.)
            int(optics.n_distortion > 0),
        )  # fmt: skip


def camera_array(op: str, name: str, value: Any) -> np.ndarray:
    """One of a camera's arrays on the host, finite, in float64 and of the right shape.

    Raises:
        ValueError: wrong shape, or numbers that are not finite.
        TypeError: entries that are no numbers.
    """
    if name == "distortion":
        array = as_array(value, op=op, name=name, shape=("N",), dtype=np.float64)
        if len(array) not in (4, 5):
            raise ValueError(message(op, name, "k1, k2, p1, p2 or k1, k2, p1, p2, k3", f"{len(array)} numbers"))
    else:
        shape = (4, 4) if name == "world_to_camera" else (3, 3)
        array = as_array(value, op=op, name=name, shape=shape, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(message(op, name, "finite numbers", str(array.tolist())))
    if name == "world_to_camera" and (array[3] != (0, 0, 0, 1)).any():
        raise ValueError(message(op, name, "the last row 0, 0, 0, 1", str(array[3].tolist())))
    return array


def check_intrinsics(op: str, K: np.ndarray) -> np.ndarray:
    """The same matrix, if it is one of intrinsics."""
    if K[1, 0] != 0 or (K[2] != (0, 0, 1)).any():
        raise ValueError(message(op, "K", "[[fx, skew, cx], [0, fy, cy], [0, 0, 1]]", str(K.tolist())))
    if K[0, 0] == 0 or K[1, 1] == 0:
        raise ValueError(message(op, "K", "focal lengths other than zero", f"{K[0, 0]:g} and {K[1, 1]:g}"))
    return K


def reach(distortion: np.ndarray) -> float:
    """Square of the radius up to which the radial terms grow: beyond it, the lens shows what it has shown before."""
    k1, k2, _, _, k3 = distortion
    if k1 == k2 == k3 == 0:
        return math.inf
    # Roots of the derivative 1 + 3 k1 s + 5 k2 s^2 + 7 k3 s^3 in 1 / s, where no leading coefficient can be near zero.
    roots = np.roots([1.0, 3 * k1, 5 * k2, 7 * k3])
    real = roots.real[(abs(roots.imag) <= 1e-12 * abs(roots)) & (roots.real > 0)]
    return 1 / float(real.max()) if len(real) else math.inf


def results_library(first: Any, *others: Any) -> Library:
    """The library of a result: that of the first argument that has one; pixels of a window have a device only."""
    library = library_of(first, *others)
    if library.name == "numpy" and getattr(first, "device", "cpu") == "cuda":
        return Library("cupy", "cuda")
    return library


def added(sums: Any) -> np.ndarray:
    """(22,) the rows of sums, added up in order."""
    return to_host(sums).sum(axis=0)


def _inverse(op: str, pose: np.ndarray) -> np.ndarray:
    """(3, 3), the inverse and not the transpose: rays are then where points project, whatever the digits of R."""
    try:
        return np.linalg.inv(pose[:3, :3])
    except np.linalg.LinAlgError as error:
        got = str(pose[:3, :3].tolist())
        raise ValueError(message(op, "world_to_camera", "a matrix that can be inverted", got)) from error
