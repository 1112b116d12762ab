"""A camera in a few lines of NumPy, for the tests to compare with."""

import numpy as np

POSE = np.array([[0.36, 0.48, -0.8, 0.3], [-0.8, 0.6, 0.0, -0.2], [0.48, 0.64, 0.6, 4.0], [0, 0, 0, 1.0]])
K = np.array([[60.0, 1.5, 20.0], [0, -80.0, 31.0], [0, 0, 1]])
LENS = np.array([-0.2, 0.05, 1e-2, -2e-2, 0.01])


def bend(points, lens):
    """Brown's and Conrady's formula, k1 k2 p1 p2 k3, for (N, 2) points of the image plane."""
    k1, k2, p1, p2, k3 = lens
    x, y = np.asarray(points, np.float64).T
    r = x**2 + y**2
    radial = 1 + k1 * r + k2 * r**2 + k3 * r**3
    return np.stack(
        [x * radial + 2 * p1 * x * y + p2 * (r + 2 * x**2), y * radial + p1 * (r + 2 * y**2) + 2 * p2 * x * y], axis=1
    )


def project(points, pose, K, lens=None, *, model="pinhole"):
    """Pixels and depths of points in front."""
    seen = np.asarray(points, np.float64) @ pose[:3, :3].T + pose[:3, 3]
    plane = seen[:, :2] / (seen[:, 2:] if model == "pinhole" else 1)
    plane = plane if lens is None else bend(plane, lens)
    return plane @ K[:2, :2].T + K[:2, 2], seen[:, 2]


def pose_of(rows):
    """(4, 4) of the 12 numbers of a pose."""
    return np.concatenate([rows, [[0, 0, 0, 1]]])


def intrinsics(five):
    """K of fx, skew, cx, fy, cy."""
    fx, skew, cx, fy, cy = five
    return np.array([[fx, skew, cx], [0, fy, cy], [0, 0, 1]])


def five(K):
    """fx, skew, cx, fy, cy of K, or of its gradient."""
    return np.array([K[0, 0], K[0, 1], K[0, 2], K[1, 1], K[1, 2]])
