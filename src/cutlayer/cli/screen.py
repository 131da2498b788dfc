"""The screen: where commands print; what they print is text, and no markup."""

from rich.console import Console


def screen(*, stderr: bool = False) -> Console:
    """A console that shows ``[brackets]`` and ``:colons:`` of a path, a name or an address."""
    return Console(stderr=stderr, markup=False, emoji=False)
