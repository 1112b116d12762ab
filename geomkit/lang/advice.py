"""What to write in kernels instead of what users know from elsewhere."""

from __future__ import annotations

import difflib

from geomkit.lang.builtins import BUILTINS

__all__ = ["instead_of", "method_of"]

_LOOP = "write a loop over an array: for i in range(len(x))"
_VECTOR = "write gk.vec3(...) for a few numbers, or pass an array"
_INSTEAD = {
    "sum": _LOOP, "mean": _LOOP, "prod": _LOOP, "any": _LOOP, "all": _LOOP, "argmin": _LOOP, "argmax": _LOOP,
    "amin": _LOOP, "amax": _LOOP, "enumerate": _LOOP, "zip": _LOOP, "map": _LOOP, "sorted": _LOOP,
    "array": _VECTOR, "asarray": _VECTOR, "zeros": _VECTOR, "ones": _VECTOR, "empty": _VECTOR, "list": _VECTOR,
    "set": _VECTOR, "dict": "use a @gk.struct", "str": "print takes values beside strings: print('x', x)",
    "norm": "write gk.length(...)", "power": "write x ** y or gk.pow(x, y)", "square": "write x * x",
    "mix": "write gk.lerp(a, b, t)", "det": "write gk.determinant(...)", "inv": "write gk.inverse(...)",
    "eye": "write gk.identity(n)", "matmul": "write a @ b", "inner": "write gk.dot(a, b)",
    "rand": "write gk.random_uniform(seed, i)", "random": "write gk.random_uniform(seed, i)",
    "uniform": "write gk.random_uniform(seed, i)", "randn": "write gk.random_normal(seed, i)",
    "normal": "write gk.random_normal(seed, i)", "randint": "write gk.random_bits(seed, i) % n",
    "float32": "write gk.f32(...)", "float64": "write gk.f64(...)", "int32": "write gk.i32(...)",
    "int64": "write gk.i64(...)",
}  # fmt: skip


def instead_of(name: str) -> str:
    """What to write instead of a function that kernels do not know.

    Args:
        name: its own name, without that of its module.
    """
    if name in _INSTEAD:
        return _INSTEAD[name]
    near = [name] if name in BUILTINS else difflib.get_close_matches(name, BUILTINS, 1, 0.7)
    return f"did you mean gk.{near[0]}?" if near else "see the functions of geomkit, such as gk.sin"


def method_of(name: str) -> str:
    """What to write instead of a method that an operand does not have, with a colon before it; or nothing."""
    if name in ("append", "extend", "insert", "pop", "sort"):
        return ": a list does not change: write into an array, or into the components of a gk.vec3"
    if name in ("copy", "item"):
        return ": leave it out, as values do not change"
    if name in BUILTINS or name in _INSTEAD:
        text = f"write gk.{name}(...)" if name in BUILTINS else _INSTEAD[name]
        return f": {text}"
    return ""
