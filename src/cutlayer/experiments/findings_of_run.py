"""The findings of a run folder: attack what was recorded, and join it with the results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from cutlayer.audits import TRANSCRIPT, AuditScope, FirstLayerCarrier, GroundTruth
from cutlayer.audits.ground_truth import UNKNOWN
from cutlayer.audits.recording.recorded_training import (
    HeldOut,
    RecordedTraining,
    read_recorded_training,
)
from cutlayer.audits.scope import attack_named
from cutlayer.audits.training_audit import TrainingAudit, audit_training
from cutlayer.data import DATASETS
from cutlayer.errors import DataError
from cutlayer.experiments.comparison import training_folder
from cutlayer.experiments.plan import Plan, Training
from cutlayer.experiments.result import Result, read_result
from cutlayer.experiments.two_parties import HANDED_OVER, LABEL_FOLDER, make_bottom
from cutlayer.findings.document import Applied, Bound, Findings, Utility
from cutlayer.findings.rows import GENEROUS_HINT, Attacked, Audited, attack_fields
from cutlayer.transcript import NonLabelHalf, Transcript

OnAudit = Callable[[str, int, int], None]
"""Told the name of the audited training, how many releases are done, and how many there are."""


class _Done(NamedTuple):
    """A training that has ended."""

    training: Training
    result: Result


def findings_of_run(
    plan: Plan,
    run_folder: Path,
    attacks: list[str] | None,
    on_audit: OnAudit,
    scope: AuditScope | None = None,
    workers: int = 1,
) -> Findings:
    """Attack every recorded training of a run, and describe the whole run.

    Args:
        plan: of the run.
        run_folder: what :func:`~cutlayer.experiments.comparison.run_comparison` made.
        attacks: names of the attacks to run; ``None`` for all that the scope allows.
        on_audit: follows the progress.
        scope: how much the attackers know; ``None`` for the cheap ones with at most one hint.
        workers: how many processes share the attacks on each training, as in
            :func:`~cutlayer.audits.training_audit.audit_training`.

    Raises:
        UnknownNameError: no attack of this name.
        DataError: no training has ended, or a file is damaged.
    """
    chosen = None if attacks is None else {name: attack_named(name) for name in attacks}
    scope = scope or AuditScope()
    done = _done(plan, run_folder)
    audited = [entry for entry in done if entry.training.audited]
    total, before = sum(entry.result.releases for entry in audited), 0
    audits: list[tuple[_Done, TrainingAudit]] = []
    for entry in audited:
        name = entry.training.name
        on_audit(name, before, total)
        read = partial(_recorded, plan, entry, run_folder)
        audit = audit_training(
            read(),
            attacks=chosen,
            scope=scope,
            on_release=partial(_tell, on_audit, name, before, total),
            workers=workers,
            read_again=read,
        )
        audits.append((entry, audit))
        before += entry.result.releases
    on_audit("", total, total)
    utility = {label: _utility(label, done) for label in dict.fromkeys(_label(e) for e in done)}
    attacked = [
        Attacked(_audited(e, utility, scope), audit, shows_classes=not e.training.canaries)
        for e, audit in audits
    ]
    baselines = {_label(entry): entry for entry in done if not entry.result.rows}
    silent = [Attacked(_audited(e, utility, scope), None) for e in baselines.values()]
    return Findings(
        **attack_fields([*attacked, *silent]),
        data=plan.data,
        train_records=done[0].result.train_records,
        test_records=done[0].result.test_records,
        positive_share=done[0].result.positive_share,
        features_non_label_party=_columns_at_non_label_party(audited, run_folder),
        features_label_party=done[0].result.columns,
        settings=_settings(plan),
        processes=1 if plan.simulated else 2,
        noise="simulation: noise is reproducible" if plan.simulated else "secret",
        hint=GENEROUS_HINT,
        first_layer=_first_layer_note(audits),
        complete=len(done) == len(plan.trainings),
        applied=[_applied(e.result) for e in audited if not e.training.canaries],
        utility=list(utility.values()),
        description=DATASETS[plan.data]().description,
    )


def _done(plan: Plan, run_folder: Path) -> list[_Done]:
    """The trainings with a result, in the plan's order."""
    done = []
    for training in plan.trainings:
        result = read_result(training_folder(run_folder, training))
        if result is not None:
            done.append(_Done(training, result))
    if not done:
        raise DataError(
            f"{run_folder}: no training has ended yet, so there is nothing to show. Run it again "
            f"with --out {run_folder}."
        )
    return done


