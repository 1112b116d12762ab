"""Queries of a mesh in kernels: against the public functions and central differences, compiled and interpreted."""

import gc
import weakref

import numpy as np
import pytest

import geomkit as gk
from geomkit.errors import DeviceError, MeshError
from geomkit.lang import launch_cuda, specialization
from geomkit.runtime import nvrtc, program_cuda

# The rows of y are what the public functions give, in one row a thread.
TEXT = """
@gk.kernel
def closest(mesh: gk.Mesh, p: gk.array(gk.VEC), d: gk.array(gk.VEC), far: gk.REAL, y: gk.array(gk.REAL, ndim=2)):
    i = gk.tid()
    found = gk.closest_point_query(mesh, p[i], far)
    y[i, 0] = found.distance
    for k in range(3):
        y[i, 1 + k] = found.point[k]
    y[i, 4] = gk.REAL(found.face)


@gk.kernel
def signed(mesh: gk.Mesh, p: gk.array(gk.VEC), d: gk.array(gk.VEC), far: gk.REAL, y: gk.array(gk.REAL, ndim=2)):
    i = gk.tid()
    found = gk.signed_distance_query(mesh, p[i], far)
    y[i, 0] = found.distance
    for k in range(3):
        y[i, 1 + k] = found.point[k]
    y[i, 4] = gk.REAL(found.face)


@gk.kernel
def ray(mesh: gk.Mesh, p: gk.array(gk.VEC), d: gk.array(gk.VEC), far: gk.REAL, y: gk.array(gk.REAL, ndim=2)):
    i = gk.tid()
    found = gk.ray_query(mesh, p[i], d[i], far)
    y[i, 0] = found.t
    y[i, 4] = gk.REAL(found.face)
    for k in range(3):
        y[i, 1 + k] = found.position[k]
        y[i, 5 + k] = found.normal[k]
    y[i, 8] = found.barycentric.x
    y[i, 9] = found.barycentric.y


@gk.kernel
def winding(mesh: gk.Mesh, p: gk.array(gk.VEC), d: gk.array(gk.VEC), far: gk.REAL, y: gk.array(gk.REAL, ndim=2)):
    i = gk.tid()
    y[i, 0] = gk.winding_number_query(mesh, p[i])
"""
COLUMNS = {"closest": 5, "signed": 5, "ray": 10, "winding": 1}
N = 40


def kernels(module, dtype):
    real, vec = ("f64", "vec3d") if dtype == np.float64 else ("f32", "vec3")
    return module(TEXT.replace("REAL", real).replace("VEC", vec))


def mesh_of(dtype=np.float64, *, opened=False):
    """A bumpy ball, or one with a hole."""
    ball = gk.shapes.icosphere(2, dtype=dtype)
    v = np.asarray(ball.vertices) * (1 + 0.1 * np.sin(5 * np.asarray(ball.vertices)).sum(axis=1, keepdims=True))
    return gk.Mesh(v.astype(dtype), ball.faces[30:] if opened else ball.faces)


def inputs(dtype=np.float64, n=N):
    r = np.random.default_rng(0)
    p, d = r.normal(size=(n, 3)), r.normal(size=(n, 3))
    return p.astype(dtype), (d - 0.7 * p).astype(dtype)


def public(name, mesh, p, d, far=np.inf):
    """What the public functions give, as the kernels write it."""
    y = np.zeros((len(p), COLUMNS[name]), p.dtype)
    if name == "ray":
        hits = gk.cast_rays(mesh, p, d, t_max=float(far))
        y[:, 0], y[:, 1:4], y[:, 4] = hits.t, hits.position, hits.face
        y[:, 5:8], y[:, 8:] = hits.normal, hits.barycentric
    elif name == "winding":
        y[:, 0] = gk.winding_number(mesh, p)
    else:
        found = gk.closest_point(mesh, p)
        signed = found.distance if name == "closest" else gk.signed_distance(mesh, p)
        y[:, 0], y[:, 1:4], y[:, 4] = signed, found.point, found.face
        y[found.distance > far] = [np.inf, np.inf, np.inf, np.inf, -1]
    return y


