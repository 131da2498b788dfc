"""The similarity attack: the class of the known record that points nearest the same way."""

from torch import Tensor

from cutlayer.attacks.hint_rows import check_class_hints, directions_with_hints, distances
from cutlayer.attacks.scale import row_directions


def gradient_similarity(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""Score each example by the largest cosine to a positive minus that to a negative.

    .. math:: s_j = \max_{i: y_i = 1} \cos(g_j, h_i) - \max_{i: y_i = 0} \cos(g_j, h_i)

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

    Source: `Liu and Lyu (2022) <https://arxiv.org/abs/2203.05222>`_, "cosine and Euclidean
    similarity".

    >>> import torch
    >>> rows, known = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0, 0], [0, 1.0]])
    >>> gradient_similarity(rows, known, torch.tensor([1, 0])).tolist()
    [1.0, -1.0]
    """
    batch, positives, negatives = directions_with_hints(
        "gradient", gradient, hint_gradients, hint_labels
    )
    return (batch @ positives.T).amax(dim=1) - (batch @ negatives.T).amax(dim=1)


def activation_similarity(
    activation: Tensor, hint_activations: Tensor, hint_labels: Tensor
) -> Tensor:
    r"""Score each example by how much nearer its activation is to a positive's than a negative's.

    .. math:: s_j = \min_{i: y_i = 0} \lVert \bar h_j - \bar h_i \rVert_2
                  - \min_{i: y_i = 1} \lVert \bar h_j - \bar h_i \rVert_2,
              \qquad \bar h = h / \lVert h \rVert_2

    No gradient is read, so no protection of gradients hides anything from it: it measures how far
    the bottom half has learnt to separate the classes.

    Args:
        activation: what the non-label party sent, float, shape ``(examples, width)``.
        hint_activations: activations of known records, ``(hints, width)``. Keep their rows out
            of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Differences of distances in [-2, 2], float64, shape ``(examples,)``; higher means "more
        likely positive".

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: `Liu and Lyu (2022) <https://arxiv.org/abs/2203.05222>`_, Euclidean similarity of
    smashed data.
    """
    batch, positives, negatives = directions_with_hints(
        "activation", activation, hint_activations, hint_labels
    )
    return distances(batch, negatives).amin(dim=1) - distances(batch, positives).amin(dim=1)


def similar_classes(gradient: Tensor, hint_gradients: Tensor, hint_classes: Tensor) -> Tensor:
    r"""Class of the known record that points nearest the same way, for any number of classes.

    .. math:: \hat y_j = y_{i^\ast}, \qquad i^\ast = \arg\max_i \cos(g_j, h_i)

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``.
        hint_classes: their classes, int64, ``(hints,)``.

    Returns:
        Class numbers, int64, shape ``(examples,)``.

    Raises:
        ValueError: ``gradient`` or ``hint_gradients`` is empty, not two-dimensional, not floating
            or not finite; widths or numbers of hints differ.

    Source: `Liu and Lyu (2022) <https://arxiv.org/abs/2203.05222>`_, cosine similarity.
    """
    check_class_hints(gradient, hint_gradients, hint_classes)
    known = row_directions(hint_gradients).to(gradient.device)
    nearest = (row_directions(gradient) @ known.T).argmax(dim=1)
    return hint_classes.to(gradient.device)[nearest]
