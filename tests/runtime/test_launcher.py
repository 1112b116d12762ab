"""The launcher: what a kernel is given, what is refused, and who runs it."""

import ctypes
import os
import threading

import numpy as np
import pytest

import geomkit as gk
from geomkit.runtime import host
from geomkit.runtime.launcher import Fault, Launcher, Misfit
from tests.lang import toolchain

TEXT = """
struct Launch { int dim[3]; int grain; struct Error* errors; };
struct Array { void* data; void* grad; long long shape[4]; long long stride[4]; };
struct Error { int flag, site; long long index, length; int thread; };
struct Axpy { Launch head; float a; Array x, y; };
extern "C" void axpy(const Axpy* p, int begin, int end) {
    for (int i = begin; i < end; ++i) {
        float x = *(float*)((char*)p->x.data + i * p->x.stride[0]);
        *(float*)((char*)p->y.data + i * p->y.stride[0]) += p->a * x;
    }
}
struct Scalars {
    Launch head;
    signed char i1; unsigned short u2; bool b1; double f8; int i4; unsigned char f2[2]; unsigned long long u8;
    struct { float x, y, z; } bytes; void* address;
};
extern "C" void scalars(const Scalars* p, int, int) {
    double* out = (double*)p->address;
    double values[] = {(double)p->i1, (double)p->u2, (double)p->b1, p->f8, (double)p->i4, p->f2[0] + 256.0 * p->f2[1],
                       (double)p->u8, p->bytes.x, p->bytes.z};
    for (int i = 0; i < 9; ++i) out[i] = values[i];
    for (int i = 0; i < 3; ++i) out[9 + i] = p->head.dim[i];
}
struct One { Launch head; Array x; };
extern "C" void layout(const One* p, int, int) {
    long long* out = (long long*)p->x.grad;
    if (!out) return;
    for (int i = 0; i < 4; ++i) out[i] = p->x.shape[i], out[4 + i] = p->x.stride[i];
}
extern "C" void who(const One* p, int begin, int end) {
    for (int i = begin; i < end; ++i) ((int*)p->x.data)[i] = begin, ((int*)p->x.grad)[i] = end;
}
extern "C" void faulty(const One* p, int begin, int) {
    Error* e = p->head.errors;
    if (e && !e->flag) *e = {1, 7, begin + 10, 10, begin};
}
"""
AXPY = "f4 a:f4:1:1:Sr a:f4:1:1:Sw"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return toolchain.build(tmp_path_factory.mktemp("launcher"), TEXT)


def launcher(program, name, signature, **options):
    return Launcher(ctypes.cast(getattr(program, name), ctypes.c_void_p).value, signature, **options)


@pytest.mark.parametrize("n", [0, 1, 1000, 100_000])
def test_value(program, n):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    assert launcher(program, "axpy", AXPY).launch(n, 2.0, x, y) is None
    np.testing.assert_array_equal(y, 1 + 2 * x)


def test_strides(program):
    x, y = np.arange(20, dtype=np.float32)[::-2], np.zeros((10, 3), np.float32)
    launcher(program, "axpy", AXPY).launch(10, 1, x, y[:, 1])
    np.testing.assert_array_equal(y[:, 1], x)
    assert not y[:, ::2].any()


def test_scalars_and_bytes(program):
    call = launcher(program, "scalars", "i1 u2 b1 f8 i4 f2 u8 b12:4 p").launch
    point, out = np.array([1.5, 2.5, 3.5], np.float32), np.empty(12)
    half = np.float16(-0.1)
    call((2, 3, 4), -5, np.uint16(65535), np.True_, np.float32(0.5), -7, half, 1 << 60, point, out.ctypes.data)
    assert out.tolist() == [-5, 65535, 1, 0.5, -7, int(half.view(np.uint16)), 2.0**60, 1.5, 3.5, 2, 3, 4]


def test_halves(program):
    call = launcher(program, "scalars", "i1 u2 b1 f8 i4 f2 u8 b12:4 p").launch
    point, out = np.zeros(3, np.float32), np.empty(12)
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 1.0, 65504.0, 65520.0, 1e-8, 6e-8, 6.1e-5, np.inf, -np.inf]
    for value in (*special, *rng.normal(size=50), *rng.normal(size=50) * 1e-6):
        call(1, 0, 0, 0, 0, 0, value, 0, point, out.ctypes.data)
        with np.errstate(over="ignore"):
            assert int(out[5]) == int(np.float32(value).astype(np.float16).view(np.uint16)), value


def test_layout_of_an_array(program):
    grad = np.zeros((2, 3, 5, 3))
    launcher(program, "layout", "a:f8:3:3:Sr").grad(1, (np.zeros_like(grad),), (grad,))
    assert grad.view(np.int64).ravel()[:8].tolist() == [2, 3, 5, 1, 360, 120, 24, 0]


def test_elements(program):
    call = launcher(program, "layout", "a:f8:1:9:Cr").launch
    call(1, np.zeros((4, 3, 3)))
    call(1, np.zeros((4, 9)))
    pair = np.dtype([("a", np.int32), ("b", np.float64)], align=True)
    launcher(program, "layout", f"a:b{pair.itemsize}:1:1:Cr").launch(1, np.zeros(4, pair))
    for wrong in (np.zeros(36), np.zeros((4, 3)), np.zeros((4, 18))[:, ::2], np.zeros((8, 3, 3))[::2]):
        with pytest.raises(Misfit, match="9 numbers an element"):
            call(1, wrong)


