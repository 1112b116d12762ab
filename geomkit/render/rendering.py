"""What rendering gives: images by channel, and gradients by path."""

from __future__ import annotations

from typing import Any

__all__ = ["CAMERA", "CHANNELS", "RenderGradients", "Rendering"]

CHANNELS = {"color": 3, "mask": 1, "depth": 1, "position": 3, "normal": 3, "albedo": 3}
CAMERA = ("world_to_camera", "K", "distortion")


class Rendering:
    """Channels of an image; those not asked for are None.

    Attributes:
        color: (H, W, 3) linear RGB.
        mask: (H, W, 1) share of the pixel that objects cover.
        depth: (H, W, 1) along the camera's z axis.
        position, normal: (H, W, 3) in the world.
        albedo: (H, W, 3) of the materials, unlit.
    """

    color: Any = None
    mask: Any = None
    depth: Any = None
    position: Any = None
    normal: Any = None
    albedo: Any = None

    def __init__(self, **channels: Any):
        for name, image in channels.items():
            setattr(self, name, image)

    def __repr__(self) -> str:
        known = {name: getattr(self, name) for name in CHANNELS if getattr(self, name) is not None}
        return f"Rendering({', '.join(f'{name} {tuple(image.shape)}' for name, image in known.items())})"


class RenderGradients:
    """Gradients of an image.

    Attributes:
        scene: by path, such as "bunny.vertices".
        camera: by field: "world_to_camera", "K", "distortion"; of a list of cameras, a list.
    """

    def __init__(self, scene: dict[str, Any], camera: Any):
        self.scene, self.camera = scene, camera

    def __getitem__(self, path: str) -> Any:
        name, _, rest = path.partition(".")
        if name != "camera":
            return self.scene[path]
        if isinstance(self.camera, list):
            k, _, rest = rest.partition(".")
            return self.camera[int(k)][rest]
        return self.camera[rest]
