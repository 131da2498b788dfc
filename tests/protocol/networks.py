"""Identities of two parties, and every network between them."""

import threading
from dataclasses import dataclass

from cutlayer.protocol import (
    Address,
    GrpcConnector,
    GrpcListener,
    Identity,
    Role,
    StreamConnector,
    StreamListener,
    create_identity,
    load_identity,
    pair,
)
from cutlayer.protocol.identity import word_of

ANY_PORT = Address("127.0.0.1", 0)


def make_identities(folder):
    """Identities of both parties that trust each other, by role."""
    for role in Role:
        create_identity(folder / word_of(role), role)
    for role in Role:
        pair(folder / word_of(role), folder / word_of(role.peer) / f"{word_of(role.peer)}.crt")
    return {role: load_identity(folder / word_of(role), role) for role in Role}


@dataclass
class Network:
    """One way for the two parties to meet."""

    name: str
    label: Identity | None
    other: Identity | None

    def listener(self, address=ANY_PORT, identity=None):
        if self.name == "grpc":
            return GrpcListener(address, identity or self.label)
        return StreamListener(address, identity or self.label)

    def connector(self, address, identity=None):
        if self.name == "grpc":
            return GrpcConnector(address, identity or self.other)
        return StreamConnector(address, identity or self.other)


def meet(listener, connector, *, deadline=10.0):
    """Both ends of a new connection."""
    there = []
    thread = threading.Thread(target=lambda: there.append(connector.meet(deadline=deadline)))
    thread.start()
    here = listener.meet(deadline=deadline)
    thread.join()
    return here, there[0]
