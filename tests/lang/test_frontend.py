"""What is refused, where, and what the message says to write instead."""

import re

import numpy as np
import pytest

import geomkit as gk

HEAD = "x: gk.array(gk.f32), y: gk.array(gk.f32), n: gk.i32, p: gk.array(gk.vec3), m: gk.array(gk.f32, ndim=2)"

# The body of a kernel, what is underlined, and a part of the message.
REFUSED = {
    "int times float": ("y[i] = x[i] * i", "x[i] * i", "write gk.f32(...) around the integer"),
    "fraction of an integer": ("y[i] = float(i * 0.5)", "i * 0.5", "write float(...) around the integer"),
    "integer starts a float": ("s = 0\n    for k in range(n):\n        s += x[k]", "s += x[k]", "write s = 0.0"),
    "true division": ("y[i] = float(n / 2)", "n / 2", "write // for the integer below"),
    "a kernel returns": ("return x[i]", "return x[i]", "write the result into an array"),
    "negative index": ("y[i] = x[-1]", "-1", "write len(...) - 1"),
    "float index": ("y[i] = x[x[i]]", "x[i]", "write int(...)"),
    "array as a number": ("y[i] = x + 1.0", "x + 1.0", "index it, such as x[i]"),
    "one branch": ("if n > 3:\n        v = 1.0\n    y[i] = v", "v", "only in one branch of the if in line"),
    "only in a loop": ("for k in range(n):\n        v = 1.0\n    y[i] = v", "v", "only inside of the loop"),
    "loop counter": ("for k in range(n):\n        pass\n    y[i] = float(k)", "k", "use another name"),
    "unknown name": ("y[i] = undefined_name", "undefined_name", "is not defined here"),
    "python function": ("y[i] = helper(x[i])", "helper", "write @gk.func above it"),
    "numpy function": ("y[i] = np.linalg.norm(x[i])", "np.linalg.norm", "write gk.length(...)"),
    "lambda": ("f = lambda v: v", "lambda v: v", "write a @gk.func"),
    "dict": ("d = {1: 2}", "{1: 2}", "use a @gk.struct"),
    "try": ("try:\n        y[i] = 1.0\n    except ValueError:\n        pass", "try:", "kernels do not know exceptions"),
    "with": ("with open('f'):\n        pass", "with open('f'):", "kernels do not know with"),
    "raise": ("raise ValueError('x')", "raise ValueError('x')", "use assert"),
    "nested function": ("def g():\n        pass", "def g():", "write a @gk.func outside"),
    "import": ("import os", "import os", "import at the top"),
    "global": ("global z", "global z", "only read what is outside"),
    "delete": ("del n", "del n", "kernels do not know del"),
    "f-string": ("print(f'{n}')", "f'{n}'", "print takes values beside strings"),
    "walrus": ("y[i] = (v := 1.0)", "v := 1.0", "on a line of its own"),
    "is": ("if n is i:\n        y[i] = 1.0", "n is i", "write =="),
    "in": ("if n in (1, 2):\n        y[i] = 1.0", "n in (1, 2)", "x == a or x == b"),
    "condition": ("if n:\n        y[i] = 1.0", "n", "write n != 0"),
    "for else": ("for k in range(n):\n        pass\n    else:\n        y[i] = 1.0", "y[i] = 1.0", "else after a loop"),
    "loop over an array": ("for v in x:\n        y[i] = v", "x", "write for i in range(len(x))"),
    "range of floats": ("for k in range(x[i]):\n        pass", "x[i]", "range takes integers"),
    "whole array": ("x = y", "x", "write x[i] = ..."),
    "slice": ("y[i] = m[0, 1:2][0]", "1:2", "only a whole axis"),
    "too many indices": ("y[i] = x[i, i]", "x[i, i]", "2 indices"),
    "vector into float": ("y[i] = p[i]", "y[i]", "an element of 'y' is f32, not vec3"),
    "wrong vector": ("p[i] = gk.vec3(1.0, 2.0)", "gk.vec3(1.0, 2.0)", "made of 3 numbers, got 2"),
    "number plus vector": ("p[i] = p[i] + 1.0", "p[i] + 1.0", "write gk.vec3(...) around the number"),
    "matrix product": ("y[i] = (gk.identity(3) * p[i]).x", "gk.identity(3) * p[i]", "write @"),
    "compare vectors": ("if p[i] == p[0]:\n        y[i] = 1.0", "p[i] == p[0]", "compare the components"),
    "no component": ("y[i] = p[i].w", "p[i].w", "it has x, y, z"),
    "arguments": ("y[i] = gk.sin(x[i], x[i])", "gk.sin(x[i], x[i])", "gk.sin takes (a)"),
    "types of a sine": ("y[i] = gk.sin(n)", "gk.sin(n)", "write sin(float(...))"),
    "recursion": ("y[i] = endless(x[i])", "endless(u)", "kernels know no recursion"),
    "two types": ("v = 1.0 if n > 1 else p[i]", "1.0 if n > 1 else p[i]", "must have one type"),
    "changing type": ("v = x[i]\n    for k in range(n):\n        v = p[k]", "v", "give it one type"),
    "tid twice": ("j, k = gk.tid()", "gk.tid()", "unpack as many"),
    "atomic of a number": ("gk.atomic_add(n, 0, 1)", "gk.atomic_add(n, 0, 1)", "cannot be indexed"),
    "captured array": ("y[i] = BIG[i]", "BIG", "make it a parameter"),
    "kernel in a kernel": ("other(n)", "other(n)", "make 'other' a @gk.func"),
    "bool arithmetic": ("y[i] = float((n > 1) + (n > 2))", "(n > 1) + (n > 2)", "a bool is no number"),
    "complex": ("y[i] = 1j", "1j", "use gk.vec2"),
    "power of integers": ("y[i] = float(n ** n)", "n ** n", "only small constant powers"),
}

