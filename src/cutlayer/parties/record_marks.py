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

        The labelling is that of all labels that this party had at the first start that sent
        something, so that its file may grow between starts. Changed labels of training records are
        refused before the peer is met; where that was not seen, or where the first start is not on
        record, as in a restored folder, other labels get other noise.

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
            seal = persistence.key.sealed_labelling
            trained = seal(tensor_digest(canaries.training_labels[agreement.train]))
            now = bound = f"{seal(labelling)} {trained}"
            if persistence.journal is not None:
                bound = persistence.journal.first_bound(LABELLING, now)
            unchanged = bound.endswith(trained)
            labelling = bytes.fromhex((bound if unchanged else now).partition(" ")[0])
            binding = {LABELLING: bound}
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
        torch.from_numpy(ids[order]), records.labels[order], coins, canaries.training_labels[coins]
    )
