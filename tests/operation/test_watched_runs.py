"""Two commands with logs and metrics: stopped by a signal, gone on with, and nothing told."""

import json
import shutil
import time
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import torch
from safetensors.torch import load_file

from cutlayer.operation.run_log import FIELDS
from tests.conftest import free_port
from tests.runs.command import Command
from tests.runs.test_two_commands import Pair, assert_ended_well, rows, wait_for_checkpoint

CANARY = "CANARY"
TOP = """
import torch


class Top(torch.nn.Module):
    def __init__(self, cut_width, own_columns):
        super().__init__()
        self.layer = torch.nn.Linear(cut_width + own_columns, 1)
        torch.nn.init.constant_(self.layer.weight, 0.1)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, activation, own):
        return self.layer(torch.cat([activation, own], 1)).squeeze(1)


def bottom(columns, cut_width):
    layer = torch.nn.Linear(columns, cut_width)
    torch.nn.init.constant_(layer.weight, 0.1)
    torch.nn.init.zeros_(layer.bias)
    return layer
"""
EPOCHS = "12"


@pytest.fixture
def pair(tmp_path, unused_port):
    """Parties whose every id, label, column, category, file and folder has a canary in its name."""
    folder = tmp_path / f"{CANARY}_folder"
    folder.mkdir()
    made = Pair(folder, unused_port)
    made.rows = [
        {
            "id": f"{CANARY}_{row['id']}",
            f"{CANARY}_y": f"{CANARY}_{'yes' if row['y'] else 'no'}",
            f"{CANARY}_x0": row["x0"],
            f"{CANARY}_x2": row["x2"],
            f"{CANARY}_c": f"{CANARY}_{'high' if row['x3'] > 0 else 'low'}",
        }
        for row in rows()
    ]
    made.write_table("label", ["id", f"{CANARY}_y", f"{CANARY}_x0"], name=f"{CANARY}.csv")
    made.write_table("other", ["id", f"{CANARY}_x2", f"{CANARY}_c"], name=f"{CANARY}.csv")
    made.own = {
        # Without the audit of each message, which takes most of the time of so small a run.
        "label": {
            "audit_every": "0",
            "label": f'"{CANARY}_y"',
            "positive": f'"{CANARY}_yes"',
            "model": '"mine:Top"',
        },
        "other": {"model": '"mine:bottom"'},
    }
    made.metrics = {"label": free_port(), "other": free_port()}
    for party in made.own:
        (folder / party / "mine.py").write_text(TOP)
        made.own[party]["metrics"] = f'"127.0.0.1:{made.metrics[party]}"'
    made.write_configurations(
        file=f'"{CANARY}.csv"',
        protection='"residual:sigma=1"',
        epochs=EPOCHS,
        log='"run.jsonl"',
        log_level='"debug"',
    )
    return made


def scraped(port):
    deadline = time.monotonic() + 30
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except (URLError, OSError):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def logged(pair, party):
    text = (pair.folder / party / "run.jsonl").read_text()
    return text, [json.loads(line) for line in text.splitlines()]


def weights(folder):
    return {
        (path.name, name): value
        for path in sorted(folder.glob("*.safetensors"))
        for name, value in load_file(path).items()
    }


def doctor(pair, party):
    command = Command(["doctor", "run.toml"], pair.folder / party)
    out, err = command.communicate(timeout=60)
    return command.returncode, out, err


