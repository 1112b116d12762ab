"""Images and their gradients as a whole: edges, errors, invariances, determinism, and who follows them."""

import sys
import tracemalloc

import numpy as np
import pytest

import geomkit as gk
from tests.render.views import ball, front, glow, gradients, quad, total, weights

POINT = gk.PointLight((2.0, 1.0, 3.0), (20.0, 15.0, 10.0))


def scene_of(light=POINT, smooth=True, level=2):
    objects = {"ball": gk.Object(ball(level, 0.7, (0.1, 0.2, 0.3)), smooth=smooth), "floor": gk.Object(quad(1.5, -0.8))}
    return gk.Scene(objects, {"light": light})


def camera(size=12, **options):
    return gk.Camera.look_at((0.4, 0.7, 4), (0.1, 0, 0), fov=45, width=size, height=size, **options)


def all_finite(g):
    return all(np.isfinite(x).all() for x in [*g.scene.values(), *g.camera.values()])


# ---- values of the channels


def test_channels():
    scene, view = gk.Scene(gk.Object(quad(9), gk.Material(albedo=(0.2, 0.4, 0.6))), gk.ConstantLight()), front(6)
    image = gk.render(scene, view, channels=("depth", "color", "mask", "position", "normal", "albedo"), samples=1)
    rays = view.rays(dtype=np.float64)
    wanted = rays.origins + 4 * rays.directions
    np.testing.assert_allclose(image.depth, 4, rtol=1e-12)
    np.testing.assert_array_equal(image.mask, 1)
    np.testing.assert_allclose(image.position.reshape(-1, 3), wanted, atol=1e-9)
    np.testing.assert_allclose(image.normal, np.broadcast_to([0, 0, 1.0], (6, 6, 3)), atol=1e-12)
    np.testing.assert_allclose(image.albedo, np.broadcast_to([0.2, 0.4, 0.6], (6, 6, 3)))
    np.testing.assert_allclose(image.color, image.albedo, rtol=1e-9)
    assert repr(image).startswith("Rendering(color (6, 6, 3), mask (6, 6, 1)")
    assert gk.render(scene, view, channels="mask").color is None


def test_left_is_left():
    """What is at +x is on the right, what is at +y on top, in the first row."""
    mesh = gk.Mesh(quad(0.3).vertices + [0.7, 0.7, 0], quad().faces)
    mask = gk.render(mesh, front(10), channels="mask").mask[..., 0]
    assert mask[:5, 5:].sum() > 0 and mask[5:].sum() == mask[:, :5].sum() == 0


def test_mask_is_the_share_of_a_pixel():
    """Vertical edges at thirds of pixels, by n samples in a row to within 1 / n; the sum is the area."""
    view = gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=8, width=8, height=8)
    mesh = gk.Mesh(quad().vertices * [4 / 3, 1.25, 1], quad().faces)
    mask = gk.render(mesh, view, channels="mask", samples=12).mask
    assert mask.sum() == pytest.approx(8 / 3 * 2.5, rel=1e-9)
    assert set(np.unique(mask)) <= {0, 0.25, 1 / 3, 1, 1 / 12, 0.25 / 3}.union(
        np.unique(mask[abs(mask - 1 / 12) < 1e-9])
    )


def test_a_seed_is_an_image():
    scene, view = scene_of(gk.ConstantLight()), camera()
    one, same, other = (gk.render(scene, view, samples=2, seed=s).color for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert abs(one - other).max() > 1e-3
    assert one.mean() == pytest.approx(other.mean(), rel=0.02)


# ---- edges


def test_an_empty_mesh_beside_another():
    empty = gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int32))
    scene = gk.Scene({"none": empty, "ball": ball(2)}, POINT)
    np.testing.assert_array_equal(gk.render(scene, camera()).color, gk.render(gk.Scene(ball(2), POINT), camera()).color)
    g = gradients(scene, camera(), samples=1)
    assert g["none.vertices"].shape == (0, 3) and g["ball.vertices"].any()


