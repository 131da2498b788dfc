"""Run the trainings of a plan, one after the other, each kept in its own folder."""

import shutil
import time
from pathlib import Path
from typing import Protocol

import torch

from cutlayer.audits import ReleaseRecorder
from cutlayer.data import DATASETS, PartyTable, Split
from cutlayer.durable import only_process
from cutlayer.errors import ConfigurationError, ConnectionLostError
from cutlayer.experiments.channel import Channel, PeerProcess, PeerThread
from cutlayer.experiments.plan import ALONE, Plan, Training, keep_plan
from cutlayer.experiments.result import read_result, result_of, write_result
from cutlayer.experiments.two_parties import (
    LABEL_FOLDER,
    NON_LABEL_FOLDER,
    build_label_party,
)
from cutlayer.parties import LabelParty, TopHalf
from cutlayer.parties.checkpoint import save_half
from cutlayer.parties.observers import ProgressObserver, ReleaseObserver


class Watcher(ProgressObserver, ReleaseObserver, Protocol):
    """Follows a comparison, for a progress display."""

    def on_training(self, training: Training, done: int, total: int) -> None:
        """``training`` begins; ``done`` of ``total`` trainings are finished."""


def training_records(data: str, *, folds: int) -> int:
    """About how many records train when one of ``folds`` parts is kept for the test."""
    return len(DATASETS[data]().label_party_table()) * (folds - 1) // folds


def training_folder(run_folder: Path, training: Training) -> Path:
    """Where one training keeps its files."""
    return run_folder / "trainings" / training.name


def pending(plan: Plan, run_folder: Path) -> list[Training]:
    """The trainings that have no result yet."""
    return [
        training
        for training in plan.trainings
        if not _is_done(training_folder(run_folder, training))
    ]


def _is_done(folder: Path) -> bool:
    """Whether the label party has a result, and the other party its half if it took part."""
    result = read_result(folder)
    if result is None:
        return False
    alone = result.protection == ALONE
    return alone or (folder / NON_LABEL_FOLDER / "bottom.safetensors").exists()


def run_comparison(plan: Plan, run_folder: Path, watcher: Watcher) -> None:
    """Do what is left of a plan. An interrupted training is done anew; finished ones stay.

    Args:
        plan: what to do.
        run_folder: new or empty, or the folder of the same plan, which is then gone on with.
        watcher: follows the progress.

    Raises:
        ConfigurationError: the folder holds something else.
        CutlayerError: a training failed; what was done before is kept.
    """
    table = DATASETS[plan.data]().label_party_table()
    _require_records(plan, table)
    keep_plan(plan, run_folder)
    with only_process(run_folder, "--out"):
        _run_all(plan, run_folder, table, watcher)


def _run_all(plan: Plan, run_folder: Path, table: PartyTable, watcher: Watcher) -> None:
    """Do what is left, one training after the other."""
    torch.set_num_threads(1)
    waiting = pending(plan, run_folder)
    for training in waiting:
        # Left over from an interrupted attempt; both parties begin this training anew.
        shutil.rmtree(training_folder(run_folder, training), ignore_errors=True)
    with _channel(plan, run_folder) as channel:
        for training in waiting:
            done = len(plan.trainings) - len(pending(plan, run_folder))
            watcher.on_training(training, done, len(plan.trainings))
            _run(plan, training, table, training_folder(run_folder, training), channel, watcher)


def _require_records(plan: Plan, table: PartyTable) -> None:
    """Refuse settings that the data set is too small for, before anything is written."""
    training = min(
        len(Split.by_fold(table.ids, seed=plan.seed, folds=plan.folds, test_fold=fold).train)
        for fold in range(plan.splits)
    )
    for option, wanted in (("--batch-size", plan.batch_size), ("--canaries", plan.canaries)):
        if wanted > training:
            raise ConfigurationError(
                f"{option}: at most {training}, the training records of {plan.data}, got {wanted}."
            )


def _channel(plan: Plan, run_folder: Path) -> Channel:
    """Two processes, or one for a simulation."""
    if plan.simulated:
        return PeerThread(plan, DATASETS[plan.data]().non_label_party_table())
    return PeerProcess(run_folder)


def _run(
    plan: Plan,
    training: Training,
    table: PartyTable,
    folder: Path,
    channel: Channel,
    watcher: Watcher,
) -> None:
    """One training: run the parties, keep the label party's half, write the result last."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    recorders: list[ReleaseRecorder] = []
    party = build_label_party(
        plan,
        training,
        table,
        folder,
        observers=(watcher,),
        progress=(watcher,),
        recorders=recorders,
    )
    if training.spec == ALONE:
        half = party.run_alone()
    else:
        half = _run_with_peer(party, channel, training, folder)
    for recorder in recorders:
        recorder.close()
    save_half(folder / LABEL_FOLDER, half.halves, half.inputs.encoder)
    write_result(result_of(plan, training, half, time.monotonic() - began), folder)


def _run_with_peer(
    party: LabelParty, channel: Channel, training: Training, folder: Path
) -> TopHalf:
    """Run against the other party, and prefer its own account of a failure to a lost line."""
    try:
        half = party.run(channel.open(training, folder))
    except ConnectionLostError as error:
        cause = channel.failure(lost=True)
        if cause is not None:
            raise cause from error
        raise
    cause = channel.failure(lost=False)
    if cause is not None:  # it fell over after the farewell, so its half was not kept
        raise cause
    return half
