"""Every kernel of these tests, of the benchmark and of the notebooks compiles for CUDA, forward and backward."""

import ast
import importlib.util
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import geomkit as gk
from geomkit.bench import kernels as benchmark
from geomkit.errors import DeviceError
from geomkit.lang.kernel import SLOTS, Kernel
from geomkit.lang.loops import build
from geomkit.lang.record import differentiable
from geomkit.lang.specialization import Specialization
from geomkit.lang.types import Array, Mat, Quat, Scalar, Vec, f32, f64
from geomkit.runtime import nvrtc, program_cuda

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
OTHER_PRECISION = ("sm_75", "sm_120")  # where kernels are also compiled in the precision that they are not written in
HERE = Path(__file__).parent
DOUBLE = "#define GK_REAL double"
PROGRAMS = range(1)  # of the random ones


def module_at(path):
    spec = importlib.util.spec_from_file_location(f"cuda_text_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def notebook_modules(folder):
    """The cells of notebooks that define kernels."""
    for path in sorted((HERE.parents[1] / "notebooks").glob("*.ipynb")):
        cells = ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
        text = "\n".join(c for c in cells if "@gk.kernel" in c)
        if text:
            made = folder / f"notebook_{path.stem}.py"
            made.write_text(f"import numpy as np\nimport geomkit as gk\n{text}\n")
            yield module_at(made)


def in_precision(t, precision):
    """A parameter's type with numbers of another precision; structures stay what they are."""
    if isinstance(t, Array):
        return Array(in_precision(t.element or precision, precision), t.ndim)
    if isinstance(t, Scalar):
        return precision if t in (f32, f64) else t
    if isinstance(t, Vec | Mat | Quat) and t.scalar in (f32, f64):
        return t[precision]
    return t


def texts_of(name, kernel):
    """The texts of a kernel, and whether they are as written, or of another precision, if its body names none."""
    written = {n: Array(f32, t.ndim) if n in kernel._generic else t for n, t in kernel.function.types.items()}
    made, seen = [], []
    for precision in (None, f32, f64):
        types = {n: in_precision(written[n], precision) if precision else written[n] for n in kernel.names}
        if types in seen:
            continue
        try:
            program = build(kernel.function, types)
        except gk.KernelError:
            assert precision, name
            continue
        seen.append(types)
        program.name = f"{name}_{precision or 'as_written'}"
        found = Specialization(program)
        wrt = frozenset(n for n in differentiable(found.types) if isinstance(found.types[n], Array))
        made.append((found.text().text, precision is None))
        try:
            made.append((found.adjoint(wrt, SLOTS).text.text, precision is None))
        except gk.KernelError as error:
            # The message of one that has none is tested elsewhere.
            assert "backward pass" in str(error), name
    return made


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """All kernels by the module's name and theirs."""
    folder = tmp_path_factory.mktemp("modules")
    modules = [module_at(p) for p in sorted(HERE.glob("test_*.py")) if p != Path(__file__)]
    modules += [benchmark, *notebook_modules(folder), module_at(HERE / "programs.py").module_of(PROGRAMS, folder)]
    found = {}
    for module in modules:
        short = module.__name__.rpartition(".")[2].removeprefix("cuda_text_")
        found |= {f"{short}_{name}": value for name, value in vars(module).items() if isinstance(value, Kernel)}
    return found


@pytest.fixture(scope="module")
def texts(kernels):
    """All texts as one, so that NVRTC reads the headers once: by their precision, and whether they are as written."""
    joined = {}
    for name, kernel in kernels.items():
        for text, is_written in texts_of(name, kernel):
            lines = text.splitlines()
            headers, body = joined.setdefault((lines[0] == DOUBLE, is_written), ({}, []))
            headers.update(dict.fromkeys(line for line in lines if line.startswith("#include")))
            body += [f'#line 1 "{name}"', *(line for line in lines if not line.startswith(("#include", "#define")))]
    return {key: "\n".join([*headers, *body]) for key, (headers, body) in joined.items()}


@pytest.fixture(scope="module")
def compiled(texts, request, tmp_path_factory):
    """Machine code by architecture and precision, made by two threads; pytest's cache has what did not change."""
    try:
        library = nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    kept = getattr(request.config, "cache", None)
    folder = tmp_path_factory.mktemp("cubin") if kept is None else kept.mkdir("geomkit-cubin")
    folder.chmod(0o700)
    known = [a for a in ARCHITECTURES if int(a[3:]) in library.architectures]
    keys = [(a, k) for a, k in itertools.product(known, texts) if k[1] or a in OTHER_PRECISION]

    def job(architecture, key):
        return program_cuda.cubin((f"{DOUBLE}\n" if key[0] else "") + texts[key], architecture=architecture)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setenv("GEOMKIT_CACHE_DIR", str(folder))
        jobs = {key: pool.submit(job, *key) for key in keys}
        for one in jobs.values():
            one.exception()
    return jobs


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles(architecture, compiled):
    jobs = [job for (a, _), job in compiled.items() if a == architecture]
    if not jobs:
        pytest.skip(f"this NVRTC does not compile for {architecture}")
    assert len(jobs) == (4 if architecture in OTHER_PRECISION else 2)
    assert all(job.result()[:4] == b"\x7fELF" for job in jobs)


def test_all_are_collected(kernels, texts):
    for path in HERE.glob("test_*.py"):
        for s in ast.parse(path.read_text()).body:
            if isinstance(s, ast.FunctionDef) and any("gk.kernel" in ast.unparse(d) for d in s.decorator_list):
                assert f"{path.stem}_{s.name}" in kernels
    assert any(name.startswith("notebook_") for name in kernels)
    # Two texts of a kernel as it is written, and for most of them two more in another precision.
    assert sum(text.count("#line 1") for text in texts.values()) > 3 * len(kernels)
