"""One run of a sweep: train both parties in one process, audit what was sent, write the result."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from cutlayer.audits import ReleaseRecorder
from cutlayer.data import PartyTable
from cutlayer.experiments.tradeoff.clear_wide_logit import ClearWideLogit
from cutlayer.experiments.tradeoff.configuration import TradeoffConfiguration
from cutlayer.experiments.tradeoff.grid import Run
from cutlayer.experiments.tradeoff.halves import Halves, sizes_of
from cutlayer.experiments.tradeoff.records import codes_of, giveaways_of, records_of
from cutlayer.experiments.tradeoff.result import (
    DETAILS_FILE,
    FAILURE_FILE,
    RESULT_FILE,
    Details,
    Failure,
    RunResult,
    write_record,
)
from cutlayer.experiments.tradeoff.run_audit import Recording, attack_results, audit_recording
from cutlayer.leakage import leak_auc
from cutlayer.parties import (
    Agreement,
    BottomHalf,
    Canaries,
    LabelParty,
    NonLabelParty,
    Terms,
    TopHalf,
    run_in_one_process,
)
from cutlayer.parties.observers import HalfObserver, ReleaseObserver
from cutlayer.protections import Protection
from cutlayer.protections.base import GradientProtection
from cutlayer.rng import SeededNoise
from cutlayer.transcript import NonLabelHalfWriter

_MESSAGES, _HALF = "label_party", "handed_over"
_EVALUATED_ROWS = 512


class _Trained(NamedTuple):
    """What a training leaves in memory."""

    top: TopHalf
    bottom: BottomHalf


def run_and_keep(configuration: TradeoffConfiguration, run: Run, folder: Path) -> None:
    """Do one run and keep its result, or else its error; never raises an ordinary error.

    Args:
        configuration: of the sweep.
        run: which one.
        folder: of the run; emptied first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        result = do_run(configuration, run, folder)
    except Exception as error:  # noqa: BLE001  (a failed run is kept and shown, whatever it is)
        text = f"{type(error).__name__}: {error}"
        write_record(Failure(spec=run.spec, seed=run.seed, error=text), folder / FAILURE_FILE)
    else:
        write_record(result, folder / RESULT_FILE)
    if not configuration.keep_transcripts:
        _forget_messages(folder)


def do_run(configuration: TradeoffConfiguration, run: Run, folder: Path) -> RunResult:
    """Train and audit one run. Curves and histograms are written, the result is returned.

    Raises:
        CutlayerError: data, model or protection do not fit together.
        ValueError: an attack refuses what was sent.
    """
    label, non_label = records_of(configuration)
    shape = (0,) if isinstance(non_label, PartyTable) else tuple(non_label.features.shape[1:])
    sizes = sizes_of(configuration, shape, codes_of(configuration))
    halves = Halves(configuration, sizes, run.seed)
    protection = configuration.protection(run.spec)
    applied = _as_applied(configuration, halves, protection)
    began = time.monotonic()
    trained = _train(configuration, run, halves, applied, folder)
    trained_at = time.monotonic()
    recording = Recording(
        messages=folder / _MESSAGES,
        half=folder / _HALF,
        bottom=halves.bottom(trained.bottom.inputs.shape),
        deep_width=(halves.sizes.cut_width - 1 if isinstance(applied, ClearWideLogit) else None),
        keep_hint=configuration.paper_protocol,
    )
    audit = audit_recording(recording)
    write_record(Details(curves=audit.curves, histograms=audit.histograms), folder / DETAILS_FILE)
    auc, test_loss, interval = trained.top.test.defined()
    logit, labels = _training_logits(trained, label.ordered_by(trained.top.agreement.ids).labels)
    loss = functional.binary_cross_entropy_with_logits(logit.double(), labels.double())
    return RunResult(
        spec=run.spec,
        protection=protection.name,
        strength=protection.strength,
        seed=run.seed,
        test_auc=auc,
        test_loss=test_loss,
        test_auc_low=interval.low,
        test_auc_high=interval.high,
        base_loss=trained.top.test.base_loss,
        train_auc=leak_auc(logit, labels),
        train_loss=float(loss),
        attacks=attack_results(audit),
        steps=trained.top.sent.releases,
        audited_batches=audit.releases,
        one_class_batches=max(m.one_class_batches for m in audit.measurements),
        train_records=len(trained.top.agreement.train),
        test_records=len(trained.top.agreement.test),
        positive_share=trained.top.positive_share,
        training_seconds=trained_at - began,
        audit_seconds=time.monotonic() - trained_at,
        giveaways=giveaways_of(configuration),
    )


def _as_applied(
    configuration: TradeoffConfiguration, halves: Halves, protection: Protection
) -> Protection:
    """The protection, with the authors' hole if asked for; ``residual`` cannot leave it open."""
    wide = configuration.paper_protocol and halves.sizes.is_wide_deep
    if wide and isinstance(protection, GradientProtection):
        return ClearWideLogit(protection)
    return protection


def _train(
    configuration: TradeoffConfiguration,
    run: Run,
    halves: Halves,
    protection: Protection,
    folder: Path,
) -> _Trained:
    """Run both parties, and record every so many batches."""
    label, non_label = records_of(configuration)
    terms = Terms(
        run=run.name[:100],
        data=configuration.title,
        protection=run.spec,
        epochs=configuration.epochs,
        batch_size=configuration.batch_size,
        cut_width=halves.sizes.cut_width,
        seed=run.seed,
        validation_share=0.0,
        test_share=configuration.test_share,
        grouped=configuration.grouped,
    )
    every, recorders = configuration.audit_every, list[ReleaseRecorder]()

    def record(agreement: Agreement, _: Canaries) -> Sequence[ReleaseObserver]:
        recorders.append(
            ReleaseRecorder(
                folder / _MESSAGES,
                agreement.ids,
                generator=halves.generator("hints"),
                every=every,
            )
        )
        return recorders

    def hand_over(_: Agreement, features: Tensor) -> Sequence[HalfObserver]:
        return (NonLabelHalfWriter(folder / _HALF, features, every).write,)

    noise = SeededNoise(halves.derived_seed(f"noise of {run.spec}"))
    top = LabelParty(
        label, terms, protection, halves.top, halves.optimizer, noise=noise, observers=record
    )
    bottom = NonLabelParty(non_label, terms, halves.bottom, halves.optimizer, observers=hand_over)
    trained = _Trained(*run_in_one_process(top, bottom))
    for recorder in recorders:
        recorder.close()
    return trained


def _training_logits(trained: _Trained, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """Log-odds and labels of the training records, as both trained halves see them."""
    halves = trained.top.halves
    top = halves.get("prediction_top", halves.get("top"))
    if top is None or labels is None:
        raise ValueError("a training must leave a top and have labels.")
    bottom, rows = trained.bottom.bottom.eval(), trained.top.agreement.train
    logits = []
    with torch.no_grad():
        for part in rows.split(_EVALUATED_ROWS):
            activation = bottom(trained.bottom.inputs.values[part]).flatten(1)
            logits.append(top.eval()(activation, trained.top.inputs.values[part]))
    return torch.cat(logits), labels[rows]


def _forget_messages(folder: Path) -> None:
    """Delete what was recorded; the audit is done, and labels are in it."""
    for name in (_MESSAGES, _HALF):
        shutil.rmtree(folder / name, ignore_errors=True)
