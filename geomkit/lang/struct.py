"""Structures: several values with names, in arrays and as arguments."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np

from geomkit.errors import message
from geomkit.lang.types import Array, Composite, Scalar, type_of

__all__ = ["Struct", "struct"]


class Struct(Composite):
    """The type of a structure, with the layout of C.

    Attributes:
        fields: types by name.
        start: the first leaf of each field.
    """

    def __init__(self, name: str, fields: dict[str, Scalar | Composite]):
        self.name, self.fields, self.leaves, self.start = name, fields, [], {}
        offset, alignment, columns = 0, 1, []
        for field, t in fields.items():
            scalars = [(t, 0)] if isinstance(t, Scalar) else t.leaves
            own = max(s.size for s, _ in scalars)
            offset = -(-offset // own) * own
            self.start[field] = len(self.leaves)
            self.leaves += [(s, offset + o) for s, o in scalars]
            columns.append((field, t.dtype, offset))
            offset, alignment = offset + t.size, max(alignment, own)
        self.size = -(-offset // alignment) * alignment
        self.alignment = alignment
        names, formats, offsets = zip(*columns, strict=True)
        self.dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size})


def struct(cls: type) -> type:
    """Make a class with annotations a structure that kernels take, return and keep in arrays.

    Args:
        cls: its annotations are the fields: scalars, vectors, matrices, quaternions, other structures.

    Returns:
        the class. In kernels `S(a, b)` makes one and `s.field` reads or assigns. Outside, `S(a, b)` or `S(field=a)` is
        a record of NumPy's; `np.zeros(n, S.dtype)` is an array of them.

    Raises:
        TypeError: a field has no such type.

    Example:
        >>> import geomkit as gk
        >>> @gk.struct
        ... class Particle:
        ...     position: gk.vec3
        ...     mass: gk.f32
        >>> Particle([0, 0, 1], 2.0)["mass"].item()
        2.0
    """
    frame = sys._getframe(1)
    hints = inspect.get_annotations(cls, globals=frame.f_globals, locals=frame.f_locals, eval_str=True)
    if not hints:
        raise TypeError(message("struct", cls.__name__, "fields with annotations, such as mass: gk.f32", "none"))
    fields: dict[str, Scalar | Composite] = {}
    for name, annotation in hints.items():
        t = type_of(annotation)
        if isinstance(t, Array) or not isinstance(t, Scalar | Composite):
            raise TypeError(message("struct", f"{cls.__name__}.{name}", "a scalar, vector or structure", str(t)))
        fields[name] = t
    kind = Struct(cls.__name__, fields)

    def make(_: type, *values: Any, **named: Any) -> Any:
        given = dict(zip(fields, values, strict=False)) | named
        if len(values) > len(fields) or not set(given) <= set(fields):
            raise TypeError(message(cls.__name__, "fields", ", ".join(fields), ", ".join(map(str, given))))
        record = np.zeros((), kind.dtype)
        for name, value in given.items():
            record[name] = value
        return record[()]

    namespace = {"__doc__": cls.__doc__, "__module__": cls.__module__, "__new__": make}
    made = type(cls.__name__, (), namespace | {"__gk_struct__": kind, "dtype": kind.dtype, "__annotations__": hints})
    return made
