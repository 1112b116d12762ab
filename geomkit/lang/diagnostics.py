"""What is wrong with a kernel, shown at the user's line with a caret."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["KernelError", "Location", "Problems", "Source"]


class KernelError(TypeError):
    """A kernel that cannot be compiled. The message shows each place, the reason and what to write instead."""


class Location(NamedTuple):
    """A place in a user's function: lines from 1, columns from 0, as in the file."""

    source: Source
    line: int
    column: int
    end: int

    def show(self, text: str = "") -> str:
        """The place as Python's tracebacks show it, and under it a text."""
        line = self.source.text_of(self.line)
        caret = " " * self.column + "^" * max(1, self.end - self.column)
        shift = len(line) - len(line.lstrip())
        head = f'  File "{self.source.file}", line {self.line}, in {self.source.name}'
        return "\n".join([head, f"    {line.strip()}", f"    {caret[shift:]}", *([text] if text else [])])


class Source:
    """The text of a user's function.

    Attributes:
        function, name, file: of Python.
        tree: its definition.
        names: what its free names stand for.
    """

    def __init__(self, function: Callable):
        self.function, self.name = function, function.__name__
        self.file = inspect.getsourcefile(function) or "?"
        try:
            lines, self.first = inspect.getsourcelines(function)
        except OSError:
            raise KernelError(
                f"{self.name}: the source text cannot be read: define kernels in a file or a notebook cell"
            ) from None
        self.lines = lines
        self.indent = len(lines[0]) - len(lines[0].lstrip())
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise KernelError(f"{self.name}: expected a function written with def")
        self.tree: ast.FunctionDef = tree

    def lookup(self, name: str) -> Any:
        """What a free name stands for now: of the enclosing functions, the module, or Python.

        Raises:
            KeyError: nothing.
        """
        code = self.function.__code__
        if name in code.co_freevars:
            cell = (self.function.__closure__ or ())[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                raise KeyError(name) from None
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        builtins = self.function.__globals__["__builtins__"]
        return (builtins if isinstance(builtins, dict) else vars(builtins))[name]

    def text_of(self, line: int) -> str:
        """A line of the file."""
        index = line - self.first
        return self.lines[index].rstrip("\n") if 0 <= index < len(self.lines) else ""

    def at(self, node: ast.AST) -> Location:
        """Where a node of the tree is."""
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        text = self.text_of(line + self.first - 1)
        # The tree counts bytes of the dedented text.
        before = text[self.indent :].encode()
        one_line = getattr(node, "end_lineno", line) == line
        end = getattr(node, "end_col_offset", len(before)) if one_line else len(before)
        start = self.indent + len(before[:column].decode(errors="replace"))
        stop = self.indent + len(before[:end].decode(errors="replace"))
        return Location(self, line + self.first - 1, start, stop)


class Problem(Exception):
    """One thing wrong with a kernel, found while a statement was read."""

    def __init__(self, where: Location | None, text: str):
        super().__init__(text)
        self.where, self.text = where, text


class Problems:
    """All that is wrong with a kernel, told at once."""

    LIMIT = 10

    def __init__(self, name: str):
        self.name, self.found = name, []

    def add(self, problem: Problem) -> None:
        """Remember one, once."""
        shown = problem.where.show(problem.text) if problem.where else problem.text
        if shown not in self.found:
            self.found.append(shown)

    def check(self) -> None:
        """Raise a KernelError if there are any."""
        if not self.found:
            return
        shown = self.found[: self.LIMIT]
        rest = len(self.found) - len(shown)
        count = "" if len(self.found) == 1 else f" ({len(self.found)} problems)"
        more = [f"and {rest} more"] if rest else []
        raise KernelError("\n".join([f"{self.name}: cannot be compiled{count}", *shown, *more]))
