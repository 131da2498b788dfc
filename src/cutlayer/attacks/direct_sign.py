"""The direct attack: at a logit, the sign of the gradient is the label."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import exact


def direct_sign(gradient: Tensor) -> Tensor:
    r"""Score each example by the negative gradient of the cut's last column, read as a logit.

    .. math:: s_j = -g_{j, d}

    The gradient of cross-entropy at a logit is (probability - label), negative for a positive and
    positive for a negative. It applies where the cut *is* a logit (width 1, or the positive class
    of two softmax logits), and where the last column is one that bypasses the top, as the wide
    logit of Wide & Deep. Anywhere else the sign of a column is that of a weight of the top, and
    the score is as good as any projection on one coordinate.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Scores in the unit of ``gradient``, float64, shape ``(examples,)``; higher means "more
        likely positive".

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: direct label inference of `Fu et al. (2022)
    <https://www.usenix.org/conference/usenixsecurity22/presentation/fu-chong>`_, for a model
    without a top.

    >>> direct_sign(torch.tensor([[0.25], [-0.75]])).tolist()
    [-0.25, 0.75]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    return -exact(gradient)[:, -1]


def direct_classes(gradient: Tensor) -> Tensor:
    r"""Class of each example where the cut is the vector of class logits.

    .. math:: \hat y_j = \arg\min_c g_{j, c}

    The gradient is softmax - onehot, so its one negative entry is the label.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, classes)``.

    Returns:
        Class numbers, int64, shape ``(examples,)``; -1 where no entry is negative, which no
        softmax gives.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: direct label inference of `Fu et al. (2022)
    <https://www.usenix.org/conference/usenixsecurity22/presentation/fu-chong>`_.

    >>> direct_classes(torch.tensor([[0.25, -0.5, 0.25], [0.0, 0.0, 0.0]])).tolist()
    [1, -1]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    smallest = gradient.min(dim=1)
    return torch.where(smallest.values < 0, smallest.indices, -1)
