"""Interruption: a signal ends a run between two messages, so that the peer can be told why.

After half a message nothing else can be said: the peer would take it for the other half.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Hold:
    """What the main thread is doing when a signal comes."""

    depth = 0
    pending = False


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a ``KeyboardInterrupt``, after the message that is on its way.

    A second signal does not wait. Only for the main thread, which alone is interrupted.
    """
    before = {
        number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _Hold.pending = False


@contextmanager
def whole() -> Iterator[None]:
    """While a message goes out: a signal waits for its end.

    Raises:
        KeyboardInterrupt: one came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Hold.depth += 1
    try:
        yield
    finally:
        _Hold.depth -= 1
        if _Hold.pending and not _Hold.depth:
            _Hold.pending = False
            raise KeyboardInterrupt


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """The handler of both signals."""
    if _Hold.depth and not _Hold.pending:
        _Hold.pending = True
        return
    _Hold.pending = False
    raise KeyboardInterrupt
