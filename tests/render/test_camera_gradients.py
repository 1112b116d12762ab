"""Gradients that reach a camera's fields: in torch, JAX and on a tape, and a camera that is found from what it saw."""

import numpy as np
import pytest
from scipy.optimize import least_squares

import geomkit as gk
from geomkit.render.camera import Camera
from tests.render.lens import LENS, POSE, K

SIZE = {"width": 16, "height": 12}
POINTS = 0.4 * np.random.default_rng(0).normal(size=(40, 3))
MODELS = ["pinhole", "orthographic"]


def plain(**changed):
    return Camera(**{"world_to_camera": POSE, "K": K, "distortion": LENS, **SIZE, **changed})


def wanted(own, points, model):
    """Gradients of the sum of squares of pixels and directions: of points, pose, K and distortion."""
    fields = own.world_to_camera, own.K, own.distortion
    pixel = own.project(points).pixel
    a = gk.project_points.adjoint(points, *fields, model=model, adj_pixel=2 * pixel)
    rays = own.rays(dtype=np.float64)
    row, column = np.divmod(np.arange(192), 16)
    pixels = np.stack([column, row], axis=1) + 0.5
    b = gk.pixel_rays.adjoint(
        pixels, *fields, model=model, adj_origins=2 * rays.origins, adj_directions=2 * rays.directions
    )
    return a.points, *(x + y for x, y in zip(a[1:], b[1:], strict=True))


@pytest.mark.parametrize("model", MODELS)
def test_torch(model):
    torch = pytest.importorskip("torch")
    fields = [torch.tensor(x, requires_grad=True) for x in (POSE, K, LENS)]
    points = torch.tensor(POINTS, requires_grad=True)
    own = Camera(fields[0], fields[1], distortion=fields[2], model=model, **SIZE)
    assert own.K is fields[1]
    rays = own.rays(dtype=np.float64)
    loss = own.project(points).pixel.square().sum() + sum(x.square().sum() for x in rays)
    loss.backward()
    for x, g in zip((points, *fields), wanted(plain(model=model), POINTS, model), strict=True):
        np.testing.assert_allclose(x.grad, g, rtol=1e-10, atol=1e-9)
    with torch.no_grad():
        again = Camera(fields[0], fields[1], distortion=fields[2], model=model, **SIZE)
        for a, b in zip(again.rays(dtype=np.float64), rays, strict=True):
            assert isinstance(a, torch.Tensor) and torch.equal(a, b)
    assert repr(own) == repr(plain(model=model))
    np.testing.assert_array_equal(own.eye, plain().eye)
    with torch.no_grad():
        fields[1] += 1  # what an optimiser does
        fields[1][1, 0] = fields[1][2, 0] = fields[1][2, 1] = 0
        fields[1][2, 2] = 1
    np.testing.assert_array_equal(own.detach().K[0], K[0] + 1)


@pytest.mark.parametrize("model", MODELS)
def test_tape(model):
    own = plain(model=model)
    with gk.Tape() as tape:
        rays = own.rays(dtype=np.float64)
        loss = np.sum(own.project(POINTS).pixel ** 2) + np.sum(rays.origins**2) + np.sum(rays.directions**2)
    sources = [POINTS, own.world_to_camera, own.K, own.distortion]
    for found, g in zip(tape.gradient(loss, sources), wanted(own, POINTS, model), strict=True):
        np.testing.assert_allclose(found, g, rtol=1e-10, atol=1e-9)


def test_jax():
    jax = pytest.importorskip("jax")
    points, pose, k, lens = (np.float32(x) for x in (POINTS, POSE, K, LENS))

    def loss(points, pose, k, lens):
        own = Camera(pose, k, distortion=lens, **SIZE)
        assert repr(own) == "Camera(16 x 12, traced by jax)"
        return (own.project(points).pixel ** 2).sum() + sum((x**2).sum() for x in own.rays())

    every = (0, 1, 2, 3)
    for f in (jax.grad(loss, every), jax.jit(jax.grad(loss, every))):
        for found, g in zip(f(points, pose, k, lens), wanted(plain(), POINTS, "pinhole"), strict=True):
            np.testing.assert_allclose(found, g, rtol=1e-4, atol=1e-5 * abs(g).max())

    def eye(pose):
        return Camera(pose, K, **SIZE).eye.sum()

    with pytest.raises(TypeError, match="Camera: world_to_camera: expected values"):
        jax.grad(eye)(pose)


def test_moved():
    own = plain()
    six = np.array([0.1, -0.2, 0.3, 0.5, 0.6, 0.7])
    moved = own.moved(six[:3], six[3:])
    np.testing.assert_allclose(moved.world_to_camera, gk.pose(six[:3], six[3:]) @ POSE, atol=1e-15)
    assert moved.distortion is not None and moved.width == 16

    def forward(six):
        return own.moved(six[:3], six[3:]).project(POINTS).pixel

    def adjoint(six, adj):
        with gk.Tape() as tape:
            pixel = own.moved(tape.watch(six)[:3], tape.watch(six)[3:]).project(POINTS).pixel
        return [tape.gradient(pixel, six, adj=adj)]

    for start in (six, np.zeros(6)):
        assert gk.gradcheck(forward, [start], adjoint=adjoint, rtol=1e-7) < 1e-7