def test_a_lens_that_leaves_pixels_without_a_ray():
    """They are black, whatever the light behind; the others are as without them."""
    lens = np.array([-0.9, 0, 0, 0])
    view = gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=60, width=16, height=16)
    view = gk.Camera(view.world_to_camera, view.K, width=16, height=16, distortion=lens)
    blind = np.isnan(view.rays().directions).any(axis=1).reshape(16, 16)
    assert 0 < blind.sum() < 256
    for light in (gk.ConstantLight(), gk.EnvironmentLight(np.ones((4, 8, 3))), POINT):
        scene = gk.Scene({"ball": ball(2), "lamp": glow(quad(0.3, 1.5))}, light)
        image = gk.render(scene, view, channels=("color", "mask", "depth"), samples=1)
        assert not image.color[blind].any() and not image.mask[blind].any() and np.isfinite(image.depth).all()
        assert image.color[8, 8].any()
        g = gradients(scene, view, samples=1, light_points=8)
        assert all_finite(g) and g["ball.vertices"].any() and g.camera["distortion"].any()


def test_nothing_at_all():
    empty = gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int32))
    scene = gk.Scene(empty, gk.ConstantLight((0.2, 0.3, 0.4)))
    np.testing.assert_allclose(gk.render(scene, camera()).color, np.broadcast_to([0.2, 0.3, 0.4], (12, 12, 3)))
    g = gradients(scene, camera(), samples=1)
    np.testing.assert_allclose(g["light.radiance"], weights(camera()).sum(axis=(0, 1)))


def test_split_normals_are_hard_edges():
    """A box cut along its edges is flat with normals of its vertices, and round with one normal at each corner."""
    box = gk.shapes.box((1.5, 1.5, 1.5), dtype=np.float64)
    cut = gk.Mesh(np.asarray(box.vertices)[np.asarray(box.faces)].reshape(-1, 3), np.arange(36).reshape(12, 3))
    flat, split, smooth = (
        gk.Scene(gk.Object(cut, smooth=flag), POINT) for flag in (False, "split", True)
    )
    image = gk.render(flat, camera(), samples=2).color
    np.testing.assert_allclose(gk.render(split, camera(), samples=2).color, image, atol=1e-9)
    assert abs(gk.render(smooth, camera(), samples=2).color - image).max() > 0.01
    a, b = (gradients(s, camera(), samples=2)["object.vertices"] for s in (flat, split))
    np.testing.assert_allclose(b, a, atol=1e-7 * abs(a).max())
    with pytest.raises(ValueError, match="render: object.smooth: expected True, False or 'split', got 'no'"):
        gk.render(gk.Scene(gk.Object(cut, smooth="no"), POINT), camera())


def test_no_light():
    scene = gk.Scene(ball(2))
    assert not gk.render(scene, camera()).color.any()
    g = gradients(scene, camera(), samples=1)
    assert not g["object.vertices"].any() and all_finite(g)


def test_camera_within():
    inside = gk.Camera.look_at((0.1, 0, 0), (1, 0.2, 0.1), fov=60, width=8, height=8)
    scene = gk.Scene(ball(2), gk.PointLight((0.2, 0.3, 0.1)))
    assert (gk.render(scene, inside, samples=1).color > 0).all()
    assert all_finite(gradients(scene, inside, samples=1))


@pytest.mark.parametrize("light", [POINT, gk.ConstantLight(), gk.DirectionalLight((0.1, 0.2, -1))])
def test_broken_faces_have_finite_gradients(light):
    """Faces without area, edge-on, twice there, through the camera, behind it, and of one point."""
    vertices = np.array(
        [[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, 1], [0, 1, 1], [0, 0.5, -1], [-1, -1, 0], [-0.5, -1, 6], [-1, 1, 0]]
    )
    faces = [[0, 1, 2], [3, 4, 5], [0, 0, 0], [0, 1, 4], [0, 1, 4], [6, 7, 8], [0, 0, 1]]
    for smooth in (False, True):
        scene = gk.Scene(
            {"a": gk.Object(gk.Mesh(vertices, faces), smooth=smooth), "b": quad(2, -0.5)}, {"light": light}
        )
        for view in (front(8), gk.Camera.orthographic((0, 0, 4), (0, 0, 0), extent=3, width=8, height=8)):
            image = gk.render(scene, view, channels=("color", "depth"), samples=2, depth=2)
            assert np.isfinite(image.color).all() and np.isfinite(image.depth).all()
            assert all_finite(gradients(scene, view, samples=2, depth=2, light_points=8))


