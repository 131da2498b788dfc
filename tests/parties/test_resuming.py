"""A run that goes on: over lost connections, with stale updates, and with an order of its own."""

import shutil
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import cycle

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional

from cutlayer.data import BatchSchedule, Encoder, TextSequence
from cutlayer.errors import (
    ConfigurationError,
    ConnectionLostError,
    DataError,
    PeerEndedError,
    ProtocolError,
    TermsMismatchError,
)
from cutlayer.parties import Compute, InputShape, LabelParty, NonLabelParty, Persistence
from cutlayer.protections import Marvell, NoNoise, Residual
from cutlayer.protocol import InMemoryTransport, Kind, Role, in_memory_pair
from cutlayer.rng import SecretNoise
from tests.parties.conftest import QUICK, adam, make_bottom, make_top, run_pair, terms
from tests.parties.test_two_parties import weights

ENDING = {"order": "nonces", "checkpoint_every": 2}


class Folders:
    """Both parties of one run with what they keep; each meeting is a new connection."""

    def __init__(self, folder, pair, **changes):
        self.folder, self.tables = folder, pair
        self.terms = terms(**{**ENDING, **changes})
        self.kept = []

    def persistence(self, party, protection=None):
        kept = Persistence.in_folder(self.folder / party, protection)
        self.kept.append(kept)
        return kept

    def parties(self, protection, *, top=make_top, bottom=make_bottom):
        for kept in self.kept:
            kept.close()
        here = self.persistence("label", repr(protection))
        label = LabelParty(
            self.tables[0],
            self.terms,
            protection,
            top,
            adam,
            noise=here.key.noise(),
            persistence=here,
            deadlines=QUICK,
        )
        other = NonLabelParty(
            self.tables[1],
            self.terms,
            bottom,
            adam,
            persistence=self.persistence("other"),
            deadlines=QUICK,
        )
        return label, other


def meet(label, other, *, cut_after=None, other_cut_after=None, transport=InMemoryTransport):
    """One connection; cut after so many messages of a party. Returns halves or errors."""
    here, there = in_memory_pair()
    here = transport(here._outgoing, here._incoming)
    if cut_after is not None:
        here = Fragile(here, cut_after)
    if other_cut_after is not None:
        there = Fragile(there, other_cut_after)
    outcome = {}

    def play():
        try:
            outcome["other"] = other.run(there)
        except Exception as error:  # noqa: BLE001
            outcome["other"] = error

    thread = threading.Thread(target=play)
    thread.start()
    try:
        outcome["label"] = label.run(here)
    except Exception as error:  # noqa: BLE001
        outcome["label"] = error
        here.close()
    thread.join()
    return outcome["label"], outcome["other"]


class Fragile(InMemoryTransport):
    """Breaks after so many sent messages."""

    def __init__(self, transport, messages):
        super().__init__(transport._outgoing, transport._incoming)
        self.left = messages

    def send(self, header, payload, *, deadline):
        if self.left == 0:
            self.close()
            raise ConnectionLostError("cut")
        self.left -= 1
        super().send(header, payload, deadline=deadline)


class LosesFarewell(InMemoryTransport):
    """Breaks when this party answers the farewell."""

    def send(self, header, payload, *, deadline):
        if header[6] == Kind.BYE:
            self.close()
            raise ConnectionLostError("cut")
        super().send(header, payload, deadline=deadline)


@pytest.fixture
def folders(tmp_path, pair):
    made = []

    def make(name="run", **changes):
        made.append(Folders(tmp_path / name, pair, **changes))
        return made[-1]

    yield make
    for run in made:
        for kept in run.kept:
            kept.close()


def test_halves_name_the_step_that_they_have_come_to_also_after_fewer_epochs(folders):
    """`predict` tells halves of different trainings by it."""
    run = folders()
    for epochs in (3, 2):
        run.terms = replace(run.terms, epochs=epochs)
        top, bottom = meet(*run.parties(NoNoise()))
        batches = len(top.agreement.train) // run.terms.batch_size
        assert top.step == bottom.step == 3 * batches


@pytest.mark.parametrize("changes", [{}, {"mode": "one round", "cut_width": 2}], ids=str)
def test_a_farewell_that_is_lost_takes_nothing_from_the_label_party(folders, changes):
    """It has all that it needs, and the peer does not come back."""
    label, other = folders(**changes).parties(NoNoise())
    top, bottom = meet(label, other, transport=LosesFarewell)
    assert top.test.loss > 0
    assert label.has_left
    assert isinstance(bottom, ConnectionLostError)
    assert other.complete is not None


