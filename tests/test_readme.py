"""Every Python block and every command of the README runs as it stands.

Each block of Python runs in a process of its own, if the library that it shows is there. Commands run one after
another in a folder that has the repository's `data` and the files `points.csv` and `rays.csv`. Left out are commands
that install (`pip ...`) and the one that runs these tests (`pytest`).
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import geomkit as gk

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [line for language, text in BLOCKS if language == "bash" for line in text.splitlines()]
LEFT_OUT = ("pip", "pytest")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("readme")
    (place / "data").symlink_to(ROOT / "data")
    (place / "points.csv").write_text("x,y,z\n1.0,0.0,0.0\n0.0,0.0,0.0\n")
    (place / "rays.csv").write_text("ox,oy,oz,dx,dy,dz\n1.0,0.0,5.0,0.0,0.0,-1.0\n0.0,0.0,5.0,0.0,0.0,1.0\n")
    return place


def run(arguments: list[str], folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(Path(gk.__file__).parents[1])}
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_blocks_are_of_known_languages():
    assert {language for language, _ in BLOCKS} == {"bash", "python"}
    assert len(PYTHON) >= 3 and "geomkit demo" in COMMANDS


@pytest.mark.parametrize("text", PYTHON, ids=range(len(PYTHON)))
def test_python(text, folder):
    for package in re.findall(r"^import (torch|jax)$", text, re.MULTILINE):
        pytest.importorskip(package)
    # In a file: kernels are compiled from their text.
    (folder / "example.py").write_text(text)
    run([sys.executable, "-W", "error", "example.py"], folder)


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.split()[0] not in LEFT_OUT])
def test_command(command, folder):
    program, *arguments = shlex.split(command)
    # The command `geomkit` is this one, also where another is first on the path.
    start = {"geomkit": [sys.executable, "-m", "geomkit"], "python": [sys.executable]}
    run([*start[program], *arguments], folder)


def test_demo_wrote_what_the_readme_says(folder):
    if not (folder / "geomkit-demo").exists():
        run([sys.executable, "-m", "geomkit", "demo"], folder)
    assert {path.name for path in (folder / "geomkit-demo").iterdir()} == {"slice.png", "gradient.png"}


def test_files_that_the_readme_names_exist():
    for name in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / name).exists(), name
    assert (ROOT / "data" / "signed_distance.png").stat().st_size < 200_000
    assert (ROOT / "data" / "render.png").stat().st_size < 150_000


def test_names_that_the_readme_uses_exist():
    for name in set(re.findall(r"\bgk\.(\w+)", TEXT)):
        assert hasattr(gk, name), name
