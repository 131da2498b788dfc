"""Gradients without their unit, so that no square of one underflows or overflows.

A mean loss over a large batch late in a training makes rows of 1e-23, whose squares are zero in
float32. Every attack therefore starts here.
"""

import math

import torch
from torch import Tensor


def exact(gradient: Tensor) -> Tensor:
    """The same values in float64, cut off from any autograd graph."""
    return gradient.detach().double()


def at_unit_scale(gradient: Tensor) -> Tensor:
    """The batch in float64, divided by the power of two that brings its largest entry below 1.

    A power of two moves exponents only, so no digit is lost and scores keep their exact order.

    >>> at_unit_scale(torch.tensor([[3e-23, 0.0]])).abs().max() >= 0.5
    tensor(True)
    """
    values = exact(gradient)
    _, exponent = math.frexp(float(values.abs().max()))
    return values * math.ldexp(1.0, min(-exponent, 1023))


def at_common_scale(gradient: Tensor, hints: Tensor) -> tuple[Tensor, Tensor]:
    """The batch and the known rows, divided by one power of two as in :func:`at_unit_scale`."""
    values = at_unit_scale(torch.cat([exact(gradient), exact(hints).to(gradient.device)]))
    return values[: len(gradient)], values[len(gradient) :]


def standard_columns(features: Tensor, like: Tensor | None = None) -> Tensor:
    """Columns with mean 0 and deviation 1 over the rows of ``like``, or of ``features`` itself.

    A column that is the same in all rows becomes zero.
    """
    reference = features if like is None else like
    mean = reference.mean(dim=0)
    deviation = (reference - mean).square().mean(dim=0).sqrt()
    # Deviations at the rounding error of the column's values are zeros, not a signal.
    rounding = 64 * torch.finfo(features.dtype).eps * reference.abs().amax(dim=0)
    return torch.where(deviation > rounding, (features - mean) / deviation, 0.0)


def row_norms(gradient: Tensor) -> Tensor:
    """Euclidean norm of each row, float64, shape ``(examples, 1)``, in the unit of ``gradient``."""
    values = exact(gradient)
    largest = values.abs().amax(dim=1, keepdim=True)
    shape = torch.where(largest > 0, values / largest, 0.0)
    return largest * torch.linalg.vector_norm(shape, dim=1, keepdim=True)


def row_directions(gradient: Tensor) -> Tensor:
    """Each row divided by its norm, float64; a zero row has no direction and stays zero."""
    values = exact(gradient)
    largest = values.abs().amax(dim=1, keepdim=True)
    shape = torch.where(largest > 0, values / largest, 0.0)
    norm = torch.linalg.vector_norm(shape, dim=1, keepdim=True)
    return torch.where(norm > 0, shape / norm, 0.0)
