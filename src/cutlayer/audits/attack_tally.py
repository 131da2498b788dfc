"""One attack at one layer, over a whole training: what it reached in each batch and in all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cutlayer.attacks import Attack, SideKnowledge, VisitAverage
from cutlayer.audits.constant_time import both_classes
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.scope import Attacker, Layer, Stage
from cutlayer.leakage.auc_interval import (
    Interval,
    auc_interval,
    median_interval,
    true_positive_rate,
)
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from cutlayer.leakage.null_floor import median_null_floor, null_deviation, null_floor
from cutlayer.transcript.release import Release

Target = Literal["labels", "canaries"]
Releases = Literal["one", "some", "all"]

FALSE_POSITIVE_RATE = 0.01
"""At which share of accused negatives the found positives are counted."""


@dataclass(frozen=True)
class Measurement:
    """How well one attack orders the true labels, in one release or over all of them.

    Every AUC is ``None`` where no batch held what it needs; it is never 0.5 for want of data.
    """

    attack: str
    layer: Layer
    releases: Releases
    """``one``: each batch by itself. ``some``, ``all``: each record's scores joined over its visits
    of the first :attr:`epochs` epochs, or of the whole training."""
    target: Target
    leak_auc: float | None
    """Symmetrised, in [0.5, 1]: median over batches (``one``), or of the averages (``all``)."""
    leak_auc_p95: float | None
    """95th percentile over batches of the symmetrised leak AUC; ``None`` for ``all``."""
    raw_auc: float | None
    """Before symmetrising, in [0, 1]: median over batches, or of the averages."""
    pooled_auc: float | None
    """Symmetrised AUC of the scores of :attr:`pooled_epoch`, standardised (and for attacks that
    may turn round, aligned) in each batch, then ordered together; ``None`` for ``all``."""
    pooled_epoch: int | None
    """The last epoch that was observed, be it complete or not."""
    null_floor: float | None
    """95 % of attackers who know nothing stay below it, with :attr:`leak_auc` as it is defined."""
    null_deviation: float | None
    """Standard deviation of :attr:`raw_auc` for such an attacker."""
    batches: int
    """Batches measured (``one``), or averaged over (``all``)."""
    one_class_batches: int
    """Batches without an AUC, since all audited rows were of one class or none was audited."""
    hintless_batches: int
    """Batches in which the attack lacked what it needs and could not run."""
    epochs: int | None = None
    """Epochs that ``some`` and ``all`` cover; ``None`` for ``one``."""
    interval: Interval | None = None
    """95 % confidence interval of :attr:`leak_auc`: of a median over batches taken as independent
    (``one``), else DeLong's over draws of records."""
    true_positive_rate: float | None = None
    """Share of positives found when 1 % of the negatives are accused, with the sign that is right
    as a whole; for ``one`` of the scores of :attr:`pooled_epoch`."""
    hints: int = 0
    """Known records of each class."""
    seed: int = 0
    needs: str = ""
    """What the attacker must know beyond the messages, in words."""
    family: str = ""
    stage: Stage = "training"
    seeds: int = 1
    """Over how many choices of known records, or of chance, this is the median."""
    worst_seed: float | None = None
    """The highest :attr:`leak_auc` among them."""


@dataclass(frozen=True)
class StepCurve:
    """The leak AUC of one attack over the steps of the training."""

    attack: str
    layer: Layer
    target: Target
    step: tuple[int, ...]
    leak_auc: tuple[float, ...]
    """Symmetrised, one value a measured batch."""
    null_floor: tuple[float, ...]


class Measured(NamedTuple):
    """How well scores order the audited records."""

    auc: float
    positives: int
    negatives: int
    interval: Interval
    true_positive_rate: float


