"""Image files: PNG and JPEG, whose colours are sRGB, and EXR, HDR and NPY, which are linear."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from geomkit.arrays import as_array
from geomkit.errors import message
from geomkit.files import replacing
from geomkit.render.color import EncodedImage, linear_to_srgb, srgb_to_linear
from geomkit.render.exr import read_exr, write_exr
from geomkit.render.png import is_deep, read_png, write_png
from geomkit.render.radiance_hdr import read_hdr, write_hdr

__all__ = ["FORMATS", "decoded", "encoded_png", "load_image", "save_image"]

FORMATS = ("png", "jpg", "jpeg", "exr", "hdr", "npy")
CHANNELS = {"png": (1, 2, 3, 4), "jpg": (1, 3), "jpeg": (1, 3), "exr": (1, 2, 3, 4), "hdr": (3,)}
QUALITY = 95  # of JPEG


def load_image(path: str | os.PathLike, *, linear: bool = True) -> np.ndarray:
    """Read an image file as linear colours.

    Args:
        path: a .png, .jpg, .jpeg, .exr, .hdr or .npy file. Of EXR, scan lines packed by ZIP, ZIPS, RLE or not at all.
        linear: False keeps the sRGB values of PNG and JPEG, from 0 to 1, as an `EncodedImage`: losses warn where
            it meets a linear image. `gk.srgb_to_linear` makes it linear.

    Returns:
        (H, W, C) float32, row 0 on top. C is what the file has: 1 grey, 3 colours, and alpha after either. Colours of
        PNG (8 and 16 bits) and JPEG are sRGB there, whatever profile the file names, and linear here; alpha is alpha.
        EXR, HDR and NPY are read as they are. Pixels stay in the file's order: a JPEG's note to turn it is not obeyed,
        as a camera calibrated on the file needs.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an extension of no known format, or a file that is not of its format.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "grey.png")
        >>> save_image(path, np.full((2, 3, 1), 0.5))
        >>> load_image(path).shape, round(float(load_image(path)[0, 0, 0]), 2)
        ((2, 3, 1), 0.5)
    """
    path = Path(path)
    extension = _extension(path, "load_image")
    data = path.read_bytes()
    try:
        if not linear and _READERS[extension] is decoded:
            return levels_of(data).view(EncodedImage)
        return _READERS[extension](data)
    except Exception as error:
        # Readers raise whatever their parsers happen to raise: IndexError, struct.error, zlib.error...
        got = f"{path} ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
        raise ValueError(message("load_image", "path", f"a valid {extension.upper()} file", got)) from error


def save_image(path: str | os.PathLike, image: Any, *, bits: int = 8) -> None:
    """Write linear colours as an image file, which appears whole or not at all.

    Args:
        path: ends in .png, .jpg, .jpeg, .exr, .hdr or .npy, which chooses the format. An existing file is replaced.
        image: (H, W, C) or (H, W), of any library, row 0 on top, linear: 1 grey, 3 colours, and alpha after either. To
            PNG and JPEG (which has no alpha) go sRGB values, of what is below 0 or above 1 the nearest that they have;
            alpha goes as it is. HDR takes 3 channels from 0 on. EXR and NPY hold the float32 numbers themselves.
        bits: of each channel of a PNG, 8 or 16.

    Raises:
        ValueError: an extension of no known format, a number of channels that the format does not have, an image
            without pixels, NaN where the format has none, or other bits.
        TypeError: an image that is not of numbers, or one of integers, of which nobody knows what is white; EXR and NPY
            take these.
        OSError: the folder does not exist or cannot be written to.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "sky.exr")
        >>> save_image(path, np.full((2, 3, 3), 7.5))
        >>> load_image(path).max().item()
        7.5
    """
    op, path = "save_image", Path(path)
    extension = _extension(path, op)
    kind = str(getattr(image, "dtype", ""))
    if "int" in kind and extension not in ("exr", "npy"):
        # 1 is white: of the numbers from 0 to 255, all but one would be.
        expected = "floats of linear light: x.astype(float) / 255, and srgb_to_linear of that if it is sRGB"
        raise TypeError(message(op, "image", expected, kind))
    array = pixels_of(op, image)
    if array.shape[2] not in CHANNELS.get(extension, (array.shape[2],)):
        counts = ", ".join(map(str, CHANNELS[extension]))
        raise ValueError(message(op, "image", f"{counts} channels for {extension.upper()}", str(array.shape[2])))
    if bits not in (8, 16):
        raise ValueError(message(op, "bits", "8 or 16", repr(bits)))
    if extension not in ("exr", "npy") and np.isnan(array).any():
        raise ValueError(message(op, "image", "numbers", f"{np.isnan(array).sum()} NaN"))
    if extension == "hdr" and (array.min() < 0 or not np.isfinite(array).all()):
        raise ValueError(message(op, "image", "finite numbers from 0 on for HDR", f"from {array.min()}"))
    data = encoded_png(array, bits) if extension == "png" else _WRITERS[extension](array)
    with replacing(path) as file:
        file.write(data)


def encoded_png(image: np.ndarray, bits: int = 8) -> bytes:
    """A PNG of linear colours (H, W, C)."""
    levels = _levels(image, 2**bits - 1)
    return write_png(levels) if bits == 16 else _imwrite(levels, ".png")


def decoded(data: bytes) -> np.ndarray:
    """Linear colours (H, W, C) of the content of a PNG or JPEG file.

    Raises:
        ValueError, OSError: it is neither.
    """
    image = levels_of(data)
    colors = image.shape[2] - (image.shape[2] in (2, 4))
    image[:, :, :colors] = srgb_to_linear(image[:, :, :colors])
    return image.astype(np.float32)


def levels_of(data: bytes) -> np.ndarray:
    """(H, W, C) float32 from 0 to 1, as the file has them."""
    if is_deep(data):
        levels = read_png(data)
    else:
        import imageio.v3

        with io.BytesIO(data) as file:
            levels = imageio.v3.imread(file, plugin="pillow", index=0)
        if levels.dtype == bool:
            levels = levels.astype(np.uint8) * 255
    return levels.reshape(*levels.shape[:2], -1) / np.float32(65535 if levels.dtype == np.uint16 else 255)


def pixels_of(op: str, image: Any) -> np.ndarray:
    """An image as (H, W, C) float32 in NumPy.

    Raises:
        ValueError, TypeError: it is none.
    """
    shape = ("H", "W") if np.ndim(image) == 2 else ("H", "W", "C")
    array = as_array(image, op=op, name="image", shape=shape, dtype=np.float32)
    if not array.size:
        raise ValueError(message(op, "image", "pixels", str(array.shape)))
    return array.reshape(*array.shape[:2], -1)


def _extension(path: Path, op: str) -> str:
    extension = path.suffix.lower().removeprefix(".")
    if extension not in FORMATS:
        known = ", ".join(f".{known}" for known in FORMATS)
        raise ValueError(message(op, "path", f"a file name ending in {known}", str(path)))
    return extension


def _levels(image: np.ndarray, white: int) -> np.ndarray:
    """What a file of integers holds of linear colours."""
    values = np.clip(image, 0, 1)
    colors = image.shape[2] - (image.shape[2] in (2, 4))
    values[:, :, :colors] = linear_to_srgb(values[:, :, :colors])
    return np.rint(values.astype(np.float64) * white).astype(np.uint8 if white == 255 else np.uint16)


def _imwrite(levels: np.ndarray, extension: str, **options: Any) -> bytes:
    import imageio.v3

    levels = levels[:, :, 0] if levels.shape[2] == 1 else levels
    return imageio.v3.imwrite("<bytes>", levels, extension=extension, plugin="pillow", **options)


def _jpeg(image: np.ndarray) -> bytes:
    # Colours as sharp as the rest: a render has thin edges.
    return _imwrite(_levels(image, 255), ".jpeg", quality=QUALITY, subsampling=0)


def _npy(data: bytes) -> np.ndarray:
    return pixels_of("load_image", np.load(io.BytesIO(data), allow_pickle=False))


def _npy_of(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, image)
    return file.getvalue()


_READERS: dict[str, Callable[[bytes], np.ndarray]] = {
    "png": decoded, "jpg": decoded, "jpeg": decoded, "exr": read_exr, "hdr": read_hdr, "npy": _npy,
}  # fmt: skip
_WRITERS: dict[str, Callable[[np.ndarray], bytes]] = {
    "jpg": _jpeg, "jpeg": _jpeg, "exr": write_exr, "hdr": write_hdr, "npy": _npy_of,
}  # fmt: skip
