"""A recorded training, ready to be attacked, and the audit of everything that it holds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks import Attack, SideKnowledge
from cutlayer.audits.attack_tally import Measurement, joined_fields, measured, over_seeds
from cutlayer.audits.hints import Hints, read_hints
from cutlayer.audits.known_records import HintBank
from cutlayer.audits.leak_audit import FirstLayer, LeakAudit, OnRelease, audit_leak
from cutlayer.audits.one_thread import one_thread
from cutlayer.audits.own_knowledge import OwnKnowledge, own_knowledge
from cutlayer.audits.recorder import HINTS, TRANSCRIPT, TRUTH
from cutlayer.audits.scope import AnyAttack, Attacker, AuditScope, all_attacks
from cutlayer.audits.truth import Truth, read_truth
from cutlayer.transcript.folder import Transcript
from cutlayer.transcript.release import Release

EXPENSIVE_RELEASES = 8
"""On so many releases, evenly spaced, the attacks that train a model for each release are run."""


class Releases(Protocol):
    """Releases in the order of sending, to be read as often as needed."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Release]: ...


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Activations that were sent for records to predict, with the trained halves.

    Raises:
        ValueError: shapes differ, a value is not finite, or a label is neither 0 nor 1.
    """

    activation: Tensor
    """Float ``(records, width)``."""
    labels: Tensor
    """0 or 1, ``(records,)``."""

    def __post_init__(self) -> None:
        check.matrix("activation", self.activation)
        check.finite("activation", self.activation)
        check.binary_labels("labels", self.labels, examples=len(self.activation))


@dataclass(frozen=True, eq=False)
class RecordedTraining:
    """What is there to attack, and to compare scores with."""

    releases: Releases
    truth: Truth
    hints: Hints
    first_layer: FirstLayer | None = None
    """How to carry a release deeper, where the non-label party handed its half over."""
    features: Tensor | None = None
    """The non-label party's model inputs, ``(records, ...)``, if it handed them over."""
    held_out: HeldOut | None = None
    has_activations: bool = True
    """False where a transcript of another framework holds gradients alone; attacks that read
    activations are then left out."""


@dataclass(frozen=True)
class TrainingAudit:
    """What attackers reached on one training, and what is known without its messages."""

    leak: LeakAudit
    own_knowledge: tuple[OwnKnowledge, ...]


def read_recorded_training(folder: Path) -> RecordedTraining:
    """What a :class:`~cutlayer.audits.recorder.ReleaseRecorder` wrote.

    Raises:
        DataError: a part is missing or damaged.
    """
    transcript, truth = Transcript(folder / TRANSCRIPT), read_truth(folder / TRUTH)
    return RecordedTraining(transcript, truth, read_hints(folder / HINTS))


def audit_training(
    training: RecordedTraining,
    *,
    attacks: Mapping[str, AnyAttack] | None = None,
    scope: AuditScope,
    on_release: OnRelease | None = None,
) -> TrainingAudit:
    """Attack the training, and inference where it was recorded, and measure the baselines.

    Args:
        training: what was recorded.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        on_release: follows the progress.

    Raises:
        ValueError: an attack refuses a release; the message names the step.
        DataError: a file is of no use.
    """
    readable = attacks
    if not training.has_activations:
        asked = all_attacks() if attacks is None else attacks
        readable = {n: a for n, a in asked.items() if "activation" not in a.reads}
        if not readable:
            raise ValueError("activation is missing, and every chosen attack reads it.")
    every = max(1, -(-len(training.releases) // EXPENSIVE_RELEASES))
    with one_thread():
        leak = audit_leak(
            training.releases,
            training.truth,
            hints=training.hints,
            attacks=readable,
            first_layer=training.first_layer,
            scope=replace(scope, expensive_every=every),
            on_release=on_release,
        )
    if training.held_out is not None:
        chosen = all_attacks() if attacks is None else attacks
        attackers = scope.attackers(chosen, named=attacks is not None)
        inference = tuple(_inference(training.held_out, attackers))
        leak = replace(leak, measurements=leak.measurements + inference)
    known = own_knowledge(training.truth, training.features, scope)
    return TrainingAudit(leak, tuple(known))


def _inference(held_out: HeldOut, attackers: list[Attacker]) -> list[Measurement]:
    """Every attack that reads activations alone, on those of the records to predict."""
    truth = Truth(held_out.labels)
    records = torch.arange(len(truth))
    nothing = held_out.activation.new_zeros(len(records), 1)
    sent = Release(0, 0, records, held_out.activation, nothing)
    found = []
    for attacker in attackers:
        attack = attacker.attack
        if not isinstance(attack, Attack) or set(attack.reads) != {"activation"}:
            continue
        known = torch.zeros(len(records), dtype=torch.bool)
        knowledge = SideKnowledge()
        if attacker.uses_few_records:
            bank = HintBank(truth, attacker.hints, attacker.seed)
            bank.see(sent)
            recalled, known = bank.recall(), bank.known
            if recalled is not None:
                _, activations, labels = recalled
                knowledge = SideKnowledge(hint_activations=activations, hint_labels=labels)
        if attack.missing(knowledge):
            continue
        scores = attack.score(sent, knowledge, seed=attacker.seed)
        found.append(_of_inference(attacker, scores, truth, known))
    return over_seeds(found)


def _of_inference(attacker: Attacker, scores: Tensor, truth: Truth, known: Tensor) -> Measurement:
    """One measurement of the activations of all held-out records."""
    audited = truth.audited & ~known
    return Measurement(
        attack=attacker.name,
        layer="cut",
        releases="one",
        target="labels",
        leak_auc_p95=None,
        pooled_auc=None,
        pooled_epoch=None,
        batches=1,
        one_class_batches=0,
        hintless_batches=0,
        hints=attacker.hints,
        seed=attacker.seed,
        needs=attacker.needs,
        family=attacker.attack.family,
        stage="inference",
        **joined_fields(measured(scores.double(), truth.labels, audited)),
    )
