"""A training with canaries from both parties' configurations, on one machine that has both files.

Nothing of it is kept but its recording and its findings: a model trained on coins is of no use.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from cutlayer.audits import FirstLayerCarrier, ReleaseRecorder
from cutlayer.audits.recording.recorded_training import RecordedTraining, read_recorded_training
from cutlayer.audits.scope import AnyAttack, AuditScope
from cutlayer.audits.training_audit import audit_training
from cutlayer.data import PartyTable
from cutlayer.errors import ConfigurationError
from cutlayer.findings.document import Findings
from cutlayer.parties import (
    Agreement,
    BottomHalf,
    Canaries,
    InputShape,
    LabelParty,
    NonLabelParty,
    TopHalf,
    run_in_one_process,
)
from cutlayer.parties.observers import HalfObserver, ReleaseObserver
from cutlayer.protections import Protection
from cutlayer.rng import SecretNoise
from cutlayer.runs.aligned_records import aligned_records
from cutlayer.runs.configuration import (
    FROZEN,
    LabelConfiguration,
    NonLabelConfiguration,
    PartyConfiguration,
    read_configuration,
)
from cutlayer.runs.model_factory import build_bottom, build_top
from cutlayer.runs.party_runs import make_optimizer
from cutlayer.runs.run_findings import Coverage, KnownRun, Promise, findings_of_attacked
from cutlayer.transcript import NonLabelHalf, NonLabelHalfWriter

_MESSAGES, _HALF = "messages", "handed_over"


class _Progress:
    """Passes the steps of the training on."""

    def __init__(self, on_progress: Callable[[int, int], None]) -> None:
        self._on_progress = on_progress

    def on_progress(self, step: int, steps: int, rows: int) -> None:  # noqa: ARG002
        """One step is done; the audit will take as many again."""
        self._on_progress(step, 2 * steps)


def findings_of_canary_run(
    label_config: Path,
    non_label_config: Path,
    *,
    canaries: int,
    folder: Path,
    attacks: Mapping[str, AnyAttack] | None,
    scope: AuditScope,
    on_progress: Callable[[int, int], None],
    first_layer: bool = True,
    workers: int = 1,
) -> Findings:
    """Train with coins for labels, and attack the coins.

    Args:
        label_config: the label party's TOML file.
        non_label_config: the other party's.
        canaries: how many training records get a coin for a label; with 0 the true labels are
            attacked.
        folder: where the recording is kept; an old one in it is replaced.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        on_progress: told how many steps and releases are done, and how many there are.
        first_layer: whether to attack the first layer beside the cut.
        workers: how many processes share the attacks, as in
            :func:`~cutlayer.audits.training_audit.audit_training`.

    Raises:
        ConfigurationError: a file breaks a rule, or the protection sends no gradient.
        CutlayerError: the training could not be done.
    """
    label = read_configuration(LabelConfiguration, label_config)
    other = read_configuration(NonLabelConfiguration, non_label_config)
    if label.protection == FROZEN:
        raise ConfigurationError(
            f"label party: {label_config}: protection frozen sends no gradient, so there is no "
            "message that could tell a coin."
        )
    tables = _records(label), _records(other)  # before a folder is made
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name in (_MESSAGES, _HALF):
        shutil.rmtree(folder / name, ignore_errors=True)
    protection = label.applied  # one object: what it promises depends on the batches it has seen
    progress = _Progress(on_progress)
    top, bottom = _train(label, other, tables, protection, canaries, folder, progress)
    read = partial(
        _recorded,
        folder,
        other if first_layer else None,
        bottom.inputs.shape,
        label.micro_batches,
    )
    training = read()
    total = top.sent.releases + len(training.releases)
    audit = audit_training(
        training,
        attacks=attacks,
        scope=scope,
        on_release=lambda done: on_progress(top.sent.releases + done, total),
        workers=workers,
        read_again=read,
    )
    run = KnownRun(
        data=f"{label.run}, with canaries" if canaries else label.run,
        promise=Promise(protection, label.epochs),
        train_records=len(top.agreement.train),
        test_records=len(top.agreement.test),
        positive_share=top.positive_share,
        settings={
            "canaries": canaries,
            "epochs": label.epochs,
            "batch_size": label.batch_size,
            "micro_batches": label.micro_batches,
            "cut_width": label.cut_width,
            "label party": str(label_config),
            "non-label party": str(non_label_config),
        },
        complete=True,
        features_label_party=top.inputs.shape.width,
        features_non_label_party=bottom.inputs.shape.width,
        processes=1,
        first_layer="measured" if first_layer else "not measured: it was not asked for",
    )
    sent = top.sent
    return findings_of_attacked(
        run,
        audit,
        Coverage(sent.releases, sent.rows, sent=sent.releases),
        f"{protection.name} was applied to all {sent.rows:,} gradient rows of {sent.releases:,} "
        f"messages; {canaries:,} records carried coins.",
        after=scope.after,
    )


def _recorded(
    folder: Path, other: NonLabelConfiguration | None, own: InputShape, micro_batches: int
) -> RecordedTraining:
    """What was recorded; to be carried to the first layer where its configuration is given."""
    half = NonLabelHalf(folder / _HALF)
    carrier = None if other is None else FirstLayerCarrier(half, build_bottom(other, own).eval())
    recorded = read_recorded_training(folder / _MESSAGES, messages=micro_batches)
    return replace(recorded, first_layer=carrier, features=half.features)


def _train(
    label: LabelConfiguration,
    other: NonLabelConfiguration,
    tables: tuple[PartyTable, PartyTable],
    protection: Protection,
    canaries: int,
    folder: Path,
    progress: _Progress,
) -> tuple[TopHalf, BottomHalf]:
    """Run both parties, and record what crosses."""
    torch.set_num_threads(label.threads)
    recorders: list[ReleaseRecorder] = []

    def record(agreement: Agreement, planted: Canaries) -> Sequence[ReleaseObserver]:
        generator = torch.Generator()
        generator.seed()
        recorders.append(
            ReleaseRecorder(
                folder / _MESSAGES,
                agreement.ids,
                generator=generator,
                canaries=planted.mask if canaries else None,
            )
        )
        return recorders

    def hand_over(_: Agreement, features: Tensor) -> Sequence[HalfObserver]:
        return (NonLabelHalfWriter(folder / _HALF, features).write,)

    top = LabelParty(
        tables[0],
        replace(label.terms(), order="seed"),
        protection,
        lambda _, cut_width, own: build_top(label, cut_width, own),
        make_optimizer(label),
        noise=SecretNoise(),
        canaries=canaries,
        observers=record,
        progress=(progress,),
        compute=label.compute,
        deadlines=label.deadlines,
        max_ids=label.max_ids,
    )
    bottom = NonLabelParty(
        tables[1],
        replace(other.terms(), order="seed"),
        lambda own: build_bottom(other, own),
        make_optimizer(other),
        observers=hand_over,
        compute=other.compute,
        deadlines=other.deadlines,
        max_ids=other.max_ids,
    )
    try:
        return run_in_one_process(top, bottom)
    finally:
        for recorder in recorders:
            recorder.close()


def _records(configuration: PartyConfiguration) -> PartyTable:
    """The records that take part in a party's run."""
    table = configuration.table_file().read(configuration.role.value).table
    return aligned_records(configuration, table)
