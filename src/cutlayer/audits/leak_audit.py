"""The leak audit: every attack on every release, in one pass, against the truth."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cutlayer.attacks import Attack, HistoryAttack, SideKnowledge
from cutlayer.audits.attack_tally import (
    AttackTally,
    Measurement,
    StepCurve,
    Target,
    over_seeds,
)
from cutlayer.audits.class_histograms import GradientHistogram, HistogramTally
from cutlayer.audits.constant_time import stand_in_hint
from cutlayer.audits.ground_truth import UNKNOWN, GroundTruth
from cutlayer.audits.hints import Hint, Hints
from cutlayer.audits.history_tally import HistoryTally, KnowledgeByRecord
from cutlayer.audits.known_records import HintBank, class_model_of, half_known
from cutlayer.audits.scope import AnyAttack, Attacker, AuditScope, Layer, all_attacks
from cutlayer.transcript.release import Release

FirstLayer = Callable[[Release, Hint | None], tuple[Release, Hint | None]]
"""Turns a release at the cut, and its hint, into their versions at the first trainable layer."""

OnRelease = Callable[[int], None]
"""Told how many releases are done."""

_Choice = tuple[int, int]
"""Known records of each class, and the seed that fixes which."""


@dataclass(frozen=True)
class LeakAudit:
    """What the attacks reached."""

    target: Target
    """What scores were compared with: all known labels, or the coins of the canaries."""
    measurements: tuple[Measurement, ...]
    """For each layer, attack and amount of knowledge: one release, the first epochs, all."""
    curves: tuple[StepCurve, ...]
    """Of attackers without known records of their own."""
    histograms: tuple[GradientHistogram, ...]
    """Norms and cosines of each layer."""
    releases: int
    """Releases observed, whether they could be measured or not."""
    rows: int
    """Gradient rows in them."""

    @property
    def worst(self) -> Measurement | None:
        """The measurement with the highest leak AUC; ``None`` if no attack had what it needs."""
        measured = [one for one in self.measurements if one.leak_auc is not None]
        return max(measured, key=lambda one: one.leak_auc or 0.0, default=None)


@dataclass(frozen=True)
class Post:
    """Attackers at one layer."""

    layer: Layer
    attackers: tuple[Attacker, ...]


def posts(
    attacks: Mapping[str, AnyAttack] | None, scope: AuditScope, *, first_layer: bool
) -> tuple[Post, ...]:
    """Who attacks, and where: everybody at the cut, and at the first layer if it is known.

    Args:
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        scope: how much the attackers know, and how often they try.
        first_layer: whether releases can be carried there.

    Raises:
        ValueError: there are no attacks.
    """
    if attacks is not None and not attacks:
        raise ValueError("attacks must name at least one attack, got none.")
    chosen = all_attacks() if attacks is None else attacks
    attackers = tuple(scope.attackers(chosen, named=attacks is not None))
    if not first_layer:
        return (Post("cut", attackers),)
    # Activations are those of the cut wherever gradients are carried to.
    deeper = tuple(one for one in attackers if "activation" not in one.attack.reads)
    return Post("cut", attackers), Post("first", deeper)


class LeakAuditor:
    """Takes in releases as they come and keeps scores by record, never a release.

    Use it inside a running simulation; :func:`audit_leak` does the same for a kept transcript.

    Args:
        truth: labels by record, and the canaries if there are any: then AUCs cover them alone.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        first_layer: how to carry a release to the non-label party's first layer; ``None``
            measures the cut alone.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        only: who attacks where, if that is a part of what ``attacks`` and ``scope`` say.
        constant_time: without a usable hint, attacks that need one run with a stand-in, and what
            they reach is thrown away; so that the time of :meth:`observe` does not tell of labels.

    Raises:
        ValueError: there are no attacks.
    """

    def __init__(
        self,
        truth: GroundTruth,
        *,
        attacks: Mapping[str, AnyAttack] | None = None,
        first_layer: FirstLayer | None = None,
        scope: AuditScope | None = None,
        only: Sequence[Post] | None = None,
        constant_time: bool = False,
    ) -> None:
        scope = scope or AuditScope()
        if only is None:
            only = posts(attacks, scope, first_layer=first_layer is not None)
        self._truth = truth
        self._first_layer = first_layer if any(post.layer == "first" for post in only) else None
        self._layers = [
            _LayerAudit(post, truth, scope, constant_time=constant_time) for post in only
        ]
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
            ValueError: releases are out of order, a record has no entry in the truth, or an attack
                refuses the gradient (NaN, say); the message names the step.
        """
        self._check_order(release)
        at_layer: dict[Layer, tuple[Release, Hint | None]] = {"cut": (release, hint)}
        try:
            if self._first_layer is not None:
                at_layer["first"] = self._first_layer(release, hint)
            for layer in self._layers:
                layer.observe(*at_layer[layer.name])
        except ValueError as error:
            raise ValueError(f"The release of step {release.step}: {error}") from error
        self._last_step, self._last_epoch = release.step, release.epoch
        self._releases += 1
        self._rows += len(release.records)

    def result(self) -> LeakAudit:
        """What was reached so far; the audit may go on afterwards."""
        tallies = [tally for layer in self._layers for tally in layer.tallies]
        histories = [history for layer in self._layers for history in layer.histories]
        reached = [m for tally in tallies for m in tally.measurements()]
        reached += [m for history in histories for m in history.measurements()]
        return LeakAudit(
            target="labels" if self._truth.canaries is None else "canaries",
            measurements=tuple(over_seeds(reached)),
            curves=tuple(
                tally.curve()
                for tally in tallies
                if not tally.attacker.uses_few_records and tally.attacker.seed == 0
            ),
            histograms=tuple(h for layer in self._layers for h in layer.histograms.result()),
            releases=self._releases,
            rows=self._rows,
        )

    def _check_order(self, release: Release) -> None:
        """Refuse a step out of order and a record without an entry in the truth.

        An epoch that was interrupted is sent again: then step and epoch both go back.
        """
        forward = release.step > self._last_step and release.epoch >= self._last_epoch
        again = release.step < self._last_step and release.epoch <= self._last_epoch
        if not forward and not again:
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


