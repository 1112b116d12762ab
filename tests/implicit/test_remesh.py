"""Meshes made watertight, offsets and voxels."""

import numpy as np
import pytest

import geomkit as gk
from tests.implicit.samples import joined, moved, soup

NAMES = (
    "Offset1.obj", "boot.obj", "boxedSphere.stl", "boxframe.obj", "bunny.obj", "chair_model.obj", "cube_no_bottom.obj",
    "cubegrid.obj", "fan3.obj", "hourglass_ico.obj", "kitten.obj", "moebius.obj", "multibody.stl", "nefertiti.obj",
    "plane_holes.obj", "self_intersectA.obj", "shared.STL", "spot.obj", "spot_low.obj", "sword.obj", "torus.obj",
    "triple_vierbein.obj",
)  # fmt: skip
CLOSED = (
    "Offset1.obj", "boot.obj", "boxedSphere.stl", "boxframe.obj", "cubegrid.obj", "hourglass_ico.obj", "kitten.obj",
    "nefertiti.obj", "spot.obj", "spot_low.obj", "sword.obj", "torus.obj",
)  # fmt: skip


def spacing_of(mesh, resolution):
    """The spacing that leaves three of them free on both sides."""
    return float((mesh.bounds[1] - mesh.bounds[0]).max()) / (resolution - 7)


def watertight(mesh):
    return mesh.n_faces > 0 and mesh.is_closed and mesh.is_oriented


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value(dtype):
    ball = gk.shapes.icosphere(4, dtype=dtype)
    made = gk.remesh(ball, 48)
    assert made.dtype == dtype and watertight(made) and made.euler_characteristic == 2
    assert made.volume == pytest.approx(ball.volume, rel=5e-3)
    assert gk.hausdorff_distance(made, ball) < 0.1 * spacing_of(ball, 48)


@pytest.mark.parametrize("name", NAMES)
def test_real(name, shared_mesh):
    mesh = shared_mesh(name)
    made = gk.remesh(mesh, 64 if name in CLOSED else 32)
    assert watertight(made) and made.volume > 0
    if name in CLOSED:
        assert gk.hausdorff_distance(mesh, made, samples=20_000) < 1.5 * spacing_of(mesh, 64)


def test_defects():
    """Holes closed, overlaps merged, inside out turned, copies forgotten."""
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    two = joined(ball, moved(ball, [1.0, 0, 0]))
    for mesh, volume in (
        (gk.Mesh(ball.vertices, ball.faces[8:]), ball.volume),
        (soup(ball), ball.volume),
        (ball.flipped(), ball.volume),
        (gk.Mesh(ball.vertices, np.concatenate([ball.faces, ball.faces[:40]])), ball.volume),
        (two, 2 * ball.volume - np.pi / 12 * 5),
    ):
        made = gk.remesh(mesh, 40)
        assert watertight(made) and made.volume == pytest.approx(volume, rel=0.03)


def test_thin():
    """A sheet becomes a shell, a thin wall a thicker one, a thin gap a wider one; or they go."""
    sheet = gk.shapes.grid()
    shell = gk.remesh(sheet, 40)
    h = spacing_of(sheet, 40)
    assert watertight(shell) and shell.volume == pytest.approx(1.8 * h, rel=0.2)
    assert gk.hausdorff_distance(sheet, shell) < 1.5 * h
    assert gk.remesh(sheet, 40, thin="drop").n_faces == 0
    wall = moved(gk.shapes.box((0.8, 0.8, 0.2 / 33), dtype=np.float64), [0, 0, 0.5 / 33])
    assert gk.hausdorff_distance(wall, gk.remesh(wall, 40)) < 1.5 * spacing_of(wall, 40)
    block = gk.shapes.box((1, 1, 1), dtype=np.float64)
    hollow = joined(block, moved(wall, [0, 0, -0.5 / 33]).flipped())
    kept, dropped = (gk.remesh(hollow, 40, thin=thin) for thin in ("keep", "drop"))
    assert kept.components()[0] == 2 and watertight(kept)
    assert gk.hausdorff_distance(hollow, kept) < 1.5 * spacing_of(block, 40) < gk.hausdorff_distance(hollow, dropped)