def test_a_farewell_that_is_lost_takes_no_predictions_either(pair):
    asked = terms(mode="prediction")
    label = LabelParty(
        *(pair[0], asked, NoNoise(), make_top, adam), noise=SecretNoise(), deadlines=QUICK
    )
    other = NonLabelParty(*(pair[1], asked, make_bottom, adam), deadlines=QUICK)
    here, there = in_memory_pair()
    here = LosesFarewell(here._outgoing, here._incoming)
    with ThreadPoolExecutor(1) as pool:
        played = pool.submit(other.predict, there, lambda half: None, Encoder.fit(pair[1]))
        agreement, logit = label.predict(here, lambda halves: None, Encoder.fit(pair[0]))
        with suppress(ConnectionLostError):
            played.result(timeout=60)
    assert len(logit) == len(agreement.ids) == 200


@pytest.mark.parametrize(
    ("protection", "changes"),
    [
        (Residual(sigma=2.0), {}),
        (Marvell(s=4.0), {}),
        (Marvell(s=4.0), {"micro_batches": 2}),
        (Residual(sigma=2.0), {"micro_batches": 3, "staleness": 1}),
    ],
    ids=str,
)
def test_a_run_cut_at_every_message_ends_as_an_uninterrupted_one(
    folders, protection, changes, tmp_path
):
    """In the middle of a batch that crosses in several messages as well."""
    whole = folders("whole", **changes)
    top, bottom = meet(*whole.parties(protection))
    journal = (tmp_path / "whole/label/journal").read_bytes()
    for name in ("label", "other"):
        (tmp_path / "cut" / name).mkdir(parents=True)
        key = (tmp_path / "whole" / name / "run.key").read_bytes()
        (tmp_path / "cut" / name / "run.key").write_bytes(key)
        (tmp_path / "cut" / name / "run.key").chmod(0o600)
    cut = folders("cut", **changes)
    label, other = cut.parties(type(protection)(**_settings(protection)))
    connections = 0
    # Three greetings, then gradients: of two updates and a little more.
    for messages in cycle(range(3, 5 + 2 * changes.get("micro_batches", 1))):
        again_top, again_bottom = meet(label, other, cut_after=messages)
        connections += 1
        if not isinstance(again_top, Exception):
            break
        for error in (again_top, again_bottom):
            assert isinstance(error, ConnectionLostError), error
    if isinstance(again_bottom, ConnectionLostError):  # the cut was at the last farewell
        again_bottom = other.complete
    assert connections > 6
    assert torch.equal(weights(again_bottom.bottom), weights(bottom.bottom))
    for name in top.halves:
        assert torch.equal(weights(again_top.halves[name]), weights(top.halves[name]))
    assert (tmp_path / "cut/label/journal").read_bytes() == journal
    assert again_top.sent.releases == top.sent.releases  # counted once, though sent many times


def _settings(protection):
    return {"sigma": 2.0} if isinstance(protection, Residual) else {"s": 4.0}


def test_the_journal_of_a_run_holds_no_key_no_label_and_no_id(folders):
    run = folders()
    label, other = run.parties(Residual(sigma=2.0))
    meet(label, other)
    key = (run.folder / "label" / "run.key").read_bytes()
    party = Persistence.in_folder(run.folder / "elsewhere").key  # only for its kind
    derived = [type(party)(key)._derived(purpose) for purpose in ("noise", "labels", "order")]
    labels = bytes(run.tables[0].labels.tolist())
    journal = (run.folder / "label" / "journal").read_bytes()
    assert len(journal) > 1000
    for secret in (key, *derived):
        for form in (secret, secret.hex().encode()):
            assert form[:16] not in journal
    assert labels[:24] not in journal
    assert not any(i.encode() in journal for i in run.tables[0].ids if len(i) > 3)


def test_another_activation_for_an_answered_step_gets_nothing(folders, tmp_path):
    run = folders()
    label, other = run.parties(NoNoise())
    meet(label, other, cut_after=5)  # HELLO, IDS, SPLIT and two gradients
    journal = (tmp_path / "run/label/journal").read_bytes()
    shutil.rmtree(tmp_path / "run/other/checkpoints")  # it begins anew, with other weights

    def other_weights(own):
        return (
            make_bottom(InputShape((own.width,)))
            .double()
            .float()
            .requires_grad_(True)
            .apply(_moved)
        )

    mischief = run.parties(NoNoise(), bottom=other_weights)
    error, told = meet(*mischief)
    assert isinstance(error, ProtocolError)
    assert "step 0 was answered before" in str(error)
    assert isinstance(told, PeerEndedError)
    assert (tmp_path / "run/label/journal").read_bytes() == journal


def _moved(module):
    if isinstance(module, torch.nn.Linear):
        module.weight.data += 0.01


