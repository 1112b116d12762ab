"""Which sign on which defect: each kind of broken mesh, with the methods that must be right and the warnings."""

import numpy as np
import pytest

import geomkit as gk
from tests.implicit.samples import IN_BALL, METHODS, POINTS, ball, box, inside_of, joined, moved, soup
from tests.reference import around


def test_sign_clean_closed():
    for sign in ("auto", *METHODS):
        assert (inside_of(ball(), POINTS, sign) == IN_BALL).mean() > 0.999
    corners = box().vertices * 1.001
    assert not inside_of(box(), corners).any() and not inside_of(box(), corners, "winding").any()


def test_sign_unwelded():
    """A soup of triangles, as STL files are: auto welds."""
    for sign in ("auto", *METHODS):
        assert (inside_of(soup(ball()), POINTS, sign) == inside_of(ball(), POINTS)).all(), sign


def test_sign_open():
    """A hole is filled smoothly: inside stays inside away from it."""
    whole = ball()
    open_ = gk.Mesh(whole.vertices, whole.faces[whole.vertices[whole.faces].mean(1)[:, 2] < 0.9])
    assert not open_.is_closed
    far = POINTS[:, 2] < 0.7
    for sign in ("auto", "winding"):
        assert (inside_of(open_, POINTS, sign) == inside_of(whole, POINTS))[far].all()


def test_sign_hemisphere():
    """An open half ball has a smooth field and no stray inside points (trimesh 1031)."""
    whole = ball()
    half = gk.Mesh(whole.vertices, whole.faces[whole.vertices[whole.faces].mean(1)[:, 2] > 0])
    points = np.random.default_rng(2).uniform(-2, 2, (4000, 3))
    inside = inside_of(half, points)
    assert inside.any()
    assert np.linalg.norm(points[inside], axis=1).max() < 1 and points[inside, 2].min() > -0.35


def test_sign_some_flipped_faces():
    """A few flipped faces: parity does not care, the winding number dips only beside them."""
    whole = ball()
    faces = whole.faces.copy()
    flipped = np.random.default_rng(0).choice(len(faces), 12, replace=False)
    faces[flipped] = faces[flipped][:, [0, 2, 1]]
    mesh = gk.Mesh(whole.vertices, faces)
    assert (inside_of(mesh, POINTS, "parity") == inside_of(whole, POINTS)).all()
    away = np.abs(np.linalg.norm(POINTS, axis=1) - 1) > 0.2
    for sign in ("auto", "winding"):
        assert (inside_of(mesh, POINTS, sign) == inside_of(whole, POINTS))[away].all()


def test_sign_inside_out():
    """All faces flipped: the sign is inverted, as asked for, and a warning says so (newton 2406)."""
    mesh = ball().flipped()
    with pytest.warns(gk.SignWarning, match="the faces look inwards, so signs are inverted"):
        d = gk.signed_distance(mesh, POINTS)
    assert np.allclose(d, -gk.signed_distance(ball(), POINTS), rtol=1e-14)
    assert np.array_equal(gk.signed_distance(mesh.flipped(), POINTS), gk.signed_distance(ball(), POINTS))


def test_sign_inside_out_and_open():
    whole = ball()
    mesh = gk.Mesh(whole.vertices, whole.faces[:-40]).flipped()
    with pytest.warns(gk.SignWarning, match="the faces look inwards, so nothing is inside"):
        assert (gk.signed_distance(mesh, POINTS) > 0).all()


def test_sign_overlapping_shells():
    """Two balls that overlap are inside where either is: no hole where both are (trimesh 1416)."""
    mesh = joined(moved(ball(), [-0.5, 0, 0]), moved(ball(), [0.5, 0, 0]))
    assert mesh.topology.is_closed_manifold
    points = POINTS * [1.4, 1, 1]
    expected = np.minimum(*(np.linalg.norm(points - [x, 0, 0], axis=1) for x in (-0.5, 0.5))) < 1
    clear = np.abs(np.minimum(*(np.linalg.norm(points - [x, 0, 0], axis=1) for x in (-0.5, 0.5))) - 1) > 0.02
    for sign in ("auto", "winding"):
        assert (inside_of(mesh, points, sign) == expected)[clear].all()
    assert inside_of(mesh, [[0, 0, 0]]).all()
    assert not inside_of(mesh, [[0.0, 0.0, 0.0]], "parity").any()


