"""Raw click logs and tables to shards: values by hand, dirt, resumption."""

import csv
import gzip
import io
import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from cutlayer.data import Split
from cutlayer.data.prepared import PreparedData
from cutlayer.errors import ConfigurationError, DataError, StorageError
from cutlayer.preparation import (
    SplitOptions,
    TableColumns,
    TableOptions,
    avazu,
    criteo,
    prepare_table,
    table,
)

SAMPLE = Path(__file__).parents[3] / "shared/data/criteo-1tb-1k/criteo_1tb_1000.tsv.gz"
ALL_TRAIN = SplitOptions(validation=0, test=0)
AVAZU_HEADER = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,"
    "app_category,device_id,device_ip,device_model,device_type,device_conn_type,"
    "C14,C15,C16,C17,C18,C19,C20,C21"
)


def criteo_line(label="0", numbers=(), categories=()):
    """A line of 40 fields; what is not given is empty."""
    cells = [label, *map(str, numbers)]
    cells += [""] * (14 - len(cells))
    cells += list(categories)
    return "\t".join(cells + [""] * (40 - len(cells))) + "\n"


def prepared(raw, out, **options):
    return prepare_table(raw, out, TableOptions(**options))


def shards(out, party):
    return pl.concat(
        [pl.read_parquet(path) for path in sorted((out / party).glob("part-*.parquet"))]
    )


