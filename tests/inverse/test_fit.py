"""The fit: what it finds, that it goes on where it was, and what it refuses."""

import itertools
import resource
from dataclasses import replace

import numpy as np
import pytest

import geomkit as gk
from geomkit.inverse.fit import _stages
from geomkit.inverse.variables import Variables
from geomkit.inverse.views import Views
from geomkit.render.pose import rotation_matrix, rotation_vector_of

KEY = {"key": gk.DirectionalLight((-0.5, -1, -0.6), (2.0,) * 3), "fill": gk.DirectionalLight((1, 0.4, 0.7), (1.0,) * 3)}
EGG = gk.shapes.icosphere(3).with_vertices(gk.shapes.icosphere(3).vertices * np.float32([0.6, 0.9, 0.75]))
BALL = gk.shapes.icosphere(3).with_vertices(0.7 * gk.shapes.icosphere(3).vertices)


def lit(mesh, albedo=(0.8, 0.6, 0.4), lights=KEY, **more):
    return gk.Scene({"thing": gk.Object(mesh, gk.Material(albedo), smooth=True, **more)}, lights)


def around(n=4, size=32):
    return [
        gk.Camera.look_at((4 * np.sin(a), 4 * e, 4 * np.cos(a)), (0, 0, 0), fov=35, width=size, height=size)
        for a, e in zip(np.arange(n) * 2 * np.pi / n, itertools.cycle((0.4, -0.3)), strict=False)
    ]


def pictures(scene, cameras, **options):
    return [gk.render(scene, camera, samples=4, seed=9 + k, **options).color for k, camera in enumerate(cameras)]


def silhouettes(mesh, cameras):
    return [gk.render(mesh, camera, channels="mask", samples=4).mask for camera in cameras]


def moved(camera, turn, shift):
    """The camera after the object has been turned about the origin and shifted."""
    motion = np.eye(4)
    motion[:3, :3], motion[:3, 3] = rotation_matrix(np.asarray(turn, float)), shift
    return replace(camera, world_to_camera=np.asarray(camera.world_to_camera) @ motion)


def off(camera, truth):
    motion = np.linalg.inv(truth.world_to_camera) @ np.asarray(camera.world_to_camera)
    return np.linalg.norm(rotation_vector_of(motion[:3, :3])), np.linalg.norm(motion[:3, 3])


def lump():
    """A ball that no symmetry is left of."""
    ball = gk.shapes.icosphere(3)
    x, y, z = np.asarray(ball.vertices, np.float64).T
    size = 0.8 + 0.25 * np.sin(3 * x + 1) * np.cos(2 * y) + 0.15 * np.sin(4 * z + x) + 0.2 * np.maximum(y, 0) ** 2
    return ball.with_vertices((size * ball.vertices.T).T.astype(np.float32))


# ---- what it finds


def test_shape_of_colours_and_of_silhouettes():
    cameras = around()
    for images, init in ((pictures(lit(EGG), cameras), lit(BALL)), (silhouettes(EGG, cameras), BALL)):
        found = gk.fit(images, cameras, init, iterations=40)
        assert found.losses[-1] < 0.15 * found.losses[0]
        before, after = (gk.chamfer_distance(mesh, EGG, squared=False) for mesh in (BALL, found.mesh))
        assert after < 0.3 * before


def test_shape_is_remeshed_with_its_colours():
    cameras = around(size=48)
    colors = np.full((BALL.n_vertices, 3), 0.5)
    wanted = lit(EGG, np.where(EGG.vertices[:, :1] > 0, [0.9, 0.2, 0.1], [0.1, 0.3, 0.8]))
    seen = []
    found = gk.fit(
        pictures(wanted, cameras), cameras, lit(BALL, colors), optimise=("shape", "texture"),
        stages=[gk.Stage(25, scale=2), gk.Stage(25, edge_length=0.7, carry=True)],
        callback=lambda step: seen.append((step.scene.objects["thing"].mesh.n_vertices, step.render().color.shape)),
    )  # fmt: skip
    assert seen[0] == (642, (48, 48, 3)) and seen[-1][0] > 1000
    albedo = found.scene["thing.material.albedo"]
    assert albedo.shape == (found.mesh.n_vertices, 3) and found.losses[-1] < 0.5 * found.losses[0]
    side = np.asarray(found.mesh.vertices)[:, 0]
    assert albedo[side > 0.3, 0].mean() > albedo[side < -0.3, 0].mean() + 0.3


