"""A program on CUDA: compiled by NVRTC for the device's architecture, launched on CuPy's current stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.errors import DeviceError
from geomkit.lang.checks import ERROR, report
from geomkit.lang.emit import Text
from geomkit.lang.mesh_handle import BoundMesh
from geomkit.runtime import cuda, program_cuda

if TYPE_CHECKING:
    from geomkit.lang.specialization import Backward, Specialization

__all__ = ["adjoint", "run"]


def run(
    found: Specialization,
    dims: tuple[int, int, int],
    values: list[Any],
    *,
    debug: bool = False,
    deterministic: bool = False,
) -> None:
    """Launch a forward program.

    Raises:
        DeviceError: the device or its compiler is missing, or the order of sums cannot be kept there.
        IndexError: debug, and an index is out of bounds; likewise FloatingPointError, AssertionError.
    """
    _refuse_order(found, found.forward(), deterministic)
    total = dims[0] * dims[1] * dims[2]
    if not total:
        return
    text = found.text(debug)
    if not debug:
        _launch(text, values, found.packing.block(dims, 1, values), total)
        return
    record = cuda.cupy().zeros(ERROR.itemsize, np.uint8)
    _launch(text, values, found.packing.block(dims, 1, values, errors=record.data.ptr), total)
    report(text, record.get().view(ERROR)[0], dims[: found.rank], found.name)


def adjoint(
    backward: Backward, dims: tuple[int, int, int], values: list[Any], grads: dict[str, Any], *, deterministic: bool
) -> np.ndarray:
    """Launch an adjoint program, made with slots; the sums for scalar parameters are returned.

    Raises:
        DeviceError: as `run`.
    """
    _refuse_order(backward.forward, backward.program, deterministic)
    sums = cuda.cupy().zeros(max(len(backward.program.slots), 1))
    total = dims[0] * dims[1] * dims[2]
    if total:
        place = sums.data.ptr if backward.program.slots else 0
        _launch(backward.text, values, backward.packing.block(dims, 1, values, grads=grads, slots=place), total)
    return sums.get()


def _refuse_order(found: Specialization, program: Any, deterministic: bool) -> None:
    if deterministic and not found.is_ordered(program):
        raise DeviceError(f"{found.name}: deterministic=True: sums of several threads have no fixed order on CUDA: "
                          "launch it with arrays on the CPU, or write one element a thread")  # fmt: skip


def _launch(text: Text, values: list[Any], block: bytes, total: int) -> None:
    program_cuda.launch(sized(text.text, values), text.entry, block, total)


def sized(text: str, values: list[Any]) -> str:
    """A program whose traversal stacks, memory of each thread, fit the trees of the meshes among its arguments."""
    meshes = [x.value for x in values if isinstance(x, BoundMesh) and x.value.n_faces]
    entries = [cuda.stack_entries(mesh.bvh.levels) for mesh in meshes]
    return f"#define GK_STACK {max(entries)}\n{text}" if entries else text


