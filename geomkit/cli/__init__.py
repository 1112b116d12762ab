"""The command `geomkit`."""

from geomkit.cli.app import main

__all__ = ["main"]
