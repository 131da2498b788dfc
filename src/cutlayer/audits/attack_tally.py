"""One attack at one layer, over a whole training: what it reached in each batch and in all."""

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch
from torch import Tensor

from cutlayer.attacks import Attack, SideKnowledge, VisitAverage
from cutlayer.audits.findings import Layer
from cutlayer.audits.hints import Hint
from cutlayer.audits.truth import Truth
from cutlayer.leakage.leak_auc import leak_auc, symmetrised
from cutlayer.leakage.null_floor import median_null_floor, null_deviation, null_floor
from cutlayer.transcript.release import Release

Target = Literal["labels", "canaries"]


@dataclass(frozen=True)
class Measurement:
    """How well one attack orders the true labels, in one release or over all of them.

    Every AUC is ``None`` where no batch held what it needs; it is never 0.5 for want of data.
    """

    attack: str
    layer: Layer
    releases: Literal["one", "all"]
    """``one``: each batch by itself. ``all``: each record's scores averaged over its visits."""
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
    """Batches in which the attack had no usable hint and could not run."""


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


class AttackTally:
    """Runs one attack on release after release and keeps the numbers, not the releases.

    Memory: three numbers a record and four a batch.
    """

    def __init__(self, name: str, attack: Attack, layer: Layer, truth: Truth) -> None:
        self.name = name
        self.layer: Layer = layer
        self.target: Target = "labels" if truth.canaries is None else "canaries"
        self._attack = attack
        self._labels, self._audited = truth.labels, truth.audited
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
        self._epochs: set[int] = set()

    def observe(self, release: Release, hint: Hint | None) -> None:
        """Attack one release.

        The row of the hint is left out of every number if the attack was given the hint.

        Raises:
            ValueError: the attack refuses the release.
        """
        needs_hint = "hint" in self._attack.side_knowledge
        if needs_hint and (hint is None or not bool(hint.gradient.any())):
            self._hintless += 1
            return
        knowledge = SideKnowledge(hint=hint.gradient if hint else None)
        if self._attack.missing(knowledge):
            self._hintless += 1
            return
        scores = self._attack.score(release, knowledge).detach().cpu()
        records = release.records.cpu()
        if needs_hint and hint is not None:
            unknown = records != hint.record
            records, scores = records[unknown], scores[unknown]
        self._measure_batch(release, records, scores)
        self._pool(release.epoch, records, self._average.add(records, scores))
        self._averaged_batches += 1

    def one(self) -> Measurement:
        """The leak in one release."""
        leaks = [symmetrised(auc) for auc in self._raw]
        pooled = _auc(self._epoch_scores, self._labels, self._audited)
        return Measurement(
            attack=self.name,
            layer=self.layer,
            releases="one",
            target=self.target,
            leak_auc=_median(leaks),
            leak_auc_p95=_quantile(leaks, 0.95),
            raw_auc=_median(self._raw),
            pooled_auc=None if pooled is None else symmetrised(pooled[0]),
            pooled_epoch=self._epoch,
            null_floor=self._median_floor(),
            null_deviation=self._median_deviation(),
            batches=len(self._raw),
            one_class_batches=self._one_class,
            hintless_batches=self._hintless,
        )

    def all(self) -> Measurement:
        """The leak over all releases together."""
        measured = _auc(self._average.mean(), self._labels, self._audited)
        auc, positives, negatives = measured or (None, 0, 0)
        return Measurement(
            attack=self.name,
            layer=self.layer,
            releases="all",
            target=self.target,
            leak_auc=None if auc is None else symmetrised(auc),
            leak_auc_p95=None,
            raw_auc=auc,
            pooled_auc=None,
            pooled_epoch=None,
            null_floor=None if auc is None else null_floor(positives, negatives),
            null_deviation=None if auc is None else null_deviation(positives, negatives),
            batches=self._averaged_batches,
            one_class_batches=0,
            hintless_batches=self._hintless,
        )

    def curve(self) -> StepCurve:
        """The leak in each measured batch."""
        return StepCurve(
            attack=self.name,
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
        measured = _auc(scores, self._labels[records], self._audited[records])
        if measured is None:
            self._one_class += 1
            return
        auc, positives, negatives = measured
        self._steps.append(release.step)
        self._epochs.add(release.epoch)
        self._raw.append(auc)
        self._floors.append(null_floor(positives, negatives))
        self._deviations.append(null_deviation(positives, negatives))

    def _pool(self, epoch: int, records: Tensor, standard: Tensor) -> None:
        """Keep the standardised scores of the current epoch."""
        if epoch != self._epoch:
            self._epoch_scores.fill_(torch.nan)
            self._epoch = epoch
        self._epoch_scores[records] = standard


def _auc(scores: Tensor, labels: Tensor, audited: Tensor) -> tuple[float, int, int] | None:
    """AUC, positives and negatives of the audited rows with a score; ``None`` for one class."""
    rows = audited & ~scores.isnan()
    positives = int((labels[rows] == 1).sum())
    negatives = int(rows.sum()) - positives
    if positives == 0 or negatives == 0:
        return None
    return leak_auc(scores[rows], labels[rows]), positives, negatives


def _median(values: list[float]) -> float | None:
    """Median, or ``None`` of nothing."""
    return median(values) if values else None


def _quantile(values: list[float], share: float) -> float | None:
    """Linearly interpolated quantile, or ``None`` of nothing."""
    if not values:
        return None
    return float(torch.tensor(values, dtype=torch.float64).quantile(share))
