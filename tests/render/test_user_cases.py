"""What people have stumbled over in other renderers."""

import tracemalloc

import numpy as np
import pytest

import geomkit as gk
from tests.render.views import ball, front, glow, gradients, quad, slopes, total, weights

LIGHT = gk.PointLight((2.0, 1.0, 3.0), (20.0, 15.0, 10.0))


def finite(g):
    return all(np.isfinite(x).all() for x in [*g.scene.values(), *g.camera.values()])


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * abs(np.asarray(b)).max())


def soup(mesh):
    """Every face with vertices of its own, and the vertex each was."""
    corners = np.asarray(mesh.faces).ravel()
    return gk.Mesh(np.asarray(mesh.vertices)[corners], np.arange(len(corners)).reshape(-1, 3)), corners


# ---- topology


@pytest.mark.parametrize("channel", ["color", "mask", "normal"])
def test_duplicated_vertices(channel):
    """A mesh without shared vertices has no more silhouettes than the mesh: the same gradient, shared out."""
    mesh = ball(2)
    own, corners = soup(mesh)
    a, b = (gk.Scene(gk.Object(m, smooth=True), LIGHT) for m in (mesh, own))
    np.testing.assert_allclose(total(b, front(12), channel), total(a, front(12), channel), rtol=1e-9)
    g, h = (gradients(s, front(12), channel, samples=2)["object.vertices"] for s in (a, b))
    whole = np.zeros_like(g)
    np.add.at(whole, corners, h)
    close(whole, g)


def test_seams_of_uv():
    """A textured ball cut along a seam: the texture is as it was, and so are gradients of texture and vertices."""
    mesh, rng = ball(2), np.random.default_rng(0)
    x = np.asarray(mesh.vertices)
    uv = np.stack([np.arctan2(x[:, 2], x[:, 0]) / (2 * np.pi) + 0.5, 0.5 + 0.5 * x[:, 1]], axis=1)
    own, corners = soup(mesh)
    material = gk.Material(rng.random((8, 8, 3)))
    scenes = [gk.Scene(gk.Object(m, material, uv=t, smooth=True), LIGHT) for m, t in ((mesh, uv), (own, uv[corners]))]
    g, h = (gradients(s, front(12), samples=2) for s in scenes)
    close(h["object.material.albedo"], g["object.material.albedo"])
    whole, whole_uv = np.zeros_like(g["object.vertices"]), np.zeros_like(g["object.uv"])
    np.add.at(whole, corners, h["object.vertices"])
    np.add.at(whole_uv, corners, h["object.uv"])
    close(whole, g["object.vertices"])
    close(whole_uv, g["object.uv"])


def test_crossing_squares():
    """Where surfaces cut through each other the line is no edge: as documented, what it sweeps is not in the gradient.

    Outer edges are, by themselves: with both squares of one colour the line does not show, and all is there.
    """
    tilt = np.array([[0.8, 0, 0.6], [0, 1, 0], [-0.6, 0, 0.8]])
    # No edge is along the rows or columns of samples, which would make the difference of images coarse.
    turn = np.array([[0.96, 0.28, 0], [-0.28, 0.96, 0], [0, 0, 1]])
    one, two = (gk.Mesh(quad(0.8).vertices @ m @ turn, quad().faces) for m in (tilt, tilt.T))
    step = np.array([0.3, 0.2, 0.4])
    for other, shows in (((1.0, 0.2, 0.1), False), ((0.1, 0.3, 1.0), True)):
        scene = gk.Scene({"one": glow(one, (1.0, 0.2, 0.1)), "two": glow(two, other)})

        def moved(e, scene=scene):
            return scene.with_values({"one.vertices": one.vertices + e * step})

        def slope(e, moved=moved):
            g = gradients(moved(e), front(24), samples=1, depth=0)
            assert finite(g)
            return np.sum(g["one.vertices"] * step)

        def value(e, moved=moved):
            return total(moved(e), front(24), samples=24, depth=0)

        got, wanted = slopes(value, slope, 0.1)
        assert (got == pytest.approx(wanted, rel=0.02)) != shows


# ---- degenerate and awkward triangles

