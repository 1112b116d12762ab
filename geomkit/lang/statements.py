"""The front end: statements, except loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from geomkit.lang.calls import Calls
from geomkit.lang.diagnostics import Problem
from geomkit.lang.ir import Access, Region, Value, leaves_of
from geomkit.lang.operands import (
    POISON,
    Compound,
    HandleOf,
    Static,
    Undefined,
    View,
    is_literal,
    leaf_values,
    named,
    rebuilt,
    same,
)  # fmt: skip
from geomkit.lang.scope import Poisoned
from geomkit.lang.struct import Struct
from geomkit.lang.types import Mat, Quat, Scalar, Vec, type_of

__all__ = ["Statements", "assigned", "leaves_loop", "may_leave"]

_EXITS = (ast.Return, ast.Break, ast.Continue)
_INSTEAD: dict[type, str] = {
    ast.Try: "exceptions: check values and write a flag into an array",
    ast.Raise: "exceptions: use assert, which is checked in debug mode",
    ast.With: "with",
    ast.FunctionDef: "functions inside of kernels: write a @gk.func outside",
    ast.ClassDef: "classes inside of kernels: write a @gk.struct outside",
    ast.Import: "imports: import at the top of the module",
    ast.ImportFrom: "imports: import at the top of the module",
    ast.Global: "global: kernels only read what is outside: write into an array",
    ast.Nonlocal: "nonlocal: kernels only read what is outside: write into an array",
    ast.Delete: "del",
    ast.Match: "match: write if and elif",
    ast.AsyncFor: "async",
    ast.AsyncWith: "async",
}


def may_leave(s: ast.stmt) -> bool:
    """Whether a statement can leave the block that it is in."""
    if isinstance(s, _EXITS):
        return True
    if isinstance(s, ast.For | ast.While):
        return any(isinstance(n, ast.Return) for n in ast.walk(s))
    return isinstance(s, ast.If) and any(map(may_leave, (*s.body, *s.orelse)))


def leaves_loop(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body has a break of this loop, or a return."""
    for s in body:
        if isinstance(s, ast.Break | ast.Return):
            return True
        if isinstance(s, ast.If) and (leaves_loop(s.body) or leaves_loop(s.orelse)):
            return True
        if isinstance(s, ast.For | ast.While) and any(isinstance(n, ast.Return) for n in ast.walk(s)):
            return True
    return False


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    if not body:
        return False
    last = body[-1]
    return isinstance(last, _EXITS) or (
        isinstance(last, ast.If) and _always_leaves(last.body) and _always_leaves(last.orelse)
    )


def assigned(body: Sequence[ast.stmt]) -> dict[str, ast.AST]:
    """The names that statements may assign, and where."""
    found: dict[str, ast.AST] = {}

    def target(t: ast.expr) -> None:
        if isinstance(t, ast.Tuple | ast.List):
            for x in t.elts:
                target(x)
        elif isinstance(t, ast.Attribute | ast.Subscript):
            target(t.value)
        elif isinstance(t, ast.Name):
            found.setdefault(t.id, t)

    for s in body:
        for n in ast.walk(s):
            if isinstance(n, ast.Assign):
                for t in n.targets:
                    target(t)
            elif isinstance(n, ast.AugAssign | ast.AnnAssign | ast.For):
                target(n.target)
    return found


