"""A table source: names and batches of columns, whatever the file's format."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl


@dataclass(frozen=True)
class RowBatch:
    """Some rows of some of the columns that were asked for, as they stand in the file."""

    frame: pl.DataFrame
    """Untreated: texts out of a delimited text, the stored kinds out of Parquet."""
    place_of: Callable[[int], str]
    """Where in the file a row of this batch stands, such as ``line 12``."""


class TableSource(Protocol):
    """What reading needs from a file. It may be gone through more than once."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in the order of the file, unique."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """What the source decided without being asked."""
        ...

    @property
    def hint(self) -> str:
        """A sentence for whoever does not find a column: what may be wrong with the file's names.

        Begins with a space, or is empty.
        """
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[RowBatch]:
        """Go through these columns once, keeping a bounded part of the file in memory.

        Over all batches, each column has every row once, in the order of the file. A batch may
        hold all columns of some rows, or all rows of some columns.

        Raises:
            DataError: the file breaks a rule of its format.
        """
        ...
