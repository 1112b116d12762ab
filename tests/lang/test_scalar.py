"""The scalar functions of the kernel language: against 80-bit floats, NumPy at special values, and NVRTC."""

import re
import subprocess

import numpy as np
import pytest

from geomkit.errors import DeviceError
from geomkit.runtime import nvrtc
from tests.lang import toolchain

# Range of each argument, and the greatest error in units of the last place, in float and in double.
UNARY = {
    "sin": ((-100, 100), 1.5, 1.0),
    "cos": ((-100, 100), 1.5, 1.0),
    "tan": ((-100, 100), 3.0, 2.0),
    "asin": ((-1, 1), 1.5, 1.5),
    "acos": ((-1, 1), 1.5, 1.5),
    "atan": ((-50, 50), 2.0, 1.5),
    "exp": ((-87, 88), 1.5, 1.5),
    "exp2": ((-126, 127), 1.5, 1.5),
    "log": ((1e-6, 50), 1.5, 1.5),
    "log2": ((1e-6, 50), 1.5, 1.5),
    "log10": ((1e-6, 50), 2.0, 1.5),
    "sinh": ((-80, 80), 2.0, 2.0),
    "cosh": ((-80, 80), 1.5, 1.5),
    "tanh": ((-10, 10), 2.5, 2.5),
    "sqrt": ((0, 50), 0.5, 0.5),
    "rsqrt": ((1e-3, 50), 1.5, 1.5),
}
BINARY = {
    "atan2": (((-5, 5), (-5, 5)), 2.0, 1.5),
    "pow": (((0.01, 30), (-20, 20)), 1.0, 1.5),
    "fmod": (((-50, 50), (0.5, 5)), 0.0, 0.0),
    "mod": (((-50, 50), (-5, 5)), 0.5, 0.5),
    "min": (((-5, 5), (-5, 5)), 0.0, 0.0),
    "max": (((-5, 5), (-5, 5)), 0.0, 0.0),
    "copysign": (((-5, 5), (-5, 5)), 0.0, 0.0),
}
ROUNDING = ("floor", "ceil", "trunc", "round", "abs", "sign")
TERNARY = ("clamp", "lerp", "smoothstep")
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power", "min": "minimum"} | {
    "max": "maximum",
    "round": "rint",
}
REALS = tuple(toolchain.REALS.items())
WIDE = np.finfo(np.longdouble).nmant > 60  # elsewhere there is nothing to compare a double with


def reference(name, *x):
    wide = [a.astype(np.longdouble) for a in x]
    if name == "rsqrt":
        return 1 / np.sqrt(wide[0])
    return getattr(np, NUMPY.get(name, name))(*wide)


def loop(name, count, real):
    """A function NAME_real(n, x..., r)."""
    letters = "xyz"[:count]
    inputs, given = ", ".join(f"const {real}* {a}" for a in letters), ", ".join(f"{a}[i]" for a in letters)
    each = '_Pragma("omp simd") for (int i = 0; i < n; ++i)'
    return f'extern "C" void {name}_{real}(int n, {inputs}, {real}* r) {{ {each} r[i] = gkl::{name}({given}); }}\n'


ARITY = dict.fromkeys((*UNARY, *ROUNDING), 1) | dict.fromkeys(BINARY, 2) | dict.fromkeys(TERNARY, 3)


def program():
    return '#include "scalar.h"\n' + "".join(
        loop(name, count, real) for name, count in ARITY.items() for real in ("float", "double")
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return toolchain.build(tmp_path_factory.mktemp("scalar"), program())


def evaluate(library, name, *x):
    r = np.empty_like(x[0])
    toolchain.call(library, f"{name}_{toolchain.REALS[r.dtype]}", *x, r)
    return r


def error(got, exact):
    """Greatest error in units of the last place."""
    unit = np.spacing(np.abs(exact).astype(got.dtype))
    return float(np.max(np.abs(got.astype(np.longdouble) - exact) / unit))


@pytest.mark.parametrize("dtype, real", REALS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_value(library, name, dtype, real):
    ranges, least, most = (UNARY | BINARY)[name]
    if dtype == np.float64 and not WIDE:
        pytest.skip("long double is no wider than double here")
    rng = np.random.default_rng(1)
    x = [rng.uniform(*r, 20000).astype(dtype) for r in ([ranges] if name in UNARY else ranges)]
    assert error(evaluate(library, name, *x), reference(name, *x)) <= (least if real == "float" else most)


@pytest.mark.parametrize("dtype, real", REALS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_far_from_zero(library, name, dtype, real):
    rng = np.random.default_rng(2)
    x = (np.exp2(rng.uniform(5, 44.9, 20000)) * rng.choice([-1, 1], 20000)).astype(dtype)
    halves = (np.arange(1, 40000, 7) * (np.pi / 2)).astype(dtype)  # where the reduction cancels most
    x = np.concatenate([x, halves])
    if WIDE or dtype == np.float32:
        assert error(evaluate(library, name, x), reference(name, x)) <= (3 if name == "tan" else 1.6)
    beyond = np.array([2.0**45, -1e20, np.inf, -np.inf, np.nan], dtype)
    assert np.isnan(evaluate(library, name, beyond)).all()


@pytest.mark.parametrize("dtype, real", REALS)
def test_special_values(library, dtype, real):
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    small = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, tiny, -tiny, 100 * tiny, np.finfo(dtype).tiny, 89.3, -104, 127, 128, -149]
    large = [huge, -huge, np.inf, -np.inf, np.nan, 710.4, 711, -745.2, -1074, 1023]
    x = np.array(small + large, dtype)
    unary = ("exp", "exp2", "log", "log2", "log10", "sqrt", "sinh", "cosh", "tanh", "asin", "acos", "atan")
    with np.errstate(all="ignore"):
        for name in (*unary, *ROUNDING):
            got, exact = evaluate(library, name, x), reference(name, x).astype(dtype)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(exact), err_msg=name)
            np.testing.assert_allclose(got, exact, rtol=4 * np.finfo(dtype).eps, atol=2 * tiny, err_msg=name)
            if name not in ("cosh", "exp", "exp2", "acos", "sign"):
                np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(exact[:2]), err_msg=name)
        a, b = (v.ravel().astype(dtype) for v in np.meshgrid(x, np.concatenate([x, np.array([3, -3, 7.5], dtype)])))
        for name in ("atan2", "pow", "copysign"):
            got, exact = evaluate(library, name, a, b), reference(name, a, b).astype(dtype)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(exact), err_msg=name)
            np.testing.assert_allclose(got, exact, rtol=8 * np.finfo(dtype).eps, atol=2 * tiny, err_msg=name)
            known = ~np.isnan(exact)
            np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(exact)[known], err_msg=name)


