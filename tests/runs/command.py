"""A cutlayer command in an operating-system process of its own that starts within milliseconds.

The process is forked from a server that has imported cutlayer, so that a test does not pay for
the import of torch again and again. What it runs is the installed entry point.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.fork_server import CONTEXT


class Command:
    """Looks like a ``subprocess.Popen`` with text pipes."""

    def __init__(
        self, arguments: list[str], folder: Path, limits: Mapping[int, int] | None = None
    ) -> None:
        """Start it; ``limits`` are of the system's resources, by their numbers."""
        number = len(list(folder.glob(".said-*")))
        self._out, self._err = (folder / f".{kind}-{number}" for kind in ("said", "complained"))
        self._out.touch()
        self._process = CONTEXT.Process(
            target=_play, args=(arguments, str(folder), str(self._out), str(self._err), limits)
        )
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def interrupt(self) -> None:
        os.kill(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        os.kill(self._process.pid, signal.SIGTERM)

    def wait_until_said(self, words: str, seconds: float = 120) -> None:
        """Wait for words in what it prints."""
        deadline = time.monotonic() + seconds
        while words not in self._out.read_text():
            assert self._process.is_alive(), self._err.read_text()
            assert time.monotonic() < deadline, f"{words!r} was not said within {seconds} s"
            time.sleep(0.02)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self._process.join(timeout)
        assert self._process.exitcode is not None, "the command did not end in time"
        return self._out.read_text(), self._err.read_text()


def _play(
    arguments: list[str], folder: str, out: str, err: str, limits: Mapping[int, int] | None
) -> None:
    """Become the command."""
    from cutlayer.cli import main

    for resource_number, most in (limits or {}).items():
        resource.setrlimit(resource_number, (most, most))

    signal.signal(signal.SIGINT, signal.default_int_handler)  # the fork server ignores it
    os.chdir(folder)
    sys.path.insert(0, folder)  # as `python -m` does
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv = ["cutlayer", *arguments]
    main()