@pytest.mark.parametrize("width, height", [(1, 1), (1, 7), (7, 1)])
def test_thin_films(width, height):
    view = gk.Camera.look_at((0.4, 0.7, 4), (0.1, 0, 0), fov=45, width=width, height=height)
    assert gk.render(scene_of(), view).color.shape == (height, width, 3)
    g = gradients(scene_of(), view, samples=2)
    assert all_finite(g) and g["ball.vertices"].any()


def test_tiles_do_not_show(monkeypatch):
    scene, view = scene_of(gk.ConstantLight()), camera()
    image, g = gk.render(scene, view, samples=2).color, gradients(scene, view, samples=2)
    monkeypatch.setattr(sys.modules["geomkit.render.render"], "TILE", 100)
    np.testing.assert_array_equal(gk.render(scene, view, samples=2).color, image)
    tiled = gradients(scene, view, samples=2)
    for path, x in g.scene.items():
        np.testing.assert_allclose(tiled[path], x, rtol=1e-9, atol=1e-9)


# ---- errors

BAD = [
    ({"channels": "colour"}, ValueError, "render: channels: expected some of color, mask"),
    ({"channels": None}, ValueError, "render: channels: expected some of .*, got None"),
    ({"channels": ()}, ValueError, "render: channels: expected some of"),
    ({"channels": ("color", "color")}, ValueError, "once each"),
    ({"samples": 0}, ValueError, "render: samples: expected an integer of at least 1, got 0"),
    ({"samples": 1.5}, TypeError, "render: samples: expected an integer of at least 1, got float"),
    ({"depth": -1}, ValueError, "render: depth: expected an integer of at least 0, got -1"),
    ({"boundary": "soft"}, ValueError, "render: boundary: expected 'integral', 'antialias' or 'none', got 'soft'"),
    ({"light_points": 0}, ValueError, "render: light_points: expected an integer of at least 1"),
    ({"seed": -1}, ValueError, "render: seed: expected an integer of at least 0, got -1"),
]


@pytest.mark.parametrize("options, kind, text", BAD)
def test_options_that_are_refused(options, kind, text):
    with pytest.raises(kind, match=text):
        gk.render(scene_of(), camera(), **options)


def test_arguments_that_are_refused():
    with pytest.raises(TypeError, match="render: camera: expected a Camera, got int"):
        gk.render(scene_of(), 3)
    with pytest.raises(TypeError, match="Scene: objects"):
        gk.render(3, camera())
    with pytest.raises(ValueError, match="render.adjoint: adj_color: expected at least one, got None"):
        gk.render.adjoint(scene_of(), camera())
    with pytest.raises(ValueError, match="render.adjoint: adj_mask: expected None, as channels are color"):
        gk.render.adjoint(scene_of(), camera(), adj_mask=np.ones((12, 12, 1)))
    with pytest.raises(ValueError, match="render.adjoint: adj_color: expected"):
        gk.render.adjoint(scene_of(), camera(), adj_color=np.ones((3, 12, 12)))


# ---- invariances


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * abs(np.asarray(b)).max())


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("light", [POINT, gk.ConstantLight()])
def test_renumbering(light, smooth):
    scene, view, rng = scene_of(light, smooth), camera(), np.random.default_rng(0)
    mesh = scene.objects["ball"].mesh
    order, faces = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
    place = np.argsort(order)
    turned = np.stack(
        [np.roll(f, k) for f, k in zip(place[mesh.faces[faces]], rng.integers(0, 3, len(faces)), strict=True)]
    )
    other = gk.Scene(
        {"ball": gk.Object(gk.Mesh(mesh.vertices[order], turned), smooth=smooth), "floor": scene.objects["floor"]},
        {"light": light},
    )
    a, b = (gradients(s, view, samples=2) for s in (scene, other))
    close(b["ball.vertices"], a["ball.vertices"][order])
    close(b.camera["K"], a.camera["K"])


