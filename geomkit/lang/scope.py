"""Where the front end is: the function being read, its names, and the conversions between operands."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from geomkit.lang.diagnostics import Problem, Problems, Source
from geomkit.lang.ir import Builder, Parameter, Value
from geomkit.lang.operands import (
    POISON,
    Compound,
    HandleOf,
    NumpyConstant,
    Static,
    Undefined,
    View,
    arithmetic,
    is_literal,
    named,
)
from geomkit.lang.types import Composite, Scalar, Type, boolean, f32, f64, i32

__all__ = ["Frame", "Poisoned", "Scope"]


class Poisoned(Exception):
    """An operand is missing because of an error that has been reported already."""


class Frame:
    """A function being read: the kernel, or one that is inlined.

    Attributes:
        names: operands by name; names with a dollar sign are the front end's own.
        loops: how many loops are around the statement.
    """

    def __init__(self, source: Source, kernel: bool):
        self.source, self.kernel = source, kernel
        self.names: dict[str, Any] = {"$live": True, "$stop": False, "$returned": False}
        self.loops = 0


class Scope:
    """State of the front end, and what every part of it needs."""

    def __init__(self, problems: Problems, precision: Scalar):
        self.b, self.problems, self.precision = Builder(), problems, precision
        self.frames: list[Frame] = []
        self.rank: int | None = None
        self.rank_reason = ""
        self.parameters: dict[str, Parameter] = {}
        self.literals: dict[Value, tuple[str, Any]] = {}  # loop variables that began as a number of Python's

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def names(self) -> dict[str, Any]:
        return self.frame.names

    def fail(self, node: ast.AST, text: str) -> NoReturn:
        """Give up on a statement."""
        raise Problem(self.frame.source.at(node), text)

    # ---- conversions

    def default(self, literal: Any) -> Scalar:
        """The type of a number of Python's that meets nothing."""
        return boolean if isinstance(literal, bool) else i32 if isinstance(literal, int) else self.precision

    def value(self, x: Any, node: ast.AST, what: str = "a number") -> Value:
        """An operand as a scalar value, a literal in its default type."""
        if x is POISON:
            raise Poisoned
        if isinstance(x, Value):
            return x
        if is_literal(x):
            return self.literal(x, self.default(x), node)
        if isinstance(x, NumpyConstant) and isinstance(x.type, Scalar):
            return self.b.const(x.numbers[0], arithmetic(x.type))
        if isinstance(x, Undefined):
            self.fail(node, x.reason)
        self.fail(node, f"expected {what}, got {named(x)}")

    def literal(self, x: Any, type: Scalar, node: ast.AST) -> Value:
        """A number of Python's in a type that it fits."""
        if isinstance(x, bool) != (type is boolean):
            self.fail(node, f"{x} is no {type}: write {'True or False' if type is boolean else f'{int(x)}'}")
        if isinstance(x, float) and not type.is_float:
            self.fail(node, f"the number {x} is not an integer, but {type} is needed: write int(...) or use gk.f32")
        if type.is_integer and not -(1 << type.bits - (type.kind == "i")) <= x < 1 << type.bits - (type.kind == "i"):
            self.fail(node, f"the number {x} does not fit {type}: write gk.i64({x}), or gk.u64({x})")
        if type.kind == "u" and x < 0:
            self.fail(node, f"the number {x} is negative, but {type} is not")
        return self.b.const(x, arithmetic(type))

    def operand(self, x: Any, node: ast.AST) -> Any:
        """An operand that has a value: constants made, an error for what is undefined."""
        if x is POISON:
            raise Poisoned
        if isinstance(x, Undefined):
            self.fail(node, x.reason)
        if isinstance(x, NumpyConstant):
            if isinstance(x.type, Scalar):
                return self.b.const(x.numbers[0], arithmetic(x.type))
            scalars = [arithmetic(s) for s, _ in x.type.leaves]
            return Compound(x.type, tuple(self.b.const(n, s) for n, s in zip(x.numbers, scalars, strict=True)))
        if isinstance(x, View) and not x.ndim:
            return self.load(x)
        return x

    def condition(self, x: Any, node: ast.AST) -> Any:
        """A truth value: bool of Python's or a value."""
        if isinstance(x, bool) or (isinstance(x, Value) and x.type is boolean):
            return x
        if x is POISON:
            raise Poisoned
        if isinstance(x, Value | int | float):
            self.fail(node, f"a condition is a bool, not {named(x)}: write {ast.unparse(node)} != 0")
        if isinstance(x, View):
            self.fail(node, f"a condition is a bool, not {named(x)}: compare an element")
        self.fail(node, f"a condition is a bool, not {named(x)}")

    def coerce(self, x: Any, type: Type, node: ast.AST, what: str) -> Any:
        """An operand as one of a type, with numbers of Python's converted and nothing else."""
        if isinstance(type, Scalar):
            if is_literal(x):
                return self.literal(x, type, node)
            if isinstance(x, Value):
                if x.type is arithmetic(type):
                    return x
                hint = f"write gk.{type}(...)" if type is not boolean else "compare it"
                origin = self.origin(x)
                self.fail(node, f"{what} is {type}, not {named(x)}{origin}: {hint}")
        elif isinstance(type, Composite):
            if isinstance(x, Compound) and x.type == type:
                return x
            if isinstance(x, Compound) and x.type.shape == type.shape and type.shape:
                self.fail(node, f"{what} is {type}, not {x.type}: write gk.{type}(...) to convert")
        elif isinstance(x, HandleOf):
            if isinstance(x.type, type.__class__):
                return x
        elif isinstance(x, View) and x.ndim == type.ndim and type.element in (None, x.array.element):  # pyright: ignore
            return x
        self.fail(node, f"{what} is {type}, not {named(x)}")

    def origin(self, x: Value) -> str:
        """Why a loop variable has its type, for messages."""
        if x not in self.literals:
            return ""
        name, literal = self.literals[x]
        return f" ('{name}' starts as the number {literal} before the loop)"

    def unify(self, a: Any, b: Any, node: ast.AST, symbol: str) -> tuple[Value, Value]:
        """Two scalars of one type; numbers of Python's take the type of the other."""
        a, b = self.operand(a, node), self.operand(b, node)
        if isinstance(a, Value) and is_literal(b):
            return a, self._met(b, a, node, symbol)
        if isinstance(b, Value) and is_literal(a):
            return self._met(a, b, node, symbol), b
        a, b = self.value(a, node), self.value(b, node)
        if a.type is not b.type:
            self._mixed(a, b, node, symbol)
        return a, b

    def _met(self, literal: Any, other: Value, node: ast.AST, symbol: str) -> Value:
        if isinstance(literal, float) and other.type.is_integer:
            text = f"{other.type} {symbol} {literal}: integers and fractions do not mix"
            origin = self.origin(other)
            name = self.literals[other][0] if origin else ""
            hint = "write float(...) around the integer"
            if origin:
                hint = f"write {name} = {float(self.literals[other][1])}"
            self.fail(node, f"{text}{origin}: {hint}")
        return self.literal(literal, other.type, node)

    def _mixed(self, a: Value, b: Value, node: ast.AST, symbol: str) -> NoReturn:
        for v, other in ((a, b), (b, a)):
            if v in self.literals:
                name, literal = self.literals[v]
                good = f"{float(literal)}" if other.type is self.precision else f"gk.{other.type}({literal})"
                text = f"{a.type} {symbol} {b.type}: different types do not mix{self.origin(v)}: write {name} = {good}"
                self.fail(node, text)
        kinds = {a.type.kind, b.type.kind}
        if kinds == {"f"}:
            hint = f"write gk.{f64}(...) or gk.{f32}(...) around one of them"
        elif "f" in kinds:
            floating = a.type if a.type.is_float else b.type
            hint = f"write gk.{floating}(...) around the integer"
        else:
            hint = f"write gk.{a.type}(...) or gk.{b.type}(...) around one of them"
        self.fail(node, f"{a.type} {symbol} {b.type}: different types do not mix: {hint}")

    def static(self, x: Any) -> Any:
        """The object of Python's that an operand is, or None."""
        return x.object if isinstance(x, Static) else None

    def load(self, view: View) -> Any:
        raise NotImplementedError
