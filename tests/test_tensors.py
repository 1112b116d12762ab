"""Tensors of torch of every dtype and layout, and whether their memory is shared."""

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime.kernel import Kernel

torch = pytest.importorskip("torch")

BALL = gk.shapes.icosphere(1)
VERTICES = torch.tensor(BALL.vertices.copy())
FACES = torch.tensor(BALL.faces.copy())
POINTS = torch.tensor(1.3 * np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32))
FIELD = torch.tensor(np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32))

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def leaf(tensor):
    return tensor.detach().clone().requires_grad_()


def distance(points, vertices=VERTICES):
    return gk.signed_distance(gk.Mesh(vertices, FACES), points)


def expected(points=POINTS, vertices=VERTICES):
    """Gradients of the sum of the distances for ordinary tensors of float32."""
    points, vertices = leaf(points.float()), leaf(vertices.float())
    distance(points, vertices).sum().backward()
    return points.grad, vertices.grad


# ---- dtypes


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype):
    points, vertices = leaf(POINTS.to(dtype)), leaf(VERTICES.to(dtype))
    for d in (distance(points), distance(points, vertices)):
        d.sum().backward()
    assert distance(POINTS, vertices).dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    assert points.grad.dtype is dtype and vertices.grad.dtype is dtype
    rounding = 4 * torch.finfo(dtype).eps if dtype not in FLOATS[:2] else 1e-5
    to_points, to_vertices = expected(points, vertices)
    torch.testing.assert_close(vertices.grad.float(), to_vertices, rtol=rounding, atol=rounding)
    torch.testing.assert_close(points.grad.float() - expected(points)[0], to_points, rtol=rounding, atol=2 * rounding)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_level_without_dimensions(dtype):
    level = leaf(torch.tensor(0.125, dtype=dtype))
    gk.marching_cubes(FIELD, level).vertices.sum().backward()
    found = gk.marching_cubes.adjoint(
        FIELD.numpy(), 0.125, adj_vertices=np.ones_like(gk.marching_cubes(FIELD.numpy(), 0.125).vertices)
    )
    assert level.grad.shape == () and level.grad.dtype is dtype
    assert float(level.grad) == pytest.approx(float(found.level), rel=1e-2)


def test_integers_are_constants():
    points = torch.tensor([[0, 0, 2], [3, 0, 0]])
    vertices = leaf(VERTICES)
    distance(points, vertices).sum().backward()
    torch.testing.assert_close(vertices.grad, expected(points)[1])
    assert distance(points.to(torch.uint8)).tolist() == distance(points.float()).tolist()
    assert gk.Mesh(VERTICES, FACES.long()).faces.dtype is torch.int32


@pytest.mark.parametrize(
    ("points", "got"),
    [
        (torch.ones(2, 3, dtype=torch.bool), r"\(2, 3\) bool"),
        (torch.ones(2, 3, dtype=torch.complex64), r"\(2, 3\) complex64"),
        (torch.ones(2, 4), r"\(2, 4\) float32"),
        (torch.ones(2, 4, requires_grad=True), r"\(2, 4\) float32"),
    ],
)
def test_other_tensors_are_refused(points, got):
    with pytest.raises((TypeError, ValueError), match=rf"signed_distance: points: expected \(N, 3\) floats, got {got}"):
        distance(points)


def test_smaller_floats_are_taken():
    if not hasattr(torch, "float8_e4m3fn"):
        pytest.skip("this version of torch has no float8")
    points = POINTS.to(torch.float8_e4m3fn)
    assert torch.equal(distance(points), distance(points.float()))


def test_tensors_without_numbers_are_refused():
    with pytest.raises(gk.DeviceError, match="torch: arrays must be on the device cpu or cuda, got meta"):
        distance(POINTS.to("meta"))


# ---- layouts


