"""Lazy names: a package's public names, each imported when it is first asked for.

torch alone takes seconds to load, and ``cutlayer --help`` or ``cutlayer init`` need none of it.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from cutlayer.extras import needing


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names live in modules below it.

    Args:
        package: its dotted name.
        homes: public names by the module that they live in, its name relative to the package.

    Returns:
        A function that finds a name, keeps it in the package, and raises ``AttributeError`` for
        every other, and ``MissingExtraError`` where a package is not installed.
    """
    home_of = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needing():
            value = getattr(import_module(home_of[name]), name)
        setattr(import_module(package), name, value)
        return value

    return find
