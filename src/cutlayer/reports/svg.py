"""Matplotlib figures as inline SVG that follows the page: its colours, its font, its width."""

import io
import re
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from typing import Self

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cutlayer.reports.wording import printable

INK, GRID, SURFACE, CHANCE = "#010203", "#040506", "#070809", "#0a0b0c"
"""Placeholders for text and axes, grid lines, the page behind, and the band of chance."""


@dataclass(frozen=True)
class Mark:
    """How one series is drawn: told apart by colour, by dash and by marker."""

    colour: str
    dash: str | tuple[int, tuple[int, ...]]
    marker: str


MARKS = (
    Mark("#0072b2", "-", "o"),
    Mark("#d55e00", (0, (6, 2)), "s"),
    Mark("#009e73", (0, (2, 1)), "^"),
    Mark("#cc79a7", (0, (6, 2, 1, 2)), "D"),
    Mark("#e69f00", (0, (1, 2)), "v"),
    Mark("#56b4e9", (0, (10, 3)), "P"),
    Mark("#8c6bb1", (0, (4, 1, 1, 1, 1, 1)), "X"),
)
"""Okabe and Ito's colours, safe for every kind of colour blindness; black and yellow left out."""

_VARIABLES = {
    INK: "currentColor",
    GRID: "var(--grid, #ddd)",
    SURFACE: "var(--surface, #fff)",
    CHANCE: "var(--chance, #ccc)",
    **{mark.colour: f"var(--mark-{i}, {mark.colour})" for i, mark in enumerate(MARKS)},
}

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cutlayer",
    "text.parse_math": False,  # a data name may hold a dollar sign
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 1.2,
    "path.simplify": True,
}

_REFERENCE = re.compile(r'(?<=url\(#)[^)"<>]+(?=\))|(?<=href="#)[^"<>]+')


def mark(index: int) -> Mark:
    """The mark of the ``index``-th series; they repeat after the seventh."""
    return MARKS[index % len(MARKS)]


class Canvas:
    """One figure to draw on, without pyplot and without a trace in matplotlib's settings.

    >>> with Canvas("dot", 2.0, 1.0) as canvas:
    ...     dots = canvas.figure.subplots().plot([1, 2], [1, 2])
    >>> canvas.svg("Two dots", "They rise.").startswith('<svg class="chart"')
    True
    """

    def __init__(self, key: str, width: float, height: float) -> None:
        """Open a figure.

        Args:
            key: letters, digits and dashes, unique on the page; all ids begin with it.
            width: inches of 72 points; one point is one CSS pixel where the page has room.
            height: the same.
        """
        self._key = key
        self._size = (width, height)
        self._settings = ExitStack()
        self._drawn = ""

    def __enter__(self) -> Self:
        self._settings.enter_context(mpl.rc_context(_STYLE))  # type: ignore[arg-type]
        self._settings.enter_context(warnings.catch_warnings())
        # The browser has the glyphs that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # 72 dots an inch: pixels, points and the units of the SVG are the same.
        self.figure = Figure(figsize=self._size, dpi=72, layout="constrained")
        FigureCanvasAgg(self.figure)
        return self

    def __exit__(self, *error: object) -> None:
        with self._settings:
            if error[0] is None:
                self._drawn = self._draw()

    def _draw(self) -> str:
        """Let matplotlib write the file."""
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        self.figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
        return buffer.getvalue()

    def svg(self, title: str, description: str) -> str:
        """The figure as an ``<svg>`` element.

        Args:
            title: the name that a screen reader says.
            description: what the figure shows, in words.

        Returns:
            Markup in which every text is escaped; the same figure gives the same bytes.
        """
        body = self._drawn[self._drawn.index("<svg") :]
        body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
        body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>\s*", "", body, flags=re.DOTALL)
        body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
        used = sorted(set(_REFERENCE.findall(body)))
        ids = {name: f"{self._key}-{index}" for index, name in enumerate(used)}
        # Only inside tags: a name in the text may look like a colour or like a reference.
        body = re.sub(r"<[^>]*>", lambda tag: _adapted(tag.group(), ids), body)
        width, height = (round(72 * inches) for inches in self._size)
        opening = (
            f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" '
            f'aria-labelledby="{self._key}-title {self._key}-desc">'
            f'<title id="{self._key}-title">{escape(printable(title))}</title>'
            f'<desc id="{self._key}-desc">{escape(printable(description))}</desc>'
        )
        return opening + body[body.index(">") + 1 :].strip()


def quiet(axes: Axes) -> None:
    """Ticks without strokes: the grid lines are enough."""
    axes.tick_params(length=0)


def _adapted(tag: str, ids: dict[str, str]) -> str:
    """One tag with the page's variables for colours, its own ids, and no needless digits."""
    tag = re.sub(
        r' id="([^"]*)"', lambda m: f' id="{ids[m.group(1)]}"' if m.group(1) in ids else "", tag
    )
    tag = re.sub(r"url\(#([^)\"]+)\)", lambda m: f"url(#{ids[m.group(1)]})", tag)
    tag = re.sub(r'xlink:href="#([^"]+)"', lambda m: f'href="#{ids[m.group(1)]}"', tag)
    for placeholder, variable in _VARIABLES.items():
        tag = tag.replace(placeholder, variable)
    tag = tag.replace("font-family: 'DejaVu Sans'", "font-family: system-ui, sans-serif")
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    # A tenth of a pixel is enough for a place, but not for an opacity.
    tag = re.sub(r' (?:d|x|y|width|height)="[^"]*"', lambda m: _rounded(m.group()), tag)
    return re.sub(r"\s*\n\s*", " ", tag)


def _rounded(attribute: str) -> str:
    """Coordinates with one digit after the point."""
    return re.sub(r"-?\d+\.\d+", lambda m: f"{float(m.group()):.1f}".removesuffix(".0"), attribute)
