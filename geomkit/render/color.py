"""Colours: linear, as they are computed with, and sRGB, as 8-bit files hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from geomkit.errors import message

__all__ = ["EncodedImage", "linear_to_srgb", "srgb_to_linear"]

# The two pieces of the curve meet here, within 3e-8 of each other (IEC 61966-2-1).
LINEAR_END, SRGB_END = 0.0031308, 0.04045


class EncodedImage(np.ndarray):
    """An image of sRGB values, as a PNG or JPEG holds them; what is computed from it stays one, until it is linear."""


def srgb_to_linear(srgb: Any) -> Any:
    """Linear values of sRGB ones, by the exact curve. Alpha is linear already: leave it out.

    Args:
        srgb: any shape; 0 is black and 1 is white. Values beyond 1 follow the curve, negative ones its first piece.

    Returns:
        The same shape, in the library of the argument; float64 of lists and integers.

    Gradients:
        Those of the caller's library: it is made of ordinary functions, finite everywhere.

    Raises:
        TypeError: not numbers.

    Example:
        >>> srgb_to_linear([0.0, 0.5, 1.0]).round(4).tolist()
        [0.0, 0.214, 1.0]
    """
    x, xp = _given("srgb_to_linear", "srgb", srgb)
    x = x.view(np.ndarray) if isinstance(x, EncodedImage) else x
    # The power is of a number that it has a finite slope at, whichever piece is taken.
    upper = xp.where(x > SRGB_END, x, 0.0 * x + 1.0)
    return xp.where(x > SRGB_END, ((upper + 0.055) / 1.055) ** 2.4, x / 12.92)


def linear_to_srgb(linear: Any) -> Any:
    """sRGB values of linear ones, by the exact curve: the inverse of `srgb_to_linear`.

    Args:
        linear: any shape; 0 is black and 1 is white. Values beyond 1 follow the curve, negative ones its first piece.

    Returns:
        The same shape, in the library of the argument; float64 of lists and integers.

    Gradients:
        Those of the caller's library: it is made of ordinary functions, finite everywhere.

    Raises:
        TypeError: not numbers.

    Example:
        >>> linear_to_srgb([0.0, 0.214, 1.0]).round(3).tolist()
        [0.0, 0.5, 1.0]
    """
    x, xp = _given("linear_to_srgb", "linear", linear)
    upper = xp.where(x > LINEAR_END, x, 0.0 * x + 1.0)
    return xp.where(x > LINEAR_END, 1.055 * upper ** (1 / 2.4) - 0.055, 12.92 * x)


def _given(op: str, name: str, x: Any) -> tuple[Any, Any]:
    """An array of floats, and the namespace of its functions."""
    if not hasattr(x, "dtype") or str(x.dtype).startswith(("int", "uint", "bool")):
        try:
            return np.asarray(x, np.float64), np
        except (TypeError, ValueError) as error:
            raise TypeError(message(op, name, "numbers", type(x).__name__)) from error
    import array_api_compat

    return x, array_api_compat.array_namespace(x) if array_api_compat.is_array_api_obj(x) else np
