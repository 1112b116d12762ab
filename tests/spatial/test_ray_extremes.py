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


@pytest.mark.parametrize("direction", [1e-38, 1e-30, 1e30])
def test_edge_bounds_of_directions_of_any_length(direction):
    """The box is hit at t = 0.5 / |d|, and t_max says before or after that, up to what float32 can say."""
    rays = [[0.1, 0.2, 1.0]], [[0, 0, -direction]]
    after = np.float32(0.51 / np.float64(np.float32(direction)))
    assert gk.occluded(gk.shapes.box(), *rays, t_max=after).tolist() == [True]
    assert gk.occluded(gk.shapes.box(), *rays, t_max=0.98 * after - np.float32(0.01) * after).tolist() == [False]


@pytest.mark.parametrize("distance", [0.0, 1.5, 3.0, 1e4])
def test_value_of_rays_to_vertices_and_edges(distance):
    """Where the tree may take a neighbour's face, t is still that of the corner or the point on the edge aimed at."""
    mesh = gk.shapes.icosphere(4)
    rng = np.random.default_rng(0)
    ends = mesh.faces[rng.integers(0, mesh.n_faces, 20000)]
    corners = np.float64(mesh.vertices[ends])
    weight = rng.choice([0, 0.5, 1], (20000, 1)) * rng.random((20000, 1))
    target = np.float32((1 - weight) * corners[:, 0] + weight * corners[:, 1])
    away = rng.normal(size=(20000, 3))
    origins = np.float32(distance * away / np.linalg.norm(away, axis=1, keepdims=True))
    directions = np.float32(target - origins)
    hits = gk.cast_rays(mesh, origins, directions, t_max=1.5)
    # Only faces of that corner or edge: from outside, the sphere's other side may be nearer.
    face, along = hits.face, np.float64(directions)
    aimed = (ends[:, :1] == mesh.faces[face]).any(axis=1) & (ends[:, 1:2] == mesh.faces[face]).any(axis=1)
    length = np.linalg.norm(along, axis=1)
    seen = hits.hit & aimed & (np.abs((hits.normal * along).sum(1)) > 0.05 * length)
    assert seen.sum() > 1000
    normal, start = np.float64(mesh.face_normals[face[seen]]), np.float64(mesh.vertices[mesh.faces[face[seen], 0]])
    plane = (normal * (start - origins[seen])).sum(1) / (normal * along[seen]).sum(1)
    error = np.abs(hits.t[seen] - plane) * length[seen]
    assert error.max() <= 4 * 2.0**-23 * (mesh.diagonal + distance) / 0.05


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


def test_error_names_the_first_ray_that_is_too_far():
    origins = np.tile([0.0, 0, 1], (40000, 1)).astype(np.float32)
    origins[[5, 30000]] = 3e38
    with pytest.raises(ValueError, match="^cast_rays: origins: expected origins nearer to the mesh, got ray 5, whose"):
        gk.cast_rays(gk.Mesh(gk.shapes.box().vertices * np.float32(1e-3), gk.shapes.box().faces), origins, DOWN * 40000)


def test_error_of_rays_beside_a_result():
    hits = gk.cast_rays(gk.shapes.box(), AT, DOWN)
    with pytest.raises(ValueError, match="^cast_rays: directions: expected directions that are not zero"):
        gk.cast_rays.adjoint(gk.shapes.box(), AT, [[0, 0, 0]], adj_t=[1], result=hits)


def test_error_forms():
    with pytest.raises(ValueError, match=r"^Hits.interpolate: attribute: expected \(8, ...\) numbers, got rows of"):
        gk.cast_rays(gk.shapes.box(), AT, DOWN).interpolate([[1], [2, 3]])
    with pytest.raises(ValueError, match=r"^occluded: cull: expected 'none', 'back' or 'front', got \['back'\]$"):
        gk.occluded(gk.shapes.box(), AT, DOWN, cull=["back"])
