"""Both parties of a plan as threads of one process, and every reply that crosses between them."""

import threading
from dataclasses import dataclass, field
from hashlib import sha256

from cutlayer.errors import CutlayerError
from cutlayer.protocol import Transport
from cutlayer.protocol.codec import decode_header
from cutlayer.protocol.messages import Kind
from cutlayer.protocol.transports.in_memory import InMemoryTransport, in_memory_pair
from tests.faults.parties import PARTIES, Plan, digest_of, label_party, non_label_party


@dataclass
class Ended:
    """How a start of both parties ended."""

    weights: dict[str, dict[str, str]] = field(default_factory=dict)
    """SHA-256 of what each party trained; only of those that came to the end."""
    errors: dict[str, CutlayerError] = field(default_factory=dict)
    replies: dict[int, str] = field(default_factory=dict)
    """SHA-256 of each gradient that left the label party, by step."""


class _Recording(InMemoryTransport):
    """Keeps the hashes of gradients on their way out."""

    replies: dict[int, str]

    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        read = decode_header(header)
        if read.kind is Kind.GRADIENT:
            assert read.step not in self.replies, f"step {read.step} was answered twice"
            self.replies[read.step] = sha256(payload).hexdigest()
        super().send(header, payload, deadline=deadline)


def play(plan: Plan) -> Ended:
    """Start both parties once, and wait until both have ended."""
    ended = Ended()
    here, there = in_memory_pair()
    recording = _Recording(here._outgoing, here._incoming)
    recording.replies = ended.replies
    transports: dict[str, Transport] = dict(zip(PARTIES, (recording, there), strict=True))

    def run(party: str) -> None:
        try:
            ended.weights[party] = (_label if party == "label" else _other)(plan, transports[party])
        except CutlayerError as error:
            ended.errors[party] = error
        finally:
            transports[party].close()

    threads = [threading.Thread(target=run, args=(party,)) for party in PARTIES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return ended


def _label(plan: Plan, transport: Transport) -> dict[str, str]:
    party, journal = label_party(plan, lambda _: None)
    try:
        half = party.run(transport)
    finally:
        journal.close()
    return {name: digest_of(module) for name, module in half.halves.items()}


def _other(plan: Plan, transport: Transport) -> dict[str, str]:
    half = non_label_party(plan, lambda _: None).run(transport)
    return {"bottom": digest_of(half.bottom)}
