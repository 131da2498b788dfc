"""Reconnecting: attempts to connect again and again, ever more rarely, until the peer is met."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerRefusedError, ProtocolError
from cutlayer.protocol.transport import Clock
from cutlayer.protocol.transports.backoff import backoff

HANDSHAKE_SECONDS = 5.0
"""Until a connection must have authenticated itself, at both sides."""
_REFUSALS = 5
"""One refusal may be an attacker's doing; so many in a row are a mistake of an operator."""
_HANGING_UP_SECONDS = 15.0
"""A listener to which strangers connect by the hundred hangs up as well, for want of room."""
_TELLING_SECONDS = 1.0
"""An attempt that the deadline left less for says less than the one before it."""

Met = TypeVar("Met")


class HungUpError(PeerRefusedError):
    """The other side hung up without a reason: it may not trust this party, or have no room."""


class Attempts(Generic[Met]):
    """Connects as often as a run needs it, without wearing the peer out.

    A connection that ends sooner than the pause before it was long counts as one more failed
    attempt; one that holds longer begins the pauses anew.

    Args:
        attempt: connects within the seconds it is given.
    """

    def __init__(self, attempt: Callable[[float], Met]) -> None:
        self._attempt = attempt
        self._pauses = backoff()
        self._pause: float | None = None
        self._met_at = 0.0

    def until_met(self, clock: Clock) -> Met:
        """Attempt it until it succeeds.

        Args:
            clock: when to give up.

        Raises:
            DeadlineError: nobody was met in time; the message tells why the last attempt failed
                that had time to fail for a reason.
            PeerRefusedError: five attempts in a row ended with a refusal; where the other side
                only hung up, so did all others for 15 s.
            ProtocolError: five attempts in a row met someone who speaks something else.
        """
        if self._pause is not None:
            if time.monotonic() - self._met_at > self._pause:
                self._pauses = backoff()
            self._rest(clock, "")
        refusals, failure, first = 0, "", 0.0
        while True:
            seconds = min(HANDSHAKE_SECONDS, _remaining(clock, failure))
            try:
                met = self._attempt(seconds)
            except (PeerRefusedError, ProtocolError) as error:
                refusals, failure = refusals + 1, str(error)
                now = time.monotonic()
                first = first if refusals > 1 else now
                patience = _HANGING_UP_SECONDS if isinstance(error, HungUpError) else 0.0
                if refusals >= _REFUSALS and now - first >= patience:
                    raise
            except ConnectionLostError as error:
                refusals = 0
                if not failure or seconds >= _TELLING_SECONDS:
                    failure = str(error)
            else:
                self._met_at, self._pause = time.monotonic(), self._pause or 0.0
                return met
            self._rest(clock, failure)

    def _rest(self, clock: Clock, failure: str) -> None:
        """Pause before the next attempt."""
        self._pause = next(self._pauses)
        time.sleep(min(self._pause, _remaining(clock, failure)))


def _remaining(clock: Clock, failure: str) -> float:
    """Seconds that are left; if none are, the error tells how the last attempt ended."""
    try:
        return clock.remaining()
    except DeadlineError:
        raise clock.error(failure and f"The last attempt failed: {failure}") from None
