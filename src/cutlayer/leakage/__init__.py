"""Leakage: how a leak is measured, and what bounds it."""

from cutlayer.leakage.auc_interval import (
    Interval,
    auc_interval,
    delong_variance,
    median_interval,
    true_positive_rate,
)
from cutlayer.leakage.exact_auc import exact_auc
from cutlayer.leakage.gaussian_mechanism import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_leak_auc,
    gaussian_mu,
    gaussian_true_positive_rate,
    sigma_for_leak_auc,
)
from cutlayer.leakage.guarantee import Guarantee, nothing_proven
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from cutlayer.leakage.null_floor import median_null_floor, null_deviation, null_floor
from cutlayer.leakage.sum_kl import sum_kl
from cutlayer.leakage.sum_kl_bounds import (
    error_bound,
    leak_auc_bound,
    paper_leak_auc_bound,
    sum_kl_for_error,
    sum_kl_for_leak_auc,
    sum_kl_for_paper_leak_auc,
)

__all__ = [
    "Guarantee",
    "Interval",
    "auc_interval",
    "delong_variance",
    "error_bound",
    "exact_auc",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_leak_auc",
    "gaussian_mu",
    "gaussian_true_positive_rate",
    "leak_auc",
    "leak_auc_bound",
    "median_interval",
    "median_null_floor",
    "nothing_proven",
    "null_deviation",
    "null_floor",
    "paper_leak_auc_bound",
    "sigma_for_leak_auc",
    "sum_kl",
    "sum_kl_for_error",
    "sum_kl_for_leak_auc",
    "sum_kl_for_paper_leak_auc",
    "symmetrised",
    "true_positive_rate",
]
