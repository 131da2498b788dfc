"""Known records: what an attacker has who learnt a few labels, or half of them, from elsewhere."""

import torch
from torch import Tensor

from cutlayer.attacks import WITHHELD, ClassModel
from cutlayer.audits.ground_truth import UNKNOWN, GroundTruth
from cutlayer.transcript.release import Release


class HintBank:
    """The latest received rows of a few records of each class.

    The attacker knows the same records through the whole training and keeps, of each, the newest
    gradient and activation that he saw. Choices of one seed are nested: the records known with
    one hint are among those known with five. Canaries are never known, as their coins are what
    is tested.

    Args:
        truth: labels and canaries.
        per_class: how many records of each class are known, at least 1.
        seed: which ones.
    """

    def __init__(self, truth: GroundTruth, per_class: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        free = truth.labels != UNKNOWN
        if truth.canaries is not None:
            free &= ~truth.canaries
        order = torch.randperm(len(truth), generator=generator)
        order = order[free[order]]
        labels = truth.labels[order]
        picked = [order[labels == label][:per_class] for label in (1, 0)]
        self._records = torch.cat(picked)
        self._labels = truth.labels[self._records].long()
        self._place = torch.full((len(truth),), -1, dtype=torch.int64)
        self._place[self._records] = torch.arange(len(self._records))
        self._seen = torch.zeros(len(self._records), dtype=torch.bool)
        self._rows: dict[str, Tensor] = {}

    @property
    def known(self) -> Tensor:
        """Which records are known, bool ``(records,)``; an AUC leaves them out."""
        return self._place >= 0

    def see(self, release: Release) -> None:
        """Keep the rows of known records."""
        places = self._place[release.records.cpu()]
        rows = places >= 0
        if not bool(rows.any()):
            return
        for name in ("gradient", "activation"):
            received: Tensor = getattr(release, name).detach().cpu()
            kept = self._rows.get(name)
            if kept is None or kept.shape[1] != received.shape[1]:
                kept = received.new_zeros(len(self._records), received.shape[1])
                self._rows[name] = kept
            kept[places[rows]] = received[rows]
        self._seen[places[rows]] = True

    def recall(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Gradients, activations and labels seen so far; ``None`` while a class is missing."""
        labels = self._labels[self._seen]
        if not 0 < int(labels.sum()) < len(labels):
            return None
        return self._rows["gradient"][self._seen], self._rows["activation"][self._seen], labels


def half_known(truth: GroundTruth, seed: int) -> Tensor:
    """Labels of a random half of the records, :data:`~cutlayer.attacks.WITHHELD` for the rest.

    Returns:
        int64, ``(records,)``.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(truth), generator=generator)
    known = truth.labels.long()
    known[known == UNKNOWN] = WITHHELD
    known[order[len(order) // 2 :]] = WITHHELD
    return known


def class_model_of(gradient: Tensor, labels: Tensor) -> ClassModel | None:
    """The class model that fits the known rows of a batch best, to be tried on the others.

    Args:
        gradient: as received, float ``(examples, width)``.
        labels: 0 or 1, ``(examples,)``; rows of other values are left out.

    Returns:
        Means and variances; ``None`` where a class has fewer than two rows, or no gap or spread.
    """
    positive, negative = (gradient[labels == label].double() for label in (1, 0))
    if min(len(positive), len(negative)) < 2:
        return None
    gap = positive.mean(dim=0) - negative.mean(dim=0)
    size = torch.linalg.vector_norm(gap)
    if not bool(size > 0):
        return None
    moments = []
    for rows in (positive, negative):
        centred = rows - rows.mean(dim=0)
        along = centred @ (gap / size)
        across = centred.square().sum() - along.square().sum()
        freedom = max(1, gradient.shape[1] - 1) * (len(rows) - 1)
        moments.append((float(along.square().sum() / (len(rows) - 1)), float(across / freedom)))
    (along_pos, across_pos), (along_neg, across_neg) = moments
    if gradient.shape[1] == 1:
        across_pos = across_neg = 1.0  # of no effect at width 1
    if min(along_pos, along_neg, across_pos, across_neg) <= 0:
        return None
    return ClassModel(
        positive.mean(dim=0), negative.mean(dim=0), along_pos, along_neg, across_pos, across_neg
    )
