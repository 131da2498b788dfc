"""The two-party protocol: messages, wire format, session machine, identities, transports."""

from typing import TYPE_CHECKING

from cutlayer.lazy import lazily

if TYPE_CHECKING:
    from cutlayer.protocol.address import Address
    from cutlayer.protocol.endpoint import Endpoint
    from cutlayer.protocol.identity import Identity, create_identity, load_identity, pair
    from cutlayer.protocol.messages import ErrorCode, Kind, Message, Role
    from cutlayer.protocol.session import Session, Shape, State
    from cutlayer.protocol.transport import Deadlines, Traffic, Transport
    from cutlayer.protocol.transports.event_loop import EventLoop
    from cutlayer.protocol.transports.grpc_endpoints import GrpcConnector, GrpcListener
    from cutlayer.protocol.transports.in_memory import InMemoryTransport, in_memory_pair
    from cutlayer.protocol.transports.outbox import OutboxTransport
    from cutlayer.protocol.transports.stream_endpoints import StreamConnector, StreamListener

__all__ = [
    "Address",
    "Deadlines",
    "Endpoint",
    "ErrorCode",
    "EventLoop",
    "GrpcConnector",
    "GrpcListener",
    "Identity",
    "InMemoryTransport",
    "Kind",
    "Message",
    "OutboxTransport",
    "Role",
    "Session",
    "Shape",
    "State",
    "StreamConnector",
    "StreamListener",
    "Traffic",
    "Transport",
    "create_identity",
    "in_memory_pair",
    "load_identity",
    "pair",
]

__getattr__ = lazily(
    __name__,
    {
        "address": ("Address",),
        "endpoint": ("Endpoint",),
        "identity": (
            "Identity",
            "create_identity",
            "load_identity",
            "pair",
        ),
        "messages": (
            "ErrorCode",
            "Kind",
            "Message",
            "Role",
        ),
        "session": (
            "Session",
            "Shape",
            "State",
        ),
        "transport": (
            "Deadlines",
            "Traffic",
            "Transport",
        ),
        "transports.event_loop": ("EventLoop",),
        "transports.grpc_endpoints": (
            "GrpcConnector",
            "GrpcListener",
        ),
        "transports.in_memory": (
            "InMemoryTransport",
            "in_memory_pair",
        ),
        "transports.outbox": ("OutboxTransport",),
        "transports.stream_endpoints": (
            "StreamConnector",
            "StreamListener",
        ),
    },
)
