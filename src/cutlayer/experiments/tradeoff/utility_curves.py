"""Privacy-utility curves: what a strength costs in prediction, against what it hides."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cutlayer.audits.findings import Layer
from cutlayer.experiments.tradeoff.drawing import Drawing
from cutlayer.experiments.tradeoff.published import PublishedPoint, published_points
from cutlayer.experiments.tradeoff.summary import WORST, Estimate, Quality, Statistic, Summary
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
SUITE = ("tail_energy", "first_component", "majority_count", WORST)


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
        _legend(figure, summary, published=layer == "cut")

    where = LAYER_NAMES[layer]
    return Drawing(
        f"tradeoff-{layer}",
        f"Utility against norm and cosine leak at the {where}",
        _in_words(summary, layer),
        8.0,
        8.6,
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
        _legend(figure, summary, published=False)

    where = LAYER_NAMES[layer]
    return Drawing(
        f"suite-{layer}",
        f"Test AUC against the attacks that the paper lacks, at the {where}",
        "Leak of tail energy, first component, majority count and the worst of all attacks.",
        11.0,
        5.8,
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
    if floors:
        axes.axvspan(0.5, sum(floors) / len(floors), color=band, linewidth=0, zorder=0)
    drawn = series_of(summary, attack, layer, statistic, quality)
    for series in drawn:
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
            short = label.partition("=")[2].partition(",")[0]
            axes.annotate(short, (x, y), (3, 3), textcoords="offset points", fontsize=6.5)
    _frame(axes, [e.mean for series in drawn for e in series.quality])
    axes.set_xlabel(f"{attack} leak AUC")
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


def _legend(figure: Figure, summary: Summary, *, published: bool) -> None:
    """One key for all panels, above them."""
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        drawn, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    if published and summary.configuration.published is not None:
        figure.suptitle(f"hollow: published points on {summary.configuration.published}", size=8)
    figure.legend(
        list(handles.values()), list(handles), loc="outside upper center", ncols=5, frameon=False
    )


def _in_words(summary: Summary, layer: Layer) -> str:
    """Each point's cosine leak and test AUC."""
    parts = []
    for point in summary.points:
        leak = point.leak("cosine", layer, summary.headline)
        if leak is not None:
            auc = point.quality("test_auc").mean
            parts.append(f"{point.label}: cosine leak {leak.mean:.3f} at test AUC {auc:.3f}")
    return "; ".join(parts) + "."
