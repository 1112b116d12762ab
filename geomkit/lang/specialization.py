"""A kernel for one set of types: its programs, and what they are compiled to, each when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from geomkit.lang.arguments import Packing
from geomkit.lang.compile_cpu import entry_of, has_compiler
from geomkit.lang.emit import Text, emit
from geomkit.lang.ir import Program
from geomkit.lang.passes.access import read, written
from geomkit.lang.passes.lower import cleaned, lowered

__all__ = ["Specialization"]

GRAIN = 2048  # threads that one of the pool's takes at a time


class Specialization:
    """A kernel for one set of types.

    Attributes:
        program: as the front end made it, simplified.
        written, read: the arrays that it writes into, and that it reads.
        packing: how its arguments are passed.
    """

    def __init__(self, program: Program):
        self.program = cleaned(program)
        self.name = program.name
        self.types = {p.name: p.type for p in program.parameters}
        self.rank = program.rank
        self.packing = Packing(self.name, self.types)
        self.written, self.read = written(self.program), read(self.program)
        self._programs: dict[bool, Program] = {}
        self._texts: dict[bool, Text] = {}
        self._entries: dict[bool, Any] = {}

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

    @cached_property
    def is_compiled(self) -> bool:
        """Whether there is a compiler."""
        return has_compiler()
