import os
import random
import resource
import shutil

import pytest

from cutlayer.errors import ConfigurationError, DataError, ProtocolError, StorageError
from cutlayer.parties import ReleaseJournal

BINDING = {"terms": "t", "records": "r", "order": "o", "steps_per_epoch": "4"}
ENTRY = 80


OPEN = []


@pytest.fixture(autouse=True)
def closed_at_the_end():
    yield
    while OPEN:
        OPEN.pop().close()


def opened(path, protection="marvell"):
    while OPEN:
        OPEN.pop().close()
    OPEN.append(ReleaseJournal(path, protection))
    OPEN[-1].bind(BINDING)
    return OPEN[-1]


def digests(step):
    return bytes([step]) * 32, bytes([step + 100]) * 32


def filled(path, steps=10):
    journal = opened(path)
    for step in range(steps):
        assert journal.settle(step, *digests(step))
    journal.close()
    return path


def test_a_step_is_on_record_once_and_only_with_its_own_bytes(tmp_path):
    path = filled(tmp_path / "journal")
    journal = opened(path)
    assert (journal.released, journal.releases_per_record) == (10, 3)  # 10 steps of 4 an epoch
    assert not journal.settle(3, *digests(3))  # the same again: allowed, and nothing new
    assert path.stat().st_size == len(path.read_bytes().splitlines(keepends=True)[0]) + 10 * ENTRY
    with pytest.raises(ProtocolError, match="step 3 was answered before"):
        journal.require_known_request(3, digests(4)[0])
    with pytest.raises(ProtocolError, match="step 3 was answered before"):
        journal.settle(3, digests(4)[0], digests(3)[1])
    with pytest.raises(ConfigurationError, match="gives another answer"):
        journal.settle(3, digests(3)[0], digests(4)[1])
    with pytest.raises(DataError, match="entries are missing"):
        journal.settle(12, *digests(12))
    assert journal.released == 10
    assert journal.settle(10, *digests(10))


def test_nothing_is_written_before_the_first_reply(tmp_path):
    journal = opened(tmp_path / "journal")
    assert journal.releases_per_record == 0
    assert not (tmp_path / "journal").exists()
    with pytest.raises(ValueError, match="bind"):
        ReleaseJournal(tmp_path / "journal", "x").settle(0, *digests(0))


def test_header_folder_and_entries_are_on_the_disk_before_a_reply_may_leave(tmp_path, monkeypatch):
    """After a power cut: no entry without its header, and no header without its name."""
    folder = tmp_path / "run"
    folder.mkdir()
    path, synced, fsync = folder / "journal", [], os.fsync

    def noted(number):
        file = os.fstat(number)
        known = {folder.stat().st_ino: "folder", path.stat().st_ino: f"{file.st_size} bytes"}
        synced.append(known[file.st_ino])
        fsync(number)

    monkeypatch.setattr(os, "fsync", noted)
    journal = opened(path)
    assert journal.settle(0, *digests(0))
    header = path.stat().st_size - ENTRY
    assert synced == [f"{header} bytes", "folder", f"{header + ENTRY} bytes"]
    assert journal.settle(1, *digests(1))
    assert synced[3:] == [f"{header + 2 * ENTRY} bytes"]


@pytest.mark.parametrize("name", ["terms", "records", "order", "steps_per_epoch"])
def test_steps_cannot_come_to_mean_something_else(tmp_path, name):
    path = filled(tmp_path / "journal")
    journal = opened(path)
    with pytest.raises(ConfigurationError, match=f"10 messages with {name} = {BINDING[name]}"):
        journal.bind({**BINDING, name: "9"})


def test_another_protection_is_refused(tmp_path):
    path = filled(tmp_path / "journal")
    with pytest.raises(ConfigurationError, match="10 messages under marvell"):
        ReleaseJournal(path, "residual")


def test_one_process_at_a_time(tmp_path):
    path = filled(tmp_path / "journal")
    holder = opened(path)
    with pytest.raises(ConfigurationError, match="another process is using"):
        ReleaseJournal(path, "marvell")
    holder.close()
    opened(path)


