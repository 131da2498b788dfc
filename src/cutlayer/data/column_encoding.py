"""How one column becomes numbers: a scaled number, or one slot for each category."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cutlayer.data.party_table import PartyName
from cutlayer.errors import DataError

OTHER: Final = "(other)"


@dataclass(frozen=True)
class NumericColumn:
    """A number, measured in training deviations from the training mean.

    A missing value is replaced by the mean, so it becomes 0. Where some were missing in training, a
    second column holds 1 for "missing" and 0 otherwise. Where all present training values are
    equal, only that second column remains: one value has no deviation to measure in.
    """

    name: str
    mean: float
    """Mean of the present training values."""
    deviation: float
    """Their population standard deviation; 0 where all of them are equal."""
    marks_missing: bool
    """Whether a value was missing in training."""
    missing: float | None = field(default=None, compare=False)
    """Share of training rows without a value; ``None`` if an earlier version fitted the column."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        scaled = (self.name,) if self.deviation > 0 else ()
        return scaled + ((f"{self.name} is missing",) if self.marks_missing else ())

    @classmethod
    def fit(cls, column: pl.Series, *, party: PartyName) -> "NumericColumn | None":
        """Learn mean and deviation from training rows; ``None`` where these do not differ.

        Raises:
            DataError: a value is infinite, or the column holds no numbers.
        """
        values = numbers(column, party=party)
        present = values[~np.isnan(values)]
        marks_missing = len(present) < len(values)
        if len(present) == 0:
            return None
        missing = 1 - len(present) / len(values)
        if present.min() == present.max():
            return (
                cls(column.name, float(present[0]), 0.0, True, missing) if marks_missing else None
            )
        # In units of a power of 2 near the largest value nothing is rounded, and the squares of
        # 1e200 stay finite, those of 1e-200 above 0.
        unit = 2.0 ** int(np.frexp(np.abs(present).max())[1] - 1)
        scaled = present / unit
        mean, deviation = float(scaled.mean()) * unit, float(scaled.std()) * unit
        return cls(column.name, mean, deviation, marks_missing, missing)

    def encode(self, column: pl.Series, *, party: PartyName) -> NDArray[np.float32]:
        """Encode any rows: float32, shape ``(rows, len(slots))``, always finite.

        Raises:
            DataError: a value is infinite, or too far from the training values for a float32.
        """
        values = numbers(column, party=party)
        missing = np.isnan(values)
        encoded = np.empty((len(values), len(self.slots)), dtype=np.float32)
        if self.deviation > 0:
            with np.errstate(over="ignore"):  # what overflows is refused below
                standard = np.where(missing, 0.0, (values - self.mean) / self.deviation)
            if (np.abs(standard) > np.finfo(np.float32).max).any():
                raise DataError(
                    f"{party}, column {self.name!r}: a value lies more than 1e38 deviations from "
                    "the training mean. Look for a placeholder such as 1e99 and leave it empty."
                )
            encoded[:, 0] = standard
        if self.marks_missing:
            encoded[:, -1] = missing
        return encoded


@dataclass(frozen=True)
class CategoricalColumn:
    """A category as one slot that is 1 among slots that are 0.

    The last slot is for everything else: categories that are rare in training, categories that
    only appear later, and missing values.
    """

    name: str
    categories: tuple[str, ...]
    """Categories with a slot of their own, most frequent first."""
    missing: float | None = field(default=None, compare=False)
    """Share of training rows without a value; ``None`` if an earlier version fitted the column."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(f"{self.name}={value}" for value in (*self.categories, OTHER))

    @classmethod
    def fit(
        cls, column: pl.Series, *, min_count: int, max_categories: int
    ) -> "CategoricalColumn | None":
        """Give a slot to the most frequent training categories; equal counts go by name.

        ``None`` where all training rows would fall into one slot.
        """
        counts = column.alias("value").drop_nulls().value_counts(name="times")
        frequent = (
            counts.filter(pl.col("times") >= min_count)
            .cast({"value": pl.String})
            .sort("times", "value", descending=[True, False])
            .head(max_categories)
        )
        missing = column.null_count() / max(1, len(column))
        fitted = cls(column.name, tuple(frequent["value"].to_list()), missing)
        return fitted if len(np.unique(fitted.slot_of(column))) > 1 else None

    def encode(self, column: pl.Series) -> NDArray[np.float32]:
        """Encode any rows: float32 of 0 and 1, shape ``(rows, len(slots))``, each row sums to 1."""
        slot = self.slot_of(column)
        encoded = np.zeros((len(slot), len(self.slots)), dtype=np.float32)
        encoded[np.arange(len(slot)), slot] = 1
        return encoded

    def rare_share(self, column: pl.Series) -> float:
        """Share of the rows that hold a category without a slot of its own; missing is none."""
        rare = (self.slot_of(column) == len(self.categories)) & column.is_not_null().to_numpy()
        return float(rare.mean())

    def slot_of(self, column: pl.Series) -> NDArray[np.int64]:
        """Which slot is 1 in each row, int64, shape ``(rows,)``: the last for all others."""
        other = len(self.categories)
        # A plain name: polars takes one such as "^n$" for a pattern.
        slot = (
            column.alias("cells")
            .cast(pl.String)
            .replace_strict(
                list(self.categories), list(range(other)), default=other, return_dtype=pl.Int64
            )
        )
        return slot.fill_null(other).to_numpy()


def numbers(column: pl.Series, *, party: PartyName) -> NDArray[np.float64]:
    """The column as float64, shape ``(rows,)``, with NaN for every missing value.

    Raises:
        DataError: the column holds no numbers, or an infinite one.
    """
    if not (column.dtype.is_numeric() or column.dtype == pl.Null):
        raise DataError(
            f"{party}, column {column.name!r}: must hold numbers, as in training, but holds "
            f"{column.dtype}. Mend the values that are no numbers, or leave them empty."
        )
    # A plain name: polars takes one such as "^n$" for a pattern.
    values = column.alias("cells").cast(pl.Float64).fill_null(float("nan")).to_numpy()
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise DataError(
            f"{party}, column {column.name!r}: numbers must be finite, but {infinite} of "
            f"{len(values)} rows hold infinity. Leave such a cell empty: it then counts as missing."
        )
    return values
