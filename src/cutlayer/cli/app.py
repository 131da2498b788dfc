"""The commands. Each turns its arguments into a plan or a folder, and prints what came out."""

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cutlayer.audits.findings import write_findings
from cutlayer.cli.align_command import align_records
from cutlayer.cli.audit_commands import audit, report, show
from cutlayer.cli.doctor_command import doctor
from cutlayer.cli.identity_commands import init, pair_with
from cutlayer.cli.party_commands import (
    FINDINGS_FILE,
    PASS_ON,
    label_party,
    non_label_party,
    predict,
)
from cutlayer.cli.prepare_commands import prepare_app
from cutlayer.cli.progress import ComparisonProgress
from cutlayer.cli.tradeoff_command import tradeoff
from cutlayer.errors import (
    ConfigurationError,
    CutlayerError,
    DataError,
    LeakStopError,
    PeerEndedError,
    ProtectionError,
    TermsMismatchError,
)
from cutlayer.experiments.comparison import pending, run_comparison, training_records
from cutlayer.experiments.findings_of_run import findings_of_run
from cutlayer.experiments.plan import Plan, fitting_defaults, make_plan

_TO_MEND, _FAILED, _INTERRUPTED = 2, 1, 130
_NEED_AN_OPERATOR = (
    ConfigurationError,
    DataError,
    LeakStopError,
    ProtectionError,
    TermsMismatchError,
)
"""Starting again changes nothing, so a service must not."""

app = typer.Typer(
    name="cutlayer",
    help="Two-party split learning that measures and limits how much the gradient tells of labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("init")(init)
app.command("pair")(pair_with)
app.command("label-party", context_settings=PASS_ON)(label_party)
app.command("non-label-party", context_settings=PASS_ON)(non_label_party)
app.command("align", context_settings=PASS_ON)(align_records)
app.command("doctor", context_settings=PASS_ON)(doctor)
app.command("predict", context_settings=PASS_ON)(predict)
app.add_typer(prepare_app, name="prepare")
app.command("tradeoff", context_settings=PASS_ON)(tradeoff)

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


app.command(
    "demo",
    help="Train with and without protections, two processes on this machine; compare the leak.",
)(_comparison(simulated=False))
app.command(
    "simulate",
    help="The same in one process with repeatable noise, for research. It protects nothing.",
)(_comparison(simulated=True))


app.command("audit")(audit)
app.command("report")(report)


def main() -> None:
    """Entry point: errors of ours become one message and an exit status."""
    try:
        app()  # typer ends the process itself, with 2 after a wrong argument
    except _NEED_AN_OPERATOR as error:
        _complain(str(error), _TO_MEND)
    except PeerEndedError as error:
        _complain(str(error), _INTERRUPTED if error.stopped else _FAILED)
    except CutlayerError as error:
        _complain(str(error), _FAILED)
    except OSError as error:  # a full disk or a wrong path where no module words it better
        where = "" if error.filename is None else f" ({error.filename})"
        _complain(
            f"The system refused to read or write{where}: {error.strerror or error}. Look at the "
            "path, its rights and the room on the disk, then start the same command again.",
            _FAILED,
        )


def _compare(plan: Plan, folder: Path) -> None:
    """Run, audit and show; an interrupted run is audited and shown as far as it got."""
    console = Console()
    interrupted = False
    with ComparisonProgress(console) as progress:
        try:
            run_comparison(plan, folder, progress)
        except KeyboardInterrupt:
            interrupted = True
        if interrupted and len(pending(plan, folder)) == len(plan.trainings):
            _complain(
                f"Interrupted before the first training ended. Start again with --out {folder}",
                _INTERRUPTED,
            )
        findings = findings_of_run(plan, folder, None, progress.on_audit)
    write_findings(findings, folder / FINDINGS_FILE)
    show(folder, console)
    if interrupted:
        console.print(f"Interrupted. Go on with the same command and --out {folder}")
        raise typer.Exit(_INTERRUPTED)


def _new_folder(kind: str, data: str) -> Path:
    """A folder that no other run has."""
    return Path("runs") / f"{kind}-{data}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"


def _complain(message: str, status: int) -> None:
    """One message to standard error, and out."""
    Console(stderr=True, highlight=False).print(message, style="bold", markup=False, soft_wrap=True)
    sys.exit(status)
