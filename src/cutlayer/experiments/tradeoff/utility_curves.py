"""Privacy-utility curves: what a strength costs in prediction, against what it hides."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cutlayer.audits.scope import Layer
from cutlayer.experiments.tradeoff.drawing import Drawing
from cutlayer.experiments.tradeoff.published import PublishedPoint, published_points
from cutlayer.experiments.tradeoff.summary import (
    MIN_SEEDS,
    WORST,
    Estimate,
    Quality,
    Statistic,
    Summary,
)
from cutlayer.reports.svg import mark, quiet
from cutlayer.reports.wording import LAYER_NAMES

COLOURS = ("no_noise", "marvell", "isotropic", "max_norm", "residual")
"""Protections with a mark of their own, the same in every figure."""
QUALITY_NAMES: dict[Quality, str] = {
    "test_loss": "test loss",
    "test_auc": "test AUC",
    "train_loss": "training loss",
    "train_auc": "training AUC",
}
STATISTIC_NAMES: dict[Statistic, str] = {
    "median": "one release, median",
    "p95": "one release, 95th percentile",
    "all_releases": "whole training",
}
SUITE = (WORST, "tail_energy", "first_component", "majority_count")
_LABEL_PLACES = ((4, 3), (4, -9), (-4, 3), (-4, -9))
"""Where a strength stands beside its point, in points; another place for each protection."""


@dataclass(frozen=True)
class Series:
    """One protection's points, weakest first."""

    protection: str
    labels: tuple[str, ...]
    leak: tuple[Estimate, ...]
    quality: tuple[Estimate, ...]


def series_of(
    summary: Summary, attack: str, layer: Layer, statistic: Statistic, quality: Quality
) -> list[Series]:
    """What one panel shows, protection by protection; points without a leak are left out."""
    found = []
    for protection in summary.protections:
        pairs = [(p, p.leak(attack, layer, statistic)) for p in summary.of(protection)]
        shown = [(p, leak) for p, leak in pairs if leak is not None]
        if shown:
            found.append(
                Series(
                    protection,
                    tuple(p.strength for p, _ in shown),
                    tuple(leak for _, leak in shown),
                    tuple(p.quality(quality) for p, _ in shown),
                )
            )
    return found


def mark_index(protection: str, protections: Sequence[str]) -> int:
    """The mark of a protection; one without its own gets one behind those."""
    if protection in COLOURS:
        return COLOURS.index(protection)
    others = [name for name in protections if name not in COLOURS]
    return len(COLOURS) + others.index(protection)


def utility_drawings(summary: Summary) -> list[Drawing]:
    """The curves of the paper's Figure 5 for each layer, and those of the attacks it lacks."""
    drawings = []
    for layer in ("cut", "first"):
        if not any(p.leak("norm", layer, summary.headline) for p in summary.points):
            continue
        drawings.append(_paper_curves(summary, layer))
        drawings.append(_suite_curves(summary, layer))
    return drawings


def _paper_curves(summary: Summary, layer: Layer) -> Drawing:
    """Three measures of quality against norm and cosine leak."""
    rows: tuple[Quality, ...] = ("test_loss", "test_auc", "train_loss")

    def draw(figure: Figure, band: str) -> None:
        grid = figure.subplots(3, 2, squeeze=False)
        for axes_row, quality in zip(grid, rows, strict=True):
            for axes, attack in zip(axes_row, ("norm", "cosine"), strict=True):
                _draw_panel(axes, summary, attack, layer, summary.headline, quality, band)
                if layer == "cut" and quality == "test_auc":
                    _draw_published(axes, summary, attack)
        _legend(figure)

    where = LAYER_NAMES[layer]
    return Drawing(
        f"tradeoff-{layer}",
        f"Utility against norm and cosine leak at the {where}",
        _in_words(summary, layer),
        _key_in_words(summary, one_release=True, published=layer == "cut"),
        8.0,
        9.0,
        draw,
    )


def _suite_curves(summary: Summary, layer: Layer) -> Drawing:
    """Test AUC against the attacks that the paper lacks, for one release and for all."""
    rows: tuple[Statistic, ...] = (summary.headline, "all_releases")

    def draw(figure: Figure, band: str) -> None:
        grid = figure.subplots(2, len(SUITE), squeeze=False)
        for axes_row, statistic in zip(grid, rows, strict=True):
            for axes, attack in zip(axes_row, SUITE, strict=True):
                _draw_panel(axes, summary, attack, layer, statistic, "test_auc", band)
                axes.set_title(STATISTIC_NAMES[statistic], loc="left", fontsize=8)
        _legend(figure)

    where = LAYER_NAMES[layer]
    return Drawing(
        f"suite-{layer}",
        f"Test AUC against the attacks that the paper lacks, at the {where}",
        "Leak of the worst of all attacks, tail energy, first component and majority count.",
        _key_in_words(summary, one_release=False, published=False),
        11.0,
        6.2,
        draw,
    )


