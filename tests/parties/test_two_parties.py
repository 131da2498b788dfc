import threading

import polars as pl
import pytest
import torch
from torch.nn import functional

from cutlayer.data import BatchSchedule, Encoder, PartyTable
from cutlayer.errors import (
    ConfigurationError,
    DataError,
    PeerEndedError,
    ProtectionError,
    TermsMismatchError,
)
from cutlayer.parties import InputShape, LabelParty, NonLabelParty, Terms
from cutlayer.protections import Isotropic, Marvell, MaxNorm, NoNoise, Residual
from cutlayer.protocol import InMemoryTransport, in_memory_pair
from cutlayer.rng import SeededNoise
from tests.parties.conftest import QUICK, adam, make_bottom, make_top, run_pair, tables, terms


class Seen:
    """Keeps what an observer is shown."""

    def __init__(self):
        self.steps, self.labels, self.clean = [], [], []

    def on_release(self, release, labels, clean_gradient):
        self.steps.append(release)
        self.labels.append(labels)
        self.clean.append(clean_gradient)


def monolithic(label_table, other_table, agreed):
    """The same training as one model in one process: plain torch, one optimizer, no session."""
    settings = terms()
    order = [agreed.ids[i] for i in range(len(agreed.ids))]
    own, features = label_table.ordered_by(order), other_table.ordered_by(order)
    train_ids = [order[i] for i in agreed.train]
    x_own = Encoder.fit(own.ordered_by(train_ids)).encode(own)
    x = Encoder.fit(features.ordered_by(train_ids)).encode(features)
    bottom = make_bottom(InputShape((x.shape[1],)))
    top = make_top("top", settings.cut_width, InputShape((x_own.shape[1],)))
    optimizer = adam([*bottom.parameters(), *top.parameters()])
    schedule = BatchSchedule(len(agreed.train), settings.batch_size, settings.epochs, settings.seed)
    for part in schedule:
        rows = agreed.train[part.positions]
        logit = top(bottom(x[rows]), x_own[rows])
        loss = functional.binary_cross_entropy_with_logits(logit, own.labels[rows].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return bottom, top


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_no_noise_trains_what_one_process_trains_bit_for_bit(pair):
    torch.set_num_threads(1)
    top_half, bottom_half = run_pair(*pair)
    bottom, top = monolithic(*pair, bottom_half.agreement)
    assert torch.equal(weights(bottom), weights(bottom_half.bottom))
    assert torch.equal(weights(top), weights(top_half.halves["top"]))
    # The control: one bit of the data changed gives other weights.
    other = pair[1].features.with_columns(pl.col("f0") * 1.0001)
    changed = PartyTable("non-label party", pair[1].ids, other)
    assert not torch.equal(weights(run_pair(pair[0], changed)[1].bottom), weights(bottom))


def test_watching_changes_nothing(pair):
    plain = run_pair(*pair)[1].bottom
    watched = run_pair(*pair, observers=lambda agreement, canaries: [Seen()])[1].bottom
    assert torch.equal(weights(plain), weights(watched))


def test_the_order_of_rows_does_not_matter(pair):
    label, other = pair
    backwards = other.ordered_by(tuple(reversed(other.ids)))
    assert torch.equal(
        weights(run_pair(label, other)[1].bottom), weights(run_pair(label, backwards)[1].bottom)
    )


def test_records_of_one_party_only_are_left_out_and_counted(pair):
    label, other = pair
    few = other.ordered_by(tuple(i for i in other.ids if i >= "r0050"))
    top_half, bottom_half = run_pair(label, few)
    assert (top_half.agreement.only_here, top_half.agreement.only_there) == (50, 0)
    assert (bottom_half.agreement.only_here, bottom_half.agreement.only_there) == (0, 50)
    assert len(top_half.agreement.ids) == 150


def test_no_common_record_is_an_error_at_both_parties(pair):
    label, other = pair
    strangers = PartyTable("non-label party", tuple("x" + i for i in other.ids), other.features)
    with pytest.raises(DataError) as caught:
        run_pair(label, strangers)
    assert isinstance(caught.value.peer_error, (DataError, PeerEndedError))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run", "b"),
        ("data", "b"),
        ("protection", "b"),
        ("mode", "one round"),
        ("epochs", 3),
        ("batch_size", 16),
        ("cut_width", 5),
        ("seed", 6),
        ("folds", 4),
        ("test_fold", 1),
        ("validation_share", 0.2),
        ("test_share", 0.3),
        ("alignment", "given"),
        ("checkpoint_every", 7),
        ("staleness", 2),
        ("micro_batches", 4),
        ("wire", "bfloat16"),
    ],
)
def test_different_terms_end_the_run_and_name_field_and_values(pair, field, value):
    with pytest.raises((TermsMismatchError, PeerEndedError)) as caught:
        run_pair(*pair, other_terms=terms(**{field: value}))
    told = caught.value.peer_error if isinstance(caught.value, PeerEndedError) else caught.value
    assert isinstance(told, TermsMismatchError)
    assert field in str(told)
    assert repr(value) in str(told)


