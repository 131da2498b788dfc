"""Tables of any form: the rules and notices of a party's reader hold in `prepare table`."""

import csv
import io
from collections import Counter
from decimal import Decimal

import polars as pl
import pytest

from cutlayer.data import ROW_NUMBER, TableFile
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.preparation import (
    SplitOptions,
    TableColumns,
    TableOptions,
    prepare_table,
    table,
)
from tests.data.tables.test_parquet_table import NO_NAMES

ALL_TRAIN = SplitOptions(validation=0, test=0)


def written(tmp_path, names, rows, *, delimiter=",", quote='"', encoding="utf-8"):
    """A CSV file by the standard library; with quote="" cells stand as they are."""
    text = io.StringIO()
    if quote:
        writer = csv.writer(text, delimiter=delimiter, quotechar=quote)
        writer.writerows([names, *rows])
    else:
        text.writelines(f"{delimiter.join(map(str, row))}\n" for row in [names, *rows])
    path = tmp_path / "table.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def coin(n):
    """A label that follows from no other cell of a test."""
    return n * n // 7 % 2


def rows_of(raw, out, **options):
    """What the label party and the other one get, each as one frame, without the part."""
    options = {"numbers": "as-is", "min_count": 1, **options}
    prepare_table(raw, out, TableOptions(split=ALL_TRAIN, **options))
    frames = []
    for party in ("label_party", "non_label_party"):
        parts = [pl.read_parquet(file) for file in sorted((out / party).glob("part-*.parquet"))]
        frames.append(pl.concat(parts).drop("part"))
    return frames


def values_of(out):
    """The vocabulary of the non-label party."""
    return pl.read_parquet(out / "non_label_party" / "vocabulary.parquet")["value"].to_list()


def as_a_party(path, label="y", id_column="id", **options):
    return TableFile(path, id_column, label_column=label, **options).read("label party")


def about(column, notices):
    """The one notice about a column."""
    (told,) = [notice for notice in notices if f"'{column}'" in notice]
    return told


@pytest.mark.parametrize("positive", ["1", "1.0", "01", None])
def test_spellings_of_a_number_are_one_label(tmp_path, positive):
    spellings = ["1", "0", "1.0", "0.0", "01", "00", " 1", "1.00"] * 9
    path = written(tmp_path, ("id", "a", "y"), [(f"k{n}", n, y) for n, y in enumerate(spellings)])
    raw = table(path, TableColumns("y", "id", positive=positive))
    label, _ = rows_of(raw, tmp_path / "out")
    with path.open(newline="") as file:
        expected = [int(float(row["y"])) for row in csv.DictReader(file)]
    assert label["label"].to_list() == expected
    assert as_a_party(path, positive=positive).table.labels.tolist() == expected
    assert raw.notices[-1].endswith("'1' is positive (45 rows), '0' is negative (27 rows).")


@pytest.mark.parametrize(
    ("values", "positive", "words"),
    [
        (
            ["yes", "Yes", "no"],
            "yes",
            r"'yes' \(10 rows\) must have one spelling, but 'Yes' differs",
        ),
        (["yes", "Yes"], "Yes", "must have one spelling, but 'yes' differs"),
        (["Yes", "No"], "yes", "must have the positive value 'yes' among .* 'No', 'Yes'"),
        (["1", "1.0"], None, "must have two values, but all 20 rows hold '1'"),
        (["1", "1.0"], "1", "must have two values, but all 20 rows hold '1'"),
        (["ja", "nein"], None, r"values are 'ja' \(10\), 'nein' \(10\)\. Set positive"),
        (["1", "0", "yes"], None, r"values are '0' \(10\), '1' \(10\), 'yes' \(10\)"),
        (["1", "maybe"], None, r"values are '1' \(10\), 'maybe' \(10\)\. Set positive"),
        (["<30", "NO", ">30"], None, r"values are '<30' \(10\), '>30' \(10\), 'NO' \(10\)"),
    ],
    ids=str,
)
def test_labels_that_a_party_refuses(tmp_path, values, positive, words):
    rows = [(f"k{n}", n / 7, values[n % len(values)]) for n in range(10 * len(values))]
    path = written(tmp_path, ("id", "a", "y"), rows)
    with pytest.raises(DataError, match=f"column 'y': the label.* {words}"):
        table(path, TableColumns("y", "id", positive=positive))
    with pytest.raises(DataError, match="column 'y'"):
        as_a_party(path, positive=positive, negative=None if positive is None else "rest")


