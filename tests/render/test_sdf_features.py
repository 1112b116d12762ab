"""What rays see of a grid's surface: values, edges, errors, gradients, silhouettes, devices."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.sdf_features import CHANNELS
from geomkit.runtime import cuda

SUN = gk.DirectionalLight((-1.0, -2.0, -3.0), (2.0, 1.0, 0.5))


def ball(n=17, radius=0.6, dtype=np.float64, noise=0.0):
    p = np.stack(np.meshgrid(*[np.linspace(-1, 1, n)] * 3, indexing="ij"), axis=-1)
    values = np.linalg.norm(p, axis=-1) - radius + noise * np.random.default_rng(0).normal(size=(n, n, n))
    return values.astype(dtype), {"spacing": 2 / (n - 1), "origin": -1.0}


def downwards(n=30, width=0.4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    origins = np.column_stack([rng.uniform(-width, width, (n, 2)), np.full(n, 3.0)])
    directions = np.column_stack([0.1 * rng.normal(size=(n, 2)), np.full(n, -1.5)])
    return origins.astype(dtype), directions.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value(dtype):
    values, place = ball(dtype=dtype)
    rays = downwards(200, 0.9, dtype=dtype)
    seen = gk.sdf_features(values, *rays, **place, light=SUN, albedo=(0.2, 0.4, 0.6))
    traced = gk.sphere_trace(values, *rays, **place, normals="cubic")
    hit = np.isfinite(traced.t)
    assert 0.2 < hit.mean() < 0.8 and all(x.dtype == dtype for x in seen)
    np.testing.assert_array_equal(seen.mask[:, 0], hit)
    np.testing.assert_array_equal(seen.depth[hit, 0], traced.t[hit])
    np.testing.assert_array_equal(seen.position[hit], traced.position[hit])
    np.testing.assert_array_equal(seen.normal, traced.normal)
    to = np.array([1, 2, 3]) / np.sqrt(14)
    lit = np.maximum(traced.normal @ to, 0)[:, None] * np.array([0.4, 0.4, 0.3]) / np.pi
    np.testing.assert_allclose(seen.color, lit, atol=1e-6)
    assert not any(x[~hit].any() for x in seen)


def test_value_light():
    """Several lights add up; a constant one is seen behind, unless it is not visible; surfaces have two sides."""
    values, place = ball()
    rays = downwards(100, 0.9)
    sky, hidden = gk.ConstantLight((0.5, 1.0, 2.0)), gk.ConstantLight((0.5, 1.0, 2.0), visible=False)
    one, both, dark, day = (
        gk.sdf_features(values, *rays, **place, light=x, albedo=0.3) for x in (SUN, (SUN, hidden), hidden, sky)
    )
    hit = one.mask[:, 0] > 0
    np.testing.assert_allclose(both.color, one.color + dark.color, atol=1e-12)
    np.testing.assert_allclose(dark.color, hit[:, None] * [0.15, 0.3, 0.6], atol=1e-12)
    np.testing.assert_allclose(day.color[~hit], np.broadcast_to([0.5, 1, 2], ((~hit).sum(), 3)))
    flipped = gk.sdf_features(-values, *rays, **place, light=SUN, albedo=0.3)
    np.testing.assert_allclose(flipped.color, one.color, atol=1e-12)
    np.testing.assert_allclose(flipped.normal, -one.normal, atol=1e-12)


def test_edge():
    values, place = ball(9)
    none = gk.sdf_features(values, np.zeros((0, 3)), np.zeros((0, 3)), **place)
    assert [x.shape for x in none] == [(0, n) for n in CHANNELS.values()]
    g = gk.sdf_features.adjoint(values, np.zeros((0, 3)), np.zeros((0, 3)), adj_mask=np.zeros((0, 1)), **place)
    assert not g.grid.any() and g.origins.shape == (0, 3)
    nothing = gk.sdf_features(np.ones((3, 3, 3)), *downwards(5), light=SUN)
    assert not any(x.any() for x in nothing)
    # Within the ball the band lies on the other side of the surface.
    rays = [[0.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]]
    assert gk.sdf_features(values, *rays, **place).depth[0, 0] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"light": gk.PointLight((0, 0, 0))}, TypeError, "light: expected ConstantLight or DirectionalLight.* PointL"),
        ({"light": gk.DirectionalLight((0, 0, 0))}, ValueError, "light.direction: expected a direction"),
        ({"albedo": (1, 2)}, ValueError, r"albedo: expected \(3,\) floats"),
        ({"boundary": "mesh"}, ValueError, "boundary: expected one of 'thin_band', 'none', got 'mesh'"),
        ({"band": -1.0}, ValueError, "band: expected a number of at least 0"),
    ],
)
def test_error(options, error, text):
    with pytest.raises(error, match=f"^sdf_features: {text}"):
        gk.sdf_features(ball(5)[0], *downwards(3), **options)


def test_error_adjoint():
    with pytest.raises(ValueError, match="^sdf_features.adjoint: adj_color, .*: expected at least one, got None"):
        gk.sdf_features.adjoint(ball(5)[0], *downwards(3))
    with pytest.raises(ValueError, match=r"^sdf_features.adjoint: adj_mask: expected \(3, 1\) floats"):
        gk.sdf_features.adjoint(ball(5)[0], *downwards(3), adj_mask=np.zeros(3))


@pytest.mark.parametrize("normals", ["linear", "cubic"])
def test_gradient_within_the_silhouette(normals):
    """The hits of rays that are far from it: central differences."""
    values, place = ball(9, noise=0.01)
    origins, directions = downwards(60, 0.35)
    directions[:, :2] *= 0.5
    u = (gk.sphere_trace(values, origins, directions, **place).position + 1) / place["spacing"]
    keep = np.abs(u - np.round(u)).min(axis=1) > 0.02
    lights = (SUN, gk.ConstantLight(0.3))

    def see(v, o, d):
        seen = gk.sdf_features(v, o, d, **place, normals=normals, light=lights)
        return seen.color, seen.depth, seen.position, seen.normal

    assert keep.sum() > 20
    assert 0 < gk.gradcheck(see, [values, origins[keep], directions[keep]], step=1e-5) < 1e-7


def soft(values, rays, place, band, weights):
    """Sum of channels in which near misses fade from what is seen at the nearest point to what is behind."""
    at = gk.sphere_trace(values, *rays, **place, band=band, normals="cubic")
    seen = gk.sdf_features(values, *rays, **place, light=SUN)
    near = np.isfinite(at.distance)
    share = np.where(near, 1 - at.distance / band, 0)[:, None]
    point = np.where(near[:, None], rays[0] + np.where(near, at.nearest, 0)[:, None] * rays[1], 0)
    g = gk.interpolate_grid(values, point, **place, method="cubic").gradient
    normal = g / np.linalg.norm(g, axis=1, keepdims=True)
    to = np.array([1, 2, 3]) / np.sqrt(14)
    color = np.maximum(normal @ to, 0)[:, None] * np.array([2.0, 1.0, 0.5]) * 0.5 / np.pi
    front = color, np.ones_like(share), np.where(near, at.nearest, 0)[:, None], point, normal
    return near, share, sum(
        (w * (share * (a - b))).sum(axis=1) for w, a, b in zip(weights, front, seen, strict=True)
    )


def test_gradient_of_the_band():
    """The silhouette's part is the derivative of the share by which near misses fade, what is seen held fixed."""
    values, place = ball(17, noise=0.003)
    wall = np.linspace(-1, 1, 17) + 0.9
    values = np.minimum(values, wall)  # there is something behind the ball
    rays = downwards(400, 0.9, seed=2)
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(400, n)) for n in CHANNELS.values()]
    band = 0.1
    near, share, _ = soft(values, rays, place, band, weights)
    assert near.sum() > 10
    adj = {f"adj_{name}": w for name, w in zip(CHANNELS, weights, strict=True)}
    options = {"light": SUN, "band": band, **place}
    whole = gk.sdf_features.adjoint(values, *rays, **options, **adj)
    fixed = gk.sdf_features.adjoint(values, *rays, **options, boundary="none", **adj)
    _, _, gain = soft(values, rays, place, band, weights)
    jump = np.where(near, gain / np.where(near, share[:, 0], 1), 0)
    expected = gk.sphere_trace.adjoint(values, *rays, **place, band=band, adj_distance=-jump / band)
    for x, y, z in zip(whole, fixed, expected, strict=True):
        np.testing.assert_allclose(x - y, z, atol=1e-9 * np.abs(z).max())
        assert np.abs(z).max() > 0.1


