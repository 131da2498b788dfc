"""Micro-batches: a batch that crosses in several messages trains what it trains in one."""

import threading
from copy import deepcopy
from functools import partial

import pytest
import torch

from cutlayer.data.tensor_records import TensorRecords
from cutlayer.parties import Compute, InputShape, LabelParty, NonLabelParty
from cutlayer.parties.top_trainer import GradientTopTrainer, ResidualTopTrainer
from cutlayer.protections import Isotropic, Marvell, MaxNorm, NoNoise, Residual
from cutlayer.protocol import Kind, Role, Session
from cutlayer.rng import SeededNoise
from tests.parties.conftest import QUICK, adam, make_bottom, make_top, question, run_pair, terms
from tests.parties.test_two_parties import Seen, weights
from tests.protections.test_label_sensitivity import Silence
from tests.protocol.networks import Network, make_identities, meet

sgd = partial(torch.optim.SGD, lr=0.5)


@pytest.mark.parametrize("staleness", [0, 1])
@pytest.mark.parametrize("batch_size", [30, 32])  # of 160 or so records: nothing divides
def test_any_number_of_messages_trains_what_one_message_trains(pair, batch_size, staleness):
    halves = {}
    for micro_batches in (1, 2, 4, 7):
        settings = terms(
            batch_size=batch_size, micro_batches=micro_batches, staleness=staleness, epochs=4
        )
        top_half, bottom_half = run_pair(*pair, label_terms=settings, optimizer=sgd)
        halves[micro_batches] = weights(bottom_half.bottom), weights(top_half.halves["top"])
    start = weights(make_bottom(InputShape((3,))))
    for micro_batches in (2, 4, 7):
        for one, several in zip(halves[1], halves[micro_batches], strict=True):
            # 20 updates of float32 sums, each to half a unit in the last place of numbers near 1.
            assert torch.allclose(one, several, rtol=0, atol=1e-5)
    assert (halves[1][0] - start).abs().max() > 0.1  # the control: far more than the tolerance


def test_unweighted_messages_would_train_something_else(pair):
    """The control: were each message an update of its own, the weights would be others."""
    whole = run_pair(*pair, label_terms=terms(batch_size=30), optimizer=sgd)[1].bottom
    alone = run_pair(*pair, label_terms=terms(batch_size=15), optimizer=sgd)[1].bottom
    assert (weights(whole) - weights(alone)).abs().max() > 1e-2


