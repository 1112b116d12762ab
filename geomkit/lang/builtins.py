"""The functions that kernels know, by the names that users write: `gk.sin`, `gk.dot`, ..."""

from __future__ import annotations

import math
from inspect import Parameter as Argument, Signature
from typing import Any

import numpy as np

from geomkit.errors import message

__all__ = ["ALIASES", "BUILTINS", "OPTIONAL", "Builtin"]


class Builtin:
    """A function that is called in kernels only.

    Attributes:
        name: as users write it.
        arguments: their names.
    """

    def __init__(self, name: str, arguments: str, text: str, returns: str):
        self.name = self.__name__ = self.__qualname__ = name
        self.arguments = arguments.split()
        described = "\n".join(f"    {a}: in kernels, {ARGUMENTS.get(a, 'a number')}." for a in self.arguments)
        arguments_part = f"\n\nArgs:\n{described}" if described else ""
        raises = "\n\nRaises:\n    TypeError: it is called outside of a kernel."
        self.__doc__ = f"{text}, in kernels.{arguments_part}\n\nReturns:\n    {returns}.{raises}"
        parameters = [Argument(a, Argument.POSITIONAL_ONLY, annotation=Any) for a in self.arguments]
        self.__signature__ = Signature(parameters, return_annotation=Any)

    def __call__(self, *values: Any) -> Any:
        raise TypeError(message(self.name, "call", "one within a @gk.kernel or @gk.func", "one from Python"))

    def __repr__(self) -> str:
        return f"<gk.{self.name} of kernels>"


ARGUMENTS = {
    "a": "a number, vector or matrix",
    "b": "of the same type",
    "v": "a vector",
    "m": "a matrix",
    "q": "a quaternion of length one",
    "array": "an array",
    "index": "its index, or a tuple of them",
    "value": "an element's new part",
    "seed": "an integer that names the stream",
    "counter": "an integer that counts the numbers of a stream",
    "axis": "a vector of length one",
    "angle": "an angle in radians",
    "hash": "a parameter of type gk.HashGrid",
    "point": "a vector of three numbers",
    "radius": "a number",
    "mesh": "a parameter of type gk.Mesh",
    "max_distance": "a number",
    "origin": "a vector of three numbers",
    "direction": "a vector of three numbers, not zero",
    "t_max": "a number",
    "grid": "a parameter of type gk.SdfGrid",
    "method": "a string",
}

# Arguments that may be left out, and what they are then.
OPTIONAL: dict[str, dict[str, Any]] = {
    "closest_point_query": {"max_distance": math.inf},
    "signed_distance_query": {"max_distance": math.inf},
    "ray_query": {"t_max": math.inf},
    "grid_sample": {"method": "linear"},
}

BUILTINS: dict[str, Builtin] = {}


def _define(name: str, arguments: str, text: str, returns: str = "a number") -> None:
    BUILTINS[name] = Builtin(name, arguments, text, returns)


_define("tid", "", "The index of this thread in its launch: i = gk.tid(), or i, j = gk.tid()", "integers")
for _name, _text in {
    "sin": "Sine", "cos": "Cosine", "tan": "Tangent", "asin": "Arcsine", "acos": "Arccosine", "atan": "Arctangent",
    "sinh": "Hyperbolic sine", "cosh": "Hyperbolic cosine", "tanh": "Hyperbolic tangent", "exp": "Exponential",
    "exp2": "Power of two", "log": "Natural logarithm", "log2": "Logarithm to base two", "sqrt": "Square root",
    "rsqrt": "One over the square root", "floor": "The integer below", "ceil": "The integer above",
    "round": "The nearest integer, of two the even one", "trunc": "The integer towards zero",
    "abs": "Absolute value", "sign": "-1, 0 or 1",
}.items():  # fmt: skip
    _define(_name, "a", _text, "the same type as a")
