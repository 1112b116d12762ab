"""Which values depend on something that has gradients."""

from __future__ import annotations

from geomkit.lang.ir import Op, Program, Value, walk
from geomkit.lang.native import NATIVES
from geomkit.lang.rules import NO_SLOPE, RULES

__all__ = ["Activity", "active_values"]


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
        elif op.kind == "native":
            native = NATIVES[op.attr.function]
            if op.attr.handle in wrt or any(op.args[k] in active for k in native.slopes):
                active.update(op.results[k] for k in native.places(*native.sends, *native.instead))
        elif op.kind == "custom":
            if any(a in active for a in op.args):
                active.update(v for v in op.results if v.type.is_float)
        elif op.kind in RULES and op.kind not in NO_SLOPE:
            if op.result.type.is_float and any(a in active for a in op.args):
                active.add(op.result)


def active_values(program: Program, wrt: frozenset[str], scalars: bool) -> Activity:
    """The values that gradients reach or come from."""
    return Activity(program, wrt, scalars)
