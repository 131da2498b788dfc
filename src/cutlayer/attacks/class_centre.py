"""The class-centre attack: nearer to the centre of the known positives or of the negatives."""

from torch import Tensor

from cutlayer.attacks.hint_rows import distances, scaled_with_hints


def class_mean_attack(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""Score each example by its distance to the two means of the hints.

    .. math:: s_j = \lVert g_j - c_0 \rVert_2 - \lVert g_j - c_1 \rVert_2, \qquad
              c_y = \operatorname{mean}_{i: y_i = y} h_i

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

    Source: mean attack of `Han and Guan (2023), GAFM <https://arxiv.org/abs/2302.02245>`_, with
    centres from hints.

    >>> import torch
    >>> rows, known = torch.tensor([[0.5], [0.0]]), torch.tensor([[0.5], [0.25], [-0.375]])
    >>> class_mean_attack(rows, known, torch.tensor([1, 1, 0])).tolist()  # centres .375, -.375
    [0.75, 0.0]
    """
    batch, positives, negatives = scaled_with_hints(
        "gradient", gradient, hint_gradients, hint_labels
    )
    return _nearer(batch, positives.mean(dim=0), negatives.mean(dim=0))


def class_median_attack(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""Score each example by its distance to the two coordinate-wise medians of the hints.

    As :func:`class_mean_attack` with :math:`c_y = \operatorname{median}_{i: y_i = y} h_i` in each
    coordinate (the lower of the two middle values), which one stretched row does not move.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``. Keep their rows
            out of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Differences of distances, as :func:`class_mean_attack`.

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: median attack of `Han and Guan (2023), GAFM <https://arxiv.org/abs/2302.02245>`_, with
    centres from hints.
    """
    batch, positives, negatives = scaled_with_hints(
        "gradient", gradient, hint_gradients, hint_labels
    )
    return _nearer(batch, positives.median(dim=0).values, negatives.median(dim=0).values)


def _nearer(batch: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Distance to the negative centre minus that to the positive one, ``(examples,)``."""
    return distances(batch, negative[None])[:, 0] - distances(batch, positive[None])[:, 0]
