"""The findings of a run folder: attack what was recorded, and join it with the results."""

from collections.abc import Callable, Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from cutlayer.attacks import ATTACKS, Attack, runnable
from cutlayer.audits import (
    HINTS,
    TRANSCRIPT,
    TRUTH,
    FirstLayerCarrier,
    LeakAudit,
    audit_leak,
    read_hints,
    read_truth,
)
from cutlayer.audits.finding_rows import (
    GENEROUS_HINT,
    Audited,
    baseline_row,
    class_histograms,
    finding_rows,
    leak_curves,
)
from cutlayer.audits.findings import Applied, Findings, Utility
from cutlayer.errors import DataError
from cutlayer.experiments.comparison import training_folder
from cutlayer.experiments.plan import Plan, Training
from cutlayer.experiments.result import Result, read_result
from cutlayer.experiments.two_parties import HANDED_OVER, LABEL_FOLDER, make_bottom
from cutlayer.transcript import NonLabelHalf, Transcript

OnAudit = Callable[[str, int, int], None]
"""Told the name of the next audit, how many are done, and how many there are."""


class _Done(NamedTuple):
    """A training that has ended."""

    training: Training
    result: Result


def findings_of_run(
    plan: Plan, run_folder: Path, attacks: list[str] | None, on_audit: OnAudit
) -> Findings:
    """Attack every recorded training of a run, and describe the whole run.

    Args:
        plan: of the run.
        run_folder: what :func:`~cutlayer.experiments.comparison.run_comparison` made.
        attacks: names of the attacks to run; ``None`` for the cheap ones with at most one hint.
        on_audit: follows the progress.

    Raises:
        UnknownNameError: no attack of this name.
        DataError: no training has ended, or a file is damaged.
    """
    chosen = {name: ATTACKS[name] for name in attacks or runnable(ATTACKS, known=("hint",))}
    done = _done(plan, run_folder)
    audited = [entry for entry in done if entry.training.audited]
    audits: list[tuple[_Done, LeakAudit]] = []
    for index, entry in enumerate(audited):
        on_audit(entry.training.name, index, len(audited))
        audits.append((entry, _audit(plan, entry, run_folder, chosen)))
    on_audit("", len(audited), len(audited))
    utility = {label: _utility(label, done) for label in dict.fromkeys(_label(e) for e in done)}
    joined = [(_audited(entry, utility), entry, audit) for entry, audit in audits]
    baselines = {_label(entry): entry for entry in done if not entry.result.rows}
    return Findings(
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        cutlayer_version=version("cutlayer"),
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
        rows=[row for known, _, audit in joined for row in finding_rows(known, audit)]
        + [baseline_row(_audited(entry, utility)) for entry in baselines.values()],
        applied=[_applied(e.result) for e in audited if not e.training.canaries],
        utility=list(utility.values()),
        curves=[curve for known, _, audit in joined for curve in leak_curves(known, audit)],
        histograms=[
            histogram
            for known, entry, audit in joined
            if not entry.training.canaries
            for histogram in class_histograms(known, audit)
        ],
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


def _audit(plan: Plan, entry: _Done, run_folder: Path, attacks: Mapping[str, Attack]) -> LeakAudit:
    """Attack one recorded training, at the first layer too where the peer's half was given."""
    training, sent = entry.training, entry.result.releases
    folder = training_folder(run_folder, training)
    own = folder / LABEL_FOLDER
    carrier = None
    if (folder / HANDED_OVER).exists():
        half = NonLabelHalf(folder / HANDED_OVER)
        bottom = make_bottom(plan, training, half.features.shape[1])
        carrier = FirstLayerCarrier(half, bottom)
    transcript = Transcript(own / TRANSCRIPT)
    if len(transcript) != sent:
        raise DataError(
            f"{own / TRANSCRIPT} holds {len(transcript)} of the {sent} releases that were sent. "
            f"Delete {folder} and run again."
        )
    return audit_leak(
        transcript,
        read_truth(own / TRUTH),
        hints=read_hints(own / HINTS),
        attacks=attacks,
        first_layer=carrier,
    )


def _audited(entry: _Done, utility: Mapping[tuple[str, str], Utility]) -> Audited:
    """A training with its promises, and the quality of all trainings of its protection."""
    result = entry.result
    return Audited(utility[_label(entry)], result.one_release, result.all_releases)


def _utility(label: tuple[str, str], done: list[_Done]) -> Utility:
    """Quality on each split; trainings with canaries are for the audit only."""
    results = [e.result for e in done if _label(e) == label and not e.result.canaries]
    return Utility(
        protection=label[0],
        strength=label[1],
        test_auc=[result.test_auc for result in results],
        test_loss=[result.test_loss for result in results],
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


def _first_layer_note(audits: list[tuple[_Done, LeakAudit]]) -> str:
    """Whether the first layer was measured."""
    layers = {m.layer for _, audit in audits for m in audit.measurements}
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
