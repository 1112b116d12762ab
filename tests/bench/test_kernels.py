"""The job of kernels written in Python."""

import importlib.util
import json

import pytest

from geomkit.bench import kernels
from geomkit.bench.__main__ import main


def run(capsys, *arguments):
    status = main(["kernels", *arguments])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_rows(capsys, monkeypatch):
    monkeypatch.setattr(kernels, "CALLS", 3)
    arguments = "--n", "1000", "--particles", "400,900", "--repeat", "1"
    status, rows = run(capsys, *arguments, "--peers", "none")
    jobs = ["saxpy", "mathematics", "particles", "launch", "neighbors", "neighbors", "cold start", "warm start"]
    assert status == 0 and list(dict.fromkeys(jobs)) == list(kernels.JOBS)
    assert [row["job"] for row in rows] == [f"kernel {job}" for job in jobs]
    assert all(row["check"] == "ok" and row["seconds"] > 0 and row["who"] == "geomkit" for row in rows)
    assert [row["points"] for row in rows] == [*[1000] * 3, kernels.SMALL, 400, 900, *[kernels.SMALL] * 2]


@pytest.mark.filterwarnings("ignore")  # those that peers give, of themselves
@pytest.mark.parametrize("key", kernels.PEERS)
def test_peer(capsys, key, monkeypatch):
    name, module, *_ = kernels.PEERS[key]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setattr(kernels, "CALLS", 3)
    jobs = [j for j in kernels.JOBS if not j.endswith("start")]
    arguments = "--n", "1000", "--particles", "500", "--repeat", "1", "--jobs", ",".join(jobs)
    _, rows = run(capsys, *arguments, "--peers", key)
    checks = [row["check"] for row in rows if row["who"] == name]
    assert len(checks) == len(jobs) - (key == "jax") and set(checks) == {"ok"}, rows


def test_wrong_values_are_seen(capsys, monkeypatch):
    monkeypatch.setattr(kernels, "CLOSE", 0.0)
    arguments = "--n", "1000", "--particles", "9", "--repeat", "1", "--jobs", "saxpy,neighbors"
    status, rows = run(capsys, *arguments, "--peers", "none")
    assert status == 1 and "wrong values" in {row["check"] for row in rows}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--peers", "nobody"], "--peers: expected some of warp,numba,taichi,jax"),
        (["--jobs", "nothing"], "--jobs: expected some of saxpy,mathematics"),
        (["--n", "0"], "expected at least one thread and one run"),
    ],
)
def test_error(capsys, arguments, text):
    with pytest.raises(SystemExit):
        main(["kernels", *arguments])
    assert text in capsys.readouterr().err
