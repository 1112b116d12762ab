import numpy as np
import pytest

from geomkit.mesh import Mesh, Topology, topology
from geomkit.mesh.shapes import box, cylinder, grid, icosphere, torus

TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
SIDES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)


def census(vertices, faces):
    return Mesh(vertices, faces).topology


def soup(mesh):
    return mesh.vertices_array[mesh.faces_array.ravel()], np.arange(3 * mesh.n_faces, dtype=np.int32).reshape(-1, 3)


# The rows of the table of real meshes: boundary edges, edges of more than two faces, edges with two faces in the same
# direction, repeated faces of the same winding, pairs of opposite winding; parts. Where the table is silent about a
# column, the value is 0 or follows from the shape, with three exceptions:
# - boxframe and Offset1 have coincident faces and edges of four faces once vertices are welded by position, in float32;
# - every face of the chair has a double, so that every manifold edge has four faces; eight faces are there four times;
# - the table's "flip 3" of triple_vierbein leaves out its edges of more than two faces, and so do we.
TABLE = {
    "spot.obj": (0, 0, 0, 0, 0, 1),
    "spot_low.obj": (0, 0, 0, 0, 0, 1),
    "nefertiti.obj": (0, 0, 0, 0, 0, 1),
    "torus.obj": (0, 0, 0, 0, 0, 1),
    "cube_no_bottom.obj": (8, 0, 0, 0, 0, 1),
    "sword.obj": (0, 0, 0, 0, 0, 1),
    "boot.obj": (0, 0, 0, 0, 0, 1),
    "plane_holes.obj": (341, 0, 0, 0, 0, 1),
    "moebius.obj": (112, 0, 4, 0, 0, 1),
    "hourglass_ico.obj": (0, 0, 0, 0, 0, 1),
    "fan3.obj": (6, 1, 0, 0, 0, 1),
    "triple_vierbein.obj": (60, 20, 3, 0, 0, 1),
    "boxframe.obj": (0, 22, 0, 0, 10, 1),
    "cubegrid.obj": (0, 0, 0, 0, 0, 81),
    "boxedSphere.stl": (0, 0, 0, 0, 0, 2),
    "self_intersectA.obj": (0, 0, 0, 0, 0, 1),
    "Offset1.obj": (0, 26, 0, 0, 11, 39),
    "chair_model.obj": (0, 9518, 0, 8, 6378, 3),
    "multibody.stl": (0, 0, 12, 0, 0, 2),
    "shared.STL": (0, 1, 0, 0, 0, 1),
    "empty.stl": (0, 0, 0, 0, 0, 0),
    "kitten.obj": (0, 0, 0, 0, 0, 1),
    "bunny.obj": (223, 0, 0, 0, 0, 1),
}


@pytest.mark.parametrize("name", TABLE)
def test_real_meshes(shared_mesh, name):
    t = shared_mesh(name).topology
    duplicates = (t.n_duplicate_same, t.n_duplicate_opposite)
    assert (t.n_boundary, t.n_non_manifold, t.n_inconsistent, *duplicates, t.components[0]) == TABLE[name]


@pytest.mark.parametrize(
    ("name", "genus"), [("spot.obj", 0), ("torus.obj", 1), ("boot.obj", 12), ("kitten.obj", 1), ("sword.obj", 0)]
)
def test_real_genus(shared_mesh, name, genus):
    assert shared_mesh(name).topology.genus == genus


def test_real_oddities(shared_mesh):
    assert shared_mesh("boxframe.obj").topology.n_zero_area == 56
    assert shared_mesh("bunny.obj").topology.n_unreferenced == 1113
    assert len(shared_mesh("bunny.obj").boundary_loops()) == 5
    assert len(shared_mesh("moebius.obj").boundary_loops()) == 1
    assert len(shared_mesh("plane_holes.obj").boundary_loops()) == 27
    hourglass = shared_mesh("hourglass_ico.obj").topology
    assert hourglass.is_closed_manifold
    assert hourglass.n_non_manifold_vertices == 1
    assert hourglass.genus is None
    cubes = shared_mesh("shared.STL").topology
    assert cubes.is_closed
    assert not cubes.is_closed_manifold
    assert not shared_mesh("multibody.stl").topology.is_closed


class TestEuler:
    @pytest.mark.parametrize(
        ("mesh", "euler", "genus"),
        [(icosphere(2), 2, 0), (box(), 2, 0), (torus(), 0, 1), (cylinder(), 2, 0), (grid(3, 4), 1, None),
         (cylinder(caps=False), 0, None)],
    )  # fmt: skip
    def test_value(self, mesh, euler, genus):
        assert mesh.euler_characteristic == euler
        assert mesh.topology.genus == genus
        assert Mesh(*soup(mesh)).euler_characteristic == euler

    def test_closed_triangulations_have_three_half_edges_a_face(self):
        t = icosphere(3).topology
        assert 2 * t.n_edges == 3 * 1280
        assert t.is_closed_manifold
        assert t.is_oriented


