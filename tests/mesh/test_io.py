import os
import re

import numpy as np
import pytest
import trimesh

from geomkit.errors import MeshError
from geomkit.mesh import Mesh, load_mesh, save_mesh
from geomkit.mesh.io import FORMATS
from geomkit.mesh.shapes import box, icosphere


def refuses(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip(tmp_path, extension, dtype):
    mesh = icosphere(2, radius=1 / 3, dtype=dtype)
    path = tmp_path / f"sphere.{extension}"
    save_mesh(mesh, path)
    back = load_mesh(path, dtype=dtype)
    assert back.dtype == dtype
    assert back.n_faces == mesh.n_faces
    kept = np.float32 if extension in ("stl", "glb") else dtype
    expected = mesh.vertices_array[mesh.faces_array].astype(kept)
    np.testing.assert_array_equal(back.vertices_array[back.faces_array], expected)
    if extension != "stl":
        np.testing.assert_array_equal(back.faces_array, mesh.faces_array)
    assert back.is_closed
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("extension", ["obj", "off", "ply", "stl"])
def test_round_trip_empty(tmp_path, extension):
    save_mesh(Mesh([], []), tmp_path / f"empty.{extension}")
    back = load_mesh(tmp_path / f"empty.{extension}")
    assert (back.n_vertices, back.n_faces) == (0, 0)


@pytest.mark.parametrize("extension", ["obj", "ply", "off"])
def test_unreferenced_vertices_are_kept(tmp_path, extension):
    mesh = Mesh([[9, 9, 9], [0, 0, 0], [1, 0, 0], [0, 1, 0], [7, 7, 7]], [[1, 2, 3]])
    save_mesh(mesh, tmp_path / f"mesh.{extension}")
    back = load_mesh(tmp_path / f"mesh.{extension}")
    np.testing.assert_array_equal(back.vertices_array, mesh.vertices_array)
    np.testing.assert_array_equal(back.faces_array, mesh.faces_array)


@pytest.mark.parametrize("extension", FORMATS)
def test_trimesh_reads_what_we_write(tmp_path, extension):
    box((1, 2, 3)).save(tmp_path / f"box.{extension}")
    assert trimesh.load_mesh(tmp_path / f"box.{extension}").volume == pytest.approx(6)


class TestObj:
    def load(self, tmp_path, text, **options):
        path = tmp_path / "mesh.obj"
        path.write_text(text)
        return load_mesh(path, **options)

    def test_seams_materials_and_groups_leave_vertices_and_faces_as_they_are(self, tmp_path):
        mesh = self.load(
            tmp_path,
            "# a comment with 1/2 in it\nmtllib none.mtl\no first\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
            "vt 0 0\nvt 1 0\nvt 0 1\nvn 0 0 1\nusemtl red\ns off\nf 1/1/1 2/2/1 3/3/1\n"
            "g other\nusemtl blue\nf 1/3/1 3/1/1 4/2/1\nusemtl red\nf 1//1 2//1 4//1\nf 2/1 3/2 4/3\n",
        )
        assert mesh.n_vertices == 4
        assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 3], [1, 2, 3]]

    def test_quads_and_negative_indices(self, tmp_path):
        mesh = self.load(tmp_path, "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf -4 -3 -2 -1\n")
        assert mesh.n_faces == 2
        assert mesh.area == 1
        assert (mesh.face_normals == [0, 0, 1]).all()

    def test_points_without_faces(self, tmp_path):
        mesh = self.load(tmp_path, "v 1 2 3\nv 4 5 6\n")
        assert mesh.vertices.tolist() == [[1, 2, 3], [4, 5, 6]]
        assert mesh.n_faces == 0

    def test_digits(self, tmp_path):
        text = "v 20000.123456789 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
        assert self.load(tmp_path, text).vertices[0, 0] == np.float32(20000.123456789)
        assert self.load(tmp_path, text, dtype=np.float64).vertices[0, 0] == 20000.123456789

    def test_too_large_for_float32(self, tmp_path):
        text = "v 1e300 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
        with pytest.raises(MeshError, match=r"the first is vertex 0: \[inf, 0.0, 0.0\]"):
            self.load(tmp_path, text)
        assert self.load(tmp_path, text, nonfinite="drop").n_faces == 0

    def test_nothing_but_comments(self, tmp_path):
        assert self.load(tmp_path, "# nothing\no empty\n").n_faces == 0

    def test_windows_line_ends(self, tmp_path):
        path = tmp_path / "mesh.obj"
        path.write_bytes(b"o x\r\nv 0 0 0\r\nv 1 0 0\r\nvt 0 0\r\nv 0 1 0\r\nusemtl m\r\nf 1/1 2/1 3/1\r\n")
        assert load_mesh(path).faces.tolist() == [[0, 1, 2]]

    @pytest.mark.parametrize(
        "text",
        [
            "\ufeffv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4",
            "v 0 0 0\nv 1 0 0\n\ufeffv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4",
            "v\t0\t0\t0\n\tv 1 0 0\nv 1 1  0 \nv 0 1 0\nf\t1\t2 3\nf 1 3 4\t\n",
            "v 0 0 0 # f 1 1 1\nv 1 0 0\nv 1 1 0#\nv 0 1 0\nf 1 2 3 # hi 4\nf 1 3 4\n#f 1 2 3\n",
            "v 0 0 \\\n0\nv \\\n1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2\\  \n3\nf\\\n1 3 4\n",
            "# C:\\\nv 0 0 0\ng \\\nv 1 0 0\nmtllib C:\\a\\\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n",
            "v 0 0 0\r\nv 1 0 \\\r\n0\r\nv 1 1 0\r\nv 0 1 0\r\nf 1 2 3\r\nf 1 3 4\r\n",
            "v 0 0 0\rv 1 0 0\rv 1 1 0\rv 0 1 0\rf 1 2 3\rf 1 3 4",
            "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1/1/1 2//2 3/3\nf 1//1 3 4/-1/-2\n",
            "v 0 0 0 1\nv 1 0 0 .5 .5 .5\nv 1 1 0\nv 0 1 0 1 1 0 0\nf 1 2 3 4\n",
            "f 1 2 3\nv +0 -0. 0e5\nv 1.E0 0 .0\nv 1 1 0\nv 0 1 0\nf 1 3 4\n",
            "v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 -1\nv 0 1 0\nf -4/1 3 -1\n",
        ],
    )
    def test_forms_of_one_square(self, tmp_path, text):
        path = tmp_path / "mesh.obj"
        path.write_bytes(text.encode())
        mesh = load_mesh(path)
        assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]

    def test_negative_indices_count_back_from_their_line(self, tmp_path):
        square = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"
        mesh = self.load(tmp_path, square + "f -4 -3 -2\nv 5 5 5\nf -1 -2 -3\n")
        assert mesh.faces.tolist() == [[0, 1, 2], [4, 3, 2]]
        with pytest.raises(ValueError, match="no vertex -5, as there are 5 vertices: 'f -5 -2 -3'"):
            self.load(tmp_path, square + "f -5 -2 -3\nv 5 5 5\n")

    def test_polygons_of_any_size_become_fans_in_the_order_of_the_file(self, tmp_path):
        points = "".join(f"v {k} {k * k} 0\n" for k in range(6))
        mesh = self.load(tmp_path, points + "f 1 2 3 4 5\nf 1 2 3\nf 3 4 5 6\nf 6 5 4\n")
        fans = [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 1, 2], [2, 3, 4], [2, 4, 5], [5, 4, 3]]
        assert mesh.faces.tolist() == fans

    @pytest.mark.parametrize(
        ("line", "text"),
        [
            ("f 0 1 2", "no vertex 0, as indices start at 1: 'f 0 1 2'"),
            ("f 1 2 4", "no vertex 4, as there are 3 vertices: 'f 1 2 4'"),
            ("f 1 2 3\nf 1 2 -4", "no vertex -4, as there are 3 vertices: 'f 1 2 -4'"),
            ("f 1 2 99999999999999999999", "no vertex 9223372036854775807, as there are 3 vertices"),
            ("f 1 2", "a face of fewer than three vertices: 'f 1 2'"),
            ("f", "a face of fewer than three vertices: 'f'"),
            ("f 1 2 3\nf 1 2 1.5", "'1.5' is no integer"),
            ("f 1 2 /3", "'/3' is no integer"),
            ("v 1 2\nv 1 2 3 4", "a vertex of fewer than three coordinates: 'v 1 2'"),
            ("v 1 2 3e", "'3e' is no number"),
            ("v 1,5 2 3", "'1,5' is no number"),
            ("v 1-2 3", "'1-2' is no number"),
        ],
    )
    def test_what_is_not_understood_is_refused(self, tmp_path, line, text):
        start = f"load_mesh: path: expected a valid OBJ file, got {tmp_path / 'mesh.obj'} (ValueError: {text}"
        with pytest.raises(ValueError, match=re.escape(start)):
            self.load(tmp_path, f"v 0 0 0\nv 1 0 0\nv 0 1 0\n{line}\n")


