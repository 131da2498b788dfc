"""Reconnecting: a run outlives its connections, since both parties go on from what they kept."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from cutlayer.errors import ConnectionLostError, DeadlineError, PeerEndedError
from cutlayer.protocol import Endpoint, Transport

Result = TypeVar("Result")


def until_done(
    attempt: Callable[[Transport], Result],
    endpoint: Endpoint,
    *,
    made: Callable[[], int],
    wait: float,
    tell: Callable[[str], None],
    meeting: Callable[[], AbstractContextManager[None]] = nullcontext,
    met: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Result:
    """Attempt a session again with a new connection whenever one is lost.

    A peer that says why it leaves ends the run; one that vanishes is waited for. How soon the next
    connection follows is the endpoint's affair: a listener waits, a connector paces itself.

    Args:
        attempt: the session; goes on from what was kept.
        endpoint: where the peer is met.
        made: how many steps are done so far.
        wait: seconds without a new step after which the run is given up, however often the peer
            came back meanwhile.
        tell: takes notices for the operator.
        meeting: around each wait for the peer; sees what ends it.
        met: around each attempt.

    Raises:
        CutlayerError: what ended the run.
    """
    give_up, before = time.monotonic() + wait, made()
    while True:
        with meeting():
            transport = endpoint.meet(deadline=wait)
        tell(f"Connected by {transport.describe()}.")
        try:
            with met():
                return attempt(transport)
        except PeerEndedError:
            raise
        except ConnectionLostError as error:
            now = time.monotonic()
            if made() > before:
                give_up, before = now + wait, made()
            if now > give_up:
                raise
            kind = "was silent for too long" if isinstance(error, DeadlineError) else "was lost"
            tell(f"The connection {kind} ({error}) Nothing else was lost; waiting for the peer.")
