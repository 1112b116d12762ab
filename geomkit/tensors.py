"""Torch's tensors as NumPy's or CuPy's arrays, also those that torch.func has wrapped."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any

from geomkit.errors import message, missing_package

__all__ = [
    "is_batch",
    "is_followed",
    "is_tensor",
    "plain_tensor",
    "tensor_array",
    "transforming",
    "untraced",
    "version_of",
]


def untraced(function: Callable) -> Callable:
    """Keep torch.compile out of a function: what is compiled has a break there, and the function runs as it is."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return function(*args, **kwargs)
        # The one holds while this is traced, the other when it runs between two compiled pieces.
        if torch.compiler.is_compiling() or _compiled_around()() is not None:
            return _outside(function, args, kwargs)
        return function(*args, **kwargs)

    return call


@cache
def _compiled_around() -> Callable:
    # (Early versions of torch do not have it.)
    return getattr(sys.modules["torch"]._C._dynamo.eval_frame, "get_eval_frame_callback", lambda: None)


def _outside(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    # What torch.compiler.disable does, which is itself traced when called from here.
    frames = sys.modules["torch"]._C._dynamo.eval_frame
    before = frames.set_eval_frame(None)
    try:
        return function(*args, **kwargs)
    finally:
        frames.set_eval_frame(before)


_outside._torchdynamo_disable = True  # pyright: ignore[reportFunctionMemberAccess]


def is_tensor(x: Any) -> bool:
    """Whether x is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_followed(tensor: Any) -> bool:
    """Whether torch follows gradients through the tensor now, in whatever way."""
    torch = sys.modules["torch"]
    if tensor.requires_grad and torch.is_grad_enabled():
        return True
    # torch.func wraps tensors, and only torch's own functions find numbers in those.
    if _functorch().is_functorch_wrapped_tensor(tensor):
        return True
    forward = torch.autograd.forward_ad
    return forward._current_level >= 0 and forward.unpack_dual(tensor).tangent is not None


def version_of(tensor: Any) -> int | None:
    """Torch's count of what was written into the tensor; None for a tensor of inference mode, which has none."""
    return None if tensor.is_inference() else tensor._version


def is_batch(tensor: Any) -> bool:
    """Whether the tensor stands for many, in torch.func.vmap or batched gradients."""
    functorch = _functorch()
    return functorch.is_legacy_batchedtensor(tensor) or functorch.is_batchedtensor(tensor)


def transforming() -> bool:
    """Whether a transformation of torch.func is being applied."""
    return _functorch().peek_interpreter_stack() is not None


def tensor_array(tensor: Any) -> Any:
    """The numbers of a tensor as a NumPy or CuPy array, which shares its memory where the two can.

    Raises:
        NotImplementedError: under torch.func.vmap, where a tensor stands for many.
    """
    if _functorch().peek_interpreter_stack() is None:
        try:
            return tensor.detach().numpy()
        except (TypeError, RuntimeError):  # a layout, dtype or device that NumPy has not
            pass
    return _look(tensor).array


def plain_tensor(tensor: Any) -> Any:
    """The tensor behind a tensor: detached, and not wrapped by torch.func."""
    return _look(tensor).tensor


def _look(tensor: Any) -> SimpleNamespace:
    found = SimpleNamespace()
    if transforming():
        # Only the forward half of an autograd function is handed the tensors themselves.
        _opener().apply(found, tensor)
    else:
        _find(found, tensor)
    return found


@cache
def _functorch() -> Any:
    # torch has no public function that tells what it has wrapped.
    return importlib.import_module("torch._C._functorch")


def _find(found: SimpleNamespace, x: Any) -> None:
    import torch

    found.tensor = x = x.detach()
    if x.layout != torch.strided or x.is_quantized:
        x = x.to_dense() if x.layout != torch.strided else x.dequantize()
    if x.is_floating_point() and x.dtype not in (torch.float16, torch.float32, torch.float64):
        x = x.float()  # NumPy has neither bfloat16 nor what is smaller
    x = x.resolve_conj().resolve_neg()
    found.array = _from_cuda(x) if x.device.type == "cuda" else x.cpu().numpy()


def _from_cuda(x: Any) -> Any:
    try:
        import cupy
    except ImportError as error:
        raise missing_package("cupy", "cuda13", "arrays on CUDA") from error
    return cupy.from_dlpack(x)


@cache
def _opener() -> Any:
    import torch

    class Opener(torch.autograd.Function):
        @staticmethod
        def forward(found: SimpleNamespace, tensor: Any) -> Any:
            _find(found, tensor)
            return tensor.new_empty(0)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> None:
            return None  # what is computed from the numbers will say that it has no such derivative

        @staticmethod
        def vmap(info: Any, in_dims: Any, found: SimpleNamespace, tensor: Any) -> Any:
            expected, got = "one call with all elements in it", "a batch that vmap hides"
            raise NotImplementedError(message("geomkit", "torch.func.vmap", expected, got))

    return Opener
