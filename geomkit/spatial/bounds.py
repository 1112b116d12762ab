"""The bounding box of a mesh: forward and adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import as_array
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.box import point_bounds_adjoint
from geomkit.mesh.measure import MeshGradients
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.runtime.device import namespace, zeros

__all__ = ["bounds"]


@primitive(differentiable=("vertices",), outputs={"bounds": "real 2 3"})
def bounds(mesh: Mesh) -> Any:
    """The axis-aligned box of a mesh: that of the root of its tree, in the world.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`. Vertices that no face uses do not count.

    Returns:
        (2, 3) lower and upper corner in the library and the precision of the mesh; inf and -inf without faces.

    Gradients:
        mesh.vertices: each bound moves with the vertex that attains it, the lowest index of several.

    Raises:
        TypeError: not a mesh.

    Cost: O(F) once, then kept.

    Example:
        >>> import geomkit as gk
        >>> gk.bounds(gk.shapes.box()).tolist()
        [[-0.5, -0.5, -0.5], [0.5, 0.5, 0.5]]
    """
    mesh = as_mesh(mesh)
    return mesh.library.wrap(namespace(mesh.device).asarray(mesh.bounds.astype(mesh.dtype)))


@bounds.define_adjoint
def bounds_adjoint(mesh: Mesh, *, adj_bounds: Any) -> MeshGradients:
    """Gradients of `bounds`: the cotangent of the box to the vertices that attain it.

    Args:
        mesh: as given to `bounds`.
        adj_bounds: (2, 3) cotangent.

    Returns:
        A record of `.vertices` (V, 3), in the library of the mesh.

    Raises:
        ValueError, TypeError: a cotangent of the wrong shape or dtype; a mesh without faces, whose box is not finite.

    Cost: O(V).
    """
    mesh = as_mesh(mesh)
    adj = as_array(adj_bounds, op="bounds.adjoint", name="adj_bounds", shape=(2, 3), dtype=mesh.dtype)
    if mesh.n_faces == 0:
        raise ValueError(message("bounds.adjoint", "mesh", "a mesh with faces", "0 faces"))
    xp = namespace(mesh.device)
    used = xp.unique(mesh.faces_array)
    adj_vertices = zeros(mesh.device, (mesh.n_vertices, 3), mesh.dtype)
    adj_vertices[used] = point_bounds_adjoint(mesh.vertices_array[used], np.asarray(adj))
    return MeshGradients(mesh.library.wrap(adj_vertices))
