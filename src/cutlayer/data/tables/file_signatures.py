"""File signatures: what is given as a table and is none, known by its first bytes."""

import codecs
import re
from typing import Final

from cutlayer.data.tables.file_message import FileMessage

HEAD_BYTES: Final = 1 << 10
"""So many of a file's first bytes tell its kind."""

_ARCHIVE: Final = "unpack it and give the table in it"
_PACKED: Final = "unpack it, or pack it with gzip"
_SHEET: Final = "save the sheet as CSV"
_EXPORT: Final = "export the table as CSV or Parquet"
_BEGINNINGS: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _ARCHIVE),
    (b"Rar!\x1a\x07", "a RAR archive", _ARCHIVE),
    (b"!<arch>\n", "an ar archive", _ARCHIVE),
    (b"MSCF\0", "a cabinet archive", _ARCHIVE),
    (b"\x1f\x8b", "a gzip file within a gzip file", "unpack it once"),
    (b"(\xb5/\xfd", "compressed with zstd", _PACKED),
    (b"\xfd7zXZ\0", "compressed with xz", _PACKED),
    (b"]\0\0", "compressed with lzma", _PACKED),
    (b"LZIP\x01", "compressed with lzip", _PACKED),
    (b"\x04\x22\x4d\x18", "compressed with lz4", _PACKED),
    (b"\xff\x06\0\0sNaPpY", "compressed with snappy", _PACKED),
    (b"\x1f\x9d", "compressed with compress", _PACKED),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook or another Office file", _SHEET),
    (b"SQLite format 3\0", "an SQLite database", _EXPORT),
    (b"PAR1", "a Parquet file", "give it without gzip around it"),
    (b"ARROW1\0", "an Arrow file", "save it as Parquet"),
    (b"FEA1\0", "a Feather file", "save it as Parquet"),
    (b"\xff\xff\xff\xff", "an Arrow stream", "save it as Parquet"),
    (b"Obj\x01", "an Avro file", "save it as Parquet"),
    (b"\x89HDF\r\n", "an HDF5 file", _EXPORT),
    (b"\x93NUMPY", "a NumPy array", _EXPORT),
    (b"<stata_dta>", "a Stata file", _EXPORT),
    (b"$FL2", "an SPSS file", _EXPORT),
    (b"RDX2\nX\n", "an R data file", _EXPORT),
    (b"RDX3\nX\n", "an R data file", _EXPORT),
    (b"%PDF-", "a PDF document", _EXPORT),
    (b"{\\rtf", "an RTF document", _EXPORT),
    (b"\x89PNG", "a PNG image", "give the table"),
    (b"\xff\xd8\xff", "a JPEG image", "give the table"),
    (
        b"version https://git-lfs.",
        "a pointer of Git LFS in place of the file",
        "fetch the file itself: git lfs pull",
    ),
    (codecs.BOM_UTF32_LE, "text in UTF-32", "convert it with `iconv -f UTF-32 -t UTF-8`"),
    (codecs.BOM_UTF32_BE, "text in UTF-32", "convert it with `iconv -f UTF-32 -t UTF-8`"),
    (codecs.BOM_UTF16_LE, "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8`"),
    (codecs.BOM_UTF16_BE, "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8`"),
)
_PATTERNS: Final = (
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "compressed with bzip2", _PACKED),
    (re.compile(rb"0707(0[12][0-9A-Fa-f]{104}|07[0-7]{70})"), "a cpio archive", _ARCHIVE),
    # A text may begin with these three letters (ORCID), but holds no zero byte.
    (re.compile(rb"ORC[^\0]*\0"), "an ORC file", "save it as Parquet"),
)
_PICKLES: Final = tuple(bytes((0x80, version)) for version in range(2, 6))
_ZIPS: Final = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_ZIP_HEAD: Final = 30
"""Bytes in front of the first name in a zip archive."""
_DUCKDB: Final = slice(8, 12)

_TAR_BLOCK: Final = 512
_TAR_CHECKSUM: Final = slice(148, 156)
_TAR_MAGIC: Final = slice(257, 262)


def require_text(beginning: bytes, message: FileMessage) -> None:
    """Refuse a file whose first bytes, unpacked if it was gzip, are those of another kind.

    Args:
        beginning: the first :data:`HEAD_BYTES`, or all there are.
        message: words the error.

    Raises:
        DataError: it is an archive, compressed in another way, a workbook, a database, a document,
            an image, a binary table, a web page, or text in UTF-16 or UTF-32. The message says
            what it is and what to do.
    """
    found = _kind(beginning)
    if found is None:
        return
    kind, fix = found
    raise message.error(
        f"must be a delimited text or Parquet, but it is {kind}. {fix[0].upper()}{fix[1:]}."
    )


def _kind(beginning: bytes) -> tuple[str, str] | None:
    """What the file is, and what to do; ``None`` where it may be text."""
    for magic, kind, fix in _BEGINNINGS:
        if beginning.startswith(magic):
            return kind, fix
    for pattern, kind, fix in _PATTERNS:
        if pattern.match(beginning):
            return kind, fix
    if beginning.startswith(_ZIPS):
        return _kind_of_zip(beginning)
    if beginning.startswith(_PICKLES):
        return "a Python pickle", _EXPORT
    if beginning[_DUCKDB] == b"DUCK":
        return "a DuckDB database", _EXPORT
    if _is_tar(beginning):
        return "a tar archive", _ARCHIVE
    words = beginning[:64].lstrip().lower()
    if words.startswith((b"<!doctype html", b"<html")):
        return "a web page, perhaps of a download that failed", "give the file itself"
    if words.startswith(b"<?xml"):
        return "an XML document", _EXPORT
    return None


def _kind_of_zip(beginning: bytes) -> tuple[str, str]:
    """Whether a zip archive is a workbook, by the name and content of its first file."""
    size = int.from_bytes(beginning[26:28], "little")
    name = beginning[_ZIP_HEAD : _ZIP_HEAD + size]
    if name == b"mimetype" and b"opendocument.spreadsheet" in beginning:
        return "an OpenDocument spreadsheet", _SHEET
    if name.startswith((b"[Content_Types].xml", b"_rels/", b"xl/", b"docProps/")):
        return "an Excel workbook or another Office file", _SHEET
    return "a zip archive", _ARCHIVE


def _is_tar(beginning: bytes) -> bool:
    """Whether the first block is a tar header, by its mark or, in old archives, its checksum."""
    head = beginning[:_TAR_BLOCK]
    if len(head) < _TAR_BLOCK:
        return False
    if head[_TAR_MAGIC] == b"ustar":
        return True
    try:
        stated = int(head[_TAR_CHECKSUM].strip(b" \0") or b"-", 8)
    except ValueError:
        return False
    counted = sum(head) - sum(head[_TAR_CHECKSUM]) + 8 * ord(" ")
    return head[0] != 0 and stated == counted
