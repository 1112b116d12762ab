"""Rays to the zero of a grid: values, edges, errors, gradients, devices."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import cuda


def ball(n=33, radius=0.6, dtype=np.float64, power=1.0):
    """A distance to a sphere, and where it is; `power` bends it so that it is none."""
    step = 2.0 / (n - 1)
    p = np.stack(np.meshgrid(*[np.linspace(-1, 1, n)] * 3, indexing="ij"), axis=-1)
    d = np.linalg.norm(p, axis=-1) - radius
    return (np.sign(d) * np.abs(d) ** power).astype(dtype), {"spacing": step, "origin": -1.0}


def beams(n=200, seed=0, width=0.9, dtype=np.float64):
    """Rays from a sphere around the grid to points within it."""
    rng = np.random.default_rng(seed)
    origins = rng.normal(size=(n, 3))
    origins *= 3 / np.linalg.norm(origins, axis=1, keepdims=True)
    return origins.astype(dtype), ((rng.uniform(-width, width, (n, 3)) - origins) * rng.uniform(0.3, 3)).astype(dtype)


def marched(values, place, origins, directions, n=4000):
    """The first change of sign by brute force, and the length of a step, for each ray."""
    t = np.linspace(0, 5, n) / np.linalg.norm(directions, axis=1, keepdims=True)
    points = origins[:, None] + t[..., None] * directions[:, None]
    flat = points.reshape(-1, 3)
    value = gk.interpolate_grid(values, flat, **place).value.reshape(len(origins), n)
    low = np.broadcast_to(place["origin"], 3)
    high = low + np.broadcast_to(place["spacing"], 3) * (np.array(values.shape) - 1)
    inside = ((points >= low) & (points <= high)).all(axis=-1)
    value = np.where(inside, value, np.nan)
    flips = (value[:, :-1] < 0) != (value[:, 1:] < 0)
    flips &= np.isfinite(value[:, :-1]) & np.isfinite(value[:, 1:])
    first = flips.argmax(axis=1)
    return np.where(flips.any(axis=1), t[np.arange(len(t)), first], np.inf), t[:, 1]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-12)])
def test_value_on_the_interpolant(dtype, tolerance):
    """Hits are zeros of the interpolant to rounding; t is a ball's to the second order of the spacing."""
    values, place = ball(dtype=dtype)
    origins, directions = beams(dtype=dtype)
    found = gk.sphere_trace(values, origins, directions, **place)
    hit = np.isfinite(found.t)
    assert found.t.dtype == dtype and 0.3 < hit.mean() < 0.9
    np.testing.assert_allclose(found.position[hit], (origins + found.t[:, None] * directions)[hit], atol=1e-5)
    at = gk.interpolate_grid(values, found.position[hit], **place)
    assert np.abs(at.value).max() < tolerance
    slope = at.gradient / np.linalg.norm(at.gradient, axis=1, keepdims=True)
    assert (np.abs(slope - found.normal[hit]).max(axis=1) < 1e-5).mean() > 0.98  # (but for hits on faces of cells)
    a, b = (directions**2).sum(axis=1), (origins * directions).sum(axis=1)
    disc = b * b - a * ((origins**2).sum(axis=1) - 0.6**2)
    true = np.where(disc > 0, (-b - np.sqrt(np.maximum(disc, 0))) / a, np.inf)
    square = disc > 0.05 * a
    assert np.isfinite(found.t[square]).all()
    assert np.abs((found.t[square] - true[square]) * np.sqrt(a[square])).max() < 4e-3
    cubic = gk.sphere_trace(values, origins, directions, normals="cubic", **place)
    outwards = found.position[hit] / np.linalg.norm(found.position[hit], axis=1, keepdims=True)
    off = [np.abs(x.normal[hit] - outwards).max() for x in (found, cubic)]
    assert off[1] < 3e-3 < off[0] < 0.1
    np.testing.assert_array_equal(cubic.t, found.t)


@pytest.mark.parametrize("options", [{}, {"lipschitz": np.inf}, {"band": np.inf}, {"band": 0.0}])
def test_value_no_ray_steps_over_noise(options):
    """A field that is no distance at all: the first change of sign is that of 4,000 samples of the ray."""
    values = np.random.default_rng(0).normal(size=(6, 7, 8)) + 0.8
    place = {"spacing": (0.2, 0.3, 0.25), "origin": (-0.5, -0.9, -0.9)}
    origins, directions = beams(150, seed=1, width=0.5)
    found = gk.sphere_trace(values, origins, directions, **place, **options)
    brute, step = marched(values, place, origins, directions)
    assert np.isfinite(brute).mean() > 0.5
    # (Two zeros between two samples of the ray are seen only by us.)
    assert (found.t <= brute + step).all()
    assert (found.t >= brute).mean() > 0.97
    hit = np.isfinite(found.t)
    assert np.abs(gk.interpolate_grid(values, found.position[hit], **place).value).max() < 1e-11


