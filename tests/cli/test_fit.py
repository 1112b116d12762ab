"""`geomkit fit`: from folders of images to models, on small data sets made here."""

import json
import re

import numpy as np
import pytest

import geomkit as gk
from geomkit.cli.fit import looked_at
from tests.inverse.test_dataset import picture, views, write_colmap, write_nerf

SMALL = ["--detail", 2, "--size", 32, "--texture-size", 32, "--frames", 3, "--iterations", 8, "--samples", 1]
FILES = ["model.glb", "model.obj", "model.mtl", "model.png", "model.ply", "turntable.gif", "loss.png", "report.html"]


@pytest.fixture(autouse=True)
def needs_an_atlas():
    pytest.importorskip("xatlas")


@pytest.mark.parametrize("write", [write_nerf, write_colmap])
def test_writes_a_model_and_a_report(call, tmp_path, write):
    (tmp_path / "data").mkdir()
    write(tmp_path / "data", views(4, 32))
    code, out, err = call("fit", tmp_path / "data", "-o", tmp_path / "out", *SMALL)
    assert code == 0, err
    assert ("no alpha" in out) == (write is write_colmap) and "4 views of 32 x 32 pixels" in out
    for name in FILES:
        assert (tmp_path / "out" / name).stat().st_size > 0, name
    found = gk.load_scene(tmp_path / "out" / "model.glb")
    name = next(iter(found.objects))
    assert found[f"{name}.material.albedo"].ndim == 3 and found.objects[name].uv is not None
    again = gk.load_scene(tmp_path / "out" / "model.obj")
    assert next(iter(again.objects.values())).mesh.n_faces == found.objects[name].mesh.n_faces
    page = (tmp_path / "out" / "report.html").read_text()
    assert "dB" in page and not re.findall(r'src="(?!data:)', page)


def test_the_loss_falls_and_a_run_is_resumed(call, tmp_path):
    write_nerf(tmp_path, views(4, 32))
    options = [tmp_path, "-o", tmp_path / "out", *SMALL]
    assert call("fit", *options)[0] == 0
    first = (tmp_path / "out" / "model.ply").read_bytes()
    assert call("fit", *options, "--resume")[0] == 0
    assert (tmp_path / "out" / "model.ply").read_bytes() == first
    with np.load(tmp_path / "out" / "checkpoint.npz") as kept:
        assert kept["losses"][-1] < kept["losses"][0]


def test_the_ball_is_where_all_look():
    data = gk.Dataset([picture(camera) for camera in views(4, 16)], views(4, 16), ["a", "b", "c", "d"])
    center, radius = looked_at(data)
    assert np.linalg.norm(center) < 1e-6 and 0.3 < radius < 1


def test_error(call, tmp_path):
    assert call("fit", tmp_path / "none", "-o", tmp_path)[0] == 2
    code, _, err = call("fit", tmp_path, "-o", tmp_path / "out")
    assert code == 2 and "expected a folder with transforms.json" in err
    write_nerf(tmp_path, views(2, 16))
    code, _, err = call("fit", tmp_path, "-o", tmp_path / "out", "--optimise", "form")
    assert code == 2 and "fit: optimise: expected one of shape" in err
    code, _, err = call("fit", tmp_path, "-o", tmp_path / "out", "--size", 0)
    assert code == 2 and "fit: --size: expected an integer of at least 1, got 0" in err
    (tmp_path / "transforms.json").write_text(json.dumps({"frames": []}))
    assert "at least one frame" in call("fit", tmp_path, "-o", tmp_path / "out")[2]
