"""Which function sends which gradient where, as a table: `python -m geomkit.autodiff.reference` prints it."""

from __future__ import annotations

from collections.abc import Iterable

from geomkit.autodiff.primitive import Primitive, primitives

__all__ = ["table"]

HEAD = ("function", "gradients reach", "through", "outputs that carry none")


def table() -> str:
    """The primitives in Markdown, by name: a row each."""
    rows = [HEAD, ("---",) * len(HEAD), *(_row(op) for _, op in sorted(primitives().items()))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(op: Primitive) -> tuple[str, ...]:
    reach = _names("mesh.vertices" if name == "vertices" else name for name in op.differentiable)
    return f"`gk.{op.__name__}`", reach or f"none: {op.reason}", _names(op.outputs), _names(op.discrete)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(table())
