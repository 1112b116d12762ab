"""Every primitive on torch's autograd, checked by torch.autograd.gradcheck."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.autodiff.primitive import primitives
from tests import cameras

torch = pytest.importorskip("torch")

FACES = gk.shapes.icosphere(1).faces
CORNERS = gk.shapes.icosphere(1).vertices
GRID = np.stack(np.meshgrid(*[np.arange(6.0) - 2.6] * 3, indexing="ij"), axis=-1)


def doubles(array):
    """A tensor of float64 that requires grad."""
    return torch.tensor(np.asarray(array), dtype=torch.float64, requires_grad=True)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def ball():
    """Vertices that no symmetry of the sphere is left in."""
    return doubles(CORNERS + 0.05 * random(len(CORNERS), 3))


def mesh(vertices):
    return gk.Mesh(vertices, FACES)


def points():
    return doubles(1.3 * random(7, 3, seed=1))


def rays():
    origins = 3 * random(8, 3, seed=2)
    return doubles(origins), doubles(0.3 * random(8, 3, seed=3) - origins)


def egg():
    """A distance to an egg, its gradient, and a level, spacing and origin."""
    p = GRID - [0.11, 0.07, -0.05]
    away = p / [1.0, 1.1, 1.2]
    length = np.linalg.norm(away, axis=-1)
    normals = away / [1.0, 1.1, 1.2] / length[..., None]
    place = [doubles(x) for x in (0.02, [0.9, 1.0, 1.1], [0.1, 0.2, 0.3])]
    return doubles(length - 1.7), doubles(normals), *place


def nearest(vertices, points):
    found = gk.closest_point(mesh(vertices), points)
    return found.point, found.distance


def hits(vertices, origins, directions):
    found = gk.cast_rays(mesh(vertices), origins, directions)
    assert found.hit.all()
    return found.t, found.barycentric, found.normal, found.position


def between(grid, points):
    found = gk.interpolate_grid(grid, points, spacing=0.7, origin=-1.1, method="cubic")
    return found.value, found.gradient


def contour(op):
    def call(field, normals, level, spacing, origin):
        given = (field, normals, level) if op is gk.dual_contouring else (field, level)
        # A pull so strong that no vertex is held on the border of its cell.
        options = {"regularization": 10.0} if op is gk.dual_contouring else {}
        return op(*given, spacing=spacing, origin=origin, **options).vertices

    return call


def weighted():
    """A distance to a ball, and weights of its cells."""
    rng = np.random.default_rng(2)
    shapes = (4, 4, 4, 3), (3, 3, 3, 8), (3, 3, 3, 12), (3, 3, 3)
    values = np.linalg.norm(GRID[1:5, 1:5, 1:5], axis=-1) - 1.1
    return [doubles(values), *(doubles(rng.uniform(0.8, 1.2, shape)) for shape in shapes)]


def flexible(values, deform, alpha, beta, gamma):
    found = gk.flexicubes(values, deform=deform, alpha=alpha, beta=beta, gamma=gamma, split="center")
    return found.vertices, found.deviation


def beams():
    """A distance to a ball, and rays that hit it far from its silhouette."""
    origins = 4 * random(5, 3, seed=2)
    origins = 6 * origins / np.linalg.norm(origins, axis=1, keepdims=True)
    return [doubles(x) for x in (np.linalg.norm(GRID, axis=-1) - 1.5, origins, 0.3 * random(5, 3, seed=3) - origins)]


def centred():
    """Where the samples of the grid are."""
    step = float(GRID[1, 1, 1, 0] - GRID[0, 0, 0, 0])
    return {"spacing": step, "origin": GRID[0, 0, 0].tolist()}


def trace(grid, origins, directions):
    found = gk.sphere_trace(grid, origins, directions, **centred())
    return found.t, found.position, found.normal


def seen(grid, origins, directions):
    found = gk.sdf_features(grid, origins, directions, **centred(), light=gk.DirectionalLight((-1, -2, -3)))
    return found.color, found.depth, found.position, found.normal


def sampled(vertices):
    """The grid around a mesh in a larger box, which the derivative wants to stay where it is."""
    box = gk.shapes.box((4, 4, 4), dtype=np.float64)
    everything = torch.cat([vertices, torch.tensor(box.vertices)])
    faces = np.concatenate([FACES, box.faces + len(vertices)])
    return gk.sdf_grid(gk.Mesh(everything, faces), spacing=0.7, sign="pseudonormal").values


def wound(vertices, points):
    return gk.winding_number(gk.Mesh(vertices, FACES[:50]), points, method="exact")


def apart(op):
    return lambda a, b: op(mesh(a), gk.Mesh(b, FACES[:50]), samples=20)


def through_a_lens(op, at):
    def call(at, world_to_camera, K, distortion):
        return tuple(op(at, cameras.posed(world_to_camera), cameras.optics(K), distortion))

    return call, lambda: [doubles(x) for x in (at, cameras.WORLD_TO_CAMERA, cameras.K, cameras.DISTORTION)]


def of_mesh(op):
    return lambda vertices: op(mesh(vertices)), lambda: [ball()]


IMAGE_LOSSES = (
    "depth_loss", "huber_loss", "iou_loss", "l1_loss", "mse_loss", "multiscale_loss", "normal_loss", "psnr", "ssim",
)  # fmt: skip
STEPS = gk.LargeSteps(gk.shapes.icosphere(1))


def images():
    return [doubles(x) for x in np.random.default_rng(2).uniform(0.1, 0.9, size=(2, 11, 12, 3))]


# For each primitive with gradients: a function of tensors that gives all its outputs, and what to call it with.
CASES = {
    "area": of_mesh(gk.area),
    "bounds": of_mesh(gk.bounds),
    "cast_rays": (hits, lambda: [ball(), *rays()]),
    "chamfer_distance": (apart(gk.chamfer_distance), lambda: [ball(), doubles(1.2 * random(len(CORNERS), 3, seed=5))]),
    "closest_point": (nearest, lambda: [ball(), points()]),
    "dual_contouring": (contour(gk.dual_contouring), egg),
    "face_areas": of_mesh(gk.face_areas),
    "face_normals": of_mesh(gk.face_normals),
    "flexicubes": (flexible, weighted),
    "hausdorff_distance": (apart(gk.hausdorff_distance), lambda: [ball(), doubles(1.3 * ball().detach())]),
    "interpolate_grid": (between, lambda: [doubles(random(4, 5, 3)), points()]),
    "interpolate_attribute": (
        lambda a, b: gk.interpolate_attribute(a, gk.shapes.icosphere(1).faces, [4, 7, -1], b),
        lambda: [doubles(random(len(CORNERS), 4)), doubles(random(3, 2))],
    ),
    "marching_cubes": (contour(gk.marching_cubes), egg),
    "pixel_rays": through_a_lens(gk.pixel_rays, cameras.PIXELS),
    **{name: (getattr(gk, name), images) for name in IMAGE_LOSSES},
    "mesh_edge_loss": of_mesh(gk.mesh_edge_loss),
    "mesh_laplacian_smoothing": of_mesh(gk.mesh_laplacian_smoothing),
    "mesh_normal_consistency": of_mesh(gk.mesh_normal_consistency),
    "to_differential": (lambda x: gk.to_differential(x, STEPS), lambda: [ball()]),
    "from_differential": (lambda x: gk.from_differential(x, STEPS), lambda: [ball()]),
    "pose": (
        lambda rotation, shift, base: gk.pose(rotation, shift, cameras.posed(base)),
        lambda: [doubles(x) for x in (cameras.POINTS[0], cameras.POINTS[1], cameras.WORLD_TO_CAMERA)],
    ),
    "project_points": through_a_lens(gk.project_points, cameras.POINTS),
    "sample_surface": of_mesh(lambda mesh: gk.sample_surface(mesh, 20).points),
    "sdf_grid": (sampled, lambda: [ball()]),
    "sdf_features": (seen, beams),
    "signed_distance": (lambda v, p: gk.signed_distance(mesh(v), p), lambda: [ball(), points()]),
    "sphere_trace": (trace, beams),
    "surface_nets": (contour(gk.surface_nets), egg),
    "vertex_normals": of_mesh(gk.vertex_normals),
    "volume": of_mesh(gk.volume),
    "winding_number": (wound, lambda: [ball(), points()]),
}


def test_every_primitive_with_gradients_has_a_case():
    # (Those of a scene are functions of whatever arrays it has: tests/render.)
    ops = {name: set(op.differentiable) for name, op in primitives().items()}
    assert set(CASES) == {name for name, inputs in ops.items() if inputs - {"scene", "camera"}}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    function, inputs = CASES[name]
    assert torch.autograd.gradcheck(function, tuple(inputs()), eps=1e-6, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_every_differentiable_input_gets_a_gradient(name):
    function, inputs = CASES[name]
    given = inputs()
    outputs = function(*given)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.stack([output.sin().sum() for output in outputs]).sum().backward()
    reached = [x for x in given if x.grad is not None and bool((x.grad != 0).any())]
    assert len(reached) == len(primitives()[name].differentiable)
