"""A tape: what is computed from arrays of NumPy or CuPy is recorded, and gradients run back along it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import is_cupy_array

from geomkit.arrays import as_array, describe, frozen
from geomkit.autodiff import recording
from geomkit.autodiff.call import Call, is_holder
from geomkit.autodiff.tape_array import Node, TapeArray, Watched, on_tape
from geomkit.errors import message

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["Tape", "call_tape"]

REMEMBERED = 32  # of the arrays that left the tape, for the error that may follow


class Tape:
    """Records what geomkit's functions and some of NumPy's compute from arrays, for gradients.

    Within `with gk.Tape() as tape:` geomkit's functions return `TapeArray`s: they have a NumPy or CuPy array as
    `.value`, operators, and the array functions below, each with its derivative. An array given to one of geomkit's
    functions needs no preparation. For what else is computed from a plain array, start with `tape.watch(array)`:
    what NumPy makes of plain arrays cannot be seen. Writing into an array between its use and `gradient` is an error.

    Functions that are recorded, called as NumPy's (`np.sum(x)`) or as methods and operators: + - * / ** @, positive,
    negative, abs, square, sqrt, exp, log, sin, cos, tanh, maximum, minimum, clip, where, sum, mean, max, min, dot,
    matmul, linalg.norm, reshape, ravel, transpose, squeeze, expand_dims, broadcast_to, concatenate, stack, astype,
    indexing. Others refuse. `x.detach()`, `np.asarray(x)` and `x.value` leave the tape.

    The recording lasts until the tape is entered again. A tape records what its own thread computes. Tapes may be
    nested: what the inner one records, the outer does, too. There are first derivatives only: a gradient taken while a
    tape records is a TapeArray, and an error where that tape is asked for a gradient through it.

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
        self._written: dict[int, Watched] = {}
        self.recording: object = None
        self.departures: deque[tuple[str, str, set[int]]] = deque(maxlen=REMEMBERED)
        self._entered = False

    def __enter__(self) -> Tape:
        if self._entered:
            raise RuntimeError(message("Tape", "with", "a tape that is not recording yet", "one that is"))
        self._leaves, self._written, self.recording, self._entered = {}, {}, object(), True
        self.departures.clear()
        recording.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        recording.leave(self)
        self._entered = False

    def watch(self, array: Any) -> Any:
        """An array as a `TapeArray`, so that operators and NumPy's functions on it are recorded.

        Args:
            array: floats, NumPy's or CuPy's.

        Returns:
            the TapeArray; the same one for the same array. Gradients can be asked for with either.

        Raises:
            TypeError: integers, a list, or a tensor of another library.
            ValueError: the array was written to since it was first watched.
            RuntimeError: the tape is not recording, or not in this thread.
        """
        return self.watched(array, "Tape.watch", "array")

    def watched(self, array: Any, op: str, argument: str, *, private: bool = False) -> TapeArray:
        """`watch`, in the name of an op and its argument."""
        if self not in recording.tapes():
            got = "one that is not, or not in this thread"
            raise RuntimeError(message(op, argument, "a tape that is recording (with gk.Tape() as tape)", got))
        if isinstance(array, TapeArray):
            if array.node.backward is None or array.node.recordings & recording.recordings():
                return array
        elif not (isinstance(array, np.ndarray) or is_cupy_array(array)) or array.dtype.kind != "f":
            raise TypeError(message(op, argument, "floats of NumPy or CuPy", describe(array)))
        key, tapes = id(array), recording.tapes()
        known = next((tape._leaves[key][1] for tape in reversed(tapes) if key in tape._leaves), None)
        if known is None:
            known = TapeArray.leaf(array, private)
        elif known.node.watched is not None:
            known.node.watched.check(op, argument)
        elif key in tapes[-1]._written:
            tapes[-1]._written[key].check(op, argument)
        # What the innermost tape knows, the others do.
        if key not in tapes[-1]._leaves:
            for tape in tapes:
                tape._leaves[key] = array, known
        return known

    def wrote(self, array: Any, recorded: TapeArray) -> None:
        """A function has written into a plain array what it recorded: from now on the one stands for the other."""
        self._leaves[id(array)] = array, recorded
        self._written[id(array)] = Watched(array)

    def gradient(self, target: Any, sources: Any, *, adj: Any = None) -> Any:
        """Gradients of a recorded number with respect to arrays.

        Args:
            target: what was computed: a TapeArray of one element, or of any shape if adj is given.
            sources: an array that was used on the tape, or a list or tuple of them: plain arrays by identity,
                TapeArrays, meshes, which stand for their vertices, or an `SdfGrid`, for its values.
            adj: the cotangent of target, of its shape; None is 1.

        Returns:
            an array of each source's shape and dtype, the caller's own; a list of them for a list. A TapeArray while a
            tape records.

        Raises:
            ValueError: no path leads from a source to target, and why, where that can be told; target has more than one
                element and no adj; an array was written to since.
            TypeError: a source has no gradient, such as integers.
            NotImplementedError: the path leads through a gradient.

        Gradients:
            None through what is returned: first derivatives only.
        """
        many = isinstance(sources, (list, tuple)) and not is_holder(sources)
        gradients = self.gradients(target, sources if many else [sources], adj, "Tape.gradient", "sources")
        return gradients if many else gradients[0]

    def gradients(self, target: Any, sources: Any, adj: Any, op: str, name: str) -> list[Any]:
        """`gradient` of a list of sources, in the name of an op and its argument."""
        if id(target) in self._written:
            self._written[id(target)].check(op, "target")
            target = self._leaves[id(target)][1]
        if not isinstance(target, TapeArray):
            got = describe(target) + self._departed(())
            raise ValueError(message(op, "target", "a TapeArray, recorded within the tape", got))
        if self.recording not in target.node.recordings and target.node.backward is not None:
            expected = "an array recorded since the tape was entered"
            raise ValueError(message(op, "target", expected, "one of another tape or recording"))
        if adj is not None:
            device = "cpu" if isinstance(target.value, np.ndarray) else "cuda"
            adj = as_array(adj, op=op, name="adj", shape=target.shape, dtype=target.dtype, device=device)
        elif target.size == 1:
            adj = target.namespace.ones_like(target.value)
        else:
            expected = f"the cotangent of target, {target.shape}"
            raise ValueError(message(op, "adj", expected, "None, for a target of several elements"))
        wanted = [self._source(op, f"{name}[{i}]", source) for i, source in enumerate(sources)]
        nodes = self._nodes(target)
        with recording.paused():
            recorded = [node for node in nodes if self.recording in node.recordings]
            found = _propagate(recorded, target, wanted, adj)
        gradients: list[Any] = []
        for i, source in enumerate(wanted):
            gradient = found.get((id(source.node), source.index))
            if gradient is None:
                raise ValueError(message(op, f"{name}[{i}]", *self._no_path(nodes, source)))
            gradient = target.namespace.asarray(gradient)
            shared = gradient is adj or any(gradient is other for other in gradients)
            gradients.append(gradient.copy() if shared or gradient.base is not None else gradient)
        return gradients if recording.innermost() is None else _as_recorded(target, gradients)

    def _source(self, op: str, name: str, source: Any) -> TapeArray:
        if is_holder(source):
            source = source.tracked_array
        if id(source) in self._leaves:
            return self._leaves[id(source)][1]
        if isinstance(source, TapeArray):
            return source
        kind = getattr(getattr(source, "dtype", None), "kind", "")
        if kind in ("i", "u", "b"):
            text = message(op, name, "floats: integers are discrete", describe(source))
            raise TypeError(text)
        if not kind or isinstance(source, np.generic):
            got = f"a {type(source).__name__}, which has no identity (use an array, such as np.array(0.5))"
            raise TypeError(message(op, name, "an array used on the tape", got))
        why = "unused, or a copy (a Mesh copies: ask for mesh.vertices), or used by NumPy only (start with tape.watch)"
        got = f"another {describe(source)}: {why}"
        raise ValueError(message(op, name, "the very array used on the tape", got))

    def _nodes(self, target: TapeArray) -> list[Node]:
        """All that target was computed from in this recording, the earliest first."""
        nodes: dict[int, Node] = {}
        pending = [target.node]
        while pending:
            node = pending.pop()
            if id(node) not in nodes:
                nodes[id(node)] = node
                if self.recording in node.recordings:
                    pending += [x.node for x in node.inputs]
        return sorted(nodes.values(), key=lambda node: node.number)

    def _no_path(self, nodes: list[Node], source: TapeArray) -> tuple[str, str]:
        """What was expected and what is, for a source that target does not depend on."""
        names = sorted({node.name for node in nodes if node.backward is not None})
        made = f"was made by {', '.join(names)}" if names else "is an array like any other"
        return "a recorded path to target", f"none: target {made}" + self._departed((source,))

    def _departed(self, sources: tuple[TapeArray, ...]) -> str:
        """How what was computed from a source, or anything, left the tape."""
        for name, how, made_of in reversed(self.departures):
            if all(source.node.number in made_of for source in sources):
                return f"; {name} left the tape by {how}"
        return " (x.value, and what NumPy makes of plain arrays, is not recorded)"


