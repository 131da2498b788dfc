"""The commands `cutlayer prepare ...`, from their options to the folder they make."""

import io

import pytest
from PIL import Image
from typer.testing import CliRunner

from cutlayer.cli import main
from cutlayer.cli.prepare_commands import PreparationProgress, prepare_app
from cutlayer.data.prepared import PreparedData
from cutlayer.errors import ConfigurationError, DataError

LABEL, OTHER = "label party", "non-label party"
CRITEO = "".join(
    f"{row % 2}\t{row}" + "\t" * 12 + "\t68fd1e64" + "\t" * 25 + "\n" for row in range(99)
)


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """Run `cutlayer prepare ...` in an empty folder; its errors are raised."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        result = CliRunner().invoke(prepare_app, list(arguments), env={"COLUMNS": "120"})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_criteo(prepare, tmp_path):
    (tmp_path / "train.txt").write_text(CRITEO + "dirt\n")
    done = prepare("criteo", "train.txt", "--out", "made", "--max-rejects", "0.02", "--seed", "3")
    assert done.exit_code == 0, done.output
    assert "criteo, 99 records" in done.output
    assert "Left out: 1 dirty rows, listed in made/rejects.csv." in done.output
    data = PreparedData(tmp_path / "made")
    assert data.party_records(LABEL).features.shape == (99, 13)
    assert data.party_records(OTHER).features.shape == (99, 26)


def test_criteo_with_options(prepare, tmp_path):
    (tmp_path / "train.txt").write_text(CRITEO)
    options = ["--label-party", "C1", "--label-party", "I1?", "--vocabulary", "hashed"]
    options += ["--hash-bits", "5", "--numbers", "log", "--folds", "5", "--test-fold", "1"]
    assert prepare("criteo", "train.txt", *options).exit_code == 0
    data = PreparedData(tmp_path / "criteo")
    assert data.numbers[LABEL] == ("I10", "I11", "I12", "I13")
    assert data.categories[LABEL] == {"C1": 32}
    assert len(data.categories[OTHER]) == 25
    assert len(data.parts["validation"]) == 0


def test_nothing_for_the_label_party(prepare, tmp_path):
    (tmp_path / "train.txt").write_text(CRITEO)
    assert prepare("criteo", "train.txt", "--label-party", "").exit_code == 0
    records = PreparedData(tmp_path / "criteo").party_records(LABEL)
    assert records.features.shape == (99, 0)


def test_avazu(prepare, tmp_path):
    names = ["id", "click", "hour", "C1", "banner_pos"]
    names += ["site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category"]
    names += ["device_id", "device_ip", "device_model", "device_type", "device_conn_type"]
    names += [f"C{number}" for number in range(14, 22)]
    lines = [f"{10**19 + row},{row % 2},14102100" + ",v" * 21 for row in range(40)]
    (tmp_path / "train").write_text("\n".join([",".join(names), *lines]))
    assert prepare("avazu", "train", "--min-count", "1").exit_code == 0
    data = PreparedData(tmp_path / "avazu")
    assert data.party_records(OTHER).ids[0] == str(10**19)
    assert len(data.categories[LABEL]) + len(data.categories[OTHER]) == 23


def test_any_table(prepare, tmp_path):
    lines = [f"{row};{row % 7};w{row % 2};{'yes' if row % 3 else 'no'}" for row in range(60)]
    (tmp_path / "bank.csv").write_text("\n".join(["who;age;job;y", *lines]))
    options = ["--label", "y", "--id", "who", "--label-party", "age", "--out", "made"]
    assert prepare("table", "bank.csv", *options).exit_code == 0
    data = PreparedData(tmp_path / "made")
    assert data.numbers[LABEL] == ("age",)
    assert data.categories[OTHER] == {"job": 3}


def test_how_a_table_is_written_can_be_said_and_notices_are_shown(prepare, tmp_path):
    lines = [f"{row};{row % 3},5;?;{'1.0' if row % 2 else '0'}" for row in range(60)]
    text = "\n".join(["who;rate;näme;y", *lines])
    (tmp_path / "bank.csv").write_text(text, encoding="windows-1252")
    options = ["--label", "y", "--id", "who", "--encoding", "windows-1252"]
    done = prepare("table", "bank.csv", *options)
    assert done.exit_code == 0, done.output
    assert "'rate': read as categories, but its values look like numbers with a" in done.output
    assert "'näme': kept, though all of its cells hold '?'. List it under drop." in done.output
    assert "'1' is positive (30 rows), '0' is negative (30 rows)." in done.output
    options += ["--decimal", ",", "--missing", "?", "--quote", "'", "--out", "made"]
    assert prepare("table", "bank.csv", *options).exit_code == 0
    assert PreparedData(tmp_path / "made").numbers[OTHER] == ("rate",)


def test_isic(prepare, tmp_path):
    folder = tmp_path / "jpeg"
    folder.mkdir()
    lines = ["image_name,target"]
    for number in range(30):
        target = io.BytesIO()
        Image.new("RGB", (30, 20), (number, 0, 0)).save(target, "JPEG")
        (folder / f"ISIC_{number}.jpg").write_bytes(target.getvalue())
        lines.append(f"ISIC_{number},{int(number < 2)}")
    (tmp_path / "train.csv").write_text("\n".join(lines))
    options = ["--images", "jpeg", "--table", "train.csv"]
    assert prepare("isic", *options, "--size", "16").exit_code == 0
    assert len(PreparedData(tmp_path / "isic")) == 20  # 2 positives, 18 of 28 negatives
    assert prepare("isic", *options, "--all", "--out", "all").exit_code == 0
    data = PreparedData(tmp_path / "all")
    assert data.party_records(OTHER).features.shape == (30, 3, 84, 84)


def test_labels_of_other_values_are_answered_with_the_option_that_names_the_positive(
    prepare, tmp_path
):
    (tmp_path / "stays.csv").write_text("age,again\n1,<30\n2,NO\n3,>30\n4,<30\n")
    with pytest.raises(
        DataError, match=r"values are '<30' \(2\), '>30' \(1\), 'NO' \(1\)\. Set positive"
    ):
        prepare("table", "stays.csv", "--label", "again")
    again = ["--label", "again", "--positive", "<30", "--out", "stays"]
    assert prepare("table", "stays.csv", *again).exit_code == 0


def test_errors_reach_the_caller(prepare, tmp_path):
    with pytest.raises(DataError, match="there is none"):
        prepare("criteo", "absent.txt")
    (tmp_path / "train.txt").write_text(CRITEO)
    with pytest.raises(ConfigurationError, match="numbers must be one of"):
        prepare("criteo", "train.txt", "--numbers", "wrong")
    (tmp_path / "criteo").mkdir()
    with pytest.raises(ConfigurationError, match="criteo exists and was not made from this file"):
        prepare("criteo", "train.txt")


def test_an_interrupted_preparation_says_how_to_go_on(prepare, tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text(CRITEO)
    show = PreparationProgress.__call__

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(PreparationProgress, "__call__", interrupt)
    done = prepare("criteo", "train.txt")
    assert done.exit_code == 130
    assert "Interrupted. The same command goes on." in done.output
    monkeypatch.setattr(PreparationProgress, "__call__", show)
    assert prepare("criteo", "train.txt").exit_code == 0


def test_the_program_knows_the_commands(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["cutlayer", "prepare", "criteo", str(tmp_path / "absent.txt")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "there is none. Mend the path." in capsys.readouterr().err
