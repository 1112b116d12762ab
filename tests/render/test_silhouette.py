"""Silhouettes: gradients of what moves with edges, beside differences of images of many samples."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.silhouette import EdgeTable
from tests.render.views import ball, difference, front, glow, gradients, quad, total

DENSE = 24  # x 24 samples a pixel of the images that are differenced
LENS = np.array([-0.2, 0.05, 0.01, -0.02, 0.01])


def twisted(pose, twist):
    """The derivative of a pose that turns and moves: three numbers of each."""
    a, b, c, x, y, z = twist
    return np.array([[0, -c, b, x], [c, 0, -a, y], [-b, a, 0, z], [0, 0, 0, 0]]) @ pose


def cameras():
    away = gk.Camera.look_at((0.4, 0.7, 4), (0.1, 0, 0), fov=50, width=20, height=16)
    flat = gk.Camera.orthographic((0.4, 0.7, 4), (0.1, 0, 0), extent=4.0, width=20, height=16)
    pose, K = away.world_to_camera, away.K
    bent = gk.Camera(pose, K, distortion=LENS, width=20, height=16)
    mirrored = gk.Camera(pose, K * np.array([[1, 1, 1], [1, -1, 1], [1, 1, 1]]), width=20, height=16)
    off = gk.Camera(pose, K + np.array([[2, 1.5, 0.5], [0, -3, -0.5], [0, 0, 0]]), width=20, height=16)
    return {"pinhole": away, "orthographic": flat, "distorted": bent, "negative focal length": mirrored, "skewed": off}


STEPS = {
    "turn x": ("world_to_camera", (1, 0, 0, 0, 0, 0), 0.02),
    "turn y": ("world_to_camera", (0, 1, 0, 0, 0, 0), 0.02),
    "turn z": ("world_to_camera", (0, 0, 1, 0, 0, 0), 0.05),
    "move x": ("world_to_camera", (0, 0, 0, 1, 0, 0), 0.05),
    "move z": ("world_to_camera", (0, 0, 0, 0, 0, 1), 0.1),
    "focal length": ("K", (0, 0), 0.5),
    "principal point x": ("K", (0, 2), 0.4),
    "principal point y": ("K", (1, 2), 0.4),
    "k1": ("distortion", 0, 0.05),
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
    return gk.Camera(fields["world_to_camera"], fields["K"], distortion=fields["distortion"], model=camera.model, **size), (
        direction
    )


CASES = [
    (name, step)
    for name, camera in cameras().items()
    for step in STEPS
    if (STEPS[step][0] != "distortion" or camera.distortion is not None)
    and not (name == "orthographic" and step == "move z")
]


@pytest.mark.parametrize("name, step", CASES)
def test_camera(name, step):
    """Of a body that glows, so that nothing but its outline shows: within 1 % of central differences."""
    camera, size = cameras()[name], STEPS[step][2]
    scene = gk.Scene({"a": glow(ball(2, 0.9), (1.0, 0.7, 0.4)), "b": glow(gk.shapes.box((0.7, 3, 0.5), dtype=np.float64))})
    got = gradients(scene, camera, samples=1, depth=0).camera[STEPS[step][0]]
    direction = changed(camera, step, 0.0)[1]
    if direction is None:
        one, other = (changed(camera, step, e)[0].world_to_camera for e in (1e-5, -1e-5))
        direction = (one - other) / 2e-5
    wanted = difference(lambda e: total(scene, changed(camera, step, e)[0], samples=DENSE, depth=0), size)
    print(np.sum(got * direction), wanted)
    assert np.sum(got * direction) == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("name", cameras())
def test_vertices(name):
    """A torus hides part of itself and of a wall; all vertices move."""
    camera = cameras()[name]
    torus = gk.shapes.torus(0.9, 0.35, dtype=np.float64)
    scene = gk.Scene({"a": glow(torus, (1.0, 0.7, 0.4)), "wall": glow(quad(1.1, -0.8), (0.2, 0.3, 0.9))})
    x = scene["a.vertices"]
    direction = np.stack([0.5 + x[:, 1], x[:, 2] - x[:, 0], 0.7 * x[:, 0]], axis=1)
    got = np.sum(gradients(scene, camera, samples=1, depth=0)["a.vertices"] * direction)
    moved = lambda e: scene.with_values({"a.vertices": x + e * direction})  # noqa: E731
    wanted = difference(lambda e: total(moved(e), camera, samples=DENSE, depth=0), 0.03)
    assert got == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("channel", ["mask", "depth", "position", "normal", "albedo"])
def test_channels(channel):
    scene = gk.Scene({"a": gk.Object(ball(2, 0.8), smooth=True), "wall": quad(1.1, -0.8)})
    camera, x = cameras()["pinhole"], scene["a.vertices"]
    direction = np.broadcast_to([0.8, -0.5, 0.3], x.shape)
    got = np.sum(gradients(scene, camera, channel, samples=8)["a.vertices"] * direction)
    moved = lambda e: scene.with_values({"a.vertices": x + e * direction})  # noqa: E731
    wanted = difference(lambda e: total(moved(e), camera, channel, samples=DENSE), 0.05)
    assert got == pytest.approx(wanted, rel=0.01)


def test_a_triangle_through_the_near_plane():
    """Its corners are before, at the side of and behind the camera."""
    mesh = gk.Mesh([[-0.4, -0.3, 2.0], [0.6, -0.2, 1.0], [0.3, 0.9, 6.5]], [[0, 1, 2]])
    scene = gk.Scene({"a": glow(gk.Mesh(np.asarray(mesh.vertices, np.float64), mesh.faces))})
    camera, x = front(16), scene["a.vertices"]
    for k in range(3):
        direction = np.zeros((3, 3))
        direction[k, 0] = 1
        got = np.sum(gradients(scene, camera, samples=1, depth=0)["a.vertices"] * direction)
        moved = lambda e, d=direction: scene.with_values({"a.vertices": x + e * d})  # noqa: E731
        wanted = difference(lambda e, f=moved: total(f(e), camera, samples=DENSE, depth=0), 0.02)
        assert got == pytest.approx(wanted, rel=0.01)


def test_lit_and_shaded_faces_and_creases():
    """Flat faces under a lamp: the shading jumps across every edge."""
    scene = gk.Scene({"a": gk.shapes.icosphere(1, dtype=np.float64)}, gk.PointLight((2, 3, 4), (30.0, 20.0, 10.0)))
    camera, x = front(16), scene["a.vertices"]
    direction = np.stack([0.5 + x[:, 1], x[:, 2] - x[:, 0], 0.7 * x[:, 0]], axis=1)
    got = np.sum(gradients(scene, camera, samples=16)["a.vertices"] * direction)
    moved = lambda e: scene.with_values({"a.vertices": x + e * direction})  # noqa: E731
    wanted = difference(lambda e: total(moved(e), camera, samples=DENSE), 0.01)
    assert got == pytest.approx(wanted, rel=0.01)


def test_none_leaves_edges_out():
    scene = gk.Scene({"a": glow(ball(2))})
    g = gradients(scene, front(8), samples=1, depth=0, boundary="none")
    assert not g["a.vertices"].any() and not g["camera.K"].any()
    assert gradients(scene, front(8), samples=1, depth=0)["a.vertices"].any()


def test_edges_of_which_faces_are_seen():
    """Of a box from the front: the four edges of its front face; parallel or not. Of a square: its border."""
    box = gk.shapes.box((2, 2, 2), dtype=np.float64)
    table, normals = EdgeTable(box), np.asarray(box.face_normals)
    for eye, parallel in (((0, 0, 4), False), ((0, 0, 1), True)):
        ends = table.ends[table.silhouettes(box, normals, eye, parallel=parallel)]
        assert len(ends) == 4 and (box.vertices[ends][..., 2] == 1).all()
    square = quad()
    table = EdgeTable(square)
    assert table.silhouettes(square, np.asarray(square.face_normals), (0, 0, 4)).sum() == 4
    assert not table.creases(np.asarray(square.face_normals), np.ones(2, bool)).any()


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
