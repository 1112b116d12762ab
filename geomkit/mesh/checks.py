"""What vertices and faces have to be."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.errors import MeshError, message

__all__ = ["check_range", "without_nonfinite"]


def check_range(faces: Any, n_vertices: int) -> None:
    """Raise a MeshError if faces (F, 3) name vertices that are not there."""
    if not len(faces) or (faces.min() >= 0 and faces.max() < n_vertices):
        return
    wrong = ((faces < 0) | (faces >= n_vertices)).any(axis=1)
    first, count = int(wrong.argmax()), int(wrong.sum())
    noun = "face" if count == 1 else "faces"
    got = f"{count} {noun} outside, the first is face {first}: {faces[first].tolist()}"
    raise MeshError(message("Mesh", "faces", f"indices in [0, {n_vertices})", got))


def without_nonfinite(vertices: Any, faces: Any, finite: Any, nonfinite: str) -> tuple[Any, Any]:
    """Vertices and faces without what is not `finite` (V,); a MeshError if that is an "error"."""
    first = int((~finite).argmax())
    if nonfinite == "error":
        got = f"{int((~finite).sum())} that are not, the first is vertex {first}: {vertices[first].tolist()}"
        raise MeshError(message("Mesh", "vertices", "finite numbers (or Mesh(..., nonfinite='drop'))", got))
    number = finite.cumsum(dtype=np.int32) - np.int32(1)
    return vertices[finite], number[faces[finite[faces].all(axis=1)]]