class TestWeld:
    def test_numbers_positions_by_first_appearance(self):
        t = census([[1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]], [[0, 1, 3], [2, 3, 4]])
        assert t.representative.tolist() == [0, 1, 0, 3, 1]
        assert t.weld.tolist() == [0, 1, 0, 2, 1]
        assert t.unique_vertices.tolist() == [0, 1, 3]
        assert t.welded_faces.tolist() == [[0, 1, 2], [0, 2, 1]]
        assert t.n_unique == 3
        assert not t.is_welded

    def test_zeros_of_both_signs_are_one_position(self):
        assert census([[0.0, 0, 0], [-0.0, 0, -0.0], [1, 0, 0]], [[0, 1, 2]]).representative.tolist() == [0, 0, 2]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_neighbouring_floats_are_two_positions(self, dtype):
        vertices = np.array([[1, 0, 0], [np.nextafter(dtype(1), dtype(2)), 0, 0], [1, 0, 0]], dtype)
        assert census(vertices, [[0, 1, 2]]).representative.tolist() == [0, 1, 0]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_against_numpy_unique(self, dtype):
        rng = np.random.default_rng(1)
        vertices = rng.integers(-3, 4, (5000, 3)).astype(dtype)
        _, first, inverse = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
        t = Topology(vertices, np.zeros((0, 3), np.int32))
        np.testing.assert_array_equal(t.representative, first[inverse.ravel()])

    def test_colliding_hashes_are_told_apart(self, monkeypatch):
        rng = np.random.default_rng(2)
        vertices = rng.integers(0, 5, (500, 3)).astype(np.float32)
        expected = Topology(vertices, SIDES).representative
        monkeypatch.setattr(topology, "_position_hash", lambda v: np.zeros(len(v), np.uint64))
        np.testing.assert_array_equal(Topology(vertices, SIDES).representative, expected)

    @pytest.mark.parametrize("mesh", [icosphere(2), torus(), grid(3, 3)])
    def test_a_soup_has_the_census_of_its_mesh(self, mesh):
        t, s = mesh.topology, Mesh(*soup(mesh)).topology
        for name in ("n_unique", "n_edges", "n_boundary", "is_closed", "is_closed_manifold", "n_non_manifold_vertices"):
            assert getattr(s, name) == getattr(t, name), name
        np.testing.assert_array_equal(s.edge_twin, t.edge_twin)