def call_tape(op: Primitive, arguments: dict[str, Any]) -> Any:
    """Run a primitive and record it."""
    tape = recording.innermost()
    assert tape is not None
    constants: list[tuple[str, Watched]] = []
    for parameter, value in arguments.items():
        if isinstance(value, TapeArray):
            arguments[parameter] = on_tape(value)
        elif is_holder(value):
            constants += _constants(parameter, {name: getattr(value, name) for name in getattr(value, "_fields", ())})
        elif isinstance(value, np.ndarray) or is_cupy_array(value):
            if parameter in op.sends and value.dtype.kind == "f":
                arguments[parameter] = tape.watched(value, op.__name__, parameter)
            elif Watched.needed(value):
                constants.append((parameter, Watched(value)))
    call = Call(op, arguments, "tape")
    if not call.leaves:
        call.run(())
        return call.rebuilt([call.library.wrap(x) for x in call.outputs()])
    leaves = tuple(on_tape(leaf.array) for leaf in call.leaves)
    values = tuple(x.value for x in leaves)
    result = call.run(values)
    if op.takes_result:
        kept = {name: frozen(getattr(result, name)) for name in op.discrete}
        constants += _constants("result", {name: x for name, x in kept.items() if not isinstance(x, np.ndarray)})
    node = Node(
        op.__name__,
        leaves,
        tuple(leaf.name for leaf in call.leaves),
        lambda cotangents: call.adjoint(values, cotangents),
        len(op.outputs),
        tuple(constants),
    )
    return call.rebuilt([TapeArray(frozen(x.view()), node, k) for k, x in enumerate(call.outputs())])


