"""The audit on several processes: the same numbers, the same errors, and nothing left running."""

import os
import signal
import time
from dataclasses import replace
from functools import partial
from multiprocessing import active_children, get_context

import pytest
import torch

from cutlayer.attacks import ATTACKS, HISTORY_ATTACKS, Attack, HistoryAttack
from cutlayer.attacks.norm_attack import norm_attack
from cutlayer.attacks.score_histories import AveragedAttack
from cutlayer.audits import (
    AuditScope,
    FirstLayerCarrier,
    ReleaseRecorder,
    audit_leak,
)
from cutlayer.audits import shared_audit as module
from cutlayer.audits.leak_audit import posts
from cutlayer.audits.recording.recorded_training import RecordedTraining, read_recorded_training
from cutlayer.audits.scope import FULL_SCOPE, attack_named
from cutlayer.audits.shared_audit import can_be_shared, dealt, joined, shared_audit, worth_sharing
from cutlayer.audits.training_audit import audit_training
from cutlayer.errors import CutlayerError, DataError
from cutlayer.models import mlp
from cutlayer.transcript import NonLabelHalf, NonLabelHalfWriter, Release

RECORDS, BATCH, WIDTH, EPOCHS = 60, 20, 4, 2
SCOPE = AuditScope(hints=(0, 1, 2), seeds=2, after=(1,), few_records=True, histories=True)
RELEASES = EPOCHS * RECORDS // BATCH