def test_pose_from_one_image():
    scene, truth = lit(lump()), around(1, 64)[0]
    start = moved(truth, np.radians(8) * np.array([0.3, 0.9, 0.2]), [0.1, 0.05, -0.1])
    found = gk.fit(pictures(scene, [truth]), [start], scene, optimise="camera", stages=[gk.Stage(80)])
    turned, shifted = off(found.cameras[0], truth)
    assert turned < 0.005 and shifted < 0.005


def test_cameras_and_focal_length():
    scene, truth = lit(lump()), around(3, 48)
    images, rng = pictures(scene, truth), np.random.default_rng(0)
    start = [moved(camera, *rng.normal(size=(2, 3)) * [[0.015], [0.03]]) for camera in truth]
    found = gk.fit(images, start, scene, optimise="camera", stages=[gk.Stage(60)])
    before, after = (
        np.mean([off(a, b) for a, b in zip(c, truth, strict=True)], axis=0) for c in (start, found.cameras)
    )
    assert (after < 0.25 * before).all()
    longer = [replace(camera, K=np.array(camera.K) * np.where(np.eye(3) * [1, 1, 0], 1.03, 1)) for camera in truth]
    found = gk.fit(images, longer, scene, optimise="focal", stages=[gk.Stage(40)])
    assert abs(found.cameras[0].K[0, 0] / truth[0].K[0, 0] - 1) < 2e-3


def test_the_focal_length_moves_the_camera_so_that_perspective_alone_changes():
    cameras, rng = around(2, 16), np.random.default_rng(1)
    variables = Variables(lit(EGG), cameras, ("camera", "focal"), 25.0)
    variables.values["camera.focal"] = np.array(0.2)
    for camera, before in zip(variables.apply()[1], cameras, strict=True):
        # A disc about the middle of the scene, across the view, stays where it is in the image.
        across = np.asarray(before.world_to_camera)[:2, :3] * rng.normal(size=(2, 1))
        disc = variables.middle + across
        one, other = (gk.project_points(disc, c.world_to_camera, c.K).pixel for c in (before, camera))
        np.testing.assert_allclose(one, other, atol=1e-4)
    weights = [[rng.normal(size=(4, 4)), rng.normal(size=(3, 3))] for _ in cameras]
    weights = [(w * np.array([[1], [1], [1], [0]]), k * np.array([[1, 1, 0]] * 2 + [[0, 0, 0]])) for w, k in weights]

    def value():
        moved = [variables.camera(k) for k in range(2)]
        return sum((w * c.world_to_camera).sum() + (k * c.K).sum() for (w, k), c in zip(weights, moved, strict=True))

    for name in ("camera.rotation", "camera.translation", "camera.focal"):
        variables.values[name] = variables.values[name] + 0.1 * rng.normal(size=variables.values[name].shape)
    fields = {n: {"world_to_camera": w, "K": k} for n, (w, k) in enumerate(weights)}
    gradients, at = variables.gradients({}, fields), dict(variables.values)
    for name, x in at.items():
        along = rng.normal(size=x.shape)
        low, high = (_set(variables, name, x + e * along) or value() for e in (-1e-6, 1e-6))
        assert (gradients[name] * along).sum() == pytest.approx((high - low) / 2e-6, rel=1e-6)
        _set(variables, name, x)


def _set(variables, name, x):
    variables.values[name] = x


