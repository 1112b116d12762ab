"""The isosurface job of the benchmark."""

import importlib.util
import json

import pytest

from geomkit.bench import isosurface
from geomkit.bench.__main__ import main


def test_rows(capsys):
    assert main(["isosurface", "12", "--peers", "none", "--repeat", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["job"] for row in rows} == {"isosurface sphere", "isosurface gyroid"}
    assert all(row["check"] == "ok" and row["seconds"] > 0 and row["points"] == 12**3 for row in rows)
    assert {row["who"] for row in rows} >= {"geomkit", "geomkit trilinear", "geomkit adjoint", "geomkit adjoint alone"}


@pytest.mark.parametrize("key", isosurface.PEERS)
def test_peer(capsys, key):
    name, module, *_ = isosurface.PEERS[key]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{name} is not installed")
    assert main(["isosurface", "24", "--fields", "sphere", "--peers", key, "--repeat", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["check"] for row in rows if row["who"] == name] == ["ok"], rows[-1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--peers", "nobody"], "--peers: expected some of vtk"),
        (["--fields", "cube"], "--fields: expected some of sphere"),
        (["1"], "expected at least 2 samples"),
        (["8", "--repeat", "0"], "expected at least 2 samples a side, and one run"),
    ],
)
def test_error(capsys, arguments, text):
    with pytest.raises(SystemExit, match="2"):
        main(["isosurface", *arguments])
    assert text in capsys.readouterr().err
