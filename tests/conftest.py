"""Fixtures of every test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from geomkit.mesh import Mesh, load_mesh

SHARED = (Path(__file__).parents[1] / ".." / "shared" / "meshes").resolve()


@pytest.fixture
def shared_mesh() -> Callable[..., Mesh]:
    """Load a real mesh by file name, or skip the test where these meshes are not kept."""

    def load(name: str, **options) -> Mesh:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"the real mesh {name} is not in {SHARED}")
        return load_mesh(path, **options)

    return load
