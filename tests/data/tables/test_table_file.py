import gzip
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cutlayer.data import ROW_NUMBER, Encoder, Split, TableFile
from cutlayer.errors import ConfigurationError, DataError

HEADER = "client,age,job,y\n"
ROWS = "007,31,clerk,1\n08,45,,0\n 12345678901234567890 ,,farmer,1\n"
LABEL, OTHER = "label party", "non-label party"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bank.csv"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, party=LABEL, *, id_column="client", label_column="y", **options):
    label = label_column if party == LABEL else None
    return TableFile(path, id_column, label_column=label, **options).read(party)


def test_a_file_becomes_the_table_of_its_owner(path):
    reading = read(write(path, HEADER + ROWS))
    table = reading.table
    assert table.party == LABEL
    assert table.ids == ("007", "08", "12345678901234567890")
    assert table.features["age"].to_list() == [31, 45, None]
    assert table.features["job"].cast(pl.String).to_list() == ["clerk", None, "farmer"]
    assert table.labels is not None
    assert table.labels.tolist() == [1, 0, 1]
    assert table.groups is None
    assert reading.notices == (
        "label party, bank.csv, column 'y': '1' is positive (2 rows), '0' is negative (1 rows).",
    )


def test_the_other_party_gets_no_labels(path):
    reading = read(write(path, HEADER + ROWS), OTHER, drop=("y",))
    assert reading.table.labels is None
    assert reading.table.features.columns == ["age", "job"]
    assert reading.notices == ()


