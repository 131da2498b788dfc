"""A table of named things: refuses a taken name, and lists the known ones for an unknown one."""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from cutlayer.errors import ConfigurationError, UnknownNameError

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A read-only mapping from name to entry that users may add to.

    >>> table = Registry("fruit", {"apple": 1})
    >>> table.register("pear", 2)
    >>> sorted(table)
    ['apple', 'pear']
    >>> table["plum"]
    Traceback (most recent call last):
    ...
    cutlayer.errors.UnknownNameError: No fruit is called 'plum'. Known: apple, pear.
    """

    def __init__(self, kind: str, entries: Mapping[str, Entry]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def register(self, name: str, entry: Entry) -> None:
        """Add one entry.

        Raises:
            ConfigurationError: the name is taken.
        """
        if name in self._entries:
            raise ConfigurationError(f"A {self.kind} called {name!r} exists; choose another name.")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise UnknownNameError(
                f"No {self.kind} is called {name!r}. Known: {', '.join(self._entries)}."
            )
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
