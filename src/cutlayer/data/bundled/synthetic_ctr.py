"""Synthetic click data of any size, whose best possible AUC is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import polars as pl
import torch
from typing_extensions import override

from cutlayer import check
from cutlayer.data.bundled.bayes_auc import bayes_auc
from cutlayer.data.bundled.click_model import ClickModel, Floats, Ranks, vocabulary_of, zipf_shares
from cutlayer.data.party_table import LABEL_PARTY, NON_LABEL_PARTY, PartyName, PartyTable
from cutlayer.data.shared_draws import normals, uniforms
from cutlayer.data.vertical_data import DataSet

CHUNK_ROWS: Final = 16_384
"""Rows of every chunk but the last. A constant, so that it cannot change the data."""

_ID, _LABEL = "id", "click"
_NUMBER_STREAM, _CATEGORY_STREAM, _LABEL_STREAM = 2, 3, 4  # 0 and 1 draw the click model


@dataclass(frozen=True)
class SyntheticCtr(DataSet):
    """Impressions and clicks of a :class:`~cutlayer.data.bundled.click_model.ClickModel`; not real.

    Numbers are standard normal. Category fields follow Zipf's law with exponent 1.1, with 10, 40,
    160, 640, 2560 categories in turn; ``v0`` is a field's most frequent one. Columns go to the
    parties in turn, beginning with the non-label party.

    Every column of every chunk is drawn from ``(stream, column, seed, chunk)``: a party generates
    its own columns without the other's, the first rows of a longer data set are those of a shorter
    one, and a chunk is the same whether or not the ones before it were read.

    Raises:
        ValueError: an option is outside the range that it states.
    """

    name: ClassVar[str] = "synthetic-ctr"
    description: ClassVar[str] = (
        "Drawn impressions of an advertisement, clicked (positive) with a known chance. Each party "
        "holds half of the numbers and half of the categories."
    )

    rows: int = 20_000
    """Number of records, at least 2."""
    numeric: int = 10
    """Number of normal columns over both parties."""
    categorical: int = 6
    """Number of categorical columns over both parties; with ``numeric`` at least 1."""
    positive_share: float = 0.06
    """Expected share of clicks over all records there could be, between 1e-6 and 1 - 1e-6."""
    signal: float = 1.5
    """Standard deviation of the logit, above 0 and at most 10: 0 would be pure chance."""
    seed: int = 0
    """Fixes weights, features and labels."""

    def __post_init__(self) -> None:
        check.at_least("rows", self.rows, 2)
        _ = self.model  # refuses the options that it cannot be drawn from

    @cached_property
    def model(self) -> ClickModel:
        """The true model, which no party would know in real life."""
        return ClickModel.drawn(
            numeric=self.numeric,
            categorical=self.categorical,
            positive_share=self.positive_share,
            signal=self.signal,
            seed=self.seed,
        )

    @property
    def chunk_count(self) -> int:
        """How many chunks :meth:`chunks` yields."""
        return -(-self.rows // CHUNK_ROWS)

    def chunks(self, party: PartyName) -> Iterator[pl.DataFrame]:
        """One party's half, chunk by chunk; memory holds one chunk at a time."""
        return (self.chunk(party, index) for index in range(self.chunk_count))

    def chunk(self, party: PartyName, index: int) -> pl.DataFrame:
        """One chunk of one party's half.

        Args:
            party: whose columns.
            index: in ``0 .. chunk_count - 1``.

        Returns:
            Up to 16,384 rows: the text ``id``, then the columns, and at the label party last
            ``click`` (0 or 1).

        Raises:
            ValueError: there is no such chunk.
        """
        size = self._size(index)
        first = index * CHUNK_ROWS
        columns = [pl.Series(_ID, [f"impression-{first + row:010d}" for row in range(size)])]
        columns += [
            pl.Series(f"number_{column:02d}", self._numbers(column, index))
            for column in _columns_of(party, self.numeric)
        ]
        columns += [
            ("v" + pl.Series(self._ranks(column, index)).cast(pl.String)).rename(
                f"category_{column:02d}"
            )
            for column in _columns_of(party, self.categorical)
        ]
        if party == LABEL_PARTY:
            coin = uniforms(CHUNK_ROWS, _LABEL_STREAM, 0, self.seed, index)[:size]
            clicked = coin < self.chunk_probabilities(index)
            columns.append(pl.Series(_LABEL, clicked.astype(np.int64)))
        return pl.DataFrame(columns)

    def chunk_probabilities(self, index: int) -> Floats:
        """True chance of a click of each row of a chunk, float64, shape ``(rows,)``.

        Raises:
            ValueError: there is no such chunk.
        """
        return self.model.probability(
            [self._numbers(column, index) for column in range(self.numeric)],
            [self._ranks(column, index) for column in range(self.categorical)],
        )

    @property
    @override
    def bayes_auc(self) -> float:
        """Exact for these rows (:func:`~cutlayer.data.bundled.bayes_auc.bayes_auc`).

        Goes through all rows once; 8 bytes for each are kept.
        """
        chunks = [self.chunk_probabilities(index) for index in range(self.chunk_count)]
        return bayes_auc(np.concatenate(chunks))

    @override
    def non_label_party_table(self) -> PartyTable:
        """The columns with even numbers, all rows in memory."""
        whole = pl.concat(self.chunks(NON_LABEL_PARTY))
        return PartyTable(NON_LABEL_PARTY, tuple(whole[_ID]), whole.drop(_ID))

    @override
    def label_party_table(self) -> PartyTable:
        """The columns with odd numbers and the clicks, all rows in memory."""
        whole = pl.concat(self.chunks(LABEL_PARTY))
        labels = torch.from_numpy(whole[_LABEL].to_numpy(writable=True))
        return PartyTable(LABEL_PARTY, tuple(whole[_ID]), whole.drop(_ID, _LABEL), labels)

    def _size(self, index: int) -> int:
        """Rows of one chunk."""
        check.at_least("index", index, 0)
        if index >= self.chunk_count:
            raise ValueError(f"index must be below {self.chunk_count} chunks, got {index}.")
        return min(CHUNK_ROWS, self.rows - index * CHUNK_ROWS)

    def _numbers(self, column: int, index: int) -> Floats:
        """One numeric column of one chunk."""
        drawn = normals(CHUNK_ROWS, _NUMBER_STREAM, column, self.seed, index)
        return drawn[: self._size(index)]

    def _ranks(self, column: int, index: int) -> Ranks:
        """One categorical column of one chunk, as ranks from 0."""
        place = uniforms(CHUNK_ROWS, _CATEGORY_STREAM, column, self.seed, index)
        upto = np.cumsum(zipf_shares(vocabulary_of(column)))
        # The last sum may fall short of 1 by rounding, which must not open one more category.
        ranks = np.minimum(np.searchsorted(upto, place, side="right"), len(upto) - 1)
        return ranks.astype(np.int64)[: self._size(index)]


def _columns_of(party: PartyName, count: int) -> range:
    """Numbers of the columns that this party holds."""
    return range(0 if party == NON_LABEL_PARTY else 1, count, 2)
