"""A tape: what is computed from arrays of NumPy or CuPy is recorded, and gradients run back along it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import is_cupy_array

from geomkit.arrays import Recorded, as_array, describe, frozen
from geomkit.autodiff import recording
from geomkit.autodiff.call import Call, is_holder
from geomkit.autodiff.tape_array import Node, TapeArray
from geomkit.errors import message

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["Tape", "call_tape"]


class Tape:
    """Records what geomkit's functions and some of NumPy's compute from arrays, for gradients.

    Within `with gk.Tape() as tape:` geomkit's functions return `TapeArray`s: they have a NumPy or CuPy array as
    `.value`, operators, and the array functions below, each with its derivative. An array given to one of geomkit's
    functions needs no preparation. For what else is computed from a plain array, start with `tape.watch(array)`:
    what NumPy makes of plain arrays cannot be seen. Writing into an array between its use and `gradient` is an error.

    Functions that are recorded, called as NumPy's (`np.sum(x)`) or as methods and operators: + - * / ** @, negative,
    abs, square, sqrt, exp, log, sin, cos, tanh, maximum, minimum, clip, where, sum, mean, max, min, dot, matmul,
    linalg.norm, reshape, ravel, transpose, squeeze, expand_dims, broadcast_to, concatenate, stack, astype, indexing.
    Others refuse. `x.detach()`, `np.asarray(x)` and `x.value` leave the tape.

    The recording lasts until the tape is entered again. Tapes may be nested: what the inner one records, the outer
    does, too. There are first derivatives only.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> mesh, points = gk.shapes.box(), np.array([[0.0, 0.0, 2.0]])
        >>> with gk.Tape() as tape:
        ...     loss = np.sum(gk.signed_distance(mesh, points) ** 2)
        >>> to_vertices, to_points = tape.gradient(loss, [mesh.vertices, points])
        >>> loss.item(), to_points.tolist()
        (2.25, [[0.0, 0.0, 3.0]])
    """

    def __init__(self) -> None:
        self._leaves: dict[int, tuple[Any, TapeArray]] = {}

    def __enter__(self) -> Tape:
        if self in recording.tapes():
            raise RuntimeError(message("Tape", "with", "a tape that is not recording yet", "one that is"))
        self._leaves = {}
        recording.tapes().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        recording.tapes().remove(self)

    def watch(self, array: Any) -> Any:
        """An array as a `TapeArray`, so that operators and NumPy's functions on it are recorded.

        Args:
            array: floats, NumPy's or CuPy's.

        Returns:
            the TapeArray; the same one for the same array. Gradients can be asked for with either.

        Raises:
            TypeError: integers, a list, or a tensor of another library.
            ValueError: the array was written to since it was first watched.
        """
        if isinstance(array, Recorded):
            return array
        if not (isinstance(array, np.ndarray) or is_cupy_array(array)) or array.dtype.kind != "f":
            raise TypeError(message("Tape.watch", "array", "floats of NumPy or CuPy", describe(array)))
        around = {self: None} | dict.fromkeys(recording.tapes())
        known = next((tape._leaves[id(array)][1] for tape in around if id(array) in tape._leaves), None)
        if known is None:
            known = TapeArray.leaf(array)
        known.node.check("Tape", "array used again")
        for tape in around:
            tape._leaves[id(array)] = array, known
        return known

    def gradient(self, target: Any, sources: Any, *, adj: Any = None) -> Any:
        """Gradients of a recorded number with respect to arrays.

        Args:
            target: what was computed: a TapeArray of one element, or of any shape if adj is given.
            sources: an array that was used on the tape, or a list or tuple of them: plain arrays by identity,
                TapeArrays, or meshes, which stand for their vertices.
            adj: the cotangent of target, of its shape; None is 1.

        Returns:
            an array of each source's shape and dtype; a list of them for a list.

        Raises:
            ValueError: no path leads from a source to target; target has more than one element and no adj; an array
                was written to since.
            TypeError: a source has no gradient, such as integers.

        Gradients:
            None through what is returned: first derivatives only.
        """
        if not isinstance(target, TapeArray):
            raise ValueError(
                message("Tape.gradient", "target", "a TapeArray, recorded within the tape", describe(target))
            )
        shape = target.value.shape
        if adj is None:
            if target.value.size != 1:
                raise ValueError(message("Tape.gradient", "adj", f"the cotangent of target, {shape}", "None"))
            adj = target.namespace.ones_like(target.value)
        else:
            device = "cpu" if isinstance(target.value, np.ndarray) else "cuda"
            adj = as_array(
                adj, op="Tape.gradient", name="adj", shape=shape, dtype=target.value.dtype, device=device
            )
        many = isinstance(sources, (list, tuple))
        wanted = [self._source(i, source) for i, source in enumerate(sources if many else [sources])]
        with recording.paused():
            found = _propagate(target, adj)
        gradients = []
        for i, source in enumerate(wanted):
            gradient = found.get((id(source.node), source.index))
            if gradient is None:
                raise ValueError(message("Tape.gradient", f"sources[{i}]", *_no_path(target, source)))
            gradients.append(gradient)
        return gradients if many else gradients[0]

    def _source(self, i: int, source: Any) -> TapeArray:
        if is_holder(source):
            source = source.tracked_array
        if isinstance(source, TapeArray):
            return source
        if id(source) in self._leaves:
            return self._leaves[id(source)][1]
        kind = getattr(getattr(source, "dtype", None), "kind", "")
        if kind in ("i", "u", "b"):
            text = message("Tape.gradient", f"sources[{i}]", "floats: integers are discrete", describe(source))
            raise TypeError(text)
        if not kind:
            got = f"a {type(source).__name__}, which has no identity (use an array, such as np.array(0.5))"
            raise TypeError(message("Tape.gradient", f"sources[{i}]", "an array used on the tape", got))
        got = f"another {describe(source)} (a copy, or used by NumPy only: start with tape.watch)"
        raise ValueError(message("Tape.gradient", f"sources[{i}]", "the very array used on the tape", got))


def call_tape(op: Primitive, arguments: dict[str, Any]) -> Any:
    """Run a primitive and record it."""
    tape = recording.innermost()
    assert tape is not None
    for parameter in op.sends:
        value = arguments.get(parameter)
        if value is not None and (isinstance(value, np.ndarray) or is_cupy_array(value)) and value.dtype.kind == "f":
            arguments[parameter] = tape.watch(value)
    call = Call(op, arguments, "tape")
    if not call.leaves:
        call.run(())
        return call.rebuilt([call.library.wrap(x) for x in call.outputs()])
    values = tuple(leaf.array.value for leaf in call.leaves)
    call.run(values)
    node = Node(
        op.__name__,
        tuple(leaf.array for leaf in call.leaves),
        tuple(leaf.name for leaf in call.leaves),
        lambda cotangents: call.adjoint(values, cotangents),
        len(op.outputs),
    )
    return call.rebuilt([TapeArray(frozen(x.view()), node, k) for k, x in enumerate(call.outputs())])


def _nodes(target: TapeArray) -> list[Node]:
    """All that target was computed from, the latest first."""
    nodes: dict[int, Node] = {}
    pending = [target.node]
    while pending:
        node = pending.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            pending += [x.node for x in node.inputs]
    return sorted(nodes.values(), key=lambda node: -node.number)


def _propagate(target: TapeArray, adj: Any) -> dict[tuple[int, int], Any]:
    """Cotangents of everything that leads to target, by node and output."""
    found = {(id(target.node), target.index): adj}
    for node in _nodes(target):
        cotangents = [found.get((id(node), k)) for k in range(node.n_outputs)]
        if node.backward is None or all(cotangent is None for cotangent in cotangents):
            continue
        for x, argument in zip(node.inputs, node.arguments, strict=True):
            x.node.check(node.name, argument)
        for x, gradient in zip(node.inputs, node.backward(cotangents), strict=True):
            if gradient is not None:
                gradient = x.namespace.asarray(gradient, dtype=x.dtype).reshape(x.shape)
                key = id(x.node), x.index
                found[key] = found[key] + gradient if key in found else gradient
    return found


def _no_path(target: TapeArray, source: TapeArray) -> tuple[str, str]:
    """What was expected and what is, for a source that target does not depend on."""
    names = sorted({node.name for node in _nodes(target)})
    got = f"none: target was made of {', '.join(names)}"
    if source.node.left:
        got += f"; {source.node.name} left the tape by {source.node.left}"
    return "a recorded path to target", got