def test_each_record_is_sent_once_an_epoch_and_no_message_is_smaller_than_its_part(pair):
    seen = Seen()
    settings = terms(batch_size=30, micro_batches=4)
    top_half, _ = run_pair(*pair, label_terms=settings, observers=lambda agreed, coins: [seen])
    train = top_half.agreement.train
    assert [release.step for release in seen.steps] == list(range(2 * 4 * (len(train) // 30)))
    for epoch in (0, 1):
        rows = torch.cat([r.records for r in seen.steps if r.epoch == epoch])
        assert torch.equal(rows.sort().values, train)
    assert min(release.examples for release in seen.steps) >= 30 // 4
    assert (top_half.sent.releases, top_half.sent.rows) == (len(seen.steps), 2 * len(train))


GENERATOR = torch.Generator().manual_seed(8)
ACTIVATION = torch.randn(37, 4, generator=GENERATOR)
OWN = torch.randn(37, 2, generator=GENERATOR)
LABELS = torch.randint(2, (37,), generator=GENERATOR)


def head_of(kind):
    """A head whose noise is silent, with the weights that it starts from."""
    tops = {name: make_top(name, 4, InputShape((own,))) for name, own in kind.items()}
    if len(tops) == 1:
        return GradientTopTrainer(tops["top"], NoNoise(), sgd, Silence(), Compute())
    return ResidualTopTrainer(*tops.values(), Residual(sigma=1.0), sgd, Silence(), Compute())


@pytest.mark.parametrize(
    "kind", [{"top": 2}, {"message_top": 0, "prediction_top": 2}], ids=["gradient", "residual"]
)
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_the_tops_learn_from_a_cut_batch_what_they_learn_from_it_whole(kind, parts):
    whole, cut = head_of(kind), head_of(kind)
    before = {name: weights(top).clone() for name, top in whole.halves.items()}
    answer = whole.answer(question(0, ACTIVATION, OWN, LABELS, audited=True))
    whole.update(complete=True)
    pieces = []
    for index, rows in enumerate(torch.arange(37).tensor_split(parts)):
        share = len(rows) / 37
        piece = cut.answer(
            question(index, ACTIVATION[rows], OWN[rows], LABELS[rows], share, audited=True)
        )
        cut.update(complete=index == parts - 1)
        pieces.append((share * piece.gradient, share * piece.clean_gradient))
    for name, top in whole.halves.items():
        assert torch.allclose(weights(top), weights(cut.halves[name]), rtol=0, atol=1e-6)
        assert (weights(top) - before[name]).abs().max() > 1e-3
    # The message's own mean loss is over n of N records: weighted, it is the batch's gradient.
    for sent, expected in zip(
        zip(*pieces, strict=True), (answer.gradient, answer.clean_gradient), strict=True
    ):
        assert torch.allclose(torch.cat(sent), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "protection",
    [NoNoise(), Isotropic(t=1.0), MaxNorm(), Marvell(s=4.0)],
    ids=lambda protection: protection.name,
)
def test_a_protection_sees_a_message_alike_whatever_batch_it_is_of(protection):
    """So noise, statistics and their unit are those of a batch of the message's size."""
    start = deepcopy(protection)
    sent, states = {}, {}
    for share in (1.0, 0.25):  # a power of two rounds nothing
        top = make_top("top", 4, InputShape((2,)))
        head = GradientTopTrainer(top, deepcopy(start), sgd, SeededNoise(3), Compute())
        answers = [head.answer(question(step, ACTIVATION, OWN, LABELS, share)) for step in range(2)]
        sent[share] = torch.cat([answer.gradient for answer in answers])
        states[share] = head.state()
    assert torch.equal(sent[1.0], sent[0.25])
    assert all(torch.equal(states[1.0][name], states[0.25][name]) for name in states[1.0])


@pytest.mark.parametrize(("staleness", "micro_batches"), [(0, 1), (0, 4), (2, 1), (2, 3)])
def test_all_messages_of_the_late_batches_are_on_their_way_and_no_more(
    pair, monkeypatch, staleness, micro_batches
):
    waiting, most, kept = 0, 0, []
    send, receive = Session.send_tensor, Session.receive_tensor

    def counted_send(session, kind, tensor, *, step=0):
        nonlocal waiting, most
        send(session, kind, tensor, step=step)
        if kind is Kind.ACTIVATION:
            waiting += 1
            most = max(most, waiting)

    def counted_receive(session, kind, shape, *, step=0):
        nonlocal waiting
        tensor = receive(session, kind, shape, step=step)
        if kind is Kind.GRADIENT:
            waiting -= 1
            kept.append(waiting)
        return tensor

    monkeypatch.setattr(Session, "send_tensor", counted_send)
    monkeypatch.setattr(Session, "receive_tensor", counted_receive)
    settings = terms(batch_size=16, staleness=staleness, micro_batches=micro_batches)
    run_pair(*pair, label_terms=settings)
    assert most == settings.most_in_flight == (staleness + 1) * micro_batches
    assert kept[-1] == 0
    assert kept[: len(kept) // 2][-1] == 0  # the first epoch ended with nothing on its way


def test_the_label_party_alone_trains_on_whole_batches(pair):
    halves = []
    for micro_batches in (1, 4):
        party = LabelParty(
            pair[0],
            terms(micro_batches=micro_batches),
            NoNoise(),
            make_top,
            adam,
            noise=SeededNoise(0),
        )
        halves.append(weights(party.run_alone().halves["top"]))
    assert torch.equal(*halves)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns about its own parts
def test_a_compiled_bottom_takes_micro_batches_since_its_weights_stay(pair, monkeypatch):
    graphs, runs = [], []

    def backend(graph, _):
        graphs.append(graph)

        def run(*inputs):
            runs.append(len(runs))
            return graph(*inputs)

        return run

    compiler = partial(torch.compile, backend=backend)
    # The first import of the compiler is not safe in two threads at once, as this test runs them.
    compiler(torch.nn.Linear(1, 1))(torch.ones(1, 1))
    settings = terms(batch_size=30, micro_batches=4)
    plain_top, plain = run_pair(*pair, label_terms=settings)
    graphs.clear()
    runs.clear()
    monkeypatch.setattr(torch, "compile", compiler)
    top, compiled = run_pair(*pair, label_terms=settings, other_compute=Compute(compile=True))
    assert graphs
    assert len(runs) > top.sent.releases  # each message, and the held-out records at the end
    for one, other in (
        (compiled.bottom, plain.bottom),
        (top.halves["top"], plain_top.halves["top"]),
    ):
        # Graphs compute what the module does, up to the order of some sums.
        assert torch.allclose(weights(one), weights(other), rtol=0, atol=1e-5)
    start = weights(make_bottom(InputShape((3,))))
    assert (weights(compiled.bottom) - start).abs().max() > 0.01  # the control


class Landed:
    """How many gradients had come back when a step was told to be done."""

    def __init__(self):
        self.landed, self.told = 0, []

    def on_progress(self, step, steps, rows):
        self.told.append((step, self.landed, steps, rows))


@pytest.mark.parametrize("staleness", [0, 1])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_non_label_party_tells_a_step_when_its_gradient_is_back(
    pair, monkeypatch, staleness, micro_batches
):
    watcher, seen = Landed(), Seen()
    receive = Session.receive_tensor

    def counted(session, kind, shape, *, step=0):
        tensor = receive(session, kind, shape, step=step)
        watcher.landed += kind is Kind.GRADIENT
        return tensor

    monkeypatch.setattr(Session, "receive_tensor", counted)
    settings = terms(batch_size=30, micro_batches=micro_batches, staleness=staleness)
    run_pair(
        *pair,
        label_terms=settings,
        observers=lambda agreed, coins: [seen],
        other_progress=[watcher],
    )
    steps = len(seen.steps)
    expected = [(n, n, steps, sent.examples) for n, sent in enumerate(seen.steps, start=1)]
    assert watcher.told == expected


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    return make_identities(tmp_path_factory.mktemp("identities"))


@pytest.mark.parametrize("transport", ["grpc", "tls", "plain"])
def test_every_transport_carries_all_messages_of_a_batch_at_once(secured, transport):
    """Messages of 240 KiB, of which both parties have several on their way at the same time."""
    generator = torch.Generator().manual_seed(2)
    numbers = torch.randn(600, 5, generator=generator)
    ids = tuple(f"r{i:03d}" for i in range(600))
    labels = (numbers.sum(1) > 0).long()
    records = (
        TensorRecords("label party", ids, numbers[:, 3:], labels),
        TensorRecords("non-label party", ids, numbers[:, :3]),
    )
    settings = terms(batch_size=230, cut_width=512, micro_batches=2, staleness=1)
    bottom = partial(make_bottom, width=512)
    expected_top, expected = run_pair(*records, label_terms=settings, bottom=bottom)
    identities = {} if transport == "plain" else secured
    network = Network(transport, identities.get(Role.LABEL), identities.get(Role.NON_LABEL))
    listener = network.listener()
    connector = network.connector(listener.address)
    here, there = meet(listener, connector)
    label = LabelParty(
        records[0], settings, NoNoise(), make_top, adam, noise=SeededNoise(9), deadlines=QUICK
    )
    other = NonLabelParty(records[1], settings, bottom, adam, deadlines=QUICK)
    halves = []
    thread = threading.Thread(target=lambda: halves.append(other.run(there)))
    thread.start()
    try:
        top = label.run(here)
    finally:
        thread.join()
        listener.close()
        connector.close()
    assert torch.equal(weights(halves[0].bottom), weights(expected.bottom))
    assert torch.equal(weights(top.halves["top"]), weights(expected_top.halves["top"]))