def test_other_labels_are_named_with_their_counts(tmp_path):
    values = ["N", "Y", "n.a.", "N"] * 10
    path = written(tmp_path, ("id", "a", "y"), [(f"k{n}", n, y) for n, y in enumerate(values)])
    raw = table(path, TableColumns("y", "id", positive="Y"))
    told = "'Y' is positive (10 rows), 'N' (20), 'n.a.' (10) are negative (30 rows)."
    assert raw.notices[-1].endswith(told)
    label, _ = rows_of(raw, tmp_path / "out")
    assert label["label"].to_list() == [0, 1, 0, 0] * 10


def test_labels_that_are_not_understood_are_left_out_by_name(tmp_path):
    rows = [(f"k{n}", n, n % 2) for n in range(40)]
    path = written(tmp_path, ("id", "a", "y"), [*rows, ("z", 1, 2)])
    raw = table(path, TableColumns("y", "id"))
    told = (
        "'1' is positive (20 rows), '0' is negative (20 rows). '2' is neither: 1 rows are left out."
    )
    assert told in raw.notices[-1]
    made = prepare_table(raw, tmp_path / "two", TableOptions(max_rejects=0.1))
    assert (made.rows, made.rejected) == (40, 1)


def test_a_missing_label_is_no_negative(tmp_path):
    rows = [(f"k{n}", n, ("x", "y", "NULL")[n % 3]) for n in range(30)]
    path = written(tmp_path, ("id", "a", "y"), rows)
    raw = table(path, TableColumns("y", "id", positive="x", missing=("NULL",)))
    label, _ = rows_of(raw, tmp_path / "out", max_rejects=1)
    assert label["label"].to_list() == [1, 0] * 10


@pytest.mark.parametrize("marker", ["NULL", "NA", "\\N", "n/a", "-", "#N/A"])
def test_a_marker_that_spoils_a_column_gets_the_notice_of_a_party(tmp_path, marker):
    cells = [marker if n % 10 == 0 else f"{n % 50 / 8}" for n in range(200)]
    rows = [(f"k{n}", cell, n % 3 / 2, coin(n)) for n, cell in enumerate(cells)]
    path = written(tmp_path, ("id", "a", "c", "y"), rows)
    raw = table(path, TableColumns("y", "id"))
    told = f"column 'a': read as categories, because line 2 holds {marker!r}, though 90% of its"
    assert told in raw.notices[0]
    assert raw.notices[0] == as_a_party(path).notices[0]
    raw = table(path, TableColumns("y", "id", missing=(marker,)))
    assert raw.layout.numbers == ("a", "c")
    _, other = rows_of(raw, tmp_path / "out")
    assert other["a"].to_list() == [0.0 if a == marker else float(a) for a in cells]


def test_names_that_look_like_patterns(tmp_path):
    path = tmp_path / "table.parquet"
    cells = {"^n$": [n / 4 for n in range(60)], "^.*$": ["a", "b"] * 30, "ids": [2.5, 1.5] * 30}
    pl.DataFrame({**cells, "y": [coin(n) for n in range(60)]}).write_parquet(path)
    raw = table(path, TableColumns("y"))
    assert (raw.layout.numbers, raw.layout.categories) == (("^n$", "ids"), ("^.*$",))
    _, other = rows_of(raw, tmp_path / "out")
    assert [other[name].to_list() for name in ("^n$", "ids")] == [cells["^n$"], cells["ids"]]


def test_the_same_file_is_prepared_to_the_same_bytes(tmp_path):
    rows = [(f"k{n}", n % 7 / 2, f"c{n % 5}", ("1", "0", "1.0", "0.0")[n % 4]) for n in range(200)]
    path = written(tmp_path, ("id", "a", "c", "y"), rows)
    for positive in (None, "1"):
        seen = set()
        for attempt in range(4):
            out = tmp_path / f"{positive}-{attempt}"
            rows_of(table(path, TableColumns("y", "id", positive=positive)), out)
            seen.add((out / "schema.json").read_bytes())
        assert len(seen) == 1


