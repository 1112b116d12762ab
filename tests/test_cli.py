"""The command `geomkit`."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import geomkit as gk
from geomkit.cli import doctor, main
from geomkit.cli.query import parse_what, read_points
from geomkit.files import replacing

DATA = Path(__file__).parents[1] / "data"
KNOT = str(DATA / "knot.ply")


@pytest.fixture
def call(capsys):
    """Run a command in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return run


def start(*arguments: object) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(Path(gk.__file__).parents[1])}
    command = [sys.executable, "-m", "geomkit", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


# ---- the whole


def test_version_and_help(call):
    assert call("--version") == (0, f"{gk.__version__}\n", "")
    code, out, err = call("--help")
    assert code == 0 and not err
    for command in ("doctor", "info", "sdf", "query", "demo", "bench"):
        assert command in out
        assert command == "bench" or call(command, "--help")[0] == 0


def test_startup_imports_nothing_heavy():
    heavy = ("torch", "jax", "cupy", "trimesh", "matplotlib", "open3d", "warp")
    program = f"import sys, geomkit.cli; print([m for m in {heavy} if m in sys.modules])"
    environment = os.environ | {"PYTHONPATH": str(Path(gk.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["info", "missing.obj"], "geomkit: missing.obj: No such file or directory\n"),
        (["info", __file__], "geomkit: load_mesh: path: expected a file name ending in .glb"),
        (["info"], "geomkit: Missing argument 'MESH'. (see --help)\n"),
        (["sdf", KNOT, "-o", "a.txt"], "geomkit: sdf: path: expected a file name ending in .npy, .npz, .vti, got a"),
        (["sdf", KNOT, "-o", "a.npz", "--sign", "inside"], "geomkit: sdf_grid: sign: expected one of 'auto'"),
        (["sdf", KNOT, "-o", "a.npz", "--resolution", "1"], "geomkit: sdf_grid: resolution: expected an integer of at"),
        (["sdf", KNOT, "-o", "a.npz", "--dtype", "int32"], "geomkit: load_mesh: dtype: expected float32 or float64"),
        (["sdf", KNOT, "-o", "none/a.npz", "--resolution", "4"], "geomkit: no such folder: none\n"),
        (
            ["sdf", KNOT, "-o", "a.npz", "--dtype", "foo"],
            "geomkit: load_mesh: dtype: expected float32 or float64, got foo",
        ),
        (["sdf", KNOT, "-o", "a.npz", "--spacing", "1e-300"], "geomkit: sdf_grid: spacing: expected a larger number"),
        (["sdf", KNOT, "-o", "a.npz", "--padding", "1e308"], "geomkit: sdf_grid: padding: expected a number that"),
        (
            ["sdf", KNOT, "-o", "a.npz", "--resolution", "1" + 30 * "0"],
            "geomkit: sdf_grid: resolution: expected a small",
        ),
        (["sdf", KNOT, "-o", "n" * 300 + ".npz"], f"geomkit: {'n' * 300}.npz: File name too long\n"),
        (["query", KNOT, "p.csv", "-o", "a.csv", "--what", "normal"], "geomkit: query: what: expected some of dist"),
        (["query", KNOT, "p.csv", "-o", "a.json"], "geomkit: query: output: expected a file name ending in .npz, .csv"),
        (["query", KNOT, "p.csv", "-o", "a.csv"], "geomkit: p.csv: No such file or directory\n"),
        (["demo", "--mesh", "missing.obj"], "geomkit: missing.obj: No such file or directory\n"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(call, tmp_path, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*arguments)
    assert code == 2 and not out and err.startswith(text) and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback():
    with pytest.raises(FileNotFoundError):
        main(["--debug", "info", "missing.obj"])
    process = start("info", "missing.obj")
    assert "Traceback" not in process.communicate()[1]


# ---- doctor, info


def test_doctor(call):
    code, out, err = call("doctor")
    assert code == 0 and not err
    for name in ("geomkit", "CPU", "kernels   work", "GPU", "CuPy", "NVRTC", "torch", "jax"):
        assert f"\n{name}" in f"\n{out}"
    found = json.loads(call("doctor", "--json")[1])
    assert found["cpu"]["works"] and found["cpu"]["used"] in found["cpu"]["instruction_sets"]
    assert found["cpu"]["threads"] == gk.num_threads()
    assert found["packages"]["torch"]["install"] == 'pip install "geomkit-diff[torch]"'


def test_doctor_says_what_to_install(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    text = doctor.describe(doctor.examine())
    assert 'torch     missing: pip install "geomkit-diff[torch]"' in text
    assert 'CuPy      missing: pip install "geomkit-diff[cuda13]"' in text


def test_doctor_without_kernels_exits_with_2(call, monkeypatch):
    def missing() -> Path:
        raise gk.DeviceError("the compiled kernels are missing")

    monkeypatch.setattr(doctor.host, "library_folder", missing)
    code, out, _ = call("doctor")
    assert code == 2 and "CPU       does not work: the compiled kernels are missing" in out


def test_info(call):
    assert call("info", KNOT) == (0, gk.load_mesh(KNOT).report() + "\n", "")
    found = json.loads(call("info", DATA / "knot_open.ply", "--json")[1])
    assert found["n_faces"] == 7945 and not found["is_closed"] and found["n_boundary_loops"] == 1
    assert found["sign"] == "winding" and found["report"][2].startswith("open")


def test_info_of_an_empty_mesh(call, tmp_path):
    (tmp_path / "empty.obj").write_text("")
    assert json.loads(call("info", tmp_path / "empty.obj", "--json")[1])["bounds"] is None


# ---- sdf


def test_sdf(call, tmp_path):
    path = tmp_path / "a.npz"
    code, out, err = call("sdf", KNOT, "--resolution", "24", "--padding", "0.2", "-o", path)
    assert code == 0 and not err and "samples float32" in out and "spacing" in out
    wanted = gk.sdf_grid(gk.load_mesh(KNOT), resolution=24, padding=0.2)
    with np.load(path) as found:
        np.testing.assert_array_equal(found["values"], wanted.values)
        np.testing.assert_array_equal(found["origin"], wanted.origin)
        assert found["spacing"] == wanted.spacing


def test_sdf_npy_says_that_origin_and_spacing_are_not_in_the_file(call, tmp_path):
    code, out, _ = call("sdf", KNOT, "--spacing", "0.5", "--dtype", "float64", "-o", tmp_path / "a.npy")
    assert code == 0 and "origin -" in out and "spacing 0.5" in out and "holds the values only" in out
    assert np.load(tmp_path / "a.npy").dtype == np.float64


def test_sdf_warns_in_one_line(call, tmp_path):
    code, _, err = call("sdf", DATA / "sheet.off", "--resolution", "9", "-o", tmp_path / "a.vti")
    assert code == 0 and err.count("\n") == 1
    assert err.startswith("geomkit: warning: sdf_grid: the mesh encloses no volume")


def test_ctrl_c_leaves_no_file(tmp_path):
    process = start("sdf", KNOT, "--resolution", "900", "-o", tmp_path / "a.npz")
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == "geomkit: stopped\n" and not out
    assert not list(tmp_path.iterdir())


def test_bar_shows_on_a_terminal_once_the_work_is_long(monkeypatch):
    from geomkit.cli import progress

    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.bar("work") as update:
        update(1, 2)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.bar("work") as update:
        update(1, 2)


# ---- query

POINTS = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [4.5, 0.25, -1.0]])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x,y,z\n1,0,0\n0,0,0\n4.5,0.25,-1\n"),
        ("b.csv", "1,0,0\n0,0,0\n4.5,0.25,-1\n"),
        ("c.csv", '"id","z","x","y"\n7,0,1,0\n8,0,0,0\n9,-1,4.5,0.25\n'),
        ("a.xyz", "# a cloud\n1 0 0 255 0 0\n0 0 0 255 0 0\n\n4.5 0.25 -1 0 0 0\n"),
        ("a.txt", "1\t0\t0\n0\t0\t0\n4.5\t0.25\t-1\n"),
        ("d.csv", "\ufeff1,0,0\r\n0,0,0\r\n4.5,0.25,-1\r\n"),
        ("e.csv", "\ufeffz,y,x\n0,0,1\n0,0,0\n-1,0.25,4.5\n"),
        ("f.csv", ",X, Y ,Z # metres\n0,1,0,0 # first\n1,0,0,0\n2,4.5,0.25,-1\n"),
        ("g.csv", "1,0,0,red\n0,0,0,blue\n4.5,0.25,-1,red\n"),
        ("b.xyz", "z x y\n0 1 0\n0 0 0\n-1 4.5 0.25\n"),
    ],
)
def test_points_of_text(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode())
    np.testing.assert_array_equal(read_points(tmp_path / name), POINTS)


def test_points_of_arrays(tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    np.savez(tmp_path / "a.npz", cloud=POINTS)
    np.savez(tmp_path / "b.npz", points=POINTS, colours=POINTS[:1])
    np.savez(tmp_path / "c.npz", one=POINTS, other=POINTS)
    for name in ("a.npy", "a.npz", "b.npz"):
        np.testing.assert_array_equal(read_points(tmp_path / name), POINTS)
    with pytest.raises(ValueError, match="query: POINTS: expected an array named points, got one, other in"):
        read_points(tmp_path / "c.npz")


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", b"x,y\n1,2\n", "three numbers, or the names x, y and z once each, got 'x,y' in line 1 of"),
        (
            "a.csv",
            b"# a\n\nx,y,z,x\n1,2,3,4\n",
            "three numbers, or the names x, y and z once each, got 'x,y,z,x' in line 3",
        ),
        ("a.csv", b"1.0abc,2,3\n1,2,3\n", "three numbers a line, got '1.0abc,2,3' in line 1 of"),
        ("a.csv", b"x,2,3\n1,2,3\n", "three numbers a line, got 'x,2,3' in line 1 of"),
        ("a.csv", b"1,2,3\n# a\n1,2\n", "three numbers a line, got '1,2' in line 3 of"),
        ("a.csv", b"1;2;3\n", "three numbers, or the names"),
        ("a.csv", "größe\n1,2,3\n".encode("latin-1"), "a text file in UTF-8, got"),
        ("a.csv", "x,y,z\n1,2,3\n".encode("utf-16"), "a text file in UTF-8, got"),
        ("a.xyz", b"1 2 three\n", "three numbers a line, got '1 2 three' in line 1 of"),
        ("a.npy", b"not an array", "a valid .npy file, got"),
        ("a.npy", npy(POINTS)[:-8], "a valid .npy file, got"),
        ("a.npy", npz(points=POINTS), "a valid .npy file, got"),
        ("a.npy", npy(POINTS[0]), "(N, 3) numbers, got (3,) float64 in"),
        ("a.npy", npy(np.array([["a", "b", "c"]])), "(N, 3) numbers, got"),
        ("a.npz", b"", "a valid .npz file, got"),
        ("a.npz", npz(points=POINTS)[:-30], "a valid .npz file, got"),
        ("a.npz", npz(points=POINTS).replace(POINTS.tobytes(), POINTS[::-1].tobytes()), "a valid .npz file, got"),
        ("a.npz", npy(POINTS), "a valid .npz file, got"),
        ("a.npz", npz(), "an array named points, got none in"),
        ("a.las", b"", "a file name ending in .npy, .npz, .csv, .txt, .xyz, got"),
    ],
)
def test_points_that_are_none(call, tmp_path, name, content, text):
    path = tmp_path / name
    path.write_bytes(content)
    code, _, err = call("query", KNOT, path, "-o", tmp_path / "b.csv")
    assert code == 2 and err.count("\n") == 1 and str(path) in err
    assert err.startswith(f"geomkit: query: POINTS: expected {text}")


