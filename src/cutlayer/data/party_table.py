"""A party table: the rows that one party brings to the joint training."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.data.tables.record_ids import canonical_ids
from cutlayer.data.text_sequence import TextSequence
from cutlayer.errors import DataError

PartyName = Literal["label party", "non-label party"]

LABEL_PARTY: Final = "label party"
NON_LABEL_PARTY: Final = "non-label party"

_SHOWN = 3


@dataclass(frozen=True, eq=False)
class PartyTable:
    """One party's records: an id for each row, features, and at the label party the labels.

    Row ``j`` of ``features`` and entry ``j`` of ``labels`` and ``groups`` belong to ``ids[j]``. The
    rows may stand in any order; the parties bring them into one order with :meth:`ordered_by`.
    Ids and groups may be given as any sequence of texts; the table keeps them as
    :class:`~cutlayer.data.text_sequence.TextSequence`, which compares equal to a tuple, and ids in
    their canonical form (:func:`~cutlayer.data.tables.record_ids.canonical_ids`).

    Raises:
        DataError: an id or a group is no text, or holds half of a surrogate pair; an id is empty or
            repeats; features, labels or groups have another number of rows than there
            are ids; the non-label party has labels; a label is neither
            0 nor 1, or labels are not int64.
    """

    party: PartyName
    """Who owns the table. Every message about it begins with this."""
    ids: Sequence[str]
    """One name for each record, unique: what the two parties have in common."""
    features: pl.DataFrame
    """Columns to learn from, without the id; may have no column at all."""
    labels: Tensor | None = None
    """1 is positive, 0 is not; int64, shape ``(rows,)``. ``None`` at the non-label party, and for
    records that the label party wants to predict."""
    groups: Sequence[str] | None = None
    """Which records belong together (visits of one patient): the keys of a split that must not
    tear them apart. ``None`` where each record stands for itself."""
    numbered: bool = False
    """Whether the ids are row numbers of a file: records are then matched by their position."""

    def __post_init__(self) -> None:
        ids = canonical_ids(_texts(self.party, "ids", self.ids))
        object.__setattr__(self, "ids", ids)
        empty = int((ids.series == "").sum())
        if empty:
            raise DataError(
                f"{self.party}: ids must not be empty or white space alone, but {empty} of "
                f"{len(ids)} are. Give each record a name, or leave these records out."
            )
        repeated = ids.repeated()
        if repeated:
            raise DataError(
                f"{self.party}: ids must be unique, but {len(repeated)} of them repeat: "
                f"{_some(repeated)}. Keep one row for each id."
            )
        # A frame without columns has no height in polars, whatever it was cut from.
        if self.features.width and self.features.height != len(ids):
            raise DataError(
                f"{self.party}: the features have {self.features.height} rows, but there are "
                f"{len(ids)} ids. Give each row of features one id."
            )
        if self.groups is not None:
            object.__setattr__(self, "groups", _texts(self.party, "groups", self.groups))
            if len(self.groups) != len(ids):
                raise DataError(
                    f"{self.party}: there are {len(self.groups)} groups, but {len(ids)} ids. Give "
                    "each row one group."
                )
        self._check_labels()

    def __len__(self) -> int:
        return len(self.ids)

    def ordered_by(self, ids: Sequence[str]) -> "PartyTable":
        """The rows of these ids, in the order of ``ids``; rows of other ids are left out.

        Args:
            ids: ids of this table, each at most once.

        Raises:
            DataError: an id is not in this table, or is asked for twice.

        >>> table = PartyTable("non-label party", ("a", "b"), pl.DataFrame({"age": [30, 40]}))
        >>> table.ordered_by(["b", "a"]).features["age"].to_list()
        [40, 30]
        """
        wanted = canonical_ids(_texts(self.party, "ids asked for", ids))
        rows = self._rows_of(wanted)
        groups = None if self.groups is None else TextSequence(self.groups).take(rows)
        return PartyTable(
            party=self.party,
            ids=wanted,
            features=self.features[rows] if self.features.width else self.features,
            labels=None if self.labels is None else self.labels[torch.from_numpy(rows)],
            groups=groups,
            numbered=self.numbered,
        )

    def _rows_of(self, wanted: TextSequence) -> NDArray[np.int64]:
        """The row of each id, int64; an unknown id is an error."""
        rows = TextSequence(self.ids).rows_of(wanted)
        absent = wanted.series.filter(pl.Series(rows == -1))
        if len(absent):
            raise DataError(
                f"{self.party}: {len(absent)} of the {len(wanted)} ids asked for are not in its "
                f"table: {_some(absent)}. Ask only for ids that both parties hold."
            )
        return rows

    def _check_labels(self) -> None:
        """Require labels of 0 or 1, one for each id, and none at the non-label party."""
        if self.labels is None:
            return  # the label party's records that are to be predicted have none
        if self.party == NON_LABEL_PARTY:
            raise DataError(
                "non-label party: the table holds labels, which only the label party may have. "
                "Take the label column out of this party's file."
            )
        if self.labels.dtype != torch.int64 or tuple(self.labels.shape) != (len(self.ids),):
            raise DataError(
                f"label party: labels must be int64 of shape ({len(self.ids)},), one for each id, "
                f"got {self.labels.dtype} of shape {tuple(self.labels.shape)}."
            )
        # Faster and smaller than torch.unique, which sorts all of them.
        if bool(((self.labels == 0) | (self.labels == 1)).all()):
            return
        other = sorted(set(torch.unique(self.labels).tolist()) - {0, 1})
        raise DataError(
            f"label party: labels must be 0 or 1, got {_some(str(v) for v in other)} as well. "
            "Say which value is the positive one."
        )


def _texts(party: PartyName, what: str, given: Iterable[str] | pl.Series) -> TextSequence:
    """The texts of one field, or which of its values is none."""
    if isinstance(given, TextSequence):
        return given
    if isinstance(given, pl.Series):
        if given.dtype == pl.String and not given.null_count():
            return TextSequence(given)
        held: object = f"a Series of {given.dtype} with {given.null_count()} nulls"
    else:
        values = list(given)
        try:
            series = pl.Series(values, dtype=pl.String)
        except TypeError:
            series = None  # some value is no text
        except UnicodeEncodeError as error:
            raise DataError(
                f"{party}: {what} must be texts that UTF-8 can hold, but {error.object!r} has half "
                "of a surrogate pair. Decode the file with its own encoding, or replace such "
                "characters alike at both parties."
            ) from None
        if series is not None and not series.null_count():
            return TextSequence(series)
        held = repr(next(value for value in values if not isinstance(value, str)))
    raise DataError(
        f"{party}: {what} must be texts, got {held}. Write each as a text, alike at both parties: "
        "[str(one) for one in ids] for whole numbers."
    )


def _some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(repr(name) for name in listed[:_SHOWN]) + more
