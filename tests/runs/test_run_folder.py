"""A run's folder is closed to others; a folder that holds other things is not closed for it."""

import os

import pytest

from tests.runs.test_two_commands import assert_ended_well, pair  # noqa: F401


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("party", ["label", "other"])
def test_the_working_folder_is_not_closed_to_others(pair, party):  # noqa: F811
    folder = pair.folder / party
    folder.chmod(0o755)
    process = pair.start(party, "--folder", ".", "--wait", "1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert mode(folder) == 0o755
    for word in ("folder: . is open to others", "'run.toml'", "chmod 700 ."):
        assert word in err
    doctor = pair.start(party, "--folder", ".", command="doctor")
    out, _ = doctor.communicate(timeout=60)
    assert doctor.returncode == 2
    assert "open to others" in " ".join(out.split())


def test_a_folder_that_its_owner_has_closed_may_hold_anything(pair):  # noqa: F811
    options = ("--folder", ".", "--epochs", "1")
    for party in ("label", "other"):
        (pair.folder / party).chmod(0o700)
    assert_ended_well(pair.run(label=options, other=options))
    (pair.folder / "label").chmod(0o755)  # and one that holds a run is closed again
    assert_ended_well(pair.run(label=options, other=options))
    assert mode(pair.folder / "label") == 0o700


def test_an_empty_folder_and_one_with_a_log_become_the_runs(pair):  # noqa: F811
    for party in ("label", "other"):
        (pair.folder / party / "kept").mkdir(mode=0o755)
    options = ("--folder", "kept", "--log", "kept/run.jsonl", "--epochs", "1")
    assert_ended_well(pair.run(label=options, other=options))
    for party in ("label", "other"):
        assert mode(pair.folder / party / "kept") == 0o700


def test_no_file_of_a_run_is_open_to_others_whatever_the_umask(pair):  # noqa: F811
    before = os.umask(0)
    try:
        options = ("--epochs", "1", "--log", "runs/pair/run.jsonl")
        assert_ended_well(pair.run(label=options, other=options))
    finally:
        os.umask(before)
    for party in ("label", "other"):
        kept = pair.kept(party)
        for path in (kept, *kept.rglob("*"), kept.parent / "run.jsonl"):
            if path.is_file() or path == kept:
                assert mode(path) & 0o077 == 0, path
