import gzip
import unicodedata
from dataclasses import replace
from decimal import Decimal as ExactNumber

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.alignment.private_matching import PrivateMatching
from cutlayer.alignment.shared_ids import id_digests
from cutlayer.data import Encoder, PartyTable
from cutlayer.data.tables.record_ids import canonical_ids
from cutlayer.data.tables.table_file import TableFile
from cutlayer.errors import ConfigurationError, DataError

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=8)


@given(TEXTS)
def test_equals_the_standard_library_and_changes_nothing_twice(texts):
    once = canonical_ids(texts)
    # Python's strip takes four separators (U+001C to U+001F) that Unicode does not call white.
    spaces = "".join(chr(c) for c in range(0x3001) if chr(c).isspace() and not 0x1C <= c <= 0x1F)
    assert list(once) == [unicodedata.normalize("NFC", text).strip(spaces) for text in texts]
    assert list(canonical_ids(once)) == list(once)


def test_the_texts_are_not_copied_where_nothing_changes():
    given_ids = pl.Series(["a", "é", "Ünder", "x y"])
    assert canonical_ids(given_ids).series.equals(given_ids)
    assert canonical_ids(canonical_ids(given_ids)) == tuple(given_ids)


def test_what_counts_and_what_does_not():
    same = ["É", "E\u0301", " É", "É\u00a0\t"]
    different = ["É", "é", "E", "É É", "ÉÉ", "Ｅ"]
    assert set(canonical_ids(same)) == {"É"}
    assert len(set(canonical_ids(different))) == len(different)


def test_digests_and_private_matching_see_the_same_ids():
    here = PartyTable("label party", ("É1", "b ", "c"), pl.DataFrame())
    there = PartyTable("non-label party", ("E\u03011", "b", "d"), pl.DataFrame())
    pairs = zip(id_digests(here.ids, salt=b"s"), id_digests(there.ids, salt=b"s"), strict=True)
    assert [bool((x == y).all()) for x, y in pairs] == [True, True, False]
    pytest.importorskip("rbcl", reason="needs cutlayer[psi]")
    own, peer = PrivateMatching(here.ids, "r"), PrivateMatching(there.ids, "r")
    found = own.matched(peer.tags(own.points(0, 3)), own.tags(peer.points(0, 3)))
    assert sorted(found.shared) == ["b", "É1"]


def test_ids_that_are_one_in_canonical_form_are_refused():
    with pytest.raises(DataError, match="unique"):
        PartyTable("label party", ("É", "E\u0301"), pl.DataFrame())


def test_rows_are_found_by_any_way_of_writing():
    table = PartyTable("label party", ("E\u0301", "b"), pl.DataFrame({"x": [1, 2]}))
    assert table.ordered_by(["b", "É "]).features["x"].to_list() == [2, 1]


def test_a_file_gives_its_ids_alone(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,y,x\n007, 1 ,nonsense\nE\u0301 ,2,\n8,2,3\n")
    assert TableFile(path, "id", label_column="y").read_ids("label party") == ("007", "É", "8")
    with pytest.raises(DataError, match=r"label party, file .*table.csv: no column .* 'idd'"):
        TableFile(path, "idd", label_column="y").read_ids("label party")
    with pytest.raises(ConfigurationError, match="row number"):
        TableFile(path, "(row number)").read_ids("non-label party")
    path.write_text("id,y\na,1\nb,1\na,2\n")
    with pytest.raises(DataError, match=r"column 'id': ids must be unique.*'a'"):
        TableFile(path, "id").read_ids("non-label party")
    path.write_text("id,y\na,1\n,1\n")
    with pytest.raises(DataError, match="every row must have a value"):
        TableFile(path, "id").read_ids("non-label party")


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"id\n007\n\xc3\x89,1\n8\n", {"delimiter": ";"}),
        (b"id\n007\n\xc3\x89\n8\n", {}),
        (b"id\n007\n\xc3\x89\n8\n", {"delimiter": ","}),
        (b"\xef\xbb\xbfid\r\n007\r\n\xc3\x89\r\n8\r\n\r\n", {}),
        (b'"id"\n"007"\n"\xc3\x89"\n"8"', {}),
        (b" id \n\n007\n\n\xc3\x89 \n8\n", {"delimiter": "\t"}),
        (gzip.compress(b"id\n007\n\xc3\x89\n8\n"), {}),
        (b"id\n007\n\xc9\n8\n", {"encoding": "latin-1"}),
        (b"007\n\xc3\x89\n8\n", {"header": False, "column_names": ("id",)}),
        (b"007\n\xc3\x89\n8\n", {"header": False, "id_column": "c1"}),
        (b"id\n007\n\xc3\x89\n8\n", {"quote": ""}),
    ],
    ids=[
        *("comma in an id", "plain", "delimiter", "BOM and CRLF", "quoted", "blanks", "gzip"),
        *("latin-1", "named", "c1", "no quotes"),
    ],
)
def test_a_file_of_ids_alone_is_enough_for_ids(tmp_path, content, options):
    path = tmp_path / "ids.csv"
    path.write_bytes(content)
    file = TableFile(path, **{"id_column": "id", **options})
    ids = ("007", "É,1" if options.get("delimiter") == ";" else "É", "8")
    assert file.read_ids("non-label party") == ids
    labelled = replace(file, label_column="y")
    trained = Encoder(())  # of a label party without features
    assert labelled.read("label party", trained=trained).table.ids == ids
    assert labelled.read("label party", labelled=False).table.ids == ids


def test_labels_alone_are_enough_for_rows_by_number(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("y\n1\n0\n1\n")
    table = TableFile(path, "(row number)", label_column="y").read("label party").table
    assert table.labels.tolist() == [1, 0, 1]


def test_a_text_that_was_not_split_is_no_file_of_ids(tmp_path):
    path = tmp_path / "ids.csv"
    for content in ("id^y\na^1\nb^0\n", "id\na;1\nb;0\n", "name\na\nb\n"):
        path.write_text(content)
        with pytest.raises(DataError):
            TableFile(path, "id").read_ids("label party")
    path.write_text("id\na\nb\n")
    with pytest.raises(DataError, match="no column is called 'y'"):
        TableFile(path, "id", label_column="y").read("label party")
    with pytest.raises(DataError, match="must hold a column to learn from"):
        TableFile(path, "id").read("non-label party")


@pytest.mark.parametrize(
    "kind",
    [
        *(pl.Int8, pl.Int64, pl.UInt64, pl.Int128, pl.Float32, pl.Float64),
        *(pl.Decimal(38, 0), pl.Decimal(38, 10), pl.Decimal(9, 2)),
    ],
    ids=str,
)
def test_whole_numbers_are_one_id_however_they_are_stored(tmp_path, kind):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"id": pl.Series([1, 20, 100], dtype=pl.Int64).cast(kind)}).write_parquet(path)
    assert TableFile(path, "id").read_ids("label party") == ("1", "20", "100")


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_texts_are_one_id_however_they_are_stored(tmp_path, kind):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"id": pl.Series(["007", "1.50"], dtype=kind)}).write_parquet(path)
    assert TableFile(path, "id").read_ids("label party") == ("007", "1.50")


def test_decimals_with_a_fraction_lose_the_zeros_of_their_type(tmp_path):
    path = tmp_path / "table.parquet"
    for scale in (2, 10):
        values = pl.Series([ExactNumber("1.5"), ExactNumber("-0.25")], dtype=pl.Decimal(38, scale))
        pl.DataFrame({"id": values}).write_parquet(path)
        assert TableFile(path, "id").read_ids("label party") == ("1.5", "-0.25")
