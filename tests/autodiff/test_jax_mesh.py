"""Meshes under jax: what a traced one has, its errors, trees that are kept, fits."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import geomkit as gk
from geomkit.spatial.bvh import Bvh

jax = pytest.importorskip("jax")
jnp = jax.numpy

RNG = np.random.default_rng(5)
BALL = gk.shapes.icosphere(1, dtype=np.float64)
FACES = BALL.faces
VERTICES = BALL.vertices + RNG.normal(size=BALL.vertices.shape) * 0.03
POINTS = RNG.normal(size=(6, 3))
ORIGINS = 3 * POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)
FIELD = np.linalg.norm(np.stack(np.meshgrid(*[np.linspace(-1, 1, 6)] * 3, indexing="ij"), axis=-1), axis=-1) - 0.7


@pytest.fixture
def double() -> Iterator[None]:
    """jax's 64-bit mode, in this test only."""
    with jax.enable_x64(True):
        yield


def distance(vertices: Any, points: Any = POINTS) -> Any:
    return gk.signed_distance(gk.Mesh(vertices, FACES), points)


@pytest.mark.parametrize(
    "use",
    ["bounds", "center", "diagonal", "topology", "is_closed", "bvh", "vertices_array", "components", "report", "weld",
     "detach", "boundary_loops"],
)  # fmt: skip
def test_a_traced_mesh_has_no_values(use):
    def f(v: Any) -> Any:
        found = getattr(gk.Mesh(v, FACES), use)
        return found() if callable(found) else found

    for transform in (jax.jit, jax.grad):
        with pytest.raises(TypeError, match="^Mesh: vertices: expected values .only primitives take.*traces"):
            transform(f)(jnp.asarray(VERTICES))


def test_a_traced_mesh_has_the_rest(double):
    def f(v: Any) -> Any:
        mesh = gk.Mesh(v, FACES)
        assert (mesh.n_vertices, mesh.n_faces, mesh.dtype) == (*map(len, (VERTICES, FACES)), np.float64)
        assert mesh.tracker == "jax" and repr(mesh) == f"Mesh({len(VERTICES)} vertices, {len(FACES)} faces, float64)"
        assert not isinstance(mesh.faces, jax.core.Tracer) and np.array_equal(mesh.faces, FACES)
        both = mesh.flipped().volume + mesh.copy().volume
        return both, mesh.face_normals, mesh.vertex_normals, mesh.area

    both, *rest = jax.jit(f)(VERTICES)
    mesh = gk.Mesh(VERTICES, FACES)
    assert abs(both) < 1e-12
    for one, other in zip(rest, (mesh.face_normals, mesh.vertex_normals, mesh.area), strict=True):
        assert np.allclose(one, other)


def test_an_array_made_under_jit_does_not_outlive_it():
    mesh = gk.Mesh(jnp.asarray(VERTICES, jnp.float32), jnp.asarray(FACES))
    with jax.checking_leaks():
        jax.jit(lambda x: x + mesh.faces.sum() + mesh.area)(1.0)
        jax.jit(jax.grad(lambda v, p: distance(v, p).sum()))(mesh.vertices, jnp.ones((2, 3)))
        grid = jnp.asarray(FIELD, jnp.float32)
        f = lambda g: gk.interpolate_grid(gk.SdfGrid(g, np.zeros(3), 1.0), np.ones((2, 3))).value.sum()  # noqa: E731
        assert np.allclose(jax.jit(jax.grad(f))(grid), jax.grad(f)(grid))
    assert np.array_equal(mesh.faces, FACES)


