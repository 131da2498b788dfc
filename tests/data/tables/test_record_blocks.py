import codecs
import gzip

import pytest

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.record_blocks import record_blocks
from cutlayer.errors import DataError

ROWS = b'a,"x\ny",1\nb,plain,2\n\nc,"say ""hi""\n",3\nd,last,4'


def blocks_of(path, data=None, **options):
    if data is not None:
        path.write_bytes(data)
    return list(record_blocks(path, FileMessage("label party", path), **options))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.csv"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 1000])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_blocks_join_to_the_file_and_cut_no_record(path, size, pack):
    record_ends = [10, 20, 21, 39]  # counted in ROWS: behind the line ends outside quotes
    blocks = blocks_of(path, pack(ROWS), block_bytes=max(size, 5))
    assert b"".join(block.data for block in blocks) == ROWS
    offset = 0
    for block in blocks:
        assert block.first_line == 1 + ROWS.count(b"\n", 0, offset)
        offset += len(block.data)
        assert offset in (*record_ends, len(ROWS))


def test_without_quotes_every_line_end_ends_a_record(path):
    blocks = blocks_of(path, b'5" pipe\n6" pipe\n7" pipe\n', quote="", block_bytes=8)
    assert [block.data for block in blocks] == [b'5" pipe\n', b'6" pipe\n', b'7" pipe\n']


def test_a_byte_order_mark_goes(path):
    assert blocks_of(path, codecs.BOM_UTF8 + b"a,b\n")[0].data == b"a,b\n"


def test_an_empty_file_has_no_blocks(path):
    assert blocks_of(path, b"") == []
    assert blocks_of(path, gzip.compress(b"")) == []


def test_joined_gzip_files_are_one_file(path):
    data = gzip.compress(b"a,1\n") + gzip.compress(b"b,2\n")
    assert b"".join(block.data for block in blocks_of(path, data)) == b"a,1\nb,2\n"


@pytest.mark.parametrize(
    ("encoding", "raw"), [("latin-1", b"M\xfcller\n"), ("windows-1252", b"M\xfcller \x80\n")]
)
def test_other_encodings_become_utf_8(path, encoding, raw):
    expected = {"latin-1": "Müller\n", "windows-1252": "Müller €\n"}[encoding]
    assert blocks_of(path, raw, encoding=encoding)[0].data.decode() == expected


def test_a_letter_across_two_reads_is_whole(path):
    text = "aé\nbü\ncß\n".encode()
    for size in (2, 3, 4, 5):
        assert b"".join(b.data for b in blocks_of(path, text, block_bytes=size)) == text


@pytest.mark.parametrize(
    ("raw", "encoding", "words"),
    [
        (b"a,b\nx,1\nM\xfcller,2\n", "utf-8", "line 3 holds the byte 0xFC, which utf-8"),
        (b"a,b\nx\x81,1\n", "windows-1252", "line 2 holds the byte 0x81, which windows-1252"),
    ],
)
def test_a_byte_of_another_encoding_is_located(path, raw, encoding, words):
    with pytest.raises(DataError, match=f"{words} .* set encoding .* iconv"):
        blocks_of(path, raw, encoding=encoding)


def test_the_line_of_a_bad_byte_counts_earlier_blocks(path):
    with pytest.raises(DataError, match="line 5 holds the byte 0xE9"):
        blocks_of(path, b"a\nb\nc\nd\n\xe9\n", block_bytes=4)


def test_a_zero_byte_is_no_text(path):
    with pytest.raises(DataError, match="line 2 holds a zero byte"):
        blocks_of(path, b"a,b\n1,\x00\n")


@pytest.mark.parametrize("size", [8, 20, 1 << 20])
def test_a_cut_off_gzip_is_an_error(path, size):
    packed = gzip.compress(b"".join(b"%d,%d\n" % (i, i * i) for i in range(2000)))
    with pytest.raises(DataError, match="gzip file must be complete, but it ends too early"):
        blocks_of(path, packed[: len(packed) * 2 // 3], block_bytes=size)
    with pytest.raises(DataError, match="ends too early"):
        blocks_of(path, packed[:-3], block_bytes=size)


def test_a_damaged_gzip_is_an_error(path):
    packed = bytearray(gzip.compress(bytes(range(1, 128)) * 50))
    packed[-5] ^= 1  # its checksum
    with pytest.raises(DataError, match="it is damaged"):
        blocks_of(path, bytes(packed))
    packed[40] ^= 255
    with pytest.raises(DataError, match="it is damaged"):
        blocks_of(path, bytes(packed))


def test_a_quote_that_never_closes_is_located(path):
    with pytest.raises(DataError, match="begins on line 2 reaches over the end of the file"):
        blocks_of(path, b'a,b\n1,"x\n2,y\n')
    with pytest.raises(DataError, match="begins on line 2 reaches over more than"):
        blocks_of(path, b'a,b\n1,"x\n' + b"2,y\n" * 40, block_bytes=16)


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path):
    with pytest.raises(
        DataError, match=r"^label party, file .*gone.csv: must be readable, but: No"
    ):
        blocks_of(tmp_path / "gone.csv")
