"""The adjoint of a program, as a program: a forward replay without side effects, then the sweep back.

What a loop carries is saved at the start of each iteration and taken back, last first, when the loop is reversed; then
the body is replayed, its inner loops now saving theirs. So memory is the sum over the levels of nesting, not their
product. Values from within a branch are handed out of it when the sweep asks for them. What nobody asks for is removed
afterwards, the saving included: no analysis has to foresee what the sweep needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from geomkit.lang.diagnostics import Problem, Problems
from geomkit.lang.ir import Access, Builder, Op, Program, Region, Value, copied_op, free_values, walk
from geomkit.lang.native_adjoint import sweep_native
from geomkit.lang.passes.access import exclusive_gradients
from geomkit.lang.passes.activity import active_values
from geomkit.lang.passes.dead import eliminate
from geomkit.lang.passes.forward import forwarded
from geomkit.lang.passes.simplify import simplify
from geomkit.lang.rules import RULES
from geomkit.lang.slots import reversed_with_slots
from geomkit.lang.types import i32

__all__ = ["Reverse", "adjoint_of"]

_SKIPPED = frozenset({"store", "assert", "print"})
_site = itertools.count(1)


class Home(NamedTuple):
    """Where a replayed value is: the frame, and the branches around it from the outside in."""

    frame: int
    branches: tuple[tuple[Op, int], ...]


def adjoint_of(program: Program, wrt: frozenset[str], *, scalars: bool = True, slots: int = 0) -> Program:
    """The adjoint of a program.

    Args:
        program: the forward program, simplified.
        wrt: the arrays that have gradients: cotangents of what is written, gradients of what is read.
        scalars: whether scalar parameters have gradients.
        slots: 0 to save what loops carry on a stack; else in arrays of so many slots, two for each loop.

    Raises:
        KernelError: the program overwrites what the sweep has to read, or has no derivative.
    """
    program = forwarded(program)
    reverse = Reverse(program, wrt, scalars, slots)
    made = reverse.run()
    for _ in range(2):
        simplify(made)
        eliminate(made)
    _check_hazards(program, made, wrt)
    exclusive_gradients(made)
    return made


class Reverse:
    """Makes the adjoint of a program.

    Attributes:
        values: of the forward program, what they are in the replay.
        cotangents: of the forward program's values.
    """

    def __init__(self, program: Program, wrt: frozenset[str], scalars: bool, slots: int):
        self.program, self.wrt, self.slots = program, wrt, slots
        self.b = Builder()
        self.active = active_values(program, wrt, scalars)
        self.values: dict[Any, Value] = {v: v for p in program.parameters for v in p.values}
        self.cotangents: dict[Value, Value] = {}
        self.homes: dict[Value, Home] = {}
        self.outside: dict[Value, Value] = {}
        self.frame = 0
        self._frames = itertools.count(1)

    def run(self) -> Program:
        body = self.program.body
        self.replay(body.ops, (), saving=True)
        self.sweep(body.ops)
        slots = []
        for p in self.program.parameters:
            for leaf, v in enumerate(p.values):
                g = self.cotangents.get(v)
                if g is not None:
                    self.b.emit("param_grad", (g,), (), len(slots))
                    slots.append((p.name, leaf))
        made = Program(f"{self.program.name}_adj", self.program.parameters, self.b.region, self.program.rank,
                       self.program.where)  # fmt: skip
        made.wrt, made.slots = self.wrt, slots
        return made

    # ---- replay

    def seen(self, v: Value) -> Value:
        """A value of the forward program, for the replay of the frame that is under way."""
        found = self.values[v]
        home = self.homes.get(found)
        return found if home is None or home.frame == self.frame else self.primal(v)

    def primal(self, v: Any) -> Value:
        """A value of the forward program, for the sweep: out of the branches that it was computed in."""
        found = self.values[v]
        home = self.homes.get(found)
        if home is None or not home.branches:
            return found
        if found not in self.outside:
            current = found
            for op, side in reversed(home.branches):
                current = _handed_out(op, side, current)
            self.outside[found] = current
        return self.outside[found]

    def note(self, v: Any, new: Value, branches: tuple[tuple[Op, int], ...]) -> None:
        """Remember what a value is in the replay."""
        self.values[v] = new
        self.homes[new] = Home(self.frame, branches)

    def replay(self, ops: Iterable[Op], branches: tuple[tuple[Op, int], ...], *, saving: bool) -> None:
        """Compute the forward program's values again, without its effects; loops save what they carry."""
        for op in ops:
            self.b.where = op.where
            if op.kind in _SKIPPED:
                continue
            if op.kind == "atomic":
                for v in op.results:
                    self.note(v, self.b.emit("lost", (), (v.type,), op.attr).result, branches)
            elif op.kind == "if":
                self._replay_if(op, branches, saving=saving)
            elif op.kind in ("for", "while"):
                self._replay_loop(op, branches, saving=saving)
            elif op.kind == "custom":
                forward = op.regions[0]
                for p, a in zip(forward.params, op.args, strict=True):
                    self.note(p, self.seen(a), branches)
                self.replay(forward.ops, branches, saving=False)
                for v, y in zip(op.results, forward.yields, strict=True):
                    self.note(v, self.seen(y), branches)
            else:
                new = self.b.emit(op.kind, [self.seen(a) for a in op.args], [v.type for v in op.results], op.attr)
                for v, n in zip(op.results, new.results, strict=True):
                    self.note(v, n, branches)

    def _replay_if(self, op: Op, branches: tuple[tuple[Op, int], ...], *, saving: bool) -> None:
        new = Op("if", [self.seen(op.args[0])], [v.type for v in op.results], None, (), op.where)
        new.regions = [Region(), Region()]
        for side, (region, made) in enumerate(zip(op.regions, new.regions, strict=True)):
            with self.b.inside(made):
                self.replay(region.ops, (*branches, (new, side)), saving=saving)
                made.yields = [self.seen(y) for y in region.yields]
        self.b.region.ops.append(new)
        for v, n in zip(op.results, new.results, strict=True):
            self.note(v, n, branches)

    def _replay_loop(self, op: Op, branches: tuple[tuple[Op, int], ...], *, saving: bool) -> None:
        """A loop again. If it saves, it also counts its iterations, and `("trips", op)` is their number."""
        known = op.kind == "for" and op.attr is None
        count = saving and not known
        inits = [self.seen(v) for v in op.inits]
        if count:
            inits.insert(0, self.b.const(0, i32))
        bounds = [self.seen(v) for v in op.args[:3]] if op.kind == "for" else []
        new = Op(op.kind, [*bounds, *inits], [v.type for v in inits], op.attr, (), op.where)
        site = next(_site)
        inner = (*branches, (new, -1))
        for region in op.regions:
            made = Region()
            new.regions.append(made)
            counter = Value(i32) if count else None
            if op.kind == "for":
                made.params.append(Value(region.params[0].type, hint=region.params[0].hint))
            made.params += [counter] if counter is not None else []
            made.params += [Value(v.type, hint=v.hint) for v in region.params[1 if op.kind == "for" else 0 :]]
            plain = [v for v in made.params if v is not counter]
            for v, n in zip(region.params, plain, strict=True):
                self.note(v, n, inner)
            with self.b.inside(made):
                is_body = region is op.regions[-1]
                if saving and is_body and not self.slots:
                    self.b.emit("push", plain[1 if op.kind == "for" else 0 :], (), site)
                self.replay(region.ops, inner, saving=False)
                made.yields = [self.seen(y) for y in region.yields]
                if counter is not None and is_body:
                    made.yields.insert(0, self.b.call("add", counter, self.b.const(1, i32)))
        if saving:
            self.values["site", op] = site  # pyright: ignore[reportArgumentType]
        if saving and known:
            self.note(("trips", op), self.b.call("trips", *bounds, type=bounds[0].type), branches)
        self.b.region.ops.append(new)
        results = list(new.results)
        if count:
            self.note(("trips", op), results.pop(0), branches)
        for v, n in zip(op.results, results, strict=True):
            self.note(v, n, branches)

    # ---- the sweep back

    def add(self, v: Value, g: Value | None) -> None:
        """Add to a cotangent."""
        if g is None or v not in self.active:
            return
        before = self.cotangents.get(v)
        self.cotangents[v] = g if before is None else self.b.call("add", before, g)

    def cotangent(self, v: Value) -> Value:
        """A cotangent, zero if there is none."""
        g = self.cotangents.get(v)
        return self.b.const(0, v.type) if g is None else g

    def sweep(self, ops: Iterable[Op]) -> None:
        """Reverse operations, the last first."""
        for op in reversed(list(ops)):
            self.b.where = op.where
            if op.kind == "if":
                self._sweep_if(op)
            elif op.kind in ("for", "while"):
                self._sweep_loop(op)
            elif op.kind == "custom":
                self._sweep_custom(op)
            elif op.kind == "native":
                sweep_native(self, op)
            elif op.kind in ("load", "store", "atomic"):
                self._sweep_memory(op)
            elif op.kind in RULES and op.result in self.cotangents:
                g = self.cotangents[op.result]
                args, result = _Lazy(self, op.args), self.primal(op.result)
                for a, to_a in zip(op.args, RULES[op.kind](self.b, args, result, g), strict=True):  # pyright: ignore
                    self.add(a, to_a)

    def _sweep_memory(self, op: Op) -> None:
        if op.attr.array not in self.wrt or not self.program.scalar(op.attr).is_float:
            return
        place = Access(op.attr.array, op.attr.leaf)
        n = self.program.arrays[place.array].type.ndim  # pyright: ignore[reportAttributeAccessIssue]
        if op.kind == "load":
            if op.result in self.cotangents:
                index = [self.primal(v) for v in op.args]
                self.b.emit("grad_add", [*index, self.cotangents[op.result]], (), place)
            return
        index = [self.primal(v) for v in op.args[:n]]
        if op.kind == "atomic" and op.attr.how not in ("add", "sub"):
            _refuse_atomic(self.program, op)
        value = op.args[-1]
        if op.kind == "store" or value in self.active:
            g = self.b.emit("grad_load", index, (value.type,), place).result
            if op.kind == "store":
                self.b.emit("grad_store", [*index, self.b.const(0, value.type)], (), place)
            self.add(value, self.b.call("neg", g) if op.kind == "atomic" and op.attr.how == "sub" else g)

    def _touches(self, regions: Iterable[Region]) -> bool:
        """Whether there is anything to reverse in regions."""
        for region in regions:
            for op in walk(region):
                if op.kind in ("store", "atomic") and op.attr.array in self.wrt:
                    return True
                if any(v in self.active for v in op.results):
                    return True
        return False

    def outer(self, regions: Iterable[Region]) -> list[Value]:
        """The values with a cotangent that regions use and do not make."""
        return [v for v in free_values(regions) if v in self.active]

    def _sweep_if(self, op: Op) -> None:
        if not self._touches(op.regions) and not any(v in self.active for v in op.results):
            return
        outer = self.outer(op.regions)
        before = self.cotangents

        def branch(region: Region) -> list[Value]:
            self.cotangents = dict(before)
            for v, y in zip(op.results, region.yields, strict=True):
                self.add(y, before.get(v))
            self.sweep(region.ops)
            return [self.cotangent(v) for v in outer]

        condition = self.primal(op.args[0])
        found = self.b.branch(condition, lambda: branch(op.regions[0]), lambda: branch(op.regions[1]))
        self.cotangents = before
        before.update(zip(outer, found, strict=True))

    def _sweep_custom(self, op: Op) -> None:
        if not any(v in self.cotangents for v in op.results):
            return
        adjoint = op.regions[1]
        given = [self.primal(a) for a in op.args] + [self.cotangent(v) for v in op.results]
        values = dict(zip(adjoint.params, given, strict=True))
        self.b.region.ops += [copied_op(o, values) for o in adjoint.ops]
        floats = [a for a in op.args if a.type.is_float]
        for a, y in zip(floats, adjoint.yields, strict=True):
            self.add(a, values.get(y, y))

    def _sweep_loop(self, op: Op) -> None:
        body = op.regions[-1]
        if not self._touches([body]) and not any(v in self.active for v in op.results):
            return
        outer = self.outer([body])
        kept = [k for k, v in enumerate(op.carried) if v in self.active]
        firsts = [self.cotangent(op.results[k]) for k in kept] + [self.cotangent(v) for v in outer]
        trips = self.primal(("trips", op))
        found = (reversed_with_slots if self.slots else STACK)(self, op, trips, kept, outer, firsts)
        for v, g in zip(outer, found[len(kept) :], strict=True):
            self.cotangents[v] = g
        for k, g in zip(kept, found, strict=False):
            self.add(op.inits[k], g)

    def iteration(
        self, op: Op, index: Value | None, carried: list[Value], kept: list[int], outer: list[Value], given: list[Value]
    ) -> list[Value]:
        """The reverse of one iteration.

        Args:
            op: the loop.
            index: its index, of a for.
            carried: what the loop carried when the iteration began.
            kept: which of the carried have cotangents.
            outer: the values from outside of the loop that have cotangents.
            given: the cotangents of what the iteration yields, then those of `outer`.

        Returns:
            the cotangents of what the iteration began with, then those of `outer`.
        """
        body = op.regions[-1]
        with self.another_frame():
            self.enter(op, index, carried)
            self.replay(body.ops, (), saving=True)
            self.cotangents = dict(zip(outer, given[len(kept) :], strict=True))
            for k, g in zip(kept, given, strict=False):
                self.add(body.yields[k], g)
            self.sweep(body.ops)
            return [self.cotangent(op.carried[k]) for k in kept] + [self.cotangent(v) for v in outer]

    @contextmanager
    def another_frame(self) -> Iterator[None]:
        """Within, values are replayed for another iteration."""
        before = self.frame, self.values, self.cotangents
        self.frame, self.values = next(self._frames), dict(self.values)
        try:
            yield
        finally:
            self.frame, self.values, self.cotangents = before

    def enter(self, op: Op, index: Value | None, carried: list[Value]) -> None:
        """Let a loop's parameters be what an iteration began with."""
        body = op.regions[-1]
        if index is not None:
            self.note(body.params[0], index, ())
        for v, n in zip(op.carried, carried, strict=True):
            self.note(v, n, ())

    def index_of(self, op: Op, iteration: Value) -> Value | None:
        """The index of a for in an iteration, counted from zero."""
        if op.kind != "for":
            return None
        lower, step = self.primal(op.args[0]), self.primal(op.args[2])
        return self.b.call("add", lower, self.b.call("mul", self.b.convert(iteration, lower.type), step))