def test_terms_cover_every_field_that_both_parties_use():
    assert set(terms().as_fields()) == {
        "run",
        "data",
        "protection",
        "mode",
        "epochs",
        "batch_size",
        "cut_width",
        "seed",
        "folds",
        "test_fold",
        "validation_share",
        "test_share",
        "grouped",
        "alignment",
        "order",
        "checkpoint_every",
        "staleness",
        "micro_batches",
        "wire",
    }
    with pytest.raises(ValueError, match="test_fold"):
        terms(test_fold=5)
    with pytest.raises(ValueError, match="batch_size"):
        terms(batch_size=1)
    with pytest.raises(ValueError, match=r"micro_batches must be at most 16, .* at both parties"):
        terms(batch_size=32, micro_batches=17)
    with pytest.raises(ValueError, match="micro_batches"):
        terms(micro_batches=0)
    with pytest.raises(ValueError, match="mode"):
        Terms(run="r", data="d", protection="p", mode="half")


@pytest.mark.parametrize(
    "protection",
    [NoNoise(), Isotropic(t=1.0), MaxNorm(), Marvell(s=4.0), Residual(sigma=2.0)],
    ids=lambda p: p.name,
)
def test_every_protection_trains_and_counts_every_row(pair, protection):
    seen = Seen()
    top_half, bottom_half = run_pair(
        *pair, protection=protection, observers=lambda agreement, canaries: [seen]
    )
    train = len(top_half.agreement.train)
    assert top_half.sent.rows == 2 * train
    assert sum(len(r.records) for r in seen.steps) == 2 * train
    assert top_half.sent.releases == len(seen.steps)
    assert torch.isfinite(weights(bottom_half.bottom)).all()
    changed = [not torch.equal(r.gradient, c) for r, c in zip(seen.steps, seen.clean, strict=True)]
    assert all(changed) == (protection.name != "no_noise")


def test_labels_that_observers_see_are_those_of_the_records(pair):
    label, _ = pair
    seen = Seen()
    agreed = []
    run_pair(*pair, observers=lambda agreement, canaries: agreed.append(agreement) or [seen])
    truth = label.ordered_by(agreed[0].ids).labels
    for release, labels in zip(seen.steps, seen.labels, strict=True):
        assert torch.equal(truth[release.records], labels)


def test_residual_messages_do_not_depend_on_what_the_prediction_head_learns(pair):
    """The clean label reaches a message only through the noisy residual."""

    def zero_prediction(name, cut_width, own):
        top = make_top(name, cut_width, own)
        if name == "prediction_top":
            for parameter in top.parameters():
                parameter.data.zero_()
        return top

    def gradients(top):
        seen = Seen()
        run_pair(*pair, protection=Residual(sigma=2.0), observers=lambda a, c: [seen], top=top)
        return torch.cat([r.gradient for r in seen.steps])

    assert torch.equal(gradients(make_top), gradients(zero_prediction))


