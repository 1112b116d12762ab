"""A kernel for one set of types: its programs, and what they are compiled to, each when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from geomkit.lang import launch_cuda
from geomkit.lang.adjoint import adjoint_of
from geomkit.lang.arguments import Packing, address
from geomkit.lang.checks import ERROR, report
from geomkit.lang.compile_cpu import entry_of, has_compiler
from geomkit.lang.emit import Text, emit
from geomkit.lang.interpret import interpret
from geomkit.lang.ir import Program, walk
from geomkit.lang.operations import OPERATIONS
from geomkit.lang.passes.access import called, own, read, written
from geomkit.lang.passes.lower import cleaned, lowered

__all__ = ["Specialization"]

GRAIN = 2048  # threads that one of the pool's takes at a time
LIGHT_GRAIN = 8192  # of kernels that only stream: longer runs of memory
LIGHT = 48  # operations of such a kernel at most


class Backward:
    """An adjoint program, compiled when it is first run.

    Attributes:
        program: it.
        read: the arrays whose values it reads.
    """

    def __init__(self, forward: Specialization, program: Program):
        self.forward, self.program, self.read = forward, program, read(program)
        self.packing = Packing(f"{program.name}", forward.types, slots=bool(program.slots))

    @cached_property
    def text(self) -> Text:
        """The program in C++."""
        return emit(self.program)

    @cached_property
    def entry(self) -> Any:
        """The program on the CPU."""
        return entry_of(self.text)

    def run(
        self,
        dims: tuple[int, int, int],
        values: list[Any],
        grads: dict[str, Any],
        *,
        deterministic: bool = False,
        on_cuda: bool = False,
    ) -> dict[str, np.ndarray]:
        """Launch it: `grads` hold the cotangents of what was written, and gradients are added to them.

        Returns:
            the gradients of the parameters that are no arrays, by name, of their scalars in float64.
        """
        total = dims[0] * dims[1] * dims[2]
        forward, slots = self.forward, self.program.slots
        grain = max(total, 1) if deterministic and not forward.is_ordered(self.program) else GRAIN
        sums = np.zeros((-(-total // grain) + 1, max(len(slots), 1)))
        if on_cuda:
            sums[0] = launch_cuda.adjoint(self, dims, values, grads, deterministic=deterministic)
        elif total and not has_compiler():
            sums[0, : len(slots)] = interpret(self.program, dims, values, grads)[: len(slots)]
        elif total:
            place = address(sums) if slots else 0
            self.entry(self.packing.block(dims, grain, values, grads=grads, slots=place), total, grain)
        found = sums.sum(axis=0)
        out = {p.name: np.zeros(len(p.values)) for p in self.program.parameters if p.values}
        for (name, leaf), g in zip(slots, found, strict=False):
            out[name][leaf] = g
        return out


class Specialization:
    """A kernel for one set of types.

    Attributes:
        program: as the front end made it, simplified.
        written, read: the arrays that it writes into, and that it reads.
        own: those of which each thread touches only the element of its own index.
        packing: how its arguments are passed.
    """

    def __init__(self, program: Program):
        self.program = cleaned(program)
        self.name = program.name
        self.types = {p.name: p.type for p in program.parameters}
        self.rank = program.rank
        self.packing = Packing(self.name, self.types, functions=called(self.program))
        self.written, self.read, self.own = written(self.program), read(self.program), own(self.program)
        self._programs: dict[bool, Program] = {}
        self._texts: dict[bool, Text] = {}
        self._entries: dict[bool, Any] = {}
        self._adjoints: dict[tuple[frozenset[str], int], Backward] = {}

    def forward(self, debug: bool = False) -> Program:
        """What is emitted."""
        if debug not in self._programs:
            self._programs[debug] = lowered(self.program, debug=debug)
        return self._programs[debug]

    def text(self, debug: bool = False) -> Text:
        """The forward program in C++."""
        if debug not in self._texts:
            self._texts[debug] = emit(self.forward(debug), debug=debug)
        return self._texts[debug]

    def entry(self, debug: bool = False) -> Any:
        """The forward program on the CPU."""
        if debug not in self._entries:
            self._entries[debug] = entry_of(self.text(debug), debug=debug)
        return self._entries[debug]

    def adjoint(self, wrt: frozenset[str], slots: int = 0) -> Backward:
        """The adjoint with respect to some arrays, and to the scalar parameters.

        Raises:
            KernelError: there is none; the message says where and why.
        """
        key = wrt, slots
        if key not in self._adjoints:
            self._adjoints[key] = Backward(self, adjoint_of(self.program, wrt, slots=slots))
        return self._adjoints[key]

    @cached_property
    def grain(self) -> int:
        """Threads that one of the pool's takes at a time."""
        ops = list(walk(self.forward().body))
        headers = [OPERATIONS[op.kind].header for op in ops if op.kind in OPERATIONS]
        heavy = any(headers) or any(op.regions or op.kind == "native" for op in ops)
        return GRAIN if heavy or len(ops) > LIGHT else LIGHT_GRAIN

    def is_ordered(self, program: Program) -> bool:
        """Whether no two threads add to one number, so that the order in which they run is not seen."""
        kinds = {(op.kind, getattr(op.attr, "how", "")) for op in walk(program.body)}
        shared = ("atomic", "native_grad")
        return not any(kind in shared or (kind == "grad_add" and how != "exclusive") for kind, how in kinds)

    def run(self, dims: tuple[int, int, int], values: list[Any], *, deterministic: bool = False) -> None:
        """Launch the forward program on the CPU."""
        total = dims[0] * dims[1] * dims[2]
        if not total:
            return
        if not has_compiler():
            interpret(self.forward(), dims, values)
            return
        grain = total if deterministic and not self.is_ordered(self.forward()) else self.grain
        self.entry()(self.packing.block(dims, grain, values), total, grain)

    def run_checked(self, dims: tuple[int, int, int], values: list[Any]) -> None:
        """Launch the forward program on the CPU with checks.

        Raises:
            IndexError: an index is out of bounds.
            FloatingPointError: an operation gave NaN.
            AssertionError: an assertion does not hold.
        """
        total = dims[0] * dims[1] * dims[2]
        if not has_compiler():
            interpret(self.forward(debug=True), dims, values)
        elif total:
            record = np.zeros((), ERROR)
            self.entry(debug=True)(self.packing.block(dims, GRAIN, values, errors=address(record)), total, GRAIN)
            report(self.text(debug=True), record, dims[: self.rank], self.name)
