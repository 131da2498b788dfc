"""The k-hint inner product: the longest known positive points the way."""

import torch
from torch import Tensor

from cutlayer.attacks.hint_rows import scaled_with_hints


def hint_inner_product(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""Score each example by its inner product with the longest known positive.

    .. math:: s_j = \langle g_j, g^\ast \rangle, \qquad
              g^\ast = \arg\max_{h_i: y_i = 1} \lVert h_i \rVert_2

    Length and direction count at once; the longest of k hints has the most signal if noise is
    alike for all. Known negatives are not used.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``. Keep their rows
            out of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Inner products, float64, in units of the squared power of two above the largest entry of
        batch and hints, shape ``(examples,)``; higher means "more likely positive".

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: the public code of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, option
    ``num_hints`` (1, 3, 5); not in the paper.

    >>> rows, known = torch.tensor([[2.0], [-1.0]]), torch.tensor([[0.5], [1.0], [-3.0]])
    >>> (hint_inner_product(rows, known, torch.tensor([1, 1, 0])) * 4**2).tolist()
    [2.0, -1.0]
    """
    batch, positives, _ = scaled_with_hints("gradient", gradient, hint_gradients, hint_labels)
    longest = torch.linalg.vector_norm(positives, dim=1).argmax()
    return batch @ positives[longest]
