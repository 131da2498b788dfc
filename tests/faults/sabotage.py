"""What befalls a party's process in a test: it dies at a line, its disk fails, its clock jumps.

A sabotage is a text, ``NAME:ARGUMENT:...``, and several are joined by ``;``. All of it happens in
the test's own process; the product knows nothing of it.
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from cutlayer.parties import CheckpointStore, ReleaseJournal, handshake
from cutlayer.protocol import codec
from tests.faults.mutants import MUTANTS


@dataclass(frozen=True)
class Place:
    """Where a process may be made to die."""

    function: Callable[..., Any]
    lines: int
    """About how many lines of it a run executes, those of what it calls included."""
    parties: tuple[str, ...] = ("label", "other")


PLACES = {
    "handshake": Place(handshake.shake_hands, 3000),
    "checkpoint write": Place(CheckpointStore.save, 14000),
    "journal write": Place(ReleaseJournal.settle, 600, ("label",)),
}


def commit(sabotage: str) -> None:
    """Prepare what shall happen to this process."""
    for one in filter(None, sabotage.split(";")):
        name, *arguments = one.split(":")
        KINDS[name](*arguments)


def die_inside(place: str, line: str) -> None:
    """SIGKILL this process before so many lines of a place, and of all it calls, were executed."""
    target, left = PLACES[place].function.__code__, int(line)
    depth = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left, depth
        if event == "call":
            depth += frame.f_code is target
            return trace if depth and is_ours(frame.f_code) else None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        elif event == "return":
            depth -= frame.f_code is target
        return trace

    sys.settrace(trace)


def is_ours(code: CodeType) -> bool:
    """Whether a function is cutlayer's, or one of the file operations below it."""
    return any(part in code.co_filename for part in ("cutlayer", "pathlib", "shutil"))


def fail_disk(what: str, calls: str) -> None:
    """Let the disk fail for good after so many calls: ``full`` of writing, else of syncing."""
    left = int(calls)
    write, sync = os.pwrite, os.fsync

    def full(number: int, data: bytes, at: int) -> int:
        nonlocal left
        left -= 1
        if left < -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(number, data[: len(data) // 2] if left < 0 else data, at)

    def broken(number: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(number)

    if what == "full":
        os.pwrite = full
    else:
        os.fsync = broken


def dawdle(step: str, seconds: str) -> None:
    """As the label party: leave the peer waiting at one step, once, with nothing on its way."""
    settle, left = ReleaseJournal.settle, [int(step)]

    def slow(self: ReleaseJournal, now: int, request: bytes, reply: bytes) -> bool:
        if now in left:
            left.clear()
            time.sleep(float(seconds))
        return settle(self, now, request, reply)

    ReleaseJournal.settle = slow


def jump_clock(seconds: str) -> None:
    """Let the time of day jump to and fro between all readings; the monotonic clock goes on."""
    told, true = [0.0], time.time

    def jumping() -> float:
        told[0] = float(seconds) - told[0]
        return true() + told[0]

    time.time = jumping


def speak_version(number: str) -> None:
    """Speak another version of the protocol."""
    codec.PROTOCOL_VERSION = int(number)


def call_release(name: str) -> None:
    """Claim to be another release of cutlayer."""
    handshake.version = lambda _: name


def carry_bug(name: str) -> None:
    """Run with one of the deliberate bugs."""
    MUTANTS[name]()


KINDS: dict[str, Callable[..., None]] = {
    "die": die_inside,
    "disk": fail_disk,
    "dawdle": dawdle,
    "clock": jump_clock,
    "protocol": speak_version,
    "release": call_release,
    "bug": carry_bug,
}