_define("atan2", "y x", "Angle of the point (x, y)")
_define("pow", "x y", "x to the power y")
_define("fmod", "x y", "Remainder with the sign of x")
_define("min", "a b", "The smaller one, of each component", "the same type as a")
_define("max", "a b", "The greater one, of each component", "the same type as a")
_define("clamp", "a low high", "a, or the bound it exceeds", "the same type as a")
_define("step", "edge x", "0 where x < edge, else 1")
_define("smoothstep", "low high x", "A smooth step from 0 at low to 1 at high")
_define("lerp", "a b t", "(1 - t) a + t b", "the same type as a")
_define("select", "condition a b", "a where the condition holds, else b; both are computed", "the same type as a")
_define("isnan", "x", "Whether x is not a number", "a bool")
_define("isfinite", "x", "Whether x is neither infinite nor NaN", "a bool")
_define("dot", "v b", "Scalar product")
_define("cross", "v b", "Vector product", "a vector")
_define("length", "v", "Length of a vector; its gradient at zero is zero")
_define("length_squared", "v", "Squared length of a vector")
_define("normalize", "v", "A vector of length one, zero for zero", "a vector")
_define("outer", "v b", "The matrix v b^T", "a matrix")
_define("transpose", "m", "Transpose", "a matrix")
_define("determinant", "m", "Determinant")
_define("inverse", "m", "Inverse", "a matrix")
_define("trace", "m", "Sum of the diagonal")
_define("identity", "n", "The identity matrix of size n, of the kernel's precision", "a matrix")
_define("quat_rotate", "q v", "A vector turned by a quaternion", "a vector")
_define("quat_inverse", "q", "The inverse of a quaternion of length one", "a quaternion")
_define("quat_from_axis_angle", "axis angle", "The rotation about an axis", "a quaternion")
_define("quat_to_matrix", "q", "The rotation matrix of a quaternion", "a matrix")
for _name, _text in {
    "add": "Add to an element", "sub": "Subtract from an element", "min": "Take the minimum with an element",
    "max": "Take the maximum with an element", "exch": "Replace an element",
}.items():  # fmt: skip
    _define(f"atomic_{_name}", "array index value", f"{_text}, undisturbed by other threads", "what it was before")
_define(
    "atomic_cas", "array index expected value", "Replace an element if it is as expected, undisturbed by other threads",
    "what it was before",
)  # fmt: skip
_define("random_bits", "seed counter", "32 random bits, the same everywhere", "a u32")
_define("random_uniform", "seed counter", "A random number in [0, 1), the same everywhere", "an f32")
_define("random_normal", "seed counter", "A normally distributed random number, the same everywhere", "an f32")
_define(
    "closest_point_query", "mesh point max_distance",
    "The closest point of a gk.Mesh within max_distance (infinite if left out)",
    "a structure with .hit, .face (-1 for none), .barycentric, .feature, .point and .distance (inf for none), as of "
    "gk.closest_point. Gradients go through point and distance to the point and to the mesh's vertices",
)  # fmt: skip
_define(
    "signed_distance_query", "mesh point max_distance",
    "The signed distance to a gk.Mesh, negative inside, where it is within max_distance (infinite if left out)",
    "what closest_point_query gives, with the sign that gk.signed_distance gives to .distance",
)  # fmt: skip
_define(
    "ray_query", "mesh origin direction t_max",
    "The first hit of a ray with a gk.Mesh, at 0 <= t <= t_max (infinite if left out)",
    "a structure with .hit, .t (inf for a miss), .face (-1 for a miss), .barycentric, .normal and .position, as of "
    "gk.cast_rays. Gradients go through all but hit and face to the ray and to the mesh's vertices",
)  # fmt: skip
_define(
    "winding_number_query", "mesh point",
    "How often a gk.Mesh wraps around a point, as gk.winding_number, with gradients for both",
)  # fmt: skip
_define(
    "grid_sample", "grid point method",
    "The value of a gk.SdfGrid between its samples, method 'linear' (if left out) or 'cubic'",
    "a structure with .value and .gradient, as of gk.interpolate_grid; NaN where the point is not finite. Gradients go "
    "through both to the point and to the grid's values",
)  # fmt: skip
_define(
    "neighbors", "hash point radius",
    "The points of a gk.HashGrid within a radius of a place: for j in gk.neighbors(hash, point, radius)",
    "their indices, in the order of the grid's cells: always the same",
)  # fmt: skip
_define("stop_gradient", "a", "a, taken as a constant by derivatives", "the same type as a")

