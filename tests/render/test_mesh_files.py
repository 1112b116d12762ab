"""Objects as GLB, OBJ with MTL and PNG, and PLY: other programs open them, and what they hold is right."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import trimesh

import geomkit as gk

VALIDATE = """
const validator = require('gltf-validator');
validator.validateBytes(new Uint8Array(require('fs').readFileSync(process.argv[1]))).then(
    report => console.log(JSON.stringify(report.issues)));
"""


def globe(n=12):
    """A sphere cut along a meridian, with a texture: 0 of longitude on both sides of the seam."""
    u, v = np.meshgrid(np.arange(2 * n + 1) / (2 * n), np.arange(n + 1) / n, indexing="ij")
    angle = 2 * np.pi * (u % 1)
    ring = np.where((v == 0) | (v == 1), 0, np.sin(np.pi * v))
    points = np.stack([ring * np.cos(angle), -np.cos(np.pi * v), -ring * np.sin(angle)], axis=2).reshape(-1, 3)
    a = (np.arange(2 * n)[:, None] * (n + 1) + np.arange(n)).ravel()
    b, c, d = a + n + 1, a + n + 2, a + 1
    faces = np.concatenate([np.stack([a, b, c], 1)[a % (n + 1) > 0], np.stack([a, c, d], 1)[a % (n + 1) < n - 1]])
    rows = np.linspace(0.1, 0.9, 8)[:, None, None]
    image = np.concatenate([rows, 0.3 + 0 * rows, 1 - rows], axis=2) * np.ones((1, 16, 1))
    uv = np.stack([u, v], axis=2).reshape(-1, 2).astype(np.float32)
    return gk.Object(gk.Mesh(points.astype(np.float32), faces), gk.Material(image.astype(np.float32)), uv=uv)


def colored():
    ball = gk.shapes.icosphere(2)
    return gk.Object(ball, gk.Material((0.5 + 0.4 * ball.vertices).astype(np.float32)), smooth=True)


def picture(scene):
    camera = gk.Camera.look_at((1, 1.5, 3), (0, 0, 0), fov=45, width=40, height=40)
    return gk.render(gk.Scene(scene.objects, gk.ConstantLight()), camera, channels="albedo", samples=2).albedo


def test_value_obj(tmp_path):
    thing = globe()
    gk.save_scene(tmp_path / "globe.obj", gk.Scene({"my globe": thing}))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["globe.mtl", "globe.obj", "globe_my_globe.png"]
    # The position mesh is whole, as the seam is one of the texture alone.
    plain = gk.load_mesh(tmp_path / "globe.obj")
    assert plain.is_closed and plain.topology.is_welded and plain.n_faces == thing.mesh.n_faces
    np.testing.assert_array_equal(plain.vertices[plain.faces], thing.mesh.vertices[thing.mesh.faces])
    found = gk.load_scene(tmp_path / "globe.obj")
    assert list(found.objects) == ["my_globe"]
    assert abs(picture(found) - picture(gk.Scene(thing))).max() < 1 / 255
    other = trimesh.load(tmp_path / "globe.obj", process=False)
    assert len(other.faces) == plain.n_faces and other.visual.material.image.size == (16, 8)


def test_value_obj_of_several(tmp_path):
    scene = gk.Scene(
        {
            "globe": globe(),
            "ball": colored(),
            "lamp": gk.Object(gk.shapes.box(), gk.Material((0.2, 0.4, 0.6), emission=(1.0, 2.0, 3.0))),
            "steel": gk.Object(gk.shapes.grid(2, 2), gk.Material((0.5, 0.5, 0.5), "metallic", 1.0, 0.25)),
        },
        gk.ConstantLight(),
    )
    scene.save(tmp_path / "a.obj")
    with pytest.warns(UserWarning, match="a.obj has colours at some vertices only: they are left out"):
        found = gk.load_scene(tmp_path / "a.obj")
    assert sorted(found.objects) == sorted(scene.objects)
    np.testing.assert_allclose(found["lamp.material.albedo"], (0.2, 0.4, 0.6), rtol=1e-8)
    np.testing.assert_allclose(found["lamp.material.emission"], (1, 2, 3))
    for name in scene.objects:
        one, other = scene.objects[name].mesh, found.objects[name].mesh
        np.testing.assert_array_equal(other.vertices[other.faces], one.vertices[one.faces])
    assert "Pm 1\nPr 0.25\n" in (tmp_path / "a.mtl").read_text()
    # Colours of vertices stand in sRGB behind the positions.
    rows = [line.split() for line in (tmp_path / "a.obj").read_text().splitlines()]
    colors = np.array([row[4:] for row in rows if row[0] == "v" and len(row) == 7], float)
    expected = gk.linear_to_srgb(scene["ball.material.albedo"])
    np.testing.assert_allclose(colors, expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_ply(tmp_path, dtype):
    ball = gk.shapes.icosphere(2, dtype=dtype)
    colors = 0.5 + 0.4 * ball.vertices
    gk.save_scene(tmp_path / "a.ply", gk.Object(ball, gk.Material(colors), smooth=True))
    plain = gk.load_mesh(tmp_path / "a.ply", dtype=dtype)
    np.testing.assert_array_equal(plain.vertices, ball.vertices)
    np.testing.assert_array_equal(plain.faces, ball.faces)
    found = gk.load_scene(tmp_path / "a.ply")
    again = gk.linear_to_srgb(found["a.material.albedo"])
    np.testing.assert_allclose(again, gk.linear_to_srgb(colors), atol=0.51 / 255)
    other = trimesh.load(tmp_path / "a.ply", process=False)
    assert other.visual.kind == "vertex" and len(other.vertices) == ball.n_vertices


def test_value_ply_with_a_texture(tmp_path):
    thing = globe()
    gk.save_scene(tmp_path / "a.ply", thing)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.ply", "a.png"]
    head = (tmp_path / "a.ply").read_bytes().split(b"end_header")[0].decode()
    assert "comment TextureFile a.png" in head and "property float s\nproperty float t" in head
    image = gk.load_image(tmp_path / "a.png")
    assert abs(gk.linear_to_srgb(image) - gk.linear_to_srgb(thing.material.albedo)).max() < 0.51 / 255
    # The texture's rows go from 0.1 on top to 0.9, and so do the colours of the vertices.
    colors = trimesh.load(tmp_path / "a.ply", process=False, skip_materials=True).metadata["_ply_raw"]["vertex"]["data"]
    red, v = colors["red"], thing.uv[:, 1]
    assert red[(v > 0.9) & (v < 0.95)].max() < 110 and red[(v > 0.05) & (v < 0.1)].min() > 235
    found = gk.load_scene(tmp_path / "a.ply")
    np.testing.assert_allclose(found["a.uv"][found.objects["a"].mesh.faces], thing.uv[thing.mesh.faces], atol=1e-7)
    assert abs(picture(found) - picture(gk.Scene(thing))).max() < 1 / 255
    assert trimesh.load(tmp_path / "a.ply", process=False).visual.material.image.size == (16, 8)
    (tmp_path / "a.png").unlink()
    with pytest.warns(UserWarning, match="a.png is missing: its material has a plain colour"):
        assert gk.load_scene(tmp_path / "a.ply")["a.material.albedo"] == (0.5, 0.5, 0.5)


def test_value_wrapping_of_glb(tmp_path):
    thing = globe()
    for wrap, code in (("clamp", b"33071"), ("mirror", b"33648")):
        beyond = gk.Object(thing.mesh, gk.Material(gk.Texture(thing.material.albedo, wrap=wrap)), uv=2 * thing.uv)
        gk.save_scene(tmp_path / "a.glb", beyond)
        found = gk.load_scene(tmp_path / "a.glb")
        assert abs(picture(found) - picture(gk.Scene(beyond))).max() < 1 / 255
        assert b'"wrapS":' + code in (tmp_path / "a.glb").read_bytes()
        assert found.objects["object"].material.albedo.wrap == wrap
    gk.save_scene(tmp_path / "a.glb", thing)
    assert isinstance(gk.load_scene(tmp_path / "a.glb").objects["object"].material.albedo, np.ndarray)


def test_edge_wrapping_of_obj(tmp_path):
    thing = globe()
    beyond = gk.Object(thing.mesh, gk.Material(gk.Texture(thing.material.albedo, wrap="clamp")), uv=2 * thing.uv)
    gk.save_scene(tmp_path / "a.obj", beyond)
    found = gk.load_scene(tmp_path / "a.obj")
    assert abs(picture(found) - picture(gk.Scene(beyond))).max() < 1 / 255


def test_edge_names_that_an_obj_cannot_tell_apart(tmp_path):
    thing = globe()
    shades = {"a b": 0.9, "a/b": 0.5, "a_b": 0.1}
    objects = {x: gk.Object(thing.mesh, gk.Material(np.full((2, 2, 3), y)), uv=thing.uv) for x, y in shades.items()}
    gk.save_scene(tmp_path / "a.obj", gk.Scene(objects))
    found = gk.load_scene(tmp_path / "a.obj")
    assert list(found.objects) == ["a_b", "a_b_", "a_b__"] and len(list(tmp_path.glob("*.png"))) == 3
    means = [float(np.mean(x.material.albedo)) for x in found.objects.values()]
    np.testing.assert_allclose(means, list(shades.values()), atol=0.01)


def test_the_validator_finds_no_fault(tmp_path):
    """The npm package gltf-validator, where node finds it (NODE_PATH says where)."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if subprocess.run([node, "-e", "require.resolve('gltf-validator')"], capture_output=True).returncode:
        pytest.skip("node does not find gltf-validator: npm install gltf-validator, NODE_PATH its folder node_modules")
    thing = globe()
    clamped = gk.Material(gk.Texture(thing.material.albedo, wrap="clamp"))
    scene = gk.Scene(
        {"globe": thing, "ball": colored(), "other": gk.Object(thing.mesh, clamped, uv=thing.uv)},
        {"sky": gk.ConstantLight(), "sun": gk.DirectionalLight((0, -1, 0)), "lamp": gk.PointLight((0, 2, 0))},
    )
    cameras = {"front": gk.Camera.framing(thing.mesh, width=64, height=48)}
    gk.save_scene(tmp_path / "a.glb", scene, cameras=cameras)
    run = subprocess.run([node, "-e", VALIDATE, str(tmp_path / "a.glb")], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    assert (found["numErrors"], found["numWarnings"]) == (0, 0), found["messages"]


@pytest.mark.parametrize(
    ("name", "scene", "options", "text"),
    [
        ("a.ply", {"a": gk.shapes.box(), "b": gk.shapes.box()}, {}, "scene: expected one object, .* got 2"),
        ("a.obj", gk.Object(gk.shapes.box(), gk.Material(np.ones((2, 2, 3)))), {}, "object.uv: expected texture coord"),
        ("a.obj", gk.Object(gk.shapes.box(), gk.Material(np.ones((3, 3)))), {}, r"object.material.albedo: .*\(8, 3\)"),
        ("a.ply", gk.Object(gk.shapes.box(), gk.Material((np.nan, 0, 0))), {}, "albedo: expected finite numbers"),
        ("a.glb", gk.Object(gk.shapes.box(), gk.Material(np.full((8, 3), 2.0))), {}, r"albedo: .*numbers in \[0, 1\]"),
        ("a.glb", gk.Object(gk.shapes.box(), gk.Material(np.full((2, 2, 3), 2.0)), uv=np.zeros((8, 2))), {}, r"in \[0"),
        ("a.obj", gk.shapes.box(), {"cameras": {"x": None}}, "cameras: expected none in a .obj file, got 1"),
    ],
)
def test_error(tmp_path, name, scene, options, text):
    scene = gk.Scene(scene) if isinstance(scene, dict) else scene
    with pytest.raises(ValueError, match=f"^save_scene: .*{text}"):
        gk.save_scene(tmp_path / name, scene, **options)
    assert not list(tmp_path.iterdir())


def test_value_colours_of_obj(tmp_path):
    ball = colored()
    moved = gk.Object(ball.mesh.with_vertices(ball.mesh.vertices + 3), ball.material)
    for scene in (gk.Scene({"ball": ball}), gk.Scene({"ball": ball, "other": moved})):
        scene.save(tmp_path / "a.obj")
        for thing in gk.load_scene(tmp_path / "a.obj").objects.values():
            found = np.asarray(thing.material.albedo)[thing.mesh.faces]
            np.testing.assert_allclose(found, np.asarray(ball.material.albedo)[ball.mesh.faces], atol=1e-5)


@pytest.mark.parametrize("cut", ["", "usemtl a\n"])
def test_edge_colours_of_an_obj_whose_vertices_are_dropped(tmp_path, cut):
    rows = "v 0 0 0 1 0 0\nv nan 0 0 0 0 1\nv 1 0 0 0 1 0\nv 0 1 0 0 0 0\n" + cut + "f 1 3 4\nf 1 2 3\n"
    (tmp_path / "a.obj").write_text(rows)
    found = gk.load_scene(tmp_path / "a.obj", nonfinite="drop")
    thing = next(iter(found.objects.values()))
    assert thing.mesh.n_faces == 1
    by_corner = np.asarray(thing.material.albedo)[thing.mesh.faces[0]]
    assert by_corner.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
