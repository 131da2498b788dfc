"""Record marks: what the noise of a visit knows the training records by."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cutlayer.alignment.shared_ids import id_digests
from cutlayer.data.tensor_records import Records
from cutlayer.parties.agreement import Agreement
from cutlayer.parties.canaries import Canaries
from cutlayer.parties.persistence import Persistence
from cutlayer.parties.release_journal import LABELLING
from cutlayer.protections.base import Protection, Stage
from cutlayer.rng import NoiseSource, tensor_digest

_PURPOSE = b"cutlayer labelling"


@dataclass(frozen=True)
class RecordMarks:
    """Marks of the training records under one labelling."""

    by_position: Tensor
    """One row for each training record, in the parties' common order."""
    binding: dict[str, str]
    """What a journal binds the run to."""

    @classmethod
    def made_by(
        cls,
        noise: NoiseSource,
        protection: Protection,
        records: Records,
        agreement: Agreement,
        canaries: Canaries,
        persistence: Persistence | None,
    ) -> "RecordMarks":
        """Marks for a protection whose noise belongs to visits; empty ones for the others.

        Labels that have changed since the first start are refused elsewhere; the labelling is
        that of the first start, so that a file may grow between starts. Where the first start is
        not on record, as in a restored folder, other labels get other noise.

        Args:
            noise: of the training.
            protection: of the training.
            records: all that the label party has.
            agreement: which of them take part.
            canaries: the labels that are trained on.
            persistence: of the run.
        """
        if protection.stage is not Stage.RESIDUAL:
            return cls(torch.zeros(len(agreement.train), 0, dtype=torch.uint8), {})
        labelling, binding = labelling_of(records, canaries), {}
        if persistence is not None:
            sealed = persistence.key.sealed_labelling(labelling)
            if persistence.journal is not None:
                sealed = persistence.journal.first_bound(LABELLING, sealed)
            labelling, binding = bytes.fromhex(sealed), {LABELLING: sealed}
        ids = agreement.ids
        train = (ids[record] for record in agreement.train.tolist())
        return cls(noise.marks(train, labelling), binding)


def labelling_of(records: Records, canaries: Canaries) -> bytes:
    """A digest of all ids and labels that the label party has, whatever the peer brings.

    Args:
        records: with labels, in any order.
        canaries: the coins among them, which count as labels.

    Returns:
        32 bytes.

    Raises:
        ValueError: the records have no labels.
    """
    if records.labels is None:
        raise ValueError("the records have no labels.")
    ids = id_digests(records.ids, salt=_PURPOSE).view("<i8")
    order = np.lexsort(ids.T)
    coins = canaries.mask.nonzero().flatten()
    return tensor_digest(
        torch.from_numpy(ids[order]), records.labels[order], coins, canaries.labels[coins]
    )
