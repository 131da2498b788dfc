from datetime import date, datetime, time, timedelta
from decimal import Decimal

import polars as pl
import pytest

from cutlayer.data.encoding import Encoder
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.data.tables.parquet_table import ParquetTable, is_parquet
from cutlayer.data.tables.table_file import TableFile
from cutlayer.errors import DataError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


def written(path, **columns):
    pl.DataFrame(columns).write_parquet(path)
    return path


def message(path):
    return FileMessage("non-label party", path)


def read(path, **options):
    return TableFile(path, "id", **options).read("non-label party")


def test_each_column_comes_whole_and_alone(path):
    table = ParquetTable(written(path, a=[1, 2], **{"^b$": ["x", None]}), message(path))
    assert table.names == ("a", "^b$")
    batches = list(table.batches(("^b$", "a")))
    assert [batch.frame.to_dict(as_series=False) for batch in batches] == [
        {"^b$": ["x", None]},
        {"a": [1, 2]},
    ]
    assert batches[0].place_of(1) == "row 2"


def test_stored_kinds_are_understood(path):
    columns = {
        "id": [7, 8, 9],
        "float": [0.5, None, 2.0],
        "whole": [1.0, 2.0, None],
        "int": pl.Series([300, 1, 1], dtype=pl.Int64),
        "unsigned": pl.Series([2**63, 1, 1], dtype=pl.UInt64),
        "decimal": pl.Series(["1.25", "3.00", "0.10"]).str.to_decimal(scale=2),
        "text": ["1", "x", "?"],
        "numbers": ["1", " 2", None],
        "enum": pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"])),
        "bool": [True, None, False],
    }
    table = read(written(path, **columns), missing=("?",)).table
    assert table.ids == ("7", "8", "9")
    texts = table.features.with_columns(pl.col(pl.Categorical).cast(pl.String))
    assert texts.to_dict(as_series=False) == {
        "float": [0.5, None, 2.0],
        "whole": [1, 2, None],
        "int": [300, 1, 1],
        "unsigned": [2**63, 1, 1],
        "decimal": [1.25, 3.0, 0.1],
        "text": ["1", "x", None],
        "numbers": [1, 2, None],
        "enum": ["a", "b", "a"],
        "bool": ["true", None, "false"],
    }
    assert Encoder.fit(table, min_count=1).encode(table).isfinite().all()


def test_kinds_may_be_overruled(path):
    columns = {"id": ["a", "b", "c"], "code": [1.0, None, 2.0], "flag": [True, None, False]}
    features = read(
        written(path, **columns), categorical=("code",), numeric=("flag",)
    ).table.features
    assert features["code"].cast(pl.String).to_list() == ["1", None, "2"]
    assert features["flag"].to_list() == [1, None, 0]


def test_other_kinds_are_left_out_and_told(path):
    columns = {"id": ["a", "b"], "n": [1, 3], "day": [date(2024, 1, 2)] * 2, "jpeg": [b"x", b"y"]}
    reading = read(written(path, **columns))
    assert reading.table.features.columns == ["n"]
    assert "column 'day': left out, because Date values are neither" in reading.notices[0]
    assert "column 'jpeg': left out, because Binary values" in reading.notices[1]
    with pytest.raises(DataError, match=r"column 'day': must hold numbers, .* but holds Date"):
        read(path, numeric=("day",))


def test_nan_and_infinity_are_located(path):
    written(path, id=["a", "b", "c"], n=[1.0, float("nan"), float("inf")])
    with pytest.raises(
        DataError, match=r"column 'n': .* but row 2 holds 'NaN' \(and 1 more cells\)"
    ):
        read(path)
    assert read(path, missing=("NaN", "inf"), drop=()).table.features["n"].null_count() == 2


def test_fractions_are_no_ids(path):
    written(path, id=[1.0, 2.0], n=[1, 3])
    assert read(path).table.ids == ("1", "2")
    for ids in ([1.5, 2.0], [2.0**60, 1.0]):
        with pytest.raises(DataError, match="column 'id': must hold texts or whole numbers below"):
            read(written(path, id=ids, n=[1, 3]))


NAMES = {
    "date": ([date(2024, 1, 1), date(2024, 1, 2)], ("2024-01-01", "2024-01-02")),
    "time": ([time(1, 2, 3), time(4)], ("01:02:03", "04:00:00")),
    "enum": (pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])), ("b", "a")),
    "categories": (pl.Series(["b", "a"], dtype=pl.Categorical), ("b", "a")),
    "truth values": ([True, False], ("true", "false")),
    "decimal": ([Decimal("1.50"), Decimal("2.25")], ("1.5", "2.25")),
    "unsigned": (pl.Series([2**64 - 1, 1], dtype=pl.UInt64), ("18446744073709551615", "1")),
    "wide": (pl.Series([2**100, 1], dtype=pl.Int128), (str(2**100), "1")),
    "float32": (pl.Series([2.0**24 - 1, 1], dtype=pl.Float32), ("16777215", "1")),
}
NO_NAMES = {
    "duration": ([timedelta(1), timedelta(2)], "Duration"),
    "bytes": ([b"a", b"b"], "Binary"),
    "list": ([[1], [2]], "List"),
    "array": (pl.Series([[1], [2]], dtype=pl.Array(pl.Int8, 1)), "Array"),
    "structure": ([{"a": 1}, {"a": 2}], "Struct"),
}


