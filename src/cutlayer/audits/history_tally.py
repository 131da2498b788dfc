"""One attack on whole trainings at one layer, for everybody who knows something else of records."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cutlayer.attacks import WITHHELD, HistoryAttack, SideKnowledge
from cutlayer.audits.attack_tally import (
    Measurement,
    Releases,
    Target,
    joined_fields,
    measured,
)
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.scope import Attacker, Layer
from cutlayer.transcript.release import Release


@dataclass(frozen=True, eq=False)
class KnowledgeByRecord:
    """What one attacker knows of the records at the end."""

    attacker: Attacker
    known: Tensor
    """Records whose label is given, bool ``(records,)``; they are left out of every number."""


class HistoryTally:
    """Runs one attack on whole trainings once, and scores it for each attacker.

    What is kept of the releases does not depend on labels that are known at the end, so attackers
    who differ in these alone share it.

    Args:
        attack: on whole trainings.
        everybody: who shares it; at least one.
        layer: where it stands.
        truth: what its scores are compared with.
        prior: share of positives, for attacks that know it.
        after: epochs after which it is measured, beside the last.

    Raises:
        ValueError: nobody shares it.
    """

    def __init__(
        self,
        attack: HistoryAttack,
        everybody: list[KnowledgeByRecord],
        layer: Layer,
        truth: GroundTruth,
        *,
        prior: float | None,
        after: tuple[int, ...] = (),
    ) -> None:
        if not everybody:
            raise ValueError("everybody must hold at least one attacker, got none.")
        self._attack, self._everybody = attack, everybody
        self.layer: Layer = layer
        self._truth, self._prior, self._after = truth, prior, after
        self._target: Target = "labels" if truth.canaries is None else "canaries"
        self._run = attack.start(len(truth), seed=everybody[0].attacker.seed)
        self._observed = self._lacking = 0
        self._epoch = 0
        self._reached: list[Measurement] = []
        self._done: set[int] = set()

    @property
    def choice(self) -> tuple[int, int]:
        """Which known records come with each release, if any do."""
        attacker = self._everybody[0].attacker
        return attacker.hints, attacker.seed

    def observe(self, release: Release, knowledge: SideKnowledge) -> None:
        """Take in one release.

        Raises:
            ValueError: the attack refuses the release.
        """
        for epochs in self._after:
            if self._observed and epochs <= release.epoch and epochs not in self._done:
                self._done.add(epochs)
                self._reached += self._measure("some", epochs)
        self._epoch = release.epoch
        if self._run.missing(knowledge):
            self._lacking += 1
            return
        self._run.observe(release, knowledge)
        self._observed += 1

    def measurements(self) -> list[Measurement]:
        """After the first epochs, and over all."""
        return [*self._reached, *self._measure("all", self._epoch + 1)]

    def _measure(self, releases: Releases, epochs: int) -> list[Measurement]:
        """What everybody reaches with what was kept so far."""
        return [self._of(one, releases, epochs) for one in self._everybody]

    def _of(self, one: KnowledgeByRecord, releases: Releases, epochs: int) -> Measurement:
        """What one attacker reaches."""
        attacker, found = one.attacker, None
        told = torch.where(one.known, self._truth.labels.long(), WITHHELD)
        knowledge = SideKnowledge(prior=self._prior, known_labels=told)
        lacks_prior = "prior" in self._attack.after and self._prior is None
        if self._observed and not lacks_prior and self._can_learn(told):
            scores = self._run.scores(knowledge)
            audited = self._truth.audited & ~one.known
            found = measured(scores, self._truth.labels, audited)
        return Measurement(
            attack=attacker.name,
            layer=self.layer,
            releases=releases,
            target=self._target,
            leak_auc_p95=None,
            pooled_auc=None,
            pooled_epoch=None,
            batches=self._observed,
            one_class_batches=0,
            hintless_batches=self._lacking,
            epochs=epochs,
            hints=attacker.hints,
            seed=attacker.seed,
            needs=attacker.needs,
            family=attacker.attack.family,
            **joined_fields(found),
        )

    def _can_learn(self, told: Tensor) -> bool:
        """Whether labels of both classes are known, where the attack needs any."""
        if "known_labels" not in self._attack.after:
            return True
        return bool((told == 1).any()) and bool((told == 0).any())
