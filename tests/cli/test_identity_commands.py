import re
import stat
import sys

import pytest

from cutlayer.cli import main


@pytest.fixture
def cutlayer(tmp_path, monkeypatch, capsys):
    """Run a command line in this process, inside a folder of the test's own."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["cutlayer", *arguments])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out, said.err

    return run


def test_two_parties_get_the_same_fingerprints_to_compare(cutlayer, tmp_path):
    for party in ("label-party", "non-label-party"):
        status, out, _ = cutlayer("init", party, "--identity", party, "--file", "x.csv")
        assert status == 0
        assert f"cutlayer pair {'non-' if party == 'label-party' else ''}label-party.crt" in out
        assert stat.S_IMODE((tmp_path / party / f"{party}.key").stat().st_mode) == 0o600
        assert f'identity = "{party}"' in (tmp_path / f"{party}.toml").read_text()
    told = []
    for party, peer in (("label-party", "non-label-party"), ("non-label-party", "label-party")):
        status, out, _ = cutlayer("pair", f"{peer}/{peer}.crt", "--identity", party)
        assert status == 0
        told.append(set(re.findall(r"(?:[0-9a-f]{4} ){15}[0-9a-f]{4}", out)))
        assert "telephone" in out
    assert told[0] == told[1]
    assert len(told[0]) == 2


def test_init_overwrites_nothing(cutlayer, tmp_path):
    (tmp_path / "label-party.toml").write_text("mine")
    assert cutlayer("init", "label-party")[0] == 0
    key = (tmp_path / "identity" / "label-party.key").read_bytes()
    status, _, complaint = cutlayer("init", "label-party")
    assert status == 2
    assert "not overwritten" in complaint
    assert (tmp_path / "identity" / "label-party.key").read_bytes() == key
    assert (tmp_path / "label-party.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["init", "third-party"], "Known: label-party, non-label-party"),
        (["init", "label-party", "--days", "0"], "--days"),
        (["pair", "absent.crt"], "cutlayer init label-party"),
    ],
)
def test_wrong_arguments_end_with_2_and_write_nothing(cutlayer, tmp_path, arguments, told):
    status, _, complaint = cutlayer(*arguments)
    assert status == 2
    assert told in complaint
    assert list(tmp_path.iterdir()) == []


def test_init_lists_the_columns_that_can_be_named(cutlayer, tmp_path):
    (tmp_path / "guest.csv").write_text("id;y;age [years]\n1;0;31\n2;1;45\n")
    status, out, _ = cutlayer("init", "label-party", "--file", "guest.csv")
    assert status == 0
    assert "Columns of guest.csv: 'id', 'y', 'age [years]'." in out


def test_init_without_a_readable_file_makes_the_identity_all_the_same(cutlayer, tmp_path):
    (tmp_path / "guest.csv").write_text("")
    status, out, _ = cutlayer("init", "label-party", "--file", "guest.csv")
    assert status == 0
    assert "Its columns cannot be told yet. label party, file guest.csv: must hold a table" in out
    assert (tmp_path / "identity" / "label-party.key").exists()


@pytest.mark.parametrize("name", ["[run] a.toml", "[bold]b.toml", "c [red.toml", ":key:.toml"])
def test_paths_are_printed_letter_for_letter(cutlayer, tmp_path, name):
    status, out, _ = cutlayer("init", "label-party", "--out", name)
    assert status == 0
    assert f"Wrote {name}. Name your columns in it." in out
    assert (tmp_path / name).exists()
