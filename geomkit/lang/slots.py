"""The reverse of a loop with checkpoints in two arrays of fixed size: what the GPU does, where no stack can grow.

The loop runs forward once and keeps its state every S iterations, then for each such segment, the last first, once more
and keeps the state every Q iterations; between these it is run again. With K slots in each array no more than two extra
runs are needed for up to K^2 iterations, and any number is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from geomkit.lang.ir import Op, Region, Value

if TYPE_CHECKING:
    from geomkit.lang.adjoint import Reverse

__all__ = ["reversed_with_slots"]

_site = itertools.count(1)


class _Slots:
    """An array of states."""

    def __init__(self, reverse: Reverse, op: Op, k: int):
        self.b, self.types = reverse.b, [v.type for v in op.carried]
        self.sites = [next(_site) for _ in self.types]
        for site, t in zip(self.sites, self.types, strict=True):
            self.b.emit("slots", (), (), (site, t, k))

    def put(self, slot: Value, state: list[Value]) -> None:
        for site, v in zip(self.sites, state, strict=True):
            self.b.emit("slot_put", (slot, v), (), site)

    def get(self, slot: Value) -> list[Value]:
        pairs = zip(self.sites, self.types, strict=True)
        return [self.b.emit("slot_get", (slot,), (t,), site).result for site, t in pairs]


def reversed_with_slots(
    reverse: Reverse, op: Op, trips: Value, kept: list[int], outer: list[Value], firsts: list[Value]
) -> list[Value]:
    """The loop backwards; see `Reverse.iteration` for the arguments. `firsts` are the cotangents to begin with."""
    b, k, t = reverse.b, reverse.slots, trips.type
    zero, one = b.const(0, t), b.const(1, t)

    def call(kind: str, x: Value, y: Value) -> Value:
        return b.call(kind, x, y)

    def parts(n: Value, size: Value) -> Value:
        """ceil(n / size)"""
        return call("floordiv", call("sub", call("add", n, size), one), size)

    def run(start: Value, end: Value, state: list[Value], keep: Callable[[Value, list[Value]], None]) -> list[Value]:
        """Iterations forward; `keep` sees each and the state before it."""
        i = Value(t)
        region = Region([i, *(Value(v.type) for v in state)])
        with b.inside(region):
            keep(i, region.params[1:])
            region.yields = _step(reverse, op, i, region.params[1:])
        return b.emit("for", [start, end, one, *state], [v.type for v in state], None, (region,)).results

    def kept_every(slots: _Slots, period: Value, start: Value) -> Callable[[Value, list[Value]], None]:
        def keep(i: Value, state: list[Value]) -> None:
            done = call("sub", i, start)
            region, nothing = Region(), Region()
            with b.inside(region):
                slots.put(call("floordiv", done, period), state)
            due = b.compare("eq", call("mod", done, period), zero)
            b.emit("if", (due,), (), None, (region, nothing))

        return keep

    def backwards(count: Value, given: list[Value], body: Callable[[Value, list[Value]], list[Value]]) -> list[Value]:
        """A loop over count - 1, ..., 0 that carries cotangents."""
        i = Value(t)
        region = Region([i, *(Value(g.type) for g in given)])
        with b.inside(region):
            region.yields = body(call("sub", call("sub", count, one), i), region.params[1:])
        return b.emit("for", [zero, count, one, *given], [g.type for g in given], None, (region,)).results

    many, few = _Slots(reverse, op, k), _Slots(reverse, op, k)
    size = call("max", parts(trips, b.const(k, t)), one)
    step = call("max", parts(size, b.const(k, t)), one)
    run(zero, trips, [reverse.primal(v) for v in op.inits], kept_every(many, size, zero))

    def segment(s: Value, given: list[Value]) -> list[Value]:
        start = call("mul", s, size)
        end = call("min", call("add", start, size), trips)
        run(start, end, many.get(s), kept_every(few, step, start))

        def one_back(done: Value, given: list[Value]) -> list[Value]:
            q = call("floordiv", done, step)
            i = call("add", start, done)
            state = run(call("add", start, call("mul", q, step)), i, few.get(q), lambda i, state: None)
            return reverse.iteration(op, reverse.index_of(op, i), list(state), kept, outer, given)

        return backwards(call("sub", end, start), given, one_back)

    return backwards(parts(trips, size), firsts, segment)


def _step(reverse: Reverse, op: Op, i: Value, state: list[Value]) -> list[Value]:
    """What an iteration makes of the state."""
    with reverse.another_frame():
        reverse.enter(op, reverse.index_of(op, i), state)
        body = op.regions[-1]
        reverse.replay(body.ops, (), saving=False)
        return [reverse.seen(y) for y in body.yields]
