"""The commands of an audit: attack what was recorded, train with canaries, show the report."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from pydantic import ByteSize, Field, TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cutlayer.audits.external_arrays import is_external
from cutlayer.audits.scope import FULL_SCOPE, AnyAttack, AuditScope, all_attacks, attack_named
from cutlayer.audits.worker_process import available_cores
from cutlayer.cli.comparison_progress import ComparisonProgress
from cutlayer.cli.console import screen
from cutlayer.cli.exit_status import INTERRUPTED
from cutlayer.cli.party_commands import FINDINGS_FILE, keep_page
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.experiments.comparison import run_comparison
from cutlayer.experiments.findings_of_run import findings_of_run
from cutlayer.experiments.plan import PLAN_FILE, Plan, make_plan, read_plan
from cutlayer.findings.document import Findings, read_findings, write_findings
from cutlayer.findings.external import findings_of_external_transcript
from cutlayer.reports import print_table
from cutlayer.runs.canary_run import findings_of_canary_run
from cutlayer.runs.recorded_run import findings_of_recorded_run
from cutlayer.runs.recording import is_recorded_run

_HINTS = ",".join(map(str, FULL_SCOPE.hints))

OnProgress = Callable[[int, int], None]


class _Asked(NamedTuple):
    """What to try, and on how many processes."""

    attacks: Mapping[str, AnyAttack] | None
    scope: AuditScope
    workers: int

    @property
    def names(self) -> list[str] | None:
        """Names of the attacks; ``None`` for all."""
        return None if self.attacks is None else list(self.attacks)


Target = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN|TRANSCRIPT",
        help="A run folder of demo, simulate or label-party; or a transcript of another framework "
        "(.npz, .safetensors, folder). With --canaries: a run folder of demo or simulate, or the "
        "configurations of both parties.",
    ),
]
Attacks = Annotated[
    str | None, typer.Option("--attacks", help="Only these, as norm,tail_energy. Default: all.")
]
Hints = Annotated[
    str, typer.Option(help="Known records of each class that attackers are given, as 0,1,5,20.")
]
Seeds = Annotated[int, typer.Option(help="Choices of known records; their median is reported.")]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes that share the attacks. Default: one for each available core."),
]
Coins = Annotated[
    int | None,
    typer.Option("--canaries", help="Train anew with so many coins for labels, and attack those."),
]
MaxBytes = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Most memory for the arrays of a transcript, as 8GiB. Default: by the machine and "
        "the file.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder of findings and page. Default: the run folder, or runs/NAME-audit."),
]


def audit(
    target: Target,
    attacks: Attacks = None,
    hints: Hints = _HINTS,
    seeds: Seeds = FULL_SCOPE.seeds,
    canaries: Coins = None,
    workers: Workers = None,
    max_bytes: MaxBytes = None,
    out: Out = None,
) -> None:
    """Attack recorded messages with every attack, and write findings and report."""
    if workers is not None and workers < 1:
        raise ConfigurationError(f"--workers: at least 1, got {workers}.")
    asked = _Asked(_chosen(attacks), _scope(hints, seeds), workers or available_cores())
    limit = _size(max_bytes)
    console = screen()
    if canaries is None and len(target) > 1:
        raise ConfigurationError(
            f"audit takes one run or transcript, got {len(target)}: {shlex.join(map(str, target))}."
        )
    try:
        if canaries is not None:
            folder, findings = _with_canaries(target, canaries, asked, out, console)
        else:
            folder, findings = _of_recording(target[0], asked, limit, out, console)
    except ValueError as error:  # an attack refuses what was recorded, NaN say
        raise DataError(f"{shlex.join(map(str, target))}: {error}") from error
    folder.mkdir(parents=True, exist_ok=True)
    write_findings(findings, folder / FINDINGS_FILE)
    show(folder, console)


def report(
    run: Annotated[Path, typer.Argument(help="A folder that holds a findings.json.")],
) -> None:
    """Print the table of a run and write its page again, from findings.json."""
    show(run, screen())


def show(folder: Path, console: Console) -> None:
    """Print the table and write the page."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file. Name the folder that holds {FINDINGS_FILE}.")
    findings = read_findings(folder / FINDINGS_FILE)
    print_table(findings, console)
    page = keep_page(findings, folder)
    console.print(f"{page}\nData: {folder / FINDINGS_FILE}", soft_wrap=True)


def _of_recording(
    target: Path,
    asked: _Asked,
    limit: int | None,
    out: Path | None,
    console: Console,
) -> tuple[Path, Findings]:
    """Attack what lies there, whatever it is."""
    if (target / PLAN_FILE).exists():
        folder = _folder(out, target)
        with ComparisonProgress(console) as progress, _interruptible():
            return folder, findings_of_run(
                read_plan(target),
                target,
                asked.names,
                progress.on_audit,
                asked.scope,
                workers=asked.workers,
            )
    if is_recorded_run(target):
        folder = _folder(out, target)
        with _bar(console) as on_progress:
            return folder, findings_of_recorded_run(
                target, **asked._asdict(), on_progress=on_progress
            )
    if target.exists() and is_external(target):
        folder = _folder(out, Path("runs") / f"{target.stem}-audit")
        with _bar(console) as on_progress:
            return folder, findings_of_external_transcript(
                target, **asked._asdict(), on_progress=on_progress, max_bytes=limit
            )
    raise _nothing_to_attack(target)


