"""The Gaussian mechanism on a label: what noise on a residual of sensitivity 1 guarantees."""

import math

from scipy.special import ndtr, ndtri

from cutlayer import check


def gaussian_mu(sigma: float, *, releases: int = 1, sensitivity: float = 1.0) -> float:
    r"""Gaussian-differential-privacy parameter of ``releases`` noisy residuals of one label.

    .. math:: \mu = \sqrt{E}\, \Delta / \sigma

    Args:
        sigma: standard deviation of the noise on the residual, above 0.
        releases: how many rows of the record are sent in all, at least 0.
        sensitivity: how far a change of the label moves the residual; 1 for a 0/1 label.

    Returns:
        mu, at least 0; 0 means that the messages do not depend on the label.

    Raises:
        ValueError: an argument is outside its range.

    Source: `Dong, Roth and Su (2022) <https://arxiv.org/abs/1905.02383>`_, theorem 1 and
    corollary 2.
    """
    check.positive("sigma", sigma)
    check.at_least("releases", releases, 0)
    check.positive("sensitivity", sensitivity)
    return math.sqrt(releases) * sensitivity / sigma


def gaussian_leak_auc(mu: float) -> float:
    r"""Largest leak AUC of any attack on a mu-Gaussian-differentially-private label.

    .. math:: \mathrm{AUC} \le \Phi(\mu / \sqrt 2)

    Two draws of N(0, 1) and N(mu, 1) are ordered rightly with this probability, and no
    post-processing of messages under mu-GDP distinguishes better.

    >>> round(gaussian_leak_auc(gaussian_mu(2.0)), 4)  # Phi(1 / (2 sqrt 2))
    0.6382
    """
    check.not_negative("mu", mu)
    return float(ndtr(mu / math.sqrt(2)))


def sigma_for_leak_auc(leak_auc: float, *, releases: int, sensitivity: float = 1.0) -> float:
    r"""Smallest noise that keeps every attack at ``leak_auc`` over ``releases`` rows a record.

    .. math:: \sigma = \sqrt{E/2}\, \Delta / \Phi^{-1}(\mathrm{AUC})

    Raises:
        ValueError: ``leak_auc`` is not in (0.5, 1), or ``releases`` is below 1.

    >>> round(sigma_for_leak_auc(0.7, releases=10), 3)
    4.264
    """
    check.between("leak_auc", leak_auc, 0.5, 1.0)
    check.at_least("releases", releases, 1)
    check.positive("sensitivity", sensitivity)
    return math.sqrt(releases / 2) * sensitivity / float(ndtri(leak_auc))
