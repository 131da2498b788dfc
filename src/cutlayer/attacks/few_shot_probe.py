"""The few-shot probe: a logistic regression on a few known records."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor

from cutlayer.attacks.hint_rows import scaled_with_hints
from cutlayer.attacks.scale import standard_columns

_RIDGE = 1.0
_STEPS = 100
_CONVERGED = 1e-10

Array = NDArray[np.float64]


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
    known = features.cpu().numpy()
    rows, columns = known.shape
    span = np.linalg.qr(known.T)[0] if rows < columns else np.eye(columns)
    reduced = np.concatenate([known @ span, np.ones((rows, 1))], axis=1)
    solution = _newton(reduced, labels.cpu().numpy())
    weight = torch.from_numpy(span @ solution[:-1]).to(features)
    return weight, weight.new_tensor(float(solution[-1]))


def _newton(reduced: Array, labels: Array) -> Array:
    """Where the penalised loss is least; the last column of ``reduced`` is that of the bias.

    In NumPy, whose calls cost a fraction of torch's: an audit fits some ten thousand probes.
    """
    penalty = np.full(reduced.shape[1], _RIDGE)
    penalty[-1] = 1e-9  # the bias is free; a trace of penalty keeps separable hints finite
    ridge, turned = np.diag(penalty), (1 - 2 * labels)[:, None] * reduced

    def loss_at(point: Array) -> float:
        return float(np.logaddexp(0.0, turned @ point).sum() + penalty @ point**2 / 2)

    solution = np.zeros(reduced.shape[1])
    loss = loss_at(solution)
    for _ in range(_STEPS):
        probability = expit(reduced @ solution)
        slope = reduced.T @ (probability - labels) + penalty * solution
        curvature = reduced.T @ (reduced * (probability * (1 - probability))[:, None])
        step = np.linalg.solve(curvature + ridge, slope)
        size = 1.0
        now = loss_at(solution - step)
        while now > loss and size > _CONVERGED:
            size /= 2
            now = loss_at(solution - size * step)
        solution = solution - size * step
        if loss - now <= _CONVERGED * loss:
            break
        loss = now
    return solution
