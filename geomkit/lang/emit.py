"""A program as C++ text: the same for the CPU's compilers and for NVRTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from geomkit.lang.diagnostics import Location
from geomkit.lang.handles import Handle
from geomkit.lang.ir import Access, Op, Program, Region, Value, leaves_of, walk
from geomkit.lang.literal import literal
from geomkit.lang.operations import OPERATIONS
from geomkit.lang.struct import Struct
from geomkit.lang.types import Array, Scalar, boolean, f16, f32, f64

__all__ = ["Site", "Text", "emit"]

_RESERVED = frozenset(
    "alignas alignof and asm auto bool break case catch char class const constexpr continue decltype "
    "default delete do double else enum explicit export extern false float for friend goto if inline int "
    "long mutable namespace new noexcept not nullptr operator or private protected public register return "
    "short signed sizeof static struct switch template this throw true try typedef typeid typename union "
    "unsigned using virtual void volatile while xor args stack thread half launch i0 i1 i2 gk gkl main".split()
)


class Site(NamedTuple):
    """A place that debug mode checks: what is checked there, and the array or the message."""

    kind: str
    where: Location | None
    name: str


class Text(NamedTuple):
    """C++ text, the name of its entry, and what debug mode checks in it, in the order of the sites' numbers."""

    text: str
    entry: str
    sites: tuple[Site, ...]


def emit(program: Program, *, debug: bool = False) -> Text:
    """The C++ text of a program."""
    return _Emitter(program, debug).text()


