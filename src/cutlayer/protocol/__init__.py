"""The two-party protocol: messages, wire format, session machine, transports."""

from cutlayer.protocol.in_memory import InMemoryTransport, in_memory_pair
from cutlayer.protocol.messages import ErrorCode, Kind, Message, Role
from cutlayer.protocol.session import Session, Shape, State
from cutlayer.protocol.tcp import TcpListener, TcpTransport, connect
from cutlayer.protocol.transport import Deadlines, Traffic, Transport

__all__ = [
    "Deadlines",
    "ErrorCode",
    "InMemoryTransport",
    "Kind",
    "Message",
    "Role",
    "Session",
    "Shape",
    "State",
    "TcpListener",
    "TcpTransport",
    "Traffic",
    "Transport",
    "connect",
    "in_memory_pair",
]