class TestEdges:
    def test_one_triangle(self):
        t = census(TETRAHEDRON, SIDES[:1])
        assert (t.n_edges, t.n_boundary, t.n_non_manifold, t.n_inconsistent) == (3, 3, 0, 0)
        assert (t.n_referenced, t.n_unreferenced) == (3, 1)
        assert not t.is_closed
        assert t.is_oriented
        assert t.edge_twin.tolist() == [[-1, -1, -1]]
        assert [loop.tolist() for loop in t.boundary_loops] == [[0, 2, 1]]

    def test_empty(self):
        t = census([], [])
        assert (t.n_edges, t.n_boundary, t.n_degenerate, t.n_duplicate_same, t.euler_characteristic) == (0, 0, 0, 0, 0)
        assert t.is_closed
        assert t.edge_twin.shape == (0, 3)
        assert t.components[1].shape == (0,)
        assert t.n_non_manifold_vertices == 0
        assert t.vertex_faces[0].tolist() == [0]
        assert t.unbalanced_edges()[0].shape == (0, 2)
        assert t.genus is None

    def test_flipped_face(self):
        faces = SIDES.copy()
        faces[3] = faces[3, ::-1]
        t = census(TETRAHEDRON, faces)
        assert (t.n_boundary, t.n_inconsistent) == (0, 3)
        assert not t.is_closed
        assert not t.is_oriented

    def test_two_tetrahedra_on_one_edge(self):
        vertices = np.concatenate([TETRAHEDRON, TETRAHEDRON * [1, -1, -1]])
        faces = np.concatenate([SIDES, SIDES + 4])
        t = census(vertices, faces)
        assert t.n_non_manifold == 1
        assert t.is_closed
        assert not t.is_closed_manifold
        assert t.is_oriented
        assert t.n_non_manifold_vertices == 0
        assert t.components[0] == 1

    def test_two_tetrahedra_at_one_point(self):
        t = census(np.concatenate([TETRAHEDRON, -TETRAHEDRON]), np.concatenate([SIDES, SIDES[:, ::-1] + 4]))
        assert t.n_non_manifold == 0
        assert t.is_closed_manifold
        assert t.n_non_manifold_vertices == 1

    def test_three_faces_on_one_edge(self):
        t = census([[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0]], [[0, 1, 2], [0, 1, 3], [1, 0, 4]])
        assert (t.n_boundary, t.n_non_manifold, t.n_inconsistent) == (6, 1, 0)
        edges, multiplicity = t.unbalanced_edges()
        assert multiplicity[(edges == [0, 1]).all(axis=1)].tolist() == [1]

    def test_collapsed_faces_take_no_part(self):
        faces = np.concatenate([SIDES, [[0, 0, 1], [2, 2, 2]]])
        t = census(TETRAHEDRON, faces)
        assert t.collapsed.tolist() == [False] * 4 + [True] * 2
        assert (t.n_collapsed, t.n_zero_area, t.n_degenerate) == (2, 0, 2)
        assert t.is_closed_manifold
        assert t.edge_twin[4:].tolist() == [[-1] * 3] * 2
        assert (t.edge_twin[:4] >= 0).all()
        assert t.euler_characteristic == 2
        assert t.n_non_manifold_vertices == 0

    @pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_zero_area(self, scale, dtype):
        vertices = np.array([[0, 0, 0], [1, 1, 1], [3, 3, 3], [0, 1, 0]], dtype) * dtype(scale)
        t = census(vertices, [[0, 1, 2], [0, 1, 3]])
        assert (t.n_collapsed, t.n_zero_area) == (0, 1)

    def test_a_thin_needle_is_not_of_zero_area(self):
        assert census([[0, 0, 0], [1, 0, 0], [0.5, 1e-6, 0]], [[0, 1, 2]]).n_zero_area == 0

    def test_twins_point_back(self):
        mesh = torus()
        twin = mesh.topology.edge_twin
        assert twin.dtype == np.int32
        flat = twin.ravel()
        np.testing.assert_array_equal(flat[flat], np.arange(flat.size))
        tail, head = mesh.faces_array.ravel(), mesh.faces_array[:, [1, 2, 0]].ravel()
        np.testing.assert_array_equal(tail[flat], head)
        np.testing.assert_array_equal(head[flat], tail)

    @pytest.mark.parametrize("keep", [None, np.arange(320) % 7 > 0])
    def test_keys_too_wide_for_one_integer(self, keep):
        mesh = icosphere(2)
        far = topology._EdgeTable(mesh.faces_array, 2**31 - 1, keep)
        near = topology._EdgeTable(mesh.faces_array, mesh.n_vertices, keep)
        for name in ("uses", "net", "codes", "starts", "backwards"):
            np.testing.assert_array_equal(getattr(far, name), getattr(near, name))
        np.testing.assert_array_equal(far.ends(np.arange(5)), near.ends(np.arange(5)))


class TestUnbalancedEdges:
    def test_a_closed_mesh_has_none(self):
        edges, multiplicity = icosphere(1).topology.unbalanced_edges()
        assert edges.shape == (0, 2)
        assert edges.dtype == multiplicity.dtype == np.int32

    def test_directions_follow_the_faces(self):
        edges, multiplicity = census(TETRAHEDRON, [[0, 1, 2]]).unbalanced_edges()
        assert sorted(map(tuple, edges.tolist())) == [(0, 1), (1, 2), (2, 0)]
        assert multiplicity.tolist() == [1, 1, 1]

    def test_multiplicity(self):
        edges, multiplicity = census(TETRAHEDRON, [[0, 1, 2]] * 3).unbalanced_edges()
        assert len(edges) == 3
        assert multiplicity.tolist() == [3, 3, 3]

    def test_index_and_position(self):
        vertices, faces = soup(grid(2, 2))
        t = census(vertices, faces)
        assert len(t.unbalanced_edges(by="index")[0]) == 24
        edges, _ = t.unbalanced_edges(by="position")
        assert len(edges) == 8
        assert np.isin(edges, t.unique_vertices).all()

    def test_the_boundary_of_a_chain_has_no_boundary(self):
        rng = np.random.default_rng(3)
        t = census(rng.normal(size=(30, 3)), rng.permuted(np.tile(np.arange(30), (200, 1)), axis=1)[:, :3])
        edges, multiplicity = t.unbalanced_edges()
        at = np.bincount(edges[:, 1], multiplicity, 30) - np.bincount(edges[:, 0], multiplicity, 30)
        assert not at.any()

    def test_against_a_dictionary(self):
        rng = np.random.default_rng(4)
        faces = rng.integers(0, 12, (300, 3))
        net = {}
        for face in faces.tolist():
            for tail, head in zip(face, face[1:] + face[:1], strict=True):
                net[tail, head] = net.get((tail, head), 0) + 1
                net[head, tail] = net.get((head, tail), 0) - 1
        expected = {edge: n for edge, n in net.items() if n > 0}
        edges, multiplicity = census(rng.normal(size=(12, 3)), faces).unbalanced_edges()
        assert dict(zip(map(tuple, edges.tolist()), multiplicity.tolist(), strict=True)) == expected

    def test_error(self):
        with pytest.raises(ValueError, match="^unbalanced_edges: by: expected 'index' or 'position', got 'name'$"):
            box().topology.unbalanced_edges(by="name")


