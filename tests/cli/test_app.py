"""The command `geomkit`: what all commands share, and those that are one call."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import geomkit as gk
from geomkit.cli import doctor, main

DATA = Path(__file__).parents[2] / "data"
KNOT = str(DATA / "knot.ply")


def start(*arguments: object) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(Path(gk.__file__).parents[1])}
    command = [sys.executable, "-m", "geomkit", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


# ---- the whole


def test_version_and_help(call):
    assert call("--version") == (0, f"{gk.__version__}\n", "")
    code, out, err = call("--help")
    assert code == 0 and not err
    for command in ("doctor", "info", "sdf", "query", "raycast", "render", "demo", "bench"):
        assert command in out
        assert command == "bench" or call(command, "--help")[0] == 0


def test_startup_imports_nothing_heavy():
    heavy = ("torch", "jax", "cupy", "trimesh", "imageio", "matplotlib", "open3d", "warp")
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
        (
            ["raycast", KNOT, "r.csv", "-o", "a.csv", "--what", "distance"],
            "geomkit: raycast: what: expected some of t, ",
        ),
        (
            ["raycast", KNOT, "r.csv", "-o", "a.ply"],
            "geomkit: raycast: output: expected a file name ending in .npz, .csv",
        ),
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


def test_output_is_a_folder(call, tmp_path):
    (tmp_path / "a.csv").mkdir()
    (tmp_path / "p.csv").write_text("1,0,0\n")
    code, _, err = call("query", KNOT, tmp_path / "p.csv", "-o", tmp_path / "a.csv")
    assert (code, err) == (2, f"geomkit: {tmp_path / 'a.csv'}: Is a directory\n")
    assert not list((tmp_path / "a.csv").iterdir())


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