def rejects(out):
    with (out / "rejects.csv").open(newline="") as file:
        return [(int(row["line"]), row["reason"]) for row in csv.DictReader(file)]


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_criteo_by_hand(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(
        criteo_line("1", [2, -3], ["68fd1e64", "80e26c9b"])
        + criteo_line("0", ["", 1], ["68fd1e64", ""])
        + criteo_line("0", [10, 5], ["", "80e26c9b"])
    )
    made = prepared(criteo(path), tmp_path / "out", split=ALL_TRAIN, min_count=2)
    assert (made.rows, made.rejected) == (3, 0)
    assert made.parts == {"train": 3, "validation": 0, "test": 0}
    label_party = shards(tmp_path / "out", "label_party")
    assert label_party.columns == ["id", "part", "label", *(f"I{i}" for i in range(1, 14))]
    assert label_party["id"].to_list() == ["0000000001", "0000000002", "0000000003"]
    assert label_party["label"].to_list() == [1, 0, 0]
    # I1 is 2, missing = 0, 10: between 0 and 10. I2 is -3, 1, 5: between -3 and 5.
    assert label_party["I1"].to_list() == pytest.approx([0.2, 0.0, 1.0])
    assert label_party["I2"].to_list() == [0.0, 0.5, 1.0]
    assert label_party["I3"].to_list() == [0.0, 0.0, 0.0]
    assert label_party["I1"].dtype == pl.Float32
    other = shards(tmp_path / "out", "non_label_party")
    assert other.columns == ["id", "part", *(f"C{i}" for i in range(1, 27))]
    assert other["C1"].to_list() == [1, 1, 0]  # the missing one occurs once, below min_count
    assert other["C2"].to_list() == [1, 0, 1]
    assert other["C3"].to_list() == [1, 1, 1]  # missing three times
    assert other["C1"].dtype == pl.Int32
    words = pl.read_parquet(tmp_path / "out/non_label_party/vocabulary.parquet")
    assert words.filter(pl.col("column") == "C1").rows() == [("C1", "68fd1e64", 1, 2)]


def test_every_kind_of_dirt_is_counted_named_and_left_out(tmp_path):
    path = tmp_path / "train.txt"
    good = criteo_line("1", [1], ["68fd1e64"]).encode()
    dirty = {
        2: (criteo_line("2").encode(), "the label is none of the values it may have"),
        3: (criteo_line("").encode(), "the label is none of the values it may have"),
        4: (b"1\t2\n", "has 2 fields, not 40"),
        5: (good.replace(b"\n", b"\t\n"), "has 41 fields, not 40"),
        6: (b"\n", "blank line"),
        7: (good.replace(b"68fd1e64", b"68fd1e6\xff"), "is no UTF-8 text"),
        8: (criteo_line("0", [1.5]).encode(), "column 'I1' is not a whole number"),
        9: (criteo_line("0", ["x"]).encode(), "column 'I1' is not a whole number"),
        10: (
            criteo_line("0", [], ["68fd1e6"]).encode(),
            "column 'C1' has not 8 hexadecimal digits",
        ),
        11: (
            criteo_line("0", [], ["68fd1e6g"]).encode(),
            "column 'C1' has not 8 hexadecimal digits",
        ),
        12: (good.replace(b"68fd1e64", b"68fd\0e64"), "holds a zero byte"),
        13: (criteo_line("true").encode(), "the label is none of the values it may have"),
    }
    last = criteo_line("0").encode()
    path.write_bytes(good + b"".join(line for line, _ in dirty.values()) + last)
    with pytest.raises(DataError, match=r"12 of 14 are\. First: line 2: the label"):
        prepared(criteo(path), tmp_path / "strict", max_rejects=0.5, split=ALL_TRAIN)
    made = prepared(criteo(path), tmp_path / "out", max_rejects=1, split=ALL_TRAIN)
    assert (made.rows, made.rejected) == (2, 12)
    assert rejects(tmp_path / "out") == [(line, why) for line, (_, why) in dirty.items()]
    assert shards(tmp_path / "out", "label_party")["id"].to_list() == ["0000000001", "0000000014"]


def test_more_rejects_may_be_allowed_after_the_fact(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(criteo_line() * 8 + criteo_line("1") + "\n")
    with pytest.raises(
        DataError, match=r"at most 0\.01 of the rows may be dirty, but 1 of 10 are"
    ) as error:
        prepared(criteo(path), tmp_path / "out", split=ALL_TRAIN)
    assert not (tmp_path / "out").exists()
    listing = tmp_path / "out.partial/rejects.csv"
    assert f"All up to there are listed in {listing}." in str(error.value)
    assert rejects(tmp_path / "out.partial") == [(10, "blank line")]
    assert prepared(criteo(path), tmp_path / "out", split=ALL_TRAIN, max_rejects=0.1).rows == 9
    assert not (tmp_path / "out.partial").exists()


def test_a_run_that_stops_lists_the_rejects_of_finished_shards_too(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("dirt\n" + criteo_line() * 9 + "\n")
    small = {"shard_rows": 4, "block_bytes": 200, "split": ALL_TRAIN, "vocabulary": "hashed"}
    for _ in range(2):  # the second goes on behind the finished shards
        with pytest.raises(DataError, match=r"2 of 11 are\..* in .*out\.partial/rejects\.csv"):
            prepared(criteo(path), tmp_path / "out", numbers="as-is", max_rejects=0.1, **small)
        assert list((tmp_path / "out.partial/work").glob("shard-*.json"))
        dirt = [(1, "has 1 fields, not 40"), (11, "blank line")]
        assert rejects(tmp_path / "out.partial") == dirt


def test_a_wrong_format_is_seen_before_the_whole_file_is_read(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("a,b\n" * 40_000)
    seen = []

    def progress(stage, *, rows, done, total):
        seen.append(rows)

    with pytest.raises(DataError, match="Check that this is the format"):
        prepare_table(criteo(path), tmp_path / "o", TableOptions(block_bytes=1 << 14), progress)
    assert max(seen) < 20_000


def test_statistics_and_vocabulary_come_from_training_rows_only(tmp_path):
    path = tmp_path / "train.txt"
    ids = [f"{row:010d}" for row in range(1, 401)]
    split = Split.by_shares(ids, seed=5, validation=0.1, test=0.2)
    part = dict.fromkeys(split.train.tolist(), "train")
    part |= dict.fromkeys(split.validation.tolist(), "validation")
    part |= dict.fromkeys(split.test.tolist(), "test")
    # Rows that do not train hold larger numbers and a word of their own.
    lines = [
        criteo_line(str(row % 2), [row % 7], ["00000001"])
        if part[row] == "train"
        else criteo_line("0", [100], ["00000002"])
        for row in range(400)
    ]
    path.write_text("".join(lines))
    prepared(criteo(path), tmp_path / "out", split=SplitOptions(seed=5))
    label_party = shards(tmp_path / "out", "label_party")
    assert label_party["part"].to_list() == [part[row] for row in range(400)]
    expected = [row % 7 / 6 if part[row] == "train" else 100 / 6 for row in range(400)]
    assert label_party["I1"].to_list() == pytest.approx(expected)
    codes = shards(tmp_path / "out", "non_label_party")["C1"].to_list()
    assert codes == [1 if part[row] == "train" else 0 for row in range(400)]


def test_folds_in_place_of_shares(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text((criteo_line() + criteo_line("1")) * 100)
    prepared(criteo(path), tmp_path / "out", split=SplitOptions(seed=1, folds=4, test_fold=2))
    frame = shards(tmp_path / "out", "label_party")
    split = Split.by_fold(frame["id"].to_list(), seed=1, folds=4, test_fold=2)
    assert [row for row, part in enumerate(frame["part"]) if part == "test"] == split.test.tolist()
    assert set(frame["part"]) == {"train", "test"}


def test_no_row_that_trains_is_an_error(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(criteo_line())
    with pytest.raises(DataError, match="none of 1 trains"):
        prepared(criteo(path), tmp_path / "out", split=SplitOptions(validation=0, test=0.999))


@pytest.mark.skipif(not SAMPLE.exists(), reason="../shared/data/criteo-1tb-1k is not here")
@pytest.mark.parametrize("numbers", ["min-max", "log"])
def test_the_real_sample_equals_a_plain_loop(tmp_path, numbers):
    made = prepared(criteo(SAMPLE), tmp_path / "out", numbers=numbers, min_count=5)
    assert (made.rows, made.rejected) == (1000, 0)
    rows = [line.split("\t") for line in gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()]
    label_party = shards(tmp_path / "out", "label_party")
    other = shards(tmp_path / "out", "non_label_party")
    assert label_party["label"].to_list() == [int(row[0]) for row in rows]
    assert label_party["label"].sum() == 21
    train = [place for place, part in enumerate(other["part"]) if part == "train"]
    for column in range(1, 14):
        values = [float(row[column] or 0) for row in rows]
        if numbers == "log":
            values = [math.copysign(math.log1p(abs(value)), value) for value in values]
        known = [values[place] for place in train]
        low, width = min(known), max(known) - min(known)
        if numbers == "log":
            low = sum(known) / len(known)
            width = math.sqrt(sum((value - low) ** 2 for value in known) / len(known))
        expected = [(value - low) / width for value in values]
        assert label_party[f"I{column}"].to_list() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    for column in range(1, 27):
        cells = [row[13 + column] or None for row in rows]
        times = Counter(cells[place] for place in train)
        frequent = sorted(
            (word for word, n in times.items() if n >= 5),
            key=lambda word: (-times[word], word is not None, word or ""),
        )
        code = {word: place for place, word in enumerate(frequent, start=1)}
        assert other[f"C{column}"].to_list() == [code.get(cell, 0) for cell in cells]


def test_200_000_rows_in_criteo_format(tmp_path, benchmark_module):
    path = tmp_path / "train.txt"
    benchmark_module.write(path, 200_000)
    made = prepared(criteo(path), tmp_path / "out", shard_rows=60_000)
    assert (made.rows, made.rejected) == (200_000, 0)
    schema = json.loads((tmp_path / "out/schema.json").read_text())
    assert sum(schema["shards"]) == 200_000
    assert len(schema["shards"]) == 3 or len(schema["shards"]) == 4
    drawn = benchmark_module.drawn(0, 200_000)
    label_party = shards(tmp_path / "out", "label_party")
    assert label_party["label"].to_list() == drawn["label"].to_list()
    for share, part in ((0.7, "train"), (0.1, "validation"), (0.2, "test")):
        deviation = math.sqrt(share * (1 - share) / 200_000)
        assert abs(made.parts[part] / 200_000 - share) < 5 * deviation
    train = label_party["part"] == "train"
    for column in ("C1", "C5", "C12"):
        times = drawn[column].filter(train).alias("v").value_counts()
        frequent = times.filter(pl.col("count") >= 10).height
        sizes = schema["parties"]["non-label party"]["categories"]
        assert sizes[column] == frequent + 1
        codes = shards(tmp_path / "out", "non_label_party")[column]
        assert codes.max() == frequent
        pairs = pl.DataFrame({"v": drawn[column], "code": codes}).filter(pl.col("code") > 0)
        assert pairs.unique().height == frequent  # one code for each word and back


def avazu_rows(rows):
    lines = [AVAZU_HEADER]
    for row in range(rows):
        cells = [str(10**19 + row), str(int(row % 5 == 0)), f"141021{row % 24:02d}"]
        cells += [f"v{row % 3}"] * 21
        lines.append(",".join(cells))
    return lines


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_avazu_with_ids_beyond_64_bits(tmp_path, pack):
    path = tmp_path / "train"
    lines = avazu_rows(60)
    lines.insert(3, lines[2].replace(",141021", ",141341"))  # there is no month 13
    path.write_bytes(pack(("\n".join(lines) + "\n").encode()))
    made = prepared(avazu(path), tmp_path / "out", split=ALL_TRAIN, min_count=1, max_rejects=0.05)
    assert (made.rows, made.rejected) == (60, 1)
    assert rejects(tmp_path / "out") == [(4, "column 'hour' is not a time YYMMDDHH")]
    label_party = shards(tmp_path / "out", "label_party")
    assert label_party["id"].to_list() == [str(10**19 + row) for row in range(60)]
    assert label_party["label"].to_list() == [int(row % 5 == 0) for row in range(60)]
    features = [name for name in AVAZU_HEADER.split(",") if name not in ("id", "click", "hour")]
    site = [name for name in features if name.startswith(("site", "app", "banner"))]
    assert label_party.columns == [
        "id",
        "part",
        "label",
        "weekday",
        "hour",
        *sorted(site, key=features.index),
    ]
    other = shards(tmp_path / "out", "non_label_party")
    assert other.columns == ["id", "part", *[name for name in features if name not in site]]
    words = pl.read_parquet(tmp_path / "out/label_party/vocabulary.parquet")
    # 21 October 2014 was a Tuesday.
    assert words.filter(pl.col("column") == "weekday")["value"].to_list() == ["2"]
    hours = words.filter(pl.col("column") == "hour")["value"].sort().to_list()
    assert hours == [f"{hour:02d}" for hour in range(24)]


def test_avazu_needs_its_header(tmp_path):
    path = tmp_path / "train"
    path.write_text("id,click,hour\n1,0,14102100\n")
    with pytest.raises(DataError, match=r"'C1', 'banner_pos', 'site_id' and 18 more is not in"):
        avazu(path)


def test_hashing_needs_one_pass(tmp_path):
    path = tmp_path / "train"
    path.write_text("\n".join(avazu_rows(30)))
    stages = set()

    def progress(stage, *, rows, done, total):
        stages.add(stage)

    options = TableOptions(vocabulary="hashed", hash_bits=12, numbers="as-is")
    prepare_table(avazu(path), tmp_path / "out", options, progress)
    assert stages == {"writing"}
    other = shards(tmp_path / "out", "non_label_party")
    assert other["device_ip"].n_unique() == 3
    assert other["device_ip"].max() < 4096
    assert not (tmp_path / "out/non_label_party/vocabulary.parquet").exists()


TABLE = (
    'who;age;job;note;y\na;31;clerk;"x; y";yes\nb;;farmer;;no\nc;1e2;clerk;?;yes\nd;4;;z;maybe\n'
)


def test_any_table(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text(TABLE)
    columns = TableColumns("y", "who", label_party=("a*",), drop=("note",))
    raw = table(path, columns)
    made = prepared(
        raw, tmp_path / "out", split=ALL_TRAIN, min_count=1, max_rejects=0.25, numbers="as-is"
    )
    assert (made.rows, made.rejected) == (3, 1)
    assert rejects(tmp_path / "out") == [(5, "the label is none of the values it may have")]
    label_party = shards(tmp_path / "out", "label_party")
    assert label_party.drop("part").rows() == [("a", 1, 31.0), ("b", 0, 0.0), ("c", 1, 100.0)]
    other = shards(tmp_path / "out", "non_label_party")
    assert other.drop("part").rows() == [("a", 1), ("b", 2), ("c", 1)]


def test_a_table_in_parquet_with_a_positive_value(tmp_path):
    path = tmp_path / "bank.parquet"
    pl.DataFrame({"age": [3, 4, None], "job": ["a", "b", "?"], "y": ["x", "y", "z"]}).write_parquet(
        path
    )
    raw = table(path, TableColumns("y", positive="x", missing=("?",)))
    prepared(raw, tmp_path / "out", split=ALL_TRAIN, min_count=1)
    label_party = shards(tmp_path / "out", "label_party")
    assert label_party.drop("part").rows() == [
        ("0000000001", 1),
        ("0000000002", 0),
        ("0000000003", 0),
    ]
    other = shards(tmp_path / "out", "non_label_party")
    assert other["age"].to_list() == [0.75, 1.0, 0.0]
    assert other.columns == ["id", "part", "age", "job"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label_party": ("*",)}, "must leave a column to the non-label party"),
        ({"label_party": ("zip",)}, "'zip' fits none of the columns"),
        ({"numeric": ("age",), "categorical": ("a*",)}, "cannot be both"),
        ({"drop": ("age", "job", "note")}, "must get a column to learn from"),
    ],
)
def test_wrong_choices_of_columns(tmp_path, columns, message):
    path = tmp_path / "bank.csv"
    path.write_text(TABLE)
    with pytest.raises(ConfigurationError, match=message):
        prepared(table(path, TableColumns("y", "who", **columns)), tmp_path / "out")


def test_a_feature_may_not_take_a_name_of_the_output(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("part,y\n1,0\n")
    with pytest.raises(ConfigurationError, match="No feature may be called 'part'"):
        table(path, TableColumns("y"))
    with pytest.raises(ConfigurationError, match="id and label must differ"):
        table(path, TableColumns("y", "y", drop=("part",)))
    with pytest.raises(DataError, match=r"no column is called 'Y'\. Did you mean 'y'"):
        table(path, TableColumns("Y"))


def test_text_in_a_numeric_column_is_dirt_where_it_was_declared(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("age,y\n1,0\nold,1\nnan,1\n1e40,1\n2,1\n")
    raw = table(path, TableColumns("y", numeric=("age",)))
    prepared(raw, tmp_path / "out", split=ALL_TRAIN, max_rejects=1)
    why = "column 'age' is not a finite number"
    assert rejects(tmp_path / "out") == [(3, why), (4, why), (5, why)]


def test_the_same_command_again_does_nothing_and_another_is_refused(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text((criteo_line() + criteo_line("1")) * 10)
    prepared(criteo(path), tmp_path / "out")
    before = content(tmp_path / "out")
    prepared(criteo(path), tmp_path / "out")
    assert content(tmp_path / "out") == before
    with pytest.raises(ConfigurationError, match="exists and was not made from this file with"):
        prepared(criteo(path), tmp_path / "out", min_count=3)


ZYGOTE = """
import os, signal, sys
from pathlib import Path
from cutlayer.preparation import TableOptions, criteo, prepare_table
sync = os.fsync
def run(path, out, at_sync, stage, rows):
    left = at_sync
    def dying(handle):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(handle)
    def progress(now, *, rows, done, total):
        if now == stage and rows >= at_row:
            os.kill(os.getpid(), signal.SIGKILL)
    at_row, os.fsync = rows, dying
    options = TableOptions(shard_rows=60, block_bytes=6000, min_count=2, max_rejects=0.05)
    prepare_table(criteo(Path(path)), Path(out), options, progress)
for line in sys.stdin:
    path, out, at_sync, stage, rows = line.rstrip("\\n").split("|")
    child = os.fork()
    if child == 0:
        run(path, out, int(at_sync), stage, int(rows))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)
"""


@pytest.fixture(scope="module")
def killed():
    """Run a preparation in a process of its own that is killed at some point: was it?

    The processes are forked off one that has imported everything, since that takes seconds.
    """
    command = [sys.executable, "-W", "ignore", "-c", ZYGOTE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as zygote:

        def run(path, out, *, at_sync=0, stage="", rows=0):
            assert zygote.stdin is not None
            assert zygote.stdout is not None
            zygote.stdin.write(f"{path}|{out}|{at_sync}|{stage}|{rows}\n")
            zygote.stdin.flush()
            return int(zygote.stdout.readline()) == signal.SIGKILL

        yield run


@pytest.fixture(scope="module")
def dirty_log(tmp_path_factory, benchmark_module):
    """400 rows in Criteo's format, four of them dirty, and what undisturbed runs make of them."""
    folder = tmp_path_factory.mktemp("log")
    text = io.BytesIO()
    benchmark_module.drawn(0, 400).write_csv(text, include_header=False, separator="\t")
    lines = text.getvalue().splitlines(keepends=True)
    for row in (0, 17, 250, 399):
        lines[row] = b"x" + lines[row]
    (folder / "train.txt").write_bytes(b"".join(lines))
    (folder / "train.txt.gz").write_bytes(gzip.compress(b"".join(lines), mtime=0))
    options = TableOptions(shard_rows=60, block_bytes=6000, min_count=2, max_rejects=0.05)
    for name in ("train.txt", "train.txt.gz"):
        prepare_table(criteo(folder / name), folder / f"{name}.out", options)
    return folder, options


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
def test_a_run_killed_again_and_again_ends_with_the_same_bytes(tmp_path, dirty_log, killed, name):
    folder, options = dirty_log
    out = tmp_path / "out"
    points = [
        {"at_sync": 1},
        {"stage": "learning", "rows": 200},
        {"at_sync": 5},  # behind the first pass, or within its last file
        {"stage": "writing", "rows": 130},
        {"at_sync": 4},
        {"at_sync": 13},
    ]
    for point in points:
        assert killed(folder / name, out, **point), point
        assert not out.exists()
    prepare_table(criteo(folder / name), out, options)
    assert content(out) == content(folder / f"{name}.out")
    assert not (tmp_path / "out.partial").exists()


def test_a_finished_shard_is_not_written_again_but_a_damaged_one_is(tmp_path, dirty_log, killed):
    folder, options = dirty_log
    out = tmp_path / "out"
    assert killed(folder / "train.txt", out, stage="writing", rows=300)
    staged = sorted((tmp_path / "out.partial/out/label_party").glob("part-*.parquet"))
    assert len(staged) >= 3
    os.utime(staged[0], (1, 1))
    staged[1].write_bytes(b"half")
    prepare_table(criteo(folder / "train.txt"), out, options)
    assert (out / "label_party" / staged[0].name).stat().st_mtime == 1
    assert content(out) == content(folder / "train.txt.out")


def test_partial_output_of_another_plan_or_source_is_refused(tmp_path, dirty_log, killed):
    folder, options = dirty_log
    path, out = tmp_path / "train.txt", tmp_path / "out"
    path.write_bytes((folder / "train.txt").read_bytes())
    assert killed(path, out, stage="writing", rows=100)
    with pytest.raises(
        ConfigurationError, match=r"unfinished output of another run: options differ"
    ):
        prepare_table(criteo(path), out, TableOptions(min_count=3))
    path.write_bytes(path.read_bytes().replace(b"x0", b"x1"))
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(ConfigurationError, match=r"another run: source differ"):
        prepare_table(criteo(path), out, options)


def test_a_file_that_differs_in_its_end_alone_is_another(tmp_path, dirty_log, killed):
    _, options = dirty_log
    path, out = tmp_path / "train.txt", tmp_path / "out"
    whole = (criteo_line("1", [1]) + criteo_line("0", [2])) * 15_000  # over 1 MiB
    path.write_text(whole)
    assert killed(path, out, stage="writing", rows=100)
    path.write_text(whole[: -len("2") - 38] + "3" + whole[-38:])
    assert len(path.read_text()) == len(whole)
    with pytest.raises(ConfigurationError, match=r"another run: source differ"):
        prepare_table(criteo(path), out, options)


def test_a_run_that_was_refused_does_not_block_one_with_better_options(tmp_path):
    path, out = tmp_path / "bank.csv", tmp_path / "out"
    path.write_text("age,job,y\n" + "".join(f"{row},w,{row % 2}\n" for row in range(40)))
    with pytest.raises(DataError, match="40 of 40 are"):
        prepared(table(path, TableColumns("y", numeric=("job",))), out)
    assert (tmp_path / "out.partial").exists()
    assert prepared(table(path, TableColumns("y")), out).rows == 40
    fresh = prepared(table(path, TableColumns("y")), tmp_path / "fresh").folder
    assert content(out) == content(fresh)


@pytest.mark.parametrize("vocabulary", ["exact", "hashed"])
@pytest.mark.parametrize(("label", "kind"), [("0", "negative"), ("1", "positive")])
def test_one_class_is_refused(tmp_path, vocabulary, label, kind):
    path = tmp_path / "train.txt"
    path.write_text(criteo_line(label) * 30)
    with pytest.raises(DataError, match=f"both labels, but all 30 rows are {kind}"):
        prepared(criteo(path), tmp_path / "out", vocabulary=vocabulary)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", [".", "..", "/", "link"])
def test_an_output_that_cannot_be_made_is_refused(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("nowhere")
    Path("train.txt").write_text(criteo_line() + criteo_line("1"))
    with pytest.raises(ConfigurationError, match="--out"):
        prepared(criteo(Path("train.txt")), Path(out), split=ALL_TRAIN)


@pytest.mark.parametrize("out", ["file/x", "x" * 300])
def test_an_output_that_the_system_refuses_is_an_error_of_storage(tmp_path, out):
    (tmp_path / "file").write_text("")
    (tmp_path / "train.txt").write_text(criteo_line() + criteo_line("1"))
    with pytest.raises(StorageError, match="Cannot write"):
        prepared(criteo(tmp_path / "train.txt"), tmp_path / out, split=ALL_TRAIN)


def test_a_full_disk_is_told_and_the_same_command_goes_on(tmp_path):
    # A limit on the size of a file refuses a write as a full disk does.
    (tmp_path / "train.txt").write_text(
        "".join(criteo_line(str(row % 2), [row * 7919]) for row in range(20_000))
    )
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY));"
        "from cutlayer.cli import main;"
        "sys.argv = ['cutlayer', 'prepare', 'criteo', 'train.txt', '--out', 'out']; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", limited], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert "Cannot write" in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not (tmp_path / "out").exists()
    path = tmp_path / "train.txt"
    prepared(criteo(path), tmp_path / "out")
    prepared(criteo(path), tmp_path / "fresh")
    assert content(tmp_path / "out") == content(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a,b,b\n1,2,3\n", r"must have a name of its own, but 'b' stands in the header more than"),
        ("a,b,y\r1,2,0\r", r"must hold rows, but holds none.*line feed"),
        ("a,b,y\n", r"must hold rows, but holds none"),
    ],
)
def test_a_header_that_is_no_header_and_a_file_without_rows(tmp_path, text, part):
    (tmp_path / "t.csv").write_bytes(text.encode())
    with pytest.raises(DataError, match=part):
        prepared(table(tmp_path / "t.csv", TableColumns("y")), tmp_path / "out")


def test_a_delimiter_is_one_sign(tmp_path):
    (tmp_path / "t.csv").write_text("a;;y\n1;;0\n")
    with pytest.raises(ConfigurationError, match="delimiter must be one sign, got ';;'"):
        table(tmp_path / "t.csv", TableColumns("y", delimiter=";;"))


def test_two_processes_do_not_write_to_one_folder(tmp_path, dirty_log):
    folder, options = dirty_log
    out = tmp_path / "out"

    def second(stage, *, rows, done, total):
        with pytest.raises(ConfigurationError, match="Another process is working on"):
            prepare_table(criteo(folder / "train.txt"), out, options)

    prepare_table(criteo(folder / "train.txt"), out, options, second)
    assert content(out) == content(folder / "train.txt.out")


def test_missing_files_and_wrong_options(tmp_path):
    with pytest.raises(DataError, match="must be a file, but there is none"):
        criteo(tmp_path / "absent")
    for options in (
        {"numbers": "none"},
        {"vocabulary": "guess"},
        {"hash_bits": 25},
        {"min_count": 0},
        {"max_rejects": float("nan")},
    ):
        with pytest.raises(ConfigurationError):
            TableOptions(**options)
    for options in (
        {"validation": 0.5, "test": 0.5},
        {"seed": -1},
        {"folds": 1},
        {"folds": 3, "test_fold": 3},
        {"test_fold": 1},
    ):
        with pytest.raises(ConfigurationError):
            SplitOptions(**options)


def test_a_missing_id_is_dirt_and_a_repeated_one_is_refused_by_the_reader(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("who,age,y\na,1,0\n ,2,1\nb,3,1\na,4,1\n")
    raw = table(path, TableColumns("y", "who"))
    prepared(raw, tmp_path / "out", split=ALL_TRAIN, max_rejects=0.5)
    assert rejects(tmp_path / "out") == [(3, "the id is missing")]
    with pytest.raises(DataError, match="ids must be unique, but 1 of them repeat: 'a'"):
        PreparedData(tmp_path / "out").party_records("non-label party")


def test_a_header_in_quotes_and_rows_with_line_ends_inside(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_bytes(
        b'\xef\xbb\xbf"the\nid","job, now",y\r\n1,"a\nb",1\r\n2,c,0\r\n3,c\r\n4,c,1\r\n'
    )
    raw = table(path, TableColumns("y", "the\nid"))
    prepared(raw, tmp_path / "out", split=ALL_TRAIN, min_count=1, max_rejects=0.5)
    assert rejects(tmp_path / "out") == [(6, "has 2 fields, not 3")]
    other = shards(tmp_path / "out", "non_label_party")
    assert other.drop("part").rows() == [("1", 2), ("2", 1), ("4", 1)]
    words = pl.read_parquet(tmp_path / "out/non_label_party/vocabulary.parquet")
    assert words["value"].to_list() == ["c", "a\nb"]


@pytest.fixture
def syncs(tmp_path, dirty_log, monkeypatch):
    """How often an undisturbed run waits for the disk: before and after each rename."""
    folder, options = dirty_log
    sync, count = os.fsync, 0

    def counting(handle):
        nonlocal count
        count += 1
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", counting)
        prepare_table(criteo(folder / "train.txt"), tmp_path / "undisturbed", options)
    return count


def test_a_run_killed_behind_its_last_rename_is_whole(tmp_path, dirty_log, killed, syncs):
    folder, options = dirty_log
    out = tmp_path / "out"
    assert killed(folder / "train.txt", out, at_sync=syncs)
    assert content(out) == content(folder / "train.txt.out")
    assert (tmp_path / "out.partial").exists()
    prepare_table(criteo(folder / "train.txt"), out, options)
    assert content(out) == content(folder / "train.txt.out")
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.slow
def test_a_run_killed_at_each_of_its_steps_ends_with_the_same_bytes(
    tmp_path, dirty_log, killed, syncs
):
    folder, options = dirty_log
    expected = content(folder / "train.txt.out")
    for step in range(1, syncs + 1):
        out = tmp_path / f"out-{step}"
        assert killed(folder / "train.txt", out, at_sync=step)
        assert out.exists() == (step == syncs)
        prepare_table(criteo(folder / "train.txt"), out, options)
        assert content(out) == expected, step
