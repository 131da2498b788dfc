"""Category counts: how often each value of each column occurs, exactly, in bounded memory.

Counts are kept in memory up to a budget of entries; what is beyond goes to a folder as Parquet, one
file a column and spill. At the end each column's files are gone through several times, and each
time only values whose hash falls into one of several classes are added up, so that one class fits
into the budget. What is returned, values that are frequent enough, is held in memory: at most
``rows / min_count`` of them.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl

ENTRY_BUDGET: Final = 2_000_000
"""Entries (a value and its count) that all columns together keep in memory; 40 bytes each and the
letters of values longer than 12 bytes."""


class CategoryCounts:
    """Counts of several columns; the folder is emptied of earlier spills."""

    def __init__(self, columns: int, folder: Path, *, budget: int = ENTRY_BUDGET) -> None:
        self._pending: list[list[pl.DataFrame]] = [[] for _ in range(columns)]
        self._spilled: list[list[Path]] = [[] for _ in range(columns)]
        self._spilled_entries = [0] * columns
        self._folder, self._budget = folder, budget
        self._entries = 0
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.parquet"):
            left.unlink()

    def add(self, columns: Sequence[pl.Series]) -> None:
        """Count the values of some rows; null is a value like any other."""
        for pending, column in zip(self._pending, columns, strict=True):
            counts = column.alias("value").value_counts(name="times")
            pending.append(counts.cast({"times": pl.Int64}))
            self._entries += counts.height
        if self._entries > self._budget:
            self._shrink()

    def frequent(self, min_count: int) -> Iterator[pl.DataFrame]:
        """For each column the values that occur so often: ``value`` and ``times``.

        Most frequent first, equal counts by value, missing before all others.
        """
        for column in range(len(self._pending)):
            yield pl.concat(
                [_summed(part, min_count) for part in self._parts(column)], rechunk=True
            ).sort("times", "value", descending=[True, False], nulls_last=False)

    def _parts(self, column: int) -> Iterator[pl.LazyFrame]:
        """All entries of a column, in parts that share no value and fit into the budget."""
        held = self._pending[column]
        kept = pl.concat(held) if held else pl.DataFrame(schema=_SCHEMA)
        classes = math.ceil((self._spilled_entries[column] + kept.height) / self._budget)
        if not self._spilled[column]:
            yield kept.lazy()
            return
        everything = pl.concat([kept.lazy(), pl.scan_parquet(self._spilled[column], glob=False)])
        for number in range(classes):
            yield everything.filter(pl.col("value").hash(seed=7) % classes == number)

    def _shrink(self) -> None:
        """Add equal values up; if that frees less than half of the budget, write them away."""
        for column, held in enumerate(self._pending):
            if len(held) > 1:
                self._pending[column] = [_summed(pl.concat(held).lazy(), 1)]
        self._entries = sum(frame.height for held in self._pending for frame in held)
        if 2 * self._entries <= self._budget:
            return
        for column, held in enumerate(self._pending):
            for frame in held:
                path = self._folder / f"{column}-{len(self._spilled[column])}.parquet"
                frame.write_parquet(path)
                self._spilled[column].append(path)
                self._spilled_entries[column] += frame.height
            held.clear()
        self._entries = 0


_SCHEMA: Final = {"value": pl.String, "times": pl.Int64}


def _summed(entries: pl.LazyFrame, min_count: int) -> pl.DataFrame:
    """Each value once, with the sum of its counts."""
    summed = entries.group_by("value").agg(pl.col("times").sum())
    return summed.filter(pl.col("times") >= min_count).collect(engine="streaming")
