"""The front end: calls of types, of the kernel language's functions, and of a user's own."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from geomkit.lang.advice import instead_of
from geomkit.lang.builtins import ALIASES, BUILTINS, Builtin
from geomkit.lang.ir import Access, Region, Value, leaves_of
from geomkit.lang.operands import Compound, Static, Undefined, View, arithmetic, is_literal, leaf_values, named, rebuilt
from geomkit.lang.queries import Queries
from geomkit.lang.struct import Struct
from geomkit.lang.types import Composite, Mat, Quat, Scalar, Vec, boolean, i32

__all__ = ["Calls"]

class Calls(Queries):
    """Calls to operands."""

    def on_call(self, e: ast.Call) -> Any:
        callee = self.raw(e.func)
        if isinstance(callee, Undefined):
            self.fail(e.func, callee.reason)
        o = self.static(callee)
        if o is None:
            self.fail(e.func, f"{named(callee)} cannot be called")
        if isinstance(o, Scalar):
            return self._conversion(e, o)
        if isinstance(o, Composite):
            return self._construction(e, o)
        if hasattr(o, "__gk_struct__"):
            return self._struct(e, o.__gk_struct__)
        if hasattr(o, "__gk_function__"):
            return self.inline(o.__gk_function__, e)
        if isinstance(o, Builtin):
            return self._builtin(e, o.name)
        try:
            alias = ALIASES.get(o)
        except TypeError:
            alias = None
        if alias is not None:
            return self._builtin(e, alias)
        if o in (float, int, bool):
            return self._conversion(e, {float: self.precision, int: i32, bool: boolean}[o])
        special: dict[Any, Callable[[ast.Call], Any]] = {len: self._len, sum: self._sum, print: self._print}
        if o in special:
            return special[o](e)
        if o is range:
            self.fail(e, "range is for loops: for i in range(n)")
        if hasattr(o, "__gk_kernel__"):
            self.fail(e, f"a kernel cannot be called within a kernel: make '{ast.unparse(e.func)}' a @gk.func")
        name = getattr(o, "__name__", str(o))
        module = getattr(o, "__module__", "") or ""
        foreign = module.partition(".")[0] in ("numpy", "scipy", "torch", "jax", "cupy", "math", "random")
        if callable(o) and not isinstance(o, type) and hasattr(o, "__code__") and not foreign:
            self.fail(e.func, f"'{name}' is a function of Python's: write @gk.func above it")
        origin = f" of {module.partition('.')[0]}" if module and module != "builtins" else ""
        self.fail(e.func, f"'{name}'{origin} is not known in kernels: {instead_of(name)}")

    # ---- types

    def to_scalar(self, x: Any, t: Scalar, e: ast.AST) -> Value:
        """An operand converted."""
        if is_literal(x):
            if t is boolean:
                return self.b.const(bool(x), t)
            x = float(x) if t.is_float else math.trunc(x) if math.isfinite(x) else x
            return self.literal(x, t, e)
        v = self.value(x, e)
        if t is boolean and v.type is not boolean:
            return self.b.compare("ne", v, self.b.const(0, v.type))
        return self.b.convert(v, arithmetic(t))

    def _conversion(self, e: ast.Call, t: Scalar) -> Value:
        (x,) = self.arguments(e, ["value"])
        return self.to_scalar(x, t, e)

    def _construction(self, e: ast.Call, t: Composite) -> Any:
        if e.keywords:
            self.fail(e, f"{t} takes no named arguments")
        given = [self.expression(a) for a in e.args]
        if len(given) == 1 and isinstance(given[0], Compound):
            if given[0].type.shape == t.shape:
                return self.converted(given[0], t, e)
        leaves: list[Any] = []
        for x in given:
            if type(x) is tuple or isinstance(x, Compound):
                leaves += leaf_values(x) or [x]
            else:
                leaves.append(x)
        if not leaves:
            leaves = [0] * len(t.leaves)
            if isinstance(t, Quat):
                leaves[3] = 1
        elif len(leaves) == 1 and isinstance(t, Vec):
            leaves *= len(t.leaves)
        if len(leaves) != len(t.leaves):
            self.fail(e, f"{t} is made of {len(t.leaves)} numbers, got {len(leaves)}")
        kind: Scalar = t.leaves[0][0]
        values = []
        for x in leaves:
            if is_literal(x) and isinstance(x, float) and kind.is_integer:
                self.fail(e, f"the number {x} is not an integer, but {t} holds {kind}")
            if isinstance(x, Value) and x.type is not arithmetic(kind):
                good = self._same_shape(t, x.type)
                self.fail(e, f"{t} is made of {kind}, not {x.type}: write gk.{kind}(...) around it{good}")
            values.append(self.to_scalar(x, kind, e))
        return Compound(t, tuple(values))

    @staticmethod
    def _same_shape(t: Composite, scalar: Scalar) -> str:
        made = t[scalar] if isinstance(t, Vec | Mat | Quat) else None
        return f", or gk.{made}(...)" if made is not None else ""

    def _struct(self, e: ast.Call, t: Struct) -> Compound:
        given = self.arguments(e, list(t.fields), 0)
        values: list[Value] = []
        for (name, kind), x in zip(t.fields.items(), given, strict=True):
            if x is None:
                scalars = [kind] if isinstance(kind, Scalar) else [s for s, _ in kind.leaves]
                values += [self.b.const(0, arithmetic(s)) for s in scalars]
            else:
                values += leaf_values(self.coerce(x, kind, e, f"{t}.{name}")) or []
        return Compound(t, tuple(values))

    # ---- memory and threads

    def call_tid(self, e: ast.Call) -> Any:
        return self.thread(1, e)

    def thread(self, rank: int, e: ast.AST) -> Any:
        """The index of the thread, in a launch of so many dimensions."""
        if self.rank not in (None, rank):
            self.fail(e, f"gk.tid() gives {rank} here and {self.rank} before ({self.rank_reason}): unpack as many")
        if rank > 3:
            self.fail(e, f"gk.tid() gives up to three indices, not {rank}")
        if self.rank is None:
            self.rank, self.rank_reason = rank, f"line {self.frame.source.at(e).line}"
        values = tuple(self.b.emit("tid", (), (i32,), k).result for k in range(rank))
        return values if rank > 1 else values[0]

    def _len(self, e: ast.Call) -> Any:
        (x,) = self.arguments(e, ["array"])
        if isinstance(x, View):
            return self.b.emit("extent", (), (i32,), (x.name, x.chosen.index(None))).result
        if isinstance(x, Compound) and isinstance(x.type, Vec):
            return len(x.values)
        if type(x) is tuple:
            return len(x)
        self.fail(e, f"{named(x)} has no length")

    def _sum(self, e: ast.Call) -> Any:
        (x,) = self.arguments(e, ["values"])
        parts = list(x.values) if isinstance(x, Compound) and isinstance(x.type, Vec) else x
        if not (isinstance(parts, list) or type(parts) is tuple) or not parts:
            self.fail(e, f"sum takes a tuple or a vector, not {named(x)}: write a loop over an array")
        out = parts[0]
        for v in parts[1:]:
            out = self.binary(out, v, ast.Add(), e)
        return out

    def _print(self, e: ast.Call) -> Any:
        pieces: list[Any] = []
        values: list[Value] = []
        for a in e.args:
            x = self.expression(a)
            if isinstance(x, Static) and isinstance(x.object, str):
                pieces.append(x.object)
                continue
            leaves = leaf_values(x)
            if leaves is None:
                self.fail(a, f"print takes numbers, vectors and strings, not {named(x)}")
            pieces.append(len(leaves))
            values += [self.value(v, a) for v in leaves]
        self.b.emit("print", values, (), tuple(pieces))
        return Static(None)

    def _atomic(self, e: ast.Call, how: str) -> Any:
        names = BUILTINS[f"atomic_{how}"].arguments
        if len(e.args) > len(names) and not e.keywords:
            # atomic_add(a, i, j, value) is atomic_add(a, (i, j), value).
            tail = len(names) - 2
            index = ast.copy_location(ast.Tuple(elts=e.args[1 : len(e.args) - tail], ctx=ast.Load()), e.args[1])
            args = [e.args[0], index, *e.args[len(e.args) - tail :]]
            e = ast.copy_location(ast.Call(func=e.func, args=args, keywords=[]), e)
        if len(e.args) != len(names) or e.keywords:
            self.fail(e, self._expected(e, names, f"{len(e.args)}"))
        target = ast.copy_location(ast.Subscript(value=e.args[0], slice=e.args[1], ctx=ast.Load()), e)
        place = self.raw(target)
        if not isinstance(place, View) or place.ndim:
            self.fail(e, f"atomic_{how} takes an array and the index of an element, not {named(place)}")
        values = [self.expression(a) for a in e.args[2:]]
        return self.atomic(place, how, values, e)

    def atomic(self, place: View, how: str, values: list[Any], e: ast.AST, *, result: bool = True) -> Any:
        """An atomic operation on an array's element, of each of its scalars."""
        element = place.array.element
        assert element is not None
        given = [leaf_values(self.coerce(v, element, e, f"an element of '{place.name}'")) or [] for v in values]
        leaves = leaves_of(element)
        out = []
        for k, (scalar, _) in enumerate(leaves):
            if scalar.size < 4 or (how == "cas" and scalar.is_float):
                instead = "i32 or i64" if how == "cas" else "f32 or i32"
                self.fail(e, f"there is no atomic_{how} of {scalar}: use {instead}")
            if isinstance(element, Struct):
                self.fail(e, "there are no atomics of structures: use an array for the field")
            args = [*(i for i in place.chosen if i), *(v[k] for v in given)]
            types = (arithmetic(scalar),) if result else ()
            out += self.b.emit("atomic", args, types, Access(place.name, k, how)).results
        if not result:
            return None
        return out[0] if isinstance(element, Scalar) else Compound(element, tuple(out))

    # ---- a user's functions

    def inline(self, function: Any, e: ast.Call) -> Any:
        """The body of a function in place of its call."""
        source = function.source
        if any(f.source is source for f in self.frames):
            self.fail(e, f"'{source.name}' calls itself: kernels know no recursion: write a loop")
        values = self.arguments(e, function.names, len(function.names) - len(function.defaults))
        for k, v in enumerate(values):
            if v is None:
                values[k] = self._captured(function.defaults[k - len(values)], e)
            t = function.types.get(function.names[k])
            if t is not None:
                values[k] = self.coerce(values[k], t, e, f"argument '{function.names[k]}' of {source.name}")
        if function.adjoint_function is None:
            return self.body_of(function, dict(zip(function.names, values, strict=True)), e)
        return self._custom(function, values, e)

    def body_of(self, function: Any, names: dict[str, Any], e: ast.AST) -> Any:
        raise NotImplementedError

    def _custom(self, function: Any, values: list[Any], e: ast.Call) -> Any:
        """A function with an adjoint of its own: both are regions of their arguments' scalars."""
        for n, v in zip(function.names, values, strict=True):
            if leaf_values(v) is None:
                self.fail(e, f"argument '{n}' of {function.source.name} is {named(v)}: a function with an adjoint of "
                             "its own takes numbers, vectors and structures")  # fmt: skip
        values = [self.value(v, e) if is_literal(v) else v for v in values]
        flat = [v for x in values for v in leaf_values(x) or []]

        def region(f: Callable[[list[Any]], list[Value]], extra: list[Value]) -> Region:
            made = Region(Value(v.type) for v in (*flat, *extra))
            rest = list(made.params)
            operands = [rebuilt(x, rest) for x in values]
            with self.b.inside(made):
                made.yields = f([*operands, *rest])
            return made

        results: list[Any] = []

        def forward(operands: list[Any]) -> list[Value]:
            x = self.body_of(function, dict(zip(function.names, operands, strict=True)), e)
            if leaf_values(x) is None:
                self.fail(e, f"{function.source.name} has an adjoint of its own, so it must return numbers")
            results.append(x)
            return [self.value(v, e) for v in leaf_values(x) or []]

        first = region(forward, [])
        floats = [v for v in flat if v.type.is_float]

        def adjoint(operands: list[Any]) -> list[Value]:
            cotangents = operands[len(values) :]
            n = len(results[0]) if type(results[0]) is tuple else 1
            parts = results[0] if type(results[0]) is tuple else (results[0],)
            given = [rebuilt(p if not is_literal(p) else first.yields[0], cotangents) for p in parts]
            own = function.adjoint_function
            names = own.names
            if len(names) != len(values) + n:
                self.fail(e, f"the adjoint of {function.source.name} takes its {len(values)} arguments and {n} "
                             f"cotangents, not ({', '.join(names)})")  # fmt: skip
            x = self.body_of(own, dict(zip(names, [*operands[: len(values)], *given], strict=True)), e)
            leaves = leaf_values(x)
            if leaves is None or len(leaves) != len(floats):
                self.fail(e, f"the adjoint of {function.source.name} returns the cotangents of its float arguments, "
                             f"{len(floats)} numbers, not {named(x)}")  # fmt: skip
            return [self.literal(v, t.type, e) if is_literal(v) else v for v, t in zip(leaves, floats, strict=True)]

        second = region(adjoint, first.yields)
        op = self.b.emit("custom", flat, [v.type for v in first.yields], function.source.name, (first, second))
        return rebuilt(results[0], list(op.results))


