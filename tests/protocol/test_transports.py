"""One contract for every transport."""

import struct
import threading
import time
import tracemalloc
import zlib

import pytest
import torch

from cutlayer.errors import ConnectionLostError, DeadlineError, ProtocolError
from cutlayer.protocol import in_memory_pair
from cutlayer.protocol.codec import decode, encode
from cutlayer.protocol.messages import Kind, Message
from tests.protocol.networks import meet

MIB = 1 << 20


@pytest.fixture(params=["in memory", "grpc", "tls", "plain"])
def pair(request):
    if request.param == "in memory":
        here, there = in_memory_pair()
        yield here, there
        here.close()
        there.close()
        return
    networks = request.getfixturevalue("networks")
    listener = networks[request.param].listener()
    connector = networks[request.param].connector(listener.address)
    yield meet(listener, connector)
    listener.close()
    connector.close()


def send(transport, tensor, deadline=5.0):
    transport.send(*encode(Message(Kind.GRADIENT, 0, tensor), "run"), deadline=deadline)


def receive(transport, deadline=5.0):
    return decode(*transport.receive(lambda header: None, deadline=deadline)).tensor


def noise(size):
    """Bytes that do not repeat, as one row."""
    return torch.randint(256, (1, size), dtype=torch.uint8, generator=torch.Generator())


def test_messages_arrive_whole_and_in_order(pair):
    here, there = pair
    for number in range(20):
        send(here, torch.full((number + 1, 3), float(number)))
    for number in range(20):
        assert torch.equal(receive(there), torch.full((number + 1, 3), float(number)))


@pytest.mark.parametrize(
    "size",
    # Around the length of a piece (with and without the header), and around gRPC's own limit.
    [0, 1, MIB - 49, MIB - 48, MIB - 47, MIB, 2 * MIB - 48, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1],
)
def test_every_size_arrives_whole(pair, size):
    here, there = pair
    sent = noise(size)
    sender = threading.Thread(target=send, args=(here, sent))
    sender.start()
    assert torch.equal(receive(there), sent)
    sender.join()
    send(there, torch.ones(1, 1))  # nothing is left over from before
    assert torch.equal(receive(here), torch.ones(1, 1))


def test_32_mib_answered_after_they_came(pair):
    here, there = pair
    big = noise(32 * MIB)
    got = []

    def answer():
        got.append(receive(there, deadline=60))
        send(there, big, deadline=60)

    thread = threading.Thread(target=answer)
    thread.start()
    send(here, big, deadline=60)
    back = receive(here, deadline=60)
    thread.join()
    assert torch.equal(got[0], big)
    assert torch.equal(back, big)


