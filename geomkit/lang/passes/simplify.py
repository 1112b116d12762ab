"""Constants folded, common values shared, branches that are decided removed. Exact in IEEE arithmetic, but for the sign
of zero."""

from __future__ import annotations

from typing import Any

from geomkit.lang.ir import Op, Program, Region, Value, walk
from geomkit.lang.operations import OPERATIONS, evaluate, is_pure
from geomkit.lang.types import boolean

__all__ = ["simplify"]


def simplify(program: Program) -> None:
    """Simplify a program in place."""
    written = {op.attr.array for op in walk(program.body) if op.kind in ("store", "atomic")}
    _Simplifier(written).region(program.body, {})


class _Simplifier:
    def __init__(self, written: set[str]):
        self.written = written
        self.instead: dict[Value, Value] = {}

    def resolved(self, v: Value) -> Value:
        while v in self.instead:
            v = self.instead[v]
        return v

    def region(self, region: Region, known: dict[Any, Value]) -> None:
        """Simplify a region; `known` are the values of the regions around it."""
        waiting, out = list(region.ops), []
        known = dict(known)
        waiting.reverse()
        while waiting:
            op = waiting.pop()
            op.args = [self.resolved(v) for v in op.args]
            if op.kind == "if":
                spliced = self._branch(op, known)
                if spliced is not None:
                    waiting += reversed(spliced)
                    continue
            elif op.regions:
                self._loop(op, known)
            elif self._replaced(op, known, out):
                continue
            out.append(op)
        region.ops = out
        region.yields = [self.resolved(v) for v in region.yields]

    def _key(self, op: Op) -> Any:
        if op.kind == "load":
            return None if op.attr.array in self.written else ("load", op.attr, *op.args)
        if not is_pure(op.kind):
            return None
        args = op.args
        if op.kind in OPERATIONS and OPERATIONS[op.kind].commutes:
            args = sorted(args, key=lambda v: v.id)
        attr = (repr(op.attr), type(op.attr)) if op.kind == "const" else op.attr
        return (op.kind, op.result.type, attr, *args)

    def _replaced(self, op: Op, known: dict[Any, Value], out: list[Op]) -> bool:
        """Whether something known takes an operation's place."""
        if op.kind in OPERATIONS:
            constants = [v.constant for v in op.args]
            if all(c is not None for c in constants) and op.kind not in ("div", "floordiv", "mod", "stop"):
                folded = evaluate(op.kind, constants, [v.type for v in op.args], op.result.type)
                if folded is not None:
                    op.kind, op.args, op.attr = "const", [], folded
            else:
                shorter = _identity(op)
                if shorter is not None:
                    self.instead[op.result] = self.resolved(shorter)
                    return True
        key = self._key(op)
        if key is None:
            return False
        if key in known:
            self.instead[op.result] = known[key]
            return True
        known[key] = op.result
        return False

    def _branch(self, op: Op, known: dict[Any, Value]) -> list[Op] | None:
        """Simplify an if; the operations that take its place if it needs no branch."""
        condition = op.args[0].constant
        if condition is not None:
            taken = op.regions[0 if condition else 1]
            for v, y in zip(op.results, taken.yields, strict=True):
                self.instead[v] = y
            return taken.ops
        for region in op.regions:
            self.region(region, known)
        kept = []
        for k, (v, x, y) in enumerate(zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True)):
            inside = {r for region in op.regions for o in region.ops for r in o.results}
            if x is y and x not in inside:
                self.instead[v] = x
            else:
                kept.append(k)
        if len(kept) < len(op.results):
            op.results = [op.results[k] for k in kept]
            for region in op.regions:
                region.yields = [region.yields[k] for k in kept]
        if all(o.kind == "const" for region in op.regions for o in region.ops):
            made = [o for region in op.regions for o in region.ops]
            for v, x, y in zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True):
                chosen = Op("select", [op.args[0], x, y], [v.type], where=op.where)
                chosen.result.hint = v.hint
                self.instead[v] = chosen.result
                made.append(chosen)
            return made
        return None

    def _loop(self, op: Op, known: dict[Any, Value]) -> None:
        if op.kind in ("for", "while"):
            self._invariants(op)
        for region in op.regions:
            self.region(region, known)

    def _invariants(self, op: Op) -> None:
        """What a loop carries and does not change is what it was before."""
        body = op.regions[-1]
        first = len(body.params) - len(op.carried)
        is_flag = op.attr == "stop"
        kept = []
        for k, p in enumerate(op.carried):
            if self.resolved(body.yields[k]) is p and not (is_flag and k == len(op.carried) - 1):
                init = op.inits[k]
                for region in op.regions:
                    self.instead[region.params[k + (first if region is body else 0)]] = init
                self.instead[op.results[k]] = init
            else:
                kept.append(k)
        keep_carried(op, kept)


def keep_carried(op: Op, kept: list[int]) -> None:
    """Drop all that a loop carries but these."""
    if len(kept) == len(op.results):
        return
    bounds = op.args[: len(op.args) - len(op.inits)]
    inits = [op.inits[k] for k in kept]
    body = op.regions[-1]
    for region in op.regions:
        first = len(region.params) - len(op.results)
        region.params = region.params[:first] + [region.params[first + k] for k in kept]
    body.yields = [body.yields[k] for k in kept]
    op.args = bounds + inits
    op.results = [op.results[k] for k in kept]


def _identity(op: Op) -> Value | None:
    """The argument that an operation only passes on."""
    kind, args = op.kind, op.args
    if kind == "select":
        if args[1] is args[2]:
            return args[1]
        if args[0].constant is not None:
            return args[1 if args[0].constant else 2]
        if op.result.type is boolean and args[1].constant is True and args[2].constant is False:
            return args[0]
        if op.result.type is boolean and args[1].constant is False and args[2].constant is True:
            op.kind, op.args = "not", [args[0]]
        return None
    if kind == "not" and args[0].op is not None and args[0].op.kind == "not":
        return args[0].op.args[0]
    if kind == "convert":
        return args[0] if args[0].type is op.result.type else None
    if len(args) != 2:
        return None
    x, y = args[0].constant, args[1].constant
    if kind == "add":
        return args[1] if x == 0 and x is not None else args[0] if y == 0 and y is not None else None
    if kind == "sub":
        return args[0] if y == 0 and y is not None else None
    if kind == "mul":
        return args[1] if x == 1 and x is not None else args[0] if y == 1 and y is not None else None
    if kind in ("div", "floordiv"):
        return args[0] if y == 1 and y is not None and (kind == "div" or op.result.type.is_integer) else None
    if kind == "and":
        return args[1] if x is True else args[0] if x is False or y is True else args[1] if y is False else None
    if kind == "or":
        return args[1] if x is False else args[0] if x is True or y is False else args[1] if y is True else None
    return None


