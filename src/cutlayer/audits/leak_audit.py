"""The leak audit: every attack on every release, in one pass, against the truth."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cutlayer.attacks import ATTACKS, Attack, runnable
from cutlayer.audits.attack_tally import AttackTally, Measurement, StepCurve, Target
from cutlayer.audits.class_histograms import GradientHistogram, HistogramTally
from cutlayer.audits.findings import Layer
from cutlayer.audits.hints import Hint, Hints
from cutlayer.audits.truth import Truth
from cutlayer.transcript.release import Release

FirstLayer = Callable[[Release, Hint | None], tuple[Release, Hint | None]]
"""Turns a release at the cut, and its hint, into their versions at the first trainable layer."""


@dataclass(frozen=True)
class LeakAudit:
    """What the attacks reached."""

    target: Target
    """What scores were compared with: all known labels, or the coins of the canaries."""
    measurements: tuple[Measurement, ...]
    """Two for each layer and attack: over one release, and over all."""
    curves: tuple[StepCurve, ...]
    histograms: tuple[GradientHistogram, ...]
    """Norms and cosines of each layer."""
    releases: int
    """Releases observed, whether they could be measured or not."""
    rows: int
    """Gradient rows in them."""


class LeakAuditor:
    """Takes in releases as they come and keeps scores by record, never a release.

    Use it inside a running simulation; :func:`audit_leak` does the same for a kept transcript.

    Args:
        truth: labels by record, and the canaries if there are any: then AUCs cover them alone.
        attacks: which attacks to run, by name; ``None`` for the cheap ones with at most one hint.
        first_layer: how to carry a release to the non-label party's first layer; ``None``
            measures the cut alone.

    Raises:
        ValueError: there are no attacks.
    """

    def __init__(
        self,
        truth: Truth,
        *,
        attacks: Mapping[str, Attack] | None = None,
        first_layer: FirstLayer | None = None,
    ) -> None:
        if attacks is None:
            attacks = runnable(ATTACKS, known=("hint",))
        if not attacks:
            raise ValueError("attacks must name at least one attack, got none.")
        self._truth = truth
        self._first_layer = first_layer
        layers: tuple[Layer, ...] = ("cut",) if first_layer is None else ("cut", "first")
        self._tallies = {
            layer: [AttackTally(name, attacks[name], layer, truth) for name in attacks]
            for layer in layers
        }
        self._histograms = {layer: HistogramTally(layer, truth) for layer in layers}
        self._last_step = -1
        self._last_epoch = 0
        self._releases = 0
        self._rows = 0

    def observe(self, release: Release, hint: Hint | None = None) -> None:
        """Attack one release.

        Args:
            release: what the non-label party received, at the cut.
            hint: a known positive of the batch and its gradient at the cut.

        Raises:
            ValueError: steps do not grow, a record has no entry in the truth, or an attack
                refuses the gradient (NaN, say); the message names the step.
        """
        self._check_order(release)
        at_layer: dict[Layer, tuple[Release, Hint | None]] = {"cut": (release, hint)}
        try:
            if self._first_layer is not None:
                at_layer["first"] = self._first_layer(release, hint)
            for layer, (seen, known) in at_layer.items():
                for tally in self._tallies[layer]:
                    tally.observe(seen, known)
                self._histograms[layer].observe(seen, known)
        except ValueError as error:
            raise ValueError(f"The release of step {release.step}: {error}") from error
        self._last_step, self._last_epoch = release.step, release.epoch
        self._releases += 1
        self._rows += len(release.records)

    def result(self) -> LeakAudit:
        """What was reached so far; the audit may go on afterwards."""
        tallies = [tally for of_layer in self._tallies.values() for tally in of_layer]
        return LeakAudit(
            target="labels" if self._truth.canaries is None else "canaries",
            measurements=tuple(m for tally in tallies for m in (tally.one(), tally.all())),
            curves=tuple(tally.curve() for tally in tallies),
            histograms=tuple(h for tally in self._histograms.values() for h in tally.result()),
            releases=self._releases,
            rows=self._rows,
        )

    def _check_order(self, release: Release) -> None:
        """Refuse a step out of order and a record without an entry in the truth."""
        if release.step <= self._last_step or release.epoch < self._last_epoch:
            raise ValueError(
                f"releases must come in the order of steps and epochs, got step {release.step} of "
                f"epoch {release.epoch} after step {self._last_step} of epoch {self._last_epoch}."
            )
        highest = int(release.records.max())
        if highest >= len(self._truth):
            raise ValueError(
                f"truth must have an entry for record {highest} of step {release.step}, got "
                f"{len(self._truth)} entries."
            )


def audit_leak(
    releases: Iterable[Release],
    truth: Truth,
    *,
    hints: Hints | None = None,
    attacks: Mapping[str, Attack] | None = None,
    first_layer: FirstLayer | None = None,
) -> LeakAudit:
    """Measure how much a training's gradients told about the labels.

    One pass over the releases, which may be a transcript larger than the memory.

    Args:
        releases: in the order of steps, as a :class:`~cutlayer.transcript.folder.Transcript`
            gives them.
        truth: labels by record, and the canaries if there are any: then AUCs cover them alone.
        hints: a known positive for each step; attacks that need one run on those steps only.
        attacks: which attacks to run, by name; ``None`` for the cheap ones with at most one hint.
        first_layer: how to carry a release to the non-label party's first layer.

    Raises:
        ValueError: as :meth:`LeakAuditor.observe`.
        DataError: a file of the transcript is of no use.
    """
    auditor = LeakAuditor(truth, attacks=attacks, first_layer=first_layer)
    for release in releases:
        auditor.observe(release, (hints or {}).get(release.step))
    return auditor.result()
