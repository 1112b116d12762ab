"""Structural similarity of two images: forward and adjoint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from geomkit.autodiff.primitive import primitive
from geomkit.errors import message
from geomkit.inverse.image_pair import ImageGradients, ImagePair, scalar

__all__ = ["ssim"]

TRUNCATE = 3.5  # standard deviations that the window reaches: 11 pixels for the customary 1.5
K1, K2 = 0.01, 0.03


class _Windows:
    """Means over Gaussian windows that lie in the image, in float64."""

    def __init__(self, q: ImagePair, sigma: float, data_range: float):
        for name, value in (("sigma", sigma), ("data_range", data_range)):
            if not 0 < value < math.inf:
                raise ValueError(message(q.op, name, "a positive number", repr(value)))
        if q.a.ndim not in (2, 3):
            raise ValueError(message(q.op, "image", "(H, W, C) or (H, W)", str(q.a.shape)))
        radius = int(TRUNCATE * sigma + 0.5)
        if min(q.a.shape[:2]) < 2 * radius + 1:
            raise ValueError(message(q.op, "image", f"{2 * radius + 1} pixels or more a side", str(q.a.shape)))
        weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
        self.weights = (weights / weights.sum()).tolist()
        self.xp = q.xp
        self.c1, self.c2 = (K1 * data_range) ** 2, (K2 * data_range) ** 2
        x, y = q.a.astype(np.float64), q.b.astype(np.float64)
        self.x, self.y = x, y
        mx, my = self.mean(x), self.mean(y)
        # Differences of squares of nearly equal numbers would lose digits of float32.
        vx, vy, cov = self.mean(x * x) - mx * mx, self.mean(y * y) - my * my, self.mean(x * y) - mx * my
        self.mx, self.my = mx, my
        self.a1, self.a2 = 2 * mx * my + self.c1, 2 * cov + self.c2
        self.b1, self.b2 = mx * mx + my * my + self.c1, vx + vy + self.c2
        self.value = self.a1 * self.a2 / (self.b1 * self.b2)

    def mean(self, x: Any) -> Any:
        """(H, W, ...) to (H - 2 r, W - 2 r, ...)."""
        for axis in (0, 1):
            n = x.shape[axis] - len(self.weights) + 1
            x = sum(
                (w * x[(slice(None),) * axis + (slice(k, k + n),)] for k, w in enumerate(self.weights)), start=0.0
            )
        return x

    def adjoint(self, g: Any) -> Any:
        """The adjoint of `mean`."""
        for axis in (1, 0):
            n = g.shape[axis]
            shape = list(g.shape)
            shape[axis] += len(self.weights) - 1
            out = self.xp.zeros(shape, np.float64)
            for k, w in enumerate(self.weights):
                out[(slice(None),) * axis + (slice(k, k + n),)] += w * g
            g = out
        return g

    def gradient(self, g: Any, x: Any, y: Any, mx: Any, my: Any) -> Any:
        """The cotangent of x, one of the images, for that of the similarity at each window."""
        value = self.value
        # By the means alone, by the variance of x, by the covariance.
        by_mean = g * (2 * my / self.a1 * value - 2 * mx / self.b1 * value)
        by_variance = -g * value / self.b2
        by_covariance = 2 * g * value / self.a2
        out = self.adjoint(by_mean - 2 * mx * by_variance - my * by_covariance)
        return out + 2 * x * self.adjoint(by_variance) + y * self.adjoint(by_covariance)


@primitive(differentiable=("image", "target"), outputs={"similarity": "real"})
def ssim(image: Any, target: Any, *, sigma: float = 1.5, data_range: float = 1.0) -> Any:
    """The structural similarity of two images: how alike means, contrast and pattern are in a window about each pixel.

    A loss is 1 - ssim. It is that of scikit-image's `structural_similarity(gaussian_weights=True,
    use_sample_covariance=False)`: the mean over all windows that lie in the image, and over the channels.

    Args:
        image, target: (H, W, C) or (H, W), as for `l1_loss`.
        sigma: standard deviation of the Gaussian window, in pixels; it reaches 3.5 of them, rounded.
        data_range: the difference of white and black.

    Returns:
        () in the library of the images, at most 1, which equal images have.

    Gradients:
        image and target.

    Raises:
        ValueError: an image smaller than the window, sigma or range that are not positive, or as `l1_loss`.
        TypeError: as `l1_loss`.

    Cost: O(H W C) times the width of the window, in float64.   Source: Wang et al. (2004).

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> stripes = np.tile([[0.0, 1.0]], (12, 6))
        >>> gk.ssim(stripes, stripes).item(), gk.ssim(stripes, 1 - stripes).item() < 0
        (1.0, True)
    """
    q = ImagePair("ssim", image, target)
    return q.value(_Windows(q, sigma, data_range).value.mean())


@ssim.define_adjoint
def ssim_adjoint(
    image: Any, target: Any, *, sigma: float = 1.5, data_range: float = 1.0, adj_similarity: Any = 1.0
) -> ImageGradients:
    """Gradients of `ssim`: the cotangent of the similarity to both images.

    Args:
        image, target, sigma, data_range: as given to `ssim`.
        adj_similarity: () cotangent of the similarity.

    Returns:
        A record of `.image` and `.target`.

    Raises:
        ValueError, TypeError: as `ssim`.
    """
    q = ImagePair("ssim", image, target)
    w = _Windows(q, sigma, data_range)
    # (A weight a window, all alike.)
    g = w.xp.full(w.value.shape, scalar(q.op, "adj_similarity", adj_similarity) / w.value.size)
    return q.both(w.gradient(g, w.x, w.y, w.mx, w.my), w.gradient(g, w.y, w.x, w.my, w.mx))
