"""The layout of a table: which column is what, and what a cell must look like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cutlayer.data.tables.cell_values import Decimal, with_point
from cutlayer.data.tables.record_ids import canonical_ids
from cutlayer.preparation.rejects import Reject
from cutlayer.preparation.row_source import RowBlock

WEEKDAY: Final = "weekday"
HOUR_OF_DAY: Final = "hour"

_LARGEST: Final = 1e37  # its square is a float64, and it is a float32
_ID_DIGITS: Final = 10
_HEXADECIMAL: Final = "^[0-9a-fA-F]{8}$"


@dataclass(frozen=True)
class TypedRows:
    """Rows whose every cell is what it must be; entry ``j`` of each field is one row."""

    ids: pl.Series
    labels: pl.Series
    """1 or 0, int8."""
    numbers: NDArray[np.float64]
    """Shape ``(rows, numbers)``; a missing number is 0."""
    categories: tuple[pl.Series, ...]
    """Texts, one Series for each column; null where missing."""
    rejects: tuple[Reject, ...]
    """Rows that are left out, those that the splitting set aside among them; by line."""


@dataclass(frozen=True)
class Layout:
    """Columns by what they are for.

    ====================================  =======================================
    in a row                              decision
    ====================================  =======================================
    id missing                            reject
    label missing or of another value     reject, the value is not told
    number missing                        0
    number not finite, or beyond 1e37     reject
    category missing                      a category like any other
    ====================================  =======================================
    """

    names: tuple[str, ...]
    """All columns of the file, in its order."""
    id_column: str | None
    """``None``: rows are called by their number in the file, 10 digits, from 0000000001."""
    label_column: str
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    """Names as in the output; :data:`WEEKDAY` and :data:`HOUR_OF_DAY` come from ``time_column``."""
    label_values: Mapping[str, int] = field(default_factory=dict)
    """What each text of a label means; another one is a reject."""
    positive: tuple[str, ...] = ()
    """Where it is not empty: the texts that are positive; every other one is then negative."""
    whole: bool = False
    """Whether numbers must be whole."""
    hexadecimal: bool = False
    """Whether categories must have 8 hexadecimal digits."""
    time_column: str | None = None
    """A column of YYMMDDHH."""
    missing: tuple[str, ...] = ()
    """Texts that mean "missing", apart from empty cells; in an id they do not."""
    strip: bool = False
    """Whether spaces around a cell are no part of it."""
    decimal: Decimal = "."
    """What stands in front of a number's fraction."""

    @property
    def features(self) -> tuple[str, ...]:
        """Numbers first, then categories."""
        return self.numbers + self.categories

    def typed(self, block: RowBlock) -> TypedRows:
        """Check every cell of a block, and set rows with a wrong one aside."""
        frame = block.frame
        if self.strip:
            blank = pl.all().str.strip_chars()
            frame = frame.select(pl.when(blank != "").then(blank))
        frame = frame.with_columns(row=pl.Series(block.numbers))
        features = self._feature_expressions()
        values = frame.select(id=self._id(), label=self._label(), **features)
        faults = self._faults(frame, values)
        if faults.width == 0:
            return self._as_rows(values, block.rejects)
        bad = faults.select(bad=pl.any_horizontal(pl.all()))["bad"]
        own = [
            Reject(int(block.lines[row]), _first_fault(faults.row(row, named=True)))
            for row in bad.arg_true()
        ]
        rejects = tuple(sorted((*block.rejects, *own), key=lambda one: one.line))
        return self._as_rows(values.filter(~bad), rejects)

    def _as_rows(self, values: pl.DataFrame, rejects: tuple[Reject, ...]) -> TypedRows:
        """Sound rows, by field."""
        ids = values["id"] if self.id_column is None else canonical_ids(values["id"]).series
        numbers = np.empty((values.height, len(self.numbers)), dtype=np.float64)
        for place in range(len(self.numbers)):
            numbers[:, place] = values[f"n{place}"].fill_null(0.0).to_numpy()
        categories = tuple(values[f"c{place}"] for place in range(len(self.categories)))
        return TypedRows(ids.alias("id"), values["label"], numbers, categories, rejects)

    def _column(self, name: str) -> pl.Expr:
        """A column of the file, by its position."""
        return pl.col(str(self.names.index(name)))

    def _feature(self, name: str) -> pl.Expr:
        """A column of the file, null where missing."""
        cell = self._column(name)
        return pl.when(~cell.is_in(self.missing)).then(cell) if self.missing else cell

    def _id(self) -> pl.Expr:
        """The record's name."""
        if self.id_column is None:
            return pl.col("row").cast(pl.String).str.zfill(_ID_DIGITS)
        return self._column(self.id_column)

    def _label(self) -> pl.Expr:
        """1, 0, or null where it is neither."""
        cell = self._column(self.label_column)
        known = self.label_values
        if not self.positive:
            return cell.replace_strict(
                list(known), list(known.values()), default=None, return_dtype=pl.Int8
            )
        given = cell.is_not_null() & ~cell.is_in(self.missing)
        return pl.when(given).then(cell.is_in(self.positive)).cast(pl.Int8)

    def _feature_expressions(self) -> dict[str, pl.Expr]:
        """Numbers ``n0``, ``n1`` ... and categories ``c0``, ``c1`` ..."""
        kind = pl.Int64 if self.whole else pl.Float64
        numbers = {
            f"n{place}": with_point(self._feature(name), self.decimal)
            .cast(kind, strict=False)
            .cast(pl.Float64)
            for place, name in enumerate(self.numbers)
        }
        derived = self._time_expressions()
        categories = {
            f"c{place}": derived[name] if name in derived else self._feature(name)
            for place, name in enumerate(self.categories)
        }
        return numbers | categories

    def _time_expressions(self) -> dict[str, pl.Expr]:
        """Day of the week (1 is Monday) and hour (``00`` to ``23``) as texts."""
        if self.time_column is None:
            return {}
        cell = self._column(self.time_column)
        day = cell.str.head(6).str.to_date("%y%m%d", strict=False)
        return {WEEKDAY: day.dt.weekday().cast(pl.String), HOUR_OF_DAY: cell.str.tail(2)}

    def _faults(self, frame: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
        """One column for each kind of fault, called by its reason; true where a row has it."""
        checks = {
            "the id is missing": values["id"].is_null(),
            "the label is none of the values it may have": values["label"].is_null(),
        }
        what = "a whole number" if self.whole else "a finite number"
        for place, sound in self._doubtful(frame, values).items():
            name = self.features[place]
            why = f"is not {what}" if name in self.numbers else "has not 8 hexadecimal digits"
            checks[f"column {name!r} {why}"] = ~sound
        if self.time_column is not None:
            checks[f"column {self.time_column!r} is not a time YYMMDDHH"] = self._bad_time(frame)
        return pl.DataFrame({why: rows for why, rows in checks.items() if rows.any()})

    def _doubtful(self, frame: pl.DataFrame, values: pl.DataFrame) -> dict[int, pl.Series]:
        """Features with a wrong cell by their place, and in which rows the cells are right."""
        cells = frame.select(
            pl.col(str(self.names.index(name))).alias(f"t{place}")
            for place, name in enumerate(self.numbers)
        )
        sound = [
            (pl.col(f"n{place}").abs() <= _LARGEST).fill_null(
                _is_missing(f"t{place}", self.missing)
            )
            for place in range(len(self.numbers))
        ]
        if self.hexadecimal:
            sound += [
                pl.col(f"c{place}").str.contains(_HEXADECIMAL).fill_null(value=True)
                for place in range(len(self.categories))
            ]
        named = [check.alias(str(place)) for place, check in enumerate(sound)]
        # All columns in one go, so that polars uses every core.
        checked = values.hstack(cells).select(named)
        return {int(column.name): column for column in checked if not column.all()}

    def _bad_time(self, frame: pl.DataFrame) -> pl.Series:
        """Where the time is missing or none."""
        cell = self._column(self.time_column or "")
        form = cell.str.contains(r"^[0-9]{6}([01][0-9]|2[0-3])$")
        day = cell.str.head(6).str.to_date("%y%m%d", strict=False).is_not_null()
        return frame.select(bad=~(form & day).fill_null(value=False))["bad"]


def _is_missing(column: str, missing: tuple[str, ...]) -> pl.Expr:
    """Where a cell of the file is empty, or says that it is missing."""
    return pl.col(column).is_null() | pl.col(column).is_in(missing).fill_null(value=False)


def _first_fault(row: Mapping[str, bool]) -> str:
    """The reason that stands first."""
    return next(why for why, bad in row.items() if bad)
