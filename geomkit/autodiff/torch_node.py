"""Primitives on torch's autograd."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.autodiff.call import Call, is_holder
from geomkit.errors import message
from geomkit.tensors import is_batch, is_tensor, tensor_array, transforming, version_of

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["call_torch"]


def call_torch(op: Primitive, arguments: dict[str, Any]) -> Any:
    """Run a primitive as a node of torch's graph."""
    call = _TorchCall(op, arguments, "torch")
    early = tuple(op.outputs) if transforming() else op.early
    outputs: dict[str, Any] = dict(zip(early, call.node(early), strict=True))
    for name in op.outputs:
        if name not in outputs:
            outputs[name] = partial(call.late, name, {})
    result = op.rebuilt(call.result, outputs, call.library)
    if op.takes_result and op.discrete and not is_holder(result):
        call.watch_outputs([getattr(result, name) for name in op.discrete])
    return result


class _TorchCall(Call):
    """A call, and what its arrays were at the time.

    Attributes:
        numbers: the arguments on NumPy's or CuPy's arrays.
        watched: names of arguments, their arrays, and what changes when somebody writes into those.
        made: what was returned, detached, and torch's counters of writes into it.
    """

    numbers: dict[str, Any]
    watched: list[tuple[str, Any, int | None]]

    def node(self, names: tuple[str, ...]) -> tuple[Any, ...]:
        """Some of the outputs, as a node of torch's graph."""
        kind = _functions().node(self.op.__name__, transforming())
        return kind.apply(self, names, *[leaf.array for leaf in self.leaves])

    def late(self, name: str, kept: dict[str, Any]) -> Any:
        """An output that is made when it is first asked for, and kept by the result (the graph refers to the call: a
        call that referred to its outputs would live until the garbage is collected)."""
        if name not in kept:
            (output,) = self.node((name,))
            if not output.requires_grad:
                return output
            kept[name] = output
        return kept[name]

    def forward(self, names: tuple[str, ...], tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Some of the outputs."""
        if self.result is None:
            marks = [(name, array, _mark(array)) for name, array in self.arrays.items()]
            self.watched = [entry for entry in marks if entry[2] is not None]
            self.numbers = self._plain(tensors)
            self.result = self._unrecorded(self.op.forward, self.numbers)
            self.made: list[tuple[Any, int]] = []
        else:
            self.check()
            if not self.unchanged:
                self.result, self.made = self._unrecorded(self.op.forward, self.numbers), []
        outputs = tuple([self._handed_out(output) for output in self.outputs(names)])
        if self.op.takes_result:
            self.watch_outputs(outputs)
        return outputs

    def _handed_out(self, array: Any) -> Any:
        """An output as a tensor, which shares the memory: nobody else has what the forward function has just made."""
        if isinstance(array, np.ndarray) and not array.flags.writeable and array.base is None:
            array.flags.writeable = True
            tensor = self.library.wrap(array)
            array.flags.writeable = False
            return tensor
        return self.library.wrap(array)

    def watch_outputs(self, outputs: Iterable[Any]) -> None:
        """Remember what has been returned (by aliases, as it becomes part of the graph that this is a part of)."""
        self.made += [(alias := output.detach(), alias._version) for output in outputs]

    @property
    def unchanged(self) -> bool:
        """Whether nobody has written into what was returned."""
        return all([alias._version == version for alias, version in self.made])

    def check(self) -> None:
        """Raise a RuntimeError if an array has been written to since."""
        for name, array, mark in self.watched:
            if _mark(array) != mark:
                kind = "an array" if isinstance(array, np.ndarray) else "a tensor"
                got = f"{kind} changed in place between the call and backward"
                name = self.op.sends.get(name, name)
                raise RuntimeError(message(self.op.__name__, name, "the values of the call", got))

    def backward(
        self, names: tuple[str, ...], cotangents: tuple[Any, ...], saved: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The cotangents of the leaves."""
        given = [cotangent for cotangent in cotangents if cotangent is not None]
        if not given:
            return (None,) * len(self.leaves)
        if any([is_batch(cotangent) for cotangent in given]):
            raise _refuse_vmap(self.op.__name__)
        if sys.modules["torch"].is_grad_enabled() or transforming():
            return _functions().Backward.apply(self, names, *cotangents, *saved)
        return self.gradients(names, cotangents, saved)

    def gradients(
        self, names: tuple[str, ...], cotangents: tuple[Any, ...], leaves: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The adjoint; it finds the result anew where somebody has written into the outputs."""
        arguments = self.numbers.copy()
        for name, cotangent in zip(names, cotangents, strict=True):
            if cotangent is not None:
                arguments[f"adj_{name}"] = tensor_array(cotangent)
        if self.op.takes_result and self.unchanged:
            arguments["result"] = self.result
        record = self._unrecorded(self.op.adjoint, arguments)
        wrap = self.library.wrap
        return tuple([_like(wrap(getattr(record, x.name)), t) for x, t in zip(self.leaves, leaves, strict=True)])


def _refuse_vmap(name: str) -> NotImplementedError:
    got = "a batch that vmap (or is_grads_batched, or jacrev) hides"
    return NotImplementedError(message(name, "torch.func.vmap", "one call with all elements in it", got))


def _like(gradient: Any, tensor: Any) -> Any:
    """The gradient with dtype, device and shape of the tensor that it is of."""
    if gradient.dtype is not tensor.dtype or gradient.get_device() != tensor.get_device():
        gradient = gradient.to(device=tensor.device, dtype=tensor.dtype)
    return gradient if gradient.shape == tensor.shape else gradient.reshape(tensor.shape)


def _mark(array: Any) -> int | None:
    """A number that changes when somebody writes into the array; None if nobody can, or it cannot be told."""
    if is_tensor(array):
        return version_of(array)
    if type(array) is not np.ndarray or not (array.flags.writeable or array.base is not None):
        return None
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


@cache
def _functions() -> Any:
    """The autograd functions, made when torch is there."""
    import torch

    def keep(ctx: Any, call: _TorchCall, names: tuple[str, ...], tensors: tuple[Any, ...]) -> None:
        ctx.call, ctx.names = call, names
        ctx.set_materialize_grads(False)
        # For the errors of a graph that backward has freed and of second derivatives; numbers are read through `call`.
        ctx.save_for_backward(*tensors)

    class Derivatives(torch.autograd.Function):
        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            ctx.call.check()
            return None, None, *ctx.call.backward(ctx.names, cotangents, ctx.saved_tensors)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            expected, got = "reverse mode (backward, torch.func.vjp)", "forward mode (torch.func.jvp, dual numbers)"
            raise NotImplementedError(message(ctx.call.op.__name__, "derivative", expected, got))

        @staticmethod
        def vmap(info: Any, in_dims: Any, call: _TorchCall, *arguments: Any) -> Any:
            raise _refuse_vmap(call.op.__name__)

    class Plain(Derivatives):
        # torch binds the arguments of a function with `setup_context` by their signature, which takes longer.
        @staticmethod
        def forward(ctx: Any, call: _TorchCall, names: tuple[str, ...], *tensors: Any) -> tuple[Any, ...]:
            keep(ctx, call, names, tensors)
            return call.forward(names, tensors)

    class Transformed(Derivatives):
        @staticmethod
        def forward(call: _TorchCall, names: tuple[str, ...], *tensors: Any) -> tuple[Any, ...]:
            return call.forward(names, tensors)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            keep(ctx, inputs[0], inputs[1], inputs[2:])

    @cache
    def node(name: str, transformed: bool) -> Any:
        # The class's name is what `grad_fn` and torch's anomaly mode show.
        return type(name, (Transformed if transformed else Plain,), {})

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(call: _TorchCall, names: tuple[str, ...], *tensors: Any) -> tuple[Any, ...]:
            # (The leaves are among them for the error of a second derivative.)
            return call.gradients(names, tensors[: len(names)], tensors[len(names) :])

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.name = inputs[0].op.__name__

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            raise NotImplementedError(message(ctx.name, "backward", "first derivatives only", "a second derivative"))

        @staticmethod
        def vmap(info: Any, in_dims: Any, call: _TorchCall, *arguments: Any) -> Any:
            raise _refuse_vmap(call.op.__name__)

    return SimpleNamespace(node=node, Backward=Backward)
