"""What is given as a table and is none, made by the tools that write such files."""

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile

import pytest

from cutlayer.data import TableFile
from cutlayer.errors import DataError
from cutlayer.preparation import TableColumns, criteo, table
from cutlayer.preparation.text_blocks import Position

TEXT = b"id,a,y\n" + b"".join(b"k%d,%d,%d\n" % (n, n, n % 2) for n in range(60))


def tar_of(data: bytes, form: int = tarfile.USTAR_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        member = tarfile.TarInfo("train.txt")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def tar_of_1979(data: bytes) -> bytes:
    """A header without a mark: name, mode, owner, group, size, time, checksum, the rest zero."""
    head = bytearray(512)
    head[0:9] = b"train.txt"
    head[100:108] = head[108:116] = head[116:124] = b"000644 \0"
    head[124:136], head[136:148] = b"%011o " % len(data), b"00000000000 "
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data + bytes(-len(data) % 512)


def zip_of(members: dict[str, bytes], method: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


def database() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (id, a)")
    return connection.serialize()


STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
OPEN_DOCUMENT = b"application/vnd.oasis.opendocument.spreadsheet"
FOREIGN = {
    "tar": (tar_of(TEXT), "a tar archive. Unpack it"),
    "tar of GNU": (tar_of(TEXT, tarfile.GNU_FORMAT), "a tar archive"),
    "tar of POSIX": (tar_of(TEXT, tarfile.PAX_FORMAT), "a tar archive"),
    "tar of 1979": (tar_of_1979(TEXT), "a tar archive"),
    "zip, stored": (zip_of({"a.csv": TEXT}, STORED), "a zip archive. Unpack it"),
    "zip, deflated": (zip_of({"a.csv": TEXT}, DEFLATED), "a zip archive"),
    "zip, empty": (zip_of({}, STORED), "a zip archive"),
    "xlsx": (zip_of({"[Content_Types].xml": b"<Types/>"}, DEFLATED), "an Excel workbook"),
    "ods": (zip_of({"mimetype": OPEN_DOCUMENT}, STORED), "an OpenDocument spreadsheet"),
    "bzip2": (bz2.compress(TEXT), "compressed with bzip2. Unpack it"),
    "xz": (lzma.compress(TEXT), "compressed with xz. Unpack it"),
    "lzma": (lzma.compress(TEXT, lzma.FORMAT_ALONE), "compressed with lzma"),
    "gzip twice": (gzip.compress(gzip.compress(TEXT)), "a gzip file within a gzip file"),
    "sqlite": (database(), "an SQLite database"),
    # Of these only the first bytes, as their formats state them.
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4" + TEXT, "a 7z archive. Unpack it"),
    "zstd": (b"\x28\xb5\x2f\xfd\x24\x10" + TEXT, "compressed with zstd"),
    "pdf": (b"%PDF-1.7\n%\xb5\xb5\n" + TEXT, "a PDF document"),
    "orc": (b"ORC\x11\0\0" + TEXT, "an ORC file"),
    "cpio": (b"070701" + b"0" * 104 + TEXT, "a cpio archive"),
    "web page": (b"\n<!DOCTYPE html><html>" + TEXT, "a web page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "utf-16": (TEXT.decode().encode("utf-16"), "text in UTF-16"),
}


@pytest.mark.parametrize("within_gzip", [False, True])
@pytest.mark.parametrize("kind", FOREIGN)
def test_every_reader_names_what_it_is_given(tmp_path, kind, within_gzip):
    data, words = FOREIGN[kind]
    if kind == "gzip twice" and within_gzip:
        pytest.skip("three times says the same")
    path = tmp_path / "train.txt"
    path.write_bytes(gzip.compress(data) if within_gzip else data)
    readers = (
        lambda: TableFile(path, "id").read("non-label party"),
        lambda: TableFile(path, "id", label_column="y").read("label party"),
        lambda: TableFile(path, "id").read_ids("non-label party"),
        lambda: table(path, TableColumns(label="y")),
        lambda: list(criteo(path).open(1 << 16).blocks(Position())),
    )
    for read in readers:
        with pytest.raises(DataError, match="must be a delimited text or Parquet, but it is") as e:
            read()
        assert words in str(e.value)
        assert str(path) in str(e.value)


@pytest.mark.parametrize(
    "beginning",
    ["ORCID", "PKid", "BZhid", "070701", "RDX", "LZIP", "FEA1", "ARROW1", "7z", "<id>", "{id", "]"],
)
def test_a_text_that_begins_alike_is_read(tmp_path, beginning):
    path = tmp_path / "table.csv"
    path.write_bytes(TEXT.replace(b"id", beginning.encode(), 1))
    assert len(TableFile(path, beginning).read("non-label party").table) == 60