# ---- where results go


def test_output_is_a_folder(call, tmp_path):
    (tmp_path / "a.csv").mkdir()
    (tmp_path / "p.csv").write_text("1,0,0\n")
    code, _, err = call("query", KNOT, tmp_path / "p.csv", "-o", tmp_path / "a.csv")
    assert (code, err) == (2, f"geomkit: {tmp_path / 'a.csv'}: Is a directory\n")
    assert not list((tmp_path / "a.csv").iterdir())


def test_errors_of_writing_name_the_path_of_the_user(tmp_path, monkeypatch):
    path = tmp_path / "a.obj"
    for name in ("mkstemp", "replace"):
        with monkeypatch.context() as patch:

            def fail(*args, **options):
                raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".geomkit-x.tmp"))

            patch.setattr(tempfile if name == "mkstemp" else os, name, fail)
            with pytest.raises(PermissionError) as error:
                gk.shapes.box().save(path)
        assert error.value.filename == str(path)
    with pytest.raises(OSError, match="No space left on device: .*a.obj") as error, replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError) as error, replacing(path):
        (tmp_path / "other").read_bytes()
    assert error.value.filename == str(tmp_path / "other")
    assert not list(tmp_path.iterdir())


def test_a_name_as_long_as_the_file_system_allows(tmp_path):
    path = tmp_path / ("n" * 251 + ".obj")
    gk.shapes.box().save(path)
    assert gk.load_mesh(path).n_faces == 12 and list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target.obj", tmp_path / "link.obj"
    link.symlink_to(target)
    for extents in ((1, 1, 1), (1, 2, 3)):
        gk.shapes.box(extents).save(link)
        assert link.is_symlink() and not target.is_symlink()
        assert gk.load_mesh(target).volume == pytest.approx(np.prod(extents))
    assert list(target.parent.iterdir()) == [target]
    broken = tmp_path / "broken.obj"
    broken.symlink_to(tmp_path / "missing" / "a.obj")
    with pytest.raises(FileNotFoundError, match="no such folder: .*missing"):
        gk.shapes.box().save(broken)
    loop = tmp_path / "loop.obj"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links") as error:
        gk.shapes.box().save(loop)
    assert error.value.filename == str(loop)


