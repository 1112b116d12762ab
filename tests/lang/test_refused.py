"""Each construct that kernels refuse, beside those of test_frontend and test_mistakes: what the message says."""

import re

import pytest

import geomkit as gk

AROUND = """
POINT = np.zeros(3)

@gk.struct
class Ball:
    centre: gk.vec3
    radius: gk.f32

@gk.func
def pair(v):
    return v, 2.0 * v

@gk.func
def sometimes(v):
    if v > 0.0:
        return v

@gk.func
def nothing(v):
    pass

@gk.func
def own(v):
    return 2.0 * v

@own.adjoint
def adj_own(v, g):
    return 2.0 * g

@gk.func
def of_arrays(a):
    return a[0]

@of_arrays.adjoint
def adj_of_arrays(a, g):
    return g

@gk.func
def silent(v):
    return "v"

@silent.adjoint
def adj_silent(v, g):
    return g

@gk.func
def odd(v):
    return v

@odd.adjoint
def adj_odd(v):
    return v

@gk.func
def two(v):
    return v

@two.adjoint
def adj_two(v, g):
    return g, g

@gk.func
def from_loop(x, n):
    for k in range(n):
        if k > 2:
            return x
    return x
"""
HEAD = (
    "x: gk.array(gk.f32), y: gk.array(gk.f32), n: gk.i32, p: gk.array(gk.vec3), m: gk.array(gk.mat33), s: Ball, "
    "b: gk.array(Ball), k: gk.i64, h: gk.array(gk.i8), q: gk.quat, u: gk.u32, a: gk.array(gk.f32, ndim=2), d: gk.vec3d"
)

