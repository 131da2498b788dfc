"""Record blocks: a text file in pieces of bounded size that end where a record ends."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.file_signatures import HEAD_BYTES, require_text
from cutlayer.data.tables.packed_text import GZIP_ERRORS, broken_gzip, end_of_records, unpacked
from cutlayer.errors import DataError

Encoding = Literal["utf-8", "latin-1", "windows-1252"]
ENCODINGS: Final[tuple[Encoding, ...]] = get_args(Encoding)

BLOCK_BYTES: Final = 1 << 24
"""How much is parsed at a time, before decoding."""

_MAX_RECORD_BLOCKS: Final = 4


@dataclass(frozen=True)
class RecordBlock:
    """Whole records as UTF-8, without a byte order mark."""

    data: bytes
    first_line: int
    """Line of the file, from 1, that the first byte stands on."""

    def line_at(self, offset: int) -> int:
        """Line of the file that this byte stands on."""
        return self.first_line + self.data.count(b"\n", 0, offset)


def record_blocks(
    path: Path,
    message: FileMessage,
    *,
    quote: str = '"',
    encoding: Encoding = "utf-8",
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[RecordBlock]:
    """Read a text file, plain or gzip, block by block; none is empty.

    Args:
        path: the file. gzip is known by its first two bytes, not by its name.
        message: words the errors.
        quote: the sign that texts stand between, within which a line end ends no record; ``""``
            where there is none.
        encoding: how the file writes letters.
        block_bytes: how much to read at a time.

    Raises:
        DataError: the file cannot be opened, is of another kind, is a damaged or cut-off gzip, is
            in another encoding, or has a record longer than four blocks.
    """
    mark = quote.encode()
    rest, line = b"", 1
    try:
        for raw in _blocks(path, message, block_bytes):
            data = rest + raw
            end = end_of_records(data, mark)
            if end == 0 and len(data) > _MAX_RECORD_BLOCKS * block_bytes:
                raise _endless(message, mark, line, f"more than {len(data) >> 20} MiB")
            if end:
                yield _decoded(data[:end], line, encoding, message)
            line += data.count(b"\n", 0, end)
            rest = data[end:]
    except GZIP_ERRORS as error:
        raise broken_gzip(error, message, f", some way after line {line}") from error
    except OSError as error:
        raise message.unreadable(error) from error
    if rest:
        if mark and rest.count(mark) % 2:
            raise _endless(message, mark, line, "the end of the file")
        yield _decoded(rest, line, encoding, message)


def _blocks(path: Path, message: FileMessage, block_bytes: int) -> Iterator[bytes]:
    """Blocks of a plain or gzip file; refuses what is no text by its first bytes."""
    with path.open("rb") as file:
        stream = unpacked(file)
        block = stream.read(block_bytes)
        require_text(block[:HEAD_BYTES], message)
        block = block.removeprefix(codecs.BOM_UTF8)
        while block:
            yield block
            block = stream.read(block_bytes)


def _decoded(data: bytes, line: int, encoding: Encoding, message: FileMessage) -> RecordBlock:
    """The block as UTF-8; refuses bytes that are no text of this encoding."""
    block = RecordBlock(data, line)
    zero = data.find(b"\0")
    if zero >= 0:
        raise message.error(
            f"must be text, but line {block.line_at(zero)} holds a zero byte. Give a delimited "
            "text file, or Parquet."
        )
    if data.isascii():
        return block
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise message.error(
            f"must be {encoding} text, but line {block.line_at(error.start)} holds the "
            f"byte 0x{data[error.start]:02X}, which {encoding} does not allow there. If the "
            f"file is in another encoding, set encoding ({', '.join(ENCODINGS)}), or convert it: "
            "iconv -f WINDOWS-1252 -t UTF-8."
        ) from error
    return block if encoding == "utf-8" else RecordBlock(text.encode(), line)


def _endless(message: FileMessage, mark: bytes, line: int, reach: str) -> DataError:
    """The error for a record that does not end."""
    return message.error(
        f"a record must end, but the one that begins on line {line} reaches over {reach}. Close "
        f"the quote {mark.decode()!r} that opens there, double it if it belongs to the text, or "
        "set quote='' if texts stand without quotes."
    )
