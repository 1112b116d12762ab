"""A user's function: read once, compiled for each set of types it meets."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from geomkit.lang.diagnostics import KernelError, Problem, Problems, Source
from geomkit.lang.types import Array, Type, type_of

__all__ = ["Function", "func"]


class Function:
    """The text of a function and the types of its parameters.

    Attributes:
        source: its text.
        names: of its parameters.
        types: of those that have an annotation.
        defaults: of the last parameters.
        adjoint_function: its adjoint if the user wrote one.
    """

    def __init__(self, function: Callable, *, kernel: bool):
        self.source = Source(function)
        self.adjoint_function: Function | None = None
        problems = Problems(self.source.name)
        self._refuse_forms(problems)
        arguments = self.source.tree.args
        given = [*arguments.posonlyargs, *arguments.args]
        self.names = tuple(a.arg for a in given)
        self.defaults: tuple[Any, ...] = tuple(function.__defaults__ or ())  # pyright: ignore
        self.types: dict[str, Type] = {}
        hints = self._hints(problems)
        for a in given:
            if a.arg in hints:
                try:
                    self.types[a.arg] = type_of(hints[a.arg])
                except TypeError as error:
                    problems.add(Problem(self.source.at(a.annotation or a), str(error)))
            elif kernel:
                text = f"'{a.arg}' has no type: write {a.arg}: gk.f32, or {a.arg}: gk.array(gk.f32)"
                problems.add(Problem(self.source.at(a), text))
        if kernel and self.defaults:
            node = arguments.defaults[0]
            problems.add(Problem(self.source.at(node), "a kernel's parameters have no defaults: pass the value"))
        problems.check()

    def _refuse_forms(self, problems: Problems) -> None:
        tree, at = self.source.tree, self.source.at
        arguments = tree.args
        for a in (arguments.vararg, arguments.kwarg):
            if a is not None:
                problems.add(Problem(at(a), "kernels and their functions have a fixed number of parameters: name them"))
        for a in arguments.kwonlyargs:
            problems.add(Problem(at(a), "kernels and their functions have no keyword-only parameters: remove the *"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Yield | ast.YieldFrom):
                problems.add(Problem(at(node), "kernels do not know yield: write into an array"))

    def _hints(self, problems: Problems) -> dict[str, Any]:
        function: Any = self.source.function
        try:
            return inspect.get_annotations(function, eval_str=True)
        except Exception:
            raw = inspect.get_annotations(function)
        found = {}
        for a in (*self.source.tree.args.posonlyargs, *self.source.tree.args.args):
            text = raw.get(a.arg)
            if not isinstance(text, str):
                if text is not None:
                    found[a.arg] = text
                continue
            try:
                cells = {n: self.source.lookup(n) for n in function.__code__.co_freevars}
                found[a.arg] = eval(text, function.__globals__, cells)
            except Exception as error:
                problems.add(Problem(self.source.at(a.annotation or a), f"the annotation cannot be read: {error}"))
        return found

    @property
    def generic(self) -> list[str]:
        """The parameters whose type is known only at the call."""
        return [n for n in self.names if isinstance(t := self.types.get(n), Array) and t.element is None]


class func:
    """Make a function one that kernels can call; it is compiled into them.

    Its parameters need no types: without them it takes whatever the call gives.

    Args:
        function: of numbers, vectors, structures, arrays; it returns one of these, or several.

    Raises:
        KernelError: it has parameters of a kind that kernels do not know.

    Example:
        >>> import geomkit as gk
        >>> @gk.func
        ... def square(x):
        ...     return x * x
        >>> square(3.0)
        9.0
    """

    def __init__(self, function: Callable):
        self.__gk_function__ = Function(function, kernel=False)
        self.__doc__, self.__name__, self.__wrapped__ = function.__doc__, function.__name__, function
        self.__module__ = function.__module__

    def __call__(self, *values: Any, **named: Any) -> Any:
        """The function as Python runs it."""
        return self.__wrapped__(*values, **named)

    def adjoint(self, function: Callable) -> Callable:
        """Declare the function's adjoint, used instead of what the compiler would derive.

        Args:
            function: takes the arguments, then the cotangent of each result; returns the cotangents of the float
                arguments, in their order.

        Returns:
            the function given.

        Raises:
            KernelError: it has parameters of a kind that kernels do not know.
        """
        if self.__gk_function__.adjoint_function is not None:
            raise KernelError(f"{self.__name__}: has an adjoint already")
        self.__gk_function__.adjoint_function = Function(function, kernel=False)
        return function

    def __repr__(self) -> str:
        return f"<gk.func {self.__name__}>"
