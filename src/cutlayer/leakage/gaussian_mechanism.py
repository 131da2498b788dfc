"""The Gaussian mechanism on a label: what noise on a residual of sensitivity 1 guarantees."""

import math

from scipy.special import log_ndtr, ndtr, ndtri

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


def gaussian_true_positive_rate(mu: float, *, false_positive_rate: float) -> float:
    r"""Largest share of positives that any attack finds at this false positive rate.

    .. math:: \mathrm{TPR} \le \Phi\left(\mu + \Phi^{-1}(\mathrm{FPR})\right)

    An AUC near 0.5 may hide an attack that is sure about a few records; this number shows it.

    Raises:
        ValueError: ``mu`` is negative or ``false_positive_rate`` is not in (0, 1).

    Source: `Dong, Roth and Su (2022) <https://arxiv.org/abs/1905.02383>`_, section 2.2.

    >>> round(gaussian_true_positive_rate(1.0, false_positive_rate=0.01), 4)
    0.0924
    """
    check.not_negative("mu", mu)
    check.between("false_positive_rate", false_positive_rate, 0.0, 1.0)
    return float(ndtr(mu + ndtri(false_positive_rate)))


def gaussian_delta(mu: float, *, epsilon: float) -> float:
    r"""The smallest delta at which mu-Gaussian differential privacy is (epsilon, delta)-DP.

    .. math:: \delta = \Phi\left(-\frac{\varepsilon}{\mu} + \frac{\mu}{2}\right)
              - e^{\varepsilon}\, \Phi\left(-\frac{\varepsilon}{\mu} - \frac{\mu}{2}\right)

    Args:
        mu: Gaussian-differential-privacy parameter, at least 0.
        epsilon: bound on the log likelihood ratio of the two labels, at least 0.

    Returns:
        A probability in [0, 1].

    Raises:
        ValueError: an argument is negative or not finite.

    Source: `Dong, Roth and Su (2022) <https://arxiv.org/abs/1905.02383>`_, corollary 1; for one
    release, `Balle and Wang (2018) <https://arxiv.org/abs/1805.06530>`_, theorem 8.

    >>> round(gaussian_delta(1.0, epsilon=1.0), 6)
    0.126937
    """
    check.not_negative("mu", mu)
    check.not_negative("epsilon", epsilon)
    if mu == 0:
        return 0.0
    upper, lower = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    # The difference of the two terms as a factor, so that far tails keep their digits.
    return float(ndtr(upper) * -math.expm1(epsilon + log_ndtr(lower) - log_ndtr(upper)))


def gaussian_epsilon(mu: float, *, delta: float) -> float:
    """The smallest epsilon at which mu-Gaussian differential privacy is (epsilon, delta)-DP.

    Args:
        mu: Gaussian-differential-privacy parameter, at least 0.
        delta: probability of a larger likelihood ratio, in (0, 1).

    Returns:
        The inverse of :func:`gaussian_delta`, from 0 on.

    Raises:
        ValueError: ``mu`` is negative or not finite, or ``delta`` is not in (0, 1).

    >>> round(gaussian_epsilon(0.178, delta=1e-5), 2)
    0.64
    """
    from scipy.optimize import brentq  # here: it takes long to load

    check.not_negative("mu", mu)
    check.between("delta", delta, 0.0, 1.0)
    if gaussian_delta(mu, epsilon=0.0) <= delta:
        return 0.0
    # delta <= Phi(mu/2 - epsilon/mu), so this epsilon is large enough.
    high = mu * (mu / 2 - float(ndtri(delta)))
    return float(
        brentq(
            lambda epsilon: math.log(gaussian_delta(mu, epsilon=epsilon) / delta),
            0.0,
            high,
            xtol=1e-15,
            rtol=1e-14,
        )
    )
