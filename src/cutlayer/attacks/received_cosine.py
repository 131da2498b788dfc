"""The direction attack as it can be run: with hints that are perturbed like everything else."""

from torch import Tensor

from cutlayer.attacks.hint_rows import directions_with_hints


def received_cosine(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""Score each example by the mean cosine to known positives minus that to known negatives.

    .. math:: s_j = \frac{1}{k_1} \sum_{i: y_i = 1} \cos(g_j, h_i)
                  - \frac{1}{k_0} \sum_{i: y_i = 0} \cos(g_j, h_i)

    :func:`~cutlayer.attacks.cosine_attack.cosine_attack` is given a positive's gradient from
    before the protection. Nobody hands that over; what somebody who knows a few records has are
    their rows *as received*. More hints average their noise.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``. Keep their rows
            out of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Differences of cosines in [-2, 2], float64, shape ``(examples,)``; higher means "more
        likely positive". A zero gradient scores 0.

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: direction attack of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, which
    takes a clean hint; the same comparison with received rows: `Liu and Lyu (2022)
    <https://arxiv.org/abs/2203.05222>`_.

    >>> import torch
    >>> rows, known = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0, 0], [-4.0, 0]])
    >>> received_cosine(rows, known, torch.tensor([1, 0])).tolist()
    [2.0, 0.0]
    """
    batch, positives, negatives = directions_with_hints(
        "gradient", gradient, hint_gradients, hint_labels
    )
    return batch @ (positives.mean(dim=0) - negatives.mean(dim=0))
