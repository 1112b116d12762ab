"""Meshes as parameters of kernels."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from geomkit.implicit.sign import METHODS, boundary_strength, choose, pseudonormals
from geomkit.lang.handles import BoundHandle, Handle
from geomkit.lang.types import HANDLES
from geomkit.mesh.mesh import Mesh
from geomkit.runtime import host
from geomkit.runtime.device import address, namespace
from geomkit.spatial.winding_number import BETA, unbalanced_edges

__all__ = ["BoundMesh", "MeshHandle"]

SIGNED = frozenset({"signed_distance_query"})
NEAREST = frozenset({"closest_point_query"}) | SIGNED
RAYS = frozenset({"ray_query"})
WINDING = frozenset({"winding_number_query"})


class MeshHandle(Handle):
    """A `gk.Mesh`."""

    public = Mesh
    header = "query.h"
    c = "gk::MeshHandle"
    layout = struct.Struct("PPPPddddPPPPPPPPPiPPiPPddiii0P")
    size = layout.size
    differentiable = True

    def bound(self, kernel: str, parameter: str, x: Any, functions: frozenset[str]) -> BoundMesh:
        self.check(kernel, parameter, x)
        return BoundMesh(x.plain, functions)

    def instead(self) -> str:
        assert self.scalar is not None
        return f"write gk.Mesh(vertices.astype(np.{self.scalar.dtype}), faces)"


class BoundMesh(BoundHandle):
    """A mesh whose tree and tables are those that some queries read."""

    value: Mesh

    def __init__(self, mesh: Mesh, functions: frozenset[str]):
        super().__init__(mesh, mesh.device)
        self.functions = functions
        self.keep_alive: list[Any] = []

    @property
    def gradient_shape(self) -> tuple[int, ...]:
        return self.value.n_vertices, 3

    def recognizer(self, given: Any) -> Callable[[Any], bool]:
        own = weakref.ref(given)

        def is_known(x: Any) -> bool:
            # (To ask for the vertices is to check that nobody has written to them.)
            return x is own() and not x.tracker and x.vertices_array is not None

        return is_known

    def pack(self, grad: int | None) -> bytes:
        mesh, functions = self.value, self.functions
        table = 0 if self.device == "cuda" else mesh_functions(mesh.dtype)
        vertices, faces = mesh.vertices_array, mesh.faces_array
        if not mesh.n_faces:
            before, after = (0,) * 7, (0,) * 13
            return MeshHandle.layout.pack(*before, 1.0, *after, grad or 0, table, 0, 0, 0, 0, 0)
        sign, boundary, inverted, normals, face_normals = "unsigned", 0.0, 0, (0, 0, 0, 0), 0
        if functions & SIGNED:
            sign = choose("signed_distance_query", mesh, "auto")
            boundary = mesh.derived("boundary", boundary_strength) if sign == "winding" else 0.0
            inverted = int(sign == "pseudonormal" and mesh.volume < 0)
            tables = pseudonormals(mesh, "unsigned" if sign == "unsigned" else "pseudonormal")
            self.keep_alive.append(tables)
            normals = tables.fields
        if functions & RAYS:
            given = namespace(self.device).asarray(mesh.face_normals)
            self.keep_alive.append(given)
            face_normals = address(given)
        edges = [(0, 0, 0), (0, 0, 0)]
        if functions & WINDING and grad is not None:
            edges = [self._edges(by) for by in ("position", "index")]
        moments = functions & WINDING or sign == "winding"
        parts = (["frames"] if functions & NEAREST else []) + (["moments"] if moments else [])
        tree = mesh.bvh.struct(*parts)
        self.keep_alive += [tree, vertices, faces]
        return MeshHandle.layout.pack(
            *tree.fields, address(vertices), address(faces), *normals, face_normals, *edges[0], *edges[1], grad or 0,
            table, boundary, BETA, mesh.n_faces, METHODS[sign], inverted,
        )  # fmt: skip

    def _edges(self, by: str) -> tuple[int, int, int]:
        ends, multiplicity = unbalanced_edges(self.value, by)
        self.keep_alive += [ends, multiplicity]
        return address(ends), address(multiplicity), len(ends)


def mesh_functions(dtype: np.dtype) -> int:
    """Where the table of the queries lies that the CPU's programs call."""
    library = host.kernel_library(dtype)
    function = library.gk_mesh_functions
    function.restype = host.ADDRESS
    return function()


HANDLES[Mesh] = MeshHandle()
