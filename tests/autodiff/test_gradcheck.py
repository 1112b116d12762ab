"""gradcheck: passes what is right, of every primitive, and names what is wrong."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import geomkit as gk
from geomkit.autodiff.primitive import Primitive, primitive
from tests import cameras


def torus():
    mesh = gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)
    return mesh.with_vertices(mesh.vertices + 0.01 * np.random.default_rng(0).normal(size=mesh.vertices.shape))


def cloud(n=12, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def rays():
    """Rays that hit a ball well inside faces."""
    mesh = gk.shapes.icosphere(1, dtype=np.float64)
    face = np.arange(0, mesh.n_faces, 7)
    aims = mesh.vertices[mesh.faces[face]].mean(axis=1) + 0.03 * cloud(len(face))
    return mesh, 3 * aims + 0.2 * cloud(len(face), 1), -aims


def samples():
    values = np.random.default_rng(0).normal(size=(4, 5, 6))
    return np.where(np.abs(values) < 0.1, 0.3, values)


def bowl():
    """A distance to a ball in a grid."""
    p = np.stack(np.meshgrid(*[np.arange(7.0) - 3] * 3, indexing="ij"), axis=-1)
    return np.linalg.norm(p, axis=-1) - 2.2 + 0.02 * np.random.default_rng(0).normal(size=(7, 7, 7))


def beams():
    """Rays that hit the ball far from its silhouette and from the faces of cells."""
    directions = np.array([[0.01, 0, -1], [0, 0.1, -2], [-1, 0, 0.1]])
    return np.array([[3.3, 3.4, 9], [2.6, 3.2, 9], [9, 3.4, 2.7]]), directions


def passing():
    """Rays that pass by the ball within a voxel."""
    return np.array([[0.35, 3.3, 9.0], [3.2, 5.6, 9.0]]), np.array([[0.0, 0.01, -1.0], [0.02, 0.0, -1.0]])


def traced(values, origins, directions, *past):
    found = gk.sphere_trace(values, origins, directions)
    return found.t, found.position, found.normal, gk.sphere_trace(values, *past).distance


def normals():
    n = np.random.default_rng(1).normal(size=(4, 5, 6, 3))
    return n / np.linalg.norm(n, axis=-1, keepdims=True)


def weights():
    """Of the cells of `samples`."""
    rng = np.random.default_rng(2)
    shapes = {"deform": (4, 5, 6, 3), "alpha": (3, 4, 5, 8), "beta": (3, 4, 5, 12), "gamma": (3, 4, 5)}
    return {name: rng.uniform(0.8, 1.2, shape) - (name == "deform") for name, shape in shapes.items()}


def flexible(values, deform, alpha, beta, gamma):
    found = gk.flexicubes(values, deform=deform, alpha=alpha, beta=beta, gamma=gamma, split="center")
    return found.vertices, found.deviation


def images():
    return list(np.random.default_rng(2).uniform(0.1, 0.9, size=(2, 12, 13, 3)))


STEPS = gk.LargeSteps(torus())
PLACE = [np.array(0.0), np.array([0.9, 1.0, 1.1]), np.array([1.0, 2.0, 3.0])]


def placed(op, **options):
    return lambda *args: op(*args[:-2], spacing=args[-2], origin=args[-1], **options)


CHECKS = {
    "signed_distance": lambda: (gk.signed_distance, [torus(), cloud()], {}),
    "closest_point": lambda: (gk.closest_point, [torus(), cloud()], {}),
    "winding_number": lambda: (
        lambda m, p: gk.winding_number(m, p, method="exact"),
        [gk.Mesh(torus().vertices, torus().faces[:-9]), 2 * cloud()], {"step": 1e-4},
    ),
    "cast_rays": lambda: (gk.cast_rays, list(rays()), {}),
    "bounds": lambda: (gk.bounds, [torus()], {}),
    "face_areas": lambda: (gk.face_areas, [torus()], {}),
    "area": lambda: (gk.area, [torus()], {}),
    "face_normals": lambda: (gk.face_normals, [torus()], {}),
    "vertex_normals": lambda: (gk.vertex_normals, [torus()], {}),
    "volume": lambda: (gk.volume, [torus()], {}),
    "sdf_grid": lambda: (inner_grid, [torus()], {}),
    "interpolate_grid": lambda: (gk.interpolate_grid, [samples(), 1.5 + 0.3 * cloud()], {"step": 1e-4}),
    "interpolate_attribute": lambda: (
        lambda a, b: gk.interpolate_attribute(a, torus().faces, [0, 5, -1, 7], b), [cloud(63), cloud(4, 3)], {},
    ),
    "sphere_trace": lambda: (traced, [bowl(), *beams(), *passing()], {"step": 1e-5}),
    "sdf_features": lambda: (gk.sdf_features, [bowl(), *beams()], {"step": 1e-5}),
    "marching_cubes": lambda: (placed(gk.marching_cubes), [samples(), *PLACE], {"step": 1e-3}),
    "flexicubes": lambda: (flexible, [samples(), *weights().values()], {"step": 1e-4}),
    "surface_nets": lambda: (placed(gk.surface_nets), [samples(), *PLACE], {"step": 1e-3}),
    "dual_contouring": lambda: (
        placed(gk.dual_contouring, regularization=5.0), [samples(), normals(), *PLACE], {"step": 1e-4},
    ),
    "sample_surface": lambda: (lambda m: gk.sample_surface(m, 40), [torus()], {}),
    "chamfer_distance": lambda: (lambda a, b: gk.chamfer_distance(a, b, samples=40), [cloud(), torus()], {}),
    "hausdorff_distance": lambda: (lambda a, b: gk.hausdorff_distance(a, b, samples=40), [torus(), cloud()], {}),
    "pixel_rays": lambda: (
        lambda p, w, k, d: gk.pixel_rays(p, cameras.posed(w), cameras.optics(k), d),
        [cameras.PIXELS, cameras.WORLD_TO_CAMERA, cameras.K, cameras.DISTORTION], {"step": 1e-5},
    ),
    "project_points": lambda: (
        lambda p, w, k, d: gk.project_points(p, cameras.posed(w), cameras.optics(k), d),
        [cameras.POINTS, cameras.WORLD_TO_CAMERA, cameras.K, cameras.DISTORTION], {"step": 1e-5},
    ),
    "l1_loss": lambda: (gk.l1_loss, images(), {}),
    "mse_loss": lambda: (gk.mse_loss, images(), {}),
    "huber_loss": lambda: (gk.huber_loss, images(), {}),
    "multiscale_loss": lambda: (gk.multiscale_loss, images(), {}),
    "ssim": lambda: (gk.ssim, images(), {"step": 1e-5}),
    "psnr": lambda: (gk.psnr, images(), {}),
    "iou_loss": lambda: (gk.iou_loss, images(), {}),
    "depth_loss": lambda: (gk.depth_loss, images(), {}),
    "normal_loss": lambda: (gk.normal_loss, images(), {}),
    "mesh_laplacian_smoothing": lambda: (gk.mesh_laplacian_smoothing, [torus()], {}),
    "mesh_normal_consistency": lambda: (gk.mesh_normal_consistency, [torus()], {"step": 1e-5}),
    "mesh_edge_loss": lambda: (gk.mesh_edge_loss, [torus()], {}),
    "to_differential": lambda: (lambda x: gk.to_differential(x, STEPS), [torus().vertices], {"step": 1e-4}),
    "from_differential": lambda: (lambda x: gk.from_differential(x, STEPS), [torus().vertices], {"step": 1e-4}),
    "pose": lambda: (
        lambda r, t, b: gk.pose(r, t, cameras.posed(b)),
        [np.array([0.3, -0.2, 0.4]), np.array([0.1, 0.2, 0.3]), cameras.WORLD_TO_CAMERA], {"step": 1e-5},
    ),
}  # fmt: skip


def inner_grid(mesh):
    """Samples of a grid that stays where it is: two points hold the box that it is placed by."""
    corners = np.array([[-3.0, -3.0, -3.0], [3.0, 3.0, 3.0]])
    faces = np.concatenate([mesh.faces, mesh.n_vertices + np.array([[0, 0, 0], [1, 1, 1]])])
    return gk.sdf_grid(gk.Mesh(np.concatenate([mesh.vertices, corners]), faces), resolution=9, sign="unsigned").values


def test_every_primitive_is_here():
    # (Those of a scene are functions of whatever arrays it has: tests/render.)
    ops = {name: set(op.differentiable) for name, op in Primitive.registry.items()}
    assert set(CHECKS) == {name for name, inputs in ops.items() if inputs - {"scene", "camera"}}


@pytest.mark.parametrize("name", CHECKS)
def test_every_primitive(name):
    function, inputs, options = CHECKS[name]()
    assert 0 < gk.gradcheck(function, inputs, **options) < 1e-7


# (That of sdf_grid joins arrays by NumPy.)
@pytest.mark.parametrize("name", [name for name in CHECKS if name != "sdf_grid"])
def test_every_primitive_on_torch(name):
    torch = pytest.importorskip("torch")
    function, inputs, options = CHECKS[name]()

    def tensor(x):
        if isinstance(x, gk.Mesh):
            return gk.Mesh(torch.tensor(np.array(x.vertices)), torch.tensor(np.array(x.faces)))
        return torch.tensor(x)

    assert 0 < gk.gradcheck(function, [tensor(x) for x in inputs], **options) < 1e-7


# ---- results


class Pair(NamedTuple):
    first: Any
    second: Any


def test_results_of_every_kind():
    x, mesh = np.array([0.5, 1.5]), torus()
    gk.gradcheck(lambda x: {"a": x * x, "b": [np.sin(x), (x**3, x.sum())]}, [x])
    gk.gradcheck(lambda x: Pair(x * x, "a name"), [x])
    gk.gradcheck(lambda m: m.with_vertices(m.vertices * 2), [mesh])
    gk.gradcheck(lambda m: (m, gk.closest_point(m, cloud())), [mesh])
    gk.gradcheck(lambda x, m: (x * 2, m.area), [x, mesh])


def test_plain_lists_and_numbers_are_inputs():
    assert gk.gradcheck(lambda x, y: x * y, [[1.0, 2.0], 3.0]) < 1e-9


def test_returns_the_largest_difference():
    x = np.array([1.0, 2.0])
    error = gk.gradcheck(np.square, [x], adjoint=lambda x, g: [2 * (1 + 1e-4) * x * g], rtol=1e-3)
    assert 1e-6 < error < 2e-4


# ---- what is wrong is found, and named


@pytest.fixture
def doubling(monkeypatch) -> Any:
    """Makes a primitive x -> x**2 with an adjoint of one's own."""
    monkeypatch.setattr(Primitive, "registry", dict(Primitive.registry))

    def make(adjoint):
        @primitive(differentiable=("x",), outputs={"y": "real N"})
        def squares(x: Any) -> Any:
            return np.asarray(x) ** 2

        @squares.define_adjoint
        def squares_adjoint(x: Any, *, adj_y: Any) -> Any:
            class Gradients(NamedTuple):
                x: Any

            return Gradients(adjoint(x, adj_y))

        return squares

    return make


