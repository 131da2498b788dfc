"""Attempts to connect: again and again, ever more rarely, until the peer is met."""

import time
from collections.abc import Callable
from typing import TypeVar

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerRefusedError, ProtocolError
from cutlayer.protocol.backoff import backoff
from cutlayer.protocol.transport import Clock

HANDSHAKE_SECONDS = 5.0
"""Until a connection must have authenticated itself, at both sides."""
_REFUSALS = 5
"""One refusal may be an attacker's doing; so many in a row are a mistake of an operator."""

Met = TypeVar("Met")


def keep_trying(attempt: Callable[[float], Met], clock: Clock) -> Met:
    """Call ``attempt`` until it succeeds.

    Args:
        attempt: connects within the seconds it is given.
        clock: when to give up.

    Raises:
        DeadlineError: nobody was met in time; the message tells why the last attempt failed.
        PeerRefusedError: five attempts in a row ended with a refusal.
        ProtocolError: five attempts in a row met someone who speaks something else.
    """
    refusals, failure = 0, ""
    for pause in backoff():
        try:
            return attempt(min(HANDSHAKE_SECONDS, _remaining(clock, failure)))
        except (PeerRefusedError, ProtocolError) as error:
            refusals, failure = refusals + 1, str(error)
            if refusals == _REFUSALS:
                raise
        except ConnectionLostError as error:
            refusals, failure = 0, str(error)
        time.sleep(min(pause, _remaining(clock, failure)))
    raise AssertionError("unreachable: the backoff never ends")


def _remaining(clock: Clock, failure: str) -> float:
    """Seconds that are left; if none are, the error tells how the last attempt ended."""
    try:
        return clock.remaining()
    except DeadlineError:
        raise clock.error(failure and f"The last attempt failed: {failure}") from None
