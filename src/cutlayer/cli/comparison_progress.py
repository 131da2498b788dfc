"""The progress display of a comparison: which training, how fast, how much leaks so far."""

import time

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from cutlayer.audits import LiveLeak
from cutlayer.audits.live.live_leak import live_attacks
from cutlayer.cli.progress_display import ProgressDisplay
from cutlayer.experiments.plan import Training
from cutlayer.transcript.release import Release


class ComparisonProgress(ProgressDisplay):
    """Follows :func:`cutlayer.experiments.comparison.run_comparison` on a console."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            console,
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._all = self._progress.add_task("trainings", total=None, note="")
        self._one = self._progress.add_task("", total=None, note="")
        self._live: LiveLeak | None = None
        self._began, self._rows = 0.0, 0

    def on_training(self, training: Training, done: int, total: int) -> None:
        """Begin the line of a training."""
        name, strength = training.title
        coins = ", canaries" if training.canaries else ""
        self._progress.update(self._all, completed=done, total=total)
        self._progress.reset(self._one)
        self._progress.update(
            self._one, note="", description=f"{name} {strength} (split {training.split}{coins})"
        )
        self._live = LiveLeak(live_attacks(), generator=torch.Generator())
        self._began, self._rows = time.monotonic(), 0

    def on_release(self, release: Release, labels: Tensor, clean_gradient: Tensor) -> None:
        """Attack the outgoing batch, now and then."""
        if self._live is not None:
            self._live.on_release(release, labels, clean_gradient)

    def on_progress(self, step: int, steps: int, rows: int) -> None:
        """Move the bar of the training."""
        self._rows += rows
        speed = self._rows / max(time.monotonic() - self._began, 1e-9)
        leak = self._live.leak_auc if self._live is not None else None
        note = f"{speed:,.0f} rows/s" + ("" if leak is None else f", leak AUC so far {leak:.3f}")
        self._progress.update(self._one, completed=step, total=steps, note=note)

    def on_audit(self, name: str, done: int, total: int) -> None:
        """Move the bar of the audit."""
        self._progress.update(self._all, description="audits", completed=done, total=total)
        self._progress.update(self._one, visible=False)
        self._progress.update(self._all, note=name)
