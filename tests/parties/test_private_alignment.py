"""Private alignment over real transports, and against a peer that misbehaves."""

import hashlib
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from cutlayer.alignment.private_comparison import PrivateComparison
from cutlayer.alignment.private_matching import PrivateMatching
from cutlayer.alignment.ristretto import multiplied, random_scalar
from cutlayer.alignment.shared_ids import alignment_hash
from cutlayer.data import TextSequence
from cutlayer.errors import (
    ConfigurationError,
    ConnectionLostError,
    CutlayerError,
    DataError,
    PeerEndedError,
    ProtocolError,
    TermsMismatchError,
)
from cutlayer.parties import Terms
from cutlayer.parties import private_alignment as alignment_session
from cutlayer.parties.private_alignment import align_privately
from cutlayer.protocol import (
    Deadlines,
    Kind,
    Role,
    Session,
    Shape,
    StreamConnector,
    StreamListener,
    in_memory_pair,
)

pytest.importorskip("rbcl", reason="needs cutlayer[psi]")

TERMS = Terms(run="run", data="run", protection="no_noise", mode="alignment", alignment="private")
QUICK = Deadlines(connect=10, handshake=10, step=10)
BLOCK = 16


LISTENERS = []


def tcp_pair():
    listener = StreamListener()
    LISTENERS.append(listener)
    there = StreamConnector(listener.address).meet(deadline=5)
    return listener.meet(deadline=5), there


@pytest.fixture(autouse=True)
def listeners_are_closed():
    yield
    while LISTENERS:
        LISTENERS.pop().close()


def in_background(task):
    """Start a task; calling the result waits and gives what it returned or raised."""
    box = []

    def play():
        try:
            box.append(task())
        except CutlayerError as error:
            box.append(error)

    thread = threading.Thread(target=play)
    thread.start()

    def outcome():
        thread.join(timeout=30)
        assert not thread.is_alive()
        return box[0]

    return outcome


def party(role, transport, ids, terms=TERMS, **options):
    options = {"block_ids": BLOCK, **options}
    with Session(role, transport, run=terms.run, deadlines=QUICK) as session:
        return align_privately(session, terms, TextSequence(ids), **options)


def both(label_ids, other_ids, pair=in_memory_pair, other_terms=TERMS, **options):
    here, there = pair()
    other = in_background(lambda: party(Role.NON_LABEL, there, other_ids, other_terms, **options))
    label = in_background(lambda: party(Role.LABEL, here, label_ids, **options))
    return label(), other(), (here, there)


def names(*numbers):
    return [f"u{number}" for number in numbers]


@pytest.mark.parametrize("pair", [in_memory_pair, tcp_pair], ids=["in memory", "tcp"])
def test_both_parties_get_the_intersection_sorted_and_the_same_hash(pair):
    label, other, transports = both(names(*range(100)), names(*range(130, 60, -1)), pair)
    expected = sorted(names(*range(61, 100)))
    assert list(label.ids) == list(other.ids) == expected
    assert label.hash == other.hash == alignment_hash(expected)
    assert (label.only_here, label.only_there) == (61, 31)
    assert (other.only_here, other.only_there) == (31, 61)
    for transport in transports:
        transport.close()


@pytest.mark.parametrize(
    "counts", [(1, 1), (BLOCK, BLOCK), (BLOCK + 1, 1), (1, 3 * BLOCK), (5, 50)]
)
def test_any_two_sizes(counts):
    label, other, _ = both(names(*range(counts[0])), names(*range(counts[1])))
    assert list(label.ids) == list(other.ids) == sorted(names(*range(min(counts))))


def test_every_message_has_a_size_that_follows_from_the_numbers_of_ids():
    sizes = set()
    for shared in (1, 20):
        _, _, (here, _) = both(names(*range(20)), names(*range(20 - shared, 40 - shared)))
        traffic = here.traffic
        sizes.add((traffic.messages_sent, traffic.messages_received))
    assert len(sizes) == 1


def test_progress_ends_at_the_number_of_multiplications():
    seen = []
    both(names(*range(40)), names(*range(70)), on_progress=lambda *now: seen.append(now))
    assert {total for _, total in seen} == {110}
    assert max(done for done, _ in seen) == 110


