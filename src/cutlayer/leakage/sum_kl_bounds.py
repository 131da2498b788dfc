r"""What a sumKL allows an attack: bounds on leak AUC and on error, and their inverses.

Two data-processing arguments, both without any model of the gradients. A pair (positive draw,
negative draw) against the swapped pair has divergence sumKL, and an attack orders the pair rightly
with probability AUC; comparing the two coins gives

.. math:: (2a - 1) \ln \frac{a}{1 - a} \le \mathrm{sumKL}.

A yes/no test with error rates averaging e gives :math:`2 (1 - 2e) \ln \frac{1-e}{e} \le
\mathrm{sumKL}`. Divergences of independent releases add, so for E releases put E times the sumKL.
"""

import math

from cutlayer import check

_NEWTON_STEPS = 60


def leak_auc_bound(sum_kl: float) -> float:
    r"""Largest leak AUC that any attack can reach at this sumKL.

    .. math:: \mathrm{AUC} \le \frac{1}{1 + e^{-z}}, \qquad z \tanh(z / 2) = \mathrm{sumKL}

    Holds for every sumKL, and is below :func:`paper_leak_auc_bound` wherever that one holds.

    Args:
        sum_kl: total sumKL of all releases of a record, in nats, at least 0; may be infinite.

    Returns:
        A leak AUC in [0.5, 1].

    Raises:
        ValueError: ``sum_kl`` is negative or NaN.

    >>> round(leak_auc_bound(1.049), 3)
    0.83
    """
    return _share(_log_odds_for(_checked(sum_kl)))


def sum_kl_for_leak_auc(leak_auc: float) -> float:
    r"""Largest sumKL that keeps every attack at ``leak_auc``: :math:`(2a-1) \ln(a/(1-a))`.

    Args:
        leak_auc: the leak AUC that no attack may exceed, in (0.5, 1).

    Returns:
        Nats, above 0; the inverse of :func:`leak_auc_bound`.

    Raises:
        ValueError: ``leak_auc`` is not in (0.5, 1).

    >>> round(sum_kl_for_leak_auc(0.75), 6)  # ln(3) / 2
    0.549306
    """
    check.between("leak_auc", leak_auc, 0.5, 1.0)
    # 2a - 1 is exact in floating point for a >= 0.5; log1p keeps digits where a is close to 0.5.
    advantage = 2 * leak_auc - 1
    return advantage * math.log1p(advantage / (1 - leak_auc))


def paper_leak_auc_bound(sum_kl: float) -> float:
    r"""The paper's bound on the leak AUC: :math:`1/2 + \sqrt\varepsilon/2 - \varepsilon/8`.

    Args:
        sum_kl: total sumKL, in nats, at least 0.

    Returns:
        A leak AUC in [0.5, 1]; 1, which says nothing, from 4 nats on.

    Raises:
        ValueError: ``sum_kl`` is negative or NaN.

    Source: `Li et al. (2022) <https://arxiv.org/abs/2102.08504>`_, theorem 1.

    >>> paper_leak_auc_bound(1.0)
    0.875
    """
    if _checked(sum_kl) >= 4:
        return 1.0
    return 0.5 + math.sqrt(sum_kl) / 2 - sum_kl / 8


def sum_kl_for_paper_leak_auc(leak_auc: float) -> float:
    r"""Largest sumKL at which the paper's bound is ``leak_auc``: :math:`4 (1 - \sqrt{2(1-a)})^2`.

    Args:
        leak_auc: a leak AUC in (0.5, 1).

    Returns:
        Nats in (0, 4); the inverse of :func:`paper_leak_auc_bound`.

    Raises:
        ValueError: ``leak_auc`` is not in (0.5, 1).

    >>> round(sum_kl_for_paper_leak_auc(0.875), 12)
    1.0
    """
    check.between("leak_auc", leak_auc, 0.5, 1.0)
    # 1 - sqrt(y) as (1 - y) / (1 + sqrt(y)), with 1 - y = 2a - 1 exact.
    root = (2 * leak_auc - 1) / (1 + math.sqrt(2 * (1 - leak_auc)))
    return 4 * root * root


def error_bound(sum_kl: float) -> float:
    r"""Smallest mean of the two error rates that any yes/no test can reach at this sumKL.

    .. math:: e \ge \frac{1}{1 + e^{z}}, \qquad 2 z \tanh(z / 2) = \mathrm{sumKL}

    Args:
        sum_kl: total sumKL of all releases of a record, in nats, at least 0; may be infinite.

    Returns:
        (false positive rate + false negative rate) / 2, in [0, 0.5]; 0.5 is a coin.

    Raises:
        ValueError: ``sum_kl`` is negative or NaN.
    """
    return _share(-_log_odds_for(_checked(sum_kl) / 2))


def sum_kl_for_error(min_error: float) -> float:
    r"""Largest sumKL that keeps every test's mean error at ``min_error`` or more.

    .. math:: 2 (1 - 2e) \ln \frac{1 - e}{e}

    Args:
        min_error: mean of false positive and false negative rate, in (0, 0.5).

    Returns:
        Nats, above 0; the inverse of :func:`error_bound`.

    Raises:
        ValueError: ``min_error`` is not in (0, 0.5).

    >>> round(sum_kl_for_error(0.25), 6)  # ln(3)
    1.098612
    """
    check.between("min_error", min_error, 0.0, 0.5)
    advantage = 1 - 2 * min_error
    return 2 * advantage * math.log1p(advantage / min_error)


_SATURATED = 100.0
"""Beyond this, tanh(z / 2) is 1 to the last digit, and z equals the divergence."""


def _checked(sum_kl: float) -> float:
    """Require a number of at least 0; infinity is allowed."""
    if not sum_kl >= 0:
        raise ValueError(f"sum_kl must be at least 0, got {sum_kl!r}.")
    return sum_kl


def _log_odds_for(divergence: float) -> float:
    """Solve z tanh(z/2) = divergence for z >= 0, by Newton from above (the left side is convex)."""
    if divergence == 0 or divergence > _SATURATED:
        return divergence
    # z tanh(z/2) lies between z - 1 and z**2 / 2, and above z**2 / (2 + z).
    log_odds = (divergence + math.sqrt(divergence * (divergence + 8))) / 2
    for _ in range(_NEWTON_STEPS):
        half_tanh = math.tanh(log_odds / 2)
        slope = half_tanh + log_odds / 2 * (1 - half_tanh * half_tanh)
        step = (log_odds * half_tanh - divergence) / slope
        log_odds -= step
        if abs(step) <= 1e-16 * log_odds:
            break
    return log_odds


def _share(log_odds: float) -> float:
    """The probability with these log odds, without overflow."""
    if log_odds >= 0:
        return 1 / (1 + math.exp(-log_odds))
    grown = math.exp(log_odds)
    return grown / (1 + grown)