@pytest.mark.parametrize("power", [0.4, 2.5])
def test_value_without_a_distance(power):
    """A field much steeper or flatter than a distance has the same surface."""
    bent, place = ball(power=power)
    origins, directions = beams(300)
    found = gk.sphere_trace(bent, origins, directions, **place)
    slow = gk.sphere_trace(bent, origins, directions, lipschitz=np.inf, **place)
    for x, y in zip(found, slow, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-11)


def test_value_with_too_small_a_bound():
    """Where a jump has gone too far and the sign shows it, the way is gone again."""
    values, place = ball()
    origins, directions = beams(300, width=0.2)
    found = gk.sphere_trace(values, origins, directions, **place)
    assert np.isfinite(found.t).all()
    short = gk.sphere_trace(values, origins, directions, lipschitz=0.6, **place)
    np.testing.assert_allclose(short.t, found.t, atol=1e-12)


def test_value_nearest_point():
    """Misses know how near they came; so do hits of what is behind."""
    values, place = ball(41)
    y = np.linspace(0.61, 0.9, 30)
    origins, directions = np.stack([0.013 + 0 * y, y, 3 + 0 * y], axis=1), np.tile([0, 0, -2.0], (30, 1))
    found = gk.sphere_trace(values, origins, directions, band=np.inf, **place)
    assert (found.t == np.inf).all() and (found.position == np.inf).all() and (found.normal == 0).all()
    np.testing.assert_allclose(found.distance, np.hypot(y, 0.013) - 0.6, atol=2e-3)
    np.testing.assert_allclose(found.nearest, 1.5, atol=0.02)
    near = gk.sphere_trace(values, origins, directions, **place)
    close = found.distance < 0.05
    np.testing.assert_array_equal(np.isfinite(near.distance), close)
    np.testing.assert_allclose(near.distance[close], found.distance[close], atol=1e-12)
    t = np.linspace(1, 2, 20001)
    line = origins[3] + t[:, None] * directions[3]
    assert abs(found.distance[3] - gk.interpolate_grid(values, line, **place).value.min()) < 1e-8
    # A wall behind the ball.
    p = np.linspace(-1, 1, 41)
    both = np.minimum(values, p + 0.8)
    past = gk.sphere_trace(both, origins[:3], directions[:3], **place)
    np.testing.assert_allclose(past.t, 1.9, atol=1e-9)
    np.testing.assert_allclose(past.distance, found.distance[:3], atol=1e-12)
    # From within, the field is negative there.
    inner = gk.sphere_trace(-values, origins[:3], directions[:3], **place)
    np.testing.assert_allclose(inner.distance, -found.distance[:3], atol=1e-12)


def test_value_starts_and_ends():
    values, place = ball()
    ray = [[0.01, 0.02, 3.0]], [[0.0, 0.0, -1.0]]
    whole = float(gk.sphere_trace(values, *ray, **place).t[0])
    within = gk.sphere_trace(values, *ray, t_min=whole + 1e-6, **place)
    assert 1.15 < float(within.t[0]) - whole < 1.2 and within.normal[0, 2] < -0.99  # out again
    assert gk.sphere_trace(values, *ray, t_max=whole - 1e-6, **place).t[0] == np.inf
    assert gk.sphere_trace(values, *ray, t_min=whole + 1.3, **place).t[0] == np.inf
    grid = gk.SdfGrid(values, np.full(3, -1.0), place["spacing"])
    assert float(gk.sphere_trace(grid, *ray).t[0]) == whole


def test_value_far_from_the_origin():
    values, place = ball(dtype=np.float64)
    origins, directions = beams(50)
    near = gk.sphere_trace(values, origins, directions, **place)
    shift = np.array([1e6, -3e6, 2e6])
    far = gk.sphere_trace(values, origins + shift, directions, spacing=place["spacing"], origin=shift - 1)
    np.testing.assert_allclose(far.t, near.t, atol=1e-7)


