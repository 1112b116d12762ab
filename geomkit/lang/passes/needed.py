"""Which values have gradients, and which the backward sweep has to know."""

from __future__ import annotations

from geomkit.lang.diagnostics import Problem, Problems
from geomkit.lang.ir import Op, Program, Value, walk
from geomkit.lang.rules import NEEDS

__all__ = ["Activity", "active_values", "check_hazards", "needed_values"]


class Activity:
    """Values that depend on something with a gradient."""

    def __init__(self, program: Program, wrt: frozenset[str], scalars: bool):
        self.values: set[Value] = set()
        if scalars:
            for p in program.parameters:
                self.values.update(v for v in p.values if v.type.is_float)
        changed, ops = True, list(walk(program.body))
        while changed:
            before = len(self.values)
            for op in ops:
                self._spread(op, wrt)
            changed = len(self.values) > before

    def __contains__(self, v: Value) -> bool:
        return v in self.values

    def _spread(self, op: Op, wrt: frozenset[str]) -> None:
        active = self.values
        if op.kind == "load":
            if op.attr.array in wrt and op.result.type.is_float:
                active.add(op.result)
        elif op.kind == "if":
            for region in op.regions:
                active.update(v for v, y in zip(op.results, region.yields, strict=True) if y in active)
        elif op.kind in ("for", "while"):
            body = op.regions[-1]
            for k, v in enumerate(op.results):
                if op.inits[k] in active or body.yields[k] in active:
                    active.add(v)
                    active.add(op.carried[k])
        elif op.kind == "custom":
            if any(a in active for a in op.args):
                active.update(v for v in op.results if v.type.is_float)
        elif op.kind in NEEDS and op.kind not in ("stop",):
            if op.result.type.is_float and any(a in active for a in op.args):
                active.add(op.result)


def active_values(program: Program, wrt: frozenset[str], scalars: bool) -> Activity:
    """The values that gradients reach or come from."""
    return Activity(program, wrt, scalars)


def needed_values(program: Program, active: Activity) -> set[Value]:
    """Values of the forward program that its adjoint reads, and all that these are computed from (Hascoet, Naumann and
    Pascual, 2005, call them to be recorded)."""
    needed: set[Value] = set()
    ops = list(walk(program.body))
    before = -1
    while len(needed) > before:
        before = len(needed)
        for op in reversed(ops):
            _require(op, active, needed)
    return needed


def _require(op: Op, active: Activity, needed: set[Value]) -> None:
    kind = op.kind
    if kind in ("load", "store", "atomic"):
        values = 0 if kind == "load" else 1
        if kind == "load" and op.result not in active and op.result not in needed:
            return
        needed.update(op.args[: len(op.args) - values])
    elif kind == "if":
        needed.add(op.args[0])
        for k, v in enumerate(op.results):
            if v in needed:
                needed.update(region.yields[k] for region in op.regions)
    elif kind in ("for", "while"):
        if kind == "for":
            needed.update(op.args[:3])
        else:
            needed.update(op.regions[0].yields)
        body = op.regions[-1]
        if op.attr == "stop":
            needed.update((op.carried[-1], op.results[-1]))
        for k, p in enumerate(op.carried):
            test = op.regions[0].params[k] if kind == "while" else p
            if p in needed or op.results[k] in needed or test in needed:
                needed.update((body.yields[k], op.inits[k], op.results[k]))
                if kind == "while" and body.yields[k] in needed:
                    needed.add(p) if _feeds(p, body.yields[k]) else None
    elif kind == "custom":
        if any(v in active for v in op.results) or any(v in needed for v in op.results):
            needed.update(op.args)
    elif op.results:
        v = op.result
        if v in needed:
            needed.update(op.args)
        if v in active and kind in NEEDS:
            needed.update(v if n == "r" else op.args[n] for n in NEEDS[kind])  # pyright: ignore


def _feeds(p: Value, v: Value) -> bool:
    return p is v


def check_hazards(program: Program, needed: set[Value]) -> None:
    """Refuse a program that overwrites what its adjoint has to read again.

    Raises:
        KernelError: it does; the message shows both places.
    """
    problems = Problems(f"{program.name}.adjoint")
    stores: dict[str, Op] = {}
    for op in walk(program.body):
        if op.kind in ("store", "atomic"):
            stores.setdefault(op.attr.array, op)
    for op in walk(program.body):
        if op.kind == "load" and op.result in needed and op.attr.array in stores:
            other = stores[op.attr.array].where
            line = f" (line {other.line})" if other else ""
            text = (
                f"'{op.attr.array}' is read here and overwritten in the same kernel{line}, but the backward pass needs "
                "the old value: write into another array"
            )
            problems.add(Problem(op.where, text))
        if op.kind == "atomic" and (op.attr.how in ("min", "max", "exch", "cas") or op.results):
            floats = any(v.type.is_float for v in op.args)
            used = any(v in needed for v in op.results)
            if (floats and op.attr.how not in ("add", "sub")) or used:
                text = (
                    f"atomic_{op.attr.how} has no derivative" + (" where its result is used" if used else "")
                    + ": the order of threads is not known in the backward pass; use atomic_add without its result, or "
                    "a kernel for each pass"
                )
                problems.add(Problem(op.where, text))
    problems.check()
