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
    """Quality on some records."""

    auc: float
    """Chance that a random positive scores above a random negative, in [0, 1]."""
    loss: float
    """Mean binary cross-entropy, in nats."""
    interval: Interval
    """95 % confidence interval of :attr:`auc` over draws of test records, by DeLong. It knows one
    trained model: another training would give another."""
    base_loss: float | None
    """The same of a model that predicts the training records' share of positives for everybody;
    ``None`` where that share is 0 or 1."""
    mean_probability: float
    """Mean predicted probability; far from :attr:`positive_share`, probabilities mislead."""
    positive_share: float
    """Share of positives among these records."""


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


def evaluate(logit: Tensor, labels: Tensor, part: str, *, base_share: float) -> Evaluation:
    """Score predictions.

    Args:
        logit: predicted log-odds, ``(records,)``.
        labels: true labels, 0 or 1, ``(records,)``.
        part: name of the part of the split, for the message.
        base_share: share of positives among the training records, in [0, 1].

    Raises:
        DataError: a class is missing among the records, or a logit is not finite.
    """
    try:
        # The AUC of a prediction and the leak AUC of an attack are one and the same statistic.
        auc = leak_auc(logit, labels)
        interval = auc_interval(auc, logit, labels)
    except ValueError as error:
        raise DataError(
            f"label party: the {part} records cannot be scored ({error}) Give that part a larger "
            "share, or another seed."
        ) from error
    loss = functional.binary_cross_entropy_with_logits(logit.double(), labels.double())
    return Evaluation(
        auc=auc,
        loss=float(loss),
        interval=interval,
        base_loss=base_rate_loss(labels, base_share),
        mean_probability=float(torch.sigmoid(logit.double()).mean()),
        positive_share=float(labels.double().mean()),
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