@pytest.mark.parametrize("kind", NAMES)
def test_kinds_that_can_name_a_record(path, kind):
    values, texts = NAMES[kind]
    written(path, id=values, n=[1.5, 2.5])
    assert read(path).table.ids == texts
    grouped = TableFile(path, "n", group_column="id")
    written(path, id=values, n=["x", "y"], m=[1.5, 2.5])
    assert grouped.read("non-label party").table.groups == texts
    labelled = TableFile(path, "n", label_column="id", positive=texts[0])
    assert labelled.read("label party").table.labels.tolist() == [1, 0]


def test_moments_name_records_too(path):
    moments = pl.Series([datetime(2024, 1, 2, 3), datetime(2024, 1, 2, 4)])
    for kind in (
        moments,
        moments.dt.replace_time_zone("Europe/Berlin"),
        moments.cast(pl.Datetime("ns")),
    ):
        ids = read(written(path, id=kind, n=[1.5, 2.5])).table.ids
        assert [text[:16] for text in ids] == ["2024-01-02 03:00", "2024-01-02 04:00"]


@pytest.mark.parametrize("kind", NO_NAMES)
def test_kinds_that_can_name_no_record(path, kind):
    values, called = NO_NAMES[kind]
    written(path, k=values, id=["a", "b"], y=[1, 0], n=[1.5, 2.5])
    for roles in (
        {"id_column": "k", "label_column": "y"},
        {"id_column": "id", "label_column": "k"},
    ):
        with pytest.raises(DataError, match=rf"column 'k': must hold texts or numbers.* {called}"):
            TableFile(path, **roles).read("label party")
    with pytest.raises(DataError, match=rf"column 'k': must hold texts or numbers.* {called}"):
        TableFile(path, "id", group_column="k", label_column="y").read("label party")
    with pytest.raises(DataError, match=rf"column 'k': must hold texts or numbers.* {called}"):
        TableFile(path, "k").read_ids("non-label party")
    reading = read(path)
    assert "k" not in reading.table.features.columns
    assert any("column 'k': left out" in notice for notice in reading.notices)


def test_a_column_of_nothing_names_no_record(path):
    written(path, id=pl.Series([None, None]), n=[1.5, 2.5])
    with pytest.raises(DataError, match="column 'id': every row must have a value"):
        read(path)


def test_whole_numbers_that_float32_cannot_tell_apart_are_no_ids(path):
    ids = pl.Series([2.0**24, 2.0**24 + 1], dtype=pl.Float32)  # one number, twice
    with pytest.raises(DataError, match=r"whole numbers below 2\*\*24, but row 1"):
        read(written(path, id=ids, n=[1.5, 2.5]))


def test_decimals_of_76_digits_are_named_and_can_be_dropped(path):
    decimals = pl.Series([Decimal("1.25"), Decimal(2)], dtype=pl.Decimal(38, 2))
    data = written(path, id=["x", "y"], a=[1, 5], d=decimals).read_bytes()
    # Polars writes no decimal256, so its type is put into the footer: in thrift's compact form a
    # field of 16 bytes becomes one of 21, and a precision of 38 one of 50.
    for old, new in (
        (b"\x15\x20\x15\x02\x18\x01d", b"\x15\x2a\x15\x02\x18\x01d"),
        (b"\x15\x04\x15\x4c", b"\x15\x04\x15\x64"),
    ):
        assert old in data
        data = data.replace(old, new)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"column 'd': .* decimal\(50, 2\).* under drop"):
        read(path)
    assert read(path, drop=("d",)).table.features.columns == ["a"]
    with pytest.raises(DataError, match="column 'd'"):
        TableFile(path, "d").read_ids("non-label party")


def test_a_gap_is_located_by_row(path):
    with pytest.raises(DataError, match=r"column 'id': every row must have a value, .* row 2"):
        read(written(path, id=["a", None], n=[1, 3]))


def test_what_only_claims_to_be_parquet(tmp_path):
    named = tmp_path / "table.parquet"
    named.write_text("id,n\n1,2\n")
    with pytest.raises(DataError, match=r"must begin with PAR1, but this one begins with b'id,n'"):
        read(named)
    whole = written(named, id=["a", "b"], n=[1, 3]).read_bytes()
    named.write_bytes(whole[:-10])
    with pytest.raises(DataError, match=r"must end with PAR1.* cut off"):
        read(named)
    named.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="must end with PAR1"):
        read(named)
    named.write_bytes(whole[:4] + bytes(40) + whole[44:-30] + bytes(22) + whole[-8:])
    with pytest.raises(DataError, match="must be a whole Parquet file, but: "):
        read(named)


def test_damaged_data_behind_a_good_footer(path):
    whole = bytearray(written(path, id=["a", "b"] * 500, n=range(1000)).read_bytes())
    whole[4:60] = bytes(56)
    path.write_bytes(whole)
    with pytest.raises(DataError, match="must be a whole Parquet file, but: "):
        read(path)


def test_a_panic_of_polars_is_told_as_damage(path, monkeypatch):
    written(path, id=["a"], n=[1])

    def panic(*args, **options):
        raise pl.exceptions.PanicException("invalid num_bits 38")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(DataError, match="must be a whole Parquet file, but: invalid num_bits 38"):
        read(path)


def test_no_rows_and_no_file(path):
    with pytest.raises(DataError, match="must hold rows, but has none"):
        read(written(path, id=[], n=[]))
    with pytest.raises(DataError, match="must be readable"):
        is_parquet(path / "x", message(path))


def test_options_of_texts_do_not_fit(path):
    written(path, id=["a"], n=[1])
    for options in ({"delimiter": ","}, {"header": False}):
        with pytest.raises(DataError, match="is Parquet, which has names"):
            read(path, **options)
