"""Whether rays hit a mesh, how often, and where: the answers that carry no gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.autodiff.primitive import nondifferentiable
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.rays import RayQuery

__all__ = ["AllHits", "all_hits", "blocked", "count_hits", "occluded"]

_RAYS = "int block, int count, Bvh bvh, Mesh mesh, Rays rays, int cull"
occluded_fwd = Kernel("spatial/rays.cu", "occluded_fwd", f"{_RAYS}, int* found, int* invalid", grain=1)
count_hits_fwd = Kernel("spatial/rays.cu", "count_hits_fwd", f"{_RAYS}, int* hits, int* invalid", grain=1)
all_hits_fwd = Kernel(
    "spatial/rays.cu", "all_hits_fwd", f"{_RAYS}, const uint64* offset, real* t, int* face, int* invalid", grain=1
)


class AllHits(NamedTuple):
    """What `all_hits` finds: the hits of ray i are t[offsets[i] : offsets[i + 1]] and face[...] likewise."""

    offsets: Any  # (N + 1,) int64
    t: Any  # (M,) by ray, then sorted, in units of the ray's direction
    face: Any  # (M,) int32


@nondifferentiable("whether a ray is blocked is discrete", discrete={"occluded": "bool N"})
def occluded(
    mesh: Mesh, origins: Any, directions: Any, *, t_min: Any = 0.0, t_max: Any = np.inf, cull: str = "none"
) -> Any:
    """Whether anything of a triangle mesh is in the way of each ray: shadows, line of sight.

    Faster than `cast_rays`, since any hit will do; the two agree on what is a hit. From a point p to a point q: origin
    p, direction q - p, t_max=1; where p or q lies on the mesh, t_min=1e-6 and t_max=1 - 1e-6, lest rounding decide
    whether the mesh hides itself.

    Args:
        mesh, origins, directions, t_min, t_max, cull: as in `cast_rays`.

    Returns:
        (N,) bool, in the library of `origins`.

    Gradients:
        None: the answer is discrete.

    Raises:
        ValueError, TypeError: as `cast_rays`.

    Cost: at most O(log F) a ray after the tree is built once.   Source: Woop, Benthin and Wald (2013).

    Example:
        >>> import geomkit as gk
        >>> gk.occluded(gk.shapes.box(), [[0, 0, 2], [0, 0, 2]], [[0, 0, -1], [0, 0, 1]]).tolist()
        [True, False]
    """
    q = RayQuery("occluded", mesh, origins, directions, t_min, t_max, cull)
    return q.library.wrap(_integers(q, occluded_fwd) > 0)


def blocked(mesh: Mesh, origins: Any, directions: Any, *, t_min: Any = 0.0, t_max: Any = np.inf) -> Any:
    """What `occluded` finds as (N,) int32, 0 or 1, which kernels take."""
    return _integers(RayQuery("occluded", mesh, origins, directions, t_min, t_max, "none"), occluded_fwd)


@nondifferentiable("the number of hits is discrete", discrete={"count": "int32 N"})
def count_hits(
    mesh: Mesh, origins: Any, directions: Any, *, t_min: Any = 0.0, t_max: Any = np.inf, cull: str = "none"
) -> Any:
    """How many faces of a triangle mesh each ray goes through.

    A shared edge or corner counts once: the ray is taken as if moved by an infinitesimal step that meets none. So any
    line (t_min=-inf) goes through a closed mesh an even number of times, and through the rim of an open one 0 times or
    once. (`cast_rays` and `occluded` count both faces at an edge, lest a ray get through.) In float32 this holds for
    features down to 1e-20 of the mesh's size.

    Args:
        mesh, origins, directions, t_min, t_max, cull: as in `cast_rays`.

    Returns:
        (N,) int32, in the library of `origins`.

    Gradients:
        None: the answer is discrete.

    Raises:
        ValueError, TypeError: as `cast_rays`.

    Cost: O(log F + hits) a ray after the tree is built once.   Source: Woop, Benthin and Wald (2013); Edelsbrunner and
    Muecke (1990), simulation of simplicity.

    Example:
        >>> import geomkit as gk
        >>> gk.count_hits(gk.shapes.box(), [[0.5, 0.5, 0.5]], [[1.0, 1.0, 1.0]], t_min=-10).tolist()
        [2]
    """
    q = RayQuery("count_hits", mesh, origins, directions, t_min, t_max, cull)
    return q.library.wrap(_integers(q, count_hits_fwd))


@nondifferentiable("use cast_rays for gradients of the closest hit")
def all_hits(
    mesh: Mesh, origins: Any, directions: Any, *, t_min: Any = 0.0, t_max: Any = np.inf, cull: str = "none"
) -> AllHits:
    """Every hit of each ray on a triangle mesh, sorted along the ray; none is left out, however many there are.

    As in `count_hits`, a shared edge or corner is hit once.

    Args:
        mesh, origins, directions, t_min, t_max, cull: as in `cast_rays`.

    Returns:
        A record in the library of `origins`: `.offsets` (N + 1,) int64, `.t` (M,) of the mesh's precision, `.face` (M,)
        int32. Ray i has the hits offsets[i] to offsets[i + 1] - 1, sorted by t, those of equal t by face.

    Gradients:
        None: use `cast_rays`, with t_min and t_max around the hit.

    Raises:
        ValueError, TypeError: as `cast_rays`.

    Cost: two passes of `count_hits`.   Source: as there.

    Example:
        >>> import geomkit as gk
        >>> hits = gk.all_hits(gk.shapes.box(), [[0.1, 0.2, 2.0]], [[0.0, 0.0, -1.0]])
        >>> hits.offsets.tolist(), hits.t.tolist()
        ([0, 2], [1.5, 2.5])
    """
    q = RayQuery("all_hits", mesh, origins, directions, t_min, t_max, cull)
    xp = namespace(q.device)
    offsets = xp.zeros(len(q) + 1, np.int64)
    xp.cumsum(_integers(q, count_hits_fwd), out=offsets[1:])
    total = int(offsets[-1])
    t, face = empty(q.device, total, q.dtype), empty(q.device, total, np.int32)
    if total:
        all_hits_fwd(*_arguments(q), offsets.view(np.uint64), t, face, q.invalid)
    return AllHits(*map(q.library.wrap, (offsets, t, face)))


def _arguments(q: RayQuery) -> tuple:
    return q.n_blocks, q.block, len(q), q.mesh.bvh.struct(), q.mesh_struct(), q.struct(), q.cull


def _integers(q: RayQuery, kernel: Kernel) -> Any:
    """(N,) int32 of a kernel that gives each ray one."""
    if q.mesh.n_faces == 0:
        q.check_all()
        return q.full(0, dtype=np.int32)
    out = q.empty(dtype=np.int32)
    kernel(*_arguments(q), out, q.invalid)
    q.check()
    return out
