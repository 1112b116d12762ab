"""A program run with NumPy, all threads at once under masks: what the compiled text is compared with, and what runs
where there is no compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geomkit.lang.handles import BoundHandle, Handle
from geomkit.lang.ir import Access, Op, Program, Region, Value, leaves_of
from geomkit.lang.native import NATIVES
from geomkit.lang.operations import OPERATIONS
from geomkit.lang.struct import Struct
from geomkit.lang.types import Array, Scalar

__all__ = ["interpret"]

BLOCK = 4096  # threads at a time


def interpret(
    program: Program, dims: tuple[int, int, int], values: Sequence[Any], grads: dict[str, np.ndarray] | None = None
) -> np.ndarray:
    """Run a program.

    Args:
        program: as it would be emitted.
        dims: of the launch.
        values: the arguments as they are packed: arrays, numbers, bytes of compounds.
        grads: of an adjoint, gradients by the arrays' names, to which is added.

    Returns:
        the sums for the scalar parameters that have gradients.
    """
    sums = np.zeros(max(len(program.slots), 1))
    total = dims[0] * dims[1] * dims[2]
    for start in range(0, total, BLOCK):
        threads = np.arange(start, min(total, start + BLOCK))
        with np.errstate(all="ignore"):
            _Interpreter(program, dims, values, grads or {}, sums, threads).run()
    return sums


class _Stack:
    """For each thread a stack of its own."""

    def __init__(self, n: int, dtype: np.dtype):
        self.rows, self.top = np.zeros((8, n), dtype), np.zeros(n, np.int64)

    def push(self, lanes: np.ndarray, value: np.ndarray) -> None:
        if len(lanes) and self.top.max() + 1 >= len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[self.top[lanes], lanes] = value[lanes]
        self.top[lanes] += 1

    def pop(self, lanes: np.ndarray) -> np.ndarray:
        self.top[lanes] -= 1
        out = np.zeros(self.rows.shape[1], self.rows.dtype)
        out[lanes] = self.rows[self.top[lanes], lanes]
        return out


class _Interpreter:
    def __init__(
        self,
        program: Program,
        dims: tuple[int, int, int],
        values: Any,
        grads: Any,
        sums: np.ndarray,
        threads: np.ndarray,
    ):
        self.program, self.sums, self.n = program, sums, len(threads)
        rest, last = np.divmod(threads, dims[2])
        self.index = [i.astype(np.int32) for i in (*np.divmod(rest, dims[1]), last)]
        self.arrays: dict[str, tuple[np.ndarray, list[np.ndarray]]] = {}
        self.grads: dict[str, list[np.ndarray]] = {}
        self.handles: dict[str, BoundHandle] = {}
        self.program_grads = grads
        self.values: dict[Value, np.ndarray] = {}
        self.stacks: dict[tuple[int, int], _Stack] = {}
        self.slots: dict[int, np.ndarray] = {}
        for p, x in zip(program.parameters, values, strict=True):
            if isinstance(p.type, Handle):
                self.handles[p.name] = x
                continue
            if isinstance(p.type, Array):
                self.arrays[p.name] = x, _leaf_views(p.type, x)
                if p.name in grads:
                    self.grads[p.name] = _leaf_views(p.type, grads[p.name])
                continue
            for v, (scalar, offset) in zip(p.values, leaves_of(p.type), strict=True):
                number = x if isinstance(p.type, Scalar) else np.frombuffer(x, scalar.dtype, 1, offset)[0]
                self.values[v] = np.full(self.n, number, v.type.dtype)

    def run(self) -> None:
        self.region(self.program.body, np.ones(self.n, bool))

    def region(self, region: Region, mask: np.ndarray) -> None:
        for op in region.ops:
            self.op(op, mask)

    def op(self, op: Op, mask: np.ndarray) -> None:
        handler = getattr(self, f"on_{op.kind}", None)
        if op.kind in OPERATIONS:
            t = op.result.type.dtype
            made = OPERATIONS[op.kind].numpy(*(self.values[a] for a in op.args), t)
            self.values[op.result] = np.asarray(made).astype(t, copy=False)
        elif handler is not None:
            handler(op, mask)
        else:
            raise AssertionError(f"no meaning for {op.kind}")

    def on_const(self, op: Op, mask: np.ndarray) -> None:
        self.values[op.result] = np.full(self.n, op.attr, op.result.type.dtype)

    def on_tid(self, op: Op, mask: np.ndarray) -> None:
        self.values[op.result] = self.index[op.attr]

    def on_extent(self, op: Op, mask: np.ndarray) -> None:
        self.values[op.result] = np.full(self.n, self.arrays[op.attr[0]][0].shape[op.attr[1]], np.int32)

    # ---- memory

    def _place(self, access: Access, index: Sequence[Value], mask: np.ndarray, views: Any) -> tuple[Any, Any, Any]:
        view = views[access.array][access.leaf]
        lanes = np.flatnonzero(mask)
        return view, lanes, tuple(self.values[i][lanes] for i in index)

    @property
    def _data(self) -> dict[str, list[np.ndarray]]:
        return {name: views for name, (_, views) in self.arrays.items()}

    def on_load(self, op: Op, mask: np.ndarray) -> None:
        self._read(op, mask, self._data)

    def on_grad_load(self, op: Op, mask: np.ndarray) -> None:
        self._read(op, mask, self.grads)

    def _read(self, op: Op, mask: np.ndarray, views: Any) -> None:
        view, lanes, index = self._place(op.attr, op.args, mask, views)
        out = np.zeros(self.n, op.result.type.dtype)
        out[lanes] = view[index]
        self.values[op.result] = out

    def on_store(self, op: Op, mask: np.ndarray) -> None:
        view, lanes, index = self._place(op.attr, op.args[:-1], mask, self._data)
        view[index] = self.values[op.args[-1]][lanes]

    def on_grad_store(self, op: Op, mask: np.ndarray) -> None:
        view, lanes, index = self._place(op.attr, op.args[:-1], mask, self.grads)
        view[index] = self.values[op.args[-1]][lanes]

    def on_grad_add(self, op: Op, mask: np.ndarray) -> None:
        view, lanes, index = self._place(op.attr, op.args[:-1], mask, self.grads)
        np.add.at(view, index, self.values[op.args[-1]][lanes])

    def on_atomic(self, op: Op, mask: np.ndarray) -> None:
        kind = self.program.arrays[op.attr.array].type
        assert isinstance(kind, Array)
        view, lanes, index = self._place(op.attr, op.args[: kind.ndim], mask, self._data)
        given = [self.values[v] for v in op.args[kind.ndim :]]
        out = np.zeros(self.n, view.dtype)
        for k, lane in enumerate(lanes):
            at = tuple(i[k] for i in index)
            old = out[lane] = view[at]
            new = given[-1][lane]
            how = op.attr.how
            if how == "add":
                view[at] = old + new
            elif how == "sub":
                view[at] = old - new
            elif how in ("min", "max"):
                view[at] = min(old, new) if how == "min" else max(old, new)
            elif how == "exch" or old == given[0][lane]:
                view[at] = new
        if op.results:
            self.values[op.result] = out

    def on_param_grad(self, op: Op, mask: np.ndarray) -> None:
        self.sums[op.attr] += self.values[op.args[0]][mask].astype(np.float64).sum()

    def on_native(self, op: Op, mask: np.ndarray) -> None:
        lanes = np.flatnonzero(mask)
        given = [self.values[v][lanes] for v in op.args]
        found = NATIVES[op.attr.function].interpret(self.handles[op.attr.handle], given)
        for v, x in zip(op.results, found, strict=True):
            self.values[v] = np.zeros(self.n, v.type.dtype)
            self.values[v][lanes] = x

    def on_native_grad(self, op: Op, mask: np.ndarray) -> None:
        self.on_native_adj(op, mask, self.program_grads[op.attr.handle])

    def on_native_adj(self, op: Op, mask: np.ndarray, grad: Any = None) -> None:
        native, lanes = NATIVES[op.attr.function], np.flatnonzero(mask)
        assert native.adjoint is not None
        given = [self.values[v][lanes] for v in op.args]
        first = len(given) - len(native.places(*native.sends))
        split = first - native.count
        found = native.adjoint(self.handles[op.attr.handle], given[:split], given[split:first], given[first:], grad)
        for v, x in zip(op.results, found, strict=True):
            self.values[v] = np.zeros(self.n, v.type.dtype)
            self.values[v][lanes] = x

    # ---- saved state

    def on_push(self, op: Op, mask: np.ndarray) -> None:
        lanes = np.flatnonzero(mask)
        for k, v in enumerate(op.args):
            stack = self.stacks.setdefault((op.attr, k), _Stack(self.n, v.type.dtype))
            stack.push(lanes, self.values[v])

    def on_pop(self, op: Op, mask: np.ndarray) -> None:
        lanes = np.flatnonzero(mask)
        for k, v in enumerate(op.results):
            self.values[v] = self.stacks[op.attr, k].pop(lanes)

    def on_slots(self, op: Op, mask: np.ndarray) -> None:
        site, t, count = op.attr
        self.slots.setdefault(site, np.zeros((count, self.n), t.dtype))

    def on_slot_put(self, op: Op, mask: np.ndarray) -> None:
        lanes = np.flatnonzero(mask)
        self.slots[op.attr][self.values[op.args[0]][lanes], lanes] = self.values[op.args[1]][lanes]

    def on_slot_get(self, op: Op, mask: np.ndarray) -> None:
        lanes = np.flatnonzero(mask)
        out = np.zeros(self.n, op.result.type.dtype)
        out[lanes] = self.slots[op.attr][self.values[op.args[0]][lanes], lanes]
        self.values[op.result] = out

    # ---- control

    def on_if(self, op: Op, mask: np.ndarray) -> None:
        condition = self.values[op.args[0]]
        found: list[list[np.ndarray]] = []
        for region, own in zip(op.regions, (mask & condition, mask & ~condition), strict=True):
            if own.any():
                self.region(region, own)
                found.append([self.values[y] for y in region.yields])
            else:
                found.append([np.zeros(self.n, v.type.dtype) for v in op.results])
        for v, x, y in zip(op.results, *found, strict=True):
            self.values[v] = np.where(condition, x, y)

    def on_for(self, op: Op, mask: np.ndarray) -> None:
        body = op.regions[0]
        index, upper, step = (self.values[a] for a in op.args[:3])
        state = [self.values[v] for v in op.inits]
        while True:
            live = mask & np.where(step > 0, index < upper, index > upper)
            if op.attr == "stop":
                live = live & ~state[-1]
            if not live.any():
                break
            self.values.update(zip(body.params, (index, *state), strict=True))
            self.region(body, live)
            state = [np.where(live, self.values[y], old) for y, old in zip(body.yields, state, strict=True)]
            index = np.where(live, index + step, index)
        self.values.update(zip(op.results, state, strict=True))

    def on_while(self, op: Op, mask: np.ndarray) -> None:
        test, body = op.regions
        state, live = [self.values[v] for v in op.inits], mask
        while True:
            self.values.update(zip(test.params, state, strict=True))
            self.region(test, live)
            live = live & self.values[test.yields[0]]
            if not live.any():
                break
            self.values.update(zip(body.params, state, strict=True))
            self.region(body, live)
            state = [np.where(live, self.values[y], old) for y, old in zip(body.yields, state, strict=True)]
        self.values.update(zip(op.results, state, strict=True))

    def on_assert(self, op: Op, mask: np.ndarray) -> None:
        if not self.values[op.args[0]][mask].all():
            raise AssertionError(op.attr)

    def on_print(self, op: Op, mask: np.ndarray) -> None:
        for lane in np.flatnonzero(mask):
            values = iter([self.values[v][lane] for v in op.args])
            pieces = [p if isinstance(p, str) else " ".join(str(next(values)) for _ in range(p)) for p in op.attr]
            print(*pieces)


def _leaf_views(t: Array, x: np.ndarray) -> list[np.ndarray]:
    """For each scalar of an array's elements, the array of these."""
    element = t.element
    if isinstance(element, Struct):
        return [_field_view(x, scalar.dtype, offset) for scalar, offset in element.leaves]
    if isinstance(element, Scalar):
        return [x]
    assert element is not None
    return [x[(..., *np.unravel_index(k, element.shape))] for k in range(len(element.leaves))]


def _field_view(x: np.ndarray, dtype: np.dtype, offset: int) -> np.ndarray:
    return np.ndarray(x.shape, dtype, x, offset, x.strides)
