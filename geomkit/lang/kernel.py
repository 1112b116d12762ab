"""A kernel: a function that users write for one thread, and launch for many."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from geomkit.arrays import Recorded, imported, library_of
from geomkit.autodiff import recording
from geomkit.errors import message
from geomkit.lang.aliasing import refuse_shared
from geomkit.lang.arguments import array_argument, device_of, dimensions, element_of, is_strided
from geomkit.lang.function import Function
from geomkit.lang.handles import BoundHandle, Handle
from geomkit.lang.ir import leaves_of, show
from geomkit.lang.loops import build
from geomkit.lang.record import differentiable, launch_tracked, tracker
from geomkit.lang.relaunch import relaunch
from geomkit.lang.specialization import Specialization
from geomkit.lang.types import Array, Type, f16, f32
from geomkit.runtime.device import namespace

__all__ = ["Kernel", "kernel", "launch"]

SLOTS = 16  # checkpoints of a loop on the GPU


class Kernel:
    """A compiled kernel; `kernel` makes it. `k(dim, *arguments)` launches it with dim threads, or dim = (n, m[, l]).

    Arrays are NumPy's, CuPy's, torch's or JAX's; what the kernel writes is in them when the launch returns. Where a
    `gk.Tape`, torch or JAX follows gradients through an argument, the launch is recorded, and it returns the arrays
    that were written as new ones of that library, one or a named tuple of them; a plain array that was given for one
    of them is written to, too.

    Attributes:
        function: its text and types.
        deterministic: whether the same bits come out at any number of threads.
    """

    __gk_kernel__ = True

    def __init__(self, function: Callable, *, deterministic: bool = False):
        self.function = Function(function, kernel=True)
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self.__wrapped__ = function
        self.names, self.deterministic = self.function.names, deterministic
        self._generic = self.function.generic
        self._debug = os.environ.get("GEOMKIT_DEBUG", "") not in ("", "0")
        self._known: dict[Any, Specialization] = {}
        self._again: Any = None
        self._types: tuple[type, ...] = ()  # of the dim and arguments that it takes
        self._rank = 0
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

    def resolved(self, dim: Any, args: Sequence[Any]) -> tuple[Specialization, tuple[int, int, int]]:
        """The specialisation for arguments that somebody may follow, and the launch's dimensions."""
        self._check_count(args)
        given = dict(zip(self.names, args, strict=True))
        found = self.specialization({n: _element(self.__name__, n, given[n]) for n in self._generic}, frozenset())
        return found, dimensions(self.__name__, dim, found.rank)  # pyright: ignore[reportReturnType]

    def _check_count(self, args: Sequence[Any]) -> None:
        if len(args) != len(self.names):
            expected = f"{len(self.names)} after dim ({', '.join(self.names)})"
            first = f" (the first argument is dim: {self.__name__}(n, {', '.join(self.names)}))"
            got = f"{len(args)}{first if len(args) == len(self.names) - 1 else ''}"
            raise TypeError(message(self.__name__, "arguments", expected, got))

    def bound(self, args: Sequence[Any], *, write: bool = True) -> tuple[Specialization, list[Any]]:
        """The specialisation for a call's arguments, and these checked: arrays as NumPy's or CuPy's."""
        self._check_count(args)
        given = dict(zip(self.names, args, strict=True))
        elements: dict[str, Type] = {n: element_of(self.__name__, n, given[n]) for n in self._generic}
        found = self.specialization(elements, frozenset())
        values, strided = [], []
        for name, t in found.types.items():
            if isinstance(t, Array):
                a = array_argument(self.__name__, name, t, given[name], write=write and name in found.written)
                if is_strided(a):
                    strided.append(name)
                values.append(a)
            else:
                values.append(found.packing.value(name, t, given[name]))
        self._check_devices(found, values)
        if strided:
            found = self.specialization(elements, frozenset(strided))
        return found, values

    def _check_devices(self, found: Specialization, values: Sequence[Any]) -> None:
        """Refuse a handle of another device than the arrays."""
        for (name, t), x in zip(found.types.items(), values, strict=True):
            if isinstance(t, Handle) and x.device != device_of(values):
                expected = f"a gk.{t.name} on {device_of(values)}, as the arrays"
                raise ValueError(message(self.__name__, name, expected, f"one on {x.device}"))

    def __getitem__(self, dim: Any) -> Any:
        good = f"{self.__name__}(dim, {', '.join(self.names)})"
        raise TypeError(message(self.__name__, "launch", good, f"{self.__name__}[{dim}]"))

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments, those that are given by name in their places."""
        rest = self.names[len(args) :]
        unknown = [n for n in named if n not in rest]
        missing = [n for n in rest if n not in named]
        if unknown or missing:
            got = ", ".join([*(f"no {n}" for n in missing), *(f"{n}=..." for n in unknown)])
            raise TypeError(message(self.__name__, "arguments", f"each once ({', '.join(self.names)})", got))
        return (*args, *(named[n] for n in rest))

    def __call__(self, dim: Any, *args: Any, **named: Any) -> Any:
        if named:
            args = self._in_order(args, named)
        if (type(dim), *map(type, args)) == self._types and recording.innermost() is None:
            if (1 if type(dim) is int else len(dim)) == self._rank:
                try:
                    return self._again(dim, *args)
                except (TypeError, ValueError):
                    # Nothing has run. The long way says what is wrong, or has another program for these arrays.
                    pass
        who = tracker(args)
        if who:
            return launch_tracked(self, who, dim, args)
        found, values = self.bound(args)
        dims = dimensions(self.__name__, dim, found.rank)
        self._launch(found, dims, values)
        if type(dim) in (int, tuple) and 0 not in dims and not self._debug:
            self._again = relaunch(found, args, values, deterministic=self.deterministic)
            self._types = (type(dim), *map(type, args)) if self._again else ()
            self._rank = found.rank
        return None

    def run(self, dims: tuple[int, int, int], args: Sequence[Any]) -> None:
        """Launch with plain arrays, nothing recorded."""
        found, values = self.bound(args)
        self._launch(found, dims, values)

    def _launch(self, found: Specialization, dims: Any, values: list[Any]) -> None:
        refuse_shared(found, values)
        if device_of(values) == "cuda":
            from geomkit.lang.launch_cuda import run

            run(found, dims, values, debug=self._debug, deterministic=self.deterministic)
        elif self._debug:
            found.run_checked(dims, values)
        else:
            found.run(dims, values, deterministic=self.deterministic)

    def run_adjoint(
        self, dims: tuple[int, int, int], args: Sequence[Any], adjoints: dict[str, Any], wrt: frozenset[str]
    ) -> dict[str, Any]:
        """The gradients of the parameters by name, for cotangents of the written arrays."""
        found, values = self.bound(args, write=False)
        given = dict(zip(self.names, values, strict=True))
        on_cuda = device_of(values) == "cuda"
        xp = namespace("cuda" if on_cuda else "cpu")
        grads: dict[str, Any] = {}
        for n in wrt:
            a, adj = given[n], adjoints.get(n)
            if isinstance(a, BoundHandle):
                grads[n] = xp.zeros(a.gradient_shape)
                continue
            dtype = np.dtype(np.float32) if a.dtype == np.float16 else a.dtype
            if adj is not None and adj.shape != a.shape:
                raise ValueError(message(f"{self.__name__}.adjoint", f"adj_{n}", f"shape {a.shape}", str(adj.shape)))
            grads[n] = xp.zeros(a.shape, dtype) if adj is None else xp.array(adj, dtype, order="C")
        backward = found.adjoint(wrt, SLOTS if on_cuda else 0)
        scalars = backward.run(dims, values, grads, deterministic=self.deterministic, on_cuda=on_cuda)
        out: dict[str, Any] = {}
        for n in differentiable(found.types):
            t = found.types[n]
            if isinstance(t, Handle):
                shape = given[n].gradient_shape
                out[n] = grads[n].astype(t.dtype) if n in grads else xp.zeros(shape, t.dtype)
            elif isinstance(t, Array):
                a = given[n]
                out[n] = grads[n].astype(a.dtype, copy=False) if n in grads else xp.zeros(a.shape, a.dtype)
            else:
                scalar = leaves_of(t)[0][0]
                shape = getattr(t, "shape", ())
                out[n] = scalars[n].astype((f32 if scalar is f16 else scalar).dtype).reshape(shape)
        return out

    def adjoint(self, dim: Any, *args: Any, **adjoints: Any) -> Any:
        """The gradients of the launch's arguments.

        Args:
            dim: as of the launch.
            args: the launch's arguments, with the values from before it. Arrays that the kernel writes are not read.
            adjoints: the cotangent of each written array: adj_y of y. None is zero.

        Returns:
            a record of gradients by the names of the float parameters; that of a written array is the gradient of what
            it held before, that of a `gk.Mesh` of its vertices, that of a `gk.SdfGrid` of its values.

        Raises:
            KernelError: the kernel has no adjoint; the message says where and why.
            TypeError: an argument does not fit, or a cotangent is of something that is not written.
        """
        found, dims = self.resolved(dim, args)
        names = {f"adj_{n}": n for n in found.written}
        unknown = [n for n in adjoints if n not in names]
        if unknown:
            raise TypeError(message(f"{self.__name__}.adjoint", unknown[0], f"one of {', '.join(sorted(names))}", "it"))
        floats = differentiable(found.types)
        wrt = frozenset(n for n in floats if isinstance(found.types[n], Array | Handle))
        given = {names[n]: imported(a) for n, a in adjoints.items() if a is not None}
        gradients = self.run_adjoint(dims, [_plain(a) for a in args], given, wrt)
        library = library_of(*args)
        wrapped = {n: library.wrap(g) for n, g in gradients.items()}
        return namedtuple("gradients", wrapped)(**wrapped)  # noqa: PYI024

    # ---- what the compiler made

    def debug(self, on: bool = True) -> Kernel:
        """Check indices, NaN and assertions at each launch, or no longer.

        Args:
            on: whether to.

        Returns:
            the kernel.
        """
        self._debug, self._types = on, ()
        return self

    def _latest(self) -> Specialization:
        if not self._known:
            raise TypeError(message(self.__name__, "source", "one that was launched, as it is generic", "a new one"))
        return next(reversed(self._known.values()))

    def ir(self) -> str:
        """The intermediate representation, simplified, as text."""
        return show(self._latest().forward(self._debug))

    def source(self, device: str = "cpu") -> str:
        """The C++ text that is compiled, for "cpu" or "cuda"."""
        if device not in ("cpu", "cuda"):
            raise ValueError(message(f"{self.__name__}.source", "device", '"cpu" or "cuda"', repr(device)))
        return self._latest().text(self._debug).text

    def adjoint_source(self, device: str = "cpu") -> str:
        """The C++ text of the adjoint with respect to all arrays of floats, for "cpu" or "cuda"."""
        return self.adjoint_program(device).text.text

    def adjoint_program(self, device: str = "cpu") -> Any:
        """The adjoint with respect to all arrays of floats."""
        found = self._latest()
        wrt = frozenset(n for n in differentiable(found.types) if isinstance(found.types[n], Array | Handle))
        return found.adjoint(wrt, SLOTS if device == "cuda" else 0)


def _element(name: str, parameter: str, x: Any) -> Any:
    return element_of(name, parameter, x.value if isinstance(x, Recorded) else x)


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Recorded) else x


@overload
def kernel(function: Callable, *, deterministic: bool = False) -> Kernel: ...
@overload
def kernel(function: None = None, *, deterministic: bool = False) -> Callable[[Callable], Kernel]: ...
def kernel(function: Callable | None = None, *, deterministic: bool = False) -> Any:
    """Make a function a kernel: what one thread does, compiled, and launched for many.

    Args:
        function: its parameters have types: `gk.f32`, `gk.vec3`, `gk.array(gk.f32)`, a `gk.struct`, or a `gk.Mesh`,
            `gk.SdfGrid` or `gk.HashGrid` of the precision of the others. It returns nothing.
        deterministic: whether sums of several threads into one number come out with the same bits at any number of
            threads. Launches that have such sums, forward or backward, then run on one thread; others lose nothing.

    Returns:
        a `Kernel`; `k(n, *arguments)` launches it with n threads.

    Raises:
        KernelError: it cannot be compiled. The message shows each offending place, why, and what to write instead.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> @gk.kernel
        ... def scale(a: gk.f32, x: gk.array(gk.f32), y: gk.array(gk.f32)):
        ...     i = gk.tid()
        ...     y[i] = a * x[i]
        >>> x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
        >>> scale(3, 2.0, x, y)
        >>> y.tolist(), scale.adjoint(3, 2.0, x, y, adj_y=np.ones(3)).x.tolist()
        ([0.0, 2.0, 4.0], [2.0, 2.0, 2.0])
    """
    if function is None:
        return lambda f: Kernel(f, deterministic=deterministic)
    return Kernel(function, deterministic=deterministic)


def launch(kernel: Kernel, dim: Any, inputs: Sequence[Any] = (), outputs: Sequence[Any] = ()) -> Any:
    """Launch a kernel: `kernel(dim, *inputs, *outputs)`.

    Args:
        kernel: what `gk.kernel` made.
        dim: the number of threads, or two or three of them.
        inputs: the first arguments.
        outputs: the others.

    Returns:
        what the call returns: None, or where gradients are followed the arrays that were written.

    Raises:
        TypeError: an argument does not fit.
        ValueError: an array has the wrong shape.
    """
    return kernel(dim, *inputs, *outputs)
