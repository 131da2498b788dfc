"""One party's run from its configuration: train, keep the half, predict."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from cutlayer.audits import ReleaseAudit
from cutlayer.audits.live.release_audit import usual_spacing
from cutlayer.audits.training_audit import TrainingAudit
from cutlayer.data import TableReading
from cutlayer.durable import create_private, storage
from cutlayer.errors import (
    ConfigurationError,
    ConnectionLostError,
    LeakStopError,
    PeerEndedError,
    StorageError,
)
from cutlayer.findings.document import Findings, Utility
from cutlayer.parties import (
    Agreement,
    BottomHalf,
    Canaries,
    LabelParty,
    NonLabelParty,
    Persistence,
    TopHalf,
)
from cutlayer.parties.checkpoint import (
    load_encoder,
    load_weights,
    naming,
    save_half,
    step_of_half,
)
from cutlayer.parties.handshake import Tell, say_nothing
from cutlayer.parties.observers import ProgressObserver, ReleaseObserver
from cutlayer.protocol import Role, Transport
from cutlayer.rng import SecretNoise
from cutlayer.runs.configuration import (
    FROZEN,
    LabelConfiguration,
    NonLabelConfiguration,
    PartyConfiguration,
)
from cutlayer.runs.disk_space import require_disk_space
from cutlayer.runs.guarded_observer import GuardedObserver
from cutlayer.runs.model_factory import build_bottom, build_top
from cutlayer.runs.monitor import RunMonitor, Unmonitored
from cutlayer.runs.predictions import write_predictions
from cutlayer.runs.reconnecting import until_done
from cutlayer.runs.recording import open_recorder, recorded_messages, require_recorded_labels
from cutlayer.runs.run_findings import (
    STOPPED_ON_LABELS,
    Coverage,
    KnownRun,
    Promise,
    findings_of_attacked,
)
from cutlayer.runs.run_folder import make_private
from cutlayer.runs.session_opening import endpoint_of, meeting, met, telling_peer

PREDICTIONS_FILE = "predictions.csv"
STOPPED_FILE = "stopped"
"""Says, in a label party's run folder, why ``stop_above`` has ended the run for good."""


@dataclass(frozen=True)
class LabelRun:
    """What a label party's run gave."""

    half: TopHalf
    findings: Findings


def run_label_party(
    configuration: LabelConfiguration,
    reading: TableReading,
    *,
    on_listening: Callable[[int], None] | None = None,
    observers: Sequence[ReleaseObserver] = (),
    progress: Sequence[ProgressObserver] = (),
    tell: Tell = say_nothing,
    monitor: RunMonitor | None = None,
) -> LabelRun:
    """Train as the label party; keeps tops, predictions of held-out records, and findings.

    Raises:
        CutlayerError: the run could not be done; what was checkpointed stays.
    """
    folder, monitor = configuration.run_folder, monitor or Unmonitored()
    audits: list[tuple[ReleaseAudit, GuardedObserver]] = []
    protection = configuration.applied
    with ExitStack() as held:

        def make_observers(agreement: Agreement, canaries: Canaries) -> Sequence[ReleaseObserver]:
            looking: list[ReleaseObserver] = []
            if every := _audited_every(configuration, agreement):
                generator = torch.Generator()
                generator.seed()
                audit = ReleaseAudit(canaries.training_labels, generator=generator, every=every)
                audits.append((audit, GuardedObserver(audit, "the audit (audit_every)", tell)))
                looking.append(audits[-1][1])
            if configuration.record:
                recorder = open_recorder(configuration, agreement, canaries)
                held.callback(recorder.close)
                looking.append(recorder)
            guarded = (
                GuardedObserver(one, "the live audit (live_every)", tell, on_stop=keep_stop)
                for one in observers
            )
            return (*looking, *guarded)

        def keep_stop(stop: LeakStopError) -> None:
            """Before the peer is told: whatever ends this process then, the stop is on record."""
            try:
                create_private(folder / STOPPED_FILE, f"{stop}\n".encode())
            except StorageError as error:
                tell(
                    f"label party: the stop could not be written ({error}), so another start would "
                    "send more. Do not start this run again."
                )

        with telling_peer(configuration):
            make_private(configuration)
            require_disk_space(configuration, reading.table)
            persistence = _persistence(configuration, configuration.protection_settings)
            held.callback(persistence.close)
            _require_not_stopped(folder)
            _hold_labels(persistence, reading)
            party = LabelParty(
                reading.table,
                configuration.terms(),
                protection,
                lambda _, cut_width, own: build_top(configuration, cut_width, own),
                make_optimizer(configuration),
                noise=persistence.key.noise(),
                observers=make_observers,
                progress=(monitor, *progress),
                persistence=persistence,
                compute=configuration.compute,
                deadlines=configuration.deadlines,
                cadence=configuration.cadence,
                max_ids=configuration.max_ids,
                tell=tell,
                on_event=monitor.on_event,
            )
            require_recorded_labels(configuration, reading.whole or reading.table)

        def keep(half: TopHalf) -> None:
            save_half(folder, half.halves, half.inputs.encoder, step=half.step)
            write_predictions(
                half.agreement,
                half.held_out_logit,
                folder / PREDICTIONS_FILE,
                safe_csv=configuration.safe_csv,
            )

        endpoint = held.enter_context(endpoint_of(configuration, on_listening))
        half = until_done(
            lambda transport: party.run(transport, keep),
            monitor.watched(endpoint),
            made=lambda: party.steps_made,
            wait=configuration.wait,
            tell=tell,
            meeting=lambda: meeting(configuration, endpoint),
            met=lambda: met(configuration, endpoint, has_left=lambda: party.has_left),
        )
        releases = persistence.journal.releases_per_record if persistence.journal else 0
    promise = Promise(
        None if configuration.protection == FROZEN else protection,
        releases,
        void="" if configuration.stop_above is None else STOPPED_ON_LABELS,
        crossed=half.crossed,
    )
    sound = [audit for audit, guard in audits if not guard.has_failed]
    return LabelRun(half, _findings(configuration, half, sound, promise))


