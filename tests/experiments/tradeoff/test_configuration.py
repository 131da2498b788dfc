import json
import math
import re
import tomllib
from pathlib import Path

import pytest

from cutlayer.cli import main
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.experiments.tradeoff.configuration import (
    TradeoffConfiguration,
    checked,
    keep_configuration,
    read_tradeoff,
)
from cutlayer.experiments.tradeoff.grid import expanded, protection_of, specs_of
from cutlayer.experiments.tradeoff.records import notices_of, records_of
from cutlayer.experiments.tradeoff.table_keys import TableKeys
from cutlayer.runs.configuration import LabelConfiguration

EXAMPLES = Path(__file__).parents[3] / "examples" / "tradeoff"
GOOD = {"data": "breast-cancer", "protections": ["no_noise", "isotropic:t=[0.25,25]"]}
TABLE = {"file": "a.csv", "id": "id"}


def test_a_table_has_the_keys_of_a_party_configuration():
    # A party's file description can be copied into a sweep, key by key.
    assert set(TableKeys.model_fields) <= set(LabelConfiguration.model_fields)
    for name, field in TableKeys.model_fields.items():
        theirs = LabelConfiguration.model_fields[name]
        assert name == "label" or field.default == theirs.default, name


def test_the_page_lists_every_key_and_its_default():
    page = (EXAMPLES.parents[1] / "docs" / "tradeoff.md").read_text()
    listed = dict(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| [^|]* \| ([^|]*) \|", page, re.MULTILINE))
    shown = {key: value.strip(" `") for keys, value in listed.items() for key in names(keys)}
    fields = TradeoffConfiguration.model_fields
    assert set(shown) == set(fields)
    for key, field in fields.items():
        if field.is_required():
            assert shown[key] == "**must be given**", key
        else:
            assert shown[key] == json.dumps(field.default).strip('"').replace("null", "–"), key


def names(keys):
    return re.findall(r"\w+", keys)


def test_the_pages_example_is_a_sweep(tmp_path):
    page = (EXAMPLES.parents[1] / "docs" / "tradeoff.md").read_text()
    path = tmp_path / "bank.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert len(read_tradeoff(path).runs) == 18  # as the page says


def test_lists_make_one_protection_for_each_combination():
    assert specs_of(["no_noise", "a:x=[1, 2],y=[3,4]"]) == [
        "no_noise",
        "a:x=1,y=3",
        "a:x=1,y=4",
        "a:x=2,y=3",
        "a:x=2,y=4",
    ]
    assert expanded("marvell:s=4") == ["marvell:s=4"]


def test_every_run_has_a_folder_of_its_own_name():
    runs = checked({**GOOD, "seeds": [0, 7]}).runs
    assert [run.name for run in runs] == [
        "no_noise-seed-0",
        "isotropic-t-0.25-seed-0",
        "isotropic-t-25-seed-0",
        "no_noise-seed-7",
        "isotropic-t-0.25-seed-7",
        "isotropic-t-25-seed-7",
    ]


def test_the_paper_takes_marvells_statistics_from_the_batch():
    assert "batch" not in repr(protection_of("marvell:s=4", epochs=1, paper_protocol=False))
    assert "statistics='batch'" in repr(protection_of("marvell:s=4", epochs=1, paper_protocol=True))
    told = protection_of("marvell:s=4,statistics=averaged", epochs=1, paper_protocol=True)
    assert "statistics='averaged'" in repr(told)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"data": None}, "Name one source"),
        ({"data": "cencus"}, "No data set"),
        ({"images": "x.npz"}, "Name one source"),
        ({"data": None, "label_party": {**TABLE, "label": "y"}}, "Name one source"),
        ({"protections": []}, "protections"),
        ({"protections": ["no_nois"]}, "No protection"),
        ({"protections": ["isotropic:t=[]"]}, "empty"),
        ({"protections": ["no_noise", "no_noise"]}, "twice"),
        ({"protections": ["isotropic:q=1"]}, "Settings"),
        ({"seeds": [1, 1]}, "twice"),
        ({"seeds": []}, "seeds"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": 10**20}, "epochs"),
        ({"cut_width": 10**10}, "cut_width"),
        ({"rows": 1.5}, "share"),
        ({"rows": 0}, "rows"),
        ({"model": "cnn"}, "cnn is for images"),
        ({"image_side": 32}, "image_side"),
        ({"options": {"rows": 100}}, "options"),
        ({"workers": 0}, "workers"),
        ({"epoch": 5}, "epochs"),
        ({"protections": "no_noise"}, "must be a list in brackets, got 'no_noise'"),
        ({"protections": []}, "must hold at least one value"),
        ({"protections": ["marvell:s=[1,1.0]"]}, "s=1 and marvell:s=1.0 are the same"),
        ({"protections": ["{}:s=[1]"]}, "No protection is called '{}'"),
        ({"protections": [f"isotropic:t=1.{'0' * 300}1"]}, "Shorten its numbers"),
        ({"seeds": [-1]}, "seeds.0: must be greater than or equal to 0"),
        ({"seeds": [10**30]}, "seeds.0"),
        ({"seeds": [0, 0]}, "seeds: a value is named twice"),
        ({"hidden": [0]}, "hidden.0"),
        ({"blocks": [0, 1]}, "blocks.0"),
        ({"epochs": True}, "epochs: must be a number"),
        ({"rows": True}, "rows: must be a number"),
        ({"rows": 1.5}, "rows: a share is at most 1.0"),
        ({"learning_rate": math.inf}, "learning_rate: must be a finite number"),
        ({"weight_decay": math.nan}, "weight_decay"),
        ({"data": None, "images": "absent.npz", "model": "cnn"}, "images: absent.npz must be"),
        (
            {
                "data": None,
                "label_party": TABLE,
                "non_label_party": TABLE,
            },
            "'label' is missing",
        ),
    ],
)
def test_a_broken_rule_is_named(change, part):
    settings = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(ConfigurationError, match=part):
        checked(settings)


