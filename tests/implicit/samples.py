"""Small meshes and points for the tests of signs and distances."""

import numpy as np

import geomkit as gk

METHODS = ("pseudonormal", "winding", "parity")


def joined(*meshes):
    """Several meshes as one, nothing merged."""
    offsets = np.cumsum([0, *(m.n_vertices for m in meshes)])
    return gk.Mesh(
        np.concatenate([m.vertices for m in meshes]),
        np.concatenate([m.faces + o for m, o in zip(meshes, offsets[:-1], strict=True)]),
    )


def moved(mesh, by):
    return gk.Mesh(mesh.vertices + np.asarray(by, mesh.dtype), mesh.faces)


def soup(mesh):
    return gk.Mesh(mesh.vertices[mesh.faces.ravel()], np.arange(3 * mesh.n_faces).reshape(-1, 3))


def ball(subdivisions=3, radius=1.0):
    return gk.shapes.icosphere(subdivisions, radius, dtype=np.float64)


def box(size=1.0):
    return gk.shapes.box((size, size, size), dtype=np.float64)


def inside_of(mesh, points, sign="auto"):
    return gk.signed_distance(mesh, points, sign=sign) < 0


RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-1.5, 1.5, (600, 3))
POINTS = POINTS[np.abs(np.linalg.norm(POINTS, axis=1) - 1) > 0.02]
IN_BALL = np.linalg.norm(POINTS, axis=1) < 1