@pytest.mark.parametrize("smooth", [False, True])
def test_seams_of_textures(smooth):
    """Cutting a mesh along seams changes nothing: the parts of a vertex share its gradient."""
    scene, view = scene_of(smooth=smooth), camera()
    mesh = scene.objects["ball"].mesh
    corners = np.asarray(mesh.faces).copy()
    cut = np.flatnonzero(mesh.vertices[corners].mean(axis=1)[:, 0] > 0.1)
    first, vertices, owner = mesh.n_vertices, [mesh.vertices], [np.arange(mesh.n_vertices)]
    olds = np.unique(corners[cut])
    place = {old: first + k for k, old in enumerate(olds)}
    corners[cut] = np.vectorize(place.get)(corners[cut])
    split = gk.Mesh(np.concatenate([*vertices, mesh.vertices[olds]]), corners)
    owner = np.concatenate([*owner, olds])
    other = gk.Scene({"ball": gk.Object(split, smooth=smooth), "floor": scene.objects["floor"]}, scene.lights)
    image = gk.render(scene, view, samples=2).color
    np.testing.assert_allclose(gk.render(other, view, samples=2).color, image, atol=1e-9)
    a, b = (gradients(s, view, samples=2) for s in (scene, other))
    whole = np.zeros(mesh.vertices.shape)
    np.add.at(whole, owner, b["ball.vertices"])
    close(whole, a["ball.vertices"])


@pytest.mark.parametrize("smooth", [False, True])
def test_rotating_everything(smooth):
    """Scene, light and camera together."""
    rotation = gk.pose([0.3, -0.5, 0.8], [0, 0, 0], np.eye(4))[:3, :3]
    scene, view = scene_of(POINT, smooth), camera()
    turn = lambda x: np.asarray(x) @ rotation.T  # noqa: E731
    paths = ("ball.vertices", "floor.vertices", "light.position")
    other = scene.with_values({path: turn(scene[path]) for path in paths})
    pose = view.world_to_camera.copy()
    pose[:3, :3] = pose[:3, :3] @ rotation.T
    turned = gk.Camera(pose, view.K, width=12, height=12)
    np.testing.assert_allclose(gk.render(other, turned).color, gk.render(scene, view).color, atol=1e-9)
    a, b = gradients(scene, view, samples=2), gradients(other, turned, samples=2)
    for path in paths:
        close(b[path], turn(a[path]))
    close(b.camera["K"], a.camera["K"])


def test_moving_by_whole_pixels():
    scene, view = scene_of(), camera()
    K = view.K + np.array([[0, 0, 2.0], [0, 0, 3.0], [0, 0, 0]])
    wide = gk.Camera(view.world_to_camera, K, width=14, height=15)
    image = gk.render(scene, wide, samples=2).color
    np.testing.assert_allclose(image[3:, 2:], gk.render(scene, view, samples=2).color, atol=1e-9)
    adj = np.zeros((15, 14, 3))
    adj[3:, 2:] = weights(view)
    g = gk.render.adjoint(scene, wide, samples=2, adj_color=adj)
    close(g["ball.vertices"], gradients(scene, view, samples=2)["ball.vertices"])


def test_half_a_pixel():
    """The middle of an image of W pixels is W / 2: what is symmetrical stays so."""
    image = gk.render(ball(3, dtype=np.float32), front(9), channels="depth").depth[..., 0]
    np.testing.assert_allclose(image, image[:, ::-1], atol=1e-3)
    np.testing.assert_allclose(image, image[::-1], atol=1e-3)


# ---- the same bits