@pytest.mark.parametrize("name", ["bank.csv", "bank.gz", "bank.parquet.txt"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_content_decides_not_the_name(tmp_path, name, pack):
    table = read(write(tmp_path / name, pack((HEADER + ROWS).encode()))).table
    assert table.ids == ("007", "08", "12345678901234567890")


def test_the_label_party_may_bring_no_features(path):
    for content in (HEADER + ROWS, "client,y\na,1\nb,0\n"):
        drop = ("age", "job") if content.startswith(HEADER) else ()
        table = read(write(path, content), drop=drop).table
        assert table.features.width == 0
        assert len(table.ordered_by(table.ids[:1])) == 1


def test_groups_go_with_their_rows(path):
    content = "visit,patient,n,y\na,p1,1,1\nb,p2,2,0\nc,p1,3,0\n"
    table = read(write(path, content), id_column="visit", group_column="patient").table
    assert table.features.columns == ["n"]
    assert table.groups == ("p1", "p2", "p1")
    moved = table.ordered_by(("c", "b"))
    assert moved.groups == ("p1", "p2")
    assert Split.by_shares(moved.groups, seed=0, validation=0, test=0).train.tolist() == [0, 1]


def test_rows_are_numbered_where_there_is_no_id(path):
    reading = read(write(path, HEADER + ROWS), id_column=ROW_NUMBER, keep=("age",))
    assert reading.table.ids == ("1", "2", "3")
    assert "matched by their position" in reading.notices[0]
    assert "Only the number of rows can be compared" in reading.notices[0]
    assert reading.table.numbered
    assert reading.table.ordered_by(["2", "1"]).numbered


def test_what_is_learned_from_a_file_fits_another_one(path, tmp_path):
    first = read(write(path, "client,^n$,*,y\na,1.5,u,1\nb,2,v,0\nc,,u,1\n")).table
    encoder = Encoder.fit(first, min_count=1)
    later = read(write(tmp_path / "later.csv", "client,^n$,*,y\nd,3,w,1\ne,1,u,0\n")).table
    assert encoder.encode(later).shape == (2, encoder.width)
    assert encoder.encode(later)[:, 2].tolist() == [0, 1]  # "^n$", "is missing", then "*=u"


def test_decimal_commas_and_other_encodings(path):
    content = "client;size;job;y\na;1,5;Müller;ja\nb;-2,25;Bäcker;nein\n".encode("windows-1252")
    table = read(
        write(path, content), encoding="windows-1252", decimal=",", positive="ja", keep=("*",)
    ).table
    assert table.features["size"].to_list() == [1.5, -2.25]
    assert table.features["job"].cast(pl.String).to_list() == ["Müller", "Bäcker"]


def test_columns_that_teach_nothing_are_left_out_and_told(path):
    rows = "".join(f"c{i:02},{i + 1},{i / 7},name {i},7,,{i % 3},{i % 2}\n" for i in range(30))
    reading = read(write(path, "client,row,x,name,same,empty,code,y\n" + rows))
    assert reading.table.features.columns == ["x", "code"]
    told = "\n".join(reading.notices)
    assert "column 'row': left out, because it numbers the rows from 1 to 30" in told
    assert "column 'name': left out, because 30 different texts in 30 rows" in told
    assert "column 'same': left out, because all of its cells hold 7." in told
    assert "column 'empty': left out, because all of its cells are empty." in told
    assert len(reading.notices) == 5


def test_a_column_spoilt_by_one_text_is_told(path):
    rows = "".join(f"c{i},{i / 7},{i % 4},{i % 2}\n" for i in range(30)) + "d,n/a,n/a,1\n"
    reading = read(write(path, "client,x,code,y\n" + rows))
    assert reading.table.features.columns == ["code"]
    assert "'x': left out, because 31 different texts" in reading.notices[0]
    assert "It is read as categories, because line 32 holds 'n/a', though 97%" in reading.notices[0]
    assert "column 'code': read as categories, because line 32" in reading.notices[1]
    mended = read(path, missing=("n/a",))
    assert mended.table.features.dtypes == [pl.Float64, pl.Int8]


def test_codes_with_leading_zeros_are_told(path):
    rows = "a,01234,1\nb,8001,0\nc,8001,0\n"
    reading = read(write(path, "client,zip,y\n" + rows))
    assert (
        "column 'zip': read as numbers, though line 2 holds '01234', as codes" in reading.notices[0]
    )
    assert len(read(path, categorical=("zip",)).notices) == 1


def test_columns_that_give_the_label_away_are_pointed_out(path):
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, 200)
    status = np.where(y, "end", draw.choice(["a", "b"], 200))
    rows = "".join(
        f"{i},{draw.normal():.3f},{y[i] * 2.5},{status[i]},{y[i]}\n" for i in draw.permutation(200)
    )
    reading = read(write(path, "client,noise,score,status,y\n" + rows))
    assert reading.table.features.columns == ["noise", "score", "status"]
    told = [notice for notice in reading.notices if "gives the label away" in notice]
    assert [notice.split("'")[1] for notice in told] == ["score", "status"]
    assert "only known after the outcome, list it under drop" in told[0]


def test_a_column_that_only_positives_have_is_named_whether_it_is_kept_or_not(path):
    """A time of the outcome, in the form of a click log: 5 % positive, no id."""
    positive = {n for n in range(400) if n % 20 == 7}
    rows = [
        f"{n % 9},2024-01-{n % 28 + 1:02} {n // 60:02}:{n % 60:02}:{n % 59:02},"
        + (f"2024-02-{n % 28 + 1:02} 07:{n % 60:02}:{n % 59:02},1" if n in positive else ",0")
        for n in range(400)
    ]
    write(path, "channel,clicked,installed,y\n" + "\n".join([*rows, rows[0]]) + "\n")
    for options, kept in (({}, False), ({"categorical": ("installed",)}, True)):
        reading = read(path, id_column=ROW_NUMBER, **options)
        assert reading.giveaways == ("installed",)
        assert ("installed" in reading.table.features.columns) == kept
        (told,) = [notice for notice in reading.notices if "'installed'" in notice]
        assert "is filled in 100.0% of the positive rows and in 0.0% of the negative rows" in told
        assert ("It is left out, because 20 different texts in 20 rows" in told) != kept
        assert ("list it under drop" in told) == kept
        (clicked,) = [notice for notice in reading.notices if "'clicked'" in notice]
        assert "left out, because 400 different texts in 401 rows" in clicked
        assert "look like dates and times, such as '2024-01-01 00:00:00'" in clicked


def test_a_moment_that_parquet_stores_gives_the_label_away_too(tmp_path):
    positive = [n % 20 == 7 for n in range(400)]
    times = [n if told else None for n, told in enumerate(positive)]
    frame = pl.DataFrame({"n": [n % 7 for n in range(400)], "y": [int(one) for one in positive]})
    frame = frame.with_columns(installed=pl.Series(times).cast(pl.Datetime("us")))
    frame.write_parquet(tmp_path / "log.parquet")
    reading = read(tmp_path / "log.parquet", id_column=ROW_NUMBER)
    assert reading.giveaways == ("installed",)
    (told,) = [notice for notice in reading.notices if "'installed'" in notice]
    assert "is filled in 100.0% of the positive rows" in told
    assert "It is left out, because Datetime" in told


def test_numbers_with_a_comma_are_answered_with_the_key_that_reads_them(path):
    rows = "".join(f"k{n};{n + 168},{n % 90 + 10};{n % 4},5;{n % 3}%\n" for n in range(60))
    write(path, "client;amount;rate;share\n" + rows)
    reading = read(path, OTHER)
    told = {notice.split("'")[1]: notice for notice in reading.notices}
    for name in ("amount", "rate"):
        assert "look like numbers with a decimal comma" in told[name]
        assert "Set decimal to ','." in told[name]
        assert "categorical" not in told[name]
    assert "look like numbers with a percent sign, such as '0%'" in told["share"]
    with pytest.raises(DataError, match=r"'rate': must hold numbers.*Set decimal to ','"):
        read(path, OTHER, numeric=("rate",))
    read_well = read(path, OTHER, decimal=",").table.features
    assert read_well["amount"].to_list()[:2] == [168.1, 169.11]
    assert read_well["rate"].to_list()[:2] == [0.5, 1.5]


def test_forty_empty_columns_take_one_line(path):
    names = ",".join(f"e{n}" for n in range(40))
    rows = "".join(f"k{n},{n * 1.5}{',' * 40}\n" for n in range(30))
    reading = read(write(path, f"client,x,{names}\n{rows}"), OTHER)
    (line,) = reading.notices
    assert line.startswith("non-label party, bank.csv: columns 'e0', 'e1', ")
    assert line.endswith("and 28 more: left out, because all of their cells are empty.")


def test_ids_that_follow_the_label_are_pointed_out(path):
    rows = "".join(f"{i},{i % 7},{int(i >= 50)}\n" for i in range(100))
    reading = read(write(path, "client,n,y\n" + rows))
    assert "column 'client': the ids give the label away, and the peer knows" in reading.notices[-1]
    numbered = read(path, id_column=ROW_NUMBER, keep=("n",))
    assert "label party, bank.csv: the ids give the label away" in numbered.notices[-1]


def test_ids_stored_as_fractions_are_pointed_out(path):
    reading = read(write(path, "client,n,y\n1.0,1,1\n2.0,2,0\n"))
    assert reading.table.ids == ("1.0", "2.0")
    assert "every id is written as a float ('1.0')" in reading.notices[0]


BAD_FILES = {
    "empty": ("", {}, "must hold a table, but is empty"),
    "header only": (HEADER, {}, "has only a header"),
    "no such column": ("Client,age,job,y\n" + ROWS, {}, "'client'. Did you mean 'Client'"),
    "wrong delimiter": (HEADER + ROWS, {"delimiter": ";"}, "falls into one column"),
    "a near delimiter": ("client;age,y\na;1,1\n", {"delimiter": ","}, r"split at ','\."),
    "no header": (ROWS, {}, r"no column is called 'client'.* set header=False"),
    "one label": (HEADER + "a,1,x,1\nb,2,y,1\n", {}, "'y': the label must have two values"),
    "three labels": (HEADER + "a,1,x,1\nb,2,y,0\nc,3,z,2\n", {}, "'y': .* has 3: '0', '1', '2'"),
    "missing label": (HEADER + "a,1,x,1\nb,2,y,\n", {}, "'y': every row .* 1 have none: line 3"),
    "unnamed positive": (HEADER + "a,1,x,good\nb,2,y,bad\n", {}, "'y': .* Set positive to one"),
    "absent positive": (HEADER + ROWS, {"positive": "yes"}, "'y': .* positive value 'yes'"),
    "nan": (HEADER + "a,nan,x,1\nb,2,y,0\n", {}, "'age': numbers must be finite.* line 2 holds"),
    "infinity": (HEADER + "a,1,x,1\nb,-inf,y,0\n", {}, "'age': .* line 3 holds '-inf'"),
    "text": (
        HEADER + "a,1,x,1\nb,old,y,0\n",
        {"numeric": ("age",)},
        "'age': .* line 3 holds 'old'",
    ),
    "encoding": (HEADER.encode() + b"a,1,M\xfcller,1\n", {}, "line 2 holds the byte 0xFC"),
    "truncated": (gzip.compress(os.urandom(900))[:500], {}, "gzip file must be complete"),
    "parquet": (b"PAR1" + b"x" * 30, {}, "a Parquet file must end with PAR1"),
    "ragged": (HEADER + "a,1,x,1\nb,2,0\n", {}, "must have 4 fields, but line 3 has 3"),
    "long row": (HEADER + "a,1,x,1\nb,2,y,0,0\n", {}, "must have 4 fields, but line 3 has 5"),
    "same names": ("client,age,age,y\na,1,2,1\n", {}, "'age' stands in the header more than once"),
    "empty id": (HEADER + "a,1,x,1\n ,2,y,0\n", {}, "'client': every row .* have none: line 3"),
    "repeated id": (HEADER + "a,1,x,1\n a,2,y,0\n", {}, "'client': ids must be unique, .* 'a'"),
    "unclosed quote": (HEADER + 'a,1,"x,1\nb,2,y,0\n', {}, "begins on line 2 reaches over the end"),
    "binary": (b"client,y\n\x00\x01\x02,1\n", {}, "line 2 holds a zero byte"),
}


@pytest.mark.parametrize(("content", "options", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_gives_one_clear_message(path, content, options, words):
    with pytest.raises(DataError, match=words) as caught:
        read(write(path, content), **options)
    message = str(caught.value)
    assert message.startswith(f"label party, file {path}")
    assert "\n" not in message
    assert message.endswith(".")


def test_a_path_that_leads_to_no_file(tmp_path):
    write(tmp_path / "bank.csv", HEADER + ROWS)
    with pytest.raises(
        DataError, match=r"bnak.csv: does not exist in .*\. Did you mean 'bank.csv'\?"
    ):
        read(tmp_path / "bnak.csv")
    with pytest.raises(DataError, match=r"does not exist in .*\. Mend the path\."):
        read(tmp_path / "other.parquet")
    with pytest.raises(DataError, match="does not exist, nor does the folder"):
        read(tmp_path / "none" / "bank.csv")
    with pytest.raises(DataError, match="must be one file, but is a folder"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="must be a regular file"):
        read(tmp_path / "pipe")


def test_the_home_folder_is_understood(monkeypatch, path):
    monkeypatch.setenv("HOME", str(path.parent))
    write(path, HEADER + ROWS)
    assert len(read("~/bank.csv").table) == 3


def test_the_non_label_party_needs_a_feature(path):
    write(path, "client,job\n" + "".join(f"{i},same\n" for i in range(3)))
    with pytest.raises(DataError, match=r"none is left.* Notices: .*hold 'same'") as caught:
        read(path, OTHER)
    assert str(caught.value).startswith(f"non-label party, file {path}")
    for options in ({"drop": ("*",)}, {"drop": ("*",), "id_column": ROW_NUMBER}):
        with pytest.raises(DataError, match=r"the options leave none. Look at keep and drop"):
            read(path, OTHER, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": "PAY_*"}, r"keep must be a list of texts, got the text 'PAY_\*'"),
        ({"missing": "?"}, "missing must be a list"),
        ({"delimiter": ";;"}, "delimiter must be one ASCII sign"),
        ({"delimiter": ""}, "delimiter must be one ASCII sign"),
        ({"delimiter": "\n"}, "delimiter must be one"),
        ({"quote": "«"}, "quote must be one ASCII sign"),
        ({"quote": ",", "delimiter": ","}, "delimiter and quote must differ"),
        ({"encoding": "utf-16"}, "encoding must be one of 'utf-8', 'latin-1', 'windows-1252'"),
        ({"decimal": "·"}, "decimal must be one of"),
        ({"negative": "others"}, "negative must be one of None, 'rest'"),
        ({"negative": "rest"}, "negative='rest' needs positive"),
        ({"label_column": None, "positive": 1}, "need a label_column"),
        ({"label_column": "client"}, "must differ, got 'client', 'client'"),
        ({"group_column": "y"}, "must differ, got 'client', 'y', 'y'"),
        ({"column_names": ("a", "b")}, "set header=False"),
        ({"column_names": ("a", "a"), "header": False}, "column_names must differ"),
    ],
)
def test_an_option_that_breaks_its_rule(options, words):
    with pytest.raises(ConfigurationError, match=words):
        TableFile(Path("bank.csv"), "client", **{"label_column": "y", **options})


def test_who_names_a_label(path):
    write(path, HEADER + ROWS)
    with pytest.raises(ConfigurationError, match=r"^label party, .* label_column must name"):
        TableFile(path, "client").read(LABEL)
    with pytest.raises(ConfigurationError, match=r"^non-label party, .* only the label party"):
        TableFile(path, "client", label_column="y").read(OTHER)


def test_lists_from_a_configuration_become_tuples():
    file = TableFile("bank.csv", "client", keep=["a"], missing=["?"])
    assert file == TableFile(Path("bank.csv"), "client", keep=("a",), missing=("?",))
    assert hash(file)


def test_damage_of_any_kind_is_one_of_our_errors(tmp_path):
    """Bytes changed, added and taken at random; whatever happens, nothing foreign comes out."""
    whole = (HEADER + "".join(f'{i},{i}.5,"a, {i % 3}",{i % 2}\n' for i in range(40))).encode()
    signs = b',;"\n\r\t |0a\x00\xff\xc3'
    draw = np.random.default_rng(5)
    read_well = 0
    for _ in range(300):
        data = bytearray(draw.choice([whole, gzip.compress(whole)], p=[0.9, 0.1]))
        for _ in range(draw.integers(1, 4)):
            place = int(draw.integers(len(data)))
            sign = bytes([signs[draw.integers(len(signs))]])
            data[place : place + int(draw.integers(3))] = sign * int(draw.integers(2))
        try:
            read(write(tmp_path / "bank.csv", bytes(data)))
            read_well += 1
        except DataError as error:
            assert str(error).startswith("label party, file ")  # noqa: PT017
    assert 0 < read_well < 300