X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def with_entry(value, at=(1, 2)):
    def adjoint(x, g):
        result = 2 * x * g
        result[at] *= value
        return result

    return adjoint


def test_right_primitive(doubling):
    assert gk.gradcheck(doubling(lambda x, g: 2 * x * g), [X]) < 1e-9


@pytest.mark.parametrize("factor", [0.5, 0.0, -1.0, 1.0001])
def test_wrong_factor(doubling, factor):
    text = r"^gradcheck: inputs\[1\]: entry \[1, 2\]: expected (\S+) as by central differences, got (\S+) \(along"
    op = doubling(with_entry(factor))
    with pytest.raises(AssertionError, match=text) as caught:
        gk.gradcheck(lambda a, x: a + op(x), [X, X])
    measured, claimed = (float(str(caught.value).split(word)[1].split()[0]) for word in ("expected ", "got "))
    assert np.isclose(claimed, factor * measured, rtol=1e-6, atol=1e-9)


def test_wrong_entry_of_a_large_input(doubling):
    x = np.linspace(1, 2, 5000).reshape(50, 100)
    with pytest.raises(AssertionError, match=r"^gradcheck: inputs\[0\]: entry \[31, 7\]: expected"):
        gk.gradcheck(doubling(with_entry(0.5, (31, 7))), [x])


