"""A row sample: rows of a stream whose length is not known, kept by a hash of their place.

Rows at even distances would do as well but for files with a period: every 128th row of one that
repeats after 4 is always of the same kind.
"""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

_MARK: Final = "mark"


class RowSample:
    """Every row at first; whenever too many are held, about half of them go.

    Which rows are held depends on their place and number alone, not on the blocks they come in.

    Args:
        limit: the most rows that are held after :meth:`add`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._mask, self._held = 0, 0
        self.seen = 0
        """Rows of the stream up to now."""
        self._frames: list[pl.DataFrame] = []

    def add(self, rows: pl.DataFrame) -> None:
        """Take some rows of the stream, all with the same columns."""
        marks = pl.Series(_MARK, _mixed(self.seen, rows.height))
        self.seen += rows.height
        self._hold([*self._frames, self._thinned(rows.insert_column(0, marks))])
        while self._held > self._limit:
            self._mask = 2 * self._mask + 1
            self._hold([self._thinned(pl.concat(self._frames, rechunk=True))])

    def rows(self) -> pl.DataFrame | None:
        """What is held, in the order of the stream; ``None`` where nothing was added."""
        return pl.concat(self._frames, rechunk=True).drop(_MARK) if self._frames else None

    def _thinned(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows whose mark ends in as many zero bits as are asked for."""
        return rows.filter(pl.Series((rows[_MARK].to_numpy() & np.uint64(self._mask)) == 0))

    def _hold(self, frames: list[pl.DataFrame]) -> None:
        """Hold these rows."""
        self._frames, self._held = frames, sum(frame.height for frame in frames)


def _mixed(begin: int, count: int) -> NDArray[np.uint64]:
    """The numbers from ``begin`` on, each mixed over 64 bits.

    Source: the finalizer of SplitMix64, Steele, Lea and Flood (2014), "Fast Splittable Pseudorandom
    Number Generators", https://doi.org/10.1145/2660193.2660195.
    """
    with np.errstate(over="ignore"):
        z = np.arange(begin + 1, begin + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