def run_both(monkeypatch, run):
    """What a function gives compiled, and interpreted."""
    compiled = run()
    with monkeypatch.context() as patch:
        patch.setattr(specialization, "has_compiler", lambda: False)
        return compiled, run()


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [np.inf, 0.5])
def test_value(name, dtype, far, module, monkeypatch):
    kernel, mesh = getattr(kernels(module, dtype), name), mesh_of(dtype, opened=name == "winding")
    p, d = inputs(dtype)

    def run():
        y = np.zeros((N, COLUMNS[name]), dtype)
        kernel(N, mesh, p, d, far, y)
        return y

    expected = public(name, mesh, p, d, far)
    if name != "winding":
        misses = np.isinf(expected[:, 0])
        assert not misses.all() and (misses.any() or far > 1)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for y in run_both(monkeypatch, run):
        # Equally near faces may be chosen otherwise.
        y[:, 4:5] = np.where((y[:, 4:5] >= 0) & (expected[:, 4:5] >= 0), expected[:, 4:5], y[:, 4:5])
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", COLUMNS)
def test_gradient(name, module, monkeypatch):
    kernel, mesh = getattr(kernels(module, np.float64), name), mesh_of(opened=name == "winding")
    p, d = inputs()
    w = np.random.default_rng(1).normal(size=(N, COLUMNS[name]))
    w[:, 4:5] = 0
    hit = np.isfinite(public(name, mesh, p, d)[:, 0])
    p, d, w = p[hit], d[hit], w[hit]
    n = len(p)

    def value(vertices, p, d):
        y = np.zeros((n, COLUMNS[name]))
        made = kernel(n, gk.Mesh(vertices, mesh.faces), p, d, np.inf, y)
        made = y if made is None else made
        return made[:, :4] if name in ("closest", "signed") else made

    # On the tape, with respect to vertices, points and directions.
    if name == "winding":  # its derivative is that of the exact value
        found = kernel.adjoint(n, mesh, p, d, np.inf, np.zeros((n, 1)), adj_y=w)
        for k, (x, g) in enumerate(((mesh.vertices, found.mesh), (p, found.p))):
            v = np.random.default_rng(2).normal(size=x.shape)
            sides = []
            for s in (1e-5, -1e-5):
                moved = gk.Mesh(x + s * v, mesh.faces) if k == 0 else mesh
                sides.append(np.sum(gk.winding_number(moved, p if k == 0 else x + s * v, method="exact") * w[:, 0]))
            np.testing.assert_allclose(np.sum(g * v), (sides[0] - sides[1]) / 2e-5, rtol=1e-6)
    else:
        given = [mesh.vertices, p, d] if name == "ray" else [mesh.vertices, p]
        gk.gradcheck(lambda v, p, d=d: value(v, p, d), given, rtol=1e-6)

    def run():
        return kernel.adjoint(n, mesh, p, d, np.inf, np.zeros((n, COLUMNS[name])), adj_y=w)

    compiled, interpreted = run_both(monkeypatch, run)
    assert np.any(compiled.mesh) and np.any(compiled.p) and np.any(compiled.d) == (name == "ray")
    for one, other in zip(compiled, interpreted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", COLUMNS)
def test_edge(name, module, monkeypatch):
    """No hit, a point that is not finite, a direction that is zero, a bound that is none, a mesh without faces."""
    kernel, mesh = getattr(kernels(module, np.float64), name), mesh_of()
    empty = gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int32))
    p = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [5.0, 0, 0]])
    d = np.array([[1.0, 0, 0], [1, 0, 0], [1, 0, 0]])
    none = 0.0 if name == "winding" else np.inf

    def run(mesh, far=np.inf, p=p, d=d):
        y = np.zeros((3, COLUMNS[name]))
        kernel(3, mesh, p, d, far, y)
        return y

    for y in run_both(monkeypatch, lambda: run(mesh)):
        assert y[:2, 0].tolist() == [none, none]
        assert name in ("winding", "ray") or 3.5 < y[2, 0] < 4.5
        assert name != "ray" or (y[2, 0] == np.inf and y[2, 4] == -1)
    for y in run_both(monkeypatch, lambda: run(empty, p=np.zeros((3, 3)))):
        assert np.all(y[:, 0] == none)
    if name != "winding":
        for far in (-1.0, np.nan):
            for y in run_both(monkeypatch, lambda far=far: run(mesh, far, d=-d)):
                assert np.all(np.isinf(y[:, 0])) and np.all(y[:, 4] == -1)
    if name == "ray":
        zero = run(mesh, p=np.zeros((3, 3)), d=0 * d)
        assert np.all(np.isinf(zero[:, 0]))
    # A miss sends nothing, whatever its cotangents are.
    y, w = np.zeros((3, COLUMNS[name])), np.ones((3, COLUMNS[name]))
    far = kernel.adjoint(3, mesh, p, d, 0.5, y, adj_y=w)
    if name != "winding":
        assert not np.any(far.mesh) and not np.any(far.p)
    assert not np.any(kernel.adjoint(3, empty, p, d, 0.5, y, adj_y=w).p)


