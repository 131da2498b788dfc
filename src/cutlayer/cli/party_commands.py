"""The commands of a party that trains with its own file: train, predict."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer
from pydantic import BaseModel
from rich.console import Console

from cutlayer.audits import LiveLeak
from cutlayer.audits.live.live_alarm import LiveAlarm
from cutlayer.audits.live.live_leak import Listener, live_attacks
from cutlayer.audits.live.tracking import Tracking, open_tracker
from cutlayer.cli.console import screen
from cutlayer.cli.exit_status import INTERRUPTED
from cutlayer.cli.training_progress import TrainingProgress
from cutlayer.data import TableReading
from cutlayer.durable import only_process
from cutlayer.errors import ConfigurationError, DataError, MissingExtraError
from cutlayer.escaping import escaped
from cutlayer.findings.document import Findings, read_findings, write_findings
from cutlayer.operation.monitor import Monitor
from cutlayer.operation.status import RunStatus
from cutlayer.parties.checkpoint import load_encoder
from cutlayer.parties.evaluation import Evaluation
from cutlayer.protocol import Address, Role, Transport
from cutlayer.protocol.interruption import interruptible
from cutlayer.reports import print_table, write_page
from cutlayer.runs.configuration import (
    LabelConfiguration,
    NonLabelConfiguration,
    PartyConfiguration,
    read_configuration,
    role_of,
)
from cutlayer.runs.party_runs import (
    PREDICTIONS_FILE,
    predict_as_label_party,
    predict_as_non_label_party,
    run_label_party,
    run_non_label_party,
)
from cutlayer.runs.session_opening import endpoint_of, meeting, met, read_records, telling_peer

FINDINGS_FILE, PAGE_FILE = "findings.json", "report.html"
NEW_PREDICTIONS_FILE = "predicted.csv"
NOTHING_KEPT = "Nothing was written; start the same command again at both parties."

Configuration = Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file of this party.")]


def label_party(context: typer.Context, config: Configuration) -> None:
    """Train as the label party. Every key of CONFIG can be given as an option, as --epochs 5."""
    configuration = read_configuration(LabelConfiguration, config, overrides_of(context))
    console = screen()
    with _run_of(configuration) as monitor:
        reading = _read(configuration, console)
        with _live_progress(configuration, monitor.status, console) as progress:
            run = run_label_party(
                configuration,
                reading,
                on_listening=_announce(configuration, console),
                observers=(progress,),
                progress=(progress,),
                tell=_tell(console),
                monitor=monitor,
            )
    folder, half = configuration.run_folder, run.half
    sent = half.sent.begin + half.sent.releases
    page = f"Page: {folder / PAGE_FILE}"
    if not half.sent.releases and _states(folder / FINDINGS_FILE, sent):
        console.print("Nothing was left to train. The findings and page of the run stay.")
    else:
        page = keep_page(run.findings, folder)
        # Last: whoever finds them true of all that was sent may rely on the page.
        write_findings(run.findings, folder / FINDINGS_FILE)
        print_table(run.findings, console)
    qualities = {"Validation": half.validation, "Test": half.test}
    for part, found in qualities.items():
        if found is not None:
            console.print(_quality(part, found))
            if found.undefined:
                console.print(found.undefined, style="bold yellow", soft_wrap=True)
    print_left_out(half.agreement.only_here, half.agreement.only_there, configuration, console)
    console.print(f"Predictions: {folder / PREDICTIONS_FILE}\n{page}", soft_wrap=True)


def keep_page(findings: Findings, folder: Path) -> str:
    """Write the page; returns a line that says where it is, or what to install for one."""
    try:
        write_page(findings, folder / PAGE_FILE)
    except MissingExtraError as error:
        return f"No page was written. {error}"
    return f"Page: {folder / PAGE_FILE}"


def non_label_party(context: typer.Context, config: Configuration) -> None:
    """Train as the non-label party. Every key of CONFIG can be given as an option."""
    configuration = read_configuration(NonLabelConfiguration, config, overrides_of(context))
    console = screen()
    with _run_of(configuration) as monitor:
        reading = _read(configuration, console)
        with TrainingProgress(console, monitor.status) as progress:
            half = run_non_label_party(
                configuration,
                reading,
                progress=(progress,),
                tell=_tell(console),
                monitor=monitor,
            )
    print_left_out(half.agreement.only_here, half.agreement.only_there, configuration, console)
    console.print(f"Bottom half: {configuration.run_folder}", soft_wrap=True)


def predict(
    context: typer.Context,
    config: Configuration,
    out: Annotated[
        Path | None, typer.Option(help="At the label party: where the predictions go.")
    ] = None,
) -> None:
    """Predict the records of both parties' files with a finished run; start it at both parties.

    New records: give --file. The label party's file needs no label column then.
    """
    console = screen()
    overrides = overrides_of(context)
    if role_of(config) is Role.NON_LABEL:
        asked = read_configuration(NonLabelConfiguration, config, overrides)
        with stopping(NOTHING_KEPT), alone(asked), telling_peer(asked):
            reading = _read(asked, console, predicting=True)
            with met_peer(asked, console) as transport:
                shared = predict_as_non_label_party(asked, reading, transport, tell=_tell(console))
        console.print(f"{len(shared.ids):,} records were predicted by the label party.")
        print_left_out(shared.only_here, shared.only_there, asked, console)
        return
    asking = read_configuration(LabelConfiguration, config, overrides)
    target = out or asking.run_folder / NEW_PREDICTIONS_FILE
    with stopping(NOTHING_KEPT), alone(asking), telling_peer(asking):
        reading = _read(asking, console, predicting=True)
        with met_peer(asking, console) as transport:
            shared = predict_as_label_party(asking, reading, transport, target, tell=_tell(console))
    console.print(f"{len(shared.ids):,} records were predicted: {target}", soft_wrap=True)
    print_left_out(shared.only_here, shared.only_there, asking, console)


def _quality(part: str, found: Evaluation) -> str:
    """AUC with its interval, and loss beside that of the share of positives alone."""
    auc = "not defined" if found.auc is None else f"{found.auc:.4f}"
    if found.interval is not None:
        auc += f" (95 % interval {found.interval.low:.4f} to {found.interval.high:.4f})"
    loss = "not defined" if found.loss is None else f"{found.loss:.4f}"
    if found.base_loss is not None:
        loss += f" (share of positives alone: {found.base_loss:.4f})"
    return f"{part} AUC {auc}, loss {loss}"


def overrides_of(
    context: typer.Context, keys: type[BaseModel] = LabelConfiguration
) -> dict[str, str]:
    """Keys and values given as ``--key value`` or ``--key=value``; ``--key`` alone for true.

    Args:
        context: of the command.
        keys: what may be given; tells which keys are true or false.

    Raises:
        ConfigurationError: a value is missing, a key is given twice, or something else was given.
    """
    config = str(context.params["config"])
    if config.startswith("--"):
        raise ConfigurationError(
            f"Name the configuration first: cutlayer {context.info_name} CONFIG {config} ..."
        )
    flags = {name for name, field in keys.model_fields.items() if field.annotation is bool}
    words, overrides = list(context.args), {}
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise ConfigurationError(f"{word!r} is no option. Options are --key value.")
        option, equals, value = word.partition("=")
        key = option.removeprefix("--").replace("-", "_")
        if not equals:
            is_alone = not words or words[0].startswith("--")
            if is_alone and key not in flags:
                raise ConfigurationError(
                    f"{option} needs a value. One that begins with -- is written {option}=VALUE."
                )
            value = "true" if is_alone else words.pop(0)
        if key in overrides:
            raise ConfigurationError(
                f"{option} is given twice. Give it once; a list is written as {option} a,b."
            )
        overrides[key] = value
    return overrides


def _states(path: Path, sent: int) -> bool:
    """Whether kept findings are sound and of so many messages over all starts."""
    try:
        return read_findings(path).messages_sent == sent
    except DataError:
        return False


@contextmanager
def _live_progress(
    configuration: LabelConfiguration, status: RunStatus, console: Console
) -> Iterator[TrainingProgress]:
    """The label party's progress line, with the live audit, its alarm and its log."""
    if not configuration.live_every:
        with TrainingProgress(console, status) as progress:
            yield progress
        return
    alarm = LiveAlarm(
        lambda sentence: console.print(sentence, style="bold yellow"),
        warn_above=configuration.warn_above,
        stop_above=configuration.stop_above,
    )
    listeners: list[Listener] = [status.on_reading, alarm]
    with ExitStack() as stack:
        if configuration.track is not None:
            tracking = Tracking(
                open_tracker(configuration.track),
                lambda sentence: console.print(sentence, style="bold yellow", soft_wrap=True),
            )
            stack.callback(tracking.close)
            listeners.insert(0, tracking)
        live = LiveLeak(
            live_attacks(),
            generator=torch.Generator(),
            every=configuration.live_every,
            listeners=listeners,
            stop=alarm.stop,
        )
        stack.callback(live.tell_listeners)  # a training that was stopped has one left
        yield stack.enter_context(TrainingProgress(console, status, live))


