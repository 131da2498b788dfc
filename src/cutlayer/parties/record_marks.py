"""Record marks: what the noise of a visit knows the training records by."""

from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

from cutlayer.data.tensor_records import Records
from cutlayer.parties.agreement import Agreement
from cutlayer.parties.canaries import Canaries
from cutlayer.parties.held_labels import labelling_of
from cutlayer.parties.persistence import Persistence
from cutlayer.parties.release_journal import LABELLING
from cutlayer.protections.base import Protection, Stage
from cutlayer.rng import NoiseSource, tensor_digest


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
        something, whatever the peer brings; so its file may grow between starts. Changed labels
        of training records are refused before the peer is met; where that was not seen, or where
        the first start is not on record, as in a restored folder, other labels get other noise.

        Args:
            noise: of the training.
            protection: of the training.
            records: of the label party; what ``persistence.hold_labels`` was given counts, if
                anything, since these may be only what a private alignment found.
            agreement: which of them take part.
            canaries: the labels that are trained on.
            persistence: of the run.
        """
        if protection.stage is not Stage.RESIDUAL:
            return cls(torch.zeros(len(agreement.train), 0, dtype=torch.uint8), {})
        labelling, binding = _labelling(records, canaries, persistence), {}
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


def _labelling(records: Records, canaries: Canaries, persistence: Persistence | None) -> bytes:
    """A digest of all labels that the label party has, coins among them.

    Raises:
        ValueError: the records have no labels.
    """
    held = persistence.labelling if persistence is not None else None
    if held is None:
        if records.labels is None:
            raise ValueError("the records have no labels.")
        held = labelling_of(records.ids, records.labels)
    coins = canaries.mask.nonzero().flatten()
    return sha256(held + tensor_digest(coins, canaries.training_labels[coins])).digest()
