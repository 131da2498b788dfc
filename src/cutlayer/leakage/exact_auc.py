"""The exact leak AUC of the best attack, where gradients are what Marvell's model says."""

import math

import numpy as np

from cutlayer import check
from cutlayer.leakage.sum_kl import ClassNoise, divergence_terms

_STEP = 0.1
_LAST = 45.0


def exact_auc(
    noise: ClassNoise,
    *,
    variance_pos: float,
    variance_neg: float,
    gap_squared: float,
    width: int,
    releases: int = 1,
) -> float:
    r"""Leak AUC of an attacker who knows every parameter and ranks by the likelihood ratio.

    For two densities, AUC follows from their complex Hellinger integral
    :math:`\rho(\tau) = \int p_1^{1/2 + i\tau} p_0^{1/2 - i\tau}` without any oscillation:

    .. math:: 1 - \mathrm{AUC} = \frac{1}{\pi} \int_0^{\pi/2}
              \left| \rho(\tfrac12 \tan\theta) \right|^{2E} d\theta .

    (The pair's log likelihood ratio D has a moment generating function that is symmetric about
    -1/2; Pr(D < 0) is its inversion along that line.) For Gaussians with variances x along the
    gap and y across it, and with :math:`T = 1 / \cos^2\theta`,

    .. math:: -\ln |\rho|^2 = \tfrac12 \ln(1 + \tfrac{a T}{4}) + \tfrac{d-1}{2}
              \ln(1 + \tfrac{b T}{4}) + \frac{c\, T}{8 (1 + a T / 4)},

    where a = (x0 - x1)^2 / (x0 x1), b = (y0 - y1)^2 / (y0 y1) and c = g / x1 + g / x0 are the
    three terms of :func:`~cutlayer.leakage.sum_kl.sum_kl`.

    Args:
        noise: the four noise variances, each at least 0, in the unit of a squared gradient.
        variance_pos: mean coordinate variance v of the positives' clean gradients, at least 0.
        variance_neg: mean coordinate variance u of the negatives' clean gradients, at least 0.
        gap_squared: squared distance g between the class means, at least 0.
        width: number of coordinates d, at least 1.
        releases: independent releases E of the same record, at least 0.

    Returns:
        A leak AUC in [0.5, 1], to about 1e-14. No attack on gradients of this model does better;
        attacks on real gradients may.

    Raises:
        ValueError: an argument is outside its range.

    Source: inversion formula of Gil-Pelaez (1951), "Note on the Inversion Theorem", moved to the
    line of symmetry; derived in ``docs/theory.md``.

    >>> from types import SimpleNamespace
    >>> ones = SimpleNamespace(along_pos=1.0, across_pos=0.0, along_neg=1.0, across_neg=0.0)
    >>> auc = exact_auc(ones, variance_pos=0.0, variance_neg=0.0, gap_squared=1.0, width=1)
    >>> round(auc, 6)  # Phi(1 / sqrt 2)
    0.76025
    """
    check.at_least("releases", releases, 0)
    along, across, shift = divergence_terms(
        noise,
        variance_pos=variance_pos,
        variance_neg=variance_neg,
        gap_squared=gap_squared,
        width=width,
    )
    if releases == 0:
        return 0.5
    if math.isinf(along + across + shift):
        return 1.0
    # tan(theta) = sinh(w): analytic in a strip of half-width pi/4, so the trapezoid rule errs by
    # exp(-2 pi (pi/4) / step) = 4e-22, at every scale of the three terms; the tail by exp(-45).
    node = np.arange(0.0, _LAST, _STEP)
    cosh = np.cosh(node)
    stretch = cosh * cosh
    bend = along / 4 * stretch
    exponent = np.log1p(bend) / 2 + shift * stretch / (8 * (1 + bend))
    if width > 1:
        exponent += (width - 1) / 2 * np.log1p(across / 4 * stretch)
    value = -np.expm1(-releases * exponent) / cosh
    return float(min(1.0, 0.5 + (value.sum() - value[0] / 2) * _STEP / math.pi))
