"""Where the non-label party of a comparison runs: in a process of its own, or in a thread."""

import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from typing_extensions import override

from cutlayer.data import PartyTable
from cutlayer.errors import ConnectionLostError, DeadlineError
from cutlayer.experiments.plan import Plan, Training
from cutlayer.experiments.two_parties import NON_LABEL_FOLDER, build_non_label_party
from cutlayer.parties.checkpoint import save_half
from cutlayer.protocol import (
    Address,
    Deadlines,
    GrpcListener,
    Role,
    Transport,
    in_memory_pair,
)
from cutlayer.protocol.identity import create_identity, load_identity, pair, word_of

PEER_LOG = "non_label_party.log"
_LOOK_SECONDS = 0.5
_LAST_WORDS_SECONDS = 2.0
_LOG_LINES = 5


class Channel(ABC):
    """Brings a non-label party to the other end of a transport, once for each training."""

    @abstractmethod
    def open(self, training: Training, folder: Path) -> Transport:
        """The label party's end for one training.

        Raises:
            ConnectionLostError: the non-label party is gone.
        """

    @abstractmethod
    def failure(self, *, lost: bool) -> BaseException | None:
        """What the non-label party died of; ``None`` if it did not, or if nobody knows.

        Args:
            lost: the connection broke, so it may be about to end.
        """

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class PeerProcess(Channel):
    """The non-label party as an operating-system process, over gRPC as two organisations use it.

    Each process has an identity whose certificate the other pins. They are made for this command
    and deleted when it ends.
    """

    def __init__(self, run_folder: Path, deadlines: Deadlines | None = None) -> None:
        self._run_folder = run_folder
        self._deadlines = deadlines or Deadlines()
        self._identities = TemporaryDirectory(prefix="cutlayer-")
        here, there = (Path(self._identities.name) / word_of(role) for role in Role)
        _introduce(here, there)
        self._peer_identity = there
        self.listener = GrpcListener(Address("127.0.0.1", 0), load_identity(here, Role.LABEL))
        """Where the other process connects."""
        self._process: subprocess.Popen[bytes] | None = None

    @override
    def __enter__(self) -> Self:
        command = [
            sys.executable,
            "-m",
            "cutlayer.experiments.peer",
            str(self._run_folder),
            str(self.listener.address.port),
            str(self._peer_identity),
        ]
        # A session of its own: Ctrl-C reaches the label party, which ends the run in order.
        with (self._run_folder / PEER_LOG).open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self

    @override
    def open(self, training: Training, folder: Path) -> Transport:
        waited = 0.0
        while True:
            try:
                return self.listener.meet(deadline=_LOOK_SECONDS)
            except DeadlineError:
                waited += _LOOK_SECONDS
                if waited >= self._deadlines.connect:
                    raise
                if self._process is None or self._process.poll() is not None:
                    raise ConnectionLostError(
                        f"label party: the non-label party's process has ended. {self._log_tail()}"
                    ) from None

    @override
    def failure(self, *, lost: bool) -> BaseException | None:
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_LAST_WORDS_SECONDS if lost else 0)
        if self._process.returncode in (None, 0):
            return None
        return ConnectionLostError(
            f"label party: the non-label party's process has failed. {self._log_tail()}"
        )

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.listener.close()
        try:
            self._end_process()
        finally:
            self._identities.cleanup()
        if kind is None and (failure := self.failure(lost=False)) is not None:
            raise failure

    def _end_process(self) -> None:
        """Wait for the process, then make it end."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_LAST_WORDS_SECONDS)
            if self._process.returncode is None:
                self._process.kill()  # a stopped process does not hear SIGTERM
                self._process.wait()

    def _log_tail(self) -> str:
        """The last words of the process."""
        path = self._run_folder / PEER_LOG
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        return "Its log is empty." if not lines else "Its last words: " + " | ".join(lines)


def _introduce(here: Path, there: Path) -> None:
    """Make an identity for each party, and let each pin the other's certificate."""
    for folder, role in ((here, Role.LABEL), (there, Role.NON_LABEL)):
        create_identity(folder, role)
    pair(here, there / f"{word_of(Role.NON_LABEL)}.crt")
    pair(there, here / f"{word_of(Role.LABEL)}.crt")


class PeerThread(Channel):
    """The non-label party as a thread of this process, joined by memory: for simulations."""

    def __init__(self, plan: Plan, table: PartyTable) -> None:
        self._plan, self._table = plan, table
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @override
    def __enter__(self) -> Self:
        return self

    @override
    def open(self, training: Training, folder: Path) -> Transport:
        self._join()
        here, there = in_memory_pair()

        def play() -> None:
            try:
                party = build_non_label_party(self._plan, training, self._table, folder)
                half = party.run(there)
                save_half(folder / NON_LABEL_FOLDER, {"bottom": half.bottom}, half.inputs.encoder)
            except BaseException as error:  # noqa: BLE001  (handed to the other thread)
                self._failure = error
            finally:
                there.close()

        self._thread = threading.Thread(target=play, name="non-label party", daemon=True)
        self._thread.start()
        return here

    @override
    def failure(self, *, lost: bool) -> BaseException | None:
        self._join()
        failure, self._failure = self._failure, None
        # A lost connection is the echo of our own failure, and no cause.
        return None if isinstance(failure, ConnectionLostError) else failure

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._join()

    def _join(self) -> None:
        """Wait until the last training's thread has ended."""
        if self._thread is not None:
            self._thread.join()
