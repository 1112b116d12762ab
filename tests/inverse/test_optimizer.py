"""Optimisers and schedules: values, any library, resuming, what is not finite."""

import numpy as np
import pytest

import geomkit as gk

RNG = np.random.default_rng(0)
KINDS = {
    "Adam": lambda p, lr: gk.Adam(p, lr),
    "UniformAdam": lambda p, lr: gk.UniformAdam(p, lr),
    "VectorAdam": lambda p, lr: gk.VectorAdam(p, lr),
    "SGD": lambda p, lr: gk.SGD(p, lr, momentum=0.8),
}
X = RNG.normal(size=(5, 3))
GRADIENTS = RNG.normal(size=(20, 5, 3))


def test_value_of_adam_is_torchs():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X, requires_grad=True)
    theirs, ours = torch.optim.Adam([x], lr=0.03), gk.Adam({"x": X}, 0.03)
    for g in GRADIENTS:
        x.grad = torch.tensor(g)
        theirs.step()
        moved = ours.step({"x": g})["x"]
    np.testing.assert_allclose(moved, x.detach().numpy(), rtol=1e-10)


def test_value_of_sgd_is_torchs():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X, requires_grad=True)
    theirs, ours = torch.optim.SGD([x], lr=0.03, momentum=0.8), KINDS["SGD"]({"x": X}, 0.03)
    for g in GRADIENTS:
        x.grad = torch.tensor(g)
        theirs.step()
        moved = ours.step({"x": g})["x"]
    np.testing.assert_allclose(moved, x.detach().numpy(), rtol=1e-12)


def test_vector_adam_turns_with_its_axes_and_adam_does_not():
    turn = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    for name, equal in (("VectorAdam", True), ("UniformAdam", False), ("Adam", False)):
        one, other = KINDS[name]({"x": X}, 0.1), KINDS[name]({"x": X @ turn}, 0.1)
        for g in GRADIENTS:
            a, b = one.step({"x": g})["x"], other.step({"x": g @ turn})["x"]
        assert (abs(a @ turn - b).max() < 1e-12) == equal, name


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("name", KINDS)
def test_libraries(name, library):
    xp = pytest.importorskip("torch" if library == "torch" else "jax.numpy")
    array = xp.tensor if library == "torch" else xp.asarray
    one, other = KINDS[name]({"x": X.astype(np.float32)}, 0.1), KINDS[name]({"x": array(X.astype(np.float32))}, 0.1)
    for g in GRADIENTS.astype(np.float32):
        a, b = one.step({"x": g})["x"], other.step({"x": array(g)})["x"]
    assert type(b) is type(array(X))
    np.testing.assert_allclose(np.asarray(b), a, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_resumed_gives_the_same_bits(name, tmp_path):
    parameters = {"x": X.astype(np.float32), "y": np.array(0.5)}
    rates = {"x": gk.schedule.cosine(0.1, 20), "y": 0.01}
    whole, first = KINDS[name](parameters, rates), KINDS[name](parameters, rates)
    steps = [{"x": g.astype(np.float32), "y": g[0, 0]} for g in GRADIENTS]
    for g in steps:
        whole.step(g)
    for g in steps[:9]:
        first.step(g)
    np.savez(tmp_path / "state.npz", **first.state())
    again = KINDS[name](parameters, rates)
    with np.load(tmp_path / "state.npz") as state:
        again.load_state(state)
    for g in steps[9:]:
        again.step(g)
    assert again.steps == 20
    for key, value in whole.state().items():
        assert again.state()[key].tobytes() == value.tobytes(), key


def test_parameters_given_are_not_written_to():
    x = X.copy()
    optimizer = gk.Adam({"x": x}, 0.1)
    before = optimizer.parameters["x"]
    optimizer.step({"x": X})
    assert (x == X).all() and (before == X).all()


def test_what_is_not_finite_stops_with_its_name_and_changes_nothing():
    optimizer = gk.Adam({"vertices": X, "albedo": X}, 0.1)
    bad = X.copy()
    bad[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"Adam.step: gradients\['albedo'\]: expected finite numbers, got 1 of 15"):
        optimizer.step({"vertices": X, "albedo": bad})
    assert optimizer.steps == 0 and optimizer.parameters["vertices"] is X
    huge = gk.SGD({"x": X}, 1e300)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"SGD.step: parameters\['x'\]"):
        huge.step({"x": 1e300 * X})


def test_error():
    with pytest.raises(ValueError, match="Adam: lr: expected a rate for each parameter, got none for x"):
        gk.Adam({"x": X}, {"y": 1.0})
    with pytest.raises(TypeError, match=r"Adam: parameters\['x'\]: expected an array of floats, got \(3,\) int64"):
        gk.Adam({"x": np.arange(3)}, 1.0)
    with pytest.raises(ValueError, match=r"Adam.step: gradients\['x'\]: expected \(5, 3\), got \(3,\)"):
        gk.Adam({"x": X}, 1.0).step({"x": np.zeros(3)})
    with pytest.raises(KeyError, match="Adam.load_state: no 'mean.x' in it"):
        gk.Adam({"x": X}, 1.0).load_state({"steps": 1})
    with pytest.raises(ValueError, match="SGD: momentum"):
        gk.SGD({"x": X}, 1.0, momentum=1.0)


def test_schedules():
    both = gk.schedule.warmup(gk.schedule.exponential(0.1, 0.1, every=10), 5)
    np.testing.assert_allclose([both(k) for k in (0, 4, 10, 20)], [0.02, 0.1 * 0.1**0.4, 0.01, 0.001])
    assert gk.schedule.step(1.0, 0.5, every=3)(6) == 0.25 and gk.schedule.cosine(1.0, 4, end=0.2)(9) == 0.2
    with pytest.raises(ValueError, match="schedule.cosine: rate: expected a number of at least 0, got -1"):
        gk.schedule.cosine(-1, 3)
    with pytest.raises(ValueError, match="schedule: steps: expected an integer of at least 1, got 0"):
        gk.schedule.warmup(1.0, 0)


def rosenbrock(p):
    x, y = p["x"], p["y"]
    a, b = 1 - x, y - x * x
    return (a * a + 100 * b * b).sum(), {"x": -2 * a - 400 * x * b, "y": 200 * b}


def test_lbfgs():
    found = gk.lbfgs(rosenbrock, {"x": np.array([-1.2]), "y": np.array([1.0])})
    assert found.loss < 1e-9 and abs(found.parameters["x"] - 1) < 1e-4 and (np.diff(found.losses) <= 0).all()
    held = gk.lbfgs(rosenbrock, {"x": np.array([-1.2]), "y": np.array([1.0])}, bounds={"x": (None, 0.5)})
    assert held.parameters["x"] == 0.5
    with pytest.raises(ValueError, match=r"lbfgs: gradients\['y'\]: expected finite numbers, got 1 that are not"):
        gk.lbfgs(lambda p: (1.0, {"x": p["x"], "y": np.array([np.nan])}), {"x": X[0, :1], "y": X[0, :1]})
    with pytest.raises(ValueError, match=r"lbfgs: gradients\['x'\]: expected \(3,\), got none"):
        gk.lbfgs(lambda p: (1.0, {}), {"x": X[0]})
