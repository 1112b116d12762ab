"""Adjoints against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from geomkit.arrays import Recorded, describe, imported, to_host, tracker_of
from geomkit.autodiff.call import is_holder
from geomkit.autodiff.recording import paused
from geomkit.autodiff.tape import Tape
from geomkit.errors import message

__all__ = ["gradcheck"]

ENTRIES = 256  # of an input whose gradient is wrong: so many are measured one by one


def gradcheck(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    adjoint: Callable[..., Sequence[Any]] | None = None,
    step: float = 1e-6,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    directions: int = 8,
    seed: int = 0,
) -> float:
    """Compare gradients with central differences, in float64.

    For random directions v of each input and random weights w of the outputs, <w, J v> is measured by a fourth-order
    central difference, and <J' w, v> is what the gradient says. Without `adjoint` the gradient is the one that `fn`
    has on a `gk.Tape`, or on torch's autograd if an input is torch's. With it, it is what `adjoint` returns.

    Args:
        fn: takes the inputs; computes from them with geomkit's functions and the array functions of `gk.Tape`, or
            torch's. Returns an array, a Mesh (its vertices are compared), a record of geomkit (those of its fields that
            carry gradients are), or a tuple, list or dict of such. With `adjoint`: any function that returns one array.
        inputs: float64 arrays of any shape, NumPy's or torch's, and meshes of such, which stand for their vertices.
        adjoint: takes the inputs and the cotangent of the output, and returns one gradient for each input.
        step: length of the step, in the inputs' units. No kink may lie within two steps of the inputs.
        rtol, atol: what the two may differ by, relative to the larger of the sums of absolute products, and absolutely.
        directions: number of random directions for each input.
        seed: of the directions and weights.

    Returns:
        The largest relative difference found.

    Raises:
        TypeError: an input or output is not float64.
        ValueError: no path is recorded from an input to the outputs.
        AssertionError: a difference beyond the tolerance: names the input and the worst of its entries, with both
            values. Also a NaN, a gradient of the wrong shape, outputs whose shape depends on the step.

    Gradients:
        None; it checks them.

    Cost: four calls of fn a direction, and four an entry of up to 256 of the input that fails.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> mesh, points = gk.shapes.box(dtype=np.float64), np.array([[0.1, 0.2, 2.0]])
        >>> error = gk.gradcheck(gk.signed_distance, [mesh, points])
        >>> x = np.array([1.0, 2.0])
        >>> error = gk.gradcheck(np.square, [x], adjoint=lambda x, adj: [2 * x * adj])
        >>> bool(error < 1e-7)
        True
    """
    if not isinstance(inputs, (list, tuple)) or is_holder(inputs):
        got = "a Mesh" if is_holder(inputs) else describe(inputs)
        raise TypeError(message("gradcheck", "inputs", "a list of arrays", got))
    variables = [_Variable(f"inputs[{i}]", x) for i, x in enumerate(inputs)]
    rng = np.random.default_rng(seed)
    if adjoint is not None:
        check = _Check(fn, variables, None)
        weights = [rng.standard_normal(x.shape) for x in check.outputs()]
        if len(weights) != 1:
            raise TypeError(message("gradcheck", "fn", "one array, if adjoint is given", f"{len(weights)}"))
        gradients = adjoint(*(x.given for x in variables), weights[0])
    else:
        on_torch = any(_is_torch(x.array) for x in variables)
        names, weights, gradients = (_on_torch if on_torch else _on_tape)(fn, variables, rng)
        check = _Check(fn, variables, names)
    gradients = [to_host(imported(g)) for g in gradients]
    if len(gradients) != len(variables):
        expected = f"{len(variables)} gradients, one for each input"
        raise AssertionError(message("gradcheck", "adjoint", expected, str(len(gradients))))
    check.outputs()
    return max(
        (check.compare(i, g, weights, step, rtol, atol, rng, directions) for i, g in enumerate(gradients)), default=0.0
    )


class _Variable:
    """An input that gradients are checked of: an array, or the vertices of a mesh."""

    def __init__(self, name: str, given: Any):
        self.name = name
        self.mesh = given if is_holder(given) else None
        if self.mesh is None and not hasattr(given, "dtype"):
            given = np.asarray(given)
        self.given = given
        self.array = given if self.mesh is None else given.vertices
        if isinstance(self.array, Recorded):
            self.array = self.array.value
        if not str(self.array.dtype).endswith("float64"):
            raise TypeError(message("gradcheck", name, "float64", describe(self.array)))
        self.values = to_host(imported(self.array))

    def at(self, values: Any) -> Any:
        """The input with other values, an array of the library it has."""
        return values if self.mesh is None else self.mesh.with_vertices(values)

    def moved(self, values: np.ndarray) -> Any:
        """The input with other values, NumPy's."""
        values = np.asarray(values)
        if not _is_torch(self.array):
            return self.at(values)
        import torch

        return self.at(torch.from_numpy(values).to(self.array.device))


