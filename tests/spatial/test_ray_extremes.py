"""Ray queries at the ends of the numbers, and grazing rays."""

import numpy as np
import pytest

import geomkit as gk

AT = [[0.1, 0.2, 2]]
DOWN = [[0, 0, -1.0]]


def test_edge_adjoint_without_faces():
    mesh = gk.Mesh(np.zeros((3, 3)), np.zeros((0, 3), int))
    gradient = gk.cast_rays.adjoint(mesh, AT, DOWN, adj_t=[1.0])
    assert gradient.origins.tolist() == [[0, 0, 0]] and gradient.vertices.tolist() == [[0, 0, 0]] * 3


@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e-36])
def test_edge_a_part_of_the_smallest_numbers(size):
    """Its centroids are so near each other that bins over their extent overflow."""
    ball, box = gk.shapes.icosphere(1), gk.shapes.box((2, 2, 2))
    vertices = np.concatenate([box.vertices, ball.vertices * np.float32(size)])
    mesh = gk.Mesh(vertices, np.concatenate([box.faces, ball.faces + 8]))
    assert gk.count_hits(mesh, [[0.5, 0.4, 2.0]], DOWN).tolist() == [2]


@pytest.mark.parametrize("length", [1e-300, 1e-170, 1e160, 1e300])
def test_edge_directions_of_any_length(length):
    directions = np.array([[0, 0, -1], [1e-3, 3e-4, -1]]) * length
    t = gk.cast_rays(gk.shapes.box(dtype=np.float64), [[0.5, 0.5, 2], *AT], directions).t
    assert np.allclose(t * length, 1.5, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-160, 1e80, 1e150])
def test_gradient_at_any_scale(scale):
    box = gk.shapes.box(dtype=np.float64)
    gradient = gk.cast_rays.adjoint(
        gk.Mesh(box.vertices * scale, box.faces), np.array(AT) * scale, DOWN, adj_t=[1.0]
    )
    assert np.allclose(gradient.origins, [[0, 0, 1]]) and np.allclose(gradient.vertices.sum(0), [0, 0, -1])


@pytest.mark.parametrize("length", [1e-300, 1e160, 1e300])
def test_gradient_of_directions_of_any_length(length):
    directions = np.array(DOWN) * length
    gradient = gk.cast_rays.adjoint(gk.shapes.box(dtype=np.float64), AT, directions, adj_t=[length])
    assert np.allclose(gradient.origins, [[0, 0, 1]])


def test_gradient_of_grazing_hits_is_that_of_the_hit():
    """Rays in the planes of triangles, but for rounding: a corner has at most the gradient of the origin."""
    rng = np.random.default_rng(0)
    met = 0
    for _ in range(1000):
        corners = rng.uniform(-1, 1, (3, 3)).astype(np.float32)
        direction = rng.normal(size=2) @ (corners[1:] - corners[0])
        origin = rng.dirichlet([1, 1, 1]) @ corners - 0.5 * direction
        mesh, rays = gk.Mesh(corners, [[0, 1, 2]]), np.float32([origin[None], direction[None]])
        hits = gk.cast_rays(mesh, *rays)
        if not hits.hit[0]:
            continue
        met += 1
        gradient = gk.cast_rays.adjoint(mesh, *rays, adj_t=[1.0], result=hits)
        largest = np.abs(gradient.origins).max()
        assert np.abs(gradient.vertices).max() <= 1.01 * largest
        assert np.allclose(gradient.directions, hits.t[0] * gradient.origins, rtol=1e-2, atol=1e-3 * largest)
    assert met > 10


def test_gradient_of_nan_is_nan():
    """A cotangent that is NaN never becomes zero."""
    names = {"adj_t": (), "adj_barycentric": (2,), "adj_normal": (3,), "adj_position": (3,)}
    for name, shape in names.items():
        gradient = gk.cast_rays.adjoint(gk.shapes.box(), AT, DOWN, **{name: np.full((1, *shape), np.nan)})
        assert np.isnan(gradient.vertices).any(), name


def test_error_forms():
    with pytest.raises(ValueError, match=r"^Hits.interpolate: attribute: expected \(8, ...\) numbers, got rows of"):
        gk.cast_rays(gk.shapes.box(), AT, DOWN).interpolate([[1], [2, 3]])
    with pytest.raises(ValueError, match=r"^occluded: cull: expected 'none', 'back' or 'front', got \['back'\]$"):
        gk.occluded(gk.shapes.box(), AT, DOWN, cull=["back"])
