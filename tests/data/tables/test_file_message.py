from pathlib import Path

from cutlayer.data.tables.file_message import FileMessage, listing, nearest

MESSAGE = FileMessage("label party", Path("far/bank.csv"))


def test_messages_name_party_file_and_column():
    assert (
        str(MESSAGE.error("x", column="a b")) == "label party, file far/bank.csv, column 'a b': x"
    )
    assert MESSAGE.notice("x") == "label party, bank.csv: x"


def test_lists_are_shortened():
    assert listing(range(1005)) == "0, 1, 2 and 1,002 more"
    assert listing(["a"]) == "'a'"
    assert nearest("Agee", ["age", "AGE2", "job"]) == ["age", "AGE2"]
    assert nearest("q", ["age"]) == []


def test_an_absent_column_is_answered_with_near_names_or_all():
    near = str(MESSAGE.no_such_column("aeg", ["age", "job"], hint=" So there."))
    assert near.endswith(
        "no column is called 'aeg'. Did you mean 'age'? Capital letters count. So there."
    )
    every = str(MESSAGE.no_such_column("q", [f"c{i}" for i in range(14)]))
    assert "Columns: 'c0', 'c1'" in every
    assert every.endswith("'c11' and 2 more. Capital letters count.")


def test_what_the_system_says_is_passed_on():
    error = MESSAGE.unreadable(PermissionError(13, "Permission denied"))
    assert "must be readable, but: Permission denied. Check" in str(error)
