"""Tensor records: a party's records that are numbers already, such as images."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import torch
from torch import Tensor

from cutlayer.data.party_table import PartyName, PartyTable
from cutlayer.errors import DataError


@dataclass(frozen=True, eq=False)
class TensorRecords:
    """Records whose features are one tensor of any shape; nothing is scaled or encoded.

    The twin of :class:`~cutlayer.data.party_table.PartyTable` for images, embeddings, or features
    that were prepared elsewhere. Ids, labels and groups follow the same rules.

    Raises:
        DataError: the rules of a party table are broken, features are not floating point, hold
            NaN or infinity, or have another number of rows than there are ids.

    >>> records = TensorRecords("non-label party", ("a", "b"), torch.zeros(2, 3, 8, 8))
    >>> records.ordered_by(["b"]).features.shape
    torch.Size([1, 3, 8, 8])
    """

    party: PartyName
    ids: Sequence[str]
    """One name for each record, unique."""
    features: Tensor
    """Model inputs, floating point, shape ``(records, ...)``."""
    labels: Tensor | None = None
    """1 is positive, 0 is not; int64 ``(records,)``. ``None`` at the non-label party."""
    groups: Sequence[str] | None = None
    """Which records must stay together in a split."""

    def __post_init__(self) -> None:
        keys = self._keys()  # holds ids, labels and groups to the rules of a table
        object.__setattr__(self, "ids", keys.ids)
        object.__setattr__(self, "groups", keys.groups)
        if self.features.ndim < 2 or len(self.features) != len(keys.ids):
            raise DataError(
                f"{self.party}: features must have shape (records, ...) with {len(keys.ids)} "
                f"records, one for each id, got {tuple(self.features.shape)}."
            )
        if not self.features.is_floating_point():
            raise DataError(
                f"{self.party}: features must be floating point, got {self.features.dtype}. "
                "Convert and scale them first."
            )
        bad = int((~torch.isfinite(self.features)).flatten(1).any(dim=1).sum())
        if bad:
            raise DataError(
                f"{self.party}: features hold NaN or infinity in {bad} of {len(keys.ids)} "
                "records. Replace them first."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def ordered_by(self, ids: Sequence[str]) -> "TensorRecords":
        """The records of these ids, in the order of ``ids``.

        Raises:
            DataError: an id is not among these records, or is asked for twice.
        """
        row = {name: number for number, name in enumerate(self.ids)}
        keys = self._keys().ordered_by(ids)
        rows = torch.tensor([row[name] for name in keys.ids], dtype=torch.int64)
        return TensorRecords(self.party, keys.ids, self.features[rows], keys.labels, keys.groups)

    def _keys(self) -> PartyTable:
        """Ids, labels and groups as a table without columns."""
        return PartyTable(self.party, self.ids, pl.DataFrame(), self.labels, self.groups)


Records = PartyTable | TensorRecords
"""What a party may bring."""
