"""Random kernels in float64, and the comparison of their adjoints with central differences."""

import importlib.util
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

THREADS = 6

HEAD = '''import geomkit as gk


@gk.func
def h(u, v):
    if u < v:
        return u * v
    return u - v * v


@gk.func
def loop_return(u, v):
    for i in range(4):
        if u > 0.8:
            return u * v
        u = u + 0.3 * gk.cos(u)
    return u - v


'''


def text_of(seed: int) -> str:
    """The text of one kernel."""
    r = random.Random(seed)
    scalars, number = ["a", "b", "c"], 0

    def expression(depth: int = 0) -> str:
        k = r.random()
        if depth > 2 or k < 0.28:
            leaf = [*scalars, "x[t]", "w[t]", "q", "v.x", "v[1]", "v.z", f"x[(t + {r.randint(0, 3)}) % {THREADS}]"]
            return r.choice([*leaf, repr(round(r.uniform(-1, 1), 3))])
        pairs = [
            f"gk.sin({expression(depth + 1)})",
            f"gk.tanh({expression(depth + 1)})",
            f"({expression(depth + 1)} * {expression(depth + 1)})",
            f"h({expression(depth + 1)}, {expression(depth + 1)})",
            f"loop_return({expression(depth + 1)}, {expression(depth + 1)})",
            "gk.dot(v, p[t])",
            f"gk.length(v + gk.vec3d(2.0, {expression(depth + 1)}, 0.5))",
            f"({expression(depth + 1)} if {condition()} else {expression(depth + 1)})",
            f"({expression(depth + 1)} / (1.5 + gk.tanh({expression(depth + 1)})))",
            f"({expression(depth + 1)} + {expression(depth + 1)})",
            f"({expression(depth + 1)} - {expression(depth + 1)})",
            f"max({expression(depth + 1)}, {expression(depth + 1)} + 0.1)",
        ]
        return r.choice(pairs)

    def condition() -> str:
        one = f"{r.choice(scalars)} {r.choice('<>')} {round(r.uniform(-0.6, 0.6), 3)}"
        return f"({one} {r.choice(['and', 'or'])} x[t] > {round(r.uniform(-0.5, 0.5), 3)})" if r.random() < 0.2 else one

    def assignment() -> str:
        name = r.choice(scalars)
        if r.random() < 0.25:
            part = r.choice(["v.x", "v.y", "v[2]"])
            return r.choice([
                f"{part} = gk.tanh({expression()}) * 0.7",
                f"v = gk.cross(v, p[t]) * 0.5 + gk.vec3d({name}, 0.1, {r.choice(scalars)}) * 0.3",
                "v = gk.normalize(v + gk.vec3d(2.0, 0.0, 0.0))",
            ])  # fmt: skip
        return f"{name} = gk.tanh({expression()}) * {round(r.uniform(0.5, 1.2), 2)} + {r.choice(scalars)} * 0.3"

    def block(indent: int, depth: int, in_loop: bool) -> list[str]:
        nonlocal number
        lines, space = [], "    " * indent
        for _ in range(r.randint(1, 3)):
            k = r.random()
            if depth < 3 and k < 0.22:
                lines += [f"{space}if {condition()}:", *block(indent + 1, depth + 1, in_loop)]
                if r.random() < 0.5:
                    lines += [f"{space}else:", *block(indent + 1, depth + 1, in_loop)]
            elif depth < 3 and k < 0.40:
                number += 1
                bound = r.choice([f"n[t] + {r.randint(0, 2)}", f"{r.randint(1, 12)}", f"{r.randint(3, 6)}, 0, -1"])
                lines += [f"{space}for k{number} in range({bound}):", *block(indent + 1, depth + 1, True)]
            elif depth < 3 and k < 0.48:
                number += 1
                i = f"q{number}"
                lines += [f"{space}{i} = 0", f"{space}while {i} < {r.randint(2, 5)} and {condition()}:"]
                lines += [f"{space}    {i} += 1", *block(indent + 1, depth + 1, True)]
            elif in_loop and k < 0.58:
                lines += [f"{space}if {condition()}:", f"{space}    {r.choice(['continue', 'break', 'return'])}"]
            elif k < 0.64:
                at = r.choice(["t", f"(t * 2 + {r.randint(0, 3)}) % {THREADS}"])
                lines.append(f"{space}z[{at}] += {r.choice(scalars)} * {round(r.uniform(-1, 1), 2)}")
            else:
                lines.append(f"{space}{assignment()}")
        return lines

    arrays = ", ".join(f"{n}: gk.array(gk.f64)" for n in ("x", "w"))
    head = [
        "@gk.kernel",
        f"def f{seed}({arrays}, p: gk.array(gk.vec3d), n: gk.array(gk.i32), q: gk.f64, z: gk.array(gk.f64)):",
        "    t = gk.tid()",
        "    a = x[t]",
        "    b = w[t]",
        "    c = 0.5",
        "    v = p[t]",
    ]
    tail = ["    z[t] += a * b + c * a + c + gk.dot(v, gk.vec3d(0.3, -0.2, 0.5))"]
    return "\n".join([*head, *block(1, 0, False), *block(1, 0, False), *tail]) + "\n"


