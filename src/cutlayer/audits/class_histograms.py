"""Histograms of gradients by class: the pictures that show why an attack works."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cutlayer.attacks import cosine_attack, norm_attack
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.hints import Hint
from cutlayer.audits.scope import Layer
from cutlayer.transcript.release import Release

BINS = 50


@dataclass(frozen=True)
class GradientHistogram:
    """How the received gradients of each class are distributed, over all audited releases."""

    layer: Layer
    quantity: Literal["norm", "cosine"]
    """``norm``: relative to the largest of its batch, in [0, 1]. ``cosine``: with the hint."""
    edges: tuple[float, ...]
    """Borders of the bins; the last bin includes its upper border."""
    positive: tuple[float, ...]
    """Share of the positives in each bin; sums to 1, or is all 0 if there was none."""
    negative: tuple[float, ...]


class HistogramTally:
    """Counts norms and cosines of one layer, release after release.

    Counted are the rows that the leak AUC covers; with canaries, the canaries. The row of the hint
    is left out of the cosines.
    """

    def __init__(self, layer: Layer, truth: GroundTruth) -> None:
        self.layer: Layer = layer
        self._labels, self._audited = truth.labels, truth.audited
        self._norms = torch.zeros(2, BINS, dtype=torch.int64)
        self._cosines = torch.zeros(2, BINS, dtype=torch.int64)

    def observe(self, release: Release, hint: Hint | None, *, stand_in: Hint | None = None) -> None:
        """Count one release.

        Args:
            release: what was seen.
            hint: a known positive; without one, or with a zero gradient, no cosine is counted.
            stand_in: what to take the cosines with then, for the time that it takes.

        Raises:
            ValueError: a gradient is not finite.
        """
        records = release.records.cpu()
        norm = norm_attack(release.gradient).cpu()
        largest = norm.max()
        relative = norm / largest if largest > 0 else norm
        _count(self._norms, relative, self._labels[records], self._audited[records])
        counts = self._cosines
        if hint is None or not bool(hint.gradient.any()):
            hint, counts = stand_in, torch.zeros_like(counts)
        if hint is None:
            return
        cosine = cosine_attack(release.gradient, hint.gradient).cpu()
        counted = self._audited[records] & (records != hint.record)
        _count(counts, (cosine + 1) / 2, self._labels[records], counted)

    def result(self) -> tuple[GradientHistogram, GradientHistogram]:
        """The histogram of norms and that of cosines."""
        norms = self._histogram("norm", self._norms, 0.0)
        return norms, self._histogram("cosine", self._cosines, -1.0)

    def _histogram(
        self, quantity: Literal["norm", "cosine"], counts: Tensor, low: float
    ) -> GradientHistogram:
        """Counts as shares of each class."""
        edges = torch.linspace(low, 1.0, BINS + 1, dtype=torch.float64)
        negative, positive = (counts / counts.sum(dim=1, keepdim=True).clamp(min=1)).tolist()
        return GradientHistogram(
            self.layer, quantity, tuple(edges.tolist()), tuple(positive), tuple(negative)
        )


def _count(counts: Tensor, share: Tensor, labels: Tensor, counted: Tensor) -> None:
    """Add values in [0, 1] to the bins of their class, ``counts`` being ``(2, bins)``."""
    bins = (share[counted] * BINS).long().clamp(0, BINS - 1)
    flat = labels[counted].long() * BINS + bins
    counts += torch.bincount(flat, minlength=2 * BINS).reshape(2, BINS)