def test_empty_cells_spoil_nothing(tmp_path):
    rows = [(f"k{n}", "" if n % 3 else n / 8, coin(n)) for n in range(40)]
    raw = table(written(tmp_path, ("id", "a", "y"), rows), TableColumns("y", "id"))
    assert raw.layout.numbers == ("a",)
    assert len(raw.notices) == 1  # the label's


def test_decimal_commas(tmp_path):
    rows = [(f"k{n}", f"{n // 4},{n % 4 * 25:02}", f"{n % 3},5", coin(n)) for n in range(60)]
    path = written(tmp_path, ("id", "amount", "rate", "y"), rows, delimiter=";")
    raw = table(path, TableColumns("y", "id"))
    for name in ("amount", "rate"):
        told = about(name, raw.notices)
        assert "look like numbers with a decimal comma" in told
        assert "Set decimal to ','." in told
    raw = table(path, TableColumns("y", "id", decimal=","))
    assert raw.layout.numbers == ("amount", "rate")
    _, other = rows_of(raw, tmp_path / "out")
    assert other["amount"].to_list() == [n / 4 for n in range(60)]
    with pytest.raises(ConfigurationError, match=r"decimal must be one of '\.', ',', got ';'"):
        table(path, TableColumns("y", "id", decimal=";"))


def test_parquet_numbers_do_not_depend_on_the_decimal_sign(tmp_path):
    path = tmp_path / "table.parquet"
    frame = pl.DataFrame({"a": [0.5, 1.25] * 20, "t": ["1,5", "2,5"] * 20, "y": [0, 1] * 20})
    frame.write_parquet(path)
    _, other = rows_of(table(path, TableColumns("y", decimal=",")), tmp_path / "out")
    assert other["a"].to_list() == [0.5, 1.25] * 20
    assert other["t"].to_list() == [1.5, 2.5] * 20


def test_fill_values_of_parquet_are_found_in_their_type(tmp_path):
    path = tmp_path / "table.parquet"
    frame = pl.DataFrame(
        {
            "f": pl.Series([-999.9, 0.5] * 20, dtype=pl.Float32),
            "g": pl.Series([1e20, 0.5] * 20, dtype=pl.Float32),
            "d": pl.Series([Decimal("-999.90"), Decimal("0.50")] * 20),
            "y": [0, 1] * 20,
        }
    )
    frame.write_parquet(path)
    raw = table(path, TableColumns("y", missing=("-999.9", "1e20")))
    _, other = rows_of(raw, tmp_path / "out")
    for name in "fgd":
        assert other[name].to_list() == [0.0, 0.5] * 20


@pytest.mark.parametrize("kind", NO_NAMES)
def test_kinds_of_parquet_that_are_neither_numbers_nor_texts(tmp_path, kind):
    values, called = NO_NAMES[kind]
    path = tmp_path / "table.parquet"
    pl.DataFrame({"k": values, "who": ["a", "b"], "y": [1, 0], "n": [1.5, 2.5]}).write_parquet(path)
    for columns in (TableColumns("k", "who"), TableColumns("y", "k")):
        with pytest.raises(DataError, match=f"'k': must hold texts or numbers, but holds {called}"):
            table(path, columns)
    with pytest.raises(DataError, match=f"'k': must hold numbers or texts, .* holds {called}"):
        table(path, TableColumns("y", "who", numeric=("k",)))
    raw = table(path, TableColumns("y", "who"))
    assert raw.layout.features == ("n",)
    assert f"left out, because {called}" in about("k", raw.notices)
    label, other = rows_of(raw, tmp_path / "out")
    assert label["id"].to_list() == ["a", "b"]
    assert other["n"].to_list() == [1.5, 2.5]
    assert table(path, TableColumns("y", "who", drop=("k",))).layout.features == ("n",)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1.0, 2.0], ("1", "2")),
        (["E\u0301lan ", "b"], ("\u00c9lan", "b")),
        ([True, False], ("true", "false")),
    ],
    ids=str,
)
def test_ids_are_those_of_a_party(tmp_path, ids, expected):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"who": ids, "y": [1, 0], "n": [1.5, 2.5]}).write_parquet(path)
    label, _ = rows_of(table(path, TableColumns("y", "who")), tmp_path / "out")
    assert tuple(label["id"]) == expected
    assert as_a_party(path, id_column="who").table.ids == expected