def test_missing_term():
    """A factor taken for a constant."""
    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(AssertionError, match=r"^gradcheck: inputs\[0\]: entry \[\d\]: expected"):
        gk.gradcheck(lambda x: np.asarray(x) * x, [x])
    with pytest.raises(AssertionError, match=r"^gradcheck: inputs\[0\]: entry \[\d\]: expected"):
        gk.gradcheck(lambda x: x * x, [x], adjoint=lambda x, g: [x * g])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite_gradient(doubling, value):
    def adjoint(x, g):
        result = 2 * x * g
        result[1, 2] = value
        return result

    text = rf"^gradcheck: inputs\[0\]: expected a finite gradient, got {value} at entry \[1, 2\]"
    with pytest.raises(AssertionError, match=text):
        gk.gradcheck(np.square, [X], adjoint=lambda x, g: [adjoint(x, g)])
    with pytest.raises(AssertionError, match=text):
        gk.gradcheck(doubling(adjoint), [X])


def test_not_finite_output():
    text = r"^gradcheck: output\[1\]: expected finite numbers, got nan at \[1\]"
    with pytest.raises(AssertionError, match=text), np.errstate(invalid="ignore"):
        gk.gradcheck(lambda x: (x, np.sqrt(x)), [np.array([1.0, -1.0])])
    with pytest.raises(AssertionError, match=r"^gradcheck: output.t: expected finite numbers, got inf at \[0\]"):
        gk.gradcheck(gk.cast_rays, [torus(), np.full((1, 3), 9.0), np.ones((1, 3))])