def test_32_mib_both_ways_at_once_do_not_block_each_other(pair):
    """Both send first and only then would read: a transport with one lane stops dead here."""
    big = [noise(32 * MIB), noise(32 * MIB)]
    got = [None, None]

    def receive_into(number):
        got[number] = receive(pair[number], deadline=60)

    threads = [threading.Thread(target=send, args=(pair[n], big[n], 60)) for n in range(2)]
    threads += [threading.Thread(target=receive_into, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(got[1], big[0])
    assert torch.equal(got[0], big[1])


def test_one_thread_sends_while_another_receives(pair):
    """Many messages in flight in both directions, with a thread for each direction at each end."""
    here, there = pair
    count = 100
    received = {here: [], there: []}

    def send_all(transport, factor):
        for number in range(count):
            send(transport, torch.full((64, 32), float(factor * number)), deadline=60)

    def receive_all(transport):
        for _ in range(count):
            received[transport].append(receive(transport, deadline=60)[0, 0].item())

    threads = [
        threading.Thread(target=send_all, args=(here, 1)),
        threading.Thread(target=send_all, args=(there, -1)),
        threading.Thread(target=receive_all, args=(here,)),
        threading.Thread(target=receive_all, args=(there,)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert received[there] == [float(number) for number in range(count)]
    assert received[here] == [-float(number) for number in range(count)]


def test_the_receiver_owns_what_it_received(pair):
    here, there = pair
    sent = torch.ones(2, 2)
    send(here, sent)
    receive(there).mul_(5)
    assert torch.equal(sent, torch.ones(2, 2))


def test_silence_ends_at_the_deadline_and_leaves_the_other_direction(pair):
    here, there = pair
    with pytest.raises(DeadlineError, match=r"0\.05 s"):
        receive(there, deadline=0.05)
    send(there, torch.ones(1, 1))
    assert torch.equal(receive(here), torch.ones(1, 1))


def test_what_was_sent_before_closing_arrives(pair):
    here, there = pair
    sent = noise(100_000)
    send(here, sent)
    closing = threading.Thread(target=here.close)
    closing.start()
    time.sleep(0.1)
    assert torch.equal(receive(there), sent)
    with pytest.raises(ConnectionLostError):
        receive(there)
    closing.join()


def test_what_was_sent_arrives_also_from_a_party_that_closes_while_it_waits(pair):
    """A thread may wait for a message when another one sends its last word and closes."""
    here, there = pair
    broken = []

    def wait():
        try:
            receive(there, deadline=30)
        except ConnectionLostError as error:
            broken.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    send(there, torch.ones(3, 3))
    closing = threading.Thread(target=there.close)
    closing.start()
    assert torch.equal(receive(here), torch.ones(3, 3))
    here.close()
    closing.join(30)
    waiting.join(30)
    assert not waiting.is_alive()
    assert len(broken) == 1


def test_a_peer_that_goes_away_is_noticed(pair):
    here, there = pair
    here.close()
    here.close()  # twice is harmless
    for _ in range(2):
        with pytest.raises(ConnectionLostError):
            receive(there)
    with pytest.raises(ConnectionLostError):
        send(here, torch.ones(1, 1))


def test_a_refused_header_raises_and_the_reason_can_still_be_sent(pair):
    here, there = pair
    send(here, torch.ones(4, 4))

    def refuse(header):
        send(there, torch.zeros(1, 1))  # as a session tells its peer why it ends
        raise ProtocolError(f"no {header.kind.name} now")

    with pytest.raises(ProtocolError, match="no GRADIENT now"):
        there.receive(refuse, deadline=5)
    assert torch.equal(receive(here), torch.zeros(1, 1))


def test_i1_a_refused_header_allocates_nothing(pair, request):
    """I1: a peer that announces 1 GiB gets no memory for it."""
    if request.node.callspec.params["pair"] == "in memory":
        pytest.skip("both ends share one memory; the payload is there before the header is read")
    here, there = pair
    header, _ = encode(Message(Kind.GRADIENT, 0, torch.ones(1, 1, dtype=torch.uint8)), "run")
    head = header[:28] + struct.pack("<IQI", 1 << 30, 1 << 30, 0)  # width, bytes, flags
    here.send(head + struct.pack("<I", zlib.crc32(head)), memoryview(b"x" * 1000), deadline=5)

    def refuse(header):
        assert header.payload_bytes == 1 << 30
        raise ProtocolError("too long")

    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="too long"):
            there.receive(refuse, deadline=5)
        assert tracemalloc.get_traced_memory()[1] < 1 << 18
    finally:
        tracemalloc.stop()


def test_traffic_is_counted_to_the_byte(pair):
    here, there = pair
    send(here, torch.ones(4, 8))
    receive(there)
    assert (here.traffic.messages_sent, here.traffic.bytes_sent) == (1, 48 + 4 * 8 * 4)
    assert (there.traffic.messages_received, there.traffic.bytes_received) == (1, 48 + 4 * 8 * 4)


def test_i6_a_sender_waits_for_a_receiver_that_does_not_read(pair, request):
    """I6: what a peer sends unasked stays in its own memory, but for the network's buffers."""
    if request.node.callspec.params["pair"] == "in memory":
        pytest.skip("a queue in one memory")
    here, _ = pair
    sent = []

    def send_much():
        try:
            while True:
                send(here, torch.zeros(1, MIB, dtype=torch.uint8), deadline=30)
                sent.append(1)
        except ConnectionLostError:
            return

    thread = threading.Thread(target=send_much)
    thread.start()
    time.sleep(1.5)
    before = len(sent)
    time.sleep(0.5)
    assert len(sent) == before
    assert before <= 16  # MiB in socket buffers and flow-control windows of both ends
    pair[1].close()
    here.close()
    thread.join(10)
    assert not thread.is_alive()


def test_i6_receiving_takes_no_more_than_two_messages(pair):
    """I6: sender and receiver together, in one process here, hold two messages and 64 KiB."""
    here, there = pair
    size = 16 * MIB
    header, payload = encode(Message(Kind.GRADIENT, 0, noise(size)), "run")
    tracemalloc.start()
    try:
        thread = threading.Thread(target=here.send, args=(header, payload), kwargs={"deadline": 60})
        thread.start()
        there.receive(lambda header: None, deadline=60)
        thread.join()
        assert tracemalloc.get_traced_memory()[1] < 2 * size + (64 << 10)
    finally:
        tracemalloc.stop()


def test_a_direction_in_which_half_a_message_moved_is_not_used_again(pair, request):
    if request.node.callspec.params["pair"] == "in memory":
        pytest.skip("messages move as a whole")
    here, there = pair
    with pytest.raises(DeadlineError):
        send(here, torch.zeros(1, 64 * MIB, dtype=torch.uint8), deadline=0.3)
    with pytest.raises(ConnectionLostError, match="ended with an error"):
        send(here, torch.ones(1, 1))
    with pytest.raises(DeadlineError):
        receive(here, deadline=0.05)
    with pytest.raises(ConnectionLostError, match="ended with an error"):
        receive(here)
    there.close()
