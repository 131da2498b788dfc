"""What a message about a party's file begins with: who, which file, which column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cutlayer.errors import DataError

if TYPE_CHECKING:
    from cutlayer.data.party_table import PartyName

_SHOWN: Final = 3
_SHOWN_NAMES: Final = 12


@dataclass(frozen=True)
class FileMessage:
    """Words every error and notice about one file alike."""

    party: PartyName
    path: Path

    def error(self, text: str, *, column: str | None = None) -> DataError:
        """An error to raise; ``text`` says rule, finding and fix."""
        return DataError(f"{self.party}, file {self.path}{_named(column)}: {text}")

    def notice(self, text: str, *, column: str | None = None) -> str:
        """One sentence that tells what was decided without being asked."""
        return f"{self.party}, {self.path.name}{_named(column)}: {text}"

    def unreadable(self, error: OSError) -> DataError:
        """The error for a file that the system does not let us read."""
        return self.error(
            f"must be readable, but: {error.strerror or error}. Check the path and its rights."
        )

    def no_such_column(self, name: str, known: Sequence[str], *, hint: str = "") -> DataError:
        """The error for a column that is not in the file; lists the near names, or all."""
        near = nearest(name, known)
        listed = listing(near or known, shown=_SHOWN_NAMES)
        return self.error(
            f"no column is called {name!r}. {'Did you mean' if near else 'Columns:'} {listed}"
            f"{'?' if near else '.'} Capital letters count.{hint}"
        )


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that look like this one, best first; capital letters do not count."""
    by_folded = {one.casefold(): one for one in known}
    return [by_folded[hit] for hit in get_close_matches(name.casefold(), by_folded, n=3)]


def listing(values: Iterable[object], *, shown: int = _SHOWN) -> str:
    """The first few values as Python writes them, and how many more there are.

    >>> listing(["a", "b", "c", "d"])
    "'a', 'b', 'c' and 1 more"
    """
    listed = list(values)
    more = f" and {len(listed) - shown:,} more" if len(listed) > shown else ""
    return ", ".join(repr(value) for value in listed[:shown]) + more


def _named(column: str | None) -> str:
    """How a column is named in front of the colon."""
    return "" if column is None else f", column {column!r}"