def test_sign_self_intersecting(shared_mesh):
    mesh = shared_mesh("self_intersectA.obj")
    points = around(mesh, 1000)
    exact = gk.winding_number(mesh, points, method="exact")
    clear = np.abs(exact - 0.5) > 0.01
    assert (inside_of(mesh, points) == (exact > 0.5))[clear].all()


def test_sign_duplicate_faces():
    """Faces there twice with the same winding: twice around is inside too."""
    mesh = gk.Mesh(ball().vertices, np.concatenate([ball().faces, ball().faces[::2]]))
    for sign in ("auto", "winding"):
        assert (inside_of(mesh, POINTS, sign) == inside_of(ball(), POINTS)).all()


def test_sign_double_sided():
    """Every face with its reverse: nothing is enclosed, a warning says so (libigl 644)."""
    mesh = gk.Mesh(ball().vertices, np.concatenate([ball().faces, ball().faces[:, ::-1]]))
    with pytest.warns(gk.SignWarning, match="the mesh encloses no volume"):
        assert (gk.signed_distance(mesh, POINTS) >= 0).all()
    with pytest.warns(gk.SignWarning, match="contains: the mesh encloses no volume"):
        assert not gk.contains(mesh, POINTS).any()


def test_sign_half_double_sided():
    """A cube with reversed copies of half its faces confuses the winding number: a warning (libigl 644)."""
    mesh = gk.Mesh(box().vertices, np.concatenate([box().faces, box().faces[:6, ::-1]]))
    with pytest.warns(gk.SignWarning):
        gk.signed_distance(mesh, POINTS)


def test_sign_chair(shared_mesh):
    with pytest.warns(gk.SignWarning, match="encloses no volume"):
        assert (gk.signed_distance(shared_mesh("chair_model.obj"), [[0, 0, 0]]) >= 0).all()


def test_sign_non_manifold_edge():
    """Two cubes that share an edge."""
    mesh = joined(box(), moved(box(), [1, 1, 0])).weld()
    assert mesh.topology.n_non_manifold == 1
    points = np.array([[0, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0.49, 0.49, 0.2], [0.51, 0.49, 0], [0.5, 0.5, 0.7]])
    for sign in ("auto", "winding", "parity"):
        assert inside_of(mesh, points, sign).tolist() == [True, True, False, False, True, False, False]


def test_sign_non_manifold_vertex(shared_mesh):
    """Two tetrahedra that touch at one vertex."""
    mesh = shared_mesh("hourglass_ico.obj", dtype=np.float64)
    points = around(mesh, 500)
    exact = gk.winding_number(mesh, points, method="exact")
    clear = np.abs(exact - 0.5) > 0.01
    for sign in ("auto", "winding"):
        assert (inside_of(mesh, points, sign) == (exact > 0.5))[clear].all()


def test_sign_cavity():
    """A box with a box cut out of it: the cavity is outside (trimesh 2534)."""
    mesh = joined(box(), box(0.1).flipped())
    for sign in ("auto", *METHODS):
        assert inside_of(mesh, [[0, 0, 0], [0.2, 0, 0], [0.6, 0, 0]], sign).tolist() == [False, True, False], sign
        assert gk.contains(mesh, [[0, 0, 0], [0.2, 0, 0]], sign=sign).tolist() == [False, True]


def test_sign_nested_shells():
    """Layers in one another, all outward: inside any is inside (momentum 1035)."""
    mesh = joined(*(box(size) for size in (1.0, 0.8, 0.6, 0.4)))
    points = np.array([[x, 0.01, 0.02] for x in (0, 0.25, 0.35, 0.45, 0.55)])
    for sign in ("auto", "winding"):
        assert inside_of(mesh, points, sign).tolist() == [True, True, True, True, False]


def test_sign_thin_sheet():
    """Two triangles, a sheet with a hole, a plate without thickness: no negatives, and a warning (mesh_to_sdf 5)."""
    sheet = gk.shapes.grid(1, 1, dtype=np.float64)
    wide = gk.shapes.grid(3, 3, dtype=np.float64)
    middle = np.abs(wide.vertices[wide.faces].mean(1)[:, :2]).max(1) > 0.17
    plate = gk.Mesh(sheet.vertices, np.concatenate([sheet.faces, sheet.faces[:, ::-1]]))
    for mesh in (sheet, gk.Mesh(wide.vertices, wide.faces[middle]), plate):
        with pytest.warns(gk.SignWarning, match="encloses no volume"):
            assert (gk.signed_distance(mesh, POINTS) >= 0).all()


