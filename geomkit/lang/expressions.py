"""The front end: expressions."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from geomkit.lang.ir import Access, Region, Value, leaves_of
from geomkit.lang.operands import (
    POISON,
    Compound,
    NumpyConstant,
    Static,
    Undefined,
    View,
    arithmetic,
    captured,
    field_of,
    is_literal,
    leaf_values,
    named,
    rebuilt,
    same,
    shape_of,
)  # fmt: skip
from geomkit.lang.scope import Poisoned, Scope
from geomkit.lang.struct import Struct
from geomkit.lang.types import Composite, Mat, Quat, Scalar, Type, Vec, boolean, i32

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


class Expressions(Scope):
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
        try:
            found = self.frame.source.lookup(e.id)
        except KeyError:
            self.fail(e, f"the name '{e.id}' is not defined here, nor in the module when the kernel is defined")
        return self._captured(found, e)

    def _captured(self, found: Any, e: ast.expr) -> Any:
        constant = captured(found)
        is_type = isinstance(found, type | Type)
        if isinstance(constant, Static) and not is_type and hasattr(found, "dtype") and hasattr(found, "shape"):
            self.fail(e, f"'{ast.unparse(e)}' is an array from outside of the kernel: make it a parameter")
        return constant

    def on_tuple(self, e: ast.Tuple) -> Any:
        return tuple(self.expression(x) for x in e.elts)

    def on_list(self, e: ast.List) -> Any:
        return tuple(self.expression(x) for x in e.elts)

    def on_attribute(self, e: ast.Attribute) -> Any:
        x = self.raw(e.value)
        if isinstance(x, Undefined):
            self.fail(e.value, x.reason)
        if isinstance(x, View):
            if x.ndim or e.attr in ("shape", "ndim", "size"):
                return self._array_attribute(x, e)
            return self._component(x, e)
        x = self.operand(x, e.value)
        if isinstance(x, Compound):
            return self._component(x, e)
        if isinstance(x, Static):
            o = x.object
            if isinstance(o, ModuleType | type) or o is math:
                try:
                    return self._captured(getattr(o, e.attr), e)
                except AttributeError:
                    self.fail(e, f"'{ast.unparse(e.value)}' has no '{e.attr}'")
        self.fail(e, f"{named(x)} has no '{e.attr}'")

    def _array_attribute(self, x: View, e: ast.Attribute) -> Any:
        free = [k for k, i in enumerate(x.chosen) if i is None]
        if e.attr == "shape":
            return tuple(self.b.emit("extent", (), (i32,), (x.name, k)).result for k in free)
        if e.attr == "ndim":
            return len(free)
        if e.attr == "size":
            total: Any = 1
            for k in free:
                extent = self.b.emit("extent", (), (i32,), (x.name, k)).result
                total = extent if total == 1 else self.b.call("mul", total, extent)
            return total
        self.fail(e, f"{named(x)} has no '{e.attr}': it has shape, ndim and size")

    def _component(self, x: Compound | View, e: ast.Attribute) -> Any:
        t = x.type if isinstance(x, Compound) else x.array.element
        if isinstance(t, Struct):
            found = field_of(t, e.attr)
            if found is None:
                self.fail(e, f"{t} has no field '{e.attr}': it has {', '.join(t.fields)}")
            return self.part(x, found[0], found[1])
        if isinstance(t, Vec | Quat):
            letters = "xyzw"[: t.n]
            if e.attr and set(e.attr) <= set(letters):
                parts = [self.part(x, letters.index(c), t.scalar) for c in e.attr]
                if len(parts) == 1:
                    return parts[0]
                if len(parts) <= 4:
                    return Compound(Vec(len(parts), t.scalar), tuple(parts))
            self.fail(e, f"{t} has no '{e.attr}': it has {', '.join(letters)}")
        if isinstance(t, Mat) and e.attr == "T":
            whole = self.load(x) if isinstance(x, View) else x
            order = [j * t.n + i for i in range(t.n) for j in range(t.n)]
            return Compound(t, tuple(whole.values[k] for k in order))
        self.fail(e, f"{named(x)} has no '{e.attr}'")

    def part(self, x: Compound | View, start: int, t: Scalar | Composite) -> Any:
        """The scalars from `start` on of a compound, or of an array's element, as one of a type."""
        if isinstance(t, Scalar):
            return x.values[start] if isinstance(x, Compound) else self._load_leaf(x, start)
        leaves = range(start, start + len(t.leaves))
        return Compound(t, tuple(x.values[k] if isinstance(x, Compound) else self._load_leaf(x, k) for k in leaves))

    def load(self, view: View) -> Any:
        element = view.array.element
        assert element is not None
        values = [self._load_leaf(view, k) for k in range(len(leaves_of(element)))]
        return values[0] if isinstance(element, Scalar) else Compound(element, tuple(values))

    def _load_leaf(self, view: View, leaf: int) -> Value:
        scalar = arithmetic(leaves_of(view.array.element)[leaf][0])
        return self.b.emit("load", [i for i in view.chosen if i], (scalar,), Access(view.name, leaf)).result

    # ---- subscripts

    def on_subscript(self, e: ast.Subscript) -> Any:
        x = self.raw(e.value)
        if isinstance(x, View) and x.ndim:
            return self.chosen(x, e)
        x = self.operand(x, e.value)
        if isinstance(x, Compound):
            return self._indexed(x, e)
        if type(x) is tuple:
            index = self._tuple_index(e.slice, len(x))
            return x[index]
        if isinstance(x, Static) and isinstance(x.object, Vec | Mat | Quat):
            return Static(x.object[self.static(self.raw(e.slice))])
        self.fail(e, f"{named(x)} cannot be indexed")

    def _tuple_index(self, s: ast.expr, n: int) -> Any:
        if isinstance(s, ast.Slice):
            bounds = [None if p is None else self.raw(p) for p in (s.lower, s.upper, s.step)]
            if all(b is None or type(b) is int for b in bounds):
                return slice(*bounds)
            self.fail(s, "a tuple is sliced by constant integers")
        i = self.expression(s)
        if type(i) is not int:
            self.fail(s, f"a tuple is indexed by a constant integer, not by {named(i)}: use a vector or an array")
        if not -n <= i < n:
            self.fail(s, f"index {i} is out of range of a tuple of {n}")
        return i

    def chosen(self, x: View, e: ast.Subscript) -> View:
        """A part of an array."""
        parts = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        free = [k for k, i in enumerate(x.chosen) if i is None]
        if len(parts) > len(free):
            self.fail(e, f"{len(parts)} indices of {named(x)}, which has {len(free)}")
        chosen = list(x.chosen)
        for k, part in zip(free, parts, strict=False):
            if isinstance(part, ast.Slice):
                if part.lower or part.upper or part.step:
                    self.fail(part, "only a whole axis can be sliced (:): pass the slice of the array to the kernel")
                continue
            chosen[k] = self.index(part)
        return View(x.name, x.array, tuple(chosen))

    def index(self, e: ast.expr) -> Value:
        """An index of an array."""
        i = self.expression(e)
        if is_literal(i) and not isinstance(i, bool) and i < 0:
            self.fail(e, f"index {i} is negative, which does not count from the end here: write len(...) - {-i}")
        if type(i) is tuple:
            self.fail(e, "an index is an integer: gk.tid() of several dimensions is unpacked, i, j = gk.tid()")
        v = self.value(i, e, "an integer as index")
        if not v.type.is_integer:
            self.fail(e, f"an index is an integer, not {v.type}: write int(...)")
        return v

    def _indexed(self, x: Compound, e: ast.Subscript) -> Any:
        t = x.type
        if isinstance(t, Struct):
            self.fail(e, f"{t} has fields, not indices: write .{next(iter(t.fields))}")
        parts = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        if isinstance(t, Mat):
            if len(parts) == 2:
                return self._at(x, [self._component_index(p, t.n) for p in parts], t.n)
            if len(parts) == 1:
                i = self._component_index(parts[0], t.n)
                row = tuple(self._at(x, [i, j], t.n) for j in range(t.n))
                return Compound(Vec(t.n, t.scalar), row)
        elif len(parts) == 1:
            return self._at(x, [self._component_index(parts[0], len(x.values))], len(x.values))
        self.fail(e, f"{len(parts)} indices of {t}")

    def _component_index(self, e: ast.expr, n: int) -> Any:
        i = self.expression(e)
        if type(i) is int:
            if not -n <= i < n:
                self.fail(e, f"index {i} is out of range of {n}")
            return i % n
        return self.index(e) if not isinstance(i, Value) else self._integer(i, e)

    def _integer(self, i: Value, e: ast.expr) -> Value:
        if not i.type.is_integer:
            self.fail(e, f"an index is an integer, not {i.type}: write int(...)")
        return i

    def _at(self, x: Compound, index: Sequence[Any], n: int) -> Value:
        """A component; of an index that is not constant, by comparisons."""
        if all(type(i) is int for i in index):
            return x.values[index[0] * n + index[1] if len(index) == 2 else index[0]]
        choices = x.values
        if len(index) == 2:
            rows = [[x.values[i * n + j] for i in range(n)] for j in range(n)]
            choices = tuple(self._choose(row, index[0]) for row in rows)
        return self._choose(choices, index[-1])

    def _choose(self, choices: Sequence[Value], i: Any) -> Value:
        if type(i) is int:
            return choices[i]
        out = choices[-1]
        for k in range(len(choices) - 2, -1, -1):
            is_k = self.b.compare("eq", i, self.b.const(k, i.type))
            out = self.b.call("select", is_k, choices[k], out, type=out.type)
        return out

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
        harmless = ("const", "tid", "extent", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "convert", "isnan")
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
