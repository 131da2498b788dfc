"""The summary of a sweep: mean and interval over seeds, recomputed from the results on disk."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from scipy.stats import t as student

from cutlayer.attacks import ATTACKS, runnable
from cutlayer.audits.scope import Layer
from cutlayer.errors import DataError
from cutlayer.experiments.tradeoff.configuration import TradeoffConfiguration
from cutlayer.experiments.tradeoff.grid import specs_of
from cutlayer.experiments.tradeoff.result import (
    AttackResult,
    Failure,
    RunResult,
    read_failure,
    read_result,
)

Statistic = Literal["median", "p95", "all_releases"]
Quality = Literal["test_auc", "test_loss", "train_auc", "train_loss"]
QUALITIES: tuple[Quality, ...] = ("test_auc", "test_loss", "train_auc", "train_loss")
STATISTICS: tuple[Statistic, ...] = ("median", "p95", "all_releases")
LAYERS: tuple[Layer, ...] = ("cut", "first")
WORST = "worst"
"""In place of an attack: the highest of the whole suite, run by run."""

MIN_SEEDS = 3
"""From so many on, an interval of the mean is stated."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    low: float | None
    """Lower end of the 95 % interval of the mean by Student's t. Of two seeds that would be 13
    times as long as their distance, and say nothing: then the lower value. ``None`` for one."""
    high: float | None
    """Upper end, or the higher of two values."""
    seeds: int

    @property
    def is_interval(self) -> bool:
        """Whether :attr:`low` and :attr:`high` are a confidence interval, and not a mere range."""
        return self.seeds >= MIN_SEEDS


@dataclass(frozen=True)
class Point:
    """One protection at one strength, over its seeds."""

    spec: str
    protection: str
    strength: str
    results: tuple[RunResult, ...]

    @property
    def label(self) -> str:
        """Name and strength."""
        return self.protection if self.strength == "-" else f"{self.protection} {self.strength}"

    @property
    def value(self) -> float | None:
        """The strength as a number; ``None`` where there is none."""
        found = re.search(r"=([\d.eE+-]+)", self.strength)
        return float(found[1]) if found else None

    def quality(self, name: Quality) -> Estimate:
        """Test or training AUC or loss."""
        return estimate([getattr(result, name) for result in self.results])

    @property
    def test_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the test AUC of one seed: the mean of both ends over the seeds."""
        low = [r.test_auc_low for r in self.results if r.test_auc_low is not None]
        high = [r.test_auc_high for r in self.results if r.test_auc_high is not None]
        return (fmean(low), fmean(high)) if len(low) == len(high) == len(self.results) else None

    @property
    def base_loss(self) -> float | None:
        """Test loss of the share of positives alone, a mean over the seeds."""
        known = [r.base_loss for r in self.results if r.base_loss is not None]
        return fmean(known) if len(known) == len(self.results) else None

    def leak(self, attack: str, layer: Layer, statistic: Statistic) -> Estimate | None:
        """Leak AUC of one attack, or of :data:`WORST`; ``None`` where no run measured it."""
        values = [v for r in self.results if (v := _leak(r, attack, layer, statistic)) is not None]
        return estimate(values) if values else None

    def floor(self, layer: Layer, statistic: Statistic) -> float | None:
        """The null floor of the attacks at a layer, a mean over runs and attacks."""
        name = f"{statistic}_floor"
        found = [
            value
            for result in self.results
            for attack in result.attacks
            if attack.layer == layer and (value := getattr(attack, name)) is not None
        ]
        return fmean(found) if found else None


@dataclass(frozen=True)
class Summary:
    """Everything that figures and tables show."""

    configuration: TradeoffConfiguration
    points: tuple[Point, ...]
    """Protections with a result, in the order of the configuration."""
    failures: tuple[Failure, ...]
    runs: int
    """Of the whole grid."""

    @property
    def headline(self) -> Statistic:
        """What one release leaks, as the protocol has it."""
        return headline_of(self.configuration)

    @property
    def done(self) -> int:
        """Runs with a result."""
        return sum(len(point.results) for point in self.points)

    @property
    def protections(self) -> list[str]:
        """Names, each once."""
        return list(dict.fromkeys(point.protection for point in self.points))

    def of(self, protection: str) -> list[Point]:
        """The points of one protection, weakest first."""
        found = [point for point in self.points if point.protection == protection]
        return sorted(found, key=lambda point: point.value or 0.0)


def headline_of(configuration: TradeoffConfiguration) -> Statistic:
    """What one release leaks: a median over batches, or the paper's 95th percentile."""
    return "p95" if configuration.paper_protocol else "median"


def summarise(configuration: TradeoffConfiguration, folder: Path) -> Summary:
    """Read every result and failure of a sweep.

    Raises:
        DataError: no run has ended with a result or a failure, or a file is damaged.
    """
    runs = configuration.runs
    failures = [f for run in runs if (f := read_failure(folder, run)) is not None]
    results = [r for run in runs if (r := read_result(folder, run)) is not None]
    if not results and not failures:
        raise DataError(f"{folder}: no run has ended yet, so there is nothing to show.")
    points = []
    for spec in specs_of(configuration.protections):
        own = tuple(result for result in results if result.spec == spec)
        if own:
            points.append(Point(spec, own[0].protection, own[0].strength, own))
    return Summary(configuration, tuple(points), tuple(failures), len(runs))


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % interval; of two values their range.

    Args:
        values: one for each seed, at least one.

    >>> e = estimate([0.5, 0.6, 0.7])  # sd .1, by root 3, times t(0.975, 2 degrees) = 4.303
    >>> round(e.mean, 3), round(e.high - e.mean, 3)
    (0.6, 0.248)
    """
    mean, seeds = fmean(values), len(values)
    if seeds < 2:
        return Estimate(mean, None, None, seeds)
    if seeds < MIN_SEEDS:
        return Estimate(mean, min(values), max(values), seeds)
    half = float(student.ppf((1 + _CONFIDENCE) / 2, seeds - 1)) * stdev(values) / math.sqrt(seeds)
    return Estimate(mean, mean - half, mean + half, seeds)


def attack_names() -> list[str]:
    """All attacks, and the worst of them."""
    return [*runnable(ATTACKS, known=("hint",)), WORST]


def _leak(result: RunResult, attack: str, layer: Layer, statistic: Statistic) -> float | None:
    """One run's leak AUC; the highest of all attacks for :data:`WORST`."""
    chosen: Iterable[AttackResult] = (a for a in result.attacks if a.layer == layer)
    if attack != WORST:
        chosen = (a for a in chosen if a.attack == attack)
    return max((v for a in chosen if (v := getattr(a, statistic)) is not None), default=None)
