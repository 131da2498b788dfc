"""Text blocks: a text file from any record on, in pieces of bounded size that end with a record.

Other than :mod:`cutlayer.data.tables.record_blocks` they carry their byte offset, so that a run can
resume where it was killed, and leave bytes that are no text to the caller, who rejects single rows.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.file_signatures import HEAD_BYTES, require_text
from cutlayer.data.tables.packed_text import GZIP_ERRORS, broken_gzip, end_of_records, unpacked

_MAX_RECORD_BLOCKS: Final = 8


@dataclass(frozen=True)
class Position:
    """A place between two records."""

    offset: int = 0
    """Bytes of text before it (unpacked where the file is gzip); rows where it is Parquet."""
    line: int = 1
    """Line on which the next record begins, from 1."""
    row: int = 0
    """Records before it, rejected ones too."""


@dataclass(frozen=True)
class TextBlock:
    """Whole records as they stand in the file."""

    data: bytes
    end: int
    """Offset behind the block."""
    read: int
    """Bytes of the file that were read up to here, packed where it is gzip."""


def text_blocks(
    path: Path, message: FileMessage, *, offset: int, quote: str, block_bytes: int
) -> Iterator[TextBlock]:
    """Read a text file, plain or gzip, from an offset between two records; no block is empty.

    Args:
        path: the file. gzip is known by its first two bytes.
        message: words the errors.
        offset: where to begin, in bytes of unpacked text. A gzip file is unpacked up to there
            without being kept.
        quote: within which a line end ends no record; ``""`` where there is none.
        block_bytes: how much to read at a time.

    Raises:
        DataError: the file cannot be opened, is of another kind, is a damaged or cut-off gzip, or
            a record is longer than eight blocks.
    """
    mark, rest, end = quote.encode(), b"", offset
    try:
        with path.open("rb") as file:
            stream = unpacked(file)
            stream.seek(offset)
            while True:
                # A block reaches as far from its own begin wherever the reading began.
                wanted = block_bytes - len(rest) % block_bytes
                raw = stream.read(wanted)
                data = rest + raw
                if end == 0:
                    require_text(data[:HEAD_BYTES], message)
                    data, end = _without_mark(data)
                last = len(raw) < wanted
                cut = len(data) if last else end_of_records(data, mark)
                if cut:
                    end += cut
                    yield TextBlock(data[:cut], end, file.tell())
                rest = data[cut:]
                if last:
                    return
                if len(rest) > _MAX_RECORD_BLOCKS * block_bytes:
                    lost = "a quote that is not closed" if quote else "lost line ends"
                    raise message.error(
                        f"a record must end, but the one at byte {end:,} reaches over "
                        f"{len(rest):,} bytes. Look there for {lost}."
                    )
    except GZIP_ERRORS as error:
        raise broken_gzip(error, message) from error
    except OSError as error:
        raise message.unreadable(error) from error


def _without_mark(data: bytes) -> tuple[bytes, int]:
    """The beginning of the file behind a byte order mark, and how long that was."""
    kept = data.removeprefix(codecs.BOM_UTF8)
    return kept, len(data) - len(kept)