class AttackTally:
    """Runs one attacker on release after release and keeps the numbers, not the releases.

    Memory: three numbers a record and four a batch.

    Args:
        attacker: the attack and what is known.
        layer: where it stands.
        truth: what its scores are compared with.
        known: records whose label the attacker was given, bool ``(records,)``; they are left out
            of every number.
        after: epochs after which the averages are measured, beside the last.
        every: attack every so many-th release only; above 1 there is no average over visits.
    """

    def __init__(
        self,
        attacker: Attacker,
        layer: Layer,
        truth: GroundTruth,
        *,
        known: Tensor | None = None,
        after: tuple[int, ...] = (),
        every: int = 1,
    ) -> None:
        attack = attacker.attack
        if not isinstance(attack, Attack):
            raise ValueError(f"attacker must run an attack on one release, got {attacker.name}.")
        self.attacker = attacker
        self.layer: Layer = layer
        self.target: Target = "labels" if truth.canaries is None else "canaries"
        self._attack = attack
        self._every = every
        self._labels, self._audited = truth.labels, truth.audited
        if known is not None:
            self._audited = self._audited & ~known
        self._known = known
        self._average = VisitAverage(len(truth), oriented=attack.oriented)
        self._averaged_batches = 0
        self._epoch: int | None = None
        self._epoch_scores = torch.full((len(truth),), torch.nan, dtype=torch.float64)
        self._steps: list[int] = []
        self._raw: list[float] = []
        self._floors: list[float] = []
        self._deviations: list[float] = []
        self._one_class = 0
        self._hintless = 0
        self._seen = 0
        self._epochs: set[int] = set()
        self._after = after
        self._reached: list[Measurement] = []

    def observe(
        self, release: Release, knowledge: SideKnowledge, hinted_record: int | None = None
    ) -> None:
        """Attack one release.

        Args:
            release: what was seen.
            knowledge: what the attacker knows at this step.
            hinted_record: whose label ``knowledge.hint`` gives away; left out of every number if
                the attack uses that hint.

        Raises:
            ValueError: the attack refuses the release.
        """
        if not self._is_due(release.epoch):
            return
        if self._attack.missing(knowledge):
            self._hintless += 1
            return
        scores = self._attack.score(release, knowledge, seed=self.attacker.seed).detach().cpu()
        records = release.records.cpu()
        unknown = torch.ones_like(records, dtype=torch.bool)
        if "hint" in self._attack.side_knowledge and hinted_record is not None:
            unknown &= records != hinted_record
        if self._known is not None:
            unknown &= ~self._known[records]
        records, scores = records[unknown], scores[unknown]
        self._measure_batch(release, records, scores)
        self._pool(release.epoch, records, self._average.add(records, scores))
        self._averaged_batches += 1

    def pass_over(self, release: Release) -> None:
        """Count a release that has no hint for the attack."""
        if self._is_due(release.epoch):
            self._hintless += 1

    def _is_due(self, epoch: int) -> bool:
        """Whether the next release is to be attacked; measures what ended before it."""
        self._seen += 1
        if (self._seen - 1) % self._every:
            return False
        self._measure_epochs_before(epoch)
        return True

    def measurements(self) -> list[Measurement]:
        """In one release, after the first epochs, and over all."""
        if self._every > 1:
            return [self._one()]
        return [self._one(), *self._reached, self._all()]

    def _one(self) -> Measurement:
        """The leak in one release."""
        leaks = [symmetrised(auc) for auc in self._raw]
        pooled = measured(self._epoch_scores, self._labels, self._audited)
        return self._measurement(
            releases="one",
            leak_auc=_median(leaks),
            leak_auc_p95=_quantile(leaks, 0.95),
            raw_auc=_median(self._raw),
            pooled_auc=None if pooled is None else symmetrised(pooled.auc),
            pooled_epoch=self._epoch,
            null_floor=self._median_floor(),
            null_deviation=self._median_deviation(),
            batches=len(self._raw),
            one_class_batches=self._one_class,
            interval=median_interval(leaks) if leaks else None,
            true_positive_rate=None if pooled is None else pooled.true_positive_rate,
        )

    def _all(self) -> Measurement:
        """The leak over all releases together."""
        epochs = None if self._epoch is None else self._epoch + 1
        return self._over_visits("all", epochs)

    def _over_visits(self, releases: Releases, epochs: int | None) -> Measurement:
        """The leak of the averages as they are now."""
        found = measured(self._average.mean(), self._labels, self._audited)
        return self._measurement(
            releases=releases,
            batches=self._averaged_batches,
            epochs=epochs,
            **joined_fields(found),
        )

    def _measurement(self, **fields: Any) -> Measurement:
        """One measurement with what this attacker is."""
        attacker = self.attacker
        values: dict[str, Any] = dict.fromkeys(("leak_auc_p95", "pooled_auc", "pooled_epoch"))
        values |= {"one_class_batches": 0, **fields}
        return Measurement(
            attack=attacker.name,
            layer=self.layer,
            target=self.target,
            hintless_batches=self._hintless,
            hints=attacker.hints,
            seed=attacker.seed,
            needs=attacker.needs,
            family=attacker.attack.family,
            **values,
        )

    def _measure_epochs_before(self, epoch: int) -> None:
        """Keep the averages as they stood after the epochs that were asked for."""
        if self._every > 1:
            return
        done = {reached.epochs for reached in self._reached}
        for epochs in self._after:
            if self._averaged_batches and epochs <= epoch and epochs not in done:
                self._reached.append(self._over_visits("some", epochs))

    def curve(self) -> StepCurve:
        """The leak in each measured batch."""
        return StepCurve(
            attack=self.attacker.name,
            layer=self.layer,
            target=self.target,
            step=tuple(self._steps),
            leak_auc=tuple(symmetrised(auc) for auc in self._raw),
            null_floor=tuple(self._floors),
        )

    @property
    def _independent_batches(self) -> int:
        """Measured batches of one epoch: those of another epoch hold the same records again."""
        return max(1, len(self._raw) // max(1, len(self._epochs)))

    def _median_floor(self) -> float | None:
        """What the median over batches stays below if nothing is known."""
        deviation = _median(self._deviations)
        if deviation is None:
            return None
        return median_null_floor(deviation, self._independent_batches)

    def _median_deviation(self) -> float | None:
        """Standard deviation of the median over batches of the raw AUC if nothing is known."""
        deviation = _median(self._deviations)
        if deviation is None or self._independent_batches == 1:
            return deviation
        return deviation * math.sqrt(math.pi / 2 / self._independent_batches)

    def _measure_batch(self, release: Release, records: Tensor, scores: Tensor) -> None:
        """The leak AUC of one batch, if it has one."""
        rows = self._audited[records]
        labels = self._labels[records][rows]
        if len(labels) < 2:
            self._one_class += 1
            return
        labels, defined = both_classes(labels)
        positives = int((labels == 1).sum())
        counts = positives, len(labels) - positives
        auc = leak_auc(scores[rows], labels)
        floor, deviation = null_floor(*counts), null_deviation(*counts)
        if not defined:  # measured all the same, for the time that it takes
            self._one_class += 1
            return
        self._steps.append(release.step)
        self._epochs.add(release.epoch)
        self._raw.append(auc)
        self._floors.append(floor)
        self._deviations.append(deviation)

    def _pool(self, epoch: int, records: Tensor, standard: Tensor) -> None:
        """Keep the standardised scores of the current epoch."""
        if epoch != self._epoch:
            self._epoch_scores.fill_(torch.nan)
            self._epoch = epoch
        self._epoch_scores[records] = standard


def measured(scores: Tensor, labels: Tensor, audited: Tensor) -> Measured | None:
    """How well scores order the audited records that have one; ``None`` for want of a class.

    Args:
        scores: float64 ``(records,)``, NaN for a record without a score.
        labels: 0 or 1 where audited, ``(records,)``.
        audited: which records count, bool ``(records,)``.
    """
    rows = audited & ~scores.isnan()
    scores, labels = scores[rows], labels[rows]
    counts = _class_counts(labels)
    if counts is None:
        return None
    auc = leak_auc(scores, labels)
    interval = auc_interval(auc, scores, labels).symmetrised
    sign = 1.0 if auc >= 0.5 else -1.0
    found = true_positive_rate(sign * scores, labels, false_positive_rate=FALSE_POSITIVE_RATE)
    return Measured(auc, *counts, interval, found)


def joined_fields(found: Measured | None) -> dict[str, Any]:
    """The fields of a measurement that hold one AUC over many records."""
    if found is None:
        return dict.fromkeys(("leak_auc", "raw_auc", "null_floor", "null_deviation"), None)
    return {
        "leak_auc": symmetrised(found.auc),
        "raw_auc": found.auc,
        "null_floor": null_floor(found.positives, found.negatives),
        "null_deviation": null_deviation(found.positives, found.negatives),
        "interval": found.interval,
        "true_positive_rate": found.true_positive_rate,
    }


def over_seeds(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement for all choices of known records: their median, with the worst beside it.

    Args:
        measurements: of any attackers, in any order.

    Returns:
        For each attack, layer, amount of knowledge and number of releases the measurement with
        the median leak AUC (of an even number, the higher of the middle two).
    """
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for m in measurements:
        key = m.attack, m.layer, m.target, m.stage, m.hints, m.releases, m.epochs
        groups.setdefault(key, []).append(m)
    return [_middle(group) for group in groups.values()]


def _middle(group: list[Measurement]) -> Measurement:
    """The measurement of the middle seed."""
    defined = sorted((m for m in group if m.leak_auc is not None), key=lambda m: m.leak_auc or 0.0)
    if not defined:
        return replace(group[0], seeds=len(group))
    return replace(defined[len(defined) // 2], seeds=len(group), worst_seed=defined[-1].leak_auc)


def _class_counts(labels: Tensor) -> tuple[int, int] | None:
    """Positives and negatives; ``None`` where one class is missing."""
    positives = int((labels == 1).sum())
    negatives = len(labels) - positives
    return (positives, negatives) if positives and negatives else None


def _median(values: list[float]) -> float | None:
    """Median, or ``None`` of nothing."""
    return median(values) if values else None


def _quantile(values: list[float], share: float) -> float | None:
    """Linearly interpolated quantile, or ``None`` of nothing."""
    if not values:
        return None
    return float(torch.tensor(values, dtype=torch.float64).quantile(share))
