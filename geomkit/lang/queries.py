"""The front end: queries of meshes and grids, and the loop over the neighbours of a place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from geomkit.lang.functions import Functions
from geomkit.lang.grid_handle import GridHandle
from geomkit.lang.handles import Handle, HashGridHandle
from geomkit.lang.ir import Value
from geomkit.lang.mesh_handle import MeshHandle
from geomkit.lang.native import NativeCall, record_of
from geomkit.lang.operands import Compound, HandleOf, Static, leaf_values, named
from geomkit.lang.types import Scalar, Vec, boolean, i32

__all__ = ["Queries"]


class Deferred(ast.expr):
    """An expression that the front end writes itself: what it stands for is made when it is read."""

    _fields = ()

    def __init__(self, make: Callable[[], Any]):
        super().__init__()
        self.make = make


class Queries(Functions):
    """Calls of native functions, which take a handle."""

    def statement(self, s: ast.stmt) -> None:
        raise NotImplementedError

    def on_deferred(self, e: Deferred) -> Any:
        return e.make()

    def native(self, function: str, handle: HandleOf, args: Sequence[Value], types: Sequence[Scalar]) -> list[Value]:
        """Call a function of the headers."""
        return self.b.emit("native", args, types, NativeCall(function, handle.name)).results

    def handle(self, x: Any, kind: type[Handle], e: ast.Call, parameter: str) -> HandleOf:
        """An operand that has to be a handle."""
        if isinstance(x, HandleOf) and type(x.type) is kind:
            return x
        public = kind.public.__name__
        text = f"{ast.unparse(e.func)} takes a {public}, not {named(x)}"
        if isinstance(x, Static) and isinstance(x.object, kind.public):
            text = f"a {public} from outside of the kernel cannot be used"
        self.fail(e.args[0] if e.args else e, f"{text}: make it a parameter, {parameter}: gk.{public}")

    def point(self, x: Any, e: ast.Call, what: str = "the point") -> list[Value]:
        """Three numbers of the kernel's precision."""
        return leaf_values(self.coerce(x, Vec(3, self.precision), e, what)) or []

    def number(self, x: Any, e: ast.Call, what: str) -> Value:
        """A number of the kernel's precision."""
        return self.coerce(x, self.precision, e, what)

    def query(self, e: ast.Call, function: str, kind: type[Handle], x: Any, args: list[Value]) -> Any:
        """Call a function of the headers; what it gives is a structure, or a number."""
        handle = self.handle(x, kind, e, "grid" if kind is GridHandle else "mesh")
        t = record_of(function, self.precision)
        values = self.native(function, handle, args, [s for s, _ in t.leaves])
        if len(values) == 1:
            return values[0]
        return Compound(t, tuple(values))

    def call_closest_point_query(self, e: ast.Call, mesh: Any, point: Any, max_distance: Any) -> Any:
        args = [*self.point(point, e), self.number(max_distance, e, "the greatest distance")]
        return self.query(e, "closest_point_query", MeshHandle, mesh, args)

    def call_signed_distance_query(self, e: ast.Call, mesh: Any, point: Any, max_distance: Any) -> Any:
        args = [*self.point(point, e), self.number(max_distance, e, "the greatest distance")]
        return self.query(e, "signed_distance_query", MeshHandle, mesh, args)

    def call_ray_query(self, e: ast.Call, mesh: Any, origin: Any, direction: Any, t_max: Any) -> Any:
        args = [*self.point(origin, e, "the origin"), *self.point(direction, e, "the direction")]
        return self.query(e, "ray_query", MeshHandle, mesh, [*args, self.number(t_max, e, "the greatest t")])

    def call_winding_number_query(self, e: ast.Call, mesh: Any, point: Any) -> Any:
        return self.query(e, "winding_number_query", MeshHandle, mesh, self.point(point, e))

    def call_grid_sample(self, e: ast.Call, grid: Any, point: Any, method: Any) -> Any:
        names = {"linear": "grid_sample", "cubic": "grid_sample_cubic"}
        chosen = method.object if isinstance(method, Static) else method
        if chosen not in names:
            self.fail(e, f"the method is 'linear' or 'cubic', not {named(method)}")
        return self.query(e, names[chosen], GridHandle, grid, self.point(point, e))

    def call_neighbors(self, e: ast.Call, *values: Any) -> Any:
        self.fail(e, f"{ast.unparse(e.func)} is for loops: for j in {ast.unparse(e)}")

    def for_neighbors(self, s: ast.For, call: ast.Call) -> None:
        """for j in gk.neighbors(hash, point, radius): two loops over candidates, those of a row of cells after another,
        and a test."""
        if not isinstance(s.target, ast.Name):
            self.fail(s.target, "neighbours are integers: for j in gk.neighbors(...)")
        x, point, radius = self.arguments(call, ["hash", "point", "radius"])
        grid = self.handle(x, HashGridHandle, call, "hash")
        place = self.point(point, call)
        reach = self.number(radius, call, "the radius")
        rows, *ball = self.native("neighbor_ball", grid, [*place, reach], [i32] * 7)

        def at(node: Any) -> Any:
            return ast.fix_missing_locations(ast.copy_location(node, s))

        def name(stem: str, context: ast.expr_context) -> ast.Name:
            return ast.Name(id=f"${stem}{len(self.frame.names)}", ctx=context)

        def deferred(make: Callable[[], Any]) -> Any:
            return ast.copy_location(Deferred(make), call)

        def bound_to(n: ast.Name) -> Value:
            return self.value(self.names[n.id], call)

        def over(target: ast.Name, bounds: list[ast.expr], body: list[ast.stmt]) -> ast.For:
            function = deferred(lambda: Static(range))
            return ast.For(target=target, iter=ast.Call(func=function, args=bounds, keywords=[]), body=body, orelse=[])

        store = ast.Store()
        row, k, begin, end, left = (name(stem, store) for stem in ("row", "k", "begin", "end", "left"))

        def candidates() -> Any:
            return tuple(self.native("neighbor_row", grid, [bound_to(row), *ball], [i32, i32]))

        def test() -> Value:
            return self.native("neighbor_test", grid, [bound_to(k), *place, reach], [boolean])[0]

        def index() -> Value:
            return self.native("neighbor_index", grid, [bound_to(k)], [i32])[0]

        body, leaves = _noting_breaks(s.body, left.id)
        chosen = ast.Assign(targets=[s.target], value=deferred(index))
        near = ast.If(test=deferred(test), body=[chosen, *body], orelse=[])
        bounds = [deferred(lambda n=n: bound_to(n)) for n in (begin, end)]
        pair = ast.Assign(targets=[ast.Tuple(elts=[begin, end], ctx=store)], value=deferred(candidates))
        outer: list[ast.stmt] = [pair, over(k, bounds, [near])]
        if leaves:
            self.names[left.id] = False
            outer.append(ast.If(test=deferred(lambda: self.names[left.id]), body=[ast.Break()], orelse=[]))
        loop = over(row, [deferred(lambda: rows)], outer)
        self.statement(at(loop))


def _noting_breaks(body: Sequence[ast.stmt], name: str) -> tuple[list[ast.stmt], bool]:
    """Statements of which each break of this loop is noted under a name; and whether there is any."""
    out: list[ast.stmt] = []
    found = False
    for s in body:
        if isinstance(s, ast.Break):
            noted = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=ast.Constant(value=True))
            out += [ast.fix_missing_locations(ast.copy_location(noted, s)), s]
            found = True
        elif isinstance(s, ast.If):
            sides = [_noting_breaks(side, name) for side in (s.body, s.orelse)]
            made = ast.If(test=s.test, body=sides[0][0], orelse=sides[1][0])
            out.append(ast.copy_location(made, s))
            found |= sides[0][1] or sides[1][1]
        else:
            out.append(s)
    return out, found