def test_edge():
    values, place = ball(9)
    none = gk.sphere_trace(values, np.zeros((0, 3)), np.zeros((0, 3)), **place)
    assert [x.shape for x in none] == [(0,), (0, 3), (0, 3), (0,), (0,)]
    strange = [[0, 0, 0], [np.nan, 0, 1], [0, np.inf, 0], [0, 0, 1]]
    found = gk.sphere_trace(values, np.tile([0, 0, -3.0], (4, 1)), strange, **place)
    assert np.isfinite(found.t).tolist() == [False, False, False, True]
    for shape in ((1, 4, 4), (4, 4, 1), (0, 3, 3)):
        assert gk.sphere_trace(np.ones(shape), [[0, 0, -3]], [[0, 0, 1]]).t[0] == np.inf
    for constant in (1.0, 0.0, -1.0):
        assert gk.sphere_trace(np.full((3, 3, 3), constant), [[1, 1, -3]], [[0, 0, 1]]).t[0] == np.inf
    # Samples that are zero: along a plane of them, and through it.
    plane = np.arange(4.0)[:, None, None] - 1 + np.zeros((4, 4, 4))
    rays = [[3, 1, 1], [0, 1, 1], [1, 1, -2]], [[-1, 0, 0], [1, 0, 0], [0, 0, 1]]
    np.testing.assert_allclose(gk.sphere_trace(plane, *rays).t, [2, 1, np.inf], atol=1e-15)
    # Through corners and along edges of cells.
    rays = [[3, 3, 3], [3, 2, 2], [-1, -1, -1]], [[-1, -1, -1], [-1, 0, 0], [1, 1, 1]]
    np.testing.assert_allclose(gk.sphere_trace(plane, *rays).t, [2, 2, 2], atol=1e-12)
    # Beside what is not finite there is no surface, but behind it there is.
    for gap in (np.nan, np.inf):
        hole = plane - 0.5
        hole[1, 1, 1] = gap
        rays = [[3, 0.5, 0.5], [3, 2.5, 2.5]], [[-1, 0, 0], [-1, 0, 0]]
        assert gk.sphere_trace(hole, *rays).t.tolist() == [np.inf, 1.5]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((np.zeros((3, 3)), [[0, 0, 0]], [[0, 0, 1]]), {}, ValueError, r"grid: expected \(X, Y, Z\) floats"),
        ((np.zeros((3, 3, 3)), [[0, 0]], [[0, 0, 1]]), {}, ValueError, r"origins: expected \(N, 3\) floats"),
        ((np.zeros((3, 3, 3)), [[0, 0, 0]], []), {}, ValueError, r"directions: expected \(1, 3\) floats"),
        ((np.zeros((3, 3, 3)), [[0, 0, 0]], [[0, 0, 1]]), {"spacing": 0}, ValueError, "spacing: expected positive"),
        ((np.zeros((3, 3, 3)), [[0, 0, 0]], [[0, 0, 1]]), {"band": -1}, ValueError, "band: expected a number of at"),
        ((np.zeros((3, 3, 3)), [[0, 0, 0]], [[0, 0, 1]]), {"lipschitz": "x"}, TypeError, "lipschitz: expected a numb"),
        ((np.zeros((3, 3, 3)), [[0, 0, 0]], [[0, 0, 1]]), {"t_min": np.nan}, ValueError, "t_min: expected a number"),
        ((np.zeros((3, 3, 3)), [[0, 0, 0]], [[0, 0, 1]]), {"normals": "flat"}, ValueError, "normals: expected one of"),
        (
            (gk.SdfGrid(np.zeros((3, 3, 3)), np.zeros(3), 1.0), [[0, 0, 0]], [[0, 0, 1]]),
            {"spacing": 1},
            ValueError,
            "spacing, origin: expected none",
        ),
    ],
)
def test_error(arguments, options, error, text):
    with pytest.raises(error, match=f"^sphere_trace: {text}"):
        gk.sphere_trace(*arguments, **options)


def test_error_adjoint():
    with pytest.raises(ValueError, match="^sphere_trace.adjoint: adj_t, adj_position, .*: expected at least one"):
        gk.sphere_trace.adjoint(np.ones((3, 3, 3)), [[0, 0, 0]], [[0, 0, 1]])
    with pytest.raises(ValueError, match=r"^sphere_trace.adjoint: adj_t: expected \(1,\) floats"):
        gk.sphere_trace.adjoint(np.ones((3, 3, 3)), [[0, 0, 0]], [[0, 0, 1]], adj_t=[1, 2])


def straight(values, place, n=40, seed=3):
    """Rays whose hits no small step moves to another cell or beyond the silhouette."""
    origins, directions = beams(400, seed=seed)
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    found = gk.sphere_trace(values, origins, directions, **place)
    u = (found.position - place["origin"]) / place["spacing"]
    with np.errstate(invalid="ignore"):
        keep = np.isfinite(found.t) & (np.abs(u - np.round(u)).min(axis=1) > 0.02)
        keep &= np.abs((found.normal * directions).sum(axis=1)) > 0.3
    return origins[keep][:n], directions[keep][:n]