def run_non_label_party(
    configuration: NonLabelConfiguration,
    reading: TableReading,
    *,
    progress: Sequence[ProgressObserver] = (),
    tell: Tell = say_nothing,
    monitor: RunMonitor | None = None,
) -> BottomHalf:
    """Train as the non-label party; keeps the bottom half.

    Raises:
        CutlayerError: the run could not be done; what was checkpointed stays.
    """
    folder, monitor = configuration.run_folder, monitor or Unmonitored()
    with telling_peer(configuration):
        make_private(configuration)
        require_disk_space(configuration, reading.table)
        persistence = _persistence(configuration)
        party = NonLabelParty(
            reading.table,
            configuration.terms(),
            lambda own: build_bottom(configuration, own),
            make_optimizer(configuration),
            progress=(monitor, *progress),
            persistence=persistence,
            compute=configuration.compute,
            deadlines=configuration.deadlines,
            max_ids=configuration.max_ids,
            allow_feature_copy=configuration.allow_feature_copy,
            tell=tell,
            on_event=monitor.on_event,
        )

    def keep(half: BottomHalf) -> None:
        save_half(folder, {"bottom": half.bottom}, half.inputs.encoder, step=half.step)

    try:
        with endpoint_of(configuration) as endpoint:
            return until_done(
                lambda transport: party.run(transport, keep),
                monitor.watched(endpoint),
                made=lambda: party.steps_made,
                wait=configuration.wait,
                tell=tell,
                meeting=lambda: meeting(configuration, endpoint),
                met=lambda: met(configuration, endpoint),
            )
    except ConnectionLostError as error:
        if party.complete is None or isinstance(error, PeerEndedError):
            raise
        tell(
            "non-label party: the label party has all that it needs from here, but its farewell "
            "did not arrive. If it has not finished, start both again."
        )
        return party.complete


def predict_as_label_party(
    configuration: LabelConfiguration,
    reading: TableReading,
    transport: Transport,
    out: Path,
    *,
    tell: Tell = say_nothing,
) -> Agreement:
    """Predict every record that both parties' files hold, with the halves of a finished run.

    Returns:
        Which records were predicted; ``out`` holds them.

    Raises:
        DataError: the run has not ended here, or the file lacks a column that was trained with.
        CutlayerError: the session failed.
    """
    folder = configuration.run_folder
    encoder = load_encoder(folder)
    party = LabelParty(
        reading.table,
        configuration.terms("prediction"),
        configuration.applied,
        lambda _, cut_width, own: build_top(configuration, cut_width, own),
        make_optimizer(configuration),
        noise=SecretNoise(),
        compute=configuration.compute,
        deadlines=configuration.deadlines,
        max_ids=configuration.max_ids,
        tell=tell,
    )

    def fill(halves: dict[str, nn.Module]) -> None:
        with naming(configuration.role):
            load_weights(folder, halves)

    def keep(agreement: Agreement, logit: Tensor) -> None:
        write_predictions(agreement, logit, out, "predicted", safe_csv=configuration.safe_csv)

    with naming(configuration.role):
        step = step_of_half(folder)
    agreement, _ = party.predict(transport, fill, encoder, step=step, keep=keep)
    return agreement


