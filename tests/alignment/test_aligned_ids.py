import stat

import polars as pl
import pytest

from cutlayer.alignment.aligned_ids import read_aligned_ids, write_aligned_ids
from cutlayer.alignment.shared_ids import alignment_hash
from cutlayer.data import TextSequence
from cutlayer.errors import DataError, StorageError

IDS = TextSequence(["007", "12", "Élan"])


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new" / "ids.parquet"
    mark = write_aligned_ids(path, IDS)
    assert mark == alignment_hash(["007", "12", "Élan"])
    assert read_aligned_ids(path) == IDS
    assert pl.read_parquet(path)["id"].to_list() == list(IDS)  # nothing else is needed to read it
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["ids.parquet"]


def test_a_second_alignment_takes_the_place_of_the_first(tmp_path):
    path = tmp_path / "ids.parquet"
    write_aligned_ids(path, TextSequence(["a"]))
    (tmp_path / "ids.parquet.partial").write_bytes(b"what a kill left")
    write_aligned_ids(path, IDS)
    assert read_aligned_ids(path) == IDS


def test_a_missing_file_says_what_to_run(tmp_path):
    with pytest.raises(DataError, match="`cutlayer align CONFIG` at both parties first"):
        read_aligned_ids(tmp_path / "ids.parquet")


def test_any_cut_or_flipped_bit_is_found(tmp_path):
    path = tmp_path / "ids.parquet"
    write_aligned_ids(path, TextSequence([f"u{i:05d}" for i in range(300)]))
    whole = path.read_bytes()
    told, unharmed = [], 0
    for at in range(0, len(whole), 7):
        spoiled = bytearray(whole)
        spoiled[at] ^= 1 << at % 8
        path.write_bytes(spoiled)
        try:
            assert list(read_aligned_ids(path)) == [f"u{i:05d}" for i in range(300)]
            unharmed += 1  # a bit of the format that says nothing about the ids
        except DataError as error:
            told.append(str(error))
    assert len(told) > unharmed
    assert all(str(path) in text for text in told)
    for size in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="damaged"):
            read_aligned_ids(path)


@pytest.mark.parametrize(
    ("frame", "rule"),
    [
        (pl.DataFrame({"name": ["a"]}), "one column 'id'"),
        (pl.DataFrame({"id": [1]}), "one column 'id'"),
        (pl.DataFrame({"id": ["a", None]}), "one column 'id'"),
        (pl.DataFrame({"id": ["b", "a"]}), "must ascend"),
        (pl.DataFrame({"id": ["a", "a"]}), "must ascend"),
        (pl.DataFrame({"id": ["a", "c"]}), "do not have the hash"),
    ],
)
def test_a_file_that_no_alignment_wrote_is_refused(tmp_path, frame, rule):
    path = tmp_path / "ids.parquet"
    frame.write_parquet(path, metadata={"cutlayer_alignment_hash": alignment_hash(["a", "b"])})
    with pytest.raises(DataError, match=rule):
        read_aligned_ids(path)


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file/ids\.parquet: "):
        write_aligned_ids(tmp_path / "file" / "ids.parquet", IDS)


def test_a_full_disk_is_named_and_the_ids_of_before_stay(tmp_path, largest_file):
    path = tmp_path / "ids.parquet"
    write_aligned_ids(path, IDS)
    largest_file(64)  # bytes; a Parquet file has more
    with pytest.raises(StorageError, match="File too large"):
        write_aligned_ids(path, TextSequence(["a"]))
    assert read_aligned_ids(path) == IDS
