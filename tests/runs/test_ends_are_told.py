"""Whoever ends a run tells the peer at once: whatever the reason, the phase, and the transport."""

import os
import signal
import socket

import pytest

from tests.protocol.networks import make_identities
from tests.runs.test_two_commands import pair, wait_for_checkpoint, wait_until  # noqa: F401

TRANSPORTS = ["plain", "tls", "grpc"]
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
OTHER = {"label": "other", "other": "label"}
SLOW = """
import hashlib, pathlib, torch

class Slow(torch.nn.Linear):
    # One call of a library that takes minutes, in the middle of a training.
    calls = 0

    def forward(self, rows):
        Slow.calls += 1
        if Slow.calls > 3:
            pathlib.Path("busy").touch()
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
        return super().forward(rows)

def bottom(columns, cut_width):
    return Slow(columns, cut_width)
"""
BROKEN = SLOW.replace('hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)', "raise {}")


@pytest.fixture(params=TRANSPORTS)
def over(pair, request):  # noqa: F811
    """Two parties over each transport, where nobody who was told anything waits for long."""
    changes = {"wait": "300"}
    if request.param != "plain":
        make_identities(pair.folder / "identities")
        changes |= {"insecure_loopback": "false", "transport": f'"{request.param}"'}
        pair.own["label"] |= {"identity": '"../identities/label-party"'}
        pair.own["other"] |= {"identity": '"../identities/non-label-party"'}
    pair.write_configurations(**changes)
    return pair


def ends(process, status):
    """The command ends in time, with one line of error, and gives what it said."""
    out, err = process.communicate(timeout=100)
    assert process.returncode == status, (out, err)
    assert "Traceback" not in err
    return " ".join(out.split()), " ".join(err.split())


def was_told(process, status, words):
    """A peer that was told ends at once, by the word and not since nobody came."""
    out, err = ends(process, status)
    assert "ended the session" in err, (out, err)
    assert words in err
    assert "in vain" not in err
    assert "Nobody listens" not in err
    assert len(err.splitlines()) == 1
    return out, err


OPERATOR, OWN_ERROR = "it was stopped by its operator", "it met an error of its own"


def test_a_label_party_that_cannot_show_its_metrics_tells_a_peer_that_waits(over):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = over.start("other")
        wait_until((over.kept("other") / "run.key").exists)
        label = over.start("label", "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")
        _, err = ends(label, 2)
        assert "metrics: cannot listen" in err
        was_told(other, 1, OWN_ERROR)


@pytest.mark.parametrize("leaving", ["label", "other"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_training(over, leaving, number):
    processes = {party: over.start(party, "--epochs", "4000") for party in ("other", "label")}
    wait_for_checkpoint(over)
    os.kill(processes[leaving]._process.pid, number)
    _, err = ends(processes[leaving], STATUS[number])
    assert "goes on from the newest state" in err
    was_told(processes[OTHER[leaving]], 130, OPERATOR)


def test_a_signal_while_a_party_computes_for_minutes(over):
    (over.folder / "other" / "mine.py").write_text(SLOW)
    other = over.start("other", "--model", "mine:bottom")
    label = over.start("label")
    wait_until((over.folder / "other" / "busy").exists)
    other.terminate()
    was_told(label, 130, OPERATOR)
    _, err = ends(other, 143)
    assert "goes on from the newest state" in err


@pytest.mark.parametrize("error", ["ZeroDivisionError('ours')", "MemoryError()"])
def test_an_error_that_nobody_foresaw(over, error):
    (over.folder / "other" / "mine.py").write_text(BROKEN.format(error))
    other = over.start("other", "--model", "mine:bottom")
    label = over.start("label")
    was_told(label, 1, OWN_ERROR)
    _, err = other.communicate(timeout=60)
    assert other.returncode == 1
    assert "ours" in err if "ours" in error else "memory" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_before_the_peer_is_met(over, number):
    """As while a long file is read: here a module is imported, which takes for ever."""
    (over.folder / "label" / "mine.py").write_text(
        "import pathlib, time\npathlib.Path('busy').touch()\ntime.sleep(1000)\n"
    )
    other = over.start("other")
    wait_until((over.kept("other") / "run.key").exists)
    label = over.start("label", "--model", "mine:Top")
    wait_until((over.folder / "label" / "busy").exists)
    os.kill(label._process.pid, number)
    ends(label, STATUS[number])
    was_told(other, 130, OPERATOR)


def test_a_signal_while_the_peer_is_told_of_an_error_waits_for_that(over):
    (over.folder / "label" / "table.csv").write_text("id;y\n")
    other = over.start("other")
    wait_until((over.kept("other") / "run.key").exists)
    label = over.start("label")
    wait_until((over.kept("label") / "lock").exists)
    label.terminate()
    label.communicate(timeout=60)
    assert label.returncode in (2, 143)
    _, err = other.communicate(timeout=60)  # of the error or of the signal, whichever came first
    assert "label party ended the session" in err
    assert "in vain" not in err


def test_a_signal_while_nobody_is_there_ends_the_party_without_a_peer(over):
    label = over.start("label")
    label.wait_until_said("Listening")
    label.terminate()
    ends(label, 143)


def test_a_signal_while_an_alignment_waits(pair):  # noqa: F811
    pytest.importorskip("rbcl", reason="needs cutlayer[psi]")
    label = pair.start("label", "--alignment", "private", command="align")
    label.wait_until_said("Listening")
    label.terminate()
    _, err = ends(label, 143)
    assert "Nothing was written" in err


def test_a_party_whose_model_is_unknown_tells_a_peer_that_waits(over):
    other = over.start("other")
    wait_until((over.kept("other") / "run.key").exists)
    label = over.start("label", "--model", "mine:Missing")
    _, err = ends(label, 2)
    assert "mine" in err
    was_told(other, 1, OWN_ERROR)