class _Emitter:
    def __init__(self, program: Program, debug: bool):
        self.program, self.debug = program, debug
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: dict[str, int] = {}
        self.sites: list[Site] = []
        self.depth = 1
        ops = list(walk(program.body))
        self.kinds = {op.kind for op in ops}
        headers = {OPERATIONS[op.kind].header for op in ops if op.kind in OPERATIONS} - {""}
        headers |= {p.type.header for p in program.parameters if isinstance(p.type, Handle)}
        self.headers = ["kernel.h", *(["stack.h"] if "push" in self.kinds else []), *sorted(headers, reverse=True)]
        self.arrays = program.arrays

    # ---- the frame

    def text(self) -> Text:
        p, entry = self.program, f"gk_{_ascii(self.program.name)}"
        fields = "".join(f"    {self._field(q)}\n" for q in p.parameters)
        if p.slots:
            fields += "    double* scalar_grads;\n"
        sums = "".join(f", double& sum{k}" for k in range(len(p.slots)))
        stack = ", gk::Stack& stack" if "push" in self.kinds else ""
        indices = ", ".join(f"int i{k}" for k in range(p.rank))
        self._load_parameters()
        self.region(p.body)
        thread = f"GK_FN void {entry}_thread(const {entry}_args& args, {indices}{stack}{sums}) {{\n"
        head = self._precision() + "".join(f'#include "{h}"\n' for h in self.headers)
        body = "\n".join(self.lines)
        frame = f"{head}\nstruct {entry}_args {{\n    gk::Launch launch;\n{fields}}};\n\n{thread}{body}\n}}\n"
        if self.debug:
            frame += '#line 1 "launch"\n'
        return Text(f"{frame}\n{self._entries(entry)}", entry, tuple(self.sites))

    def _precision(self) -> str:
        """What the headers take for their real numbers."""
        is_double = any(p.type.scalar is f64 for p in self.program.parameters if isinstance(p.type, Handle))
        return "#define GK_REAL double\n" if is_double else ""

    def _field(self, p: Any) -> str:
        name = _identifier(p.name)
        if isinstance(p.type, Handle):
            return f"{p.type.c} {name};"
        if isinstance(p.type, Array):
            return f"gk::Array {name};"
        if isinstance(p.type, Scalar):
            return f"{p.type.c} {name};"
        alignment = max(s.size for s, _ in p.type.leaves)
        return f"alignas({alignment}) unsigned char {name}[{p.type.size}];"

    def _load_parameters(self) -> None:
        used = {v for op in walk(self.program.body) for v in (*op.args, *(y for r in op.regions for y in r.yields))}
        for p in self.program.parameters:
            name = _identifier(p.name)
            for v, (scalar, offset) in zip(p.values, leaves_of(p.type) if p.values else (), strict=True):
                if v not in used:
                    continue
                if isinstance(p.type, Scalar):
                    read = f"args.{name}"
                else:
                    read = f"gk::read<{scalar.c}>(args.{name} + {offset})"
                if scalar is f16:
                    read = f"gk::widened({read})"
                self.line(f"const {v.type.c} {self.define(v)} = {read};")

    def _entries(self, entry: str) -> str:
        p = self.program
        stack = "push" in self.kinds
        sums = "".join(f", sum{k}" for k in range(len(p.slots)))
        declared = "    double " + ", ".join(f"sum{k} = 0" for k in range(len(p.slots))) + ";\n" if p.slots else ""
        indices = {1: "t", 2: "t / d1, t % d1", 3: "t / (d1 * d2), t / d2 % d1, t % d2"}[p.rank]
        dims = "".join(f"    const int d{k} = args.launch.dim[{k}];\n" for k in range(p.rank))
        total = " * ".join(f"d{k}" for k in range(p.rank))
        added = "".join(
            f"    if (sum{k} != 0) ::atomicAdd(args.scalar_grads + {k}, sum{k});\n" for k in range(len(p.slots))
        )
        kept = "".join(
            f"    args.scalar_grads[(long long)(begin / args.launch.grain) * {len(p.slots)} + {k}] = sum{k};\n"
            for k in range(len(p.slots))
        )
        gpu = (
            f"#if GK_GPU\nextern \"C\" __global__ void {entry}(const {entry}_args args) {{\n{dims}{declared}"
            f"    for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < {total}; t += gridDim.x * blockDim.x)\n"
            f"        {entry}_thread(args, {indices}{sums});\n{added}}}\n"
        )
        simd = self._simd()
        pragma = ""
        if simd:
            reduction = f" reduction(+ : {', '.join(f'sum{k}' for k in range(len(p.slots)))})" if p.slots else ""
            pragma = f"#pragma omp simd{reduction}\n"
        passed = (", stack" if stack else "") + sums
        local = ("    gk::Stack stack;\n" if stack else "") + declared
        copy = f"    const {entry}_args args = *(const {entry}_args*)block;\n"
        cpu = f'#else\nextern "C" void {entry}(const void* block, int begin, int end) {{\n{copy}{local}'
        if p.rank == 1:
            cpu += f"{pragma}    for (int t = begin; t < end; ++t) {entry}_thread(args, t{passed});\n"
        else:
            last = p.rank - 1
            outer = {2: "row", 3: "row / d1, row % d1"}[p.rank]
            cpu += (
                f"{dims}    int row = begin / d{last}, first = begin % d{last};\n"
                f"    for (int t = begin; t < end; ++row, first = 0) {{\n"
                f"        const int last = end - t < d{last} - first ? first + (end - t) : d{last};\n{pragma}"
                f"        for (int i = first; i < last; ++i) {entry}_thread(args, {outer}, i{passed});\n"
                f"        t += last - first;\n    }}\n"
            )
            cpu = cpu if p.rank == 3 else cpu.replace("    const int d0 = args.launch.dim[0];\n", "")
            cpu = cpu.replace("    const int d0 = args.launch.dim[0];\n", "")
        return f"{gpu}{cpu}{kept}}}\n#endif\n"

    def _simd(self) -> bool:
        """Whether a compiler may run threads in the lanes of a register: they have no order, but atomics and the stack
        need one thread at a time."""
        ordered = {"atomic", "native", "native_adj", "native_grad", "push", "while", "slots"}
        return not self.debug and not self.kinds & ordered and not self._scatters()

    def _scatters(self) -> bool:
        return any(op.kind == "grad_add" and op.attr.how != "exclusive" for op in walk(self.program.body))

    # ---- names

    def define(self, v: Value) -> str:
        """A new name for a value."""
        stem = re.sub(r"[^A-Za-z0-9_]", "", v.hint) or "v"
        number = self.taken.get(stem, 0)
        self.taken[stem] = number + 1
        plain = stem if stem != "v" and not number and stem not in _RESERVED and not stem.startswith("gk") else ""
        if plain and plain in self.arrays:
            plain = ""
        self.names[v] = plain or f"{stem}_{number}"
        return self.names[v]

    def name(self, v: Value) -> str:
        if v.op is not None and v.op.kind == "const":
            return literal(v.op.attr, v.type)
        return self.names[v]

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # ---- operations

    def region(self, region: Region) -> None:
        for op in region.ops:
            if op.kind == "const":
                continue
            if self.debug and op.where is not None and not op.regions:
                file = op.where.source.file.replace("\\", "\\\\").replace('"', '\\"')
                before = len(self.lines)
                self._op(op)
                # A line directive counts on, so that it is repeated for each line.
                directive = f'#line {op.where.line} "{file}"'
                self.lines[before:] = [part for text in self.lines[before:] for part in (directive, text)]
            else:
                self._op(op)

    def _op(self, op: Op) -> None:
        handler = getattr(self, f"on_{op.kind}", None)
        if op.kind in OPERATIONS:
            args = [self.name(a) for a in op.args]
            self._define(op, OPERATIONS[op.kind].c.format(*args, t=op.result.type.c))
        else:
            assert handler is not None, f"no text for {op.kind}"
            handler(op)

    def _define(self, op: Op, text: str) -> None:
        v = op.result
        if op.kind in OPERATIONS and v.type.bits < 32 and v.type is not boolean:
            text = f"({v.type.c})({text})"
        self.line(f"const {v.type.c} {self.define(v)} = {text};")
        if self.debug and v.type.is_float and op.kind not in ("stop", "select", "neg", "abs"):
            self._site("nan", op, v.hint)
            self.line(f"if ({self.names[v]} != {self.names[v]}) {{ {self._fail('0, 0')} return; }}")

    def _site(self, kind: str, op: Op, name: str) -> None:
        self.sites.append(Site(kind, op.where, name))

    def _fail(self, numbers: str) -> str:
        return f"gk::fail(args.launch, {len(self.sites) - 1}, {numbers}, {self._thread()});"

    def _thread(self) -> str:
        return {1: "i0", 2: "i0 * args.launch.dim[1] + i1",
                3: "(i0 * args.launch.dim[1] + i1) * args.launch.dim[2] + i2"}[self.program.rank]  # fmt: skip

    def on_tid(self, op: Op) -> None:
        self._define(op, f"i{op.attr}")

    def on_extent(self, op: Op) -> None:
        self._define(op, f"(int)args.{_identifier(op.attr[0])}.shape[{op.attr[1]}]")

    # ---- memory

    def _element(self, access: Access, index: list[Value], *, grad: bool) -> tuple[str, Scalar]:
        """An lvalue in an array, and its type."""
        p = self.arrays[access.array]
        kind, field = p.type, f"args.{_identifier(p.name)}"
        assert isinstance(kind, Array)
        leaves = leaves_of(kind.element)
        scalar, offset = leaves[access.leaf]
        names = [self.name(i) for i in index]
        if grad:
            scalar = f32 if scalar is f16 else scalar
            base, n, leaf = f"(({scalar.c}*){field}.grad)", len(leaves), access.leaf
            if isinstance(kind.element, Struct):
                size = kind.element.size
                return f"gk::at<{scalar.c}>({field}.grad, {_flat(field, names)} * {size} + {offset})", scalar
        elif not p.contiguous:
            terms = " + ".join(f"{i} * {field}.stride[{k}]" for k, i in enumerate(names))
            return f"gk::at<{scalar.c}>({field}.data, {terms} + {offset})", scalar
        elif isinstance(kind.element, Struct):
            return f"gk::at<{scalar.c}>({field}.data, {_flat(field, names)} * {kind.element.size} + {offset})", scalar
        else:
            base, n, leaf = f"(({scalar.c}*){field}.data)", len(leaves), access.leaf
        if n == 1 and len(names) == 1:
            return f"{base}[{names[0]}]", scalar
        return f"{base}[{_flat(field, names)}" + (f" * {n} + {leaf}]" if n > 1 else "]"), scalar

    def _check(self, op: Op, index: list[Value]) -> None:
        if not self.debug:
            return
        field = f"args.{_identifier(op.attr.array)}"
        for k, i in enumerate(index):
            self._site("bounds", op, f"axis {k} of '{op.attr.array}'" if len(index) > 1 else f"'{op.attr.array}'")
            self.line(
                f"if (gk::outside(args.launch, {len(self.sites) - 1}, {self.name(i)}, {field}.shape[{k}], "
                f"{self._thread()})) return;"
            )

    def _indices(self, op: Op) -> list[Value]:
        kind = self.arrays[op.attr.array].type
        assert isinstance(kind, Array)
        return op.args[: kind.ndim]

    def on_load(self, op: Op) -> None:
        self._check(op, self._indices(op))
        place, scalar = self._element(op.attr, self._indices(op), grad=False)
        self._define(op, f"gk::widened({place})" if scalar is f16 else place)

    def on_store(self, op: Op) -> None:
        self._check(op, self._indices(op))
        place, scalar = self._element(op.attr, self._indices(op), grad=False)
        value = self.name(op.args[-1])
        self.line(f"{place} = {f'gk::narrowed({value})' if scalar is f16 else value};")

    def on_atomic(self, op: Op) -> None:
        self._check(op, self._indices(op))
        place, _ = self._element(op.attr, self._indices(op), grad=False)
        values = ", ".join(map(self.name, op.args[len(self._indices(op)) :]))
        text = f"gk::atomic_{op.attr.how}(&{place}, {values})"
        if op.results:
            self._define(op, text)
        else:
            self.line(f"{text};")

    def on_grad_load(self, op: Op) -> None:
        self._define(op, self._element(op.attr, op.args, grad=True)[0])

    def on_grad_store(self, op: Op) -> None:
        self.line(f"{self._element(op.attr, op.args[:-1], grad=True)[0]} = {self.name(op.args[-1])};")

    def on_grad_add(self, op: Op) -> None:
        place, _ = self._element(op.attr, op.args[:-1], grad=True)
        value = self.name(op.args[-1])
        own = op.attr.how == "exclusive"
        self.line(f"{place} += {value};" if own else f"gk::atomic_add(&{place}, {value});")

    def on_param_grad(self, op: Op) -> None:
        self.line(f"sum{op.attr} += {self.name(op.args[0])};")

    def on_native_adj(self, op: Op) -> None:
        self.on_native(op, "adj_")

    def on_native_grad(self, op: Op) -> None:
        self.on_native(op, "adj_")

    def on_native(self, op: Op, prefix: str = "") -> None:
        results = [self.define(v) for v in op.results]
        for v, name in zip(op.results, results, strict=True):
            self.line(f"{v.type.c} {name};")
        given = [f"args.{_identifier(op.attr.handle)}", *map(self.name, op.args), *results]
        self.line(f"gk::{prefix}{op.attr.function}({', '.join(given)});")

    # ---- saved state

    def on_push(self, op: Op) -> None:
        for v in op.args:
            self.line(f"stack.push<{v.type.c}>({self.name(v)});")

    def on_pop(self, op: Op) -> None:
        for v in reversed(op.results):
            self.line(f"const {v.type.c} {self.define(v)} = stack.pop<{v.type.c}>();")

    def on_lost(self, op: Op) -> None:
        raise AssertionError("the result of an atomic is asked for")

    def on_slots(self, op: Op) -> None:
        self.line(f"{op.attr[1].c} slots{op.attr[0]}[{op.attr[2]}];")

    def on_slot_put(self, op: Op) -> None:
        self.line(f"slots{op.attr}[{self.name(op.args[0])}] = {self.name(op.args[1])};")

    def on_slot_get(self, op: Op) -> None:
        self._define(op, f"slots{op.attr}[{self.name(op.args[0])}]")

    # ---- control

    def _assign(self, targets: Iterable[str], values: list[Value]) -> None:
        pairs = [(t, self.name(v)) for t, v in zip(targets, values, strict=True)]
        pairs = [(t, v) for t, v in pairs if t != v]
        changed = {t for t, _ in pairs}
        if any(v in changed for _, v in pairs):
            first = self.taken.get("next", 0)
            self.taken["next"] = first + len(pairs)
            for k, (_, v) in enumerate(pairs):
                self.line(f"const auto next_{first + k} = {v};")
            pairs = [(t, f"next_{first + k}") for k, (t, _) in enumerate(pairs)]
        for t, v in pairs:
            self.line(f"{t} = {v};")

    def on_if(self, op: Op) -> None:
        for v in op.results:
            self.line(f"{v.type.c} {self.define(v)};")
        names = [self.names[v] for v in op.results]
        self.line(f"if ({self.name(op.args[0])}) {{")
        for k, region in enumerate(op.regions):
            if k and not region.ops and not region.yields:
                break
            if k:
                self.line("} else {")
            self.depth += 1
            self.region(region)
            self._assign(names, region.yields)
            self.depth -= 1
        self.line("}")

    def _carried(self, op: Op) -> list[str]:
        """Variables for what a loop carries, with their first values."""
        inits = [self.name(v) for v in op.inits]
        names = []
        for v, init in zip(op.carried, inits, strict=True):
            names.append(self.define(v))
            self.line(f"{v.type.c} {names[-1]} = {init};")
        for v, n in zip(op.results, names, strict=True):
            self.names[v] = n
        return names

    def _loop(self, head: str) -> None:
        """Begin a loop. For sm_100 and above NVRTC does not end when it unrolls some of an adjoint with checkpoints."""
        if "slots" in self.kinds:
            self.line("#pragma unroll 1")
        self.line(head)
        self.depth += 1

    def on_for(self, op: Op) -> None:
        body = op.regions[0]
        names = self._carried(op)
        lower, upper, step = map(self.name, op.args[:3])
        index, sign = body.params[0], op.args[2].constant
        i = self.define(index)
        test = f"({step} > 0 ? {i} < {upper} : {i} > {upper})"
        if sign is not None:
            test = f"{i} {'<' if sign > 0 else '>'} {upper}"
        if op.attr == "stop":
            test = f"{test} && !{names[-1]}"
        self._loop(f"for ({index.type.c} {i} = {lower}; {test}; {i} += {step}) {{")
        self.region(body)
        self._assign(names, body.yields)
        self.depth -= 1
        self.line("}")

    def on_while(self, op: Op) -> None:
        names = self._carried(op)
        test, body = op.regions
        for v, n in zip(test.params, names, strict=True):
            self.names[v] = n
        self._loop("for (;;) {")
        self.region(test)
        self.line(f"if (!{self.name(test.yields[0])}) break;")
        self.region(body)
        self._assign(names, body.yields)
        self.depth -= 1
        self.line("}")

    # ---- debug

    def on_assert(self, op: Op) -> None:
        if self.debug:
            self._site("assert", op, op.attr)
            self.line(f"if (!{self.name(op.args[0])}) {{ {self._fail('0, 0')} return; }}")

    def on_print(self, op: Op) -> None:
        if not self.debug:
            return
        if "print.h" not in self.headers:
            self.headers.append("print.h")
        values, text, given = list(op.args), [], []
        for piece in op.attr:
            if isinstance(piece, str):
                text.append(piece.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
                continue
            parts = []
            for v in (values.pop(0) for _ in range(piece)):
                parts.append("%g" if v.type.is_float else "%lld")
                given.append(f"({'double' if v.type.is_float else 'long long'}){self.name(v)}")
            text.append(parts[0] if len(parts) == 1 else f"({', '.join(parts)})")
        self.line(f'gk::print({", ".join([chr(34) + " ".join(text) + chr(92) + "n" + chr(34), *given])});')


def _ascii(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _identifier(name: str) -> str:
    """A parameter's name in C++."""
    plain = _ascii(name)
    return f"{plain}_" if plain in _RESERVED or plain != name else plain


def _flat(field: str, index: list[str]) -> str:
    """The number of an element in a contiguous array."""
    text = f"(long long){index[0]}"
    for k, i in enumerate(index[1:], 1):
        text = f"({text} * {field}.shape[{k}] + {i})"
    return text
