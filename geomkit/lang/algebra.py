"""The front end: vectors, matrices and quaternions, expanded into scalar operations."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from geomkit.lang.expressions import Expressions
from geomkit.lang.ir import Value
from geomkit.lang.operands import Compound, is_literal, named
from geomkit.lang.struct import Struct
from geomkit.lang.types import Composite, Mat, Quat, Scalar, Vec

__all__ = ["Algebra"]


class Algebra(Expressions):
    """Operators and functions of compounds."""

    def compound_binary(self, a: Any, b: Any, kind: str, symbol: str, e: ast.AST) -> Any:
        for x in (a, b):
            if isinstance(x, Compound) and isinstance(x.type, Struct):
                self.fail(e, f"{named(a)} {symbol} {named(b)}: structures have no operators: use their fields")
        ta, tb = (x.type if isinstance(x, Compound) else None for x in (a, b))
        if kind == "matmul":
            return self._matmul(a, b, e)
        if ta is not None and tb is not None:
            if isinstance(ta, Quat) and isinstance(tb, Quat) and kind == "mul" and ta == tb:
                return self.quat_product(a, b)
            if kind == "mul" and (isinstance(ta, Mat) or isinstance(tb, Mat)):
                self.fail(e, f"{ta} * {tb}: write @ for the product of matrices and vectors")
            if ta != tb:
                self.fail(e, f"{ta} {symbol} {tb}: the types must be equal: write gk.{ta}(...) to convert")
            if kind in ("add", "sub") or (isinstance(ta, Vec) and kind in ("mul", "div", "floordiv", "mod", "bitand")):
                return self.each(lambda x, y: self.arithmetic(kind, symbol, x, y, e), a, b)
        elif kind in ("mul", "div", "floordiv", "mod") and (ta is not None or kind == "mul"):
            if ta is None:
                return self.each(lambda y: self.arithmetic(kind, symbol, a, y, e), b)
            return self.each(lambda x: self.arithmetic(kind, symbol, x, b, e), a)
        hint = ""
        if kind in ("add", "sub") and (is_literal(a) or is_literal(b) or isinstance(a, Value) or isinstance(b, Value)):
            hint = f": write gk.{ta or tb}(...) around the number"
        elif kind == "pow":
            hint = ": write x * x"
        self.fail(e, f"{named(a)} {symbol} {named(b)}: there is no such operator{hint}")

    def each(self, function: Any, first: Compound, *others: Compound) -> Compound:
        """A function of scalars on each component."""
        parts = zip(first.values, *(o.values for o in others), strict=True)
        return Compound(first.type, tuple(function(*p) for p in parts))

    def sum_of_products(self, a: Sequence[Value], b: Sequence[Value]) -> Value:
        """a[0] b[0] + a[1] b[1] + ..."""
        out = self.b.call("mul", a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            out = self.b.call("add", out, self.b.call("mul", x, y))
        return out

    def _matmul(self, a: Any, b: Any, e: ast.AST) -> Any:
        ta, tb = (x.type if isinstance(x, Compound) else None for x in (a, b))
        fits = isinstance(ta, Vec | Mat) and isinstance(tb, Vec | Mat) and ta.n == tb.n and ta.scalar is tb.scalar
        if not fits:
            self.fail(e, f"{named(a)} @ {named(b)}: @ multiplies matrices and vectors of one size and number type")
        assert isinstance(ta, Vec | Mat) and isinstance(tb, Vec | Mat)
        n = ta.n
        rows = [a.values[i * n : i * n + n] for i in range(n)] if isinstance(ta, Mat) else [a.values]
        columns = [b.values[j::n] for j in range(n)] if isinstance(tb, Mat) else [b.values]
        values = tuple(self.sum_of_products(r, c) for r in rows for c in columns)
        if len(values) == 1:
            return values[0]
        return Compound(Mat(n, ta.scalar) if len(values) > n else Vec(n, ta.scalar), values)

    # ---- functions; arguments are checked by their callers

    def dot(self, a: Compound, b: Compound) -> Value:
        return self.sum_of_products(a.values, b.values)

    def length(self, a: Compound) -> Value:
        return self.b.call("sqrt", self.dot(a, a))

    def normalized(self, a: Compound) -> Compound:
        """Length one; zero where there is no direction."""
        length = self.length(a)
        zero, one = self.b.const(0, length.type), self.b.const(1, length.type)
        positive = self.b.compare("gt", length, zero)
        safe = self.b.call("select", positive, length, one, type=length.type)
        scale = self.b.call("div", one, safe)
        return self.each(lambda x: self.b.call("mul", x, scale), a)

    def cross(self, a: Compound, b: Compound) -> Compound:
        x, y = a.values, b.values
        return Compound(a.type, tuple(self._minus(x, y, (k + 1) % 3, (k + 2) % 3) for k in range(3)))

    def _minus(self, x: Sequence[Value], y: Sequence[Value], i: int, j: int) -> Value:
        """x[i] y[j] - x[j] y[i]"""
        return self.b.call("sub", self.b.call("mul", x[i], y[j]), self.b.call("mul", x[j], y[i]))

    def outer(self, a: Compound, b: Compound) -> Compound:
        t = a.type
        assert isinstance(t, Vec)
        return Compound(Mat(t.n, t.scalar), tuple(self.b.call("mul", x, y) for x in a.values for y in b.values))

    def trace(self, a: Compound) -> Value:
        n = a.type.shape[0]
        out = a.values[0]
        for i in range(1, n):
            out = self.b.call("add", out, a.values[i * n + i])
        return out

    def _minor(self, m: list[list[Value]]) -> Value:
        """The determinant, along the first row."""
        n = len(m)
        if n == 1:
            return m[0][0]
        out: Value | None = None
        for j in range(n):
            term = self.b.call("mul", m[0][j], self._minor([row[:j] + row[j + 1 :] for row in m[1:]]))
            if out is None:
                out = term
            else:
                out = self.b.call("sub" if j % 2 else "add", out, term)
        assert out is not None
        return out

    @staticmethod
    def _rows(a: Compound) -> list[list[Value]]:
        n = a.type.shape[0]
        return [list(a.values[i * n : i * n + n]) for i in range(n)]

    def determinant(self, a: Compound) -> Value:
        return self._minor(self._rows(a))

    def inverse(self, a: Compound) -> Compound:
        """The adjugate over the determinant."""
        m, n = self._rows(a), a.type.shape[0]
        scale = self.b.call("div", self.b.const(1, a.values[0].type), self.determinant(a))
        out = []
        for i in range(n):
            for j in range(n):
                rest = [[m[r][c] for c in range(n) if c != i] for r in range(n) if r != j]
                cofactor = self._minor(rest) if rest else self.b.const(1, scale.type)
                out.append(self.b.call("mul", self.b.call("neg", cofactor) if (i + j) % 2 else cofactor, scale))
        return Compound(a.type, tuple(out))

    def quat_product(self, p: Compound, q: Compound) -> Compound:
        """(a u + b v + u x v, a b - u . v) of quaternions u, a and v, b."""
        (px, py, pz, pw), (qx, qy, qz, qw) = p.values, q.values

        def four(*terms: tuple[Value, Value, str]) -> Value:
            out = self.b.call("mul", *terms[0][:2])
            for x, y, kind in terms[1:]:
                out = self.b.call(kind, out, self.b.call("mul", x, y))
            return out

        return Compound(
            p.type,
            (
                four((pw, qx, ""), (px, qw, "add"), (py, qz, "add"), (pz, qy, "sub")),
                four((pw, qy, ""), (py, qw, "add"), (pz, qx, "add"), (px, qz, "sub")),
                four((pw, qz, ""), (pz, qw, "add"), (px, qy, "add"), (py, qx, "sub")),
                four((pw, qw, ""), (px, qx, "sub"), (py, qy, "sub"), (pz, qz, "sub")),
            ),
        )

    def conjugate(self, q: Compound) -> Compound:
        return Compound(q.type, (*(self.b.call("neg", v) for v in q.values[:3]), q.values[3]))

    def rotated(self, q: Compound, v: Compound) -> Compound:
        """v + 2 w (u x v) + 2 u x (u x v) of a quaternion u, w of length one."""
        assert isinstance(v.type, Vec)
        u = Compound(v.type, q.values[:3])
        two = self.b.const(2, q.values[3].type)
        once = self.each(lambda x: self.b.call("mul", two, x), self.cross(u, v))
        twice = self.cross(u, once)
        turned = self.each(lambda x: self.b.call("mul", q.values[3], x), once)
        add = lambda x, y: self.b.call("add", x, y)  # noqa: E731
        return self.each(add, self.each(add, v, turned), twice)

    def from_axis_angle(self, axis: Compound, angle: Value) -> Compound:
        """A quaternion, of an axis of length one."""
        half = self.b.call("mul", angle, self.b.const(0.5, angle.type))
        s, c = self.b.call("sin", half), self.b.call("cos", half)
        assert isinstance(axis.type, Vec)
        return Compound(Quat(axis.type.scalar), (*(self.b.call("mul", x, s) for x in axis.values), c))

    def quat_matrix(self, q: Compound) -> Compound:
        """The rotation of a quaternion of length one; its columns are the turned axes."""
        assert isinstance(q.type, Quat)
        x = q.values[0].type
        zero, one = self.b.const(0, x), self.b.const(1, x)
        axes = [Compound(Vec(3, q.type.scalar), tuple(one if i == k else zero for i in range(3))) for k in range(3)]
        columns = [self.rotated(q, axis).values for axis in axes]
        return Compound(Mat(3, q.type.scalar), tuple(columns[j][i] for i in range(3) for j in range(3)))

    def converted(self, x: Compound, t: Composite, e: ast.AST) -> Compound:
        """A vector or matrix with other numbers."""
        return Compound(t, tuple(self.to_scalar(v, s, e) for v, (s, _) in zip(x.values, t.leaves, strict=True)))

    def to_scalar(self, x: Any, t: Scalar, e: ast.AST) -> Value:
        raise NotImplementedError
