"""The log of a run: one JSON object a line, of fields that are listed here and no others.

Nothing of it is a secret, a label, an id, a feature, an activation, or a path: a log goes to
collectors and tickets. So it takes no free text; an error is named by its kind.
"""

import json
import logging
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from typing_extensions import override

from cutlayer.durable import OWNER_ALONE, storage
from cutlayer.parties.events import EventKind

FIELDS = frozenset(
    {
        "time",
        "level",
        "party",
        "run",
        "event",
        "step",
        "steps",
        "epoch",
        "rows",
        "seconds",
        "bytes_sent",
        "bytes_received",
        "released",
        "reconnects",
        "channel",
        "error",
        "version",
    }
)
"""Every field that a line may have."""

_LEVELS = {
    EventKind.CONNECTION_LOST: logging.WARNING,
    EventKind.STEP_DEADLINE: logging.WARNING,
    EventKind.STOP: logging.WARNING,
    EventKind.ERROR: logging.ERROR,
}
STEP = "step"
"""The event of each step, at level debug."""
_FILE_BYTES, _OLD_FILES = 10 << 20, 4


class RunLog:
    """Writes to a file that starts anew at 10 MiB; four older ones stay, ``FILE.1`` to ``FILE.4``.

    A log that cannot be written any more does not end the run.

    Args:
        path: the file; made readable by its owner alone.
        party: whose run.
        run: its name.
        level: ``debug``, ``info`` or ``warning``.
        file_bytes: when to start anew.

    Raises:
        StorageError: the file cannot be opened.
    """

    def __init__(
        self, path: Path, *, party: str, run: str, level: str, file_bytes: int = _FILE_BYTES
    ) -> None:
        self._common = {"party": party, "run": run}
        # Not in the tree of loggers: no setting of another library changes or copies it.
        self._logger = logging.Logger("cutlayer.run", level.upper())
        with storage(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handler = _PrivateFile(path, maxBytes=file_bytes, backupCount=_OLD_FILES)
        self._handler.setFormatter(_JsonLine())
        self._logger.addHandler(self._handler)

    def write(self, event: str, **fields: str | int | float | None) -> None:
        """Write one line; fields that are ``None`` are left out.

        Args:
            event: its name: of an :class:`EventKind`, or :data:`STEP`.
            fields: of :data:`FIELDS`.

        Raises:
            ValueError: a field is not listed.
        """
        unknown = set(fields) - FIELDS
        if unknown:
            raise ValueError(f"fields of a log line must be of FIELDS, got {sorted(unknown)}.")
        level = logging.DEBUG if event == STEP else _LEVELS.get(EventKind(event), logging.INFO)
        given = {name: value for name, value in fields.items() if value is not None}
        self._logger.log(level, "", extra={"fields": {**self._common, "event": event, **given}})

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):  # a full disk: what could not be written is lost
            self._handler.close()


class _JsonLine(logging.Formatter):
    """A record as JSON."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = {"time": at.isoformat(timespec="milliseconds"), "level": record.levelname.lower()}
        return json.dumps({**line, **record.__dict__["fields"]})


class _PrivateFile(RotatingFileHandler):
    """A rotating file for its owner alone."""

    @override
    def _open(self) -> TextIOWrapper:
        number = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ALONE)
        if stat.S_ISREG(os.fstat(number).st_mode):  # a terminal or pipe is not ours to close
            with suppress(PermissionError):  # nor is another user's file, if this one may write
                os.fchmod(number, OWNER_ALONE)
        return os.fdopen(number, "a", encoding="utf-8")

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk is no reason to end a run that has room for its state."""
