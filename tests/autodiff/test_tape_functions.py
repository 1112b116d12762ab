"""Array functions on a tape: values as NumPy's, derivatives as central differences, and what is refused."""

import re

import numpy as np
import pytest

import geomkit as gk
from geomkit.autodiff.tape_array import TapeArray
from geomkit.autodiff.tape_functions import RULES, UFUNCS


def random(*shape, seed=0, low=-2.0, high=2.0):
    return np.random.default_rng(seed).uniform(low, high, shape)


def positive(*shape, seed=0):
    return random(*shape, seed=seed, low=0.3, high=2.0)


def away_from_zero(*shape, seed=0):
    x = random(*shape, seed=seed)
    return x + np.sign(x) * 0.2


A, B, ROW, COLUMN, NUMBER = random(3, 4), random(3, 4, seed=1), random(4, seed=2), random(3, 1, seed=3), random(seed=4)
NEVER_ZERO, POSITIVE = away_from_zero(3, 4), positive(3, 4)
CUBE, EMPTY = random(2, 3, 4), np.zeros((0, 3))
MASK = random(3, 4, seed=7) > 0

CASES = {
    "negative": (lambda x: -x, A),
    "positive": (lambda x: +x, A),
    "positive function": (np.positive, A),
    "absolute": (lambda x: abs(x) + np.abs(x), NEVER_ZERO),
    "square": (np.square, A),
    "sqrt": (np.sqrt, POSITIVE),
    "exp": (np.exp, A),
    "log": (np.log, POSITIVE),
    "sin": (np.sin, A),
    "cos": (np.cos, A),
    "tanh": (np.tanh, A),
    "number of no dimensions": (lambda x: np.exp(x) * x, NUMBER),
    "empty": (lambda x: np.exp(x) * x + x.sum(axis=0), EMPTY),
    "add": (lambda x, y: x + y, A, B),
    "add a row": (lambda x, y: x + y, A, ROW),
    "add a column to a row": (lambda x, y: x + y, COLUMN, ROW),
    "subtract": (lambda x, y: x - y, ROW, A),
    "multiply": (lambda x, y: x * y, A, COLUMN),
    "multiply by a 0-d": (lambda x, y: x * y, A, NUMBER),
    "multiply empties": (lambda x, y: x * y, EMPTY, random(3)),
    "divide": (lambda x, y: x / y, A, away_from_zero(4)),
    "power": (lambda x, y: x**y, POSITIVE, ROW),
    "power of a whole number": (lambda x: x**3 + x**0 + x**1 + x**-2, NEVER_ZERO),
    "power of an array of whole numbers": (lambda x: x ** np.array([0, 1, 2, 3]), NEVER_ZERO),
    "power of a base": (lambda x: 2**x + 0.5**x, A),
    "maximum": (np.maximum, A, B),
    "maximum of a row": (np.maximum, A, ROW),
    "minimum": (np.minimum, A, B),
    "minimum of a number": (lambda x: np.minimum(x, 0.3) + np.minimum(0.3, x), A),
    "matmul": (lambda x, y: x @ y, A, random(4, 2)),
    "matmul of batches": (lambda x, y: x @ y, CUBE, random(5, 1, 4, 2)),
    "matmul of vectors": (lambda x, y: x @ y, ROW, random(4, seed=9)),
    "matmul of a vector and a matrix": (lambda x, y: x @ y, ROW, random(4, 2)),
    "matmul of a matrix and a vector": (lambda x, y: x @ y, A, ROW),
    "matmul of a vector and a batch": (lambda x, y: x @ y, random(3), CUBE),
    "matmul of a batch and a vector": (lambda x, y: x @ y, CUBE, ROW),
    "dot": (np.dot, A, random(4, 2)),
    "dot of vectors": (lambda x, y: x.dot(y), ROW, random(4, seed=9)),
    "dot of a number": (np.dot, A, NUMBER),
    "sum": (np.sum, A),
    "sum of an axis": (lambda x: x.sum(axis=0) @ ROW, A),
    "sum of a negative axis": (lambda x: np.sum(x, -1), CUBE),
    "sum of axes": (lambda x: np.sum(x, axis=(0, -1)), CUBE),
    "sum that keeps": (lambda x: x * np.sum(x, axis=(0, 2), keepdims=True), CUBE),
    "sum that keeps all": (lambda x: x * x.sum(keepdims=True), A),
    "sum of a 0-d": (np.sum, NUMBER),
    "sum of an empty": (np.sum, EMPTY),
    "mean": (np.mean, A),
    "mean of axes": (lambda x: x.mean(axis=(1, 2)), CUBE),
    "mean that keeps": (lambda x: x * np.mean(x, axis=-2, keepdims=True), CUBE),
    "max": (np.max, A),
    "max of an axis": (lambda x: x.max(axis=0), A),
    "max that keeps": (lambda x: x * np.max(x, axis=-1, keepdims=True), CUBE),
    "max that keeps all": (lambda x: x * np.max(x, keepdims=True), CUBE),
    "max of a 0-d": (np.max, NUMBER),
    "min": (np.min, A),
    "min of an axis": (lambda x: x.min(axis=-3), CUBE),
    "norm": (np.linalg.norm, A),
    "norm of an axis": (lambda x: np.linalg.norm(x, axis=1), A),
    "norm that keeps": (lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True), CUBE),
    "norm of a matrix": (lambda x: np.linalg.norm(x, "fro", (0, 2)), CUBE),
    "norm of order 2": (lambda x: np.linalg.norm(x, ord=2, axis=0) + np.linalg.norm(ROW, 2), A),
    "where": (lambda x, y: np.where(MASK, x, y), A, B),
    "where of a number": (lambda x: np.where(MASK, x, 0.0) + np.where(x > 0, 1, x), A),
    "where that broadcasts": (lambda x, y: np.where(MASK[:, :1], x, y), ROW, COLUMN),
    "clip": (lambda x: np.clip(x, -0.5, 0.7), A),
    "clip to arrays": (np.clip, A, random(4, low=-1, high=-0.5), random(3, 1, low=0.5, high=1)),
    "clip from below": (lambda x, low: x.clip(low), A, ROW),
    "clip from above": (lambda x, high: np.clip(x, None, high), A, ROW),
    "clip by names": (lambda x, high: np.clip(x, a_max=high, a_min=-0.1), A, random(4, low=0.3, high=1)),
    "clip to bounds that cross": (np.clip, A, random(low=0.5, high=0.6), random(low=-0.6, high=-0.5)),
    "reshape": (lambda x: np.reshape(x, (2, 6)) @ np.ones(6) + x.reshape(-1).reshape(2, -1).sum(1), A),
    "ravel": (lambda x: x.ravel() * np.ravel(x), A),
    "transpose": (lambda x: x.T * np.transpose(x), A),
    "transpose of axes": (lambda x: x.transpose(2, 0, 1) * np.transpose(x, (-1, 0, 1)), CUBE),
    "squeeze": (lambda x: np.squeeze(x) * x.squeeze(1), COLUMN),
    "expand_dims": (lambda x: np.expand_dims(x, 0) * np.expand_dims(x, axis=(-1, 0))[..., 0], A),
    "broadcast_to": (lambda x: np.broadcast_to(x, (5, 3, 4)) * random(5, 3, 4), COLUMN),
    "concatenate": (lambda x, y: np.concatenate([x, np.ones((3, 2)), y, x], axis=1) * random(3, 14), A, B),
    "concatenate rows": (lambda x, y: np.concatenate((x, y)) * random(6, 4), A, B),
    "stack": (lambda x, y: np.stack([x, y, x], axis=-1) * random(3, 4, 3), A, B),
    "stack with a constant": (lambda x: np.stack([x, np.ones(4), ROW]) * random(3, 4), random(4)),
    "index": (lambda x: x[1] * x[-1, 2] + x[0, 0], A),
    "slices": (lambda x: x[1:, ::-2] * x[:2, 1:3], A),
    "ellipsis and newaxis": (lambda x: x[..., None, 1] * x[None, ..., 0, None], CUBE),
    "mask": (lambda x: x[MASK] * x[MASK], A),
    "repeated integers": (lambda x: x[[0, 2, 2, 0]] * random(4, 4), A),
    "arrays of integers": (lambda x: x[np.array([[0, 1], [1, 1]]), np.array([0, 2])] ** 2, A),
    "mask and integers": (lambda x: x[np.array([True, False, True]), [1, 1]] * x[:, [3]][0], A),
    "list of truth values": (lambda x: x[[True, False, True]] ** 2, A),
    "index of no dimensions": (lambda x: x[np.array(1)] * x[np.int64(2)], A),
    "all": (lambda x: x[()] * x[:], A),
    "rows": (lambda x: sum(row * k for k, row in enumerate(x)), A),
    "astype": (lambda x: x.astype(np.float64) * x, A),
    "a list on the other side": (lambda x: x * [1.0, 2, 3, 4] + [[1], [2], [3]] - x @ [1, 2, 3, 4] @ [1, 2, 3], A),
    "used often": (lambda x: x * x + x * np.sum(x) - x / 2, A),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    function, *inputs = CASES[name]
    gk.gradcheck(function, inputs)


