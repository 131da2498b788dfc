"""Predictions as CSV: exact for programs, and on demand safe for spreadsheets."""

import csv
import math

import pytest
import torch

from cutlayer.data import TableFile
from cutlayer.parties import Agreement
from cutlayer.runs.predictions import safe_texts, write_predictions

IDS = ["=1+1", "+491234", "-5", "@x", "\tt", "\rr", "\nn", "＝1", "'x", "a=1", "7", 'q"u', "a,b"]
IDS += ["a;=1", "a\nb", "007", "1.50", "NA", "ö"]


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def written(path, **options):
    count = len(IDS)
    some = Agreement(IDS, *(torch.arange(a, b) for a, b in ((0, 0), (0, 2), (2, count))), 0)
    logit = torch.linspace(-2, 2, count)
    write_predictions(some, logit, path, **options)
    header, *rows = rows_of(path)
    assert header == ["id", "part", "probability"]
    assert [row[1] for row in rows] == ["validation"] * 2 + ["test"] * (count - 2)
    for row, value in zip(rows, logit.tolist(), strict=True):
        assert float(row[2]) == pytest.approx(1 / (1 + math.exp(-value)), abs=1e-12)
    return [row[0] for row in rows]


def test_by_default_every_id_is_as_it_was(tmp_path):
    path = tmp_path / "predictions.csv"
    assert written(path) == IDS
    read = TableFile(path, id_column="id", strip=False).read("non-label party").table
    assert {"-5", "+491234", "=1+1", "007", "1.50"} <= set(read.ids)


def test_a_safe_file_begins_no_cell_with_a_formula(tmp_path):
    path = tmp_path / "predictions.csv"
    safe = written(path, safe_csv=True)
    for cell in safe:
        assert cell[0] not in "=+-@\t\r\n＝＋－＠"
    # As documented: cut one leading apostrophe off.
    assert [cell.removeprefix("'") for cell in safe] == IDS
    # A spreadsheet that splits at semicolons sees a text between quotes, not a cell "=1".
    assert '"a;=1"' in path.read_text(encoding="utf-8")


def test_safe_texts_leave_the_others_alone():
    assert safe_texts(["", "a-b", " x", "5"]) == ["", "a-b", " x", "5"]
