"""Build both parties of one training from the plan: the same models for every protection."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from cutlayer.audits import ReleaseRecorder
from cutlayer.data import PartyTable
from cutlayer.experiments.plan import Plan, Training
from cutlayer.models import Top, mlp
from cutlayer.parties import Agreement, Canaries, InputShape, LabelParty, NonLabelParty
from cutlayer.parties.observers import HalfObserver, ProgressObserver, ReleaseObserver
from cutlayer.protocol import Deadlines
from cutlayer.rng import NoiseSource, SecretNoise, SeededNoise
from cutlayer.transcript import NonLabelHalfWriter

LABEL_FOLDER = "label_party"
NON_LABEL_FOLDER = "non_label_party"
_PATIENCE_SECONDS = 86400.0
HANDED_OVER = f"{NON_LABEL_FOLDER}/handed_over"


def make_bottom(plan: Plan, training: Training, columns: int) -> nn.Module:
    """The non-label party's half, with the initial weights of this split."""
    sizes = [columns, plan.hidden_width, plan.cut_width]
    return mlp(sizes, plan.generator(training, "bottom"))


def build_label_party(
    plan: Plan,
    training: Training,
    table: PartyTable,
    folder: Path,
    *,
    observers: Sequence[ReleaseObserver] = (),
    progress: Sequence[ProgressObserver] = (),
    recorders: list[ReleaseRecorder],
) -> LabelParty:
    """The label party of one training.

    Args:
        plan: of the comparison.
        training: one of the plan's.
        table: the label party's records.
        folder: of the training.
        observers: look at the releases of an audited training, beside the recorder.
        progress: are told how far the training is.
        recorders: the recorder of an audited training is put here once it exists; close it.
    """

    def make_top(name: str, cut_width: int, own: InputShape) -> nn.Module:
        generator = plan.generator(training, name)
        return Top(cut_width, own.width, [plan.hidden_width], generator)

    def make_observers(agreement: Agreement, canaries: Canaries) -> Sequence[ReleaseObserver]:
        recorder = ReleaseRecorder(
            folder / LABEL_FOLDER,
            agreement.ids,
            generator=plan.generator(training, "hints"),
            canaries=canaries.mask if training.canaries else None,
        )
        recorders.append(recorder)
        return (recorder, *observers)

    return LabelParty(
        table,
        plan.terms(training),
        training.protection,
        make_top,
        make_optimizer(plan),
        noise=noise_source(plan, training),
        canaries=training.canaries,
        observers=make_observers if training.audited else None,
        progress=progress,
    )


def build_non_label_party(
    plan: Plan, training: Training, table: PartyTable, folder: Path
) -> NonLabelParty:
    """The non-label party of one training; in an audited one it hands its half over as files."""

    def make_observers(_: Agreement, features: Tensor) -> Sequence[HalfObserver]:
        return (NonLabelHalfWriter(folder / HANDED_OVER, features).write,)

    return NonLabelParty(
        table,
        plan.terms(training),
        lambda own: make_bottom(plan, training, own.width),
        make_optimizer(plan),
        observers=make_observers if training.audited else None,
        allow_feature_copy=True,  # both parties are one owner's
        # Connected before the label party is free: a silent training of its own may come first.
        deadlines=Deadlines(connect=_PATIENCE_SECONDS),
    )


def make_optimizer(plan: Plan) -> Callable[[list[nn.Parameter]], torch.optim.Optimizer]:
    """Adam with the plan's settings, for each half alike."""

    def make(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=plan.learning_rate, weight_decay=plan.weight_decay)

    return make


def noise_source(plan: Plan, training: Training) -> NoiseSource:
    """Secret noise, except in a simulation."""
    if plan.simulated:
        return SeededNoise(plan.derived_seed(training, f"noise of {training.name}"))
    return SecretNoise()