def test_hits_of_a_camera_move_with_it():
    """Depths that a camera sees of a mesh, through rays, hits and back: interior, as no silhouette is crossed."""
    mesh = gk.Mesh([[-9, -9, 0.3], [9, -9, -0.2], [0, 12, 0.1]], [[0, 1, 2]])
    mesh = mesh.with_vertices(mesh.vertices.astype(np.float64))
    start = Camera.look_at((0.2, 0.3, 4), (0, 0, 0), fov=50, **SIZE)
    numbers = [np.zeros(6), start.K[[0, 0, 0, 1, 1], [0, 1, 2, 1, 2]], 0.3 * LENS]

    def depth(six, k, lens, *, tape=None):
        fx, skew, cx, fy, cy = k
        matrix = np.array([[fx, skew, cx], [0, fy, cy], [0, 0, 1]])
        given = [six, matrix, lens] if tape is None else [tape.watch(x) for x in (six, matrix, lens)]
        own = Camera(start.world_to_camera, given[1], distortion=given[2], **SIZE).moved(given[0][:3], given[0][3:])
        return gk.cast_rays(mesh, *own.rays(dtype=np.float64)).t, given

    def adjoint(six, k, lens, adj):
        with gk.Tape() as tape:
            t, given = depth(six, k, lens, tape=tape)
        g = tape.gradient(t, given, adj=adj)
        return g[0], g[1][[0, 0, 0, 1, 1], [0, 1, 2, 1, 2]], g[2]

    assert np.isfinite(depth(*numbers)[0]).all()
    assert gk.gradcheck(lambda *x: depth(*x)[0], numbers, adjoint=adjoint, rtol=1e-6) < 1e-6


def test_a_camera_is_found_from_where_it_saw_points():
    torch = pytest.importorskip("torch")
    true = Camera.look_at((1, 2, 4), (0, 0, 0), fov=50, **SIZE)
    true = Camera(true.world_to_camera, [[14, 0, 8.5], [0, 13, 5.5], [0, 0, 1]], distortion=[-0.1, 0, 0, 0], **SIZE)
    points = np.random.default_rng(1).uniform(-1.2, 1.2, (40, 3))
    target = true.project(points).pixel
    start = Camera.look_at((0.9, 2.1, 4.3), (0.1, 0, 0), fov=50, **SIZE)
    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)

    def of(numbers):
        fx, cx, fy, cy, k1 = numbers[6:]
        matrix = torch.stack([fx, zero, cx, zero, fy, cy, zero, zero, one]).reshape(3, 3)
        lens = torch.stack([k1, zero, zero, zero])
        return Camera(start.world_to_camera, matrix, distortion=lens, **SIZE).moved(numbers[:3], numbers[3:6])

    def off(numbers):
        return (of(numbers).project(points).pixel - torch.tensor(target)).ravel()

    def jacobian(x):
        return torch.autograd.functional.jacobian(off, torch.tensor(x)).numpy()

    first = np.array([0, 0, 0, 0, 0, 0, 12.0, 8, 12, 6, 0])
    found = least_squares(lambda x: off(torch.tensor(x)).numpy(), first, jac=jacobian, x_scale="jac")
    assert found.cost < 1e-20
    own = of(torch.tensor(found.x)).detach()
    np.testing.assert_allclose(own.K, true.K, rtol=1e-8)
    np.testing.assert_allclose(own.eye, true.eye, rtol=1e-8)
    np.testing.assert_allclose(own.distortion, true.distortion, atol=1e-9)


def test_jax_moves_a_camera():
    jax = pytest.importorskip("jax")
    own = plain()
    points = POINTS.astype(np.float32)

    def loss(six):
        return (own.moved(six[:3], six[3:]).project(points).pixel ** 2).sum()

    with gk.Tape() as tape:
        zeros = np.zeros(3), np.zeros(3)
        value = np.sum(own.moved(*zeros).project(POINTS).pixel ** 2)
    wanted = np.concatenate(tape.gradient(value, zeros))
    for f in (jax.grad(loss), jax.jit(jax.grad(loss))):
        np.testing.assert_allclose(f(jax.numpy.zeros(6)), wanted, rtol=1e-4, atol=1e-5 * abs(wanted).max())

    def base(pose):
        return Camera(pose, K, **SIZE).moved([0, 0, 0], [0, 0, 0]).project(points).depth.sum()

    np.testing.assert_allclose(jax.grad(base)(np.float32(POSE))[2, 3], len(points), rtol=1e-6)