AWKWARD = {
    "edge-on": [[0.0, -1, 0], [0, 1, 0], [0, 0, 1]],
    "no area": [[-1.0, 0, 0], [0, 0, 0], [1, 0, 0]],
    "a point": [[0.1, 0.1, 0.1]] * 3,
    "a sliver": [[-1.0, 0, 0], [1, 0, 0], [1, 1e-12, 0]],
    "through the near plane": [[-0.4, -0.3, 2.0], [0.6, -0.2, 1.0], [0.3, 0.9, 6.5]],
    "through the eye": [[0.0, 0, 4], [1, 0, 0], [0, 1, 0]],
    "in the eye's plane": [[0.0, 0, 4], [1, 0, 4], [0, 1, 4]],
    "behind": [[0.0, 0, 5], [1, 0, 6], [0, 1, 7]],
    "far away": [[-1e6, -1e6, -1e7], [1e6, -1e6, -1e7], [0, 1e6, -1e7]],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_triangles_have_finite_gradients(name, dtype):
    triangle = gk.Mesh(np.array(AWKWARD[name], dtype), [[0, 1, 2]])
    for objects in ({"a": triangle}, {"a": gk.Object(triangle, smooth=True), "b": ball(1, 0.5, dtype=dtype)}):
        scene = gk.Scene(objects, LIGHT)
        for channel in ("color", "mask", "depth", "normal"):
            image = getattr(gk.render(scene, front(6), channels=channel, samples=2), channel)
            assert np.isfinite(image).all()
            assert finite(gradients(scene, front(6), channel, samples=2))


# ---- cameras


def test_negative_focal_lengths_mirror():
    """fx < 0 is the image from left to right, its gradients as well; and fx's has the other sign."""
    scene, view = gk.Scene(ball(2, 0.6, (0.3, 0.1, 0.0)), LIGHT), front(10)
    turned = gk.Camera(view.world_to_camera, view.K * np.array([[-1, 1, 1], [1, 1, 1], [1, 1, 1]]), width=10, height=10)
    image = gk.render(scene, view, channels=("color", "mask"), samples=4)
    mirrored = gk.render(scene, turned, channels=("color", "mask"), samples=4)
    np.testing.assert_allclose(mirrored.color[:, ::-1], image.color, atol=1e-9)
    np.testing.assert_allclose(mirrored.mask[:, ::-1], image.mask, atol=1e-9)
    adj = weights(view)
    g = gk.render.adjoint(scene, view, samples=4, adj_color=adj)
    h = gk.render.adjoint(scene, turned, samples=4, adj_color=adj[:, ::-1].copy())
    close(h["object.vertices"], g["object.vertices"])
    assert h["camera.K"][0, 0] == pytest.approx(-g["camera.K"][0, 0])
    assert h["camera.K"][0, 2] == pytest.approx(-g["camera.K"][0, 2])


def test_half_a_pixel_of_opencv():
    """A principal point of (W - 1) / 2 in OpenCV's counting is the image's middle."""
    scene = gk.Scene(ball(3), gk.ConstantLight())
    K = np.array([[12.0, 0, 4.0], [0, 12.0, 4.0], [0, 0, 1]])
    view = gk.Camera.from_opencv([0.0, 0, 0], [0.0, 0, 4], K, width=9, height=9)
    mask = gk.render(scene, view, channels="mask", samples=8).mask[..., 0]
    np.testing.assert_allclose(mask, mask[:, ::-1], atol=0.02)
    np.testing.assert_allclose(mask, mask[::-1], atol=0.02)
    assert view.K[0, 2] == 4.5


def test_handedness():
    """Of two marks on the side at +x, the upper is red: seen from +z they are on the right, from -z on the left."""
    mesh = ball(3)
    x = np.asarray(mesh.vertices)
    albedo = np.full(x.shape, 0.05)
    albedo[(x[:, 0] > 0.3) & (x[:, 1] > 0.3)] = [1, 0, 0]
    albedo[(x[:, 0] > 0.3) & (x[:, 1] < -0.3)] = [0, 0, 1]
    scene = gk.Scene(gk.Object(mesh, gk.Material(albedo)), gk.ConstantLight(visible=False))
    for z, right in ((4, True), (-4, False)):
        image = gk.render(scene, gk.Camera.look_at((0, 0, z), (0, 0, 0), fov=35, width=16, height=16)).color
        marked = image if right else image[:, ::-1]
        assert marked[4:6, 10:12, 0].mean() > 0.5 > 0.1 > marked[4:6, 10:12, 2].mean()
        assert marked[10:12, 10:12, 2].mean() > 0.5 > 0.1 > marked[10:12, 10:12, 0].mean()
        assert marked[:, :6].max() < 0.1


# ---- textures and masks


@pytest.mark.parametrize("kind", [np.uint8, np.int32, bool])
def test_textures_of_bytes_are_refused(kind):
    """They would be colours of 255, and carry no gradient: the message says what to do."""
    image = np.ones((4, 4, 3), kind)
    scene = gk.Scene(gk.Object(quad(), gk.Material(image), uv=quad().vertices[:, :2]), LIGHT)
    for call in (gk.render, lambda *a: gk.render.adjoint(*a, adj_color=np.ones((4, 4, 3)))):
        with pytest.raises(TypeError, match=r"object.material.albedo: expected floats of linear light: x.astype"):
            call(scene, front(4))


def test_gradients_of_a_mask():
    """The area of a square in pixels, whose edges cut pixels anywhere: no blur, and the exact derivative."""
    view = gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=2, width=10, height=10)
    for size in (0.31, 0.5, 0.777):
        scene = gk.Scene(quad(size))
        mask = gk.render(scene, view, channels="mask", samples=20).mask
        assert mask.sum() == pytest.approx((10 * size) ** 2, rel=0.02) and set(np.unique(mask)) >= {0, 1}
        g = gk.render.adjoint(scene, view, channels="mask", samples=1, adj_mask=np.ones((10, 10, 1)))
        assert np.sum(g["object.vertices"] * quad().vertices) == pytest.approx(200 * size, rel=1e-6)
        assert g["camera.K"][0, 0] == pytest.approx(4 * size**2 * view.K[1, 1], rel=1e-6)


