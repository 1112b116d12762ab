"""Attributes of the vertices at points of faces: forward and adjoint."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, library_of, precision_of
from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.runtime.device import empty, namespace, zeros
from geomkit.runtime.kernel import Kernel
from geomkit.spatial.scatter import corners_to_vertices

__all__ = ["AttributeGradients", "interpolate_attribute", "interpolated", "interpolated_adj"]

SOURCE = "spatial/interpolate.cu"
interpolate_fwd = Kernel(
    SOURCE,
    "interpolate_fwd",
    "int channels, const real* attribute, const int* faces, const int* face, int weights, const real* barycentric, "
    "real* out",
)
interpolate_adj = Kernel(
    SOURCE,
    "interpolate_adj",
    "int channels, const real* attribute, const int* faces, const int* face, int weights, const real* barycentric, "
    "const real* adj_out, int wanted, real* adj_barycentric, real* adj_corners",
)


class AttributeGradients(NamedTuple):
    """Gradients of `interpolate_attribute`."""

    attribute: Any  # (V, ...)
    barycentric: Any  # (N, 2) or (N, 3)


class _Query:
    def __init__(self, attribute: Any, faces: Any, face: Any, barycentric: Any):
        op = "interpolate_attribute"
        self.library, self.dtype = library_of(attribute, barycentric, face), precision_of(attribute)
        self.device = self.library.device

        def array(name: str, value: Any, shape: tuple, dtype: Any) -> Any:
            return as_array(value, op=op, name=name, shape=shape, dtype=dtype, device=self.device)

        values = array("attribute", attribute, ("V", "..."), self.dtype)
        self.shape = values.shape
        self.values = values.reshape(len(values), math.prod(values.shape[1:]))
        # (Of the mesh only how it is connected counts.)
        self.mesh = Mesh(zeros(self.device, (len(values), 3), self.dtype), array("faces", faces, ("F", 3), np.int32))
        self.face = array("face", face, ("N",), np.int32)
        n = len(self.face)
        width = np.shape(barycentric)[-1:]
        self.barycentric = array("barycentric", barycentric, (n, 3 if width == (3,) else 2), self.dtype)
        outside = (self.face < -1) | (self.face >= self.mesh.n_faces)
        if outside.any():
            at = int(namespace(self.device).argmax(outside))
            expected = f"faces from 0 to {self.mesh.n_faces - 1}, or -1 for none"
            raise ValueError(message(op, f"face[{at}]", expected, str(int(self.face[at]))))


@primitive(differentiable=("attribute", "barycentric"), outputs={"values": "real N ...attribute"})
def interpolate_attribute(attribute: Any, faces: Any, face: Any, barycentric: Any) -> Any:
    """An attribute of a mesh's vertices (colours, normals, uv, positions) at points given by face and weights.

    Args:
        attribute: (V, ...) numbers of any library, a row for each vertex.
        faces: (F, 3) integers, the mesh's.
        face: (N,) integers, the face that each point lies on; -1 for none.
        barycentric: (N, 3) weights of the face's corners, as `closest_point` and `sample_surface` give; or (N, 2),
            those of corners 1 and 2, as `cast_rays` gives: corner 0 has what is missing to one.

    Returns:
        (N, ...) of the attribute's precision; zero where face is -1.

    Gradients:
        attribute and barycentric: through the latter, what is looked up follows a point that slides over the surface.

    Raises:
        ValueError: wrong shape, or a face that there is not.
        MeshError: faces with a vertex that there is not.
        TypeError: wrong dtype, or gradients are followed through an argument that sends none.

    Cost: O(N + F).

    Example:
        >>> import geomkit as gk
        >>> mesh = gk.shapes.box(dtype="float64")
        >>> near = gk.closest_point(mesh, [[0.25, 0.1, 2.0]])
        >>> gk.interpolate_attribute(mesh.vertices, mesh.faces, near.face, near.barycentric).round(6).tolist()
        [[0.25, 0.1, 0.5]]
    """
    q = _Query(attribute, faces, face, barycentric)
    out = interpolated(q.mesh, q.values, q.face, q.barycentric)
    return q.library.wrap(out.reshape(len(q.face), *q.shape[1:]))


@interpolate_attribute.define_adjoint
def interpolate_attribute_adjoint(
    attribute: Any, faces: Any, face: Any, barycentric: Any, *, adj_values: Any
) -> AttributeGradients:
    """Gradients of `interpolate_attribute`: the cotangent of the values to the attribute and the weights.

    Args:
        attribute, faces, face, barycentric: as given to `interpolate_attribute`.
        adj_values: (N, ...) cotangent.

    Returns:
        A record of `.attribute` (V, ...) and `.barycentric`, as it was given, in the library of the arguments.

    Raises:
        ValueError, TypeError: as `interpolate_attribute`; a cotangent of the wrong shape.

    Cost: O(N log N + F). The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> g = gk.interpolate_attribute.adjoint([1.0, 2.0, 4.0], [[0, 1, 2]], [0], [[0.5, 0.25]], adj_values=[1.0])
        >>> g.attribute.tolist(), g.barycentric.tolist()
        ([0.25, 0.5, 0.25], [[1.0, 3.0]])
    """
    q = _Query(attribute, faces, face, barycentric)
    shape = (len(q.face), *q.shape[1:])
    adj = as_array(
        adj_values, op="interpolate_attribute.adjoint", name="adj_values", shape=shape, dtype=q.dtype, device=q.device
    )
    adj_barycentric = zeros(q.device, q.barycentric.shape, q.dtype)
    adj_attribute = interpolated_adj(
        q.mesh, q.values, q.face, q.barycentric, adj.reshape(len(adj), q.values.shape[1]), adj_barycentric
    )
    return AttributeGradients(q.library.wrap(adj_attribute.reshape(q.shape)), q.library.wrap(adj_barycentric))


# ---- on arrays of one device


def interpolated(mesh: Mesh, attribute: Any, face: Any, barycentric: Any) -> Any:
    """(N, C) values of a (V, C) attribute at N points of faces, zero where face is -1."""
    out = empty(mesh.device, (len(face), attribute.shape[1]), attribute.dtype)
    interpolate_fwd(
        len(face), attribute.shape[1], attribute, mesh.faces_array, face, barycentric.shape[1], barycentric, out
    )
    return out


def interpolated_adj(
    mesh: Mesh, attribute: Any, face: Any, barycentric: Any, adj_out: Any, adj_barycentric: Any, *, wanted: bool = True
) -> Any:
    """The cotangent (V, C) of the attribute, or None unless it is wanted; that of barycentric adds up."""
    n, channels = len(face), attribute.shape[1]
    adj_corners = empty(mesh.device, (n if wanted else 0, 3, channels), attribute.dtype)
    interpolate_adj(
        n, channels, attribute, mesh.faces_array, face, barycentric.shape[1], barycentric, adj_out, int(wanted),
        adj_barycentric, adj_corners,
    )  # fmt: skip
    if not wanted:
        return None
    # The sum at vertices takes three numbers a corner.
    if channels == 3:
        return corners_to_vertices(mesh, face, adj_corners)
    padded = zeros(mesh.device, (n, 3, 3 * -(-channels // 3)), attribute.dtype)
    padded[:, :, :channels] = adj_corners
    xp = namespace(mesh.device)
    parts = [
        corners_to_vertices(mesh, face, xp.ascontiguousarray(padded[:, :, k : k + 3])) for k in range(0, channels, 3)
    ]
    return xp.concatenate(parts, axis=1)[:, :channels]
