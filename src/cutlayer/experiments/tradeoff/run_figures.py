"""Figures of single runs: leak over the steps, and norms and cosines of each class."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cutlayer.audits import GradientHistogram, StepCurve
from cutlayer.audits.scope import Layer
from cutlayer.experiments.tradeoff.drawing import Drawing
from cutlayer.experiments.tradeoff.grid import Run
from cutlayer.experiments.tradeoff.result import Details, read_details
from cutlayer.experiments.tradeoff.summary import LAYERS, Point, Summary
from cutlayer.experiments.tradeoff.utility_curves import mark_index
from cutlayer.reports.svg import mark, quiet
from cutlayer.reports.wording import LAYER_NAMES

_MOST_POINTS = 120
_FAINTEST = 0.35

Detailed = list[tuple[Point, Details]]


def run_drawings(summary: Summary, folder: Path) -> list[Drawing]:
    """Leak-progress curves and distributions, of the first seed that ended for each point.

    Raises:
        DataError: a file of a run is damaged.
    """
    found: Detailed = []
    for point in summary.points:
        details = read_details(folder, Run(point.spec, point.results[0].seed))
        if details is not None:
            found.append((point, details))
    layers = [
        layer
        for layer in LAYERS
        if any(curve.layer == layer for _, details in found for curve in details.curves)
    ]
    if not layers:
        return []
    return [
        _progress(summary, found, layers),
        *(_distributions(summary, found, layer) for layer in layers),
    ]


def shade(point: Point, rivals: Sequence[Point]) -> float:
    """How opaque a point's line is among those of its protection; the strongest is fully so."""
    if len(rivals) < 2:
        return 1.0
    return _FAINTEST + (1 - _FAINTEST) * rivals.index(point) / (len(rivals) - 1)


def _progress(summary: Summary, found: Detailed, layers: Sequence[Layer]) -> Drawing:
    """Leak of the norm and the cosine attack over the steps."""

    def draw(figure: Figure, band: str) -> None:
        grid = figure.subplots(len(layers), 2, sharex=True, sharey=True, squeeze=False)
        for axes_row, layer in zip(grid, layers, strict=True):
            for axes, attack in zip(axes_row, ("norm", "cosine"), strict=True):
                for index, (point, details) in enumerate(found):
                    curve = _curve(details, attack, layer)
                    if index == 0 and curve.step:
                        axes.fill_between(
                            curve.step, 0.5, curve.null_floor, color=band, linewidth=0
                        )
                    _draw_curve(axes, curve, point, summary)
                axes.set_ylim(0.48, 1.02)
                axes.set_title(f"{attack}, {LAYER_NAMES[layer]}", loc="left", fontsize=9)
                quiet(axes)
        for axes in grid[-1]:
            axes.set_xlabel("step")
        for axes in grid[:, 0]:
            axes.set_ylabel("leak AUC")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)

    return Drawing(
        "progress",
        "Leak AUC over the steps",
        f"Norm and cosine attack on {len(found)} protections, first seed.",
        f"{summary.configuration.title}: one run for each protection, the first seed that ended. "
        "Each attacked batch is one release; where there are many, medians of neighbours. The grey "
        "band is the null floor of one batch, below which 95 % of attackers who know nothing stay.",
        9.5,
        0.9 + 2.6 * len(layers),
        draw,
    )


def _draw_curve(axes: Axes, curve: StepCurve, point: Point, summary: Summary) -> None:
    """One protection's leak; medians of neighbouring steps where there are many."""
    style = mark(mark_index(point.protection, summary.protections))
    blocks = min(_MOST_POINTS, len(curve.step))
    if not blocks:
        return
    steps = [float(np.median(part)) for part in np.array_split(np.array(curve.step), blocks)]
    leaks = [float(np.median(part)) for part in np.array_split(np.array(curve.leak_auc), blocks)]
    axes.plot(
        steps,
        leaks,
        color=style.colour,
        linestyle=style.dash,
        marker=style.marker,
        markersize=4,
        markevery=max(1, blocks // 6),
        linewidth=1.3,
        alpha=shade(point, summary.of(point.protection)),
        label=point.label,
    )


def _distributions(summary: Summary, found: Detailed, layer: Layer) -> Drawing:
    """Norms and cosines of each class, a row for each protection."""

    def draw(figure: Figure, _: str) -> None:
        grid = figure.subplots(len(found), 2, squeeze=False)
        for axes_row, (point, details) in zip(grid, found, strict=True):
            for axes, quantity in zip(axes_row, ("norm", "cosine"), strict=True):
                _draw_histogram(axes, _histogram(details, quantity, layer))
                axes.set_title(point.label, loc="left", fontsize=9)
            axes_row[0].set_ylabel("share of class")
        grid[-1, 0].set_xlabel("norm / largest of the batch")
        grid[-1, 1].set_xlabel("cosine with a known positive")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)

    return Drawing(
        f"distributions-{layer}",
        f"Gradient norms and cosines of each class at the {LAYER_NAMES[layer]}",
        "Shares of each class; negatives are filled, positives hatched.",
        f"{summary.configuration.title}: one run for each protection, the first seed that ended. "
        "Heights are shares of a class, over all attacked batches.",
        7.5,
        0.8 + 1.5 * len(found),
        draw,
    )


def _draw_histogram(axes: Axes, histogram: GradientHistogram) -> None:
    """One quantity of both classes, filled and hatched."""
    filled, hatched = mark(0).colour, mark(1).colour
    axes.stairs(
        histogram.negative, histogram.edges, fill=True, color=filled, alpha=0.4, label="negative"
    )
    axes.stairs(
        histogram.positive,
        histogram.edges,
        fill=True,
        facecolor="none",
        edgecolor=hatched,
        hatch="////",
        label="positive",
    )
    axes.set_xlim(histogram.edges[0], histogram.edges[-1])
    axes.locator_params(nbins=5)
    quiet(axes)


def _curve(details: Details, attack: str, layer: Layer) -> StepCurve:
    """One attack's curve at a layer; every run has one for each."""
    return next(c for c in details.curves if c.attack == attack and c.layer == layer)


def _histogram(details: Details, quantity: str, layer: Layer) -> GradientHistogram:
    """One quantity's histogram at a layer."""
    return next(h for h in details.histograms if h.quantity == quantity and h.layer == layer)