@pytest.mark.parametrize("light", [POINT, gk.ConstantLight()])
def test_gradients_are_the_same_bits(light):
    """For any number of threads, and from run to run."""
    scene, view = scene_of(light), camera(24)
    scene = gk.Scene({**scene.objects, "lamp": glow(quad(0.2, 2.5))}, scene.lights)
    before, found = gk.num_threads(), []
    try:
        for n in (1, 2, 5, 5):
            gk.set_num_threads(n)
            image = gk.render(scene, view, samples=2, depth=2).color
            found.append((image, gradients(scene, view, samples=2, depth=2, light_points=16)))
    finally:
        gk.set_num_threads(before)
    (image, g), *others = found
    for other, h in others:
        np.testing.assert_array_equal(other, image)
        for path, x in (g.scene | g.camera).items():
            np.testing.assert_array_equal((h.scene | h.camera)[path], x, err_msg=path)


def test_memory_does_not_grow():
    scene, view = scene_of(gk.ConstantLight()), camera(16)
    x, sizes = scene["ball.vertices"], []
    tracemalloc.start()
    try:
        for k in range(24):
            now = scene.with_values({"ball.vertices": x + 1e-3 * k})
            gradients(now, view, samples=2, depth=2, light_points=8)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(sizes[-4:]) - max(sizes[8:12]) < 50_000


# ---- who follows

VALUES = {
    "ball.vertices": ball(2, 0.7, (0.1, 0.2, 0.3)).vertices,
    "ball.material.albedo": np.array([0.5, 0.4, 0.3]),
    "light.position": np.array([2.0, 1.0, 3.0]),
    "camera.K": camera().K,
}


def wanted():
    scene = scene_of().with_values({path: x for path, x in VALUES.items() if not path.startswith("camera")})
    adj = weights(camera())
    g = gk.render.adjoint(scene, camera(), channels=("color", "mask"), samples=2, adj_color=adj, adj_mask=adj[..., :1])
    return [np.asarray(g[path]) for path in VALUES]


def loss_of(vertices, albedo, position, K, library):
    ball_object = gk.Object(gk.Mesh(vertices, ball(2).faces), gk.Material(albedo=albedo), smooth=True)
    scene = gk.Scene(
        {"ball": ball_object, "floor": gk.Object(quad(1.5, -0.8))}, {"light": gk.PointLight(position, POINT.intensity)}
    )
    view = gk.Camera(camera().world_to_camera, K, width=12, height=12)
    image = gk.render(scene, view, channels=("color", "mask"), samples=2)
    adj = library(weights(view))
    return (image.color * adj).sum() + (image.mask * adj[..., :1]).sum()


