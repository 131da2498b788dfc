"""What every progress display is: some lines on a console, from its beginning to its end."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, ProgressColumn


class ProgressDisplay:
    """Lines that are drawn while the ``with`` block runs; a subclass adds and moves them.

    Args:
        console: where.
        columns: what each line consists of.
    """

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        self._progress = Progress(*columns, console=console)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
