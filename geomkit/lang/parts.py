"""The front end: parts of arrays, vectors, matrices and structures."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from geomkit.lang.advice import instead_of, method_of
from geomkit.lang.ir import Access, Value, leaves_of
from geomkit.lang.operands import Compound, Static, Undefined, View, arithmetic, field_of, is_literal, named
from geomkit.lang.scope import Scope
from geomkit.lang.struct import Struct
from geomkit.lang.types import Composite, Mat, Quat, Scalar, Vec, i32

__all__ = ["Parts"]


class Parts(Scope):
    """Attributes and subscripts."""

    def raw(self, e: ast.expr) -> Any:
        raise NotImplementedError

    def expression(self, e: ast.expr) -> Any:
        raise NotImplementedError

    def _captured(self, found: Any, e: ast.expr) -> Any:
        raise NotImplementedError

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
                    self.fail(e, f"'{ast.unparse(e.value)}' has no '{e.attr}': {instead_of(e.attr)}")
        self.fail(e, f"{named(x)} has no '{e.attr}'{method_of(e.attr)}")

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
        self.fail(e, f"{named(x)} has no '{e.attr}': it has shape, ndim and size{method_of(e.attr)}")

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
            self.fail(e, f"{t} has no '{e.attr}': it has {', '.join(letters)}{method_of(e.attr)}")
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
            is_compound = isinstance(x.array.element, Composite) and not isinstance(x.array.element, Struct)
            inner = f": write {x.name}[i][k] for a component" if is_compound else ""
            self.fail(e, f"{len(parts)} indices of {named(x)}, which has {len(free)}{inner}")
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