def test_torch():
    torch = pytest.importorskip("torch")
    values = [torch.tensor(x, requires_grad=True) for x in VALUES.values()]
    loss = loss_of(*values, torch.tensor)
    loss.backward()
    for x, g in zip(values, wanted(), strict=True):
        np.testing.assert_allclose(x.grad, g, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("path", ["ball.material.albedo", "light.intensity"])
def test_numbers_that_stand_for_three_channels(path):
    torch = pytest.importorskip("torch")
    scene = scene_of().with_values({path: 0.7})
    three = scene.with_values({path: np.full(3, 0.7)})
    adj = np.random.default_rng(0).random((12, 12, 3))
    of_one, of_three = (gk.render.adjoint(x, camera(), samples=1, adj_color=adj)[path] for x in (scene, three))
    assert of_one.shape == () and of_three.shape == (3,)
    np.testing.assert_allclose(of_one, of_three.sum(), rtol=1e-12)
    number = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    image = gk.render(scene.with_values({path: number}), camera(), samples=1).color
    (image * torch.tensor(adj)).sum().backward()
    np.testing.assert_allclose(number.grad, of_one, rtol=1e-12)


def test_jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        values = [jax.numpy.asarray(x) for x in VALUES.values()]
        f = jax.grad(lambda *v: loss_of(*v, jax.numpy.asarray), argnums=(0, 1, 2, 3))
        for found in (f(*values), jax.jit(f)(*values)):
            for x, g in zip(found, wanted(), strict=True):
                np.testing.assert_allclose(x, g, rtol=1e-9, atol=1e-9)


def test_tape():
    values = [np.array(x) for x in VALUES.values()]
    with gk.Tape() as tape:
        mesh = gk.Mesh(tape.watch(values[0]), ball(2).faces)
        ball_object = gk.Object(mesh, gk.Material(albedo=tape.watch(values[1])), smooth=True)
        light = gk.PointLight(tape.watch(values[2]), POINT.intensity)
        scene = gk.Scene({"ball": ball_object, "floor": gk.Object(quad(1.5, -0.8))}, {"light": light})
        view = gk.Camera(camera().world_to_camera, tape.watch(values[3]), width=12, height=12)
        image = gk.render(scene, view, channels=("color", "mask"), samples=2)
        loss = np.sum(image.color * weights(view)) + np.sum(image.mask * weights(view)[..., :1])
    for x, g in zip(tape.gradient(loss, values), wanted(), strict=True):
        np.testing.assert_allclose(x, g, rtol=1e-9, atol=1e-9)


def test_float32_is_near_float64():
    scene, view = scene_of(), camera()
    low = gk.Scene(
        {
            name: gk.Object(gk.Mesh(np.asarray(thing.mesh.vertices, np.float32), thing.mesh.faces), smooth=thing.smooth)
            for name, thing in scene.objects.items()
        },
        scene.lights,
    )
    a, b = (gradients(s, view, samples=2)["ball.vertices"] for s in (scene, low))
    assert b.dtype == np.float32
    assert abs(a.sum(axis=0) - b.sum(axis=0)).max() < 1e-2 * abs(a).sum()
    assert total(low, view) == pytest.approx(total(scene, view), rel=1e-4)


@pytest.mark.parametrize("channel", ["color", "mask", "depth"])
def test_what_is_out_of_view_has_gradients_of_zero(channel):
    ball = gk.shapes.icosphere(1, dtype=np.float64)
    far, uv = ball.with_vertices(ball.vertices + [50.0, 0.0, 0.0]), np.random.default_rng(0).random((42, 2))
    shines = gk.Material(np.full((42, 3), 0.5), "metallic", metallic=np.full(42, 0.5), emission=np.ones((2, 2, 3)))
    objects = {
        "seen": gk.Object(ball),
        "textured": gk.Object(far, gk.Material(np.full((3, 4, 3), 0.5)), uv=uv),
        "shines": gk.Object(far.with_vertices(far.vertices + 9.0), shines, uv=uv),
        "empty": gk.Mesh(np.zeros((4, 3)), np.zeros((0, 3), int)),
    }
    scene = gk.Scene(objects, {"lamp": gk.PointLight((0.0, 3.0, 3.0), 9.0)})
    view = gk.Camera.look_at((0, 0, 4), (0, 0, 0), fov=40, width=8, height=6)
    shape = (6, 8, 3 if channel == "color" else 1)
    found = gk.render.adjoint(scene, view, channels=channel, samples=1, **{f"adj_{channel}": np.ones(shape)})
    # What is no light and might become one has none.
    assert set(scene.paths()) - set(found.scene) == {f"{x}.material.emission" for x in ("seen", "textured", "empty")}
    for path, value in found.scene.items():
        assert value.shape == np.shape(scene[path])
        assert not path.startswith(("textured", "empty")) or not value.any()
    assert found["seen.vertices"].any()
    single = scene.with_values({path: np.float32(scene[path]) for path in scene.paths() if path.endswith("vertices")})
    single = gk.Scene({k: v for k, v in single.objects.items() if k != "empty"}, single.lights)
    found = gk.render.adjoint(single, view, channels=channel, samples=1, **{f"adj_{channel}": np.ones(shape)})
    assert {x.dtype for path, x in found.scene.items() if path.endswith("vertices")} == {np.dtype(np.float32)}
