"""What a thread has written and then reads again is taken from where it was computed."""

from __future__ import annotations

from collections.abc import Iterable

from geomkit.lang.ir import Access, Op, Program, Region, Value, copied, walk

__all__ = ["forwarded"]

Known = dict[tuple[Access, tuple[Value, ...]], Value]


def forwarded(program: Program) -> Program:
    """A program made anew, in which no load follows a store of the same thread to the same element.

    An adjoint computes the forward program's values again without its stores, so such a load would find the old value.
    The indices have to be the same values. A store at other indices may be to the same element, so what is known of its
    array ends there, as it does where a branch or a loop writes. Another thread that writes to the element meanwhile
    would be a race, except by atomics: arrays that have some stay as they are, and so do those of numbers that are
    rounded when they are stored.
    """
    made = program.with_body(copied(program.body, {v: v for p in program.parameters for v in p.values}))
    _Forward(made).region(made.body, {})
    return made


class _Forward:
    def __init__(self, program: Program):
        self.program = program
        self.left = {op.attr.array for op in walk(program.body) if op.kind == "atomic"}
        self.instead: dict[Value, Value] = {}

    def region(self, region: Region, known: Known) -> None:
        """Change a region; `known` is what was stored before it, and then also within it."""
        out = []
        for op in region.ops:
            op.args = [self.instead.get(v, v) for v in op.args]
            if op.kind == "load":
                stored = known.get((Access(op.attr.array, op.attr.leaf), tuple(op.args)))
                if stored is not None:
                    self.instead[op.result] = stored
                    continue
            elif op.kind == "store":
                self._store(op, known)
            elif op.regions:
                ended = _written(op.regions)
                for inner in op.regions:
                    # What a loop writes, an earlier iteration may have written.
                    kept = _without(known, ended) if op.kind in ("for", "while") else dict(known)
                    self.region(inner, kept)
                for key in [key for key in known if key[0].array in ended]:
                    del known[key]
            out.append(op)
        region.ops = out
        region.yields = [self.instead.get(v, v) for v in region.yields]

    def _store(self, op: Op, known: Known) -> None:
        *index, value = op.args
        place = Access(op.attr.array, op.attr.leaf), tuple(index)
        for key in [key for key in known if key[0].array == op.attr.array and key[1] != place[1]]:
            del known[key]
        if op.attr.array not in self.left and self.program.scalar(op.attr) is value.type:
            known[place] = value


def _written(regions: Iterable[Region]) -> set[str]:
    return {op.attr.array for region in regions for op in walk(region) if op.kind in ("store", "atomic")}


def _without(known: Known, arrays: set[str]) -> Known:
    return {key: value for key, value in known.items() if key[0].array not in arrays}
