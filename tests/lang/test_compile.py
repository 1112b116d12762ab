"""Compilers: the CPU's, the cache, and NVRTC, which needs no GPU."""

import os
import warnings

import numpy as np
import pytest

import geomkit as gk
from geomkit.errors import DeviceError
from geomkit.lang import compile_cpu
from geomkit.runtime import compiler, nvrtc, program_cuda


@gk.kernel
def everything(
    x: gk.array(gk.f32, ndim=2),
    h: gk.array(gk.f16),
    k: gk.array(gk.i64),
    c: gk.array(gk.i32),
    p: gk.array(gk.vec3),
    q: gk.f64,
    y: gk.array(gk.f32),
):
    i, j = gk.tid()
    s = x[i, j] + h[j]
    v = p[i]
    for n in range(c[0]):
        s = gk.sin(s) * 0.9 + gk.f32(n)
        if s > 3.0:
            break
        v = gk.normalize(v + gk.vec3(s, 1.0, 0.0))
    assert s < 100.0, "too large"
    print("s", s, v)
    gk.atomic_max(k, 1, gk.i64(i))
    y[i] += s * gk.f32(q) + gk.atan2(v.x, v.y) + gk.pow(abs(s) + 1.0, 1.5) + gk.random_uniform(i, j)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_nvrtc(architecture):
    try:
        library = nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    if int(architecture[3:]) not in library.architectures:
        pytest.skip(f"{library} does not compile for {architecture}")
    for text in (everything.source("cuda"), everything.adjoint_source("cuda")):
        assert program_cuda.cubin(text, architecture=architecture)
    if architecture == "sm_90":
        text = everything.specialization({}, frozenset()).text(debug=True).text
        assert program_cuda.cubin(text, architecture=architecture)


def test_the_cache_finds_a_library_by_its_text(monkeypatch):
    path = compiler.library_path('extern "C" int answer() { return 42; }', ())
    before = path.stat().st_mtime_ns
    monkeypatch.setattr(compiler.subprocess, "run", lambda *a, **k: pytest.fail("compiled again"))
    assert compiler.library_path('extern "C" int answer() { return 42; }', ()) == path
    assert path.stat().st_mtime_ns == before and not [f for f in os.listdir(path.parents[1]) if f.startswith("build")]


def test_error():
    with pytest.raises(DeviceError, match="does not compile a kernel"):
        compiler.library_path("this is no C++", ())


def test_without_a_compiler_a_warning_says_so(monkeypatch, module):
    def missing():
        raise DeviceError("no C++ compiler is found")

    head = "@gk.kernel\ndef k(x: gk.array(gk.f64), y: gk.array(gk.f64)):\n"
    made = module(f"{head}    i = gk.tid()\n    y[i] = x[i] * 2.0\n")
    monkeypatch.setattr(compiler, "find", missing)
    compile_cpu.has_compiler.cache_clear()
    y = np.zeros(3)
    try:
        with pytest.warns(RuntimeWarning, match="interpreted with NumPy"):
            made.k(3, np.ones(3), y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert made.k.adjoint(3, np.ones(3), y, adj_y=np.ones(3)).x.tolist() == [2.0] * 3
    finally:
        compile_cpu.has_compiler.cache_clear()
    assert y.tolist() == [2.0] * 3


def test_missing_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    compiler.find.cache_clear()
    with pytest.raises(DeviceError, match="CXX=no-such-compiler: there is no such compiler"):
        compiler.find()
    compiler.find.cache_clear()
