"""Textures drawn from what a surface looks like, and that no seam shows."""

import re

import numpy as np
import pytest

import geomkit as gk
from geomkit.render.texture import Pyramid


def sheet(dtype=np.float64):
    """A square of two triangles whose uv fills the texture."""
    mesh = gk.Mesh(np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0]], dtype), [[0, 1, 2], [0, 2, 3]])
    return mesh, np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype)


def waves(points):
    """Colours that vary over some tenths of a unit sphere."""
    return 0.5 + 0.2 * np.sin(4 * points) + 0.2 * np.cos(3 * points[:, [1, 2, 0]])


def lookups_beside_edges(found, image, inset=1e-3):
    """What bilinear lookups give at points beside every edge, in each of the faces, and the points."""
    along = np.linspace(0.02, 0.98, 9)
    faces, uv, v = found.mesh.faces, found.uv, found.mesh.vertices
    at, where = [], []
    for k in range(3):
        a, b, c = (faces[:, (k + j) % 3] for j in range(3))
        for t in along:
            w = np.array([(1 - t), t, 0]) * (1 - inset) + inset / 3
            at.append(w[0] * uv[a] + w[1] * uv[b] + w[2] * uv[c])
            where.append(w[0] * v[a] + w[1] * v[b] + w[2] * v[c])
    at, where = np.concatenate(at), np.concatenate(where)
    values = Pyramid(image.astype(np.float64), "clamp", "clamp").values(np.ascontiguousarray(at, np.float64))
    return values, where


def test_value_texel_centres():
    mesh, uv = sheet()
    image = gk.bake_texture(mesh, uv, lambda p: p, resolution=(4, 8))
    assert image.shape == (4, 8, 3) and image.dtype == np.float64
    # Row 0 is on top, where v is 1; centres are at halves.
    assert abs(image[0, 0] - [2 * 0.5 / 8, 1 - 0.5 / 4, 0]).max() < 1e-12
    x = 2 * (np.arange(8) + 0.5) / 8
    y = 1 - (np.arange(4) + 0.5) / 4
    assert abs(image[..., 0] - x).max() < 1e-12 and abs(image[..., 1] - y[:, None]).max() < 1e-12


def test_value_vertices_and_samples():
    mesh, uv = sheet()
    linear = gk.bake_texture(mesh, uv, mesh.vertices[:, 0], resolution=8)
    assert linear.shape == (8, 8) and abs(linear - 2 * (np.arange(8) + 0.5) / 8).max() < 1e-12
    # Of a step at x = 0.9, the texel that it cuts takes the share.
    step = gk.bake_texture(mesh, uv, lambda p: (p[:, 0] > 0.9) * 1.0, resolution=4, samples=10)
    assert abs(step[0] - [0, 0.2, 1, 1]).max() < 1e-9


def test_value_of_another_texture():
    """A texture baked from itself is the same, as lookups at texel centres are exact."""
    mesh, uv = sheet()
    given = np.random.default_rng(0).random((6, 5, 3))
    source = gk.Object(mesh, gk.Material(gk.Texture(given, wrap="clamp")), uv=uv)
    assert abs(gk.bake_texture(mesh, uv, source, resolution=(6, 5)) - given).max() < 1e-9
    rough = gk.Object(mesh, gk.Material(roughness=given[..., 0], model="metallic"), uv=uv)
    assert abs(gk.bake_texture(mesh, uv, rough, resolution=(6, 5), part="roughness") - given[..., 0]).max() < 1e-9
    plain = gk.Object(mesh, gk.Material((0.1, 0.2, 0.3)))
    assert abs(gk.bake_texture(mesh, uv, plain, resolution=3) - [0.1, 0.2, 0.3]).max() == 0


@pytest.mark.parametrize("source", ["function", "vertices", "object"])
def test_value_seams_do_not_show(source):
    pytest.importorskip("xatlas")
    ball = gk.shapes.icosphere(4)
    found = gk.unwrap_uv(ball, resolution=256)
    if source == "function":
        image = gk.bake_texture(found.mesh, found.uv, waves, resolution=256)
    elif source == "vertices":
        image = gk.bake_texture(found.mesh, found.uv, waves(found.mesh.vertices), resolution=256)
    else:
        colored = gk.Object(ball, gk.Material(waves(ball.vertices)))
        image = gk.bake_texture(found.mesh, found.uv, colored, resolution=256)
    values, where = lookups_beside_edges(found, image)
    expected = waves(where.astype(np.float64))
    assert abs(values - expected).max() < (1 if source == "function" else 2) / 255


