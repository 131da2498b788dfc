"""A findings document sorted by protection: what each one let through, and what it promised."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import Literal

from cutlayer.audits.scope import Layer
from cutlayer.findings.document import (
    Applied,
    Bound,
    FindingRow,
    Findings,
    KnowledgeBaseline,
    Utility,
)

CANARY_DEVIATIONS = 5
"""How many standard deviations of chance a canary AUC may lie above its bound."""

Target = Literal["labels", "canaries"]
Releases = Literal["one", "some", "all"]
ResumeState = Literal["within", "above", "no bound", "no test"]
"""``no test``: bound and chance together reach 1, so no attack could ever stand above them."""

Estimate = tuple[float, float | None]
"""A mean over the splits and its standard error; the error is None for one split."""


@dataclass(frozen=True)
class CanaryCheck:
    """One attack's AUC against the coins of the canary records, beside what was promised."""

    row: FindingRow
    leak_auc: float
    limit: float | None
    """The bound plus five deviations of chance; None where nothing is promised."""

    @property
    def standing(self) -> ResumeState:
        """On which side of its limit the attack stands."""
        if self.limit is None:
            return "no bound"
        if self.limit >= 1:
            return "no test"
        return "above" if self.leak_auc > self.limit else "within"


@dataclass(frozen=True)
class AttackLine:
    """One attack with one amount of knowledge at one layer: a line of the table of attacks."""

    rows: tuple[FindingRow, ...]

    @property
    def attack(self) -> str:
        """Its name, with the number of known records."""
        name, hints = self.rows[0].attack or "", self.rows[0].hints
        return f"{name}, {hints} known" if hints and self.rows[0].needs else name

    @property
    def needs(self) -> str:
        """What the attacker must know beyond the messages."""
        return self.rows[0].needs or "–"

    @property
    def worst(self) -> float:
        """The highest leak AUC over whatever number of releases."""
        return max(_leak(row) for row in self.rows)

    def over(self, releases: Releases, epochs: int | None = None) -> FindingRow | None:
        """The row over so many releases."""
        for row in self.rows:
            if row.releases == releases and epochs in (None, row.epochs):
                return row
        return None


@dataclass(frozen=True)
class Visits:
    """One attack's leak after growing numbers of epochs."""

    line: AttackLine
    rows: tuple[FindingRow, ...]


@dataclass(frozen=True)
class Seen:
    """Which of a training's messages the attacks saw."""

    before: int = 0
    """First messages that they did not see, since an earlier start sent them."""
    gaps: bool = False
    """Whether later ones were not seen either, since nobody recorded them."""
    every: int = 1
    """Of the others they looked at one of every so many."""


WHOLE = Seen()
"""All of them."""


def seen_by(findings: Findings) -> Seen:
    """Which messages the attacks of a document saw."""
    return Seen(findings.messages_before, bool(findings.messages_missing), findings.messages_every)