def test_light_from_its_shadow():
    ball = gk.shapes.icosphere(2)
    ball = ball.with_vertices(0.4 * ball.vertices + np.float32([0, 1.2, 0]))
    floor = gk.Mesh([[-2, 0, -2], [-2, 0, 2], [2, 0, 2], [2, 0, -2]], [[0, 1, 2], [0, 2, 3]])

    def scene(place):
        return gk.Scene({"ball": ball, "floor": floor}, {"bulb": gk.PointLight(np.array(place), (20.0,) * 3)})

    camera = gk.Camera.look_at((0, 0.6, 3.5), (0, -0.2, 0), fov=30, width=48, height=48)
    place = np.array([0.8, 3.5, 0.5])
    found = gk.fit(
        pictures(scene(place), [camera]), [camera], scene([0.3, 3.1, 0.2]), optimise="bulb.position",
        stages=[gk.Stage(60)], rates={"bulb.position": 0.05},
    )  # fmt: skip
    assert np.linalg.norm(found.scene["bulb.position"] - place) < 0.02 * np.linalg.norm(place)


def test_texture_and_light():
    ball, cameras = gk.shapes.icosphere(3), around(4)
    colors = 0.5 + 0.3 * np.sin(4 * np.asarray(ball.vertices, np.float64))
    images = pictures(lit(ball, colors), cameras)
    found = gk.fit(images, cameras, lit(ball, np.full(colors.shape, 0.5)), optimise="texture", stages=[gk.Stage(40)])
    held = gk.Camera.look_at((2, 1.5, 3), (0, 0, 0), fov=35, width=32, height=32)
    one, other = (gk.render(scene, held, samples=4).color for scene in (found.scene, lit(ball, colors)))
    assert gk.psnr(one, other) > 30
    dim = lit(ball, colors, {**KEY, "key": gk.DirectionalLight((-0.5, -1, -0.6), (1.0,) * 3)})
    lights = gk.fit(images, cameras, dim, optimise="light", stages=[gk.Stage(40)], rates={"light": 0.1}).scene
    np.testing.assert_allclose(lights["key.irradiance"], 2.0, rtol=0.03)


def test_alpha_hides_the_lights_that_the_camera_would_see():
    cameras = around(2)
    scene = gk.Scene(gk.Object(EGG), gk.ConstantLight())
    images = []
    for camera in cameras:
        hidden = gk.Scene(gk.Object(EGG), gk.ConstantLight(visible=False))
        image = gk.render(hidden, camera, channels=("color", "mask"))
        images.append(np.concatenate([image.color / np.maximum(image.mask, 1e-6), image.mask], axis=2))
    found = gk.fit(images, cameras, scene, iterations=1)
    # (The samples are others; were the light seen, it would be 0.8.)
    assert found.losses[0] < 0.02 and found.scene.lights["light"].visible


def test_samples_of_a_stage():
    cameras = around(1, 16)
    images = pictures(lit(EGG), cameras)
    one, other, plain = (
        gk.fit(images, cameras, lit(EGG), stages=[gk.Stage(1, samples=n)], samples=k).losses
        for n, k in ((4, 2), (None, 4), (None, 2))
    )
    assert one == other and one != plain


def test_one_view_a_step_goes_further_for_the_same_renderings():
    cameras = around(3, 16)
    images = silhouettes(EGG, cameras)
    rendered = {1: 0, None: 0}
    found = {}
    for count, iterations in ((1, 30), (None, 10)):
        stages = [gk.Stage(iterations, views_per_step=count)]
        found[count] = gk.fit(images, cameras, BALL, stages=stages, rates={"shape": 0.02})
        rendered[count] = iterations * (count or 3)
    rest = {count: gk.chamfer_distance(fit.mesh, EGG, squared=False) for count, fit in found.items()}
    assert rendered[1] == rendered[None] and rest[1] < 0.7 * rest[None]


# ---- the same bits, and flat memory

