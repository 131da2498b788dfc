import unicodedata

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.data import PartyTable, id_digests
from cutlayer.data.private_matching import PrivateMatching
from cutlayer.data.record_ids import canonical_ids
from cutlayer.data.table_file import TableFile
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