def module_of(seeds: range, folder: Path) -> ModuleType:
    """The kernels of some seeds, as a module."""
    path = folder / f"programs_{seeds.start}.py"
    path.write_text(HEAD + "\n\n".join(map(text_of, seeds)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs(seed: int) -> dict[str, Any]:
    """Arguments."""
    r = np.random.default_rng(seed)
    return {
        "x": r.uniform(-1, 1, THREADS),
        "w": r.uniform(-1, 1, THREADS),
        "p": r.uniform(-1, 1, (THREADS, 3)),
        "n": r.integers(0, 4, THREADS).astype(np.int32),
        "q": float(r.uniform(-1, 1)),
    }


def differences(forward: Any, given: dict[str, Any], adj: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Central differences with two step lengths, to tell a jump between the points from a wrong gradient."""

    def value(args: dict[str, Any]) -> float:
        z = np.zeros(THREADS)
        forward(args, z)
        return float(z @ adj)

    found: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name in ("x", "w", "p", "q"):
        for out, e in zip(found, (1e-6, 1e-5), strict=True):
            if name == "q":
                slopes = (value(given | {"q": given["q"] + e}) - value(given | {"q": given["q"] - e})) / (2 * e)
            else:
                slopes = np.zeros(given[name].shape)
                for k in np.ndindex(slopes.shape):
                    step = np.zeros(slopes.shape)
                    step[k] = e
                    sides = [value(given | {name: given[name] + s * step}) for s in (1, -1)]
                    slopes[k] = (sides[0] - sides[1]) / (2 * e)
            out[name] = slopes
    return found


def error(kernel: Any, seed: int, gradients: Any, forward: Any) -> float:
    """The greatest relative error of gradients, where the differences agree with one another."""
    given = inputs(seed)
    adj = np.random.default_rng(seed + 1).normal(size=THREADS)
    fine, coarse = differences(forward, given, adj)
    found = gradients(given, adj)
    worst = 0.0
    for name, reference in fine.items():
        scale = 1 + np.abs(reference)
        usable = np.abs(reference - coarse[name]) / scale < 1e-6
        wrong = np.abs(found[name] - reference) / scale
        wrong = np.where(np.isfinite(wrong), wrong, np.inf)
        if np.any(usable):
            worst = max(worst, float(np.max(np.where(usable, wrong, 0))))
    return worst


def compile_together(kernels: list[Any], wrt: frozenset[str]) -> None:
    """Compile kernels and their adjoints as one text: the headers are read once."""
    from geomkit.runtime import compiler

    texts, places = [], []
    for kernel in kernels:
        found = next(iter(kernel._known.values()))
        backward = found.adjoint(wrt)
        texts += [found.text(), backward.text]
        places += [(found, None), (backward, backward)]
    headers = ("kernel.h", "stack.h", "scalar.h")
    body = "\n".join(line for t in texts for line in t.text.splitlines() if not line.startswith("#include"))
    text = "".join(f'#include "{h}"\n' for h in headers) + body
    path = compiler.library_path(text, headers, debug=True)
    addresses = compiler.entries(path, *(t.entry for t in texts))
    for (owner, backward), address in zip(places, addresses, strict=True):

        def entry(block: bytes, n: int, grain: int, address: int = address) -> None:
            compiler.run(address, block, n, grain)

        if backward is None:
            owner._entries[False] = entry
        else:
            owner.__dict__["entry"] = entry


def check(seeds: range, folder: Path) -> dict[int, float]:
    """The errors of the adjoints of some programs against differences, by seed."""
    module = module_of(seeds, folder)
    kernels = [getattr(module, f"f{seed}") for seed in seeds]
    compile_together(kernels, frozenset("xwpz"))
    found = {}
    for seed, kernel in zip(seeds, kernels, strict=True):

        def forward(a: dict[str, Any], z: np.ndarray, kernel: Any = kernel) -> None:
            kernel(THREADS, a["x"], a["w"], a["p"], a["n"], a["q"], z)

        def gradients(a: dict[str, Any], adj: np.ndarray, kernel: Any = kernel) -> dict[str, Any]:
            args = (a["x"], a["w"], a["p"], a["n"], a["q"], np.zeros(THREADS))
            return kernel.adjoint(THREADS, *args, adj_z=adj)._asdict()

        found[seed] = error(kernel, seed, gradients, forward)
    return found
