"""The release journal: what has been answered, on disk before the answer leaves.

::

    header   one line of JSON: what the releases of this run are bound to
    entries  80 bytes each, one for each step from 0 on:
             step, uint64 | SHA-256 of the request | SHA-256 of the reply | check, 8 bytes

The check of an entry is the beginning of a SHA-256 over the check before it and the entry, so that
an entry cannot change, move or vanish from the middle unseen.
"""

import fcntl
import json
import os
import re
import struct
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

from cutlayer.descriptors import descriptors_for_a_file
from cutlayer.durable import storage, sync
from cutlayer.errors import ConfigurationError, DataError, ProtocolError

_FORMAT = "cutlayer.journal/1"
_ENTRY = struct.Struct("<Q32s32s8s")
ENTRY_BYTES = _ENTRY.size
"""How much a journal grows with each step."""
LABELLING = "labelling"
"""Name of the binding that holds keyed hashes of the labels that the noise of visits hides: of all
that the label party had, and of those of the training records."""
SETTING = "setting "
"""Begins the name of a binding that holds one of the terms, so that an error can name it."""
_CHECKED_BYTES = _ENTRY.size - 8
_MOST_HEADER_BYTES = 1 << 16


class ReleaseJournal:
    """Holds a run to one reply for each step, over all starts.

    The same request may be answered again, with the same bytes; any other request for a step that
    was answered is refused. One process at a time may hold a journal.

    Args:
        path: the file; made when the first reply is about to leave.
        protection: exact settings of the protection that the run is about to use, as text. A bound
            computed from one protection would not cover what has left under another. ``None`` for
            whoever only wants to know how much was sent.
        look_only: whether the file is to be checked and not to be touched: what a crash left of its
            last entry stays, and nothing can be put on record.

    Raises:
        DataError: the file is damaged, so nobody knows what was sent.
        ConfigurationError: another process holds it, or its replies left under another protection.
        StorageError: it cannot be read.
    """

    def __init__(self, path: Path, protection: str | None, *, look_only: bool = False) -> None:
        self._path, self._protection = path, protection
        self._look_only = look_only
        self._file: BinaryIO | None = None
        self._bound: dict[str, str] | None = None
        self._start = 0
        self._check = b""
        self.released = 0
        """Steps that were answered, over all starts."""
        if path.exists():
            try:
                self._open()
            except BaseException:
                self.close()
                raise

    @property
    def releases_per_record(self) -> int:
        """How often a record was sent at most, over all starts."""
        steps = self.steps_per_epoch
        return 0 if steps is None else -(-self.released // steps)

    @property
    def steps_per_epoch(self) -> int | None:
        """In how many steps each record is sent once; ``None`` where nothing is bound yet."""
        return None if self._bound is None else int(self._bound["steps_per_epoch"])

    def bind(self, binding: Mapping[str, str]) -> None:
        """State what the steps of this run mean; must be the same at every start.

        Args:
            binding: terms, records and their order as texts, and ``steps_per_epoch``.

        Raises:
            ConfigurationError: earlier replies of this run were bound to something else.
        """
        wanted = {**binding, "protection": str(self._protection)}
        if self._bound is None:
            self._bound = wanted
            return
        for name, value in wanted.items():
            if self._bound.get(name) != value:
                if name not in self._bound and name.startswith(SETTING):
                    continue  # an earlier version began the run; the other names hold it
                raise ConfigurationError(
                    f"label party: this run has sent {self.released} messages with "
                    f"{name.removeprefix(SETTING)} = {self._bound.get(name)}, and was now started "
                    f"with {value}. Go on with the first, or begin a run of another name."
                )

    def first_bound(self, name: str, value: str) -> str:
        """What the first start bound this name to; ``value`` where nothing is bound yet."""
        return (self._bound or {}).get(name, value)

    def require_known_request(self, step: int, request: bytes) -> None:
        """See that a step that was answered before is asked for with the same message again.

        Args:
            step: of the request.
            request: its SHA-256.

        Raises:
            ProtocolError: it was another message; nothing may be sent.
        """
        if step < self.released and self._entry(step)[0] != request:
            raise ProtocolError(
                f"label party: step {step} was answered before, and the non-label party now sends "
                "another activation for it. Two answers to one step would tell more of the labels "
                "than one, so nothing was sent. The non-label party must go on from the state that "
                "it had, with the same threads, device and versions; or begin a run of another "
                "name."
            )

    def settle(self, step: int, request: bytes, reply: bytes) -> bool:
        """Put a reply on record, durably, before it is sent.

        Args:
            step: the next step, or an earlier one that is answered again.
            request: SHA-256 of the activation.
            reply: SHA-256 of the perturbed gradient.

        Returns:
            Whether this is the first time.

        Raises:
            ConfigurationError: the step was answered before with other bytes; nothing may be sent.
            ProtocolError: it was answered before, to another request.
            DataError: a step was skipped.
            StorageError: the entry cannot be written; nothing may be sent.
        """
        if step < self.released:
            self.require_known_request(step, request)
            if self._entry(step)[1] != reply:
                raise ConfigurationError(
                    f"label party: step {step} was answered before, and computing it again gives "
                    "another answer, so nothing was sent. Go on with the threads, device and "
                    "versions that the run had, or begin a run of another name."
                )
            return False
        if step > self.released:
            raise DataError(
                f"label party: {self._path} ends at step {self.released}, before step {step}: "
                "entries are missing. Put the run's journal back, or begin a run of another name."
            )
        if self._look_only:
            raise ConfigurationError(f"label party: {self._path} may only be looked at.")
        with storage(self._path):
            self._append(step, request, reply)
        return True

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, step: int, request: bytes, reply: bytes) -> None:
        """Write one entry and wait until it is on the disk."""
        if self._file is None:
            with descriptors_for_a_file():
                self._file = self._create()
        file = self._file
        entry = _ENTRY.pack(step, request, reply, bytes(8))[:_CHECKED_BYTES]
        check = _next_check(self._check, entry)
        end = self._start + self.released * _ENTRY.size
        try:
            _write(file, entry + check, end)
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), end)  # half an entry must not look like a torn one later
            raise
        self._check = check
        self.released += 1

    def _create(self) -> BinaryIO:
        """Write the header."""
        if self._bound is None:
            raise ValueError("bind() must come before the first reply.")
        header = json.dumps({"format": _FORMAT, **self._bound}, sort_keys=True).encode() + b"\n"
        if len(header) > _MOST_HEADER_BYTES:
            longest, _ = max(self._bound.items(), key=lambda item: len(item[1]))
            raise ConfigurationError(
                f"label party: the settings of this run take {len(header):,} bytes in "
                f"{self._path}, which has room for {_MOST_HEADER_BYTES:,}. Shorten the longest, "
                f"{longest.removeprefix(SETTING)}."
            )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Not "w+b": that would empty a journal which another process has begun meanwhile.
        number = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        file = self._locked(cast(BinaryIO, os.fdopen(number, "r+b", buffering=0)))
        if os.fstat(number).st_size:
            file.close()
            raise self._in_use()
        try:
            _write(file, header, 0)
            os.fsync(number)
            sync(self._path.parent)
        except OSError:
            os.ftruncate(number, 0)
            file.close()
            raise
        self._start, self._check = len(header), _first_check(header)
        self._file = file
        return file

    def _open(self) -> None:
        """Read and check what is there."""
        with storage(self._path, "read"):
            mode = "rb" if self._look_only else "r+b"
            file = cast(BinaryIO, self._path.open(mode, buffering=0))
        # Who looks only may do so while a run goes on: entries are added, never changed.
        self._file = file if self._look_only else self._locked(file)
        header = file.read(_MOST_HEADER_BYTES).partition(b"\n")
        if not header[1]:
            if not _is_torn_header(header[0]):
                raise self._damaged("its first line is broken")
            if not self._look_only:  # a crash before the first entry: nothing had left
                os.ftruncate(file.fileno(), 0)  # a file without a name could not be locked
            self.close()
            return
        try:
            bound = json.loads(header[0])
            if bound.pop("format") != _FORMAT or int(bound["steps_per_epoch"]) < 1:
                raise self._damaged("its format is unknown")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged("its first line is broken") from error
        self._bound = bound
        self._start = len(header[0]) + 1
        self._check = _first_check(header[0] + b"\n")
        self._read_entries(file)
        if self._protection is None:
            return
        if self.released and bound.get("protection") != self._protection:
            raise ConfigurationError(
                f"label party: this run has sent {self.released} messages under "
                f"{bound.get('protection')}, and was now started with {self._protection}. One "
                "bound cannot cover both: go on with the first, or begin a run of another name. "
                "(A goal for the whole training is planned for `epochs`; to keep room for more, "
                "state `releases`, as in residual:max_leak_auc=0.7,releases=30.)"
            )

    def _read_entries(self, file: BinaryIO) -> None:
        """Follow the chain of checks; cut off what a crash left of the last entry."""
        file.seek(self._start)
        data = file.read()
        whole = len(data) // _ENTRY.size
        for index in range(whole):
            raw = data[index * _ENTRY.size : (index + 1) * _ENTRY.size]
            if index == whole - 1 and not any(raw):
                break  # the file had grown, the entry was not written yet: nothing had left
            check = _next_check(self._check, raw[:_CHECKED_BYTES])
            if raw[_CHECKED_BYTES:] != check or _ENTRY.unpack(raw)[0] != index:
                raise self._damaged(f"entry {index} of {whole} does not fit the one before it")
            self._check = check
            self.released += 1
        end = self._start + self.released * _ENTRY.size
        if end < self._start + len(data) and not self._look_only:
            with storage(self._path):
                os.ftruncate(file.fileno(), end)
                os.fsync(file.fileno())

    def _entry(self, step: int) -> tuple[bytes, bytes]:
        """Request and reply of an answered step."""
        if self._file is None:
            raise self._damaged("it was closed")
        raw = os.pread(self._file.fileno(), _ENTRY.size, self._start + step * _ENTRY.size)
        if len(raw) != _ENTRY.size:
            raise self._damaged(f"entry {step} is gone")
        _, request, reply, _ = _ENTRY.unpack(raw)
        return request, reply

    def _locked(self, file: BinaryIO) -> BinaryIO:
        """Keep other processes out."""
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise self._in_use() from error
        return file

    def _in_use(self) -> ConfigurationError:
        """The error where the run is not this process's alone."""
        return ConfigurationError(
            f"label party: another process is using {self._path.parent}. Wait for it to end, or "
            "stop it."
        )

    def _damaged(self, what: str) -> DataError:
        """The error for a file that cannot be trusted."""
        return DataError(
            f"label party: {self._path} is damaged ({what}), so nobody can say what was sent. "
            "Put a sound copy back, or begin a run of another name and count what this one has "
            "sent."
        )


def _write(file: BinaryIO, data: bytes, at: int) -> None:
    """Write all of it: on a disk that is nearly full the system takes a part without complaint."""
    while data:
        written = os.pwrite(file.fileno(), data, at)
        data, at = data[written:], at + written


def _is_torn_header(start: bytes) -> bool:
    """Whether a crash can have left this of a header: a part of a line of JSON, then zeros at most.

    Anything behind that can be an entry, which must not be dropped.
    """
    torn = re.fullmatch(rb'(\{("[ -~]*)?\0*)?', start) is not None
    return torn and len(start) < _MOST_HEADER_BYTES


def _first_check(header: bytes) -> bytes:
    """Where the chain begins."""
    return sha256(header).digest()[:8]


def _next_check(before: bytes, entry: bytes) -> bytes:
    """One link of the chain."""
    return sha256(before + entry).digest()[:8]