class TestDuplicates:
    @pytest.mark.parametrize(
        ("faces", "same", "opposite"),
        [
            ([[0, 1, 2], [1, 2, 0]], 1, 0),
            ([[0, 1, 2], [0, 2, 1]], 0, 1),
            ([[0, 1, 2], [2, 1, 0], [2, 0, 1]], 1, 1),
            ([[0, 1, 2]] * 3 + [[1, 0, 2]] * 2, 3, 2),
            ([[0, 1, 2], [0, 1, 3]], 0, 0),
            ([[0, 0, 1], [0, 1, 0]], 0, 0),
        ],
    )
    def test_value(self, faces, same, opposite):
        t = census(TETRAHEDRON, faces)
        assert (t.n_duplicate_same, t.n_duplicate_opposite) == (same, opposite)

    def test_large_indices_do_not_collide(self):
        far = 2**22
        t = Topology(np.zeros((0, 3), np.float32), SIDES)
        t.__dict__["welded_faces"] = np.array([[0, 1, far], [0, 2, far - 2**21], [far, 0, 1]], np.int32)
        t.__dict__["collapsed"] = np.zeros(3, bool)
        assert (t.n_duplicate_same, t.n_duplicate_opposite) == (1, 0)


class TestBoundaryLoops:
    def test_loops_have_the_surface_to_the_left(self):
        mesh = grid(1, 1)
        (loop,) = mesh.boundary_loops()
        assert loop.dtype == np.int32
        rim = mesh.vertices_array[loop]
        x, y = rim[:, 0], rim[:, 1]
        assert (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2 == pytest.approx(1)

    def test_a_tube_has_two(self):
        loops = cylinder(sections=7, caps=False).boundary_loops()
        assert [sorted(loop.tolist()) for loop in loops] == [list(range(7)), list(range(7, 14))]

    def test_holes_that_touch_are_two_loops(self):
        mesh = grid(4, 4)
        cell = np.arange(32) // 2
        loops = Mesh(mesh.vertices_array, mesh.faces_array[~np.isin(cell, [5, 10])]).boundary_loops()
        assert sorted(map(len, loops)) == [4, 4, 16]
        for loop in loops:
            assert len(set(loop.tolist())) == len(loop)

    def test_edges_of_loops_are_the_boundary(self):
        mesh = Mesh(*soup(grid(3, 2)))
        (loop,) = mesh.boundary_loops()
        edges, _ = mesh.topology.unbalanced_edges(by="position")
        walked = zip(loop.tolist(), np.roll(loop, -1).tolist(), strict=True)
        assert set(walked) == set(map(tuple, edges.tolist()))

    def test_two_triangles_that_disagree(self):
        assert [len(loop) for loop in census(TETRAHEDRON, [[0, 1, 2], [0, 1, 3]]).boundary_loops] == [4]


class TestVertexFaces:
    def test_value(self):
        offsets, corners = Mesh(TETRAHEDRON, SIDES[:2]).topology.vertex_faces
        assert offsets.tolist() == [0, 2, 4, 5, 6]
        assert corners.tolist() == [0, 3, 2, 4, 1, 5]
        assert offsets.dtype == corners.dtype == np.int32

    def test_every_corner_once_in_order(self):
        mesh = icosphere(2)
        offsets, corners = mesh.topology.vertex_faces
        vertex = np.repeat(np.arange(mesh.n_vertices), np.diff(offsets))
        np.testing.assert_array_equal(mesh.faces_array.ravel()[corners], vertex)
        np.testing.assert_array_equal(np.lexsort([corners, vertex]), np.arange(len(corners)))


def test_components_are_numbered_by_first_face():
    vertices = np.concatenate([TETRAHEDRON, TETRAHEDRON + 5])
    n, labels = census(vertices, np.concatenate([SIDES[:2] + 4, SIDES[:1], SIDES[2:3] + 4])).components
    assert n == 2
    assert labels.tolist() == [0, 0, 1, 0]
    assert labels.dtype == np.int32


def test_faces_that_touch_in_a_point_are_one_component():
    assert census(np.concatenate([TETRAHEDRON, -TETRAHEDRON]), np.concatenate([SIDES, SIDES + 4])).components[0] == 1