class _LayerAudit:
    """All attackers at one layer, and what they know."""

    def __init__(
        self, post: Post, truth: GroundTruth, scope: AuditScope, *, constant_time: bool
    ) -> None:
        name, attackers = post.layer, post.attackers
        self.name: Layer = name
        self.histograms = HistogramTally(name, truth)
        counted = truth.labels[truth.labels != UNKNOWN].double()
        self._prior = float(counted.mean()) if 0 < counted.sum() < len(counted) else None
        few = {_choice(a) for a in attackers if a.uses_few_records}
        self._banks = {choice: HintBank(truth, *choice) for choice in sorted(few)}
        halves = sorted({a.seed for a in attackers if a.uses_half})
        self._halves = {seed: half_known(truth, seed) for seed in halves}
        modelled = any(a.uses_class_model for a in attackers)
        self._modelled = half_known(truth, seed=0) if modelled else None
        self.tallies = [
            AttackTally(
                attacker,
                name,
                truth,
                known=self._known_to(attacker),
                after=scope.after,
                every=scope.expensive_every if attacker.attack.cost == "expensive" else 1,
            )
            for attacker in attackers
            if isinstance(attacker.attack, Attack)
        ]
        self._constant_time = constant_time
        # What stands in for the tallies where their hint is missing; nobody reads it.
        self._idle = {
            index: AttackTally(tally.attacker, name, truth)
            for index, tally in enumerate(self.tallies)
            if constant_time and "hint" in tally.attacker.attack.side_knowledge
        }
        self.histories = [
            HistoryTally(attack, everybody, name, truth, prior=self._prior, after=scope.after)
            for attack, everybody in self._sharing(attackers, len(truth))
        ]

    def _sharing(
        self, attackers: Sequence[Attacker], records: int
    ) -> list[tuple[HistoryAttack, list[KnowledgeByRecord]]]:
        """The attacks on whole trainings, each with all attackers who can share one run of it."""
        groups: dict[tuple[str, _Choice | None], list[Attacker]] = {}
        for attacker in attackers:
            if isinstance(attacker.attack, HistoryAttack):
                # Hints that come with each release make a run of its own.
                own = _choice(attacker) if _takes_hints(attacker.attack) else None
                groups.setdefault((attacker.name, own), []).append(attacker)
        nobody = torch.zeros(records, dtype=torch.bool)
        shared = []
        for group in groups.values():
            attack = group[0].attack
            if isinstance(attack, HistoryAttack):
                told = [(one, self._known_to(one)) for one in group]
                everybody = [
                    KnowledgeByRecord(one, nobody if known is None else known)
                    for one, known in told
                ]
                shared.append((attack, everybody))
        return shared

    def observe(self, release: Release, hint: Hint | None) -> None:
        """Let everybody try."""
        records = release.records.cpu()
        model = None
        if self._modelled is not None:
            # From one half of the records, whose AUC is not counted: a model of the very rows
            # that it scores finds their labels in pure noise.
            model = class_model_of(release.gradient.cpu(), self._modelled[records])
        usable = hint is not None and bool(hint.gradient.any())
        stand_in = stand_in_hint(release) if self._constant_time and not usable else None
        shared: dict[str, Any] = {
            "hint": hint.gradient if hint is not None and usable else None,
            "prior": self._prior,
            "class_model": model,
        }
        recalled: dict[_Choice, dict[str, torch.Tensor]] = {}
        for choice, bank in self._banks.items():
            bank.see(release)
            known = bank.recall()
            recalled[choice] = {} if known is None else dict(zip(_FEW, known, strict=True))
        for index, tally in enumerate(self.tallies):
            knowledge = dict(shared)
            if tally.attacker.uses_few_records:
                knowledge |= recalled[_choice(tally.attacker)]
            if tally.attacker.uses_half:
                knowledge["known_labels"] = self._halves[tally.attacker.seed][records]
            told = hint
            if stand_in is not None and index in self._idle:
                tally.pass_over(release)
                tally, told = self._idle[index], stand_in
                knowledge["hint"] = stand_in.gradient
            tally.observe(release, SideKnowledge(**knowledge), told.record if told else None)
        for history in self.histories:
            hints = recalled.get(history.choice, {})
            history.observe(release, SideKnowledge(**(shared | hints)))
        self.histograms.observe(release, hint, stand_in=stand_in)

    def _known_to(self, attacker: Attacker) -> torch.Tensor | None:
        """Records whose labels the attacker is given throughout."""
        if attacker.uses_few_records:
            return self._banks[_choice(attacker)].known
        if attacker.uses_half:
            return self._halves[attacker.seed] >= 0
        if attacker.uses_class_model and self._modelled is not None:
            return self._modelled >= 0
        return None


