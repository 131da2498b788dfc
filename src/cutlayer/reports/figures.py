"""Figures of what the gradients gave away: leak over the steps, gradients by class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from cutlayer.audits.scope import Layer
from cutlayer.findings.document import ClassHistogram, FindingRow, Findings, LeakCurve
from cutlayer.reports.phrases import number
from cutlayer.reports.summary import (
    Target,
    Visits,
    attacks_of,
    by_protection,
    label,
    layers_of,
    worst_first,
)
from cutlayer.reports.svg import CHANCE, INK, MARKS, Canvas, mark, quiet
from cutlayer.reports.wording import LAYER_NAMES, TARGET_NAMES

_MANY_STEPS = 40
"""Above this number of steps a running median is drawn, and the single steps are faint."""

_MOST_POINTS = 240
"""Points that one line may have; longer trainings are drawn by evenly spaced medians."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """One figure of several that are read side by side."""

    heading: str
    svg: str


def attack_swatches(findings: Findings) -> list[Panel]:
    """A short stroke for each attack, as in :func:`leak_curves`: the key to its lines."""
    panels = []
    for index, attack in enumerate(drawn_attacks(findings)):
        style = mark(index)
        with Canvas(f"key-{index}", 0.7, 0.2) as canvas:
            axes = canvas.figure.subplots()
            axes.axis("off")
            axes.plot([0, 1], [0, 0], color=style.colour, linestyle=style.dash, linewidth=1.8)
            axes.plot([0.5], [0], color=style.colour, marker=style.marker, markersize=5)
        panels.append(Panel(attack, canvas.svg(f"Line of {attack}", "")))
    return panels


def drawn_attacks(findings: Findings) -> list[str]:
    """The attacks whose lines are drawn: those with curves that read most, in the order of rows."""
    with_curves = {curve.attack for curve in findings.curves}
    ranked = [a for a in worst_first(findings, by_protection(findings)) if a in with_curves]
    kept = set(ranked[: len(MARKS)])
    return [attack for attack in attacks_of(findings) if attack in kept]


def leak_visits(findings: Findings) -> list[Panel]:
    """Leak AUC against visits of a record: the worst attack after each count, with its bound.

    One panel for each protection that was measured after several numbers of epochs. The single
    attacks are thin lines, the worst of them the thick one; the bound is a dashed line, the null
    floor a grey band.
    """
    panels = []
    for index, summary in enumerate(by_protection(findings)):
        series = summary.visits("cut")
        counts = sorted({row.epochs for one in series for row in one.rows if row.epochs})
        if len(counts) < 2:
            continue
        with Canvas(f"visits-{index}", 4.6, 2.3) as canvas:
            axes = canvas.figure.subplots()
            worst, bounds = _draw_visits(axes, series, counts)
        readings = ", ".join(
            f"{number(leak)} after {count}" for count, leak in zip(counts, worst, strict=True)
        )
        limits = [f"{number(b)} after {c}" for c, b in zip(counts, bounds, strict=True) if b]
        bound = f" Bound: {', '.join(limits)}." if limits else " No bound."
        title = f"Leak AUC against visits: {summary.label}"
        description = f"Worst attack: {readings} epochs.{bound}"
        panels.append(Panel(summary.label, canvas.svg(title, description)))
    return panels


def _draw_visits(
    axes: Axes, series: Sequence[Visits], counts: list[int]
) -> tuple[list[float], list[float | None]]:
    """Draw all attacks on one protection; the worst leak and the bound after each count."""
    at: dict[int, list[FindingRow]] = {count: [] for count in counts}
    for one in series:
        for row in one.rows:
            at[row.epochs or 0].append(row)
        steps = [row.epochs or 0 for row in one.rows]
        values = [row.leak_auc or 0.5 for row in one.rows]
        axes.plot(steps, values, color=mark(0).colour, alpha=0.3, linewidth=0.7)
    strongest = [max(at[count], key=lambda row: row.leak_auc or 0.0) for count in counts]
    worst = [row.leak_auc or 0.5 for row in strongest]
    bounds = [row.guarantee.leak_auc for row in strongest]
    floors = [row.null_floor or 0.5 for row in strongest]
    axes.fill_between(counts, 0.5, floors, color=CHANCE, linewidth=0)
    low = [row.leak_auc_low or row.leak_auc or 0.5 for row in strongest]
    high = [row.leak_auc_high or row.leak_auc or 0.5 for row in strongest]
    axes.fill_between(counts, low, high, color=mark(1).colour, alpha=0.2, linewidth=0)
    axes.plot(counts, worst, color=mark(1).colour, linewidth=2, marker="o", markersize=5)
    stated = [(count, bound) for count, bound in zip(counts, bounds, strict=True) if bound]
    if stated:
        axes.plot(*zip(*stated, strict=True), color=INK, linewidth=1.3, linestyle=(0, (4, 2)))
    axes.set_ylim(0.48, 1.02)
    axes.set_xscale("log")
    axes.set_xticks(counts, labels=[str(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("epochs, each a visit of every record")
    axes.set_ylabel("leak AUC")
    quiet(axes)
    return worst, bounds


def leak_curves(findings: Findings, target: Target = "labels") -> list[Panel]:
    """Leak AUC of every attack over the steps, one panel for each protection.

    Each panel has the cut layer above and the first layer, where it was measured, below, with
    the null floor as a grey band. Empty where the document holds no curve on this target.
    """
    of_target = [curve for curve in findings.curves if curve.target == target]
    keys = dict.fromkeys((c.protection, c.strength) for c in of_target)
    attacks, layers = drawn_attacks(findings), layers_of(findings)
    panels = []
    for index, key in enumerate(keys):
        curves = [c for c in of_target if (c.protection, c.strength) == key and c.attack in attacks]
        heading = label(*key)
        shown = [layer for layer in layers if any(curve.layer == layer for curve in curves)]
        with Canvas(f"{target}-{index}", 4.6, 0.4 + 1.9 * len(shown)) as canvas:
            grid = canvas.figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
            for axes, layer in zip(grid, shown, strict=True):
                _draw_curves(axes, [c for c in curves if c.layer == layer], attacks, layer)
            grid[-1].set_xlabel("step")
        medians = ", ".join(
            f"{curve.attack} at the {LAYER_NAMES[curve.layer]} {number(float(np.median(values)))}"
            for curve in curves
            if (values := curve.leak_auc)
        )
        name = f"Leak AUC over the steps against the {TARGET_NAMES[target]}"
        description = f"Median leak AUC over the steps: {medians}." if medians else "No step."
        panels.append(Panel(heading, canvas.svg(f"{name}: {heading}", description)))
    return panels


def class_histograms(findings: Findings, layer: Layer) -> list[Panel]:
    """Gradient norms and cosines of each class, one panel for each protection."""
    of_layer = [h for h in findings.histograms if h.layer == layer]
    keys = dict.fromkeys((h.protection, h.strength) for h in of_layer)
    panels = []
    for index, key in enumerate(keys):
        shown = [h for h in of_layer if (h.protection, h.strength) == key]
        shown.sort(key=lambda histogram: histogram.quantity, reverse=True)  # norm, then cosine
        heading = label(*key)
        with Canvas(f"histograms-{layer}-{index}", 4.6, 1.9) as canvas:
            grid = canvas.figure.subplots(1, len(shown), squeeze=False)[0]
            for axes, histogram in zip(grid, shown, strict=True):
                _draw_histogram(axes, histogram)
            grid[0].set_ylabel("share of class")
        overlaps = "; ".join(
            f"{h.quantity}: the classes share {_overlap(h):.0%} of their mass" for h in shown
        )
        name = f"Gradients by class at the {LAYER_NAMES[layer]}: {heading}"
        panels.append(Panel(heading, canvas.svg(name, f"{overlaps}.")))
    return panels


def class_swatches() -> list[Panel]:
    """The key to :func:`class_histograms`: hatched for positives, filled for negatives."""
    panels = []
    for index, name in enumerate(("positive", "negative")):
        with Canvas(f"class-{index}", 0.4, 0.2) as canvas:
            axes = canvas.figure.subplots()
            axes.axis("off")
            _stairs(axes, [1.0], [0.0, 1.0], positive=name == "positive")
            # Room for the outline, which is drawn on both sides of the edge.
            axes.set_xlim(-0.15, 1.15)
            axes.set_ylim(-0.3, 1.3)
        panels.append(Panel(name, canvas.svg(f"Bars of the {name} class", "")))
    return panels


def _draw_curves(axes: Axes, curves: Sequence[LeakCurve], attacks: list[str], layer: Layer) -> None:
    """All attacks on one protection at one layer."""
    axes.set_ylim(0.48, 1.02)
    axes.set_yticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    axes.set_title(LAYER_NAMES[layer], loc="left", fontsize=10)
    axes.set_ylabel("leak AUC")
    quiet(axes)
    drawn = [curve for curve in curves if curve.step]
    if drawn:
        step, floor = _thinned(drawn[0].step, drawn[0].null_floor)
        axes.fill_between(step, 0.5, floor, color=CHANCE, linewidth=0)
    for curve in drawn:
        style = mark(attacks.index(curve.attack))
        raw_step, raw = _thinned(curve.step, curve.leak_auc)
        step, line = raw_step, raw
        if len(curve.step) > _MANY_STEPS:
            axes.plot(raw_step, raw, color=style.colour, alpha=0.28, linewidth=0.7)
            line = _running_median(raw)
        axes.plot(
            step,
            line,
            color=style.colour,
            linestyle=style.dash,
            linewidth=1.8,
            marker=style.marker,
            markersize=5,
            # Begin at another step for each attack, so that markers on one height do not hide.
            markevery=(attacks.index(curve.attack) * len(step) // 40, max(1, len(step) // 6)),
        )


def _draw_histogram(axes: Axes, histogram: ClassHistogram) -> None:
    """One quantity of both classes."""
    _stairs(axes, histogram.negative, histogram.edges, positive=False)
    _stairs(axes, histogram.positive, histogram.edges, positive=True)
    norm = histogram.quantity == "norm"
    axes.set_xlabel("norm / largest" if norm else "cosine with a positive")
    axes.set_xlim(histogram.edges[0], histogram.edges[-1])
    axes.set_ylim(bottom=0)
    axes.locator_params(nbins=5)
    quiet(axes)


def _stairs(axes: Axes, shares: list[float], edges: list[float], *, positive: bool) -> None:
    """Bars of one class: negatives filled, positives hatched, both outlined."""
    colour = mark(1 if positive else 0).colour
    if positive:
        axes.stairs(shares, edges, fill=True, facecolor="none", edgecolor=colour, hatch="////")
    else:
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.4, linewidth=0)
    axes.stairs(shares, edges, color=colour, linewidth=1.3)


def _running_median(series: Array) -> Array:
    """Median over a window of a tenth of the training; narrower at both ends."""
    half = max(2, len(series) // 20)
    windows = (series[max(0, i - half) : i + half + 1] for i in range(len(series)))
    return np.array([np.median(window) for window in windows])


def _thinned(step: Sequence[int], values: Sequence[float]) -> tuple[Array, Array]:
    """At most :data:`_MOST_POINTS` points: medians of blocks of neighbouring steps."""
    all_steps, all_values = np.asarray(step, np.float64), np.asarray(values, np.float64)
    if len(step) <= _MOST_POINTS:
        return all_steps, all_values
    steps = np.array_split(all_steps, _MOST_POINTS)
    blocks = np.array_split(all_values, _MOST_POINTS)
    return np.array([np.median(s) for s in steps]), np.array([np.median(b) for b in blocks])


def _overlap(histogram: ClassHistogram) -> float:
    """The share of mass that both classes have in common, in [0, 1]."""
    return float(np.minimum(histogram.positive, histogram.negative).sum())
