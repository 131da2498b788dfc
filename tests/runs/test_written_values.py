"""Names and texts that look like numbers, in TOML and on a command line."""

from pathlib import Path

import pytest

from cutlayer.errors import ConfigurationError
from cutlayer.experiments.tradeoff.configuration import read_tradeoff
from cutlayer.runs.configuration import LabelConfiguration, read_configuration

SETTINGS = {
    "run": '"r"',
    "file": '"guest.csv"',
    "id": '"id"',
    "label": '"y"',
    "protection": '"no_noise"',
}


def toml(folder, **changes):
    """A label party's file; values are TOML."""
    path = folder / "label.toml"
    settings = SETTINGS | changes
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return path


def read(path, **overrides):
    return read_configuration(LabelConfiguration, path, overrides)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("drop", "2020,2021", ("2020", "2021")),
        ("drop", "2020", ("2020",)),
        ("drop", "007", ("007",)),
        ("drop", "1.0,1.00", ("1.0", "1.00")),
        ("drop", "a, b", ("a", "b")),
        ("drop", "true,nan,1e3", ("true", "nan", "1e3")),
        ("drop", "-x,--y", ("-x", "--y")),
        ("drop", "x#y", ("x#y",)),
        ("drop", "2020 # x", ("2020 # x",)),
        ("drop", "it's", ("it's",)),
        ("drop", "", ()),
        ("drop", "[]", ()),
        ("drop", '["a,b", "c d"]', ("a,b", "c d")),
        ("drop", '"a,b"', ("a,b",)),
        ("drop", '"a,b", "c"', ("a,b", "c")),
        ("drop", "[2020, 1.50]", ("2020", "1.50")),
        ("drop", "[2020-01-31]", ("2020-01-31",)),
        ("drop", "2020-01-31", ("2020-01-31",)),
        ("missing", "-999", ("-999",)),
        ("missing", "-999.0,?", ("-999.0", "?")),
        ("numeric", "1,2", ("1", "2")),
        ("id", "1", "1"),
        ("id", "1.50", "1.50"),
        ("id", "#1", "#1"),
        ("id", '1 # "', '1 # "'),
        ("id", '"1"', "1"),
        ("id", '"a" # b', '"a" # b'),
        ("id", "a,b", "a,b"),
        ("id", "a]\nrun = [2", "a]\nrun = [2"),
        ("label", "0", "0"),
        ("label", "true", "true"),
        ("group", "007", "007"),
        ("file", "2024", Path("2024")),
        ("run", "2024", "2024"),
        ("positive", "1", 1),
        ("positive", "007", "007"),
        ("positive", "1 # one", "1 # one"),
        ("positive", "a,b", "a,b"),
        ("hidden", "32", (32,)),
        ("hidden", "32,16", (32, 16)),
        ("hidden", "[32, 16]", (32, 16)),
        ("hidden", "", ()),
        ("epochs", "1e3", 1000),
        ("epochs", "5.0", 5),
        ("batch_size", "1_000", 1000),
        ("record", "1 GiB", 1 << 30),
        ("learning_rate", "5", 5.0),
    ],
)
def test_a_value_on_the_command_line_is_what_it_looks_like(tmp_path, key, text, value):
    found = getattr(read(toml(tmp_path), **{key: text}), key)
    assert found == value
    assert type(found) is type(value) or key in ("file", "record")


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("missing", "[-999]", ("-999",)),
        ("missing", "[-999.0, 1.50, nan]", ("-999.0", "1.50", "nan")),
        ("drop", "[2020, 2021]", ("2020", "2021")),
        ("drop", "[2020-01-31]", ("2020-01-31",)),
        ("run", "2024", "2024"),
        ("id", "1", "1"),
        ("label", "1.50", "1.50"),
        ("group", "7", "7"),
        ("positive", "1.0", 1.0),
        ("learning_rate", "5", 5.0),
        ("hidden", "[32.0]", (32,)),
    ],
)
def test_a_number_in_a_file_is_a_text_where_texts_are_taken(tmp_path, key, written, value):
    found = getattr(read(toml(tmp_path, **{key: written})), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("key", "written", "told"),
    [
        ("missing", "[true]", 'missing: Write texts between quotes, as "true", got \\[True\\]'),
        ("label", "false", 'label: Write texts between quotes, as "false", got False'),
        ("drop", "[[1]]", "drop.0: Input should be a valid string"),
        ("drop", "2020", "drop: Input should be a valid tuple, got 2020"),
        ("hidden", "[true]", "hidden: Input should be a list of numbers, got \\[True\\]"),
        ("epochs", "true", "epochs: Input should be a number, got True"),
        ("epochs", "5.5", "epochs: .*fractional part, got 5.5"),
        ("epochs", "0", "epochs: .*greater than or equal to 1, got 0"),
        ("seed", "-1", "seed: .*greater than or equal to 0, got -1"),
        ("learning_rate", '"fast"', "learning_rate: .*valid number.* got 'fast'"),
        ("batch_size", str(2**70), "batch_size: .*less than or equal to 2147483648, got 11805916"),
        ("checkpoint_every", str(2**70), "checkpoint_every: .*less than or equal to 2147483648"),
        ("audit_every", str(2**70), "audit_every: .*less than or equal to 2147483648"),
        ("live_every", str(2**70), "live_every: .*less than or equal to 2147483648"),
        ("seed", str(2**70), "seed: .*less than 9223372036854775808"),
        ("cut_width", str(2**70), "cut_width: .*less than or equal to 1048576"),
        ("max_ids", str(2**70), "max_ids: .*less than 4294967296"),
        ("threads", str(2**70), "threads: .*less than or equal to 1024"),
        ("record", str(2**70), "record: .*less than or equal to 1152921504606846976"),
        ("protection", '"residual:sigma=abc"', "'residual:sigma=abc': sigma must be a number"),
    ],
)
def test_a_wrong_value_is_one_line_with_key_rule_and_value(tmp_path, key, written, told):
    with pytest.raises(ConfigurationError, match=f"label party: .*label.toml: .*{told}") as caught:
        read(toml(tmp_path, **{key: written}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("batch_size", str(2**70), "batch_size: .*less than or equal to 2147483648"),
        ("audit_every", str(2**70), "audit_every: .*less than or equal to 2147483648"),
        ("channels", str(2**70), "channels: .*less than or equal to 65536"),
        ("hidden", f"8,{2**70}", "hidden.1: .*less than or equal to 65536"),
        ("learning_rate", "true", "learning_rate: .*a number, got True"),
        ("learning_rate", "fast", "learning_rate: .*valid number.* got 'fast'"),
        ("seeds", "-1", "seeds.0: .*greater than or equal to 0"),
        ("protections", "residual:sigma=abc", "sigma must be a number, got 'abc'"),
        ("protections", "marvell:s=[1,-1]", "s must be a finite number above 0, got -1"),
    ],
)
def test_a_sweep_has_the_same_rules(tmp_path, key, text, told):
    path = tmp_path / "sweep.toml"
    path.write_text('data = "breast-cancer"\nprotections = ["no_noise"]\n')
    with pytest.raises(ConfigurationError, match=f"sweep.toml: .*{told}"):
        read_tradeoff(path, {key: text})


def test_a_sweep_takes_lists_as_they_are_written_elsewhere(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('data = "breast-cancer"\nprotections = ["no_noise"]\n')
    read = read_tradeoff(path, {"seeds": "0,1", "protections": "marvell:s=[1, 4]", "hidden": "8"})
    assert read.seeds == (0, 1)
    assert [run.spec for run in read.runs][:2] == ["marvell:s=1", "marvell:s=4"]
    assert read.hidden == (8,)


def test_the_tables_of_a_sweep_take_numbers_for_texts(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        'protections = ["no_noise"]\n[label_party]\nfile = "a.csv"\nid = 1\nlabel = 2\n'
        'missing = [-999.0]\n[non_label_party]\nfile = "b.csv"\nid = 1\ndrop = [2020]\n'
    )
    read = read_tradeoff(path)
    assert read.label_party.missing == ("-999.0",)
    assert (read.label_party.id, read.label_party.label) == ("1", "2")
    assert read.non_label_party.drop == ("2020",)
