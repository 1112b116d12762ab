"""The intermediate representation: scalar values, each made once, by operations in nested regions.

Vectors, matrices and structures do not occur: the front end takes them apart. Control flow is structured:

    if     (condition)                 regions then, else; the results are what the regions yield
    for    (lower, upper, step, carried...)  one region of (index, carried...) that yields the carried; with attr "stop"
                                       the last carried value is a flag that ends the loop
    while  (carried...)                regions of (carried...): the condition, the body
    custom (arguments...)              a function with an adjoint of its own: regions forward, adjoint

What touches memory names an array and one scalar of its element: load, store, atomic, and in adjoint programs
grad_load, grad_store, grad_add. push and pop keep loop state on a stack; slots keep it in a small array of fixed size.
native calls a function of the headers with a handle, native_adj its adjoint, and native_grad that with gradients of
the handle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from geomkit.lang.diagnostics import Location
from geomkit.lang.types import Array, Composite, Scalar, Type, boolean

__all__ = [
    "Access", "Builder", "Op", "Parameter", "Program", "Region", "Value", "copied", "copied_op", "free_values",
    "leaves_of", "show", "walk",
]  # fmt: skip

EFFECTS = frozenset({"store", "atomic", "grad_store", "grad_add", "assert", "print", "param_grad", "native_grad"})
MEMORY = frozenset({"load", "store", "atomic", "grad_load", "grad_store", "grad_add"})
_number = itertools.count(1)


class Value:
    """A scalar that is made once.

    Attributes:
        op: what makes it; None for a parameter.
        hint: the user's name for it, or "".
    """

    __slots__ = ("hint", "id", "op", "type")

    def __init__(self, type: Scalar, op: Op | None = None, hint: str = ""):
        self.id, self.type, self.op, self.hint = next(_number), type, op, hint

    def __repr__(self) -> str:
        return f"%{self.id}"

    @property
    def constant(self) -> Any:
        """Its number if it is a constant, else None."""
        return self.op.attr if self.op is not None and self.op.kind == "const" else None


class Access(NamedTuple):
    """What a memory operation touches: one scalar of an element of an array, and how."""

    array: str
    leaf: int
    how: str = ""  # of an atomic: add, sub, min, max, exch, cas; of grad_add: "exclusive" or ""


class Op:
    """An operation."""

    __slots__ = ("args", "attr", "kind", "regions", "results", "where")

    def __init__(
        self,
        kind: str,
        args: Sequence[Value],
        types: Sequence[Scalar],
        attr: Any = None,
        regions: Sequence[Region] = (),
        where: Location | None = None,
    ):
        self.kind, self.args, self.attr, self.regions, self.where = kind, list(args), attr, list(regions), where
        self.results = [Value(t, self) for t in types]

    @property
    def result(self) -> Value:
        """The only result."""
        return self.results[0]

    @property
    def carried(self) -> list[Value]:
        """Of a loop: the parameters of the body that are carried from one iteration to the next."""
        return self.regions[-1].params[1 if self.kind == "for" else 0 :]

    @property
    def inits(self) -> list[Value]:
        """Of a loop: what the carried parameters are at first."""
        return self.args[3 if self.kind == "for" else 0 :]


class Region:
    """Operations in order, with parameters, and what they yield."""

    __slots__ = ("ops", "params", "yields")

    def __init__(self, params: Iterable[Value] = ()):
        self.params: list[Value] = list(params)
        self.ops: list[Op] = []
        self.yields: list[Value] = []


class Parameter(NamedTuple):
    """A parameter of a program; `values` are the scalars of one that is no array.

    `contiguous` tells whether an array has the strides of C.
    """

    name: str
    type: Type
    values: tuple[Value, ...] = ()
    contiguous: bool = True


class Program:
    """A kernel with types, or its adjoint.

    Attributes:
        rank: the number of dimensions of its launches.
        wrt: of an adjoint: the arrays that have gradients.
        slots: of an adjoint: the scalar parameters that have gradients, (parameter, leaf) each.
    """

    def __init__(self, name: str, parameters: list[Parameter], body: Region, rank: int, where: Location | None = None):
        self.name, self.parameters, self.body, self.rank, self.where = name, parameters, body, rank, where
        self.wrt: frozenset[str] = frozenset()
        self.slots: list[tuple[str, int]] = []

    @property
    def arrays(self) -> dict[str, Parameter]:
        """The parameters that are arrays."""
        return {p.name: p for p in self.parameters if isinstance(p.type, Array)}

    def scalar(self, access: Access) -> Scalar:
        """The type of what a memory operation touches."""
        return leaves_of(self.arrays[access.array].type.element)[access.leaf][0]  # pyright: ignore

    def with_body(self, body: Region) -> Program:
        """The same program with another body."""
        made = Program(self.name, self.parameters, body, self.rank, self.where)
        made.wrt, made.slots = self.wrt, self.slots
        return made


def leaves_of(t: Type | None) -> list[tuple[Scalar, int]]:
    """The scalars of a type with their offsets in bytes."""
    if isinstance(t, Scalar):
        return [(t, 0)]
    assert isinstance(t, Composite)
    return t.leaves


def walk(region: Region) -> Iterator[Op]:
    """All operations in a region, also those in its regions."""
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from walk(inner)


def free_values(regions: Iterable[Region]) -> dict[Value, None]:
    """What regions use and do not make, in the order of use."""
    free: dict[Value, None] = {}
    for region in regions:
        made = set(region.params)
        for op in region.ops:
            for v in (*op.args, *free_values(op.regions)):
                if v not in made:
                    free[v] = None
            made.update(op.results)
        free.update((v, None) for v in region.yields if v not in made)
    return free


def copied(region: Region, values: dict[Value, Value]) -> Region:
    """A region made anew; `values` says what stands for those from outside, and learns all new ones."""
    made = Region()
    for v in region.params:
        values[v] = Value(v.type, hint=v.hint)
        made.params.append(values[v])
    made.ops = [copied_op(op, values) for op in region.ops]
    made.yields = [values.get(v, v) for v in region.yields]
    return made


def copied_op(op: Op, values: dict[Value, Value]) -> Op:
    """An operation made anew, with all its regions."""
    args = [values.get(v, v) for v in op.args]
    made = Op(op.kind, args, [v.type for v in op.results], op.attr, (), op.where)
    made.regions = [copied(inner, values) for inner in op.regions]
    for old, new in zip(op.results, made.results, strict=True):
        values[old], new.hint = new, old.hint
    return made


class Builder:
    """Adds operations to a region.

    Attributes:
        region: where operations go now.
        where: the user's place that they are for.
    """

    def __init__(self, region: Region | None = None):
        self.region = region if region is not None else Region()
        self.where: Location | None = None

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Within, operations go to another region."""
        before, self.region = self.region, region
        try:
            yield region
        finally:
            self.region = before

    def emit(
        self,
        kind: str,
        args: Sequence[Value],
        types: Sequence[Scalar],
        attr: Any = None,
        regions: Sequence[Region] = (),
    ) -> Op:
        """Add an operation."""
        op = Op(kind, args, types, attr, regions, self.where)
        self.region.ops.append(op)
        return op

    def const(self, value: Any, type: Scalar) -> Value:
        """A constant."""
        value = bool(value) if type is boolean else float(value) if type.is_float else int(value)
        return self.emit("const", (), (type,), value).result

    def call(self, kind: str, *args: Value, type: Scalar | None = None) -> Value:
        """A pure operation; the result has the type of the first argument if none is given."""
        return self.emit(kind, args, (type or args[0].type,)).result

    def compare(self, kind: str, a: Value, b: Value) -> Value:
        """lt, le, gt, ge, eq, ne."""
        return self.call(kind, a, b, type=boolean)

    def convert(self, a: Value, type: Scalar) -> Value:
        """A number in another type."""
        return a if a.type is type else self.emit("convert", (a,), (type,)).result

    def branch(
        self, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """An if whose results are what the two functions return."""
        regions = Region(), Region()
        for region, body in zip(regions, (then, otherwise), strict=True):
            with self.inside(region):
                region.yields = list(body())
        return self.emit("if", (condition,), [v.type for v in regions[0].yields], regions=regions).results


def show(program: Program) -> str:
    """A program as text."""
    names: dict[Value, str] = {}

    def name(v: Value) -> str:
        if v not in names:
            names[v] = f"%{len(names)}" + (f"_{v.hint}" if v.hint else "")
        return names[v]

    def several(values: Iterable[Value]) -> str:
        return ", ".join(f"{name(v)}: {v.type}" for v in values)

    lines: list[str] = []

    def region_lines(region: Region, indent: str) -> None:
        for op in region.ops:
            made = f"{several(op.results)} = " if op.results else ""
            attr = "" if op.attr is None else f" {_attribute(op.attr)}"
            lines.append(f"{indent}{made}{op.kind}{attr} {', '.join(map(name, op.args))}".rstrip())
            for inner in op.regions:
                lines.append(f"{indent}  region({several(inner.params)})")
                region_lines(inner, indent + "    ")
        if region.yields:
            lines.append(f"{indent}yield {', '.join(map(name, region.yields))}")

    shown = [
        f"{p.name}: {several(p.values)}" if p.values else f"{p.name}: {p.type}{'' if p.contiguous else ' strided'}"
        for p in program.parameters
    ]
    lines.append(f"kernel {program.name}[{program.rank}]({'; '.join(shown)})")
    region_lines(program.body, "  ")
    return "\n".join(lines)


def _attribute(attr: Any) -> str:
    if isinstance(attr, Access):
        return f"{attr.array}.{attr.leaf}" + (f" {attr.how}" if attr.how else "")
    return getattr(attr, "name", None) or str(attr)
