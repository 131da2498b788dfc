"""Files as people have them: the real ones where they lie, and a small twin of each everywhere.

A twin is drawn here in the same shape: delimiter, quotes, line ends, spaces, missing marks, label.
What is expected comes from the csv module and a few rules written out below, cell by cell.
"""

import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cutlayer.data import ROW_NUMBER, Encoder, Split, TableFile
from cutlayer.errors import DataError

REAL = Path(__file__).parents[3] / "shared" / "data"
LABEL, OTHER = "label party", "non-label party"


@dataclass
class KnownFile:
    """One file, how it is read, and facts about it from the README beside it."""

    path: str
    twin: Callable[[np.random.Generator, int], bytes]
    options: dict[str, object]
    twin_options: dict[str, object] = field(default_factory=dict)
    """What is read otherwise in the twin, which has fewer columns."""
    party: str = LABEL
    delimiter: str = ","
    rows: int = 0
    positives: int = 0
    features: int = 0
    texts: tuple[str, ...] = ()
    """Features that are categories."""
    dropped: tuple[str, ...] = ()
    """Features that are left out with a notice in the real file."""
    twin_dropped: tuple[str, ...] = ()


def joined(rows, delimiter=",", end="\n"):
    return end.join(delimiter.join(row) for row in rows).encode() + end.encode()


def scores(names):
    """A FATE half: id, standardised scores, perhaps a label in the second column."""

    def twin(draw, rows):
        table = [["id", *names]]
        for row in draw.permutation(rows):
            cells = [f"{draw.normal():.6f}" for _ in names]
            if names[0] == "y":
                cells[0] = str(int(row % 5 == 0))
            table.append([str(row * 3), *cells])
        return gzip.compress(joined(table))

    return twin


def bank(draw, rows):
    names = [
        "age;job;marital;education;default;housing;loan;contact;month;day_of_week;duration",
        "campaign;pdays;previous;poutcome;emp.var.rate;cons.price.idx;cons.conf.idx",
        "euribor3m;nr.employed;y",
    ]
    header = ";".join(names).split(";")
    table = [[f'"{name}"' for name in header]]
    for _ in range(rows):
        number = [str(draw.integers(0, 90)) for _ in header]
        text = [f'"{draw.choice(["a b", "c.d", "unknown"])}"' for _ in header]
        cells = [*number[:1], *text[1:10], *number[10:14], text[14], *number[15:20]]
        cells[16] = f"{draw.normal():.3f}"
        table.append([*cells, f'"{draw.choice(["yes", "no"], p=[0.2, 0.8])}"'])
    return gzip.compress(joined(table, ";", "\r\n"))


