"""The render job of the benchmark."""

import importlib.util
import json

import pytest

import geomkit as gk
from geomkit.bench import render
from geomkit.bench.__main__ import main


@pytest.fixture
def ball(tmp_path):
    path = tmp_path / "ball.obj"
    gk.shapes.icosphere(2).save(path)
    return str(path)


def run(capsys, *arguments):
    status = main(["render", *arguments])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_rows(capsys, ball):
    status, rows = run(capsys, ball, "--size", "16", "--samples", "2", "--peers", "none", "--repeat", "1")
    assert status == 0
    assert [row["job"] for row in rows] == [
        "render forward", "render interior gradients", "render all gradients", "render mesh iteration",
    ]  # fmt: skip
    assert all(row["check"] == "ok" and row["seconds"] > 0 and row["who"] == "geomkit" for row in rows)
    assert [row["points"] for row in rows] == [4 * 256] * 3 + [256]


@pytest.mark.parametrize("key", render.PEERS)
def test_peer(capsys, key, ball):
    name, module, *_ = render.PEERS[key]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{name} is not installed")
    _, rows = run(capsys, ball, "--size", "64", "--samples", "8", "--peers", key, "--repeat", "1")
    checks = [row["check"] for row in rows if row["who"].startswith(name)]
    assert checks and set(checks) == {"ok"}, rows


def test_a_wrong_gradient_is_seen(capsys, ball, monkeypatch):
    monkeypatch.setattr(render, "SAME", 0.0)
    status, rows = run(capsys, ball, "--size", "16", "--samples", "2", "--peers", "none", "--repeat", "1")
    assert status == 1
    assert "wrong gradient" in {row["check"] for row in rows}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--peers", "nobody"], "--peers: expected some of mitsuba"),
        (["--size", "0"], "expected at least one pixel"),
        (["--repeat", "0"], "expected at least one pixel, one sample and one run"),
    ],
)
def test_error(capsys, ball, arguments, text):
    with pytest.raises(SystemExit, match="2"):
        main(["render", ball, *arguments])
    assert text in capsys.readouterr().err
