import numpy as np
import pytest

import geomkit as gk
from geomkit.mesh import Mesh
from geomkit.mesh.measure import area, count_flat, face_areas, face_normals, vertex_normals, volume
from geomkit.mesh.shapes import box, cylinder, grid, icosphere
from geomkit.runtime import host

COTANGENTS = {face_areas: "adj_areas", face_normals: "adj_normals", vertex_normals: "adj_normals"}
COTANGENTS |= {area: "adj_area", volume: "adj_volume"}
PER_ELEMENT = (face_areas, face_normals, vertex_normals)
ALL = pytest.mark.parametrize("measure", COTANGENTS, ids=lambda m: m.__name__)


def adjoint(measure, mesh, cotangent):
    return measure.adjoint(mesh, **{COTANGENTS[measure]: cotangent}).vertices


def random_cotangent(measure, mesh):
    return np.random.default_rng(1).standard_normal(np.shape(measure(mesh)))


def bumpy(mesh, size=0.1):
    """The mesh in float64 with every vertex moved at random: no two coordinates tie."""
    noise = np.random.default_rng(0).standard_normal((mesh.n_vertices, 3))
    return Mesh(mesh.vertices_array.astype(np.float64) + size * noise, mesh.faces_array)


def reference(mesh):
    """Areas, face normals and vertex normals by plain NumPy."""
    vertices, faces = mesh.vertices_array.astype(np.float64), mesh.faces_array
    p = vertices[faces]
    across = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    length = np.linalg.norm(across, axis=1)
    normals = across / np.where(length > 0, length, 1)[:, None]
    sums = np.zeros_like(vertices)
    for k in range(3):
        one, other = p[:, (k + 1) % 3] - p[:, k], p[:, (k + 2) % 3] - p[:, k]
        angle = np.arctan2(length, (one * other).sum(axis=1))
        np.add.at(sums, faces[:, k], angle[:, None] * normals)
    return length / 2, normals, sums / np.linalg.norm(sums, axis=1, keepdims=True)


class TestValue:
    def test_triangle(self):
        mesh = Mesh([[0, 0, 0], [3, 0, 0], [0, 4, 0]], [[0, 1, 2]])
        assert face_areas(mesh).tolist() == [6]
        assert face_normals(mesh).tolist() == [[0, 0, 1]]
        assert vertex_normals(mesh).tolist() == [[0, 0, 1]] * 3
        assert area(mesh) == mesh.area == 6
        assert face_areas(mesh).dtype == face_normals(mesh).dtype == vertex_normals(mesh).dtype == np.float32

    def test_box(self):
        mesh = box((1, 2, 3), dtype=np.float64)
        assert area(mesh) == pytest.approx(22, rel=1e-15)
        assert volume(mesh) == pytest.approx(6, rel=1e-15)

    def test_normals_at_the_corner_of_a_box_ignore_the_triangulation(self):
        mesh = box(dtype=np.float64)
        np.testing.assert_allclose(vertex_normals(mesh), np.sign(mesh.vertices_array) / 3**0.5, atol=1e-15)

    def test_normals_of_a_sphere(self):
        mesh = icosphere(4, radius=2, dtype=np.float64)
        np.testing.assert_allclose(vertex_normals(mesh), mesh.vertices_array / 2, atol=3e-3)
        np.testing.assert_allclose(np.linalg.norm(face_normals(mesh), axis=1), 1, rtol=1e-15)

    def test_prism(self):
        n = 12
        mesh = cylinder(2, 3, sections=n, dtype=np.float64)
        base = n / 2 * 4 * np.sin(2 * np.pi / n)
        assert volume(mesh) == pytest.approx(3 * base, rel=1e-14)
        assert area(mesh) == pytest.approx(2 * base + 3 * n * 4 * np.sin(np.pi / n), rel=1e-14)

    def test_float32_is_rounded_once(self):
        vertices = icosphere(3).vertices_array
        faces = icosphere(3).faces_array
        exact = face_areas(Mesh(vertices.astype(np.float64), faces))
        np.testing.assert_array_equal(face_areas(Mesh(vertices, faces)), exact.astype(np.float32))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_nefertiti(self, shared_mesh, dtype):
        mesh = shared_mesh("nefertiti.obj", dtype=dtype)
        areas, normals, smooth = reference(mesh)
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(face_areas(mesh), areas, rtol=4 * eps)
        np.testing.assert_allclose(face_normals(mesh), normals, atol=4 * eps)
        np.testing.assert_allclose(vertex_normals(mesh), smooth, atol=4 * eps)
        assert area(mesh) == pytest.approx(areas.sum(), rel=1e-13)

    def test_adjoints_in_closed_form(self):
        mesh = bumpy(icosphere(2))
        third = face_areas(mesh)[:, None] * face_normals(mesh) / 3
        expected = np.zeros((mesh.n_vertices, 3))
        np.add.at(expected, mesh.faces_array.ravel(), np.repeat(third, 3, axis=0))
        np.testing.assert_allclose(adjoint(volume, mesh, 2.0), 2 * expected, atol=1e-15)
        ones = np.ones(mesh.n_faces)
        np.testing.assert_array_equal(adjoint(area, mesh, 1.0), adjoint(face_areas, mesh, ones))

    @pytest.mark.parametrize(("measure", "degree"), [(area, 2), (volume, 3), *((m, None) for m in PER_ELEMENT)])
    def test_adjoints_know_how_measures_scale_and_move(self, measure, degree):
        mesh = bumpy(icosphere(2))
        cotangent = random_cotangent(measure, mesh)
        gradient = adjoint(measure, mesh, cotangent)
        size = np.abs(gradient).sum()
        assert np.abs(gradient.sum(axis=0)).max() < 1e-14 * size
        degree = {face_areas: 2, face_normals: 0, vertex_normals: 0}.get(measure, degree)
        expected = degree * (np.asarray(measure(mesh)) * cotangent).sum()
        assert (gradient * mesh.vertices_array).sum() == pytest.approx(expected, abs=1e-14 * size)


