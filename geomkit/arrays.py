"""Arrays in, arrays out: which library one comes from, the one shape and dtype check, the way back.

Everything below the public functions works on NumPy arrays (CPU) or CuPy arrays (CUDA): C-contiguous, of one exact
dtype. `as_array` brings any input there, `Library.wrap` takes a result back to the library of the caller.
"""

import sys
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from geomkit.errors import DeviceError, message, missing_package
from geomkit.tensors import is_followed, is_tensor, tensor_array

__all__ = [
    "Library",
    "Recorded",
    "as_array",
    "describe",
    "frozen",
    "imported",
    "library_of",
    "precision_of",
    "refuse_double",
    "refuse_tracked",
    "to_host",
    "tracker_of",
]

INT32 = np.iinfo(np.int32)


def describe(x: Any) -> str:
    """Shape and dtype of any input, in the words of the error messages.

    Example:
        >>> describe(np.zeros((3, 10)))
        '(3, 10) float64'
        >>> describe([[1, 2], [3]])
        'a ragged list'
    """
    if isinstance(x, (list, tuple)):
        try:
            x = np.asarray(x)
        except ValueError:
            return f"a ragged {type(x).__name__}"
    if x is None or not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return "None" if x is None else type(x).__name__
    return f"{tuple(x.shape)} {str(x.dtype).removeprefix('torch.')}"


class Recorded:
    """An array that a tape knows: `gk.Tape` makes them.

    Attributes:
        value: the numpy.ndarray or cupy.ndarray.
        live: whether a tape is recording what is computed from it.
        private: whether nobody can write into the value.
    """

    value: Any
    live: bool
    private: bool


@dataclass(frozen=True)
class Library:
    """The array library of a caller, and the device its arrays are on.

    Attributes:
        name: "numpy", "cupy", "torch", "jax", or the name of another package whose arrays speak DLPack.
        device: "cpu" or "cuda".
        like: what tells the library more exactly where to put an array: one of its arrays; of torch the device.
    """

    name: str
    device: str = "cpu"
    like: Any = field(default=None, repr=False, compare=False)

    def wrap(self, array: Any) -> Any:
        """Hand a NumPy or CuPy array over to the caller's library, on the caller's device.

        The memory is shared where the library can share it: the device must not change, and the array not be read-only.

        Args:
            array: a numpy.ndarray or cupy.ndarray, owned by geomkit.
        Returns:
            the same values and dtype as an array of this library. A library that cannot import arrays gets NumPy's.
        Raises:
            TypeError: JAX is asked to hold float64 while its 64-bit mode is off.
        """
        if self.name == "numpy":
            return to_host(array)
        if self.name == "cupy":
            return _cupy().asarray(array)
        if self.name == "torch":
            return self._to_torch(array)
        if self.name == "jax":
            return self._to_jax(array)
        try:
            namespace = compat.array_namespace(self.like)
        except TypeError:
            return to_host(array)
        return namespace.asarray(_writeable(to_host(array)))

    def _to_torch(self, array: Any) -> Any:
        import torch

        if isinstance(array, (np.ndarray, np.generic)) and self.device == "cpu":
            array = np.asarray(array)  # (What sums to a number is no array, and torch takes none.)
            return torch.from_numpy(_writeable(array))
        return torch.from_dlpack(array).to(self.like)

    def _to_jax(self, array: Any) -> Any:
        import jax

        refuse_double(array.dtype)
        if not isinstance(array, np.ndarray):
            return jax.dlpack.from_dlpack(array)
        device = None if self.like is None or _is_traced(self.like) else next(iter(self.like.devices()))
        with jax.ensure_compile_time_eval():  # else it would be traced under jit, and kept beyond that
            return jax.device_put(array, device)


NUMPY = Library("numpy")

_NUMBERS = frozenset({float, int, bool, str, np.float32, np.float64, type(None)})


def refuse_double(dtype: Any) -> None:
    """Raise a TypeError if jax is to hold float64 while its 64-bit mode is off: it would round without a word."""
    import jax

    if dtype == np.float64 and jax.numpy.result_type(float) != np.float64:
        raise TypeError(
            "jax: a float64 result needs jax.config.update('jax_enable_x64', True), or a float32 mesh and inputs"
        )


