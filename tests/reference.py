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


def ray_triangles(
    vertices: np.ndarray, faces: np.ndarray, origins: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t, u and v (N, F) of every line with the plane of every triangle; not finite where the line is parallel to it."""
    corners = np.asarray(vertices, np.float64)[faces]
    middle = corners.reshape(-1, 3).mean(axis=0)
    a, e1, e2 = corners[:, 0] - middle, corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    o, d = np.asarray(origins, np.float64) - middle, np.asarray(directions, np.float64)
    normal = np.cross(e1, e2)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = ((a * normal).sum(1) - o @ normal.T) / (d @ normal.T)

        # u and v are linear in the point o + t d.
        def weight(across: np.ndarray) -> np.ndarray:
            slope = across / (normal * normal).sum(1)[:, None]
            return o @ slope.T + t * (d @ slope.T) - (a * slope).sum(1)

        return t, weight(np.cross(e2, normal)), weight(np.cross(normal, e1))


def ray_crossings(
    mesh,
    origins: np.ndarray,
    directions: np.ndarray,
    *,
    t_min: float | np.ndarray = 0.0,
    t_max: float | np.ndarray = np.inf,
    cull: str = "none",
    doubt: float = 1e-5,
) -> tuple[np.ndarray, np.ndarray]:
    """(N, F) t of every hit, inf for a miss; and (N,) whether rounding may decide what the ray hits.

    It may where a weight of a triangle is within `doubt` of zero, or t within `doubt` of its bounds.
    """
    n, block = len(origins), max(1, (1 << 19) // max(1, mesh.n_faces))
    lowest, highest = (np.broadcast_to(np.asarray(x, np.float64), n) for x in (t_min, t_max))
    crossings, doubtful = np.empty((n, mesh.n_faces)), np.empty(n, bool)
    corners = np.asarray(mesh.vertices_array, np.float64)[mesh.faces_array]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    for start in range(0, n, block):
        part = slice(start, start + block)
        t, u, v = ray_triangles(mesh.vertices_array, mesh.faces_array, origins[part], directions[part])
        with np.errstate(invalid="ignore"):
            weight = np.minimum(np.minimum(u, v), 1 - u - v)
        low, high = lowest[part, None], highest[part, None]
        within = (weight >= 0) & (t >= low) & (t <= high)
        if cull != "none":
            front = np.asarray(directions[part], np.float64) @ normal.T < 0
            within &= front if cull == "back" else ~front
        crossings[part] = np.where(within, t, np.inf)
        near = (np.abs(weight) < doubt) | ((weight >= 0) & ((np.abs(t - low) < doubt) | (np.abs(t - high) < doubt)))
        doubtful[part] = near.any(axis=1)
    return crossings, doubtful


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


def rays_around(mesh, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """n rays of the mesh's precision and of all lengths, from in and around its box: half aim at the surface."""
    rng = np.random.default_rng(seed)
    origins = mesh.center + (rng.random((n, 3)) - 0.5) * 1.6 * (mesh.bounds[1] - mesh.bounds[0])
    aims = np.concatenate([surface_points(mesh, n // 2, seed)[0] - origins[: n // 2], rng.normal(size=(n - n // 2, 3))])
    directions = 10 ** rng.uniform(-2, 2, (n, 1)) * aims
    return origins.astype(mesh.dtype), directions.astype(mesh.dtype)


def rays_to_edges(mesh, origins: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """n rays of the mesh's precision from origins drawn at random: half to points of edges, half to vertices."""
    rng = np.random.default_rng(seed)
    vertices, faces = np.asarray(mesh.vertices_array, np.float64), mesh.faces_array
    face, corner = rng.integers(0, len(faces), n), rng.integers(0, 3, n)
    start, end = vertices[faces[face, corner]], vertices[faces[face, (corner + 1) % 3]]
    target = start + np.where(np.arange(n) < n // 2, rng.random(n), 0)[:, None] * (end - start)
    origins = np.asarray(origins, mesh.dtype)[rng.integers(0, len(origins), n)]
    directions = (target - origins).astype(mesh.dtype)
    ray = directions.any(axis=1)
    return origins[ray], directions[ray]
