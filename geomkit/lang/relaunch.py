"""Launching again with arguments of the types of the last call: checked and packed in compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from geomkit.lang.compile_cpu import has_compiler, library_of
from geomkit.lang.handles import Handle
from geomkit.lang.specialization import Specialization
from geomkit.lang.struct import Struct
from geomkit.lang.types import Array, Composite, Scalar, Type, boolean
from geomkit.runtime import launcher

__all__ = ["relaunch"]


def relaunch(
    found: Specialization, args: Sequence[Any], values: Sequence[Any], *, deterministic: bool
) -> Callable[..., None] | None:
    """A function of dim and arguments that launches a kernel on the CPU, once it has run that way.

    It refuses what does not fit, with a TypeError or ValueError, before the kernel runs.

    Args:
        found: the kernel for some types.
        args: those of its last launch.
        values: these, as they were packed.
        deterministic: whether sums of several threads must have the same bits at any number of threads.

    Returns:
        the function; None where the arguments are of other kinds than contiguous arrays of NumPy's and numbers.
    """
    tokens = [_token(t, name in found.written, name in found.own) for name, t in found.types.items()]
    arrays = [x for x, t in zip(args, found.types.values(), strict=True) if isinstance(t, Array)]
    plain = all(type(x) is np.ndarray and x.flags.c_contiguous for x in arrays)
    if None in tokens or not plain or not has_compiler() or not launcher.is_built():
        return None
    if deterministic and not found.is_ordered(found.forward()):
        return None
    (address,) = library_of(found.text())
    launch = launcher.Launcher(address, " ".join(map(str, tokens)), grain=found.grain).launch
    handles = [k for k, t in enumerate(found.types.values()) if isinstance(t, Handle)]
    if not handles:
        return launch
    # What the structures point to belongs to the objects, which are not kept alive here.
    known = [(k, values[k].recognizer(args[k]), values[k].pack(None)) for k in handles]

    def again(dim: Any, *args: Any) -> None:
        given = list(args)
        for k, is_known, structure in known:
            if not is_known(args[k]):
                raise TypeError("another object")
            given[k] = structure
        launch(dim, *given)

    return again


def _token(t: Type, written: bool, own: bool) -> str | None:
    """A parameter in the launcher's signature."""
    if isinstance(t, Scalar):
        return _code(t)
    if isinstance(t, Handle):
        return f"b{t.size}:8"
    if not isinstance(t, Array) or t.element is None or isinstance(t.element, Struct):
        return None
    element = t.element
    scalar, count = (element.leaves[0][0], len(element.leaves)) if isinstance(element, Composite) else (element, 1)
    return f"a:{_code(scalar)}:{t.ndim}:{count}:C{'w' if written else 'r'}{'o' if own else ''}"


def _code(t: Scalar) -> str:
    return "b1" if t is boolean else t.code