def test_strangers_and_different_settings():
    label, other, _ = both(names(1, 2), names(3, 4, 5))
    for error in (label, other):
        assert isinstance(error, DataError | PeerEndedError)
    assert any("None of this party's" in str(error) for error in (label, other))
    label, other, _ = both(names(1), names(1), other_terms=replace(TERMS, seed=9))
    assert isinstance(label, TermsMismatchError)
    assert "seed is 0 here and 9 at the non-label party" in str(label)
    assert isinstance(other, TermsMismatchError | ConnectionLostError)


def test_too_many_ids_are_refused_at_either_side_before_anything_is_computed(monkeypatch):
    with pytest.raises(ConfigurationError, match="label party: its 3 ids are more than max_ids"):
        party(Role.LABEL, in_memory_pair()[0], names(1, 2, 3), max_ids=2)
    here, there = in_memory_pair()
    fields = {**TERMS.as_fields(), "role": "non-label party", "block_ids": BLOCK, "cutlayer": "1"}
    monkeypatch.setattr(alignment_session, "_Exchange", None)  # would allocate
    peer = Session(Role.NON_LABEL, there, run="run", deadlines=QUICK)

    def announce():
        peer.receive_fields(Kind.HELLO)
        peer.send_fields(Kind.HELLO, {**fields, "records": 10**12})

    done = in_background(announce)
    with pytest.raises(ProtocolError, match=r"non-label party announces 1,000,000,000,000 ids"):
        party(Role.LABEL, here, names(1))
    done()


class Peer:
    """A non-label party that keeps to the protocol until a test makes it stray."""

    def __init__(self, transport, ids):
        self.session = Session(Role.NON_LABEL, transport, run="run", deadlines=QUICK)
        self.ids = ids
        self.matching = PrivateMatching(ids, "run")
        self.received, self.tags = [], []

    def hello(self, **changes):
        self.theirs = self.session.receive_fields(Kind.HELLO)
        own = {**TERMS.as_fields(), "role": "non-label party", "records": len(self.ids)}
        own |= {"block_ids": BLOCK, "cutlayer": "1"}
        self.session.send_fields(Kind.HELLO, {**own, **changes})

    def take_points(self, step=0):
        points = self.session.receive_tensor(Kind.POINTS, Shape(None, 32, torch.uint8), step=step)
        self.received.append(points.numpy())

    def give_points(self, points=None, step=0):
        if points is None:
            points = self.matching.points(step * BLOCK, min(len(self.ids), (step + 1) * BLOCK))
        self.session.send_tensor(Kind.POINTS, torch.from_numpy(points.copy()), step=step)

    def take_tags(self, step=0):
        tags = self.session.receive_tensor(Kind.TAGS, Shape(None, 16, torch.uint8), step=step)
        self.tags.append(tags.numpy())

    def give_tags(self, tags=None, step=0):
        if tags is None:
            tags = self.matching.tags(self.received[step])
        self.session.send_tensor(Kind.TAGS, torch.from_numpy(tags.copy()), step=step)

    def up_to_points(self):
        self.hello()
        self.take_points()

    def up_to_tags(self):
        self.up_to_points()
        self.give_points()
        self.take_tags()


def zeros(rows, width):
    return np.zeros((rows, width), dtype=np.uint8)


def changed(points, row, value):
    points = points.copy()
    points[row] = value
    return points


def replay(peer):
    peer.hello()
    peer.take_points()
    peer.give_points()
    peer.take_points(1)
    peer.session.send_tensor(Kind.POINTS, torch.from_numpy(peer.matching.points(0, BLOCK)), step=0)


def echo_everything(peer):
    peer.up_to_points()
    peer.give_points(peer.received[0])
    peer.take_tags()
    peer.give_tags(peer.tags[0])
    theirs = peer.session.receive_fields(Kind.ALIGNED)
    peer.session.send_fields(Kind.ALIGNED, {**theirs, "proof": theirs["element"]})


def showing(**fields):
    """A peer that keeps to the protocol until it shows what it found."""

    def deed(peer):
        peer.up_to_tags()
        peer.give_tags()
        peer.session.receive_fields(Kind.ALIGNED)
        peer.session.send_fields(Kind.ALIGNED, fields)

    return deed


