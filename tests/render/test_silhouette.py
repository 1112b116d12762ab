"""Silhouettes: gradients of what moves with edges, beside differences of images of many samples."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.edge_table import EdgeTable
from tests.render.views import ball, front, glow, gradients, quad, slopes, total

DENSE = 16  # x 24 samples a pixel of the images that are differenced
LENS = np.array([-0.2, 0.05, 0.01, -0.02, 0.01])


def cameras():
    away = gk.Camera.look_at((0.4, 0.7, 4), (0.1, 0, 0), fov=50, width=64, height=48)
    flat = gk.Camera.orthographic((0.4, 0.7, 4), (0.1, 0, 0), extent=4.0, width=64, height=48)
    pose, K = away.world_to_camera, away.K
    bent = gk.Camera(pose, K, distortion=LENS, width=64, height=48)
    mirrored = gk.Camera(pose, K * np.array([[1, 1, 1], [1, -1, 1], [1, 1, 1]]), width=64, height=48)
    off = gk.Camera(pose, K + np.array([[2, 1.5, 0.5], [0, -3, -0.5], [0, 0, 0]]), width=64, height=48)
    return {"pinhole": away, "orthographic": flat, "distorted": bent, "negative focal length": mirrored, "skewed": off}


STEPS = {
    "turn x": ("world_to_camera", (1, 0, 0, 0, 0, 0), 0.015),
    "turn y": ("world_to_camera", (0, 1, 0, 0, 0, 0), 0.02),
    "turn z": ("world_to_camera", (0, 0, 1, 0, 0, 0), 0.05),
    "move x": ("world_to_camera", (0, 0, 0, 1, 0, 0), 0.05),
    "move z": ("world_to_camera", (0, 0, 0, 0, 0, 1), 0.1),
    "focal length": ("K", (0, 0), 2.0),
    "principal point x": ("K", (0, 2), 1.0),
    "principal point y": ("K", (1, 2), 1.0),
    "k1": ("distortion", 0, 0.1),
    "p1": ("distortion", 2, 0.03),
}


def changed(camera, step, e):
    name, which, _ = STEPS[step]
    fields = {"world_to_camera": camera.world_to_camera, "K": camera.K, "distortion": camera.distortion}
    if name == "world_to_camera":
        return camera.moved(e * np.array(which[:3], float), e * np.array(which[3:], float)), None
    direction = np.zeros_like(np.asarray(fields[name]))
    direction[which] = 1
    fields[name] = fields[name] + e * direction
    size = {"width": camera.width, "height": camera.height}
    return gk.Camera(
        fields["world_to_camera"], fields["K"], distortion=fields["distortion"], model=camera.model, **size
    ), (direction)


CASES = [("pinhole", step) for step in STEPS if step not in ("k1", "p1")]
CASES += [("orthographic", step) for step in ("turn x", "turn y", "move x", "focal length", "principal point x")]
CASES += [("distorted", step) for step in ("turn y", "move z", "focal length", "principal point y", "k1", "p1")]
CASES += [("negative focal length", step) for step in ("turn z", "move x", "focal length")]
CASES += [("skewed", step) for step in ("turn x", "move z", "principal point x")]


@pytest.mark.parametrize("name, step", CASES)
def test_camera(name, step):
    """Of a body that glows, so that nothing but its outline shows: within 1 % of differences."""
    base, size = cameras()[name], STEPS[step][2]
    scene = gk.Scene({"a": glow(ball(2, 0.8, (0.4, 0.3, 0)), (1.0, 0.7, 0.4))})

    def slope(e):
        camera, direction = changed(base, step, e)
        if direction is None:
            one, other = (changed(base, step, e + h)[0].world_to_camera for h in (1e-5, -1e-5))
            direction = (one - other) / 2e-5
        return np.sum(gradients(scene, camera, samples=1, depth=0).camera[STEPS[step][0]] * direction)

    got, wanted = slopes(lambda e: total(scene, changed(base, step, e)[0], samples=DENSE, depth=0), slope, size, n=24)
    assert got == pytest.approx(wanted, rel=0.01)


def check_vertices(scene, camera, path, direction, size, channel="color", rel=0.01, **options):
    x = scene[path]
    moved = lambda e: scene.with_values({path: x + e * direction})  # noqa: E731
    slope = lambda e: np.sum(gradients(moved(e), camera, channel, **options)[path] * direction)  # noqa: E731
    got, wanted = slopes(lambda e: total(moved(e), camera, channel, **{**options, "samples": DENSE}), slope, size, n=24)
    assert got == pytest.approx(wanted, rel=rel) and abs(wanted) > 0.1


def bent_direction(x):
    return np.stack([0.5 + x[:, 1], x[:, 2] - x[:, 0], 0.7 * x[:, 0]], axis=1)


@pytest.mark.parametrize("name", cameras())
def test_vertices(name):
    """A torus hides part of itself and of a wall; all of its vertices move."""
    torus = gk.shapes.torus(0.9, 0.35, dtype=np.float64)
    scene = gk.Scene({"a": glow(torus, (1.0, 0.7, 0.4)), "wall": glow(quad(9, -0.8), (0.2, 0.3, 0.9))})
    direction = bent_direction(scene["a.vertices"])
    check_vertices(scene, cameras()[name], "a.vertices", direction, 0.15, samples=1, depth=0)


@pytest.mark.parametrize("channel", ["mask", "depth", "position", "normal", "albedo"])
def test_channels(channel):
    wall = gk.Object(quad(1.1 if channel == "mask" else 9, -0.8), gk.Material(albedo=(0.1, 0.9, 0.3)))
    scene = gk.Scene({"a": gk.Object(ball(2, 0.7, (0.5, 0.2, 0.3)), smooth=True), "wall": wall})
    direction = np.broadcast_to([0.8, -0.5, 0.3], scene["a.vertices"].shape)
    check_vertices(scene, cameras()["pinhole"], "a.vertices", direction, 0.2, channel, samples=2)


@pytest.mark.parametrize("k", range(3))
def test_a_triangle_through_the_near_plane(k):
    """Its corners are before, at the side of and behind the camera."""
    corners = np.array([[-0.4, -0.3, 2.0], [0.6, -0.2, 1.0], [0.3, 0.9, 6.5]])
    scene = gk.Scene({"a": glow(gk.Mesh(corners, [[0, 1, 2]]))})
    direction = np.zeros((3, 3))
    direction[k, 0] = 1
    check_vertices(scene, front(48), "a.vertices", direction, 0.08, samples=1, depth=0)


@pytest.mark.parametrize("covered", [0.1, 0.37, 0.94])
@pytest.mark.parametrize("model", ["pinhole", "orthographic"])
def test_an_edge_that_goes_behind_another(covered, model):
    """A glowing square that moves to the right sweeps its side, from where a dark one ends: in closed form."""
    dark = gk.Mesh(quad(3, 0.5, np.float64).vertices * [1, 1, 1] - [0, 3, 0], quad().faces)
    scene = gk.Scene({"lamp": glow(quad(0.4, -0.5)), "dark": gk.Object(dark, gk.Material(albedo=(0, 0, 0)))})
    view = gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=2, width=10, height=10)
    if model == "pinhole":
        view = front(10, distance=4, fov=30)
    scale = view.K[0, 0] / (4.5 if model == "pinhole" else 1)
    limit = np.interp(covered, [0, 1], [-0.4, 0.4])
    # Where the dark square ends, as seen on the plane of the lamp.
    end = limit * (3.5 / 4.5 if model == "pinhole" else 1)
    scene = scene.with_values({"dark.vertices": dark.vertices + [0, end, 0]})
    adj = np.ones((10, 10, 3))
    g = gk.render.adjoint(scene, view, samples=1, depth=0, adj_color=adj)["lamp.vertices"]
    right = np.asarray(scene["lamp.vertices"])[:, 0] > 0
    assert g[right, 0].sum() == pytest.approx(3 * scale**2 * (0.4 - limit), rel=1e-3)


@pytest.mark.parametrize("lit", [0.1, 0.37, 0.63, 0.9])
def test_an_edge_before_another(lit):
    """What a dark square covers that moves to the right: of its side, the part that a glowing one is behind."""
    end = np.interp(lit, [0, 1], [-0.4, 0.4])
    lamp = gk.Mesh(quad(3, -0.5).vertices - [0, 3 - end, 0], quad().faces)
    scene = gk.Scene({"dark": gk.Object(quad(0.4, 0.5), gk.Material(albedo=(0, 0, 0))), "lamp": glow(lamp)})
    view = gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=2, width=24, height=24)
    g = gk.render.adjoint(scene, view, samples=1, depth=0, adj_color=np.ones((24, 24, 3)))["dark.vertices"]
    right = np.asarray(scene["dark.vertices"])[:, 0] > 0
    # (Beyond the middles of the outermost pieces nothing is looked for.)
    assert g[right, 0].sum() == pytest.approx(-3 * 144 * (end + 0.4), rel=0.02, abs=20 if lit in (0.1, 0.9) else 0)


def test_shaded_faces_and_creases():
    """Flat faces under a lamp: the shading jumps across every edge."""
    scene = gk.Scene({"a": gk.shapes.icosphere(1, dtype=np.float64)}, gk.PointLight((2, 3, 4), (30.0, 20.0, 10.0)))
    check_vertices(scene, front(24), "a.vertices", bent_direction(scene["a.vertices"]), 0.1, samples=4)


def test_none_leaves_edges_out():
    scene = gk.Scene({"a": glow(ball(2))})
    g = gradients(scene, front(8), samples=1, depth=0, boundary="none")
    assert not g["a.vertices"].any() and not g["camera.K"].any()
    assert gradients(scene, front(8), samples=1, depth=0)["a.vertices"].any()


def test_edges_of_which_faces_are_seen():
    """Of a box from the front: the four edges of its front face; parallel or not. Of a square: its border."""
    box = gk.shapes.box((2, 2, 2), dtype=np.float64)
    table = EdgeTable(box)
    for eye, parallel in (((0, 0, 4), False), ((0, 0, 1), True)):
        ends = table.ends[table.silhouettes(box, np.array([eye]), parallel=parallel)[0]]
        assert len(ends) == 4 and (box.vertices[ends][..., 2] == 1).all()
    square = quad()
    table = EdgeTable(square)
    assert len(table.silhouettes(square, np.array([[0, 0, 4]]))[0]) == 4
    assert not table.creases(np.ones(2, bool)).any()


def test_faces_of_unlike_orientation():
    """Turning some faces round changes nothing of a body that glows on both sides."""
    mesh = ball(2)
    faces = np.array(mesh.faces)
    faces[::3] = faces[::3, ::-1]
    own, turned = (
        gradients(gk.Scene({"a": glow(m)}), front(16), samples=1, depth=0)["a.vertices"]
        for m in (mesh, gk.Mesh(mesh.vertices, faces))
    )
    np.testing.assert_allclose(turned, own, atol=1e-9)