def _read(
    configuration: PartyConfiguration, console: Console, *, predicting: bool = False
) -> TableReading:
    """Read the party's file and say what was noticed."""
    if not predicting and _has_ended(configuration):
        console.print(
            f"This run has ended before; {configuration.run_folder} holds what came of it. Started "
            "again, it waits for the peer, and trains on only where epochs was raised at both "
            "parties. `cutlayer predict` uses it as it is.",
            style="yellow",
            soft_wrap=True,
        )
    torch.set_num_threads(configuration.threads)
    reading = read_records(configuration, predicting=predicting)
    for notice in reading.notices:
        console.print(escaped(notice), style="yellow", soft_wrap=True)
    return reading


def _has_ended(configuration: PartyConfiguration) -> bool:
    """Whether a training of this run came to its end here."""
    try:
        load_encoder(configuration.run_folder)
    except DataError:
        return False
    return True


def alone(configuration: PartyConfiguration) -> AbstractContextManager[None]:
    """The run folder for this process alone, before anything is read or the peer is met.

    To the peer, a second process of this party is this party: it would take the first one's place.
    """
    return only_process(configuration.run_folder, f"{configuration.role.value}: folder")


@contextmanager
def _run_of(configuration: PartyConfiguration) -> Iterator[Monitor]:
    """A run whose end the peer is told, whatever ends it and when."""
    kept = (
        f"The run is kept in {configuration.run_folder}; the same command at both parties goes on "
        "from the newest state that both have, and nothing is sent twice."
    )
    with (
        stopping(kept),
        alone(configuration),
        telling_peer(configuration),
        Monitor(configuration) as monitor,
    ):
        yield monitor


