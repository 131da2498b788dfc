"""Turn what an audit measured into the rows, curves and histograms of a findings document."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib.metadata import version
from statistics import fmean, stdev
from typing import NamedTuple, TypedDict

from cutlayer.attacks import ATTACKS, HISTORY_ATTACKS, Attack, HistoryAttack
from cutlayer.audits.attack_tally import Measurement
from cutlayer.audits.leak_audit import LeakAudit
from cutlayer.audits.training_audit import TrainingAudit
from cutlayer.findings.document import (
    AttackNote,
    Bound,
    ClassHistogram,
    FindingRow,
    KnowledgeBaseline,
    LeakCurve,
    Utility,
)

GENEROUS_HINT = (
    "one known positive of each batch and its gradient before the protection (the generous "
    "attacker of Li et al., 2022); its row is left out of the leak AUC"
)


_INFERENCE = Bound(
    kind="none",
    leak_auc=None,
    grounds="A protection limits what gradients tell of training labels. Activations of records to "
    "predict tell what the bottom half has learnt, and no bound covers them.",
)


@dataclass(frozen=True)
class Audited:
    """A protection, what it promised, and how well the trained model predicts."""

    utility: Utility
    one_release: Bound
    all_releases: Bound
    after: Mapping[int, Bound] = field(default_factory=dict)
    """What is promised after so many epochs; where it is not stated, that for all of them holds
    too."""

    def bound_of(self, measured: Measurement | None) -> Bound:
        """What is promised for as many releases as were measured."""
        if measured is not None and measured.stage == "inference":
            return _INFERENCE
        if measured is None or measured.releases == "all":
            return self.all_releases
        if measured.releases == "one":
            return self.one_release
        return self.after.get(measured.epochs or 0, self.all_releases)

    @property
    def name(self) -> str:
        """The protection's name."""
        return self.utility.protection

    @property
    def strength(self) -> str:
        """Its strength."""
        return self.utility.strength


class Attacked(NamedTuple):
    """A training, and what attacks on its messages reached."""

    audited: Audited
    audit: TrainingAudit | None
    """``None`` where no message was attacked, as none was sent."""
    shows_classes: bool = True
    """Whether norms and cosines of each class are shown."""


class AttackFields(TypedDict):
    """The fields of :class:`~cutlayer.findings.document.Findings` that follow from the attacks."""

    created: str
    cutlayer_version: str
    rows: list[FindingRow]
    curves: list[LeakCurve]
    histograms: list[ClassHistogram]
    baselines: list[KnowledgeBaseline]
    attacks: list[AttackNote]


def attack_fields(trainings: Sequence[Attacked]) -> AttackFields:
    """What attacks on some trainings reached, for a findings document that is made now.

    Args:
        trainings: in the order in which the document shall show them.
    """
    attacked = [(one, one.audit) for one in trainings if one.audit is not None]
    rows = [row for one in trainings for row in _rows(one)]
    return AttackFields(
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        cutlayer_version=version("cutlayer"),
        rows=rows,
        curves=[c for one, audit in attacked for c in _leak_curves(one.audited, audit.leak)],
        histograms=[
            histogram
            for one, audit in attacked
            if one.shows_classes
            for histogram in _class_histograms(one.audited, audit.leak)
        ],
        baselines=[b for one, audit in attacked for b in _knowledge_baselines(one.audited, audit)],
        attacks=_attack_notes(rows),
    )


def _rows(training: Attacked) -> list[FindingRow]:
    """One row for each measurement; one without any where nothing was attacked."""
    if training.audit is None:
        return [_row(training.audited, None)]
    return [_row(training.audited, one) for one in training.audit.leak.measurements]


def _leak_curves(audited: Audited, audit: LeakAudit) -> list[LeakCurve]:
    """Leak over the steps."""
    return [
        LeakCurve(
            protection=audited.name,
            strength=audited.strength,
            attack=curve.attack,
            layer=curve.layer,
            target=curve.target,
            step=list(curve.step),
            leak_auc=list(curve.leak_auc),
            null_floor=list(curve.null_floor),
        )
        for curve in audit.curves
    ]


