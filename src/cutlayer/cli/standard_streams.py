"""Standard output and error that never end a command, whatever terminal, pipe or file they are.

A terminal may know no ``●``, a reader such as ``head`` may leave early, a stream may be closed from
the start or lie on a full disk. None of that is a reason to lose a training.
"""

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from cutlayer.escaping import escape

_PLAIN = {
    "–": "-",
    "—": "-",
    "−": "-",
    "●": "*",
    "·": "'",
    "↑": "^",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "±": "+-",
    "×": "x",
    "…": "...",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "\N{NO-BREAK SPACE}": " ",
    "\N{REPLACEMENT CHARACTER}": "?",
}
"""What stands for a sign that the encoding of a stream lacks."""
_PLAIN_SIGNS = "cutlayer.plain_signs"
"""Name of the way to encode that writes plain signs, and an escape for any other character."""


@contextmanager
def lenient_streams() -> Iterator[None]:
    """Write to standard output and error, while the block runs, as far as they take it."""
    _open_closed_descriptors()
    streams = sys.stdout, sys.stderr
    # A stream that was closed before the start is None.
    errors = _LenientStream(streams[1] or _nowhere())
    output = _LenientStream(streams[0] or _nowhere(), errors)
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, errors)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = streams


class _LenientStream:
    """A text stream that writes what its encoding has, and goes silent when it is gone.

    Args:
        stream: where to write.
        errors: where to say that nothing more is shown; a reader who left knows it.
    """

    def __init__(self, stream: TextIO, errors: "_LenientStream | None" = None) -> None:
        self._stream, self._errors = stream, errors

    def write(self, text: str) -> int:
        """Write as much as the stream takes."""
        encoding = self._stream.encoding or "utf-8"
        shown = text.encode(encoding, _PLAIN_SIGNS).decode(encoding)
        with self._going_silent():
            self._stream.write(shown)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write one after the other."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Pass on what has gathered."""
        with self._going_silent():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _going_silent(self) -> Iterator[None]:
        """Write nowhere from the first refusal of the system on."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):  # what has gathered must not fail again when Python ends
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            self._stream = _nowhere()
            if self._errors is not None and not isinstance(error, BrokenPipeError):
                self._errors.write(
                    f"Standard output cannot be written ({error.strerror or error}), so nothing "
                    "more is shown. The command goes on.\n"
                )


def _nowhere() -> TextIO:
    """A stream whose text is read by nobody."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _open_closed_descriptors() -> None:
    """Fill the places of standard streams that were closed, or the next file gets their number.

    A warning of a library would then be written into it, a journal say.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _plain_signs(error: UnicodeError) -> tuple[str, int]:
    """Plain signs for what an encoding lacks, and escapes for all other characters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign) or escape(sign) for sign in lacking), error.end


codecs.register_error(_PLAIN_SIGNS, _plain_signs)
