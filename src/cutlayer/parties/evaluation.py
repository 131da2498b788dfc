"""Evaluation: how well the trained model predicts the test records, known to the label party."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from cutlayer.leakage.leak_auc import leak_auc


@dataclass(frozen=True)
class Evaluation:
    """Quality on the test records."""

    test_auc: float
    """Chance that a random positive scores above a random negative, in [0, 1]."""
    test_loss: float
    """Mean binary cross-entropy, in nats."""


def evaluate(logit: Tensor, labels: Tensor) -> Evaluation:
    """Score test predictions.

    Args:
        logit: predicted log-odds, ``(records,)``.
        labels: true labels, 0 or 1, ``(records,)``.

    Raises:
        ValueError: a class is missing among the test records, or a logit is not finite.
    """
    # The AUC of a prediction and the leak AUC of an attack are one and the same statistic.
    auc = leak_auc(logit, labels)
    loss = functional.binary_cross_entropy_with_logits(logit.double(), labels.double())
    return Evaluation(auc, float(loss))