def diabetes(draw, rows):
    table = [["encounter_id", "patient_nbr", "race", "time", "diag", "glu", "same", "readmitted"]]
    table += [
        [
            str(2278392 + 7 * row),
            str(draw.integers(rows // 2)),
            draw.choice(["?", "Caucasian", "Asian"]),
            str(draw.integers(1, 14)),
            draw.choice(["250.83", "276", "414", "?", "V57"]),
            draw.choice(["None", ">200", "Norm"]),
            "No",
            draw.choice(["NO", ">30", "<30"], p=[0.6, 0.3, 0.1]),
        ]
        for row in draw.permutation(rows)
    ]
    return gzip.compress(joined(table))


def adult(draw, rows):
    table = [
        [
            str(draw.integers(17, 90)),
            draw.choice(["State-gov", "?", "Private"]),
            str(draw.integers(10_000, 400_000)),
            draw.choice([">50K", "<=50K"], p=[0.25, 0.75]),
        ]
        for _ in range(rows)
    ]
    return gzip.compress(joined(table, ", ") + b"\n")


def credit(draw, rows):
    table = [['"ID"', '"LIMIT_BAL"', '"PAY_0"', '"PAY_2"', '"default.payment.next.month"']]
    for row in range(1, rows + 1):
        pay = [str(draw.integers(-2, 9)) for _ in range(2)]
        table.append([str(row), str(draw.integers(1, 80) * 10_000), *pay, str(draw.integers(2))])
    return gzip.compress(joined(table))


FATE, BANK = "fate-vertical/{}.csv.gz", "uci-bank-marketing/bank-additional-full.csv.gz"
BANK_TEXTS = ("job", "marital", "education", "default", "housing", "loan", "contact", "month")
GUEST_CREDIT = scores(["y", *(f"x{i}" for i in range(13))])
KNOWN = {
    "default credit, guest": KnownFile(
        FATE.format("default_credit_hetero_guest"),
        GUEST_CREDIT,
        {"id_column": "id", "label_column": "y"},
        rows=30_000,
        positives=6_636,
        features=13,
    ),
    "default credit, host": KnownFile(
        FATE.format("default_credit_hetero_host"),
        scores([f"x{i}" for i in range(10)]),
        {"id_column": "id"},
        party=OTHER,
        rows=30_000,
        features=10,
    ),
    "give credit, guest": KnownFile(
        FATE.format("give_credit_30k_guest"),
        scores(["y", *(f"x{i}" for i in range(5))]),
        {"id_column": "id", "label_column": "y"},
        rows=30_000,
        positives=2_010,
        features=5,
    ),
    "give credit, host": KnownFile(
        FATE.format("give_credit_30k_host"),
        scores([f"x{i}" for i in range(5, 10)]),
        {"id_column": "id"},
        party=OTHER,
        rows=30_000,
        features=5,
    ),
    "bank, label party": KnownFile(
        BANK,
        bank,
        {"id_column": ROW_NUMBER, "label_column": "y", "drop": ("duration",)},
        delimiter=";",
        rows=41_188,
        positives=4_640,
        features=19,
        texts=(*BANK_TEXTS, "day_of_week", "poutcome"),
    ),
    "bank, non-label party": KnownFile(
        BANK,
        bank,
        {"id_column": ROW_NUMBER, "keep": ("age", "job", "cons.*")},
        party=OTHER,
        delimiter=";",
        rows=41_188,
        features=4,
        texts=("job",),
    ),
    "diabetes": KnownFile(
        "uci-diabetes-readmission/diabetic_data.csv.gz",
        diabetes,
        {
            "id_column": "encounter_id",
            "label_column": "readmitted",
            "positive": "<30",
            "negative": "rest",
            "group_column": "patient_nbr",
            "missing": ("?",),
            "keep": ("race", "time_in_hospital", "diag_[123]", "max_glu_serum", "examide"),
        },
        {"keep": ("race", "time", "diag", "glu", "same")},
        rows=101_766,
        positives=11_357,
        features=6,
        texts=("race", "diag", "diag_1", "diag_2", "diag_3", "glu", "max_glu_serum"),
        dropped=("examide",),
        twin_dropped=("same",),
    ),
    "adult": KnownFile(
        "uci-adult/adult.csv.gz",
        adult,
        {
            "id_column": ROW_NUMBER,
            "label_column": "c15",
            "positive": ">50K",
            "header": False,
            "missing": ("?",),
        },
        {"label_column": "c4"},
        rows=32_561,
        positives=7_841,
        features=14,
        texts=("c2", "c4", "c6", "c7", "c8", "c9", "c10", "c14"),
    ),
    "credit": KnownFile(
        "uci-credit-default/UCI_Credit_Card.csv.gz",
        credit,
        {
            "id_column": "ID",
            "label_column": "default.payment.next.month",
            "keep": ("LIMIT_BAL", "PAY_[0-9]"),
            "categorical": ("PAY_*",),
        },
        rows=30_000,
        positives=6_636,
        features=7,
        texts=tuple(f"PAY_{i}" for i in range(7)),
    ),
}


def expected_rows(path, known, options):
    """The file as the csv module reads it: one dictionary of stripped texts a row."""
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, delimiter=known.delimiter) if row]
    names = [f"c{i}" for i in range(1, len(rows[0]) + 1)]
    if options.get("header", True):
        names, rows = rows[0], rows[1:]
    return [dict(zip(names, (cell.strip() for cell in row), strict=True)) for row in rows]


def hold_to(known, path, options, *, dropped, every):
    """Compare every so-many-th row of the table with the file; returns the reading."""
    reading = TableFile(path, **options).read(known.party)
    table, rows = reading.table, expected_rows(path, known, options)
    assert len(table) == len(rows)
    told = " ".join(reading.notices)
    assert all(f"column {name!r}: left out" in told for name in dropped)
    texts = [name for name in table.features.columns if name in known.texts]
    numbers = [name for name in table.features.columns if name not in known.texts]
    assert all(table.features[name].dtype == pl.Categorical for name in texts)
    assert all(table.features[name].dtype.is_numeric() for name in numbers)
    some = range(0, len(rows), every)
    features = table.features[list(some)].with_columns(pl.col(pl.Categorical).cast(pl.String))
    for row, cells in zip(some, features.iter_rows(named=True), strict=True):
        source = rows[row]
        missing = {"", *options.get("missing", ())}
        for name, found in cells.items():
            text = source[name]
            if text in missing:
                assert found is None
            elif name in known.texts:
                assert found == text
            else:
                assert found == float(text)
        id_column = options["id_column"]
        assert table.ids[row] == (str(row + 1) if id_column == ROW_NUMBER else source[id_column])
        if table.groups is not None:
            assert table.groups[row] == source[options["group_column"]]
        if table.labels is not None:
            positive = {"1", "yes"} | {options.get("positive")}
            assert int(table.labels[row]) == (source[options["label_column"]] in positive)
    return reading