def _class_histograms(audited: Audited, audit: LeakAudit) -> list[ClassHistogram]:
    """Norms and cosines by class."""
    return [
        ClassHistogram(
            protection=audited.name,
            strength=audited.strength,
            layer=histogram.layer,
            quantity=histogram.quantity,
            edges=list(histogram.edges),
            positive=list(histogram.positive),
            negative=list(histogram.negative),
        )
        for histogram in audit.histograms
    ]


def _attack_notes(rows: Sequence[FindingRow]) -> list[AttackNote]:
    """What each attack of these rows does, in the order in which they name it.

    Taken from the first sentence of its documentation. An attack that is in no table has none.
    """
    known: dict[str, Attack | HistoryAttack] = {**HISTORY_ATTACKS, **ATTACKS}
    names = dict.fromkeys(row.attack for row in rows if row.attack in known)
    return [
        AttackNote(name=name, about=_about(known[name]), published=known[name].published)
        for name in names
        if name is not None
    ]


def _about(attack: Attack | HistoryAttack) -> str:
    """The first sentence of an attack's documentation."""
    described = attack.function if isinstance(attack, Attack) else attack.begin
    if isinstance(described, partial):
        inner = described.args[0] if described.args else None
        text = inspect.getdoc(described.func) or ""
        first = text.split("\n\n")[0].replace("\n", " ")
        of = _about(inner) if isinstance(inner, Attack) else ""
        return f"{first} {of}".strip()
    text = inspect.getdoc(described) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def _knowledge_baselines(audited: Audited, audit: TrainingAudit) -> list[KnowledgeBaseline]:
    """What is known without any message."""
    return [
        KnowledgeBaseline(
            protection=audited.name,
            strength=audited.strength,
            name=known.name,
            target=known.target,
            hints=known.hints,
            leak_auc=known.leak_auc,
            leak_auc_low=known.interval.low if known.interval else None,
            leak_auc_high=known.interval.high if known.interval else None,
            true_positive_rate=known.true_positive_rate,
        )
        for known in audit.feature_baselines
    ]


def mean_and_error(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean over the splits and its standard error, each ``None`` where it is undefined.

    >>> mean_and_error([0.5, 0.75])  # two values: their error is half their distance
    (0.625, 0.125)
    >>> mean_and_error([0.5, None])  # a mean over some of the splits would pass for that of all
    (None, None)
    """
    defined = [value for value in values if value is not None]
    if not defined or len(defined) < len(values):
        return None, None
    error = stdev(defined) / len(defined) ** 0.5 if len(defined) > 1 else None
    return fmean(defined), error


def _row(audited: Audited, found: Measurement | None) -> FindingRow:
    """Join one measurement, or none, with quality and guarantee."""
    interval = found.interval if found else None
    auc, auc_error = mean_and_error(audited.utility.test_auc)
    loss, loss_error = mean_and_error(audited.utility.test_loss)
    return FindingRow(
        protection=audited.name,
        strength=audited.strength,
        attack=found.attack if found else None,
        layer=found.layer if found else None,
        releases=found.releases if found else "all",
        target=found.target if found else "labels",
        leak_auc=found.leak_auc if found else None,
        leak_auc_p95=found.leak_auc_p95 if found else None,
        raw_auc=found.raw_auc if found else None,
        pooled_auc=found.pooled_auc if found else None,
        null_floor=found.null_floor if found else None,
        null_deviation=found.null_deviation if found else None,
        batches=found.batches if found else 0,
        one_class_batches=found.one_class_batches if found else 0,
        test_auc=auc,
        test_auc_error=auc_error,
        test_loss=loss,
        test_loss_error=loss_error,
        guarantee=audited.bound_of(found),
        epochs=found.epochs if found else None,
        leak_auc_low=interval.low if interval else None,
        leak_auc_high=interval.high if interval else None,
        true_positive_rate=found.true_positive_rate if found else None,
        hints=found.hints if found else 0,
        needs=found.needs if found else None,
        family=(found.family or None) if found else None,
        stage=found.stage if found else "training",
        seeds=found.seeds if found else 1,
        leak_auc_worst_seed=found.worst_seed if found else None,
    )
