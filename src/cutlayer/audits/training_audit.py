"""The audit of everything that a recorded training holds, and of what is known without it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cutlayer import check
from cutlayer.attacks import Attack, SideKnowledge
from cutlayer.audits.attack_tally import Measurement, joined_fields, measured, over_seeds
from cutlayer.audits.feature_baselines import FeatureBaseline, feature_baselines
from cutlayer.audits.ground_truth import GroundTruth
from cutlayer.audits.known_records import HintBank
from cutlayer.audits.leak_audit import LeakAudit, OnRelease, audit_leak, posts
from cutlayer.audits.one_thread import one_thread
from cutlayer.audits.recording.recorded_training import HeldOut, RecordedTraining
from cutlayer.audits.scope import AnyAttack, Attacker, AuditScope, all_attacks
from cutlayer.audits.shared_audit import (
    ReadTraining,
    can_be_shared,
    shared_audit,
    worth_sharing,
)
from cutlayer.transcript.release import Release

EXPENSIVE_RELEASES = 8
"""On so many releases, evenly spaced, the attacks that train a model for each release are run."""


@dataclass(frozen=True)
class TrainingAudit:
    """What attackers reached on one training, and what is known without its messages."""

    leak: LeakAudit
    feature_baselines: tuple[FeatureBaseline, ...]


def audit_training(
    training: RecordedTraining,
    *,
    attacks: Mapping[str, AnyAttack] | None = None,
    scope: AuditScope,
    on_release: OnRelease | None = None,
    workers: int = 1,
    read_again: ReadTraining | None = None,
) -> TrainingAudit:
    """Attack the training, and inference where it was recorded, and measure the baselines.

    Args:
        training: what was recorded.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        on_release: follows the progress.
        workers: how many processes share the attacks, each on one thread. What is measured does
            not depend on it. Above 1, the program's main module must be importable without side
            effects (``if __name__ == "__main__":``), as for every pool of processes.
        read_again: reads the same training in another process. Without it, for small audits, and
            for attacks that another process cannot import, all stays in this one.

    Raises:
        ValueError: an attack refuses a release, and the message names the step; or ``workers`` is
            below 1.
        DataError: a file is of no use.
        CutlayerError: a worker process was killed.
    """
    check.at_least("workers", workers, 1)
    readable = attacks
    if not training.has_activations:
        asked = all_attacks() if attacks is None else attacks
        readable = {n: a for n, a in asked.items() if "activation" not in a.reads}
        if not readable:
            raise ValueError("activation is missing, and every chosen attack reads it.")
    releases = training.releases
    everybody = posts(readable, scope, first_layer=training.first_layer is not None)
    spaced = replace(scope, expensive_every=max(1, -(-len(releases) // EXPENSIVE_RELEASES)))
    if (
        workers > 1
        and read_again is not None
        and worth_sharing(everybody, len(releases))
        and can_be_shared(everybody)
    ):
        leak = shared_audit(
            read_again, everybody, spaced, len(releases), workers=workers, on_release=on_release
        )
    else:
        with one_thread():
            leak = audit_leak(
                releases,
                training.truth,
                hints=training.hints,
                first_layer=training.first_layer,
                scope=spaced,
                on_release=on_release,
                only=everybody,
            )
    if training.held_out is not None:
        chosen = all_attacks() if attacks is None else attacks
        attackers = scope.attackers(chosen, named=attacks is not None)
        inference = tuple(_inference(training.held_out, attackers))
        leak = replace(leak, measurements=leak.measurements + inference)
    known = feature_baselines(training.truth, training.features, scope)
    return TrainingAudit(leak, tuple(known))


def _inference(held_out: HeldOut, attackers: list[Attacker]) -> list[Measurement]:
    """Every attack that reads activations alone, on those of the records to predict."""
    truth = GroundTruth(held_out.labels)
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


def _of_inference(
    attacker: Attacker, scores: Tensor, truth: GroundTruth, known: Tensor
) -> Measurement:
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
