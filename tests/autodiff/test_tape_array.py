"""Arrays on a tape: those that were written to are found out, and those of CuPy are worked on by CuPy."""

import numpy as np
import pytest

import geomkit as gk


def ball(n=1):
    return gk.shapes.icosphere(n, dtype=np.float64)


def torus():
    return gk.shapes.torus(major_sections=9, minor_sections=7, dtype=np.float64)


def cloud(n=20, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


# ---- arrays written to


def written(kind):
    """Points to use, and how to write into them behind the tape's back."""
    base = np.ones((4, 6))
    if kind == "array":
        points = np.ones((4, 3))
        return points, points
    points = base[:, ::2]
    if kind == "view that is read-only":
        points.flags.writeable = False
    return points, base


@pytest.mark.parametrize("kind", ["array", "view", "view that is read-only"])
def test_written_between_forward_and_backward(kind):
    mesh, (points, memory) = torus(), written(kind)
    with gk.Tape() as tape:
        loss = gk.signed_distance(mesh, points).sum()
    tape.gradient(loss, points)
    memory[0, 0] += 1e-9
    text = "^signed_distance: points: expected the values that were recorded, got an array written to since"
    with pytest.raises(ValueError, match=text):
        tape.gradient(loss, mesh)
    memory[0, 0] = 1
    tape.gradient(loss, points)


@pytest.mark.parametrize("kind", ["array", "view", "view that is read-only"])
def test_written_between_two_uses(kind):
    mesh, (points, memory) = torus(), written(kind)
    with gk.Tape():
        gk.signed_distance(mesh, points)
        memory[3, 0] = 2
        with pytest.raises(ValueError, match="^closest_point: points: expected the values that were recorded"):
            gk.closest_point(mesh, points)
    with gk.Tape() as tape:
        gk.signed_distance(mesh, points)
        memory[3, 0] = 3
        with pytest.raises(ValueError, match="^Tape.watch: array: expected the values that were recorded"):
            tape.watch(points)


@pytest.mark.parametrize(
    "function, argument, is_argument",
    [
        (lambda x, c: x * c, "b", True),
        (lambda x, c: c * x, "a", True),
        (lambda x, c: x / c, "b", True),
        (lambda x, c: c**x, "a", True),
        (lambda x, c: np.where(c > 5, x, x * 2), "", False),
        (lambda x, c: np.where(c, x, 0), "condition", True),
        (lambda x, c: np.maximum(x, c), "b", True),
        (lambda x, c: np.clip(x, c, None), "a_min", True),
        (lambda x, c: x @ c, "b", True),
        (lambda x, c: x[c.astype(int)], "", False),
        (lambda x, c: x + c, "", False),
    ],
)
def test_constants_written_to(function, argument, is_argument):
    """What the derivative is made of has to stay; what it is not may change."""
    x, c = np.array([1.0, 2.0]), np.array([0.5, 1.0])
    with gk.Tape() as tape:
        loss = function(tape.watch(x), c).sum()
    before = tape.gradient(loss, x)
    c[:] = 0
    if is_argument:
        text = rf"^\w+: {argument}: expected the values that were recorded, got an array written to since"
        with pytest.raises(ValueError, match=text):
            tape.gradient(loss, x)
    else:
        assert np.array_equal(tape.gradient(loss, x), before)


def test_a_mesh_leaves_the_callers_array_alone():
    mesh, vertices = torus(), np.array(torus().vertices)
    with gk.Tape() as tape:
        moved = gk.Mesh(tape.watch(vertices), mesh.faces)
        area = gk.area(moved)
    assert vertices.flags.writeable and not np.shares_memory(vertices, moved.vertices_array)
    vertices[0] += 1
    assert np.array_equal(moved.vertices_array, mesh.vertices)
    with pytest.raises(ValueError, match="^area: vertices: expected the values that were recorded"):
        tape.gradient(area, vertices)


def test_written_index():
    x, index = np.arange(3.0), np.array([0, 1])
    with gk.Tape() as tape:
        loss, other = tape.watch(x)[index].sum(), tape.watch(x)[index, None].sum()
    index[0] = 2
    for target in (loss, other):
        with pytest.raises(ValueError, match="^indexing: key: expected the values that were recorded"):
            tape.gradient(target, x)


def test_written_arguments_that_have_no_gradient():
    mesh, origins = ball(), 3 * cloud()
    t_max, whole = np.full(20, 100.0), np.ones((4, 3), int)
    rows = [[0.0, 0.0, 2.0]]
    with gk.Tape() as tape:
        t = gk.cast_rays(mesh, origins, -origins, t_max=t_max).t.min()
        distance = gk.signed_distance(mesh, whole).sum()
        of_list = gk.signed_distance(mesh, rows).sum()
    expected = tape.gradient(of_list, mesh)
    t_max[:] = 0
    whole[:] = 2
    rows[0][2] = 9.0
    with pytest.raises(ValueError, match="^cast_rays: t_max: expected the values that were recorded"):
        tape.gradient(t, mesh)
    with pytest.raises(ValueError, match="^signed_distance: points: expected the values that were recorded"):
        tape.gradient(distance, mesh)
    assert np.array_equal(tape.gradient(of_list, mesh), expected)


def test_results_can_not_be_written_to():
    mesh, points = torus(), cloud()
    with gk.Tape() as tape:
        hit = gk.closest_point(mesh, points)
        for array in (hit.face, hit.barycentric, hit.point.value, np.asarray(hit.distance), hit.point[0].value):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    points = np.ones((4, 3))
    with gk.Tape() as tape:
        x = tape.watch(points)
        middle = x.reshape(-1)[:6]
        loss = (middle * middle).sum()
    points[:] = 7
    assert tape.gradient(loss, middle).tolist() == [2] * 6  # the values recorded
    with pytest.raises(ValueError, match="^reshape: x: expected the values that were recorded"):
        tape.gradient(loss, points)


# ---- CuPy's side


def test_rules_ask_the_namespace_of_the_array():
    """CuPy's functions are called for CuPy's arrays: every rule takes them from the namespace that it is given."""
    from geomkit.autodiff.tape_functions import RULES, astype, take

    class Spy:
        def __init__(self):
            self.asked = []

        def __getattr__(self, name):
            self.asked.append(name)
            return getattr(np, name)

    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[2.0, 1.0], [1.0, 5.0]])
    rest = {
        "where": (b,), "clip": (1.5, 3.0), "reshape": (), "expand_dims": (0,), "broadcast_to": ((2, 2, 2),),
    }  # fmt: skip
    for function, rule in RULES.items():
        spy, name = Spy(), function.__name__
        special = {"concatenate": ([a, b],), "stack": ([a, b],), "where": (a > 2, a), "reshape": (a, (4,))}
        given = special.get(name, (a,))
        binary = getattr(function, "nin", 1) == 2 or name == "dot"
        value, back = rule(spy, *given, *((b,) if binary else rest.get(name, ())))
        gradient = back(np.ones_like(value), 1 if name == "where" else 0)
        assert spy.asked and np.shape(gradient) in ((2, 2), (2, 2, 2)), name
    for value, back in (astype(np, a, np.float32), take(np, a, 0)):
        assert back(np.ones_like(value), 0).shape == (2, 2)
