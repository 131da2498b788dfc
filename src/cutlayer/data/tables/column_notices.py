"""Column notices: what was decided about columns unasked; many that share a reason share a line."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

SINGLY: Final = 3
"""Up to so many columns with one reason have a line each, unless the reason says otherwise."""
_NAMED: Final = 12
"""So many columns of a group are named."""


@dataclass(frozen=True)
class ColumnNotice:
    """One decision about one column."""

    column: str
    alone: str
    """What a line of its own says, to follow the column's name."""
    together: str
    """What one line for many columns says, to follow their names."""
    detail: str = ""
    """What differs between the columns of a group; stands in parentheses behind the name."""
    group_from: int = SINGLY + 1
    """From so many columns with this reason on, they share a line."""


def lines_of(notices: Iterable[ColumnNotice], say: Callable[[str, str | None], str]) -> list[str]:
    """One line for each column, or for each reason that more than a few columns share.

    Args:
        notices: at most one for each column.
        say: words a line from a text and the column that it is about, or none.

    >>> empty = [ColumnNotice(name, "is empty.", "are empty.") for name in "abcd"]
    >>> lines_of(empty, lambda text, column: text)
    ["columns 'a', 'b', 'c', 'd': are empty."]
    """
    groups: dict[str, list[ColumnNotice]] = {}
    for notice in notices:
        groups.setdefault(notice.together, []).append(notice)
    lines = []
    for together, group in groups.items():
        if len(group) < group[0].group_from:
            lines += [say(one.alone, one.column) for one in group]
            continue
        named = ", ".join(_named(one) for one in group[:_NAMED])
        more = f" and {len(group) - _NAMED:,} more" if len(group) > _NAMED else ""
        lines.append(say(f"columns {named}{more}: {together}", None))
    return lines


def _named(notice: ColumnNotice) -> str:
    """The name of a column in a group, and what sets it apart."""
    return repr(notice.column) + (f" ({notice.detail})" if notice.detail else "")
