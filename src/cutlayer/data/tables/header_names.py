"""Header names: one name for each column, from the cells of the first record."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from cutlayer.data.tables.file_message import FileMessage, listing

_MARK: Final = "\ufeff"
_MANGLED_MARKS: Final = tuple(
    _MARK.encode().decode(encoding)
    for encoding in ("windows-1252", "cp437", "cp850", "cp1251", "mac_roman", "latin-1")
)
"""A byte order mark in UTF-8 that was read in another encoding on its way."""
_TWICE_MANGLED: Final = tuple(
    mark.encode().decode("windows-1252", errors="replace") for mark in _MANGLED_MARKS[:1]
)
_LOST_MARKS: Final = ("\ufffd\ufffd\ufffd", "\ufffd\ufffd", "???", "...", "??", "..")
"""The same where each byte became one sign; a name may begin so for other reasons."""


def header_names(
    cells: Sequence[str], message: FileMessage, *, hint: str = ""
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the columns, unique, and what was decided about them.

    A column without a name is called by its position, ``c1``, ``c2`` ...; a byte order mark that
    another program read as letters is taken off the first name.

    Args:
        cells: of the first record, without spaces around them.
        message: words the error and the notices.
        hint: what may be wrong, to stand in the error.

    Returns:
        Names and notices.

    Raises:
        DataError: a name stands there twice, or the first line is one for spreadsheets.
    """
    if cells[0].lower().startswith("sep="):
        raise message.error(
            f"must begin with a header, but the first line {cells[0]!r} tells a spreadsheet how to "
            "split the file. Delete that line."
        )
    notices = []
    names = list(cells)
    names[0], told = _without_mark(names[0])
    if told:
        notices.append(message.notice(told))
    unnamed = [f"c{place}" for place, name in enumerate(names, start=1) if not name]
    if unnamed:
        notices.append(
            message.notice(
                f"the header has no name for {len(unnamed)} column(s); they are called "
                f"{listing(unnamed)} by their position."
            )
        )
    names = [name or f"c{place}" for place, name in enumerate(names, start=1)]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise message.error(
            f"every column must have a name of its own, but {listing(repeated)} stands in the "
            f"header more than once.{hint} Rename the column."
        )
    return tuple(names), tuple(notices)


def _without_mark(name: str) -> tuple[str, str]:
    """The first name without a mangled byte order mark, and what to say of it."""
    for mark in (_MARK, *_TWICE_MANGLED, *_MANGLED_MARKS):
        if name.startswith(mark):
            rest = name.removeprefix(mark).strip().strip('"')
            return rest, (
                f"the header begins with {mark!r}, a byte order mark that was read as letters; the "
                f"first column is called {rest!r}."
            )
    lost = next((mark for mark in _LOST_MARKS if name.startswith(mark)), None)
    if lost is not None and name.removeprefix(lost).isidentifier():
        return name, (
            f"the first column is called {name!r}, where {lost!r} may be left of a byte order "
            "mark. Rename it if so."
        )
    return name, ""
