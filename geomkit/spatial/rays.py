"""What all ray queries share: checked rays, and the blocks in which kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import as_array
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.runtime import host
from geomkit.runtime.device import address, empty
from geomkit.spatial.query import Query

__all__ = ["RayQuery", "RaysStruct"]

BLOCK = 2048  # rays that the CPU takes through the tree together, as in cuda/spatial/ray_walk.h
LEAST = 128  # below that, rays that go together gain less than idle threads lose
CULL = {"none": 0, "back": 1, "front": 2}


class RayQuery(Query):
    """Rays, ready for the mesh's device and precision.

    Args:
        op: the public function, for messages.
        mesh: a Mesh or an object with `.vertices` and `.faces`.
        origins, directions: (N, 3) numbers of any array library.
        t_min, t_max: numbers, or (N,) of them, in units of the directions.
        cull: "none", "back" or "front".

    Attributes:
        cull: as the kernels have it.
        block: number of rays of an item of the kernels.
        n_blocks: number of items.
    """

    def __init__(self, op: str, mesh: Any, origins: Any, directions: Any, t_min: Any, t_max: Any, cull: str):
        super().__init__(op, mesh, origins=origins, directions=directions)
        self.origins, self.directions = self.arrays
        self.t_min, self.t_max = self._bound("t_min", t_min), self._bound("t_max", t_max)
        if not isinstance(cull, str) or cull not in CULL:
            raise ValueError(message(op, "cull", "'none', 'back' or 'front'", repr(cull)))
        self.cull = CULL[cull]
        share = -(-len(self) // (4 * host.num_threads()))
        self.block = min(max(share, LEAST), BLOCK) if self.device == "cpu" else 1
        self.n_blocks = -(-len(self) // self.block)
        # The kernels look at every ray and say which is none: looking here would cost a tenth of casting them.
        self.invalid = empty(self.device, self.n_blocks, np.int32)

    def _bound(self, name: str, value: Any) -> Any:
        """A float, or an (N,) array."""
        if isinstance(value, (int, float, np.number)) or getattr(value, "ndim", None) == 0:
            if value != value:
                raise ValueError(message(self.op, name, "a number or (N,) of them", "nan"))
            return float(value)
        return as_array(value, op=self.op, name=name, shape=(len(self),), dtype=self.dtype, device=self.device)

    def struct(self) -> RaysStruct:
        """What a kernel takes by value."""
        return RaysStruct(self)

    def mesh_struct(self) -> MeshStruct:
        """The mesh as a kernel takes it by value."""
        return MeshStruct(self.mesh)

    def check(self) -> None:
        """Raise a ValueError if the kernel has met a ray that is none."""
        if len(self) and int(self.invalid.max()) >= 0:
            self.check_all()
            first = int(self.invalid[self.invalid >= 0].min())
            got = f"ray {first}, whose square overflows in units of the mesh's size"
            raise ValueError(message(self.op, "origins", "origins nearer to the mesh", got))

    def check_all(self) -> None:
        """Raise a ValueError that names the first ray that is none."""
        self.check_finite(self.origins, "origins", "ray")
        self.check_finite(self.directions, "directions", "ray")
        zero = (self.directions == 0).all(axis=1)
        if zero.any():
            self.refuse(zero, self.directions, "directions", "ray", "directions that are not zero")
        for name, bound in (("t_min", self.t_min), ("t_max", self.t_max)):
            if not isinstance(bound, float) and (bound != bound).any():
                self.refuse(bound != bound, bound, name, "ray", "numbers")


class RaysStruct:
    """The structure `Rays` of the kernels, for one launch."""

    def __init__(self, q: RayQuery):
        self.dtype, self.device = q.dtype, q.device
        bounds = [(0, b) if isinstance(b, float) else (address(b), 0.0) for b in (q.t_min, q.t_max)]
        self.fields = (address(q.origins), address(q.directions), *(b[0] for b in bounds), *(b[1] for b in bounds))


class MeshStruct:
    """The structure `Mesh` of the kernels, for one launch."""

    def __init__(self, mesh: Mesh):
        self.dtype, self.device = mesh.dtype, mesh.device
        self.fields = address(mesh.vertices_array), address(mesh.faces_array)
