"""The adjoint of calls of native functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geomkit.lang.diagnostics import Problem, Problems
from geomkit.lang.ir import Op
from geomkit.lang.native import NATIVES

if TYPE_CHECKING:
    from geomkit.lang.adjoint import Reverse

__all__ = ["sweep_native"]


def sweep_native(reverse: Reverse, op: Op) -> None:
    """Send the cotangents of a call's results to its arguments, and to its handle if that has gradients.

    Raises:
        KernelError: a cotangent is of a result that carries none.
    """
    native = NATIVES[op.attr.function]
    for name, other in native.instead.items():
        if any(op.results[k] in reverse.cotangents for k in native.places(name)):
            problems = Problems(f"{reverse.program.name}.adjoint")
            text = f"'{name}' of gk.{op.attr.function} carries no gradient: use .{other}, or gk.stop_gradient(...)"
            problems.add(Problem(op.where, text))
            problems.check()
    sends = [op.results[k] for k in native.places(*native.sends)]
    if not any(v in reverse.cotangents for v in sends):
        return
    args = [reverse.primal(v) for v in (*op.args, *op.results)] + [reverse.cotangent(v) for v in sends]
    kind = "native_grad" if op.attr.handle in reverse.wrt else "native_adj"
    slopes = [op.args[k] for k in native.slopes]
    made = reverse.b.emit(kind, args, [v.type for v in slopes], op.attr)
    for v, g in zip(slopes, made.results, strict=True):
        reverse.add(v, g)