@contextmanager
def stopping(kept: str) -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a word about what was kept, and an exit status."""

    def say() -> None:
        screen(stderr=True).print(f"Stopped. {kept}", soft_wrap=True)

    try:
        with interruptible(before_force=say):
            yield
    except KeyboardInterrupt as stop:
        say()
        raise typer.Exit(getattr(stop, "status", INTERRUPTED)) from None


@contextmanager
def met_peer(configuration: PartyConfiguration, console: Console) -> Iterator[Transport]:
    """Meet the peer for one session, and say what was negotiated."""
    with endpoint_of(configuration, _announce(configuration, console)) as endpoint:
        with meeting(configuration, endpoint):
            transport = endpoint.meet(deadline=configuration.wait)
        with met(configuration, endpoint, transport):
            console.print(f"Connected by {escaped(transport.describe())}.", soft_wrap=True)
            yield transport


def _tell(console: Console) -> Callable[[str], None]:
    """Shows notices of a run."""

    def tell(notice: str) -> None:
        console.print(escaped(notice), style="yellow", soft_wrap=True)

    return tell


def _announce(configuration: PartyConfiguration, console: Console) -> Callable[[int], None]:
    """Says where the label party listens."""

    def announce(port: int) -> None:
        address = Address(configuration.meeting_point.host, port)
        console.print(f"Listening on {address} for the non-label party.")

    return announce


def print_left_out(
    here: int, there: int, configuration: PartyConfiguration, console: Console
) -> None:
    """Say how many records only one party has."""
    if here or there:
        console.print(
            f"Left out, since only one party has them: {here:,} records of the "
            f"{configuration.role.value}, {there:,} of the {configuration.role.peer.value}.",
            soft_wrap=True,
        )