REFUSED = {
    # vectors and matrices
    "v = p[i] + d": "the types must be equal: write gk.vec3(...) to convert",
    "v = gk.vec3(x=1.0)": "takes no named arguments",
    "v = gk.vec3i(1.5, 0, 0)": "the number 1.5 is not an integer, but vec3i holds i32",
    "v = gk.vec3(i, i, i)": "vec3 is made of f32, not i32: write gk.f32(...) around it, or gk.vec3i(...)",
    "v = gk.dot(x[i], x[i])": "dot takes a vector, not f32",
    "v = gk.dot(p[i], d)": "the types must be equal",
    "v = gk.trace(p[i])": "trace takes a matrix, not vec3",
    "v = gk.cross(gk.vec2(1.0), gk.vec2(2.0))": "cross takes vectors of three numbers, not vec2",
    "v = gk.length(gk.vec3i(1, 2, 3))": "takes floats, not vec3i: write gk.vec3(...) around it",
    "v = gk.identity(n)": "identity takes the constant 2, 3 or 4",
    "v = gk.quat_inverse(p[i])": "quat_inverse takes a quaternion, not vec3",
    "v = gk.quat_rotate(q, x[i])": "quat_rotate takes a quaternion and a vec3, not f32",
    "v = gk.quat_from_axis_angle(gk.vec2(1.0), x[i])": "quat_from_axis_angle takes a vec3, not vec2",
    "v = m[i].x": "mat33 has no 'x'",
    "v = p[i] @ gk.vec2(1.0)": "@ multiplies matrices and vectors of one size and number type",
    "v = s + s": "structures have no operators: use their fields",
    "v = m[i][0, 1, 2]": "3 indices of mat33",
    "v = p[i][3]": "index 3 is out of range of 3",
    "v = p[i]\n    v.w = 1.0": "vec3 has no 'w' to assign to",
    "v = p[i]\n    v[3] = 1.0": "vec3 has no component 3",
    "v = m[i]\n    v[n, 0] = 1.0": "a component to assign to has a constant index, not i32",
    # structures
    "v = s.mass": "Ball has no field 'mass': it has centre, radius",
    "v = s[0]": "Ball has fields, not indices: write .centre",
    "gk.atomic_add(b, i, s)": "there are no atomics of structures: use an array for the field",
    # numbers
    "v = -(n > 1)": "a bool cannot be negated by -: write not",
    "v = ~(n > 1)": "~ is for integers: write not",
    "v = (n > 1) < (n > 2)": "only == and != compare bools",
    "v = (n > 1) ** 2": "a bool is no number",
    "v = x[i] ^ x[i]": "only for integers and bools: write **",
    "v = x[i] << x[i]": "only for integers",
    "v = 1 / 0": "1 / 0: division by zero",
    "v = u + -1": "the number -1 is negative, but u32 is not",
    "v = n + 5000000000": "does not fit i32: write gk.i64(5000000000)",
    "v = n + 1.5": "integers and fractions do not mix: write float(...) around the integer",
    "v = gk.min(n > 1, n > 2)": "of bools: write and, or",
    "v = gk.fmod(n, n)": "takes floats, not i32: write float(...)",
    "v = gk.min(p[i], d)": "the types must be equal",
    "v = gk.min(x[i])": "takes several numbers, a tuple or a vector, got f32",
    "v = gk.stop_gradient(x)": "stop_gradient takes numbers, not array(f32)",
    "v = gk.random_uniform(x[i], i)": "a seed and a counter are integers, not f32",
    "v = sum(x[i])": "sum takes a tuple or a vector, not f32",
    "v = len(n)": "i32 has no length",
    "v = gk.sin('x')": "expected a number, got 'x'",
    "v = True if 'x' else False": "a condition is a bool, not 'x'",
    "if x:\n        y[i] = 1.0": "a condition is a bool, not array(f32): compare an element",
    "v = x[i] if n > 1 else k": "they must have one type",
    # calls
    "v = n(1)": "i32 cannot be called",
    "v = range(3)": "range is for loops: for i in range(n)",
    "j, l = gk.tid()": "gk.tid() gives 2 here and 1 before",
    "v = gk.atomic_add(x, i)": "gk.atomic_add takes (array, index, value), got 2",
    "gk.atomic_add(a, i, 1.0)": "takes an array and the index of an element",
    "gk.atomic_add(h, i, 1)": "there is no atomic_add of i8: use",
    "print(x)": "print takes numbers, vectors and strings, not array(f32)",
    "v = pair(v=x[i], w=2.0)": "got w=",
    "v = pair(*x[i])": "f32 cannot be spread: only a tuple can",
    "y[i] = sometimes(x[i])": "'sometimes' may end without a return: return a value at its end",
    "v = nothing(x[i])": "there is no value to assign here",
    "v = of_arrays(x)": "a function with an adjoint of its own takes numbers, vectors and structures",
    "v = silent(x[i])": "silent has an adjoint of its own, so it must return numbers",
    "v = odd(x[i])": "the adjoint of odd takes its 1 arguments and 1 cotangents, not (v)",
    "v = two(x[i])": "the adjoint of two returns the cotangents of its float arguments, 1 numbers",
    "v = from_loop(x, n)": "what is returned from within a loop is a number, a vector, a structure or a tuple of them",
    # lists and tuples
    "v = [x[j] for j in range(n)]": "a list has a constant length: its range must be constant",
    "v = [x[j] for j in x]": "a list is made of a constant range or a tuple, not of array(f32)",
    "v = [x[j] for j in range(4) if n > j]": "its conditions must be constant",
    "v = (1.0, 2.0)[n]": "a tuple is indexed by a constant integer, not by i32",
    "v = (1.0, 2.0)[2]": "index 2 is out of range of a tuple of 2",
    "v = (1.0, 2.0)[:n]": "a tuple is sliced by constant integers",
    "v, w = x[i]": "f32 cannot be unpacked into 2 names",
    "v, w = pair(x[i])[:1]": "2 names for 1 values",
    "v, *w = pair(x[i])": "kernels cannot assign to Starred",
    # arrays
    "v = x.T": "it has shape, ndim and size",
    "y[:] = x[i]": "a whole array cannot be assigned",
    "v: gk.f32": "give the name a value, too",
    "v: 3 = x[i]": "is no type of kernels",
    "v: gk.f64 = x[i]": "the value is f64, not f32: write gk.f64(...)",
    # loops
    "for a0, b0 in range(3):\n        pass": "a range gives one integer: for i in range(n)",
    "for j in range():\n        pass": "range takes one to three integers",
    "for j in range(0, 3, 0):\n        pass": "a range's step is not zero",
    "for j in range(n, k):\n        pass": "the bounds of a range are i32 and i64: write gk.i32(...)",
    "for j in n:\n        pass": "loops go over range(...) or a tuple, not i32",
    "for j in (1, 2):\n        if n > j:\n            break": "cannot be left: use a flag, or range",
    "while n > 3:\n        pass\n    else:\n        pass": "else after a loop: set a flag before the break",
    "v = 0\n    for j in range(n):\n        v = 1.5": "write v = 0.0 before it",
    "v = n\n    for j in range(n):\n        v = k": "'v' is i32 before the loop and i64 in it: write gk.i32(...)",
    "v = 0\n    for j in range(n):\n        v = x[j]": "'v' starts as i32 before the loop and becomes f32 in it: write",
    "row = a[0]\n    for j in range(n):\n        row = a[j]": "use another name in the loop",
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED)
def test_error(body, module):
    with pytest.raises(gk.KernelError) as caught:
        module(f"{AROUND}\n@gk.kernel\ndef k({HEAD}):\n    i = gk.tid()\n    {body}\n")
    message = str(caught.value)
    assert REFUSED[body] in message
    assert re.search(r'File ".*\.py", line \d+, in \w+\n    .*\n    *\^+', message)


def test_indices_of_threads(module):
    head = "@gk.kernel\ndef k(x: gk.array(gk.f32), y: gk.array(gk.f32)):\n"
    for body, text in {
        "a, b, c, d = gk.tid()": "gk.tid() gives up to three indices, not 4",
        "t = gk.tid()\n    y[x[0] > 1.0] = 1.0": "an index is an integer, not bool",
        "y[(0, 0),] = 1.0": "an index is an integer: gk.tid() of several dimensions is unpacked",
    }.items():
        with pytest.raises(gk.KernelError, match=re.escape(text)):
            module(f"{head}    {body}\n")
