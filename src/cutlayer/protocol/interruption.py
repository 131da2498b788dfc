"""Interruption: a signal ends a run between two messages, and the peer is told why.

After half a message nothing else can be said: the peer would take it for the other half.

Python acts on a signal once the main thread is back from whatever it computes, which can take
minutes in one call of a library. A thread of its own therefore reads the numbers of signals as they
come. If the main thread does not take one up within seconds, that thread tells the peer and ends
the process. What a run keeps is whole at any moment, so this costs no more than a kill.
"""

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
TAKE_UP_SECONDS = 3.0
"""How long the main thread may take to notice a signal, and a message that is going out to end."""
END_SECONDS = 15.0
"""How long an end in order may take from then on."""
_HURRY_SECONDS = 0.5
_LOOK_SECONDS = 0.1

Farewell = Callable[[], object]
"""Tells the peer that this party's operator stopped it; called from another thread."""


class Interruption(KeyboardInterrupt):
    """A signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number
        """What the process ends with, as shells have it: 130, 143 or 129."""


class _Hold:
    """What the main thread is doing when a signal comes."""

    depth = 0
    pending: int | None = None
    taken_up = False


class _Farewells:
    """How the peer is told at the moment; the newest first."""

    lock = threading.Lock()
    known: list[Farewell] = []  # noqa: RUF012  (one process has one list)


@contextmanager
def interruptible(before_force: Callable[[], object] = bool) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into an :class:`Interruption`, after the current message.

    A second signal does not wait. SIGHUP stays ignored where it was, as ``nohup`` asks for. Only
    for the main thread, which alone is interrupted.

    Args:
        before_force: called from another thread before the process is ended in a computation that
            does not let it act otherwise.

    Raises:
        Interruption: a signal came.
        OSError: no descriptor is left to notice signals with.
        RuntimeError: the system allows no further thread.
    """
    before = {
        number: signal.getsignal(number)
        for number in SIGNALS
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        for number in before:
            signal.signal(number, _interrupt)
        watch = _Watch(frozenset(before), before_force)
        try:
            yield
        finally:
            watch.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _Hold.pending, _Hold.taken_up = None, False


@contextmanager
def whole() -> Iterator[None]:
    """While a message goes out: a signal waits for its end.

    Raises:
        Interruption: one came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Hold.depth += 1
    try:
        yield
    finally:
        _Hold.depth -= 1
        if _Hold.pending is not None and not _Hold.depth:
            number = _Hold.pending
            _Hold.pending, _Hold.taken_up = None, True
            raise Interruption(number)


@contextmanager
def saying_farewell(farewell: Farewell) -> Iterator[None]:
    """While the block runs, this is how the peer is told of an end that the block cannot notice."""
    with _Farewells.lock:
        _Farewells.known.append(farewell)
    try:
        yield
    finally:
        with _Farewells.lock:
            _Farewells.known.remove(farewell)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """The handler of all signals."""
    if _Hold.depth and _Hold.pending is None:
        _Hold.pending = number
        return
    _Hold.pending, _Hold.taken_up = None, True
    raise Interruption(number)


class _Watch:
    """Sees signals at once, and ends the process if the main thread cannot."""

    def __init__(self, numbers: frozenset[int], before_force: Callable[[], object]) -> None:
        self._numbers, self._before_force = numbers, before_force
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cutlayer signals", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._here.close()
            self._there.close()
            raise
        self._earlier = signal.set_wakeup_fd(self._there.fileno(), warn_on_full_buffer=False)

    def close(self) -> None:
        """Watch no longer."""
        signal.set_wakeup_fd(self._earlier)
        self._over.set()
        with suppress(OSError):
            self._there.send(b"\0")
        self._thread.join()
        self._here.close()
        self._there.close()

    def _watch(self) -> None:
        """Wait for a signal, and then for the end that it should bring."""
        number = 0
        while not number and not self._over.is_set():
            number = self._came(None)
        began, take_up = time.monotonic(), TAKE_UP_SECONDS
        while not self._over.is_set():
            if self._came(_LOOK_SECONDS):
                began, take_up = time.monotonic(), _HURRY_SECONDS
            most = END_SECONDS if _Hold.taken_up or _Hold.depth else take_up
            if time.monotonic() - began > most and not self._over.is_set():
                self._force(number)

    def _came(self, seconds: float | None) -> int:
        """One of our signals, or 0 if none comes in time."""
        poll = select.poll()
        poll.register(self._here, select.POLLIN)
        ready = poll.poll(None if seconds is None else 1000 * seconds)
        numbers = self._here.recv(64) if ready else b""
        return next((number for number in numbers if number in self._numbers), 0)

    def _force(self, number: int) -> None:
        """Tell the peer, and end."""
        with _Farewells.lock:
            farewells = _Farewells.known[::-1]
        for farewell in farewells[:1]:
            with suppress(Exception):
                farewell()
        with suppress(Exception):
            self._before_force()
            sys.stderr.flush()
        os._exit(128 + number)