class _Check:
    """A function whose outputs are compared: those that `places` names, or all."""

    def __init__(self, fn: Callable[..., Any], variables: list[_Variable], places: frozenset[str] | None):
        self.fn, self.variables, self.places = fn, variables, places
        self.shapes: list[tuple[int, ...]] | None = None

    def outputs(self, i: int = -1, values: Any = None) -> list[np.ndarray]:
        """The outputs as NumPy's arrays, with other values for one input."""
        arguments = [x.moved(values if k == i else x.values) for k, x in enumerate(self.variables)]
        with paused():
            result = self.fn(*arguments)
        places = self.places
        arrays = [_finite(name, x) for name, x, _ in _outputs(result) if places is None or name in places]
        shapes = [array.shape for array in arrays]
        if self.shapes is not None and shapes != self.shapes:
            got = f"{shapes} instead of {self.shapes}"
            raise AssertionError(message("gradcheck", "fn", "outputs whose shape no step changes", got))
        self.shapes = shapes
        return arrays

    def compare(
        self, i: int, g: np.ndarray, weights: list[np.ndarray], step: float, rtol: float, atol: float, rng: Any, n: int
    ) -> float:
        """The largest relative difference over n directions of an input."""
        x = self.variables[i]
        if g.shape != x.values.shape:
            raise AssertionError(message("gradcheck", x.name, f"a gradient of shape {x.values.shape}", str(g.shape)))
        if not np.isfinite(g).all():
            at = tuple(map(int, np.argwhere(~np.isfinite(g))[0]))
            raise AssertionError(message("gradcheck", x.name, "a finite gradient", f"{g[at]} at entry {list(at)}"))

        def measure(v: np.ndarray) -> tuple[float, float, float]:
            """What differences give along v, what the gradient does, and how far they may be apart."""
            ahead, behind, far, near = (self.outputs(i, x.values + t * step * v) for t in (1, -1, 2, -2))
            slopes = [
                w * ((8 * (a - b) - (c - d)) / (12 * step))
                for w, a, b, c, d in zip(weights, ahead, behind, far, near, strict=True)
            ]
            scale = max(sum(float(np.abs(s).sum()) for s in slopes), float(np.abs(g * v).sum()))
            return sum(float(s.sum()) for s in slopes), float((g * v).sum()), scale

        worst = 0.0
        for _ in range(n):
            measured, claimed, scale = measure(rng.standard_normal(g.shape))
            if not abs(measured - claimed) <= rtol * scale + atol:
                raise AssertionError(_wrong(x.name, g, measure, measured - claimed, rtol * scale + atol, rng))
            worst = max(worst, abs(measured - claimed) / scale if scale > 0 else 0.0)
        return worst