class Statements(Calls):
    """Statements to operations."""

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Statements in order; what follows one that may leave the block runs only where it did not."""
        for k, s in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(s, ast.If) and rest:
                if _always_leaves(s.body):
                    s, rest = _with(s, s.body, [*s.orelse, *rest]), []
                elif _always_leaves(s.orelse):
                    s, rest = _with(s, [*s.body, *rest], s.orelse), []
            self.statement(s)
            if isinstance(s, _EXITS):
                return
            if rest and may_leave(s):
                live = self.names["$live"]
                if live is False:
                    return
                if isinstance(live, Value):
                    self.branches(live, lambda rest=rest: self.block(rest), lambda: None, s)
                    return
            elif not rest:
                return

    def statement(self, s: ast.stmt) -> None:
        """One statement; if something is wrong in it, that is remembered and the next one is read."""
        self.b.where = self.frame.source.at(s)
        try:
            method = getattr(self, f"do_{type(s).__name__.lower()}", None)
            if method is None:
                self.fail(s, f"kernels do not know {_INSTEAD.get(type(s), type(s).__name__)}")
            method(s)
        except Problem as problem:
            self.problems.add(problem)
            self._poison(s)
        except Poisoned:
            self._poison(s)

    def _poison(self, s: ast.stmt) -> None:
        for name in assigned([s]):
            if not isinstance(self.names.get(name), View):
                self.names[name] = POISON

    def do_pass(self, s: ast.Pass) -> None:
        pass

    def do_expr(self, s: ast.Expr) -> None:
        if isinstance(s.value, ast.Constant):
            return
        self.raw(s.value)

    def do_assert(self, s: ast.Assert) -> None:
        c = self.condition(self.expression(s.test), s.test)
        text = s.msg.value if isinstance(s.msg, ast.Constant) else "" if s.msg is None else ast.unparse(s.msg)
        if c is True:
            return
        value = self.value(c, s.test)
        self.b.where = self.frame.source.at(s.test)
        self.b.emit("assert", (value,), (), str(text))

    # ---- assignments

    def do_assign(self, s: ast.Assign) -> None:
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Tuple) and self._is_tid(s.value):
            x: Any = self.thread(len(s.targets[0].elts), s.value)
            x = x if type(x) is tuple else (x,)
        else:
            x = self._bindable(self.raw(s.value), s.value)
        for t in s.targets:
            self.bind(t, x)

    def _is_tid(self, e: ast.expr) -> bool:
        if not isinstance(e, ast.Call):
            return False
        return getattr(self.static(self.raw(e.func)), "name", "") == "tid"

    def _bindable(self, x: Any, e: ast.AST) -> Any:
        if isinstance(x, Static) and x.object is None:
            self.fail(e, "there is no value to assign here")
        return x if isinstance(x, View) and x.ndim else self.operand(x, e)

    def do_annassign(self, s: ast.AnnAssign) -> None:
        if s.value is None:
            self.fail(s, "give the name a value, too")
        x = self._bindable(self.raw(s.value), s.value)
        annotation = self.static(self.raw(s.annotation))
        try:
            t = type_of(annotation)
        except TypeError as error:
            self.fail(s.annotation, str(error))
        self.bind(s.target, self.coerce(x, t, s.value, "the value"))

    def do_augassign(self, s: ast.AugAssign) -> None:
        x = self.expression(s.value)
        if isinstance(s.target, ast.Name):
            current = self.expression(_loaded(s.target))
            self.bind(s.target, self.binary(current, x, s.op, s))
            return
        place = self.place(s.target)
        if place is None:
            self.bind(s.target, self.binary(self.expression(_loaded(s.target)), x, s.op, s))
            return
        view, start, t = place
        if isinstance(s.op, ast.Add | ast.Sub) and not isinstance(t, Struct) and _scalars(t)[0].size >= 4:
            # Of several threads that add to one element none is lost.
            values = leaf_values(self.coerce(x, t, s.value, f"an element of '{view.name}'")) or []
            how = "add" if isinstance(s.op, ast.Add) else "sub"
            for k, v in enumerate(values):
                args = [*(i for i in view.chosen if i), self.value(v, s)]
                self.b.emit("atomic", args, (), Access(view.name, start + k, how))
            return
        self.store(place, self.binary(self.part(view, start, t), x, s.op, s), s)

    def bind(self, target: ast.expr, x: Any) -> None:
        if isinstance(target, ast.Name):
            if target.id in self.parameters and len(self.frames) == 1:
                parameter = self.names.get(target.id)
                if isinstance(parameter, HandleOf):
                    self.fail(target, f"'{target.id}' is a parameter that is a {named(parameter)}: use another name")
                self.fail(target, f"'{target.id}' is a parameter that is an array: write {target.id}[i] = ...")
            if isinstance(x, Value) and not x.hint:
                x.hint = target.id
            self.names[target.id] = x
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, x)
        elif isinstance(target, ast.Subscript | ast.Attribute):
            place = self.place(target)
            if place is not None:
                self.store(place, self.operand(x, target), target)
            else:
                self._replace_part(target, self.operand(x, target))
        else:
            self.fail(target, f"kernels cannot assign to {type(target).__name__}")

    def _unpack(self, target: ast.Tuple | ast.List, x: Any) -> None:
        if isinstance(x, Compound) and isinstance(x.type, Vec):
            x = tuple(x.values)
        if type(x) is not tuple:
            self.fail(target, f"{named(x)} cannot be unpacked into {len(target.elts)} names")
        if len(x) != len(target.elts):
            self.fail(target, f"{len(target.elts)} names for {len(x)} values")
        for t, v in zip(target.elts, x, strict=True):
            self.bind(t, v)

    def place(self, target: ast.expr) -> tuple[View, int, Any] | None:
        """Where in an array an assignment goes: a view of one element, the first leaf, and the type; None if the target
        is a part of a local value."""
        if isinstance(target, ast.Name):
            x = self.names.get(target.id)
            if isinstance(x, View):
                if x.ndim:
                    return x, 0, x.array
                return x, 0, x.array.element
            return None
        if isinstance(target, ast.Subscript | ast.Attribute):
            inner = self.place(target.value)
            if inner is None:
                return None
            view, start, t = inner
            if view.ndim:
                if isinstance(target, ast.Attribute):
                    return None
                part = self.chosen(view, target)
                return part, 0, part.array.element
            return view, *self._offset(target, start, t)
        return None

    def _offset(self, target: ast.Subscript | ast.Attribute, start: int, t: Any) -> tuple[int, Any]:
        """The first leaf and the type of a part of a compound."""
        if isinstance(target, ast.Attribute):
            if isinstance(t, Struct) and target.attr in t.fields:
                return start + t.start[target.attr], t.fields[target.attr]
            if isinstance(t, Vec | Quat) and len(target.attr) == 1 and target.attr in "xyzw"[: t.n]:
                return start + "xyzw".index(target.attr), t.scalar
            self.fail(target, f"{t} has no '{target.attr}' to assign to")
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        index = [self.expression(p) for p in parts]
        if not all(type(i) is int for i in index):
            self.fail(target.slice, f"a component to assign to has a constant index, not {named(index[0])}")
        if isinstance(t, Vec | Quat) and len(index) == 1 and -t.n <= index[0] < t.n:
            return start + index[0] % t.n, t.scalar
        if isinstance(t, Mat) and all(-t.n <= i < t.n for i in index):
            if len(index) == 2:
                return start + index[0] % t.n * t.n + index[1] % t.n, t.scalar
            return start + index[0] % t.n * t.n, Vec(t.n, t.scalar)
        self.fail(target, f"{t} has no component {', '.join(map(str, index))}")

    def store(self, place: tuple[View, int, Any], x: Any, node: ast.AST) -> None:
        """Write into an array's element."""
        view, start, t = place
        if view.ndim:
            self.fail(node, f"a whole array cannot be assigned: index it with {view.ndim} indices, or write a loop")
        values = leaf_values(self.coerce(x, t, node, f"an element of '{view.name}'")) or []
        self.b.where = self.frame.source.at(node)
        for k, v in enumerate(values):
            args = [*(i for i in view.chosen if i), v]
            self.b.emit("store", args, (), Access(view.name, start + k))

    def _replace_part(self, target: ast.Subscript | ast.Attribute, x: Any) -> None:
        """Assign to a part of a local vector, matrix or structure: the name then stands for a new one."""
        whole = self.expression(_loaded(target.value))
        if not isinstance(whole, Compound):
            instead = ""
            if type(whole) is tuple:
                instead = ": a list or a tuple does not change: use a gk.vec3, or an array that is a parameter"
            elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                name = target.value.id
                instead = f": if '{name}' is an array, write {name}: gk.array(gk.f32) in the first line"
            self.fail(target, f"{named(whole)} has no part that can be assigned{instead}")
        values = list(whole.values)
        dynamic = self._dynamic_index(target, whole)
        if dynamic is not None:
            new = self.value(self.coerce(x, whole.type.leaves[0][0], target, "the component"), target)
            for k, old in enumerate(values):
                is_k = self.b.compare("eq", dynamic, self.b.const(k, dynamic.type))
                values[k] = self.b.call("select", is_k, new, old, type=old.type)
        else:
            start, t = self._offset(target, 0, whole.type)
            new_values = leaf_values(self.coerce(x, t, target, "the part")) or []
            values[start : start + len(new_values)] = [self.value(v, target) for v in new_values]
        self.bind(_stored(target.value), Compound(whole.type, tuple(values)))

    def _dynamic_index(self, target: ast.Subscript | ast.Attribute, whole: Compound) -> Value | None:
        if not isinstance(target, ast.Subscript) or not isinstance(whole.type, Vec | Quat):
            return None
        if isinstance(target.slice, ast.Tuple):
            return None
        i = self.expression(target.slice)
        return i if isinstance(i, Value) and i.type.is_integer else None

    # ---- branches

    def do_if(self, s: ast.If) -> None:
        c = self.condition(self.expression(s.test), s.test)
        if isinstance(c, bool):
            self.block(s.body if c else s.orelse)
            return
        self.branches(c, lambda: self.block(s.body), lambda: self.block(s.orelse), s)

    def branches(self, c: Value, then: Any, otherwise: Any, s: ast.stmt) -> None:
        """An if, and for each name that a branch changes what it stands for after it."""
        before, where = self.names, self.frame.source.at(s)
        regions, after = (Region(), Region()), []
        for region, branch in zip(regions, (then, otherwise), strict=True):
            self.frame.names = dict(before)
            with self.b.inside(region):
                branch()
            after.append(self.names)
        self.b.where = where
        self.frame.names = before
        dead = [names["$live"] is False for names in after]
        merged: dict[str, Any] = {}
        leaves: list[list[Any]] = [[], []]
        for name in dict.fromkeys((*after[0], *after[1])):
            found = [names.get(name) for names in after]
            if found[0] is not None and found[1] is not None and same(*found):
                before[name] = found[0]
                continue
            merged[name] = self._both_sides(name, found, dead, regions, s)
            if leaf_values(merged[name][0]) is not None and not isinstance(merged[name][1], str):
                for side in (0, 1):
                    leaves[side] += leaf_values(merged[name][side]) or []
        types = [v.type for v in leaves[0]]
        for region, values in zip(regions, leaves, strict=True):
            region.yields = values
        results = list(self.b.emit("if", (c,), types, regions=regions).results)
        for name, (x, other) in merged.items():
            if leaf_values(x) is None or isinstance(other, str):
                before[name] = x
                continue
            before[name] = rebuilt(x, results)
            if isinstance(before[name], Value) and not name.startswith("$"):
                before[name].hint = name

    def _both_sides(self, name: str, found: list[Any], dead: list[bool], regions: Any, s: ast.stmt) -> tuple[Any, Any]:
        """What a name is in the two branches, with the same scalars; or one operand, and why it is the only one."""
        for side in (0, 1):
            x = found[side]
            if x is POISON:
                return POISON, "only"
            if x is None or isinstance(x, Undefined):
                other = found[1 - side]
                if (dead[side] or name == "$value") and other is not None and leaf_values(other) is not None:
                    found[side] = self._zeros_like(other, regions[side])
                elif dead[side] and other is not None:
                    return other, "only"
                else:
                    if isinstance(x, Undefined):
                        return x, "only"
                    line = self.frame.source.at(s).line
                    text = f"'{name}' has a value only in one branch of the if in line {line}: give it one before"
                    return Undefined(text), "only"
        for side in (0, 1):
            if dead[side] and leaf_values(found[side]) is None:
                return found[1 - side], "only"
        try:
            self.settle(regions, found, s, f"the values of '{name}' after this if")
        except Problem as problem:
            if name.startswith("$"):
                raise
            return Undefined(problem.text), "only"
        return found[0], found[1]

    def _zeros_like(self, x: Any, region: Region) -> Any:
        with self.b.inside(region):
            values: list[Any] = []
            for v in leaf_values(x) or []:
                values.append(v if is_literal(v) else self.b.const(0, v.type))
        return rebuilt(x, values)

    # ---- leaving

    def do_return(self, s: ast.Return) -> None:
        if self.frame.kernel:
            if s.value is not None and not (isinstance(s.value, ast.Constant) and s.value.value is None):
                self.fail(s, "a kernel returns nothing: write the result into an array that is a parameter")
        elif s.value is not None:
            x = self._bindable(self.raw(s.value), s.value)
            self.names["$value"] = x
        self.names["$live"] = False
        if self.frame.loops:
            self.names["$stop"] = True
            self.names["$returned"] = True

    def do_break(self, s: ast.Break) -> None:
        self.names["$live"], self.names["$stop"] = False, True

    def do_continue(self, s: ast.Continue) -> None:
        self.names["$live"] = False


def _with(s: ast.If, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> ast.If:
    return ast.copy_location(ast.If(test=s.test, body=list(body), orelse=list(orelse)), s)


def _loaded(e: Any) -> Any:
    """A target as an expression."""
    fields = {name: getattr(e, name) for name in e._fields}
    return ast.copy_location(type(e)(**fields | {"ctx": ast.Load()}), e) if "ctx" in fields else e


def _stored(e: Any) -> Any:
    fields = {name: getattr(e, name) for name in e._fields}
    return ast.copy_location(type(e)(**fields | {"ctx": ast.Store()}), e)


def _scalars(t: Any) -> list[Scalar]:
    return [s for s, _ in leaves_of(t)]
