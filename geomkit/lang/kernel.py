"""A kernel: a function that users write for one thread, and launch for many."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from geomkit.errors import message
from geomkit.lang.arguments import array_argument, dimensions, element_of, is_strided
from geomkit.lang.function import Function
from geomkit.lang.ir import show
from geomkit.lang.loops import build
from geomkit.lang.specialization import GRAIN, Specialization
from geomkit.lang.types import Array, Type

__all__ = ["Kernel", "kernel", "launch"]


class Kernel:
    """A compiled kernel; `kernel` makes it.

    Attributes:
        function: its text and types.
    """

    __gk_kernel__ = True

    def __init__(self, function: Callable):
        self.function = Function(function, kernel=True)
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self.__wrapped__ = function
        self.names = self.function.names
        self._generic = self.function.generic
        self._debug = os.environ.get("GEOMKIT_DEBUG", "") not in ("", "0")
        self._known: dict[Any, Specialization] = {}
        if not self._generic:
            self.specialization({}, frozenset())

    def __repr__(self) -> str:
        return f"<gk.kernel {self.__name__}({', '.join(self.names)})>"

    def specialization(self, elements: dict[str, Type], strided: frozenset[str]) -> Specialization:
        """The kernel for the element types of its generic arrays, and the arrays that are not contiguous."""
        key = (tuple(elements.items()), strided)
        found = self._known.get(key)
        if found is None:
            types = dict(self.function.types)
            for name, element in elements.items():
                t = types[name]
                assert isinstance(t, Array)
                types[name] = Array(element, t.ndim)  # pyright: ignore[reportArgumentType]
            types = {name: types[name] for name in self.names}
            found = self._known[key] = Specialization(build(self.function, types, strided))
        return found

    def bound(self, args: Sequence[Any]) -> tuple[Specialization, list[Any]]:
        """The specialisation for a call's arguments, and these checked: arrays as NumPy's or CuPy's."""
        if len(args) != len(self.names):
            expected = f"{len(self.names)} after dim ({', '.join(self.names)})"
            raise TypeError(message(self.__name__, "arguments", expected, str(len(args))))
        given = dict(zip(self.names, args, strict=True))
        elements: dict[str, Type] = {n: element_of(self.__name__, n, given[n]) for n in self._generic}
        found = self.specialization(elements, frozenset())
        values, strided = [], []
        for name, t in found.types.items():
            if isinstance(t, Array):
                a = array_argument(self.__name__, name, t, given[name], write=name in found.written)
                if is_strided(a):
                    strided.append(name)
                values.append(a)
            else:
                values.append(found.packing.value(name, t, given[name]))
        if strided:
            found = self.specialization(elements, frozenset(strided))
        return found, values

    def __call__(self, dim: Any, *args: Any) -> Any:
        found, values = self.bound(args)
        dims = dimensions(self.__name__, dim, found.rank)
        total = dims[0] * dims[1] * dims[2]
        if total:
            block = found.packing.block(dims, GRAIN, values)
            found.entry()(block, total, GRAIN)

    def ir(self) -> str:
        """The intermediate representation, simplified, as text."""
        return show(next(iter(self._known.values())).forward())

    def source(self, device: str = "cpu") -> str:
        """The C++ text that is compiled."""
        return next(iter(self._known.values())).text().text


def kernel(function: Callable) -> Kernel:
    """Make a function a kernel: what one thread does, compiled and launched for many."""
    return Kernel(function)


def launch(kernel: Kernel, dim: Any, inputs: Sequence[Any] = (), outputs: Sequence[Any] = ()) -> Any:
    """Launch a kernel: `kernel(dim, *inputs, *outputs)`."""
    return kernel(dim, *inputs, *outputs)
