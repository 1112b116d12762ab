"""Fixtures of the kernel language's tests."""

import importlib.util
import itertools
from collections.abc import Callable
from types import ModuleType

import pytest

import geomkit as gk

_number = itertools.count()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Compiled kernels go into a folder that the tests share."""
    monkeypatch.setenv("GEOMKIT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


@pytest.fixture
def module(tmp_path) -> Callable[[str], ModuleType]:
    """Make a module of a text: the compiler reads kernels from files."""

    def make(text: str) -> ModuleType:
        path = tmp_path / f"kernels_{next(_number)}.py"
        path.write_text(f"import math\nimport numpy as np\nimport geomkit as gk\n{text}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    return make


@pytest.fixture
def refusal(module) -> Callable[[str], str]:
    """The one error of a text with a kernel `k`, which names the kernel and shows the place."""

    def of(text: str) -> str:
        with pytest.raises(gk.KernelError) as caught:
            module(text)
        found = str(caught.value)
        assert ", in k\n" in found and "^" in found and "problems)" not in found
        return found

    return of
