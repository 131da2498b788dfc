"""Reports of a findings document: a table on the terminal, figures, and one HTML page."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.reports.page import render_page, write_page
    from cutlayer.reports.terminal import print_table
    from cutlayer.reports.utility_figure import utility_beside_leak

__all__ = ["print_table", "render_page", "utility_beside_leak", "write_page"]

__getattr__ = lazily(
    __name__,
    {
        "page": (
            "render_page",
            "write_page",
        ),
        "terminal": ("print_table",),
        "utility_figure": ("utility_beside_leak",),
    },
)