@pytest.fixture(params=KNOWN)
def name(request):
    return request.param


@pytest.mark.parametrize("rows", [60, 900])
def test_the_twin(name, rows, tmp_path):
    known = KNOWN[name]
    options = {**known.options, **known.twin_options}
    path = tmp_path / "twin.csv.gz"
    path.write_bytes(known.twin(np.random.default_rng(rows), rows))
    reading = hold_to(known, path, options, dropped=known.twin_dropped, every=1)
    table = reading.table
    assert len(table) == rows
    assert not any("gives the label away" in notice for notice in reading.notices)
    assert Encoder.fit(table).encode(table).isfinite().all()


def test_the_real_file(name):
    known = KNOWN[name]
    path = REAL / known.path
    if not path.is_file():
        pytest.skip(f"the real file {known.path} is not beside this repository")
    table = hold_to(known, path, known.options, dropped=known.dropped, every=97).table
    assert len(table) == known.rows
    assert table.features.width == known.features
    if table.labels is not None:
        assert int(table.labels.sum()) == known.positives


def test_the_guest_and_the_host_of_a_real_file_share_their_ids():
    paths = [REAL / KNOWN[name].path for name in ("default credit, guest", "default credit, host")]
    if not all(path.is_file() for path in paths):
        pytest.skip("the real files of default credit are not beside this repository")
    guest = TableFile(paths[0], "id", label_column="y").read(LABEL).table
    host = TableFile(paths[1], "id").read(OTHER).table
    assert set(guest.ids) == set(host.ids)


def test_visits_of_one_patient_stay_together(tmp_path):
    known = KNOWN["diabetes"]
    path = tmp_path / "twin.csv.gz"
    path.write_bytes(known.twin(np.random.default_rng(0), 600))
    options = {**known.options, **known.twin_options}
    table = TableFile(path, **options).read(LABEL).table
    assert table.groups is not None
    split = Split.by_shares(table.groups, seed=1, validation=0.1, test=0.2)
    patients = [{table.groups[i] for i in part.tolist()} for part in (split.train, split.test)]
    assert len(patients[1]) > 20
    assert not patients[0] & patients[1]


def test_a_label_of_three_values_needs_a_word(tmp_path):
    path = tmp_path / "twin.csv.gz"
    path.write_bytes(diabetes(np.random.default_rng(0), 300))
    file = TableFile(path, "encounter_id", label_column="readmitted", positive="<30")
    with pytest.raises(DataError, match="has 3: 'NO', '>30', '<30'"):
        file.read(LABEL)


def test_a_criteo_line_without_a_header(tmp_path):
    draw = np.random.default_rng(0)
    text = io.StringIO()
    for row in range(200):
        numbers = ["" if draw.random() < 0.3 else str(draw.integers(-3, 99)) for _ in range(13)]
        codes = ["" if draw.random() < 0.2 else f"{draw.integers(40):08x}" for _ in range(26)]
        text.write("\t".join([str(int(row % 7 == 0)), *numbers, *codes]) + "\n")
    path = tmp_path / "twin.tsv"
    path.write_text(text.getvalue())
    names = ("y", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27)))
    options = {"id_column": ROW_NUMBER, "label_column": "y", "header": False}
    # Hash values such as 00000012 are numbers by chance, so the kind is stated.
    twin = TableFile(path, **options, column_names=names, categorical=("C*",)).read(LABEL).table
    assert twin.features.width == 39
    assert twin.features["C26"].dtype == pl.Categorical
    real = REAL / "criteo-1tb-1k" / "criteo_1tb_1000.tsv.gz"
    if real.is_file():
        file = TableFile(real, **options, column_names=names, categorical=("C*",))
        table = file.read(LABEL).table
        assert (len(table), int(table.labels.sum())) == (1000, 21)
        assert sum(column.null_count() for column in table.features) == 4419
