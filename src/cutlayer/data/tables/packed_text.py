"""The bytes of a text file, plain or gzip, and where in them a record ends."""

import gzip
import io
import zlib
from typing import IO, Final, cast

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.errors import DataError

GZIP_ERRORS: Final = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading raises where a gzip file is cut off or damaged. The last is an ``OSError`` too."""

_GZIP_MAGIC: Final = b"\x1f\x8b"


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """An open file as plain bytes; gzip is known by its first two bytes, not by a name."""
    magic = file.read(len(_GZIP_MAGIC))
    file.seek(0)
    if magic != _GZIP_MAGIC:
        return file
    return cast(IO[bytes], io.BufferedReader(gzip.GzipFile(fileobj=file)))


def broken_gzip(error: Exception, message: FileMessage, where: str = "") -> DataError:
    """The error for one of :data:`GZIP_ERRORS`.

    Args:
        error: what was raised.
        message: words it.
        where: how far the file could be read, to stand behind what is wrong.
    """
    what = "ends too early" if isinstance(error, EOFError) else f"is damaged ({error})"
    return message.error(
        f"the gzip file must be complete, but it {what}{where}. Copy it again; `gzip -t` tells "
        "whether a copy is good."
    )


def end_of_records(data: bytes, mark: bytes) -> int:
    r"""Behind the last line end that stands outside quotes; 0 where there is none.

    Args:
        data: text that begins with a record.
        mark: the quote; empty where a quote is a sign like any other.

    >>> end_of_records(b'1,"a\nb"\n2,"c\n', b'"')  # the second record is not whole
    8
    """
    end = data.rfind(b"\n") + 1
    if not mark:
        return end
    quotes = data.count(mark, 0, end)
    while end and quotes % 2:
        previous = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(mark, previous, end)
        end = previous
    return end
