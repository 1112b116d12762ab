"""Primitives under jax: gradients of all of them, transformations, arguments."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import geomkit as gk
from geomkit.arrays import as_array
from geomkit.autodiff.primitive import Primitive, primitives
from tests import cameras

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax.test_util import check_grads  # noqa: E402  (there may be no jax)

RNG = np.random.default_rng(5)
BALL = gk.shapes.icosphere(1, dtype=np.float64)
FACES = BALL.faces
VERTICES = BALL.vertices + RNG.normal(size=BALL.vertices.shape) * 0.03
POINTS = RNG.normal(size=(6, 3))
ORIGINS = 3 * POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)
DIRECTIONS = 0.2 * RNG.normal(size=(6, 3)) - ORIGINS
FIELD = np.linalg.norm(np.stack(np.meshgrid(*[np.linspace(-1, 1, 6)] * 3, indexing="ij"), axis=-1), axis=-1) - 0.7
FIELD = FIELD + RNG.normal(size=FIELD.shape) * 0.02
NORMALS = np.stack(np.gradient(FIELD), axis=-1)
BOX = np.array([[-2.0] * 3, [2.0] * 3])
IMAGES = RNG.uniform(0.1, 0.9, size=(2, 11, 12, 3))
IMAGE_LOSSES = {
    "l1_loss": "image", "mse_loss": "image", "huber_loss": "image", "multiscale_loss": "image", "ssim": "image",
    "psnr": "image", "iou_loss": "mask", "depth_loss": "depth", "normal_loss": "normal",
}  # fmt: skip
STEPS = gk.LargeSteps(BALL)
PLACE = {"level": np.array(0.03), "spacing": np.array([0.9, 1.0, 1.1]), "origin": np.array([0.1, 0.2, 0.3])}


@pytest.fixture
def double() -> Iterator[None]:
    """jax's 64-bit mode, in this test only."""
    with jax.enable_x64(True):
        yield


class Case(NamedTuple):
    """A call as a function of the inputs that gradients reach, or for discrete answers of all arrays."""

    call: Callable[..., Any]
    inputs: dict[str, np.ndarray]


def of_mesh(name: str, **options: Any) -> Case:
    def call(vertices: Any, **inputs: Any) -> Any:
        return getattr(gk, name)(gk.Mesh(vertices, FACES), **inputs, **options)

    rays = {"origins": ORIGINS, "directions": DIRECTIONS}
    own = {"points": POINTS} | rays
    taken = Primitive.registry[name].parameters
    return Case(call, {"vertices": VERTICES} | {k: v for k, v in own.items() if k in taken})


def of_field(name: str) -> Case:
    inputs = {"field": FIELD, **PLACE} | ({"normals": NORMALS} if name == "dual_contouring" else {})
    return Case(lambda **inputs: getattr(gk, name)(**inputs), inputs)


def flexible() -> Case:
    shapes = {"deform": (6, 6, 6, 3), "alpha": (5, 5, 5, 8), "beta": (5, 5, 5, 12), "gamma": (5, 5, 5)}
    weights = {name: RNG.uniform(0.8, 1.2, shape) - (name == "deform") for name, shape in shapes.items()}
    return Case(lambda **inputs: gk.flexicubes(**inputs, split="center"), {"values": 5 * FIELD + 0.3, **weights})


def traced(name: str) -> Case:
    """Rays to the middle of the field, far from its silhouette."""
    aims = 2.5 + 0.3 * RNG.normal(size=(6, 3))
    at = 2.5 + 2 * ORIGINS

    def call(**inputs: Any) -> Any:
        found = getattr(gk, name)(**inputs)
        if name == "sdf_features":
            return found
        # (No ray passes by something.)
        return found._replace(distance=jnp.where(jnp.isfinite(found.distance), found.distance, 0))

    return Case(call, {"grid": FIELD, "origins": at, "directions": 0.2 * (aims - at)})


def through_a_lens(name: str, **inputs: Any) -> Case:
    def call(world_to_camera: Any, K: Any, distortion: Any, **inputs: Any) -> Any:
        at = next(iter(inputs.values()))
        dtype = world_to_camera.dtype
        pinned = cameras.posed(world_to_camera).astype(dtype), cameras.optics(K).astype(dtype)
        return getattr(gk, name)(at, *pinned, distortion)

    numbers = {"world_to_camera": cameras.WORLD_TO_CAMERA, "K": cameras.K, "distortion": cameras.DISTORTION}
    return Case(call, {**inputs, **numbers})