def test_canaries_are_coins_on_training_records_and_never_touch_the_test(pair):
    planted = []
    top_half, _ = run_pair(
        *pair, canaries=80, observers=lambda agreement, canaries: planted.append(canaries) or []
    )
    truth = pair[0].ordered_by(top_half.agreement.ids).labels
    mask = planted[0].mask
    assert int(mask.sum()) == 80
    assert not mask[top_half.agreement.test].any()
    assert torch.equal(planted[0].training_labels[~mask], truth[~mask])
    heads = int(planted[0].training_labels[mask].sum())
    assert abs(heads - 40) <= 5 * (80 / 4) ** 0.5  # five standard deviations of a fair coin


def test_more_canaries_than_training_records_is_an_error(pair):
    with pytest.raises(ConfigurationError, match="canaries"):
        run_pair(*pair, canaries=500)


def test_frozen_mode_sends_nothing_back(pair):
    top_half, bottom_half = run_pair(*pair, label_terms=terms(mode="one round", cut_width=2))
    assert (top_half.sent.releases, top_half.sent.rows) == (0, 0)
    assert not any(p.requires_grad for p in bottom_half.bottom.parameters())


def test_frozen_bottom_is_the_same_whatever_the_labels_are(pair):
    label, other = pair
    flipped = PartyTable("label party", label.ids, label.features, 1 - label.labels)
    first = run_pair(label, other, label_terms=terms(mode="one round", cut_width=2))[1].bottom
    second = run_pair(flipped, other, label_terms=terms(mode="one round", cut_width=2))[1].bottom
    assert torch.equal(first.weight, second.weight)


def test_what_crosses_has_the_same_kinds_sizes_and_order_whatever_the_labels_are(pair, monkeypatch):
    label, other = pair
    frames = []
    send = InMemoryTransport.send

    def recorded(transport, header, payload, *, deadline):
        # Kind, element type, step, rows, width and payload bytes; HELLO holds a random nonce.
        frames.append((header[6:8], header[16:40], payload.nbytes))
        send(transport, header, payload, deadline=deadline)

    monkeypatch.setattr(InMemoryTransport, "send", recorded)
    sent = []
    mostly_negative = (torch.arange(len(label.labels)) % 10 == 0).long()
    for labels in (label.labels, 1 - label.labels, mostly_negative):
        frames.clear()
        run_pair(
            PartyTable("label party", label.ids, label.features, labels), other, Marvell(s=4.0)
        )
        sent.append(list(frames))
    assert len(sent[0]) > 20
    assert sent[0] == sent[1] == sent[2]


def test_label_party_without_own_features_trains():
    label, other = tables(own_columns=0)
    top_half, _ = run_pair(label, other)
    assert top_half.inputs.shape.width == 0


def test_label_party_alone_ignores_the_peer(pair):
    alone = LabelParty(
        pair[0], terms(), NoNoise(), make_top, adam, noise=SeededNoise(0)
    ).run_alone()
    assert (alone.sent.releases, alone.sent.rows) == (0, 0)
    assert len(alone.held_out_logit) == len(alone.agreement.held_out)


def test_the_other_partys_table_cannot_be_the_label_party(pair):
    party = LabelParty(pair[1], terms(), NoNoise(), make_top, adam, noise=SeededNoise(0))
    with pytest.raises(DataError, match="labels"):
        party.run_alone()


def test_a_bottom_of_another_width_is_named(pair):
    with pytest.raises(PeerEndedError) as caught:
        run_pair(*pair, bottom=lambda own: make_bottom(own, width=7))
    assert isinstance(caught.value.peer_error, ConfigurationError)
    assert "cut_width" in str(caught.value.peer_error)


