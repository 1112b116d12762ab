"""The meshes of `data` are those that its script makes, and are what its table says."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import geomkit as gk

DATA = Path(__file__).parents[1] / "data"
TABLE = re.findall(r"^\| `(\S+)` \| (\d+) \|", (DATA / "README.md").read_text(), re.MULTILINE)


def script():
    spec = importlib.util.spec_from_file_location("make", DATA / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "faces"), TABLE)
def test_script_makes_the_file(name, faces):
    made, kept = script().MESHES[name](), gk.load_mesh(DATA / name)
    np.testing.assert_array_equal(kept.faces, made.faces)
    np.testing.assert_allclose(kept.vertices, made.vertices, atol=1e-6)
    assert kept.n_faces == int(faces)
    assert (DATA / name).stat().st_size < 300_000


def test_table_is_complete():
    meshes = {path.name for path in DATA.iterdir() if path.suffix in (".ply", ".obj", ".off", ".stl", ".glb")}
    assert {name for name, _ in TABLE} == meshes == set(script().MESHES)


def test_states():
    sign = {name: gk.load_mesh(DATA / name).report().splitlines()[2] for name, _ in TABLE}
    assert sign["knot.ply"] == "closed: every edge has two faces that agree; signs will use pseudonormals"
    assert sign["knot_open.ply"].startswith("open: ")
    assert "disagree" in sign["flipped.ply"] and "bounds no volume" in sign["sheet.off"]
    assert gk.load_mesh(DATA / "knot.ply").topology.genus == 1


def test_boxes_get_the_winding_number():
    mesh = gk.load_mesh(DATA / "boxes.obj")
    overlap = np.array([[0.3, 0.2, 0.1]])
    assert gk.signed_distance(mesh, overlap)[0] < 0 and gk.winding_number(mesh, overlap)[0] > 1.5
