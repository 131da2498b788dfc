"""The connection slot of a listener: one place for the one peer, taken by whoever came last."""

import threading
from typing import Generic, TypeVar

from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.network_transport import NetworkTransport

Visitor = TypeVar("Visitor", bound=NetworkTransport)


class ConnectionSlot(Generic[Visitor]):
    """Hands the newest authenticated connection to whoever waits for the peer.

    A peer whose machine lost power cannot say that its connection is over. When it comes again,
    the new connection takes the place of the old one at once.
    """

    def __init__(self, unseen: str = "") -> None:
        """Wait for visitors.

        Args:
            unseen: what to tell an operator whose peer never comes, where whoever was turned away
                is not told of.
        """
        self._unseen = unseen
        self._changed = threading.Condition()
        self._current: Visitor | None = None
        self._is_new = False
        self._is_closed = False
        self._refused = 0
        self._last_refusal = ""

    def arrive(self, visitor: Visitor) -> None:
        """An authenticated connection of the peer is there; after :meth:`close` it has to leave."""
        with self._changed:
            is_closed, old, was_new = self._is_closed, self._current, self._is_new
            if not is_closed:
                self._current, self._is_new = visitor, True
                self._changed.notify_all()
        if is_closed:
            visitor.discard()
        elif old is not None and was_new:
            old.discard()
        elif old is not None:
            old.break_off("The peer has connected anew, which ends this connection.")

    def refuse(self, why: str) -> None:
        """Someone came who is not the peer; told to the operator if the peer never comes.

        Args:
            why: sentences: the reason, and what to do if it was the peer all the same.
        """
        with self._changed:
            self._refused += 1
            self._last_refusal = why

    def meet(self, clock: Clock) -> Visitor:
        """Wait for a connection that nobody has been given yet.

        Raises:
            DeadlineError: none came in time.
        """
        with self._changed:
            while not self._is_new or self._current is None:
                if not self._changed.wait(clock.remaining()):
                    break
            if self._current is not None and self._is_new:
                self._is_new = False
                return self._current
        raise clock.error(self.refusals())

    def refusals(self) -> str:
        """Who was turned away so far, as a sentence; empty if nobody was."""
        with self._changed:
            if not self._refused:
                return self._unseen
            count = f"{self._refused} connections were"
            return (
                f"{'A connection was' if self._refused == 1 else count} refused, the last one "
                f"because: {self._last_refusal}"
            )

    def close(self) -> None:
        """Send the current visitor away, and everybody who comes later."""
        with self._changed:
            self._is_closed = True
            current, self._current, self._is_new = self._current, None, False
        if current is not None:
            current.discard()
