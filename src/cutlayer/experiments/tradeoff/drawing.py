"""Drawings: one description of a figure, for the page as SVG and for papers as PDF and PNG."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cutlayer.reports.svg import CHANCE, Canvas

_PAPER_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "pdf.fonttype": 42,
}
_BAND_ON_PAPER = "#cccccc"
_DOTS_PER_INCH = 150
_LETTERS_PER_INCH = 16
"""Of a note on paper, at its size."""

Draw = Callable[[Figure, str], None]
"""Draws on an empty figure; the text is the colour of the band of chance."""


@dataclass(frozen=True)
class Drawing:
    """One figure that can be drawn on any surface."""

    name: str
    """Letters, digits and dashes; its file's name."""
    title: str
    description: str
    """What it shows, in words."""
    note: str
    """How to read it where it stands alone: the data, the seeds, what band and whiskers are."""
    width: float
    """Inches."""
    height: float
    draw: Draw

    def svg(self) -> str:
        """For the page: follows its colours and its width."""
        with Canvas(self.name, self.width, self.height) as canvas:
            self.draw(canvas.figure, CHANCE)
        return canvas.svg(self.title, self.description)

    def save(self, folder: Path) -> list[Path]:
        """Write PDF and PNG, with title and note below; old ones are replaced."""
        paths = [folder / f"{self.name}.{kind}" for kind in ("pdf", "png")]
        with mpl.rc_context(_PAPER_STYLE):  # type: ignore[arg-type]
            figure = Figure(figsize=(self.width, self.height), layout="constrained")
            FigureCanvasAgg(figure)
            self.draw(figure, _BAND_ON_PAPER)
            note = textwrap.fill(
                f"{self.title}. {self.note}", round(self.width * _LETTERS_PER_INCH)
            )
            figure.supxlabel(note, x=0.01, ha="left", fontsize=7)
            for path in paths:
                # A date would make two drawings of the same results differ.
                fixed = {"CreationDate": None} if path.suffix == ".pdf" else {}
                figure.savefig(path, dpi=_DOTS_PER_INCH, metadata=fixed)
                figure.set_layout_engine("none")  # laid out once; the second file is the same
        return paths