@pytest.mark.parametrize("text", ["data = 'breast-cancer'", "no toml", "data = 'x'\nq = 1"])
def test_a_wrong_file_ends_the_command_with_2_and_writes_nothing(tmp_path, monkeypatch, text):
    config = tmp_path / "wrong.toml"
    config.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["cutlayer", "tradeoff", str(config)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.toml"]


def test_strengths_that_differ_in_a_sign_have_folders_of_their_own():
    runs = checked({**GOOD, "protections": ["isotropic:t=[1e+3,1e-3]"], "seeds": [0]}).runs
    assert len({run.name for run in runs}) == 2


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('data = "breast-cancer"\r\nprotections = ["no_noise"]\r\n', "utf-8-sig")
    assert read_tradeoff(path).data == "breast-cancer"


def test_the_command_line_goes_over_the_file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('data = "breast-cancer"\nprotections = ["no_noise"]\n')
    configuration = read_tradeoff(
        path, {"epochs": "7", "seeds": "[3, 4]", "rows": "0.5", "model": "wide_deep"}
    )
    assert (configuration.epochs, configuration.seeds) == (7, (3, 4))
    assert (configuration.rows, configuration.model) == (0.5, "wide_deep")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_sweeps_of_several_protections_and_seeds(path):
    images = tomllib.loads(path.read_text()).get("images")
    if images is not None and not (path.parents[2] / images).exists():
        pytest.skip(f"{images} is not here, and its terms forbid to bundle it")
    configuration = read_tradeoff(path)
    assert len(configuration.seeds) == 3
    assert len(configuration.runs) >= 20


def test_the_baseline_without_gradients_is_sent_elsewhere():
    with pytest.raises(ConfigurationError, match=r"frozen sends no gradient.*Leave it out"):
        checked({**GOOD, "protections": ["no_noise", "frozen"]})


def test_a_folder_takes_a_larger_grid_but_no_other_settings(tmp_path):
    keep_configuration(checked(GOOD), tmp_path / "sweep")
    grown = {**GOOD, "protections": [*GOOD["protections"], "max_norm"], "seeds": [0], "workers": 2}
    keep_configuration(checked(grown), tmp_path / "sweep")
    with pytest.raises(ConfigurationError, match=r"other settings: epochs is 5 there, 9 here\."):
        keep_configuration(checked({**GOOD, "epochs": 9}), tmp_path / "sweep")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(ConfigurationError, match="holds no sweep"):
        keep_configuration(checked(GOOD), tmp_path / "other")


def test_what_a_killed_start_left_is_no_hindrance_and_damage_is_told(tmp_path):
    folder = tmp_path / "sweep"
    folder.mkdir()
    for name in ("lock", "sources.json.partial", "configuration.json.partial"):
        (folder / name).write_text("")
    keep_configuration(checked(GOOD), folder)
    (folder / "configuration.json").write_text("{")
    with pytest.raises(DataError, match=r"configuration\.json is missing or damaged") as error:
        keep_configuration(checked(GOOD), folder)
    assert "\n" not in str(error.value)


def test_a_sweep_does_not_go_on_with_a_file_that_was_replaced(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("id,f,y\n1,2,0\n")
    one = {"file": str(file), "id": "id"}
    tables = {"label_party": {**one, "label": "y"}, "non_label_party": one}
    configuration = checked({"protections": ["no_noise"], **tables})
    keep_configuration(configuration, tmp_path / "sweep")
    keep_configuration(configuration, tmp_path / "sweep")
    assert list(json.loads((tmp_path / "sweep/sources.json").read_text())) == [str(file)]
    file.write_text("id,f,y\n1,3,0\n")
    with pytest.raises(ConfigurationError, match=r"other data: .*a\.csv was replaced"):
        keep_configuration(configuration, tmp_path / "sweep")


def test_one_label_in_the_middle_of_a_large_file_is_another_file(tmp_path):
    """Neither its size nor its first and last MiB change."""
    file = tmp_path / "a.csv"
    rows = [f"{number:07d},{number % 7},0\n" for number in range(300_000)]
    file.write_text("id,f,y\n" + "".join(rows))
    one = {"file": str(file), "id": "id"}
    tables = {"label_party": {**one, "label": "y"}, "non_label_party": one}
    configuration = checked({"protections": ["no_noise"], **tables})
    keep_configuration(configuration, tmp_path / "sweep")
    rows[150_000] = rows[150_000].replace(",0\n", ",1\n")
    file.write_text("id,f,y\n" + "".join(rows))
    with pytest.raises(ConfigurationError, match=r"other data: .*a\.csv was replaced"):
        keep_configuration(configuration, tmp_path / "sweep")


def test_notices_of_tables_and_lost_ids_are_told(tmp_path):
    rows = [f"i{number},{number % 7},{number % 2}" for number in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["id,f,y", *rows]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(["id,f,y", *rows[10:]]) + "\n")
    label = {"file": str(tmp_path / "a.csv"), "id": "id", "label": "y"}
    other = {"file": str(tmp_path / "b.csv"), "id": "id"}
    settings = {"protections": ["no_noise"], "label_party": label, "non_label_party": other}
    told = notices_of(checked(settings))
    assert any("a.csv, column 'y': '1' is positive (20 rows)" in notice for notice in told)
    assert told[-1].startswith("Warning, label party: 10 of 40 records of this party (25 %)")


def test_row_numbers_of_unequal_tables_are_refused(tmp_path):
    for name, rows in (("a.csv", 30), ("b.csv", 29)):
        (tmp_path / name).write_text("f,y\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(rows)))
    label = {"file": str(tmp_path / "a.csv"), "id": "(row number)", "label": "y"}
    other = {"file": str(tmp_path / "b.csv"), "id": "(row number)", "keep": ["f"]}
    settings = {"protections": ["no_noise"], "label_party": label, "non_label_party": other}
    with pytest.raises(DataError, match=r"row number, .*a\.csv and .*b\.csv .* 30 and 29"):
        records_of(checked(settings))


@pytest.mark.parametrize(
    ("out", "part"),
    [("file", "is no folder"), ("absent", "holds no sweep to report on"), ("sweep", "epochs")],
)
def test_a_report_is_of_this_sweep_or_none(tmp_path, monkeypatch, capsys, out, part):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    keep_configuration(checked({**GOOD, "epochs": 9}), Path("sweep"))
    Path("c.toml").write_text('data = "breast-cancer"\nprotections = ["no_noise"]\n')
    command = ["cutlayer", "tradeoff", "c.toml", "--report-only", "--out", out]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert part in said
    assert said.count("\n") == 1


def test_an_interrupt_while_the_first_steps_are_timed_is_told_as_any_other(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "c.toml").write_text('data = "breast-cancer"\nprotections = ["no_noise"]\n')

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("cutlayer.cli.tradeoff_command.projected", interrupted)
    command = ["cutlayer", "tradeoff", str(tmp_path / "c.toml"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "The same command goes on." in capsys.readouterr().out
