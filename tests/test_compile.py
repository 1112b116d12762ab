import importlib
import os
import pkgutil
import re
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import geomkit
from geomkit.errors import DeviceError
from geomkit.runtime import cache, host, nvrtc, ptxas
from geomkit.runtime.kernel import STRUCTS, Kernel, Parameter

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
SOURCES = ptxas.sources()
OPTIONS = ("-DGK_STACK=64", "--warning-as-error=all-warnings")
OPTIONAL = {"cupy", "fcpw", "igl", "jax", "numba", "open3d", "taichi", "torch", "warp"}


def import_all():
    """Import all of the package, for each module to declare its kernels; adapters of what is not installed stay out."""
    for module in pkgutil.walk_packages(geomkit.__path__, "geomkit."):
        if not module.name.endswith("__main__"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # those of peers in the benchmark
                    importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                if str(error.name).partition(".")[0] not in OPTIONAL:
                    raise


import_all()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory, request):
    """All kernels, compiled by two threads in the order of the tests. Pytest's cache has those that did not change."""
    try:
        nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    kept = getattr(request.config, "cache", None)
    folder = tmp_path_factory.mktemp("cubin") if kept is None else kept.mkdir("geomkit-cubin")
    folder.chmod(0o700)

    def job(source, architecture, real):
        path = host.kernel_folder() / "kernels" / source
        return cache.cubin(path, architecture=architecture, real=real, options=OPTIONS)

    before = os.environ.get("GEOMKIT_CACHE_DIR")
    os.environ["GEOMKIT_CACHE_DIR"] = str(folder)
    pool = ThreadPoolExecutor(2)
    keys = [(s, a, r) for s in SOURCES for a in ARCHITECTURES for r in ("float", "double")]
    yield {key: pool.submit(job, *key) for key in keys}
    pool.shutdown(cancel_futures=True)
    os.environ.pop("GEOMKIT_CACHE_DIR")
    if before is not None:
        os.environ["GEOMKIT_CACHE_DIR"] = before


@pytest.mark.parametrize("source", SOURCES)
def test_nvrtc(source, compiled):
    names = [name for name, _ in signatures(source)]
    for (file, architecture, _), code in compiled.items():
        if file == source:
            cubin = code.result()
            assert cubin.startswith(b"\x7fELF"), architecture
            assert all(name.encode() in cubin for name in names)


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def signatures(source):
    """Names of a file's kernels and their parameters, the text of each."""
    text = without_comments((host.kernel_folder() / "kernels" / source).read_text())
    heads = re.findall(r"GK_KERNEL\s+(\w+)\(([^)]*)\)", text)
    return [(name, [" ".join(p.split()) for p in row.split(",")]) for name, row in heads]


def parts(text):
    p = Parameter(text)
    return p.constant, p.type, p.pointer, p.name


def test_kernels_are_found():
    assert len(SOURCES) >= 8 and len(Kernel.registry) >= 20
    names = [name for source in SOURCES for name, _ in signatures(source)]
    assert len(names) == len(set(names)), "kernels of one library need different names"


@pytest.mark.parametrize("kernel", Kernel.registry, ids=lambda k: k.name)
def test_signature_row_is_that_of_the_kernel(kernel):
    assert kernel.source in SOURCES
    first, *rest = dict(signatures(kernel.source))[kernel.name]
    assert first == "int n"
    row = [(p.constant, p.type, p.pointer, p.name) for p in kernel.parameters]
    assert row == [parts(text) for text in rest]


@pytest.mark.parametrize("source", SOURCES)
def test_every_kernel_has_a_signature_row(source):
    declared = {k.name for k in Kernel.registry if k.source == source}
    assert {name for name, _ in signatures(source)} - declared == set()


def test_kernels_begin_a_line():
    """The build finds them that way."""
    for source in SOURCES:
        text = (host.kernel_folder() / "kernels" / source).read_text()
        at_line_starts = re.findall(r"^GK_KERNEL ([a-z0-9_]+)\(", text, re.MULTILINE)
        assert at_line_starts == [name for name, _ in signatures(source)]


@pytest.mark.parametrize("name", STRUCTS)
def test_structure_is_that_of_the_kernels(name):
    headers = [without_comments(path.read_text()) for path in host.kernel_folder().rglob("*.h")]
    definition = re.compile(rf"^struct {name} {{(.*?)^}};", re.DOTALL | re.MULTILINE)
    (body,) = [body for text in headers for body in definition.findall(text)]
    codes = ""
    for field in filter(None, (line.strip() for line in body.split(";"))):
        kind, _, count = re.fullmatch(r"(.*?[ *])(\w+)(?:\[(\d+)\])?", field).groups()
        code = "P" if "*" in kind else {"double": "d", "float": "f", "int": "i", "uint64": "Q"}[kind.strip()]
        codes += code * int(count or 1)
    assert "".join(code for _, code in STRUCTS[name]) == codes


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_nvcc_spills_no_float(capsys):
    ptxas.main(["--real", "float"])
    printed = capsys.readouterr().out
    with capsys.disabled():
        print("\n" + printed)
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == list(ptxas.Usage._fields)
    assert {line[1] for line in lines[1:]} == {name for source in SOURCES for name, _ in signatures(source)}
    assert not [line for line in lines[1:] if line[4:] != ["0", "0"]]


def test_nvcc_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DeviceError, match="nvcc is missing"):
        ptxas.usage(SOURCES[0])


def test_precisions_of_the_cpu_are_those_of_the_kernels():
    assert host.REAL == {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