class TestEdge:
    def test_degenerate_faces(self):
        mesh = Mesh([[0, 0, 0], [1, 1, 1], [2, 2, 2], [1, 0, 0]], [[0, 1, 2], [3, 3, 3], [0, 0, 3]])
        assert face_areas(mesh).tolist() == [0, 0, 0]
        assert not face_normals(mesh).any()
        assert not vertex_normals(mesh).any()

    def test_degenerate_faces_do_not_bend_normals(self):
        square = grid(1, 1)
        mesh = Mesh(square.vertices_array, np.concatenate([square.faces_array, [[0, 0, 1], [2, 2, 2]]]))
        np.testing.assert_array_equal(vertex_normals(mesh), [[0, 0, 1]] * 4)

    @pytest.mark.parametrize("repeated", [[0, 1, 1], [0, 1, 0], [1, 1, 0], [2, 2, 2]])
    def test_repeated_corners_leave_exactly_nothing(self, repeated):
        mesh = Mesh(np.random.default_rng(0).standard_normal((3, 3)), [repeated])
        assert face_areas(mesh).tolist() == [0] and area(mesh) == 0
        assert not face_normals(mesh).any() and not vertex_normals(mesh).any()

    @ALL
    def test_degenerate_faces_send_no_gradient(self, measure):
        whole = bumpy(icosphere(1))
        points = np.concatenate([whole.vertices_array, [[0.1, 0.2, 0.3], [0.2, 0.4, 0.6], [0.4, 0.8, 1.2]]])
        n = whole.n_vertices
        flat = [[0, 0, 1], [5, 5, 5], [n, n + 1, n + 2], [3, n, 3]]
        mesh = Mesh(points, np.concatenate([whole.faces_array, flat]))
        cotangent = random_cotangent(measure, mesh)
        gradient = adjoint(measure, mesh, cotangent)
        if measure is not volume:
            assert not gradient[n:].any()
        kept = {face_areas: whole.n_faces, face_normals: whole.n_faces, vertex_normals: n}.get(measure)
        expected = adjoint(measure, whole, cotangent if kept is None else cotangent[:kept])
        np.testing.assert_allclose(gradient[:n], expected, atol=1e-15)

    def test_normals_that_cancel_are_zero(self):
        sheet = bumpy(grid(4, 4), 0.02)
        mesh = Mesh(sheet.vertices_array, np.concatenate([sheet.faces_array, sheet.faces_array[:, [1, 0, 2]]]))
        assert not vertex_normals(mesh).any()
        assert not adjoint(vertex_normals, mesh, random_cotangent(vertex_normals, mesh)).any()
        assert area(mesh) == pytest.approx(2 * area(sheet)) and volume(mesh) == pytest.approx(0, abs=1e-16)

    @ALL
    def test_empty(self, measure):
        for vertices in (np.zeros((0, 3)), np.ones((4, 3))):
            mesh = Mesh(vertices, [])
            assert not np.any(measure(mesh))
            gradient = adjoint(measure, mesh, random_cotangent(measure, mesh))
            assert gradient.shape == vertices.shape and not gradient.any()

    @pytest.mark.parametrize("exponent", [-1000, -300, -99, 99, 300, 1000])
    @ALL
    def test_powers_of_two_are_exact(self, measure, exponent):
        mesh = bumpy(cylinder(1, 2, sections=5))
        scaled = Mesh(np.ldexp(mesh.vertices_array, exponent), mesh.faces_array)
        degree = {face_areas: 2, area: 2, volume: 3}.get(measure, 0)
        with np.errstate(over="ignore", under="ignore"):
            np.testing.assert_array_equal(measure(scaled), np.ldexp(measure(mesh), degree * exponent))
            cotangent = random_cotangent(measure, mesh)
            gradient = np.ldexp(adjoint(measure, mesh, cotangent), (degree - 1) * exponent)
        if np.isfinite(gradient).all():
            np.testing.assert_array_equal(adjoint(measure, scaled, cotangent), gradient)

    def test_the_largest_numbers(self):
        greatest = np.finfo(np.float64).max
        mesh = Mesh(np.array([[-1, 0, 0], [1, 0, 0], [0, 1, 0]]) * greatest, [[0, 1, 2]])
        assert face_normals(mesh).tolist() == [[0, 0, 1]] and face_areas(mesh).tolist() == [np.inf]

    def test_unreferenced_vertices_have_no_normal(self):
        assert vertex_normals(Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5]], [[0, 1, 2]]))[3].tolist() == [0, 0, 0]

    @pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
    def test_normals_at_extreme_scales(self, scale):
        mesh = Mesh(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]) * scale, [[0, 1, 2]])
        np.testing.assert_allclose(face_normals(mesh), [[0, 0, 1]], atol=1e-15)
        np.testing.assert_allclose(vertex_normals(mesh), [[0, 0, 1]] * 3, atol=1e-15)

    def test_volume_far_from_the_origin(self):
        cube = box(dtype=np.float64)
        far = Mesh(cube.vertices_array + 2.0**30, cube.faces_array)
        assert volume(far) == pytest.approx(1, rel=1e-12)
        np.testing.assert_array_equal(adjoint(volume, far, 1.0), adjoint(volume, cube, 1.0))

    def test_volume_of_an_inverted_cavity(self):
        outer, inner = box((2, 2, 2)), box().flipped()
        both = Mesh(
            np.concatenate([outer.vertices_array, inner.vertices_array]),
            np.concatenate([outer.faces_array, inner.faces_array + 8]),
        )
        assert volume(both) == pytest.approx(7)

    def test_volume_of_a_flat_sheet(self):
        assert volume(grid(5, 5)) == 0


