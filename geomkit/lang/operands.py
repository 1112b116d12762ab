"""What an expression of a kernel stands for while it is compiled.

Besides a scalar `Value` that is: a number of Python's, which takes the type of what it meets; a `Compound` of scalars;
a `View` of an array; a tuple of all these; a `Static`, any other object of Python's; `Undefined`, a name that may have
no value; `POISON`, after an error that has been reported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.lang.ir import Value
from geomkit.lang.struct import Struct
from geomkit.lang.types import Array, Composite, Mat, Scalar, Type, Vec, f16, f32, scalar_of

__all__ = [
    "POISON", "Compound", "HandleOf", "Static", "Undefined", "View", "captured", "is_literal", "leaf_values", "named",
]  # fmt: skip


class Compound(NamedTuple):
    """A vector, matrix, quaternion or structure."""

    type: Composite
    values: tuple[Any, ...]


class View(NamedTuple):
    """An array, or a part of it: for each dimension of the array the index that is chosen, or None for all."""

    name: str
    array: Array
    chosen: tuple[Value | None, ...]

    @property
    def ndim(self) -> int:
        return sum(i is None for i in self.chosen)


class HandleOf(NamedTuple):
    """A parameter that is a handle."""

    name: str
    type: Type


class Static(NamedTuple):
    """An object of Python's: a function, a module, a type, a string, None."""

    object: Any


class Undefined(NamedTuple):
    """A name that has a value only sometimes, and why."""

    reason: str


class _Poison:
    def __repr__(self) -> str:
        return "POISON"


POISON = _Poison()


def is_literal(x: Any) -> bool:
    """Whether x is a number of Python's."""
    return isinstance(x, bool | int | float)


def named(x: Any) -> str:
    """The type of an operand, for messages."""
    if isinstance(x, Value | Compound | HandleOf):
        return str(x.type)
    if isinstance(x, View):
        element = x.array.element
        return str(Array(element, x.ndim)) if x.ndim else str(element)
    if isinstance(x, tuple) and not isinstance(x, Static | Undefined):
        return f"({', '.join(map(named, x))})"
    if isinstance(x, bool):
        return "bool"
    if is_literal(x):
        return f"the number {x}"
    if isinstance(x, Static):
        o = x.object
        return "None" if o is None else repr(o) if isinstance(o, str) else getattr(o, "__name__", type(o).__name__)
    return str(x)


def same(a: Any, b: Any) -> bool:
    """Whether two operands are the same value."""
    if a is b:
        return True
    if is_literal(a) and is_literal(b):
        return type(a) is type(b) and (a == b or a != a and b != b)
    if isinstance(a, HandleOf) and isinstance(b, HandleOf):
        return a.name == b.name
    if isinstance(a, Static) and isinstance(b, Static):
        return a.object is b.object
    if isinstance(a, View) and isinstance(b, View):
        return a.name == b.name and all(same(x, y) for x, y in zip(a.chosen, b.chosen, strict=True))
    if isinstance(a, Compound) and isinstance(b, Compound):
        return a.type == b.type and all(same(x, y) for x, y in zip(a.values, b.values, strict=True))
    if type(a) is tuple and type(b) is tuple and len(a) == len(b):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return False


def leaf_values(x: Any) -> list[Any] | None:
    """The scalars of an operand that can be merged or carried, literals as they are; None if it cannot."""
    if isinstance(x, Value) or is_literal(x):
        return [x]
    if isinstance(x, Compound):
        return list(x.values)
    if type(x) is tuple:
        parts = [leaf_values(e) for e in x]
        return None if any(p is None for p in parts) else [v for p in parts for v in p or ()]
    return None


def rebuilt(x: Any, values: list[Any]) -> Any:
    """An operand of the same structure with other scalars, which are taken from the front of the list."""
    if isinstance(x, Value) or is_literal(x):
        return values.pop(0)
    if isinstance(x, Compound):
        return Compound(x.type, tuple(values.pop(0) for _ in x.values))
    return tuple(rebuilt(e, values) for e in x)


def shape_of(x: Any) -> Any:
    """What two operands must share to be merged."""
    if isinstance(x, Value) or is_literal(x):
        return "scalar"
    if isinstance(x, Compound):
        return x.type
    return tuple(shape_of(e) for e in x) if type(x) is tuple else None


def captured(x: Any) -> Any:
    """An object of Python's as an operand. NumPy's numbers and small arrays become `(type, numbers)` constants."""
    if isinstance(x, np.generic) and not isinstance(x, np.void):
        return NumpyConstant(scalar_of(x.dtype), (x.item(),))
    if isinstance(x, bool | int | float):
        return x if type(x) in (bool, int, float) else int(x) if isinstance(x, int) else float(x)
    if isinstance(x, np.ndarray) and x.dtype.names is None and x.ndim in (1, 2) and set(x.shape) <= {2, 3, 4}:
        scalar = scalar_of(x.dtype)
        if x.ndim == 1:
            return NumpyConstant(Vec(len(x), scalar), tuple(x.tolist()))
        if x.shape[0] == x.shape[1]:
            return NumpyConstant(Mat(len(x), scalar), tuple(x.ravel().tolist()))
    if isinstance(x, tuple | list) and type(x) in (tuple, list):
        return tuple(map(captured, x))
    return Static(x)


class NumpyConstant(NamedTuple):
    """A typed constant that a kernel captures."""

    type: Scalar | Composite
    numbers: tuple[Any, ...]


def arithmetic(scalar: Scalar) -> Scalar:
    """The type that numbers are computed in: f16 is only stored."""
    return f32 if scalar is f16 else scalar


def field_of(struct: Struct, name: str) -> tuple[int, Scalar | Composite] | None:
    """The first leaf and the type of a structure's field."""
    return (struct.start[name], struct.fields[name]) if name in struct.fields else None
