"""Images of a grid's surface: values, silhouettes by both ways, cameras, errors, trackers."""

import numpy as np
import pytest

import geomkit as gk
from tests.render.views import slopes, weights

SUN = gk.DirectionalLight((-1.0, -2.0, -3.0), (2.0, 2.0, 2.0))
FOV = 2 * np.degrees(np.arctan(0.3059411))


def ball(n=33, radius=1.0, extent=1.3, dtype=np.float64):
    p = np.stack(np.meshgrid(*[np.linspace(-extent, extent, n)] * 3, indexing="ij"), axis=-1)
    return (np.linalg.norm(p, axis=-1) - radius).astype(dtype), {"spacing": 2 * extent / (n - 1), "origin": -extent}


def front(size=32, **options):
    return gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=FOV, width=size, height=size, **options)


def mean_mask(values, place, camera, boundary, **options):
    """The mean mask, and its gradient to the samples."""
    with gk.Tape() as tape:
        x = tape.watch(values)
        mean = gk.render_sdf(x, camera, boundary=boundary, **place, **options).mask.mean()
    return float(mean.value), tape.gradient(mean, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_both_ways(dtype):
    """A traced grid looks like its mesh."""
    values, place = ball(dtype=dtype)
    options = {"channels": ("color", "mask", "depth", "position"), "light": SUN, "albedo": (0.2, 0.4, 0.6), **place}
    traced = gk.render_sdf(values, front(), **options)
    meshed = gk.render_sdf(values, front(), boundary="mesh", **options)
    assert traced.color.shape == (32, 32, 3) and traced.mask.dtype == dtype and traced.normal is None
    for name in options["channels"]:
        x, y = getattr(traced, name), getattr(meshed, name)
        inner = (traced.mask == 1)[..., 0] & (meshed.mask == 1)[..., 0]
        assert inner.sum() > 300 and np.abs(x - y)[inner].max() < 0.03 * np.abs(y).max()
        assert np.abs(x - y).mean() < 0.01 * np.abs(y).max()
    grid = gk.SdfGrid(values, np.full(3, -1.3), place["spacing"])
    for boundary in ("mesh", "none"):
        one = gk.render_sdf(grid, front(), boundary=boundary).mask
        np.testing.assert_array_equal(one, gk.render_sdf(values, front(), boundary=boundary, **place).mask)


def test_edge():
    nothing = gk.render_sdf(np.ones((4, 4, 4)), front(4), channels=("mask", "color"), light=SUN)
    assert not nothing.mask.any() and not nothing.color.any()
    assert not gk.render_sdf(np.ones((4, 4, 4)), front(4), boundary="mesh").mask.any()
    lens = front(6)
    lens = gk.Camera(lens.world_to_camera, lens.K, width=6, height=6, distortion=[0.1, 0.0, 0.0, 0.0])
    values, place = ball(9)
    assert gk.render_sdf(values, lens, **place).mask[3, 3, 0] == 1
    flat = gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=4, width=16, height=16)
    mask = gk.render_sdf(*ball(33)[:1], flat, **ball(33)[1], samples=4).mask
    assert mask.mean() == pytest.approx(np.pi / 16, rel=0.01)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"camera": None}, TypeError, "camera: expected a Camera, got NoneType"),
        ({"channels": ("mask", "albedo")}, ValueError, "channels: expected some of color, mask, depth, position, norm"),
        ({"channels": ()}, ValueError, "channels: expected some of"),
        ({"boundary": "integral"}, ValueError, "boundary: expected one of 'thin_band', 'mesh', 'none'"),
        ({"light": 3.0}, TypeError, "light: expected ConstantLight or DirectionalLight, one or several, got float"),
    ],
)
def test_error(change, error, text):
    with pytest.raises(error, match=f"^render_sdf: {text}"):
        gk.render_sdf(**({"grid": ball(5)[0], "camera": front(4)} | change))