def test_value_of_the_signs(module, monkeypatch):
    """The sign is that of gk.signed_distance also where the winding number tells it."""
    kernel, mesh = kernels(module, np.float64).signed, mesh_of(opened=True)
    p, d = inputs()
    y = np.zeros((N, 5))
    kernel(N, mesh, p, d, np.inf, y)
    expected = gk.signed_distance(mesh, p)
    assert np.any(expected < 0)
    np.testing.assert_allclose(y[:, 0], expected, rtol=1e-12)


def test_a_mesh_that_moves(module):
    """A mesh of other vertices has a tree of its own; one whose tensor was written to is refused."""
    kernel, mesh = kernels(module, np.float64).closest, mesh_of()
    p, d = inputs()
    y, z = np.zeros((2, N, 5))
    kernel(N, mesh, p, d, np.inf, y)
    moved = mesh.with_vertices(np.asarray(mesh.vertices) * 1.5)
    kernel(N, moved, p, d, np.inf, z)
    np.testing.assert_allclose(z[:, 0], gk.closest_point(moved, p).distance, rtol=1e-12)
    assert not np.allclose(y, z)
    torch = pytest.importorskip("torch")
    vertices = torch.tensor(np.array(mesh.vertices))
    changed = gk.Mesh(vertices, torch.tensor(np.array(mesh.faces)))
    kernel(N, changed, p, d, np.inf, y)
    vertices.mul_(2)
    with pytest.raises(MeshError, match="a tensor changed in place since"):
        kernel(N, changed, p, d, np.inf, y)


def test_launching_again(module):
    """The quick way knows the objects that it has packed, and does not keep them alive."""
    kernel, mesh = kernels(module, np.float64).closest, mesh_of()
    p, d = inputs()
    y, z = np.zeros((2, N, 5))
    kernel(N, mesh, p, d, np.inf, y)
    kernel(N, mesh, p, d, np.inf, z)
    np.testing.assert_array_equal(y, z)
    other = gk.shapes.box((3.0, 1.0, 1.0), dtype=np.float64)
    kernel(N, other, p, d, np.inf, z)
    np.testing.assert_allclose(z[:, 0], gk.closest_point(other, p).distance, rtol=1e-12)
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None
    kernel(N, mesh, p, d, np.inf, z)
    np.testing.assert_array_equal(y, z)
    with pytest.raises(TypeError, match="closest: mesh: expected a gk.Mesh"):
        kernel(N, 7, p, d, np.inf, z)