# Functions of Python's that kernels take for theirs.
ALIASES: dict[Any, str] = {abs: "abs", min: "min", max: "max", pow: "pow", round: "round"}
for _name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "exp2", "log",
              "log2", "sqrt", "floor", "ceil", "trunc", "fmod", "isnan", "isfinite", "pow"):  # fmt: skip
    if hasattr(math, _name):
        ALIASES[getattr(math, _name)] = _name
for _name, _own in {
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2",
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "abs": "abs", "sign": "sign", "isnan": "isnan",
    "isfinite": "isfinite", "minimum": "min", "maximum": "max", "dot": "dot", "cross": "cross", "rint": "round",
    "outer": "outer", "where": "select", "fmod": "fmod", "clip": "clamp",
}.items():  # fmt: skip
    ALIASES[getattr(np, _name)] = _own

abs = BUILTINS["abs"]
acos = BUILTINS["acos"]
asin = BUILTINS["asin"]
atan = BUILTINS["atan"]
atan2 = BUILTINS["atan2"]
atomic_add = BUILTINS["atomic_add"]
atomic_cas = BUILTINS["atomic_cas"]
atomic_exch = BUILTINS["atomic_exch"]
atomic_max = BUILTINS["atomic_max"]
atomic_min = BUILTINS["atomic_min"]
atomic_sub = BUILTINS["atomic_sub"]
ceil = BUILTINS["ceil"]
clamp = BUILTINS["clamp"]
closest_point_query = BUILTINS["closest_point_query"]
cos = BUILTINS["cos"]
cosh = BUILTINS["cosh"]
cross = BUILTINS["cross"]
determinant = BUILTINS["determinant"]
dot = BUILTINS["dot"]
exp = BUILTINS["exp"]
exp2 = BUILTINS["exp2"]
floor = BUILTINS["floor"]
fmod = BUILTINS["fmod"]
grid_sample = BUILTINS["grid_sample"]
identity = BUILTINS["identity"]
inverse = BUILTINS["inverse"]
isfinite = BUILTINS["isfinite"]
isnan = BUILTINS["isnan"]
length = BUILTINS["length"]
length_squared = BUILTINS["length_squared"]
lerp = BUILTINS["lerp"]
log = BUILTINS["log"]
log2 = BUILTINS["log2"]
max = BUILTINS["max"]
min = BUILTINS["min"]
neighbors = BUILTINS["neighbors"]
normalize = BUILTINS["normalize"]
outer = BUILTINS["outer"]
pow = BUILTINS["pow"]
quat_from_axis_angle = BUILTINS["quat_from_axis_angle"]
quat_inverse = BUILTINS["quat_inverse"]
quat_rotate = BUILTINS["quat_rotate"]
quat_to_matrix = BUILTINS["quat_to_matrix"]
random_bits = BUILTINS["random_bits"]
random_normal = BUILTINS["random_normal"]
random_uniform = BUILTINS["random_uniform"]
ray_query = BUILTINS["ray_query"]
round = BUILTINS["round"]
rsqrt = BUILTINS["rsqrt"]
select = BUILTINS["select"]
sign = BUILTINS["sign"]
signed_distance_query = BUILTINS["signed_distance_query"]
sin = BUILTINS["sin"]
sinh = BUILTINS["sinh"]
smoothstep = BUILTINS["smoothstep"]
sqrt = BUILTINS["sqrt"]
step = BUILTINS["step"]
stop_gradient = BUILTINS["stop_gradient"]
tan = BUILTINS["tan"]
tanh = BUILTINS["tanh"]
tid = BUILTINS["tid"]
trace = BUILTINS["trace"]
transpose = BUILTINS["transpose"]
trunc = BUILTINS["trunc"]
winding_number_query = BUILTINS["winding_number_query"]
