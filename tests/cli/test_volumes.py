"""The commands remesh, offset and voxelize."""

from pathlib import Path

import numpy as np
import pytest

import geomkit as gk
from geomkit.cli import main

KNOT = Path(__file__).parents[2] / "data" / "knot.ply"


def call(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code


def test_remesh(tmp_path, capsys):
    out = tmp_path / "out.ply"
    assert call("remesh", KNOT.with_name("knot_open.ply"), "--resolution", 48, "-o", out) == 0
    made = gk.load_mesh(out)
    assert made.is_closed and made.is_oriented
    assert capsys.readouterr().out == f"{out}: {made.n_vertices} vertices, {made.n_faces} faces\n"


def test_offset(tmp_path):
    mesh, out = gk.load_mesh(KNOT), tmp_path / "out.obj"
    assert call("offset", KNOT, "--distance", -0.05, "-o", out, "--resolution", 48) == 0
    made = gk.load_mesh(out)
    assert made.is_closed and 0 < made.volume < mesh.volume


@pytest.mark.filterwarnings("default:offset")
def test_nothing_left(tmp_path, capsys):
    """A script learns that there is no inside so deep."""
    out = tmp_path / "out.ply"
    assert call("offset", KNOT, "--distance", -100, "-o", out, "--resolution", 24) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}: 0 vertices, 0 faces\n"
    assert printed.err == "geomkit: warning: offset: no surface is left, so the mesh has no faces\n"


def test_voxelize(tmp_path, capsys):
    out = tmp_path / "out.npz"
    assert call("voxelize", KNOT, "-o", out, "--resolution", 24, "--fill", "solid") == 0
    with np.load(out) as voxels:
        assert max(voxels["values"].shape) == 24 and voxels["origin"].shape == (3,) and voxels["spacing"] > 0
        assert f"{voxels['values'].sum()} filled" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("remesh", KNOT, "-o", "out.xyz"), "geomkit: remesh: output: expected a file name ending in .glb, .obj"),
        (("voxelize", KNOT, "-o", "out.vti"), "geomkit: voxelize: output: expected a file name ending in .npz"),
        (("remesh", KNOT, "-o", "out.ply", "--resolution", 3), "geomkit: remesh: resolution: expected an integer of"),
        (("remesh", KNOT, "-o", "no/such/out.ply"), "geomkit: no such folder: no/such"),
    ],
)
def test_error(tmp_path, monkeypatch, capsys, arguments, text):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    assert text in capsys.readouterr().err
