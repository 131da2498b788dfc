"""The status line of one party's training: how far, how long still, whether the peer is there."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text
from torch import Tensor
from typing_extensions import override

from cutlayer.audits import LiveLeak
from cutlayer.cli.progress_display import ProgressDisplay
from cutlayer.operation.status import RunStatus
from cutlayer.transcript.release import Release

_PATIENCE_SECONDS = 2.0
"""A shorter wait is part of every step, and not worth a word."""


class TrainingProgress(ProgressDisplay):
    """Shows a run's status on a console, and runs the label party's live audit.

    Args:
        console: where.
        status: of the run; the run's monitor keeps it.
        live: the live audit, at the label party.
    """

    def __init__(self, console: Console, status: RunStatus, live: LiveLeak | None = None) -> None:
        self._live = live
        super().__init__(
            console,
            TextColumn("training"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            StatusColumn(status),
            TextColumn("{task.fields[note]}"),
        )
        self._task = self._progress.add_task("", total=None, note="")

    def on_release(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Attack the outgoing batch, now and then."""
        if self._live is not None:
            self._live.on_release(release, labels, clean_gradient)

    def on_progress(self, step: int, steps: int, rows: int) -> None:
        """Move the bar, and tell who listens to the live audit."""
        if self._live is not None:
            self._live.on_progress(step, steps, rows)
        leak = None if self._live is None else self._live.leak_auc
        note = f"batch of {rows}" + ("" if leak is None else f", leak AUC so far {leak:.3f}")
        self._progress.update(self._task, completed=step, total=steps, note=note)


class StatusColumn(ProgressColumn):
    """Epoch, reconnects, and since when the peer has been waited for; looked up at each refresh."""

    def __init__(self, status: RunStatus) -> None:
        super().__init__()
        self._status = status

    @override
    def render(self, task: Task) -> Text:
        return Text(sentence_of(self._status))


def sentence_of(status: RunStatus) -> str:
    """The status in a few words."""
    words = [f"epoch {status.epoch} of {status.epochs}"] if status.epoch else []
    if status.reconnects:
        words.append(f"{status.reconnects} reconnect{'s' if status.reconnects > 1 else ''}")
    waiting = status.waiting_for
    if waiting >= _PATIENCE_SECONDS:
        words.append(f"waiting for the peer, {waiting:.0f} s")
    return ", ".join(words)
