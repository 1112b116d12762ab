"""The front end: calls of the kernel language's mathematical functions."""

from __future__ import annotations

import ast
import math
from typing import Any

from geomkit.lang.algebra import Algebra
from geomkit.lang.builtins import BUILTINS, OPTIONAL
from geomkit.lang.ir import Value
from geomkit.lang.operands import Compound, is_literal, leaf_values, named, rebuilt
from geomkit.lang.struct import Struct
from geomkit.lang.types import Mat, Quat, Vec, boolean, f32, i32, u32

__all__ = ["Functions"]

_UNARY = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "exp2", "log", "log2", "sqrt", "rsqrt",
    "floor", "ceil", "round", "trunc",
)  # fmt: skip
_VECTORS = {"dot": 2, "cross": 2, "length": 1, "length_squared": 1, "normalize": 1, "outer": 2}
_MATRICES = ("transpose", "determinant", "inverse", "trace")


class Functions(Algebra):
    """Functions of numbers, vectors, matrices and quaternions."""

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

    # ---- functions of the language

    def _builtin(self, e: ast.Call, name: str) -> Any:
        if name.startswith("atomic_"):
            return self._atomic(e, name.removeprefix("atomic_"))
        if name in ("min", "max") and (len(e.args) > 2 or len(e.args) == 1):
            return self._several(e, name)
        names = BUILTINS[name].arguments
        if name == "round" and len(e.args) == 1 and not e.keywords:
            names = ["a"]
        optional = OPTIONAL.get(name, {})
        values = self.arguments(e, names, len(names) - len(optional))
        values = [optional.get(n) if v is None else v for n, v in zip(names, values, strict=True)]
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
        is_quat = isinstance(values[0], Compound) and isinstance(values[0].type, Quat)
        if not (is_quat and name in ("length", "normalize", "dot")):
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

    def _atomic(self, e: ast.Call, how: str) -> Any:
        raise NotImplementedError