class _Lazy:
    """A loop's or an operation's arguments in the sweep, each handed out of its branch when it is asked for."""

    def __init__(self, reverse: Reverse, args: list[Value]):
        self.reverse, self.args = reverse, args

    def __getitem__(self, k: int) -> Value:
        return self.reverse.primal(self.args[k])

    def __len__(self) -> int:
        return len(self.args)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))


def _handed_out(op: Op, side: int, v: Value) -> Value:
    """A value from within a branch, as a further result of the if; in the other branch it is zero."""
    if side < 0:
        raise AssertionError("a value from within a loop is asked for outside of it")
    op.regions[side].yields.append(v)
    b = Builder(op.regions[1 - side])
    op.regions[1 - side].yields.append(b.const(0, v.type))
    result = Value(v.type, op, v.hint)
    op.results.append(result)
    return result


def reversed_with_stack(
    reverse: Reverse, op: Op, trips: Value, kept: list[int], outer: list[Value], firsts: list[Value]
) -> list[Value]:
    """The loop backwards, with what it carried taken from the stack."""
    b = reverse.b
    k, one = Value(trips.type), b.const(1, trips.type)
    region = Region([k, *(Value(g.type) for g in firsts)])
    with b.inside(region):
        popped = b.emit("pop", (), [v.type for v in op.carried], reverse.values["site", op])
        iteration = b.call("sub", b.call("sub", trips, one), k)
        index = reverse.index_of(op, iteration)
        region.yields = reverse.iteration(op, index, popped.results, kept, outer, region.params[1:])
    zero = b.const(0, trips.type)
    return b.emit("for", [zero, trips, one, *firsts], [g.type for g in firsts], None, (region,)).results