@pytest.mark.parametrize("name", CASES)
def test_value(name):
    function, *inputs = CASES[name]
    expected = function(*inputs)
    with gk.Tape() as tape:
        result = function(*map(tape.watch, inputs))
    assert isinstance(result, TapeArray) and result.dtype == expected.dtype and result.shape == expected.shape
    assert np.array_equal(result.value, expected)


@pytest.mark.parametrize("name", CASES)
def test_float32_stays(name):
    function, *inputs = CASES[name]
    singles = [np.asarray(x, np.float32) for x in inputs]
    with gk.Tape() as tape:
        result = function(*map(tape.watch, singles))
        loss = (result * np.ones(result.shape, result.dtype)).sum()
    gradients = tape.gradient(loss, singles)
    with gk.Tape() as tape:
        loss = function(*map(tape.watch, inputs)).sum()
    for single, double, x in zip(gradients, tape.gradient(loss, inputs), singles, strict=True):
        assert single.dtype == np.float32 and single.shape == x.shape
        assert np.allclose(single, double, rtol=1e-3, atol=1e-4)


def test_every_rule_is_documented_and_tested():
    text = re.sub(r"\s+", " ", gk.Tape.__doc__ or "")
    listed = text.partition("methods and operators:")[2].partition("Others refuse")[0]
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}
    for function in RULES:
        name = str(function.__name__)
        name = {"absolute": "abs", "norm": "linalg.norm"}.get(name, name)
        assert re.search(rf"(^|[ ,]){re.escape(signs.get(name, name))}([ ,.]|$)", listed), name
        case = {"abs": "absolute", "linalg.norm": "norm"}.get(name, name)
        assert any(case in known for known in CASES), name


