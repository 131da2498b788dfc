"""Bytes of a text file, plain or gzip, and where in them a record ends."""

import csv
import gzip
import io
import random

import pytest

from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.packed_text import GZIP_ERRORS, broken_gzip, end_of_records, unpacked

TEXT = b"a,b\n" * 5000


@pytest.mark.parametrize("packed", [False, True])
def test_gzip_is_known_by_its_first_bytes_whatever_the_name(tmp_path, packed):
    path = tmp_path / "table.csv"
    path.write_bytes(gzip.compress(TEXT) if packed else TEXT)
    with path.open("rb") as file:
        assert unpacked(file).read() == TEXT


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda packed: packed[:-9], "it ends too early, after line 7. Copy it again"),
        (lambda packed: packed[:-8] + b"\0" * 8, r"it is damaged \(CRC check failed"),
    ],
)
def test_a_damaged_gzip_is_told_with_what_to_do(tmp_path, damage, what):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(damage(gzip.compress(TEXT)))
    with path.open("rb") as file, pytest.raises(GZIP_ERRORS) as raised:
        unpacked(file).read()
    told = broken_gzip(raised.value, FileMessage("label party", path), ", after line 7")
    with pytest.raises(type(told), match=f"label party, file .*: .*{what}"):
        raise told


@pytest.mark.parametrize("seed", range(20))
def test_records_end_where_the_csv_module_ends_them(seed):
    draw = random.Random(seed)  # noqa: S311
    rows = [["".join(draw.choices('ab,"\n', k=3)) for _ in range(2)] for _ in range(6)]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    data = text.getvalue().encode()
    cut = draw.randrange(len(data) + 1)
    end = end_of_records(data[:cut], b'"')
    # By the other reader: the most rows whose writing does not reach over the cut.
    ends = [0]
    for row in rows:
        one = io.StringIO(newline="")
        csv.writer(one, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(row)
        ends.append(ends[-1] + len(one.getvalue()))
    assert end == max(place for place in ends if place <= cut)


def test_without_a_quote_every_line_end_ends_a_record():
    assert end_of_records(b'1,"a\nb"\n2', b"") == 8
    assert end_of_records(b'1,"a\nb', b"") == 5
    assert end_of_records(b"1,a", b"") == 0
