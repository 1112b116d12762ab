"""Exceptions, warnings, and the one form of their messages."""

import sys
import warnings

__all__ = ["ColorSpaceWarning", "DeviceError", "MeshError", "SignWarning", "message", "missing_package", "warn"]


class MeshError(ValueError):
    """A mesh that cannot be used: vertices that are not finite, a face that names no vertex."""


class DeviceError(RuntimeError):
    """A device or one of its libraries is missing, or refuses to work."""


class ColorSpaceWarning(UserWarning):
    """Colours of an sRGB image are compared with linear ones."""


class SignWarning(UserWarning):
    """The sign of a distance cannot be trusted, or is inverted."""


def message(op: str, argument: str, expected: str, got: str) -> str:
    """The one form of an error about an argument.

    Example:
        >>> message("closest_point", "points", "(N, 3) floats", "(3, 10) float64")
        'closest_point: points: expected (N, 3) floats, got (3, 10) float64'
    """
    return f"{op}: {argument}: expected {expected}, got {got}"


def missing_package(package: str, extra: str, what: str) -> ImportError:
    """The error to raise when an optional package is absent; its one line names the extra to install.

    Example:
        >>> str(missing_package("torch", "torch", "gradients through torch"))
        'gradients through torch: needs the package torch: pip install "geomkit-diff[torch]"'
    """
    return ImportError(f'{what}: needs the package {package}: pip install "geomkit-diff[{extra}]"', name=package)


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line of the user that called into geomkit."""
    depth, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "geomkit":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, category, stacklevel=depth)
