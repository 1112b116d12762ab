"""From what the user wrote to what is emitted: functions with adjoints of their own in place, checks kept or not."""

from __future__ import annotations

from geomkit.lang.ir import Program, Region, Value, copied
from geomkit.lang.passes.access import plain_updates
from geomkit.lang.passes.dead import eliminate
from geomkit.lang.passes.simplify import simplify

__all__ = ["cleaned", "lowered"]


def cleaned(program: Program) -> Program:
    """A program made anew, simplified."""
    made = program.with_body(copied(program.body, {v: v for p in program.parameters for v in p.values}))
    for _ in range(2):
        simplify(made)
        eliminate(made)
    return made


def lowered(program: Program, *, debug: bool = False) -> Program:
    """The program that is emitted or interpreted.

    Args:
        debug: keep assertions and prints.
    """
    made = program.with_body(copied(program.body, {v: v for p in program.parameters for v in p.values}))
    _without_custom(made.body, {})
    if not debug:
        _without_checks(made.body)
    plain_updates(made)
    return cleaned(made)


def _without_checks(region: Region) -> None:
    region.ops = [op for op in region.ops if op.kind not in ("assert", "print")]
    for op in region.ops:
        for inner in op.regions:
            _without_checks(inner)


def _without_custom(region: Region, instead: dict[Value, Value]) -> None:
    """Put the forward region of a function with an adjoint of its own in place of its call."""
    out = []
    for op in region.ops:
        op.args = [instead.get(v, v) for v in op.args]
        if op.kind != "custom":
            for inner in op.regions:
                _without_custom(inner, instead)
            out.append(op)
            continue
        forward = op.regions[0]
        instead.update(zip(forward.params, op.args, strict=True))
        _without_custom(forward, instead)
        out += forward.ops
        instead.update(zip(op.results, forward.yields, strict=True))
    region.ops = out
    region.yields = [instead.get(v, v) for v in region.yields]