def recorded(folder, *, spoilt=False):
    """Write a small training; with ``spoilt`` its last gradient holds a NaN."""
    generator = torch.Generator().manual_seed(3)
    labels = (torch.arange(RECORDS) % 3 == 0).long()
    features = torch.randn(RECORDS, 5, generator=generator) + labels[:, None]
    bottom = mlp([5, 6, WIDTH], generator)
    half = NonLabelHalfWriter(folder / "half", features)
    ids = [str(record) for record in range(RECORDS)]
    with ReleaseRecorder(folder / "messages", ids, generator=generator) as recorder:
        for step in range(RELEASES):
            records = torch.arange(BATCH) + BATCH * (step % (RECORDS // BATCH))
            clean = (0.3 - labels[records].float())[:, None] * torch.ones(WIDTH)
            noisy = clean + 0.3 * torch.randn(BATCH, WIDTH, generator=generator)
            if spoilt and step == RELEASES - 1:
                noisy[3, 1] = torch.nan
            half.write(step, bottom)
            sent = Release(step, step * BATCH // RECORDS, records, bottom(features[records]), noisy)
            recorder.on_release(sent, labels[records], clean)
    return folder


def read(folder) -> RecordedTraining:
    half = NonLabelHalf(folder / "half")
    bottom = mlp([5, 6, WIDTH], torch.Generator())
    found = read_recorded_training(folder / "messages")
    return replace(found, first_layer=FirstLayerCarrier(half, bottom), features=half.features)


def attack(training, everybody):
    return audit_leak(
        training.releases,
        training.truth,
        hints=training.hints,
        first_layer=training.first_layer,
        scope=SCOPE,
        only=everybody,
    )


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_attacker_has_one_share_and_no_attack_is_divided(workers):
    everybody = posts(None, FULL_SCOPE, first_layer=True)
    shares = dealt(everybody, workers)
    for post in everybody:
        there = [share.attackers for share in shares if share.layer == post.layer]
        assert sorted(map(repr, sum(there, ()))) == sorted(map(repr, post.attackers))
        names = [name for group in there for name in {one.name for one in group}]
        assert len(names) == len(set(names))


def test_a_layer_without_attackers_keeps_its_share():
    # Only activations are read, so nobody attacks the first layer, but its histograms are counted.
    everybody = posts(
        {"activation_spectrum": ATTACKS["activation_spectrum"]}, SCOPE, first_layer=True
    )
    assert [(s.layer, len(s.attackers)) for s in dealt(everybody, 2)] == [("cut", 1), ("first", 0)]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_parts_together_are_the_whole(tmp_path, workers):
    training = read(recorded(tmp_path))
    everybody = posts(None, SCOPE, first_layer=True)
    whole = attack(training, everybody)
    parts = [attack(training, (share,)) for share in dealt(everybody, workers)]
    assert len(parts) > 2
    assert joined(everybody, parts) == whole
    assert joined(everybody, parts[::-1]) == whole


def test_two_processes_read_what_one_does(tmp_path, monkeypatch):
    folder, told = recorded(tmp_path), []
    few = ("norm", "class_mean", "activation_probe", "mean_gradient_probe", "learned_history")
    attacks = {name: attack_named(name) for name in few}
    training = read(folder)
    alone = audit_training(training, attacks=attacks, scope=SCOPE)
    monkeypatch.setattr(module, "_WORTH_SECONDS", 0.0)
    shared = audit_training(
        training,
        attacks=attacks,
        scope=SCOPE,
        workers=2,
        read_again=partial(read, folder),
        on_release=told.append,
    )
    assert shared == alone
    assert told == sorted(told)
    assert told[-1] == RELEASES
    assert not active_children()


def test_an_error_of_a_worker_is_the_error_of_one_process(tmp_path):
    folder = recorded(tmp_path, spoilt=True)
    everybody = posts({"norm": ATTACKS["norm"]}, SCOPE, first_layer=False)
    with pytest.raises(ValueError, match="NaN") as alone:
        attack(read(folder), everybody)
    with pytest.raises(ValueError, match="NaN") as shared:
        shared_audit(partial(read, folder), everybody, SCOPE, RELEASES, workers=1)
    assert str(shared.value) == str(alone.value)


def ended(folder) -> RecordedTraining:
    """A worker that the system kills, for want of memory say."""
    os.kill(os.getpid(), signal.SIGKILL)
    return read(folder)


def missing(folder) -> RecordedTraining:
    return read_recorded_training(folder / "nowhere")


@pytest.mark.parametrize(
    ("reader", "error", "words"),
    [(ended, CutlayerError, "fewer workers"), (missing, DataError, "nowhere")],
)
def test_a_worker_that_cannot_go_on_is_no_silence(tmp_path, reader, error, words):
    everybody = posts({"norm": ATTACKS["norm"]}, SCOPE, first_layer=False)
    with pytest.raises(error, match=words):
        shared_audit(partial(reader, recorded(tmp_path)), everybody, SCOPE, RELEASES, workers=1)
    assert not active_children()


def test_an_interruption_ends_every_worker(tmp_path):
    def interrupted(done):
        raise KeyboardInterrupt

    everybody = posts(None, FULL_SCOPE, first_layer=True)
    reader = partial(read, recorded(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        shared_audit(reader, everybody, FULL_SCOPE, RELEASES, workers=1, on_release=interrupted)
    assert not active_children()


def test_an_interruption_ends_no_process_of_somebody_else(tmp_path):
    began = []

    def interrupted(done):
        began.append(get_context("spawn").Process(target=time.sleep, args=(600,)))
        began[0].start()
        raise KeyboardInterrupt

    everybody = posts(None, FULL_SCOPE, first_layer=True)
    reader = partial(read, recorded(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        shared_audit(reader, everybody, FULL_SCOPE, RELEASES, workers=1, on_release=interrupted)
    (other,) = began
    try:
        assert active_children() == [other]
    finally:
        other.kill()
        other.join()
    assert other.exitcode == -signal.SIGKILL  # our own kill was the first


def own_attack(gradient):
    return norm_attack(gradient)


@pytest.mark.parametrize(
    ("attack", "shared"),
    [
        (ATTACKS["norm"], True),
        (HISTORY_ATTACKS["max_norm_line"], True),
        (HISTORY_ATTACKS["first_component_average"], True),
        (Attack(own_attack), False),
        (HistoryAttack(partial(AveragedAttack, Attack(own_attack))), False),
    ],
)
def test_only_attacks_that_a_worker_can_import_are_shared(attack, shared):
    assert can_be_shared(posts({"one": attack}, SCOPE, first_layer=False)) is shared


def test_a_small_audit_starts_no_process(tmp_path):
    # 6 releases by one attacker take milliseconds; 30,000 of them, half a minute.
    everybody = posts({"norm": ATTACKS["norm"]}, SCOPE, first_layer=False)
    assert not worth_sharing(everybody, RELEASES)
    assert worth_sharing(everybody, 30_000)


def test_no_worker_is_no_audit(tmp_path):
    with pytest.raises(ValueError, match="workers"):
        audit_training(read(recorded(tmp_path)), scope=SCOPE, workers=0)