@dataclass(frozen=True)
class ProtectionSummary:
    """Everything that a document says about one protection at one strength, or one baseline."""

    protection: str
    strength: str
    rows: tuple[FindingRow, ...]
    utility: Utility | None
    applied: Applied | None
    baselines: tuple[KnowledgeBaseline, ...] = ()
    """What is known without any message."""
    seen: Seen = WHOLE
    """Which messages the rows cover."""

    @property
    def label(self) -> str:
        """Name and strength, as ``marvell s=4``; the name alone where there is no strength."""
        return label(self.protection, self.strength)

    @property
    def is_baseline(self) -> bool:
        """Whether it was measured by utility alone, since no gradient is ever sent."""
        return self._without_attack and not self._sent

    @property
    def is_unattacked(self) -> bool:
        """Whether gradients were sent and no attack was run on them."""
        return not self.rows or (self._without_attack and self._sent)

    @property
    def _without_attack(self) -> bool:
        """Whether no row is an attack's."""
        return bool(self.rows) and all(row.attack is None for row in self.rows)

    @property
    def _sent(self) -> bool:
        """Whether the document states messages that the protection was applied to."""
        return self.applied is not None and self.applied.releases > 0

    @cached_property
    def attacked(self) -> tuple[FindingRow, ...]:
        """The rows of the training in which an attack reached a defined leak AUC."""
        return tuple(
            r
            for r in self.rows
            if r.attack is not None and r.leak_auc is not None and r.stage == "training"
        )

    @property
    def at_inference(self) -> tuple[FindingRow, ...]:
        """The rows of attacks on activations that are sent for prediction, worst first."""
        rows = [r for r in self.rows if r.stage == "inference" and r.leak_auc is not None]
        return tuple(sorted(rows, key=_leak, reverse=True))

    @property
    def undefined(self) -> tuple[FindingRow, ...]:
        """The rows of attacks that reached no leak AUC."""
        return tuple(r for r in self.rows if r.attack is not None and r.leak_auc is None)

    @property
    def test_auc(self) -> Estimate | None:
        """Test AUC and its standard error."""
        rows = [(r.test_auc, r.test_auc_error) for r in self.rows]
        return _first(rows) or _estimate(self.utility.test_auc if self.utility else [])

    @property
    def test_loss(self) -> Estimate | None:
        """Test loss in nats and its standard error."""
        rows = [(r.test_loss, r.test_loss_error) for r in self.rows]
        return _first(rows) or _estimate(self.utility.test_loss if self.utility else [])

    @property
    def test_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the test AUC of one split: the mean of both ends over the splits."""
        return self._means("test_auc_low", "test_auc_high")

    @property
    def base_loss(self) -> float | None:
        """Test loss of the share of positives alone, a mean over the splits."""
        found = self._means("base_loss", "base_loss")
        return found[0] if found else None

    @property
    def calibration(self) -> tuple[float, float] | None:
        """Mean predicted probability, and the share of positives, over the splits' test records."""
        return self._means("mean_probability", "positive_share")

    def _means(self, *names: str) -> tuple[float, float] | None:
        """Means of two fields of the utility over the splits, if every split has both."""
        lists = [getattr(self.utility, name, []) for name in names]
        if not all(lists) or any(value is None for values in lists for value in values):
            return None
        return fmean(lists[0]), fmean(lists[1])

    @cached_property
    def target(self) -> Target:
        """What the headline numbers are measured against: the labels, if anything was."""
        against_labels = any(row.target == "labels" for row in self.attacked)
        return "labels" if against_labels or not self.attacked else "canaries"

    def worst(
        self, *, layer: Layer | None = None, releases: Releases | None = None
    ) -> FindingRow | None:
        """The row of the strongest attack on :attr:`target`; None where nothing was measured.

        Args:
            layer: only this layer; both where None.
            releases: only one release, or all; both where None.
        """
        wanted = [
            row
            for row in self.attacked
            if row.target == self.target
            and layer in (None, row.layer)
            and releases in (None, row.releases)
        ]
        return max(wanted, key=_leak, default=None)

    def cell(self, attack: str, *, layer: Layer, releases: Releases) -> FindingRow | None:
        """The strongest row of this attack on :attr:`target` under these conditions, if any.

        An attack may have several: with more known records, say.
        """
        rows = [
            row
            for row in self.rows
            if (row.attack, row.layer, row.releases, row.target, row.stage)
            == (attack, layer, releases, self.target, "training")
        ]
        return max(rows, key=_leak, default=None)

    def lines(self, layer: Layer) -> "tuple[AttackLine, ...]":
        """Each attack with each amount of knowledge on :attr:`target`, worst first."""
        groups: dict[tuple[str, int], list[FindingRow]] = {}
        for row in self.attacked:
            if row.layer == layer and row.target == self.target and row.attack is not None:
                groups.setdefault((row.attack, row.hints), []).append(row)
        lines = [AttackLine(tuple(rows)) for rows in groups.values()]
        return tuple(sorted(lines, key=lambda line: -line.worst))

    def visits(self, layer: Layer) -> "tuple[Visits, ...]":
        """How the leak of each attack grows with the visits, worst attack first."""
        found = []
        for line in self.lines(layer):
            rows = sorted(
                (row for row in line.rows if row.epochs is not None),
                key=lambda row: row.epochs or 0,
            )
            if rows:
                found.append(Visits(line, tuple(rows)))
        return tuple(found)

    def bound(self, releases: Releases) -> Bound | None:
        """What is promised for one release or for the whole training; None where unstated.

        A bound that rests on a model is shown beside the worst attack or not at all: its value is
        left out where no attack was measured on as many releases.
        """
        stated = next((row.guarantee for row in self.rows if row.releases == releases), None)
        if stated is None or stated.kind != "model" or self.worst(releases=releases) is not None:
            return stated
        return stated.model_copy(update={"leak_auc": None})

    @property
    def beaten(self) -> bool:
        """Whether a bound that rests on a model was exceeded by an attack on as many releases."""
        for releases in ("one", "all"):
            bound, worst = self.bound(releases), self.worst(releases=releases)
            if bound is None or bound.kind != "model" or bound.leak_auc is None or worst is None:
                continue
            if _leak(worst) > bound.leak_auc:
                return True
        return False

    @property
    def kind(self) -> str | None:
        """Kind of the guarantee; None where the document states none."""
        stated = self.bound("all") or self.bound("one")
        return stated.kind if stated else None

    @property
    def canaries(self) -> tuple[CanaryCheck, ...]:
        """Every attack that was compared with the canaries' coins."""
        return tuple(
            CanaryCheck(row, _leak(row), _limit(row))
            for row in self.attacked
            if row.target == "canaries"
        )

    @property
    def tested(self) -> tuple[CanaryCheck, ...]:
        """The checks that could have failed: those with a bound and with enough canaries."""
        return tuple(c for c in self.canaries if c.standing in ("within", "above"))

    @property
    def worst_canary(self) -> CanaryCheck | None:
        """The check that decides: the furthest above its limit, else the strongest.

        Among attacks within their limits those on the whole training come first, since a single
        batch holds so few canaries that chance alone reaches high.
        """
        above = [check for check in self.canaries if check.standing == "above"]
        if above:
            return max(above, key=lambda check: check.leak_auc - (check.limit or 0.0))
        checks = self.tested or self.canaries
        whole = [check for check in checks if check.row.releases == "all"]
        return max(whole or checks, key=lambda check: check.leak_auc, default=None)


