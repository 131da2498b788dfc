from pathlib import Path

import pytest

from cutlayer.data.tables.column_choice import ROW_NUMBER, ColumnRules
from cutlayer.data.tables.file_message import FileMessage
from cutlayer.errors import DataError

NAMES = ("ID", "y", "patient", "PAY_1", "PAY_2", "age", "dose[mg]", "dosem")
MESSAGE = FileMessage("label party", Path("bank.csv"))


def chosen(hint="", **rules):
    empty = {"label_column": None, "group_column": None}
    lists = dict.fromkeys(("keep", "drop", "numeric", "categorical"), ())
    return ColumnRules(**{"id_column": "ID", **empty, **lists, **rules}).applied_to(
        NAMES, MESSAGE, hint
    )


def test_all_other_columns_are_features_in_the_order_of_the_file():
    choice = chosen(label_column="y", group_column="patient")
    assert list(choice.features) == ["PAY_1", "PAY_2", "age", "dose[mg]", "dosem"]
    assert set(choice.features.values()) == {"infer"}
    assert choice.texts == ("ID", "y", "patient")


def test_rows_may_be_numbered():
    choice = chosen(id_column=ROW_NUMBER, label_column="y")
    assert choice.id_column is None
    assert choice.texts == ("y",)
    assert "ID" in choice.features


def test_drop_goes_before_keep():
    choice = chosen(keep=("age", "PAY_*"), drop=("PAY_2",))
    assert list(choice.features) == ["PAY_1", "age"]
    assert list(chosen(drop=("*",)).features) == []


def test_kinds_are_set_by_name_or_pattern():
    choice = chosen(numeric=("age",), categorical=("PAY_?",))
    assert choice.features["age"] == "numeric"
    assert choice.features["PAY_2"] == "categorical"
    assert choice.features["dosem"] == "infer"


def test_a_name_that_looks_like_a_pattern_is_a_name():
    # As a pattern "dose[mg]" would fit "dosem".
    assert list(chosen(keep=("dose[mg]",)).features) == ["dose[mg]"]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"id_column": "id"}, "no column is called 'id'. Did you mean 'ID'"),
        ({"label_column": "label"}, r"called 'label'. Columns: 'ID', 'y', .*Capital letters count"),
        ({"group_column": "patinet"}, "Did you mean 'patient'"),
        ({"keep": ("ages",)}, r"called 'ages'. Did you mean 'age'.* Mend the list keep\. THE HINT"),
        ({"drop": ("BILL_*",)}, r"called 'BILL_\*'.* Mend the list drop"),
        ({"label_column": "y", "drop": ("y",)}, "called 'y'"),
        ({"numeric": ("age", "PAY_*"), "categorical": ("PAY_1",)}, "'PAY_1' is listed as both"),
    ],
)
def test_what_fits_no_column_is_an_error(rules, words):
    with pytest.raises(DataError, match=f"^label party, file bank.csv: .*{words}"):
        chosen(" THE HINT", **rules)
