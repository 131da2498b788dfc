import polars as pl
import pytest
import torch

from cutlayer.alignment.aligned_ids import write_aligned_ids
from cutlayer.data import PartyTable, TextSequence
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.runs.aligned_records import aligned_records, require_private
from cutlayer.runs.configuration import LabelConfiguration

IDS = ("c", "a", "B", "d")


def configured(tmp_path, **changes):
    settings = {"run": "r", "file": "t.csv", "id": "id", "protection": "no_noise", "label": "y"}
    return LabelConfiguration(**{**settings, "folder": tmp_path, **changes})


def table():
    labels = torch.tensor([0, 1, 0, 1])
    return PartyTable("label party", IDS, pl.DataFrame({"x": [3, 1, 2, 4]}), labels)


def test_digests_leave_all_records_to_the_handshake(tmp_path):
    records = table()
    assert aligned_records(configured(tmp_path), records) is records


def test_given_puts_all_records_in_order(tmp_path):
    records = aligned_records(configured(tmp_path, alignment="given"), table())
    assert list(records.ids) == sorted(IDS)
    assert records.features["x"].to_list() == [2, 1, 3, 4]
    assert records.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("kind", ["table", "tensor"])
def test_private_keeps_the_shared_ones(tmp_path, kind):
    records = table()
    if kind == "tensor":
        features = torch.tensor([[3.0], [1], [2], [4]])
        records = TensorRecords("label party", IDS, features, records.labels)
    configuration = configured(tmp_path, alignment="private")
    write_aligned_ids(tmp_path / "aligned_ids.parquet", TextSequence(["B", "c"]))
    kept = aligned_records(configuration, records)
    assert list(kept.ids) == ["B", "c"]
    values = kept.features["x"].to_list() if kind == "table" else kept.features[:, 0].tolist()
    assert values == [2, 3]


def test_another_place_for_the_shared_ids(tmp_path):
    place = tmp_path / "elsewhere.parquet"
    write_aligned_ids(place, TextSequence(["a"]))
    configuration = configured(tmp_path, alignment="private", aligned_ids=place)
    assert list(aligned_records(configuration, table()).ids) == ["a"]


def test_without_an_alignment_the_error_says_what_to_run(tmp_path):
    with pytest.raises(DataError, match=r"^label party: .*`cutlayer align CONFIG` at both parties"):
        aligned_records(configured(tmp_path, alignment="private"), table())


def test_a_file_that_has_changed_since_is_named(tmp_path):
    write_aligned_ids(tmp_path / "aligned_ids.parquet", TextSequence(["a", "x", "y"]))
    with pytest.raises(DataError, match=r"label party: 2 of the 3 shared ids .* 'x', 'y'\. The"):
        aligned_records(configured(tmp_path, alignment="private"), table())


@pytest.mark.parametrize("form", ["digests", "given"])
def test_only_the_private_form_needs_an_alignment(tmp_path, form):
    with pytest.raises(ConfigurationError, match=f"label party: alignment is '{form}'"):
        require_private(configured(tmp_path, alignment=form))


def test_terms_carry_the_form_and_refuse_others(tmp_path):
    assert configured(tmp_path).terms().alignment == "digests"
    assert configured(tmp_path, alignment="private").terms("alignment").mode == "alignment"
    with pytest.raises(ValueError, match="alignment"):
        configured(tmp_path, alignment="guessed")


def test_new_records_to_predict_need_shared_ids_of_their_own(tmp_path):
    write_aligned_ids(tmp_path / "aligned_ids.parquet", TextSequence(["a", "x"]))
    configuration = configured(tmp_path, alignment="private")
    with pytest.raises(DataError, match="align CONFIG --file NEW --aligned-ids NEW_IDS"):
        aligned_records(configuration, table(), predicting=True)
    elsewhere = configured(tmp_path, alignment="private", aligned_ids=tmp_path / "new.parquet")
    with pytest.raises(DataError, match=r"no shared ids at .*new\.parquet.*--aligned-ids NEW_IDS"):
        aligned_records(elsewhere, table(), predicting=True)
