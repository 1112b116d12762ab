"""The front end: expressions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from geomkit.lang.ir import Region, Value
from geomkit.lang.operands import (
    POISON,
    Compound,
    NumpyConstant,
    Static,
    View,
    captured,
    is_literal,
    leaf_values,
    named,
    rebuilt,
    same,
    shape_of,
)  # fmt: skip
from geomkit.lang.parts import Parts
from geomkit.lang.scope import Poisoned
from geomkit.lang.struct import Struct
from geomkit.lang.types import Type, Vec, boolean

__all__ = ["Expressions"]

_BINARY: dict[type, tuple[str, str, Callable]] = {
    ast.Add: ("add", "+", operator.add),
    ast.Sub: ("sub", "-", operator.sub),
    ast.Mult: ("mul", "*", operator.mul),
    ast.Div: ("div", "/", operator.truediv),
    ast.FloorDiv: ("floordiv", "//", operator.floordiv),
    ast.Mod: ("mod", "%", operator.mod),
    ast.Pow: ("pow", "**", operator.pow),
    ast.MatMult: ("matmul", "@", operator.matmul),
    ast.BitAnd: ("bitand", "&", operator.and_),
    ast.BitOr: ("bitor", "|", operator.or_),
    ast.BitXor: ("bitxor", "^", operator.xor),
    ast.LShift: ("shl", "<<", operator.lshift),
    ast.RShift: ("shr", ">>", operator.rshift),
}
_COMPARE: dict[type, tuple[str, str, Callable]] = {
    ast.Lt: ("lt", "<", operator.lt),
    ast.LtE: ("le", "<=", operator.le),
    ast.Gt: ("gt", ">", operator.gt),
    ast.GtE: ("ge", ">=", operator.ge),
    ast.Eq: ("eq", "==", operator.eq),
    ast.NotEq: ("ne", "!=", operator.ne),
}
_INSTEAD: dict[type, str] = {
    ast.Lambda: "a lambda: write a @gk.func",
    ast.Dict: "a dict: use a @gk.struct",
    ast.Set: "a set: use a tuple",
    ast.DictComp: "a dict: use a @gk.struct",
    ast.SetComp: "a set: use a tuple",
    ast.GeneratorExp: "a generator: write a list, [... for ... in ...]",
    ast.JoinedStr: "a formatted string: print takes values beside strings, print('x', x)",
    ast.Await: "await",
    ast.Yield: "yield: write into an array",
    ast.NamedExpr: "an assignment inside of an expression: write it on a line of its own",
    ast.Starred: "a starred expression: name the elements",
}


class Expressions(Parts):
    """Expressions to operands."""

    def expression(self, e: ast.expr) -> Any:
        """The operand that an expression stands for, with a value."""
        return self.operand(self.raw(e), e)

    def scalar(self, e: ast.expr, what: str = "a number") -> Value:
        return self.value(self.expression(e), e, what)

    def raw(self, e: ast.expr) -> Any:
        """The operand, an array's element not loaded yet."""
        method = getattr(self, f"on_{type(e).__name__.lower()}", None)
        if method is None:
            what = _INSTEAD.get(type(e), f"{type(e).__name__}")
            self.fail(e, f"kernels do not know {what}")
        self.b.where = self.frame.source.at(e)
        return method(e)

    def on_constant(self, e: ast.Constant) -> Any:
        if isinstance(e.value, complex):
            self.fail(e, "kernels know no complex numbers: use gk.vec2")
        return e.value if is_literal(e.value) else Static(e.value)

    def on_name(self, e: ast.Name) -> Any:
        if e.id in self.names:
            found = self.names[e.id]
            if found is POISON:
                raise Poisoned
            return found
        if e.id in self.frame.source.function.__code__.co_varnames:
            where = self.frame.source.name
            text = f"'{e.id}' is assigned in {where} and has no value before: give it one, such as {e.id} = 0.0"
            self.fail(e, f"{text} (what is outside of a kernel cannot be changed)")
        try:
            found = self.frame.source.lookup(e.id)
        except KeyError:
            self.fail(e, f"the name '{e.id}' is not defined here, nor in the module when the kernel is defined")
        return self._captured(found, e)

    def _captured(self, found: Any, e: ast.expr) -> Any:
        constant = captured(found)
        is_type = isinstance(found, type | Type | ModuleType)
        if isinstance(constant, Static) and not is_type and hasattr(found, "dtype") and hasattr(found, "shape"):
            self.fail(e, f"'{ast.unparse(e)}' is an array from outside of the kernel: make it a parameter")
        return constant

    def on_tuple(self, e: ast.Tuple) -> Any:
        return tuple(self.expression(x) for x in e.elts)

    def on_list(self, e: ast.List) -> Any:
        return tuple(self.expression(x) for x in e.elts)

    # ---- operators

    def on_unaryop(self, e: ast.UnaryOp) -> Any:
        x = self.expression(e.operand)
        if isinstance(e.op, ast.Not):
            c = self.condition(x, e.operand)
            return not c if isinstance(c, bool) else self.b.call("not", c)
        if is_literal(x):
            return {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}[type(e.op)](x)
        if isinstance(e.op, ast.UAdd):
            return x
        if isinstance(e.op, ast.Invert):
            v = self.value(x, e)
            if v.type is boolean:
                self.fail(e, "~ is for integers: write not")
            return self.b.call("invert", v)
        if isinstance(x, Compound) and not isinstance(x.type, Struct):
            return Compound(x.type, tuple(self.b.call("neg", v) for v in x.values))
        v = self.value(x, e)
        if v.type is boolean:
            self.fail(e, "a bool cannot be negated by -: write not")
        return self.b.call("neg", v)

    def on_binop(self, e: ast.BinOp) -> Any:
        return self.binary(self.expression(e.left), self.expression(e.right), e.op, e)

    def binary(self, a: Any, b: Any, op: ast.operator, e: ast.AST) -> Any:
        """The result of an operator."""
        kind, symbol, function = _BINARY[type(op)]
        if is_literal(a) and is_literal(b):
            try:
                return function(a, b)
            except (ArithmeticError, TypeError) as error:
                self.fail(e, f"{a} {symbol} {b}: {error}")
        if isinstance(a, Compound) or isinstance(b, Compound) or kind == "matmul":
            return self.compound_binary(a, b, kind, symbol, e)
        if type(a) is tuple and type(b) is tuple and kind == "add":
            return (*a, *b)
        for x in (a, b):
            if isinstance(x, View):
                self.fail(e, f"{named(x)} is a whole array: index it, such as {x.name}[i]")
        if kind == "pow":
            return self.power(a, b, e)
        return self.arithmetic(kind, symbol, a, b, e)

    def compound_binary(self, a: Any, b: Any, kind: str, symbol: str, e: ast.AST) -> Any:
        raise NotImplementedError

    def power(self, a: Any, b: Any, e: ast.AST) -> Any:
        """a ** b, by products where b is a small constant integer."""
        if type(b) is int and 0 <= b <= 8 and isinstance(a, Value):
            if a.type is boolean:
                self.fail(e, f"bool ** {b}: a bool is no number")
            if b == 0:
                return self.b.const(1, a.type)
            half = self.power(a, b // 2, e) if b > 1 else a
            out = self.b.call("mul", half, half) if b > 1 else a
            return self.b.call("mul", out, a) if b > 1 and b % 2 else out
        x, y = self.unify(a, b, e, "**")
        if not x.type.is_float:
            self.fail(e, f"{x.type} ** {named(b)}: of integers only small constant powers: write gk.f32(...) ** ...")
        return self.b.call("pow", x, y)

    def arithmetic(self, kind: str, symbol: str, a: Any, b: Any, e: ast.AST) -> Value:
        """An operator on two scalars."""
        x, y = self.unify(a, b, e, symbol)
        t = x.type
        if kind in ("bitand", "bitor", "bitxor"):
            if t.is_float:
                self.fail(e, f"{t} {symbol} {t}: only for integers and bools" + (": write **" if symbol == "^" else ""))
        elif t is boolean:
            self.fail(e, f"bool {symbol} bool: a bool is no number: write int(...)")
        elif kind in ("shl", "shr") and t.is_float:
            self.fail(e, f"{t} {symbol} {t}: only for integers")
        elif kind == "div" and not t.is_float:
            self.fail(e, f"{t} / {t}: write // for the integer below, or float(...) / float(...)")
        return self.b.call(kind, x, y)

    def on_compare(self, e: ast.Compare) -> Any:
        operands = [e.left, *e.comparators]
        left = self.expression(e.left)

        def pair(k: int, left: Any) -> Any:
            right = self.expression(operands[k + 1])
            first = self._compare(left, right, e.ops[k], e)
            if k + 1 == len(e.ops) or first is False:
                return first
            return self._both(first, lambda: pair(k + 1, right), is_and=True)

        return pair(0, left)

    def _compare(self, a: Any, b: Any, op: ast.cmpop, e: ast.AST) -> Any:
        if type(op) not in _COMPARE:
            instead = "==" if isinstance(op, ast.Is | ast.IsNot) else "x == a or x == b"
            word = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}[type(op)]
            self.fail(e, f"kernels do not know '{word}': write {instead}")
        kind, symbol, function = _COMPARE[type(op)]
        if is_literal(a) and is_literal(b):
            return function(a, b)
        if isinstance(a, Static) and isinstance(b, Static) and kind in ("eq", "ne"):
            return function(a.object, b.object)
        for x in (a, b):
            if isinstance(x, Compound):
                self.fail(e, f"{named(a)} {symbol} {named(b)}: only numbers are compared: compare the components")
            if isinstance(x, View):
                self.fail(e, f"{named(x)} is a whole array: index it, such as {x.name}[i]")
        x, y = self.unify(a, b, e, symbol)
        if x.type is boolean and kind not in ("eq", "ne"):
            self.fail(e, f"bool {symbol} bool: only == and != compare bools")
        return self.b.compare(kind, x, y)

    def on_boolop(self, e: ast.BoolOp) -> Any:
        is_and = isinstance(e.op, ast.And)

        def rest(k: int) -> Any:
            first = self.condition(self.expression(e.values[k]), e.values[k])
            if k + 1 == len(e.values):
                return first
            return self._both(first, lambda: rest(k + 1), is_and=is_and)

        return rest(0)

    def _both(self, first: Any, second: Callable[[], Any], *, is_and: bool) -> Any:
        """And, or: the second operand is computed only if the first does not decide."""
        if isinstance(first, bool):
            return second() if first == is_and else first
        region = Region()
        with self.b.inside(region):
            other = second()
        if isinstance(other, bool):
            return first if other == is_and else other
        if self._is_cheap(region):
            self._spliced(region, other)
            return self.b.call("and" if is_and else "or", first, other)
        decided = Region()
        with self.b.inside(decided):
            decided.yields = [self.b.const(not is_and, boolean)]
        region.yields = [other]
        regions = (region, decided) if is_and else (decided, region)
        return self.b.emit("if", (first,), (boolean,), regions=regions).result

    def _spliced(self, region: Region, value: Any) -> Any:
        self.b.region.ops += region.ops
        return value

    def _is_cheap(self, region: Region) -> bool:
        """Whether computing in vain does no harm: no memory is read, no gradient could become 0 times infinity."""
        harmless = ("const", "tid", "extent", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "convert",
                    "isnan")  # fmt: skip
        integer = ("add", "sub", "mul", "neg", "bitand", "bitor", "bitxor", "isfinite", "select", "sign", "min", "max")

        def allowed(op: Any) -> bool:
            return op.kind in harmless or (op.kind in integer and not op.result.type.is_float)

        return len(region.ops) <= 12 and all(map(allowed, region.ops))

    def on_ifexp(self, e: ast.IfExp) -> Any:
        c = self.condition(self.expression(e.test), e.test)
        if isinstance(c, bool):
            return self.expression(e.body if c else e.orelse)
        regions, found = (Region(), Region()), []
        for region, branch in zip(regions, (e.body, e.orelse), strict=True):
            with self.b.inside(region):
                found.append(self.expression(branch))
        if same(*found):
            return self._spliced(regions[0], found[0])
        return self.merged(c, regions, found, e, "the two results")

    def merged(self, c: Value, regions: Sequence[Region], found: list[Any], e: ast.AST, what: str) -> Any:
        """What an if gives, of what its two regions found."""
        self.settle(regions, found, e, what)
        for region, x in zip(regions, found, strict=True):
            region.yields = leaf_values(x) or []
        if all(map(self._is_cheap, regions)):
            for region in regions:
                self._spliced(region, None)
            pairs = zip(*(region.yields for region in regions), strict=True)
            values = [x if x is y else self.b.call("select", c, x, y, type=x.type) for x, y in pairs]
        else:
            types = [v.type for v in regions[0].yields]
            values = self.b.emit("if", (c,), types, regions=regions).results
        return rebuilt(found[0], list(values))

    def settle(self, regions: Sequence[Region], found: list[Any], e: ast.AST, what: str) -> None:
        """Give two operands the same scalars: numbers of Python's take the type of the other."""
        a, b = found
        if shape_of(a) is None or shape_of(a) != shape_of(b):
            self.fail(e, f"{what} are {named(a)} and {named(b)}: they must have one type")
        leaves = [list(leaf_values(a) or []), list(leaf_values(b) or [])]
        for k, (x, y) in enumerate(zip(*leaves, strict=True)):
            if is_literal(x) and is_literal(y):
                kinds = {type(x), type(y)}
                t = self.precision if float in kinds and bool not in kinds else self.default(x)
            else:
                t = x.type if isinstance(x, Value) else y.type
            if isinstance(x, Value) and isinstance(y, Value) and x.type is not y.type:
                self.fail(e, f"{what} are {x.type} and {y.type}: they must have one type")
            for side, z in enumerate((x, y)):
                if is_literal(z):
                    with self.b.inside(regions[side]):
                        leaves[side][k] = self.literal(z, t, e)
        found[0], found[1] = rebuilt(a, leaves[0]), rebuilt(b, leaves[1])

    def on_listcomp(self, e: ast.ListComp) -> Any:
        out: list[Any] = []
        hidden = dict(self.names)

        def level(k: int) -> None:
            if k == len(e.generators):
                out.append(self.expression(e.elt))
                return
            g = e.generators[k]
            for item in self.items(g.iter):
                self.bind(g.target, item)
                tests = [self.condition(self.expression(test), test) for test in g.ifs]
                if not all(isinstance(t, bool) for t in tests):
                    self.fail(g.ifs[0], "a list has a constant length: its conditions must be constant")
                if all(tests):
                    level(k + 1)

        level(0)
        self.frame.names = hidden
        return tuple(out)

    def items(self, e: ast.expr) -> Sequence[Any]:
        """What a list is made of: a constant range, or a tuple."""
        if isinstance(e, ast.Call) and self.static(self.raw(e.func)) is range:
            bounds = [self.expression(a) for a in e.args]
            if not all(type(b) is int for b in bounds):
                self.fail(e, "a list has a constant length: its range must be constant")
            return range(*bounds)
        x = self.expression(e)
        if isinstance(x, Compound) and isinstance(x.type, Vec):
            return x.values
        if type(x) is not tuple:
            self.fail(e, f"a list is made of a constant range or a tuple, not of {named(x)}")
        return x

    def bind(self, target: ast.expr, x: Any) -> None:
        raise NotImplementedError


def constant_of(x: Any) -> bool:
    """Whether an operand is known when the kernel is compiled."""
    return is_literal(x) or isinstance(x, NumpyConstant | Static)
