"""What a material takes from its surface: a constant, a value at each vertex, or a texture; forward and adjoint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from geomkit.arrays import as_array
from geomkit.errors import message
from geomkit.mesh.mesh import Mesh
from geomkit.render.texture import FILTERS, WRAPS, Pyramid, Texture, texture_array
from geomkit.runtime.device import namespace
from geomkit.spatial.interpolate_attribute import interpolated, interpolated_adj

__all__ = ["Attribute"]


class Attribute:
    """One attribute of an object's material.

    Args:
        path: its path in the scene.
        given: a number or a colour; (V,) or (V, 3); an image, or a Texture.
        channels: 1 or 3.
        unit: whether values have to lie in [0, 1].
        part: the object's vertices among those of the scene.
        uv: (V, 2) of the object, or None.
        mesh: the scene's.

    Attributes:
        constant: (channels,) float64 of a constant one; None of the others.
        is_array: whether it is an array, which may be all zeros and still ask for a gradient.
    """

    def __init__(self, path: str, given: Any, channels: int, *, unit: bool, part: slice, uv: Any, mesh: Mesh):
        self.path, self.channels, self.part, self.uv, self.mesh = path, channels, part, uv, mesh
        self.xp = namespace(mesh.device)
        self.constant = self.vertex = self.pyramid = self.whole_uv = None
        texture = given if isinstance(given, Texture) else None
        self.is_array = texture is not None or hasattr(given, "dtype")
        values: Any = given if texture is None else texture.image
        self.shape = tuple(np.shape(values))
        dimensions = len(self.shape) - (channels > 1)
        if texture is None and dimensions <= 0:
            shape = self.shape if self.shape == () else (channels,)
            array = as_array(values, op="render", name=path, shape=shape, dtype=np.float64)
            self.constant = np.broadcast_to(array, (channels,)).copy()
            checked = self.constant
        elif texture is None and dimensions == 1:
            n = part.stop - part.start
            shape = (n,) if channels == 1 else (n, channels)
            array = as_array(values, op="render", name=path, shape=shape, dtype=mesh.dtype, device=mesh.device)
            self.vertex = self._spread(array.reshape(n, channels))
            checked = array
        else:
            checked = self._set_texture(texture or Texture(values))
        # (Of numbers of which one is NaN, so are the least and the greatest.)
        least, most = (float(checked.min()), float(checked.max())) if checked.size else (0.0, 0.0)
        if not (math.isfinite(least) and math.isfinite(most)):
            raise ValueError(message("render", path, "finite numbers", "nan or inf"))
        if unit:
            if not (least >= 0 and most <= 1):
                wanted, got = "numbers in [0, 1]", f"{least!r} to {most!r}"
                if checked.size == 1:
                    wanted, got = "a number in [0, 1]", repr(most)
                raise ValueError(message("render", path, wanted, got))

    def _set_texture(self, texture: Texture) -> Any:
        for option, value, known in (("wrap", texture.wrap, WRAPS), ("filter", texture.filter, FILTERS)):
            if value not in known:
                raise ValueError(message("render", f"{self.path}.{option}", " or ".join(map(repr, known)), repr(value)))
        image = texture_array(self.path, texture.image, self.channels, self.mesh.dtype, self.mesh.device)
        if self.uv is None:
            name, _, what = self.path.partition(".material.")
            raise ValueError(message("render", f"{name}.uv", f"texture coordinates, as {what} is a texture", "None"))
        self.pyramid = Pyramid(image, texture.wrap, texture.wrap, mipmap=texture.filter == "mipmap")
        self.whole_uv = self._spread(self.uv)
        return image

    def _spread(self, attribute: Any) -> Any:
        """An attribute of the object's vertices, for those of all."""
        if len(attribute) == self.mesh.n_vertices:
            return attribute
        whole = self.xp.zeros((self.mesh.n_vertices, attribute.shape[1]), self.mesh.dtype)
        whole[self.part] = attribute
        return whole

    @property
    def some(self) -> bool:
        """Whether any of it is not zero."""
        if self.constant is not None:
            return bool(self.constant.any())
        values: Any = self.vertex if self.pyramid is None else self.pyramid.texels
        return bool(values.any())

    def at(self, face: Any, barycentric: Any, width: Any) -> Any:
        """(N, channels) at points of the object's faces that stand for squares of some width, or None, in the world."""
        if self.vertex is not None:
            return interpolated(self.mesh, self.vertex, face, barycentric)
        assert self.pyramid is not None
        uv = interpolated(self.mesh, self.whole_uv, face, barycentric)
        return self.pyramid.values(uv, self._level(face, width))

    def total(self, sums: Any) -> Any:
        """The gradient of a constant, from the sums (channels,) of cotangents."""
        return sums.reshape(self.shape) if sums.size == int(np.prod(self.shape)) else sums.sum()

    def adjoint(
        self, face: Any, barycentric: Any, width: Any, adj: Any, adj_barycentric: Any, wanted: Any = None
    ) -> list[tuple[str, Any]]:
        """Gradients by path of what is not constant, for the cotangent (N, channels); those of barycentric add up.

        Of colours at vertices there are none where their path is not in `wanted`, unless that is None.
        """
        if self.vertex is not None:
            asked = wanted is None or self.path in wanted
            g = interpolated_adj(self.mesh, self.vertex, face, barycentric, adj, adj_barycentric, wanted=asked)
            return [(self.path, g[self.part].reshape(self.shape))] if asked else []
        assert self.pyramid is not None
        uv = interpolated(self.mesh, self.whole_uv, face, barycentric)
        adj_image, adj_uv = self.pyramid.adjoint(uv, self._level(face, width), adj)
        g = interpolated_adj(self.mesh, self.whole_uv, face, barycentric, adj_uv, adj_barycentric)[self.part]
        return [(self.path, adj_image.reshape(self.shape)), (self.path.partition(".")[0] + ".uv", g)]

    def _level(self, face: Any, width: Any) -> Any:
        """(N,) level of detail: twice as wide is one level more."""
        assert self.pyramid is not None
        if self.pyramid.levels == 1:
            return None
        xp = self.xp
        if width is None:
            return xp.zeros(len(face), self.mesh.dtype)
        texels = self._texels_of_faces()[face] * width
        return xp.log2(xp.maximum(texels, 1)).astype(self.mesh.dtype)

    def _texels_of_faces(self) -> Any:
        """(F,) texels for each unit of length on a face, in the mean of all directions."""
        assert self.pyramid is not None and self.whole_uv is not None
        (h, w), faces, uv = self.pyramid.shapes[0], self.mesh.faces_array, self.whole_uv
        a, b, c = (uv[faces[:, k]] for k in range(3))
        e, f = b - a, c - a
        areas = 0.5 * abs(e[:, 0] * f[:, 1] - e[:, 1] * f[:, 0])
        world = self.mesh.face_areas
        return self.xp.sqrt(w * h * areas / self.xp.where(world > 0, world, 1))
