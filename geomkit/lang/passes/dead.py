"""Operations without effect on memory that nothing needs, removed: also what loops carry for nobody."""

from __future__ import annotations

from geomkit.lang.ir import EFFECTS, Op, Program, Region, Value
from geomkit.lang.passes.simplify import keep_carried

__all__ = ["eliminate"]


def eliminate(program: Program) -> None:
    """Remove from a program, in place, what has no effect."""
    marks = _Marks(program.body)
    marks.run()
    _sweep(program.body, marks)


class _Marks:
    """What is needed: operations and values."""

    def __init__(self, body: Region):
        self.ops: set[Op] = set()
        self.values: set[Value] = set()
        self.around: dict[Op, Op | None] = {}
        self.owner: dict[Value, tuple[Op, int]] = {}  # of a region's parameter: the operation, and which carried value
        self.waiting: list[Value] = []
        self.saved: dict[int, list[Op]] = {}  # where the values that are taken from a stack were put, by site
        self._pops: dict[int, list[Value]] = {}
        self._index(body, None)

    def _index(self, region: Region, around: Op | None) -> None:
        for op in region.ops:
            self.around[op] = around
            if op.kind == "push":
                self.saved.setdefault(op.attr, []).append(op)
            elif op.kind == "pop":
                self._pops[op.attr] = list(op.results)
            elif op.kind == "slot_put":
                self.saved.setdefault(-op.attr, []).append(op)
            elif op.kind == "slots":
                self.saved.setdefault(-op.attr[0], []).append(op)
            for inner in op.regions:
                if op.kind in ("for", "while"):
                    first = len(inner.params) - len(op.results)
                    for k, p in enumerate(inner.params):
                        self.owner[p] = op, k - first
                elif op.kind == "custom":
                    for k, p in enumerate(inner.params):
                        self.owner[p] = op, k
                self._index(inner, op)

    def run(self) -> None:
        for op in self.around:
            if op.kind in EFFECTS:
                self._keep(op)
                self._need(*op.args)
        while self.waiting:
            self._follow(self.waiting.pop())

    def _need(self, *values: Value) -> None:
        for v in values:
            if v not in self.values:
                self.values.add(v)
                self.waiting.append(v)

    def _keep(self, op: Op | None) -> None:
        """An operation is there, so what decides whether it runs is needed."""
        while op is not None and op not in self.ops:
            self.ops.add(op)
            if op.kind == "if":
                self._need(op.args[0])
            elif op.kind == "for":
                self._need(*op.args[:3])
                if op.attr == "stop":
                    self._need(op.carried[-1], op.results[-1])
            elif op.kind == "while":
                self._need(*op.regions[0].yields)
            elif op.kind == "custom":
                self._need(*op.args, *(v for region in op.regions for v in region.yields))
            op = self.around[op]

    def _follow(self, v: Value) -> None:
        if v.op is not None:
            op = v.op
            self._keep(op)
            k = op.results.index(v)
            if op.kind == "if":
                self._need(*(region.yields[k] for region in op.regions))
            elif op.kind in ("for", "while"):
                self._carried(op, k)
            elif op.kind == "pop":
                for push in self.saved.get(op.attr, ()):
                    self._keep(push)
                    self._need(push.args[k])
            elif op.kind == "slot_get":
                self._need(*op.args)
                for put in self.saved.get(-op.attr, ()):
                    self._keep(put)
                    self._need(*put.args)
            elif op.kind != "custom":
                self._need(*op.args)
        elif v in self.owner:
            op, k = self.owner[v]
            self._keep(op)
            if k >= 0 and op.kind != "custom":
                self._carried(op, k)

    def popped(self, site: int) -> list[bool]:
        """Which of the values that a stack's site takes are needed where they are taken back."""
        return [v in self.values for v in self._pops[site]]

    def _carried(self, op: Op, k: int) -> None:
        self._need(op.inits[k], op.regions[-1].yields[k], op.results[k], op.carried[k])
        if op.kind == "while":
            self._need(op.regions[0].params[k])


def _sweep(region: Region, marks: _Marks) -> None:
    region.ops = [op for op in region.ops if op in marks.ops]
    for op in region.ops:
        if op.kind == "if":
            kept = [k for k, v in enumerate(op.results) if v in marks.values]
            op.results = [op.results[k] for k in kept]
            for inner in op.regions:
                inner.yields = [inner.yields[k] for k in kept]
        elif op.kind in ("for", "while"):
            keep_carried(op, [k for k, v in enumerate(op.results) if v in marks.values])
        elif op.kind == "push":
            op.args = [v for v, k in zip(op.args, marks.popped(op.attr), strict=True) if k]
        elif op.kind == "pop":
            op.results = [v for v in op.results if v in marks.values]
        for inner in op.regions:
            _sweep(inner, marks)
