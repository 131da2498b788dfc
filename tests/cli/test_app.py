import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from cutlayer.cli import main
from cutlayer.cli.app import COMMANDS, _status_of
from cutlayer.durable import storage
from cutlayer.errors import StorageError


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def cutlayer(tmp_path, monkeypatch, capsys):
    """Run a command line in this process, inside an empty folder."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["cutlayer", *arguments])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return Done(stop.value.code or 0, said.out, said.err)

    return run


def test_simulate_audit_and_report(cutlayer, tmp_path):
    options = [
        "--data",
        "breast-cancer",
        "--protection",
        "no_noise",
        "--protection",
        "max_norm",
        "--splits",
        "1",
        "--epochs",
        "2",
        "--batch-size",
        "64",
        "--cut-width",
        "8",
        "--canaries",
        "0",
        "--out",
        "run",
    ]
    done = cutlayer("simulate", *options)
    assert done.returncode == 0, done.stderr
    assert "simulation: noise is reproducible" in done.stdout
    page, findings = tmp_path / "run" / "report.html", tmp_path / "run" / "findings.json"
    first = findings.read_text()
    page.unlink()
    assert cutlayer("report", "run").returncode == 0
    assert page.exists()
    assert findings.read_text() == first
    only = cutlayer("audit", "run", "--attacks", "norm")
    assert only.returncode == 0, only.stderr
    assert '"attack":"cosine"' not in findings.read_text().replace(" ", "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["demo", "--data", "titanic"], ["titanic", "Known", "caravan"]),
        (["demo", "--protection", "marvel:s=4"], ["marvel", "Known", "marvell"]),
        (["demo", "--protection", "marvell:s=0"], ["marvell:s=0", "above 0"]),
        (["demo", "--protection", "marvell"], ["exactly one of s"]),
        (["demo", "--epochs", "0"], ["--epochs", "greater than or equal to 1"]),
        (["demo", "--epochs", "many"], ["--epochs", "valid int"]),
        (
            ["demo", "--canaries", "9999", "--data", "breast-cancer", "--batch-size", "64"],
            ["--canaries", "9999"],
        ),
        (["demo", "--batch-size", "9999"], ["--batch-size", "9999"]),
        (["simulate", "--splits", "7"], ["--splits", "5"]),
        (["audit", "nowhere"], ["nowhere", "run folder or a transcript"]),
        (["report", "nowhere"], ["nowhere", "findings.json"]),
        (["audit", "nowhere", "--attacks", "magic"], ["magic", "Known", "tail_energy"]),
        (["audit", "nowhere", "--attacks", ","], ["--attacks"]),
        (["audit", "nowhere", "--hints", "few"], ["--hints", "0,1,5,20"]),
        (["audit", "nowhere", "--seeds", "0"], ["--seeds", "at least 1"]),
        (["audit", "nowhere", "--max-bytes", "much"], ["--max-bytes", "8GiB"]),
        (["audit", "nowhere", "--max-bytes", "0"], ["--max-bytes", "8GiB"]),
        (["audit", "a", "b"], ["one run or transcript"]),
        (["audit", "nowhere", "--canaries", "1"], ["--canaries", "at least 2"]),
        (["audit", "nowhere", "--canaries", "10"], ["configurations of both parties"]),
        (["demo", "--colour", "red"], ["--colour"]),
        (["demo", "--protection", "residual:sigma=abc"], ["sigma must be a number, got 'abc'"]),
        (["simulate", "--batch-size", str(2**70)], ["--batch-size", "2147483648"]),
        (["label-party", "c.toml", "--drop", "a", "--drop=b"], ["--drop is given twice", "a,b"]),
        (["label-party", "c.toml", "--batch_size", "5", "--batch-size", "6"], ["given twice"]),
        (["label-party", "c.toml", "--drop", "--epochs", "5"], ["--drop needs a value", "=VALUE"]),
        (["non-label-party", "c.toml", "--drop"], ["--drop needs a value"]),
        (["predict", "c.toml", "-epochs", "5"], ["'-epochs' is no option", "--key value"]),
        (["doctor", "--epochs", "5", "c.toml"], ["configuration first", "doctor CONFIG --epochs"]),
        (["train"], ["train"]),
        (["init", "label-party", "--days", "99999999"], ["--days", "36500"]),
        (["init", "label-party", "--identity", "/dev/null/x"], ["/dev/null", "Not a directory"]),
        (["demo", "--out", "/dev/null/x"], ["/dev/null", "Not a directory"]),
        (["report", "x" * 300], ["File name too long"]),
        (["audit", "x" * 300], ["File name too long"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_bad_arguments_give_one_message_exit_2_and_write_nothing(
    cutlayer, arguments, told, tmp_path
):
    done = cutlayer(*arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    for word in told:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.rglob("*")) == []


def test_help_names_every_command(cutlayer):
    shown = cutlayer("--help").stdout
    for command in ("demo", "simulate", "audit", "report"):
        assert command in shown


def test_the_installed_command_starts(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "cutlayer", "demo", "--epochs", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "--epochs" in done.stderr


def test_a_foreign_transcript_is_audited_by_one_command(cutlayer, tmp_path):
    from tests.audits.test_external_transcript import arrays, save

    save(tmp_path / "sent.npz", arrays())
    done = cutlayer("audit", "sent.npz", "--attacks", "norm,received_cosine", "--hints", "0,1")
    assert done.returncode == 0, done.stderr
    assert "norm" in done.stdout
    assert (tmp_path / "runs" / "sent-audit" / "report.html").exists()
    assert cutlayer("report", "runs/sent-audit").returncode == 0


@pytest.mark.parametrize("out", ["kept.txt", "kept.txt/within"])
def test_an_audit_into_a_file_is_refused_before_anything_is_attacked(cutlayer, tmp_path, out):
    from tests.audits.test_external_transcript import arrays, save

    save(tmp_path / "sent.npz", arrays())
    (tmp_path / "kept.txt").write_text("kept")
    done = cutlayer("audit", "sent.npz", "--attacks", "norm", "--hints", "0", "--out", out)
    assert (done.returncode, done.stdout) == (2, "")  # not even the bar of the attacks
    assert "--out: kept.txt is a file. Name a folder." in done.stderr


@pytest.mark.parametrize("command", ["audit", "report"])
def test_a_file_that_is_no_run_is_one_message(cutlayer, tmp_path, command):
    (tmp_path / "notes.txt").write_text("nothing")
    done = cutlayer(command, "notes.txt")
    assert done.returncode == 2
    assert "notes.txt" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_damaged_findings_are_one_message(cutlayer, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "findings.json").write_text('{"rows": [}')
    done = cutlayer("report", "run")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_version_is_that_of_the_package(cutlayer):
    done = cutlayer("--version")
    assert done.returncode == 0
    assert done.stdout.split() == ["cutlayer", version("cutlayer")]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_it_says_of_itself(name, cutlayer):
    """The list of commands is printed without loading any, so it has its own words for them."""
    about = COMMANDS[name].about
    own = " ".join((COMMANDS[name].load(name).help or "").split())
    assert own.startswith(about)
    listed = " ".join(cutlayer("--help").stdout.replace("│", " ").split())
    assert f"{name} {about}" in listed


@pytest.mark.parametrize("name", ["label-party", "non-label-party", "doctor", "align", "predict"])
def test_the_help_of_a_party_says_where_its_keys_are_explained(name, cutlayer):
    shown = " ".join(cutlayer(name, "--help").stdout.split())
    assert "docs/configuration.md" in shown
    for key in ("--file", "--epochs", "--protection"):
        assert key in shown


def test_the_help_of_a_sweep_says_where_its_keys_are_explained(cutlayer):
    assert "docs/tradeoff.md" in " ".join(cutlayer("tradeoff", "--help").stdout.split())


def test_a_mistyped_command_is_answered_with_the_near_ones(cutlayer):
    done = cutlayer("lable-party")
    assert done.returncode == 2
    assert "label-party" in done.stderr


@pytest.mark.parametrize(
    ("number", "status"), [(2, 2), (13, 2), (17, 2), (20, 2), (21, 2), (30, 2), (28, 1), (5, 1)]
)
def test_a_wrong_path_is_to_mend_and_a_full_disk_is_not(number, status):
    """ENOENT, EACCES, EEXIST, ENOTDIR, EISDIR, EROFS; ENOSPC, EIO: a service tries again then."""
    with pytest.raises(StorageError) as caught, storage(Path("somewhere")):
        raise OSError(number, "told by the system")
    assert _status_of(caught.value.__cause__) == status
