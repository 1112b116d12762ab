"""The front end: loops, and a whole function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from geomkit.lang.diagnostics import Problem, Problems
from geomkit.lang.handles import Handle, in_precision
from geomkit.lang.ir import Parameter, Program, Region, Value, leaves_of
from geomkit.lang.operands import (
    POISON,
    Compound,
    HandleOf,
    Static,
    Undefined,
    View,
    arithmetic,
    is_literal,
    leaf_values,
    named,
    rebuilt,
    same,
    shape_of,
)  # fmt: skip
from geomkit.lang.scope import Frame, Poisoned
from geomkit.lang.statements import Statements, assigned, leaves_loop
from geomkit.lang.types import Array, Scalar, Type, boolean, f32, f64, i32

__all__ = ["Frontend", "build", "precision_of"]

UNROLLED = 8  # trips of a constant range
COPIES = 400  # nodes of the tree that unrolling may make


class Frontend(Statements):
    """A function of Python's to a program."""

    # ---- loops

    def do_for(self, s: ast.For) -> None:
        if s.orelse:
            self.fail(s.orelse[0], "kernels do not know else after a loop: set a flag before the break")
        callee = self.static(self.raw(s.iter.func)) if isinstance(s.iter, ast.Call) else None
        if isinstance(s.iter, ast.Call) and getattr(callee, "name", "") == "neighbors":
            self.for_neighbors(s, s.iter)
            return
        if not isinstance(s.iter, ast.Call) or callee is not range:
            self._for_items(s)
            return
        if not isinstance(s.target, ast.Name):
            self.fail(s.target, "a range gives one integer: for i in range(n)")
        if s.iter.keywords or not 1 <= len(s.iter.args) <= 3:
            self.fail(s.iter, "range takes one to three integers")
        bounds = [self._bound(a) for a in s.iter.args]
        if len(bounds) == 1:
            bounds = [0, *bounds]
        span = (*bounds, 1)[:3]
        lower, upper, step = span
        if step == 0 and is_literal(step):
            self.fail(s.iter, "a range's step is not zero")
        if all(type(b) is int for b in (lower, upper, step)):
            trips = range(lower, upper, step)
            if not leaves_loop(s.body) and len(trips) <= UNROLLED and len(trips) * _size(s.body) <= COPIES:
                self._unrolled(s, trips)
                return
        kind: Scalar = next((b.type for b in (lower, upper, step) if isinstance(b, Value)), i32)
        values: list[Value] = []
        for bound in span:
            values.append(self.literal(bound, kind, s.iter) if is_literal(bound) else self.value(bound, s.iter))
        for v, a in zip(values, s.iter.args, strict=False):
            if v.type is not kind:
                self.fail(a, f"the bounds of a range are {kind} and {v.type}: write gk.{kind}(...)")
        self._loop(s, s.body, (s.target.id, values))

    def _bound(self, e: ast.expr) -> Any:
        x = self.expression(e)
        if type(x) is int:
            return x
        if isinstance(x, Value) and x.type.is_integer:
            return x
        hint = f": write len({ast.unparse(e)})" if isinstance(x, View) else ": write int(...)"
        self.fail(e, f"range takes integers, not {named(x)}{hint}")

    def _for_items(self, s: ast.For) -> None:
        x = self.expression(s.iter)
        if isinstance(x, View):
            self.fail(s.iter, f"{named(x)} is not looped over: write for i in range(len({ast.unparse(s.iter)}))")
        if type(x) is not tuple:
            self.fail(s.iter, f"loops go over range(...) or a tuple, not {named(x)}")
        if leaves_loop(s.body):
            self.fail(s, "a loop over a tuple is unrolled, so that it cannot be left: use a flag, or range")
        self._unrolled(s, x)

    def _unrolled(self, s: ast.For, items: Sequence[Any]) -> None:
        live = self.names["$live"]
        for item in items:
            self.names["$live"] = True
            self.bind(s.target, item)
            self.frame.loops += 1
            self.block(s.body)
            self.frame.loops -= 1
        self.names["$live"] = live

    def do_while(self, s: ast.While) -> None:
        if s.orelse:
            self.fail(s.orelse[0], "kernels do not know else after a loop: set a flag before the break")
        self._loop(s, s.body, None)

    def _loop(self, s: ast.For | ast.While, body: Sequence[ast.stmt], over: tuple[str, list[Value]] | None) -> None:
        stops = leaves_loop(body)
        returns = any(isinstance(n, ast.Return) for x in body for n in ast.walk(x))
        before = self.names
        changed = {name: node for name, node in assigned(body).items() if name in before}
        if over:
            changed.pop(over[0], None)
        if returns:
            changed["$returned"] = s
            if not self.frame.kernel:
                if "$value" not in before:
                    before["$value"] = self._value_of_return(s, body, over)
                changed["$value"] = s
        carried: dict[str, Any] = {}
        for name in changed:
            x = before[name]
            if x is POISON or isinstance(x, Undefined):
                continue
            leaves = leaf_values(x)
            if leaves is None:
                carried[name] = x  # must not change; checked at the end of the body
                continue
            carried[name] = rebuilt(x, [self.literal(v, self.default(v), s) if is_literal(v) else v for v in leaves])
        where = self.frame.source.at(s)
        loose = {name: x for name, x in carried.items() if leaf_values(x) is not None}
        inits = [v for x in loose.values() for v in leaf_values(x) or []]
        if stops:
            inits.append(self.b.const(False, boolean))

        def entered(index: Value | None) -> tuple[Region, dict[str, Any]]:
            """A region of the loop, and the names in it."""
            params = [Value(v.type) for v in inits]
            names, rest = dict(before), list(params)
            for name, x in loose.items():
                names[name] = rebuilt(x, rest)
                for v, literal in zip(leaf_values(names[name]) or [], leaf_values(before[name]) or [], strict=True):
                    v.hint = v.hint or (name if not name.startswith("$") else "")
                    if is_literal(literal) and not isinstance(literal, bool):
                        self.literals[v] = name, literal
            names["$live"], names["$stop"] = True, rest[0] if stops else False
            if index is not None and over is not None:
                index.hint = over[0]
                names[over[0]] = index
            return Region([*([index] if index is not None else []), *params]), names

        index = Value(over[1][0].type) if over else None
        region, names = entered(index)
        names["$stop"] = False
        after = self._body(region, names, body)
        yields: list[Any] = []
        for name, x in carried.items():
            yields += self._carried_on(name, x, after.get(name), region, changed[name])
        if stops:
            with self.b.inside(region):
                yields.append(self.value(after["$stop"], s))
        region.yields = yields
        types = [v.type for v in inits]
        self.b.where = where
        if over:
            op = self.b.emit("for", [*over[1], *inits], types, "stop" if stops else None, (region,))
        else:
            test, test_names = entered(None)
            assert isinstance(s, ast.While)
            with self.b.inside(test):
                self.frame.names = test_names
                test.yields = [self._test(s, test_names["$stop"] if stops else None)]
                self.frame.names = before
            op = self.b.emit("while", inits, types, None, (test, region))
        self._leave(s, body, before, after, loose, op.results, returns)

    def _body(self, region: Region, names: dict[str, Any], body: Sequence[ast.stmt]) -> dict[str, Any]:
        before, self.frame.names = self.frame.names, names
        self.frame.loops += 1
        with self.b.inside(region):
            self.block(body)
        self.frame.loops -= 1
        after, self.frame.names = self.frame.names, before
        return after

    def _test(self, s: ast.While, stop: Value | None) -> Value:
        """The condition of a while, not asked again after a break."""

        def asked() -> Any:
            return self.condition(self.expression(s.test), s.test)

        try:
            if stop is None:
                return self.value(asked(), s.test)
            return self.value(self._both(self.b.call("not", stop), asked, is_and=True), s.test)
        except Problem as problem:
            self.problems.add(problem)
        except Poisoned:
            pass
        return self.b.const(False, boolean)

    def _carried_on(self, name: str, x: Any, found: Any, region: Region, node: ast.AST) -> list[Any]:
        """What a loop's body makes of a name, as the next iteration takes it."""
        if found is POISON or found is None:
            return leaf_values(x) or []
        leaves = leaf_values(x)
        try:
            if isinstance(found, Undefined):
                self.fail(node, found.reason)
            if leaves is None:
                if not same(x, found):
                    self.fail(node, f"'{name}' stands for {named(x)} before the loop and for something else in it: "
                                    "use another name in the loop")  # fmt: skip
                return []
            if shape_of(found) != shape_of(x):
                self.fail(node, f"'{name}' is {named(x)} before the loop and {named(found)} in it: give it one type")
            out = []
            with self.b.inside(region):
                for old, new in zip(leaves, leaf_values(found) or [], strict=True):
                    if is_literal(new):
                        new = self._literal_in_loop(name, old, new, node)
                    elif new.type is not old.type:
                        self.fail(node, self._changed_type(name, old, new))
                    out.append(new)
            return out
        except Problem as problem:
            self.problems.add(problem)
            return leaves or []

    def _literal_in_loop(self, name: str, old: Value, new: Any, node: ast.AST) -> Value:
        if isinstance(new, float) and old.type.is_integer:
            self.fail(node, f"'{name}' is {old.type} before the loop and {new} in it: write {name} = 0.0 before it")
        return self.literal(new, old.type, node)

    def _changed_type(self, name: str, old: Value, new: Value) -> str:
        literal = old.constant
        if literal is not None and new.type.is_float:
            good = f"{float(literal)}" if new.type is self.precision else f"gk.{new.type}({literal})"
            return f"'{name}' starts as {old.type} before the loop and becomes {new.type} in it: write {name} = {good}"
        return f"'{name}' is {old.type} before the loop and {new.type} in it: write gk.{old.type}(...) in the loop"

    def _leave(
        self, s: Any, body: Any, before: dict, after: dict, loose: dict, results: list[Value], returns: bool
    ) -> None:
        """Names after a loop."""
        line = self.frame.source.at(s).line
        rest = list(results)
        for name, x in loose.items():
            before[name] = rebuilt(x, rest)
            if isinstance(before[name], Value) and not name.startswith("$"):
                before[name].hint = name
        counter = s.target.id if isinstance(s, ast.For) and isinstance(s.target, ast.Name) else ""
        for name in dict.fromkeys([*assigned(body), *([counter] if counter else [])]):
            if name == counter:
                before[name] = Undefined(f"'{name}' counts the loop in line {line}: after it, use another name")
            elif name not in loose and (name not in before or isinstance(before[name], Undefined)):
                if after.get(name) is POISON:
                    before[name] = POISON
                else:
                    text = f"'{name}' has a value only inside of the loop in line {line}: give it one before the loop"
                    before[name] = Undefined(text)
        if returns:
            live = self.names["$returned"]
            self.names["$live"] = self.b.call("not", live)
            if self.frame.loops:
                self.names["$stop"] = live

    def _value_of_return(self, s: Any, body: Any, over: Any) -> Any:
        """A first value for what is returned from within a loop: its types are those that a trial finds."""
        problems, self.problems = self.problems, Problems("")
        names = dict(self.names)
        if over:
            names[over[0]] = Value(over[1][0].type)
        names |= {"$live": True, "$stop": False}
        for name in assigned(body):
            leaves = leaf_values(names.get(name, POISON))
            if leaves is not None:
                types = [self.default(v) if is_literal(v) else v.type for v in leaves]
                names[name] = rebuilt(names[name], [Value(t) for t in types])
        after = self._body(Region(), names, body)
        found, self.problems = self.problems.found, problems
        x = after.get("$value", POISON)
        leaves = leaf_values(x)
        if leaves is None and not found:
            self.fail(s, "what is returned from within a loop is a number, a vector, a structure or a tuple of them")
        if leaves is None:
            problems.found += found
            raise Poisoned
        zeros = [self.b.const(0, self.default(v) if is_literal(v) else v.type) for v in leaves]
        return rebuilt(x, list(zeros))

    # ---- functions

    def body_of(self, function: Any, names: dict[str, Any], e: ast.AST) -> Any:
        """What a function returns; an error in it is shown at its own line."""
        where = self.b.where
        frame = Frame(function.source, kernel=False)
        frame.names |= names
        before = len(self.problems.found)
        self.frames.append(frame)
        self.block(function.source.tree.body)
        self.frames.pop()
        self.b.where = where
        found, live = frame.names.get("$value"), frame.names["$live"]
        if len(self.problems.found) > before or found is POISON:
            raise Poisoned
        if found is None:
            return Static(None)
        if isinstance(found, Undefined) or live is not False and not self._returned_always(function.source.tree.body):
            self.fail(e, f"'{function.source.name}' may end without a return: return a value at its end")
        return found

    @staticmethod
    def _returned_always(body: Sequence[ast.stmt]) -> bool:
        last = body[-1]
        if isinstance(last, ast.If):
            both = bool(last.orelse) and bool(last.body)
            return both and Frontend._returned_always(last.body) and Frontend._returned_always(last.orelse)
        return isinstance(last, ast.Return)


