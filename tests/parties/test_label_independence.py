"""What labels decide: nothing that a peer can see before the farewell, whatever it brings."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from cutlayer.audits import LiveLeak, ReleaseAudit, ReleaseRecorder
from cutlayer.audits.live.live_leak import live_attacks
from cutlayer.errors import ConfigurationError, DataError, PeerEndedError, TermsMismatchError
from cutlayer.parties import LabelParty, NonLabelParty, Persistence
from cutlayer.parties.agreement import LEAST_IN_PART, agree_on
from cutlayer.protections import PROTECTIONS, Marvell, NoNoise, Residual, parse_protection
from cutlayer.protocol import InMemoryTransport, Kind, in_memory_pair
from cutlayer.rng import SecretNoise
from tests.parties.conftest import QUICK, adam, make_bottom, make_top, run_pair, tables, terms
from tests.parties.test_resuming import meet

FROZEN = "frozen"
EXAMPLES = {
    "no_noise": "no_noise",
    "isotropic": "isotropic:t=1",
    "max_norm": "max_norm",
    "marvell": "marvell:s=4",
    "marvell with a goal": "marvell:max_leak_auc=0.6",
    "residual": "residual:sigma=2",
    "residual with a goal": "residual:max_leak_auc=0.7,releases=2",
    FROZEN: "no_noise",
}
SHARES = {"folds": 0, "validation_share": 0.15, "order": "nonces", "checkpoint_every": 2}


def test_every_protection_is_tried():
    assert {text.partition(":")[0] for text in EXAMPLES.values()} == set(PROTECTIONS)


class Heard(InMemoryTransport):
    """The label party's end of the line: notes all that the peer could see of a message."""

    said: list[tuple[bytes, bytes, int]]

    def send(self, header, payload, *, deadline):
        # Kind, element type, step, rows, width and payload bytes; HELLO holds a random nonce.
        kind = header[6]
        self.said.append((kind, header[7], header[16:40], payload.nbytes))
        if kind == Kind.ERROR:
            self.said.append(bytes(payload))
        super().send(header, payload, deadline=deadline)


def parties(folder, pair, name, *, bottom=make_bottom, observers=(), **changes):
    """Both parties of a run, kept in a folder; close them."""
    if name == FROZEN:
        changes |= {"mode": "one round", "cut_width": 2}  # fewer than the peer has columns
    agreed = terms(**{**SHARES, **changes})
    protection = parse_protection(EXAMPLES[name], PROTECTIONS)
    here = Persistence.in_folder(folder / "label", repr(protection))
    there = Persistence.in_folder(folder / "other")

    def look(agreement, canaries):
        recorder = ReleaseRecorder(
            folder / "messages", agreement.ids, generator=torch.Generator().manual_seed(0)
        )
        audit = ReleaseAudit(canaries.training_labels, generator=torch.Generator())
        return (audit, LiveLeak(live_attacks(), generator=torch.Generator(), every=1), recorder)

    try:
        label = LabelParty(
            *(pair[0], agreed, protection, make_top, adam),
            noise=here.key.noise(),
            persistence=here,
            observers=look,
            deadlines=QUICK,
        )
    except ConfigurationError:
        here.close()
        raise
    other = NonLabelParty(*(pair[1], agreed, bottom, adam), persistence=there, deadlines=QUICK)
    return label, other


def close(*both):
    for party in both:
        party._persistence.close()


def seen_by_the_peer(folder, pair, name, **options):
    """All that reaches the peer, what it ends with, and what the label party ends with."""
    said = []
    both = parties(folder, pair, name, **options)
    label, other = meet(*both, transport=type("Heard", (Heard,), {"said": said}))
    close(*both)
    end = f"{type(other).__name__}: {other}" if isinstance(other, Exception) else "finished"
    return said, end, label


def relabelled(pair, labels):
    """The same records with other labels."""
    return replace(pair[0], labels=labels), pair[1]


