"""S1, S2, S4, S5: what a peer can see or time of a label party, beside the protected gradient."""

import json
import threading
import time
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors import safe_open

from cutlayer.audits import GroundTruth, LeakAuditor, LiveLeak, leak_audit
from cutlayer.audits.attack_tally import AttackTally
from cutlayer.audits.live.live_leak import live_attacks
from cutlayer.audits.live.release_audit import ReleaseAudit
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.parties import InputShape, LabelParty, NonLabelParty
from cutlayer.parties.checkpoint import save_half
from cutlayer.parties.compute import Compute
from cutlayer.parties.top_trainer import top_trainer_for
from cutlayer.protections import Isotropic, Marvell, MaxNorm, NoNoise, Residual
from cutlayer.protocol import Kind, in_memory_pair
from cutlayer.protocol.transports.stream import StreamTransport
from cutlayer.rng import SecretNoise
from tests.faults import misbehaving_peer
from tests.faults.misbehaving_peer import RECORDS, Frame, play, records
from tests.faults.misbehaving_peer import terms as hostile_terms
from tests.parties.conftest import adam, make_bottom, make_top, question, tables, terms

TRUE = records()[0].labels
LABELS = {
    "true": TRUE,
    "inverted": 1 - TRUE,
    "random": torch.randint(2, (RECORDS,), generator=torch.Generator().manual_seed(1)),
    "all positive": torch.ones(RECORDS, dtype=torch.int64),
    "all negative": torch.zeros(RECORDS, dtype=torch.int64),
}


TERMS = {
    *("run", "data", "protection", "mode", "epochs", "batch_size", "cut_width", "seed", "folds"),
    *("test_fold", "validation_share", "test_share", "grouped", "alignment", "order"),
    *("checkpoint_every", "staleness", "micro_batches", "wire"),
}
STANDING = {
    *("role", "records", "nonce", "checkpoints", "released", "order_word", "cutlayer", "clock"),
    "feature_copy",  # consent of the non-label party, from its configuration; false at the other
}


@pytest.fixture
def frames(monkeypatch):
    """All messages of both parties in their order."""
    sent = []
    send = StreamTransport.send

    def recorded(transport, header, payload, *, deadline):
        sent.append(Frame.of(header, bytes(payload)))
        send(transport, header, payload, deadline=deadline)

    monkeypatch.setattr(StreamTransport, "send", recorded)
    return sent


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_s1_kinds_sizes_and_order_do_not_depend_on_labels(
    frames, tmp_path, monkeypatch, micro_batches
):
    """Through journal and checkpoints."""
    cut = partial(hostile_terms, micro_batches=micro_batches)
    monkeypatch.setattr(misbehaving_peer, "terms", cut)
    seen = {}
    for name, labels in LABELS.items():
        frames.clear()
        played = play(None, tmp_path / name, labels)
        assert played.error is None
        seen[name] = [(f.kind, f.code, f.step, f.rows, f.width, f.size) for f in frames]
        if micro_batches > 1:  # two threads send: only the order within a kind is fixed
            seen[name].sort(key=lambda entry: entry[0])
        # Clocks, nonces and checkpoints of HELLO have texts of one length.
    assert len(seen["true"]) > 20
    assert all(one == seen["true"] for one in seen.values())


def test_s4_the_fields_that_a_peer_sees_are_these_and_no_others(frames, tmp_path):
    """A frozen snapshot: whoever adds a field must come here and say why it tells no label."""
    play(None, tmp_path)
    fields, tensors = {}, set()
    for frame in frames:
        if frame.code == 0:
            fields.setdefault(Kind(frame.kind).name, set()).update(json.loads(frame.payload))
        else:
            tensors.add(Kind(frame.kind).name)
    assert tensors == {"IDS", "ACTIVATION", "GRADIENT", "QUERY"}
    assert fields == {
        "HELLO": TERMS | STANDING,
        "SPLIT": {"split", "order_nonce"},
        "BYE": set(),
    }


def test_s5_the_saved_bottom_half_holds_its_own_layers_and_nothing_else(tmp_path):
    bottom = make_bottom(InputShape((3,)))
    save_half(tmp_path, {"bottom": bottom}, None)
    assert [path.name for path in tmp_path.iterdir()] == ["bottom.safetensors"]
    with safe_open(tmp_path / "bottom.safetensors", "pt") as file:
        assert file.metadata() == {"step": "0"}  # which both parties count
        shapes = {name: tuple(file.get_tensor(name).shape) for name in file.keys()}  # noqa: SIM118
    assert shapes == {
        "0.weight": (8, 3),
        "0.bias": (8,),
        "2.weight": (4, 8),
        "2.bias": (4,),
    }