def test_two_processes_that_begin_at_once_keep_the_journal_of_the_first(tmp_path):
    path = tmp_path / "journal"
    late = ReleaseJournal(path, "marvell")  # neither finds a journal when it starts
    late.bind(BINDING)
    first = opened(path)
    assert first.settle(0, *digests(0))
    with pytest.raises(ConfigurationError, match="another process is using"):
        late.settle(0, *digests(0))
    assert first.settle(1, *digests(1))
    first.close()
    with pytest.raises(ConfigurationError, match="another process is using"):
        late.settle(0, *digests(5))  # ended meanwhile, and it has sent something
    assert opened(path).released == 2


def test_half_an_entry_of_a_crash_is_dropped_and_can_be_written_again(tmp_path):
    path = filled(tmp_path / "journal")
    whole = path.read_bytes()
    for kept in (1, 40, 79):
        path.write_bytes(whole[: len(whole) - ENTRY + kept])
        journal = opened(path)
        assert journal.released == 9
        assert journal.settle(9, *digests(9))
        journal.close()
        assert path.read_bytes() == whole
    path.write_bytes(whole + bytes(ENTRY))  # the file had grown, the entry was not written
    assert opened(path).released == 10


def test_half_a_header_of_a_crash_is_dropped_and_written_again(tmp_path):
    """Before the header is whole no reply has left, so the run begins as if there were no file."""
    whole = filled(tmp_path / "whole", steps=1).read_bytes()
    header = whole.index(b"\n")
    for length in (0, 1, 2, 7, header - 1, header):
        path = tmp_path / f"journal-{length}"
        path.write_bytes(whole[:length])
        assert filled(path, steps=1).read_bytes() == whole


@pytest.mark.parametrize("steps", [1, 10])
def test_entries_behind_a_first_line_without_an_end_are_kept(tmp_path, steps):
    """No byte of these entries but the check can be the end of a line."""
    path = tmp_path / "journal"
    journal = opened(path)
    for step in range(steps):
        assert journal.settle(step, b"\xa0" * 32, b"\xb0" * 32)
    journal.close()
    whole = path.read_bytes()
    for end in (b" ", b"\0", b"\x0b", b"\x1a"):
        spoilt = whole.replace(b"\n", end)
        path.write_bytes(spoilt)
        for look_only in (False, True):
            with pytest.raises(DataError, match="its first line is broken"):
                ReleaseJournal(path, "marvell", look_only=look_only)
        assert path.read_bytes() == spoilt


@pytest.mark.parametrize("tail", [b" ", b"\0", b"a", b"\xff"])
def test_a_long_file_without_a_line_is_damaged_and_kept(tmp_path, tail):
    path = tmp_path / "journal"
    content = b'{"format": "' + tail * (1 << 17)
    path.write_bytes(content)
    with pytest.raises(DataError, match="its first line is broken"):
        opened(path)
    assert path.read_bytes() == content


def test_zeros_behind_half_a_header_are_no_entry(tmp_path):
    """A file that had grown when the power was cut, before all of it was written."""
    whole = filled(tmp_path / "whole", steps=1).read_bytes()
    path = tmp_path / "journal"
    path.write_bytes(whole[:20] + bytes(50))
    assert filled(path, steps=1).read_bytes() == whole


def test_a_header_that_could_not_be_read_again_is_not_written(tmp_path):
    """The line is 65,536 bytes at most, its end included."""
    path = tmp_path / "journal"
    opened(path).settle(0, *digests(0))
    spare = (1 << 16) - (path.stat().st_size - ENTRY)
    for more, fits in ((spare, True), (spare + 1, False)):
        path = tmp_path / f"journal-{more}"
        binding = {**BINDING, "terms": "t" * (1 + more)}
        OPEN.append(ReleaseJournal(path, "marvell"))
        OPEN[-1].bind(binding)
        if fits:
            assert OPEN[-1].settle(0, *digests(0))
            OPEN.pop().close()
            OPEN.append(ReleaseJournal(path, "marvell"))
            OPEN[-1].bind(binding)
            assert OPEN[-1].released == 1
        else:
            with pytest.raises(ConfigurationError, match=r"65,537 bytes.*Shorten.*terms"):
                OPEN[-1].settle(0, *digests(0))
            assert not path.exists()


