"""The direction attack: gradients of one class point the same way."""

from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import row_directions


def cosine_attack(gradient: Tensor, hint: Tensor) -> Tensor:
    r"""Score each example by the cosine between its gradient and a known positive's.

    .. math:: s_j = \langle g_j, h \rangle \,/\, (\lVert g_j \rVert_2 \lVert h \rVert_2)

    The factor (prediction - label) is negative for every positive and positive for every
    negative, so the two classes point to opposite sides. Side knowledge: the gradient of one
    positive. The attacker is the non-label party. It never sees labels, so this function takes
    none; :func:`cutlayer.leakage.leak_auc.leak_auc` joins scores and labels afterwards.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint: gradient of one example known to be positive, shape ``(width,)``. Keep that example
            out of the AUC, or the attack is credited with a label that it was given.

    Returns:
        Cosines in [-1, 1] (no unit), float64, shape ``(examples,)``; higher means "more likely
        positive". A zero gradient has no direction and scores 0. At width 1 every score is -1,
        0 or 1.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite;
            ``hint`` has another shape than ``(width,)``, is zero or is not finite.

    Source: direction attack of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_.

    >>> import torch
    >>> rows = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-5.0, 0.0], [0.0, 0.0]])
    >>> cosine_attack(rows, hint=torch.tensor([1.0, 0.0])).tolist()
    [1.0, 0.0, -1.0, 0.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    check.shape("hint", hint, (gradient.shape[1],))
    check.finite("hint", hint)
    if not bool(hint.any()):
        raise ValueError("hint must have a direction, got a gradient of zeros.")
    known = row_directions(hint[None])[0]
    # Rounding can carry a product of two unit vectors past 1 in its last digit.
    return (row_directions(gradient) @ known.to(gradient.device)).clamp(-1.0, 1.0)
