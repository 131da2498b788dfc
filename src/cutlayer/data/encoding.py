"""The encoder: from a party's table to the numbers that its half of the model reads."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor

from cutlayer import check
from cutlayer.data.column_encoding import CategoricalColumn, NumericColumn
from cutlayer.data.party_table import PartyName, PartyTable
from cutlayer.data.tables.column_notices import ColumnNotice, lines_of
from cutlayer.errors import DataError

MIN_COUNT: Final = 10
MAX_CATEGORIES: Final = 100
RARE_SHARE: Final = 0.1
"""Where so many training rows hold a category without a slot of its own, there is a notice."""

_TEXT_KINDS = (pl.String, pl.Categorical, pl.Enum, pl.Boolean)
_FORMAT = 1


@dataclass(frozen=True)
class Encoder:
    """What the training rows taught about the columns, applied alike to all rows.

    Nothing of a test row enters: means, deviations and category lists come from the table given to
    :meth:`fit`. Numbers are scaled, texts, categories and booleans become one slot for each
    category (:mod:`cutlayer.data.column_encoding`). A whole number that is really a code ("type 33
    of 41") has to be cast to ``polars.String`` before.

    ============================================  ================================================
    in the training rows                          decision
    ============================================  ================================================
    NaN                                           counts as missing
    all values of a column are equal              dropped, with a notice
    no value at all                               dropped, with a notice
    equal values, some missing                    one column that says "missing"
    no category reaches ``min_count``             dropped, with a notice
    many rows hold a category without a slot      kept, with a notice
    a date, time, list or binary column           error: cast it to numbers or text first
    ============================================  ================================================
    """

    columns: tuple[NumericColumn | CategoricalColumn, ...]
    """One entry for each column that is kept, in the order of the training table."""
    notices: tuple[str, ...] = ()
    """What was dropped and why, and which columns have many rare categories; one line each."""

    @classmethod
    def fit(
        cls,
        training: PartyTable,
        *,
        min_count: int = MIN_COUNT,
        max_categories: int = MAX_CATEGORIES,
    ) -> "Encoder":
        """Learn from training rows.

        Args:
            training: the training rows, and only these.
            min_count: how often a category must occur to get a slot of its own.
            max_categories: the most categories of one column that get a slot of their own.

        Raises:
            ValueError: ``min_count`` or ``max_categories`` is not a whole number of at least 1.
            DataError: there are no rows, a number is infinite, or a column's kind is unknown.

        >>> table = PartyTable("non-label party", ("a", "b"), pl.DataFrame({"age": [30, 40]}))
        >>> Encoder.fit(table).encode(table)
        tensor([[-1.],
                [ 1.]])
        """
        check.at_least("min_count", min_count, 1)
        check.at_least("max_categories", max_categories, 1)
        if len(training) == 0:
            raise DataError(f"{training.party}: there are no training rows to learn from.")
        columns: list[NumericColumn | CategoricalColumn] = []
        notices: list[ColumnNotice] = []
        for column in training.features:
            fitted = _fit_column(column, training, min_count, max_categories)
            if fitted is not None:
                columns.append(fitted)
            if isinstance(fitted, CategoricalColumn):
                notices += _few_slots(column, fitted)
            elif fitted is None:
                notices.append(_dropped(column, min_count))
        return cls(tuple(columns), tuple(lines_of(notices, _worded(training.party))))

    @property
    def column_names(self) -> tuple[str, ...]:
        """What each encoded column holds, as ``age``, ``age is missing`` or ``job=farmer``."""
        return tuple(slot for column in self.columns for slot in column.slots)

    @property
    def width(self) -> int:
        """How many encoded columns there are; 0 where the party has no usable feature."""
        return len(self.column_names)

    @property
    def kinds(self) -> dict[str, Literal["infer", "numeric", "categorical"]]:
        """How each column that was trained with is to be read."""
        return {
            column.name: "numeric" if isinstance(column, NumericColumn) else "categorical"
            for column in self.columns
        }

    def encode(self, table: PartyTable) -> Tensor:
        """Encode any rows of the same party.

        Args:
            table: has all the columns that were kept; other columns are not looked at.

        Returns:
            Finite numbers, float32, shape ``(rows, width)``.

        Raises:
            DataError: a column is absent, holds text where training had numbers, or a number is
                infinite.
        """
        encoded = np.empty((len(table), self.width), dtype=np.float32)
        begin = 0
        for column in self.columns:
            if column.name not in table.features.columns:
                raise DataError(
                    f"{table.party}: column {column.name!r} is not in the table, but the model was "
                    "trained with it. Add the column, with empty cells if nothing is known."
                )
            values = table.features[column.name]
            end = begin + len(column.slots)
            if isinstance(column, NumericColumn):
                encoded[:, begin:end] = column.encode(values, party=table.party)
            else:
                encoded[:, begin:end] = column.encode(values)
            begin = end
        return torch.from_numpy(encoded)

    def to_json(self) -> str:
        """Everything that :meth:`encode` needs, as a JSON text; holds the category names."""
        kinds = {NumericColumn: "numeric", CategoricalColumn: "categorical"}
        columns = [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]
        return json.dumps({"format": _FORMAT, "columns": columns, "notices": self.notices})

    @classmethod
    def from_json(cls, text: str) -> "Encoder":
        """The encoder that :meth:`to_json` wrote; it encodes bit for bit alike.

        Raises:
            DataError: the text is not one that :meth:`to_json` wrote.
        """
        try:
            state = json.loads(text)
            if state["format"] != _FORMAT:
                raise DataError(
                    f"The encoder was saved in format {state['format']!r}, but this release reads "
                    f"format {_FORMAT}. Use the release that saved it."
                )
            columns = tuple(_column_from(entry) for entry in state["columns"])
            return cls(columns, tuple(str(notice) for notice in state["notices"]))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"This is not a saved encoder: {error!r}. Give the file that the training wrote."
            ) from error


def _fit_column(
    column: pl.Series, training: PartyTable, min_count: int, max_categories: int
) -> NumericColumn | CategoricalColumn | None:
    """Learn one column; ``None`` where all training rows would be encoded alike."""
    if column.dtype in _TEXT_KINDS:
        return CategoricalColumn.fit(column, min_count=min_count, max_categories=max_categories)
    if column.dtype.is_numeric() or column.dtype == pl.Null:
        return NumericColumn.fit(column, party=training.party)
    raise DataError(
        f"{training.party}, column {column.name!r}: {column.dtype} values cannot be learned from. "
        "Cast the column to a number or to text, or leave it out."
    )


def _few_slots(column: pl.Series, fitted: CategoricalColumn) -> list[ColumnNotice]:
    """A notice where many training rows hold a category that has no slot of its own."""
    different = column.alias("cells").drop_nulls().n_unique()
    kept, share = len(fitted.categories), fitted.rare_share(column)
    if kept == different or (share < RARE_SHARE and different <= MAX_CATEGORIES):
        return []
    told = "one has a slot" if kept == 1 else f"{kept:,} have a slot each"
    return [
        ColumnNotice(
            column.name,
            f"of its {different:,} categories in the training rows the most frequent {told}; "
            f"all others, {share:.0%} of the rows, count as one.",
            "in the training rows only frequent categories have a slot each; all others count as "
            "one.",
            f"{kept:,} of {different:,} have a slot, {share:.0%} of the rows do not",
        )
    ]


def _dropped(column: pl.Series, min_count: int) -> ColumnNotice:
    """Why all training rows would be encoded alike."""
    cells = column.alias("cells")
    if cells.dtype.is_float():
        cells = cells.fill_nan(None)
    different = cells.drop_nulls().n_unique()
    if different == 0:
        why = "no training row has a value"
        return ColumnNotice(column.name, f"left out, because {why}.", f"left out, because {why}.")
    if different == 1 and cells.null_count() == 0:
        return ColumnNotice(
            column.name,
            f"left out, because all training rows hold {cells[0]!r}.",
            "left out, because all training rows of each are equal.",
            repr(cells[0]),
        )
    return ColumnNotice(
        column.name,
        f"left out, because none of its {different:,} categories occurs in {min_count} training "
        "rows.",
        f"left out, because none of their categories occurs in {min_count} training rows.",
        f"{different:,} categories",
    )


def _worded(party: PartyName) -> Callable[[str, str | None], str]:
    """Words a line about the training rows."""
    return lambda text, column: (
        f"{party}: {text}" if column is None else f"{party}, column {column!r}: {text}"
    )


def _column_from(entry: Mapping[str, object]) -> NumericColumn | CategoricalColumn:
    """One column from its JSON object; KeyError, TypeError or ValueError where it is another."""
    name, missing = entry["name"], entry.get("missing")
    if not isinstance(name, str):
        raise TypeError(f"a column's name must be text, got {name!r}")
    if not (missing is None or (isinstance(missing, float | int) and 0 <= missing <= 1)):
        raise ValueError(f"column {name!r}: missing must be a share, got {missing!r}")
    if entry["kind"] == "categorical":
        categories = entry["categories"]
        if not (isinstance(categories, list) and all(isinstance(c, str) for c in categories)):
            raise TypeError(f"column {name!r}: categories must be texts")
        return CategoricalColumn(name, tuple(categories), missing)
    if entry["kind"] != "numeric":
        raise ValueError(f"column {name!r}: no kind is called {entry['kind']!r}")
    mean, deviation, marks_missing = entry["mean"], entry["deviation"], entry["marks_missing"]
    if not (isinstance(mean, float) and isinstance(deviation, float)):
        raise TypeError(f"column {name!r}: mean and deviation must be numbers")
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0):
        raise ValueError(f"column {name!r}: mean and deviation must be finite, deviation from 0 up")
    if not isinstance(marks_missing, bool):
        raise TypeError(f"column {name!r}: marks_missing must be true or false")
    return NumericColumn(name, mean, deviation, marks_missing, missing)