def test_a_device_is_written_to_and_stays(tmp_path):
    link = tmp_path / "null.obj"
    link.symlink_to("/dev/null")
    gk.shapes.box().save(link)
    assert Path("/dev/null").is_char_device() and link.is_symlink()


def test_no_points(call, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z\n")
    assert call("query", KNOT, tmp_path / "a.csv", "-o", tmp_path / "b.csv")[0] == 0
    assert (tmp_path / "b.csv").read_text() == "distance,point_x,point_y,point_z,face,winding_number\n"


def test_query_npz(call, tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    code, out, _ = call("query", KNOT, tmp_path / "a.npy", "-o", tmp_path / "b.npz")
    assert code == 0 and "3 points, distance, point, face, winding_number" in out
    mesh = gk.load_mesh(KNOT)
    with np.load(tmp_path / "b.npz") as found:
        np.testing.assert_array_equal(found["distance"], gk.signed_distance(mesh, POINTS))
        np.testing.assert_array_equal(found["point"], gk.closest_point(mesh, POINTS).point)
        np.testing.assert_array_equal(found["face"], gk.closest_point(mesh, POINTS).face)
        np.testing.assert_array_equal(found["winding_number"], gk.winding_number(mesh, POINTS))


def test_query_csv_keeps_all_digits(call, tmp_path):
    (tmp_path / "a.csv").write_text("1,0,0\n0,0,0\n")
    call("query", KNOT, tmp_path / "a.csv", "-o", tmp_path / "b.csv", "--what", "face,distance", "--sign", "unsigned")
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert lines[0] == "face,distance" and len(lines) == 3
    distance = gk.signed_distance(gk.load_mesh(KNOT), POINTS[:2], sign="unsigned")
    assert [np.float32(line.split(",")[1]) for line in lines[1:]] == distance.tolist()


def test_what():
    assert parse_what(" winding, distance ,") == ["winding", "distance"]
    with pytest.raises(ValueError, match="query: what"):
        parse_what(",")


# ---- demo, bench


def test_demo(call, tmp_path):
    code, out, err = call("demo", "-o", tmp_path / "pictures")
    assert code == 0 and not err and "8000 faces" in out
    for name in ("slice.png", "gradient.png"):
        assert str(tmp_path / "pictures" / name) in out
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")
    errors = out[out.index("to the points") :].replace(",", " ").split()
    assert all(float(word) < 1e-8 for word in errors if "e-" in word)


def test_demo_on_an_open_mesh(call, tmp_path):
    assert call("demo", "-o", tmp_path / "pictures", "--mesh", DATA / "boxes.obj")[0] == 0


def test_bench_passes_its_arguments_on():
    process = start("bench", "--help")
    assert "python -m geomkit.bench" in process.communicate()[0] and process.returncode == 0
    process = start("bench", "nothing")
    assert process.communicate() and process.returncode == 2