@pytest.mark.parametrize(("samples", "band", "least", "most"), [(4, 1.0, 0.02, 0.06), (4, 0.5, 0.0, 0.03)])
def test_gradient_silhouette_of_a_ball(samples, band, least, most):
    """d/dR of the mean mask of a unit ball, in closed form: what a band of that width costs."""
    n, size = 33, 64
    step = 2.6 / (n - 1)
    values, place = 1.3 * ball(n, 1 / 1.3)[0], {"spacing": step, "origin": -1.3}
    camera = gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=2 * np.degrees(np.arctan(0.3059411)), width=size, height=size)
    rays = camera.rays(samples=samples, dtype=np.float64)
    adj = np.full((len(rays.origins), 1), 1 / len(rays.origins))
    g = gk.sdf_features.adjoint(values, *rays, **place, band=band * step, adj_mask=adj)
    assert least < -g.grid.sum() / 1.193388 - 1 < most
    # Towards the ball: the silhouette's radius on the film is f R / sqrt(D^2 - R^2).
    closer = g.origins[:, 2].sum()
    wanted = -2 * np.pi * 4 / 15**2 / (2 * 0.3059411) ** 2
    assert least < closer / wanted - 1 < 2 * most


def test_gradient_is_the_same_whatever_the_threads():
    values, place = ball(17)
    rays = downwards(3000, 0.9)
    adj = {f"adj_{name}": np.random.default_rng(1).normal(size=(3000, n)) for name, n in CHANNELS.items()}
    g = gk.sdf_features.adjoint(values, *rays, **place, **adj)
    threads = gk.num_threads()
    gk.set_num_threads(1)
    try:
        one = gk.sdf_features.adjoint(values, *rays, **place, **adj)
    finally:
        gk.set_num_threads(threads)
    for x, y in zip(g, one, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
def test_devices():
    import cupy

    values, place = ball(17, dtype=np.float32)
    rays = downwards(500, 0.9, dtype=np.float32)
    expected = gk.sdf_features(values, *rays, **place, light=SUN)
    found = gk.sdf_features(cupy.asarray(values), *map(cupy.asarray, rays), **place, light=SUN)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x.get(), y, atol=1e-3)
    adj = {f"adj_{name}": np.ones((500, n), np.float32) for name, n in CHANNELS.items()}
    wanted = gk.sdf_features.adjoint(values, *rays, **place, light=SUN, **adj)
    there = {name: cupy.asarray(x) for name, x in adj.items()}
    g = gk.sdf_features.adjoint(cupy.asarray(values), *map(cupy.asarray, rays), **place, light=SUN, **there)
    for x, y in zip(g, wanted, strict=True):
        assert np.linalg.norm(x.get() - y) < 0.02 * np.linalg.norm(y)
