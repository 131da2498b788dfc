"""Inputs: a party's records as the numbers that its half of the network takes."""

from dataclasses import dataclass
from itertools import accumulate

from torch import Tensor

from cutlayer.data import Encoder, PartyTable
from cutlayer.data.column_encoding import CategoricalColumn
from cutlayer.data.tensor_records import Records
from cutlayer.parties.agreement import Agreement

QUERY_ROWS = 4096
"""Records of one message outside training."""


@dataclass(frozen=True)
class InputShape:
    """What a half of the network must take in; a model is built from it."""

    shape: tuple[int, ...]
    """Shape of one record: ``(columns,)`` for a table, ``(channels, height, width)`` for images."""
    categories: tuple[tuple[int, int], ...] = ()
    """First and last-but-one-past column of each categorical column's slots, for embeddings."""

    @property
    def width(self) -> int:
        """Columns of one record.

        Raises:
            ValueError: a record is not a row of numbers.
        """
        if len(self.shape) != 1:
            raise ValueError(f"a record has shape {self.shape} and no single width.")
        return self.shape[0]


@dataclass(frozen=True)
class Inputs:
    """All records of one party, encoded."""

    values: Tensor
    """Float, shape ``(records, ...)``, by record number."""
    shape: InputShape
    encoder: Encoder | None
    """What made the values from a table; ``None`` for tensor records."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What the encoder decided about the columns, one line each."""
        return () if self.encoder is None else self.encoder.notices


def encoded(records: Records, agreement: Agreement, encoder: Encoder | None = None) -> Inputs:
    """Order the records as agreed and turn them into numbers.

    Args:
        records: of one party.
        agreement: which records take part, and which of them train.
        encoder: of an earlier run; ``None`` learns one from the training records alone.

    Raises:
        DataError: a record is missing, or a column cannot be encoded.
    """
    ordered = records.ordered_by(agreement.ids)
    if not isinstance(ordered, PartyTable):
        return Inputs(ordered.features, InputShape(tuple(ordered.features.shape[1:])), None)
    if encoder is None:
        train = [agreement.ids[number] for number in agreement.train.tolist()]
        encoder = Encoder.fit(ordered.ordered_by(train))
    values = encoder.encode(ordered)
    return Inputs(values, InputShape((values.shape[1],), category_slots(encoder)), encoder)


def category_slots(encoder: Encoder) -> tuple[tuple[int, int], ...]:
    """Where the slots of each categorical column begin and end."""
    widths = [len(column.slots) for column in encoder.columns]
    ends = list(accumulate(widths))
    return tuple(
        (end - width, end)
        for column, width, end in zip(encoder.columns, widths, ends, strict=True)
        if isinstance(column, CategoricalColumn)
    )
