import re
import subprocess
import sys

import numpy as np
import pytest

from geomkit.arrays import Library, as_array, describe, frozen, library_of, precision_of, to_host


def points(x, dtype=np.float32, shape=("N", 3), **options):
    return as_array(x, op="closest_point", name="points", shape=shape, dtype=dtype, **options)


def faces(x, shape=("F", 3)):
    return as_array(x, op="Mesh", name="faces", shape=shape, dtype=np.int32)


def refuses(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


VALUES = np.arange(12, dtype=np.float64).reshape(4, 3)


@pytest.mark.parametrize(
    "given",
    [
        VALUES,
        VALUES.tolist(),
        tuple(map(tuple, VALUES.tolist())),
        VALUES.astype(np.float32),
        VALUES.astype(np.float16),
        VALUES.astype(np.longdouble),
        VALUES.astype(np.int64),
        VALUES.astype(np.uint8),
        VALUES.astype(">f8"),
        np.asfortranarray(VALUES),
        np.repeat(VALUES, 2, axis=0)[::2],
        np.ascontiguousarray(VALUES[::-1])[::-1],
        np.ma.masked_array(VALUES, mask=False),
    ],
    ids=lambda x: f"{type(x).__name__}-{getattr(x, 'dtype', '')}",
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value(given, dtype):
    array = points(given, dtype)
    assert type(array) is np.ndarray
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, VALUES)


def test_nothing_is_copied_when_nothing_needs_converting():
    given = VALUES.astype(np.float32)
    assert points(given) is given
    given.flags.writeable = False
    assert points(given) is given


def test_read_only_input_is_accepted_and_left_read_only():
    given = VALUES.copy()
    given.flags.writeable = False
    assert points(given).flags.writeable
    assert not given.flags.writeable


@pytest.mark.parametrize("empty", [[], (), np.zeros(0), np.zeros((0, 3)), [[]][:0]])
def test_empty(empty):
    assert points(empty).shape == (0, 3)
    assert faces(empty).shape == (0, 3)
    assert faces(empty).dtype == np.int32


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        (("...",), 1.0),
        (("...",), np.zeros((2, 3, 4))),
        (("...", 3), np.zeros(3)),
        (("...", 3), np.zeros((5, 4, 3))),
        (("N",), np.zeros(7)),
        ((3,), np.zeros(3)),
        (("N", "N"), np.eye(3)),
        ((), 2.0),
    ],
)
def test_shapes_that_fit(shape, given):
    assert points(given, shape=shape).shape == np.shape(given)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (np.zeros((3, 10)), "(3, 10) float64"),
        (np.zeros(3, np.float32), "(3,) float32"),
        ([[1, 2], [3, 4]], "(2, 2) int64"),
        ([[1, 2, 3], [4, 5]], "a ragged list"),
        (1.0, "float"),
        (np.zeros((0, 2)), "(0, 2) float64"),
    ],
)
def test_error_shape(given, got):
    with refuses(ValueError, f"closest_point: points: expected (N, 3) floats, got {got}"):
        points(given)


@pytest.mark.parametrize(
    ("shape", "given", "text"),
    [
        (("N",), np.zeros((2, 2)), "(N,) floats, got (2, 2) float64"),
        ((), np.zeros(1), "() floats, got (1,) float64"),
        (("...", 3), np.zeros((3, 2)), "(..., 3) floats, got (3, 2) float64"),
        (("...", 3), 1.0, "(..., 3) floats, got float"),
        (("N", "N"), np.zeros((2, 3)), "(N, N) floats, got (2, 3) float64"),
        ((5, 3), np.zeros((4, 3)), "(5, 3) floats, got (4, 3) float64"),
    ],
)
def test_error_shape_words(shape, given, text):
    with refuses(ValueError, f"closest_point: points: expected {text}"):
        points(given, shape=shape)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (np.zeros((2, 3), complex), "(2, 3) complex128"),
        (np.zeros((2, 3), bool), "(2, 3) bool (x.astype(float) makes numbers of booleans)"),
        ([["a", "b", "c"]], "(1, 3) <U1"),
        ([[None, 1, 2]], "(1, 3) object"),
        ("text", "str"),
        (None, "None"),
        ({1, 2}, "set"),
        (np.zeros((2, 3), "datetime64[s]"), "(2, 3) datetime64[s]"),
    ],
)
def test_error_kind(given, got):
    with refuses(TypeError, f"closest_point: points: expected (N, 3) floats, got {got}"):
        points(given)