def library_of(*xs: Any) -> Library:
    """The library of the first argument that is neither NumPy's, a list, nor a number; NumPy if there is none.

    Example:
        >>> library_of([[0, 0, 0]], np.zeros(3))
        Library(name='numpy', device='cpu')
    """
    for x in xs:
        if isinstance(x, Recorded):
            x = x.value
        if x is None or isinstance(x, (np.ndarray, np.generic, list, tuple, int, float)):
            continue
        if is_tensor(x):
            return _torch_library(x.device)
        if compat.is_cupy_array(x):
            return Library("cupy", "cuda", x)
        if compat.is_jax_array(x):
            on_gpu = not _is_traced(x) and any(d.platform in ("gpu", "cuda") for d in x.devices())
            return Library("jax", "cuda" if on_gpu else "cpu", x)
        if _on_cuda(x):
            return Library(type(x).__module__.partition(".")[0], "cuda", x)
        if hasattr(x, "__dlpack__"):
            return Library(type(x).__module__.partition(".")[0], "cpu", x)
    return NUMPY


def precision_of(x: Any) -> np.dtype:
    """The precision in which to work on x: float64 for arrays of it or wider, float32 for all else, lists included."""
    wide = str(getattr(x, "dtype", "")).endswith(("float64", "float96", "float128", "longdouble"))
    return np.dtype(np.float64 if wide else np.float32)


def to_host(array: Any) -> np.ndarray:
    """A NumPy or CuPy array as NumPy's; nothing is copied when it is on the host already."""
    return array if isinstance(array, np.ndarray) else array.get()


