"""A training with canaries from both parties' configurations, on one machine that has both files.

Nothing of it is kept but its recording and its findings: a model trained on coins is of no use.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from cutlayer.audits import FirstLayerCarrier, ReleaseRecorder
from cutlayer.audits.finding_rows import (
    GENEROUS_HINT,
    Audited,
    attack_notes,
    class_histograms,
    finding_rows,
    knowledge_baselines,
    leak_curves,
)
from cutlayer.audits.findings import Applied, Bound, Findings, Utility
from cutlayer.audits.recorded_training import RecordedTraining, read_recorded_training
from cutlayer.audits.scope import AnyAttack, AuditScope
from cutlayer.audits.training_audit import audit_training
from cutlayer.errors import ConfigurationError, ConnectionLostError
from cutlayer.parties import (
    Agreement,
    BottomHalf,
    Canaries,
    InputShape,
    LabelParty,
    NonLabelParty,
    TopHalf,
)
from cutlayer.parties.observers import HalfObserver, ReleaseObserver
from cutlayer.protocol import Transport, in_memory_pair
from cutlayer.rng import SecretNoise
from cutlayer.runs.configuration import (
    FROZEN,
    LabelConfiguration,
    NonLabelConfiguration,
    read_configuration,
)
from cutlayer.runs.halves import build_bottom, build_top
from cutlayer.runs.party_runs import make_optimizer
from cutlayer.transcript import NonLabelHalf, NonLabelHalfWriter

_MESSAGES, _HALF = "messages", "handed_over"


class _Progress:
    """Passes the steps of the training on."""

    def __init__(self, on_progress: Callable[[int, int], None]) -> None:
        self._on_progress = on_progress

    def on_progress(self, step: int, steps: int, rows: int) -> None:
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
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name in (_MESSAGES, _HALF):
        shutil.rmtree(folder / name, ignore_errors=True)
    top, bottom = _train(label, other, canaries, folder, _Progress(on_progress))
    read = partial(_recorded, folder, other if first_layer else None, bottom.inputs.shape)
    audit = audit_training(
        read(),
        attacks=attacks,
        scope=scope,
        on_release=lambda done: on_progress(top.sent.releases + done, 2 * top.sent.releases),
        workers=workers,
        read_again=read,
    )
    audited = _audited(label, scope)
    rows = finding_rows(audited, audit.leak)
    return Findings(
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        cutlayer_version=version("cutlayer"),
        data=f"{label.run}, with canaries" if canaries else label.run,
        train_records=len(top.agreement.train),
        test_records=len(top.agreement.test),
        positive_share=top.positive_share,
        features_non_label_party=bottom.inputs.shape.width,
        features_label_party=top.inputs.shape.width,
        settings={
            "canaries": canaries,
            "epochs": label.epochs,
            "batch_size": label.batch_size,
            "micro_batches": label.micro_batches,
            "cut_width": label.cut_width,
            "label party": str(label_config),
            "non-label party": str(non_label_config),
        },
        processes=1,
        noise="secret",
        hint=GENEROUS_HINT,
        first_layer="measured" if first_layer else "not measured: it was not asked for",
        complete=True,
        rows=rows,
        applied=[
            Applied(
                protection=audited.name,
                strength=audited.strength,
                stage=label.applied.stage.value,
                releases=top.sent.releases,
                rows=top.sent.rows,
                statement=f"{audited.name} was applied to all {top.sent.rows:,} gradient rows of "
                f"{top.sent.releases:,} messages; {canaries:,} records carried coins.",
            )
        ],
        utility=[audited.utility],
        curves=leak_curves(audited, audit.leak),
        histograms=class_histograms(audited, audit.leak),
        baselines=knowledge_baselines(audited, audit),
        attacks=attack_notes(rows),
    )


def _recorded(
    folder: Path, other: NonLabelConfiguration | None, own: InputShape
) -> RecordedTraining:
    """What was recorded; to be carried to the first layer where its configuration is given."""
    half = NonLabelHalf(folder / _HALF)
    carrier = None if other is None else FirstLayerCarrier(half, build_bottom(other, own).eval())
    recorded = read_recorded_training(folder / _MESSAGES)
    return replace(recorded, first_layer=carrier, features=half.features)


def _train(
    label: LabelConfiguration,
    other: NonLabelConfiguration,
    canaries: int,
    folder: Path,
    progress: _Progress,
) -> tuple[TopHalf, BottomHalf]:
    """Run both parties in one process, the non-label party in a thread."""
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
        label.table_file().read(label.role.value, labelled=True).table,
        replace(label.terms(), order="seed"),
        label.applied,
        lambda _, cut_width, own: build_top(label, cut_width, own),
        make_optimizer(label),
        noise=SecretNoise(),
        canaries=canaries,
        observers=record,
        progress=(progress,),
        compute=label.compute,
    )
    bottom = NonLabelParty(
        other.table_file().read(other.role.value, labelled=True).table,
        replace(other.terms(), order="seed"),
        lambda own: build_bottom(other, own),
        make_optimizer(other),
        observers=hand_over,
        compute=other.compute,
    )
    here, there = in_memory_pair()
    with ThreadPoolExecutor(1) as thread:
        playing = thread.submit(_play, bottom, there)
        try:
            halves = top.run(here), playing.result()
        except ConnectionLostError:
            playing.result()  # its own error, if it has one, is the cause
            raise
        finally:
            here.close()
            for recorder in recorders:
                recorder.close()
    return halves


def _play(party: NonLabelParty, transport: Transport) -> BottomHalf:
    """The non-label party's side; closes its end whatever happens."""
    try:
        return party.run(transport)
    finally:
        transport.close()


def _audited(label: LabelConfiguration, scope: AuditScope) -> Audited:
    """The protection with its promises; how well a model of coins predicts is not reported."""
    applied = label.applied

    def promised(releases: int) -> Bound:
        guarantee = applied.guarantee(releases)
        return Bound(kind=guarantee.kind, leak_auc=guarantee.leak_auc, grounds=guarantee.grounds)

    utility = Utility(
        protection=applied.name, strength=applied.strength, test_auc=[], test_loss=[]
    )
    after = {epochs: promised(epochs) for epochs in scope.after if epochs < label.epochs}
    return Audited(utility, promised(1), promised(label.epochs), after)