def test_error_masked():
    given = np.ma.masked_less(VALUES, 1)
    with refuses(ValueError, "closest_point: points: expected (N, 3) floats, got (4, 3) float64 with masked entries"):
        points(given)


def test_error_overflow_of_float32():
    text = "closest_point: points: expected (N, 3) floats in the range of float32, got values too large for it"
    with refuses(ValueError, text):
        points([[1e300, 0, 0]])
    assert points([[1e300, 0, 0]], np.float64)[0, 0] == 1e300
    assert np.isinf(points([[np.inf, 0, 0]])[0, 0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_of_every_width(dtype):
    array = faces(np.array([[0, 1, 2]], dtype))
    assert array.dtype == np.int32
    assert array.tolist() == [[0, 1, 2]]


def test_error_integers():
    with refuses(TypeError, "Mesh: faces: expected (F, 3) ints, got (1, 3) float64"):
        faces([[0.0, 1.0, 2.0]])
    text = "Mesh: faces: expected (F, 3) ints in the range of int32, got values outside their range"
    for beyond in (2**31, -(2**31) - 1):
        with refuses(ValueError, text):
            faces(np.array([[0, 1, beyond]]))
    with refuses(ValueError, text):
        faces(np.array([[0, 1, 2**32 - 1]], np.uint32))


class Interface:
    """An array known only by one protocol."""

    def __init__(self, array, *names):
        for name in names:
            setattr(self, name, getattr(array, name))


class DLPackOnly:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class ArrayOnly:
    def __array__(self, dtype=None, copy=None):
        return VALUES


@pytest.mark.parametrize("given", [Interface(VALUES, "__array_interface__"), DLPackOnly(VALUES), ArrayOnly()])
def test_protocols(given):
    np.testing.assert_array_equal(points(given), VALUES)


def test_unknown_libraries_get_numpy_back():
    library = library_of(DLPackOnly(VALUES))
    assert library == Library(DLPackOnly.__module__.partition(".")[0])
    assert library.wrap(VALUES) is VALUES


def test_array_api_libraries_get_their_own_arrays_back():
    strict = pytest.importorskip("array_api_strict")
    given = strict.asarray(VALUES)
    np.testing.assert_array_equal(points(given), VALUES)
    back = library_of(given).wrap(VALUES)
    assert type(back) is type(given)


def test_library_of_takes_the_first_that_is_neither_numpy_nor_a_list():
    torch = pytest.importorskip("torch")
    assert library_of() == library_of([1], None, 2.0, VALUES, np.float32(1)) == Library("numpy", "cpu")
    assert library_of(VALUES, [1], torch.zeros(3)) == Library("torch", "cpu")


def test_precision_of():
    assert precision_of(VALUES) == np.float64
    for other in ([[0.5]], VALUES.astype(np.float32), VALUES.astype(int), VALUES.astype(np.float16), None):
        assert precision_of(other) == np.float32


def test_describe():
    assert describe(VALUES) == "(4, 3) float64"
    assert describe([1, 2]) == "(2,) int64"
    assert describe([[1], [2, 3]]) == "a ragged list"
    assert describe(((1,), (2, 3))) == "a ragged tuple"
    assert describe(None) == "None"
    assert describe(3) == "int"


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    @pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8"])
    def test_value(self, torch, dtype):
        given = torch.tensor(VALUES.tolist(), dtype=getattr(torch, dtype))
        np.testing.assert_array_equal(points(given), VALUES)

    def test_layouts(self, torch):
        given = torch.tensor(VALUES)
        np.testing.assert_array_equal(points(given.T.contiguous().T), VALUES)
        np.testing.assert_array_equal(points(given[::2]), VALUES[::2])
        np.testing.assert_array_equal(points(given.to_sparse()), VALUES)
        np.testing.assert_array_equal(points(torch.complex(given, -given).conj().imag), VALUES)

    def test_no_copy_either_way(self, torch):
        given = torch.zeros(4, 3)
        array = points(given)
        array[0, 0] = 7
        assert given[0, 0] == 7
        back = library_of(given).wrap(array)
        assert back.data_ptr() == given.data_ptr()

    @pytest.mark.parametrize("result", [VALUES, VALUES > 3, VALUES.astype(np.int32), np.zeros((0, 3)), np.array(2.0)])
    def test_results_of_every_kind(self, torch, result):
        back = library_of(torch.zeros(1)).wrap(result)
        assert isinstance(back, torch.Tensor)
        assert str(back.dtype) == f"torch.{result.dtype}"
        np.testing.assert_array_equal(back.numpy(), result)

    def test_read_only_results_are_copied_without_a_warning(self, torch):
        array = VALUES.copy()
        array.flags.writeable = False
        back = library_of(torch.zeros(1)).wrap(array)
        back[0, 0] = 7
        assert array[0, 0] == 0

    def test_error_words(self, torch):
        assert describe(torch.zeros(3, 10)) == "(3, 10) float32"
        with refuses(ValueError, "closest_point: points: expected (N, 3) floats, got (3, 10) float32"):
            points(torch.zeros(3, 10))

    def test_error_requires_grad(self, torch):
        text = (
            "closest_point: points: expected values that do not track gradients, as none are sent back here, "
            "got (4, 3) float32 with requires_grad=True"
        )
        given = torch.zeros(4, 3, requires_grad=True)
        with refuses(TypeError, text):
            points(given)
        assert points(given.detach()).shape == (4, 3)


class TestJax:
    @pytest.fixture
    def jax(self):
        return pytest.importorskip("jax")

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
    def test_value(self, jax, dtype):
        given = jax.numpy.asarray(VALUES.tolist(), dtype=dtype)
        np.testing.assert_array_equal(points(given), VALUES)

    def test_results_come_back(self, jax):
        library = library_of(jax.numpy.zeros(3))
        assert library == Library("jax", "cpu")
        back = library.wrap(VALUES.astype(np.float32))
        assert isinstance(back, jax.Array)
        np.testing.assert_array_equal(np.asarray(back), VALUES)

    def test_float64_is_not_truncated_silently(self, jax):
        library = library_of(jax.numpy.zeros(3))
        text = "jax: a float64 result needs jax.config.update('jax_enable_x64', True), or a float32 mesh and inputs"
        with refuses(TypeError, text):
            library.wrap(VALUES)

    def test_error_traced(self, jax):
        text = (
            "closest_point: points: expected values that do not track gradients, as none are sent back here, "
            "got (4, 3) float32 traced by jax"
        )
        for transform in (jax.jit, lambda f: jax.grad(lambda x: f(x).sum())):
            # (jax adds words of its own behind the message.)
            with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
                transform(points)(jax.numpy.zeros((4, 3)))


def test_cupy():
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no CUDA device here")
    array = points(VALUES, device="cuda")
    assert isinstance(array, cupy.ndarray)
    assert points(array, device="cuda") is array
    np.testing.assert_array_equal(points(array), VALUES)
    assert library_of(array) == Library("cupy", "cuda")
    assert library_of(array).wrap(array) is array
    np.testing.assert_array_equal(to_host(array), VALUES)


def test_frozen():
    array = np.zeros(3)
    assert frozen(array) is array
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_to_host_leaves_numpy_alone():
    assert to_host(VALUES) is VALUES


def test_no_array_library_is_imported_before_it_is_used():
    code = "import sys, geomkit.arrays; print([m for m in ('torch', 'jax', 'cupy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
