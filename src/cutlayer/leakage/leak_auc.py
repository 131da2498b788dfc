"""Leak AUC: how well an attack's scores order the true labels."""

import torch
from torch import Tensor

from cutlayer import check


def leak_auc(scores: Tensor, labels: Tensor) -> float:
    r"""Chance that an attack ranks a random positive above a random negative.

    .. math:: \mathrm{AUC} = \frac{1}{n_1 n_0} \sum_{i: y_i = 1} \sum_{j: y_j = 0}
              \left( [s_i > s_j] + \tfrac12 [s_i = s_j] \right)

    Only the order of the scores counts; they are never squashed, rounded or binned.

    Args:
        scores: attack scores, float, shape ``(examples,)``, any unit; higher means "positive".
        labels: true labels, 0 or 1, shape ``(examples,)``.

    Returns:
        A share in [0, 1]: 1 leaks every label, 0.5 none. Below 0.5 the attack is right with
        its sign turned, so 0 leaks as much as 1.

    Raises:
        ValueError: a score is NaN or infinite, the shapes differ, or a class is missing
            (the AUC is then undefined, and 0.5 would read as "safe").

    Source: leak AUC of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_.

    >>> leak_auc(torch.tensor([3.0, 1.0, 2.0, 1.0, 0.0]), torch.tensor([1, 1, 0, 0, 0]))
    0.75
    """
    check.finite("scores", scores)
    check.shape("labels", labels, tuple(scores.shape))
    check.both_classes("labels", labels)
    _, rank_of, ties = torch.unique(scores, return_inverse=True, return_counts=True)
    midrank = ties.cumsum(0) - (ties.double() - 1) / 2  # from 1 up; ties share their mean rank
    positive = labels == 1
    n_pos, n_neg = int(positive.sum()), int((~positive).sum())
    rank_sum = float(midrank[rank_of[positive]].sum())
    return (rank_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def symmetrised(auc: float) -> float:
    """The AUC of an attacker who may turn his scores round: max(AUC, 1 - AUC), in [0.5, 1].

    >>> symmetrised(0.25)
    0.75
    """
    return max(auc, 1.0 - auc)
