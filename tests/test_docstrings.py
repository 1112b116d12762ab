"""The examples in docstrings run as they stand."""

import doctest
import importlib
import pkgutil

import pytest

import geomkit
from geomkit.autodiff.primitive import Primitive

MODULES = ["geomkit"] + [
    module.name
    for module in pkgutil.walk_packages(geomkit.__path__, "geomkit.")
    if not module.name.endswith("__main__") and not module.name.startswith("geomkit.bench")
]
FINDER = doctest.DocTestFinder(exclude_empty=True)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    output: list[str] = []
    for test in FINDER.find(importlib.import_module(name)):
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=output.append)
    assert not output, "".join(output)


@pytest.mark.parametrize("name", sorted(Primitive.registry))
def test_every_primitive_has_an_example_that_is_found(name):
    module = importlib.import_module(Primitive.registry[name].__module__)
    assert any(test.name.endswith(f".{name}") and test.examples for test in FINDER.find(module))
