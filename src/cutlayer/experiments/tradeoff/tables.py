"""Tables of a sweep as CSV files: one of every run, one of means over seeds, one of claims."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cutlayer.durable import whole_file
from cutlayer.experiments.tradeoff.choices import choices_of
from cutlayer.experiments.tradeoff.claims import claims_of
from cutlayer.experiments.tradeoff.published import published_points
from cutlayer.experiments.tradeoff.summary import (
    LAYERS,
    QUALITIES,
    STATISTICS,
    WORST,
    Estimate,
    Summary,
    attack_names,
)

RUNS_FILE, SUMMARY_FILE, CLAIMS_FILE = "runs.csv", "summary.csv", "claims.csv"
PUBLISHED_FILE = "published.csv"

_SUMMARY_HEADER = (
    *("protection", "strength", "quantity", "attack", "layer", "statistic"),
    *("mean", "low", "high", "null_floor", "seeds"),
)

Cell = str | int | float | None
_BESIDE = ("test_auc_low", "test_auc_high", "base_loss")
"""What a test AUC and a test loss are read beside."""


def write_tables(summary: Summary, folder: Path) -> list[Path]:
    """Write every table; old ones are replaced.

    ``runs.csv`` has a line for each run, failed ones with their error. ``summary.csv`` has a line
    for each protection and quantity: mean over seeds, 95 % interval of the mean (with two seeds
    their range), null floor (of one attack, so none for the worst of all); ``test_auc_cost`` is
    what the protection costs.
    """
    written = [
        _write(folder / RUNS_FILE, _run_header(), _run_rows(summary)),
        _write(folder / SUMMARY_FILE, _SUMMARY_HEADER, _summary_rows(summary)),
        _write(
            folder / CLAIMS_FILE,
            ["claim", "measured", "verdict"],
            ([c.claim, c.measured, c.verdict] for c in claims_of(summary)),
        ),
    ]
    if summary.configuration.published is not None:
        points = published_points(summary.configuration.published)
        header = ["protection", "strength", "test_auc", "norm_p95", "cosine_p95"]
        rows = ([getattr(point, name) for name in header] for point in points)
        written.append(_write(folder / PUBLISHED_FILE, header, rows))
    return written


def _run_header() -> list[str]:
    """Columns of the runs' table."""
    leaks = [
        f"{attack}_{layer}_{statistic}"
        for layer in LAYERS
        for attack in attack_names()
        for statistic in STATISTICS
    ]
    return ["protection", "strength", "seed", "state", "error", *QUALITIES, *_BESIDE, *leaks]


def _run_rows(summary: Summary) -> Iterable[list[Cell]]:
    """Results first, then failures."""
    for point in summary.points:
        for result in point.results:
            alone = replace(point, results=(result,))
            row: list[Cell] = [point.protection, point.strength, result.seed, "done", ""]
            row += [getattr(result, name) for name in (*QUALITIES, *_BESIDE)]
            for layer in LAYERS:
                for attack in attack_names():
                    leaks = (alone.leak(attack, layer, statistic) for statistic in STATISTICS)
                    row += [None if leak is None else leak.mean for leak in leaks]
            yield row
    for failure in summary.failures:
        name, _, strength = failure.spec.partition(":")
        yield [name, strength or "-", failure.seed, "failed", failure.error]


def _summary_rows(summary: Summary) -> Iterable[list[Cell]]:
    """Quality and its price, then every attack at every layer."""
    for choice in choices_of(summary):
        point = choice.point
        label: list[Cell] = [point.protection, point.strength]
        for name in QUALITIES:
            yield [*label, name, "", "", "", *_cells(point.quality(name), None)]
        if choice.cost is not None:
            yield [*label, "test_auc_cost", "", "", "", *_cells(choice.cost, None)]
        for layer in LAYERS:
            for attack in attack_names():
                for statistic in STATISTICS:
                    leak = point.leak(attack, layer, statistic)
                    if leak is not None:
                        # The highest of many attacks exceeds the floor of one by chance alone.
                        floor = None if attack == WORST else point.floor(layer, statistic)
                        cells = _cells(leak, floor)
                        yield [*label, "leak_auc", attack, layer, statistic, *cells]


def _cells(estimate: Estimate, floor: float | None) -> list[Cell]:
    """Mean, interval, floor and number of seeds."""
    return [estimate.mean, estimate.low, estimate.high, floor, estimate.seeds]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Path:
    """Write one table whole or not at all."""
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path
