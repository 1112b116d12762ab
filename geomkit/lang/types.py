"""Types of the kernel language: scalars, vectors, matrices, quaternions, arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.errors import message

__all__ = [
    "Array", "Composite", "Mat", "Quat", "Scalar", "Type", "Vec", "array", "boolean", "f16", "f32", "f64", "i8", "i16",
    "i32", "i64", "mat22", "mat22d", "mat33", "mat33d", "mat44", "mat44d", "quat", "quatd", "scalar_of", "type_of",
    "u8", "u16", "u32", "u64", "vec2", "vec2d", "vec2i", "vec3", "vec3d", "vec3i", "vec4", "vec4d", "vec4i",
]  # fmt: skip


class Type:
    """A type of the kernel language."""

    name: str

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


class Scalar(Type):
    """A number of the kernel language. In a kernel, calling it converts; outside it makes a number of NumPy's.

    Args:
        value: a number.

    Returns:
        the number in this type.

    Raises:
        TypeError: value is no number.

    Attributes:
        code: NumPy's character and size, such as "f4".
        c: the name in C++.
    """

    def __init__(self, name: str, code: str, c: str):
        self.name, self.code, self.c = name, code, c
        self.dtype = np.dtype(code)
        self.kind = self.dtype.kind
        self.size = self.dtype.itemsize
        self.bits = 8 * self.size

    @property
    def is_float(self) -> bool:
        """Whether it has gradients."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether it can be an index."""
        return self.kind in "iu"

    def __call__(self, value: Any) -> Any:
        return self.dtype.type(value)

    def __reduce__(self) -> Any:
        return scalar_of, (self.name,)


f16 = Scalar("f16", "f2", "gk::half")
f32 = Scalar("f32", "f4", "float")
f64 = Scalar("f64", "f8", "double")
i8 = Scalar("i8", "i1", "signed char")
i16 = Scalar("i16", "i2", "short")
i32 = Scalar("i32", "i4", "int")
i64 = Scalar("i64", "i8", "long long")
u8 = Scalar("u8", "u1", "unsigned char")
u16 = Scalar("u16", "u2", "unsigned short")
u32 = Scalar("u32", "u4", "unsigned")
u64 = Scalar("u64", "u8", "unsigned long long")
boolean = Scalar("bool", "?", "bool")

SCALARS = {s.name: s for s in (f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean)}
HANDLES: dict[type, Type] = {}  # by the public class; geomkit.lang.handles fills it
_BY_DTYPE = {s.dtype: s for s in SCALARS.values()}


def scalar_of(x: Any) -> Scalar:
    """The scalar of a name or a dtype of NumPy's.

    Raises:
        TypeError: there is none.
    """
    if isinstance(x, str) and x in SCALARS:
        return SCALARS[x]
    dtype = np.dtype(x)
    if dtype not in _BY_DTYPE:
        raise TypeError(f"kernels know no numbers of type {dtype}")
    return _BY_DTYPE[dtype]


class Composite(Type):
    """Several numbers with a name: the compiler takes it apart into its scalars.

    Attributes:
        leaves: the scalars, in the order of memory, each with its offset in bytes.
        size: bytes, with padding.
    """

    leaves: list[tuple[Scalar, int]]
    size: int
    dtype: np.dtype
    shape: tuple[int, ...] = ()  # of a homogeneous one, as NumPy has it


class _Uniform(Composite):
    """Numbers of one type."""

    scalar: Scalar

    def _set(self, stem: str, shape: tuple[int, ...], scalar: Scalar) -> None:
        suffix = {"f32": "", "f64": "d", "i32": "i"}.get(scalar.name, f"[{scalar.name}]")
        self.stem, self.scalar, self.shape = stem, scalar, shape
        self.name = stem + suffix
        n = int(np.prod(shape))
        self.leaves = [(scalar, k * scalar.size) for k in range(n)]
        self.size = n * scalar.size
        self.dtype = np.dtype((scalar.dtype, shape))
        self.length = n

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (other.stem, other.scalar) == (self.stem, self.scalar)  # pyright: ignore

    def __hash__(self) -> int:
        return hash((self.stem, self.scalar.name))

    def __call__(self, *values: Any) -> np.ndarray:
        """Outside of kernels, the numbers as an array of NumPy's; a kernel may capture it as a constant."""
        flat = np.concatenate([np.ravel(v) for v in values]) if values else np.zeros(self.length)
        if flat.size == 1 and type(self) is Vec:
            flat = np.repeat(flat, self.length)
        if flat.size != self.length:
            raise ValueError(message(self.name, "values", f"{self.length} numbers", str(flat.size)))
        return flat.astype(self.scalar.dtype).reshape(self.shape)


