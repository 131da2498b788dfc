"""The norm attack: gradients of the rare class are longer."""

from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import row_norms


def norm_attack(gradient: Tensor) -> Tensor:
    r"""Score each example by the length of its gradient.

    .. math:: s_j = \lVert g_j \rVert_2

    A row is (prediction - label) times a vector that varies little between records. Where
    positives are rare a calibrated model errs by nearly 1 on each of them and by little on a
    negative, so long rows are positives. Needs no side knowledge.

    At width 1 this is :math:`|g_j|`; the sign, which tells more there, is what
    :func:`~cutlayer.attacks.first_component.first_component` reads.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.

    Returns:
        Norms in the unit of ``gradient``, float64, shape ``(examples,)``; higher means "more
        likely positive". A zero gradient scores 0. One example is scored like many.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite.

    Source: norm attack of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_.

    >>> import torch
    >>> norm_attack(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    return row_norms(gradient)[:, 0]
