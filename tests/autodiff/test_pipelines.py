"""What gradients are for: shapes that are fitted, a throw that is aimed, and one loss in three libraries."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import geomkit as gk


def rounded_box(points):
    """Signed distance to a box of half sides 0.6, 0.4, 0.3 with edges rounded by 0.2."""
    outside = abs(points) - np.array([0.4, 0.2, 0.1])
    return np.linalg.norm(np.maximum(outside, 0), axis=1) + np.minimum(outside.max(axis=1), 0) - 0.2


def test_vertices_fit_a_signed_distance_in_torch():
    torch = pytest.importorskip("torch")
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    vertices = torch.tensor(0.8 * ball.vertices, requires_grad=True)
    mesh = gk.Mesh(vertices, ball.faces)
    optimiser = torch.optim.Adam([vertices], lr=0.01)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(150):
        points = torch.as_tensor(rng.uniform(-1, 1, (2000, 3)))
        mesh = mesh.with_vertices(vertices)
        loss = (gk.signed_distance(mesh, points) - torch.as_tensor(rounded_box(points.numpy()))).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < 2e-3 * losses[0]
    assert abs(rounded_box(vertices.detach().numpy())).max() < 0.06


def test_a_sphere_becomes_a_torus():
    n, lower = 40, -1.2
    spacing = -2 * lower / (n - 1)
    axis = lower + spacing * np.arange(n)
    samples = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    torus = gk.shapes.torus(0.7, 0.28, major_sections=64, minor_sections=32, dtype=np.float64)
    cloud = gk.sample_surface(torus, 4000, seed=1).points
    field = (np.linalg.norm(samples, axis=1) - 0.9).reshape(n, n, n)
    euler = []
    for i in range(100):
        with gk.Tape() as tape:
            mesh = gk.marching_cubes(field, spacing=spacing, origin=lower, gradient="normal")
            loss = gk.chamfer_distance(mesh, cloud, samples=4000, seed=i)
        euler.append(mesh.euler_characteristic)
        step = gaussian_filter(tape.gradient(loss, field), 1.5)
        field = field - min(300.0, 0.5 * spacing / abs(step).max()) * step
        # Back to a distance, so that the next step means a length again.
        moved = gk.marching_cubes(field, spacing=spacing, origin=lower)
        field = gk.signed_distance(moved, samples).reshape(n, n, n)
    assert euler[0] == 2 and euler[-1] == 0 and mesh.components()[0] == 1
    assert loss.item() < 1e-3
    assert gk.hausdorff_distance(mesh.detach(), torus).item() < 0.5 * spacing


GROUND = gk.shapes.grid(24, 24, dtype=np.float64)
STEP, STEPS, RADIUS = 2e-3, 500, 0.08


def hills():
    """A square of side 4 with hills on it."""
    x, y = 4 * GROUND.vertices[:, 0], 4 * GROUND.vertices[:, 1]
    return GROUND.with_vertices(np.stack([x, y, 0.15 * np.cos(3 * x) * np.cos(2 * y)], axis=1))


def landing(torch, ground, velocity):
    """Where a thrown ball is after a second; the ground pushes back and rubs where the ball dips into it."""
    position = torch.tensor([[-0.8, -0.5, 0.7]], dtype=torch.float64)
    gravity = torch.tensor([[0.0, 0.0, -9.81]], dtype=torch.float64)
    velocity = velocity.reshape(1, 3)
    for _ in range(STEPS):
        near = gk.closest_point(ground, position)
        depth = torch.relu(RADIUS - near.distance)[:, None]
        away = (position - near.point) / near.distance[:, None]
        velocity = velocity + STEP * (gravity + 4e4 * depth * away - 400 * depth * velocity)
        position = position + STEP * velocity
    return position[0]


def test_the_landing_point_of_a_throw_in_torch():
    torch = pytest.importorskip("torch")
    ground = hills()
    throw = torch.tensor([1.1, 0.6, 0.5], dtype=torch.float64, requires_grad=True)
    end = landing(torch, ground, throw)
    assert end[2] > 0, "the ground did not hold the ball"
    jacobian = np.array([torch.autograd.grad(end[k], throw, retain_graph=True)[0].numpy() for k in range(3)])
    step = 1e-6
    for k in range(3):
        change = step * torch.eye(3, dtype=torch.float64)[k]
        moved = [landing(torch, ground, throw.detach() + sign * change) for sign in (1, -1)]
        measured = (moved[0] - moved[1]).numpy() / (2 * step)
        assert abs(jacobian[:, k] - measured).max() < 1e-5 * abs(jacobian).max()


def test_one_loss_in_three_libraries():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    ball = gk.shapes.icosphere(2)
    vertices = 0.7 * ball.vertices
    points = np.random.default_rng(0).uniform(-1, 1, (500, 3)).astype(np.float32)
    target = rounded_box(points).astype(np.float32)

    with gk.Tape() as tape:
        mesh = gk.Mesh(vertices, ball.faces)
        loss = np.mean((gk.signed_distance(mesh, points) - target) ** 2)
    answers = [(loss.item(), *tape.gradient(loss, [mesh.vertices, points]))]

    v, p = torch.tensor(vertices, requires_grad=True), torch.tensor(points, requires_grad=True)
    loss = ((gk.signed_distance(gk.Mesh(v, ball.faces), p) - torch.tensor(target)) ** 2).mean()
    loss.backward()
    answers.append((loss.item(), v.grad.numpy(), p.grad.numpy()))

    def of(v, p):
        return ((gk.signed_distance(gk.Mesh(v, ball.faces), p) - target) ** 2).mean()

    for run in (jax.value_and_grad(of, (0, 1)), jax.jit(jax.value_and_grad(of, (0, 1)))):
        value, gradients = run(jax.numpy.asarray(vertices), jax.numpy.asarray(points))
        answers.append((float(value), *map(np.asarray, gradients)))

    for other in answers[1:]:
        assert abs(other[0] - answers[0][0]) < 1e-6 * abs(answers[0][0])
        for mine, theirs in zip(answers[0][1:], other[1:], strict=True):
            assert abs(mine - theirs).max() < 1e-6 * abs(mine).max()
