"""Full and broken disks: no reply leaves that is not on record, and the run goes on afterwards."""

import re
import subprocess
from dataclasses import replace

import pytest

from cutlayer.errors import StorageError
from tests.faults import sabotage
from tests.faults.parties import JOURNAL, PARTIES, Plan, start
from tests.faults.rounds import Round, prepared
from tests.faults.threads import play


@pytest.fixture
def quiet(plan) -> Plan:
    """Small, and without anything that two parties in one process would share."""
    return replace(plan, dropout=0.0, protection="max_norm")


@pytest.mark.parametrize("what", ["full", "broken"])
@pytest.mark.parametrize("calls", [0, 2, 9, 50])
def test_no_reply_leaves_when_the_disk_fails(quiet, folder, monkeypatch, what, calls):
    reference = play(quiet)
    failing = prepared(quiet, folder / "failing")
    with monkeypatch.context() as patched:
        for name in ("pwrite", "fsync"):  # restored at the end of the block
            patched.setattr(sabotage.os, name, getattr(sabotage.os, name))
        sabotage.fail_disk(what, str(calls))
        ended = play(failing)
    journal = failing.of("label") / JOURNAL
    written = journal.read_bytes().partition(b"\n")[2] if journal.exists() else b""
    assert len(ended.replies) <= len(written) // 80
    if ended.errors:
        assert any(isinstance(error, StorageError) for error in ended.errors.values())
    again = play(failing)
    assert not again.errors
    assert again.weights == reference.weights
    assert {**ended.replies, **again.replies} == reference.replies
    for step in ended.replies.keys() & again.replies.keys():
        assert ended.replies[step] == again.replies[step]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("party", PARTIES)
def test_a_run_goes_on_when_a_full_disk_has_room_again(plan, folder, small_disk, party, figure):
    expected = Round(plan).finish()
    full = prepared(plan, folder / "full")
    (full.of(party) / "checkpoints").symlink_to(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200 << 10))  # leaves room for one checkpoint or two
    processes = {name: start(full, name) for name in PARTIES}
    for process in processes.values():
        process.join(60)
    assert {name: process.exitcode for name, process in processes.items()} == {
        "label": 1,
        "other": 1,
    }
    error = full.of(party) / "error.txt"
    said = error.read_text()
    assert re.fullmatch(
        r"StorageError: Cannot write \S+: .*No space left on device.*\. Nothing that depends on it "
        r"has left this machine\. Give it room or access, then start the same command again\.\n",
        said,
    )
    (peer,) = set(PARTIES) - {party}
    assert "met an error of its own" in (full.of(peer) / "error.txt").read_text()
    ballast.unlink()
    for name in PARTIES:
        (full.of(name) / "error.txt").unlink()
    assert Round(full).finish() == expected
    assert (full.of("label") / JOURNAL).read_bytes() == (plan.of("label") / JOURNAL).read_bytes()
    figure(
        f"disk full at party {party!r}", "exit code 1, StorageError, then on to the same weights"
    )