def _wrong(name: str, g: np.ndarray, measure: Callable, error: float, allowed: float, rng: Any) -> str:
    """What is wrong with a gradient: the worst of its entries."""
    entries = np.arange(g.size)
    # Of the two halves of an input the worse is looked into, until there are few entries.
    while len(entries) > ENTRIES:
        halves = np.array_split(entries, 2)
        errors = []
        for half in halves:
            v = np.zeros(g.size)
            v[half] = rng.standard_normal(len(half))
            measured, claimed, _ = measure(v.reshape(g.shape))
            errors.append(abs(measured - claimed))
        entries = halves[int(np.argmax(errors))]
    found = []
    for k in entries:
        v = np.zeros(g.size)
        v[k] = 1
        measured, claimed, _ = measure(v.reshape(g.shape))
        found.append((abs(measured - claimed), int(k), measured, claimed))
    _, k, measured, claimed = max(found)
    at = [int(j) for j in np.unravel_index(k, g.shape)]
    got = f"{claimed:.12g} (along a random direction they are {abs(error):.3g} apart, {allowed:.3g} allowed)"
    return message("gradcheck", f"{name}: entry {at}", f"{measured:.12g} as by central differences", got)


def _outputs(result: Any, name: str = "output", of_record: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Every array of floats in a result, its name, and whether it is a field of a record."""
    if is_holder(result) and hasattr(result, "faces"):
        yield name, result.vertices, True
    elif hasattr(result, "_fields"):
        for field in result._fields:
            yield from _outputs(getattr(result, field), f"{name}.{field}", True)
    elif isinstance(result, dict):
        for key, x in result.items():
            yield from _outputs(x, f"{name}[{key!r}]", of_record)
    elif isinstance(result, (tuple, list)):
        for k, x in enumerate(result):
            yield from _outputs(x, f"{name}[{k}]", of_record)
    elif isinstance(result, float) or "float" in str(getattr(result, "dtype", "")):
        yield name, result, of_record


def _finite(name: str, x: Any) -> np.ndarray:
    """An output as NumPy's array, or an AssertionError."""
    array = to_host(imported(x))
    if not np.isfinite(array).all():
        at = tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        raise AssertionError(message("gradcheck", name, "finite numbers", f"{array[at]} at {list(at)}"))
    return array


def _carrying(result: Any, tracker: str) -> dict[str, Any]:
    """The outputs that gradients are followed through, by name."""
    found = {}
    for name, x, of_record in _outputs(result):
        if tracker_of(x) != tracker:
            if of_record:
                continue
            got = f"{describe(x)} that is not (a constant, or a path cut by NumPy)"
            raise ValueError(message("gradcheck", name, "an array that gradients are followed through", got))
        if not str(x.dtype).endswith("float64"):
            raise TypeError(message("gradcheck", name, "float64", describe(x)))
        _finite(name, x)
        found[name] = x
    if not found:
        raise ValueError(message("gradcheck", "fn", "an output that gradients are followed through", "none"))
    return found


def _on_tape(fn: Callable[..., Any], variables: list[_Variable], rng: Any) -> tuple[Any, list[Any], list[Any]]:
    """The names of the outputs, their weights, and the gradients."""
    tape, total = Tape(), 0.0
    with tape:
        leaves = [tape.watch(x.values.copy()) for x in variables]
        outputs = _carrying(fn(*(x.at(leaf) for x, leaf in zip(variables, leaves, strict=True))), "tape")
        weights = [rng.standard_normal(x.shape) for x in outputs.values()]
        for weight, x in zip(weights, outputs.values(), strict=True):
            total = total + (weight * x).sum()
    return frozenset(outputs), weights, tape.gradients(total, leaves, None, "gradcheck", "inputs")


def _on_torch(fn: Callable[..., Any], variables: list[_Variable], rng: Any) -> tuple[Any, list[Any], list[Any]]:
    """Likewise."""
    import torch

    leaves = [x.array.detach().clone().requires_grad_() for x in variables]
    outputs = _carrying(fn(*(x.at(leaf) for x, leaf in zip(variables, leaves, strict=True))), "torch")
    weights = [rng.standard_normal(tuple(x.shape)) for x in outputs.values()]
    cotangents = [torch.as_tensor(w, device=x.device) for w, x in zip(weights, outputs.values(), strict=True)]
    gradients = torch.autograd.grad(list(outputs.values()), leaves, cotangents, allow_unused=True)
    for x, gradient in zip(variables, gradients, strict=True):
        if gradient is None:
            raise ValueError(message("gradcheck", x.name, "a recorded path to the outputs", "none"))
    return frozenset(outputs), weights, list(gradients)


def _is_torch(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch"
