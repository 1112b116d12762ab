"""Losses between images, pixel by pixel and over a pyramid: forward and adjoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.inverse.image_pair import ImageGradients, ImagePair, scalar

__all__ = ["huber_loss", "iou_loss", "l1_loss", "mse_loss", "multiscale_loss", "psnr"]

BOTH = ("image", "target")
KINDS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "l1": lambda xp, d: (abs(d), xp.sign(d)),
    "mse": lambda xp, d: (d * d, 2 * d),
}  # of a difference: what it costs, and the slope of that


class MaskGradients(NamedTuple):
    """Gradients of a comparison of silhouettes."""

    mask: Any  # of the shape of the mask
    target: Any  # likewise


def _cost(q: ImagePair, kind: str) -> Any:
    return q.value(q.mean(KINDS[kind](q.xp, q.a - q.b)[0]))


def _slope(q: ImagePair, kind: str, adj: Any) -> ImageGradients:
    return q.gradients(KINDS[kind](q.xp, q.a - q.b)[1] * q.spread(scalar(q.op, "adj_loss", adj)))


@primitive(differentiable=BOTH, outputs={"loss": "real"})
def l1_loss(image: Any, target: Any, *, weight: Any = None) -> Any:
    """The mean absolute difference of two images.

    Args:
        image: (H, W, C) linear, or any shape.
        target: the same shape. Integers are sRGB codes, which brings a warning beside a linear image.
        weight: None, or weights that are not negative: (H, W), or what broadcasts to the images. The mean is weighted.

    Returns:
        () in the library of the images.

    Gradients:
        image and target; 0 where they are equal.

    Raises:
        ValueError: shapes that differ, no pixels, weights below 0 or all 0.
        TypeError: wrong dtype.

    Warns:
        ColorSpaceWarning: one of the two holds sRGB codes, being of integers or from `load_image(path, linear=False)`.

    Cost: O(H W C).

    Example:
        >>> import geomkit as gk
        >>> gk.l1_loss([[[0.5, 1.0, 0.0]]], [[[0.5, 0.0, 0.5]]]).item()
        0.5
    """
    return _cost(ImagePair("l1_loss", image, target, weight), "l1")


@l1_loss.define_adjoint
def l1_loss_adjoint(image: Any, target: Any, *, weight: Any = None, adj_loss: Any = 1.0) -> ImageGradients:
    """Gradients of `l1_loss`: the cotangent of the loss to both images.

    Args:
        image, target, weight: as given to `l1_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.image` and `.target`.

    Raises:
        ValueError, TypeError: as `l1_loss`.
    """
    return _slope(ImagePair("l1_loss", image, target, weight), "l1", adj_loss)


@primitive(differentiable=BOTH, outputs={"loss": "real"})
def mse_loss(image: Any, target: Any, *, weight: Any = None) -> Any:
    """The mean squared difference of two images.

    Args:
        image, target, weight: as for `l1_loss`.

    Returns:
        () in the library of the images.

    Gradients:
        image and target.

    Raises:
        ValueError, TypeError: as `l1_loss`.

    Cost: O(H W C).

    Example:
        >>> import geomkit as gk
        >>> gk.mse_loss([[[0.5, 1.0]]], [[[0.0, 0.5]]]).item()
        0.25
    """
    return _cost(ImagePair("mse_loss", image, target, weight), "mse")


@mse_loss.define_adjoint
def mse_loss_adjoint(image: Any, target: Any, *, weight: Any = None, adj_loss: Any = 1.0) -> ImageGradients:
    """Gradients of `mse_loss`: the cotangent of the loss to both images.

    Args:
        image, target, weight: as given to `mse_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.image` and `.target`.

    Raises:
        ValueError, TypeError: as `mse_loss`.
    """
    return _slope(ImagePair("mse_loss", image, target, weight), "mse", adj_loss)


def _huber(q: ImagePair, delta: float) -> float:
    if not 0 < delta < math.inf:
        raise ValueError(message(q.op, "delta", "a positive number", repr(delta)))
    return float(delta)


@primitive(differentiable=BOTH, outputs={"loss": "real"})
def huber_loss(image: Any, target: Any, *, delta: float = 0.1, weight: Any = None) -> Any:
    """The mean of half the squared difference where it is small, and of its absolute value beyond.

    Args:
        image, target, weight: as for `l1_loss`.
        delta: where the one becomes the other: d^2 / 2 up to it, delta (|d| - delta / 2) from there on.

    Returns:
        () in the library of the images.

    Gradients:
        image and target.

    Raises:
        ValueError, TypeError: as `l1_loss`; a delta that is not positive.

    Cost: O(H W C).   Source: Huber (1964).

    Example:
        >>> import geomkit as gk
        >>> gk.huber_loss([[0.0, 3.0]], [[1.0, 0.0]], delta=1.0).item()
        1.5
    """
    q = ImagePair("huber_loss", image, target, weight)
    delta, d = _huber(q, delta), abs(q.a - q.b)
    return q.value(q.mean(q.xp.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))))


@huber_loss.define_adjoint
def huber_loss_adjoint(
    image: Any, target: Any, *, delta: float = 0.1, weight: Any = None, adj_loss: Any = 1.0
) -> ImageGradients:
    """Gradients of `huber_loss`: the cotangent of the loss to both images.

    Args:
        image, target, delta, weight: as given to `huber_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.image` and `.target`.

    Raises:
        ValueError, TypeError: as `huber_loss`.
    """
    q = ImagePair("huber_loss", image, target, weight)
    delta = _huber(q, delta)
    return q.gradients(q.xp.clip(q.a - q.b, -delta, delta) * q.spread(scalar(q.op, "adj_loss", adj_loss)))


# ---- over a pyramid


def _halved(xp: Any, x: Any) -> Any:
    """(H, W, C) to half the size, means of two by two; an odd last row or column stands for two."""
    for axis in (0, 1):
        if x.shape[axis] % 2:
            x = xp.concatenate([x, xp.take(x, [-1], axis=axis)], axis=axis)
        even, odd = ((slice(None),) * axis + (slice(k, None, 2),) for k in (0, 1))
        x = 0.5 * (x[even] + x[odd])
    return x


def _doubled(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """The adjoint of `_halved`, for an image of that shape."""
    for axis in (1, 0):
        n = shape[axis]
        g = xp.repeat(0.5 * g, 2, axis=axis)
        if n % 2:
            kept, last = ((slice(None),) * axis + (part,) for part in (slice(0, n), slice(n, n + 1)))
            edge = (slice(None),) * axis + (slice(n - 1, n),)
            extra = g[last]
            g = xp.array(g[kept])
            g[edge] += extra
    return g


def _levels(q: ImagePair, levels: int, kind: str) -> tuple[list[Any], Callable[[Any, Any], tuple[Any, Any]]]:
    """The differences from fine to coarse, and what they cost."""
    if q.a.ndim not in (2, 3):
        raise ValueError(message(q.op, "image", "(H, W, C) or (H, W)", str(q.a.shape)))
    if kind not in KINDS:
        raise ValueError(message(q.op, "kind", " or ".join(map(repr, KINDS)), repr(kind)))
    most = 1 + math.ceil(math.log2(max(q.a.shape[:2])))
    if not (isinstance(levels, int) and 1 <= levels <= most):
        raise ValueError(message(q.op, "levels", f"an integer from 1 to {most}", repr(levels)))
    pyramid = [q.a - q.b]
    while len(pyramid) < levels:
        pyramid.append(_halved(q.xp, pyramid[-1]))
    return pyramid, KINDS[kind]


@primitive(differentiable=BOTH, outputs={"loss": "real"})
def multiscale_loss(image: Any, target: Any, *, levels: int = 4, kind: str = "l1") -> Any:
    """The mean over a pyramid of smaller and smaller copies of what a loss says of each.

    Coarse copies see that something is off by many pixels, where no pixel of the fine one tells which way.

    Args:
        image, target: as for `l1_loss`, (H, W, C) or (H, W).
        levels: how many images: each is half as large as the one before, means of two by two pixels.
        kind: "l1" or "mse".

    Returns:
        () in the library of the images.

    Gradients:
        image and target.

    Raises:
        ValueError, TypeError: as `l1_loss`; more levels than the image has halves, another kind.

    Cost: O(H W C).

    Example:
        >>> import geomkit as gk
        >>> gk.multiscale_loss([[1.0, 0.0]], [[0.0, 1.0]], levels=2).item()
        0.5
    """
    q = ImagePair("multiscale_loss", image, target)
    pyramid, kind_of = _levels(q, levels, kind)
    return q.value(sum(kind_of(q.xp, d)[0].mean(dtype=np.float64) for d in pyramid) / levels)


@multiscale_loss.define_adjoint
def multiscale_loss_adjoint(
    image: Any, target: Any, *, levels: int = 4, kind: str = "l1", adj_loss: Any = 1.0
) -> ImageGradients:
    """Gradients of `multiscale_loss`: the cotangent of the loss to both images.

    Args:
        image, target, levels, kind: as given to `multiscale_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.image` and `.target`.

    Raises:
        ValueError, TypeError: as `multiscale_loss`.
    """
    q = ImagePair("multiscale_loss", image, target)
    pyramid, kind_of = _levels(q, levels, kind)
    adj, total = scalar(q.op, "adj_loss", adj_loss) / levels, None
    for d in reversed(pyramid):
        own = kind_of(q.xp, d)[1] * (adj / d.size)
        total = own if total is None else own + _doubled(q.xp, total, d.shape)
    return q.gradients(total)


# ---- of silhouettes, and in decibels


def _overlap(q: ImagePair) -> tuple[Any, Any]:
    both = (q.a * q.b).sum(dtype=np.float64)
    return both, q.a.sum(dtype=np.float64) + q.b.sum(dtype=np.float64) - both


@primitive(differentiable=("mask", "target"), outputs={"loss": "real"})
def iou_loss(mask: Any, target: Any) -> Any:
    """One minus the intersection over the union of two silhouettes.

    Args:
        mask, target: (H, W, 1) or (H, W) shares in [0, 1], such as `Rendering.mask` and an alpha channel.

    Returns:
        () in the library of the masks: 0 where they are the same and of zeros and ones, 1 where they do not overlap. 0
        for two empty ones.

    Gradients:
        mask and target; 0 for two empty ones.

    Raises:
        ValueError, TypeError: as `l1_loss`.

    Cost: O(H W).

    Example:
        >>> import geomkit as gk
        >>> gk.iou_loss([[1.0, 1.0, 0.0, 0.0]], [[0.0, 1.0, 1.0, 1.0]]).item()
        0.75
    """
    q = ImagePair("iou_loss", mask, target, names=("mask", "target"))
    both, either = _overlap(q)
    return q.value(0.0 if either <= 0 else 1 - both / either)


@iou_loss.define_adjoint
def iou_loss_adjoint(mask: Any, target: Any, *, adj_loss: Any = 1.0) -> MaskGradients:
    """Gradients of `iou_loss`: the cotangent of the loss to both silhouettes.

    Args:
        mask, target: as given to `iou_loss`.
        adj_loss: () cotangent of the loss.

    Returns:
        A record of `.mask` and `.target`.

    Raises:
        ValueError, TypeError: as `iou_loss`.
    """
    q = ImagePair("iou_loss", mask, target, names=("mask", "target"))
    adj = scalar(q.op, "adj_loss", adj_loss)
    both, either = _overlap(q)
    if either <= 0:
        return MaskGradients(*q.both(0 * q.a, 0 * q.b))
    one, other = (-adj * (x * either - (1 - x) * both) / either**2 for x in (q.b, q.a))
    return MaskGradients(*q.both(one, other))


@primitive(differentiable=BOTH, outputs={"decibels": "real"})
def psnr(image: Any, target: Any, *, data_range: float = 1.0) -> Any:
    """The peak signal-to-noise ratio: how alike two images are, in decibels.

    Args:
        image, target: as for `l1_loss`. Of linear images it is another number than of the sRGB ones that papers take.
        data_range: the difference of white and black.

    Returns:
        () in the library of the images, -10 log10(mean squared difference / data_range^2); inf for equal images.

    Gradients:
        image and target; 0 for equal images.

    Raises:
        ValueError, TypeError: as `l1_loss`; a range that is not positive.

    Cost: O(H W C).

    Example:
        >>> import geomkit as gk
        >>> round(gk.psnr([[0.5, 0.6]], [[0.4, 0.5]]).item(), 3)
        20.0
    """
    q = _decibels(image, target, data_range)
    mse = q.mean((q.a - q.b) ** 2)
    return q.value(math.inf if mse == 0 else -10 * math.log10(mse / data_range**2))


@psnr.define_adjoint
def psnr_adjoint(image: Any, target: Any, *, data_range: float = 1.0, adj_decibels: Any = 1.0) -> ImageGradients:
    """Gradients of `psnr`: the cotangent of the ratio to both images.

    Args:
        image, target, data_range: as given to `psnr`.
        adj_decibels: () cotangent of the ratio.

    Returns:
        A record of `.image` and `.target`.

    Raises:
        ValueError, TypeError: as `psnr`.
    """
    q = _decibels(image, target, data_range)
    d = q.a - q.b
    mse = float(q.mean(d * d))
    adj = scalar(q.op, "adj_decibels", adj_decibels)
    return q.gradients(d * (0.0 if mse == 0 else -20 / (math.log(10) * mse * d.size) * adj))


def _decibels(image: Any, target: Any, data_range: float) -> ImagePair:
    if not 0 < data_range < math.inf:
        raise ValueError(message("psnr", "data_range", "a positive number", repr(data_range)))
    return ImagePair("psnr", image, target)