def test_value_rendered_as_the_source():
    """A render of the baked texture is that of the colours at the vertices, seams included, to 1 / 255."""
    pytest.importorskip("xatlas")
    ball = gk.shapes.icosphere(4)
    colors = gk.Object(ball, gk.Material(waves(ball.vertices)))
    found = gk.unwrap_uv(ball, resolution=512)
    image = gk.bake_texture(found.mesh, found.uv, colors, resolution=512)
    baked = gk.Object(found.mesh, gk.Material(image), uv=found.uv)
    for eye in ((0, 0, 3), (2, 2, -1)):
        camera = gk.Camera.look_at(eye, (0, 0, 0), fov=45, width=96, height=96)
        one, other = (
            gk.render(gk.Scene(thing, gk.ConstantLight()), camera, channels="albedo", samples=1).albedo
            for thing in (colors, baked)
        )
        assert abs(one - other).max() < 1 / 255


def test_value_every_texel_has_a_colour():
    pytest.importorskip("xatlas")
    found = gk.unwrap_uv(gk.shapes.icosphere(2), resolution=64)
    image = gk.bake_texture(found.mesh, found.uv, np.ones((found.mesh.n_vertices, 3)), resolution=64)
    assert abs(image - 1).max() < 1e-6


def test_edge_flat_and_tiny_triangles():
    """Triangles without area in the texture give their colours to nothing, and nothing breaks."""
    mesh = gk.Mesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    uv = [[0.1, 0.1], [0.8, 0.1], [0.8, 0.8], [0.8, 0.8]]
    image = gk.bake_texture(mesh, uv, mesh.vertices, resolution=8)
    assert np.isfinite(image).all() and image.min() >= 0 and image.max() <= 1


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"uv": np.zeros((3, 2))}, ValueError, "uv: expected (4, 2) floats, got (3, 2) float64"),
        ({"uv": np.full((4, 2), 2.0)}, ValueError, "uv: expected numbers in [0, 1], got 2.0 to 2.0"),
        ({"resolution": 0}, ValueError, "resolution: expected an integer of at least 1, got 0"),
        ({"resolution": (2, 3, 4)}, ValueError, "resolution: expected an integer, or height and width"),
        ({"samples": 1.5}, TypeError, "samples: expected an integer, got float"),
        ({"source": np.zeros((3, 3))}, ValueError, "source: expected (4, C) floats, got (3, 3) float64"),
        ({"source": lambda p: p[:2]}, ValueError, "source(points): expected (16, C) floats, got (2, 3) float64"),
        ({"source": gk.Object(gk.shapes.box()), "part": "shine"}, ValueError, "part: expected one of 'albedo'"),
        ({"mesh": gk.Mesh(np.zeros((0, 3)), np.zeros((0, 3), int))}, ValueError, "mesh: expected at least one face"),
    ],
)
def test_error(change, error, text):
    mesh, uv = sheet()
    given = {"mesh": mesh, "uv": uv, "source": mesh.vertices, "resolution": 4} | change
    with pytest.raises(error, match=re.escape(f"bake_texture: {text}")):
        gk.bake_texture(**given)


def test_libraries():
    torch = pytest.importorskip("torch")
    mesh, uv = sheet(np.float32)
    tensor = torch.tensor(mesh.vertices)
    image = gk.bake_texture(gk.Mesh(tensor, mesh.faces), torch.tensor(uv), lambda p: torch.tensor(p), resolution=4)
    assert isinstance(image, torch.Tensor) and image.dtype == torch.float32
    with pytest.raises(TypeError, match="bake_texture: mesh: expected values that do not track gradients"):
        gk.bake_texture(gk.Mesh(tensor.requires_grad_(), mesh.faces), uv, mesh.vertices, resolution=4)