def _tell(on_audit: OnAudit, name: str, before: int, total: int, done: int) -> None:
    """Pass the progress of one training on as that of all."""
    on_audit(name, before + done, total)


def _recorded(plan: Plan, entry: _Done, run_folder: Path) -> RecordedTraining:
    """One recorded training, with the peer's half where it was given."""
    training, sent = entry.training, entry.result.releases
    folder = training_folder(run_folder, training)
    own = folder / LABEL_FOLDER
    transcript = Transcript(own / TRANSCRIPT)
    if len(transcript) != sent:
        raise DataError(
            f"{own / TRANSCRIPT} holds {len(transcript)} of the {sent} releases that were sent. "
            f"Delete {folder} and run again."
        )
    recorded = read_recorded_training(own)
    if not (folder / HANDED_OVER).exists():
        return recorded
    half = NonLabelHalf(folder / HANDED_OVER)
    bottom = make_bottom(plan, training, half.features.shape[1])
    return replace(
        recorded,
        first_layer=FirstLayerCarrier(half, bottom),
        features=half.features,
        held_out=_held_out(plan, transcript.ids, recorded.truth, half, bottom),
    )


def _held_out(
    plan: Plan, ids: Sequence[str], truth: GroundTruth, half: NonLabelHalf, bottom: nn.Module
) -> HeldOut | None:
    """What the non-label party sends for the records that were never trained on.

    With the weights of the last step, whose own update is missing.
    """
    rows = (truth.labels == UNKNOWN).nonzero()[:, 0]
    labels = DATASETS[plan.data]().label_party_table().ordered_by(ids).labels
    if not half.steps or len(rows) == 0 or labels is None:
        return None
    half.load_bottom(half.steps[-1], bottom)
    with torch.no_grad():
        return HeldOut(bottom(half.features[rows]), labels[rows])


def _audited(
    entry: _Done, utility: Mapping[tuple[str, str], Utility], scope: AuditScope
) -> Audited:
    """A training with its promises, and the quality of all trainings of its protection."""
    result, training = entry.result, entry.training
    after = {}
    if result.releases:
        after = {e: Bound.of(training.protection.guarantee(e)) for e in scope.after}
    return Audited(utility[_label(entry)], result.one_release, result.all_releases, after)


def _utility(label: tuple[str, str], done: list[_Done]) -> Utility:
    """Quality on each split; trainings with canaries are for the audit only."""
    results = [e.result for e in done if _label(e) == label and not e.result.canaries]
    return Utility(
        protection=label[0],
        strength=label[1],
        test_auc=[result.test_auc for result in results],
        test_loss=[result.test_loss for result in results],
        test_auc_low=[result.test_auc_low for result in results],
        test_auc_high=[result.test_auc_high for result in results],
        base_loss=[result.base_loss for result in results],
        mean_probability=[result.mean_probability for result in results],
        positive_share=[result.test_positive_share for result in results],
    )


def _applied(result: Result) -> Applied:
    """What was done to how many rows."""
    return Applied(
        protection=result.protection,
        strength=result.strength,
        stage=result.stage,
        releases=result.releases,
        rows=result.rows,
        statement=f"{result.protection} was applied to all {result.rows:,} gradient rows of "
        f"{result.releases:,} messages, at stage {result.stage}.",
    )


def _columns_at_non_label_party(audited: list[_Done], run_folder: Path) -> int:
    """Encoded columns of the non-label party; 0 where it handed nothing over."""
    for entry in audited:
        folder = training_folder(run_folder, entry.training) / HANDED_OVER
        if folder.exists():
            return int(NonLabelHalf(folder).features.shape[1])
    return 0


def _first_layer_note(audits: list[tuple[_Done, TrainingAudit]]) -> str:
    """Whether the first layer was measured."""
    layers = {m.layer for _, audit in audits for m in audit.leak.measurements}
    if "first" in layers:
        return "measured"
    return "not measured (bounded by the cut): the non-label party did not hand over its half"


def _settings(plan: Plan) -> dict[str, str | int | float | bool | None]:
    """The plan as flat values."""
    return {
        name: ", ".join(value) if isinstance(value, tuple) else value
        for name, value in plan.model_dump().items()
    }


def _label(entry: _Done) -> tuple[str, str]:
    """Name and strength."""
    return entry.result.protection, entry.result.strength