def test_a_journal_that_lost_entries_stops_the_run(folders, tmp_path):
    run = folders()
    meet(*run.parties(NoNoise()), cut_after=6)
    path = tmp_path / "run/label/journal"
    whole = path.read_bytes()
    for kept in run.kept:
        kept.close()
    path.write_bytes(whole[: -3 * 80])  # now it ends before the newest state
    error, told = meet(*run.parties(NoNoise()))
    while isinstance(error, ConnectionLostError) and not isinstance(error, PeerEndedError):
        error, told = told, error
    assert "journal of the label party knows" in str(error) + str(told)


def test_parties_without_a_common_state_say_so(folders, tmp_path):
    run = folders()
    top, _ = meet(*run.parties(NoNoise()))
    assert top.sent.releases
    shutil.rmtree(tmp_path / "run/other/checkpoints")
    errors = meet(*run.parties(NoNoise()))
    assert any(isinstance(e, DataError) and "no state in common" in str(e) for e in errors)


def test_a_damaged_checkpoint_is_passed_over(folders, tmp_path):
    run = folders()
    _, expected = meet(*run.parties(NoNoise()))
    newest = max((tmp_path / "run/other/checkpoints").glob("step-*"))
    spoilt = bytearray((newest / "bottom.safetensors").read_bytes())
    spoilt[-1] ^= 1
    (newest / "bottom.safetensors").write_bytes(spoilt)
    label, other = run.parties(NoNoise())
    assert other._persistence.checkpoints.damaged == (newest,)
    _, again = meet(label, other)
    assert torch.equal(weights(again.bottom), weights(expected.bottom))


def test_batches_are_drawn_by_both_parties_and_by_neither_alone(folders):
    seeds = set()
    for name in ("a", "b"):
        top, bottom = meet(*folders(name).parties(NoNoise()))
        assert top.agreement.order_seed == bottom.agreement.order_seed
        seeds.add(top.agreement.order_seed)
    assert len(seeds) == 2  # same public seed, other nonces
    assert top.agreement.order_seed > 1 << 128


@pytest.mark.parametrize("changed", ["label", "other"])
def test_nobody_can_hear_the_others_half_and_come_back_with_a_better_one(
    folders, tmp_path, changed
):
    run = folders()
    label, other = run.parties(NoNoise())
    meet(label, other, cut_after=2)  # both have heard of the halves, nothing was released
    assert not (tmp_path / "run/label/journal").exists()
    (tmp_path / "run" / changed / "run.key").unlink()
    errors = meet(*run.parties(NoNoise()))
    told = [e for e in errors if isinstance(e, TermsMismatchError)]
    assert "another half of the batch order" in str(told[0]), errors


def test_nobody_can_hear_the_order_and_come_back_with_other_records(folders, tmp_path):
    run = folders()
    meet(*run.parties(NoNoise()), other_cut_after=3)  # it has read the label party's SPLIT
    assert not (tmp_path / "run/label/journal").exists()
    table = run.tables[1]
    run.tables = (run.tables[0], table.ordered_by(table.ids[1:]))
    label, told = meet(*run.parties(NoNoise()))
    assert isinstance(label, TermsMismatchError), label
    assert "share other records than when this run began" in str(label)
    assert isinstance(told, PeerEndedError)


def test_a_mistaken_group_costs_a_start_and_tells_no_order(folders, tmp_path):
    """The order is told, and the records go on record, once both splits are known to be equal."""
    run = folders(grouped=True)
    sound = [replace(t, groups=TextSequence([f"g{name}" for name in t.ids])) for t in run.tables]
    strange = replace(sound[1], groups=TextSequence([f"h{name}" for name in sound[1].ids]))
    run.tables = (sound[0], strange)
    label, other = run.parties(NoNoise())
    nonce = run.kept[0].key.order_nonce.hex().encode()
    said = []

    class Heard(InMemoryTransport):
        def send(self, header, payload, *, deadline):
            said.append(bytes(payload))
            super().send(header, payload, deadline=deadline)

    errors = meet(label, other, transport=Heard)
    assert "split their records differently" in str(errors[0])
    assert "the run keeps its name" in str(errors[0])
    assert len(said) == 3  # HELLO, IDS, ERROR
    assert not any(nonce in payload for payload in said)
    assert not (tmp_path / "run/label/shared.records").exists()
    run.tables = tuple(sound)
    halves = meet(*run.parties(NoNoise()), transport=Heard)
    assert not any(isinstance(half, Exception) for half in halves), halves
    assert any(nonce in payload for payload in said)
    assert (tmp_path / "run/label/shared.records").exists()


