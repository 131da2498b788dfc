"""A network that goes away without a word: it is noticed, and the peer is met again."""

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch

from cutlayer.errors import ConnectionLostError, DeadlineError
from cutlayer.protocol import Address
from cutlayer.protocol.codec import decode, encode
from cutlayer.protocol.messages import Kind, Message
from tests.protocol.networks import meet
from tests.protocol.relay import Relay

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_INFO") or sys.platform != "linux", reason="filters are Linux's"
)
NOTICED_SECONDS = 25.0
"""The promise is 15 s; a machine under load may be late with what it has noticed in time."""


def send(transport, tensor, deadline):
    transport.send(*encode(Message(Kind.GRADIENT, 0, tensor), "run"), deadline=deadline)


def receive(transport, deadline):
    return decode(*transport.receive(lambda header: None, deadline=deadline)).tensor


def seconds_until_lost(call, results, name):
    """Run a call in a thread, and keep how long it took until the connection was given up."""

    def play():
        began = time.monotonic()
        try:
            call()
        except DeadlineError:
            results[name] = "only the deadline ended it"
        except ConnectionLostError:
            results[name] = time.monotonic() - began

    thread = threading.Thread(target=play)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_partition_is_noticed_idle_and_in_flight_and_healed(network):
    """Both parties notice, one with data in flight and one that only waits, and meet again."""
    with network.listener() as listener, Relay("127.0.0.1", listener.address.port) as relay:
        connector = network.connector(Address("127.0.0.1", relay.port))
        here, there = meet(listener, connector)
        send(here, torch.ones(2, 2), 5)
        receive(there, 5)
        relay.cut()
        results = {}
        big = torch.zeros(1, 64 << 20, dtype=torch.uint8)
        threads = [
            seconds_until_lost(lambda: send(there, big, 60), results, "in flight"),
            seconds_until_lost(lambda: receive(here, 60), results, "idle"),
        ]
        for thread in threads:
            thread.join()
        assert results["in flight"] < NOTICED_SECONDS
        assert results["idle"] < NOTICED_SECONDS
        here.close()
        there.close()
        relay.heal()
        began = time.monotonic()
        here, there = meet(listener, connector, deadline=30)
        assert time.monotonic() - began < NOTICED_SECONDS
        send(there, torch.ones(2, 2), 5)
        assert torch.equal(receive(here, 5), torch.ones(2, 2))
        listener.close()
        connector.close()


@pytest.mark.slow
def test_a_small_message_that_stays_unacknowledged_is_noticed_while_waiting_for_the_answer(network):
    """The kernel took the message, so only the wait for its answer can find out."""
    with network.listener() as listener, Relay("127.0.0.1", listener.address.port) as relay:
        connector = network.connector(Address("127.0.0.1", relay.port))
        here, there = meet(listener, connector)
        relay.cut()
        send(there, torch.ones(2, 2), 5)
        results = {}
        seconds_until_lost(lambda: receive(there, 60), results, "answer").join()
        print(results)
        assert results["answer"] < NOTICED_SECONDS
        here.close()
        there.close()
        listener.close()
        connector.close()


@pytest.mark.slow
def test_a_peer_that_is_busy_for_long_is_not_taken_for_a_dead_one(network):
    """A full window is answered by the peer's kernel: its user is at work, and not gone.

    TCP_USER_TIMEOUT would end this connection; see `deadline_socket`.
    """
    with network.listener() as listener, network.connector(listener.address) as connector:
        here, there = meet(listener, connector)
        big = torch.zeros(1, 32 << 20, dtype=torch.uint8)
        thread = threading.Thread(target=send, args=(there, big, 60))
        thread.start()
        time.sleep(18)
        assert torch.equal(receive(here, 60), big)
        thread.join()
        listener.close()


FROZEN_PARTY = """
import sys, time
from pathlib import Path
from cutlayer.protocol import Address, GrpcConnector, Role, load_identity
identity = load_identity(Path(sys.argv[2]), Role.NON_LABEL)
connector = GrpcConnector(Address("127.0.0.1", int(sys.argv[1])), identity)
connector.meet(deadline=60)
print("met", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_stopped_process_is_noticed_by_grpc_and_superseded(networks):
    """SIGSTOP: its kernel acknowledges everything, but nobody answers HTTP/2's pings."""
    network = networks["grpc"]
    folder = network.other.key_file.parent
    with network.listener() as listener:
        process = subprocess.Popen(
            [sys.executable, "-c", FROZEN_PARTY, str(listener.address.port), str(folder)],
            stdout=subprocess.PIPE,
        )
        try:
            here = listener.meet(deadline=60)
            assert process.stdout.readline() == b"met\n"
            process.send_signal(signal.SIGSTOP)
            results = {}
            seconds_until_lost(lambda: receive(here, 60), results, "stopped").join()
            print(results)
            assert results["stopped"] < NOTICED_SECONDS
            with network.connector(listener.address) as again:
                here, there = meet(listener, again)
                send(there, torch.ones(1, 1), 5)
                assert torch.equal(receive(here, 5), torch.ones(1, 1))
                listener.close()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
