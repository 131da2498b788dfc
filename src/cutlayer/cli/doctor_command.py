"""The command that looks whether a run would start, and what would hinder it."""

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cutlayer.cli.party_commands import Configuration, overrides_of
from cutlayer.operation.checkup import Verdict
from cutlayer.operation.doctor import examine

_FAULTS = 2
_STYLE = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAULT: "bold red"}


def doctor(context: typer.Context, config: Configuration) -> None:
    """Look at configuration, file, identity, run, disk, network and machine; change nothing.

    Safe while a run is going on, at either party. Ends with status 2 if something is at fault.
    """
    console = Console()
    table = Table("", "what", "found", "to do", show_lines=False, box=None, pad_edge=False)
    verdicts = set()
    for check in examine(config, overrides_of(context)):
        verdicts.add(check.verdict)
        table.add_row(
            Text(check.verdict.value, style=_STYLE[check.verdict]),
            Text(check.subject),
            Text(check.found),
            Text(check.fix),
        )
    console.print(table)
    if Verdict.FAULT in verdicts:
        console.print("The run would not start.", style="bold")
        raise typer.Exit(_FAULTS)
    if Verdict.WARNING in verdicts:
        console.print("The run would start; look at the warnings.")
    else:
        console.print("The run would start.")