NUMBERS = [2, 0.7, np.float64(1.3), np.array(0.4), np.array([0.5, 1.5, 2.5]), [1.0, 2.0, 3.0]]


@pytest.mark.parametrize("other", NUMBERS, ids=str)
@pytest.mark.parametrize("ufunc", [f for f in UFUNCS if f.nin == 2], ids=lambda f: f.__name__)
def test_operators_both_ways(ufunc, other):
    if ufunc is np.matmul and np.ndim(other) == 0:
        with gk.Tape() as tape, pytest.raises(ValueError, match="matmul"):
            ufunc(tape.watch(np.ones(3)), other)
        return
    x = np.array([0.3, 1.1, 1.9])
    symbols = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "matmul": "@"}
    symbol = symbols.get(ufunc.__name__)
    ways = [lambda x: ufunc(x, other), lambda x: ufunc(other, x)]
    if symbol:
        ways += [lambda x: eval(f"x {symbol} other", {"x": x, "other": other})]
        ways += [lambda x: eval(f"other {symbol} x", {"x": x, "other": other})]
    for way in ways:
        gk.gradcheck(way, [x])


def gradient(function, *inputs):
    with gk.Tape() as tape:
        loss = function(*map(tape.watch, inputs)).sum()
    return [g.tolist() for g in tape.gradient(loss, list(inputs))]


def test_ties():
    """At ties the first of the arguments, or the element of lowest index, has all of it."""
    x, y = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    assert gradient(np.maximum, x, y) == [[1, 0], [0, 1]]
    assert gradient(np.minimum, x, y) == [[1, 1], [0, 0]]
    for extreme in (np.max, np.min):
        assert gradient(extreme, np.array([[5.0, 5.0], [5.0, 5.0]])) == [[[1, 0], [0, 0]]]
        assert gradient(lambda x, f=extreme: f(x, axis=0), np.ones((2, 2))) == [[[1, 1], [0, 0]]]
    assert gradient(lambda x: np.clip(x, 0, 1), np.array([0.0, 1.0, 2.0, -1.0])) == [[1, 1, 0, 0]]
    assert gradient(np.abs, np.array([0.0, -2.0])) == [[0, -1]]


def test_singular_points():
    """Where the slope is infinite, or there is none, what does not depend on it is not NaN."""
    zero = np.zeros(3)
    assert gradient(lambda x: np.linalg.norm(x), zero) == [[0, 0, 0]]
    assert gradient(lambda x: np.sqrt(x) * 0, zero) == [[0, 0, 0]]
    assert gradient(lambda x: x**2, zero) == [[0, 0, 0]]
    assert gradient(lambda x: x**0, zero) == [[0, 0, 0]]
    assert gradient(lambda x, y: x**y, zero, np.full(3, 2.0)) == [[0, 0, 0], [0, 0, 0]]
    assert np.isnan(gradient(lambda x: np.maximum(x, 0) * x, np.array([np.nan]))[0]).all()


