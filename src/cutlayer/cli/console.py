"""The console: where commands print; what they print is text, and neither markup nor control."""

import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typing_extensions import override

from cutlayer.escaping import escaped


def screen(*, stderr: bool = False) -> Console:
    """A console that shows ``[brackets]`` and ``:colons:`` of a path, a name or an address.

    What a terminal would obey is shown as an escape, whoever it comes from.
    """
    return _Screen(stderr=stderr, markup=False, emoji=False)


class _Screen(Console):
    """Escapes each text on its way to the terminal, in tables and progress lines, too."""

    @override
    def render_str(self, text: str, **options: Any) -> Text:
        # Before rich drops some of the control characters without a word.
        return super().render_str(escaped(text, lines=True), **options)

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:  # of rich's own: it moves the cursor of a progress line
                yield segment
            else:
                yield Segment(escaped(segment.text, lines=True), segment.style)


def escape_reports() -> None:
    """Escape what Python and its libraries write to standard error by themselves.

    These are tracebacks of any thread, warnings, and messages of loggers without a handler.
    """
    sys.excepthook = _show_exception
    threading.excepthook = _show_exception_of_thread
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_EscapingFormatter())
    plain = warnings.formatwarning

    def formatted(*arguments: Any, **options: Any) -> str:
        return escaped(plain(*arguments, **options), lines=True)

    warnings.formatwarning = formatted


class _EscapingFormatter(logging.Formatter):
    """Formats as usual, and escapes."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record), lines=True)


def _show_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A traceback on standard error."""
    lines = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(escaped(lines, lines=True))


def _show_exception_of_thread(report: threading.ExceptHookArgs) -> None:
    """A traceback of another thread."""
    if report.exc_value is not None and not isinstance(report.exc_value, SystemExit):
        _show_exception(report.exc_type, report.exc_value, report.exc_traceback)