def test_fractions_are_no_ids(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"who": [2.0, 1.5], "y": [1, 0], "n": [1.5, 2.5]}).write_parquet(path)
    with pytest.raises(DataError, match=r"'who': .* numbers below 2\*\*53, but row 2 holds '1\.5'"):
        table(path, TableColumns("y", "who"))


@pytest.mark.parametrize(
    ("encoding", "names"), [("latin-1", ("Müller", "Søby")), ("windows-1252", ("Müller", "Šimek"))]
)
def test_other_encodings(tmp_path, encoding, names):
    rows = [(f"k{n}", names[n % 2], coin(n)) for n in range(40)]
    path = written(tmp_path, ("id", "näme", "y"), rows, encoding=encoding)
    with pytest.raises(DataError, match=r"header must be utf-8 text.* set encoding"):
        table(path, TableColumns("y", "id"))
    raw = table(path, TableColumns("y", "id", encoding=encoding))
    assert raw.layout.features == ("näme",)
    rows_of(raw, tmp_path / "out")
    assert sorted(values_of(tmp_path / "out")) == sorted(names)
    with pytest.raises(ConfigurationError, match="encoding must be one of"):
        table(path, TableColumns("y", "id", encoding="ebcdic"))


def test_a_byte_that_the_encoding_does_not_have_is_dirt(tmp_path):
    rows = [(f"k{n}", "Müller", coin(n)) for n in range(40)]
    path = written(tmp_path, ("id", "name", "y"), rows, encoding="windows-1252")
    path.write_bytes(path.read_bytes() + b"z,\x81,1\r\n")
    raw = table(path, TableColumns("y", "id", encoding="windows-1252"))
    made = prepare_table(raw, tmp_path / "out", TableOptions(max_rejects=0.1))
    assert (made.rows, made.rejected) == (40, 1)
    assert "42,is no UTF-8 text" in (tmp_path / "out" / "rejects.csv").read_text()


def test_another_quote_and_none(tmp_path):
    rows = [(f"k{n}", f"x,{n % 2}", coin(n)) for n in range(40)]
    path = written(tmp_path, ("id", "a", "y"), rows, quote="'")
    rows_of(table(path, TableColumns("y", "id", quote="'")), tmp_path / "out")
    assert sorted(values_of(tmp_path / "out")) == ["x,0", "x,1"]
    rows = [(f"k{n}", f'{n % 2}" pipe', coin(n)) for n in range(40)]
    path = written(tmp_path, ("id", "a", "y"), rows, quote="")
    rows_of(table(path, TableColumns("y", "id", quote="")), tmp_path / "none")
    assert sorted(values_of(tmp_path / "none")) == ['0" pipe', '1" pipe']
    with pytest.raises(ConfigurationError, match="quote must be one sign"):
        table(path, TableColumns("y", "id", quote="''"))


def click_log(tmp_path):
    """5 % positive, no id, a time that only positives have; the first row stands there twice."""
    rows = []
    for n in range(400):
        after = f"2024-02-01 07:{n % 60:02}:{n // 60:02}" if n % 20 == 7 else ""
        moment = f"2024-01-{n % 28 + 1:02} {n // 60:02}:{n % 60:02}:00"
        rows.append(((3, 9, 12, 18)[n * 7 % 4], moment, after, int(n % 20 == 7)))
    return written(tmp_path, ("app", "clicked", "installed", "y"), [*rows, rows[0]])


@pytest.mark.parametrize("categorical", [(), ("installed",)])
def test_what_gives_the_label_away_is_told_and_kept_on_record(tmp_path, categorical):
    path = click_log(tmp_path)
    raw = table(path, TableColumns("y", categorical=categorical))
    told = about("installed", raw.notices)
    assert "gives the label away: it is filled in 100.0% of the positive rows and in 0.0%" in told
    assert "list it under drop" in told
    party = as_a_party(path, id_column=ROW_NUMBER, categorical=("installed",))
    assert told == about("installed", party.notices)
    assert "look like dates and times" in about("clicked", raw.notices)
    assert "4 different whole numbers are read as numbers" in about("app", raw.notices)
    made = prepare_table(raw, tmp_path / "out", TableOptions())
    assert made.notices == raw.notices  # rare values of a column that was told of are no news
    without = table(path, TableColumns("y", drop=("installed",)))
    assert not any("gives the label away" in notice for notice in without.notices)