CASES = {
    name: of_mesh(name)
    for name in (
        "face_areas", "area", "face_normals", "vertex_normals", "volume", "bounds", "closest_point", "signed_distance",
        "cast_rays", "contains", "occluded", "count_hits",
    )
} | {
    # (The winding number of a closed mesh is constant, and `method="fast"` is not smooth.)
    "winding_number": Case(
        lambda vertices, points: gk.winding_number(gk.Mesh(vertices, FACES[7:]), points, method="exact"),
        {"vertices": VERTICES, "points": POINTS},
    ),
    # (The grid would move with the box.)
    "sdf_grid": Case(
        lambda vertices: gk.sdf_grid(
            gk.Mesh(jnp.concatenate([vertices, BOX.astype(vertices.dtype)]), [*FACES.tolist(), [42] * 3, [43] * 3]),
            resolution=5,
            sign="unsigned",
        ),
        {"vertices": VERTICES},
    ),
    "voxelize": of_mesh("voxelize", resolution=16),
    "self_intersections": of_mesh("self_intersections"),
    "sample_surface": of_mesh("sample_surface", n=7),
    "interpolate_grid": Case(gk.interpolate_grid, {"grid": FIELD, "points": POINTS + 2.1}),
    "interpolate_attribute": Case(
        lambda attribute, barycentric: gk.interpolate_attribute(attribute, FACES, np.arange(6) - 1, barycentric),
        {"attribute": VERTICES, "barycentric": POINTS},
    ),
    "sphere_trace": traced("sphere_trace"),
    "sdf_features": traced("sdf_features"),
    "marching_cubes": of_field("marching_cubes"),
    "flexicubes": flexible(),
    "surface_nets": of_field("surface_nets"),
    "dual_contouring": of_field("dual_contouring"),
    "chamfer_distance": Case(gk.chamfer_distance, {"a": POINTS, "b": VERTICES}),
    "pixel_rays": through_a_lens("pixel_rays", pixels=cameras.PIXELS),
    "project_points": through_a_lens("project_points", points=cameras.POINTS),
    **{name: Case(getattr(gk, name), {first: IMAGES[0], "target": IMAGES[1]}) for name, first in IMAGE_LOSSES.items()},
    **{
        name: of_mesh(name) for name in ("mesh_edge_loss", "mesh_laplacian_smoothing", "mesh_normal_consistency")
    },
    "to_differential": Case(lambda values: gk.to_differential(values, STEPS), {"values": VERTICES}),
    "from_differential": Case(
        lambda differential: gk.from_differential(differential, STEPS), {"differential": VERTICES}
    ),
    "pose": Case(
        lambda rotation_vector, translation, base: gk.pose(rotation_vector, translation, cameras.posed(base)),
        {"rotation_vector": POINTS[0], "translation": POINTS[1], "base": cameras.WORLD_TO_CAMERA},
    ),
    "hausdorff_distance": Case(
        lambda a, b: gk.hausdorff_distance(gk.Mesh(a, FACES), b), {"a": VERTICES, "b": POINTS}
    ),
}  # fmt: skip
# (Those of a scene are functions of whatever arrays it has: tests/render.)
PRIMITIVES = {name: op for name, op in primitives().items() if "scene" not in op.differentiable}
DIFFERENTIABLE = [name for name, op in PRIMITIVES.items() if op.differentiable]
ANSWERING = [name for name, op in PRIMITIVES.items() if op.outputs or op.discrete]
UNSIZED = [name for name in ANSWERING if "?" in str((PRIMITIVES[name].outputs, PRIMITIVES[name].discrete))]
SIZED = [name for name in ANSWERING if name not in UNSIZED]


def fields(name: str, result: Any, names: Any) -> list[Any]:
    """Outputs of a primitive by name; of those that return the array itself, the array."""
    return [getattr(result, field, result) for field in names]


def smooth(name: str) -> tuple[Callable[..., Any], list[Any]]:
    """The outputs of a case that carry gradients as a function of its inputs, and these."""
    case = CASES[name]

    def f(*inputs: Any) -> Any:
        return fields(name, case.call(**dict(zip(case.inputs, inputs, strict=True))), PRIMITIVES[name].outputs)

    return f, [jnp.asarray(x) for x in case.inputs.values()]


