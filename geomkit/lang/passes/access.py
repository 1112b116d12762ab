"""Which threads touch which elements of an array."""

from __future__ import annotations

from geomkit.lang.ir import MEMORY, Access, Builder, Op, Program, Region, walk
from geomkit.lang.types import Array

__all__ = ["called", "exclusive", "exclusive_gradients", "own", "plain_updates", "read", "written"]


def written(program: Program) -> set[str]:
    """The arrays that a program writes into."""
    return {op.attr.array for op in walk(program.body) if op.kind in ("store", "atomic")}


def read(program: Program) -> set[str]:
    """The arrays that a program reads."""
    return {op.attr.array for op in walk(program.body) if op.kind == "load" or (op.kind == "atomic" and op.results)}


def called(program: Program) -> dict[str, frozenset[str]]:
    """For each handle the native functions that a program calls with it."""
    found: dict[str, set[str]] = {}
    for op in walk(program.body):
        if op.kind == "native":
            found.setdefault(op.attr.handle, set()).add(op.attr.function)
    return {name: frozenset(functions) for name, functions in found.items()}


def exclusive(program: Program) -> set[str]:
    """The arrays of which each thread touches only the element of its own index."""
    found = _axes(program, MEMORY)
    return {name for name in program.arrays if found.get(name) != ()}


def own(program: Program) -> set[str]:
    """Those of them whose axes are those of the launch, in order: any two of one shape may be the same array."""
    found = _axes(program, MEMORY)
    return {name for name in program.arrays if name not in found or found[name] == tuple(range(program.rank))}


def exclusive_gradients(program: Program) -> None:
    """Let an adjoint program add without atomics to the gradients that no other thread touches."""
    found = _axes(program, frozenset(kind for kind in MEMORY if kind.startswith("grad_")))
    for op in walk(program.body):
        if op.kind == "grad_add" and found[op.attr.array]:
            op.attr = Access(op.attr.array, op.attr.leaf, "exclusive")


def _axes(program: Program, kinds: frozenset[str]) -> dict[str, tuple[int, ...]]:
    """For each array that is touched the axes of the launch that index it, the same everywhere; else none."""
    found: dict[str, tuple[int, ...]] = {}
    for op in walk(program.body):
        if op.kind in kinds:
            axes = _own_axes(op, program)
            # (In [i, j] and in [j, i] one thread may meet another.)
            found[op.attr.array] = axes if found.get(op.attr.array, axes) == axes else ()
    return found


def _own_axes(op: Op, program: Program) -> tuple[int, ...]:
    kind = program.arrays[op.attr.array].type
    assert isinstance(kind, Array)
    axes = tuple(v.op.attr for v in op.args[: kind.ndim] if v.op is not None and v.op.kind == "tid")
    return axes if sorted(axes) == list(range(program.rank)) and len(axes) == kind.ndim else ()


def plain_updates(program: Program) -> None:
    """Turn atomic additions that no other thread can disturb into a load, an addition and a store."""
    alone = exclusive(program)

    def rewrite(region: Region) -> None:
        out = Region()
        b = Builder(out)
        for op in region.ops:
            for inner in op.regions:
                rewrite(inner)
            is_update = op.kind == "atomic" and op.attr.how in ("add", "sub") and not op.results
            if is_update and op.attr.array in alone:
                b.where = op.where
                *index, value = op.args
                place = Access(op.attr.array, op.attr.leaf)
                old = b.emit("load", index, (value.type,), place).result
                b.emit("store", [*index, b.call(op.attr.how, old, value)], (), place)
            else:
                out.ops.append(op)
        region.ops = out.ops

    rewrite(program.body)