@pytest.mark.parametrize("normals", ["linear", "cubic"])
def test_gradient_of_hits(normals):
    values, place = ball(9)
    rng = np.random.default_rng(0)
    values = values + 0.02 * rng.normal(size=values.shape)
    origins, directions = straight(values, place)
    assert len(origins) == 40

    def trace(v, o, d):
        found = gk.sphere_trace(v, o, d, normals=normals, band=0.0, **place)
        return found.t, found.position, found.normal

    assert 0 < gk.gradcheck(trace, [values, origins, directions], step=1e-5) < 1e-7


def test_gradient_of_the_nearest_point():
    values, place = ball(9)
    values = values + 0.01 * np.random.default_rng(0).normal(size=values.shape)
    origins, directions = beams(400, seed=5)
    options = {"band": 0.2, **place}
    found = gk.sphere_trace(values, origins, directions, **options)
    keep = np.isfinite(found.distance) & ~np.isfinite(found.t)
    origins, directions = origins[keep], directions[keep]
    # Away from where one minimum gives way to another.
    spread = [
        gk.sphere_trace(values + d, origins, directions, **options).nearest - found.nearest[keep] for d in (-1e-4, 1e-4)
    ]
    with np.errstate(invalid="ignore"):
        keep = (np.abs(spread) < 1e-2).all(axis=0)
    assert keep.sum() > 15
    rays = origins[keep], directions[keep]

    def passed(v, o, d):
        return gk.sphere_trace(v, o, d, **options).distance

    assert 0 < gk.gradcheck(passed, [values, *rays], step=1e-6, rtol=1e-6) < 1e-6


def test_gradient_dot_product_and_sums():
    """The same bits for any number of threads; a miss sends nothing; float32 is that of float64."""
    values, place = ball(17)
    origins, directions = beams(3000)
    rng = np.random.default_rng(1)
    cotangents = {f"adj_{k}": rng.normal(size=s) for k, s in (("t", 3000), ("position", (3000, 3)))}
    cotangents |= {"adj_normal": rng.normal(size=(3000, 3)), "adj_distance": rng.normal(size=3000)}
    g = gk.sphere_trace.adjoint(values, origins, directions, **cotangents, **place)
    threads = gk.num_threads()
    gk.set_num_threads(1)
    try:
        one = gk.sphere_trace.adjoint(values, origins, directions, **cotangents, **place)
    finally:
        gk.set_num_threads(threads)
    for x, y in zip(g, one, strict=True):
        np.testing.assert_array_equal(x, y)
    found = gk.sphere_trace(values, origins, directions, **place)
    miss = ~np.isfinite(found.t) & ~np.isfinite(found.distance)
    assert miss.sum() > 100 and (g.origins[miss] == 0).all() and (g.directions[miss] == 0).all()
    cotangents["adj_t"][miss] = np.nan
    again = gk.sphere_trace.adjoint(values, origins, directions, **cotangents, **place)
    np.testing.assert_array_equal(again.grid, g.grid)
    narrow = gk.sphere_trace.adjoint(
        values.astype(np.float32), origins[~miss], directions[~miss], adj_t=cotangents["adj_t"][~miss], **place
    )
    wide = gk.sphere_trace.adjoint(
        values, origins[~miss], directions[~miss], adj_t=cotangents["adj_t"][~miss], **place
    )
    assert narrow.grid.dtype == np.float32
    assert np.linalg.norm(narrow.grid - wide.grid) < 0.02 * np.linalg.norm(wide.grid)


def test_gradient_is_bounded_where_rays_graze():
    plane = np.arange(5.0) * np.ones((5, 5, 1)) - 1.5
    slant = np.array([[1.0, 0, -1e-9]])
    g = gk.sphere_trace.adjoint(plane, [[0.5, 2.2, 1.5 + 1e-9]], slant, adj_t=[1.0])
    assert np.isfinite(g.grid).all() and 9e3 < np.abs(g.grid).sum() <= 1.01e4


@pytest.mark.skipif(not cuda.available(), reason="CuPy finds no CUDA device here")
def test_devices():
    import cupy

    values, place = ball(17, dtype=np.float32)
    origins, directions = beams(2000, dtype=np.float32)
    given = values, origins, directions
    expected = gk.sphere_trace(*given, **place)
    found = gk.sphere_trace(*map(cupy.asarray, given), **place)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x.get(), y, atol=1e-4)
    hit = np.isfinite(expected.t)
    adj = {"adj_t": np.where(hit, 1, 0).astype(np.float32), "adj_normal": np.ones((2000, 3), np.float32)}
    wanted = gk.sphere_trace.adjoint(*given, **adj, **place)
    on_device = {name: cupy.asarray(x) for name, x in adj.items()}
    for x, y in zip(gk.sphere_trace.adjoint(*map(cupy.asarray, given), **on_device, **place), wanted, strict=True):
        assert np.linalg.norm(x.get() - y) < 0.02 * np.linalg.norm(y)
