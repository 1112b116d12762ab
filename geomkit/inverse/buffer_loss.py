"""Losses between images of depth and of normals: forward and adjoint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.inverse.image_pair import ImagePair, scalar

__all__ = ["DepthGradients", "NormalGradients", "depth_loss", "normal_loss"]


class DepthGradients(NamedTuple):
    """Gradients of a comparison of depths."""

    depth: Any  # of the shape of the depth
    target: Any  # likewise


class NormalGradients(NamedTuple):
    """Gradients of a comparison of normals."""

    normal: Any  # (..., 3)
    target: Any  # likewise


def _depths(depth: Any, target: Any) -> tuple[ImagePair, Any, Any]:
    q = ImagePair("depth_loss", depth, target, names=("depth", "target"))
    # (A depth of NaN counts, so that a rendering that broke down does not pass for one that shows nothing.)
    known = ~(q.a <= 0) & (q.b > 0) & (q.b < np.inf)
    return q, known, q.xp.where(known, q.a, 1) - q.xp.where(known, q.b, 1)


@primitive(differentiable=("depth", "target"), outputs={"loss": "real"})
def depth_loss(depth: Any, target: Any) -> Any:
    """The mean absolute difference of two depth images, where both see something.

    Where only one does, the silhouettes differ: that is for `iou_loss`. `Rendering.depth` is 0 where nothing is, and in
    pixels that are covered in part the depth times the share; divide by the mask for depths of what is there.

    Args:
        depth: (H, W, 1) or (H, W); 0 where nothing is.
        target: the same shape; 0, inf or NaN where nothing is.

    Returns:
        () in the library of the images; 0 where they have no pixel in common.

    Gradients:
        depth and target, of the pixels in common; 0 where they are equal.

    Raises:
        ValueError: shapes that differ, no pixels.
        TypeError: wrong dtype.

    Cost: O(H W).

    Example:
        >>> import geomkit as gk
        >>> gk.depth_loss([[2.0, 3.0, 0.0]], [[2.5, 3.0, 4.0]]).item()
        0.25
    """
    q, known, d = _depths(depth, target)
    return q.value(abs(d).sum(dtype=np.float64) / max(int(known.sum()), 1))


@depth_loss.define_adjoint
def depth_loss_adjoint(depth: Any, target: Any, *, adj_loss: Any = 1.0) -> DepthGradients:
    """Gradients of `depth_loss`: the cotangent of the loss to both images.

    Args:
        depth, target: as given to `depth_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.depth` and `.target`.

    Raises:
        ValueError, TypeError: as `depth_loss`.
    """
    q, known, d = _depths(depth, target)
    return DepthGradients(*q.gradients(q.xp.sign(d) * (scalar(q.op, "adj_loss", adj_loss) / max(int(known.sum()), 1))))


class _Normals:
    """Two images of normals, their lengths taken out; `known` where both have some."""

    def __init__(self, normal: Any, target: Any):
        self.q = q = ImagePair("normal_loss", normal, target, names=("normal", "target"))
        if q.a.shape[-1:] != (3,):
            raise ValueError(message(q.op, "normal", "(..., 3)", str(q.a.shape)))
        xp, (a, b) = q.xp, (x.astype(np.float64) for x in (q.a, q.b))
        length = [xp.sqrt((x * x).sum(axis=-1, keepdims=True)) for x in (a, b)]
        self.known = (length[0] != 0) & (length[1] != 0)  # (NaN counts: what broke down is seen.)
        self.n_known = max(int(self.known.sum()), 1)
        self.lengths = [xp.where(self.known, x, 1) for x in length]
        self.units = [xp.where(self.known, x / n, 0) for x, n in zip((a, b), self.lengths, strict=True)]
        self.cosine = (self.units[0] * self.units[1]).sum(axis=-1, keepdims=True)


@primitive(differentiable=("normal", "target"), outputs={"loss": "real"})
def normal_loss(normal: Any, target: Any) -> Any:
    """The mean of one minus the cosine between two images of normals, where both have one.

    Args:
        normal, target: (..., 3), of any length but 0, which says that there is none.

    Returns:
        () in the library of the images, from 0 to 2; 0 where they have no pixel in common.

    Gradients:
        normal and target, of the pixels in common.

    Raises:
        ValueError: shapes that differ or do not end in 3, no pixels.
        TypeError: wrong dtype.

    Cost: O(H W).

    Example:
        >>> import geomkit as gk
        >>> gk.normal_loss([[0.0, 0, 1], [0, 1, 0], [0, 0, 0]], [[0.0, 0, 2], [1, 0, 0], [0, 0, 1]]).item()
        0.5
    """
    n = _Normals(normal, target)
    return n.q.value(n.q.xp.where(n.known, 1 - n.cosine, 0).sum() / n.n_known)


@normal_loss.define_adjoint
def normal_loss_adjoint(normal: Any, target: Any, *, adj_loss: Any = 1.0) -> NormalGradients:
    """Gradients of `normal_loss`: the cotangent of the loss to both images.

    Args:
        normal, target: as given to `normal_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.normal` and `.target`.

    Raises:
        ValueError, TypeError: as `normal_loss`.
    """
    n = _Normals(normal, target)
    scale = -scalar(n.q.op, "adj_loss", adj_loss) / n.n_known
    (u, v), (length_u, length_v) = n.units, n.lengths
    return NormalGradients(
        *n.q.both(scale * (v - n.cosine * u) / length_u, scale * (u - n.cosine * v) / length_v)
    )
