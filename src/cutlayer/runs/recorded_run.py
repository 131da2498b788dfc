"""The findings of a recorded party run: attack its messages, and join what the run itself found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cutlayer.audits.recording.recorded_steps import RecordedSteps, read_recorded_steps
from cutlayer.audits.recording.recorded_training import read_recorded_training
from cutlayer.audits.recording.recorder import TRANSCRIPT
from cutlayer.audits.scope import AnyAttack, AuditScope
from cutlayer.audits.training_audit import audit_training
from cutlayer.durable import in_use
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.findings.document import Findings, read_findings
from cutlayer.parties import CheckpointStore, ReleaseJournal
from cutlayer.parties.persistence import CHECKPOINTS_FOLDER, JOURNAL_FILE
from cutlayer.parties.top_trainer import restore_protection
from cutlayer.protections import PROTECTIONS, parse_protection
from cutlayer.runs.recording import MESSAGES, RecordingContext, read_context
from cutlayer.runs.run_findings import (
    STOPPED_ON_LABELS,
    Coverage,
    KnownRun,
    Promise,
    findings_of_attacked,
)
from cutlayer.transcript import Transcript

_FINDINGS = "findings.json"

OnProgress = Callable[[int, int], None]
"""Told how many releases are done, and how many there are."""


def findings_of_recorded_run(
    folder: Path,
    *,
    attacks: Mapping[str, AnyAttack] | None,
    scope: AuditScope,
    on_progress: OnProgress,
    workers: int = 1,
) -> Findings:
    """Attack what a label party's run recorded.

    The messages of one batch are attacked as one release: they were made with the same weights,
    and the non-label party has them all.

    The recording must not grow meanwhile: processes that read it one after the other would attack
    different messages, and the run's own findings, which it writes at its end, would be replaced
    by those of a part of it.

    Args:
        folder: of the run.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
            Only epochs that were recorded as a whole, from the first message on, are measured.
        on_progress: follows.
        workers: how many processes share the attacks, as in
            :func:`~cutlayer.audits.training_audit.audit_training`.

    Raises:
        ConfigurationError: a process of the run is working in the folder.
        DataError: the recording, or the state of the protection, is missing, empty or damaged; or
            the run was gone on with during the audit.
        ValueError: an attack refuses a release.
    """
    if in_use(folder):
        raise ConfigurationError(
            f"audit: another process is working on {folder}, which may send and record more. Wait "
            "for it to end, or stop it."
        )
    context = read_context(folder)
    transcript = Transcript(folder / MESSAGES / TRANSCRIPT)
    if len(transcript) == 0:
        raise DataError(
            f"{folder / MESSAGES} holds no message yet: the run has not finished an epoch."
        )
    sent = _sent(folder)
    seen = read_recorded_steps(folder / MESSAGES, transcript)
    messages = max(sent.messages, seen.end)
    promise = _promise(context, folder, sent.per_record, messages)
    run = _known(context, folder, promise, messages)  # now: the attacks take hours
    scope = replace(scope, after=tuple(e for e in scope.after if _whole(e, seen, sent)))
    read = partial(read_recorded_training, folder / MESSAGES, messages=context.micro_batches)
    training = read()
    total = len(training.releases)
    audit = audit_training(
        training,
        attacks=attacks,
        scope=scope,
        on_release=lambda done: on_progress(done, total),
        workers=workers,
        read_again=read,
    )
    now = _sent(folder)
    if now != sent:
        raise DataError(
            f"audit: {folder} was gone on with: it had sent {sent.messages:,} messages when the "
            f"audit began, and {now.messages:,} at its end. Nothing was written. Audit it again "
            "when no process of the run works there."
        )
    seen_epochs = max((m.epochs or 0 for m in audit.leak.measurements), default=0)
    run = replace(run, promise=replace(promise, charged=max(seen_epochs, sent.per_record)))
    coverage = _coverage(seen, messages, len(transcript), audit.leak.rows)
    statement = _statement(coverage, transcript, context.micro_batches)
    return findings_of_attacked(run, audit, coverage, statement, after=scope.after)


@dataclass(frozen=True)
class _Sent:
    """What the journal says: recording or not, every message is in it."""

    messages: int = 0
    per_record: int = 0
    per_epoch: int | None = None
    """Messages of an epoch; ``None`` where there is no journal."""


def _sent(folder: Path) -> _Sent:
    """How much the run has sent over all its starts."""
    journal = ReleaseJournal(folder / JOURNAL_FILE, None, look_only=True)
    try:
        return _Sent(journal.released, journal.releases_per_record, journal.steps_per_epoch)
    finally:
        journal.close()


def _whole(epochs: int, seen: RecordedSteps, sent: _Sent) -> bool:
    """Whether the first epochs were recorded from their first message to their last."""
    reached = seen.end if sent.per_epoch is None else epochs * sent.per_epoch
    return not seen.missing(reached)


def _coverage(seen: RecordedSteps, sent: int, messages: int, rows: int) -> Coverage:
    """What of all that was sent the recording holds."""
    gaps = seen.missing(sent)
    before = gaps[0][1] if gaps and gaps[0][0] == 0 else 0
    later = [(first + 1, end) for first, end in gaps if first]
    return Coverage(messages, rows, before=before, missing=tuple(later), sent=sent)


def _statement(coverage: Coverage, transcript: Transcript, micro_batches: int) -> str:
    """What was attacked."""
    sentence = (
        f"{coverage.rows:,} recorded gradient rows of {coverage.messages:,} messages were attacked."
    )
    part = transcript.sampled / len(transcript.ids)
    if part < 1:
        sentence += f" The recording holds the histories of {part:.1%} of the ids."
    if micro_batches > 1:
        sentence += (
            f" The {micro_batches} messages of a batch, which were made with the same weights, "
            "were attacked as one release."
        )
    return sentence


def _promise(context: RecordingContext, folder: Path, charged: int, sent: int) -> Promise:
    """The run's protection, with what its batches have left in it."""
    protection = parse_protection(context.protection, PROTECTIONS, planned_releases=context.epochs)
    seen_in = void = ""
    if protection.guarantee_depends_on_state:
        store = CheckpointStore(folder / CHECKPOINTS_FOLDER)
        step = max(store.steps, default=0)
        if step:
            restore_protection(protection, store.protection_state(step))
            seen_in = f"The batches are those of messages 1 to {step:,}, from a checkpoint"
            left_out = (
                "; later ones are taken to be no worse." if step < sent else ", which are all."
            )
            seen_in += left_out
        else:
            void = (
                f"The bound of {protection.name} depends on the batches that were sent, and no "
                "checkpoint that tells of them is left."
            )
    if context.may_stop:
        void = STOPPED_ON_LABELS
    return Promise(protection, charged, seen_in, void)


def _known(context: RecordingContext, folder: Path, promise: Promise, sent: int) -> KnownRun:
    """What the recording tells of the run, and its own findings, if they are of all that was sent.

    Those of a run that was gone on with since, and has not ended again, tell of another model.
    """
    run = KnownRun(
        data=context.run,
        promise=promise,
        train_records=context.train_records,
        test_records=context.test_records,
        positive_share=context.positive_share,
        settings=context.model_dump(),
        complete=False,
    )
    if not (folder / _FINDINGS).exists():
        return run
    kept = read_findings(folder / _FINDINGS)
    if kept.messages_sent not in (None, sent):
        return run
    return replace(
        run,
        settings=kept.settings,
        complete=kept.complete,
        features_label_party=kept.features_label_party,
        utility=kept.utility[0] if kept.utility else None,
        description=kept.description,
    )
