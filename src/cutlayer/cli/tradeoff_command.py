"""The command ``tradeoff``: a sweep of protections, strengths and seeds on one data set."""

from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from cutlayer.cli.console import screen
from cutlayer.cli.exit_status import INTERRUPTED
from cutlayer.cli.party_commands import overrides_of
from cutlayer.errors import DataError
from cutlayer.experiments.tradeoff.configuration import (
    CONFIGURATION_FILE,
    TradeoffConfiguration,
    read_tradeoff,
    require_same_sweep,
)
from cutlayer.experiments.tradeoff.grid import Run
from cutlayer.experiments.tradeoff.page import FIGURES, warnings_of, write_report
from cutlayer.experiments.tradeoff.projection import projected
from cutlayer.experiments.tradeoff.ray_pool import required_ray, run_on_ray
from cutlayer.experiments.tradeoff.records import giveaways_of, notices_of
from cutlayer.experiments.tradeoff.result import RunResult, read_result, state_of
from cutlayer.experiments.tradeoff.summary import (
    WORST,
    Estimate,
    Point,
    Statistic,
    headline_of,
    summarise,
)
from cutlayer.experiments.tradeoff.sweep import run_sweep, runs_left
from cutlayer.experiments.tradeoff.tables import SUMMARY_FILE


def tradeoff(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file of the sweep.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the sweep; by default runs/tradeoff-CONFIG.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do runs again that failed before.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on Ray: local, auto, or a cluster's address."),
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write tables, figures and page of what is done.")
    ] = False,
) -> None:
    """Train protections x strengths x seeds, attack every message, draw utility against leak.

    A simulation in one process a run. An interrupted sweep is gone on with by the same command.
    Every key of CONFIG can be given as an option, as --epochs 5 or --seeds "[0, 1]".
    docs/tradeoff.md explains all of them, with a configuration for a table of your own.
    """
    configuration = read_tradeoff(config, overrides_of(context, TradeoffConfiguration))
    folder = out or Path("runs") / f"tradeoff-{config.stem}"
    console = screen()
    require_same_sweep(configuration, folder)
    if report_only and not (folder / CONFIGURATION_FILE).exists():
        raise DataError(f"{folder} holds no sweep to report on. Run it first, or mend --out.")
    if ray is not None:
        required_ray()
    if not report_only and not _sweep(configuration, folder, console, ray, retry_failed):
        console.print("Interrupted. The same command goes on.")
        raise typer.Exit(INTERRUPTED)
    summary = summarise(configuration, folder)
    page = write_report(summary, folder)
    for warning in warnings_of(summary):
        console.print(warning, style="yellow", soft_wrap=True)
    for failure in summary.failures:
        console.print(
            f"Failed: {failure.spec}, seed {failure.seed}: {failure.error}",
            style="red",
            soft_wrap=True,
        )
    console.print(
        f"Page: {page}\nFigures: {folder / FIGURES}\nTables: {folder / SUMMARY_FILE}",
        soft_wrap=True,
    )
    if not summary.points:
        raise typer.Exit(1)


def _sweep(
    configuration: TradeoffConfiguration,
    folder: Path,
    console: Console,
    ray: str | None,
    retry_failed: bool,
) -> bool:
    """Project, run and show; whether it went through."""
    torch.set_num_threads(1)
    left = runs_left(configuration, folder, retry_failed=retry_failed)
    done = len(configuration.runs) - len(left)
    if done:
        console.print(f"{done} of {len(configuration.runs)} runs have ended before.")
    board = Board(configuration, folder)
    try:
        if left:
            for notice in (*notices_of(configuration), *giveaways_of(configuration)):
                console.print(notice, style="yellow", soft_wrap=True)
            with console.status("timing a few steps of a run", spinner="line"):
                projection = projected(configuration, left)
            console.print(
                "The few steps of a pilot cannot be run, so nothing is projected."
                if projection is None
                else projection.sentence(configuration.workers),
                soft_wrap=True,
            )
        with Live(board.table(), console=console, auto_refresh=False) as live:
            run_sweep(
                configuration,
                folder,
                lambda: live.update(board.table(), refresh=True),
                retry_failed=retry_failed,
                pool=None if ray is None else partial(run_on_ray, address=ray),
            )
    except KeyboardInterrupt:
        console.print()
        return False
    console.print()
    return True


class Board:
    """The live table of a sweep: a line for each protection, from what is on disk."""

    def __init__(self, configuration: TradeoffConfiguration, folder: Path) -> None:
        self._configuration, self._folder = configuration, folder
        self._results: dict[Run, RunResult] = {}

    def table(self) -> Table:
        """The table as things stand."""
        configuration = self._configuration
        statistic = headline_of(configuration)
        table = Table(title=f"{configuration.title}, leak AUC at the cut ({statistic})")
        for column in ("protection", "done", "running", "failed", "test AUC"):
            table.add_column(column)
        for column in ("norm", "cosine", WORST):
            table.add_column(column)
        for spec in dict.fromkeys(run.spec for run in configuration.runs):
            table.add_row(*self._row(spec, statistic))
        return table

    def _row(self, spec: str, statistic: Statistic) -> list[str]:
        """One protection."""
        runs = [run for run in self._configuration.runs if run.spec == spec]
        states = [state_of(self._folder, run) for run in runs]
        results = tuple(r for run in runs if (r := self._result(run)) is not None)
        counts = [f"{len(results)}/{len(runs)}"]
        counts += [str(states.count(state) or "") for state in ("running", "failed")]
        if not results:
            return [spec, *counts, *[""] * 4]
        point = Point(spec, results[0].protection, results[0].strength, results)
        shown: list[Estimate | None] = [point.quality("test_auc")]
        shown += [point.leak(attack, "cut", statistic) for attack in ("norm", "cosine", WORST)]
        return [spec, *counts, *("–" if e is None else f"{e.mean:.3f}" for e in shown)]

    def _result(self, run: Run) -> RunResult | None:
        """A run's result; read once."""
        if run not in self._results:
            result = read_result(self._folder, run)
            if result is None:
                return None
            self._results[run] = result
        return self._results[run]
