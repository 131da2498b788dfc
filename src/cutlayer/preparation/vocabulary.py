"""From a category to its code: by a vocabulary of frequent values, or by a hash alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from zlib import crc32

import polars as pl
from typing_extensions import override

from cutlayer.data.encoding import RARE_SHARE
from cutlayer.data.prepared_files import MAX_CODES
from cutlayer.data.tables.column_notices import ColumnNotice
from cutlayer.errors import DataError

_SPREAD: Final = 0x9E3779B1  # a prime near 2**32 divided by the golden ratio (Knuth, TAOCP 6.4)


class Coding(Protocol):
    """Codes for the categories of some columns."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has; codes are 0 to size - 1."""
        ...

    def codes(self, column: int, values: pl.Series) -> pl.Series:
        """Codes of any texts, int32, null among them."""
        ...


@dataclass(frozen=True)
class ExactCoding(Coding):
    """A code for each frequent value, 1 for the most frequent one.

    Code 0 is shared by values that are rare in the training rows, and by those that only appear
    later. "Missing" is a value like any other.
    """

    tables: tuple[pl.DataFrame, ...]
    """For each column ``value``, ``code`` and ``times``."""

    @classmethod
    def from_counts(cls, counts: Iterable[pl.DataFrame], names: Sequence[str]) -> "ExactCoding":
        """Number the values in the order given.

        Raises:
            DataError: a column has so many frequent values that float32 cannot tell their codes
                apart.
        """
        tables = []
        for name, table in zip(names, counts, strict=True):
            if table.height >= MAX_CODES:
                raise DataError(
                    f"Column {name!r} has {table.height:,} frequent values, but at most "
                    f"{MAX_CODES - 1:,} codes can be told apart. Set a larger min_count, or "
                    "vocabulary to 'hashed'."
                )
            code = pl.int_range(1, table.height + 1, dtype=pl.Int32, eager=True)
            tables.append(table.select("value", code.alias("code"), "times"))
        return cls(tuple(tables))

    @property
    @override
    def sizes(self) -> tuple[int, ...]:
        return tuple(table.height + 1 for table in self.tables)

    @override
    def codes(self, column: int, values: pl.Series) -> pl.Series:
        known = self.tables[column].select("value", "code")
        asked = values.alias("value").to_frame()
        joined = asked.join(known, on="value", how="left", nulls_equal=True, maintain_order="left")
        return joined["code"].fill_null(0)

    def as_frame(self, names: Sequence[str]) -> pl.DataFrame:
        """All tables in one, with the name of the column in front."""
        frames = [
            table.select(pl.lit(name).alias("column"), pl.all())
            for name, table in zip(names, self.tables, strict=True)
        ]
        empty = {"column": pl.String, "value": pl.String, "code": pl.Int32, "times": pl.Int64}
        return pl.concat([pl.DataFrame(schema=empty), *frames])

    @classmethod
    def from_frame(cls, frame: pl.DataFrame, names: Sequence[str]) -> "ExactCoding":
        """What :meth:`as_frame` made."""
        tables = [frame.filter(pl.col("column") == name).drop("column") for name in names]
        return cls(tuple(tables))


def few_codes(
    coding: Coding, names: Sequence[str], training: int, min_count: int
) -> list[ColumnNotice]:
    """A notice for each column in which many training rows have no code of their own.

    Args:
        coding: of all columns of categories; hashed codes are counted by nobody.
        names: of the columns.
        training: how many rows train.
        min_count: how often a value must occur to get a code.
    """
    if not isinstance(coding, ExactCoding):
        return []
    notices = []
    for name, table in zip(names, coding.tables, strict=True):
        rare = 1 - int(table["times"].sum()) / max(1, training)
        if rare < RARE_SHARE:
            continue
        if not table.height:
            notices.append(
                ColumnNotice(
                    name,
                    f"no value is held by {min_count} training rows, so all share one code and "
                    "nothing can be learned from it. --min-count changes that.",
                    f"no value is held by {min_count} training rows, so all share one code and "
                    "nothing can be learned from them. --min-count changes that.",
                )
            )
            continue
        one = table.height == 1
        kept = "1 value has a code" if one else f"{table.height:,} values have a code"
        notices.append(
            ColumnNotice(
                name,
                f"{kept} of {'its' if one else 'their'} own, as {min_count} training rows or more "
                f"hold {'it' if one else 'each'}; all others, "
                f"{rare:.0%} of the rows, share one. --min-count changes that.",
                f"only values that {min_count} training rows or more hold have a code of their "
                "own; all others share one. --min-count changes that.",
                f"{kept}, {rare:.0%} of the rows none",
            )
        )
    return notices


@dataclass(frozen=True)
class HashedCoding(Coding):
    """The value's checksum, cut to some bits: nothing is counted, and values may collide.

    The code of ``v`` in column ``c`` is made of the highest ``bits`` of
    ``CRC-32(v, begun with CRC-32(c)) * 0x9E3779B1 mod 2**32``; the product breaks the checksum's
    regularity, which would map numbered values evenly. A missing value is hashed as the empty text.
    All of this is fixed for good, so a value has the same code on every machine; somebody who
    chooses values can make them collide.
    """

    names: tuple[str, ...]
    bits: int

    @property
    @override
    def sizes(self) -> tuple[int, ...]:
        return (2**self.bits,) * len(self.names)

    @override
    def codes(self, column: int, values: pl.Series) -> pl.Series:
        start, drop = crc32(self.names[column].encode()), 32 - self.bits
        unique = values.fill_null("").unique(maintain_order=True)
        hashed = [(crc32(value.encode(), start) * _SPREAD % 2**32) >> drop for value in unique]
        codes = pl.Series(hashed, dtype=pl.Int32)
        return values.fill_null("").replace_strict(unique, codes, return_dtype=pl.Int32)
