"""The command line."""

import sys

from cutlayer.extras import explained

__all__ = ["main"]


def main() -> None:
    """Entry point of ``cutlayer``; without the extra "run" it says how to install that."""
    try:
        from cutlayer.cli.app import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{explained(error)}\n")
        sys.exit(2)
    run()