class Vec(_Uniform):
    """Two to four numbers of one type: `gk.vec3` of f32, `gk.vec3d` of f64, `gk.vec3i` of i32, `gk.vec3[gk.u8]`.

    Args:
        values: the numbers, or one for all; outside of kernels they become an array of NumPy's.

    Returns:
        the vector.

    Raises:
        ValueError: too many numbers, or too few.
    """

    def __init__(self, n: int, scalar: Scalar):
        self.n = n
        self._set(f"vec{n}", (n,), scalar)

    def __getitem__(self, scalar: Any) -> Vec:
        return Vec(self.n, _scalar_of_python(scalar))


class Mat(_Uniform):
    """A square matrix, row by row: `gk.mat33` of f32, `gk.mat33d` of f64.

    Args:
        values: the numbers, or the rows; outside of kernels they become an array of NumPy's.

    Returns:
        the matrix.

    Raises:
        ValueError: too many numbers, or too few.
    """

    def __init__(self, n: int, scalar: Scalar):
        self.n = n
        self._set(f"mat{n}{n}", (n, n), scalar)

    def __getitem__(self, scalar: Any) -> Mat:
        return Mat(self.n, _scalar_of_python(scalar))


class Quat(_Uniform):
    """A quaternion x, y, z, w: `gk.quat` of f32, `gk.quatd` of f64.

    Args:
        values: the numbers; outside of kernels they become an array of NumPy's.

    Returns:
        the quaternion.

    Raises:
        ValueError: too many numbers, or too few.
    """

    n = 4

    def __init__(self, scalar: Scalar):
        self._set("quat", (4,), scalar)

    def __getitem__(self, scalar: Any) -> Quat:
        return Quat(_scalar_of_python(scalar))


def _scalar_of_python(t: Any) -> Scalar:
    found = type_of(t)
    if not isinstance(found, Scalar):
        raise TypeError(f"a vector's numbers are scalars, such as gk.f64, got {found}")
    return found


vec2, vec3, vec4 = (Vec(n, f32) for n in (2, 3, 4))
vec2d, vec3d, vec4d = (Vec(n, f64) for n in (2, 3, 4))
vec2i, vec3i, vec4i = (Vec(n, i32) for n in (2, 3, 4))
mat22, mat33, mat44 = (Mat(n, f32) for n in (2, 3, 4))
mat22d, mat33d, mat44d = (Mat(n, f64) for n in (2, 3, 4))
quat, quatd = Quat(f32), Quat(f64)


class Array(Type):
    """An array of up to four dimensions: what `gk.array` makes.

    Attributes:
        element: the type of its elements, None if any will do (the kernel is generic).
        ndim: the number of dimensions.
    """

    def __init__(self, element: Scalar | Composite | None, ndim: int):
        self.element, self.ndim = element, ndim
        self.name = f"array({element or 'any'}{f', ndim={ndim}' if ndim != 1 else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and (self.element, self.ndim) == (other.element, other.ndim)

    def __hash__(self) -> int:
        return hash((self.element, self.ndim))


def array(dtype: Any = None, ndim: int = 1) -> Array:
    """The annotation of a kernel's parameter that is an array.

    Args:
        dtype: type of the elements: `gk.f32`, `float` (f32), `gk.vec3`, a struct, or a dtype of NumPy's. None or
            `typing.Any`: a number of any type, so that the kernel is compiled for each it meets.
        ndim: 1 to 4, without the axes of a vector or matrix: a (N, 3) array is a one-dimensional array of `gk.vec3`.

    Returns:
        the annotation.

    Raises:
        TypeError: there are no such elements.
        ValueError: ndim is not 1 to 4.

    Example:
        >>> import geomkit as gk
        >>> gk.array(gk.vec3), gk.array(float, ndim=2)
        (array(vec3), array(f32, ndim=2))
    """
    if ndim not in (1, 2, 3, 4):
        raise ValueError(message("array", "ndim", "1 to 4", str(ndim)))
    element = None if dtype is None or dtype is Any else type_of(dtype)
    if isinstance(element, Array):
        raise TypeError(message("array", "dtype", "numbers, vectors or structs", f"{element}: write ndim={ndim + 1}"))
    return Array(element, ndim)  # pyright: ignore[reportArgumentType]


def type_of(annotation: Any) -> Type:
    """The type that an annotation stands for.

    Raises:
        TypeError: none.
    """
    if isinstance(annotation, Type):
        return annotation
    if isinstance(annotation, type) and annotation in HANDLES:
        return HANDLES[annotation]
    own = getattr(annotation, "__gk_struct__", None)
    if own is not None:
        return own
    if annotation is float:
        return f32
    if annotation is int:
        return i32
    if annotation is bool:
        return boolean
    if isinstance(annotation, np.dtype) or (isinstance(annotation, type) and issubclass(annotation, np.generic)):
        return scalar_of(annotation)
    if annotation in (list, tuple, np.ndarray) or annotation is array:
        shown = getattr(annotation, "__name__", annotation)
        raise TypeError(f"{shown} does not say of what: write gk.array(gk.f32), gk.array(gk.vec3), ...")
    raise TypeError(f"{annotation!r} is no type of kernels: use gk.f32, gk.i32, gk.vec3, gk.array(gk.f32), gk.Mesh ...")