def labellings(pair):
    """Labels under which each part of the split has one class, both, or one of a kind."""
    table = pair[0]
    agreed = agree_on(table.ids, terms(**SHARES))
    row = {name: number for number, name in enumerate(table.ids)}
    part = {
        name: torch.tensor([row[agreed.ids[int(record)]] for record in records])
        for name, records in (
            ("train", agreed.train),
            ("validation", agreed.validation),
            ("test", agreed.test),
        )
    }

    def labels(**values):
        made = table.labels.clone()
        for name, value in values.items():
            made[part[name]] = value
        return made

    target = labels(test=0)
    target[part["test"][0]] = 1
    lone = labels(train=0)
    lone[part["train"][0]] = 1
    return {
        "true": table.labels,
        "all test records negative": labels(test=0),
        "the target alone positive": target,
        "all validation records positive": labels(validation=1),
        "all training records positive": labels(train=1),
        "all training records negative": labels(train=0),
        "one training record positive": lone,
        "all positive": labels(train=1, validation=1, test=1),
        "all negative": labels(train=0, validation=0, test=0),
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_labels_change_what_the_peer_sees_of_a_session(tmp_path, pair, name):
    """Through journal, checkpoints, recording and both audits."""
    seen = {}
    for number, (labelling, labels) in enumerate(labellings(pair).items()):
        said, end, half = seen_by_the_peer(tmp_path / str(number), relabelled(pair, labels), name)
        seen[labelling] = said
        assert end == "finished", (labelling, end)
        assert not isinstance(half, Exception), (labelling, half)
        agreed = half.agreement
        for quality, records in ((half.test, agreed.test), (half.validation, agreed.validation)):
            lone = len(half.labels[records].unique()) == 1
            assert (quality.auc is None) == lone, labelling
            assert bool(quality.undefined) == lone
            assert quality.loss is not None
    assert len(seen["true"]) > (3 if name == FROZEN else 10)
    assert seen["true"][-1][0] == Kind.BYE
    assert all(said == seen["true"] for said in seen.values())


class Closing(InMemoryTransport):
    """The label party's end of the line: notes when it is closed."""

    events: list[str]

    def close(self):
        self.events.append("closed")
        super().close()


def test_the_connection_is_closed_before_a_frozen_run_looks_at_labels(tmp_path, pair):
    events = []

    class Steps:
        def on_progress(self, step, steps, rows):
            events.append("step")

    agreed = terms(mode="one round", cut_width=2)
    label = LabelParty(
        *(pair[0], agreed, NoNoise(), make_top, adam),
        noise=SecretNoise(),
        progress=(Steps(),),
        deadlines=QUICK,
    )
    other = NonLabelParty(*(pair[1], agreed, make_bottom, adam), deadlines=QUICK)
    here, there = in_memory_pair()
    here = type("Noted", (Closing,), {"events": events})(here._outgoing, here._incoming)
    with ThreadPoolExecutor(1) as pool:
        played = pool.submit(other.run, there)
        label.run(here, lambda half: events.append("kept"))
        played.result(timeout=60)
    assert events[0] == "closed"
    assert set(events[1:-1]) == {"step"}
    assert events[-1] == "kept"


def test_a_prediction_head_that_diverges_is_noticed_once_the_peer_has_left(pair):
    """It learns from clean labels, so the session must not end by it."""

    class Diverged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, activation, own_features):
            return self.layer(activation).squeeze(1) * torch.inf

    def make(name, cut_width, own):
        return Diverged() if name == "prediction_top" else make_top(name, cut_width, own)

    half, _ = run_pair(*pair, Residual(sigma=2.0), top=make)
    assert half.test.auc is None
    assert half.test.loss is None
    assert "predictions are NaN or infinite" in half.test.undefined


def constant(value):
    """A bottom half that sends one value for every record, whatever it learns."""

    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.nothing = torch.nn.Parameter(torch.zeros(()))

        def forward(self, features):
            return features.new_full((len(features), 4), value) + 0 * self.nothing

    return lambda own: Constant()


def lopsided(own):
    """A bottom half that singles out the records with a large first feature."""

    class Lopsided(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.nothing = torch.nn.Parameter(torch.zeros(()))

        def forward(self, features):
            value = torch.where(features[:, :1] > 1, 9e5, -9e5)
            return value.expand(-1, 4) * (1 + 0 * self.nothing)

    return Lopsided()


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != FROZEN])
@pytest.mark.parametrize(
    "bottom",
    [constant(0.0), constant(1e6), constant(1e-42), lopsided],
    ids=["zeros", "large", "denormal", "lopsided"],
)
def test_crafted_activations_end_alike_under_all_labels(tmp_path, pair, name, bottom):
    made = labellings(pair)
    seen = []
    for labelling in ("true", "all test records negative", "one training record positive"):
        played = relabelled(pair, made[labelling])
        said, end, half = seen_by_the_peer(
            tmp_path / labelling, played, name, bottom=bottom, epochs=1, batch_size=64
        )
        assert not isinstance(half, Exception), (labelling, half)
        seen.append((said, end))
    assert all(one == seen[0] for one in seen)


def test_a_protection_that_may_refuse_a_batch_is_refused_before_a_peer_is_met(pair):
    with pytest.raises(ConfigurationError, match="ends a run at a batch of one class"):
        LabelParty(
            *(pair[0], terms(), Marvell(s=4.0, statistics="batch"), make_top, adam),
            noise=SecretNoise(),
        )


@pytest.mark.parametrize("name", [FROZEN, "residual"])
@pytest.mark.parametrize("part", ["test", "validation", "train"])
def test_a_part_of_a_few_chosen_records_is_refused_before_anybody_looks_at_labels(
    tmp_path, pair, name, part
):
    """The peer brings the target, and known negatives, of one part; the label party has all."""
    agreed = agree_on(pair[0].ids, terms(**SHARES))
    chosen = [agreed.ids[int(r)] for r in getattr(agreed, part)[: LEAST_IN_PART - 1]]
    others = [
        agreed.ids[int(record)]
        for other in ("train", "validation", "test")
        if other != part
        for record in getattr(agreed, other)
    ]
    brought = pair[0], pair[1].ordered_by(tuple(chosen + others))
    seen = []
    for number, target in enumerate((0, 1)):
        labels = brought[0].labels.clone()
        for position, record in enumerate(chosen):
            labels[list(brought[0].ids).index(record)] = target if position == 0 else 0
        both = relabelled(brought, labels)
        said, end, error = seen_by_the_peer(tmp_path / str(number), both, name)
        shown = "training" if part == "train" else part
        rule = (
            f"{LEAST_IN_PART - 1} of the {len(chosen + others)} shared records fall into the "
            f"{shown} part, which needs at least {LEAST_IN_PART}"
        )
        assert isinstance(error, DataError)
        for text, party in ((str(error), "label party: "), (end, "non-label party: ")):
            assert f"{party}{rule}" in text
        assert not (tmp_path / str(number) / "label" / "shared.records").exists()
        seen.append((said, end))
    assert seen[0] == seen[1]
    assert [message[0] for message in seen[0][0][:2]] == [Kind.HELLO, Kind.IDS]