def test_a_top_that_couples_rows_is_refused(pair):
    class Coupled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

    with pytest.raises(ConfigurationError, match="BatchNorm1d"):
        run_pair(*pair, top=lambda name, cut, own: Coupled())


def test_a_top_that_ignores_the_activation_is_refused(pair):
    class Ignorant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(1))

        def forward(self, activation, own_features):
            return self.bias.expand(len(activation)) + 0 * own_features.sum(1)

    with pytest.raises(ProtectionError, match="does not depend on the activation"):
        run_pair(*pair, top=lambda name, cut, own: Ignorant())


def test_a_gradient_that_is_not_finite_is_never_sent(pair):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, activation, own_features):
            return self.layer(activation).squeeze(1) * torch.inf

    with pytest.raises(ProtectionError, match="must be finite"):
        run_pair(*pair, top=lambda name, cut, own: Broken())


def test_a_training_that_kept_nothing_is_not_sent_twice(pair):
    label = LabelParty(
        pair[0],
        terms(protection="residual"),
        Residual(max_leak_auc=0.7, releases=2),
        make_top,
        adam,
        noise=SeededNoise(9),
        deadlines=QUICK,
    )
    here, there = in_memory_pair()
    other = NonLabelParty(pair[1], terms(protection="residual"), make_bottom, adam, deadlines=QUICK)
    thread = threading.Thread(target=other.run, args=(there,))
    thread.start()
    label.run(here)
    thread.join()
    with pytest.raises(ConfigurationError, match="messages of this training have left"):
        label.run(in_memory_pair()[0])


def numbered(table, rows):
    """The first rows of a table without an id."""
    ids = tuple(str(row) for row in range(1, rows + 1))
    labels = None if table.labels is None else table.labels[:rows]
    return PartyTable(table.party, ids, table.features[:rows], labels, numbered=True)


def told_by_both(label_table, other_table, **changes):
    """What both operators are told, and how both parties end."""
    here, there = in_memory_pair()
    said = {"label": [], "other": []}
    settings = {"deadlines": QUICK}
    label = LabelParty(
        label_table,
        terms(**changes),
        NoNoise(),
        make_top,
        adam,
        noise=SeededNoise(9),
        tell=said["label"].append,
        **settings,
    )
    other = NonLabelParty(
        other_table, terms(**changes), make_bottom, adam, tell=said["other"].append, **settings
    )
    ends = {}

    def play(name, party, transport):
        try:
            ends[name] = party.run(transport)
        except Exception as error:  # noqa: BLE001
            ends[name] = error

    thread = threading.Thread(target=play, args=("other", other, there))
    thread.start()
    play("label", label, here)
    thread.join()
    return said, ends


@pytest.mark.parametrize("rows", [(199, 200), (200, 199)])
def test_row_numbers_of_unequal_files_are_refused_by_both(pair, rows):
    """From the missing row on, each record would get another's features."""
    tables_ = [numbered(table, count) for table, count in zip(pair, rows, strict=True)]
    _, ends = told_by_both(*tables_)
    for party, here, there in (("label", *rows), ("other", *rows[::-1])):
        with pytest.raises(DataError, match=f"row number, .* {here} here and {there} at the "):
            raise ends[party]


def test_row_numbers_of_equal_files_are_matched(pair):
    _, ends = told_by_both(*(numbered(table, 200) for table in pair))
    assert len(ends["label"].agreement.ids) == len(ends["other"].agreement.ids) == 200


def test_lost_ids_are_said_at_both_before_the_training(pair):
    label, other = pair
    respelt = tuple(f"{name}.0" if int(name[1:]) % 2 else name for name in other.ids)
    said, ends = told_by_both(label, PartyTable(other.party, respelt, other.features))
    assert not any(isinstance(end, Exception) for end in ends.values())
    for name, party in (("label", "label party"), ("other", "non-label party")):
        (notice,) = said[name]
        assert notice.startswith(f"Warning, {party}: 100 of 200 records of this party (50 %)")