def test_errors_of_meshes():
    v = jnp.asarray(VERTICES, jnp.float32)
    with pytest.raises(TypeError, match=r"^Mesh: faces: expected values .* \(80, 3\) int32 traced by jax"):
        jax.jit(lambda f: gk.Mesh(v, f).n_faces)(FACES)
    with pytest.raises(ValueError, match=r"^Mesh: vertices: expected \(V, 3\) floats, got \(42, 2\) float32"):
        jax.jit(lambda v: gk.area(gk.Mesh(v, FACES)))(v[:, :2])
    with pytest.raises(TypeError, match=r"^Mesh: vertices: expected \(V, 3\) floats, got \(42, 3\) bool"):
        jax.jit(lambda v: gk.area(gk.Mesh(v, FACES)))(v > 0)
    with pytest.raises(ValueError, match="^Mesh: nonfinite: expected 'error' for vertices that jax traces"):
        jax.jit(lambda v: gk.area(gk.Mesh(v, FACES, nonfinite="drop")))(v)
    with pytest.raises(ValueError, match=r"^with_vertices: vertices: expected \(42, 3\) floats, got \(41, 3\)"):
        jax.jit(lambda v: gk.area(BALL.with_vertices(v)))(v[1:])


class Trees:
    """How many trees were built and refitted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.built = self.refitted = 0
        build, refit = Bvh._build_sah, Bvh.refitted

        def counted_build(bvh: Bvh, *args: Any) -> None:
            self.built += 1
            build(bvh, *args)

        def counted_refit(bvh: Bvh, *args: Any, **options: Any) -> Bvh:
            self.refitted += 1
            return refit(bvh, *args, **options)

        monkeypatch.setattr(Bvh, "_build_sah", counted_build)
        monkeypatch.setattr(Bvh, "refitted", counted_refit)


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit])
def test_trees_are_kept_and_refitted(jit, monkeypatch, double):
    trees = Trees(monkeypatch)

    def f(v: Any, mesh: gk.Mesh | None) -> Any:
        moved = gk.Mesh(v, FACES) if mesh is None else mesh.with_vertices(v)
        return gk.signed_distance(moved, POINTS).sum() + gk.closest_point(moved, POINTS).distance.sum()

    v = jnp.asarray(VERTICES)
    new = jit(jax.grad(lambda v: f(v, None)))
    new(v)
    assert (trees.built, trees.refitted) == (1, 0)
    new(v)
    assert trees.built == (1 if jit is jax.jit else 2)
    new(v + 1)
    assert trees.built == (2 if jit is jax.jit else 3) and trees.refitted == 0
    first = gk.Mesh(VERTICES, FACES)
    first.bvh  # noqa: B018
    trees.built = 0
    follow = jit(jax.grad(lambda v: f(v, first)))
    results = [follow(v * s) for s in (1.01, 1.02, 1.01)]
    assert (trees.built, trees.refitted) == (0, 3) and np.array_equal(results[0], results[2])
    assert np.allclose(results[1], new(v * 1.02))


# ---- loops


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit])
@pytest.mark.parametrize("name", ["signed_distance", "cast_rays"])
def test_a_fit_equals_that_of_the_explicit_pair(name, jit, double):
    target = np.linalg.norm(POINTS, axis=1) - 0.8 if name == "signed_distance" else np.full(6, 2.3)
    rays = ORIGINS, -ORIGINS / 3

    def by_hand(v: np.ndarray) -> np.ndarray:
        mesh = gk.Mesh(v, FACES)
        if name == "signed_distance":
            d = gk.signed_distance(mesh, POINTS)
            return gk.signed_distance.adjoint(mesh, POINTS, adj_distance=2 * (d - target), result=d).vertices
        hits = gk.cast_rays(mesh, *rays)
        return gk.cast_rays.adjoint(mesh, *rays, adj_t=2 * (hits.t - target), result=hits).vertices

    def f(v: Any) -> Any:
        mesh = gk.Mesh(v, FACES)
        found = gk.signed_distance(mesh, POINTS) if name == "signed_distance" else gk.cast_rays(mesh, *rays).t
        return ((found - target) ** 2).sum()

    step = jit(lambda v: v - 0.1 * jax.grad(f)(v))
    v, w = VERTICES, jnp.asarray(VERTICES)
    for _ in range(25):
        v, w = v - 0.1 * by_hand(v), step(w)
    assert np.allclose(v, w, rtol=0, atol=1e-6) and f(w) < 0.2 * f(VERTICES)
