import copy
import pickle
import re

import numpy as np
import pytest
import trimesh

from geomkit.autodiff.tape import Tape
from geomkit.errors import MeshError
from geomkit.mesh import Mesh, as_mesh
from geomkit.mesh.shapes import box, grid, icosphere

TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
FACE = np.array([[0, 1, 2]], np.int32)


def refuses(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def same(one, other):
    return np.array_equal(one.vertices_array, other.vertices_array) and np.array_equal(
        one.faces_array, other.faces_array
    )


def soup(mesh):
    """The mesh with three vertices of its own for every face."""
    return Mesh(mesh.vertices_array[mesh.faces_array.ravel()], np.arange(3 * mesh.n_faces).reshape(-1, 3))


class TestConstruction:
    @pytest.mark.parametrize(
        "vertices",
        [
            TRIANGLE,
            TRIANGLE.tolist(),
            TRIANGLE.astype(int),
            TRIANGLE.astype(np.float16),
            np.asfortranarray(TRIANGLE),
            np.repeat(TRIANGLE, 2, axis=0)[::2],
        ],
    )
    @pytest.mark.parametrize("faces", [FACE, FACE.tolist(), FACE.astype(np.int64), FACE.astype(np.uint8), [(0, 1, 2)]])
    def test_value(self, vertices, faces):
        mesh = Mesh(vertices, faces)
        assert mesh.dtype == np.float32
        assert mesh.vertices_array.dtype == np.float32
        assert mesh.faces_array.dtype == np.int32
        assert mesh.vertices_array.flags.c_contiguous
        assert mesh.faces_array.flags.c_contiguous
        assert (mesh.n_vertices, mesh.n_faces) == (3, 1)
        assert mesh.library.name == "numpy"
        assert mesh.device == "cpu"
        np.testing.assert_array_equal(mesh.vertices, TRIANGLE)
        np.testing.assert_array_equal(mesh.faces, FACE)

    def test_float64_arrays_make_a_float64_mesh(self):
        assert Mesh(TRIANGLE.astype(np.float64), FACE).dtype == np.float64
        assert Mesh([[0.5, 0.0, 0.0]] * 3, FACE).dtype == np.float32

    def test_objects_with_vertices_and_faces(self):
        cube = trimesh.creation.box()
        mesh = Mesh(cube)
        assert mesh.dtype == np.float64
        assert mesh.volume == pytest.approx(1)
        assert as_mesh(mesh) is mesh
        assert same(as_mesh(cube), mesh)
        assert same(Mesh(mesh), mesh)

    @pytest.mark.parametrize("empty", [([], []), (np.zeros((0, 3)), np.zeros((0, 3), int)), (TRIANGLE, [])])
    def test_empty(self, empty):
        mesh = Mesh(*empty)
        assert mesh.n_faces == 0
        assert mesh.faces_array.shape == (0, 3)
        assert mesh.area == mesh.volume == mesh.diagonal == 0
        assert mesh.center.tolist() == [0, 0, 0]
        assert (mesh.bounds[0] > mesh.bounds[1]).all()
        assert mesh.face_normals.shape == (0, 3)
        assert mesh.vertex_normals.tolist() == [[0, 0, 0]] * mesh.n_vertices
        assert mesh.components()[0] == 0
        assert mesh.boundary_loops() == []
        assert same(mesh.weld(0.1), mesh)

    def test_the_mesh_is_a_snapshot(self):
        vertices, faces = TRIANGLE.copy(), FACE.copy()
        mesh = Mesh(vertices, faces)
        vertices[:], faces[:] = 9, 0
        np.testing.assert_array_equal(mesh.vertices, TRIANGLE)
        np.testing.assert_array_equal(mesh.faces, FACE)

    @pytest.mark.parametrize(
        "name",
        [
            "vertices",
            "faces",
            "vertices_array",
            "faces_array",
            "face_normals",
            "vertex_normals",
            "face_areas",
            "bounds",
        ],
    )
    def test_arrays_are_read_only(self, name):
        with pytest.raises(ValueError, match="read-only"):
            getattr(box(), name)[0] = 0

    def test_given_arrays_stay_writeable(self):
        vertices = TRIANGLE.copy()
        Mesh(vertices, FACE)
        assert vertices.flags.writeable


class TestErrors:
    @pytest.mark.parametrize(
        ("vertices", "faces", "error", "text"),
        [
            (TRIANGLE[:, :2], FACE, ValueError, "Mesh: vertices: expected (V, 3) floats, got (3, 2) float32"),
            (TRIANGLE, FACE[:, :2], ValueError, "Mesh: faces: expected (F, 3) ints, got (1, 2) int32"),
            (TRIANGLE, FACE[0], ValueError, "Mesh: faces: expected (F, 3) ints, got (3,) int32"),
            (TRIANGLE, FACE.astype(float), TypeError, "Mesh: faces: expected (F, 3) ints, got (1, 3) float64"),
            ("bunny", FACE, TypeError, "Mesh: vertices: expected (V, 3) floats, got str"),
            (
                TRIANGLE,
                None,
                TypeError,
                "Mesh: faces: expected (F, 3) ints, or one object with .vertices and .faces, got None and ndarray",
            ),
        ],
    )
    def test_shapes_and_kinds(self, vertices, faces, error, text):
        with refuses(error, text):
            Mesh(vertices, faces)

    def test_face_out_of_range(self):
        text = "Mesh: faces: expected indices in [0, 3), got 2 faces outside, the first is face 1: [0, 1, 3]"
        with refuses(MeshError, text):
            Mesh(TRIANGLE, [[0, 1, 2], [0, 1, 3], [-1, 1, 2]])
        text = "Mesh: faces: expected indices in [0, 0), got 1 face outside, the first is face 0: [0, 1, 2]"
        with refuses(MeshError, text):
            Mesh([], FACE)

    def test_nonfinite(self):
        vertices = np.concatenate([TRIANGLE, [[0, np.nan, 1], [np.inf, 0, 0]]])
        text = (
            "Mesh: vertices: expected finite numbers (or Mesh(..., nonfinite='drop')), "
            "got 2 that are not, the first is vertex 3: [0.0, nan, 1.0]"
        )
        with refuses(MeshError, text):
            Mesh(vertices, FACE)
        with refuses(ValueError, "Mesh: nonfinite: expected 'error' or 'drop', got 'ignore'"):
            Mesh(vertices, FACE, nonfinite="ignore")

    def test_nonfinite_drop(self):
        vertices = np.array([[np.nan, 0, 0], [0, 0, 0], [1, 0, 0], [0, np.inf, 0], [0, 1, 0]])
        mesh = Mesh(vertices, [[0, 1, 2], [1, 2, 4], [2, 3, 4]], nonfinite="drop")
        assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
        assert mesh.faces.tolist() == [[0, 1, 2]]

    def test_as_mesh(self):
        text = "Mesh: faces: expected (F, 3) ints, or one object with .vertices and .faces, got None and int"
        with refuses(TypeError, text):
            as_mesh(3)

    @pytest.mark.parametrize("tolerance", [-1.0, np.inf, np.nan])
    def test_weld(self, tolerance):
        with refuses(ValueError, f"weld: tolerance: expected a finite number of at least 0, got {tolerance!r}"):
            box().weld(tolerance)

    def test_with_vertices(self):
        with refuses(ValueError, "with_vertices: vertices: expected (8, 3) floats, got (3, 3) float32"):
            box().with_vertices(TRIANGLE)
        with pytest.raises(MeshError, match="finite"):
            box().with_vertices(np.full((8, 3), np.nan))


class TestLibraries:
    def test_torch(self):
        torch = pytest.importorskip("torch")
        vertices, faces = torch.tensor(TRIANGLE), torch.tensor(FACE).long()
        mesh = Mesh(vertices, faces)
        assert mesh.vertices is vertices and mesh.faces is mesh.faces
        assert mesh.vertices_array.ctypes.data == vertices.data_ptr()
        assert mesh.library.name == "torch"
        assert type(mesh.vertices_array) is np.ndarray
        assert isinstance(mesh.face_normals, torch.Tensor)
        assert mesh.face_normals.tolist() == [[0, 0, 1]]
        assert mesh.flipped().faces.tolist() == [[0, 2, 1]]
        assert isinstance(mesh.weld().vertices, torch.Tensor)
        assert Mesh(vertices.double(), faces).dtype == np.float64

    def test_a_mesh_refuses_to_be_used_after_its_tensor_has_changed(self):
        torch = pytest.importorskip("torch")
        vertices = torch.tensor(TRIANGLE)
        mesh = Mesh(vertices, FACE)
        assert mesh.area == 0.5 and mesh.topology.n_unique == 3
        vertices *= 2
        for use in (lambda: mesh.vertices_array, lambda: mesh.bvh, lambda: mesh.report(), lambda: mesh.flipped()):
            with pytest.raises(MeshError, match="^Mesh: vertices: expected the values the mesh was made of"):
                use()
        moved = mesh.with_vertices(vertices)
        assert moved.area == 2 and moved.topology.n_unique == 3

    def test_torch_vertices_with_numpy_faces(self):
        torch = pytest.importorskip("torch")
        mesh = Mesh(torch.tensor(TRIANGLE), FACE)
        assert isinstance(mesh.faces, torch.Tensor)
        assert mesh.faces is mesh.faces

    def test_torch_that_requires_grad(self):
        torch = pytest.importorskip("torch")
        vertices = torch.tensor(TRIANGLE, requires_grad=True)
        mesh = Mesh(vertices, FACE)
        assert mesh.vertices is vertices and mesh.tracker == "torch" and not mesh.detach().tracker
        assert mesh.face_areas.requires_grad and mesh.flipped().face_normals.requires_grad
        assert mesh.weld().vertices.requires_grad and mesh.copy().vertices.requires_grad
        with torch.no_grad():
            assert not mesh.tracker and not mesh.face_areas.requires_grad
        mesh.area.backward()
        assert vertices.grad.tolist() == [[-0.5, -0.5, 0], [0.5, 0, 0], [0, 0.5, 0]]

    def test_torch_nonfinite_drop(self):
        torch = pytest.importorskip("torch")
        mesh = Mesh(torch.tensor([[torch.nan, 0, 0], *TRIANGLE.tolist()]), [[1, 2, 3], [0, 1, 2]], nonfinite="drop")
        assert mesh.vertices.tolist() == TRIANGLE.tolist()
        assert isinstance(mesh.vertices, torch.Tensor)

    def test_jax(self):
        jax = pytest.importorskip("jax")
        vertices = jax.numpy.asarray(TRIANGLE)
        mesh = Mesh(vertices, FACE)
        assert (mesh.vertices == vertices).all()
        assert isinstance(mesh.faces, jax.Array)
        assert isinstance(mesh.vertex_normals, jax.Array)

    def test_cupy(self):
        cupy = pytest.importorskip("cupy")
        if not cupy.cuda.is_available():
            pytest.skip("no CUDA device here")
        mesh = Mesh(cupy.asarray(TRIANGLE), FACE)
        assert mesh.device == "cuda"
        assert isinstance(mesh.vertices_array, cupy.ndarray)
        assert isinstance(mesh.faces_array, cupy.ndarray)
        assert mesh.topology.n_boundary == 3
        assert isinstance(mesh.face_normals, cupy.ndarray)


class TestBox:
    def test_unreferenced_vertices_do_not_count(self):
        mesh = Mesh([[0, 0, 0], [2, 0, 0], [0, 4, 4], [99, 99, 99]], [[0, 1, 2]])
        assert mesh.bounds.tolist() == [[0, 0, 0], [2, 4, 4]]
        assert mesh.bounds.dtype == np.float64
        assert mesh.center.tolist() == [1, 2, 2]
        assert mesh.diagonal == 6

    def test_center_does_not_overflow(self):
        mesh = Mesh(np.array([[1.5e308, 0, 0], [1.7e308, 0, 0], [1.6e308, 1, 0]]), FACE)
        assert mesh.center[0] == pytest.approx(1.6e308)


class TestDerived:
    def test_flipped(self):
        mesh = icosphere(1)
        assert mesh.flipped().volume == pytest.approx(-mesh.volume)
        assert same(mesh.flipped().flipped(), mesh)
        np.testing.assert_array_equal(mesh.flipped().face_normals, -mesh.face_normals)

    def test_copy(self):
        mesh = box()
        mesh.topology  # noqa: B018
        copied = mesh.copy()
        assert same(copied, mesh)
        assert not np.shares_memory(copied.vertices_array, mesh.vertices_array)
        assert "topology" not in vars(copied)

    def test_weld_exact(self):
        mesh = icosphere(2)
        welded = soup(mesh).weld()
        assert (welded.n_vertices, welded.n_faces) == (mesh.n_vertices, mesh.n_faces)
        np.testing.assert_array_equal(welded.vertices_array[welded.faces_array], mesh.vertices_array[mesh.faces_array])

    def test_weld_tolerance(self):
        mesh = soup(icosphere(2))
        rng = np.random.default_rng(0)
        shaken = Mesh(mesh.vertices_array + rng.uniform(-1e-4, 1e-4, mesh.vertices_array.shape), mesh.faces_array)
        assert not shaken.is_closed
        welded = shaken.weld(1e-3)
        assert welded.is_closed
        assert welded.n_vertices == 162
        assert shaken.weld(0).n_vertices == shaken.n_vertices

    def test_weld_takes_the_lowest_index_and_follows_chains(self):
        mesh = Mesh([[9, 0, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 0, 0]], [[0, 1, 4]])
        assert mesh.weld(1.0).vertices.tolist() == [[9, 0, 0], [0, 0, 0]]
        assert mesh.weld(1.0).faces.tolist() == [[0, 1, 1]]
        assert mesh.weld(0.9).vertices.tolist() == [[9, 0, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0]]

    def test_with_vertices_keeps_the_topology(self):
        mesh = icosphere(1)
        moved = mesh.with_vertices(2 * mesh.vertices_array)
        assert moved.volume == pytest.approx(8 * mesh.volume, rel=1e-6)
        assert moved.topology.edge_twin is not None
        mesh.topology.edge_twin  # noqa: B018
        assert mesh.with_vertices(mesh.vertices_array).topology.edge_twin is mesh.topology.edge_twin

    def test_with_vertices_remembers_the_first_topology_over_many_steps(self):
        mesh = soup(box())
        moved = mesh
        for _ in range(3):
            moved = moved.with_vertices(2 * moved.vertices_array)
        assert moved._earlier_topology is mesh.topology
        assert moved.is_closed
        flat = moved.with_vertices(0 * moved.vertices_array)
        assert flat.topology.n_unique == 8

    def test_with_vertices_sees_cracks(self):
        mesh = soup(box())
        assert mesh.is_closed
        together = mesh.with_vertices(3 * mesh.vertices_array)
        assert together.is_closed
        apart = mesh.vertices_array.copy()
        apart[0] += 1
        assert not mesh.with_vertices(apart).is_closed

    def test_with_vertices_counts_flat_faces_anew(self):
        mesh = Mesh(TRIANGLE, FACE)
        assert mesh.topology.n_zero_area == 0
        assert mesh.with_vertices([[0, 0, 0], [1, 0, 0], [2, 0, 0]]).topology.n_zero_area == 1

    def test_components_and_loops(self):
        one, other = box(), grid(2, 2)
        both = Mesh(
            np.concatenate([one.vertices_array, other.vertices_array + 5]),
            np.concatenate([one.faces_array, other.faces_array + 8]),
        )
        n, labels = both.components()
        assert n == 2
        assert labels.tolist() == [0] * 12 + [1] * 8
        assert [len(loop) for loop in both.boundary_loops()] == [8]
        assert both.euler_characteristic == 3
        assert not both.is_closed
        assert both.is_oriented


class TestPython:
    @pytest.mark.parametrize("clone", [copy.deepcopy, copy.copy, lambda mesh: pickle.loads(pickle.dumps(mesh))])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_clones_carry_vertices_and_faces_only(self, clone, dtype):
        mesh = icosphere(1, dtype=dtype)
        assert mesh.is_closed
        assert mesh.vertex_normals is not None
        cloned = clone(mesh)
        assert same(cloned, mesh)
        assert cloned.dtype == dtype
        assert not {"topology", "vertex_normals"} & set(vars(cloned))
        assert not cloned.vertices_array.flags.writeable
        assert cloned.is_closed

    def test_pickle_torch(self):
        torch = pytest.importorskip("torch")
        mesh = pickle.loads(pickle.dumps(Mesh(torch.tensor(TRIANGLE), torch.tensor(FACE))))
        assert mesh.library.name == "torch"
        assert mesh.vertices.tolist() == TRIANGLE.tolist()

    def test_pickle_size_does_not_grow_with_use(self):
        mesh = icosphere(3)
        before = len(pickle.dumps(mesh))
        mesh.report()
        assert len(pickle.dumps(mesh)) == before

    def test_repr(self):
        mesh = Mesh(TRIANGLE, FACE)
        assert repr(mesh) == "Mesh(3 vertices, 1 face, float32)"
        assert not mesh.is_closed
        assert repr(mesh) == "Mesh(3 vertices, 1 face, float32, open: 3 boundary edges)"
        cube = box(dtype=np.float64)
        assert cube.is_closed
        assert repr(cube) == "Mesh(8 vertices, 12 faces, float64, closed)"
        assert repr(Mesh([[0, 0, 0]], [])) == "Mesh(1 vertex, 0 faces, float32)"

    def test_repr_of_the_bunny(self, shared_mesh):
        bunny = shared_mesh("bunny.obj")
        assert repr(bunny) == "Mesh(35947 vertices, 69451 faces, float32)"
        assert not bunny.is_closed
        assert repr(bunny) == "Mesh(35947 vertices, 69451 faces, float32, open: 223 boundary edges)"


class TestTensors:
    """What is computed once from a mesh that shares the memory of a tensor."""

    @pytest.mark.parametrize(
        "name", ["area", "volume", "face_normals", "vertex_normals", "bounds", "center", "diagonal", "is_closed", "bvh"]
    )
    def test_a_tensor_that_was_written_to(self, name):
        torch = pytest.importorskip("torch")
        vertices = torch.tensor(icosphere(1).vertices)
        mesh = Mesh(vertices, icosphere(1).faces)
        getattr(mesh, name)
        vertices *= 2
        with pytest.raises(MeshError, match="changed in place"):
            getattr(mesh, name)

    @pytest.mark.parametrize("name", ["float16", "bfloat16"])
    def test_a_tensor_of_a_small_type_that_was_written_to(self, name):
        torch = pytest.importorskip("torch")
        vertices = torch.tensor(icosphere(1).vertices, dtype=getattr(torch, name)).requires_grad_()
        mesh = Mesh(vertices, icosphere(1).faces)
        assert mesh.area.requires_grad
        with torch.no_grad():
            vertices.mul_(2)
        with pytest.raises(MeshError, match="changed in place"):
            assert mesh.area

    def test_a_tensor_whose_data_was_replaced(self):
        torch = pytest.importorskip("torch")
        vertices = torch.tensor(icosphere(1).vertices, requires_grad=True)
        mesh = Mesh(vertices, icosphere(1).faces)
        vertices.data = 2 * vertices.data
        with pytest.raises(MeshError, match="changed in place"):
            assert mesh.area

    def test_tensors_handed_out_may_be_written_to(self):
        torch = pytest.importorskip("torch")
        ball = icosphere(1)
        mesh = Mesh(torch.tensor(ball.vertices), torch.tensor(ball.faces))
        for name in ("faces", "face_normals", "face_areas"):
            assert getattr(mesh, name) is getattr(mesh, name)
            getattr(mesh, name).fill_(0)
            assert np.array_equal(getattr(mesh, name), getattr(ball, name))
        mesh.faces.fill_(0)
        assert same(mesh.with_vertices(mesh.vertices * 1), ball)

    def test_a_mesh_of_a_tape_refits_the_tree(self):
        mesh = icosphere(1)
        assert mesh.topology and mesh.bvh
        with Tape() as tape:
            moved = mesh.with_vertices(1.1 * tape.watch(mesh.vertices))
            assert moved.plain._earlier_bvh is mesh.bvh and moved.plain._earlier_topology is mesh.topology
