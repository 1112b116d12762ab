"""A surface that is being remeshed: `cuda/host/remesh.cpp`."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np

from geomkit.runtime.host import host_library, pointer

__all__ = ["Remesher"]


class Remesher:
    """A manifold surface of half-edges whose edges are split, collapsed and flipped.

    Args:
        place: (V, 3) float64 vertices.
        target: (V,) float64, the edge length wanted at each.
        kind: (V,) int8: 0 smooth, 1 on a line, 2 fixed.
        faces: (F, 3) int32. Each vertex has one fan of faces.
        twin: (F, 3) int32, the half-edge opposite to each, -1 at borders.
        line: (F, 3) int32, the number of the line that a half-edge is part of, or -1.

    Raises:
        MemoryError: not enough memory.
    """

    def __init__(
        self,
        place: np.ndarray,
        target: np.ndarray,
        kind: np.ndarray,
        faces: np.ndarray,
        twin: np.ndarray,
        line: np.ndarray,
    ):
        library = host_library()
        library.gk_remesh_new.restype = ctypes.c_void_p
        library.gk_remesh_free.restype = None
        own = [
            np.ascontiguousarray(x, t)
            for x, t in ((place, "f8"), (target, "f8"), (kind, "i1"), (faces, "i4"), (twin, "i4"), (line, "i4"))
        ]
        before, after = own[:3], own[3:]
        handle = library.gk_remesh_new(
            ctypes.c_int(len(place)), *map(_address, before), ctypes.c_int(len(faces)), *map(_address, after)
        )
        if not handle:
            raise MemoryError("isotropic_remesh: not enough memory for the half-edges")
        self._handle = ctypes.c_void_p(handle)
        self.counts = np.array([len(place), len(faces)], np.int32)
        weakref.finalize(self, library.gk_remesh_free, self._handle)

    def sweep(self) -> None:
        """Split what is too long, collapse what is too short, and flip edges until degrees are even."""
        _checked(host_library().gk_remesh_sweep(self._handle, _address(self.counts)))

    def smoothed(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What some steps of smoothing would give.

        Returns:
            (V, 3) vertices and (V, 3) unit normals; (V,) the line of each vertex, -1 if smooth, -2 if fixed; (F, 3)
            faces, which do not change.
        """
        v, f = self.counts.tolist()
        outputs = (np.empty((v, 3)), np.empty((v, 3)), np.empty(v, np.int32), np.empty((f, 3), np.int32))
        _checked(host_library().gk_remesh_smoothed(self._handle, ctypes.c_int(steps), *map(_address, outputs)))
        return outputs

    def move(self, place: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Move the vertices to (V, 3) places, but for those whose faces would turn over.

        Args:
            place: where to; not a number for those that stay.
            target: (V,) new wanted lengths; 0 leaves what is known.

        Returns:
            (V, 3) where they are.
        """
        moved, target = np.array(place, np.float64, order="C"), np.ascontiguousarray(target, np.float64)
        _checked(host_library().gk_remesh_move(self._handle, _address(moved), _address(target)))
        return moved


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(pointer(array))


def _checked(status: int) -> None:
    if status:
        raise MemoryError("isotropic_remesh: not enough memory")
