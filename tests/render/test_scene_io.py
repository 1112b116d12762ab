"""Scene files: what is written is read again, and what others write is understood."""

import base64
import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

import geomkit as gk
from geomkit.render.gltf_file import GltfFile, glb_of
from geomkit.render.scene import SpotLight


def square(**options) -> gk.Object:
    """The square [0, 1]^2 with uv its x and y."""
    mesh = gk.Mesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    return gk.Object(mesh, uv=mesh.vertices[:, :2], **options)


def quadrants() -> np.ndarray:
    """A texture of four colours: red on top left, green, blue, white."""
    return np.array([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 1, 1]]], np.float32)


def document_of(path) -> dict:
    return GltfFile(path.read_bytes(), path.parent).document


@pytest.fixture
def scene() -> gk.Scene:
    ball = gk.shapes.icosphere(2)
    colors = np.random.default_rng(0).random((ball.n_vertices, 3)).astype(np.float32)
    return gk.Scene(
        {
            "ball": gk.Object(ball, gk.Material(colors, "metallic", 0.25, 0.75), smooth=True),
            "wall": square(material=gk.Material(quadrants(), two_sided=False)),
            "lamp": gk.Object(gk.shapes.grid(2, 2), gk.Material((0.1, 0.2, 0.3), emission=(4.0, 2.0, 0.5))),
        },
        {
            "sky": gk.ConstantLight((0.25, 0.5, 1.0), visible=False),
            "sun": gk.DirectionalLight((1.0, -2.0, 0.5), (3.0, 2.0, 1.0)),
            "spot": SpotLight((1.0, 2.0, 3.0), (0.0, 0.0, 1.0), (7.0, 7.0, 7.0), 10.0, 30.0),
            "point": gk.PointLight((0.5, 5.0, 0.5), (1.0, 0.0, 0.0)),
        },
    )


