"""The pose of six numbers: against scipy's rotations and matrix exponential, and its gradient, at zero too."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import geomkit as gk
from geomkit.render.pose import quaternion_of, rotation_vector_of
from tests.render.lens import POSE, pose_of

AXIS = np.array([1.0, -2, 2]) / 3
ANGLES = [0, 1e-200, 1e-9, 1e-3, 0.7, 0.999999, 1.0, 2.0, np.pi, 5.0]


def cross_matrix(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


@pytest.mark.parametrize("angle", ANGLES)
def test_value(angle):
    matrix = gk.pose(angle * AXIS, [1, 2, 3])
    assert matrix.dtype == np.float64
    np.testing.assert_allclose(matrix[:3, :3], expm(angle * cross_matrix(AXIS)), atol=1e-14)
    np.testing.assert_allclose(matrix[:3, :3], Rotation.from_rotvec(angle * AXIS).as_matrix(), atol=1e-14)
    np.testing.assert_array_equal(matrix[:, 3], [1, 2, 3, 1])
    np.testing.assert_allclose(gk.pose(angle * AXIS, [1, 2, 3], POSE), matrix @ POSE, atol=1e-15)


@pytest.mark.parametrize("angle", ANGLES)
def test_gradient(angle):
    def forward(w, t, rows):
        return gk.pose(w, t, pose_of(rows))

    def adjoint(w, t, rows, adj):
        g = gk.pose.adjoint(w, t, pose_of(rows), adj_pose=adj)
        assert not g.base[3].any()
        return g.rotation_vector, g.translation, g.base[:3]

    gk.gradcheck(forward, [angle * AXIS, np.array([0.3, 1, -2]), POSE[:3]], adjoint=adjoint, rtol=1e-7)


def test_the_derivative_at_zero_is_the_three_generators():
    g = np.random.default_rng(0).normal(size=(4, 4))
    found = gk.pose.adjoint(np.zeros(3), np.zeros(3), adj_pose=g)
    wanted = [(g[:3, :3] * cross_matrix(np.eye(3)[k])).sum() for k in range(3)]
    np.testing.assert_allclose(found.rotation_vector, wanted, atol=1e-15)
    np.testing.assert_array_equal(found.translation, g[:3, 3])
    assert found.base is None


@pytest.mark.parametrize("angle", [0, 1e-9, 0.5, 3.0, np.pi - 1e-7, np.pi])
def test_back_from_a_matrix(angle):
    turn = Rotation.from_rotvec(angle * AXIS)
    found = rotation_vector_of(turn.as_matrix())
    np.testing.assert_allclose(Rotation.from_rotvec(found).as_matrix(), turn.as_matrix(), atol=1e-14)
    assert np.linalg.norm(found) == pytest.approx(angle, abs=1e-14)
    q = quaternion_of(turn.as_matrix())
    np.testing.assert_allclose(q, turn.as_quat(canonical=True, scalar_first=True), atol=1e-14)


def test_precision_and_library():
    assert gk.pose(np.zeros(3, np.float32), [0, 0, 0]).dtype == np.float32
    assert gk.pose([0, 0, 0], [0, 0, 0], POSE.astype(np.float32)).dtype == np.float32
    torch = pytest.importorskip("torch")
    six = torch.zeros(6, requires_grad=True)
    matrix = gk.pose(six[:3], six[3:], POSE)
    assert matrix.dtype == torch.float32
    matrix[0].sum().backward()
    wanted = gk.pose.adjoint(np.zeros(3), np.zeros(3), POSE, adj_pose=np.eye(4)[:, :1] @ np.ones((1, 4)))
    np.testing.assert_allclose(six.grad[:3], wanted.rotation_vector, rtol=1e-6)
    np.testing.assert_allclose(six.grad[3:], wanted.translation, rtol=1e-6)


def test_jax():
    jax = pytest.importorskip("jax")
    six = np.array([0.1, 0.2, -0.3, 1, 2, 3])
    weights = np.random.default_rng(0).normal(size=(4, 4))

    def loss(six):
        return (gk.pose(six[:3], six[3:]) * weights.astype(np.float32)).sum()

    wanted = np.concatenate(gk.pose.adjoint(six[:3], six[3:], adj_pose=weights)[:2])
    for f in (jax.grad(loss), jax.jit(jax.grad(loss))):
        np.testing.assert_allclose(f(jax.numpy.asarray(six, np.float32)), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([0, 0], [0, 0, 0]), r"rotation_vector: expected \(3,\) floats, got \(2,\) int64"),
        (([0, 0, 0], [[0, 0, 0]]), r"translation: expected \(3,\) floats, got \(1, 3\) int64"),
        (([0, np.nan, 0], [0, 0, 0]), "rotation_vector: expected finite numbers, got"),
        (([0, 0, 0], [0, 0, 0], np.eye(3)), r"base: expected \(4, 4\) floats"),
        (([0, 0, 0], [0, 0, 0], 2 * np.eye(4)), "base: expected the last row 0, 0, 0, 1, got"),
    ],
)
def test_error(arguments, text):
    with pytest.raises(ValueError, match=f"pose: {text}"):
        gk.pose(*arguments)
    with pytest.raises(ValueError, match=f"pose: {text}"):
        gk.pose.adjoint(*arguments, adj_pose=np.zeros((4, 4)))
