"""The k-hint distance: an example is of the class of the known record it is nearest to."""

from torch import Tensor

from cutlayer.attacks.hint_rows import distances, scaled_with_hints


def hint_distance(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""Score each example by how much nearer the nearest known positive is than a negative.

    .. math:: s_j = \min_{i: y_i = 0} \lVert g_j - h_i \rVert_2
                  - \min_{i: y_i = 1} \lVert g_j - h_i \rVert_2

    The public code takes the second term alone, as it knows positives only.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``. Keep their rows
            out of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Differences of distances, float64, in units of the power of two above the largest entry
        of batch and hints, shape ``(examples,)``; higher means "more likely positive".

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: the public code of `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, option
    ``num_hints``; nearest known sample: `Liu and Lyu (2022)
    <https://arxiv.org/abs/2203.05222>`_.

    >>> import torch
    >>> rows, known = torch.tensor([[0.5], [0.0]]), torch.tensor([[0.75], [-0.25]])
    >>> hint_distance(rows, known, torch.tensor([1, 0])).tolist()  # 0.75 - 0.25; 0.25 - 0.75
    [0.5, -0.5]
    """
    batch, positives, negatives = scaled_with_hints(
        "gradient", gradient, hint_gradients, hint_labels
    )
    return distances(batch, negatives).amin(dim=1) - distances(batch, positives).amin(dim=1)
