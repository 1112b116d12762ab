"""Float64 references in plain NumPy, by brute force, for the tests of queries."""

import numpy as np


def closest_points(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N, F, 3) closest point of every triangle to every point: its projection if inside, else on an edge."""
    v = np.asarray(vertices, np.float64)[faces]
    a, b, c = v[None, :, 0], v[None, :, 1], v[None, :, 2]
    p = np.asarray(points, np.float64)[:, None]

    def on_edge(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        e = end - start
        length2 = (e * e).sum(-1)
        t = ((p - start) * e).sum(-1) / np.where(length2 > 0, length2, 1)
        return start + np.clip(t, 0, 1)[..., None] * e

    best = on_edge(a, b)
    for candidate in (on_edge(b, c), on_edge(c, a)):
        nearer = ((p - candidate) ** 2).sum(-1) < ((p - best) ** 2).sum(-1)
        best = np.where(nearer[..., None], candidate, best)
    n = np.cross(b - a, c - a)
    length2 = (n * n).sum(-1)
    h = ((p - a) * n).sum(-1) / np.where(length2 > 0, length2, 1)
    foot = p - h[..., None] * n
    inside = length2 > 0
    for start, end in ((a, b), (b, c), (c, a)):
        inside = inside & ((np.cross(end - start, foot - start) * n).sum(-1) >= 0)
    return np.where(inside[..., None], foot, best)


def distances(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray, block: int = 1 << 20) -> np.ndarray:
    """(N,) distance to the nearest triangle."""
    result = np.empty(len(points))
    step = max(1, block // max(1, len(faces)))
    for start in range(0, len(points), step):
        p = np.asarray(points[start : start + step], np.float64)
        d2 = ((p[:, None] - closest_points(vertices, faces, p)) ** 2).sum(-1)
        result[start : start + step] = np.sqrt(d2.min(axis=1))
    return result


def winding_numbers(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N,) sum of the solid angles over 4 pi (Van Oosterom and Strackee 1983)."""
    v = np.asarray(vertices, np.float64)[faces]
    result = np.empty(len(points))
    for i, p in enumerate(np.asarray(points, np.float64)):
        a, b, c = (v[:, k] - p for k in range(3))
        la, lb, lc = (np.linalg.norm(x, axis=1) for x in (a, b, c))
        y = (a * np.cross(b, c)).sum(1)
        x = la * lb * lc + (a * b).sum(1) * lc + (b * c).sum(1) * la + (c * a).sum(1) * lb
        result[i] = (2 * np.arctan2(y, x)).sum() / (4 * np.pi)
    return result


def surface_points(mesh, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """n float64 points on faces drawn at random, and the faces."""
    rng = np.random.default_rng(seed)
    face = rng.integers(0, mesh.n_faces, n)
    weights = rng.dirichlet([1, 1, 1], n)
    corners = np.asarray(mesh.vertices_array, np.float64)[mesh.faces_array[face]]
    return (corners * weights[:, :, None]).sum(1), face


def around(mesh, n: int, seed: int = 0) -> np.ndarray:
    """2 n float64 points: n in the box scaled by 1.2, n within 2 % of the diagonal of the surface."""
    rng = np.random.default_rng(seed)
    box = mesh.center + (rng.random((n, 3)) - 0.5) * 1.2 * (mesh.bounds[1] - mesh.bounds[0])
    close = surface_points(mesh, n, seed)[0] + rng.uniform(-0.011, 0.011, (n, 3)) * mesh.diagonal
    return np.concatenate([box, close])