def test_the_smallest_parts_that_are_allowed_train(tmp_path):
    """Counted by the rule itself, on a public split: 10 of each kind suffice."""
    pair = tables(400)
    agreed = agree_on(pair[0].ids, terms(**SHARES))
    kept = [
        agreed.ids[int(record)]
        for records, count in ((agreed.train, 40), (agreed.validation, 10), (agreed.test, 10))
        for record in records[:count]
    ]
    _, end, half = seen_by_the_peer(
        tmp_path, (pair[0], pair[1].ordered_by(tuple(kept))), "no_noise"
    )
    assert end == "finished", end
    assert [len(half.agreement.validation), len(half.agreement.test)] == [10, 10]


@pytest.mark.parametrize("name", [FROZEN, "residual"])
def test_nobody_comes_back_with_other_records_under_the_name_of_a_run(tmp_path, pair, name):
    assert seen_by_the_peer(tmp_path, pair, name)[1] == "finished"
    fewer = pair[0], pair[1].ordered_by(pair[1].ids[1:])
    _, end, error = seen_by_the_peer(tmp_path, fewer, name)
    assert isinstance(error, TermsMismatchError)
    assert "share other records than when this run began" in str(error)
    assert end.startswith(PeerEndedError.__name__)
    assert seen_by_the_peer(tmp_path, pair, name)[1] == "finished"


def test_changed_labels_are_refused_before_the_peer_is_met(tmp_path, pair):
    assert seen_by_the_peer(tmp_path, pair, "residual")[1] == "finished"
    labels = pair[0].labels.clone()
    labels[[3, 7]] = 1 - labels[[3, 7]]
    with pytest.raises(ConfigurationError, match=r"of 2 of its records .* 'r0003', 'r0007'\. Put"):
        parties(tmp_path, relabelled(pair, labels), "residual")


def test_whether_a_label_has_changed_does_not_depend_on_what_the_peer_brings(tmp_path, pair):
    """The record whose label changes is not one that the parties share."""
    hidden = pair[0].ids[3]
    without = pair[0], pair[1].ordered_by(tuple(i for i in pair[1].ids if i != hidden))
    assert seen_by_the_peer(tmp_path, without, "residual")[1] == "finished"
    labels = pair[0].labels.clone()
    labels[3] = 1 - labels[3]
    with pytest.raises(ConfigurationError, match="labels of 1 of its records"):
        parties(tmp_path, relabelled(without, labels), "residual")


def test_labels_may_be_mended_as_long_as_nothing_has_left(tmp_path, pair):
    close(*parties(tmp_path, pair, "residual"))
    mended = relabelled(pair, 1 - pair[0].labels)
    assert seen_by_the_peer(tmp_path, mended, "residual")[1] == "finished"
    with pytest.raises(ConfigurationError, match="200 of its records"):
        parties(tmp_path, pair, "residual")


def test_new_records_are_no_change_and_are_held_from_then_on(tmp_path, pair):
    half = pair[0].ordered_by(pair[0].ids[:150]), pair[1].ordered_by(pair[0].ids[:150])
    assert seen_by_the_peer(tmp_path, half, "residual")[1] == "finished"
    grown = pair[0], half[1]
    assert seen_by_the_peer(tmp_path, grown, "residual")[1] == "finished"
    labels = pair[0].labels.clone()
    labels[199] = 1 - labels[199]
    with pytest.raises(ConfigurationError, match=r"1 of its records .*'r0199'"):
        parties(tmp_path, relabelled(grown, labels), "residual")


def test_the_record_of_the_labels_shows_neither_ids_nor_labels(tmp_path, pair):
    """Two labellings under two keys: files of one length, without an id, half of the marks set."""
    for number, labels in enumerate((torch.zeros(200).long(), torch.ones(200).long())):
        close(*parties(tmp_path / str(number), relabelled(pair, labels), "residual"))
    files = [(tmp_path / str(n) / "label" / "labels.held").read_bytes() for n in (0, 1)]
    assert len(files[0]) == len(files[1])
    for content in files:
        assert b"r0000" not in content
        marks = sum(content[-200:]) if set(content[-200:]) <= {0, 1} else sum(content[-1800:-1600])
        assert abs(marks - 100) <= 5 * (200 / 4) ** 0.5  # five deviations of fair coins
