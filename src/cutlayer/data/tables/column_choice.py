"""Column choice: which column of a file is the id, the label, the group, and which are features."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from cutlayer.data.tables.file_message import FileMessage, listing

ROW_NUMBER: Final = "(row number)"
"""In place of an id column: rows are called 1, 2, 3 ... as they stand in the file."""

Kind = Literal["infer", "numeric", "categorical"]


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that are read, by what they are for."""

    id_column: str | None
    """``None``: rows are numbered."""
    label_column: str | None
    group_column: str | None
    features: dict[str, Kind]
    """In the order of the file."""
    trained: bool = False
    """Whether the kinds are those that a model was trained with, and not listed by anybody."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that are read as texts and must have a value in every row."""
        named = (self.id_column, self.label_column, self.group_column)
        return tuple(name for name in named if name is not None)


@dataclass(frozen=True)
class ColumnRules:
    """What the user said about columns; names, or shell patterns for features."""

    id_column: str
    label_column: str | None
    group_column: str | None
    keep: tuple[str, ...]
    drop: tuple[str, ...]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]

    def applied_to(self, names: Sequence[str], message: FileMessage, hint: str) -> ColumnChoice:
        """Find the columns in a file.

        Raises:
            DataError: a name or pattern fits no column, or one column is to be both numeric and
                categorical.
        """
        id_column = None if self.id_column == ROW_NUMBER else self.id_column
        taken = [
            name for name in (id_column, self.label_column, self.group_column) if name is not None
        ]
        for name in taken:
            if name not in names:
                raise message.no_such_column(name, names, hint=hint)
        free = [name for name in names if name not in taken]
        matched = {
            rule: _matched(getattr(self, rule), free, rule, message, hint)
            for rule in ("keep", "drop", "numeric", "categorical")
        }
        both = [name for name in free if name in matched["numeric"] & matched["categorical"]]
        if both:
            raise message.error(
                f"a column must be numeric or categorical, but {listing(both)} is listed as both. "
                "Take it out of one list."
            )
        kept = [name for name in free if name in matched["keep"]] if self.keep else free
        return ColumnChoice(
            id_column,
            self.label_column,
            self.group_column,
            {name: _kind(name, matched) for name in kept if name not in matched["drop"]},
        )


def _kind(name: str, matched: dict[str, set[str]]) -> Kind:
    """What the user says that the column is."""
    if name in matched["numeric"]:
        return "numeric"
    return "categorical" if name in matched["categorical"] else "infer"


def _matched(
    rules: Iterable[str], names: Sequence[str], option: str, message: FileMessage, hint: str
) -> set[str]:
    """All columns that one of the rules names; a rule that names none is an error."""
    found: set[str] = set()
    for rule in rules:
        # The name itself goes first: "dose[mg]" is a name, not a pattern.
        hits = [rule] if rule in names else [name for name in names if fnmatchcase(name, rule)]
        if not hits:
            raise message.no_such_column(rule, names, hint=f" Mend the list {option}.{hint}")
        found |= set(hits)
    return found
