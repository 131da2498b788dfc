"""The findings of a recorded party run: attack its messages, and join what the run itself found."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from cutlayer.parties import ReleaseJournal
from cutlayer.parties.persistence import JOURNAL_FILE
from cutlayer.audits.finding_rows import (
    GENEROUS_HINT,
    Audited,
    attack_notes,
    class_histograms,
    finding_rows,
    knowledge_baselines,
    leak_curves,
)
from cutlayer.audits.findings import Applied, Bound, Findings, Utility, read_findings
from cutlayer.audits.recorded_training import read_recorded_training
from cutlayer.audits.recorder import TRANSCRIPT
from cutlayer.audits.scope import AnyAttack, AuditScope
from cutlayer.audits.training_audit import audit_training
from cutlayer.errors import DataError
from cutlayer.protections import PROTECTIONS, parse_protection
from cutlayer.runs.recording import MESSAGES, RecordingContext, read_context, without_guarantee
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

    Args:
        folder: of the run.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        on_progress: follows.
        workers: how many processes share the attacks, as in
            :func:`~cutlayer.audits.training_audit.audit_training`.

    Raises:
        DataError: the recording is missing, empty or damaged.
        ValueError: an attack refuses a release.
    """
    context = read_context(folder)
    transcript = Transcript(folder / MESSAGES / TRANSCRIPT)
    if len(transcript) == 0:
        raise DataError(
            f"{folder / MESSAGES} holds no message yet: the run has not finished an epoch."
        )
    read = partial(read_recorded_training, folder / MESSAGES)
    audit = audit_training(
        read(),
        attacks=attacks,
        scope=scope,
        on_release=lambda done: on_progress(done, len(transcript)),
        workers=workers,
        read_again=read,
    )
    kept = read_findings(folder / _FINDINGS) if (folder / _FINDINGS).exists() else None
    seen_epochs = max((m.epochs or 0 for m in audit.leak.measurements), default=0)
    sent = max(seen_epochs, _releases_on_record(folder))
    audited = _audited(context, kept, sent, scope)
    part = transcript.sampled / len(transcript.ids)
    seen, releases = audit.leak.rows, audit.leak.releases
    sampled = "" if part == 1 else f" The recording holds the histories of {part:.1%} of the ids."
    rows = finding_rows(audited, audit.leak)
    findings = Findings(
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        cutlayer_version=version("cutlayer"),
        data=context.run,
        train_records=context.train_records,
        test_records=context.test_records,
        positive_share=context.positive_share,
        features_non_label_party=0,
        features_label_party=kept.features_label_party if kept else 0,
        settings=kept.settings if kept else context.model_dump(),
        processes=2,
        noise="secret",
        hint=GENEROUS_HINT,
        first_layer="not measured (bounded by the cut): it needs the non-label party's half",
        complete=kept.complete if kept else False,
        rows=rows,
        applied=[
            Applied(
                protection=audited.name,
                strength=audited.strength,
                stage=kept.applied[0].stage if kept and kept.applied else "gradient",
                releases=releases,
                rows=seen,
                statement=f"{seen:,} recorded gradient rows of {releases:,} messages were attacked."
                + sampled,
            )
        ],
        utility=[audited.utility],
        curves=leak_curves(audited, audit.leak),
        histograms=class_histograms(audited, audit.leak),
        baselines=knowledge_baselines(audited, audit),
        attacks=attack_notes(rows),
        description=kept.description if kept else None,
    )
    return without_guarantee(findings) if context.may_stop else findings


def _releases_on_record(folder: Path) -> int:
    """How often a record was sent: a crash may have cost the recording the last messages."""
    journal = ReleaseJournal(folder / JOURNAL_FILE, None, look_only=True)
    try:
        return journal.releases_per_record
    finally:
        journal.close()


def _audited(
    context: RecordingContext, kept: Findings | None, sent: int, scope: AuditScope
) -> Audited:
    """The run's protection with its promises, and how well the model predicts."""
    applied = parse_protection(context.protection, PROTECTIONS, planned_releases=context.epochs)

    def promised(releases: int) -> Bound:
        guarantee = applied.guarantee(releases)
        return Bound(
            kind=guarantee.kind, leak_auc=guarantee.leak_auc, grounds=guarantee.grounds
        )

    utility = Utility(
        protection=applied.name, strength=applied.strength, test_auc=[], test_loss=[]
    )
    if kept is not None and kept.utility:
        known = kept.utility[0]
        utility = utility.model_copy(
            update={"test_auc": known.test_auc, "test_loss": known.test_loss}
        )
    after = {epochs: promised(epochs) for epochs in scope.after if epochs < sent}
    return Audited(utility, promised(1), promised(sent), after)