def _folder(out: Path | None, usual: Path) -> Path:
    """Where findings and page go; refused before anything is attacked."""
    folder = out or usual
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise ConfigurationError(f"--out: {path} is a file. Name a folder.")
    return folder


def _nothing_to_attack(target: Path) -> DataError:
    """What a target is not."""
    if not target.exists():
        return DataError(f"There is no {target}. Name a run folder or a transcript.")
    if target.is_dir() and (target / "checkpoints").exists():
        return DataError(
            f"{target} is the folder of a party's run that recorded no messages. Give the label "
            'party `record = "1 GiB"` in its configuration, and train again.'
        )
    return DataError(
        f"{target} is no run folder (it has neither {PLAN_FILE} nor messages/recording.json) and "
        "no transcript (.npz, .safetensors, or a folder of them or of .npy files)."
    )


def _with_canaries(
    target: list[Path],
    canaries: int,
    asked: _Asked,
    out: Path | None,
    console: Console,
) -> tuple[Path, Findings]:
    """Train with coins for labels, and attack the coins."""
    if canaries < 2:
        raise ConfigurationError(f"--canaries: at least 2, got {canaries}.")
    if len(target) == 1 and (target[0] / PLAN_FILE).exists():
        plan = _coins_alone(read_plan(target[0]), canaries)
        folder = _folder(out, target[0] / f"canaries-{canaries}")
        _announce(canaries, folder, console)
        with ComparisonProgress(console) as progress, _interruptible():
            run_comparison(plan, folder, progress)
            return folder, findings_of_run(
                plan, folder, asked.names, progress.on_audit, asked.scope, workers=asked.workers
            )
    if any(path.suffix != ".toml" for path in target) or len(target) != 2:
        raise ConfigurationError(
            "--canaries: name a run folder of demo or simulate, or the configurations of both "
            f"parties (label party first), got {shlex.join(map(str, target))}. A training with "
            "canaries needs the files of both parties on this machine."
        )
    folder = _folder(out, Path("runs") / f"{target[0].stem}-canaries-{canaries}")
    _announce(canaries, folder, console)
    with _bar(console, "training and audit") as on_progress:
        return folder, findings_of_canary_run(
            *target,
            canaries=canaries,
            folder=folder,
            **asked._asdict(),
            on_progress=on_progress,
        )


def _coins_alone(plan: Plan, canaries: int) -> Plan:
    """The same trainings with other canaries, and none without."""
    settings = plan.model_dump() | {"canaries": canaries, "only_canaries": True, "splits": 1}
    return make_plan(**settings)


def _announce(canaries: int, folder: Path, console: Console) -> None:
    """Say what is about to be done."""
    console.print(
        f"Training anew: {canaries:,} random training records get the toss of a coin for a label. "
        f"What an attack tells about the coins came through the messages. Kept in {folder}.",
        soft_wrap=True,
    )


def _scope(hints: str, seeds: int) -> AuditScope:
    """How much the attackers know."""
    try:
        counts = tuple(sorted({int(part) for part in hints.split(",") if part.strip()}))
    except ValueError as error:
        raise ConfigurationError(f"--hints: whole numbers as 0,1,5,20, got {hints!r}.") from error
    if not counts or counts[0] < 0:
        raise ConfigurationError(f"--hints: numbers from 0, got {hints!r}.")
    if seeds < 1:
        raise ConfigurationError(f"--seeds: at least 1, got {seeds}.")
    return replace(FULL_SCOPE, hints=counts, seeds=seeds, few_records=any(counts))


def _size(text: str | None) -> int | None:
    """A number of bytes, with or without a unit."""
    if text is None:
        return None
    try:
        return TypeAdapter(Annotated[ByteSize, Field(ge=1)]).validate_python(text)
    except ValidationError as error:
        raise ConfigurationError(f"--max-bytes: a size as 8GiB, got {text!r}.") from error


def _chosen(attacks: str | None) -> Mapping[str, AnyAttack] | None:
    """The attacks of these names."""
    if attacks is None:
        return None
    names = [name.strip() for name in attacks.split(",") if name.strip()]
    if not names:
        raise ConfigurationError(f"--attacks: name at least one of {', '.join(all_attacks())}.")
    return {name: attack_named(name) for name in names}


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn Ctrl-C into a word and an exit status."""
    try:
        yield
    except KeyboardInterrupt:
        screen(stderr=True).print("Interrupted. Earlier findings are as they were.")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _bar(console: Console, title: str = "audit") -> Iterator[OnProgress]:
    """A progress bar over releases."""
    with (
        Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        ) as progress,
        _interruptible(),
    ):
        task = progress.add_task(title, total=None)

        def on_progress(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield on_progress
