"""Primitives on torch's autograd."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from geomkit.autodiff.call import Call
from geomkit.errors import message

if TYPE_CHECKING:
    from geomkit.autodiff.primitive import Primitive

__all__ = ["call_torch"]


def call_torch(op: Primitive, arguments: dict[str, Any]) -> Any:
    """Run a primitive as a node of torch's graph."""
    call = _TorchCall(op, arguments, "torch")
    tensors = _functions().Forward.apply(call, *(leaf.array for leaf in call.leaves))
    return call.rebuilt(tensors)


class _TorchCall(Call):
    """A call, and what its tensors were at the time.

    Attributes:
        values: the leaves, detached.
        made: the outputs, detached.
        versions, made_versions: torch's counters of writes into them.
    """

    values: tuple[Any, ...] = ()
    made: tuple[Any, ...] = ()
    versions: tuple[int | None, ...] = ()
    made_versions: tuple[int, ...] = ()

    def begin(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the forward function; return the outputs."""
        self.values = tuple(tensor.detach() for tensor in tensors)
        self.versions = tuple(None if x.is_inference() else x._version for x in self.values)
        self.run(self.values)
        outputs = tuple(self.library.wrap(output) for output in self.outputs())
        # Aliases, since what is returned becomes part of the graph that this call is a part of.
        self.made = tuple(output.detach() for output in outputs)
        self.made_versions = tuple(output._version for output in self.made)
        return outputs

    def check(self) -> None:
        """Raise a RuntimeError if a leaf has been written to since."""
        for leaf, value, version in zip(self.leaves, self.values, self.versions, strict=True):
            if version is not None and value._version != version:
                got = "a tensor changed in place between the call and backward"
                raise RuntimeError(message(self.op.__name__, leaf.name, "the values of the call", got))

    def gradients(self, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        """The adjoint; it finds the result anew where somebody has written into the outputs."""
        unchanged = all(x._version == v for x, v in zip(self.made, self.made_versions, strict=True))
        found = self.adjoint(self.values, cotangents, with_result=unchanged)
        return tuple(
            self.library.wrap(g).to(device=x.device, dtype=x.dtype).reshape(x.shape)
            for g, x in zip(found, self.values, strict=True)
        )


@cache
def _functions() -> Any:
    """The autograd functions, made when torch is there."""
    import torch

    def refuse_vmap(name: str) -> NotImplementedError:
        text = message(name, "torch.func.vmap", "one call with all elements in it", "a batch that vmap hides")
        return NotImplementedError(text)

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(call: _TorchCall, *tensors: Any) -> tuple[Any, ...]:
            return call.begin(tensors)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.call = inputs[0]
            ctx.set_materialize_grads(False)
            # For the error of a graph that backward has freed; the numbers are read through `call`.
            ctx.save_for_backward(*inputs[1:])

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            call = ctx.call
            call.check()
            leaves = ctx.saved_tensors
            if all(cotangent is None for cotangent in cotangents):
                return (None,) * (1 + len(leaves))
            return None, *Backward.apply(call, *cotangents, *leaves)

        @staticmethod
        def vmap(info: Any, in_dims: Any, call: _TorchCall, *tensors: Any) -> Any:
            raise refuse_vmap(call.op.__name__)

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(call: _TorchCall, *tensors: Any) -> tuple[Any, ...]:
            # (The leaves are among them for the error of a second derivative.)
            return call.gradients(tensors[: len(call.op.outputs)])

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.name = inputs[0].op.__name__

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            raise NotImplementedError(message(ctx.name, "backward", "first derivatives only", "a second derivative"))

        @staticmethod
        def vmap(info: Any, in_dims: Any, call: _TorchCall, *tensors: Any) -> Any:
            raise refuse_vmap(call.op.__name__)

    return SimpleNamespace(Forward=Forward, Backward=Backward)