ELEMENT = PrivateComparison(b"any text", "run").element.hex()


# What the peer does with five ids (where the label party has five too), and what it is told.
MISDEEDS = {
    "fewer points than announced": (
        lambda p: (p.up_to_points(), p.give_points(p.matching.points(0, 4))),
        r"POINTS of shape \(4, 32\) where \(5, 32\)",
    ),
    "more points than announced": (
        lambda p: (p.up_to_points(), p.give_points(zeros(6, 32))),
        r"POINTS of shape \(6, 32\) where \(5, 32\)",
    ),
    "points of another width": (
        lambda p: (p.up_to_points(), p.give_points(zeros(5, 33))),
        r"POINTS of shape \(5, 33\)",
    ),
    "no points at all": (
        lambda p: (p.up_to_points(), p.give_points(zeros(0, 32))),
        r"POINTS of shape \(0, 32\)",
    ),
    "another step": (
        lambda p: (
            p.up_to_points(),
            p.session.send_tensor(Kind.POINTS, torch.from_numpy(p.matching.points(0, 5)), step=1),
        ),
        "POINTS of step 1 where step 0",
    ),
    "bytes that are no point": (
        lambda p: (p.up_to_points(), p.give_points(changed(p.matching.points(0, 5), 3, 255))),
        "point 3, bytes that encode no point",
    ),
    "the neutral element": (
        lambda p: (p.up_to_points(), p.give_points(changed(p.matching.points(0, 5), 2, 0))),
        "point 2, bytes that encode no point of the group, or its neutral element",
    ),
    "a point twice": (
        lambda p: (
            p.up_to_points(),
            p.give_points(p.matching.points(0, 5)[[0, 1, 2, 3, 3]]),
            p.take_tags(),
            p.give_tags(),
        ),
        "1 of the points that the peer sent repeat",
    ),
    "fewer tags than points": (
        lambda p: (p.up_to_tags(), p.give_tags(zeros(4, 16))),
        r"TAGS of shape \(4, 16\) where \(5, 16\)",
    ),
    "the same tag for all": (
        lambda p: (p.up_to_tags(), p.give_tags(zeros(5, 16))),
        "4 of the tags that the peer sent repeat",
    ),
    "another list in the end": (
        showing(element=ELEMENT, proof="0" * 64),
        "found other shared ids than this party, or cannot name them",
    ),
    "an echo of all that it gets": (echo_everything, "found other shared ids"),
    "a neutral element in the end": (
        showing(element="0" * 64, proof="0" * 64),
        "ALIGNED .* is malformed",
    ),
    "no element in the end": (showing(proof="0" * 64), "ALIGNED .* is malformed"),
    "no proof in the end": (showing(element=ELEMENT), "ALIGNED .* is malformed"),
    "half an element in the end": (
        showing(element=ELEMENT[:32], proof="0" * 64),
        "ALIGNED .* is malformed",
    ),
    "a number for a proof": (showing(element=ELEMENT, proof=1), "ALIGNED .* is malformed"),
    "a field more in the end": (
        showing(element=ELEMENT, proof="0" * 64, shared=5),
        "ALIGNED .* is malformed",
    ),
    "a HELLO without a count": (lambda p: p.hello(records=None), "HELLO .* is malformed"),
    "a HELLO with a fraction of a record": (
        lambda p: p.hello(records=1.5),
        "HELLO .* is malformed",
    ),
    "a HELLO without records": (lambda p: p.hello(records=0), "HELLO .* is malformed"),
    "a HELLO of one's own role": (lambda p: p.hello(role="label party"), "HELLO .* is malformed"),
    "a HELLO with other blocks": (lambda p: p.hello(block_ids=8), "HELLO .* is malformed"),
    "a HELLO with a field more": (lambda p: p.hello(batch=1), "HELLO .* is malformed"),
    "a training": (
        lambda p: (
            p.hello(),
            p.session.receive_tensor(Kind.POINTS, Shape(None, 32, torch.uint8)),
            p.session._transport.send(*ids_message(), deadline=1),
        ),
        "IDS where POINTS",
    ),
}


def ids_message():
    from cutlayer.protocol.codec import encode
    from cutlayer.protocol.messages import Message

    return encode(Message(Kind.IDS, 0, torch.zeros(5, 16, dtype=torch.uint8)), "run")