def loss(name: str) -> tuple[Callable[..., Any], list[Any]]:
    f, inputs = smooth(name)
    return lambda *inputs: sum((jnp.sin(x) * x).sum() for x in f(*inputs)), inputs


def distance(vertices: Any, points: Any = POINTS) -> Any:
    return gk.signed_distance(gk.Mesh(vertices, FACES), points)


# ---- every primitive


def test_every_primitive_has_a_case():
    assert sorted(CASES) == sorted(ANSWERING)
    for name in DIFFERENTIABLE:
        assert set(CASES[name].inputs) == set(PRIMITIVES[name].differentiable), name


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name, double):
    f, inputs = smooth(name)
    check_grads(f, tuple(inputs), order=1, modes=["rev"])
    gradients = jax.grad(loss(name)[0], argnums=tuple(range(len(inputs))))(*inputs)
    assert all(g.dtype == np.float64 and bool((g != 0).any()) for g in gradients)


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if name in SIZED])
def test_compiled_gradients_equal_the_others(name, double):
    f, inputs = loss(name)
    g = jax.value_and_grad(f, argnums=tuple(range(len(inputs))))
    for one, other in zip(jax.tree.leaves(g(*inputs)), jax.tree.leaves(jax.jit(g)(*inputs)), strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-14) and one.dtype == other.dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ANSWERING)
def test_declared_shapes_and_dtypes_are_true(name, dtype, double):
    case, op = CASES[name], PRIMITIVES[name]
    inputs = {k: x.astype(dtype) for k, x in case.inputs.items()}
    declared = op.outputs | op.discrete
    known = fields(name, case.call(**inputs), declared)
    for text, x in zip(declared.values(), known, strict=True):
        assert isinstance(x, float) or x.dtype == (dtype if text.startswith("real") else text.split()[0])
    if name in SIZED:
        traced = jax.eval_shape(lambda inputs: fields(name, case.call(**inputs), declared), inputs)
        assert [x.shape for x in traced] == [np.shape(x) for x in known]
        assert [x.dtype for x in traced] == [dtype if isinstance(x, float) else x.dtype for x in known]