def frozen(array: Any) -> Any:
    """The same array, read-only if it is NumPy's (CuPy knows no such arrays): for results that are kept and shared."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array


def as_array(
    x: ArrayLike | Any, *, op: str, name: str, shape: tuple[str | int, ...], dtype: DTypeLike, device: str = "cpu"
) -> Any:
    """Any input as a C-contiguous array of one exact dtype, checked.

    Accepts lists, NumPy (strided, Fortran order, read-only, other byte order), CuPy, torch, JAX, and any object that
    speaks DLPack, `__array__`, `__array_interface__` or `__cuda_array_interface__`. Integers are taken where floats are
    asked for; floats where integers are asked for are refused. An array on another device is copied to `device`.

    Args:
        x: the input.
        op: name of the public function, for messages.
        name: name of the argument, for messages.
        shape: one entry a dimension: a number, a letter (any length; one letter, one length), or "..." (any number of
            dimensions). An input of shape (0,), such as an empty list, stands for the empty array of the shape asked.
        dtype: numpy.float32, numpy.float64 or numpy.int32.
        device: "cpu" for a numpy.ndarray, "cuda" for a cupy.ndarray.
    Returns:
        the array; it shares the memory of x when nothing had to be converted.
    Raises:
        ValueError: wrong shape, a ragged list, a masked entry, or a value that does not fit the dtype.
        TypeError: strings, objects, complex numbers, booleans; floats for integers; an input that tracks gradients.
    Example:
        >>> as_array([[0, 0, 1]], op="closest_point", name="points", shape=("N", 3), dtype=np.float32)
        array([[0., 0., 1.]], dtype=float32)
    """
    if device == "cpu" and type(x) is np.ndarray and x.dtype == dtype and x.flags.c_contiguous:
        if _fits(x.shape, shape):
            return x
    dtype = np.dtype(dtype)
    kind = "ints" if dtype.kind == "i" else "floats"
    expected = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 and shape[0] != '...' else ''}) {kind}"

    def refuse(error: type[Exception], got: str, wanted: str = expected) -> Exception:
        return error(message(op, name, wanted, got))

    refuse_tracked(x, op=op, name=name)
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise refuse(ValueError, f"{describe(x)} with masked entries")
    try:
        array = imported(x)
    except ValueError as error:
        raise refuse(ValueError, describe(x)) from error
    if array is None or not (array.dtype.kind in "fiu" or array.dtype.name.startswith(("bfloat", "float"))):
        hint = " (x.astype(float) makes numbers of booleans)" if array is not None and array.dtype.kind == "b" else ""
        raise refuse(TypeError, describe(x) + hint)
    array = _reshaped_if_empty(array, shape)
    if not _fits(array.shape, shape):
        raise refuse(ValueError, describe(x))
    if dtype.kind == "i" and array.size:
        if array.dtype.kind not in "iu":
            raise refuse(TypeError, describe(x))
        wide = array.dtype.itemsize > 4 or array.dtype == np.uint32
        if wide and (array.max() > INT32.max or array.min() < INT32.min):
            raise refuse(ValueError, "values outside their range", f"{expected} in the range of int32")
    if device == "cuda":
        return _cupy().ascontiguousarray(_cupy().asarray(array), dtype=dtype)
    try:
        with np.errstate(over="raise"):
            # (numpy.ascontiguousarray would give a scalar one dimension.)
            return np.asarray(to_host(array), dtype=dtype, order="C")
    except FloatingPointError as error:
        raise refuse(ValueError, "values too large for it", f"{expected} in the range of {dtype}") from error


def tracker_of(x: Any) -> str:
    """Who follows gradients through an array, or through one in a list: "torch", "jax", "tape", or "" for nobody."""
    if isinstance(x, (np.ndarray, float, int, str)) or x is None:
        return ""
    if isinstance(x, (list, tuple)):
        if set(map(type, x)) <= _NUMBERS:
            return ""
        return next((who for who in map(tracker_of, x) if who), "")
    if isinstance(x, Recorded):
        return "tape" if x.live else ""
    if is_tensor(x):
        return "torch" if is_followed(x) else ""
    return "jax" if _is_traced(x) else ""


def refuse_tracked(x: Any, *, op: str, name: str) -> None:
    """Raise a TypeError if somebody follows gradients through x, or through an array in a list: they would be lost."""
    tracker = tracker_of(x)
    if not tracker:
        return
    if isinstance(x, (list, tuple)):
        stack = {"torch": "torch.stack", "jax": "jax.numpy.stack", "tape": "numpy.stack"}[tracker]
        raise TypeError(message(op, name, f"one array ({stack} makes it)", f"a list of what {tracker} follows"))
    got = {"torch": "with requires_grad=True", "jax": "traced by jax", "tape": "recorded by a tape"}[tracker]
    expected = "values that do not track gradients, as none are sent back here"
    raise TypeError(message(op, name, expected, f"{describe(x)} {got}"))


def imported(x: Any) -> Any:
    """x as a NumPy or CuPy array of any layout and dtype, on the device it is on; None when it is no array."""
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    if isinstance(x, Recorded):
        return x.value
    if is_tensor(x):
        return tensor_array(x)
    if compat.is_cupy_array(x):
        return x
    if compat.is_jax_array(x):
        return _cupy().from_dlpack(x) if library_of(x).device == "cuda" else np.asarray(x)
    if x is None or isinstance(x, (str, bytes)):
        return None
    if _on_cuda(x):
        return _cupy().asarray(x) if hasattr(x, "__cuda_array_interface__") else _cupy().from_dlpack(x)
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") and not hasattr(x, "__array_interface__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def _reshaped_if_empty(array: Any, shape: tuple[str | int, ...]) -> Any:
    if array.shape != (0,) or len(shape) < 2 or "..." in shape or isinstance(shape[0], int):
        return array
    return array.reshape(tuple(n if isinstance(n, int) else 0 for n in shape))


def _fits(actual: tuple[int, ...], shape: tuple[str | int, ...]) -> bool:
    if "..." in shape:
        at = shape.index("...")
        behind = len(shape) - at - 1
        if len(actual) < at + behind:
            return False
        actual = (*actual[:at], *actual[len(actual) - behind :])
        shape = (*shape[:at], *shape[at + 1 :])
    if len(actual) != len(shape):
        return False
    if actual == shape:
        return True
    lengths: dict[str, int] = {}
    return all(a == (n if isinstance(n, int) else lengths.setdefault(n, a)) for a, n in zip(actual, shape, strict=True))


def _is_traced(x: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.core.Tracer)


@cache
def _torch_library(device: Any) -> Library:
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"torch: arrays must be on the device cpu or cuda, got {device}")
    return Library("torch", device.type, device)


def _on_cuda(x: Any) -> bool:
    if hasattr(x, "__cuda_array_interface__"):
        return True
    # DLPack numbers the devices: 2 is CUDA, 13 its managed memory.
    return hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) in (2, 13)


def _writeable(array: Any) -> Any:
    """torch and others take read-only memory with a warning or not at all, so they get a copy of it."""
    return array if array.flags.writeable else array.copy()


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise missing_package("cupy", "cuda13", "arrays on CUDA") from error
    return cupy