FIT = {"optimise": ("shape", "texture", "camera"), "views_per_step": 2, "seed": 3}
PLAN = [gk.Stage(7, scale=2, views_per_step=1), gk.Stage(7, edge_length=0.8, samples=1)]


def run(tmp_path=None, **options):
    cameras = around(3, 16)
    colors = np.full((BALL.n_vertices, 3), 0.5)
    images = pictures(lit(EGG), cameras)
    return gk.fit(images, cameras, lit(BALL, colors), stages=PLAN, **FIT, **options)


def bits(found):
    scene = found.scene
    arrays = [found.losses, found.mesh.vertices, found.mesh.faces, scene["thing.material.albedo"]]
    return [np.asarray(x).tobytes() for x in (*arrays, *(camera.world_to_camera for camera in found.cameras))]


@pytest.mark.parametrize("at", [3, 7, 10])
def test_resumed_gives_the_same_bits(tmp_path, at):
    path = tmp_path / "run.npz"
    whole = run()
    assert bits(run()) == bits(whole)
    first = run(checkpoint=path, callback=lambda step: step.iteration == at)
    assert first.stopped and len(first.losses) == at
    again = run(checkpoint=path, resume=True)
    assert bits(again) == bits(whole) and not again.stopped


def test_memory_is_flat():
    cameras = around(1, 8)
    images, used = silhouettes(EGG, cameras), []
    small = gk.shapes.icosphere(1)
    gk.fit(
        images, cameras, small, stages=[gk.Stage(300)],
        callback=lambda step: used.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
    )  # fmt: skip
    assert used[-1] - used[100] < 2048  # KiB


# ---- refusals


def test_what_is_not_finite_stops_with_its_name():
    cameras = around(1)
    images = silhouettes(EGG, cameras)
    with pytest.raises(ValueError, match=r"UniformAdam.step: parameters\['object.vertices'\]: expected finite"):
        gk.fit(images, cameras, BALL, iterations=3, rates={"shape": lambda iteration: np.nan})
    with pytest.raises(ValueError, match="fit: object.vertices: expected finite numbers, got 642 vertices"):
        with np.errstate(all="ignore"):
            gk.fit(images, cameras, BALL, iterations=3, rates={"shape": 1e308})
    images[0] = np.array(images[0])
    images[0][0, 0] = np.nan
    with pytest.raises(ValueError, match=r"fit: images\[0\]: expected finite numbers, got 1 that are not"):
        gk.fit(images, cameras, BALL)


def test_codes_of_srgb_warn():
    camera = around(1)
    image = pictures(lit(EGG), camera)
    codes = [np.rint(255 * gk.linear_to_srgb(np.clip(image[0], 0, 1))).astype(np.uint8)]
    with pytest.warns(gk.ColorSpaceWarning, match=r"fit: images\[0\] holds sRGB codes: they are made linear"):
        assert gk.fit(codes, camera, lit(EGG), iterations=1).losses[0] < 5e-3


@pytest.mark.parametrize(
    "options, text",
    [
        ({"optimise": "form"}, "fit: optimise: expected one of shape, texture, light, camera, focal, or a path"),
        ({"optimise": None}, "fit: optimise: expected one of shape, texture, light, camera, focal, or a path"),
        ({"optimise": ["shape", "texture"]}, "fit: optimise: expected what silhouettes show, shapes and cameras, as"),
        ({"optimise": "light"}, "fit: optimise: expected what silhouettes show, shapes and cameras, as images"),
        ({"loss": "l3"}, "fit: loss: expected one of l1, mse, huber, multiscale, got 'l3'"),
        ({"iterations": 0}, "fit: iterations: expected an integer of at least 1, got 0"),
        ({"stages": [gk.Stage(1, scale=5)]}, "fit: stages[0]: expected iterations of at least 1, and a scale that"),
        ({"stages": []}, "fit: stages: expected at least one, got none"),
        ({"rates": {"form": 1}}, "fit: rates: expected rates of shape, texture"),
        ({"regularize": {"form": 1}}, "fit: regularize: expected some of laplacian, normal, edge, got 'form'"),
        ({"views_per_step": 0}, "fit: views_per_step: expected an integer of at least 1, or None, got 0"),
        ({"stages": [gk.Stage(1, views_per_step=0)]}, "fit: views_per_step: expected an integer of at least 1, or"),
        ({"stages": [gk.Stage(1, samples=0)]}, "fit: samples: expected an integer of at least 1, or None, got 0"),
        ({"resume": True}, "fit: checkpoint: expected a file to resume from, got None"),
    ],
)
def test_error(options, text):
    cameras = around(1, 16)
    with pytest.raises(ValueError) as error:
        gk.fit(silhouettes(EGG, cameras), cameras, BALL, **options)
    assert text in str(error.value)