def test_torch_and_jax(module):
    kernel, mesh = kernels(module, np.float64).closest, mesh_of()
    p, d = inputs()
    w = np.zeros((N, 5))
    w[:, 0] = 1
    expected = kernel.adjoint(N, mesh, p, d, np.inf, np.zeros((N, 5)), adj_y=w)
    torch = pytest.importorskip("torch")
    v, q = torch.tensor(np.array(mesh.vertices), requires_grad=True), torch.tensor(p, requires_grad=True)
    out = torch.zeros(N, 5, dtype=torch.float64)
    y = kernel(N, gk.Mesh(v, np.asarray(mesh.faces)), q, torch.tensor(d), np.inf, out)
    y[:, 0].sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), expected.mesh)
    np.testing.assert_allclose(q.grad.numpy(), expected.p)
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():

        def loss(v):
            return kernel(N, gk.Mesh(v, np.asarray(mesh.faces)), p, d, np.inf, jax.numpy.zeros((N, 5)))[:, 0].sum()

        gradient = jax.grad(loss)(jax.numpy.asarray(np.array(mesh.vertices)))
        np.testing.assert_allclose(np.asarray(gradient), expected.mesh)


def test_deterministic(module):
    made = kernels(module, np.float32)
    kernel, mesh = gk.kernel(made.closest.function.source.function, deterministic=True), mesh_of(np.float32)
    p, d = inputs(np.float32, 5000)
    w, found, before = np.random.default_rng(0).normal(size=(5000, 5)), [], gk.num_threads()
    w[:, 4] = 0
    for threads in (1, 2):
        gk.set_num_threads(threads)
        found.append(kernel.adjoint(5000, mesh, p, d, np.inf, np.zeros((5000, 5), np.float32), adj_y=w).mesh)
    gk.set_num_threads(before)
    assert np.array_equal(*found)


def test_what_carries_no_gradient_is_refused(module):
    made = module(
        "@gk.kernel\ndef k(mesh: gk.Mesh, p: gk.array(gk.vec3d), y: gk.array(gk.f64)):\n    i = gk.tid()\n"
        "    y[i] = gk.closest_point_query(mesh, p[i]).barycentric.x\n\n"
        "@gk.kernel\ndef stopped(mesh: gk.Mesh, p: gk.array(gk.vec3d), y: gk.array(gk.f64)):\n    i = gk.tid()\n"
        "    y[i] = gk.stop_gradient(gk.closest_point_query(mesh, p[i]).barycentric.x) * p[i].x\n"
    )
    p, y = inputs()[0], np.zeros(N)
    with pytest.raises(gk.KernelError) as caught:
        made.k.adjoint(N, mesh_of(), p, y, adj_y=np.ones(N))
    assert "'barycentric' of gk.closest_point_query carries no gradient: use .point" in str(caught.value)
    assert np.any(made.stopped.adjoint(N, mesh_of(), p, y, adj_y=np.ones(N)).p)


def test_queries_in_loops_and_functions(module, monkeypatch):
    """A ray-marched distance: the query is in a loop that carries the point, and in a function."""
    made = module(
        "@gk.func\ndef field(mesh: gk.Mesh, x):\n    return gk.signed_distance_query(mesh, x).distance\n\n"
        "@gk.kernel\ndef march(mesh: gk.Mesh, o: gk.array(gk.vec3d), d: gk.array(gk.vec3d), y: gk.array(gk.f64)):\n"
        "    i = gk.tid()\n    t = 0.0\n    for _ in range(6):\n        s = field(mesh, o[i] + d[i] * t)\n"
        "        if s < 1e-3:\n            break\n        t += s\n    y[i] = t\n"
    )
    mesh = mesh_of()
    o = np.array([[0, 0, 3.0], [0.3, 0.2, 3], [2, 2, 3]])
    d = np.array([[0.0, 0, -1]] * 3)

    def run():
        y = np.zeros(3)
        made.march(3, mesh, o, d, y)
        return y, made.march.adjoint(3, mesh, o, d, y, adj_y=np.ones(3))

    (y, found), (y2, found2) = run_both(monkeypatch, run)
    np.testing.assert_allclose(y, y2, rtol=1e-12)
    np.testing.assert_allclose(found.mesh, found2.mesh, rtol=1e-9, atol=1e-12)

    def value(v, o):
        y = np.zeros(3)
        recorded = made.march(3, gk.Mesh(v, mesh.faces), o, d, y)
        return y if recorded is None else recorded

    gk.gradcheck(value, [mesh.vertices, o], rtol=1e-6)