def label(protection: str, strength: str) -> str:
    """Name and strength in one; a strength of ``-`` or of nothing is left out.

    >>> label("marvell", "s=4"), label("max_norm", "-")
    ('marvell s=4', 'max_norm')
    """
    return protection if strength in ("", "-") else f"{protection} {strength}"


def by_protection(findings: Findings) -> list[ProtectionSummary]:
    """Sort a document by protection and strength, in the order in which it names them.

    Protections that have a utility or were applied, but were never attacked (an interrupted run),
    come last and have no rows.
    """
    parts: Iterable[FindingRow | Utility | Applied] = [
        *findings.rows,
        *findings.utility,
        *findings.applied,
    ]
    keys = dict.fromkeys((part.protection, part.strength) for part in parts)
    return [
        ProtectionSummary(
            *key,
            rows=tuple(r for r in findings.rows if (r.protection, r.strength) == key),
            utility=next((u for u in findings.utility if (u.protection, u.strength) == key), None),
            applied=next((a for a in findings.applied if (a.protection, a.strength) == key), None),
            baselines=tuple(b for b in findings.baselines if (b.protection, b.strength) == key),
            seen=seen_by(findings),
        )
        for key in keys
    ]


def attacks_of(findings: Findings) -> list[str]:
    """Names of the attacks, in the order in which the document first names them."""
    rows = [row.attack for row in findings.rows if row.attack is not None]
    return list(dict.fromkeys([*rows, *(curve.attack for curve in findings.curves)]))


def worst_first(
    findings: Findings,
    summaries: Iterable[ProtectionSummary],
    *,
    layer: Layer | None = None,
    releases: Releases | None = None,
) -> list[str]:
    """Names of the attacks: those that read most of any protection but no_noise first.

    Without protection nearly every attack reads everything, which orders nothing.

    Args:
        findings: the document.
        summaries: the protections that are shown.
        layer: only by what was read there, and only attacks that were run there.
        releases: only by what was read from so many, and only attacks that were run on them.
    """
    shown = list(summaries)
    protected = [s for s in shown if s.protection != "no_noise"] or shown
    highest: dict[str, float] = {}
    for summary in protected:
        for row in summary.attacked:
            if (
                row.attack is not None
                and row.target == summary.target
                and layer in (None, row.layer)
                and releases in (None, row.releases)
            ):
                highest[row.attack] = max(highest.get(row.attack, 0.0), _leak(row))
    known = attacks_of(findings)
    if layer is not None or releases is not None:
        run = {
            row.attack
            for summary in shown
            for row in summary.attacked
            if layer in (None, row.layer) and releases in (None, row.releases)
        }
        known = [attack for attack in known if attack in run]
    return sorted(known, key=lambda name: -highest.get(name, 0.0))


def layers_of(findings: Findings) -> list[Layer]:
    """The layers at which some attack was run, the cut first."""
    present = {row.layer for row in findings.rows} | {curve.layer for curve in findings.curves}
    both: tuple[Layer, Layer] = ("cut", "first")
    return [layer for layer in both if layer in present]


def below_floor(row: FindingRow) -> bool:
    """Whether chance alone explains the leak AUC: it lies at or below the null floor."""
    return (
        row.leak_auc is not None and row.null_floor is not None and row.leak_auc <= row.null_floor
    )


def above_bound(row: FindingRow) -> bool:
    """Whether an attack on the training reads more than is stated for as many releases."""
    stated = row.guarantee.leak_auc
    measured = row.attack is not None and row.stage == "training"
    return measured and stated is not None and row.leak_auc is not None and row.leak_auc > stated


def _leak(row: FindingRow) -> float:
    """The leak AUC of a row that has one."""
    return -math.inf if row.leak_auc is None else row.leak_auc


def _limit(row: FindingRow) -> float | None:
    """Bound plus five deviations of chance, where both are stated."""
    if row.guarantee.leak_auc is None or row.null_deviation is None:
        return None
    return row.guarantee.leak_auc + CANARY_DEVIATIONS * row.null_deviation


def _first(estimates: Iterable[tuple[float | None, float | None]]) -> Estimate | None:
    """The first estimate whose mean is known."""
    return next(((mean, error) for mean, error in estimates if mean is not None), None)


def _estimate(values: Sequence[float | None]) -> Estimate | None:
    """Mean and standard error of the mean of one value for each split, if each split has one."""
    defined = [value for value in values if value is not None]
    if not defined or len(defined) < len(values):
        return None
    if len(defined) == 1:
        return defined[0], None
    return fmean(defined), stdev(defined) / math.sqrt(len(defined))