def test_sign_double_walled_box():
    """An open box with walls of finite thickness, closed as a surface: its cavity is outside (point-cloud-utils 97)."""
    outer = gk.shapes.box((1, 1, 1), dtype=np.float64)
    lid = (outer.vertices[outer.faces][:, :, 2] == 0.5).all(1)
    inner = gk.Mesh(outer.vertices * [0.9, 0.9, 0.95] + [0, 0, 0.025], outer.faces[~lid]).flipped()
    rim_outer, rim_inner = (
        m.vertices[m.boundary_loops()[0]] for m in (gk.Mesh(outer.vertices, outer.faces[~lid]), inner)
    )
    order = [int(np.argmin(np.linalg.norm(rim_inner - p, axis=1))) for p in rim_outer]
    quads = np.concatenate([rim_outer, rim_inner[order]])
    rim = [f for k in range(4) for f in ([k, (k + 1) % 4, 4 + k], [(k + 1) % 4, 4 + (k + 1) % 4, 4 + k])]
    rim = gk.Mesh(quads, rim)
    rim = rim if rim.face_normals[0, 2] > 0 else rim.flipped()
    mesh = joined(gk.Mesh(outer.vertices, outer.faces[~lid]), inner, rim)
    assert mesh.is_closed
    points = [[0, 0, 0], [0.475, 0, 0], [0, 0, -0.475], [0, 0, 0.4], [0.6, 0, 0]]
    for sign in ("auto", "winding", "parity"):
        assert inside_of(mesh, points, sign).tolist() == [False, True, True, False, False]


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e8, 1e15, 1e30])
def test_sign_far_away(distance):
    """Far away all faces are equally near, to rounding, but outside is outside; the winding number is a number."""
    directions = np.random.default_rng(0).normal(size=(2000, 3))
    points = distance * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    for dtype in (np.float32, np.float64):
        mesh = gk.shapes.torus(dtype=dtype)
        for sign in ("auto", *METHODS):
            assert (gk.signed_distance(mesh, points, sign=sign) > 0).all()
            assert not gk.contains(mesh, points, sign=sign).any()
        assert (np.abs(gk.winding_number(mesh, points)) < 1e-3).all()


@pytest.mark.parametrize("radius", [0.2, 0.05, 0.01])
def test_sign_small_parts(radius):
    """A small ball inside out beside a large one, and one half sunk in it: auto looks at every part."""
    small = gk.shapes.icosphere(3, radius, dtype=np.float64)
    beside = joined(ball(), moved(small, [1.2, 0, 0]).flipped())
    around = np.array([1.2, 0, 0]) + 1.5 * radius * np.random.default_rng(0).normal(size=(500, 3))
    assert not inside_of(beside, around[np.linalg.norm(around, axis=1) > 1.02]).any()
    sunk = joined(ball(), moved(small, [1, 0, 0]))
    points = np.array([1, 0, 0]) + 1.5 * radius * np.random.default_rng(1).normal(size=(500, 3))
    exact = gk.winding_number(sunk, points, method="exact")
    assert (inside_of(sunk, points) == (exact > 0.5)).all()


def test_sign_does_not_depend_on_the_others(shared_mesh):
    """A point's sign is the same alone and among others, beside slivers too."""
    mesh = shared_mesh("Offset1.obj")
    points = around(mesh, 500)
    together = gk.signed_distance(mesh, points) < 0
    assert all((gk.signed_distance(mesh, points[i : i + 1])[0] < 0) == together[i] for i in range(0, 1000, 7))


def test_sign_flattened():
    """Meshes without volume or without area: unsigned, with a warning, and the report says so."""
    points = np.random.default_rng(0).normal(size=(20, 3))
    whole = ball(2)
    for factor in ([1, 1, 0], [1, 0, 0], [0, 0, 0]):
        flat = whole.with_vertices(whole.vertices * factor)
        with pytest.warns(gk.SignWarning, match="encloses no volume"):
            assert (gk.signed_distance(flat, points) >= 0).all()
        assert "bounds no volume" in flat.report()