def test_s5_a_non_label_party_keeps_no_tensor_of_the_label_side(tmp_path):
    """Its run folder: its key, the other's half of the order, and checkpoints of its bottom."""
    played = play(None, tmp_path)
    assert played.error is None
    files = {p.name for p in (tmp_path / "peer").rglob("*") if p.is_file()}
    assert files == {
        "bottom.safetensors",
        "bottom.optimizer.safetensors",
        "protection.safetensors",
        "checkpoint.json",
        "peer.order",
        "first_start.json",
    }
    for path in (tmp_path / "peer").rglob("protection.safetensors"):
        with safe_open(path, "pt") as file:
            assert not list(file.keys())


STEPS, ROWS, WIDTH = 400, 256, 16
PROTECTIONS = [NoNoise(), Isotropic(t=1.0), MaxNorm(), Marvell(s=4.0), Residual(sigma=1.0)]


def response_times(head, activations, labels_of, skip=False):
    """Seconds of each answer; all-negative and mixed batches take turns at random."""
    own = torch.zeros(ROWS, 2)
    times, mixed = [], []
    order = torch.randint(2, (2 * STEPS,), generator=torch.Generator().manual_seed(4)).tolist()
    for step, kind in enumerate(order):
        labels = labels_of[kind]
        begin = time.perf_counter()
        if not (skip and not labels.any()):
            head.answer(question(step, activations[step % 8], own, labels))
            head.update(complete=True)
        times.append(time.perf_counter() - begin)
        mixed.append(kind)
    return torch.tensor(times), torch.tensor(mixed)


