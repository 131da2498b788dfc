"""The command line."""

from cutlayer.cli.app import main

__all__ = ["main"]
