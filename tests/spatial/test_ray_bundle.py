"""Rays that go through the tree in one box, and eight at a time through triangles: each hits what it hits alone."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import host
from tests.implicit.samples import soup

ALONE = 15  # rays of a call that are taken one by one: one less than FEW in cuda/spatial/ray_walk.h
MESHES = ("spot_low.obj", "cube_no_bottom.obj", "self_intersectA.obj", "triple_vierbein.obj", "moebius.obj")


def pencil(mesh, size=32, spread=0.15, seed=0):
    """Rays from one point to a small window of the mesh, four by four to each cell, and the point."""
    rng = np.random.default_rng(seed)
    eye = mesh.center + mesh.diagonal * np.array([0.7, 0.9, 1.1])
    x, y = (np.arange(size) + 0.5) / size - 0.5, (np.arange(size) + 0.5) / size - 0.5
    at = np.stack(np.meshgrid(x, y), -1).reshape(size // 4, 4, size // 4, 4, 2).transpose(0, 2, 1, 3, 4).reshape(-1, 2)
    side, up = np.linalg.qr(np.column_stack([eye - mesh.center, rng.normal(size=(3, 2))]))[0][:, 1:].T
    to = mesh.center + mesh.diagonal * spread * (at[:, :1] * side + at[:, 1:] * up)
    return np.broadcast_to(eye, to.shape).astype(mesh.dtype), (to - eye).astype(mesh.dtype)


def same_as_alone(mesh, origins, directions, **options):
    """All queries, of all rays at once and of few at a time: the same bits."""
    parts = [slice(k, k + ALONE) for k in range(0, len(origins), ALONE)]
    limits = {name: options.pop(name) for name in ("t_min", "t_max") if np.ndim(options.get(name, 0))}

    def alone(query):
        some = [{k: v[s] for k, v in limits.items()} for s in parts]
        return [query(mesh, origins[s], directions[s], **own, **options) for s, own in zip(parts, some, strict=True)]

    together = gk.cast_rays(mesh, origins, directions, **limits, **options)
    single = alone(gk.cast_rays)
    for name in ("t", "face", "barycentric", "normal"):
        wanted = np.concatenate([getattr(hits, name) for hits in single])
        np.testing.assert_array_equal(getattr(together, name), wanted, err_msg=name)
    for query in (gk.occluded, gk.count_hits):
        np.testing.assert_array_equal(
            query(mesh, origins, directions, **limits, **options), np.concatenate(alone(query))
        )
    hits, few = gk.all_hits(mesh, origins, directions, **limits, **options), alone(gk.all_hits)
    np.testing.assert_array_equal(hits.t, np.concatenate([one.t for one in few]))
    np.testing.assert_array_equal(hits.face, np.concatenate([one.face for one in few]))
    return together


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [0.02, 0.3, 1.5])
def test_value(dtype, spread):
    ball = gk.shapes.icosphere(4, dtype=dtype)
    for cull in ("none", "back", "front"):
        hits = same_as_alone(ball, *pencil(ball, spread=spread), cull=cull)
        assert hits.hit.any() and hits.hit.all() == (spread < 1)
    for mesh in (gk.shapes.box(dtype=dtype), soup(gk.shapes.torus(dtype=dtype))):
        same_as_alone(mesh, *pencil(mesh, spread=spread))


@pytest.mark.parametrize("name", MESHES)
def test_value_real(name, shared_mesh):
    mesh = shared_mesh(name)
    same_as_alone(mesh, *pencil(mesh, spread=0.2))
    same_as_alone(mesh, *pencil(mesh, spread=1.2), t_min=-np.inf)


def test_rays_to_a_point():
    """From places close to each other to one point, as those of a pixel to a lamp."""
    mesh = gk.shapes.icosphere(4)
    origins, directions = pencil(mesh)
    hits = gk.cast_rays(mesh, origins, directions)
    start = np.where(hits.hit[:, None], hits.position, origins) + 1e-3 * hits.normal
    lamp = np.float32([0.2, 0.1, 3.0])
    same_as_alone(mesh, start, lamp - start, t_max=0.999)
    same_as_alone(mesh, start, start - lamp)


def test_watertight():
    """Rays from inside a closed mesh to its corners and along its edges, which lie in a plane with zero components."""
    mesh = gk.shapes.icosphere(4)
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    order = np.argsort(np.arctan2(vertices[:, 0], vertices[:, 1]), kind="stable")
    to = np.concatenate([vertices[order], vertices[faces[:512]].mean(axis=1), vertices[faces[:512, :2]].mean(axis=1)])
    hits = same_as_alone(mesh, np.zeros_like(to), to)
    assert hits.hit.all()
    assert (gk.count_hits(mesh, np.zeros_like(to), to) == 1).all()


@pytest.mark.parametrize("axis", range(3))
def test_zero_components(axis):
    """Parallel rays along an axis: the other two components are zero, of either sign."""
    mesh = gk.shapes.box()
    rng = np.random.default_rng(axis)
    origins = rng.uniform(-0.02, 0.02, (512, 3)).astype(np.float32)
    origins[::3] = 0
    origins[:, axis] = 2
    directions = np.zeros((512, 3), np.float32)
    directions[:, (axis + 1) % 3] = -0.0
    directions[:, axis] = -1
    assert same_as_alone(mesh, origins, directions).hit.all()
    directions[::2, (axis + 1) % 3] = 1e-25
    assert same_as_alone(mesh, origins, directions).hit.all()


def test_one_ray_is_active():
    """Of every sixteen, all others end before they reach the mesh, or start behind it."""
    mesh = gk.shapes.icosphere(4)
    origins, directions = pencil(mesh, spread=0.02)
    t_max = np.where(np.arange(len(origins)) % 16 == 5, np.float32(np.inf), np.float32(1e-3))
    hits = same_as_alone(mesh, origins, directions, t_max=t_max)
    np.testing.assert_array_equal(hits.hit, np.arange(len(origins)) % 16 == 5)
    t_min = np.where(np.arange(len(origins)) % 16 == 5, np.float32(0), np.float32(10))
    np.testing.assert_array_equal(same_as_alone(mesh, origins, directions, t_min=t_min).hit, hits.hit)


def test_fine_meshes_below_wide_bundles():
    """Triangles far smaller than the distance between rays."""
    mesh = gk.shapes.grid(150, 150)
    same_as_alone(mesh, *pencil(mesh, size=32, spread=0.6))


def test_edge():
    empty = gk.Mesh(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32))
    origins, directions = np.zeros((64, 3), np.float32), np.ones((64, 3), np.float32)
    assert not gk.cast_rays(empty, origins, directions).hit.any()
    flat = gk.Mesh(np.float32([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]]), [[0, 1, 2], [0, 2, 3], [0, 0, 0]])
    same_as_alone(flat, *pencil(flat, spread=0.5))
    far = gk.shapes.icosphere(3)
    origins, directions = pencil(far)
    same_as_alone(far, origins + np.float32(1e6), directions)
    same_as_alone(far, origins - np.float32(500) * directions, directions)


def test_error():
    mesh = gk.shapes.icosphere(3)
    origins, directions = (array.copy() for array in pencil(mesh))
    directions[37] = 0
    with pytest.raises(ValueError, match="37"):
        gk.cast_rays(mesh, origins, directions)


def test_threads():
    mesh = gk.shapes.icosphere(4)
    rays = pencil(mesh, size=96, spread=1.2)
    before = host.num_threads()
    results = []
    try:
        for n in (1, 2, 5):
            host.set_num_threads(n)
            results.append(gk.cast_rays(mesh, *rays))
    finally:
        host.set_num_threads(before)
    for other in results[1:]:
        for name in ("t", "face", "barycentric"):
            np.testing.assert_array_equal(getattr(other, name), getattr(results[0], name))