@pytest.mark.parametrize("id_column", ["id", ROW_NUMBER])
def test_ids_that_follow_the_label_are_pointed_out(tmp_path, id_column):
    rows = [(n, n * 7 % 11 / 2, int(n > 70)) for n in range(100)]
    path = written(tmp_path, ("id", "a", "y"), rows)
    raw = table(path, TableColumns("y", id_column, drop=() if id_column == "id" else ("id",)))
    assert any("the ids give the label away: their order" in notice for notice in raw.notices)


def test_rare_values_are_counted(tmp_path):
    # 60 rows hold a, 20 hold b, 20 a value of their own.
    values = ["a"] * 60 + ["b"] * 20 + [f"r{n}" for n in range(20)]
    rows = [(f"k{n * 37 % 100}", value, n % 2) for n, value in enumerate(values)]
    raw = table(written(tmp_path, ("id", "job", "y"), rows), TableColumns("y", "id"))
    assert len(raw.notices) == 1
    made = prepare_table(raw, tmp_path / "out", TableOptions(split=ALL_TRAIN))
    assert made.notices[:-1] == raw.notices
    assert made.notices[-1] == (
        "label party, table.csv, column 'job': 2 values have a code of their own, as 10 training "
        "rows or more hold each; all others, 20% of the rows, share one. --min-count changes that."
    )
    made = prepare_table(raw, tmp_path / "rare", TableOptions(min_count=90))
    assert "no value is held by 90 training rows, so all share one code" in made.notices[-1]
    made = prepare_table(raw, tmp_path / "hashed", TableOptions(vocabulary="hashed"))
    assert made.notices == raw.notices


def test_many_columns_with_one_reason_take_one_line(tmp_path):
    names = [f"e{n}" for n in range(40)]
    rows = [(f"k{n}", n / 7, *[""] * 40, coin(n)) for n in range(30)]
    raw = table(written(tmp_path, ("id", "x", *names, "y"), rows), TableColumns("y", "id"))
    assert len(raw.notices) == 2
    told = "and 28 more: kept, though all of their cells are empty. List them under drop."
    assert raw.notices[0].endswith(told)


def test_of_many_rows_a_sample_is_looked_at_and_that_is_said(tmp_path, monkeypatch):
    """3 % of 4,000 rows are positive; at most 50 of each class are held."""
    monkeypatch.setattr("cutlayer.preparation.table_survey._MOST_ROWS", 50)
    rows = []
    for n in range(4000):
        y = int(n % 33 == 5)
        rare = "odd" if n == 3999 else "same"  # the last row is in no sample
        rows.append((n * 7919 % 4001, f"{n % 4},5", rare, y))
    path = written(tmp_path, ("id", "rate", "rare", "y"), rows)
    raw = table(path, TableColumns("y", "id"))
    assert not any("'rare'" in notice for notice in raw.notices)
    assert not any("gives the label away" in notice for notice in raw.notices)
    assert "decimal comma" in about("rate", raw.notices)
    (told,) = [notice for notice in raw.notices if "judged by a sample of" in notice]
    assert told.endswith(" of the 4,000 rows.")
    assert 20 < int(told.split("sample of ")[1].split()[0]) <= 100


def test_a_label_of_very_many_values_is_counted_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("cutlayer.preparation.table_survey.MAX_LABELS", 5)
    values = [*range(40)] * 2
    path = written(tmp_path, ("id", "a", "y"), [(f"k{n}", n / 7, v) for n, v in enumerate(values)])
    raw = table(path, TableColumns("y", "id", positive="39"))
    assert "'39' is positive (2 rows)" in raw.notices[-1]
    assert "negative (78 rows)" in raw.notices[-1]
    label, _ = rows_of(raw, tmp_path / "out")
    assert Counter(label["label"]) == {0: 78, 1: 2}
