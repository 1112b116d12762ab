"""The likeliest mistakes of new users: each is shown at its line, with the reason and what to write instead."""

import re

import numpy as np
import pytest

import geomkit as gk

AROUND = """
COUNT = 0

@gk.func
def factorial(v):
    if v < 2.0:
        return 1.0
    return v * factorial(v - 1.0)

"""
HEAD = "def k(x: gk.array(gk.f32), y: gk.array(gk.f32), n: gk.i32, p: gk.array(gk.vec3)):"

# The mistake, the line of its kernel that is wrong, what is underlined, the reason, and what to write instead.
MISTAKES = {
    "no types": (
        "def k(x, n: gk.i32):\n    x[0] = n", 1, "x", "'x' has no type", "write x: gk.f32, or x: gk.array(gk.f32)",
    ),
    "type of NumPy": (
        "def k(x: np.ndarray):\n    x[0] = 1.0",
        1, "np.ndarray", "ndarray does not say of what", "write gk.array(gk.f32)",
    ),
    "array without its type": (
        "def k(x: gk.array):\n    x[0] = 1.0", 1, "gk.array", "array does not say of what", "write gk.array(gk.f32)",
    ),
    "array as a number": (
        "def k(x: gk.f32):\n    x[0] = 1.0",
        2, "x[0]", "f32 has no part that can be assigned", "write x: gk.array(gk.f32)",
    ),
    "integer as a float": ("y[i] = i", 3, "y[i]", "an element of 'y' is f32, not i32", "write gk.f32(...)"),
    "sum that starts as an integer": (
        "s = 0\n    for j in range(n):\n        s += x[j]\n    y[i] = s",
        5, "s += x[j]", "'s' starts as the number 0", "write s = 0.0",
    ),
    "division of integers": ("y[i] = n / 3", 3, "n / 3", "i32 / i32", "write // for the integer below, or float(...)"),
    "sum of NumPy": ("y[i] = np.sum(x)", 3, "np.sum", "'sum' of numpy is not known", "for i in range(len(x))"),
    "array of NumPy": ("v = np.zeros(3)", 3, "np.zeros", "'zeros' of numpy is not known", "write gk.vec3(...)"),
    "norm of NumPy": (
        "y[i] = np.linalg.norm(p[i])", 3, "np.linalg.norm", "not known in kernels", "write gk.length(...)",
    ),
    "random number of NumPy": (
        "y[i] = np.random.rand()", 3, "np.random.rand", "not known", "gk.random_uniform(seed, i)",
    ),
    "misspelt": ("y[i] = gk.sqroot(x[i])", 3, "gk.sqroot", "'gk' has no 'sqroot'", "did you mean gk.sqrt?"),
    "method": ("y[i] = p[i].dot(p[i])", 3, "p[i].dot", "vec3 has no 'dot'", "write gk.dot(...)"),
    "list": ("v = []\n    v.append(x[i])", 4, "v.append", "a list does not change", "write into an array"),
    "part of a list": (
        "v = [0.0, 0.0]\n    v[0] = x[i]", 4, "v[0]", "a list or a tuple does not change", "use a gk.vec3",
    ),
    "dictionary": ("d = {}", 3, "{}", "kernels do not know a dict", "use a @gk.struct"),
    "formatted text": ("print(f'{i}')", 3, "f'{i}'", "do not know a formatted string", "print('x', x)"),
    "return": (
        "return x[i] * 2.0", 3, "return x[i] * 2.0", "a kernel returns nothing", "write the result into an array",
    ),
    "whole array": ("y[i] = x * 2.0", 3, "x * 2.0", "array(f32) is a whole array", "index it, such as x[i]"),
    "vectors are elements": ("y[i] = p[i, 0]", 3, "p[i, 0]", "2 indices of array(vec3)", "write p[i][k]"),
    "loop over an array": ("for v in x:\n        y[i] += v", 3, "x", "is not looped over", "for i in range(len(x))"),
    "enumerate": (
        "for j, v in enumerate(x):\n        y[i] += v", 3, "enumerate", "not known", "for i in range(len(x))",
    ),
    "index from the end": ("y[i] = x[-1]", 3, "-1", "does not count from the end", "write len(...) - 1"),
    "mask as an index": ("y[x > 0.0] = 1.0", 3, "x > 0.0", "array(f32) is a whole array", "index it, such as x[i]"),
    "number as a condition": ("if x[i]:\n        y[i] = 1.0", 3, "x[i]", "a condition is a bool", "write x[i] != 0"),
    "variable of one branch": (
        "if n > 2:\n        v = 1.0\n    y[i] = v",
        5, "v", "a value only in one branch of the if in line", "give it one before",
    ),
    "counter after its loop": (
        "for j in range(n):\n        y[i] += 1.0\n    y[i] += float(j)",
        5, "j", "'j' counts the loop", "use another name",
    ),
    "variable from outside": (
        "COUNT += 1", 3, "COUNT", "'COUNT' is assigned in k", "outside of a kernel cannot be changed",
    ),
    "no first value": ("s += x[i]\n    y[i] = s", 3, "s", "'s' is assigned in k and has no value before", "s = 0.0"),
    "recursion": ("y[i] = factorial(x[i])", 0, "factorial(v - 1.0)", "kernels know no recursion", "write a loop"),
    "function of Python": (
        "y[i] = fast(x[i])", 3, "fast", "'fast' is a function of Python's", "write @gk.func above it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_error(case, module):
    text, line, underlined, reason, instead = MISTAKES[case]
    kernel = text if text.startswith("def ") else f"{HEAD}\n    i = gk.tid()\n    {text}"
    around = f"{AROUND}def fast(v):\n    return v\n\n"
    with pytest.raises(gk.KernelError) as caught:
        module(f"{around}@gk.kernel\n{kernel}\n")
    message = str(caught.value)
    assert reason in message and instead in message[message.index(reason[:20]) :]
    first = 3 + around.count("\n") + 2 - 1  # `module` puts three lines before, and the decorator has one
    places = re.findall(r'File "(.*)", line (\d+), in (\w+)\n    (.*)\n    ( *)(\^+)\n(.*)', message)
    shown = [
        (int(at) - first, code[len(blank) : len(blank) + len(carets)])
        for file, at, function, code, blank, carets, _ in places
        if file.endswith(".py") and function in ("k", "factorial")
    ]
    if line:
        assert (line, underlined) in shown
    else:
        assert underlined in [text for _, text in shown]


@gk.kernel
def scale(x: gk.array(gk.f32), a: gk.f32, y: gk.array(gk.f32)):
    i = gk.tid()
    y[i] = a * x[i]


def test_launches():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    cases = [
        (lambda: scale(x, 2.0, y),
         "arguments: expected 3 after dim (x, a, y), got 2 (the first argument is dim: scale(n, x, a, y))"),
        (lambda: scale(4, x.astype(np.float64), 2.0, y),
         "x: expected a 1-dimensional array of f32, got (4,) float64 (write x.astype(np.float32))"),
        (lambda: scale(4, [1.0], 2.0, y), "got list (np.array(..., np.float32) makes one)"),
        (lambda: scale(4, x.reshape(2, 2), 2.0, y), "x: expected a 1-dimensional array of f32, got (2, 2) float32"),
        (lambda: scale((2, 2), x, 2.0, y), "dim: expected 1 dimension, as the kernel has i = gk.tid()"),
        (lambda: scale[4](x, 2.0, y), "launch: expected scale(dim, x, a, y), got scale[4]"),
        (lambda: scale(4, x, 2.0, z=y), "arguments: expected each once (x, a, y), got no y, z=..."),
        (lambda: scale(4, x, 2.0, x=y), "arguments: expected each once (x, a, y), got no y, x=..."),
        (lambda: scale(4, x, "2", y), "a: expected a number (f32), got str"),
    ]  # fmt: skip
    for call, text in cases:
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert text in str(caught.value) and str(caught.value).startswith("scale: ")


def test_value_of_named_arguments():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    scale(4, x, y=y, a=3.0)
    assert y.tolist() == [3.0] * 4