def test_gradient_silhouette_in_closed_form():
    """d/dR of the mean mask of a ball: 16 pi 32 R / (16 - R^2)^2 / W^2, W = 8 * 0.3059411.

    That of the mesh swings about it by 0.3 % within a voxel, as its chords shift along the sphere: the mean over a
    voxel is compared. That of the band is too large by half the band over the radius.
    """
    values, place = ball(129)
    off = []
    for k in range(4):
        radius = 1 + k / 4 * place["spacing"]
        _, g = mean_mask(values + 1 - radius, place, front(64), "mesh", samples=1)
        off.append(-g.sum() / (16 * np.pi * 32 * radius / (16 - radius**2) ** 2 / (8 * 0.3059411) ** 2) - 1)
    assert abs(np.mean(off)) < 1e-3 and np.abs(off).max() < 5e-3
    values, place = ball(33)
    _, g = mean_mask(values, place, front(64), "thin_band", samples=4)
    assert 0.0 < -g.sum() / 1.193388 - 1 < 0.03
    _, g = mean_mask(values, place, front(64), "none")
    assert not g.any()


def test_gradient_silhouette_by_differences():
    """The mesh's silhouettes move as the image says: a bump is raised, the camera is moved."""
    values, place = ball(21)
    x = np.stack(np.meshgrid(*[np.linspace(-1.3, 1.3, 21)] * 3, indexing="ij"), axis=-1)
    bump = np.exp(-8 * ((x - [0.7, 0.7, 0]) ** 2).sum(axis=-1))
    camera = front(32)
    w = weights(camera, 1)

    def total(e, samples=16):
        image = gk.render_sdf(values - e * bump, camera, boundary="mesh", samples=samples, **place)
        return float((image.mask * w).sum())

    def slope(e):
        with gk.Tape() as tape:
            v = tape.watch(values - e * bump)
            loss = (gk.render_sdf(v, camera, boundary="mesh", samples=1, **place).mask * w).sum()
        return -(tape.gradient(loss, v) * bump).sum()

    found, expected = slopes(total, slope, 0.08, n=32)
    assert found == pytest.approx(expected, rel=4e-3)
    # The band's own bias is half its width over the radius.
    with gk.Tape() as tape:
        v = tape.watch(values)
        loss = (gk.render_sdf(v, camera, samples=8, **place).mask * w).sum()
    assert -(tape.gradient(loss, v) * bump).sum() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("boundary", "tolerance"), [("mesh", 1e-2), ("thin_band", 0.06)])
def test_gradient_of_the_camera(boundary, tolerance):
    """Towards the ball, aside, and the focal length, in closed form of the cone around a ball."""
    values, place = ball(65 if boundary == "mesh" else 33)
    camera = front(64)
    with gk.Tape() as tape:
        pose, K = tape.watch(np.array(camera.world_to_camera)), tape.watch(np.array(camera.K))
        moved = gk.Camera(pose, K, width=64, height=64)
        mean = gk.render_sdf(values, moved, boundary=boundary, samples=3, **place).mask.mean()
    by_pose, by_K = tape.gradient(mean, [pose, K])
    area = np.pi / 15 / 0.3059411**2 / 4
    assert float(mean.value) == pytest.approx(area, rel=1e-2)
    assert by_pose[2, 3] == pytest.approx(-2 * 4 / 15 * area, rel=tolerance)
    assert abs(by_pose[0, 3]) < 2e-3 and abs(by_pose[1, 3]) < 2e-3
    f = camera.K[0, 0]
    assert by_K[0, 0] == pytest.approx(area / f, rel=tolerance)


def test_gradient_in_torch_and_jax():
    values, place = ball(9)
    camera = front(8)
    _, expected = mean_mask(values, place, camera, "thin_band")
    torch = pytest.importorskip("torch")
    x = torch.tensor(values, requires_grad=True)
    image = gk.render_sdf(x, camera, channels=("mask", "depth"), **place)
    assert isinstance(image.depth, torch.Tensor)
    image.mask.mean().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-12)
    x = torch.tensor(values, requires_grad=True)
    gk.render_sdf(x, camera, boundary="mesh", **place).mask.mean().backward()
    assert x.grad.abs().max() > 0
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        grad = jax.jit(jax.grad(lambda v: gk.render_sdf(v, camera, **place).mask.mean()))
        np.testing.assert_allclose(grad(jax.numpy.asarray(values)), expected, atol=1e-12)
