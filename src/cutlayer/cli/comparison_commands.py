"""The commands that compare protections: demo for real, simulate in one process."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cutlayer.cli.audit_commands import show
from cutlayer.cli.comparison_progress import ComparisonProgress
from cutlayer.cli.console import screen
from cutlayer.cli.exit_status import INTERRUPTED, complain
from cutlayer.cli.party_commands import FINDINGS_FILE
from cutlayer.experiments.comparison import pending, run_comparison, training_records
from cutlayer.experiments.findings_of_run import findings_of_run
from cutlayer.experiments.plan import Plan, fitting_defaults, make_plan
from cutlayer.findings.document import write_findings

Data = Annotated[str, typer.Option(help="caravan, breast-cancer or synthetic-ctr.")]
Protections = Annotated[
    list[str] | None,
    typer.Option(
        "--protection",
        help="As NAME or NAME:SETTING=VALUE,..., for example marvell:s=4. Repeat for several.",
    ),
]
Splits = Annotated[int, typer.Option(help="Trainings of each protection, on different splits.")]
Epochs = Annotated[int, typer.Option(help="Passes over the training records.")]
BatchSize = Annotated[int | None, typer.Option(help="Smallest batch. Default: up to 512.")]
CutWidth = Annotated[int, typer.Option(help="Width of the activation that crosses.")]
Coins = Annotated[
    int | None,
    typer.Option("--canaries", help="Records with a coin for a label. Default: up to 1000."),
]
Seed = Annotated[
    int, typer.Option(help="Of splits, batch order and initial weights; not of noise.")
]
Out = Annotated[Path | None, typer.Option(help="Run folder. An unfinished run is gone on with.")]

_DEFAULT = Plan()


def _comparison(*, simulated: bool) -> Callable[..., None]:
    """The command that compares protections, for real or simulated."""

    def compare(
        data: Data = _DEFAULT.data,
        protection: Protections = None,
        splits: Splits = _DEFAULT.splits,
        epochs: Epochs = _DEFAULT.epochs,
        batch_size: BatchSize = None,
        cut_width: CutWidth = _DEFAULT.cut_width,
        canaries: Coins = None,
        seed: Seed = _DEFAULT.seed,
        out: Out = None,
    ) -> None:
        fitting = fitting_defaults(training_records(data, folds=_DEFAULT.folds))
        plan = make_plan(
            data=data,
            protections=tuple(protection or _DEFAULT.protections),
            splits=splits,
            epochs=epochs,
            batch_size=fitting["batch_size"] if batch_size is None else batch_size,
            cut_width=cut_width,
            canaries=fitting["canaries"] if canaries is None else canaries,
            seed=seed,
            simulated=simulated,
        )
        _compare(plan, out or _new_folder("simulation" if simulated else "demo", data))

    return compare


demo = _comparison(simulated=False)
simulate = _comparison(simulated=True)


def _compare(plan: Plan, folder: Path) -> None:
    """Run, audit and show; an interrupted run is audited and shown as far as it got."""
    console = screen()
    interrupted = False
    with ComparisonProgress(console) as progress:
        try:
            run_comparison(plan, folder, progress)
        except KeyboardInterrupt:
            interrupted = True
        if interrupted and len(pending(plan, folder)) == len(plan.trainings):
            complain(
                f"Interrupted before the first training ended. Start again with --out {folder}",
                INTERRUPTED,
            )
        findings = findings_of_run(plan, folder, None, progress.on_audit)
    write_findings(findings, folder / FINDINGS_FILE)
    show(folder, console)
    if interrupted:
        console.print(f"Interrupted. Go on with the same command and --out {folder}")
        raise typer.Exit(INTERRUPTED)


def _new_folder(kind: str, data: str) -> Path:
    """A folder that no other run has."""
    return Path("runs") / f"{kind}-{data}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