@pytest.mark.parametrize("dtype, real", REALS)
def test_ternary(library, dtype, real):
    rng = np.random.default_rng(4)
    x, y, z = (rng.uniform(*r, 1000).astype(dtype) for r in ((-2, 2), (-1, -0.1), (0.1, 1)))
    close = {"rtol": 4 * np.finfo(dtype).eps, "atol": np.finfo(dtype).eps}
    np.testing.assert_array_equal(evaluate(library, "clamp", x, y, z), np.clip(x, y, z))
    np.testing.assert_allclose(evaluate(library, "lerp", x, y, z), x + (y - x) * z, **close)
    t = np.clip((x - y) / (z - y), 0, 1)
    np.testing.assert_allclose(evaluate(library, "smoothstep", y, z, x), t * t * (3 - 2 * t), **close)


def test_minimum_of_a_nan_is_the_second(library):
    x, y = np.array([np.nan, 1.0]), np.array([2.0, np.nan])
    np.testing.assert_array_equal(evaluate(library, "min", x, y), y)
    np.testing.assert_array_equal(evaluate(library, "max", x, y), y)


def test_integers(tmp_path):
    text = '#include "scalar.h"\nextern "C" void f(int n, const int* a, const int* b, int* r) {\n'
    text += "for (int i = 0; i < n; ++i) r[5 * i] = gkl::floordiv(a[i], b[i]), r[5 * i + 1] = gkl::mod(a[i], b[i]), "
    text += "r[5 * i + 2] = gkl::min(a[i], b[i]), r[5 * i + 3] = gkl::abs(a[i]), r[5 * i + 4] = gkl::sign(a[i]); }\n"
    a, b = (v.ravel().astype(np.int32) for v in np.meshgrid([-7, -6, -1, 0, 1, 6, 7], [-3, -1, 1, 2, 3]))
    r = np.empty((len(a), 5), np.int32)
    toolchain.call(toolchain.build(tmp_path, text), "f", a, b, r)
    np.testing.assert_array_equal(r, np.stack([a // b, a % b, np.minimum(a, b), abs(a), np.sign(a)], 1))


def test_loops_become_vector_code(tmp_path):
    """Every function but the two that call the library."""
    source = tmp_path / "program.cpp"
    source.write_text(program())
    cxx = toolchain.compiler()
    command = [cxx, *toolchain.FLAGS, f"-I{toolchain.FOLDER}", str(source), "-o", str(tmp_path / "out.so")]
    done = subprocess.run([*command, "-fopt-info-vec-optimized"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{cxx} does not report what it vectorises")
    found = {int(n) for n in re.findall(r"program\.cpp:(\d+):\d+: optimized: loop vectorized", done.stderr)}
    for number, text in enumerate(program().splitlines(), 1):
        match = re.search(r" void (\w+)_(float|double)\(", text)
        if match and match[1] not in ("fmod", "mod"):
            assert number in found, f"{match[0]}: not vectorised"


ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def compile_for_gpus(tmp_path, text):
    """Compile a text that includes headers by their full path for every architecture."""
    try:
        compiler = nvrtc.library()
    except DeviceError as error:
        pytest.skip(str(error))
    source = tmp_path / "program.cu"
    source.write_text(text)
    for architecture in ARCHITECTURES:
        options = ("--warning-as-error=all-warnings",)
        code = compiler.compile(source, architecture=architecture, real="float", options=options)
        assert code.startswith(b"\x7fELF"), architecture


def test_nvrtc(tmp_path):
    body = "".join(f"    r += gkl::{name}({', '.join('xyz'[:count])});\n" for name, count in ARITY.items())
    text = f'#include "{toolchain.FOLDER}/random.h"\n'
    for real in ("float", "double"):
        text += f'extern "C" __global__ void f_{real}({real} x, {real} y, {real} z, {real}* out) {{\n'
        text += f"    {real} r = gkl::random_uniform(1u, 2u);\n{body}    *out = r;\n}}\n"
    compile_for_gpus(tmp_path, text)
