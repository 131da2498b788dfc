"""The findings of a run: what is known of it, joined with what attacks on its messages reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cutlayer.audits.training_audit import TrainingAudit
from cutlayer.findings.document import Applied, Bound, Findings, Utility
from cutlayer.findings.rows import GENEROUS_HINT, Attacked, Audited, attack_fields
from cutlayer.protections import Protection
from cutlayer.runs.configuration import FROZEN

NOT_HANDED_OVER = "not measured (bounded by the cut): it needs the non-label party's half"
"""Why the first layer of a run of two organisations is not measured."""
STOPPED_ON_LABELS = (
    "Training may stop on an audit of the labels (stop_above), so the moment of stopping tells "
    "about them and no bound holds."
)
"""Grounds of the guarantee of a run that may stop on what its live audit reads.

Whether it stopped or not: that it did *not* stop tells about the labels as well."""

Setting = str | int | float | bool | None


@dataclass(frozen=True)
class Promise:
    """What the protection of a run promises, by all that is known of its batches."""

    protection: Protection | None
    """The object that the run used, or one with its state; ``None`` for ``frozen``, under which no
    message depends on a label."""
    charged: int
    """How often a record was sent at most, over all starts."""
    seen_in: str = ""
    """Where the state of the protection was taken from, as a sentence for the grounds."""
    void: str = ""
    """Why nothing can be promised, if that is so."""
    crossed: str = ""
    """Under ``frozen``, what left the non-label party instead, as a sentence for the grounds."""

    @property
    def name(self) -> str:
        """The protection's name."""
        return FROZEN if self.protection is None else self.protection.name

    @property
    def strength(self) -> str:
        """Its strength."""
        return "-" if self.protection is None else self.protection.strength

    @property
    def stage(self) -> str:
        """Where it acts."""
        return "none" if self.protection is None else self.protection.stage.value

    def over(self, releases: int) -> Bound:
        """The bound for so many releases of a record."""
        if self.void:
            return Bound(kind="none", leak_auc=None, grounds=self.void)
        if self.protection is None or not self.charged:
            grounds = f"No message depends on a label. {self.crossed}".strip()
            return Bound(kind="rigorous", leak_auc=0.5, grounds=grounds)
        return Bound.of(self.protection.guarantee(releases), also=self.seen_in)


@dataclass(frozen=True)
class Coverage:
    """Which of a run's gradient messages the attacks saw, and how many rows."""

    messages: int
    """That were seen, or were sent since the audit began."""
    rows: int
    before: int = 0
    """Messages of earlier starts that were not seen."""
    missing: tuple[tuple[int, int], ...] = ()
    """Numbers of the first and last message of each later gap, counted from 1."""
    recorded: int = 0
    """Of those before, how many the run's folder holds."""
    sent: int | None = None
    """Over all starts; ``None`` where nobody knows."""
    every: int = 1
    """Of those that were seen, one of every so many was attacked."""


@dataclass(frozen=True)
class KnownRun:
    """What is known of a run, whoever attacks its messages."""

    data: str
    promise: Promise
    train_records: int
    test_records: int
    positive_share: float
    settings: Mapping[str, Setting]
    complete: bool
    features_label_party: int = 0
    features_non_label_party: int = 0
    processes: Literal[1, 2] = 2
    first_layer: str = NOT_HANDED_OVER
    utility: Utility | None = None
    """How well the model predicts, where that is known; under the name of any protection."""
    description: str | None = None


def findings_of_attacked(
    run: KnownRun,
    audit: TrainingAudit | None,
    coverage: Coverage,
    statement: str,
    *,
    after: Sequence[int] = (),
) -> Findings:
    """Join what is known of a run with what attacks on its messages reached.

    Args:
        run: what is known of it.
        audit: what the attacks reached; ``None`` where none was run.
        coverage: which messages they saw.
        statement: what the protection did to those, one sentence.
        after: epochs after which attacks were measured beside the last.
    """
    promise = run.promise
    utility = Utility(protection=promise.name, strength=promise.strength, test_auc=[], test_loss=[])
    if run.utility is not None:
        named = {"protection": promise.name, "strength": promise.strength}
        utility = run.utility.model_copy(update=named)
    audited = Audited(
        utility,
        promise.over(1),
        promise.over(promise.charged),
        {epochs: promise.over(epochs) for epochs in after if epochs < promise.charged},
    )
    return Findings(
        **attack_fields([Attacked(audited, audit)]),
        data=run.data,
        train_records=run.train_records,
        test_records=run.test_records,
        positive_share=run.positive_share,
        features_non_label_party=run.features_non_label_party,
        features_label_party=run.features_label_party,
        settings=dict(run.settings),
        processes=run.processes,
        noise="secret",
        hint=GENEROUS_HINT,
        first_layer=run.first_layer,
        complete=run.complete,
        applied=[
            Applied(
                protection=promise.name,
                strength=promise.strength,
                stage=promise.stage,
                releases=coverage.messages,
                rows=coverage.rows,
                statement=statement,
            )
        ],
        utility=[utility],
        description=run.description,
        messages_before=coverage.before,
        messages_missing=list(coverage.missing),
        messages_recorded=coverage.recorded,
        messages_sent=coverage.sent,
        messages_every=coverage.every,
    )
