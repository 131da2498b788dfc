"""Evaluation: how well the trained model predicts held-out records, known to the label party."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from cutlayer.errors import DataError
from cutlayer.leakage.leak_auc import leak_auc


@dataclass(frozen=True)
class Evaluation:
    """Quality on some records."""

    auc: float
    """Chance that a random positive scores above a random negative, in [0, 1]."""
    loss: float
    """Mean binary cross-entropy, in nats."""


def require_both_classes(labels: Tensor, part: str) -> None:
    """See that a part of the split can be scored, before anything is sent for it.

    Args:
        labels: of the part, 0 or 1, ``(records,)``; none is fine.
        part: its name, for the message.

    Raises:
        DataError: all of them are of one class.
    """
    positives = int(labels.sum())
    if len(labels) and positives in (0, len(labels)):
        raise DataError(
            f"label party: all {len(labels)} {part} records are "
            f"{'positive' if positives else 'negative'}, so no AUC can be computed on them. Give "
            "that part a larger share, or another seed. Nothing was sent."
        )


def evaluate(logit: Tensor, labels: Tensor, part: str) -> Evaluation:
    """Score predictions.

    Args:
        logit: predicted log-odds, ``(records,)``.
        labels: true labels, 0 or 1, ``(records,)``.
        part: name of the part of the split, for the message.

    Raises:
        DataError: a class is missing among the records, or a logit is not finite.
    """
    try:
        # The AUC of a prediction and the leak AUC of an attack are one and the same statistic.
        auc = leak_auc(logit, labels)
    except ValueError as error:
        raise DataError(
            f"label party: the {part} records cannot be scored ({error}) Give that part a larger "
            "share, or another seed."
        ) from error
    loss = functional.binary_cross_entropy_with_logits(logit.double(), labels.double())
    return Evaluation(auc, float(loss))