def predict_as_non_label_party(
    configuration: NonLabelConfiguration,
    reading: TableReading,
    transport: Transport,
    *,
    tell: Tell = say_nothing,
) -> Agreement:
    """Send the activations that the label party predicts from.

    Returns:
        Which records took part.

    Raises:
        DataError, CutlayerError: as :func:`predict_as_label_party`.
    """
    folder = configuration.run_folder
    encoder = load_encoder(folder)
    party = NonLabelParty(
        reading.table,
        configuration.terms("prediction"),
        lambda own: build_bottom(configuration, own),
        make_optimizer(configuration),
        compute=configuration.compute,
        deadlines=configuration.deadlines,
        max_ids=configuration.max_ids,
        tell=tell,
    )

    def fill(bottom: nn.Module) -> None:
        with naming(configuration.role):
            load_weights(folder, {"bottom": bottom})

    with naming(configuration.role):
        step = step_of_half(folder)
    return party.predict(transport, fill, encoder, step=step)


def make_optimizer(
    configuration: PartyConfiguration,
) -> Callable[[list[nn.Parameter]], torch.optim.Optimizer]:
    """Adam with the configuration's settings."""

    def make(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            parameters, lr=configuration.learning_rate, weight_decay=configuration.weight_decay
        )

    return make


def _persistence(configuration: PartyConfiguration, protection: str | None = None) -> Persistence:
    """What is kept in the run's folder."""
    told = {name: getattr(configuration, name) for name in ("learning_rate", "weight_decay")}
    return Persistence.in_folder(
        configuration.run_folder, protection, file=configuration.file, settings=told
    )


def _require_not_stopped(folder: Path) -> None:
    """Refuse to go on with a run that ``stop_above`` has ended: each start would send more."""
    path = folder / STOPPED_FILE
    if path.exists():
        with storage(path, "read"):
            stop = path.read_text(encoding="utf-8").strip()
        raise ConfigurationError(
            f"label party: {path} says that stop_above has ended this run, so nothing more of it "
            f"is sent. Begin a run of another name at both parties. It says: {stop}"
        )


def _hold_labels(persistence: Persistence, reading: TableReading) -> None:
    """Refuse changed labels by all rows of the file, also where the peer's ids chose among them."""
    whole = reading.whole
    if whole is not None and whole.labels is not None:
        persistence.hold_labels(whole.ids, whole.labels)


def _findings(
    configuration: LabelConfiguration, half: TopHalf, audits: list[ReleaseAudit], promise: Promise
) -> Findings:
    """Describe the run for the report."""
    every = _audited_every(configuration, half.agreement)
    interval = half.test.interval
    run = KnownRun(
        data=configuration.run,
        promise=promise,
        train_records=len(half.agreement.train),
        test_records=len(half.agreement.test),
        positive_share=half.positive_share,
        settings={
            key: value if isinstance(value, str | int | float | bool | None) else str(value)
            for key, value in {**configuration.model_dump(), "audit_every": every}.items()
        },
        complete=True,
        features_label_party=half.inputs.shape.width,
        utility=Utility(
            protection=promise.name,
            strength=promise.strength,
            test_auc=[half.test.auc],
            test_loss=[half.test.loss],
            test_auc_low=[interval.low if interval else None],
            test_auc_high=[interval.high if interval else None],
            base_loss=[half.test.base_loss],
            mean_probability=[half.test.mean_probability],
            positive_share=[half.test.positive_share],
        ),
    )
    sent = half.sent
    coverage = Coverage(
        messages=sent.releases,
        rows=sent.rows,
        before=sent.begin,
        recorded=recorded_messages(configuration.run_folder, before=sent.begin),
        sent=sent.begin + sent.releases,
        every=max(1, every),
    )
    audit = TrainingAudit(audits[0].result(), ()) if audits else None
    return findings_of_attacked(
        run,
        audit,
        coverage,
        f"{promise.name} was applied to all {sent.rows:,} gradient rows of {sent.releases:,} "
        f"messages of this start; each record is charged with {promise.charged} releases over all "
        "starts of the run.",
        after=() if audit is None else _epochs_of_some(audit),
    )


def _audited_every(configuration: LabelConfiguration, agreement: Agreement) -> int:
    """One of every so many messages is attacked; 0: none."""
    if configuration.protection == FROZEN:
        return 0
    records, order_seed = len(agreement.train), agreement.order_seed
    messages = len(configuration.terms().schedule(records, order_seed, Role.LABEL))
    if configuration.audit_every is None:
        return usual_spacing(messages)
    return min(configuration.audit_every, messages)  # one at least, where any is wanted


def _epochs_of_some(audit: TrainingAudit) -> list[int]:
    """After which epochs but the last attacks were measured."""
    measured = {m.epochs for m in audit.leak.measurements if m.releases == "some"}
    return sorted(epochs for epochs in measured if epochs)
