"""Evaluation: how well the trained model predicts held-out records, known to the label party."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from cutlayer.errors import DataError
from cutlayer.leakage.auc_interval import Interval, auc_interval
from cutlayer.leakage.leak_auc import leak_auc


@dataclass(frozen=True)
class Evaluation:
    """Quality on some records; a number that is not defined is ``None``, and never a neutral one.

    ============================  =======================================================
    the records are of one class  neither AUC nor interval
    a prediction is not finite    nothing but :attr:`positive_share` and :attr:`base_loss`
    ============================  =======================================================
    """

    auc: float | None
    """Chance that a random positive scores above a random negative, in [0, 1]."""
    loss: float | None
    """Mean binary cross-entropy, in nats."""
    interval: Interval | None
    """95 % confidence interval of :attr:`auc` over draws of test records, by DeLong. It knows one
    trained model: another training would give another."""
    base_loss: float | None
    """The same of a model that predicts the training records' share of positives for everybody;
    ``None`` where that share is 0 or 1."""
    mean_probability: float | None
    """Mean predicted probability; far from :attr:`positive_share`, probabilities mislead."""
    positive_share: float
    """Share of positives among these records."""
    undefined: str = ""
    """Why the AUC is not defined and what to do, in a few sentences; empty where it is."""

    def defined(self) -> tuple[float, float, Interval]:
        """AUC, loss and interval, for whoever cannot do without them.

        Raises:
            DataError: one of them is not defined.
        """
        if self.auc is None or self.loss is None or self.interval is None:
            raise DataError(self.undefined)
        return self.auc, self.loss, self.interval


def evaluate(logit: Tensor, labels: Tensor, part: str, *, base_share: float) -> Evaluation:
    """Score predictions. What has no score is no error: the model is worth keeping all the same.

    Args:
        logit: predicted log-odds, at least one, ``(records,)``.
        labels: true labels, 0 or 1, ``(records,)``.
        part: name of the part of the split, for the message.
        base_share: share of positives among the training records, in [0, 1].
    """
    why = _not_finite(logit, part)
    auc = interval = loss = mean_probability = None
    if not why:
        loss = float(functional.binary_cross_entropy_with_logits(logit.double(), labels.double()))
        mean_probability = float(torch.sigmoid(logit.double()).mean())
        why = _one_class(labels, part)
    if not why:
        # The AUC of a prediction and the leak AUC of an attack are one and the same statistic.
        auc = leak_auc(logit, labels)
        interval = auc_interval(auc, logit, labels)
    return Evaluation(
        auc=auc,
        loss=loss,
        interval=interval,
        base_loss=base_rate_loss(labels, base_share),
        mean_probability=mean_probability,
        positive_share=float(labels.double().mean()),
        undefined=why,
    )


def base_rate_loss(labels: Tensor, base_share: float) -> float | None:
    r"""Loss of predicting one share of positives for everybody: what a model must undercut.

    .. math:: -q \ln p - (1 - q) \ln(1 - p)

    with the share p of positives in training and the share q among these records.

    Args:
        labels: true labels, 0 or 1, ``(records,)``, at least one.
        base_share: p, in [0, 1].

    Returns:
        Nats, at least 0; ``None`` where p is 0 or 1 and the loss may be infinite.

    >>> round(base_rate_loss(torch.tensor([0, 0, 0, 1]), 0.25), 4)  # the entropy of 1/4
    0.5623
    """
    if not 0 < base_share < 1:
        return None
    share = float(labels.double().mean())
    return -share * math.log(base_share) - (1 - share) * math.log1p(-base_share)


def _not_finite(logit: Tensor, part: str) -> str:
    """Why predictions have neither AUC nor loss; empty where all are finite."""
    bad = int((~logit.isfinite()).sum())
    if not bad:
        return ""
    return (
        f"label party: AUC and loss of the {part} records are not defined, since {bad} of "
        f"{len(logit)} predictions are NaN or infinite. Lower the learning rate, in a run of "
        "another name."
    )


def _one_class(labels: Tensor, part: str) -> str:
    """Why there is no AUC; empty where both classes are there."""
    positives = int(labels.sum())
    if 0 < positives < len(labels):
        return ""
    return (
        f"label party: the AUC of the {part} records is not defined, since all {len(labels)} of "
        f"them are {'positive' if positives else 'negative'}. The model and its predictions are "
        "kept. To score it, train with more records or a larger share for that part, in a run of "
        "another name. The non-label party was not told; do not tell it, as it may have chosen "
        "these records."
    )
