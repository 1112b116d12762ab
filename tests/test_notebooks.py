"""Every notebook runs from its first cell to its last, and is kept without outputs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))

RUN = """
import sys, warnings
warnings.simplefilter("ignore")
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": sys.argv[2]}}).execute()
"""


def test_there_are_some():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_without_outputs(path):
    for cell in json.loads(path.read_text())["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"] == [] and cell["execution_count"] is None)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path):
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed", exc_type=ImportError)
    for name in re.findall(r'^\s*"import (\w+)', path.read_text(), re.MULTILINE):
        pytest.importorskip(name, reason=f"the notebook needs {name}")
    command = [sys.executable, "-c", RUN, str(path), str(path.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