def _size(body: Sequence[ast.stmt]) -> int:
    """Nodes of the tree, those of inner loops over constant ranges as often as they run."""
    total = 0
    for s in body:
        inner = 1
        if isinstance(s, ast.For) and isinstance(s.iter, ast.Call):
            bounds = [a.value for a in s.iter.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
            inner = bounds[-1] if bounds and len(bounds) == len(s.iter.args) else COPIES
            total += max(1, inner) * _size(s.body)
        else:
            total += sum(1 for _ in ast.walk(s))
    return total


def precision_of(types: dict[str, Type]) -> Scalar:
    """The precision of a kernel's literals: f64 where all its floating parameters are f64."""
    kinds: set[Scalar] = set()
    for t in types.values():
        element = t.element if isinstance(t, Array) else t
        if element is not None and not isinstance(t, Handle):
            kinds |= {s for s, _ in leaves_of(element) if s.is_float}
    return f64 if kinds == {f64} else f32


def build(function: Any, types: dict[str, Type], strided: frozenset[str] = frozenset()) -> Program:
    """The program of a kernel for parameters of these types.

    Args:
        function: the kernel, read but without types.
        types: of all parameters.
        strided: the arrays that have strides of their own.

    Raises:
        KernelError: it cannot be compiled.
    """
    source = function.source
    problems = Problems(source.name)
    precision = precision_of(types)
    types = {name: in_precision(t, precision) for name, t in types.items()}
    front = Frontend(problems, precision)
    frame = Frame(source, kernel=True)
    front.frames.append(frame)
    body = front.b.region
    for name, t in types.items():
        if isinstance(t, Array):
            p = Parameter(name, t, (), name not in strided)
            frame.names[name] = View(name, t, (None,) * t.ndim)
        elif isinstance(t, Handle):
            p = Parameter(name, t)
            frame.names[name] = HandleOf(name, t)
        else:
            values = tuple(Value(arithmetic(s), hint=name) for s, _ in leaves_of(t))
            p = Parameter(name, t, values)
            frame.names[name] = values[0] if isinstance(t, Scalar) else Compound(t, values)  # pyright: ignore
        front.parameters[name] = p
    arrays = {name: p for name, p in front.parameters.items() if isinstance(p.type, Array | Handle)}
    every, front.parameters = list(front.parameters.values()), arrays
    front.block(source.tree.body)
    problems.check()
    return Program(source.name, every, body, front.rank or 1, source.at(source.tree))


