"""Passive model completion: the attacker finishes his half of the model with a few labels."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from cutlayer.attacks.hint_rows import scaled_with_hints
from cutlayer.attacks.scale import standard_columns

_STEPS = 200
_BATCH = 256
_LEARNING_RATE = 0.05
_TEMPERATURE = 0.8
_MIX = 0.75
_UNLABELLED_WEIGHT = 5.0
_RIDGE = 1e-2
_AVERAGE = 0.95


def model_completion(
    activation: Tensor, hint_activations: Tensor, hint_labels: Tensor, seed: int
) -> Tensor:
    r"""Score each example by a head that was trained on a few labels and all activations.

    A linear head on the standardised activations is trained by MixMatch: the guess
    :math:`p = \operatorname{sigmoid}(s)` of an unlabelled row is sharpened to
    :math:`q = p^{1/T} / (p^{1/T} + (1 - p)^{1/T})`, T = 0.8; rows and targets are mixed,
    :math:`z' = \lambda z + (1 - \lambda) z^\ast`, with
    :math:`\lambda = \max(b, 1 - b)`, :math:`b \sim \mathrm{Beta}(.75, .75)`; the loss is

    .. math:: \mathrm{CE}(\text{labelled}) + w_t \operatorname{mean}(p' - q')^2
              + \tfrac{\alpha}{2} \lVert w \rVert^2, \qquad w_t \text{ growing from 0 to } 5,

    and an average of the weights over the steps is used. Gradients are not read: a protection of
    gradients does not touch this attack, and it works on records that were never trained on.

    The published attack also goes on training the bottom half, with a weight of 50 and 1024 steps
    an epoch; here the bottom stays as it is and the head is small enough for an audit.

    Args:
        activation: what the non-label party sent, float, shape ``(examples, width)``.
        hint_activations: activations of known records, ``(hints, width)``. Keep their rows out
            of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.
        seed: fixes batches and mixtures.

    Returns:
        Log odds, float64, shape ``(examples,)``; higher means "more likely positive".

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: passive model completion of `Fu et al. (2022)
    <https://www.usenix.org/conference/usenixsecurity22/presentation/fu-chong>`_; `MixMatch
    <https://arxiv.org/abs/1905.02249>`_.
    """
    batch, positives, negatives = scaled_with_hints(
        "activation", activation, hint_activations, hint_labels
    )
    generator = np.random.default_rng(seed)
    labelled = standard_columns(torch.cat([positives, negatives]), like=batch)
    targets = torch.cat([labelled.new_ones(len(positives)), labelled.new_zeros(len(negatives))])
    unlabelled = standard_columns(batch)
    weight = _mix_match(labelled, targets, unlabelled, generator)
    return unlabelled @ weight[:-1] + weight[-1]


def _mix_match(
    labelled: Tensor, targets: Tensor, unlabelled: Tensor, generator: np.random.Generator
) -> Tensor:
    """Averaged weights of the head, ``(width + 1,)``; the last one is the bias."""
    head = labelled.new_zeros(labelled.shape[1] + 1).requires_grad_()
    average = torch.zeros_like(head)
    optimiser = torch.optim.Adam([head], lr=_LEARNING_RATE)
    for step in range(_STEPS):
        inputs, wanted, rows = _mixture(labelled, targets, unlabelled, head.detach(), generator)
        with torch.enable_grad():
            logit = inputs @ head[:-1] + head[-1]
            loss = softplus(logit).sub(wanted * logit)[:rows].mean()
            apart = (torch.sigmoid(logit) - wanted)[rows:].square().mean()
            loss = loss + _UNLABELLED_WEIGHT * step / _STEPS * apart
            loss = loss + _RIDGE / 2 * head[:-1].square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        average = _AVERAGE * average + (1 - _AVERAGE) * head.detach()
    return average


def _mixture(
    labelled: Tensor,
    targets: Tensor,
    unlabelled: Tensor,
    head: Tensor,
    generator: np.random.Generator,
) -> tuple[Tensor, Tensor, int]:
    """One batch of mixed rows and their targets, and how many of them come from known labels."""
    known = _drawn(len(labelled), min(_BATCH, 4 * len(labelled)), generator).to(labelled.device)
    free = _drawn(len(unlabelled), _BATCH, generator).to(labelled.device)
    guess = torch.sigmoid(unlabelled[free] @ head[:-1] + head[-1])
    sharp, other = guess ** (1 / _TEMPERATURE), (1 - guess) ** (1 / _TEMPERATURE)
    rows = torch.cat([labelled[known], unlabelled[free]])
    wanted = torch.cat([targets[known], sharp / (sharp + other)])
    share = torch.from_numpy(generator.beta(_MIX, _MIX, len(rows))).to(rows)
    share = torch.maximum(share, 1 - share)
    partner = torch.from_numpy(generator.permutation(len(rows))).to(rows.device)
    mixed = share[:, None] * rows + (1 - share)[:, None] * rows[partner]
    return mixed, share * wanted + (1 - share) * wanted[partner], len(known)


def _drawn(count: int, number: int, generator: np.random.Generator) -> Tensor:
    """So many positions below ``count``, with replacement."""
    return torch.from_numpy(generator.integers(count, size=number))
