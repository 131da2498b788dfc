import json
from pathlib import Path

import pytest

from cutlayer.errors import StorageError
from cutlayer.operation.run_log import FIELDS, STEP, RunLog
from cutlayer.parties.events import EventKind


def opened(path, level="debug", **settings):
    return RunLog(path, party="label party", run="credit", level=level, **settings)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_object_a_line_with_time_party_and_run(tmp_path):
    log = opened(tmp_path / "logs" / "run.jsonl")
    log.write("checkpoint", step=4, seconds=0.5, error=None)
    log.close()
    (line,) = lines(tmp_path / "logs" / "run.jsonl")
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "party": "label party",
        "run": "credit",
        "event": "checkpoint",
        "step": 4,
        "seconds": 0.5,
    }


def test_no_field_but_the_listed_ones(tmp_path):
    log = opened(tmp_path / "run.jsonl")
    for name in ("label", "id", "path", "message", "key", "gradient"):
        assert name not in FIELDS
        with pytest.raises(ValueError, match="must be of FIELDS"):
            log.write("checkpoint", **{name: "secret"})
    log.close()
    assert (tmp_path / "run.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["start", "step", "connection_lost", "error"]),
        ("info", ["start", "connection_lost", "error"]),
        ("warning", ["connection_lost", "error"]),
    ],
)
def test_levels(tmp_path, level, events):
    log = opened(tmp_path / "run.jsonl", level)
    for event in (EventKind.START, STEP, EventKind.CONNECTION_LOST, EventKind.ERROR):
        log.write(event)
    log.close()
    assert [line["event"] for line in lines(tmp_path / "run.jsonl")] == events


def test_it_takes_up_a_file_and_stays_bounded_and_private(tmp_path):
    path = tmp_path / "run.jsonl"
    path.touch(mode=0o644)  # begun by somebody else, for everybody to read
    for _ in range(2):
        log = opened(path, file_bytes=2000)
        log.write(EventKind.START)
        log.close()
    assert len(lines(path)) == 2
    log = opened(path, file_bytes=2000)
    for step in range(500):
        log.write(STEP, step=step)
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["run.jsonl"] + [f"run.jsonl.{n}" for n in (1, 2, 3, 4)]
    assert all(file.stat().st_size <= 2000 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert lines(path)[-1]["step"] == 499


def test_a_log_that_cannot_be_opened_is_an_error_of_the_operator(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="log"):
        opened(tmp_path / "file" / "run.log")


def test_a_full_disk_ends_nothing():
    log = opened(Path("/dev/full"))
    for _ in range(3):
        log.write(EventKind.START)
    log.close()
