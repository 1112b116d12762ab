"""A pose from six numbers: forward and adjoint."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, library_of, precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.runtime.device import namespace

__all__ = ["PoseGradients", "pose", "rotation_matrix", "rotation_vector_of"]

TERMS = 14  # of the series for angles below one: the next would be under the last digit


class PoseGradients(NamedTuple):
    """Gradients of a pose."""

    rotation_vector: Any  # (3,)
    translation: Any  # (3,)
    base: Any  # (4, 4), the last row zero; None without one


class _Query:
    def __init__(self, rotation_vector: Any, translation: Any, base: Any):
        self.given = rotation_vector, translation, base
        self.library = library_of(*self.given)
        # Six numbers of lists are a pose as exact as they are.
        arrays = [x for x in self.given if hasattr(x, "dtype")]
        self.dtype = precision_of(arrays[0]) if arrays else np.dtype(np.float64)
        self.w = _numbers("rotation_vector", rotation_vector, (3,))
        self.t = _numbers("translation", translation, (3,))
        self.base = np.eye(4) if base is None else _numbers("base", base, (4, 4))
        if (self.base[3] != (0, 0, 0, 1)).any():
            raise ValueError(message("pose", "base", "the last row 0, 0, 0, 1", str(self.base[3].tolist())))

    def wrap(self, values: np.ndarray, given: Any = None) -> Any:
        dtype = precision_of(given) if hasattr(given, "dtype") else self.dtype
        return self.library.wrap(namespace(self.library.device).asarray(values.astype(dtype)))


@primitive(differentiable=("rotation_vector", "translation", "base"), outputs={"pose": "real 4 4"})
def pose(rotation_vector: Any, translation: Any, base: Any = None) -> Any:
    """The matrix of a rotation and a shift: six numbers in which to optimise where a camera is.

    `pose(w, t, base=camera.world_to_camera)` is a camera that is moved in its own axes: first it sees as before, then
    all is turned by w and shifted by t (`Camera.moved`). Start from zeros, and take the result for a new base if w
    grows towards half a turn.

    Args:
        rotation_vector: (3,) numbers of any array library: the axis, in radians long.
        translation: (3,) numbers, added after the rotation.
        base: (4, 4) numbers [[R, t], [0, 0, 0, 1]], applied before; None is the identity.

    Returns:
        (4, 4) [[R, t], [0, 0, 0, 1]] in the library of the arguments, of the precision of the first of them that is an
        array; of lists float64.

    Gradients:
        rotation_vector, translation and base. Exact for every rotation vector, zero included.

    Raises:
        ValueError: wrong shape, numbers that are not finite, another last row of base.
        TypeError: wrong dtype.

    Cost: O(1), on the host.   Source: Rodrigues' formula; its derivative by the left Jacobian of SO(3).

    Example:
        >>> import geomkit as gk
        >>> import math
        >>> gk.pose([0, 0, math.pi / 2], [1, 2, 3]).round(12).tolist()
        [[0.0, -1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 0.0, 1.0]]
    """
    q = _Query(rotation_vector, translation, base)
    return q.wrap(_motion(q) @ q.base)


@pose.define_adjoint
def pose_adjoint(rotation_vector: Any, translation: Any, base: Any = None, *, adj_pose: Any) -> PoseGradients:
    """Gradients of `pose`: the cotangent of the matrix to the six numbers and the base.

    Args:
        rotation_vector, translation, base: as given to `pose`.
        adj_pose: (4, 4) cotangent of the matrix; its last row, which is constant, is not read.

    Returns:
        A record of `.rotation_vector` (3,), `.translation` (3,) and `.base` (4, 4), in the library of the arguments.

    Raises:
        ValueError, TypeError: as `pose`; a cotangent of the wrong shape.

    Cost: O(1), on the host.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> turn = np.zeros((4, 4))
        >>> turn[1, 0] = 1
        >>> gk.pose.adjoint([0, 0, 0], [0, 0, 0], adj_pose=turn).rotation_vector.tolist()
        [0.0, 0.0, 1.0]
    """
    q = _Query(rotation_vector, translation, base)
    adj = as_array(adj_pose, op="pose.adjoint", name="adj_pose", shape=(4, 4), dtype=np.float64)[:3]
    motion = _motion(q)
    to_motion = adj @ q.base.T
    # R moves by [u]x R when the rotation vector moves by dw, with u = J dw; <G, [u]x R> = u . spin.
    g = to_motion[:, :3] @ motion[:3, :3].T
    spin = np.array([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]])
    to_base = np.zeros((4, 4))
    to_base[:3] = motion[:3, :3].T @ adj
    return PoseGradients(
        q.wrap(_left_jacobian(q.w).T @ spin, rotation_vector),
        q.wrap(to_motion[:, 3], translation),
        None if base is None else q.wrap(to_base, base),
    )


def rotation_matrix(w: np.ndarray) -> np.ndarray:
    """(3, 3), the rotation about w by its length."""
    a, b, _ = _coefficients(w)
    cross = _cross_matrix(w)
    return np.eye(3) + a * cross + b * cross @ cross


def rotation_vector_of(rotation: np.ndarray) -> np.ndarray:
    """(3,), the axis of a rotation, as long as its angle, at most pi."""
    w, x, y, z = quaternion_of(rotation)
    length = math.hypot(x, y, z)
    if length == 0:
        return np.zeros(3)
    return 2 * math.atan2(length, w) / length * np.array([x, y, z])


def quaternion_of(rotation: np.ndarray) -> np.ndarray:
    """(4,), w not negative, x, y, z: the unit quaternion of a rotation."""
    m = rotation
    # Four times the products of each component with all: the row of the largest is the one without cancellation.
    products = np.array(
        [
            [1 + m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], 1 + m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], 1 - m[0, 0] + m[1, 1] - m[2, 2], m[1, 2] + m[2, 1]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], 1 - m[0, 0] - m[1, 1] + m[2, 2]],
        ]
    )
    q = products[int(np.argmax(np.diag(products)))]
    q = q / math.hypot(*q)
    return -q if q[0] < 0 else q


def _motion(q: _Query) -> np.ndarray:
    motion = np.eye(4)
    motion[:3, :3], motion[:3, 3] = rotation_matrix(q.w), q.t
    return motion


def _left_jacobian(w: np.ndarray) -> np.ndarray:
    _, b, c = _coefficients(w)
    cross = _cross_matrix(w)
    return np.eye(3) + b * cross + c * cross @ cross


def _coefficients(w: np.ndarray) -> tuple[float, float, float]:
    """sin(a) / a, (1 - cos a) / a^2 and (a - sin a) / a^3 for the angle a."""
    angle = math.hypot(*w)
    if angle < 1:
        square = angle * angle
        a, b, c = (sum((-square) ** k / math.factorial(2 * k + n) for k in range(TERMS)) for n in (1, 2, 3))
        return a, b, c
    half = math.sin(angle / 2) / angle
    return math.sin(angle) / angle, 2 * half * half, (angle - math.sin(angle)) / angle**3


def _cross_matrix(w: np.ndarray) -> np.ndarray:
    x, y, z = w
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def _numbers(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = as_array(value, op="pose", name=name, shape=shape, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(message("pose", name, "finite numbers", str(array.tolist())))
    return array
