"""The command that finds the records of both parties, and tells neither of the others' ids."""

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from cutlayer.cli.console import screen
from cutlayer.cli.party_commands import (
    NOTHING_KEPT,
    Configuration,
    alone,
    met_peer,
    overrides_of,
    stopping,
)
from cutlayer.cli.progress_display import ProgressDisplay
from cutlayer.data.tables.lost_ids import lost_ids
from cutlayer.protocol import Role
from cutlayer.runs.aligned_records import align, require_private
from cutlayer.runs.configuration import (
    LabelConfiguration,
    NonLabelConfiguration,
    PartyConfiguration,
    read_configuration,
    role_of,
)
from cutlayer.runs.session_opening import read_ids, telling_peer


def align_records(context: typer.Context, config: Configuration) -> None:
    """Find the shared records privately; start it at both parties, before the training.

    CONFIG is that of the training, with alignment = "private" at both parties. Each learns which of
    its own ids the peer holds, and how many ids the peer has.
    """
    kind: type[PartyConfiguration] = (
        LabelConfiguration if role_of(config) is Role.LABEL else NonLabelConfiguration
    )
    configuration = read_configuration(kind, config, overrides_of(context))
    require_private(configuration)
    console = screen()
    with stopping(NOTHING_KEPT), alone(configuration), telling_peer(configuration):
        ids = read_ids(configuration)
        with AlignmentProgress(console) as progress, met_peer(configuration, console) as transport:
            aligned = align(configuration, ids, transport, progress.on_progress)
    console.print(
        f"{len(aligned.ids):,} records are shared: {configuration.aligned_ids_file}\n"
        f"Alignment hash {aligned.hash}, equal at both parties.",
        soft_wrap=True,
    )
    lost = lost_ids(configuration.role.value, ids, aligned.ids, aligned.only_there)
    if lost is not None:
        console.print(lost, style="yellow", soft_wrap=True)


class AlignmentProgress(ProgressDisplay):
    """The progress line of one party's alignment."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            console,
            TextColumn("aligning"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._task = self._progress.add_task("", total=None, note="waiting for the peer")

    def on_progress(self, done: int, total: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, total=total, note="points")