@pytest.mark.parametrize("name", MISDEEDS)
def test_a_misbehaving_peer_is_named_and_told_nothing_but_a_word(name):
    deed, rule = MISDEEDS[name]
    here, there = in_memory_pair()
    peer = Peer(there, names(*range(3, 8)))
    done = in_background(lambda: deed(peer))
    with pytest.raises(ProtocolError, match=rule) as caught:
        party(Role.LABEL, here, names(*range(5)))
    assert str(caught.value).startswith("label party: ")
    done()
    assert last_word(there) == b"protocol".ljust(16)


def last_word(transport):
    """The payload of the ERROR that ends what has come in."""
    header, payload = None, b""
    with suppress(ConnectionLostError):
        while True:
            header, payload = transport.receive(lambda header: None, deadline=5)
    assert header.kind is Kind.ERROR
    return bytes(payload)


def test_a_block_that_is_sent_twice_is_refused():
    here, there = in_memory_pair()
    peer = Peer(there, names(*range(2 * BLOCK)))
    done = in_background(lambda: replay(peer))
    with pytest.raises(ProtocolError, match="POINTS of step 0 where step 1"):
        party(Role.LABEL, here, names(*range(2 * BLOCK)))
    done()


def test_a_peer_that_vanishes_and_a_new_session():
    here, there = in_memory_pair()
    peer = Peer(there, names(1, 2))

    def leave():
        peer.up_to_points()
        there.close()

    done = in_background(leave)
    with pytest.raises(ConnectionLostError):
        party(Role.LABEL, here, names(1, 2))
    done()
    label, other, _ = both(names(1, 2), names(2, 3))
    assert list(label.ids) == list(other.ids) == ["u2"]


def test_what_crosses_contains_no_id_and_differs_in_every_session():
    crossed = []
    for _ in range(2):
        here, there = in_memory_pair()
        sent = []
        send = here.send

        def recorded(header, payload, *, deadline, send=send, sent=sent):
            sent.append(bytes(payload))
            send(header, payload, deadline=deadline)

        here.send = recorded
        ids = [f"canary-{i:04d}" for i in range(40)]
        other = in_background(lambda there=there, ids=ids: party(Role.NON_LABEL, there, ids[20:]))
        party(Role.LABEL, here, ids)
        other()
        crossed.append(sent)
        assert not any(b"canary" in payload for payload in sent)
    pieces = [
        {payload[at : at + 16] for payload in sent[1:-2] for at in range(0, len(payload), 16)}
        for sent in crossed
    ]
    assert not pieces[0] & pieces[1]


@pytest.mark.parametrize("own_blocks", [40, 1])
def test_pieces_in_work_stay_few_however_long_the_lists_are(monkeypatch, own_blocks):
    """What bounds the memory: neither own points nor the peer's pile up, be they slow to take."""
    in_work, most, lock = 0, 0, threading.Lock()
    submit, tags = alignment_session.ThreadPoolExecutor.submit, PrivateMatching.tags

    def counted(pool, work, *arguments):
        nonlocal in_work, most
        with lock:
            in_work += 1
            most = max(most, in_work)

        def finished(_):
            nonlocal in_work
            with lock:
                in_work -= 1

        future = submit(pool, work, *arguments)
        future.add_done_callback(finished)
        return future

    def slow(matching, points):
        time.sleep(0.005)
        return tags(matching, points)

    monkeypatch.setattr(alignment_session.ThreadPoolExecutor, "submit", counted)
    monkeypatch.setattr(PrivateMatching, "tags", slow)
    monkeypatch.setattr(alignment_session, "_PIECE_IDS", 4)
    label, other, _ = both(names(*range(own_blocks * BLOCK)), names(*range(40 * BLOCK)))
    assert list(label.ids) == list(other.ids) == sorted(names(*range(own_blocks * BLOCK)))
    # Two parties, two lists each, two blocks of four pieces ahead and one block that came in.
    assert most <= 2 * 2 * (2 * 4 + 4)


# Parties that make their peer take an id as shared which they do not know, and then look for it.


def distinct_tags(rows):
    return np.frombuffer(os.urandom(16 * rows), dtype=np.uint8).reshape(rows, 16)