AROUND = """
BIG = np.zeros(100)

def helper(v):
    return v

@gk.func
def endless(u):
    return endless(u)

@gk.kernel
def other(n: gk.i32):
    pass
"""


@pytest.mark.parametrize("case", REFUSED)
def test_error(case, module):
    body, underlined, text = REFUSED[case]
    with pytest.raises(gk.KernelError) as caught:
        module(f"{AROUND}\n@gk.kernel\ndef k({HEAD}):\n    i = gk.tid()\n    {body}\n")
    message = str(caught.value)
    assert text in message
    places = re.findall(r'File "(.*)", line (\d+), in (\w+)\n    (.*)\n    ( *\^+)', message)
    assert places and all(file.endswith(".py") for file, *_ in places)
    shown = [line[len(caret) - len(caret.lstrip()) : len(caret)] for _, _, _, line, caret in places]
    assert underlined in shown


def test_several_errors_at_once(module):
    with pytest.raises(gk.KernelError) as caught:
        module(f"@gk.kernel\ndef k({HEAD}):\n    y[0] = x[0] * n\n    v = undefined\n    y[1] = v\n    y[n] = x[1.5]\n")
    message = str(caught.value)
    assert "(3 problems)" in message and message.count("^\n") == 3
    assert "'undefined' is not defined" in message and "not an integer" not in message.split("undefined")[0]


def test_parameters(module):
    for text, expected in {
        "def k(x):\n    pass": "'x' has no type: write x: gk.f32",
        "def k(x: set):\n    pass": "is no type of kernels",
        "def k(*x: gk.f32):\n    pass": "a fixed number of parameters",
        "def k(x: gk.f32 = 1.0):\n    pass": "have no defaults",
        "def k(x: gk.f32):\n    yield x": "do not know yield",
    }.items():
        with pytest.raises(gk.KernelError, match=re.escape(expected)):
            module(f"@gk.kernel\n{text}\n")


@gk.kernel
def copy(x: gk.array(gk.f32), y: gk.array(gk.f32)):
    i = gk.tid()
    y[i] = x[i]


@gk.kernel
def move(p: gk.array(gk.vec3), by: gk.vec3):
    i = gk.tid()
    p[i] = p[i] + by


def test_call_errors():
    x = np.zeros(4, np.float32)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    cases = [
        (lambda: copy(4, x), TypeError, "copy: arguments: expected 2 after dim (x, y), got 1"),
        (lambda: copy(4, x.astype(np.float64), x), TypeError, "got (4,) float64 (write x.astype(np.float32))"),
        (lambda: copy(4, x, frozen), TypeError, "copy: y: expected an array that can be written to"),
        (lambda: copy(4, [1.0], x), TypeError, "got list (np.array(..., np.float32) makes one)"),
        (lambda: copy((2, 2), x, x), TypeError, "copy: dim: expected 1 dimension, as the kernel has i = gk.tid()"),
        (lambda: copy(-1, x, x), ValueError, "copy: dim: expected no negative dimension"),
        (lambda: copy(4.0, x, x), TypeError, "copy: dim: expected an integer"),
        (lambda: copy(4, x.reshape(2, 2), x), ValueError, "got (2, 2) float32"),
        (lambda: move(4, x, (1, 2, 3)), ValueError, "array of vec3, (N, 3) float32, got (4,) float32"),
        (lambda: move(4, np.zeros((4, 3), np.float32), 1.0), ValueError, "move: by: expected a vec3, of shape (3,)"),
        (lambda: copy.adjoint(4, x, x, adj_x=x), TypeError, "expected one of adj_y"),
        (lambda: copy.adjoint(4, x, x, adj_y=np.zeros(3)), ValueError, "adj_y: expected shape (4,), got (3,)"),
        (lambda: gk.sin(1.0), TypeError, "sin: call: expected one within a @gk.kernel or @gk.func"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind) as caught:
            call()
        assert text in str(caught.value)
