"""Several meshes as one, kept from one call to the next."""

from __future__ import annotations

import operator
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import namespace

__all__ = ["merged"]

KEPT = 4  # of the same first mesh


@dataclass(frozen=True)
class _Merged:
    """Meshes that were merged, by what those that have moved share with them, and what came of it."""

    families: list[dict[str, Any]]
    meshes: list[weakref.ref[Mesh]]
    whole: Mesh


def merged(meshes: list[Mesh]) -> Mesh:
    """Several meshes as one, faces and vertices in their order.

    It is kept for the next time: the same meshes give the same Mesh, and those that have moved (`Mesh.with_vertices`)
    one that refits the tree of the earlier.
    """
    if len(meshes) == 1:
        return meshes[0]
    families = [m.family for m in meshes]
    records = families[0].setdefault("merged", [])
    known = None
    for record in records:
        if len(record.families) == len(meshes) and all(map(operator.is_, record.families, families)):
            known = record
    if known is not None and all(ref() is m for ref, m in zip(known.meshes, meshes, strict=True)):
        return known.whole
    whole = _joined(meshes) if known is None else known.whole.moved(_vertices_of(meshes, known.whole.dtype))
    if known is not None:
        records.remove(known)
    records.append(_Merged(families, [weakref.ref(m) for m in meshes], whole))
    del records[:-KEPT]
    return whole


def _vertices_of(meshes: list[Mesh], dtype: Any) -> Any:
    return namespace(meshes[0].device).concatenate([m.vertices_array.astype(dtype, copy=False) for m in meshes])


def _joined(meshes: list[Mesh]) -> Mesh:
    devices = {m.device for m in meshes}
    if len(devices) > 1:
        raise ValueError(message("render", "scene", "meshes on one device", " and ".join(sorted(devices))))
    xp = namespace(meshes[0].device)
    dtype = np.result_type(*(m.dtype for m in meshes))
    first = np.cumsum([0, *(m.n_vertices for m in meshes)])
    faces = xp.concatenate([m.faces_array + np.int32(k) for m, k in zip(meshes, first, strict=False)])
    return Mesh.adopt(_vertices_of(meshes, dtype), faces, meshes[0].library)
