"""The derivative of each pure operation.

A rule takes the builder, the arguments, the result and the cotangent g of the result, and gives the cotangent of each
argument, or None where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from geomkit.lang.ir import Builder, Value

__all__ = ["NO_SLOPE", "RULES"]

Gradients = Sequence[Value | None]
Rule = Callable[[Builder, list[Value], Value, Value], Gradients]
RULES: dict[str, Rule] = {}
NO_SLOPE = frozenset({"floor", "ceil", "round", "trunc", "sign", "floordiv", "stop"})  # zero nearly everywhere


def _rule(name: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES[name] = rule
        return rule

    return register


def _only_where(b: Builder, condition: Value, g: Value) -> Value:
    return b.call("select", condition, g, b.const(0, g.type), type=g.type)


_rule("add")(lambda b, a, r, g: (g, g))
_rule("sub")(lambda b, a, r, g: (g, b.call("neg", g)))
_rule("neg")(lambda b, a, r, g: (b.call("neg", g),))
_rule("mul")(lambda b, a, r, g: (b.call("mul", g, a[1]), b.call("mul", g, a[0])))


@_rule("div")
def _div(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    to_a = b.call("div", g, a[1])
    return to_a, b.call("neg", b.call("mul", to_a, r))


@_rule("select")
def _select(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    zero = b.const(0, g.type)
    return None, b.call("select", a[0], g, zero, type=g.type), b.call("select", a[0], zero, g, type=g.type)


# To the one that is taken: of two equal numbers the second, as in the operation.
@_rule("min")
def _min(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    first, zero = b.compare("lt", a[0], a[1]), b.const(0, g.type)
    return b.call("select", first, g, zero, type=g.type), b.call("select", first, zero, g, type=g.type)


@_rule("max")
def _max(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    first, zero = b.compare("gt", a[0], a[1]), b.const(0, g.type)
    return b.call("select", first, g, zero, type=g.type), b.call("select", first, zero, g, type=g.type)


# Zero at zero.
_rule("abs")(lambda b, a, r, g: (b.call("mul", g, b.call("sign", a[0])),))
_rule("sin")(lambda b, a, r, g: (b.call("mul", g, b.call("cos", a[0])),))
_rule("cos")(lambda b, a, r, g: (b.call("neg", b.call("mul", g, b.call("sin", a[0]))),))
_rule("exp")(lambda b, a, r, g: (b.call("mul", g, r),))
_rule("log")(lambda b, a, r, g: (b.call("div", g, a[0]),))
_rule("sinh")(lambda b, a, r, g: (b.call("mul", g, b.call("cosh", a[0])),))
_rule("cosh")(lambda b, a, r, g: (b.call("mul", g, b.call("sinh", a[0])),))
_rule("exp2")(
    lambda b, a, r, g: (b.call("mul", b.call("mul", g, r), b.const(0.6931471805599453, g.type)),),
)
_rule("log2")(
    lambda b, a, r, g: (b.call("div", b.call("mul", g, b.const(1.4426950408889634, g.type)), a[0]),),
)


@_rule("tan")
def _tan(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    return (b.call("mul", g, b.call("add", b.const(1, g.type), b.call("mul", r, r))),)


@_rule("tanh")
def _tanh(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    return (b.call("mul", g, b.call("sub", b.const(1, g.type), b.call("mul", r, r))),)


# Zero at zero, where the slope is infinite: so lengths have the gradient zero there.
@_rule("sqrt")
def _sqrt(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    positive = b.compare("gt", r, b.const(0, r.type))
    return (_only_where(b, positive, b.call("div", b.call("mul", g, b.const(0.5, g.type)), r)),)


@_rule("rsqrt")
def _rsqrt(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    cube = b.call("mul", r, b.call("mul", r, r))
    return (b.call("mul", b.call("mul", g, b.const(-0.5, g.type)), cube),)


def _one_minus_square(b: Builder, a: Value) -> Value:
    return b.call("sub", b.const(1, a.type), b.call("mul", a, a))


_rule("asin")(lambda b, a, r, g: (b.call("div", g, b.call("sqrt", _one_minus_square(b, a[0]))),))
_rule("acos")(
    lambda b, a, r, g: (b.call("neg", b.call("div", g, b.call("sqrt", _one_minus_square(b, a[0])))),),
)


@_rule("atan")
def _atan(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    return (b.call("div", g, b.call("add", b.const(1, g.type), b.call("mul", a[0], a[0]))),)


# Zero at the origin, where there is no angle.
@_rule("atan2")
def _atan2(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    y, x = a
    square = b.call("add", b.call("mul", x, x), b.call("mul", y, y))
    scaled = _only_where(b, b.compare("gt", square, b.const(0, g.type)), b.call("div", g, square))
    return b.call("mul", scaled, x), b.call("neg", b.call("mul", scaled, y))


# d/db = r log a, zero where a <= 0; d/da = b a^(b - 1).
@_rule("pow")
def _pow(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    one, zero = b.const(1, g.type), b.const(0, g.type)
    lowered = b.call("pow", a[0], b.call("sub", a[1], one))
    to_a = b.call("mul", b.call("mul", g, a[1]), lowered)
    positive = b.compare("gt", a[0], zero)
    safe = b.call("select", positive, a[0], one, type=g.type)
    to_b = _only_where(b, positive, b.call("mul", b.call("mul", g, r), b.call("log", safe)))
    return to_a, to_b


# a - q b with q constant nearly everywhere.
@_rule("mod")
def _mod(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    return g, b.call("neg", b.call("mul", g, b.call("floor", b.call("div", a[0], a[1]))))


@_rule("fmod")
def _fmod(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    return g, b.call("neg", b.call("mul", g, b.call("trunc", b.call("div", a[0], a[1]))))


@_rule("convert")
def _convert(b: Builder, a: list[Value], r: Value, g: Value) -> Gradients:
    return (b.convert(g, a[0].type) if a[0].type.is_float else None,)
