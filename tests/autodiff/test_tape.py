"""The tape: what it records of geomkit's functions, what it refuses, and what it leaves behind."""

import gc
import weakref

import numpy as np
import pytest

import geomkit as gk
from geomkit.autodiff import recording
from geomkit.autodiff.primitive import Primitive
from geomkit.autodiff.tape_array import TapeArray
from tests import cameras


@pytest.fixture(autouse=True)
def no_tape_is_left_recording():
    yield
    assert recording.tapes() == [] and recording.innermost() is None


def ball(n=1):
    return gk.shapes.icosphere(n, dtype=np.float64)


def torus():
    return gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)


def cloud(n=20, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def field(n=7):
    axis = np.linspace(-1, 1, n)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij")
    return x**2 + 1.3 * y**2 + 0.8 * z**2 - 0.5


def lens():
    numbers = {"world_to_camera": cameras.WORLD_TO_CAMERA, "K": cameras.K, "distortion": cameras.DISTORTION}
    return {name: x.copy() for name, x in numbers.items()}


def images(first):
    one, other = np.random.default_rng(2).uniform(0.1, 0.9, size=(2, 12, 13, 3))
    return {first: one.copy(), "target": other.copy()}


# ---- the same gradients as the explicit pairs

def weights():
    """Of the cells of `field`."""
    rng = np.random.default_rng(2)
    shapes = {"deform": (7, 7, 7, 3), "alpha": (6, 6, 6, 8), "beta": (6, 6, 6, 12), "gamma": (6, 6, 6)}
    return {name: rng.uniform(0.8, 1.2, shape) - (name == "deform") for name, shape in shapes.items()}


NORMALS = np.random.default_rng(3).normal(size=(7, 7, 7, 3))
PAIRS = {
    "signed_distance": lambda: {"mesh": torus(), "points": cloud()},
    "closest_point": lambda: {"mesh": torus(), "points": cloud()},
    "winding_number": lambda: {"mesh": gk.Mesh(torus().vertices, torus().faces[:-9]), "points": cloud()},
    "cast_rays": lambda: {"mesh": ball(2), "origins": 3 * cloud(), "directions": -cloud() + 0.1},
    "bounds": lambda: {"mesh": torus()},
    "face_areas": lambda: {"mesh": torus()},
    "area": lambda: {"mesh": torus()},
    "face_normals": lambda: {"mesh": torus()},
    "vertex_normals": lambda: {"mesh": torus()},
    "volume": lambda: {"mesh": torus()},
    "sdf_grid": lambda: {"mesh": torus(), "resolution": 7},
    "interpolate_grid": lambda: {"grid": field(), "points": 3 + cloud()},
    "interpolate_attribute": lambda: {
        "attribute": cloud(63)[:, :2], "faces": torus().faces, "face": np.arange(20), "barycentric": cloud(20)[:, 1:]
    },
    "sphere_trace": lambda: {"grid": field() - 1, "origins": 4 * cloud() + 3, "directions": -cloud() + 0.1},
    "sdf_features": lambda: {"grid": field() - 1, "origins": 4 * cloud() + 3, "directions": -cloud() + 0.1},
    "marching_cubes": lambda: {"field": field(), "level": np.array(0.1), "spacing": np.ones(3), "origin": np.zeros(3)},
    "flexicubes": lambda: {"values": field(), "split": "center", **weights()},
    "surface_nets": lambda: {"field": field(), "level": np.array(0.1), "spacing": np.ones(3), "origin": np.zeros(3)},
    "dual_contouring": lambda: {
        "field": field(), "normals": NORMALS, "level": np.array(0.1), "spacing": np.ones(3), "origin": np.zeros(3)
    },
    "sample_surface": lambda: {"mesh": torus(), "n": 30},
    "chamfer_distance": lambda: {"a": cloud(), "b": torus(), "samples": 50},
    "hausdorff_distance": lambda: {"a": torus(), "b": cloud(), "samples": 50},
    "pixel_rays": lambda: {"pixels": cameras.PIXELS.copy(), **lens()},
    "project_points": lambda: {"points": cameras.POINTS.copy(), **lens()},
    "l1_loss": lambda: images("image"),
    "mse_loss": lambda: images("image"),
    "huber_loss": lambda: images("image"),
    "multiscale_loss": lambda: images("image"),
    "ssim": lambda: images("image"),
    "psnr": lambda: images("image"),
    "iou_loss": lambda: images("mask"),
    "depth_loss": lambda: images("depth"),
    "normal_loss": lambda: images("normal"),
    "mesh_laplacian_smoothing": lambda: {"mesh": torus(), "method": "cot"},
    "mesh_normal_consistency": lambda: {"mesh": torus()},
    "mesh_edge_loss": lambda: {"mesh": torus()},
    "to_differential": lambda: {"values": cloud(63), "steps": gk.LargeSteps(torus())},
    "from_differential": lambda: {"differential": cloud(63), "steps": gk.LargeSteps(torus())},
    "pose": lambda: {
        "rotation_vector": np.array([0.3, -0.2, 0.4]), "translation": np.array([0.1, 0.2, 0.3]),
        "base": cameras.WORLD_TO_CAMERA.copy(),
    },
}  # fmt: skip


def test_every_primitive_is_here():
    # (Those of a scene are functions of whatever arrays it has: tests/render.)
    ops = {name: set(op.differentiable) for name, op in Primitive.registry.items()}
    assert set(PAIRS) == {name for name, inputs in ops.items() if inputs - {"scene", "camera"}}


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_are_those_of_the_pair(name):
    op, arguments = Primitive.registry[name], PAIRS[name]()
    rng = np.random.default_rng(0)
    with gk.Tape() as tape:
        result = op(**arguments)
        outputs = dict(zip(op.outputs, op.fields_of(result)[: len(op.outputs)], strict=True))
        cotangents = {k: rng.normal(size=x.shape) * np.isfinite(x.value) for k, x in outputs.items()}
        kept = {k: np.where(np.isfinite(x.value), x, 0.0) for k, x in outputs.items()}
        loss = sum((cotangents[k] * x).sum() for k, x in kept.items())
    sources = [arguments[name] for name in op.sends]
    expected = op.adjoint(**arguments, **{f"adj_{k}": g for k, g in cotangents.items()})
    for gradient, to, source in zip(tape.gradient(loss, sources), op.sends.values(), sources, strict=True):
        assert np.array_equal(gradient, getattr(expected, to)) and gradient.any(), to
        like = source.vertices if isinstance(source, gk.Mesh) else source
        assert gradient.shape == like.shape and gradient.dtype == like.dtype and type(gradient) is np.ndarray
        assert gradient.flags.writeable and gradient.base is None


@pytest.mark.parametrize("name", PAIRS)
def test_values_are_those_without_a_tape(name):
    op, arguments = Primitive.registry[name], PAIRS[name]()
    with gk.Tape():
        recorded = op.fields_of(op(**arguments))
    for x, y in zip(recorded, op.fields_of(op(**arguments)), strict=True):
        assert np.array_equal(np.asarray(x), y) and x.dtype == np.asarray(y).dtype
        if op.takes_result:
            assert not np.asarray(x).flags.writeable  # what the adjoint will read


def test_one_output_of_several():
    mesh, points = torus(), cloud()
    with gk.Tape() as tape:
        hit = gk.closest_point(mesh, points)
        loss = hit.distance.sum()
    expected = gk.closest_point.adjoint(mesh, points, adj_distance=np.ones(20))
    assert np.array_equal(tape.gradient(loss, points), expected.points)
    assert np.array_equal(tape.gradient(hit.distance, mesh, adj=np.ones(20)), expected.vertices)
    with pytest.raises(ValueError, match=r"^Tape.gradient: sources\[0\]: expected a recorded path to target, got none"):
        tape.gradient(loss, [hit.point])


def test_chain_from_a_field_to_a_loss():
    """Field, surface, samples of it, distance: the gradient is that of central differences."""
    target = 0.8 * ball().vertices

    def loss(values):
        surface = gk.marching_cubes(values, 0.05, spacing=1 / 3, origin=-1)
        return gk.chamfer_distance(surface.vertices, target)

    gk.gradcheck(loss, [field() + np.random.default_rng(0).uniform(0.01, 0.05, (7, 7, 7))], step=1e-5)


def test_grids_of_the_tape():
    mesh, points = torus(), 0.3 * cloud()
    with gk.Tape() as tape:
        grid = gk.sdf_grid(mesh, resolution=9)
        loss = (gk.interpolate_grid(grid, points).value ** 2).sum()
        surface = gk.marching_cubes(grid.values, 0.0, spacing=grid.spacing, origin=grid.origin)
        height = surface.vertices[:, 2].max()
    plain = gk.sdf_grid(mesh, resolution=9)
    value = gk.interpolate_grid(plain, points).value
    g = gk.interpolate_grid.adjoint(plain, points, adj_value=2 * value)
    to_values, to_points, to_mesh = tape.gradient(loss, [grid.values, points, mesh])
    assert np.array_equal(to_values, g.grid) and np.array_equal(to_points, g.points)
    assert np.array_equal(tape.gradient(loss, grid), to_values)
    assert np.allclose(to_mesh, gk.sdf_grid.adjoint(mesh, resolution=9, adj_values=g.grid).vertices)
    assert tape.gradient(height, mesh).any() and tape.gradient(height, surface).sum() == 1


def test_a_plain_grid_is_a_source():
    grid = gk.SdfGrid(field(), np.zeros(3), 1.0)
    with gk.Tape() as tape:
        loss = gk.interpolate_grid(grid, np.ones((1, 3))).value.sum()
    assert tape.gradient(loss, grid.values).sum() == tape.gradient(loss, grid).sum() == 1
    grid.origin[0] = 0.5
    with pytest.raises(ValueError, match="^interpolate_grid: grid.origin: expected the values that were recorded"):
        tape.gradient(loss, grid)


# ---- sources


def test_sources_of_every_kind():
    mesh, points = torus(), cloud()
    with gk.Tape() as tape:
        x = tape.watch(points)
        inside = mesh.vertices
        loss = gk.signed_distance(mesh, points).sum()
    assert isinstance(inside, TapeArray) and isinstance(mesh.vertices, np.ndarray)
    expected = gk.signed_distance.adjoint(mesh, points, adj_distance=np.ones(20))
    for source in (mesh, mesh.vertices, inside):
        assert np.array_equal(tape.gradient(loss, source), expected.vertices)
    for source in (points, x):
        assert np.array_equal(tape.gradient(loss, source), expected.points)
    both = tape.gradient(loss, (mesh, points))
    assert isinstance(both, list) and len(both) == 2 and tape.gradient(loss, []) == []
    twice = tape.gradient(loss, [points, points])
    assert np.array_equal(*twice) and not np.shares_memory(*twice)


def test_gradients_are_the_callers_own():
    x, adj = np.ones(3), np.array([1.0, 2.0, 3.0])
    with gk.Tape() as tape:
        y = tape.watch(x)
        total, same = y.sum(), y + y * 0
    for target, given in ((total, None), (same, adj), (y, adj)):
        gradient = tape.gradient(target, x, adj=given)
        gradient *= 2
        assert type(gradient) is np.ndarray and gradient.shape == (3,) and not np.shares_memory(gradient, adj)
    with gk.Tape() as tape:
        number = np.array(2.0)
        square = tape.watch(number) * tape.watch(number)
    assert type(tape.gradient(square, number)) is np.ndarray and tape.gradient(square, number) == 4


def test_a_mesh_made_of_a_tape_array():
    mesh, points = torus(), cloud()
    scale = np.array(1.1)
    with gk.Tape() as tape:
        moved = mesh.with_vertices(tape.watch(scale) * mesh.vertices)
        assert moved.tracker == "tape" and isinstance(moved.vertices, TapeArray)
        loss = gk.signed_distance(moved, points).sum() + moved.area + moved.volume + moved.face_normals.sum()
    g = gk.signed_distance.adjoint(moved.detach(), points, adj_distance=np.ones(20)).vertices
    g = g + gk.area.adjoint(moved.detach(), adj_area=1).vertices
    g = g + gk.volume.adjoint(moved.detach(), adj_volume=1).vertices
    g = g + gk.face_normals.adjoint(moved.detach(), adj_normals=np.ones((moved.n_faces, 3))).vertices
    assert np.allclose(tape.gradient(loss, scale), (g * mesh.vertices).sum())
    assert np.allclose(tape.gradient(loss, moved), g)
    assert moved.tracker == "" and gk.area(moved) > 0  # after the recording


@pytest.mark.parametrize("derive", ["flipped", "copy", "weld"])
@pytest.mark.parametrize("of_array", [False, True])
def test_derived_meshes_stay_on_the_tape(derive, of_array):
    mesh = torus()
    with gk.Tape() as tape:
        if of_array:
            mesh = gk.Mesh(mesh.vertices * 1.0, mesh.faces)
        derived = getattr(mesh, derive)()
        loss = gk.area(derived)
    assert np.allclose(tape.gradient(loss, mesh), gk.area.adjoint(mesh.detach(), adj_area=1).vertices)


def test_an_object_with_vertices_and_faces():
    class Other:
        vertices, faces = torus().vertices, torus().faces

    points = cloud()
    with gk.Tape() as tape:
        loss = gk.signed_distance(Other, points).sum()
    assert np.allclose(
        tape.gradient(loss, points), gk.signed_distance.adjoint(Other, points, adj_distance=np.ones(20)).points
    )


def test_float_level_has_no_identity():
    with gk.Tape() as tape:
        loss = gk.marching_cubes(field(), 0.1).vertices.sum()
    for level in (0.1, np.float64(0.1), [0.1]):
        expected = r"^Tape.gradient: sources\[0\]: expected an array used on the tape, got a .* no identity .*np.array"
        with pytest.raises(TypeError, match=expected):
            tape.gradient(loss, level)


# ---- no path


def no_path(tape, target, source, why, error: type[Exception] = ValueError):
    with pytest.raises(error, match=rf"^Tape.gradient: {why}"):
        tape.gradient(target, source)


def test_no_path_numpy_in_the_middle():
    mesh, points = torus(), cloud()
    with gk.Tape() as tape:
        distance = gk.signed_distance(mesh, points)
        cut = gk.closest_point(mesh, np.asarray(distance)[:, None] * np.ones(3)).distance.sum()
    text = r"sources\[0\]: expected a recorded path to target, got none: target was made by .*closest_point.*; "
    no_path(tape, cut, points, text + "signed_distance left the tape by numpy.asarray")
    no_path(tape, np.asarray(distance).sum(), points, r"target: .* got \(\) float64; signed_distance left the tape by")
    no_path(tape, 1.0, points, "target: expected a TapeArray, .* got float; signed_distance left the tape by")


@pytest.mark.parametrize(
    "leave, how",
    [
        (lambda x: x.detach(), r"detach\(\)"),
        (lambda x: x.item(), r"item\(\)"),
        (lambda x: float(x), r"float\(\)"),
        (lambda x: x.tolist(), r"tolist\(\)"),
        (lambda x: x.astype(int), r"astype\(int64\)"),
        (lambda x: np.array(x), "numpy.asarray"),
        (lambda x: np.float64(x), "(numpy.asarray|float)"),
    ],
)
def test_no_path_says_how_it_was_cut(leave, how):
    points = np.ones((1, 3))
    with gk.Tape() as tape:
        x = tape.watch(points)
        y = np.array([leave(np.linalg.norm(x))]) * tape.watch(np.ones(1))
        other = leave(tape.watch(np.array(3.0)) * 2)
    assert other == 6
    no_path(tape, y, points, rf"sources\[0\]: .* got none: target was made by .*multiply; norm left the tape by {how}")


def test_no_path_value():
    points = cloud()
    with gk.Tape() as tape:
        x = tape.watch(points)
        loss = (x.value * tape.watch(np.ones(3))).sum()
    no_path(tape, loss, points, r"sources\[0\]: .* \(x.value, and what NumPy makes of plain arrays, is not recorded\)")


def test_no_path_numpy_before():
    mesh, points = torus(), cloud()
    with gk.Tape() as tape:
        loss = gk.signed_distance(mesh, np.sin(points)).sum()
    why = r"sources\[0\]: expected the very array used .* got another \(20, 3\) float64: .*start with tape.watch"
    no_path(tape, loss, points, why)


def test_no_path_integers():
    mesh, points = torus(), np.ones((2, 3), int)
    with gk.Tape() as tape:
        loss = gk.signed_distance(mesh, points).sum()
        with pytest.raises(TypeError, match=r"^Tape.watch: array: expected floats .* got \(2, 3\) int64"):
            tape.watch(points)
        with pytest.raises(TypeError, match="^Tape.watch: array: .* got float"):
            tape.watch(1.0)
    no_path(tape, loss, points, r"sources\[0\]: expected floats: integers are discrete, got \(2, 3\) int64", TypeError)
    assert tape.gradient(loss, mesh).any()


def test_no_path_other_arrays():
    mesh, points, unused = torus(), cloud(), cloud(seed=1)
    with gk.Tape() as tape:
        loss = gk.signed_distance(mesh, points).sum()
        tape.watch(unused)
    no_path(tape, loss, points.copy(), r"sources\[0\]: expected the very array .*or a copy \(a Mesh copies")
    no_path(tape, loss, [points, torus()], r"sources\[1\]: expected the very array")
    no_path(tape, loss, unused, r"sources\[0\]: .* got none: target was made by signed_distance, sum")
    no_path(tape, loss, "points", r"sources\[0\]: .* got a str, which has no identity", TypeError)
    no_path(tape, points, points, r"target: expected a TapeArray, recorded within the tape, got \(20, 3\) float64")


def test_targets_of_other_recordings():
    points = cloud()
    with gk.Tape() as tape:
        first = tape.watch(points).sum()
    with gk.Tape() as other:
        second = other.watch(points).sum()
        mixed = (first * other.watch(points)).sum()
    why = "target: expected an array recorded since the tape was entered, got one of another tape or recording"
    no_path(tape, second, points, why)
    no_path(other, first, points, why)
    # To another tape, what the first recorded is an array like any other.
    assert np.allclose(other.gradient(mixed, points), first.value)
    assert np.allclose(other.gradient(mixed, first), points.sum())
    with tape:
        third = tape.watch(points).sum()
    no_path(tape, first, points, why)
    assert (tape.gradient(third, points) == 1).all()
    no_path(gk.Tape(), first, points, why)


def test_adj():
    x = np.ones(3)
    with gk.Tape() as tape:
        y = tape.watch(x) * 2
    with pytest.raises(ValueError, match=r"^Tape.gradient: adj: expected the cotangent of target, \(3,\), got None"):
        tape.gradient(y, x)
    with pytest.raises(ValueError, match=r"^Tape.gradient: adj: expected \(3,\) floats, got \(2,\) int64"):
        tape.gradient(y, x, adj=[1, 2])
    assert tape.gradient(y, x, adj=[1, 2, 3]).tolist() == [2, 4, 6]


# ---- memory


@pytest.mark.parametrize("name", PAIRS)
def test_nothing_refers_in_circles(name):
    op, arguments = Primitive.registry[name], PAIRS[name]()
    gc.collect()
    gc.disable()
    try:
        with gk.Tape() as tape:
            first = op.fields_of(op(**arguments))[0]
            loss = np.where(np.isfinite(first.value), first, 0.0).sum()
        tape.gradient(loss, next(arguments[name] for name in op.sends))
        dead = [weakref.ref(x) for x in (tape, first, first.node, loss, loss.node)]
        del tape, first, loss
        assert [ref() for ref in dead] == [None] * 5
    finally:
        gc.enable()
