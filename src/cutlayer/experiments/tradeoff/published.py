"""The published points: what Li et al. (2022) measured on three data sets."""

import csv
from dataclasses import dataclass
from importlib.resources import files

FILE = "paper_tradeoff.csv"


@dataclass(frozen=True)
class PublishedPoint:
    """One operating point of the paper, read off its authors' notebooks and plots."""

    dataset: str
    protection: str
    strength: float | None
    """``s`` of Marvell, ``t`` of isotropic; ``None`` where there is none."""
    test_auc: float | None
    """Best over the evaluations of a run; ``None`` where it was not printed."""
    norm_p95: float | None
    """95th percentile of the norm attack's leak AUC at the cut layer."""
    cosine_p95: float | None


def published_points(dataset: str) -> list[PublishedPoint]:
    """The points of one data set, in the order of their strength.

    Args:
        dataset: ``criteo``, ``avazu`` or ``isic``.

    >>> [p.cosine_p95 for p in published_points("criteo") if p.protection == "no_noise"]
    [1.0]
    """
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    points = [_point(row) for row in csv.DictReader(text.splitlines()) if row["dataset"] == dataset]
    return sorted(points, key=lambda point: (point.protection, point.strength or 0.0))


def _point(row: dict[str, str]) -> PublishedPoint:
    """One line of the file. Its strength of isotropic is the authors' ``ratio``, the root of t."""
    strength = _number(row["strength"])
    if strength is not None and row["protection"] == "isotropic":
        strength = strength**2
    return PublishedPoint(
        dataset=row["dataset"],
        protection=row["protection"],
        strength=strength,
        test_auc=_number(row["best_test_auc"]),
        norm_p95=_number(row["norm_leak_auc_p95"]),
        cosine_p95=_number(row["cosine_leak_auc_p95"]),
    )


def _number(text: str) -> float | None:
    """A cell; empty where the authors gave no value."""
    return float(text) if text else None
