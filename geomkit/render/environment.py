"""Light from an image of the surroundings: what is seen in a direction, and directions drawn by how bright they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.arrays import as_array, to_host
from geomkit.errors import message
from geomkit.render.texture import Pyramid, texture_array
from geomkit.runtime.device import empty
from geomkit.runtime.kernel import Kernel

__all__ = ["Surroundings"]

_SOURCE = "render/environment.cu"
environment_fwd = Kernel(_SOURCE, "environment_fwd", "double turn, const real* directions, real* uv")
environment_adj = Kernel(
    _SOURCE, "environment_adj", "const real* directions, const real* adj_uv, real* adj_directions"
)

LUMINANCE = 0.2126, 0.7152, 0.0722  # of linear sRGB (ITU-R BT.709)


class Surroundings:
    """The image of an environment light.

    Args:
        name: of the light.
        image: (H, W, 3), rotation: as given.
        dtype, device: of the scene.

    Directions are drawn by the luminance times the sine of the angle to the poles, linear between texels as the image
    is, so that what is seen over the density hardly varies: a small sun makes no noise.

    Attributes:
        table: float64, for the kernels: the running sum of the rows' shares, (H,), then those within each row, (H, W).
        turn: what the rotation adds to u.
    """

    def __init__(self, name: str, image: Any, rotation: Any, dtype: Any, device: str):
        self.name = name
        array = texture_array(f"{name}.image", image, 3, dtype, device)
        self.pyramid = Pyramid(array, "repeat", "clamp")
        self.xp, self.dtype, self.device = self.pyramid.xp, dtype, device
        degrees = float(as_array(rotation, op="render", name=f"{name}.rotation", shape=(), dtype=np.float64))
        if not np.isfinite(degrees):
            raise ValueError(message("render", f"{name}.rotation", "degrees", repr(degrees)))
        # Whole turns would only cost digits.
        self.turn = degrees / 360 % 1
        host = to_host(array).astype(np.float64)
        if not np.isfinite(host).all():
            raise ValueError(message("render", f"{name}.image", "finite numbers", "nan or inf"))
        self.height, self.width = host.shape[:2]
        self.shares = _shares(host)
        rows = np.cumsum(self.shares.sum(axis=1))
        columns = np.cumsum(self.shares, axis=1)
        columns /= np.where(columns[:, -1:] > 0, columns[:, -1:], 1)
        # A row without light is never drawn, but its sums have to end at 1 all the same.
        columns[:, -1] = 1
        self.rows, self.columns = rows / rows[-1], columns
        self.table = self.xp.asarray(np.concatenate([self.rows, self.columns.ravel()]))

    def at(self, directions: Any) -> Any:
        """(N, 3) what is seen in directions (N, 3)."""
        return self.pyramid.values(self._uv(directions))

    def adjoint(self, directions: Any, adj: Any, out: dict[str, Any]) -> Any:
        """Add gradients of image and rotation for the cotangent (N, 3) of what is seen; return those of directions."""
        adj_image, adj_uv = self.pyramid.adjoint(self._uv(directions), None, self.xp.ascontiguousarray(adj))
        for path, value in (("image", adj_image), ("rotation", adj_uv[:, 0].sum(dtype=np.float64) / 360)):
            path = f"{self.name}.{path}"
            out[path] = out[path] + value if path in out else value
        adj_directions = empty(self.device, (len(directions), 3), self.dtype)
        environment_adj(len(directions), directions, adj_uv, adj_directions)
        return adj_directions

    def drawn(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Directions (J, 3) for points of the unit square (J, 2), and what each is seen to give over its density."""
        u = u.copy()
        row = _entry(np.broadcast_to(self.rows, (len(u), self.height)), u, 0)
        column = _entry(self.columns[row], u, 1)
        tent = np.where(u < 0.5, np.sqrt(2 * u) - 1, 1 - np.sqrt(2 * (1 - u)))
        y, x = row + 0.5 + tent[:, 0], column + 0.5 + tent[:, 1]
        y = np.where(y < 0, -y, np.where(y > self.height, 2 * self.height - y, y))
        angle, around = np.pi * y / self.height, 2 * np.pi * (x / self.width - self.turn - 0.5)
        flat = np.sin(angle)
        directions = np.stack([flat * np.sin(around), np.cos(angle), -flat * np.cos(around)], axis=1)
        uv = np.stack([x / self.width, 1 - y / self.height], axis=1)
        shares = Pyramid(self.shares[:, :, None], "repeat", "clamp").values(uv)[:, 0]
        density = shares * self.width * self.height / (2 * np.pi**2 * np.maximum(flat, 1e-6))
        seen = to_host(self.at(self.xp.asarray(directions.astype(self.dtype)))).astype(np.float64)
        return directions, seen / density[:, None]

    def _uv(self, directions: Any) -> Any:
        uv = empty(self.device, (len(directions), 2), self.dtype)
        environment_fwd(len(directions), self.turn, directions, uv)
        return uv


def _shares(image: np.ndarray) -> np.ndarray:
    """(H, W) of each texel in all light: its luminance times its solid angle."""
    light = abs(image) @ np.array(LUMINANCE)
    edges = np.cos(np.pi * np.arange(len(image) + 1) / len(image))
    angle = (edges[:-1] - edges[1:])[:, None]
    # In the dark all directions are alike, so that gradients can tell where light is wanted.
    shares = light * angle if light.any() else np.broadcast_to(angle, light.shape)
    return shares / shares.sum()


def _entry(sums: np.ndarray, u: np.ndarray, axis: int) -> np.ndarray:
    """The entry of each row of running sums that u[:, axis] falls in; u becomes how far it is within."""
    at = np.minimum((sums <= u[:, axis, None]).sum(axis=1), sums.shape[1] - 1)
    each = np.arange(len(u))
    before = np.where(at > 0, sums[each, np.maximum(at - 1, 0)], 0)
    u[:, axis] = np.clip((u[:, axis] - before) / (sums[each, at] - before), 0, 1)
    return at