STACK = reversed_with_stack


def _refuse_atomic(program: Program, op: Op) -> None:
    problems = Problems(f"{program.name}.adjoint")
    text = (
        f"atomic_{op.attr.how} has no derivative: the order of threads is not known in the backward pass: use "
        "atomic_add, or leave the array out of the gradients"
    )
    problems.add(Problem(op.where, text))
    problems.check()


def _check_hazards(program: Program, made: Program, wrt: frozenset[str]) -> None:
    """Refuse an adjoint that would read what the forward program has overwritten.

    Raises:
        KernelError: it would; the message shows both places.
    """
    problems = Problems(made.name.removesuffix("_adj") + ".adjoint")
    stores: dict[str, Op] = {}
    for op in walk(program.body):
        if op.kind in ("store", "atomic"):
            stores.setdefault(op.attr.array, op)
    for op in walk(made.body):
        if op.kind == "load" and op.attr.array in stores:
            other = stores[op.attr.array].where
            line = f" (line {other.line})" if other else ""
            text = (
                f"'{op.attr.array}' is read here and overwritten in the same kernel{line}, but the backward pass needs "
                "the old value: write into another array"
            )
            problems.add(Problem(op.where, text))
        elif op.kind == "lost":
            text = (
                f"the result of atomic_{op.attr.how} is needed by the backward pass, where the order of threads is not "
                "known: do not use it, or wrap it in gk.stop_gradient and write it into an array for a second kernel"
            )
            problems.add(Problem(op.where, text))
    problems.check()
