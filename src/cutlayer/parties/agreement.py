"""The agreement: which records take part, in which order, and what each of them is for."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cutlayer.data import Split, alignment_hash
from cutlayer.parties.terms import Terms


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
        DataError: a part of the split gets no record.
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
    parts = split.train, split.validation, split.test
    return Agreement(numbered, *parts, terms.seed, only_here, only_there)