def test_wrong_shape(doubling):
    with pytest.raises(AssertionError, match=r"^gradcheck: inputs\[0\]: expected .* shape \(2, 3\), got \(6,\)"):
        gk.gradcheck(np.square, [X], adjoint=lambda x, g: [(2 * x * g).ravel()])
    with pytest.raises(ValueError, match=r"^squares.adjoint: its gradient: expected \(2, 3\), got \(3, 2\)"):
        gk.gradcheck(doubling(lambda x, g: (2 * x * g).reshape(3, 2)), [X])
    with pytest.raises(AssertionError, match="^gradcheck: adjoint: expected 1 gradients, one for each input, got 2"):
        gk.gradcheck(np.square, [X], adjoint=lambda x, g: [g, g])


def test_path_that_is_cut():
    x = np.array([1.0, 2.0])
    text = r"^gradcheck: output: expected an array that gradients are followed through, got \(2,\) float64 that is not"
    with pytest.raises(ValueError, match=text):
        gk.gradcheck(lambda x: np.sin(np.asarray(x)), [x])
    with pytest.raises(ValueError, match=r"^gradcheck: output\[1\]: expected an array that gradients"):
        gk.gradcheck(lambda x: (x * 2, np.sin(np.asarray(x))), [x])
    text = r"^gradcheck: inputs\[1\]: expected a recorded path to target, got none: .*left the tape by numpy.asarray"
    with pytest.raises(ValueError, match=text):
        gk.gradcheck(lambda x, y: x * np.asarray(y), [x, x.copy()])
    with pytest.raises(ValueError, match="^gradcheck: fn: expected an output that gradients .* got none"):
        gk.gradcheck(lambda x: "a string", [x])


def test_path_that_is_cut_in_torch():
    torch = pytest.importorskip("torch")
    x = torch.ones(2, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^gradcheck: inputs\[1\]: expected a recorded path to the outputs, got none"):
        gk.gradcheck(lambda x, y: x * y.detach(), [x, x])
    with pytest.raises(ValueError, match="^gradcheck: output: expected an array that gradients are followed through"):
        gk.gradcheck(lambda x: x.detach(), [x])
    assert gk.gradcheck(lambda x, y: (x * y, torch.sin(x)), [x, x]) < 1e-7 and not x.requires_grad


def test_outputs_whose_shape_changes():
    with pytest.raises(AssertionError, match="^gradcheck: fn: expected outputs whose shape no step changes"):
        gk.gradcheck(lambda x: x[x <= 1], [np.array([1.0, 0.5])])


def test_inputs_and_outputs_are_float64():
    for wrong in (np.ones(2, np.float32), np.ones(2, int), gk.shapes.box()):
        with pytest.raises(TypeError, match=r"^gradcheck: inputs\[0\]: expected float64, got"):
            gk.gradcheck(lambda x: x, [wrong])
    with pytest.raises(TypeError, match=r"^gradcheck: output: expected float64, got \(2,\) float32"):
        gk.gradcheck(lambda x: x.astype(np.float32), [np.ones(2)])
    with pytest.raises(TypeError, match="^gradcheck: fn: expected one array, if adjoint is given, got 2"):
        gk.gradcheck(lambda x: (x, x), [X], adjoint=lambda x, g: [g])


def test_within_a_recording():
    """The tape that records is not disturbed, and does not disturb."""
    with gk.Tape() as tape:
        assert gk.gradcheck(lambda x: np.sin(x) * x, [X]) < 1e-7
        loss = tape.watch(X).sum()
        assert gk.gradcheck(np.square, [X], adjoint=lambda x, g: [2 * x * g]) < 1e-7
    assert (tape.gradient(loss, X) == 1).all()


def test_inputs_are_a_list():
    for given, got in ((np.ones((4, 3)), r"\(4, 3\) float64"), (gk.shapes.box(dtype=np.float64), "a Mesh")):
        with pytest.raises(TypeError, match=f"^gradcheck: inputs: expected a list of arrays, got {got}"):
            gk.gradcheck(np.square, given)
