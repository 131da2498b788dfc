"""Damaged documents end in one sentence, never in a traceback."""

import json

import pytest

from cutlayer.errors import DataError
from cutlayer.findings.document import read_findings


@pytest.fixture
def document(tmp_path):
    """A small valid document as parsed JSON, and a way to write and read it."""
    whole = {
        "schema": "cutlayer.findings/1", "created": "", "cutlayer_version": "0", "data": "d",
        "train_records": 1, "test_records": 1, "positive_share": 0.5,
        "features_non_label_party": 0, "features_label_party": 0, "settings": {},
        "processes": 2, "noise": "secret", "hint": "", "first_layer": "measured",
        "complete": True, "rows": [], "applied": [],
        "utility": [
            {"protection": "p", "strength": "-", "test_auc": [0.7], "test_loss": [0.2]}
        ],
        "curves": [{
            "protection": "p", "strength": "-", "attack": "norm", "layer": "cut",
            "target": "labels", "step": [0, 1], "leak_auc": [0.5, 0.6], "null_floor": [0.5, 0.5],
        }],
        "histograms": [{
            "protection": "p", "strength": "-", "layer": "cut", "quantity": "norm",
            "edges": [0.0, 0.5, 1.0], "positive": [0.5, 0.5], "negative": [1.0, 0.0],
        }],
    }  # fmt: skip

    def read(changed):
        (tmp_path / "findings.json").write_text(json.dumps(changed))
        return read_findings(tmp_path / "findings.json")

    return whole, read


def test_documents_of_earlier_versions_are_read(document):
    whole, read = document
    found = read(whole)
    assert (found.baselines, found.attacks, found.description) == ([], [], None)


@pytest.mark.parametrize(
    ("part", "field", "value", "message"),
    [
        ("curves", "leak_auc", [0.5], "equally long, got 2, 1, 2 values"),
        ("histograms", "positive", [1.0], "one value less than edges, got 1 and 2 for 3 edges"),
        ("histograms", "edges", [0.0, 1.0, 0.5], "edges must grow"),
        ("utility", "test_loss", [], "equally long, got 1 and 0 values"),
        ("curves", "step", ["a", "b"], "step"),
    ],
)
def test_ragged_parts_are_named(document, part, field, value, message):
    whole, read = document
    whole[part][0][field] = value
    with pytest.raises(DataError, match=message) as caught:
        read(whole)
    assert f"{part}.0" in str(caught.value)
    assert "cutlayer audit" in str(caught.value)


@pytest.mark.parametrize("value", [-1, 3, 2**70, None, "two"])
def test_a_number_of_processes_that_the_page_has_no_words_for_is_refused(document, value):
    whole, read = document
    with pytest.raises(DataError, match="processes"):
        read(whole | {"processes": value})


def test_what_is_no_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="There is no"):
        read_findings(tmp_path / "file" / "findings.json")
    (tmp_path / "findings.json").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_findings(tmp_path / "findings.json")
