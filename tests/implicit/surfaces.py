"""Fields on grids, and what must hold of any surface extracted from one."""

import numpy as np


def grid(n, half=1.0):
    """x, y, z of an n**3 grid over a cube, and its spacing."""
    axis = np.linspace(-half, half, n)
    return *np.meshgrid(axis, axis, axis, indexing="ij"), 2 * half / (n - 1)


def sphere(n=24, radius=0.7, dtype=np.float64):
    x, y, z, h = grid(n)
    return (np.sqrt(x * x + y * y + z * z) - radius).astype(dtype), h


def edges_of(faces):
    """Undirected edges, how many faces each has, and by how many more pass it one way than the other."""
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).astype(np.int64)
    edges, place, count = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True, return_counts=True)
    way = np.where(ends[:, 0] < ends[:, 1], 1, -1)
    return edges, count, np.bincount(place.ravel(), weights=way, minlength=len(edges)).astype(int)


def on_border(vertices, shape):
    """(V, 6) whether each vertex, in index coordinates, lies in each side of the grid's box."""
    return np.concatenate([vertices == 0, vertices == np.array(shape) - 1], axis=1)


def check_surface(mesh, shape):
    """Oriented, closed but for the grid's border, no edge of more than two faces, no face twice, no vertex unused."""
    v, f = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    assert np.isfinite(v).all()
    if not len(f):
        assert not len(v)
        return
    assert (np.unique(f) == np.arange(len(v))).all()
    ordered = np.sort(f, axis=1)
    assert (ordered[:, 1:] != ordered[:, :-1]).all()
    assert len(np.unique(ordered, axis=0)) == len(f)
    edges, count, sign = edges_of(f)
    border = on_border(v, shape)
    inner = ~(border[edges[:, 0]] & border[edges[:, 1]]).any(axis=1)
    assert not sign[inner].any() and (count[inner] == 2).all() and count.max() <= 2


def crossings(field, level=0.0):
    """All points where the grid's edges cross the level, in index coordinates, sorted."""
    found = []
    for axis in range(3):
        low = np.moveaxis(field, axis, 0)[:-1].astype(np.float64)
        high = np.moveaxis(field, axis, 0)[1:].astype(np.float64)
        at = np.argwhere((low < level) != (high < level))
        a, b = low[tuple(at.T)], high[tuple(at.T)]
        points = at.astype(np.float64)
        points[:, 0] += (level - a) / (b - a)
        found.append(np.insert(points[:, 1:], axis, points[:, 0], axis=1))
    points = np.concatenate(found)
    return points[np.lexsort(points.T)]


def euler(mesh):
    return mesh.n_vertices - len(edges_of(np.asarray(mesh.faces))[0]) + mesh.n_faces


def refined(field, k):
    """The trilinear interpolant at k times as many samples."""
    for axis in range(3):
        moved = np.moveaxis(field, axis, 0)
        t = np.arange((len(moved) - 1) * k + 1) / k
        low = np.minimum(t.astype(int), len(moved) - 2)
        w = (t - low)[:, None, None]
        field = np.moveaxis((1 - w) * moved[low] + w * moved[low + 1], 0, axis)
    return field