def test_a_mask_and_what_it_masks():
    """A loss of both, of one call: the sum of the gradients of each."""
    scene, view = gk.Scene(ball(2), LIGHT), front(8)
    adj = weights(view)
    options = dict(channels=("color", "mask"), samples=2)
    both = gk.render.adjoint(scene, view, **options, adj_color=adj, adj_mask=adj[..., :1])
    color = gk.render.adjoint(scene, view, **options, adj_color=adj)
    mask = gk.render.adjoint(scene, view, **options, adj_mask=adj[..., :1])
    close(both["object.vertices"], color["object.vertices"] + mask["object.vertices"])


# ---- size


def test_memory_does_not_grow_with_the_image():
    """Large images go through in tiles: beyond the image they need the 16 bytes of each hit, kept for the adjoint."""
    mesh, peaks = ball(4, dtype=np.float32), []
    scene = gk.Scene(mesh, LIGHT)
    gk.render(scene, front(8))
    for size in (512, 1024):
        tracemalloc.start()
        try:
            image = gk.render(scene, front(size), samples=1).color
            peaks.append(tracemalloc.get_traced_memory()[1] - image.nbytes)
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 20 * (1024**2 - 512**2)


def test_images_in_parts_are_those_of_the_whole():
    scene, view = gk.Scene({"a": gk.Object(ball(3), smooth=True), "b": glow(quad(0.5, 1.2))}, LIGHT), front(16)
    whole, adj = gk.render(scene, view, samples=2).color, weights(view)
    image, g = np.zeros_like(whole), 0
    for first in range(0, 16, 5):
        part = slice(first, min(first + 5, 16))
        options = dict(samples=2, rows=(part.start, part.stop))
        image[part] = gk.render(scene, view, **options).color
        g = g + gk.render.adjoint(scene, view, **options, adj_color=adj[part])["b.vertices"]
    np.testing.assert_array_equal(image, whole)
    close(g, gk.render.adjoint(scene, view, samples=2, adj_color=adj)["b.vertices"])