PARAMETERS = "mesh: gk.Mesh, hash: gk.HashGrid, p: gk.array(gk.vec3), y: gk.array(gk.f32)"
HEAD = f"@gk.kernel\ndef k({PARAMETERS}):\n    i = gk.tid()\n"
REFUSED = {
    "y[i] = gk.closest_point_query(7, p[i], 1.0).distance": "gk.closest_point_query takes a gk.Mesh, not the number 7: "
    "make it a parameter, mesh: gk.Mesh",
    "y[i] = gk.closest_point_query(hash, p[i], 1.0).distance": "gk.closest_point_query takes a gk.Mesh, not HashGrid",
    "y[i] = gk.ray_query(OUTSIDE, p[i], p[i]).t": "a gk.Mesh from outside of the kernel cannot be used: make it",
    "y[i] = gk.ray_query(mesh, p[i]).t": "gk.ray_query takes (mesh, origin, direction, t_max), got no direction",
    "y[i] = gk.ray_query(mesh, p[i], y[i]).t": "the direction is vec3, not f32",
    "y[i] = gk.signed_distance_query(mesh).distance": "got no point",
    "y[i] = gk.winding_number_query(mesh, p[i], 1.0)": "gk.winding_number_query takes (mesh, point), got more than 2",
    "y[i] = gk.closest_point_query(mesh, p[i], i).distance": "the greatest distance is f32, not i32",
    "y[i] = gk.closest_point_query(mesh, p[i]).normal": "has no field 'normal': it has hit, face, barycentric",
    "y[i] = gk.closest_point_query(mesh, gk.vec3d(0.0)).distance": "the point is vec3, not vec3d: write gk.vec3(...)",
    "y[i] = mesh.vertices[0]": "Mesh has no 'vertices'",
}


@pytest.mark.parametrize("body", REFUSED)
def test_error(body, refusal):
    assert REFUSED[body] in refusal(f"OUTSIDE = gk.shapes.box()\n{HEAD}    {body}\n")


def test_error_at_the_launch(module):
    kernel = kernels(module, np.float32).closest
    p, d = inputs(np.float32)
    for wrong, text in (
        (7, "closest: mesh: expected a gk.Mesh, got"),
        (gk.HashGrid(p, 1.0), "closest: mesh: expected a gk.Mesh, got"),
        (mesh_of(np.float64), "a gk.Mesh of float32, as the kernel's other parameters, got one of float64: write"),
    ):
        with pytest.raises(TypeError, match=text):
            kernel(N, wrong, p, d, 1.0, np.zeros((N, 5), np.float32))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_120"])
@pytest.mark.parametrize("name", COLUMNS)
def test_nvrtc(name, architecture, module):
    try:
        library = nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    if int(architecture[3:]) not in library.architectures:
        pytest.skip(f"{library} does not compile for {architecture}")
    kernel = getattr(kernels(module, np.float32 if architecture == "sm_75" else np.float64), name)
    mesh = gk.shapes.icosphere(2, dtype=np.float32 if architecture == "sm_75" else np.float64)
    _, values = kernel.bound((mesh, *inputs(mesh.dtype), 1.0, np.zeros((N, COLUMNS[name]), mesh.dtype)))
    for text in (kernel.source("cuda"), kernel.adjoint_source("cuda")):
        text = launch_cuda.sized(text, values)
        assert text.startswith("#define GK_STACK 64\n")
        assert program_cuda.cubin(text, architecture=architecture)
