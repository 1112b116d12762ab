"""The front end: calls of types, of the kernel language's functions, and of a user's own."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from geomkit.lang.algebra import Algebra
from geomkit.lang.builtins import ALIASES, BUILTINS, Builtin
from geomkit.lang.ir import Access, Region, Value, leaves_of
from geomkit.lang.operands import Compound, Static, Undefined, View, arithmetic, is_literal, leaf_values, named, rebuilt
from geomkit.lang.struct import Struct
from geomkit.lang.types import Composite, Mat, Quat, Scalar, Vec, boolean, f32, i32, u32

__all__ = ["Calls"]

_UNARY = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "exp2", "log", "log2", "sqrt", "rsqrt",
    "floor", "ceil", "round", "trunc",
)  # fmt: skip
_VECTORS = {"dot": 2, "cross": 2, "length": 1, "length_squared": 1, "normalize": 1, "outer": 2}
_MATRICES = ("transpose", "determinant", "inverse", "trace")


class Calls(Algebra):
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
        if callable(o) and not isinstance(o, type) and hasattr(o, "__code__"):
            self.fail(e.func, f"'{name}' is a function of Python's: write @gk.func above it")
        origin = f" of {module.partition('.')[0]}" if module and module != "builtins" else ""
        self.fail(e.func, f"'{name}'{origin} is not known in kernels: see the functions of geomkit, such as gk.sin")

    def arguments(self, e: ast.Call, names: list[str] | tuple[str, ...], required: int | None = None) -> list[Any]:
        """The operands of a call's arguments, in the order of their names."""
        given: dict[str, Any] = {}
        for a in e.args:
            if isinstance(a, ast.Starred):
                x = self.expression(a.value)
                if type(x) is not tuple:
                    self.fail(a, f"{named(x)} cannot be spread: only a tuple can")
                values: list[Any] = list(x)
            else:
                values = [self._argument(a)]
            for v in values:
                if len(given) == len(names):
                    self.fail(e, self._expected(e, names, f"more than {len(names)}"))
                given[names[len(given)]] = v
        for k in e.keywords:
            if k.arg is None or k.arg not in names or k.arg in given:
                self.fail(e, self._expected(e, names, f"{k.arg}="))
            given[k.arg] = self._argument(k.value)
        missing = [n for n in names[: len(names) if required is None else required] if n not in given]
        if missing:
            self.fail(e, self._expected(e, names, f"no {', '.join(missing)}"))
        return [given.get(n) for n in names]

    def _argument(self, a: ast.expr) -> Any:
        return self.expression(a)

    def _expected(self, e: ast.Call, names: Any, got: str) -> str:
        return f"{ast.unparse(e.func)} takes ({', '.join(names)}), got {got}"

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

    # ---- functions of the language

    def _builtin(self, e: ast.Call, name: str) -> Any:
        if name.startswith("atomic_"):
            return self._atomic(e, name.removeprefix("atomic_"))
        if name in ("min", "max") and (len(e.args) > 2 or len(e.args) == 1):
            return self._several(e, name)
        names = BUILTINS[name].arguments
        if name == "round" and len(e.args) == 1 and not e.keywords:
            names = ["a"]
        values = self.arguments(e, names)
        if name in _UNARY:
            return self._unary(name, values[0], e)
        return getattr(self, f"call_{name}")(e, *values)

    def _unary(self, name: str, x: Any, e: ast.Call) -> Any:
        if is_literal(x):
            x = self.literal(float(x), self.precision, e)
        if isinstance(x, Compound) and not isinstance(x.type, Struct):
            return self.each(lambda v: self._unary(name, v, e), x)
        v = self.value(x, e)
        if not v.type.is_float:
            self.fail(e, f"{name} takes a float, not {v.type}: write {name}(float(...))")
        return self.b.call(name, v)

    def _pairwise(self, e: ast.Call, kind: str, a: Any, b: Any) -> Any:
        if isinstance(a, Compound) or isinstance(b, Compound):
            one, other = (a, b) if isinstance(a, Compound) else (b, a)
            if isinstance(other, Compound) and other.type != one.type:
                self.fail(e, f"{kind} of {named(a)} and {named(b)}: the types must be equal")
            pairs = [(x, other.values[k] if isinstance(other, Compound) else other) for k, x in enumerate(one.values)]
            return Compound(one.type, tuple(self._pairwise(e, kind, x, y) for x, y in pairs))
        if is_literal(a) and is_literal(b):
            return min(a, b) if kind == "min" else max(a, b)
        x, y = self.unify(a, b, e, kind)
        if x.type is boolean:
            self.fail(e, f"{kind} of bools: write and, or")
        return self.b.call(kind, x, y)

    def _several(self, e: ast.Call, kind: str) -> Any:
        values = [self.expression(a) for a in e.args]
        if len(values) == 1:
            x = values[0]
            if isinstance(x, Compound) and isinstance(x.type, Vec):
                values = list(x.values)
            elif type(x) is tuple and x:
                values = list(x)
            else:
                self.fail(e, f"{kind} takes several numbers, a tuple or a vector, got {named(x)}")
        out = values[0]
        for x in values[1:]:
            out = self._pairwise(e, kind, out, x)
        return out

    def call_min(self, e: ast.Call, a: Any, b: Any) -> Any:
        return self._pairwise(e, "min", a, b)

    def call_max(self, e: ast.Call, a: Any, b: Any) -> Any:
        return self._pairwise(e, "max", a, b)

    def call_clamp(self, e: ast.Call, a: Any, low: Any, high: Any) -> Any:
        return self._pairwise(e, "min", self._pairwise(e, "max", a, low), high)

    def call_abs(self, e: ast.Call, a: Any) -> Any:
        if is_literal(a):
            return abs(a)
        if isinstance(a, Compound) and not isinstance(a.type, Struct):
            return self.each(lambda v: self.call_abs(e, v), a)
        v = self.value(a, e)
        if v.type.kind == "u":
            return v
        return self.b.call("abs", v) if v.type.is_float else self.b.call("max", v, self.b.call("neg", v))

    def call_sign(self, e: ast.Call, a: Any) -> Any:
        if isinstance(a, Compound) and not isinstance(a.type, Struct):
            return self.each(lambda v: self.call_sign(e, v), a)
        return self.b.call("sign", self.value(a, e))

    def call_atan2(self, e: ast.Call, y: Any, x: Any) -> Value:
        return self._two_floats(e, "atan2", y, x)

    def call_fmod(self, e: ast.Call, x: Any, y: Any) -> Value:
        return self._two_floats(e, "fmod", x, y)

    def _two_floats(self, e: ast.Call, kind: str, a: Any, b: Any) -> Value:
        x, y = self.unify(float(a) if is_literal(a) else a, float(b) if is_literal(b) else b, e, kind)
        if not x.type.is_float:
            self.fail(e, f"{kind} takes floats, not {x.type}: write float(...)")
        return self.b.call(kind, x, y)

    def call_pow(self, e: ast.Call, x: Any, y: Any) -> Any:
        return self.binary(x, y, ast.Pow(), e)

    def call_step(self, e: ast.Call, edge: Any, x: Any) -> Value:
        a, b = self.unify(edge, x, e, "step")
        return self.b.call("select", self.b.compare("lt", b, a), self.b.const(0, a.type), self.b.const(1, a.type),
                           type=a.type)  # fmt: skip

    def call_smoothstep(self, e: ast.Call, low: Any, high: Any, x: Any) -> Any:
        part = self.binary(self.binary(x, low, ast.Sub(), e), self.binary(high, low, ast.Sub(), e), ast.Div(), e)
        t = self.call_clamp(e, part, 0.0, 1.0)
        ramp = self.binary(3.0, self.binary(2.0, t, ast.Mult(), e), ast.Sub(), e)
        return self.binary(self.binary(t, t, ast.Mult(), e), ramp, ast.Mult(), e)

    def call_lerp(self, e: ast.Call, a: Any, b: Any, t: Any) -> Any:
        return self.binary(a, self.binary(self.binary(b, a, ast.Sub(), e), t, ast.Mult(), e), ast.Add(), e)

    def call_select(self, e: ast.Call, condition: Any, a: Any, b: Any) -> Any:
        c = self.condition(condition, e)
        if isinstance(c, bool):
            return a if c else b
        found = [a, b]
        self.settle([self.b.region, self.b.region], found, e, "the two choices")
        pairs = zip(leaf_values(found[0]) or [], leaf_values(found[1]) or [], strict=True)
        return rebuilt(found[0], [self.b.call("select", c, x, y, type=x.type) for x, y in pairs])

    def call_isnan(self, e: ast.Call, x: Any) -> Value:
        return self.b.call("isnan", self.value(x, e), type=boolean)

    def call_isfinite(self, e: ast.Call, x: Any) -> Value:
        return self.b.call("isfinite", self.value(x, e), type=boolean)

    def _of_kind(self, e: ast.Call, name: str, kind: type, *values: Any) -> None:
        for x in values:
            if not (isinstance(x, Compound) and isinstance(x.type, kind)):
                self.fail(e, f"{name} takes a {'vector' if kind is Vec else 'matrix'}, not {named(x)}")
            if x.type != values[0].type:
                self.fail(e, f"{name} of {named(values[0])} and {named(x)}: the types must be equal")

    def __getattr__(self, name: str) -> Any:
        name = name.removeprefix("call_")
        if name in _VECTORS:
            return lambda e, *values: self._vector(e, name, *values)
        if name in _MATRICES:
            return lambda e, *values: self._matrix(e, name, *values)
        raise AttributeError(name)

    def _vector(self, e: ast.Call, name: str, *values: Any) -> Any:
        if isinstance(values[0], Compound) and isinstance(values[0].type, Quat) and name in ("length", "normalize", "dot"):
            pass
        else:
            self._of_kind(e, name, Vec, *values)
        if name == "cross" and len(values[0].values) != 3:
            self.fail(e, f"cross takes vectors of three numbers, not {named(values[0])}")
        if name in ("length", "normalize") and not values[0].values[0].type.is_float:
            self.fail(e, f"{name} takes floats, not {named(values[0])}: write gk.vec3(...) around it")
        if name == "length_squared":
            return self.dot(values[0], values[0])
        return getattr(Algebra, {"normalize": "normalized"}.get(name, name))(self, *values)

    def _matrix(self, e: ast.Call, name: str, m: Any) -> Any:
        self._of_kind(e, name, Mat, m)
        if name == "transpose":
            n = m.type.shape[0]
            return Compound(m.type, tuple(m.values[j * n + i] for i in range(n) for j in range(n)))
        return getattr(Algebra, name)(self, m)

    def call_identity(self, e: ast.Call, n: Any) -> Compound:
        if n not in (2, 3, 4):
            self.fail(e, "identity takes the constant 2, 3 or 4")
        values = tuple(self.b.const(float(i == j), self.precision) for i in range(n) for j in range(n))
        return Compound(Mat(n, self.precision), values)

    def _quat(self, e: ast.Call, name: str, q: Any, v: Any = None) -> None:
        if not (isinstance(q, Compound) and isinstance(q.type, Quat)):
            self.fail(e, f"{name} takes a quaternion, not {named(q)}")
        wanted = Vec(3, q.type.scalar)
        if v is not None and not (isinstance(v, Compound) and v.type == wanted):
            self.fail(e, f"{name} takes a quaternion and a {wanted}, not {named(v)}")

    def call_quat_rotate(self, e: ast.Call, q: Any, v: Any) -> Compound:
        self._quat(e, "quat_rotate", q, v)
        return self.rotated(q, v)

    def call_quat_inverse(self, e: ast.Call, q: Any) -> Compound:
        self._quat(e, "quat_inverse", q)
        return self.conjugate(q)

    def call_quat_to_matrix(self, e: ast.Call, q: Any) -> Compound:
        self._quat(e, "quat_to_matrix", q)
        return self.quat_matrix(q)

    def call_quat_from_axis_angle(self, e: ast.Call, axis: Any, angle: Any) -> Compound:
        self._of_kind(e, "quat_from_axis_angle", Vec, axis)
        if len(axis.values) != 3:
            self.fail(e, f"quat_from_axis_angle takes a vec3, not {named(axis)}")
        _, a = self.unify(axis.values[0], angle, e, "quat_from_axis_angle")
        return self.from_axis_angle(axis, a)

    def call_stop_gradient(self, e: ast.Call, a: Any) -> Any:
        leaves = leaf_values(a)
        if leaves is None:
            self.fail(e, f"stop_gradient takes numbers, not {named(a)}")
        return rebuilt(a, [x if is_literal(x) or not x.type.is_float else self.b.call("stop", x) for x in leaves])

    # ---- random numbers

    def _unsigned(self, x: Any, e: ast.Call) -> Value:
        if is_literal(x) and not isinstance(x, bool):
            return self.literal(int(x) & 0xFFFFFFFF, u32, e)
        v = self.value(x, e)
        if not v.type.is_integer:
            self.fail(e, f"a seed and a counter are integers, not {v.type}")
        return self.b.convert(v, u32)

    def call_random_bits(self, e: ast.Call, seed: Any, counter: Any) -> Value:
        return self.b.call("random_bits", self._unsigned(seed, e), self._unsigned(counter, e), type=u32)

    def call_random_uniform(self, e: ast.Call, seed: Any, counter: Any) -> Value:
        bits = self.call_random_bits(e, seed, counter)
        high = self.b.convert(self.b.call("shr", bits, self.b.const(8, u32)), i32)
        return self.b.call("mul", self.b.convert(high, f32), self.b.const(2.0**-24, f32))

    def call_random_normal(self, e: ast.Call, seed: Any, counter: Any) -> Value:
        """Box and Muller (1958), of the two numbers that a counter's bits and those of its complement give."""
        first = self.call_random_uniform(e, seed, counter)
        other = self.b.call("invert", self._unsigned(counter, e))
        second = self.call_random_uniform(e, self.b.call("invert", self._unsigned(seed, e)), other)
        b = self.b
        radius = b.call("sqrt", b.call("mul", b.const(-2, f32), b.call("log", b.call("sub", b.const(1, f32), first))))
        return b.call("mul", radius, b.call("cos", b.call("mul", b.const(2 * math.pi, f32), second)))

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
                self.fail(e, f"there is no atomic_{how} of {scalar}: use {'i32 or i64' if how == 'cas' else 'f32, i32'}")
            if isinstance(element, Struct):
                self.fail(e, f"there are no atomics of whole structures: take a field, {place.name}[i].{[*element.fields][0]}")
            args = [*(i for i in place.chosen if i), *(v[k] for v in given)]
            out += self.b.emit("atomic", args, (arithmetic(scalar),) if result else (), Access(place.name, k, how)).results
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
                self.fail(e, f"argument '{n}' of {function.source.name} is {named(v)}: a function with an adjoint of its "
                             "own takes numbers, vectors and structures")  # fmt: skip
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


