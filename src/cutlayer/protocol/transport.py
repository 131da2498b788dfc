"""The seam between session and network: what every transport offers.

The in-memory twin, gRPC, TLS and plain TCP on loopback pass one contract suite.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cutlayer import check
from cutlayer.errors import ConnectionLostError, DeadlineError
from cutlayer.protocol.codec import Header


@dataclass(frozen=True)
class Deadlines:
    """How long a party waits for its peer, in seconds. Nothing waits for ever."""

    connect: float = 60.0
    """Until the peer is reachable; either party may start first."""
    handshake: float = 120.0
    """For each message before the first training step; tables of millions of ids take a while."""
    step: float = 120.0
    """For each message of the training."""

    def __post_init__(self) -> None:
        for name in ("connect", "handshake", "step"):
            check.positive(name, getattr(self, name))


@dataclass
class Traffic:
    """What went over a transport so far."""

    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


class Transport(ABC):
    """An ordered, reliable channel to one peer for whole messages.

    One thread may send while another receives; neither waits for the other, also where both
    parties send large messages at once. A direction in which an error was raised stays broken;
    the other one can still be used, to say why. After a break the endpoint gives a new transport.
    """

    def __init__(self) -> None:
        self.traffic = Traffic()

    @abstractmethod
    def send(self, header: bytes, payload: memoryview, *, deadline: float) -> None:
        """Hand over one message.

        Args:
            header: 48 bytes of :mod:`cutlayer.protocol.codec`.
            payload: as many bytes as the header announces.
            deadline: seconds until the peer must have taken it.

        Raises:
            ConnectionLostError: the peer is gone.
            DeadlineError: it did not take the message in time.
        """

    @abstractmethod
    def receive(
        self, accept: Callable[[Header], None], *, deadline: float
    ) -> tuple[Header, bytearray]:
        """Wait for one message.

        Args:
            accept: called with the header before memory for the payload is allocated; raises
                to refuse the message.
            deadline: seconds until the whole message must have arrived.

        Raises:
            ProtocolError: the header breaks the format, or ``accept`` refused it.
            ConnectionLostError: the peer is gone.
            DeadlineError: the message did not arrive in time.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the channel; what was sent before still arrives. Safe to call again."""

    def describe(self) -> str:
        """How the channel is secured and who is at its other end, for messages and logs."""
        return "memory of one process"


class Direction:
    """One direction of a transport: usable until an error, which may leave half a message."""

    def __init__(self) -> None:
        self._broken = False

    @contextmanager
    def use(self) -> Iterator[None]:
        """Move one message.

        Raises:
            ConnectionLostError: an earlier one was not moved as a whole.
        """
        if self._broken:
            raise ConnectionLostError("This direction of the connection ended with an error.")
        self._broken = True
        yield
        self._broken = False


class Clock:
    """Counts a deadline down on the monotonic clock, which no clock change disturbs."""

    def __init__(self, seconds: float, waiting_for: str) -> None:
        self._seconds = seconds
        self._ends = time.monotonic() + seconds
        self._waiting_for = waiting_for

    def remaining(self) -> float:
        """Seconds that are left.

        Raises:
            DeadlineError: none are.
        """
        left = self._ends - time.monotonic()
        if left <= 0:
            raise self.error()
        return left

    def error(self, observed: str = "") -> DeadlineError:
        """The error for a deadline that has passed.

        Args:
            observed: what was noticed meanwhile, as a sentence.
        """
        noticed = f" {observed}" if observed else ""
        return DeadlineError(
            f"Waited {self._seconds:g} s for {self._waiting_for}, in vain.{noticed} Look whether "
            "the peer is running and reachable, or wait longer."
        )
