"""Colours of a surface drawn into a texture."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, precision_of, refuse_tracked, to_host
from geomkit.autodiff.primitive import nondifferentiable
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh, as_mesh
from geomkit.render.attribute import Attribute
from geomkit.render.scene import Object
from geomkit.spatial.closest_point import closest_point

__all__ = ["bake_texture"]

OP = "bake_texture"
PARTS = {"albedo": 3, "metallic": 1, "roughness": 1, "emission": 3}
CHUNK = 1 << 19  # samples at a time
REACH = 1.5  # texels beyond a chart that bilinear lookups within it can see
STRETCH = 8.0  # times the mean by which a face may stretch its texels, and its plane still be followed beyond it


@nondifferentiable("the texels are constants: gradients reach them from `render`")
def bake_texture(
    mesh: Mesh, uv: Any, source: Any, *, resolution: Any = 512, samples: int = 1, part: str = "albedo"
) -> Any:
    """Draw what a surface looks like into a texture for it.

    A texel takes the colour of the point of the surface at its centre, as `Texture` has it. Texels that no triangle
    covers take that of the nearest chart; those which bilinear lookups at its border see take it in the plane of the
    border's face, a little beyond the edge. So a lookup on either side of a seam gives the same colour, up to what
    texels resolve. All texels have a colour, so that smaller copies of the image (`filter="mipmap"`) do not bleed.

    Args:
        mesh: a Mesh, or any object with `.vertices` and `.faces`.
        uv: (V, 2) its texture coordinates in [0, 1], such as `unwrap_uv` makes.
        source: where colours come from: a function of (N, 3) points (NumPy, float64) that returns (N, C) or (N,); an
            array (V, C) or (V,) of values at the vertices; or an `Object`, whose colour at the closest point is taken:
            so a texture moves from one mesh to another.
        resolution: texels along a side, or (height, width).
        samples: along a side of a texel, of which the texel is the mean: more for sources with finer detail.
        part: of the source's material, if it is an Object: "albedo", "metallic", "roughness" or "emission".

    Returns:
        (H, W, C) image in the library and precision of the mesh; (H, W) of values without channels.

    Gradients:
        None: bake a texture to start with, and let `render` send gradients to it.

    Raises:
        ValueError: an argument is out of range or of the wrong shape; uv outside of [0, 1]; a mesh or a source without
            faces.
        TypeError: wrong dtype.

    Cost: a closest-point query in the plane for each texel, and what the source costs.

    Example:
        >>> import geomkit as gk
        >>> found = gk.unwrap_uv(gk.shapes.icosphere(2), resolution=64)
        >>> image = gk.bake_texture(found.mesh, found.uv, lambda points: 0.5 + 0.5 * points, resolution=64)
        >>> ball = gk.Object(found.mesh, gk.Material(image), uv=found.uv)
        >>> image.shape, image.dtype
        ((64, 64, 3), dtype('float32'))
    """
    given = as_mesh(mesh)
    shape = (resolution, resolution) if np.ndim(resolution) == 0 else tuple(resolution)
    if len(shape) != 2:
        raise ValueError(message(OP, "resolution", "an integer, or height and width", repr(resolution)))
    height, width = (_integer("resolution", x) for x in shape)
    k = _integer("samples", samples)
    solid = Mesh(to_host(given.vertices_array), to_host(given.faces_array))
    if not solid.n_faces:
        raise ValueError(message(OP, "mesh", "at least one face", "none"))
    flat = as_array(uv, op=OP, name="uv", shape=(solid.n_vertices, 2), dtype=np.float64)
    used = flat[solid.faces_array]
    if not (used >= -1e-6).all() or not (used <= 1 + 1e-6).all():
        raise ValueError(message(OP, "uv", "numbers in [0, 1]", f"{float(used.min())} to {float(used.max())}"))
    chart = _Chart(solid, flat * (width, height))
    colors = _colors(source, solid, part)
    rows = max(1, CHUNK // (width * k * k))
    parts, bare = [], False
    for top in range(0, height, rows):
        n = min(rows, height - top)
        y, x = np.meshgrid((np.arange(n * k) + 0.5) / k + top, (np.arange(width * k) + 0.5) / k, indexing="ij")
        values = colors(chart.at(np.stack([x.ravel(), height - y.ravel()], axis=1)))
        parts.append(values.reshape(n, k, width, k, -1).mean(axis=(1, 3)))
        bare = values.ndim == 1
    image = np.concatenate(parts).astype(solid.dtype)
    return given.library.wrap(image[:, :, 0] if bare else image)


class _Places(NamedTuple):
    """Points on or a little beyond faces."""

    point: np.ndarray  # (N, 3) float64
    face: np.ndarray  # (N,)
    weights: np.ndarray  # (N, 3) of the face's corners, of sum 1


class _Chart:
    """A mesh spread out in its texture.

    Args:
        solid: the mesh, on the host.
        place: (V, 2) float64 of its vertices, in texels.
    """

    def __init__(self, solid: Mesh, place: np.ndarray):
        self.solid = solid
        corners = place[solid.faces_array]
        self.origin = corners[:, 0]
        e, f = corners[:, 1] - self.origin, corners[:, 2] - self.origin
        twice = e[:, 0] * f[:, 1] - e[:, 1] * f[:, 0]
        vertices = solid.vertices_array[solid.faces_array].astype(np.float64)
        a, b = vertices[:, 1] - vertices[:, 0], vertices[:, 2] - vertices[:, 0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Weights of corners 1 and 2 a texel to the right, and one up; what the point in space moves by.
            self.slopes = np.stack([np.stack([f[:, 1], -f[:, 0]], 1), np.stack([-e[:, 1], e[:, 0]], 1)], axis=1)
            self.slopes /= twice[:, None, None]
            motion = np.einsum("fi,fj->fij", a, self.slopes[:, 0]) + np.einsum("fi,fj->fij", b, self.slopes[:, 1])
            stretch = np.sqrt((motion**2).sum(axis=(1, 2)) / 2)
        area = 0.5 * abs(twice).sum()
        mean = np.sqrt(solid.area / area) if area > 0 else 0.0
        self.follows = np.isfinite(self.slopes).all(axis=(1, 2)) & (stretch <= STRETCH * mean)
        self.vertices = vertices
        self.plane = Mesh(np.c_[place, np.zeros(len(place))], solid.faces_array)

    def at(self, texels: np.ndarray) -> _Places:
        """The points of the surface that texels (N, 2) stand for."""
        hit = closest_point(self.plane, np.c_[texels, np.zeros(len(texels))])
        weights = np.array(hit.barycentric, np.float64)
        beyond = np.flatnonzero((hit.distance > 0) & self.follows[hit.face])
        if len(beyond):
            face = hit.face[beyond]
            away = texels[beyond] - hit.point[beyond, :2]
            away *= np.minimum(1, REACH / hit.distance[beyond])[:, None]
            weights[beyond, 1:] += np.einsum("nij,nj->ni", self.slopes[face], away)
            weights[beyond, 0] = 1 - weights[beyond, 1] - weights[beyond, 2]
        point = np.einsum("nk,nki->ni", weights, self.vertices[hit.face])
        return _Places(point, hit.face, weights)


def _colors(source: Any, solid: Mesh, part: str) -> Callable[[_Places], np.ndarray]:
    """Values (N, C) or (N,), in float64, at places."""
    if isinstance(source, Object):
        return _of_object(source, part)
    if callable(source):

        def called(at: _Places) -> np.ndarray:
            values: Any = source(at.point)
            refuse_tracked(values, op=OP, name="source")
            shape = (len(at.point), "C")[: max(1, np.ndim(values))]
            return as_array(values, op=OP, name="source(points)", shape=shape, dtype=np.float64)

        return called
    shape = (solid.n_vertices, "C")[: max(1, np.ndim(source))]
    array = as_array(source, op=OP, name="source", shape=shape, dtype=precision_of(source)).astype(np.float64)
    used = array[solid.faces_array]
    least, most = used.min(axis=(0, 1)), used.max(axis=(0, 1))

    def interpolated(at: _Places) -> np.ndarray:
        values = np.einsum("nk,nk...->n...", at.weights, array[solid.faces_array[at.face]])
        return np.clip(values, least, most)

    return interpolated


def _of_object(source: Object, part: str) -> Callable[[_Places], np.ndarray]:
    if part not in PARTS:
        raise ValueError(message(OP, "part", "one of " + ", ".join(map(repr, PARTS)), repr(part)))
    mesh = as_mesh(source.mesh)
    mesh = Mesh(to_host(mesh.vertices_array), to_host(mesh.faces_array))
    if not mesh.n_faces:
        raise ValueError(message(OP, "source", "a mesh of at least one face", "none"))
    uv = source.uv
    if uv is not None:
        uv = as_array(uv, op=OP, name="source.uv", shape=(mesh.n_vertices, 2), dtype=mesh.dtype)
    whole = slice(0, mesh.n_vertices)
    given = getattr(source.material, part)
    attribute = Attribute(f"source.material.{part}", given, PARTS[part], unit=False, part=whole, uv=uv, mesh=mesh)

    def nearest(at: _Places) -> np.ndarray:
        if attribute.constant is not None:
            values = np.broadcast_to(attribute.constant, (len(at.point), PARTS[part]))
        else:
            hit = closest_point(mesh, at.point.astype(mesh.dtype))
            values = attribute.at(hit.face, np.ascontiguousarray(hit.barycentric[:, 1:]), None).astype(np.float64)
        return values if PARTS[part] > 1 else values[:, 0]

    return nearest


def _integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(message(OP, name, "an integer", type(value).__name__)) from error
    if number < 1:
        raise ValueError(message(OP, name, "an integer of at least 1", str(value)))
    return number
