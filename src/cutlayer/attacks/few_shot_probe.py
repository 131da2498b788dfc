"""The few-shot probe: a logistic regression on a few known records."""

import torch
from torch import Tensor

from cutlayer.attacks.hint_rows import scaled_with_hints
from cutlayer.attacks.scale import standard_columns

_RIDGE = 1.0
_STEPS = 100
_CONVERGED = 1e-10


def gradient_probe(gradient: Tensor, hint_gradients: Tensor, hint_labels: Tensor) -> Tensor:
    r"""Score each example by a logistic regression on the hints' gradients.

    .. math:: s_j = w^\top z_j + b, \qquad (w, b) = \arg\min_{w, b}\;
              \tfrac12 \lVert w \rVert_2^2 + \sum_i \ln\left(1 + e^{(1 - 2 y_i)(w^\top z_i + b)}
              \right)

    z are the columns, standardised over the batch. The penalty is scikit-learn's default, C = 1.

    Args:
        gradient: gradients as received, float of any type, shape ``(examples, width)``.
        hint_gradients: received gradients of known records, ``(hints, width)``. Keep their rows
            out of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Log odds, float64, shape ``(examples,)``; higher means "more likely positive".

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: linear probe on a few labels, as in `Zmushko et al. (2024) <https://arxiv.org/abs/2412.16669>`_
    and `Fu et al. (2022)
    <https://www.usenix.org/conference/usenixsecurity22/presentation/fu-chong>`_.
    """
    return _probe("gradient", gradient, hint_gradients, hint_labels)


def activation_probe(activation: Tensor, hint_activations: Tensor, hint_labels: Tensor) -> Tensor:
    """As :func:`gradient_probe`, on activations: what the bottom half itself has learnt.

    Args:
        activation: what the non-label party sent, float, shape ``(examples, width)``.
        hint_activations: activations of known records, ``(hints, width)``. Keep their rows out
            of the AUC.
        hint_labels: their labels, 0 or 1, ``(hints,)``.

    Returns:
        Log odds, as :func:`gradient_probe`.

    Raises:
        ValueError: as :func:`~cutlayer.attacks.hint_rows.scaled_with_hints`.

    Source: as :func:`gradient_probe`.
    """
    return _probe("activation", activation, hint_activations, hint_labels)


def _probe(name: str, rows: Tensor, hints: Tensor, hint_labels: Tensor) -> Tensor:
    """Fit on the hints in the batch's standard units, score the batch."""
    batch, positives, negatives = scaled_with_hints(name, rows, hints, hint_labels)
    known = standard_columns(torch.cat([positives, negatives]), like=batch)
    labels = torch.cat([known.new_ones(len(positives)), known.new_zeros(len(negatives))])
    weight, bias = fit_logistic(known, labels)
    return standard_columns(batch) @ weight + bias


def fit_logistic(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Weights ``(columns,)`` and bias of a logistic regression with ridge penalty 1, by Newton.

    The dual has one unknown a row, so the weights are sought in the span of the rows where there
    are fewer rows than columns.
    """
    rows, columns = features.shape
    span = torch.linalg.qr(features.T)[0] if rows < columns else torch.eye(columns).to(features)
    reduced = torch.cat([features @ span, features.new_ones(rows, 1)], dim=1)
    penalty = torch.full_like(reduced[0], _RIDGE)
    penalty[-1] = 1e-9  # the bias is free; a trace of penalty keeps separable hints finite
    solution = torch.zeros_like(penalty)

    def loss_at(point: Tensor) -> Tensor:
        margin = (1 - 2 * labels) * (reduced @ point)
        return torch.nn.functional.softplus(margin).sum() + (penalty * point.square()).sum() / 2

    loss = loss_at(solution)
    for _ in range(_STEPS):
        probability = torch.sigmoid(reduced @ solution)
        slope = reduced.T @ (probability - labels) + penalty * solution
        curvature = (reduced * (probability * (1 - probability))[:, None]).T @ reduced
        step = torch.linalg.solve(curvature + torch.diag(penalty), slope)
        size = 1.0
        while size > _CONVERGED and float(loss_at(solution - size * step)) > float(loss):
            size /= 2
        solution = solution - size * step
        now = loss_at(solution)
        if float(loss - now) <= _CONVERGED * float(loss):
            break
        loss = now
    return span @ solution[:-1], solution[-1]
