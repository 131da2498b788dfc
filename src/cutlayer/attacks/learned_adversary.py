"""The learned adversary: a network that was told half of the labels. An upper reference."""

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks.base import WITHHELD
from cutlayer.attacks.gradient_shape import energy_bands
from cutlayer.attacks.scale import at_unit_scale, standard_columns
from cutlayer.attacks.small_network import learned_scores

_COORDINATES = 16


def learned_adversary(gradient: Tensor, known_labels: Tensor, seed: int) -> Tensor:
    r"""Score each example by a small network fitted to the half whose labels are known.

    The network (:func:`~cutlayer.attacks.small_network.learned_scores`) sees each row's
    coordinates along the batch's 16 strongest directions and the logs of its energy in bands
    (:func:`~cutlayer.attacks.gradient_shape.energy_bands`), so that every score of this package
    that reads one row is within its reach. It answers "what could somebody learn who is told the
    right answer for half of the records", and no attacker has that.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        known_labels: 0, 1, or -1 for "not known", ``(examples,)``. Judge it on the rows of -1
            alone.
        seed: fixes the start and what is held back.

    Returns:
        Logits, float64, shape ``(examples,)``; higher means "more likely positive". All 0 where
        the known labels are of one class or too few.

    Raises:
        ValueError: ``gradient`` is empty, not two-dimensional, not floating or not finite;
            ``known_labels`` has another shape or value.

    Source: cutlayer's own; supervised upper references are common in attacks on split learning.
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    known = check_known_labels(known_labels, len(gradient)).to(gradient.device)
    batch = at_unit_scale(gradient)
    left, strength, _ = torch.linalg.svd(batch, full_matrices=False)
    strongest = (left * strength)[:, :_COORDINATES]
    features = standard_columns(torch.cat([strongest, energy_bands(gradient)], dim=1))
    generator = torch.Generator().manual_seed(seed)
    return learned_scores(features, known != WITHHELD, known, generator=generator)


def check_known_labels(known_labels: Tensor, examples: int) -> Tensor:
    """Require 0, 1 or :data:`~cutlayer.attacks.base.WITHHELD` for each example.

    Raises:
        ValueError: another shape or value.
    """
    check.shape("known_labels", known_labels, (examples,))
    told = known_labels[known_labels != WITHHELD]
    check.binary_labels("known_labels", told, examples=len(told))
    return known_labels
