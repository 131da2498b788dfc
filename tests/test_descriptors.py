"""Descriptors run out when strangers take them; what must be written is written all the same."""

import json
import os
import resource
import subprocess
import sys
import time

import pytest

from cutlayer import descriptors

PROGRAM = """
import json, os, resource, sys, threading, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
from cutlayer import descriptors
from cutlayer.durable import create_private, whole_file
if sys.argv[2] == "set aside":
    descriptors.set_aside()
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
if sys.argv[2] == "come back":
    def leave():
        time.sleep(0.5)
        for number in taken[:10]:
            os.close(number)
    threading.Thread(target=leave).start()
if sys.argv[2] == "gone":
    descriptors._WAIT_SECONDS = 0.3
folder = Path(sys.argv[1])
said = []
for name, write in (
    ("whole", lambda path: whole_file(path).__enter__),
    ("secret", None),
):
    try:
        if name == "whole":
            with whole_file(folder / name) as partial:
                partial.write_text("content")
        else:
            create_private(folder / name, b"content")
        said.append("written")
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
if taken and sys.argv[2] == "set aside":  # the reserve is there again, for the next time
    try:
        os.open(os.devnull, os.O_RDONLY)
        said.append("one more")
    except OSError:
        said.append("none left")
for number in taken[20:40]:
    os.close(number)
print(json.dumps(said))
"""


def played(tmp_path, how):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), how], capture_output=True, check=True
    )
    return json.loads(done.stdout), tmp_path


def test_a_reserve_is_used_for_a_file_and_held_again(tmp_path):
    said, folder = played(tmp_path, "set aside")
    assert said == ["written", "written", "none left"]
    assert (folder / "whole").read_text() == (folder / "secret").read_text() == "content"


def test_without_a_reserve_a_file_waits_for_connections_that_end(tmp_path):
    said, _ = played(tmp_path, "come back")
    assert said == ["written", "written"]


def test_what_cannot_be_opened_in_the_end_is_an_error_with_the_reason(tmp_path):
    said, _ = played(tmp_path, "gone")
    assert len(said) == 2
    for text in said:
        assert text.startswith("StorageError: Cannot write ")
        assert "Too many open files" in text


def test_a_block_inside_another_does_not_wait_again(monkeypatch):
    """On a clock that only sleep moves: 30 s, in pauses of 0.1 s."""
    now = [0.0]
    monkeypatch.setattr(descriptors, "_RESERVE", descriptors._Reserve())  # not of other tests
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    waited = []
    try:
        for _ in range(2):
            began = now[0]
            with descriptors.descriptors_for_a_file(), descriptors.descriptors_for_a_file():
                waited.append(now[0] - began)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert waited == pytest.approx([30, 30], abs=0.11)


@pytest.mark.parametrize(
    ("limit", "strangers"), [(64, 8), (100, 26), (1024, 488), (65_536, 4096), (10**9, 4096)]
)
def test_strangers_get_half_of_what_a_party_does_not_need(monkeypatch, limit, strangers):
    """(100 - 48) / 2 = 26 and (1024 - 48) / 2 = 488, between 8 and 4,096."""
    monkeypatch.setattr(descriptors, "limit", lambda: limit)
    assert descriptors.room_for_strangers() == strangers


def test_the_limit_is_raised_as_far_as_the_system_allows():
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300));"
        "from cutlayer import descriptors; descriptors.raise_limit(); print(descriptors.limit())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"300\n"
