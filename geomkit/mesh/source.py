"""The array that a mesh's vertices came from: gradients reach it, the mesh shares it and watches that it stays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from geomkit.arrays import Recorded, describe, imported, precision_of, refuse_tracked, tracker_of
from geomkit.errors import MeshError, message
from geomkit.tensors import is_tensor, plain_tensor, tensor_array, transforming, version_of

__all__ = ["Source"]


class Source:
    """The caller's array.

    Args:
        array: numbers of any library.

    Attributes:
        array: what to hand back to the caller, if the mesh shares it or gradients reach it; else None.
        values: a NumPy or CuPy array, or whatever is to become one; None for an array that jax traces.
        shared: whether nothing but the caller's own writing can change the values, so that they need no copy.
    """

    def __init__(self, array: Any):
        self.array: Any = None
        self.values: Any = array
        self.shared = False
        self._watched: tuple[Any, Any, int | None] | None = None
        if type(array) in (list, tuple):
            refuse_tracked(array, op="Mesh", name="vertices")
        tracker = tracker_of(array)
        if isinstance(array, Recorded):
            self.array, self.values, self.shared = array, array.value, array.private
        elif tracker == "jax":
            _check_traced(array)
            self.array, self.values = array.astype(precision_of(array)), None
        elif tracker == "torch" or (_is_torch(array) and array.is_floating_point()):
            self._share_tensor(array, bool(tracker))
        elif type(array).__module__.startswith("jax") and precision_of(array) == getattr(array, "dtype", None):
            self.array, self.values, self.shared = array, imported(array), True

    def _share_tensor(self, tensor: Any, tracked: bool) -> None:
        torch, given = sys.modules["torch"], tensor
        if tensor.dtype not in (torch.float32, torch.float64):
            if not tracked:
                return
            tensor = tensor.float()
        plain = plain_tensor(given)
        self.values = tensor_array(tensor)
        if tracked or plain.is_contiguous():
            self.array = tensor
        version = version_of(plain)
        if version is not None:
            self.shared = True
            # (What torch.func wraps, or is sparse, has no address.)
            has_address = given.layout == torch.strided and not transforming()
            self._watched = given if has_address else None, plain, version

    @property
    def tracker(self) -> str:
        """Who follows gradients through the array now, as `geomkit.arrays.tracker_of` says."""
        return "" if self.array is None else tracker_of(self.array)

    def check(self) -> None:
        """Raise a MeshError if the array has been written to since: tables made of it before are of other values."""
        if self.stale:
            got = "a tensor changed in place since (make a new mesh: mesh.with_vertices(vertices))"
            raise MeshError(message("Mesh", "vertices", "the values the mesh was made of", got))

    @property
    def stale(self) -> bool:
        """Whether `check` would raise."""
        if self._watched is None:
            return False
        given, plain, version = self._watched
        return plain._version != version or (given is not None and given.data_ptr() != plain.data_ptr())


def _is_torch(array: Any) -> bool:
    return is_tensor(array) and array.layout == sys.modules["torch"].strided


def _check_traced(array: Any) -> None:
    """What `as_array` checks of arrays that have numbers."""
    from jax import numpy as jnp

    expected = "(V, 3) floats"
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(message("Mesh", "vertices", expected, describe(array)))
    if not (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)):
        raise TypeError(message("Mesh", "vertices", expected, describe(array)))


def traced(array: Any) -> np.ndarray:
    """Something of the shape and dtype of an array that jax traces, for asking after those: NaN, in no memory."""
    return np.broadcast_to(np.array(np.nan, precision_of(array)), array.shape)
