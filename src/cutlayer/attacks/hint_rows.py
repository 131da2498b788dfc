"""Hint rows: the few records whose labels an attacker knows, checked and sorted by class."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.scale import at_common_scale, row_directions


def scaled_with_hints(
    name: str, rows: Tensor, hints: Tensor, hint_labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Check a batch and its hints, and bring all to one unit.

    Args:
        name: of the batch in messages: ``gradient`` or ``activation``.
        rows: the batch, float ``(examples, width)``.
        hints: rows of the known records, float ``(hints, width)``.
        hint_labels: their labels, 0 or 1, both classes, ``(hints,)``.

    Returns:
        The batch, the known positives and the known negatives, float64, divided by one common
        power of two.

    Raises:
        ValueError: ``rows`` is empty, not two-dimensional, not floating or not finite; ``hints``
            has another width or is not finite; a class has no hint.
    """
    check.matrix(name, rows)
    check.finite(name, rows)
    check.matrix(f"hint_{name}s", hints)
    check.shape(f"hint_{name}s", hints, (hints.shape[0], rows.shape[1]))
    check.finite(f"hint_{name}s", hints)
    check.shape("hint_labels", hint_labels, (hints.shape[0],))
    check.both_classes("hint_labels", hint_labels)
    batch, known = at_common_scale(rows, hints)
    positive = hint_labels.to(rows.device) == 1
    return batch, known[positive], known[~positive]


def directions_with_hints(
    name: str, rows: Tensor, hints: Tensor, hint_labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`scaled_with_hints`, each row divided by its own norm; zero rows stay zero."""
    batch, positives, negatives = scaled_with_hints(name, rows, hints, hint_labels)
    return row_directions(batch), row_directions(positives), row_directions(negatives)


def check_class_hints(gradient: Tensor, hint_gradients: Tensor, hint_classes: Tensor) -> None:
    """Require a batch and known rows of the same width, each with a class number.

    Raises:
        ValueError: a matrix is empty, not two-dimensional, not floating or not finite; widths or
            numbers of hints differ.
    """
    for name, rows in (("gradient", gradient), ("hint_gradients", hint_gradients)):
        check.matrix(name, rows)
        check.finite(name, rows)
    hints = hint_gradients.shape[0]
    check.shape("hint_gradients", hint_gradients, (hints, gradient.shape[1]))
    check.shape("hint_classes", hint_classes, (hints,))


def distances(rows: Tensor, others: Tensor) -> Tensor:
    """Euclidean distance of each row to each other one, ``(examples, others)``."""
    # Expanding the square, as matrix products do, would cancel digits of near rows.
    return torch.cdist(rows, others, compute_mode="donot_use_mm_for_euclid_dist")