def test_scenes_are_put_in_their_places(tmp_path):
    scene = trimesh.Scene()
    scene.add_geometry(trimesh.creation.box(), transform=trimesh.transformations.translation_matrix([5, 0, 0]))
    scene.add_geometry(trimesh.creation.box())
    scene.export(tmp_path / "scene.glb")
    mesh = load_mesh(tmp_path / "scene.glb")
    assert mesh.components()[0] == 2
    assert mesh.bounds.tolist() == [[-0.5, -0.5, -0.5], [5.5, 0.5, 0.5]]


@pytest.mark.parametrize("extension", FORMATS)
def test_a_file_without_content_is_an_empty_mesh(tmp_path, extension):
    path = tmp_path / f"mesh.{extension}"
    path.write_bytes(b"")
    assert load_mesh(path).n_faces == 0


class TestErrors:
    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none\.obj"):
            load_mesh(tmp_path / "none.obj")

    def test_unknown_extension(self, tmp_path):
        text = ": path: expected a file name ending in .glb, .obj, .off, .ply, .stl, got mesh.xyz"
        with refuses(ValueError, "load_mesh" + text):
            load_mesh("mesh.xyz")
        with refuses(ValueError, "save_mesh" + text):
            save_mesh(box(), "mesh.xyz")

    def test_dtype(self):
        with refuses(ValueError, "load_mesh: dtype: expected float32 or float64, got foo"):
            load_mesh("mesh.obj", dtype="foo")
        with refuses(ValueError, "load_mesh: dtype: expected float32 or float64, got int32"):
            load_mesh("mesh.obj", dtype=np.int32)

    @pytest.mark.parametrize("extension", FORMATS)
    def test_not_of_its_format(self, tmp_path, extension):
        path = tmp_path / f"mesh.{extension}"
        path.write_bytes(b"this is no mesh at all, whatever its name says\n" * 4)
        expected = f"^load_mesh: path: expected a valid {extension.upper()} file, got {re.escape(str(path))} "
        with pytest.raises(ValueError, match=expected):
            load_mesh(path)

    def test_face_out_of_range(self, tmp_path):
        path = tmp_path / "mesh.obj"
        path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n")
        text = f"got {path} (ValueError: no vertex 9, as there are 3 vertices: 'f 1 2 9')"
        with refuses(ValueError, "load_mesh: path: expected a valid OBJ file, " + text):
            load_mesh(path)

    def test_empty_glb(self, tmp_path):
        with refuses(ValueError, "save_mesh: mesh: expected faces, as a GLB file cannot be without, got none"):
            save_mesh(Mesh([], []), tmp_path / "mesh.glb")
        assert not os.listdir(tmp_path)

    def test_folder_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            save_mesh(box(), tmp_path / "none" / "mesh.obj")

    def test_a_failed_write_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "mesh.obj"
        save_mesh(box(), path)
        before = path.read_bytes()

        def refuse(*_):
            raise OSError("disk full")

        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="disk full"):
            save_mesh(icosphere(1), path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["mesh.obj"]


def test_saved_files_have_the_usual_permissions(tmp_path):
    save_mesh(box(), tmp_path / "mesh.obj")
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "mesh.obj").stat().st_mode == plain.stat().st_mode


def test_real_files(shared_mesh):
    spot = shared_mesh("spot.obj")
    assert (spot.n_vertices, spot.n_faces) == (11533, 23062)
    assert shared_mesh("empty.stl").n_faces == 0
    assert shared_mesh("bunny.obj").n_vertices == 35947
    assert shared_mesh("multibody.stl").n_faces == 32
    assert shared_mesh("chair_model.obj").n_faces == 12756