_FEW = ("hint_gradients", "hint_activations", "hint_labels")


def _takes_hints(attack: HistoryAttack) -> bool:
    """Whether rows of known records come with each release."""
    return any(name in _FEW for name in attack.during)


def _choice(attacker: Attacker) -> _Choice:
    """Which known records an attacker has."""
    return attacker.hints, attacker.seed


def audit_leak(
    releases: Iterable[Release],
    truth: GroundTruth,
    *,
    hints: Hints | None = None,
    attacks: Mapping[str, AnyAttack] | None = None,
    first_layer: FirstLayer | None = None,
    scope: AuditScope | None = None,
    on_release: OnRelease | None = None,
    only: Sequence[Post] | None = None,
) -> LeakAudit:
    """Measure how much a training's gradients told about the labels.

    One pass over the releases, which may be a transcript larger than the memory.

    Args:
        releases: in the order of sending, as a :class:`~cutlayer.transcript.folder.Transcript`
            gives them.
        truth: labels by record, and the canaries if there are any: then AUCs cover them alone.
        hints: a known positive for each step; attacks that need one run on those steps only.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        first_layer: how to carry a release to the non-label party's first layer.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        on_release: follows the progress.
        only: who attacks where, if that is a part of what ``attacks`` and ``scope`` say.

    Raises:
        ValueError: as :meth:`LeakAuditor.observe`.
        DataError: a file of the transcript is of no use.
    """
    auditor = LeakAuditor(truth, attacks=attacks, first_layer=first_layer, scope=scope, only=only)
    for done, release in enumerate(releases, start=1):
        auditor.observe(release, (hints or {}).get(release.step))
        if on_release is not None:
            on_release(done)
    return auditor.result()
