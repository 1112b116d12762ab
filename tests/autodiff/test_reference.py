"""The table of gradients in the README is the one that is generated."""

import subprocess
import sys
from pathlib import Path

import geomkit as gk
from geomkit.autodiff.primitive import Primitive
from geomkit.autodiff.reference import table

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- gradients: printed by python -m geomkit.autodiff.reference -->", "<!-- end of gradients -->"


def test_the_readme_has_the_table():
    before, _, rest = (ROOT / "README.md").read_text().partition(BEGIN)
    assert rest, "the marker is gone"
    assert rest.partition(END)[0].strip() == table(), "print it anew: python -m geomkit.autodiff.reference"


def test_every_function_has_a_row():
    rows = table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [f"gk.{name}" for name in sorted(Primitive.registry)]
    assert all(hasattr(gk, name) for name in Primitive.registry)
    assert all(row.count(" | ") == 3 for row in rows)


def test_rows():
    rows = {row.split("`")[1]: row for row in table().splitlines()[2:]}
    assert rows["gk.sample_surface"] == (
        "| `gk.sample_surface` | `mesh.vertices` | `points` | `face`, `barycentric`, `normal` |"
    )
    assert rows["gk.contains"] == "| `gk.contains` | none: inside or outside is discrete |  | `inside` |"


def test_it_prints_from_the_command_line():
    command = [sys.executable, "-W", "error", "-m", "geomkit.autodiff.reference"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == table() + "\n"
