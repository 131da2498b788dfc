"""Gradient matching: find the labels and the top that would have sent these gradients."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cutlayer import check
from cutlayer.attacks.first_component import first_component
from cutlayer.attacks.history import root_mean_square_norm
from cutlayer.attacks.majority_count import majority_count_attack
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.scale import at_unit_scale, standard_columns
from cutlayer.attacks.visit_average import standardised

_HIDDEN = 16
_STEPS = 120
_ROWS = 2048
_LEARNING_RATE = 0.05
_FIT = 0.05
_PRIOR = 0.5
_START = 0.5


def gradient_matching(gradient: Tensor, activation: Tensor, prior: float, seed: int) -> Tensor:
    r"""Score each example by a surrogate label whose gradient under a surrogate top is the row.

    Surrogate labels :math:`y'_j = \operatorname{sigmoid}(\theta_j)` and a surrogate top
    :math:`f'(h) = w^\top h + b + v^\top \tanh(U h + c)` are fitted together to

    .. math:: L = \operatorname{mean}_j \lVert e^\kappa (\operatorname{sigmoid} f'(h_j) - y'_j)
              \nabla f'(h_j) - g_j \rVert^2 + \lambda_c \frac{\operatorname{mean}_j
              \mathrm{CE}(y'_j, f'(h_j))}{H(\pi)} + \lambda_p\, \mathrm{KL}(\pi \,\Vert\,
              \operatorname{mean}_j y'_j)

    with the share of positives :math:`\pi`. The scale :math:`e^\kappa` is fitted as well, so the
    unit of gradients does not matter. The search starts six times, from either sign of the first
    component, of the count of partners and of the norm, and the end with the smallest loss is
    kept; the last term tells signs apart, unless :math:`\pi` is 1/2. Beyond 2048 rows the top
    is fitted to a part of them, and partners are counted among these. The label of each row is
    then the one that fits it best,

    .. math:: y'_j = \operatorname{sigmoid} f'(h_j)
              - \frac{\langle g_j, \nabla f'(h_j)\rangle}{e^\kappa \lVert\nabla f'(h_j)\rVert^2},

    which is the score in any case, as it is sharper than the fitted :math:`\theta`.

    Unlike attacks that look along one line, it follows a top whose slope turns from record to
    record, if one of the starts has something to go on. Noise in gradients goes into the score as
    it is.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        activation: activations they belong to, float, shape ``(examples, width)``.
        prior: share of positives, in (0, 1).
        seed: fixes the surrogate's start and which rows are used.

    Returns:
        Surrogate labels, float64, shape ``(examples,)``; near 1 for a positive and near 0 for a
        negative where the match is good, but not limited to [0, 1]. A batch of zeros scores 0.

    Raises:
        ValueError: a matrix is empty, not two-dimensional, not floating or not finite; shapes
            differ; ``prior`` is outside (0, 1).

    Source: ExPLoit / gradient inversion attack of `Kariyappa and Qureshi (2021)
    <https://arxiv.org/abs/2112.01299>`_; weights of the terms fixed instead of searched.
    """
    check.matrix("gradient", gradient)
    check.finite("gradient", gradient)
    check.matrix("activation", activation)
    check.shape("activation", activation, tuple(gradient.shape))
    check.finite("activation", activation)
    check.between("prior", prior, 0.0, 1.0)
    wanted = at_unit_scale(gradient)
    wanted = wanted / root_mean_square_norm(wanted)
    if not bool(wanted.any()):
        return wanted.new_zeros(len(wanted))
    inputs = standard_columns(at_unit_scale(activation))
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(wanted), generator=generator)[:_ROWS].to(wanted.device)
    guesses = [
        standardised(first_component(wanted))[rows],
        # All pairs of a large batch would take longer than the search that they start.
        standardised(majority_count_attack(wanted[rows])),
        standardised(norm_attack(wanted))[rows],
    ]
    starts = torch.stack([side * guess for guess in guesses for side in (1, -1)])
    weights = _fitted(inputs[rows], wanted[rows], starts, prior, generator)
    return _best_label(weights, inputs, wanted)


def _fitted(
    inputs: Tensor, wanted: Tensor, starts: Tensor, prior: float, generator: torch.Generator
) -> list[Tensor]:
    """Scale and top that fit best, of searches from several guesses ``(starts, examples)``.

    All are fitted at once, along a leading dimension: Adam moves each number by itself.
    """
    theta = (_START * starts + math.log(prior / (1 - prior))).requires_grad_()
    weights = _surrogate(inputs, len(starts), generator)
    optimiser = torch.optim.Adam([theta, *weights], lr=_LEARNING_RATE)
    losses = theta.new_zeros(len(starts))
    for _ in range(_STEPS):
        with torch.enable_grad():
            losses = _losses(theta, weights, inputs, wanted, prior)
        optimiser.zero_grad()
        losses.sum().backward()
        optimiser.step()
    better = int(losses.detach().argmin())
    return [weight.detach()[better : better + 1] for weight in weights]


def _surrogate(inputs: Tensor, starts: int, generator: torch.Generator) -> list[Tensor]:
    """Equal starts: log scale, linear part, bias, hidden layer, its shift and its output."""
    width = inputs.shape[1]
    linear, hidden, out = (
        0.1 * torch.randn(shape, generator=generator, dtype=torch.float64) / width**0.5
        for shape in ((width, 1), (width, _HIDDEN), (_HIDDEN, 1))
    )
    zero, shift = torch.zeros(1, 1).double(), torch.zeros(1, _HIDDEN).double()
    parts = (zero, linear, zero, hidden, shift, out)
    return [part.expand(starts, *part.shape).to(inputs).clone().requires_grad_() for part in parts]


def _top(weights: list[Tensor], inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Logit of each row, ``(starts, examples)``, and its slope, ``(starts, examples, width)``."""
    _, linear, bias, hidden, shift, out = weights
    bent = torch.tanh(inputs @ hidden + shift)
    logit = (inputs @ linear + bias + bent @ out)[:, :, 0]
    return logit, linear.mT + ((1 - bent.square()) * out.mT) @ hidden.mT


def _losses(
    theta: Tensor, weights: list[Tensor], inputs: Tensor, wanted: Tensor, prior: float
) -> Tensor:
    """The loss of the docstring, for each start."""
    logit, slope = _top(weights, inputs)
    label = torch.sigmoid(theta)
    residual = (torch.sigmoid(logit) - label)[:, :, None]
    match = (weights[0].exp() * residual * slope - wanted).square().sum(dim=2).mean(dim=1)
    entropy = -(prior * math.log(prior) + (1 - prior) * math.log(1 - prior))
    fit = (softplus(logit) - label * logit).mean(dim=1) / entropy
    share = label.mean(dim=1)
    surprise = -(prior * share.log() + (1 - prior) * torch.log1p(-share)) - entropy
    return match + _FIT * fit + _PRIOR * surprise


def _best_label(weights: list[Tensor], inputs: Tensor, wanted: Tensor) -> Tensor:
    """The label of each row that brings its surrogate gradient nearest to the received one."""
    logit, slope = _top(weights, inputs)
    slope = (weights[0].exp() * slope).expand(1, *wanted.shape)[0]
    along = (wanted * slope).sum(dim=1)
    steepness = slope.square().sum(dim=1)
    residual = torch.where(steepness > 0, along / steepness.clamp_min(1e-30), 0.0)
    return torch.sigmoid(logit[0]) - residual
