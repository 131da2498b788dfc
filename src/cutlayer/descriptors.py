"""Descriptors: how many files and connections this process may have open, and who gets them.

Whoever reaches the port of a party can open connections until the system gives the process no
further descriptor, and then neither a checkpoint nor the journal could be opened. So strangers get
at most half of them, and a few are kept in reserve for what must be written.
"""

import errno
import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LEAST: Final = 64
"""A party needs about 30 for itself; with fewer than this its libraries crash or hang."""
WANTED: Final = 65_536
"""As many as are asked for where the system allows them."""
_OWN: Final = 48
_FEWEST_STRANGERS, _MOST_STRANGERS = 8, 4_096
_SPARE: Final = 8
_AT_ONCE: Final = 4
"""That one file takes while it is written: itself, its folder, and what a library opens."""
_WAIT_SECONDS, _PAUSE_SECONDS = 30.0, 0.1


def limit() -> int:
    """How many this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Ask the system for as many as it allows, up to :data:`WANTED`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def room_for_strangers() -> int:
    """How many connections may be open whose other end has not authenticated itself."""
    return max(_FEWEST_STRANGERS, min((limit() - _OWN) // 2, _MOST_STRANGERS))


class _Reserve:
    """Descriptors that are open for nothing, so that they are there when they are needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[int] = []
        self._wanted = 0
        self._borrowers = 0

    def set_aside(self) -> None:
        """Begin to hold some."""
        with self._lock:
            self._wanted = _SPARE
            self._fill()

    def borrow(self) -> None:
        """Let go of them."""
        with self._lock:
            self._borrowers += 1
            while self._held:
                os.close(self._held.pop())

    def give_back(self) -> None:
        """Hold them again once nobody needs them."""
        with self._lock:
            self._borrowers -= 1
            if not self._borrowers:
                self._fill()

    def _fill(self) -> None:
        """Open as many as there are, up to the number that is wanted."""
        while len(self._held) < self._wanted:
            number = _opened()
            if number is None:
                return
            self._held.append(number)


class _Nesting(threading.local):
    """How many files a thread is writing, one inside another."""

    depth = 0


_RESERVE, _NESTING = _Reserve(), _Nesting()


def set_aside() -> None:
    """Keep a few descriptors for what must be written, from now on."""
    _RESERVE.set_aside()


@contextmanager
def descriptors_for_a_file() -> Iterator[None]:
    """While a file is opened and written: those in reserve may be used.

    If there are still too few, connections that say nothing end within seconds, so this waits for
    up to half a minute; inside another such block it does not wait again. What then cannot be
    opened fails as it would anyhow.
    """
    _RESERVE.borrow()
    _NESTING.depth += 1
    try:
        if _NESTING.depth == 1:
            _wait()
        yield
    finally:
        _NESTING.depth -= 1
        _RESERVE.give_back()


def _wait() -> None:
    """Wait until there are enough for one file, or for too long."""
    give_up = time.monotonic() + _WAIT_SECONDS
    while not _are_free(_AT_ONCE) and time.monotonic() < give_up:
        time.sleep(_PAUSE_SECONDS)


def _are_free(count: int) -> bool:
    """Whether so many could be opened now."""
    numbers: list[int] = []
    try:
        while len(numbers) < count:
            number = _opened()
            if number is None:
                return False
            numbers.append(number)
    finally:
        for number in numbers:
            os.close(number)
    return True


def _opened() -> int | None:
    """A descriptor for nothing; ``None`` where the process or the system has no further one."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return None
        raise
