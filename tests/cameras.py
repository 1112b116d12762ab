"""Numbers of a camera for tests of gradients, whose steps must not leave what a camera is."""

import numpy as np

ROTATION = np.array([[0.8, 0.0, -0.6], [0.36, 0.8, 0.48], [0.48, -0.6, 0.64]])
WORLD_TO_CAMERA = np.vstack([np.column_stack([ROTATION, [0.1, -0.2, 5.0]]), [0.0, 0.0, 0.0, 1.0]])
K = np.array([[60.0, 0.5, 31.0], [0.0, 55.0, 24.0], [0.0, 0.0, 1.0]])
DISTORTION = np.array([0.05, -0.02, 0.01, -0.005, 0.01])
POINTS = np.random.default_rng(7).normal(size=(9, 3))
PIXELS = np.random.default_rng(8).uniform((5, 5), (55, 45), (9, 2))


def posed(matrix):
    """The same matrix, of any library, its last row held."""
    free = np.ones((4, 4))
    free[3] = 0
    return _held(matrix, free, np.diag([0.0, 0.0, 0.0, 1.0]))


def optics(matrix):
    """The same matrix of intrinsics, of any library, what is fixed in it held."""
    free = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    return _held(matrix, free, np.diag([0.0, 0.0, 1.0]))


def _held(matrix, free, fixed):
    if hasattr(matrix, "new_tensor"):  # torch takes no arrays
        free, fixed = matrix.new_tensor(free), matrix.new_tensor(fixed)
    return matrix * free + fixed
