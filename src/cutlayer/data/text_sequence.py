"""Texts, one a row, held in 16 bytes each where a tuple of ``str`` takes 70."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray
from typing_extensions import override

_AT_ONCE: Final = 65_536


class TextSequence(Sequence[str]):
    """A ``tuple`` of texts in every respect but its size: it cannot change, and it compares equal.

    Args:
        texts: any texts, or a text Series of polars without nulls, which is then not copied.

    Raises:
        ValueError: the Series holds something else than texts, or a null.

    >>> ids = TextSequence(["a", "b", "c"])
    >>> ids[0], ids[-1], len(ids), ids == ("a", "b", "c")
    ('a', 'c', 3, True)
    """

    __slots__ = ("_repeated", "_series")

    def __init__(self, texts: "Iterable[str] | pl.Series" = ()) -> None:
        if isinstance(texts, TextSequence):
            texts = texts.series
        series = texts if isinstance(texts, pl.Series) else pl.Series(list(texts), dtype=pl.String)
        if series.dtype != pl.String or series.null_count():
            raise ValueError(
                f"texts must be a Series of texts without nulls, got {series.dtype} with "
                f"{series.null_count()} nulls."
            )
        self._series = series.alias("")
        self._repeated: tuple[str, ...] | None = None

    @property
    def series(self) -> pl.Series:
        """The texts as polars holds them."""
        return self._series

    def take(self, rows: NDArray[np.integer]) -> "TextSequence":
        """The texts at these positions, in this order."""
        return TextSequence(self._series.gather(rows))

    def rows_of(self, wanted: "TextSequence") -> NDArray[np.int64]:
        """Where each wanted text stands here; -1 where it does not. The texts here are unique.

        Both sides are sorted by hash and merged, which takes less time and memory than a join of
        texts; only texts that the hash puts elsewhere are then joined.
        """
        here, there = self._series.hash().to_numpy(), wanted.series.hash().to_numpy()
        order, asked = np.argsort(here), np.argsort(there)
        rows = np.full(len(there), -1, dtype=np.int64)
        if len(here) == 0:
            return rows
        place = np.searchsorted(here[order], there[asked])
        rows[asked] = order[np.minimum(place, len(here) - 1)]
        wrong = (self._series.gather(rows) != wanted.series).to_numpy()
        if wrong.any():
            own = pl.DataFrame({"text": self._series}).with_row_index("row")
            lost = pl.DataFrame({"text": wanted.series.filter(pl.Series(wrong))})
            found = lost.join(own, on="text", how="left", maintain_order="left")["row"]
            rows[wrong] = found.cast(pl.Int64).fill_null(-1).to_numpy()
        return rows

    def repeated(self) -> tuple[str, ...]:
        """Every text that stands in more than one place, once, by its first place.

        Compares 8 bytes of hash in place of the texts, and then only those whose hashes collide,
        so that 10 million ids need 160 MB for a moment and not 1.3 GB.
        """
        if self._repeated is None:
            self._repeated = self._found_repeated()
        return self._repeated

    def _found_repeated(self) -> tuple[str, ...]:
        """The texts whose hash repeats, and of these the ones that do."""
        hashes = self._series.hash().to_numpy()
        ascending = np.sort(hashes)
        twice = np.unique(ascending[1:][ascending[1:] == ascending[:-1]])
        if len(twice) == 0:
            return ()
        suspects = self._series.filter(pl.Series(np.isin(hashes, twice)))
        return tuple(suspects.filter(suspects.is_duplicated()).unique(maintain_order=True))

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "TextSequence": ...
    @override
    def __getitem__(self, index: int | slice) -> "str | TextSequence":
        if isinstance(index, slice):
            return TextSequence(self._series[index])
        return str(self._series[index])

    @override
    def __len__(self) -> int:
        return len(self._series)

    @override
    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self._series), _AT_ONCE):
            yield from self._series[begin : begin + _AT_ONCE].to_list()

    @override
    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and bool((self._series == text).any())

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, TextSequence):
            return self._series.equals(other.series)
        if isinstance(other, tuple):
            return len(self) == len(other) and tuple(self) == other
        return NotImplemented

    @override
    def __hash__(self) -> int:
        return hash(tuple(self))  # as the tuple that it compares equal to

    @override
    def __repr__(self) -> str:
        shown = ", ".join(repr(text) for text in self[:3])
        return f"TextSequence([{shown}{', ...' if len(self) > 3 else ''}])"
