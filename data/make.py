"""Makes the meshes of this folder: `python data/make.py [FOLDER]`."""

import sys
from pathlib import Path

import numpy as np

import geomkit as gk


def knot(sections: int = 200, sides: int = 20) -> gk.Mesh:
    """A trefoil: a tube about the curve ((2 + cos 3t) cos 2t, (2 + cos 3t) sin 2t, sin 3t). Closed, with one handle."""
    t = np.arange(sections) * (2 * np.pi / sections)
    ring = 2 + np.cos(3 * t)
    curve = np.stack([ring * np.cos(2 * t), ring * np.sin(2 * t), np.sin(3 * t)], axis=1)
    tangent = np.roll(curve, -1, axis=0) - np.roll(curve, 1, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    # The normal of the torus on which the curve lies, made perpendicular to the curve: a frame that closes.
    out = np.stack([np.cos(3 * t) * np.cos(2 * t), np.cos(3 * t) * np.sin(2 * t), np.sin(3 * t)], axis=1)
    out -= (out * tangent).sum(axis=1, keepdims=True) * tangent
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    side = np.cross(tangent, out)
    angle = np.arange(sides) * (2 * np.pi / sides)
    radius = 0.52
    tube = np.cos(angle)[None, :, None] * out[:, None] + np.sin(angle)[None, :, None] * side[:, None]
    vertices = (curve[:, None] + radius * tube).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(sections), np.arange(sides), indexing="ij")
    k, m = (i + 1) % sections, (j + 1) % sides
    corners = np.stack([i * sides + j, i * sides + m, k * sides + m, k * sides + j], axis=-1).reshape(-1, 4)
    faces = corners[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)
    return gk.Mesh(vertices.astype(np.float32), faces)


def open_knot() -> gk.Mesh:
    """The trefoil with a window cut out of its tube: open."""
    whole = knot()
    middle = whole.vertices_array[whole.faces_array].mean(axis=1)
    window = np.linalg.norm(middle - middle[middle[:, 0].argmax()], axis=1) < 0.6
    return gk.Mesh(whole.vertices_array, whole.faces_array[~window])


def boxes() -> gk.Mesh:
    """Two boxes that overlap, as one mesh: every edge is sound, and yet pseudonormals are wrong in the overlap."""
    one, other = gk.shapes.box((2, 1, 1)), gk.shapes.box((1, 2, 1))
    vertices = np.concatenate([one.vertices_array, other.vertices_array + np.float32([0.4, 0.3, 0.2])])
    return gk.Mesh(vertices, np.concatenate([one.faces_array, other.faces_array + one.n_vertices]))


def flipped() -> gk.Mesh:
    """A sphere, one face in ten of which looks inwards."""
    sphere = gk.shapes.icosphere(3)
    faces = sphere.faces_array.copy()
    faces[::10] = faces[::10, [0, 2, 1]]
    return gk.Mesh(sphere.vertices_array, faces)


def sheet() -> gk.Mesh:
    """A wavy sheet, every face of which is there twice, once each way: it encloses nothing."""
    flat = gk.shapes.grid(16, 16, (2.0, 2.0))
    vertices = flat.vertices_array.copy()
    vertices[:, 2] = 0.15 * np.sin(3 * vertices[:, 0]) * np.cos(2 * vertices[:, 1])
    return gk.Mesh(vertices, np.concatenate([flat.faces_array, flat.faces_array[:, [0, 2, 1]]]))


MESHES = {"knot.ply": knot, "knot_open.ply": open_knot, "boxes.obj": boxes, "flipped.ply": flipped, "sheet.off": sheet}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, make in MESHES.items():
        make().save(folder / name)