REFUSED = {
    "add.reduce": lambda x: np.add.reduce(x),
    "cross": lambda x: np.cross(x, x),
    "arctan2": lambda x: np.arctan2(x, 1),
    "sign": lambda x: np.sign(x),
    "add(where=)": lambda x: np.add(x, 1, where=[True, False, True]),
    "sum(dtype=)": lambda x: np.sum(x, dtype=np.float32),
    "sum": lambda x: np.sum(x, 0, np.float32),
    "mean(dtype=)": lambda x: np.mean(x, dtype=np.float32),
    "max(initial=)": lambda x: np.max(x, initial=3.0),
    "reshape(order=)": lambda x: np.reshape(x, -1, order="F"),
    "ravel(order=)": lambda x: np.ravel(x, order="F"),
    "where": lambda x: np.where(x),
    "ndarray.std": lambda x: x.std(),
    "ndarray.copy": lambda x: x.copy(),
    "std": lambda x: np.std(x),
    "sort": lambda x: np.sort(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unknown_functions_refuse_and_name_themselves(name):
    error = AttributeError if name.startswith("ndarray") else TypeError
    text = rf"^Tape: {re.escape(name)}: expected one of .*matmul.*or plain arrays"
    with gk.Tape() as tape, pytest.raises(error, match=text):
        REFUSED[name](tape.watch(np.arange(3.0)))


def test_options_that_have_no_rule():
    with gk.Tape() as tape:
        x, cube = tape.watch(A), tape.watch(CUBE)
        with pytest.raises(TypeError, match="^linalg.norm: ord: expected the Euclidean norm .* got 1 over 2 axes"):
            np.linalg.norm(x, 1)
        with pytest.raises(TypeError, match="^linalg.norm: ord: .* got 2 over 2 axes"):
            np.linalg.norm(cube, 2, (0, 1))
        with pytest.raises(TypeError, match=r"^max: axis: expected one axis or None on a tape, got \(0, 1\)"):
            np.max(x, axis=(0, 1))
        with pytest.raises(TypeError, match="^concatenate: axis: expected a number on a tape"):
            np.concatenate([x, x], axis=None)
        with pytest.raises(TypeError, match="^dot: a, b: expected at most two dimensions on a tape, got 3 and 2"):
            np.dot(cube, x)
        with pytest.raises(TypeError, match=r"^add: out: expected no writing where a TapeArray takes part"):
            np.add(np.ones((3, 4)), 1, out=x)
        with pytest.raises(TypeError, match=r"^add: out: expected no writing"):
            plain = np.ones((3, 4))
            plain += x
        with pytest.raises(TypeError, match=r"^TapeArray: \[...\] =: expected no writing"):
            x[0] = 1
    with pytest.raises(TypeError, match=r"^add: out: expected no writing"):
        np.add(np.ones((3, 4)), 1, out=x)


def test_discrete_answers_pass():
    with gk.Tape() as tape:
        x = tape.watch(A)
        assert type(x > 0) is np.ndarray and np.array_equal(x > 0, A > 0)
        assert np.array_equal(x <= 0.1, A <= 0.1) and np.array_equal(0.1 < x, A > 0.1) and (x == A).all()
        assert np.argmax(x) == np.argmax(A) and np.shape(x) == (3, 4) and np.isfinite(x).all() and (x != A).sum() == 0
        assert type(np.argsort(x)) is np.ndarray and type(np.zeros_like(x)) is np.ndarray
        assert type(x.astype(int)) is np.ndarray and x.size == 12 and len(x) == 3 and x.ndim == 2
        assert bool(x[0, 0]) and f"{x[0, 0]:.2f}" == f"{A[0, 0]:.2f}" and float(x[0, 0]) == A[0, 0]
        with pytest.raises(TypeError, match="^add: x: expected floats on a tape, got a result of complex128"):
            _ = x + 1j
        with pytest.raises(TypeError):
            list(tape.watch(np.array(1.0)))


def test_plain_arrays_again_after_the_recording():
    with gk.Tape() as tape:
        x = tape.watch(A)
    for result in (x * 2, np.sum(x), np.cross(x[:, :3], 1 - x[:, :3]), x[0], x.mean(axis=0), np.stack([x, x]), x**2):
        assert isinstance(result, (np.ndarray, np.generic))
    assert "TapeArray(" in repr(x)