def _constants(name: str, record: dict[str, Any]) -> list[tuple[str, Watched]]:
    arrays = {field: x for field, x in record.items() if isinstance(x, np.ndarray) or is_cupy_array(x)}
    return [(f"{name}.{field}", Watched(x)) for field, x in arrays.items() if Watched.needed(x)]


def _propagate(nodes: list[Node], target: TapeArray, sources: list[TapeArray], adj: Any) -> dict[tuple[int, int], Any]:
    """Cotangents of everything between sources and target, by node and output."""
    beyond = {id(source.node) for source in sources}
    through = []
    for node in nodes:
        if any(id(x.node) in beyond for x in node.inputs):
            beyond.add(id(node))
            through.append(node)
    found = {(id(target.node), target.index): adj}
    checked: set[int] = set()
    for node in reversed(through):
        cotangents = [found.get((id(node), k)) for k in range(node.n_outputs)]
        if node.backward is None or all(cotangent is None for cotangent in cotangents):
            continue
        watched = [(argument, x.node.watched) for x, argument in zip(node.inputs, node.arguments, strict=True)]
        for argument, array in (*watched, *node.constants):
            if array is not None and id(array) not in checked:
                array.check(node.name, argument)
                checked.add(id(array))
        for x, gradient in zip(node.inputs, node.backward(cotangents), strict=True):
            if gradient is not None and id(x.node) in beyond:
                if gradient.shape != x.shape:
                    raise ValueError(message(f"{node.name}.adjoint", "its gradient", str(x.shape), str(gradient.shape)))
                gradient = x.namespace.asarray(gradient, dtype=x.dtype)
                key = id(x.node), x.index
                found[key] = found[key] + gradient if key in found else gradient
    return found


def _as_recorded(target: TapeArray, gradients: list[Any]) -> list[Any]:
    """Gradients for the tapes that record meanwhile: those refuse to go through them."""

    def refuse(_: list[Any]) -> Any:
        got = "a path through a gradient (to hold it constant: .detach())"
        raise NotImplementedError(message("Tape.gradient", "target", "first derivatives only", got))

    node = Node("Tape.gradient", (target,), ("target",), refuse, len(gradients))
    return [TapeArray(frozen(gradient), node, k) for k, gradient in enumerate(gradients)]
