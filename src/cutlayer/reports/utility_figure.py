"""The figure that decides: how well each model predicts, beside how much its labels leaked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import IdentityTransform

from cutlayer.findings.document import Findings
from cutlayer.reports.label_placement import Box, place_labels
from cutlayer.reports.phrases import number, over
from cutlayer.reports.summary import ProtectionSummary, by_protection, seen_by
from cutlayer.reports.svg import INK, SURFACE, Canvas, mark, quiet
from cutlayer.reports.wording import printable

_ONE_LINE = 20
"""A longer name has its strength below it."""

_LONGEST_LINE = 26
"""The tables have longer names in full."""

_FAR = 14.0
"""From this distance in pixels on, a stroke leads from the name to its point."""


@dataclass(frozen=True)
class _Point:
    """One training of the figure; a baseline has no leak and no bound."""

    name: str
    leak: float
    auc: float
    error: float
    bound: float | None
    baseline: bool


def utility_beside_leak(findings: Findings) -> str | None:
    """Test AUC against the worst leak AUC of the whole training, one point a protection.

    Baselines are lines across the figure; a dotted line leads from a point to a proven bound.

    Returns:
        An SVG element; None where no protection has both numbers.
    """
    points = _points(findings)
    if all(point.baseline for point in points):
        return None
    with Canvas("scatter", 5.0, 4.0) as canvas:
        axes = canvas.figure.subplots()
        axes.set_xlim(0.485, 1.015)
        axes.set_xlabel(f"worst leak AUC over {over('all', seen_by(findings))}")
        axes.set_ylabel("test AUC")
        axes.margins(y=0.12)
        quiet(axes)
        for index, point in enumerate(points):
            _draw(axes, index, point)
        _name(axes, points)
    words = "; ".join(
        f"{p.name}: {'no gradient' if p.baseline else f'leak {number(p.leak)}'}, "
        f"test AUC {number(p.auc)}"
        for p in points
    )
    return canvas.svg("Test AUC beside worst leak AUC", f"{words}.")


def _points(findings: Findings) -> list[_Point]:
    """Everything that has a test AUC and, unless it is a baseline, a leak."""
    points = []
    for summary in by_protection(findings):
        worst = summary.worst(releases="all")
        leak = None if worst is None else worst.leak_auc
        if summary.test_auc is None or (leak is None and not summary.is_baseline):
            continue
        auc, error = summary.test_auc
        bound = _proven_bound(summary)
        points.append(
            _Point(
                summary.label,
                0.5 if leak is None else leak,
                auc,
                error or 0.0,
                bound,
                summary.is_baseline,
            )
        )
    return points


def _proven_bound(summary: ProtectionSummary) -> float | None:
    """The bound for the whole training if it is rigorous; a baseline needs none."""
    bound = summary.bound("all")
    if summary.is_baseline or bound is None or bound.kind != "rigorous":
        return None
    return bound.leak_auc


def _draw(axes: Axes, index: int, point: _Point) -> None:
    """A line for a baseline; else a marker, its standard error, and its bound."""
    if point.baseline:
        axes.axhline(point.auc, color=INK, linewidth=0.9, linestyle=(0, (1, 3)))
        axes.plot([0.5], [point.auc], color=INK, marker="|", markersize=10, markeredgewidth=2)
        return
    style = mark(index)
    axes.errorbar(
        [point.leak],
        [point.auc],
        yerr=[point.error],
        color=style.colour,
        marker=style.marker,
        markersize=8,
        markeredgecolor=SURFACE,
        capsize=3,
    )
    if point.bound is not None:
        ends = [point.leak, point.bound]
        axes.plot(ends, [point.auc] * 2, color=style.colour, linestyle=":")
        axes.plot(ends[1:], [point.auc], color=style.colour, marker="|", markersize=12)


def _name(axes: Axes, points: Sequence[_Point]) -> None:
    """Write the names where they cover nothing, with a stroke to those that stand far off."""
    figure, pixels = axes.get_figure(root=True), IdentityTransform()
    if figure is None:
        raise ValueError("axes must belong to a figure, got axes without one.")
    figure.draw_without_rendering()  # gives the axes their place
    style: dict[str, Any] = {"color": INK, "ha": "center", "va": "center", "transform": pixels}
    behind = {"facecolor": SURFACE, "linewidth": 0, "pad": 0.5}  # hides the strokes of others
    texts = [figure.text(0, 0, _short(p.name), **style, bbox=behind) for p in points]
    extents = [text.get_window_extent() for text in texts]
    anchors = [_pixel(axes, point.leak, point.auc) for point in points]
    boxes = place_labels(
        anchors,
        [(extent.width + 4, extent.height) for extent in extents],
        [box for point in points for box in _obstacles(axes, point)],
        Box(*axes.get_window_extent().extents),
    )
    for text, box, anchor in zip(texts, boxes, anchors, strict=True):
        text.set_position(((box.left + box.right) / 2, (box.bottom + box.top) / 2))
        near = _nearest(box, anchor)
        if math.dist(near, anchor) > _FAR:
            ends = list(zip(near, anchor, strict=True))
            figure.add_artist(Line2D(*ends, color=INK, linewidth=0.6, transform=pixels, zorder=1))


def _pixel(axes: Axes, leak: float, auc: float) -> tuple[float, float]:
    """Where a leak and a test AUC are drawn."""
    x, y = axes.transData.transform((leak, auc))
    return float(x), float(y)


def _obstacles(axes: Axes, point: _Point) -> list[Box]:
    """What the point covers itself: marker, whiskers, and its line."""
    x, y = _pixel(axes, point.leak, point.auc)
    _, top = _pixel(axes, point.leak, point.auc + point.error)
    if point.baseline:
        frame = axes.get_window_extent()
        return [Box(frame.x0, y - 1.5, frame.x1, y + 1.5)]
    boxes = [Box(x - 6, y - 6, x + 6, y + 6), Box(x - 4, 2 * y - top, x + 4, top)]
    if point.bound is not None:
        end, _ = _pixel(axes, point.bound, point.auc)
        boxes.append(Box(min(x, end) - 2, y - 2, max(x, end) + 2, y + 2))
    return boxes


def _nearest(box: Box, anchor: tuple[float, float]) -> tuple[float, float]:
    """The place of the box that is nearest to its point."""
    x, y = anchor
    return min(max(x, box.left), box.right), min(max(y, box.bottom), box.top)


def _short(name: str) -> str:
    """A name in one line or two, that leaves room for the figure."""
    clean = printable(name)
    lines = [clean] if len(clean) <= _ONE_LINE else clean.split(" ", 1)
    cut = (s if len(s) <= _LONGEST_LINE else f"{s[: _LONGEST_LINE - 1]}…" for s in lines)
    return "\n".join(cut)
