"""Edges on the film: what is seen of them, to the digit, and in how many blocks it is found."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.film import whole_film
from geomkit.render.film_edges import FilmEdges
from geomkit.render.silhouette import EdgeSamples
from geomkit.render.tables import SceneTables


def square(x, y, z, half):
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], np.float64)
    return gk.Mesh(half * corners + (x, y, z), [[0, 1, 2], [0, 2, 3]])


def view(parallel):
    if parallel:
        return gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=4.0, width=40, height=40)
    return gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=60, width=40, height=40)


@pytest.mark.parametrize("dtype, close", [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("parallel", [False, True])
def test_edges_end_where_a_face_hides_them(parallel, dtype, close):
    """The upper edge of a square of which a smaller one hides a part: that part is cut out within pixels."""
    left, right = -0.3137, 0.4519
    before = square(0.5 * (left + right), 1.1, 1.0, 0.5 * (right - left))
    scene = {"far": gk.Object(square(0, 0, 0, 1.0)), "near": gk.Object(before)}
    if parallel:
        scene["near"] = gk.Object(square(0.5 * (left + right), 1.0, 1.0, 0.5 * (right - left)))
    meshes = {name: gk.Object(gk.Mesh(np.asarray(o.mesh.vertices, dtype), o.mesh.faces)) for name, o in scene.items()}
    camera = view(parallel)
    tables = SceneTables(gk.Scene(meshes))
    edges = FilmEdges(tables, camera, whole_film(camera), [False, False])
    edge, parts = edges.seen_parts()
    corners = np.asarray(tables.mesh.vertices)[edges.ends]
    upper = np.flatnonzero((corners[..., 1] == 1).all(axis=1) & (corners[..., 2] == 0).all(axis=1))
    assert len(upper) == 1
    own = parts[edge == upper[0]]
    x = corners[upper[0], 0, 0] + own[:, [0, 2]] * (corners[upper[0], 1, 0] - corners[upper[0], 0, 0])
    scale = 1 if parallel else 4 / 3  # from z = 1 to z = 0, seen from z = 4
    hidden = scale * (right - left)
    np.testing.assert_allclose(abs(x[:, 1] - x[:, 0]).sum(), 2 - hidden, atol=close)
    assert not ((np.sort(x, axis=1).mean(axis=1) > scale * left) & (x.mean(axis=1) < scale * right)).any()


def test_blocks_are_all_edges():
    """Some edges at a time, in order, give what all give at once."""
    ball = gk.shapes.icosphere(2, dtype=np.float64)
    camera = view(False)
    tables = SceneTables(gk.Scene(ball))
    film = whole_film(camera)
    whole = FilmEdges(tables, camera, film, [True])
    some = list(whole.blocks(64))
    assert len(some) > 4 and all(int(s.count.sum()) <= 64 for s in some)
    np.testing.assert_array_equal(np.concatenate([s.number for s in some]), whole.number)

    def seen(first):
        return first.hits.normal

    image = np.random.default_rng(0).standard_normal((40, 40, 3))
    together, apart = {}, {}
    for edges, out in [(whole, together), *((s, apart) for s in some)]:
        EdgeSamples(tables, camera, seen, repeat=1, seed=0, edges=edges).adjoint(image, out)
    assert abs(together["vertices"]).max() > 0
    np.testing.assert_allclose(apart["vertices"], together["vertices"], atol=1e-10)
