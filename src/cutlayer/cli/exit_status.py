"""How a command ends that cannot go on: one message to standard error, and a status."""

import sys
from typing import NoReturn

from cutlayer.cli.console import screen
from cutlayer.escaping import escaped

TO_MEND, FAILED, INTERRUPTED = 2, 1, 130
"""Statuses: starting again changes nothing; it may; it goes on."""


def complain(message: str, status: int) -> NoReturn:
    """Say it, and end the process. It is one line: no part of it can look like another message."""
    screen(stderr=True).print(escaped(message), style="bold", highlight=False, soft_wrap=True)
    sys.exit(status)