@pytest.mark.parametrize("stopped", ["label", pytest.param("other", marks=pytest.mark.slow)])
def test_sigterm_keeps_a_sound_run_that_ends_as_if_never_stopped(pair, stopped):
    processes = {party: pair.start(party) for party in ("label", "other")}
    wait_for_checkpoint(pair, "step-00000000[2-9]*")
    metrics = {party: scraped(port) for party, port in pair.metrics.items()}
    processes[stopped].terminate()
    for party, process in processes.items():
        out, err = process.communicate(timeout=60)
        assert process.returncode == (143 if party == stopped else 130), (party, out, err)
        assert ("goes on from the newest" if party == stopped else "stopped by") in err
    for party in processes:
        status, out, _ = doctor(pair, party)
        assert status == 0, out
        assert "sound after steps" in out
    assert_ended_well(pair.run())

    names = {"label": "label-party", "other": "non-label-party"}
    for party in processes:  # the same secrets, and never stopped
        reference = pair.folder / party / "reference"
        reference.mkdir()
        shutil.copy(pair.kept(party) / "run.key", reference)
    quiet = ("--folder", "reference", "--log", "reference.jsonl")
    assert_ended_well(pair.run(label=quiet, other=quiet))
    for party in names:
        reached, expected = (
            weights(folder) for folder in (pair.kept(party), pair.folder / party / "reference")
        )
        assert reached
        assert set(reached) == set(expected)
        assert all(torch.equal(reached[name], expected[name]) for name in expected)
    journal = pair.kept("label") / "journal"
    assert journal.read_bytes() == (pair.folder / "label" / "reference" / "journal").read_bytes()

    for party in names:
        text, lines = logged(pair, party)
        told = [line["event"] for line in lines if line["event"] != "step"]
        first = told[: told.index("stop") + 1]
        assert first[:3] == ["start", "met_peer", "handshake"]
        assert "checkpoint" in first
        second = told[told.index("stop") + 1 :]
        assert second[:3] == ["start", "met_peer", "resume"]
        assert second[-1] == "end"
        assert all(set(line) <= FIELDS for line in lines)
        for line in lines:
            if line["event"] == "met_peer":
                assert line["channel"].startswith("plain text with 127.0.0.1")
            if line["event"] == "step":
                assert line["seconds"] > 0
                assert line["bytes_sent"] > 48
                assert line["bytes_received"] > 48
        end = lines[-1]
        assert (end["step"], end["epoch"], end["reconnects"]) == (end["steps"], int(EPOCHS), 0)
        for shown in (text, metrics[party]):
            assert CANARY not in shown
            assert str(pair.folder) not in shown
        key = (pair.kept(party) / "run.key").read_bytes()
        assert key not in text.encode()
        assert key.hex() not in text
    assert "cutlayer_used_releases" in metrics["label"]
    assert "cutlayer_steps_total" in metrics["other"]
    assert "cutlayer_leak_auc" not in metrics["other"]


def test_errors_are_logged_by_their_kind_alone(pair):
    table = [*pair.rows, pair.rows[7]]
    columns = ["id", f"{CANARY}_y", f"{CANARY}_x0"]
    pair.write_table("label", columns, table=table, name=f"{CANARY}.csv")
    done = pair.run()
    assert done["label"][0] == 2
    assert f"{CANARY}_00007" in done["label"][2]  # the operator's eyes only
    text, lines = logged(pair, "label")
    assert [(line["event"], line.get("error")) for line in lines] == [
        ("start", None),
        ("error", "DataError"),
    ]
    assert CANARY not in text
    assert [line["event"] for line in logged(pair, "other")[1]][-1] == "error"


@pytest.mark.slow
def test_a_lost_peer_is_logged_and_counted(pair):
    processes = {party: pair.start(party) for party in ("label", "other")}
    wait_for_checkpoint(pair, "step-00000000[2-9]*")
    processes["other"].kill()
    processes["other"].communicate()
    processes["other"] = pair.start("other")
    done = {}
    for party, process in processes.items():
        out, err = process.communicate(timeout=120)
        done[party] = (process.returncode, out, err)
    assert_ended_well(done)
    _, lines = logged(pair, "label")
    told = [line["event"] for line in lines if line["event"] in ("connection_lost", "met_peer")]
    assert told == ["met_peer", "connection_lost", "met_peer"]
    (lost,) = (line for line in lines if line["event"] == "connection_lost")
    assert (lost["level"], lost["error"]) == ("warning", "ConnectionLostError")
    assert lines[-1]["reconnects"] == 1
