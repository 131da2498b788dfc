"""An even sample: rows at even distances of a stream whose length is not known."""

import polars as pl


class EvenSample:
    """Every row at first; whenever too many are held, every second of them goes.

    Args:
        limit: the most rows that are held after :meth:`add`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._step, self._seen, self._held = 1, 0, 0
        self._frames: list[pl.DataFrame] = []

    def add(self, rows: pl.DataFrame) -> None:
        """Take some rows of the stream, all with the same columns."""
        first = -self._seen % self._step
        self._seen += rows.height
        kept = rows.gather_every(self._step, first) if first < rows.height else rows.clear()
        self._frames.append(kept)
        self._held += kept.height
        while self._held > self._limit:
            whole = pl.concat(self._frames, rechunk=True).gather_every(2)
            self._frames, self._held, self._step = [whole], whole.height, 2 * self._step

    def rows(self) -> pl.DataFrame | None:
        """What is held, in the order of the stream; ``None`` where nothing was added."""
        return pl.concat(self._frames, rechunk=True) if self._frames else None