@pytest.mark.parametrize(("wall", "gap"), [(0.5, 0.5), (0.3, 0.6), (0.6, 0.3), (0.3, 0.3), (0.2, 0.6)])
def test_thin_side_by_side(wall, gap):
    """What brings a wall back does not swallow the gap beside it."""
    plates = (gk.shapes.box((1, 1, wall / 41), dtype=np.float64) for _ in range(3))
    stack = joined(*(moved(plate, [0, 0, k * (wall + gap) / 41]) for k, plate in enumerate(plates)))
    made = gk.remesh(stack, 48)
    assert watertight(made) and gk.hausdorff_distance(stack, made) < 1.2 * spacing_of(stack, 48)


def test_thin_corners():
    """Corners are cut, without parts of their own in front of them."""
    cubes = joined(*(moved(gk.shapes.box(), [1.5 * k, 0, 0.01 * k]) for k in range(3)))
    made = gk.remesh(cubes, 96)
    assert made.components()[0] == 3 and made.euler_characteristic == 6


def doubled_square(x, z):
    """A square of two layers that look to opposite sides, its sides 0.6."""
    corners = np.array([[0, -0.3, 0], [0.6, -0.3, 0], [0.6, 0.3, 0], [0, 0.3, 0]]) + [x, 0, z]
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    return gk.Mesh(np.concatenate([corners, corners]), np.concatenate([faces, faces[:, ::-1] + 4]))


def test_thin_without_thickness():
    """A fin on a solid is kept though it encloses nothing; what lies within the solid is forgotten."""
    ball = gk.shapes.icosphere(3, dtype=np.float64)
    fin = joined(ball, doubled_square(0.9, 0.013))
    kept, dropped = (gk.remesh(fin, 48, thin=thin) for thin in ("keep", "drop"))
    assert watertight(kept) and kept.components()[0] == 1
    far = [gk.closest_point(made, fin.vertices).distance.max() for made in (kept, dropped)]
    assert far[0] < 1.5 * spacing_of(fin, 48) < far[1]
    assert np.array_equal(gk.remesh(joined(ball, doubled_square(-0.3, 0.013)), 48).faces, gk.remesh(ball, 48).faces)
    inverted = joined(ball, moved(gk.shapes.icosphere(2, 0.2, dtype=np.float64), [1.5, 0, 0]).flipped())
    assert gk.remesh(inverted, 48).components()[0] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_caps(dtype):
    """A hole is closed where the winding number is one half, not in steps of the grid."""
    ball = gk.shapes.icosphere(4, dtype=dtype)
    middle = ball.vertices[ball.faces].mean(axis=1)
    open_ball = gk.Mesh(ball.vertices, ball.faces[middle[:, 2] < 0.5])
    made = gk.remesh(open_ball, 64)
    assert watertight(made) and made.dtype == dtype and made.euler_characteristic == 2
    cap = made.vertices[gk.closest_point(open_ball, made.vertices).distance > 2 * spacing_of(open_ball, 64)]
    assert len(cap) > 1000 and np.abs(gk.winding_number(open_ball, cap) - 0.5).max() < 5e-3


def test_project():
    solid = gk.shapes.icosphere(1, dtype=np.float64)
    plain, projected = (gk.remesh(solid, 33, project=project) for project in (False, True))
    assert np.array_equal(plain.faces, projected.faces)
    off = [gk.closest_point(solid, made.vertices).distance.max() for made in (projected, plain)]
    assert off[0] < 1e-9 < off[1]


def test_offset():
    ball = gk.shapes.icosphere(4, dtype=np.float64)
    for distance in (0.5, 0.0, -0.5, -0.9):
        made = gk.offset(ball, distance, resolution=56)
        assert watertight(made)
        assert np.abs(np.linalg.norm(made.vertices, axis=1) - 1 - distance).max() < 0.01
    assert gk.offset(ball, -1.1, resolution=32).n_faces == 0
    torus = gk.shapes.torus(1.0, 0.4)
    assert gk.offset(torus, 0.7).euler_characteristic == 2 and gk.offset(torus, 0.1).euler_characteristic == 0
    sheet = gk.offset(gk.shapes.grid(), 0.25, resolution=40)
    assert watertight(sheet) and np.allclose(sheet.bounds, [[-0.75, -0.75, -0.25], [0.75, 0.75, 0.25]], atol=0.02)