def test_empty_and_single_rows_are_contiguous(program):
    call = launcher(program, "layout", "a:f8:2:1:Cr").launch
    call(1, np.zeros((4, 0))[::2])
    call(1, np.zeros((8, 3))[::8])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_chunks_are_the_same_for_any_number_of_threads(program, threads):
    before = host.num_threads()
    host.set_num_threads(threads)
    try:
        begin, end = np.empty(1000, np.int32), np.empty(1000, np.int32)
        launcher(program, "who", "a:i4:1:1:Cw", grain=64).grad(1000, (begin,), (end,))
    finally:
        host.set_num_threads(before)
    first = np.arange(1000) // 64 * 64
    np.testing.assert_array_equal(begin, first)
    np.testing.assert_array_equal(end, np.minimum(first + 64, 1000))


def test_error_names_the_argument(program):
    call = launcher(program, "axpy", AXPY).launch
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    frozen = y.copy()
    frozen.flags.writeable = False
    cases = [
        (("1", x, y), 0, "a number", "str"),
        ((1, x.astype(np.float64), y), 1, "a float32 array, 1-dimensional", r"\(4,\) of format d"),
        ((1, x, y[:, None]), 2, "a writeable float32 array, 1-dimensional", r"\(4, 1\)"),
        ((1, x, frozen), 2, "a writeable float32 array", "a read-only one"),
        ((1, [0.0], y), 1, "a float32 array", "list"),
        ((1, x.astype(">f4"), y), 1, "a float32 array", ">f"),
    ]
    for values, index, expected, got in cases:
        with pytest.raises(Misfit, match=f"argument {index}: expected {expected}.*, got .*{got}") as caught:
            call(4, *values)
        assert caught.value.args[0] == index and isinstance(caught.value, TypeError)
    call = launcher(program, "scalars", "i1 u2 b1 f8 i4 f2 u8 b12:4 p").launch
    good = [0, 0, 0, 0, 0, 0, 0, np.zeros(12, np.uint8), np.empty(12).ctypes.data]
    wrong = {0: (128, -129, 1.0), 1: (-1, 65536), 2: (np.zeros(2),), 4: (1 << 31, None), 6: (-1, 1 << 64), 7: (b"1", 3)}
    for index, values in wrong.items():
        for value in values:
            with pytest.raises(Misfit, match=f"argument {index}: "):
                call(1, *good[:index], value, *good[index + 1 :])


def test_error_of_a_gradient(program):
    call = launcher(program, "layout", "a:f8:1:1:Sr").grad
    x = np.zeros(8)
    call(1, (x,), (None,))
    for wrong in (np.zeros(7), np.zeros(16)[::2], np.zeros(8, np.float32)):
        with pytest.raises(Misfit, match="argument 0"):
            call(1, (x,), (wrong,))
    with pytest.raises(TypeError, match="a tuple of 1 arguments and one of 1 gradients"):
        call(1, [x], (None,))


def test_error_of_a_launch(program):
    call = launcher(program, "layout", "a:f8:1:1:Sr").launch
    x = np.zeros(8)
    for dim in (-1, (), (1, 1, 1, 1), 1 << 31, (1 << 16, 1 << 16)):
        with pytest.raises(ValueError, match="dim: expected"):
            call(dim, x)
    with pytest.raises(TypeError):
        call(1.5, x)
    with pytest.raises(TypeError, match="expected dim and 1 arguments, got 3 in all"):
        call(1, x, x)
    for signature in ("f3", "q4", "a:f4:5:1:Cr", "a:f4:1:1:Xr", "a:f4:1:1", "b12", "b12:3", "f4:4"):
        with pytest.raises(ValueError, match="is no parameter"):
            launcher(program, "layout", signature)
    with pytest.raises(ValueError, match="grain"):
        launcher(program, "layout", "f4", grain=0)


def test_arrays_are_released(program):
    call = launcher(program, "axpy", AXPY).launch
    x, y = bytearray(16), np.zeros(4, np.float32)
    call(4, 1, np.frombuffer(x, np.float32), y)
    with pytest.raises(Misfit):
        call(4, 1, np.frombuffer(x, np.float32), y.astype(np.float64))
    x.append(0)  # refused as long as somebody holds its memory


def test_fault(program):
    debug = launcher(program, "faulty", "a:i4:1:1:Cr", grain=16, debug=True)
    x = np.zeros(4, np.int32)
    assert debug.error() is None
    debug.launch(1, x)
    assert debug.error() == Fault(site=7, index=10, length=10, thread=0)
    assert debug.error() is None
    plain = launcher(program, "faulty", "a:i4:1:1:Cr")
    plain.launch(1, x)
    assert plain.error() is None


def test_threads_of_python_may_launch_at_once(program):
    call = launcher(program, "axpy", AXPY, grain=128).launch
    x = np.arange(50_000, dtype=np.float32)
    results = [np.zeros_like(x) for _ in range(4)]
    workers = [threading.Thread(target=lambda y=y: [call(len(x), 1.0, x, y) for _ in range(20)]) for y in results]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for y in results:
        np.testing.assert_array_equal(y, 20 * x)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")  # jax, where other tests have loaded it
def test_child_of_a_fork_launches(program):
    call = launcher(program, "axpy", AXPY, grain=64).launch
    x, y = np.ones(10_000, np.float32), np.zeros(10_000, np.float32)
    call(len(x), 1.0, x, y)
    child = os.fork()
    if child == 0:
        call(len(x), 1.0, x, y)
        os._exit(0 if (y == 2).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_pool_is_that_of_the_kernels(program):
    """A launch while the pool is busy runs in its own thread; afterwards both work."""
    call = launcher(program, "axpy", AXPY, grain=64).launch
    x, y = np.ones(10_000, np.float32), np.zeros(10_000, np.float32)
    call(len(x), 1.0, x, y)
    assert gk.closest_point(gk.shapes.box(), np.zeros((1000, 3), np.float32)).distance.shape == (1000,)
    assert (y == 1).all()