def test_error_of_arguments_that_do_not_fit(tmp_path):
    cameras = around(2, 16)
    images = silhouettes(EGG, cameras)
    with pytest.raises(ValueError, match="fit: images, cameras: expected as many cameras as images, at least one, got"):
        gk.fit(images[:1], cameras, BALL)
    with pytest.raises(ValueError, match=r"fit: images\[1\]: expected \(16, 16, 1, 3 or 4\) as its camera has it"):
        gk.fit([images[0], images[1][:8]], cameras, BALL)
    with pytest.raises(TypeError, match=r"fit: cameras\[0\]: expected a Camera, got int"):
        gk.fit(images, [1, 2], BALL)
    with pytest.raises(TypeError, match="fit: cameras: expected a list of Cameras, one for each image, got Camera"):
        gk.fit(images[0], cameras[0], BALL)
    with pytest.raises(TypeError, match="fit: images: expected a list of images, one for each camera, got NoneType"):
        gk.fit(None, cameras, BALL)
    with pytest.raises(ValueError, match=r"fit: images\[0\]: expected \(16, 16, 1, 3 or 4\) as its camera has it"):
        gk.fit([np.zeros((0, 0, 1))] * 2, cameras, BALL)
    with pytest.raises(TypeError, match="fit: stages: expected a list of Stages, got int"):
        gk.fit(images, cameras, BALL, stages=3)
    with pytest.raises(TypeError, match="fit: callback: expected a function of a FitStep, or None, got int"):
        gk.fit(images, cameras, BALL, callback=3)
    with pytest.raises(ValueError, match="fit: optimise: expected the model 'metallic' for object, as a diff"):
        gk.fit([np.zeros((16, 16, 3))] * 2, cameras, BALL, optimise="object.material.roughness")
    with pytest.raises(TypeError, match="fit: init: expected a Scene, an Object or a mesh, got int"):
        gk.fit(images, cameras, 3)
    path = tmp_path / "run.npz"
    gk.fit(images, cameras, BALL, iterations=1, checkpoint=path)
    with pytest.raises(ValueError, match="fit: checkpoint: expected one of this fit"):
        gk.fit(images, cameras, BALL, iterations=2, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="no edge_length for an object with uv"):
        uv = np.zeros((BALL.n_vertices, 2))
        gk.fit(images, cameras, gk.Object(BALL, uv=uv), stages=[gk.Stage(1), gk.Stage(1, edge_length=0.5)])


def test_default_stages_go_from_coarse_to_fine():
    cameras = around(1, 256)
    views = Views(silhouettes(EGG, cameras), cameras)
    plan = _stages(None, 90, True, views)
    assert [(stage.iterations, stage.scale) for stage in plan] == [(15, 4), (30, 1), (45, 1)]
    assert [stage.edge_length for stage in plan] == [None, None, 0.5]


def test_views_take_turns():
    cameras = around(5, 8)
    views = Views(silhouettes(EGG, cameras), cameras)
    drawn = np.concatenate([views.batch(i, 2, seed=1) for i in range(5)])
    assert sorted(drawn[:5]) == sorted(drawn[5:]) == [0, 1, 2, 3, 4]
