import numpy as np
import pytest

from geomkit.mesh import Mesh
from geomkit.mesh.report import report, sign_method, state
from geomkit.mesh.shapes import box, grid, icosphere

WINDING = "signs will use the winding number"
NOTHING = 'the mesh bounds no volume, so no sign is right: use sign="unsigned"'


def joined(*meshes):
    starts = np.cumsum([0] + [mesh.n_vertices for mesh in meshes])
    return Mesh(
        np.concatenate([mesh.vertices_array for mesh in meshes]),
        np.concatenate([mesh.faces_array + start for mesh, start in zip(meshes, starts[:-1], strict=True)]),
    )


def without(mesh, *faces):
    return Mesh(mesh.vertices_array, np.delete(mesh.faces_array, faces, axis=0))


def with_faces(mesh, faces):
    return Mesh(mesh.vertices_array, np.concatenate([mesh.faces_array, faces]))


def line(mesh, start):
    (found,) = [text for text in report(mesh).splitlines() if text.startswith(start)]
    return found


def test_a_sound_mesh_has_three_lines():
    assert report(box()).splitlines() == [
        "8 vertices, 12 faces, float32, 1 part",
        "size 1 x 1 x 1, area 6, volume 1",
        "closed: every edge has two faces that agree; signs will use pseudonormals",
    ]


def test_empty():
    assert report(Mesh([], [])) == "0 vertices, 0 faces, float32\nempty: distances to it are inf"
    assert report(Mesh([[0, 0, 0]], [])).startswith("1 vertex, 0 faces")


def test_open():
    assert line(without(icosphere(1), 0), "open") == f"open: 3 boundary edges in 1 loop; {WINDING}"
    assert line(grid(2, 2), "open") == f"open: 8 boundary edges in 1 loop; {NOTHING}"


def test_inside_out():
    assert line(box().flipped(), "inside out") == (
        "inside out: the volume is -1, so the faces look inwards and signs are inverted; use mesh.flipped()"
    )


def test_flipped():
    faces = icosphere(1).faces_array.copy()
    faces[0] = faces[0, ::-1]
    mesh = Mesh(icosphere(1).vertices_array, faces)
    assert line(mesh, "not closed") == f"not closed: no boundary, but faces disagree about the front; {WINDING}"
    assert line(mesh, "flipped") == (
        "flipped: 3 edges whose two faces pass it in the same direction; make the winding consistent "
        "(trimesh.repair.fix_winding) unless the surface has one side only"
    )


def test_non_manifold_edge():
    cube = box()
    mesh = joined(cube, Mesh(cube.vertices_array + np.float32([1, 1, 0]), cube.faces_array))
    assert line(mesh, "closed") == f"closed: every edge is passed equally often in both directions; {WINDING}"
    assert line(mesh, "non-manifold") == (
        "non-manifold: 1 edge with more than two faces; separate the sheets that meet there, or remove the inner ones"
    )
    assert line(mesh, "unwelded").startswith("unwelded: 2 vertices that share the position of another; ")


def test_non_manifold_point():
    cube = box()
    mesh = joined(cube, Mesh(cube.vertices_array + 1, cube.faces_array))
    assert line(mesh, "non-manifold") == (
        "non-manifold: 1 point where separate fans of faces touch; pseudonormals there mix the fans: "
        'compare with sign="winding" if points nearby matter'
    )
    assert line(mesh, "unwelded").startswith("unwelded: 1 vertex that shares the position of another; ")


def test_duplicates():
    sphere = icosphere(2)
    same = with_faces(sphere, sphere.faces_array[:2])
    assert line(same, "duplicate") == (
        "duplicate: 2 faces that repeat another with the same winding; "
        "remove the repeats, which count twice in volume and winding number"
    )
    double = with_faces(sphere, sphere.faces_array[:, ::-1])
    assert line(double, "double-sided") == (
        "double-sided: 320 pairs of faces with opposite winding, 100 % of all faces; "
        "they cancel in volume and winding number: remove one of each pair"
    )
    assert line(double, "closed").endswith(NOTHING)


def test_rounding_does_not_turn_double_sided_meshes_inside_out(shared_mesh):
    chair = shared_mesh("chair_model.obj")
    assert chair.volume == pytest.approx(0, abs=1e-15)
    assert "inside out" not in report(chair)


def test_degenerate():
    mesh = Mesh(
        np.concatenate([box().vertices_array, [[2, 0, 0], [3, 0, 0], [4, 0, 0]]]),
        np.concatenate([box().faces_array, [[8, 9, 10], [0, 0, 1]]]),
    )
    assert line(mesh, "collapsed").startswith("collapsed: 1 face with two corners at one point; ")
    assert line(mesh, "zero area").startswith("zero area: 1 face with three corners on a line; ")


def test_unreferenced():
    mesh = Mesh(np.concatenate([box().vertices_array, [[9, 9, 9]]]), box().faces_array)
    assert line(mesh, "unreferenced") == "unreferenced: 1 vertex that no face uses; harmless, they are ignored"


def test_bunny(shared_mesh):
    assert report(shared_mesh("bunny.obj")).splitlines()[2:] == [
        f"open: 223 boundary edges in 5 loops; {WINDING}",
        "unreferenced: 1113 vertices that no face uses; harmless, they are ignored",
    ]


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        (box(), "closed"),
        (grid(1, 1), "open: 4 boundary edges"),
        (Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2], [0, 1, 3]]),
         "open: 4 boundary edges, flipped faces at 1 edge"),
        (joined(box(), Mesh(box().vertices_array + np.float32([1, 1, 0]), box().faces_array)),
         "closed, not manifold: 1 edge with more than two faces"),
        (Mesh([], []), "closed"),
    ],
)  # fmt: skip
def test_state(mesh, words):
    assert state(mesh.topology) == words


@pytest.mark.parametrize(
    ("mesh", "method"),
    [
        (box(), "pseudonormal"),
        (box().flipped(), "pseudonormal"),
        (without(box(), 0), "winding"),
        (with_faces(box(), box().faces_array[:1]), "winding"),
        (with_faces(box(), box().faces_array[:, ::-1]), "unsigned"),
        (with_faces(icosphere(2), icosphere(2).faces_array[:5, ::-1]), "winding"),
        (grid(3, 3), "unsigned"),
        (Mesh([], []), "winding"),
    ],
)
def test_sign_method(mesh, method):
    assert sign_method(mesh) == method


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("spot.obj", "pseudonormal"),
        ("sword.obj", "pseudonormal"),
        ("boxedSphere.stl", "pseudonormal"),
        ("bunny.obj", "winding"),
        ("multibody.stl", "winding"),
        ("shared.STL", "winding"),
        ("chair_model.obj", "unsigned"),
    ],
)
def test_sign_method_of_real_meshes(shared_mesh, name, method):
    assert sign_method(shared_mesh(name)) == method
