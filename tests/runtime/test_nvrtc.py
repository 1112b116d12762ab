from concurrent.futures import ThreadPoolExecutor

import pytest

from geomkit.errors import DeviceError
from geomkit.runtime import nvrtc

TEXT = '#include "../core/half.h"\nextern "C" __global__ void scale(int n, GK_REAL* a) {\n    a[n] = half(a[n]);\n}\n'


@pytest.fixture
def compiler():
    try:
        return nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def text(tmp_path):
    """A kernel file with a header that it names relative to itself."""
    (tmp_path / "core").mkdir()
    (tmp_path / "kernels").mkdir()
    (tmp_path / "core" / "half.h").write_text("__device__ inline GK_REAL half(GK_REAL a) { return a / 2; }\n")
    path = tmp_path / "kernels" / "scale.cu"
    path.write_text(TEXT)
    return path


def test_value(compiler, text):
    made = {
        (architecture, real): nvrtc.compile(text, architecture=architecture, real=real)
        for architecture in ("sm_75", "sm_90")
        for real in ("float", "double")
    }
    assert all(code.startswith(b"\x7fELF") and b"scale" in code for code in made.values())
    assert len(set(made.values())) == 4
    assert compiler.version >= (12, 0) and {75, 80, 90} <= set(compiler.architectures)
    assert str(compiler).startswith(f"NVRTC {compiler.version[0]}.")


def test_options(compiler, text):
    text.write_text(TEXT.replace("half(a[n])", "GK_STACK"))
    with pytest.raises(DeviceError, match="GK_STACK"):
        compiler.compile(text, architecture="sm_90", real="float")
    codes = {compiler.compile(text, architecture="sm_90", real="float", options=[f"-DGK_STACK={n}"]) for n in (64, 128)}
    assert len(codes) == 2
    flags = nvrtc.flags(architecture="sm_90", real="float")
    assert "-std=c++17" in flags and not any("fast" in flag or "fmad" in flag for flag in flags)


def test_error_begins_with_the_first_error(compiler, text):
    text.write_text(TEXT.replace("half(a[n])", "missing(a)").replace("}", "    int unused;\n}"))
    first = r"^scale\.cu, sm_90, float: .*scale\.cu\(3\): error: identifier \"missing\""
    with pytest.raises(DeviceError, match=first) as caught:
        compiler.compile(text, architecture="sm_90", real="float")
    assert "unused" in str(caught.value)


def test_error_of_options(compiler, text):
    with pytest.raises(DeviceError, match="sm_10, float: .*invalid value for --gpu-architecture"):
        compiler.compile(text, architecture="sm_10", real="float")
    with pytest.raises(FileNotFoundError):
        compiler.compile(text.with_name("absent.cu"), architecture="sm_90", real="float")


def test_warning(compiler, text):
    text.write_text(TEXT.replace("}", "    int unused = 3;\n}"))
    with pytest.warns(RuntimeWarning, match="unused"):
        compiler.compile(text, architecture="sm_90", real="float")
    with pytest.raises(DeviceError, match="unused"):
        compiler.compile(text, architecture="sm_90", real="float", options=["--warning-as-error=all-warnings"])


def test_threads_compile_at_once(compiler, text):
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: compiler.compile(text, architecture="sm_80", real="float"), range(8)))
    assert len(set(codes)) == 1


def missing(monkeypatch, paths, newest=None):
    monkeypatch.setattr(nvrtc, "candidates", lambda: iter(paths))
    with pytest.raises(DeviceError) as caught:
        nvrtc.library.__wrapped__(newest)
    return str(caught.value)


def test_missing(monkeypatch, tmp_path):
    extra = 'pip install "geomkit-diff[cuda13]", or geomkit-diff[cuda12] for a driver of CUDA 12'
    assert missing(monkeypatch, []) == f"the CUDA compiler NVRTC is missing: {extra}"
    broken = tmp_path / "libnvrtc.so.13"
    broken.write_bytes(b"no library")
    assert str(broken) in missing(monkeypatch, [str(broken)])
    assert "libabsent.so.1" in missing(monkeypatch, ["libabsent.so.1"])


def test_too_new_for_the_driver(compiler, monkeypatch):
    found = list(nvrtc.candidates())
    assert "but the driver stops at CUDA 1" in missing(monkeypatch, found, newest=1)
    assert nvrtc.library(compiler.version[0]).version == compiler.version


def test_candidates(monkeypatch, tmp_path):
    for name in ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvrtc/lib/libnvrtc.alt.so.12"):
        path = tmp_path / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    toolkit = tmp_path / "toolkit" / "lib64"
    toolkit.mkdir(parents=True)
    for name in ("libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.12.8.93"):
        (toolkit / name).touch()

    class Spec:
        submodule_search_locations = [str(tmp_path / "nvidia")]

    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", lambda name: Spec)
    monkeypatch.setattr(nvrtc.ctypes.util, "find_library", lambda name: "libnvrtc.so.11")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    found = [path.replace(str(tmp_path), "") for path in nvrtc.candidates() if not path.startswith("/usr/local")]
    wheels = ["/nvidia/cu13/lib/libnvrtc.so.13", "/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"]
    assert found == [*wheels, "/toolkit/lib64/libnvrtc.so.12", "libnvrtc.so.11"]