@pytest.mark.parametrize("name", SIZED)
def test_compiled_answers_equal_the_others(name, double):
    case, op = CASES[name], PRIMITIVES[name]
    declared = op.outputs | op.discrete
    compiled = jax.jit(lambda inputs: fields(name, case.call(**inputs), declared))(case.inputs)
    for one, other in zip(compiled, fields(name, case.call(**case.inputs), declared), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", UNSIZED)
def test_shapes_that_depend_on_numbers_are_refused_under_jit(name, double):
    case = CASES[name]
    for transform in (jax.jit, jax.vmap):
        with pytest.raises(TypeError, match=f"^{name}: jax.jit: expected shapes known before the call"):
            transform(lambda inputs: fields(name, case.call(**inputs), "x"))(
                {k: x if transform is jax.jit else x[None] for k, x in case.inputs.items()}
            )


def test_functions_without_gradients_are_refused():
    v = jnp.asarray(VERTICES)
    for f, *rest in ((gk.remesh, 16), (gk.all_hits, ORIGINS, DIRECTIONS), (gk.offset, 0.1)):
        for transform in (jax.jit, jax.grad):
            with pytest.raises(TypeError, match=f"^{f.__name__}: mesh: expected values that .*jax traces"):
                transform(lambda v, f=f, rest=rest: f(gk.Mesh(v, FACES), *rest))(v)


# ---- transformations


def test_transformations(double):
    v, p = jnp.asarray(VERTICES), jnp.asarray(POINTS)
    value, mesh = distance(VERTICES).sum(), gk.Mesh(VERTICES, FACES)
    dp, dv = gk.signed_distance.adjoint(mesh, POINTS, adj_distance=np.ones(6))
    f = lambda v, p: distance(v, p).sum()  # noqa: E731
    assert np.allclose(jax.value_and_grad(f)(v, p)[1], dv)
    both = jax.jit(jax.vmap(jax.grad(f, (0, 1)), (None, 0)))(v, jnp.stack([p, p + 0.1]))
    assert np.allclose(both[0][0], dv) and np.allclose(both[1][0], dp)
    assert np.allclose(jax.vmap(distance, (0, None))(jnp.stack([v, 2 * v]), p)[1], distance(2 * VERTICES))
    twice = jax.vmap(jax.vmap(lambda x: distance(v, x[None])[0], 1), 1)(p.reshape(2, 3, 3).transpose(2, 1, 0))
    assert np.allclose(twice, distance(VERTICES).reshape(2, 3).T)
    assert jax.vmap(distance, (0, None))(jnp.zeros((0, *v.shape)), p).shape == (0, 6)
    scanned = jax.jit(jax.grad(lambda v: jax.lax.scan(lambda c, x: (c + distance(v, x[None])[0], None), 0.0, p)[0]))(v)
    assert np.allclose(scanned, dv)
    moved = jax.lax.fori_loop(0, 3, lambda _, x: x - distance(v, x)[:, None] * jax.grad(f, 1)(v, x), p)
    assert abs(distance(v, moved)).max() < 0.1 * abs(distance(v, p)).max()
    for wrap in (jax.checkpoint, jax.jit, lambda f: jax.jit(jax.jit(f)), lambda f: jax.jit(jax.checkpoint(f))):
        assert np.allclose(jax.grad(wrap(f))(v, p), dv)
    out, pull = jax.vjp(distance, v, p)
    assert np.allclose(out.sum(), value) and np.allclose(pull(jnp.ones(6))[0], dv)
    assert np.allclose(jax.jit(pull)(2 * jnp.ones(6))[1], 2 * dp) and not pull(jnp.zeros(6))[0].any()
    assert np.allclose(jax.jacrev(distance)(v, p).sum(axis=0), dv)
    assert jax.lax.cond(True, f, lambda v, p: p.sum(), v, p) == pytest.approx(float(value))


def test_a_jacobian_of_a_mesh_that_is_extracted(double):
    field = jnp.asarray(FIELD)
    f = lambda x: gk.marching_cubes(x, **PLACE).vertices  # noqa: E731
    n = len(f(field))
    one = jax.grad(lambda x: f(x)[n // 2].sum())(field)
    assert np.allclose(jax.jacrev(f)(field)[n // 2].sum(axis=0), one) and bool(one.any())
    faces = jax.grad(lambda x: gk.marching_cubes(x).vertices.sum(), has_aux=False)(field)
    assert faces.shape == FIELD.shape


def test_a_program_evaluated_anew_uses_its_own_results(double):
    program = jax.make_jaxpr(lambda p: gk.closest_point(BALL, p).point.sum())(POINTS)
    f = lambda p: jax.core.eval_jaxpr(program.jaxpr, program.consts, p)[0]  # noqa: E731
    pulls = [jax.vjp(f, jnp.asarray(p))[1] for p in (POINTS, 2 * POINTS)]
    for p, pull in zip((POINTS, 2 * POINTS), pulls, strict=True):
        expected = gk.closest_point.adjoint(BALL, p, adj_point=np.ones((6, 3))).points
        assert np.allclose(pull(jnp.ones(()))[0], expected)


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit])
def test_forward_mode_and_second_derivatives_are_refused(jit, double):
    p = jnp.asarray(POINTS)
    f = lambda p: distance(VERTICES, p).sum()  # noqa: E731
    for g in (lambda p: jax.jvp(f, (p,), (p,)), jax.jacfwd(f)):
        # (A compiled program is refused when it is compiled, by jax, which does not know the name.)
        with pytest.raises(TypeError, match="signed_distance: jax.jvp: .*, got forward mode|^can't apply forward-mode"):
            jit(g)(p)
        with pytest.raises(TypeError, match="^signed_distance: jax.jvp: expected reverse mode .*, got forward mode"):
            g(p)
    for g in (jax.hessian(f), jax.grad(lambda p: jax.grad(f)(p).sum())):
        with pytest.raises(NotImplementedError, match="^signed_distance: jax.grad: expected first derivatives only"):
            jit(g)(p)


def test_discrete_answers_inside_a_loss(double):
    def f(v: Any, p: Any) -> Any:
        mesh = gk.Mesh(v, FACES)
        inside = gk.contains(mesh, p)
        blocked = gk.occluded(mesh, ORIGINS, DIRECTIONS)
        count = gk.count_hits(mesh, ORIGINS, DIRECTIONS, t_max=jnp.sum(p**2) + 10)
        return jnp.where(inside & blocked & (count > 0), gk.signed_distance(mesh, p), 0).sum()

    v, p = jnp.asarray(VERTICES), jnp.asarray(0.3 * POINTS)
    eager, compiled = jax.grad(f, (0, 1))(v, p), jax.jit(jax.grad(f, (0, 1)))(v, p)
    assert all(np.allclose(x, y) and bool(x.any()) for x, y in zip(eager, compiled, strict=True))
    assert jax.jvp(lambda p: gk.contains(BALL, p), (p,), (p,))[0].shape == (6,)


def test_hits_under_jit(double):
    def f(v: Any) -> tuple[Any, ...]:
        hits = gk.cast_rays(gk.Mesh(v, FACES), ORIGINS, DIRECTIONS)
        assert len(hits) == 6 and repr(hits) == "Hits(6 rays, jax traces them)"
        with pytest.raises(TypeError, match="^Hits.interpolate: hits: expected values"):
            hits.interpolate(v)
        return hits.hit, hits.position, hits.t

    hits = gk.cast_rays(gk.Mesh(VERTICES, FACES), ORIGINS, DIRECTIONS)
    for one, other in zip(jax.jit(f)(VERTICES), (hits.hit, hits.position, hits.t), strict=True):
        assert np.array_equal(one, other)
    assert hits.hit.any()


# ---- arguments


def test_arguments_without_gradients(double):
    def f(t_min: Any, p: Any = ORIGINS) -> Any:
        return jnp.nan_to_num(gk.cast_rays(BALL, p, DIRECTIONS, t_min=t_min).t, posinf=0).sum()

    assert jax.jit(f)(0.9) == pytest.approx(float(f(0.9)))
    assert np.allclose(jax.jit(jax.grad(f, 1))(0.9, ORIGINS), jax.grad(f, 1)(0.9, jnp.asarray(ORIGINS)))
    for g in (jax.grad(f), jax.jit(jax.grad(f)), jax.grad(jax.jit(f))):
        with pytest.raises(TypeError, match="^cast_rays: t_min: expected an argument that no gradients are sent to"):
            g(0.9)
    with pytest.raises(TypeError, match="^sample_surface: n: expected an int of Python.*one that jax traces"):
        jax.jit(lambda v, n: gk.sample_surface(gk.Mesh(v, FACES), n).points)(VERTICES, 5)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'points'"):
        jax.jit(lambda v: gk.signed_distance(gk.Mesh(v, FACES)))(VERTICES)


def test_integers(double):
    points = jnp.arange(6).reshape(2, 3)
    expected = gk.signed_distance(BALL, np.asarray(points))
    assert np.allclose(jax.jit(lambda p: gk.signed_distance(BALL, p))(points), expected)
    g = jax.grad(lambda v, p: distance(v, p).sum())
    assert np.allclose(jax.jit(g)(VERTICES, points), g(jnp.asarray(VERTICES), points))
    whole = jax.jit(lambda v: gk.Mesh(v, FACES).area)((10 * BALL.vertices).astype(int))
    assert whole.dtype == np.float32 and np.isfinite(whole)


def test_float32_without_the_64_bit_mode():
    v, p = jnp.asarray(VERTICES, jnp.float32), jnp.asarray(POINTS, jnp.float32)
    f = lambda v, p: distance(v, p).sum()  # noqa: E731
    for g in (jax.value_and_grad(f, (0, 1)), jax.jit(jax.value_and_grad(f, (0, 1)))):
        assert {x.dtype for x in jax.tree.leaves(g(v, p))} == {np.dtype(np.float32)}
    small = jax.jit(jax.grad(f, 1))(v, p.astype(jnp.bfloat16))
    assert small.dtype == jnp.bfloat16 and bool((small != 0).any())
    for g in (lambda p: gk.signed_distance(BALL, p), jax.grad(lambda p: gk.signed_distance(BALL, p).sum())):
        for h in (g, jax.jit(g)):
            with pytest.raises(TypeError, match="^jax: a float64 result needs .*, or a float32 mesh and inputs"):
                h(p)


def test_arrays_are_not_copied():
    v, p = jnp.asarray(VERTICES, jnp.float32), jnp.asarray(POINTS, jnp.float32)
    assert gk.Mesh(v, FACES).vertices_array.ctypes.data == v.unsafe_buffer_pointer()
    rows = as_array(p, op="f", name="x", shape=("N", 3), dtype=np.float32)
    assert rows.ctypes.data == p.unsafe_buffer_pointer()
    assert gk.Mesh(v, FACES).vertices is v
