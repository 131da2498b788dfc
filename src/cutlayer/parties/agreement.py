"""The agreement: which records take part, in which order, and what each of them is for."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cutlayer.alignment.shared_ids import alignment_hash
from cutlayer.data import Split
from cutlayer.errors import DataError
from cutlayer.parties.terms import Terms

LEAST_IN_PART = 10
"""Records that each part of a split needs. On fewer an AUC says next to nothing, and whoever brings
the ids could make a part of one record and a few whose labels it knows: every figure on that part
would then be about the one. Both parties count alike, so this depends on ids alone."""


@dataclass(frozen=True)
class Agreement:
    """What both parties know alike after the handshake."""

    ids: Sequence[str]
    """Ids that both hold, in the order of record numbers."""
    train: Tensor
    """Record numbers of the training records, int64, rising."""
    validation: Tensor
    """Record numbers of the validation records; may be empty."""
    test: Tensor
    """Record numbers of the test records."""
    order_seed: int
    """What the order of the batches is drawn from."""
    only_here: int = 0
    """Records of this party that the peer lacks; left out."""
    only_there: int = 0
    """Records of the peer that this party lacks; left out."""

    @property
    def held_out(self) -> Tensor:
        """Record numbers of validation and test records, in this order."""
        return torch.cat([self.validation, self.test])

    def training_alike(self, other: "Agreement") -> bool:
        """Whether the same records would meet in the same batches."""
        return self.order_seed == other.order_seed and self.digest == other.digest

    @property
    def digest(self) -> str:
        """A hash of ids and split; equal at both parties, or they would train on a mixture."""
        mark = hashlib.sha256(alignment_hash(self.ids).encode())
        for part in (self.train, self.validation, self.test):
            mark.update(len(part).to_bytes(8, "little") + part.numpy().tobytes())
        return mark.hexdigest()


def agree_on(
    ids: Sequence[str],
    terms: Terms,
    groups: Mapping[str, str] | None = None,
    only_here: int = 0,
    only_there: int = 0,
) -> Agreement:
    """Number and split the records; each party comes to the same result by itself.

    Args:
        ids: that both parties hold, in any order.
        terms: how to split.
        groups: for each id the group that must stay together; ``None`` splits by id.
        only_here: left-out records of this party.
        only_there: left-out records of the peer.

    Raises:
        DataError: a part of the split gets fewer than :data:`LEAST_IN_PART` records.
    """
    # By id, not by salted digest: the same records get the same numbers in every run.
    numbered = tuple(sorted(ids))
    if terms.mode == "prediction":
        nothing, everything = torch.zeros(0, dtype=torch.int64), torch.arange(len(numbered))
        seed = terms.seed
        return Agreement(numbered, nothing, nothing, everything, seed, only_here, only_there)
    keys = numbered if groups is None else tuple(groups[name] for name in numbered)
    if terms.folds:
        split = Split.by_fold(keys, seed=terms.seed, folds=terms.folds, test_fold=terms.test_fold)
    else:
        split = Split.by_shares(
            keys, seed=terms.seed, validation=terms.validation_share, test=terms.test_share
        )
    _require_large_parts(split, terms)
    parts = split.train, split.validation, split.test
    return Agreement(numbered, *parts, terms.seed, only_here, only_there)


def _require_large_parts(split: Split, terms: Terms) -> None:
    """Refuse a part that is so small that its figures would be about single records."""
    parts = {"training": split.train, "test": split.test}
    if not terms.folds and terms.validation_share:
        parts["validation"] = split.validation
    shared = len(split.train) + len(split.validation) + len(split.test)
    for part, records in parts.items():
        if len(records) < LEAST_IN_PART:
            raise DataError(
                f"{len(records)} of the {shared:,} shared records fall into the {part} part, which "
                f"needs at least {LEAST_IN_PART}. Bring more records to both parties, or give that "
                "part a larger share or use another seed at both."
            )
