"""Perceptual distance by the package lpips, where it and torch are installed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from geomkit.arrays import as_array, describe, imported, to_host
from geomkit.errors import message, missing_package
from geomkit.render.color import linear_to_srgb

__all__ = ["lpips_loss"]

NETS = ("alex", "vgg", "squeeze")


def lpips_loss(image: Any, target: Any, *, net: str = "alex") -> Any:
    """The LPIPS distance of two linear images: how different they look to a network that was trained on photographs.

    An adapter: the package's network, in torch. Images become sRGB, as the network knows them.

    Args:
        image: (H, W, 3) linear, of torch or any other library.
        target: the same shape.
        net: "alex", "vgg" or "squeeze".

    Returns:
        () a tensor of torch.

    Gradients:
        image and target, where they are tensors that require grad: those of torch's autograd. Other libraries' arrays
        get none back.

    Raises:
        ImportError: torch or lpips is missing.
        ValueError: another shape or network.

    Cost: the network's.   Source: Zhang et al. (2018).
    """
    op = "lpips_loss"
    if net not in NETS:
        raise ValueError(message(op, "net", f"one of {', '.join(NETS)}", repr(net)))
    for name, x in (("image", image), ("target", target)):
        if np.ndim(x) != 3 or np.shape(x)[2] != 3 or np.shape(x) != np.shape(image):
            raise ValueError(message(op, name, "(H, W, 3), the same for both", describe(x)))
    try:
        import torch
    except ImportError as error:
        raise missing_package("torch", "torch", op) from error

    def tensor(name: str, x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            array = as_array(to_host(imported(x)), op=op, name=name, shape=("H", "W", 3), dtype=np.float32)
            x = torch.from_numpy(array.copy())
        # From [0, 1] to [-1, 1], channels first, a batch of one.
        return (2 * linear_to_srgb(x.float().clamp(0, 1)) - 1).permute(2, 0, 1)[None]

    return _network(net)(tensor("image", image), tensor("target", target)).reshape(())


@cache
def _network(net: str) -> Any:
    try:
        import lpips
    except ImportError as error:
        raise ImportError("lpips_loss: needs the package lpips: pip install lpips", name="lpips") from error
    return lpips.LPIPS(net=net, verbose=False)