def test_invariance():
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    rotation *= np.sign(np.linalg.det(rotation))
    mesh = icosphere(2, dtype=np.float64)
    turned = Mesh(mesh.vertices_array @ rotation.T, mesh.faces_array)
    np.testing.assert_allclose(face_areas(turned), face_areas(mesh), rtol=1e-12)
    np.testing.assert_allclose(vertex_normals(turned), vertex_normals(mesh) @ rotation.T, atol=1e-13)
    assert volume(turned) == pytest.approx(volume(mesh), rel=1e-13)
    rolled = Mesh(mesh.vertices_array, np.roll(mesh.faces_array, 1, axis=1))
    np.testing.assert_allclose(vertex_normals(rolled), vertex_normals(mesh), atol=1e-14)


class TestError:
    @pytest.mark.parametrize("measure", PER_ELEMENT, ids=lambda m: m.__name__)
    def test_shape_of_the_cotangent(self, measure):
        name, wanted = COTANGENTS[measure], {face_areas: "(12,)", face_normals: "(12, 3)", vertex_normals: "(8, 3)"}
        with pytest.raises(ValueError) as error:
            adjoint(measure, box(), np.zeros((7, 3)))
        text = f"{measure.__name__}.adjoint: {name}: expected {wanted[measure]} floats, got (7, 3) float64"
        assert str(error.value) == text

    @pytest.mark.parametrize("measure", [area, volume], ids=lambda m: m.__name__)
    def test_shape_of_a_number(self, measure):
        expected = f"^{measure.__name__}.adjoint: {COTANGENTS[measure]}: expected \\(\\) floats, got \\(2,\\) int64"
        with pytest.raises(ValueError, match=expected):
            adjoint(measure, box(), [1, 2])

    @ALL
    def test_cotangents_are_numbers(self, measure):
        with pytest.raises(TypeError, match=f"^{measure.__name__}.adjoint: {COTANGENTS[measure]}: .* got None"):
            adjoint(measure, box(), None)

    @ALL
    def test_not_a_mesh(self, measure):
        with pytest.raises(TypeError, match="^Mesh: faces: expected .* got None and ndarray"):
            measure(np.zeros((3, 3)))


