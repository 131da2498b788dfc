"""The command that looks whether a run would start, and what would hinder it."""

from collections.abc import Iterable

import typer
from rich.table import Table
from rich.text import Text

from cutlayer.cli.console import screen
from cutlayer.cli.party_commands import Configuration, overrides_of
from cutlayer.escaping import escaped
from cutlayer.operation.checkup import Check, Verdict
from cutlayer.operation.doctor import examine

_FAULTS = 2
_STYLE = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAULT: "bold red"}


def doctor(context: typer.Context, config: Configuration) -> None:
    """Look at configuration, file, identity, run, disk, network and machine; change nothing.

    Safe while a run is going on, at either party. Ends with status 2 if something is at fault.
    """
    console = screen()
    checks = tuple(examine(config, overrides_of(context)))
    console.print(table_of(checks))
    verdicts = {check.verdict for check in checks}
    if Verdict.FAULT in verdicts:
        console.print("The run would not start.", style="bold")
        raise typer.Exit(_FAULTS)
    if Verdict.WARNING in verdicts:
        console.print("The run would start; look at the warnings.")
    else:
        console.print("The run would start.")


def table_of(checks: Iterable[Check]) -> Table:
    """What was found, and beneath it what to do: both have the width of the terminal."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # the end of a path or fingerprint counts
    for check in checks:
        table.add_row(
            Text(check.verdict.value, style=_STYLE[check.verdict]),
            Text(check.subject),
            Text(escaped(check.found)),
        )
        if check.fix:
            table.add_row("", "", Text(f"To do: {escaped(check.fix)}", style="italic"))
    return table