def test_voxelize():
    box = gk.shapes.box((1, 2, 3), dtype=np.float64)
    voxels = {fill: gk.voxelize(box, 40, fill=fill) for fill in ("solid", "surface", "both")}
    solid = voxels["solid"]
    assert solid.values.dtype == bool and solid.values.sum() * solid.spacing**3 == pytest.approx(6, rel=0.2)
    place = np.argwhere(solid.values) * solid.spacing + solid.origin
    assert (np.abs(place) < [0.5, 1, 1.5]).all()
    assert np.array_equal(voxels["both"].values, solid.values | voxels["surface"].values)
    on = gk.sample_surface(box, 5000).points
    cell = np.round((on - solid.origin) / solid.spacing).astype(int)
    assert voxels["surface"].values[tuple(cell.T)].all()
    assert not voxels["surface"].values[tuple(np.array(solid.values.shape) // 2)]
    assert not gk.voxelize(gk.shapes.grid(), 16, fill="solid").values.any()


def test_lattice():
    """trimesh 72: no streaks; each row of a convex shape is filled in one run."""
    values = gk.voxelize(gk.shapes.icosphere(3), 48, fill="solid").values
    runs = (np.diff(np.pad(values, ((0, 0), (0, 0), (1, 1))).astype(int), axis=2) == 1).sum(axis=2)
    assert runs.max() == 1


@pytest.mark.parametrize("make", [gk.remesh, gk.voxelize])
def test_error(make):
    name, box = make.__name__, gk.shapes.box()
    with pytest.raises(gk.MeshError, match=f"^{name}: mesh: expected at least one face, got none"):
        make(gk.Mesh(np.zeros((3, 3)), np.zeros((0, 3), int)))
    for resolution in (15, 20.5, np.inf):
        with pytest.raises(ValueError, match=f"^{name}: resolution: expected an integer of at least 16"):
            make(box, resolution)
    with pytest.raises(ValueError, match=f"^{name}: sign: expected one of 'auto', 'parity'"):
        make(box, sign="none")
    with pytest.raises(gk.MeshError, match=f"^{name}: mesh: expected more than a point"):
        make(gk.Mesh(np.ones((3, 3)), [[0, 1, 2]]))


def test_error_of_options():
    box = gk.shapes.box()
    with pytest.raises(ValueError, match="^remesh: thin: expected one of 'keep', 'drop', got 'thick'"):
        gk.remesh(box, thin="thick")
    with pytest.raises(ValueError, match="^voxelize: fill: expected one of 'solid', 'surface', 'both'"):
        gk.voxelize(box, fill="all")
    with pytest.raises(ValueError, match="^offset: distance: expected a finite number, got inf"):
        gk.offset(box, np.inf)
    with pytest.raises(ValueError, match="^offset: resolution: expected an integer of at least 16, got 3"):
        gk.offset(box, 1, resolution=3)


def test_progress_and_library():
    calls = []
    gk.remesh(gk.shapes.torus(), 32, progress=lambda done, total: calls.append((done, total)))
    assert calls and calls[-1][0] == calls[-1][1]
    torch = pytest.importorskip("torch")
    box = gk.shapes.box()
    mesh = gk.Mesh(torch.tensor(box.vertices.copy()), torch.tensor(box.faces.copy()))
    assert isinstance(gk.remesh(mesh, 16).vertices, torch.Tensor)
    assert isinstance(gk.voxelize(mesh, 16).values, torch.Tensor)


def test_errors_name_the_function_called():
    with pytest.raises(ValueError, match="^remesh: resolution: expected a smaller number"):
        gk.remesh(gk.shapes.box(), 100_000)
    with pytest.raises(ValueError, match="^voxelize: sign: expected a method that has an inside, as fill is 'solid'"):
        gk.voxelize(gk.shapes.box(), 16, sign="unsigned", fill="solid")