LAYOUTS = {
    "transposed": lambda x: x.T.contiguous().T,
    "part of a wider one": lambda x: torch.cat([x, x], 1)[:, :3],
    "every other row": lambda x: x.repeat_interleave(2, 0)[::2],
    "sparse": lambda x: x.to_sparse(),
    "lazily conjugated": lambda x: torch.complex(x, -x).conj().imag,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    points, vertices = leaf(POINTS), leaf(VERTICES)
    arrange = LAYOUTS[layout]
    distance(arrange(points), arrange(vertices)).sum().backward()
    for x, gradient in zip((points, vertices), expected(), strict=True):
        assert torch.equal(x.grad, gradient)


def test_expanded_tensors():
    point, shift = leaf(POINTS[:1]), leaf(torch.zeros(1, 3))
    distance(point.expand(5, 3), VERTICES + shift.expand(42, 3)).sum().backward()
    torch.testing.assert_close(point.grad, 5 * expected(POINTS[:1])[0])
    torch.testing.assert_close(shift.grad, -point.grad)


def test_expanded_cotangents():
    points = leaf(POINTS)
    torch.autograd.grad(gk.closest_point(BALL, points).point, points, torch.ones(1, 1).expand(9, 3))
    gk.closest_point(BALL, points).point.sum().backward()
    explicit = gk.closest_point.adjoint(BALL, POINTS.numpy(), adj_point=np.ones((9, 3), np.float32))
    assert torch.equal(points.grad, torch.from_numpy(explicit.points))


def test_nothing_to_do():
    points = leaf(POINTS[:0])
    distance(points).sum().backward()
    assert points.grad.shape == (0, 3)
    field = leaf(FIELD.abs() + 1)
    gk.marching_cubes(field).vertices.sum().backward()
    assert not field.grad.any()
    vertices = leaf(VERTICES)
    gk.signed_distance(gk.Mesh(vertices, FACES[:0]), POINTS).sum().backward()
    assert not vertices.grad.any()


# ---- memory


@pytest.fixture
def seen(monkeypatch):
    """Where the arrays lie that kernels are given."""
    addresses, call = set(), Kernel.__call__

    def record(kernel, n, *arguments, **options):
        for a in arguments:
            addresses.update([a.ctypes.data] if isinstance(a, np.ndarray) else getattr(a, "fields", ()))
        return call(kernel, n, *arguments, **options)

    monkeypatch.setattr(Kernel, "__call__", record)
    return addresses


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("followed", [False, True])
def test_kernels_read_and_write_the_memory_of_tensors(seen, dtype, followed):
    points, vertices = (x.to(dtype).clone().requires_grad_(followed) for x in (POINTS, VERTICES))
    ball = gk.Mesh(vertices, FACES)
    assert ball.vertices is vertices and ball.vertices_array.ctypes.data == vertices.data_ptr()
    hits, near = gk.cast_rays(ball, 4 * points, -points), gk.closest_point(ball, points)
    d = gk.signed_distance(ball, points)
    outputs = [d, hits.t, hits.face, hits.barycentric, hits.normal, *near]
    assert seen.issuperset(x.data_ptr() for x in (points, *outputs))
    weights = torch.rand(9, dtype=dtype)
    if followed:
        seen.clear()
        to_points, _ = torch.autograd.grad(d, (points, vertices), weights)
        assert seen.issuperset(x.data_ptr() for x in (points, vertices, weights, d, to_points))


@pytest.mark.parametrize("followed", [False, True])
def test_an_isosurface_shares_field_vertices_and_gradient(seen, followed):
    field = FIELD.clone().requires_grad_(followed)
    surface = gk.marching_cubes(field)
    assert seen.issuperset({field.data_ptr(), surface.vertices.data_ptr()})
    assert surface.vertices_array.ctypes.data == surface.vertices.data_ptr()
    if followed:
        (gradient,) = torch.autograd.grad(surface.vertices.sum(), field)
        assert seen.issuperset({field.data_ptr(), gradient.data_ptr()})


def test_moved_vertices_are_shared():
    vertices = VERTICES.clone().requires_grad_()
    moved = gk.Mesh(VERTICES, FACES).with_vertices(vertices)
    assert moved.vertices is vertices and moved.vertices_array.ctypes.data == vertices.data_ptr()


def test_writing_to_a_result_changes_nothing_that_is_kept():
    ball, followed = gk.Mesh(VERTICES, FACES), gk.Mesh(leaf(VERTICES), FACES)
    for mesh in (ball, followed):
        for op in (gk.bounds, gk.face_areas, gk.face_normals, gk.vertex_normals):
            first = op(mesh).detach()
            before = first.clone()
            first.fill_(7)
            assert torch.equal(op(mesh), before)
        mesh.faces.fill_(7)
        assert mesh.faces_array.max() == 41