def timing_auc(protection, *, skip=False):
    """The median of five measurements: one interruption of the machine decides nothing."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    activations = torch.randn(8, ROWS, WIDTH, generator=generator)
    labels_of = torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS) % 2

    def make(name):
        return make_top(name, WIDTH, InputShape((0 if name == "message_top" else 2,)))

    aucs = []
    for _ in range(5):
        head = top_trainer_for(protection, make, adam, SecretNoise(), Compute())
        aucs.append(leak_auc(*response_times(head, activations, labels_of, skip)))
    return sorted(aucs)[2]


@pytest.mark.slow
@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: p.name)
def test_s2_the_time_of_an_answer_does_not_tell_labels(protection):
    # The AUC of 2 x 400 equal times has standard error .02, the median of five .011.
    assert abs(timing_auc(protection) - 0.5) <= 0.06


@pytest.mark.slow
def test_s2_a_skipped_batch_is_seen_by_its_time():
    """The control."""
    assert timing_auc(MaxNorm(), skip=True) > 0.95


TOLD_SECONDS = 0.02
"""More than other work on the machine takes away from a step."""
CADENCE = 0.08


class Telling(NoNoise):
    """Takes longer where the first record is positive."""

    name = "telling"

    def perturb(self, gradient, labels, *, noise):
        time.sleep(TOLD_SECONDS * float(labels[0]))
        return super().perturb(gradient, labels, noise=noise)


class Timed:
    """Seconds between an activation and its gradient, as the non-label party sees them.

    And when each gradient came.
    """

    def __init__(self, transport):
        self.times, self._begin, self._inner = [], 0.0, transport
        self.arrivals = []
        self.traffic, self.close, self.describe = (
            transport.traffic,
            transport.close,
            transport.describe,
        )

    def send(self, header, payload, *, deadline):
        self._begin = time.perf_counter()
        self._inner.send(header, payload, deadline=deadline)

    def receive(self, accept, *, deadline):
        received = self._inner.receive(accept, deadline=deadline)
        if received[0].kind is Kind.GRADIENT:
            self.arrivals.append(time.perf_counter())
            self.times.append(self.arrivals[-1] - self._begin)
        return received


class FirstLabels:
    """Notes the first label of each message; may take longer for it once the reply has left."""

    def __init__(self, seconds_after=0.0):
        self.labels, self._seconds = [], seconds_after

    def on_release(self, release, labels, clean_gradient):
        self.labels.append(int(labels[0]))

    def on_progress(self, step, steps, rows):
        time.sleep(self._seconds * self.labels[-1])


def play_timed(protection, observers, agreed, cadence=0.0, progress=(), parties=None):
    """Train, and time the replies."""
    label, other = parties or tables()
    here, there = in_memory_pair()
    timed = Timed(there)
    party = LabelParty(
        *(label, agreed, protection, make_top, adam),
        noise=SecretNoise(),
        cadence=cadence,
        observers=lambda agreement, canaries: observers,
        progress=progress,
    )
    thread = threading.Thread(
        target=NonLabelParty(other, agreed, make_bottom, adam).run, args=(timed,)
    )
    thread.start()
    party.run(here)
    thread.join()
    return timed


def seen_by_the_peer(cadence):
    """The AUC with which response times tell the first label of a batch."""
    first = FirstLabels()
    timed = play_timed(Telling(), [first], terms(epochs=20, batch_size=32), cadence, [first])
    return leak_auc(torch.tensor(timed.times), torch.tensor(first.labels))


def seen_between_replies(cadence):
    """The AUC with which the time to the next reply tells the first label of a message.

    Four messages are in flight, so the next request is there when a reply leaves.
    """
    first = FirstLabels(seconds_after=TOLD_SECONDS)
    agreed = terms(epochs=1, batch_size=6, micro_batches=2, staleness=1)
    timed = play_timed(NoNoise(), [first], agreed, cadence, [first])
    gaps = torch.tensor(timed.arrivals).double().diff()
    return leak_auc(gaps, torch.tensor(first.labels[:-1]))


@pytest.mark.slow
def test_s2_cadence_hides_work_that_depends_on_labels():
    assert seen_by_the_peer(cadence=0.0) > 0.9
    # 100 steps, a third of them positive: standard error .06, the median of three .042.
    with_cadence = sorted(seen_by_the_peer(CADENCE) for _ in range(3))[1]
    assert abs(with_cadence - 0.5) < 0.15


@pytest.mark.slow
def test_s2_cadence_hides_the_work_between_replies_with_several_in_flight():
    assert seen_between_replies(cadence=0.0) > 0.9
    # 52 messages, a third of them positive: standard error .086, the median of three .058.
    with_cadence = sorted(seen_between_replies(CADENCE) for _ in range(3))[1]
    assert abs(with_cadence - 0.5) < 0.2


class Positives:
    """Notes which messages hold a positive."""

    def __init__(self):
        self.any = []

    def on_release(self, release, labels, clean_gradient):
        self.any.append(int(labels.any()))


def rare_positives(records=2000):
    """Both parties' records; 6 % are positive, whatever the features."""
    generator = torch.Generator().manual_seed(0)
    label, other = tables(records)
    labels = (torch.rand(records, generator=generator) < 0.06).long()
    return replace(label, labels=labels), other


class SkippingTally(AttackTally):
    """Measures nothing where a class is missing."""

    def _measure_batch(self, release, records, scores):
        if len(self._labels[records].unique()) == 2:
            super()._measure_batch(release, records, scores)


def audited_time_auc(*, constant_time=True):
    """How well reply times tell messages of 16 records with a positive, the whole audit on."""
    torch.set_num_threads(1)
    label, other = rare_positives()
    audit = ReleaseAudit(label.labels, generator=torch.Generator())
    if not constant_time:
        audit._auditor = LeakAuditor(GroundTruth(label.labels))
    live = LiveLeak(live_attacks(), generator=torch.Generator())
    positives = Positives()
    agreed = terms(epochs=4, batch_size=16)
    timed = play_timed(
        Residual(sigma=1.0), [audit, live, positives], agreed, parties=(label, other)
    )
    warm = 20
    return leak_auc(torch.tensor(timed.times[warm:]), torch.tensor(positives.any[warm:]))


@pytest.mark.slow
def test_s2_the_time_of_an_audited_reply_does_not_tell_labels():
    # 380 messages, about 60 % with a positive: standard error .03, the median of five .017.
    assert abs(sorted(audited_time_auc() for _ in range(5))[2] - 0.5) <= 0.06


@pytest.mark.slow
def test_s2_an_audit_that_skips_what_lacks_a_positive_is_seen_by_its_time(monkeypatch):
    """The control: the clearest of five, since other work on the machine only blurs it."""
    monkeypatch.setattr(leak_audit, "AttackTally", SkippingTally)
    assert max(audited_time_auc(constant_time=False) for _ in range(5)) > 0.8  # chance ends at .6