def mirror(peer, row):
    """Announce one id; return one of the label party's own points, and the tag that it gets."""
    peer.up_to_points()
    peer.give_points(multiplied(random_scalar(), peer.received[0][[row]]))
    peer.take_tags()
    peer.give_tags(changed(distinct_tags(len(peer.received[0])), row, peer.tags[0][0]))


def misplace(peer, row):
    """Bring one id that both hold, and return its tag for a record of another id."""
    peer.up_to_tags()
    tags = peer.matching.tags(peer.received[0])
    (there,) = np.flatnonzero((tags == peer.tags[0][0]).all(axis=1))
    peer.give_tags(changed(changed(tags, there, tags[row]), row, tags[there]))


FORGERIES = {"mirrored tag": mirror, "misplaced tag": misplace}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_non_label_party_that_forges_a_match_learns_no_id_by_it(forgery):
    held = names(*range(BLOCK))
    here, there = in_memory_pair()
    peer = Peer(there, names(3))
    shown, kept = [], []

    def attack():
        FORGERIES[forgery](peer, 5)
        shown.append(peer.session.receive_fields(Kind.ALIGNED))
        peer.session.send_fields(Kind.ALIGNED, {"element": ELEMENT, "proof": "0" * 64})

    done = in_background(attack)
    with pytest.raises(ProtocolError, match="cannot name them"):
        party(Role.LABEL, here, held, keep=kept.append)
    done()
    assert not kept
    assert last_word(there) == b"protocol".ljust(16)
    # All that it was shown is a random element: it fits every id of the dictionary alike.
    (fields,) = shown
    assert set(fields) == {"element"}
    for name in held:
        mark = alignment_hash([name])
        guesses = [mark, *(f"{role.value} aligned {mark}" for role in Role)]
        guesses += [hashlib.sha256(guess.encode()).hexdigest() for guess in guesses]
        assert fields["element"] not in guesses
        assert fields["element"] != PrivateComparison(mark.encode(), "run").element.hex()


def test_a_label_party_that_misplaces_a_tag_learns_no_id_by_it():
    """It knows the tag of the id that both hold, and returns it for a record of another id."""
    held = names(*range(BLOCK))
    here, there = in_memory_pair()
    kept, found = [], []
    other = in_background(lambda: party(Role.NON_LABEL, there, held, keep=kept.append))
    session = Session(Role.LABEL, here, run="run", deadlines=QUICK)
    own = {**TERMS.as_fields(), "role": "label party", "records": 1}
    session.send_fields(Kind.HELLO, {**own, "block_ids": BLOCK, "cutlayer": "1"})
    session.receive_fields(Kind.HELLO)
    matching = PrivateMatching(names(3), "run")
    session.send_tensor(Kind.POINTS, torch.from_numpy(matching.points(0, 1).copy()))
    points = session.receive_tensor(Kind.POINTS, Shape(BLOCK, 32, torch.uint8)).numpy()
    tags = matching.tags(points)[np.roll(np.arange(BLOCK), 1)]
    session.send_tensor(Kind.TAGS, torch.from_numpy(tags.copy()))
    session.receive_tensor(Kind.TAGS, Shape(1, 16, torch.uint8))
    guessed = PrivateComparison(alignment_hash(names(3)).encode(), "run")
    session.send_fields(Kind.ALIGNED, {"element": guessed.element.hex()})
    theirs = session.receive_fields(Kind.ALIGNED)
    assert set(theirs) == {"element", "proof"}
    for name in held:
        mark = alignment_hash([name])
        guesses = [mark, *(f"{role.value} aligned {mark}" for role in Role)]
        found += [hashlib.sha256(guess.encode()).hexdigest() for guess in guesses]
        for comparison in (guessed, PrivateComparison(mark.encode(), "run")):
            proof = comparison.proof("non-label party", bytes.fromhex(theirs["element"]))
            found.append(proof.hex())
    assert not {theirs["element"], theirs["proof"]} & set(found)
    session.send_fields(Kind.ALIGNED, {"proof": theirs["proof"]})
    error = other()
    assert isinstance(error, ProtocolError)
    assert "label party found other shared ids than this party, or cannot name" in str(error)
    assert not kept