def _draw_panel(
    axes: Axes,
    summary: Summary,
    attack: str,
    layer: Layer,
    statistic: Statistic,
    quality: Quality,
    band: str,
) -> None:
    """One measure of quality against one attack."""
    floors = [f for p in summary.points if (f := p.floor(layer, statistic)) is not None]
    if floors and attack != WORST:  # the highest of many exceeds the floor of one by chance alone
        axes.axvspan(0.5, sum(floors) / len(floors), color=band, linewidth=0, zorder=0)
    drawn = series_of(summary, attack, layer, statistic, quality)
    for series, place in zip(drawn, cycle(_LABEL_PLACES), strict=False):
        style = mark(mark_index(series.protection, summary.protections))
        leak, value = [e.mean for e in series.leak], [e.mean for e in series.quality]
        axes.errorbar(
            leak,
            value,
            xerr=_whiskers(series.leak),
            yerr=_whiskers(series.quality),
            color=style.colour,
            marker=style.marker,
            linestyle=style.dash if len(leak) > 1 else "none",
            markersize=5,
            linewidth=1.4,
            elinewidth=0.8,
            label=series.protection,
        )
        for x, y, label in zip(leak, value, series.labels, strict=True):
            axes.annotate(
                label.partition("=")[2].partition(",")[0],
                (x, y),
                place,
                textcoords="offset points",
                ha="left" if place[0] > 0 else "right",
                fontsize=6.5,
                color=style.colour,
            )
    _frame(axes, [e.mean for series in drawn for e in series.quality])
    axes.set_xlabel(f"leak AUC, {'worst attack' if attack == WORST else attack}")
    axes.set_ylabel(QUALITY_NAMES[quality])
    quiet(axes)


def _frame(axes: Axes, values: Sequence[float]) -> None:
    """Show all means; an interval over few seeds may be so long that it leaves the panel."""
    axes.set_xlim(0.49, 1.02)
    if values:
        margin = max(0.5 * (max(values) - min(values)), 0.01)
        axes.set_ylim(min(values) - margin, max(values) + margin)


def _draw_published(axes: Axes, summary: Summary, attack: str) -> None:
    """The paper's points, hollow, where it has the same data set."""
    if summary.configuration.published is None:
        return
    points = published_points(summary.configuration.published)
    for protection in dict.fromkeys(point.protection for point in points):
        style = mark(mark_index(protection, summary.protections))
        drawn = [
            (x, auc) for p in points if p.protection == protection for x, auc in _xy(p, attack)
        ]
        if drawn:
            leaks, aucs = zip(*drawn, strict=True)
            low, high = axes.get_ylim()
            axes.set_ylim(min(low, min(aucs) - 0.01), max(high, max(aucs) + 0.01))
            axes.plot(
                leaks,
                aucs,
                color=style.colour,
                marker=style.marker,
                markerfacecolor="none",
                linestyle="none",
                markersize=5,
                label=f"{protection}, published",
            )


def _xy(point: PublishedPoint, attack: str) -> list[tuple[float, float]]:
    """Where a published point lies; nowhere if a value is not known."""
    leak = point.norm_p95 if attack == "norm" else point.cosine_p95
    return [] if point.test_auc is None or leak is None else [(leak, point.test_auc)]


def _whiskers(estimates: Sequence[Estimate]) -> list[list[float]]:
    """Lengths of the interval, or range, below and above each mean; 0 for one seed."""
    below = [0.0 if e.low is None else e.mean - e.low for e in estimates]
    above = [0.0 if e.high is None else e.high - e.mean for e in estimates]
    return [below, above]


def _legend(figure: Figure) -> None:
    """One key for all panels, above them."""
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        drawn, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    figure.legend(
        list(handles.values()), list(handles), loc="outside upper center", ncols=5, frameon=False
    )


def seeds_in_words(summary: Summary) -> str:
    """How many seeds the points are means of."""
    counts = sorted({len(point.results) for point in summary.points})
    if not counts:
        return "no seed"
    if counts == [1]:
        return "1 seed"
    return f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _key_in_words(summary: Summary, *, one_release: bool, published: bool) -> str:
    """What points, whiskers, the band and hollow points are."""
    seeds = [len(point.results) for point in summary.points]
    parts = [f"{summary.configuration.title}, means over {seeds_in_words(summary)}"]
    if one_release:
        over = "95th percentile" if summary.headline == "p95" else "median"
        parts.append(f"leak AUC of one release, {over} over batches")
    if max(seeds) >= MIN_SEEDS:
        parts.append("whiskers are 95 % intervals of the mean")
    if 2 in seeds:
        parts.append("whiskers of two seeds are their range")
    parts.append("numbers beside points are strengths")
    parts.append(
        "the grey band is the null floor, below which 95 % of attackers who know nothing stay"
        + ("" if one_release else " (each by itself, so the worst of all has none)")
    )
    known = summary.configuration.published
    if published and known is not None:
        parts.append(f"hollow points were published for {known}, 95th percentiles over batches")
    return "; ".join(parts) + "."


def _in_words(summary: Summary, layer: Layer) -> str:
    """Each point's cosine leak and test AUC."""
    parts = []
    for point in summary.points:
        leak = point.leak("cosine", layer, summary.headline)
        if leak is not None:
            auc = point.quality("test_auc").mean
            parts.append(f"{point.label}: cosine leak {leak.mean:.3f} at test AUC {auc:.3f}")
    return "; ".join(parts) + "."