class TestGradient:
    @pytest.mark.parametrize("offset", [0.0, 1000.0])
    @pytest.mark.parametrize(
        "shape", [icosphere(1), grid(3, 2), cylinder(1, 2, sections=5)], ids=["ball", "sheet", "can"]
    )
    @ALL
    def test_gradcheck(self, measure, shape, offset):
        mesh = bumpy(shape)
        # The step that balances the rounding of coordinates so far out, 1e-13, against the error of the difference.
        step = 1e-6 if offset == 0 else 1e-4
        gk.gradcheck(
            lambda vertices: measure(Mesh(vertices, mesh.faces_array)),
            [mesh.vertices_array + offset],
            adjoint=lambda vertices, adj: [adjoint(measure, Mesh(vertices, mesh.faces_array), adj)],
            step=step,
        )

    @ALL
    def test_gradcheck_of_a_soup(self, measure):
        rng = np.random.default_rng(3)
        faces = rng.permuted(np.tile(np.arange(7), (12, 1)), axis=1)[:, :3]
        vertices = np.concatenate([rng.standard_normal((7, 3)), [[9.0, 9.0, 9.0]]])
        gk.gradcheck(
            lambda vertices: measure(Mesh(vertices, faces)),
            [vertices],
            adjoint=lambda vertices, adj: [adjoint(measure, Mesh(vertices, faces), adj)],
        )
        assert not adjoint(measure, Mesh(vertices, faces), random_cotangent(measure, Mesh(vertices, faces)))[7].any()

    @ALL
    def test_float32_is_rounded_once(self, measure):
        mesh = bumpy(icosphere(2))
        mesh = Mesh(mesh.vertices_array.astype(np.float32), mesh.faces_array)
        exact = Mesh(mesh.vertices_array.astype(np.float64), mesh.faces_array)
        cotangent = np.round(4 * random_cotangent(measure, mesh))
        gradient = adjoint(measure, mesh, cotangent)
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, adjoint(measure, exact, cotangent), rtol=1e-7, atol=1e-14)

    def test_primitives(self):
        for measure in COTANGENTS:
            assert measure.differentiable == ("vertices",) and not measure.discrete
            assert [f"adj_{name}" for name in measure.outputs] == [COTANGENTS[measure]]
            assert getattr(gk, measure.__name__) is measure


class TestDevices:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @ALL
    def test_cuda(self, measure, dtype):
        cupy = pytest.importorskip("cupy")
        if not cupy.cuda.is_available():
            pytest.skip("no CUDA device here")
        mesh = bumpy(icosphere(4))
        mesh = Mesh(mesh.vertices_array.astype(dtype), mesh.faces_array)
        there = Mesh(cupy.asarray(mesh.vertices_array), cupy.asarray(mesh.faces_array))
        tolerance = {"rtol": 1e-13, "atol": 1e-13} if dtype == np.float64 else {"rtol": 1e-6, "atol": 1e-6}
        value, cotangent = measure(there), random_cotangent(measure, mesh)
        gradient = adjoint(measure, there, cupy.asarray(cotangent))
        if measure in PER_ELEMENT:
            assert isinstance(value, cupy.ndarray)
        assert isinstance(gradient, cupy.ndarray)
        np.testing.assert_allclose(cupy.asnumpy(value), measure(mesh), **tolerance)
        np.testing.assert_allclose(cupy.asnumpy(gradient), adjoint(measure, mesh, cotangent), **tolerance)

    @ALL
    def test_torch(self, measure):
        torch = pytest.importorskip("torch")
        mesh = Mesh(torch.tensor(box().vertices_array.copy()), box().faces_array)
        cotangent = random_cotangent(measure, box())
        gradient = adjoint(measure, mesh, torch.tensor(cotangent))
        assert isinstance(gradient, torch.Tensor)
        np.testing.assert_array_equal(gradient.numpy(), adjoint(measure, box(), cotangent))

    @ALL
    def test_threads(self, measure):
        mesh = bumpy(icosphere(5), 0.01)
        cotangent = random_cotangent(measure, mesh)
        before, results = host.num_threads(), []
        try:
            for n in (1, 2, 5):
                host.set_num_threads(n)
                results.append((np.asarray(measure(mesh)).tobytes(), adjoint(measure, mesh, cotangent).tobytes()))
        finally:
            host.set_num_threads(before)
        assert results[0] == results[1] == results[2]


def test_count_flat_in_blocks():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], np.float32)
    faces = np.tile(np.array([[0, 1, 2], [0, 1, 3]], np.int32), (10000, 1))
    assert count_flat(vertices, faces) == 10000
    assert count_flat(vertices, faces[:0]) == 0