def test_round_trip(tmp_path, scene):
    scene.save(tmp_path / "a.glb")
    found = gk.load_scene(tmp_path / "a.glb")
    assert list(found.objects) == list(scene.objects) and list(found.lights) == list(scene.lights)
    for name, thing in scene.objects.items():
        other = found.objects[name]
        np.testing.assert_array_equal(other.mesh.vertices, thing.mesh.vertices)
        np.testing.assert_array_equal(other.mesh.faces, thing.mesh.faces)
        assert other.smooth == thing.smooth and (other.uv is None) == (thing.uv is None)
        assert other.material.model == thing.material.model and other.material.two_sided == thing.material.two_sided
        np.testing.assert_allclose(other.material.albedo, thing.material.albedo, atol=1e-7)
        np.testing.assert_allclose(other.material.emission, thing.material.emission, atol=1e-12)
    assert found["ball.material.metallic"] == 0.25 and found["ball.material.roughness"] == 0.75
    np.testing.assert_allclose(found["wall.uv"], scene["wall.uv"], atol=1e-7)
    assert found.lights["sky"] == scene.lights["sky"] and found.lights["point"] == scene.lights["point"]
    spot, sun = found.lights["spot"], found.lights["sun"]
    assert spot.position == (1, 2, 3) and spot.intensity == (7, 7, 7)
    np.testing.assert_allclose([spot.inner, spot.outer, *spot.direction], [10, 30, 0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(sun.direction, np.array([1, -2, 0.5]) / np.linalg.norm([1, -2, 0.5]), atol=1e-12)
    np.testing.assert_allclose(sun.irradiance, (3, 2, 1))


def test_round_trip_renders_the_same(tmp_path, scene):
    scene.save(tmp_path / "a.glb")
    camera = gk.Camera.look_at((1, 1, 5), (0.5, 0.5, 0), fov=50, width=48, height=32)
    images = [gk.render(s, camera, samples=2).color for s in (scene, gk.load_scene(tmp_path / "a.glb"))]
    assert images[0].max() > 0.5
    np.testing.assert_allclose(images[0], images[1], atol=1e-3)


def test_trimesh_reads_what_is_written(tmp_path, scene):
    trimesh = pytest.importorskip("trimesh")
    scene.save(tmp_path / "a.glb")
    found = trimesh.load_scene(tmp_path / "a.glb")
    assert set(found.geometry) == {"ball", "wall", "lamp"}
    wall = found.geometry["wall"]
    # trimesh has v upwards as well.
    np.testing.assert_allclose(wall.visual.uv, scene["wall.uv"], atol=1e-7)
    np.testing.assert_array_equal(np.asarray(wall.visual.material.baseColorTexture)[..., :3], 255 * quadrants())
    np.testing.assert_allclose(
        found.geometry["ball"].vertex_normals, scene.objects["ball"].mesh.vertex_normals, atol=1e-6
    )


def test_uv_of_files_is_downwards(tmp_path):
    gk.Scene({"wall": square(material=gk.Material(quadrants()))}).save(tmp_path / "a.glb")
    file = GltfFile((tmp_path / "a.glb").read_bytes(), tmp_path)
    uv = file.accessor(document_of(tmp_path / "a.glb")["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_0"])
    np.testing.assert_array_equal(uv, [[0, 1], [1, 1], [1, 0], [0, 0]])
    scene = gk.load_scene(tmp_path / "a.glb")
    camera = gk.Camera.orthographic((0.5, 0.5, 2), (0.5, 0.5, 0), extent=1, width=4, height=4)
    albedo = gk.render(scene, camera, channels="albedo", samples=1).albedo
    corners, others = albedo[[0, 0, 3, 3], [0, 3, 0, 3]], quadrants().reshape(4, 3)
    # The texture repeats, so that a corner has something of all four, and most of its own.
    np.testing.assert_array_equal(((corners[:, None] - others) ** 2).sum(axis=2).argmin(axis=1), range(4))


def test_cameras(tmp_path):
    ball = gk.shapes.icosphere(1)
    cameras = {
        "a.b": gk.Camera.framing(ball, width=64, height=48),
        "flat": gk.Camera.orthographic((1, 2, 3), (0, 0, 0), extent=4, width=64, height=48),
    }
    gk.save_scene(tmp_path / "a.glb", ball, cameras=cameras)
    found = gk.load_cameras(tmp_path / "a.glb", width=64, height=48)
    assert list(found) == ["a_b", "flat"]
    for other, camera in zip(found.values(), cameras.values(), strict=True):
        assert other.model == camera.model
        np.testing.assert_allclose(other.K, camera.K, atol=1e-9)
        np.testing.assert_allclose(other.world_to_camera, camera.world_to_camera, atol=1e-12)
    twice = gk.load_cameras(tmp_path / "a.glb", width=128, height=96)["flat"]
    assert twice.K[0, 0] == pytest.approx(2 * cameras["flat"].K[0, 0])
    bent = gk.Camera(np.eye(4), cameras["flat"].K, width=64, height=48, distortion=[0.1, 0, 0, 0])
    with pytest.raises(ValueError, match=r"^save_scene: cameras\['bent'\]: expected square pixels"):
        gk.save_scene(tmp_path / "a.glb", ball, cameras={"bent": bent})


def foreign(tmp_path, *, primitive=None, material=None, nodes=None, **more) -> gk.Scene:
    """The scene of a .gltf, written here: a triangle of shorts in an interleaved buffer beside it."""
    corners = [(0, 0, 0, 0, 0), (2, 0, 0, 65535, 0), (0, 2, 0, 0, 65535)]
    data = b"".join(struct.pack("<fff2H4x", *corner) for corner in corners)
    data += bytes([0, 1, 2, 0]) + bytes([255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255])
    (tmp_path / "the data.bin").write_bytes(data)
    attributes = {"POSITION": 0, "TEXCOORD_0": 1}
    document = {
        "asset": {"version": "2.0"},
        "buffers": [{"uri": "the%20data.bin", "byteLength": len(data)}],
        "bufferViews": [
            {"buffer": 0, "byteLength": 60, "byteStride": 20},
            {"buffer": 0, "byteOffset": 60, "byteLength": 3},
            {"buffer": 0, "byteOffset": 64, "byteLength": 12},
        ],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
            {"bufferView": 0, "byteOffset": 12, "componentType": 5123, "normalized": True, "count": 3, "type": "VEC2"},
            {"bufferView": 1, "componentType": 5121, "count": 3, "type": "SCALAR"},
            {"bufferView": 2, "componentType": 5121, "normalized": True, "count": 3, "type": "VEC4"},
        ],
        "meshes": [{"name": "m", "primitives": [{"attributes": attributes, "indices": 2} | (primitive or {})]}],
        "nodes": nodes or [{"mesh": 0}],
    }
    if material is not None:
        document["materials"] = [material]
        document["meshes"][0]["primitives"][0]["material"] = 0
    (tmp_path / "a.gltf").write_text(json.dumps(document | more))
    return gk.load_scene(tmp_path / "a.gltf")


def test_gltf_beside_its_buffer(tmp_path):
    scene = foreign(tmp_path)
    thing = scene.objects["m"]
    np.testing.assert_array_equal(thing.mesh.vertices, [[0, 0, 0], [2, 0, 0], [0, 2, 0]])
    np.testing.assert_array_equal(thing.uv, [[0, 1], [1, 1], [0, 0]])
    # What glTF's defaults are.
    wanted = gk.Material((1.0, 1.0, 1.0), "metallic", 1.0, 1.0, (0.0, 0.0, 0.0), False)
    assert thing.material == wanted and not thing.smooth


def test_transforms_instances_and_names(tmp_path):
    half = np.sqrt(0.5)
    nodes = [
        {"name": "a/b.c", "translation": [10, 0, 0], "rotation": [0, 0, half, half], "children": [1, 2]},
        {"name": "camera", "mesh": 0, "scale": [2, 1, 1]},
        {"name": "camera", "mesh": 0, "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1, 0, 0, 0, 5, 1]},
        {"name": "a/b.c", "mesh": 0},
    ]
    scene = foreign(tmp_path, nodes=nodes)
    assert list(scene.objects) == ["camera_2", "camera_3", "a_b_c"]
    vertices = scene["camera_2.vertices"]
    np.testing.assert_allclose(vertices, [[10, 0, 0], [10, 4, 0], [8, 0, 0]], atol=1e-6)
    mirrored = scene.objects["camera_3"].mesh
    np.testing.assert_allclose(mirrored.vertices, [[10, 0, 5], [10, 2, 5], [8, 0, 5]], atol=1e-6)
    # Faces stay counter-clockwise: the normal is mirrored with the rest.
    np.testing.assert_allclose(gk.face_normals(mirrored), [[0, 0, -1]], atol=1e-6)


def test_colors_of_vertices_and_strips(tmp_path):
    material = {"pbrMetallicRoughness": {"baseColorFactor": [0.5, 1, 1, 1]}, "doubleSided": True}
    attributes = {"POSITION": 0, "COLOR_0": 3, "NORMAL": 0}
    thing = foreign(tmp_path, primitive={"attributes": attributes}, material=material).objects["m"]
    np.testing.assert_array_equal(thing.material.albedo, [[0.5, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert thing.smooth and thing.material.two_sided and thing.uv is None
    for mode in (5, 6):
        np.testing.assert_array_equal(foreign(tmp_path, primitive={"mode": mode}).objects["m"].mesh.faces, [[0, 1, 2]])
    assert not foreign(tmp_path, primitive={"mode": 1}).objects


def data_uri(levels) -> str:
    file = io.BytesIO()
    Image.fromarray(np.array(levels, np.uint8)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def test_textures(tmp_path):
    moved = {"KHR_texture_transform": {"offset": [0.25, 0.5], "scale": [2, 3]}}
    material = {
        "pbrMetallicRoughness": {
            "baseColorTexture": {"index": 0, "extensions": moved},
            "baseColorFactor": [1, 0.5, 0, 1],
            "metallicRoughnessTexture": {"index": 1},
            "metallicFactor": 0.5,
        },
        "emissiveTexture": {"index": 2},
        "emissiveFactor": [1, 0, 0],
        "extensions": {"KHR_materials_emissive_strength": {"emissiveStrength": 10}},
    }
    images = [
        {"uri": data_uri([[[188, 188, 188], [255, 255, 255]]])},
        {"uri": data_uri([[[9, 51, 102]]])},
        {"uri": data_uri([[[255, 0, 0], [0, 0, 0]]])},
    ]
    more = {
        "images": images,
        "textures": [{"source": k} for k in range(3)],
        "extensionsRequired": ["KHR_texture_transform"],
    }
    thing = foreign(tmp_path, material=material, **more).objects["m"]
    np.testing.assert_allclose(thing.material.albedo, [[[0.5, 0.25, 0], [1, 0.5, 0]]], atol=0.003)
    assert thing.material.roughness == pytest.approx(0.2) and thing.material.metallic == pytest.approx(0.2)
    assert thing.material.emission == pytest.approx((5, 0, 0))
    np.testing.assert_allclose(thing.uv, [[0.25, 0.5], [2.25, 0.5], [0.25, -2.5]], atol=1e-6)


def test_textures_of_metals(tmp_path):
    """Roughness is green, metallic is blue; they come back as written, to what eight bits hold, and so do renders."""
    rng = np.random.default_rng(0)
    metallic, roughness, glow = rng.random((4, 3)), rng.random((4, 3)), 5 * rng.random((2, 2, 3))
    scene = gk.Scene(
        {
            "both": square(material=gk.Material((0.5, 0.6, 0.7), "metallic", metallic, roughness)),
            "rough": square(material=gk.Material(quadrants(), "metallic", 0.25, roughness, emission=glow)),
        }
    )
    scene.save(tmp_path / "a.glb")
    again = gk.load_scene(tmp_path / "a.glb")
    for name, metal in (("both", metallic), ("rough", np.full((4, 3), 0.25))):
        np.testing.assert_allclose(again[f"{name}.material.metallic"], metal, atol=0.5 / 255 + 1e-6)
        np.testing.assert_allclose(again[f"{name}.material.roughness"], roughness, atol=0.5 / 255 + 1e-6)
    np.testing.assert_allclose(again["rough.material.emission"], glow, atol=0.03)
    surface = document_of(tmp_path / "a.glb")["materials"][0]["pbrMetallicRoughness"]
    assert "metallicFactor" not in surface and "roughnessFactor" not in surface
    g = gk.render.adjoint(again, gk.Camera.look_at((0.5, 0.5, 3), (0.5, 0.5, 0), fov=20, width=4, height=4),
                          samples=4, adj_color=np.ones((4, 4, 3)))  # fmt: skip
    assert g["both.material.roughness"].shape == (4, 3)
    uneven = gk.Material((0.5, 0.6, 0.7), "metallic", metallic, roughness[:2])
    with pytest.raises(ValueError, match="object.material.metallic, roughness: expected textures of one size"):
        gk.Scene(square(material=uneven)).save(tmp_path / "b.glb")
    uneven = gk.Material((0.5, 0.6, 0.7), "metallic", np.ones(4), 0.5)
    with pytest.raises(ValueError, match="save_scene: object.material.metallic: expected a number or a texture"):
        gk.Scene(square(material=uneven)).save(tmp_path / "b.glb")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"asset": {"version": "1.0"}}, "its version is 1.0: 2.0 is read"),
        ({"extensionsRequired": ["KHR_draco_mesh_compression"]}, "it needs KHR_draco_mesh_compression"),
        ({"nodes": [{"mesh": 3}]}, "IndexError"),
        ({"primitive": {"indices": 1}}, "indices of faces are no whole numbers"),
        (
            {
                "buffers": [{"uri": "the%20data.bin", "byteLength": 9}],
                "bufferViews": 3 * [{"buffer": 0, "byteLength": 900}],
            },
            "cut short",
        ),
    ],
)
def test_refuses_wrong_gltf(tmp_path, more, text):
    with pytest.raises(
        ValueError, match=r"^load_scene: path: expected a GLTF file that can be read, got .*a\.gltf"
    ) as caught:
        foreign(tmp_path, **more)
    assert text in str(caught.value)


def test_refuses(tmp_path, scene):
    with pytest.raises(ValueError, match=r"^save_scene: path: expected .* in .glb, .obj, .ply, got .*a\.stl"):
        scene.save(tmp_path / "a.stl")
    with pytest.raises(ValueError, match=r"^load_scene: path: expected a file name ending in .glb, .gltf, .obj"):
        gk.load_scene(tmp_path / "a.blend")
    with pytest.raises(FileNotFoundError):
        gk.load_scene(tmp_path / "a.glb")
    with pytest.raises(ValueError, match="^load_scene: dtype: expected float32 or float64, got int8"):
        gk.load_scene(tmp_path / "a.glb", dtype="int8")
    for path, value, text in (
        ("ball.material.emission", (-1, 0, 0), "numbers from 0 on"),
        ("lamp.material.albedo", (2, 0, 0), r"numbers in \[0, 1\]"),
        ("sun.irradiance", (-1, 0, 0), "a light of numbers from 0 on"),
    ):
        with pytest.raises(ValueError, match=f"^save_scene: .*{text}"):
            scene.with_values({path: value}).save(tmp_path / "a.glb")
    assert not list(tmp_path.iterdir())
    (tmp_path / "a.glb").write_bytes(glb_of({"asset": {"version": "2.0"}}, b"")[:-5])
    with pytest.raises(ValueError, match="cut short"):
        gk.load_scene(tmp_path / "a.glb")
    (tmp_path / "missing.gltf").write_text('{"asset":{"version":"2.0"},"buffers":[{"uri":"none.bin"}]}')
    assert not gk.load_scene(tmp_path / "missing.gltf").objects


def test_tensors_are_written(tmp_path):
    torch = pytest.importorskip("torch")
    ball = gk.shapes.icosphere(1)
    mesh = gk.Mesh(torch.tensor(ball.vertices, requires_grad=True), ball.faces)
    albedo = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, requires_grad=True)
    gk.Scene({"ball": gk.Object(mesh, gk.Material(albedo))}).save(tmp_path / "a.glb")
    found = gk.load_scene(tmp_path / "a.glb")
    np.testing.assert_array_equal(found["ball.vertices"], ball.vertices)
    np.testing.assert_allclose(found["ball.material.albedo"], (0.1, 0.2, 0.3))


# ---- other formats


def test_obj_with_materials(tmp_path):
    gk.save_image(tmp_path / "the map.png", quadrants())
    (tmp_path / "m.mtl").write_text("newmtl red\nKd 0.5 0 0\nKe 1 2 3\n\nnewmtl pic\nKd 0 0 0\nmap_Kd the map.png\n")
    (tmp_path / "a.obj").write_text(
        "mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
        "usemtl red\nf 1/1 2/2 3/3\nusemtl pic\nf 1/1 3/3 4/4\n"
    )
    scene = gk.load_scene(tmp_path / "a.obj")
    assert set(scene.objects) == {"red", "pic"}
    assert scene["red.material.albedo"] == (0.5, 0, 0) and scene["red.material.emission"] == (1, 2, 3)
    np.testing.assert_array_equal(scene["pic.material.albedo"], quadrants())
    np.testing.assert_array_equal(scene["pic.uv"], scene["pic.vertices"][:, :2])
    (tmp_path / "the map.png").unlink()
    with pytest.warns(UserWarning, match="the map.png is missing: its material has a plain colour"):
        assert gk.load_scene(tmp_path / "a.obj")["pic.material.albedo"] == (0, 0, 0)
    (tmp_path / "m.mtl").unlink()
    with pytest.warns(UserWarning, match="m.mtl is missing: its materials are grey"):
        scene = gk.load_scene(tmp_path / "a.obj")
    assert len(scene.objects) == 2 and {thing.material for thing in scene.objects.values()} == {gk.Material()}


def test_meshes_are_scenes_of_one_object(tmp_path):
    ball = gk.shapes.icosphere(1)
    for extension in ("obj", "off", "ply", "stl"):
        ball.save(tmp_path / f"the.ball.{extension}")
        scene = gk.load_scene(tmp_path / f"the.ball.{extension}")
        assert list(scene.objects) == ["the_ball"] and not scene.lights
        thing = scene.objects["the_ball"]
        assert thing.material == gk.Material() and thing.mesh.n_faces == ball.n_faces
    assert gk.load_scene(tmp_path / "the.ball.obj", dtype=np.float64).objects["the_ball"].mesh.dtype == np.float64


def test_colors_of_a_ply(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    colors = [[188, 0, 0, 255], [0, 255, 0, 255], [0, 0, 255, 255]]
    mesh = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], vertex_colors=colors, process=False)
    mesh.export(tmp_path / "a.ply")
    albedo = gk.load_scene(tmp_path / "a.ply")["a.material.albedo"]
    np.testing.assert_allclose(albedo, [[0.5, 0, 0], [0, 1, 0], [0, 0, 1]], atol=0.003)


@pytest.mark.parametrize("smooth", [True, "split", False])
def test_hard_edges_stay_hard(tmp_path, smooth):
    box = gk.shapes.box()
    cut = gk.Mesh(np.asarray(box.vertices)[np.asarray(box.faces)].reshape(-1, 3), np.arange(36).reshape(12, 3))
    gk.Scene(gk.Object(cut, smooth=smooth)).save(tmp_path / "a.glb")
    assert gk.load_scene(tmp_path / "a.glb").objects["object"].smooth == smooth