def test_a_label_party_cannot_choose_its_nonce_afterwards(folders, monkeypatch):
    run = folders()
    label, other = run.parties(NoNoise())
    committed = sha256(bytes(32)).hexdigest()  # to something else than it reveals
    monkeypatch.setattr(
        "cutlayer.parties.handshake._order_word",
        lambda role, nonce: committed if role is Role.LABEL else nonce.hex(),
    )
    errors = meet(label, other)
    assert any(isinstance(e, ProtocolError) and "committed to" in str(e) for e in errors), errors


def stale_reference(label_table, other_table, agreed, settings):
    """Staleness in plain torch: update t - S - 1 comes before forward t; drained at each state."""
    order = list(agreed.ids)
    own, features = label_table.ordered_by(order), other_table.ordered_by(order)
    train_ids = [order[i] for i in agreed.train]
    x_own = Encoder.fit(own.ordered_by(train_ids)).encode(own)
    x = Encoder.fit(features.ordered_by(train_ids)).encode(features)
    bottom = make_bottom(InputShape((x.shape[1],)))
    top = make_top("top", settings.cut_width, InputShape((x_own.shape[1],)))
    of_bottom, of_top = adam(list(bottom.parameters())), adam(list(top.parameters()))
    schedule = BatchSchedule(len(agreed.train), settings.batch_size, settings.epochs, settings.seed)
    waiting = deque()

    def land():
        params, cut, gradient = waiting.popleft()
        of_bottom.zero_grad()
        cut.backward(gradient)
        for name, parameter in bottom.named_parameters():
            parameter.grad = params[name].grad
        of_bottom.step()

    for part in schedule:
        rows = agreed.train[part.positions]
        params = {n: p.detach().clone().requires_grad_() for n, p in bottom.named_parameters()}
        cut = functional_call(bottom, params, (x[rows],))
        leaf = cut.detach().requires_grad_()
        of_top.zero_grad()
        functional.binary_cross_entropy_with_logits(
            top(leaf, x_own[rows]), own.labels[rows].float()
        ).backward()
        of_top.step()
        waiting.append((params, cut, leaf.grad))
        while len(waiting) > settings.staleness:
            land()
        if settings.keeps_after(part, schedule.batches_per_epoch):
            while waiting:
                land()
    return bottom, top


@pytest.mark.parametrize("staleness", [1, 3])
def test_staleness_is_what_it_says_bit_for_bit(pair, staleness):
    torch.set_num_threads(1)
    settings = terms(staleness=staleness, batch_size=16, checkpoint_every=6)
    top_half, bottom_half = run_pair(*pair, label_terms=settings)
    bottom, top = stale_reference(*pair, bottom_half.agreement, settings)
    assert torch.equal(weights(bottom), weights(bottom_half.bottom))
    assert torch.equal(weights(top), weights(top_half.halves["top"]))
    fresh = run_pair(*pair, label_terms=terms(batch_size=16, checkpoint_every=6))[1]
    assert not torch.equal(weights(fresh.bottom), weights(bottom_half.bottom))


def test_a_compiled_bottom_has_no_stale_weights(pair):
    with pytest.raises(ConfigurationError, match="staleness"):
        NonLabelParty(pair[1], terms(staleness=1), make_bottom, adam, compute=Compute(compile=True))


def test_bfloat16_on_the_wire_halves_the_bytes(pair, monkeypatch):
    sizes = {}
    send = InMemoryTransport.send

    def counted(transport, header, payload, *, deadline):
        if header[6] in (3, 4):
            sizes.setdefault(wire, []).append(payload.nbytes)
        send(transport, header, payload, deadline=deadline)

    monkeypatch.setattr(InMemoryTransport, "send", counted)
    for wire in ("float32", "bfloat16"):
        run_pair(*pair, Residual(sigma=1.0), label_terms=terms(wire=wire))
    assert sum(sizes["float32"]) == 2 * sum(sizes["bfloat16"]) > 0


def test_records_aligned_before_cross_no_ids(pair):
    shared = tuple(sorted(set(pair[0].ids)))
    tables = [table.ordered_by(shared) for table in pair]
    top, bottom = run_pair(*tables, label_terms=terms(alignment="given"))
    assert top.agreement.digest == bottom.agreement.digest
    plain = run_pair(*tables)[1]
    assert torch.equal(weights(plain.bottom), weights(bottom.bottom))
    fewer = [tables[0], tables[1].ordered_by(shared[:-1])]
    with pytest.raises((TermsMismatchError, PeerEndedError), match=r"alignment|settings"):
        run_pair(*fewer, label_terms=terms(alignment="given"))
    renamed = type(pair[1])(pair[1].party, (*shared[:-1], "zz"), tables[1].features)
    with pytest.raises((TermsMismatchError, PeerEndedError), match=r"different ids|settings"):
        run_pair(tables[0], renamed, label_terms=terms(alignment="given"))
