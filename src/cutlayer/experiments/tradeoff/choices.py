"""What each protection costs and what it leaves: for somebody who has to choose."""

from collections.abc import Sequence
from dataclasses import dataclass

from cutlayer.audits.scope import Layer
from cutlayer.experiments.tradeoff.summary import (
    WORST,
    Estimate,
    Point,
    Statistic,
    Summary,
    attack_names,
    estimate,
)
from cutlayer.protections import NoNoise

_LAYER: Layer = "cut"
"""Where the messages are; what they leak at the first layer comes from them."""


@dataclass(frozen=True)
class Leak:
    """What the worst attack reaches."""

    leak_auc: Estimate
    """Of the worst attack of each run."""
    attack: str
    """The one with the highest mean over runs."""


@dataclass(frozen=True)
class Choice:
    """One protection at one strength, to be weighed against the others."""

    point: Point
    cost: Estimate | None
    """Test AUC of ``no_noise`` less its own; see :func:`cost_in_test_auc`."""
    one_release: Leak | None
    whole_training: Leak | None
    bound: float | None
    """On the leak AUC of every attack on the whole training, all epochs; ``None`` unless proven."""


def choices_of(summary: Summary) -> list[Choice]:
    """Every protection that has a result, in the order of the configuration."""
    return [
        Choice(
            point,
            cost_in_test_auc(summary, point),
            _worst(point, summary.headline),
            _worst(point, "all_releases"),
            _proven(summary, point),
        )
        for point in summary.points
    ]


def cost_in_test_auc(summary: Summary, point: Point) -> Estimate | None:
    """What a protection costs in test AUC.

    A seed fixes split, first weights and batch order for every protection, so that the difference
    of two runs with one seed is free of the luck of the split, which is most of the interval of a
    test AUC by itself.

    Args:
        summary: of the sweep.
        point: the protection.

    Returns:
        Test AUC of ``no_noise`` less its own, mean over the seeds that both have; ``None`` for
        ``no_noise`` itself and where there is no such seed.
    """
    bare = {
        result.seed: result.test_auc
        for other in summary.points
        if other.protection == NoNoise.name
        for result in other.results
    }
    if point.protection == NoNoise.name:
        return None
    costs = [bare[r.seed] - r.test_auc for r in point.results if r.seed in bare]
    return estimate(costs) if costs else None


def _worst(point: Point, statistic: Statistic) -> Leak | None:
    """The worst of the suite, and which attack it mostly is."""
    worst = point.leak(WORST, _LAYER, statistic)
    if worst is None:
        return None
    return Leak(worst, max(_measured(point, statistic), key=lambda found: found[0])[1])


def _measured(point: Point, statistic: Statistic) -> Sequence[tuple[float, str]]:
    """Mean and name of each attack."""
    leaks = [(point.leak(name, _LAYER, statistic), name) for name in attack_names()]
    return [(leak.mean, name) for leak, name in leaks if leak is not None and name != WORST]


def _proven(summary: Summary, point: Point) -> float | None:
    """The rigorous bound for as many releases as there are epochs."""
    configuration = summary.configuration
    guarantee = configuration.protection(point.spec).guarantee(configuration.epochs)
    return guarantee.leak_auc if guarantee.kind == "rigorous" else None
