"""Launches of ray kernels by the GPU's text: structures by value, one ray an item."""

import copy

import numpy as np

from geomkit.spatial.cast_rays import cast_rays_fwd
from geomkit.spatial.hits import all_hits_fwd
from geomkit.spatial.rays import RayQuery


def on_cuda(struct):
    struct = copy.copy(struct)
    struct.device = "cuda"
    return struct


class EmulatedRays:
    """Ray kernels by the GPU's text, one ray an item; structures point to the CPU's arrays."""

    def __init__(self, emulated, mesh, bvh, origins, directions, **options):
        self.device, self.mesh, self.bvh, self.n = emulated, mesh, bvh, len(origins)
        options = {"t_min": 0.0, "t_max": np.inf, "cull": "none"} | options
        self.query = RayQuery("emulated", mesh, origins, directions, **options)

    def array(self, *shape, dtype=None, fill=0):
        return self.device(np.full((self.n, *shape), fill, self.mesh.dtype if dtype is None else dtype))

    def run(self, kernel, *more):
        """The kernel's answer to rays in general is that every ray is one."""
        structs = (self.bvh.struct(), self.query.mesh_struct(), self.query.struct())
        invalid = self.array(dtype=np.int32, fill=7)
        kernel(self.n, 1, self.n, *map(on_cuda, structs), self.query.cull, *more, invalid)
        assert (invalid == -1).all()

    def closest(self):
        out = self.array(fill=7), self.array(dtype=np.int32, fill=7), self.array(2, fill=7), self.array(3, fill=7)
        self.run(cast_rays_fwd, self.device(self.mesh.face_normals), *out)
        return [np.asarray(a) for a in out]

    def integers(self, kernel):
        out = self.array(dtype=np.int32, fill=7)
        self.run(kernel, out)
        return np.asarray(out)

    def every(self, offsets):
        t, face = self.device(np.zeros(offsets[-1], self.mesh.dtype)), self.device(np.zeros(offsets[-1], np.int32))
        self.run(all_hits_fwd, self.device(offsets.view(np.uint64)), t, face)
        return np.asarray(t), np.asarray(face)