def test_a_flipped_bit_anywhere_is_found(tmp_path):
    path = filled(tmp_path / "journal")
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    chance = random.Random(1)  # noqa: S311
    for _ in range(300):
        spoilt = bytearray(whole)
        place = chance.randrange(len(whole) * 8)
        spoilt[place // 8] ^= 1 << place % 8
        path.write_bytes(spoilt)
        if place // 8 < header:
            with pytest.raises((DataError, ConfigurationError)):
                opened(path)
        else:
            with pytest.raises(DataError, match="damaged"):
                opened(path)


def test_truncation_never_turns_into_another_history(tmp_path):
    path = filled(tmp_path / "journal")
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        journal = opened(path)
        assert journal.released == max(0, length - header) // ENTRY
        for step in range(journal.released):
            assert not journal.settle(step, *digests(step))
        journal.close()


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    path = filled(tmp_path / "journal")
    before = path.read_bytes()
    journal = opened(path)
    fsync = os.fsync

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        journal.settle(10, *digests(10))
    assert path.read_bytes() == before
    assert journal.released == 10
    monkeypatch.setattr(os, "fsync", fsync)
    assert journal.settle(10, *digests(10))
    journal.close()
    assert opened(path).released == 11


@pytest.mark.parametrize("failing", [1, 2])
def test_a_disk_that_fails_at_the_header_leaves_nothing_and_can_be_tried_again(
    tmp_path, monkeypatch, failing
):
    """At the header's own fsync, or at that of the folder that names it."""
    fsync, calls = os.fsync, []

    def broken(number):
        calls.append(number)
        if len(calls) == failing:
            raise OSError(5, "Input/output error")
        fsync(number)

    journal = opened(tmp_path / "journal")
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageError, match="Input/output error"):
        journal.settle(0, *digests(0))
    assert journal.released == 0
    assert (tmp_path / "journal").read_bytes() == b""
    assert journal.settle(0, *digests(0))
    journal.close()
    assert opened(tmp_path / "journal").released == 1


def test_who_only_looks_writes_nothing(tmp_path):
    path = filled(tmp_path / "journal")
    before = path.read_bytes()
    looking = ReleaseJournal(path, None, look_only=True)
    assert not looking.settle(3, *digests(3))
    with pytest.raises(ConfigurationError, match="may only be looked at"):
        looking.settle(10, *digests(10))
    looking.close()
    assert path.read_bytes() == before


def test_a_disk_that_takes_only_half_an_entry_counts_as_full(tmp_path):
    path = filled(tmp_path / "journal")
    before = path.read_bytes()
    journal = opened(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Up to the limit the system writes without complaint, and tells how much.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + ENTRY // 2, limits[1]))
    try:
        with pytest.raises(StorageError, match="File too large"):
            journal.settle(10, *digests(10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert journal.settle(10, *digests(10))


def test_a_moved_entry_is_found(tmp_path):
    path = filled(tmp_path / "journal")
    other = tmp_path / "other"
    shutil.copy(path, other)
    whole = bytearray(path.read_bytes())
    start = whole.index(b"\n") + 1
    whole[start : start + ENTRY], whole[start + ENTRY : start + 2 * ENTRY] = (
        whole[start + ENTRY : start + 2 * ENTRY],
        whole[start : start + ENTRY],
    )
    path.write_bytes(whole)
    with pytest.raises(DataError, match="entry 0 of 10"):
        opened(path)


@pytest.mark.parametrize("line", [b"garbage\n", b"{}\n", b"[1]\n", b'{"format": "other/1"}\n'])
def test_a_file_that_is_no_journal_is_named(tmp_path, line):
    (tmp_path / "journal").write_bytes(line)
    with pytest.raises(DataError, match="damaged"):
        opened(tmp_path / "journal")
