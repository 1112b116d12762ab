"""Two images that a loss compares: checked, of one precision, and of one colour space."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from geomkit.arrays import as_array, describe, library_of, precision_of
from geomkit.errors import ColorSpaceWarning, message, warn
from geomkit.render.color import EncodedImage
from geomkit.runtime.device import namespace

__all__ = ["ImageGradients", "ImagePair", "scalar"]


class ImageGradients(NamedTuple):
    """Gradients of a comparison of images."""

    image: Any  # of the shape of the image
    target: Any  # likewise


class ImagePair:
    """The arguments of a loss between images.

    An integer image holds codes of sRGB: it is divided by the largest of its type, and compared with a linear one it
    brings a warning, as does an `EncodedImage`.

    Args:
        op: the loss.
        image, target: (H, W, C) or any other shape, the same for both.
        weight: None, or what broadcasts to that shape.
        names: of the two arguments.

    Attributes:
        a, b: the images, in the precision of the first that is one of floats.
        w: the weight in float64, or None.
        total: the sum of the weights, in entries of the images.
    """

    def __init__(
        self, op: str, image: Any, target: Any, weight: Any = None, names: tuple[str, str] = ("image", "target")
    ):
        self.op, self.given = op, (image, target)
        self.library = library_of(image, target)
        self.xp = namespace(self.library.device)
        encoded = _is_encoded(image), _is_encoded(target)
        self.dtype = precision_of(target if _is_integer(image) and not _is_integer(target) else image)
        self.a, self.b = (self._image(name, x) for name, x in zip(names, self.given, strict=True))
        if self.a.shape != self.b.shape:
            raise ValueError(message(op, names[1], f"the shape of {names[0]}, {self.a.shape}", describe(target)))
        if not self.a.size:
            raise ValueError(message(op, names[0], "at least one pixel", describe(image)))
        if encoded[0] != encoded[1]:
            which, other = names if encoded[0] else names[::-1]
            warn(
                f"{op}: {which} holds sRGB codes and {other} does not, so that equal colours differ: compare linear "
                "images (gk.load_image, or gk.srgb_to_linear(codes / 255))",
                ColorSpaceWarning,
            )
        self.w, self.total = None, float(self.a.size)
        if weight is not None:
            self.w = self._weight(weight)
            self.total = float(self.xp.broadcast_to(self.w, self.a.shape).sum())
            if not self.total > 0:
                raise ValueError(message(op, "weight", "weights that are not negative, some above 0", "none above 0"))

    def _image(self, name: str, x: Any) -> Any:
        array = as_array(x, op=self.op, name=name, shape=("...",), dtype=self.dtype, device=self.library.device)
        return array / self.dtype.type(np.iinfo(str(x.dtype).removeprefix("torch.")).max) if _is_integer(x) else array

    def _weight(self, weight: Any) -> Any:
        w = as_array(
            weight, op=self.op, name="weight", shape=("...",), dtype=np.float64, device=self.library.device
        )
        w = w[..., None] if w.ndim == 2 and self.a.ndim == 3 else w
        try:
            self.xp.broadcast_to(w, self.a.shape)
        except ValueError as error:
            expected = f"(H, W), or what broadcasts to {self.a.shape}"
            raise ValueError(message(self.op, "weight", expected, describe(weight))) from error
        if not bool((w >= 0).all()):
            raise ValueError(message(self.op, "weight", "weights that are not negative", "some below 0 or NaN"))
        return w

    def mean(self, values: Any) -> Any:
        """The weighted mean, in float64."""
        if self.w is None:
            return values.mean(dtype=np.float64)
        return (values * self.w).sum(dtype=np.float64) / self.total

    def spread(self, adj: float) -> Any:
        """The adjoint of `mean`: what broadcasts to the images."""
        return adj / self.total if self.w is None else self.w * (adj / self.total)

    def value(self, x: Any) -> Any:
        """A loss for the caller."""
        return self.library.wrap(self.xp.asarray(x, dtype=self.dtype))

    def gradients(self, adj_image: Any) -> ImageGradients:
        """Those of a loss that depends on image - target only."""
        return self.both(adj_image, -adj_image)

    def both(self, adj_image: Any, adj_target: Any) -> ImageGradients:
        """Gradients for the caller, of the shapes of the arguments."""
        wrapped = []
        for given, like, adj in zip(self.given, (self.a, self.b), (adj_image, adj_target), strict=True):
            own = library_of(given) if library_of(given).device == self.library.device else self.library
            wrapped.append(own.wrap(self.xp.ascontiguousarray(adj, dtype=like.dtype)))
        return ImageGradients(*wrapped)


def scalar(op: str, name: str, value: Any) -> float:
    """The cotangent of a loss."""
    return float(as_array(value, op=f"{op}.adjoint", name=name, shape=(), dtype=np.float64))


def _is_integer(x: Any) -> bool:
    return "int" in str(getattr(x, "dtype", ""))


def _is_encoded(x: Any) -> bool:
    return _is_integer(x) or isinstance(x, EncodedImage)
